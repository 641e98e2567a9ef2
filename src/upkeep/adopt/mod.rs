//! Shards that somebody else made get records and a manifest, so that every verb works on them.
//!
//! A directory of tars or TFRecords comes in; an index for each shard is written, and the manifest that names them goes out. Nothing is
//! written to a shard. What can be told of a sample is what its shard says: fields, labels where there are some, the image's header.
//! The manifest's recipe says `foreign`: such shards are checked by walking them again, not by packing.

mod keys;
mod kind;
mod labels;
mod names;
mod record;
mod walk;

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::signal::Stop;
use crate::base::text::hex;
use crate::format::Finding;
use crate::model::counters::Counters;
use crate::model::manifest::{MANIFEST_KIND, Manifest, STATE, ShardEntry, SplitEntry};
use crate::model::recipe::{Compression, Cut, Names};
use crate::model::record::{Footer, ShardRecord};
use crate::publish::readers::refuse_to_replace;
use crate::state::published::require;
use crate::store::{Sink, at_once};
use crate::upkeep::adopt::keys::Keys;
use crate::upkeep::adopt::kind::foreign_recipe;
use crate::upkeep::adopt::labels::{DatasetLabels, ShardLabels, renumber};
use crate::upkeep::adopt::names::{index_names, split_of};
use crate::upkeep::adopt::record::record_of;

pub(crate) use crate::upkeep::adopt::kind::{ForeignShard, foreign_shards, is_foreign_shard};
pub(crate) use crate::upkeep::adopt::names::{foreign_splits, key_beginnings};
pub(crate) use crate::upkeep::adopt::record::index_from_foreign;
pub(crate) use crate::upkeep::adopt::walk::{Walked, walk_foreign};

/// One adoption.
pub(crate) struct Adoption<'a> {
    /// The directory.
    pub sink: &'a dyn Sink,
    /// Its shards, all of them.
    pub shards: &'a [ForeignShard],
    /// Shards walked at once.
    pub jobs: usize,
    /// Files that lie where the indexes are to be, and are none, are written over.
    pub replace: bool,
    /// Counts what happens.
    pub counters: &'a Counters,
    /// Says when to stop.
    pub stop: &'a Stop,
}

/// What the manifest needs to know of a shard whose index is written.
struct AdoptedShard {
    entry: ShardEntry,
    labels: ShardLabels,
    found: Vec<Finding>,
    noted: Vec<Finding>,
}

/// Walks all shards of a directory and writes their indexes; gives the manifest that names them, not yet committed.
///
/// Damage is an error that names it all, and so are keys in two shards and labels that contradict each other: there is no manifest
/// then. Files that lie where the indexes are to be, and are none, are an error unless they are to be replaced. Takes 16 bytes a sample
/// besides what walking takes.
pub(crate) fn adopt(adoption: &Adoption<'_>) -> Result<Manifest> {
    let &Adoption {
        sink, shards, jobs, ..
    } = adoption;
    let first = only_kind(sink, shards)?;
    let names: Vec<&str> = shards.iter().map(|shard| shard.name.as_str()).collect();
    let writer = IndexWriter {
        sink,
        indexes: index_names(&names),
        keys: key_beginnings(&names),
        plan: digest(shards),
        labels: DatasetLabels::read(sink, first)?,
        seen: Keys::default(),
        shards: names,
    };
    if !adoption.replace {
        refuse_to_replace(sink, &writer.in_the_way()?)?;
    }
    let mut adopted = write_indexes(adoption, &writer)?;
    writer.seen.check(sink, &writer.shards, &writer.indexes)?;
    let labels: Vec<&ShardLabels> = adopted.iter().map(|shard| &shard.labels).collect();
    let classes = writer.labels.classes(sink, &writer.shards, &labels)?;
    writer.number_alike(jobs, &classes, &mut adopted)?;
    for note in adopted.iter().flat_map(|shard| &shard.noted) {
        tracing::warn!("{note}");
    }
    let splits = splits_of_shards(adopted.into_iter().map(|shard| shard.entry));
    let cut = Cut::Shards(shards.len() as u64);
    let recipe = foreign_recipe(first.format, first.compress, cut);
    Ok(Manifest {
        kind: MANIFEST_KIND.to_owned(),
        version: 1,
        name: recipe.name.clone(),
        snapshot: 1,
        plan: writer.plan,
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
        derived_from: None,
    })
}

/// Refuses a directory without shards, or with shards of two kinds; gives the first of them.
fn only_kind<'s>(sink: &dyn Sink, shards: &'s [ForeignShard]) -> Result<&'s ForeignShard> {
    let Some(first) = shards.first() else {
        return Err(Error::failed(format!(
            "{sink}: no tars and no TFRecords: give a directory that holds some"
        )));
    };
    let other =
        |shard: &&ForeignShard| (shard.format, shard.compress) != (first.format, first.compress);
    match shards.iter().find(other) {
        None => Ok(first),
        Some(other) => Err(Error::usage(format!(
            "{sink} holds shards of two kinds, {} and {}: move one kind elsewhere",
            first.name, other.name
        ))),
    }
}

