//! Shards that somebody else made get records and a manifest, so that every verb works on them.
//!
//! Nothing is written to a shard. What can be told of a sample is what its shard says: fields, labels where there are some, the
//! image's header. The manifest's recipe says `foreign`: such shards are checked by walking them again, not by packing.

mod keys;
mod kind;
mod labels;
mod names;
mod walk;

use std::collections::BTreeMap;
use std::io::Read;

use sha2::{Digest as _, Sha256};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::signal::Stop;
use crate::base::text::hex;
use crate::format::Finding;
use crate::model::counters::Counters;
use crate::model::manifest::{MANIFEST_KIND, Manifest, STATE, ShardEntry, SplitEntry};
use crate::model::recipe::{Compression, Cut, Format, Missing, Names, Order, Recipe};
use crate::model::record::{Footer, ShardRecord};
use crate::publish::readers::{self as index, Splits};
use crate::source::scan::{ONLY_SPLIT, SPLIT_NAMES};
use crate::state::published;
use crate::store::{Sink, at_once};
use keys::Keys;
use labels::{Labels, Said};
use names::index_names;

pub use kind::{ForeignShard, is_shard, shards};
pub use names::key_beginnings;
pub use walk::{Walked, walk};

impl ForeignShard {
    /// Walks it, however much it unpacks to. `keys` begins the keys of samples that have none of their own.
    pub fn walk(&self, keys: &str, reader: impl Read + Send) -> Result<Walked> {
        let kind = (self.format, self.compress);
        walk(&self.name, keys, kind, reader, u64::MAX - 1)
    }

    /// What is known of how it was made.
    pub fn recipe(&self) -> Recipe {
        recipe(self.format, self.compress, Cut::Shards(1))
    }
}

/// The shards of a directory by their splits, in order.
pub fn splits(shards: &[ForeignShard]) -> Splits<'_> {
    let mut splits = Splits::new();
    for shard in shards {
        splits
            .entry(split(&shard.name))
            .or_default()
            .push(&shard.name);
    }
    splits
}

/// The split that a shard's name speaks of.
fn split(name: &str) -> &str {
    let words = name.split(|c: char| !c.is_ascii_alphabetic());
    let mut known = words.filter(|word| SPLIT_NAMES.contains(word));
    // The last one: a directory may be called anything.
    known.next_back().unwrap_or(ONLY_SPLIT)
}

/// What is known of how shards were made: their layout, and nothing else.
fn recipe(format: Format, compress: Compression, cut: Cut) -> Recipe {
    Recipe {
        name: "dataset".to_owned(),
        format,
        foreign: true,
        compress,
        missing: Missing::Keep,
        order: Order::Listed,
        cut,
        allow_empty: true,
        ..Recipe::default()
    }
}

/// What the manifest needs to know of a shard whose index is written.
struct Adopted {
    entry: ShardEntry,
    said: Said,
    found: Vec<Finding>,
    noted: Vec<Finding>,
}

/// What every shard is adopted with.
struct Adoption<'a> {
    sink: &'a dyn Sink,
    shards: Vec<&'a str>,
    indexes: Vec<String>,
    keys: Vec<String>,
    plan: String,
    labels: Labels,
    seen: Keys,
}

