//! The manifest that the records of a plan's shards make, with the reader indexes that go with it; nothing of it is committed here.

use std::collections::{HashMap, HashSet};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::model::manifest::{MANIFEST_KIND, Manifest, ShardEntry, SplitEntry};
use crate::model::record::{Footer, Remark, ShardRecord, index_name};
use crate::publish::readers::{NamedFile, export_readers};
use crate::state::done::footer;
use crate::state::done::records;
use crate::state::plans::Stored;
use crate::store::{Sink, at_once};

/// Index files held at once at most.
const INDEXES: usize = 16;
/// Missing shards named in a message.
const NAMED: usize = 5;

/// What a manifest says of a shard, and what its record says of samples that are unusual.
struct RecordedShard {
    entry: ShardEntry,
    skipped: Vec<Remark>,
    odd: Vec<Remark>,
}

/// An index file as it lies in the store.
struct IndexSum {
    /// Its length.
    bytes: u64,
    crc32: u32,
}

/// The shards of one plan.
struct PackedShards {
    /// Those that have a record.
    shards: Vec<RecordedShard>,
    /// Names of those that have none.
    missing: Vec<String>,
}

/// The manifest that records make, not yet committed, with reader indexes of the whole dataset, not yet written. `base` is what the
/// plan goes on from. Reader indexes may take up to `memory` bytes.
pub(super) fn prepare(
    sink: &dyn Sink,
    stored: &Stored,
    base: Option<&Manifest>,
    memory: u64,
) -> Result<(Manifest, Vec<NamedFile>)> {
    let packed = packed_shards(sink, stored)?;
    refuse_missing(sink, &packed.missing, stored.plan.shards.len())?;
    let unchanged = unchanged_shards(sink, stored, base)?;
    let mut manifest = manifest_of(stored, base, packed.shards, unchanged);
    let indexes = match base {
        Some(base) => base.readers(),
        None => manifest.recipe.indexes.clone(),
    };
    let exported = export_readers(sink, &manifest, &indexes, memory)?;
    manifest.indexes = exported.entries;
    Ok((manifest, exported.of_dataset))
}

/// The manifest of the last of these plans, each of which goes on from the one before, from records alone, with reader indexes of the
/// whole dataset, not yet written.
pub(crate) fn manifest_from_records(
    sink: &dyn Sink,
    plans: &[Stored],
    memory: u64,
) -> Result<(Manifest, Vec<NamedFile>)> {
    let mut last: Option<Manifest> = None;
    let mut lost = HashSet::new();
    for stored in plans {
        let mut packed = packed_shards(sink, stored)?;
        // A later plan may do without them.
        for name in packed.missing {
            let split = stored.plan.shards.iter().find(|shard| shard.name == name);
            let split = split.map(|shard| shard.split.clone()).unwrap_or_default();
            let record = ShardRecord {
                split,
                ..ShardRecord::empty(&name)
            };
            let no_index = IndexSum { bytes: 0, crc32: 0 };
            packed
                .shards
                .push(recorded_shard(record.footer(&[]), &no_index));
            lost.insert(name);
        }
        let unchanged = unchanged_shards(sink, stored, last.as_ref())?;
        last = Some(manifest_of(stored, last.as_ref(), packed.shards, unchanged));
    }
    let Some(mut last) = last else {
        return Err(Error::failed(format!("{sink}: no plan to go by")));
    };
    let names = last.shards().map(|(_, shard)| shard.name.clone());
    let missing: Vec<String> = names.filter(|name| lost.contains(name)).collect();
    refuse_missing(sink, &missing, last.shards().count())?;
    let indexes = last.recipe.indexes.clone();
    let exported = export_readers(sink, &last, &indexes, memory)?;
    last.indexes = exported.entries;
    Ok((last, exported.of_dataset))
}

/// Reads the records of a plan's shards.
fn packed_shards(sink: &dyn Sink, stored: &Stored) -> Result<PackedShards> {
    // Each holds an index file, read whole, so that what the manifest says of it was really there.
    let depth = sink
        .requests()
        .max(rayon::current_num_threads())
        .min(INDEXES);
    let numbers: Vec<usize> = (0..stored.plan.shards.len()).collect();
    let records = records(sink, stored, &numbers, depth, |name, _| {
        read_footer(sink, name)
    })?;
    let missing = (stored.plan.shards.iter().zip(&records))
        .filter(|(_, record)| record.is_none())
        .map(|(shard, _)| shard.name.to_string())
        .collect();
    let shards = records.into_iter().flatten();
    let shards = shards.map(|(footer, sum)| Ok(recorded_shard(footer, &sum?)));
    Ok(PackedShards {
        shards: shards.collect::<Result<_>>()?,
        missing,
    })
}