/// What stands for the digest of a plan: it is over names and lengths of the shards.
fn digest(shards: &[ForeignShard]) -> String {
    let listing: Vec<_> = shards
        .iter()
        .map(|shard| (&shard.name, shard.bytes))
        .collect();
    // Strings and numbers always serialise.
    let listing = serde_json::to_vec(&listing).unwrap_or_default();
    hex(&Sha256::digest(listing))
}

/// Walks all shards and writes their indexes; an error that names all damage, if there is any.
fn write_indexes(adoption: &Adoption<'_>, writer: &IndexWriter<'_>) -> Result<Vec<AdoptedShard>> {
    let &Adoption {
        sink,
        shards,
        counters,
        ..
    } = adoption;
    let bytes = shards.iter().map(|shard| shard.bytes).sum();
    counters.begin("index", 0, bytes, shards.len() as u64);
    let numbers: Vec<usize> = (0..shards.len()).collect();
    let adopted = at_once(adoption.jobs, &numbers, |&number| {
        adoption.stop.check()?;
        let shard = &shards[number];
        let walked = shard.walk(&writer.keys[number], sink.open(&shard.name)?)?;
        counters.read(walked.bytes.0);
        counters.shard(&shard.name, shard.bytes, walked.rows.len() as u64);
        writer.write(number, shard.compress, walked)
    })?;
    let found: Vec<String> = adopted
        .iter()
        .flat_map(|shard| &shard.found)
        .map(|finding| format!("\n  {finding}"))
        .collect();
    if !found.is_empty() {
        let found = found.concat();
        let what = format!("{sink}: shards are damaged, there is no manifest of them{found}");
        return Err(Error::new(Kind::Damage, what));
    }
    Ok(adopted)
}

/// Shards by the splits that their names speak of, sorted by split, in their order.
fn splits_of_shards(shards: impl Iterator<Item = ShardEntry>) -> Vec<SplitEntry> {
    let mut splits: BTreeMap<String, SplitEntry> = BTreeMap::new();
    for shard in shards {
        let name = split_of(&shard.name).to_owned();
        let split = splits.entry(name.clone()).or_insert_with(|| SplitEntry {
            name,
            samples: 0,
            bytes: 0,
            shards: Vec::new(),
        });
        split.samples += shard.samples;
        split.bytes += shard.bytes;
        split.shards.push(shard);
    }
    splits.into_values().collect()
}

/// Writes the indexes of all shards of a directory.
struct IndexWriter<'a> {
    sink: &'a dyn Sink,
    shards: Vec<&'a str>,
    /// Names of their indexes.
    indexes: Vec<String>,
    /// What begins the keys of their samples, where those have none of their own.
    keys: Vec<String>,
    plan: String,
    labels: DatasetLabels,
    seen: Keys,
}

impl IndexWriter<'_> {
    /// Names of files there that are to be indexes of shards, and are not what such a one may be written over.
    fn in_the_way(&self) -> Result<Vec<String>> {
        let mut in_the_way = Vec::new();
        for (name, bytes) in self.sink.list("index")? {
            if self.indexes.contains(&name) {
                let file = self.sink.get(&name)?.unwrap_or_default();
                let footer = unless_damaged(Footer::decode(&name, &file, bytes))?;
                if !matches!(footer, Some(Ok(_))) {
                    in_the_way.push(name);
                }
            }
        }
        Ok(in_the_way)
    }

    /// Writes the index of one shard, unless the shard is damaged.
    fn write(&self, at: usize, compress: Compression, mut walked: Walked) -> Result<AdoptedShard> {
        let shard = self.shards[at];
        let (known, noted) = (self.labels.known(), std::mem::take(&mut walked.noted));
        let found = std::mem::take(&mut walked.found);
        let (record, names) = record_of(shard, compress, &self.plan, &mut walked, known);
        let file = record.encode(&names)?;
        if found.is_empty() {
            self.sink.put(&self.indexes[at], &file)?;
            self.seen.add(at, &record.samples);
        }
        Ok(AdoptedShard {
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
            labels: self.labels.of_shard(walked, &record),
            found,
            noted,
        })
    }

    /// Writes the indexes again of shards that say names of classes, and not all that there are: each had numbered its own.
    fn number_alike(
        &self,
        jobs: usize,
        classes: &[String],
        all: &mut [AdoptedShard],
    ) -> Result<()> {
        let differ = |adopted: &AdoptedShard| {
            let named = &adopted.labels.named;
            self.labels.known().is_empty() && !named.is_empty() && **named != classes
        };
        let again: Vec<usize> = (0..all.len()).filter(|&at| differ(&all[at])).collect();
        let written = at_once(jobs, &again, |&at| {
            let index = &self.indexes[at];
            let file = self.sink.get(index)?;
            let file =
                file.ok_or_else(|| Error::failed(format!("{}/{index}: it vanished", self.sink)))?;
            let mut record = ShardRecord::decode(index, &file)?;
            renumber(&mut record.samples, &all[at].labels.named, classes);
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

/// Refuses a directory that a run of ours began to fill.
pub(crate) fn refuse_unfinished(sink: &dyn Sink) -> Result<()> {
    match sink.list(STATE)?.is_empty() {
        true => Ok(()),
        false => require(sink).map(drop),
    }
}