/// Walks all shards of a directory and writes their indexes; gives the manifest that names them, not yet committed.
///
/// Damage is an error that names it all, and so are keys in two shards and labels that contradict each other: there is no manifest
/// then. Files that lie where the indexes are to be, and are none, are an error unless they are to be replaced. Takes 16 bytes a sample besides what walking takes.
pub fn adopt(
    sink: &dyn Sink,
    shards: &[ForeignShard],
    jobs: usize,
    replace: bool,
    (counters, stop): (&Counters, &Stop),
) -> Result<Manifest> {
    let Some(first) = shards.first() else {
        return Err(Error::failed(format!(
            "{sink}: no tars and no TFRecords: give a directory that holds some"
        )));
    };
    let other =
        |shard: &&ForeignShard| (shard.format, shard.compress) != (first.format, first.compress);
    if let Some(other) = shards.iter().find(other) {
        return Err(Error::usage(format!(
            "{sink} holds shards of two kinds, {} and {}: move one kind elsewhere",
            first.name, other.name
        )));
    }
    let recipe = recipe(
        first.format,
        first.compress,
        Cut::Shards(shards.len() as u64),
    );
    let listing: Vec<_> = shards
        .iter()
        .map(|shard| (&shard.name, shard.bytes))
        .collect();
    // Strings and numbers always serialise.
    let plan = hex(&Sha256::digest(
        serde_json::to_vec(&listing).unwrap_or_default(),
    ));
    let names: Vec<&str> = shards.iter().map(|shard| shard.name.as_str()).collect();
    let adoption = Adoption {
        sink,
        indexes: index_names(&names),
        keys: key_beginnings(&names),
        plan,
        labels: Labels::read(sink, first)?,
        seen: Keys::default(),
        shards: names,
    };
    if !replace {
        index::refuse(sink, &adoption.in_the_way()?)?;
    }
    let sum = shards.iter().map(|shard| shard.bytes).sum();
    counters.begin("index", 0, sum, shards.len() as u64);
    let work: Vec<usize> = (0..shards.len()).collect();
    let mut adopted = at_once(jobs, &work, |&at| {
        stop.check()?;
        let shard = &shards[at];
        let walked = shard.walk(&adoption.keys[at], sink.open(&shard.name)?)?;
        counters.read(walked.bytes.0);
        counters.shard(&shard.name, shard.bytes, walked.rows.len() as u64);
        adoption.one(at, shard.compress, walked)
    })?;
    let found: Vec<String> = adopted
        .iter()
        .flat_map(|adopted| &adopted.found)
        .map(|finding| format!("\n  {finding}"))
        .collect();
    if !found.is_empty() {
        let found = found.concat();
        let what = format!("{sink}: shards are damaged, there is no manifest of them{found}");
        return Err(Error::new(Kind::Damage, what));
    }
    let (seen, indexes) = (&adoption.seen, &adoption.indexes);
    seen.check(sink, &adoption.shards, indexes)?;
    let said: Vec<&Said> = adopted.iter().map(|adopted| &adopted.said).collect();
    let classes = adoption.labels.classes(sink, &adoption.shards, &said)?;
    adoption.number_alike(jobs, &classes, &mut adopted)?;
    for note in adopted.iter().flat_map(|adopted| &adopted.noted) {
        tracing::warn!("{note}");
    }
    let mut splits: BTreeMap<&str, SplitEntry> = BTreeMap::new();
    for (shard, Adopted { entry, .. }) in shards.iter().zip(adopted) {
        let name = split(&shard.name);
        let split = splits.entry(name).or_insert_with(|| SplitEntry {
            name: name.to_owned(),
            samples: 0,
            bytes: 0,
            shards: Vec::new(),
        });
        split.samples += entry.samples;
        split.bytes += entry.bytes;
        split.shards.push(entry);
    }
    let splits: Vec<SplitEntry> = splits.into_values().collect();
    Ok(Manifest {
        kind: MANIFEST_KIND.to_owned(),
        version: 1,
        name: recipe.name.clone(),
        snapshot: 1,
        plan: adoption.plan,
        recipe,
        samples: splits.iter().map(|split| split.samples).sum(),
        bytes: splits.iter().map(|split| split.bytes).sum(),
        names: Names {
            classes,
            ..Names::default()
        },
        splits,
        indexes: Vec::new(),
        skipped: Vec::new(),
        odd: Vec::new(),
    })
}