/// Refuses to go on without the records of these shards, so many `of` which there should be.
fn refuse_missing(sink: &dyn Sink, missing: &[String], of: usize) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{sink}: {} of {of} shards are not packed yet ({}{}): run `shardpack pack {sink_word}` first",
        missing.len(),
        missing[..missing.len().min(NAMED)].join(", "),
        if missing.len() > NAMED { ", …" } else { "" },
        sink_word = sink.word()
    )))
}

/// The shards of `base` that the plan leaves as they are.
fn unchanged_shards(
    sink: &dyn Sink,
    stored: &Stored,
    base: Option<&Manifest>,
) -> Result<Vec<RecordedShard>> {
    let Some(base) = base else {
        return Ok(Vec::new());
    };
    let names: HashSet<&str> = stored.plan.dataset().into_values().flatten().collect();
    let stay: Vec<&ShardEntry> = base
        .shards()
        .map(|(_, shard)| shard)
        .filter(|shard| names.contains(shard.name.as_str()))
        .collect();
    // Then no record of theirs says anything either.
    let no_remarks = base.skipped.is_empty() && base.odd.is_empty();
    at_once(sink.requests(), &stay, |shard| {
        let (skipped, odd) = match no_remarks {
            true => (Vec::new(), Vec::new()),
            false => {
                let footer = footer(sink, &shard.index, shard.index_bytes)?;
                (footer.skipped, footer.odd)
            }
        };
        let entry = ShardEntry {
            plan: Some(base.plan_of(shard).to_owned()),
            ..(*shard).clone()
        };
        Ok(RecordedShard {
            entry,
            skipped,
            odd,
        })
    })
}

/// Reads an index file: its footer, and its length and checksum, or why it is not sound.
fn read_footer(sink: &dyn Sink, index: &str) -> Result<(Footer, Result<IndexSum>)> {
    let damaged = |what: &str| Error::new(Kind::Damage, format!("{sink}/{index}: {what}"));
    let file = sink.get(index)?.ok_or_else(|| damaged("it vanished"))?;
    let bytes = file.len() as u64;
    let footer =
        Footer::decode(index, &file, bytes)?.map_err(|_| damaged("its footer cannot be found"))?;
    let sum = footer
        .check_pages(index, &file)
        .map(|()| IndexSum {
            bytes,
            crc32: crc32fast::hash(&file),
        })
        .map_err(|error| {
            let remedy = "remove it and run again, then its shard is packed again; `shardpack verify` tells of published ones";
            damaged(&format!("{error}: {remedy}"))
        });
    Ok((footer, sum))
}

/// What a manifest says of a shard with this footer.
fn recorded_shard(footer: Footer, index: &IndexSum) -> RecordedShard {
    let entry = ShardEntry {
        samples: footer.samples,
        bytes: footer.bytes,
        unpacked_bytes: footer.unpacked_bytes,
        crc32: footer.crc32,
        sha256: footer.sha256,
        index: index_name(&footer.shard),
        index_bytes: index.bytes,
        index_crc32: crc_text(index.crc32),
        plan: None,
        name: footer.shard,
    };
    RecordedShard {
        entry,
        skipped: footer.skipped,
        odd: footer.odd,
    }
}

/// The manifest of a plan, without reader indexes. Of two shards of one name the packed one is in it.
fn manifest_of(
    stored: &Stored,
    base: Option<&Manifest>,
    packed: Vec<RecordedShard>,
    unchanged: Vec<RecordedShard>,
) -> Manifest {
    let plan = &stored.plan;
    let shards = unchanged.into_iter().chain(packed);
    let mut shards: HashMap<String, RecordedShard> = shards
        .map(|shard| (shard.entry.name.clone(), shard))
        .collect();
    let names = plan.dataset();
    let mut splits = Vec::with_capacity(plan.splits.len());
    let (mut skipped, mut odd) = (Vec::new(), Vec::new());
    for split in &plan.splits {
        let names = names.get(split.as_str()).into_iter().flatten();
        let mut split = SplitEntry {
            name: split.clone(),
            samples: 0,
            bytes: 0,
            shards: Vec::new(),
        };
        for shard in names.filter_map(|name| shards.remove(*name)) {
            split.samples += shard.entry.samples;
            split.bytes += shard.entry.bytes;
            split.shards.push(shard.entry);
            skipped.extend(shard.skipped);
            odd.extend(shard.odd);
        }
        splits.push(split);
    }
    Manifest {
        kind: MANIFEST_KIND.to_owned(),
        version: 1,
        name: plan.recipe.name.clone(),
        snapshot: base.map_or(1, |base| base.snapshot + 1),
        plan: stored.digest.clone(),
        recipe: plan.recipe.clone(),
        samples: splits.iter().map(|split| split.samples).sum(),
        bytes: splits.iter().map(|split| split.bytes).sum(),
        names: plan.names.clone(),
        splits,
        indexes: Vec::new(),
        skipped,
        odd,
        derived_from: None,
    }
}
