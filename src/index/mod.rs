//! Reader indexes: finished shards described to one reader each, from their records alone.
//!
//! A new index is one new file and one line in [`EXPORTERS`]. Nothing here reads a shard.

mod dali;
mod energon;
mod openclip;
mod tfds;
mod tfrecord;
mod timm;
mod wids;

use std::collections::BTreeSet;

use crate::checksum::crc_text;
use crate::error::{Error, Kind, Result};
use crate::manifest::{IndexFile, Manifest, ShardEntry};
use crate::probe::{ImageFormat, image_field};
use crate::recipe::{Compression, Format, Recipe};
use crate::record::ShardRecord;
use crate::store::{Sink, at_once};

/// The indexes there are, under the names of `--index`.
const EXPORTERS: [(&str, &dyn Exporter); 8] = [
    ("dali", &dali::Dali),
    ("energon", &energon::Energon),
    ("energon-sqlite", &energon::Sqlite),
    ("openclip", &openclip::OpenClip),
    ("tfds", &tfds::Tfds),
    ("tfrecord", &tfrecord::TfIndex),
    ("timm", &timm::Timm),
    ("wids", &wids::Wids),
];

/// Shards whose records are held at once at most.
const SHARDS: usize = 4;

/// A file to be written: its name below the destination, and its content.
pub type File = (String, Vec<u8>);

/// What the records of all shards have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Names of the fields that hold images.
    pub image_fields: BTreeSet<String>,
    /// Formats of the images, where they were looked at.
    pub image_formats: BTreeSet<&'static str>,
}

impl Facts {
    fn of(record: &ShardRecord) -> Self {
        let mut facts = Facts::default();
        for row in &record.samples {
            facts
                .image_formats
                .extend(row.image.map(|image| ImageFormat::name(image.format)));
            let image = row
                .fields
                .iter()
                .find(|field| image_field(field.name.as_bytes()).is_some());
            if let Some(field) = image
                && !facts.image_fields.contains(&field.name)
            {
                facts.image_fields.insert(field.name.clone());
            }
        }
        facts
    }
}

/// Describes finished shards to one reader.
pub trait Exporter: Send + Sync {
    /// Says why shards of this recipe cannot be described so, and what to do about it.
    fn check(&self, recipe: &Recipe) -> Result<(), String>;
    /// Says why shards of these names, all of a split in order, cannot be described so, and what to do about it.
    fn check_names(&self, _split: &str, _shards: &[&str]) -> Result<(), String> {
        Ok(())
    }
    /// Name of the file that describes the shard of this name alone; `None` for an index that has none such.
    fn shard_file(&self, _shard: &str) -> Option<String> {
        None
    }
    /// Content of that file.
    fn shard(&self, _record: &ShardRecord) -> Vec<u8> {
        Vec::new()
    }
    /// Files that describe the whole dataset.
    fn dataset(&self, _manifest: &Manifest, _facts: &Facts) -> Result<Vec<File>> {
        Ok(Vec::new())
    }
    /// Files that take every row of every shard, which `records` gives in order; `None` for an index that does not.
    fn rows(
        &self,
        _manifest: &Manifest,
        _records: &mut dyn Iterator<Item = Result<ShardRecord>>,
    ) -> Option<Result<Vec<File>>> {
        None
    }
    /// Memory that [`Exporter::rows`] takes for this dataset.
    fn rows_bytes(&self, _manifest: &Manifest) -> u64 {
        0
    }
}

/// The names of `--index`.
pub fn names() -> impl Iterator<Item = &'static str> {
    EXPORTERS.iter().map(|(name, _)| *name)
}

/// Names of all files that can describe the shard of this name alone.
pub fn shard_files(shard: &str) -> impl Iterator<Item = String> {
    EXPORTERS
        .iter()
        .filter_map(move |(_, exporter)| exporter.shard_file(shard))
}

fn exporter(name: &str) -> Result<&'static dyn Exporter> {
    let known = EXPORTERS.iter().find(|(known, _)| *known == name);
    known.map(|(_, exporter)| *exporter).ok_or_else(|| {
        let names: Vec<_> = names().collect();
        Error::usage(format!(
            "--index `{name}`: unknown: choose from {}",
            names.join(", ")
        ))
    })
}

/// Refuses, before any work, an index that cannot describe shards of this recipe.
pub fn check(name: &str, recipe: &Recipe) -> Result<()> {
    exporter(name)?
        .check(recipe)
        .map_err(|why| Error::usage(format!("--index {name}: {why}")))
}

/// Refuses, before any work, an index that cannot describe shards of these names, all of a split in order.
pub fn check_names(name: &str, split: &str, shards: &[&str]) -> Result<()> {
    exporter(name)?
        .check_names(split, shards)
        .map_err(|why| Error::usage(format!("--index {name}: {why}")))
}

