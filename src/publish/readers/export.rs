//! Indexes made from the records of a published dataset.

use std::collections::{BTreeSet, HashSet};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Result};
use crate::model::manifest::{IndexFile, Manifest, ShardEntry};
use crate::publish::readers::exporter::{Exporter, NamedFile};
use crate::publish::readers::facts::Facts;
use crate::publish::readers::{check_reader, exporter_of};
use crate::state::published::require_record;
use crate::store::{Sink, at_once};

/// Shards whose records are held at once at most.
const SHARDS: usize = 4;

/// Reader indexes of a manifest.
#[derive(Debug, Default)]
pub(crate) struct ExportedFiles {
    /// What the manifest is to say of them, sorted.
    pub entries: Vec<IndexFile>,
    /// Those that describe the whole dataset, which are not written yet: every snapshot has its own under the same names.
    pub of_dataset: Vec<NamedFile>,
}

/// Makes the indexes of these names for the shards of a manifest, and writes those that describe one shard: what lies under such a
/// name is always the same.
///
/// An index that holds every row in memory is refused when that is more than `memory`.
pub(crate) fn export_readers(
    sink: &dyn Sink,
    manifest: &Manifest,
    names: &[String],
    memory: u64,
) -> Result<ExportedFiles> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let exporters = exporters(manifest, &names, memory)?;
    let (entries, facts) = of_records(sink, manifest, &exporters, |reader, file| {
        sink.put(&file.0, &file.1)?;
        Ok(entry(reader, &file))
    })?;
    let mut exported = ExportedFiles {
        entries,
        of_dataset: Vec::new(),
    };
    for (reader, exporter) in &exporters {
        if let Some(warning) = exporter.warning(&facts) {
            tracing::warn!("--index {reader}: {warning}");
        }
        for file in whole(sink, manifest, *exporter, &facts)? {
            exported.entries.push(entry(reader, &file));
            exported.of_dataset.push(file);
        }
    }
    exported.entries.sort();
    Ok(exported)
}

/// Makes these files of a manifest's indexes again, and writes none. What cannot be made is not among them.
///
/// An index that holds every row in memory is refused when that is more than `memory`.
pub(crate) fn export_files_again(
    sink: &dyn Sink,
    manifest: &Manifest,
    files: &[&IndexFile],
    memory: u64,
) -> Result<Vec<NamedFile>> {
    let wanted: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let readers: BTreeSet<&str> = files.iter().map(|file| file.reader.as_str()).collect();
    let readers: Vec<&str> = readers.into_iter().collect();
    let exporters = exporters(manifest, &readers, memory)?;
    let (of_shards, facts) = of_records(sink, manifest, &exporters, |_, file| {
        Ok(wanted.contains(file.0.as_str()).then_some(file))
    })?;
    let mut made: Vec<NamedFile> = of_shards.into_iter().flatten().collect();
    for (_, exporter) in &exporters {
        made.extend(whole(sink, manifest, *exporter, &facts)?);
    }
    made.retain(|(name, _)| wanted.contains(name.as_str()));
    Ok(made)
}

type Named<'n> = (&'n str, &'static dyn Exporter);

/// The exporters of these names, if they can describe this and have the memory for it.
fn exporters<'n>(manifest: &Manifest, names: &[&'n str], memory: u64) -> Result<Vec<Named<'n>>> {
    let named = |name: &&'n str| {
        check_reader(name, &manifest.recipe)?;
        let exporter = exporter_of(name)?;
        let needed = exporter.rows_bytes(manifest);
        if needed > memory {
            return Err(Error::usage(format!(
                "--index {name} takes {} MiB for {} samples: raise `--memory` to that, or drop it",
                needed.div_ceil(1 << 20),
                manifest.samples
            )));
        }
        Ok((*name, exporter))
    };
    names.iter().map(named).collect()
}

fn entry(reader: &str, (name, content): &NamedFile) -> IndexFile {
    IndexFile {
        reader: reader.to_owned(),
        name: name.clone(),
        bytes: content.len() as u64,
        crc32: crc_text(crc32fast::hash(content)),
    }
}

/// What `take` makes of the files that describe one shard each, and what all records have in common.
fn of_records<T: Send>(
    sink: &dyn Sink,
    manifest: &Manifest,
    exporters: &[Named<'_>],
    take: impl Fn(&str, NamedFile) -> Result<T> + Sync,
) -> Result<(Vec<T>, Facts)> {
    let mut facts = Facts::default();
    if exporters.is_empty() {
        return Ok((Vec::new(), facts));
    }
    let shards: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
    let described = at_once(SHARDS, &shards, |shard| {
        let record = require_record(shard, sink)?;
        let mut taken = Vec::new();
        for (reader, exporter) in exporters {
            if let Some(name) = exporter.shard_file(&shard.name) {
                taken.push(take(reader, (name, exporter.shard(&record)))?);
            }
        }
        Ok((taken, Facts::of(&record)))
    })?;
    let mut all = Vec::new();
    for (taken, seen) in described {
        all.extend(taken);
        facts.join(seen);
    }
    Ok((all, facts))
}

/// The files of an index that describe the whole dataset.
fn whole(
    sink: &dyn Sink,
    manifest: &Manifest,
    exporter: &dyn Exporter,
    facts: &Facts,
) -> Result<Vec<NamedFile>> {
    let mut records = manifest
        .shards()
        .map(|(_, shard)| require_record(shard, sink));
    let rows = exporter.rows(manifest, &mut records).transpose()?;
    let mut files = rows.unwrap_or_default();
    files.extend(exporter.dataset(manifest, facts)?);
    Ok(files)
}