impl Adoption<'_> {
    /// Names of files there that are to be indexes of shards, and are not what such a one may be written over.
    fn in_the_way(&self) -> Result<Vec<String>> {
        let mut there = Vec::new();
        for (name, bytes) in self.sink.list("index")? {
            if self.indexes.contains(&name) {
                let file = self.sink.get(&name)?.unwrap_or_default();
                let footer = unless_damaged(Footer::decode(&name, &file, bytes))?;
                if !matches!(footer, Some(Ok(_))) {
                    there.push(name);
                }
            }
        }
        Ok(there)
    }

    /// Writes the index of one shard, unless the shard is damaged.
    fn one(&self, at: usize, compress: Compression, mut walked: Walked) -> Result<Adopted> {
        let shard = self.shards[at];
        let (known, noted) = (self.labels.known(), std::mem::take(&mut walked.noted));
        let found = std::mem::take(&mut walked.found);
        let (record, names) = record_of(shard, compress, &self.plan, &mut walked, known);
        let file = record.encode(&names)?;
        if found.is_empty() {
            self.sink.put(&self.indexes[at], &file)?;
            self.seen.add(at, &record.samples);
        }
        Ok(Adopted {
            entry: ShardEntry {
                name: shard.to_owned(),
                samples: record.samples.len() as u64,
                bytes: record.bytes,
                unpacked_bytes: record.unpacked_bytes,
                crc32: crc_text(record.crc32),
                sha256: None,
                index: self.indexes[at].clone(),
                index_bytes: file.len() as u64,
                index_crc32: crc_text(crc32fast::hash(&file)),
                plan: None,
            },
            said: self.labels.hear(walked, &record),
            found,
            noted,
        })
    }

    /// Writes the indexes again of shards that say names of classes, and not all that there are: each had numbered its own.
    fn number_alike(&self, jobs: usize, classes: &[String], all: &mut [Adopted]) -> Result<()> {
        let differ = |adopted: &Adopted| {
            let named = &adopted.said.named;
            self.labels.known().is_empty() && !named.is_empty() && **named != classes
        };
        let again: Vec<usize> = (0..all.len()).filter(|&at| differ(&all[at])).collect();
        let written = at_once(jobs, &again, |&at| {
            let index = &self.indexes[at];
            let file = self.sink.get(index)?;
            let file =
                file.ok_or_else(|| Error::failed(format!("{}/{index}: it vanished", self.sink)))?;
            let mut record = ShardRecord::decode(index, &file)?;
            labels::renumber(&mut record.samples, &all[at].said.named, classes);
            let file = record.encode(classes)?;
            self.sink.put(index, &file)?;
            Ok((file.len() as u64, crc_text(crc32fast::hash(&file))))
        })?;
        for (at, (bytes, crc32)) in again.into_iter().zip(written) {
            let entry = &mut all[at].entry;
            (entry.index_bytes, entry.index_crc32) = (bytes, crc32);
        }
        Ok(())
    }
}

/// The record of a walked shard, and class names for it. `known` are those that the dataset has, where that is known.
fn record_of(
    shard: &str,
    compress: Compression,
    plan: &str,
    walked: &mut Walked,
    known: &[String],
) -> (ShardRecord, Vec<String>) {
    let names = match walked.named.is_empty() {
        true => labels::numbered(&mut walked.rows, &walked.classes, known),
        false if known.is_empty() => walked.named.clone(),
        false => {
            labels::renumber(&mut walked.rows, &walked.named, known);
            known.to_vec()
        }
    };
    let record = ShardRecord {
        split: split(shard).to_owned(),
        plan: plan.to_owned(),
        bytes: walked.bytes.0,
        crc32: walked.bytes.1,
        unpacked_bytes: (compress != Compression::None).then_some(walked.unpacked_bytes),
        samples: std::mem::take(&mut walked.rows),
        ..ShardRecord::empty(shard)
    };
    (record, names)
}

/// The index file of a published shard, made again from the shard; `None` if that is damaged.
pub fn index_of(
    sink: &dyn Sink,
    manifest: &Manifest,
    shard: &ShardEntry,
) -> Result<Option<Vec<u8>>> {
    let kind = (manifest.recipe.format, manifest.recipe.compress);
    let most = shard.unpacked_bytes.unwrap_or(shard.bytes);
    let all: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
    let mut names: Vec<&str> = all.iter().map(|shard| shard.name.as_str()).collect();
    names.sort_unstable();
    let keys = key_beginnings(&names);
    let at = names.binary_search(&shard.name.as_str()).unwrap_or(0);
    let again = |known: &[String]| -> Result<Option<Vec<u8>>> {
        let reader = sink.open(&shard.name)?;
        let mut walked = walk(&shard.name, &keys[at], kind, reader, most)?;
        if !walked.found.is_empty() {
            return Ok(None);
        }
        let (plan, compress) = (&manifest.plan, manifest.recipe.compress);
        let (record, names) = record_of(&shard.name, compress, plan, &mut walked, known);
        record.encode(&names).map(Some)
    };
    // Numbers have the names that their shard says, or else those of the dataset.
    let own = again(&[])?;
    match own {
        Some(file) if crc_text(crc32fast::hash(&file)) != shard.index_crc32 => {
            again(&manifest.names.classes)
        }
        own => Ok(own),
    }
}

/// Refuses a directory that a run of ours began to fill.
pub fn check_foreign(sink: &dyn Sink) -> Result<()> {
    match sink.list(STATE)?.is_empty() {
        true => Ok(()),
        false => published::require(sink).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_known_by_their_names() {
        assert_eq!(split("data/train-000000.tar"), "train");
        assert_eq!(split("train/x-val-0.tar"), "val");
        assert_eq!(split("00000.tar"), ONLY_SPLIT);
    }
}