/// Plain tar, which these readers map into memory or seek in.
fn plain_tar(recipe: &Recipe, reader: &str) -> Result<(), String> {
    match (recipe.format, recipe.compress) {
        (Format::WebDataset, Compression::None) => Ok(()),
        (Format::WebDataset, _) => Err(format!(
            "{reader} reads plain tar only: drop `--compress` or drop this index"
        )),
        _ => Err(format!(
            "{reader} reads WebDataset tar: use `--format wds` or drop this index"
        )),
    }
}

/// The last part of a name.
fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Where a file of this name lies that is to be beside the shards.
fn beside(manifest: &Manifest, name: &str) -> String {
    let first = manifest
        .shards()
        .next()
        .map(|(_, shard)| shard.name.as_str());
    match first.and_then(|shard| shard.rsplit_once('/')) {
        Some((dir, _)) => format!("{dir}/{name}"),
        None => name.to_owned(),
    }
}

/// A name without the last of its extensions.
fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// JSON as these files have it: indented, with a newline at the end.
fn json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|error| Error::failed(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

/// The record of a published shard.
fn record(sink: &dyn Sink, shard: &ShardEntry) -> Result<ShardRecord> {
    let file = shard.read_index(sink)?.ok_or_else(|| {
        Error::new(
            Kind::Damage,
            format!(
                "{sink}/{}: missing: run `shardpack verify {sink}`",
                shard.index
            ),
        )
    })?;
    ShardRecord::decode(&shard.index, &file)
}

/// Writes the indexes of these names for the shards of a manifest, and says what was written.
///
/// An index that holds every row in memory is refused when that is more than `memory`.
pub fn export(
    sink: &dyn Sink,
    manifest: &Manifest,
    names: &[String],
    memory: u64,
) -> Result<Vec<IndexFile>> {
    let mut exporters = Vec::with_capacity(names.len());
    for name in names {
        check(name, &manifest.recipe)?;
        let exporter = exporter(name)?;
        let needed = exporter.rows_bytes(manifest);
        if needed > memory {
            return Err(Error::usage(format!(
                "--index {name} takes {} MiB for {} samples: raise `--memory` to that, or drop it",
                needed.div_ceil(1 << 20),
                manifest.samples
            )));
        }
        exporters.push((name.as_str(), exporter));
    }
    if exporters.is_empty() {
        return Ok(Vec::new());
    }
    let put = |reader: &str, (name, content): File| -> Result<IndexFile> {
        sink.put(&name, &content)?;
        Ok(IndexFile {
            reader: reader.to_owned(),
            name,
            bytes: content.len() as u64,
            crc32: crc_text(crc32fast::hash(&content)),
        })
    };
    let shards: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
    let described = at_once(SHARDS, &shards, |shard| {
        let record = record(sink, shard)?;
        let mut files = Vec::new();
        for (reader, exporter) in &exporters {
            if let Some(name) = exporter.shard_file(&shard.name) {
                files.push(put(reader, (name, exporter.shard(&record)))?);
            }
        }
        Ok((files, Facts::of(&record)))
    })?;
    let mut files = Vec::new();
    let mut facts = Facts::default();
    for (some, seen) in described {
        files.extend(some);
        facts.image_fields.extend(seen.image_fields);
        facts.image_formats.extend(seen.image_formats);
    }
    for (reader, exporter) in &exporters {
        let mut records = shards.iter().map(|shard| record(sink, shard));
        let rows = exporter.rows(manifest, &mut records).transpose()?;
        let rows = rows.into_iter().flatten();
        for file in rows.chain(exporter.dataset(manifest, &facts)?) {
            files.push(put(reader, file)?);
        }
    }
    files.sort();
    Ok(files)
}

/// The published test vector of a tar of two samples, as a record.
#[cfg(test)]
fn vector() -> (ShardEntry, ShardRecord) {
    use crate::record::{FieldRecord, SampleRecord};
    let field = |name: &str, offset, length| FieldRecord {
        name: name.to_owned(),
        offset,
        length,
        crc32: 0,
    };
    let sample = |key: &str, label, offset, length, size| SampleRecord {
        key: key.to_owned(),
        label,
        offset,
        length,
        fields: vec![
            field("cls", offset + 512, 1),
            field("jpg", offset + 1536, size),
        ],
        ..SampleRecord::default()
    };
    let record = ShardRecord {
        split: "train".to_owned(),
        bytes: 6144,
        samples: vec![
            sample("000000", 0, 0, 2560, 600),
            sample("000001", 1, 2560, 2560, 513),
        ],
        ..ShardRecord::empty("data/train-00000.tar")
    };
    let entry = ShardEntry {
        name: record.shard.clone(),
        samples: 2,
        bytes: 6144,
        unpacked_bytes: None,
        crc32: String::new(),
        sha256: None,
        index: String::new(),
        index_bytes: 0,
        index_crc32: String::new(),
        plan: None,
    };
    (entry, record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        for name in names() {
            exporter(name).unwrap();
        }
        let Err(error) = exporter("litdata") else {
            panic!("found")
        };
        assert!(
            error.to_string().contains("choose from dali, energon"),
            "{error}"
        );
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(base("data/train-00000.tar"), "train-00000.tar");
        assert_eq!(stem("data/train-00000.tar"), "data/train-00000");
    }
}
