//! Files that lie where reader indexes are to be and that no snapshot knows: somebody else wrote them, and they are not written over
//! unless that is asked for.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::base::error::{Error, Result, unless_damaged};
use crate::model::manifest::{Manifest, SNAPSHOT_DIR};
use crate::model::recipe::Recipe;
use crate::model::record::ShardRecord;
use crate::publish::readers::exporter::{Exporter, Splits};
use crate::publish::readers::exporter_of;
use crate::publish::readers::paths::directory;
use crate::store::Sink;

/// Files named in a message.
const NAMED: usize = 5;

/// What is to be described, and to which readers.
pub(crate) struct Described<'a> {
    /// How the shards were made.
    pub recipe: &'a Recipe,
    /// The shards.
    pub splits: Splits<'a>,
    /// Names of the indexes.
    pub indexes: &'a [String],
    /// Name of the record of a shard of this name.
    pub record: &'a dyn Fn(&str) -> Option<String>,
}

/// Names of the files there that these indexes would be written over, though no snapshot knows them and, of those that describe one
/// shard, though they are not what would be written.
pub(crate) fn files_in_the_way(sink: &dyn Sink, what: &Described<'_>) -> Result<Vec<String>> {
    let mut exporters: Vec<&dyn Exporter> = Vec::new();
    for name in what.indexes {
        exporters.push(exporter_of(name)?);
    }
    if exporters.is_empty() {
        return Ok(Vec::new());
    }
    let mut in_the_way: BTreeSet<String> = BTreeSet::new();
    for exporter in &exporters {
        for name in exporter.dataset_files(what.recipe, &what.splits) {
            if sink.get(&name)?.is_some() {
                in_the_way.insert(name);
            }
        }
    }
    let shards: Vec<&str> = what.splits.values().flatten().copied().collect();
    let beside = beside(sink, &shards)?;
    let mut of_shards = BTreeMap::new();
    for shard in &shards {
        for exporter in &exporters {
            let name = exporter.shard_file(shard);
            if let Some(name) = name.filter(|name| beside.contains(name)) {
                of_shards.insert(name, (*shard, *exporter));
            }
        }
    }
    if in_the_way.is_empty() && of_shards.is_empty() {
        return Ok(Vec::new());
    }
    let known = known(sink)?;
    in_the_way.retain(|name| !known.contains(name));
    of_shards.retain(|name, _| !known.contains(name));
    for (name, (shard, exporter)) in of_shards {
        // A run that was killed before its snapshot left it, if it is what this would write.
        let record = (what.record)(shard);
        let file = record
            .as_deref()
            .map(|record| sink.get(record))
            .transpose()?;
        let record = match file.flatten() {
            Some(file) => unless_damaged(ShardRecord::decode(shard, &file))?,
            None => None,
        };
        let made = record.map(|record| exporter.shard(&record));
        if made.is_none() || sink.get(&name)?.map(Vec::from) != made {
            in_the_way.insert(name);
        }
    }
    Ok(in_the_way.into_iter().collect())
}

/// Refuses to write over files of somebody else.
pub(crate) fn refuse_to_replace(sink: &dyn Sink, in_the_way: &[String]) -> Result<()> {
    if in_the_way.is_empty() {
        return Ok(());
    }
    let (named, more) = in_the_way.split_at(in_the_way.len().min(NAMED));
    let more = match more.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Error::usage(format!(
        "{sink} holds {}{more}, which shardpack did not write: move it elsewhere, or give `--replace` to have it replaced",
        named.join(", ")
    )))
}

/// Names of all files that lie beside these shards.
fn beside(sink: &dyn Sink, shards: &[&str]) -> Result<HashSet<String>> {
    let dirs: BTreeSet<&str> = shards.iter().map(|shard| directory(shard)).collect();
    // Each listing goes to the bottom: those below one that was made say nothing new.
    let mut last: Option<&str> = None;
    let mut found = HashSet::new();
    for dir in dirs {
        if last.is_some_and(|last| dir.starts_with(last)) {
            continue;
        }
        last = Some(dir);
        let names = sink.list(dir.trim_end_matches('/'))?;
        found.extend(names.into_iter().map(|(name, _)| name));
    }
    Ok(found)
}

/// Names of the reader indexes of all snapshots.
fn known(sink: &dyn Sink) -> Result<HashSet<String>> {
    let mut known = HashSet::new();
    for (name, _) in sink.list(SNAPSHOT_DIR)? {
        let Some(text) = sink.get(&name)? else {
            continue;
        };
        let manifest = unless_damaged(Manifest::decode(&name, &text))?;
        let files = manifest.into_iter().flat_map(|manifest| manifest.indexes);
        known.extend(files.map(|file| file.name));
    }
    Ok(known)
}
