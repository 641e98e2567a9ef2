//! Records become a snapshot, put if absent, and then `manifest.json`: the one moment at which a dataset appears.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::base::version;
use crate::model::manifest::{
    MANIFEST, MANIFEST_KIND, Manifest, ShardEntry, SplitEntry, snapshot_name,
};
use crate::model::record::{Footer, Remark, ShardRecord, index_name};
use crate::publish::companions::{catch_up, put_companions, restore_companions};
use crate::publish::readers::{ExportedFiles, NamedFile, export_readers};
use crate::state::published;
use crate::state::stored::{Stored, check_exclusive, footer, records};
use crate::store::{Sink, at_once};

/// Index files held at once at most.
const INDEXES: usize = 16;
/// Missing shards named in a message.
const NAMED: usize = 5;

/// Checks that every shard of the plan is there and commits the manifest. Done twice, it changes nothing the second time.
///
/// Reader indexes may take up to `memory` bytes.
pub fn publish(sink: &dyn Sink, stored: &Stored, memory: u64) -> Result<Manifest> {
    check_exclusive(sink, stored)?;
    loop {
        let there = newest_snapshot(sink, memory)?;
        let base = match (&stored.plan.base, there) {
            // Its first snapshot may be gone by now.
            (_, Some(there)) if there.plan == stored.digest && there.snapshot > 1 => {
                return restore_companions(sink, there, Vec::new(), memory);
            }
            (None, _) => None,
            (Some(base), Some(there)) if there.plan == base.plan => Some(there),
            (Some(_), there) => return Err(overtaken(sink, there.as_ref())),
        };
        let (manifest, made) = prepare(sink, stored, base.as_ref(), memory)?;
        match put_snapshot(sink, &manifest)? {
            None => return put_companions(sink, manifest, made, memory),
            // An index was added to what this goes on from: it goes on from that.
            Some(theirs) if base.is_some_and(|base| is_next(&theirs, &manifest, &base.plan)) => {}
            Some(theirs) => return Err(disagreement(sink, &manifest, &theirs)),
        }
    }
}

/// The last snapshot there is, made the manifest if it was not yet. Reader indexes that this takes are made from records, in at most
/// `memory` bytes.
pub fn newest_snapshot(sink: &dyn Sink, memory: u64) -> Result<Option<Manifest>> {
    published::load(sink)?
        .map(|manifest| catch_up(sink, manifest, memory))
        .transpose()
}

fn overtaken(sink: &dyn Sink, there: Option<&Manifest>) -> Error {
    match there {
        Some(there) => Error::new(
            Kind::Conflict,
            format!(
                "{sink}: another plan was published meanwhile, as snapshot {}: run again to go on from that",
                there.snapshot
            ),
        ),
        None => Error::new(
            Kind::Damage,
            format!(
                "{sink}/{MANIFEST}: missing, and the plan goes on from it: run `shardpack repair {sink}`"
            ),
        ),
    }
}

/// The manifest that records make, not yet committed, with reader indexes of the whole dataset, not yet written. `base` is what the
/// plan goes on from.
fn prepare(
    sink: &dyn Sink,
    stored: &Stored,
    base: Option<&Manifest>,
    memory: u64,
) -> Result<(Manifest, Vec<NamedFile>)> {
    let (made, missing) = made(sink, stored)?;
    if let Some(error) = not_packed(sink, &missing, stored.plan.shards.len()) {
        return Err(error);
    }
    let mut manifest = manifest(stored, base, made, kept(sink, stored, base)?);
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
pub fn manifest_from_records(
    sink: &dyn Sink,
    plans: &[Stored],
    memory: u64,
) -> Result<(Manifest, Vec<NamedFile>)> {
    let mut last: Option<Manifest> = None;
    let mut lost = HashSet::new();
    for stored in plans {
        let (mut made, missing) = made(sink, stored)?;
        // A later plan may do without them.
        for name in missing {
            let split = stored.plan.shards.iter().find(|shard| shard.name == name);
            let split = split.map(|shard| shard.split.clone()).unwrap_or_default();
            let record = ShardRecord {
                split,
                ..ShardRecord::empty(&name)
            };
            made.push(entry((record.footer(&[]), (0, 0))));
            lost.insert(name);
        }
        let kept = kept(sink, stored, last.as_ref())?;
        last = Some(manifest(stored, last.as_ref(), made, kept));
    }
    let Some(mut last) = last else {
        return Err(Error::failed(format!("{sink}: no plan to go by")));
    };
    let names = last.shards().map(|(_, shard)| shard.name.clone());
    let missing: Vec<String> = names.filter(|name| lost.contains(name)).collect();
    if let Some(error) = not_packed(sink, &missing, last.shards().count()) {
        return Err(error);
    }
    let indexes = last.recipe.indexes.clone();
    let exported = export_readers(sink, &last, &indexes, memory)?;
    last.indexes = exported.entries;
    Ok((last, exported.of_dataset))
}

/// Shards of a plan with what their records say, and the names of those that have none.
type Made = (Vec<(ShardEntry, Footer)>, Vec<String>);

fn made(sink: &dyn Sink, stored: &Stored) -> Result<Made> {
    // Each holds an index file, read whole, so that what the manifest says of it was really there.
    let depth = sink
        .requests()
        .max(rayon::current_num_threads())
        .min(INDEXES);
    let shards: Vec<usize> = (0..stored.plan.shards.len()).collect();
    let records = records(sink, stored, &shards, depth, |name, _| read(sink, name))?;
    let missing: Vec<_> = stored
        .plan
        .shards
        .iter()
        .zip(&records)
        .filter(|(_, record)| record.is_none())
        .map(|(shard, _)| shard.name.to_string())
        .collect();
    let entries = records
        .into_iter()
        .flatten()
        .map(|(footer, whole)| Ok(entry((footer, whole?))));
    Ok((entries.collect::<Result<_>>()?, missing))
}

fn not_packed(sink: &dyn Sink, missing: &[String], of: usize) -> Option<Error> {
    (!missing.is_empty()).then(|| {
        Error::failed(format!(
            "{sink}: {} of {of} shards are not packed yet ({}{}): run `shardpack pack {sink}` first",
            missing.len(),
            missing[..missing.len().min(NAMED)].join(", "),
            if missing.len() > NAMED { ", …" } else { "" }
        ))
    })
}

/// Skipped and odd samples of a shard.
type Remarks = (Vec<Remark>, Vec<Remark>);

/// The shards that stay as they are, with what their records say of skipped and odd samples.
fn kept(
    sink: &dyn Sink,
    stored: &Stored,
    base: Option<&Manifest>,
) -> Result<Vec<(ShardEntry, Remarks)>> {
    let Some(base) = base else {
        return Ok(Vec::new());
    };
    let names: HashSet<&str> = stored.plan.dataset().into_values().flatten().collect();
    let stay: Vec<&ShardEntry> = base
        .shards()
        .map(|(_, shard)| shard)
        .filter(|shard| names.contains(shard.name.as_str()))
        .collect();
    let silent = base.skipped.is_empty() && base.odd.is_empty();
    at_once(sink.requests(), &stay, |shard| {
        let remarks = match silent {
            true => Remarks::default(),
            false => {
                let footer = footer(sink, &shard.index, shard.index_bytes)?;
                (footer.skipped, footer.odd)
            }
        };
        let plan = Some(base.plan_of(shard).to_owned());
        let entry = ShardEntry {
            plan,
            ..(*shard).clone()
        };
        Ok((entry, remarks))
    })
}

/// Adds reader indexes to what is published, as the next snapshot; what is there already is not made again.
pub fn add_indexes(
    sink: &dyn Sink,
    mut manifest: Manifest,
    names: &[String],
    memory: u64,
) -> Result<Manifest> {
    loop {
        // A run that ended between the two may have left a snapshot and not its manifest.
        manifest = catch_up(sink, manifest, memory)?;
        let ExportedFiles {
            entries,
            of_dataset,
        } = export_readers(sink, &manifest, names, memory)?;
        let mut next = manifest.clone();
        next.indexes.retain(|file| !names.contains(&file.reader));
        next.indexes.extend(entries);
        next.indexes.sort();
        if next.indexes == manifest.indexes {
            return restore_companions(sink, manifest, of_dataset, memory);
        }
        next.snapshot += 1;
        match put_snapshot(sink, &next)? {
            None => return put_companions(sink, next, of_dataset, memory),
            // Another run added its own meanwhile: ours come on top of that.
            Some(theirs) if is_next(&theirs, &next, &manifest.plan) => {}
            Some(theirs) => return Err(disagreement(sink, &next, &theirs)),
        }
    }
}

/// Puts the snapshot and then what lies beside it. It has no reader indexes.
pub fn commit_snapshot(sink: &dyn Sink, manifest: Manifest, memory: u64) -> Result<Manifest> {
    match put_snapshot(sink, &manifest)? {
        None => put_companions(sink, manifest, Vec::new(), memory),
        Some(theirs) => Err(disagreement(sink, &manifest, &theirs)),
    }
}

/// Whether it is a snapshot of this plan that was put where ours was to be: what goes on from it gets further.
fn is_next(theirs: &[u8], ours: &Manifest, plan: &str) -> bool {
    Manifest::decode("", theirs)
        .is_ok_and(|theirs| theirs.plan == plan && theirs.snapshot == ours.snapshot)
}

/// Whether it is a snapshot of this plan.
fn is_of(snapshot: &[u8], plan: &str) -> bool {
    Manifest::decode("", snapshot).is_ok_and(|snapshot| snapshot.plan == plan)
}

/// Puts the snapshot, which may be there from an earlier run; gives what is there when that is another one.
fn put_snapshot(sink: &dyn Sink, manifest: &Manifest) -> Result<Option<Bytes>> {
    let (snapshot, text) = (snapshot_name(manifest.snapshot), manifest.encode()?);
    if sink.put_if_absent(&snapshot, &text)? {
        return Ok(None);
    }
    let theirs = sink.get(&snapshot)?.unwrap_or_default();
    version::MANIFEST.check(&format!("{sink}/{snapshot}"), &theirs)?;
    Ok((theirs != text).then_some(theirs))
}

/// Why the snapshot that is there is not the one to be put: our own shards changed since, or another plan was first.
/// Under the same digest it is our own: the claim keeps out the plan of a copy, which has that digest too.
fn disagreement(sink: &dyn Sink, ours: &Manifest, theirs: &[u8]) -> Error {
    let snapshot = snapshot_name(ours.snapshot);
    match is_of(theirs, &ours.plan) {
        true => Error::new(
            Kind::Damage,
            format!(
                "{sink}: shards or indexes are not those that {snapshot} was published with: run `shardpack verify {sink}`"
            ),
        ),
        false => Error::new(
            Kind::Conflict,
            format!("{sink}/{snapshot} was published by another plan: choose another destination"),
        ),
    }
}

/// Reads an index file: its footer, and its length and checksum.
fn read(sink: &dyn Sink, index: &str) -> Result<(Footer, Result<(u64, u32)>)> {
    let damaged = |what: &str| Error::new(Kind::Damage, format!("{sink}/{index}: {what}"));
    let file = sink.get(index)?.ok_or_else(|| damaged("it vanished"))?;
    let size = file.len() as u64;
    let footer =
        Footer::decode(index, &file, size)?.map_err(|_| damaged("its footer cannot be found"))?;
    let whole = footer
        .check_pages(index, &file)
        .map(|()| (size, crc32fast::hash(&file)))
        .map_err(|error| {
            let remedy = "remove it and run again, then its shard is packed again; `shardpack verify` tells of published ones";
            damaged(&format!("{error}: {remedy}"))
        });
    Ok((footer, whole))
}

fn entry((footer, (size, crc32)): (Footer, (u64, u32))) -> (ShardEntry, Footer) {
    let entry = ShardEntry {
        name: footer.shard.clone(),
        samples: footer.samples,
        bytes: footer.bytes,
        unpacked_bytes: footer.unpacked_bytes,
        crc32: footer.crc32.clone(),
        sha256: footer.sha256.clone(),
        index: index_name(&footer.shard),
        index_bytes: size,
        index_crc32: crc_text(crc32),
        plan: None,
    };
    (entry, footer)
}

fn manifest(
    stored: &Stored,
    base: Option<&Manifest>,
    made: Vec<(ShardEntry, Footer)>,
    kept: Vec<(ShardEntry, Remarks)>,
) -> Manifest {
    let plan = &stored.plan;
    let mut shards: HashMap<String, (ShardEntry, Remarks)> = kept
        .into_iter()
        .chain(
            made.into_iter()
                .map(|(entry, footer)| (entry, (footer.skipped, footer.odd))),
        )
        .map(|shard| (shard.0.name.clone(), shard))
        .collect();
    let names = plan.dataset();
    let mut splits: Vec<SplitEntry> = plan
        .splits
        .iter()
        .map(|name| SplitEntry {
            name: name.clone(),
            samples: 0,
            bytes: 0,
            shards: Vec::new(),
        })
        .collect();
    let mut skipped = Vec::new();
    let mut odd = Vec::new();
    for split in &mut splits {
        let names = names.get(split.name.as_str()).into_iter().flatten();
        for (entry, remarks) in names.filter_map(|name| shards.remove(*name)) {
            split.samples += entry.samples;
            split.bytes += entry.bytes;
            split.shards.push(entry);
            skipped.extend(remarks.0);
            odd.extend(remarks.1);
        }
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
    }
}
