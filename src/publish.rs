//! Records become a snapshot, put if absent, and then `manifest.json`: the one moment at which a dataset appears.

use bytes::Bytes;

use crate::card;
use crate::checksum::crc_text;
use crate::error::{Error, Kind, Result};
use crate::index;
use crate::manifest::{MANIFEST, MANIFEST_KIND, Manifest, ShardEntry, SplitEntry, snapshot_name};
use crate::record::{Footer, index_name};
use crate::resume::{Stored, check_exclusive, records};
use crate::store::Sink;

/// Index files held at once at most.
const INDEXES: usize = 16;
/// Missing shards named in a message.
const NAMED: usize = 5;

/// Checks that every shard of the plan is there and commits the manifest. Done twice, it changes nothing the second time.
///
/// Reader indexes may take up to `memory` bytes.
pub fn publish(sink: &dyn Sink, stored: &Stored, memory: u64) -> Result<Manifest> {
    check_exclusive(sink, stored)?;
    commit(sink, prepare(sink, stored, memory)?)
}

/// The manifest that records make, with its reader indexes written, not yet committed.
pub fn prepare(sink: &dyn Sink, stored: &Stored, memory: u64) -> Result<Manifest> {
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
        .filter_map(|(shard, record)| record.is_none().then_some(shard.name.as_str()))
        .collect();
    if !missing.is_empty() {
        return Err(Error::failed(format!(
            "{sink}: {} of {} shards are not packed yet ({}{}): run `shardpack pack {sink}` first",
            missing.len(),
            records.len(),
            missing[..missing.len().min(NAMED)].join(", "),
            if missing.len() > NAMED { ", …" } else { "" }
        )));
    }
    let entries = records.into_iter().flatten().map(entry).collect();
    let mut manifest = manifest(stored, entries);
    manifest.indexes = index::export(sink, &manifest, &manifest.recipe.indexes, memory)?;
    Ok(manifest)
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
        manifest = catch_up(sink, manifest)?;
        let made = index::export(sink, &manifest, names, memory)?;
        let mut next = manifest.clone();
        next.indexes.retain(|file| !names.contains(&file.reader));
        next.indexes.extend(made);
        next.indexes.sort();
        if next.indexes == manifest.indexes {
            return Ok(manifest);
        }
        next.snapshot += 1;
        match put_all(sink, &next)? {
            None => return catch_up(sink, next),
            // Another run added its own meanwhile: ours come on top of that.
            Some(theirs) if is_of(&theirs, &manifest.plan) => {}
            Some(theirs) => return Err(disagreement(sink, &next, &theirs)),
        }
    }
}

/// Puts the snapshot and then the manifest.
pub fn commit(sink: &dyn Sink, manifest: Manifest) -> Result<Manifest> {
    match put_all(sink, &manifest)? {
        None => catch_up(sink, manifest),
        Some(theirs) => Err(disagreement(sink, &manifest, &theirs)),
    }
}

/// Puts the snapshot, what lies beside the manifest, and the manifest unless a later one is there. Gives the snapshot of this
/// number that is there instead, if one is.
fn put_all(sink: &dyn Sink, manifest: &Manifest) -> Result<Option<Bytes>> {
    let text = manifest.encode()?;
    let snapshot = snapshot_name(manifest.snapshot);
    let (beside, there, put) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| put_beside(sink, manifest));
        let there = scope.spawn(|| sink.get(MANIFEST));
        let put = put_snapshot(sink, &snapshot, &text);
        (beside.join(), there.join(), put)
    });
    if let Some(theirs) = put? {
        return Ok(Some(theirs));
    }
    beside.unwrap_or_else(|_| Err(panicked()))?;
    let there = there.unwrap_or_else(|_| Err(panicked()))?;
    // A later snapshot of the same plan has more than this one, and is not taken back.
    let later = there
        .as_deref()
        .and_then(|there| Manifest::decode(MANIFEST, there).ok())
        .is_some_and(|there| there.plan == manifest.plan && there.snapshot > manifest.snapshot);
    if !later && there.is_none_or(|there| there != text) {
        sink.put(MANIFEST, &text)?;
    }
    Ok(None)
}

/// Goes on to the last snapshot there is and makes it the manifest. Looked for after every manifest that was put: this process
/// may have slept before that, and others gone on.
fn catch_up(sink: &dyn Sink, mut manifest: Manifest) -> Result<Manifest> {
    loop {
        let mut last = None;
        for number in manifest.snapshot + 1.. {
            match sink.get(&snapshot_name(number))? {
                Some(text) if is_of(&text, &manifest.plan) => last = Some(text),
                _ => break,
            }
        }
        let Some(text) = last else {
            return Ok(manifest);
        };
        if sink.get(MANIFEST)?.is_none_or(|there| there != text) {
            sink.put(MANIFEST, &text)?;
        }
        manifest = Manifest::decode(MANIFEST, &text)?;
    }
}

/// Whether it is a snapshot of this plan.
fn is_of(snapshot: &[u8], plan: &str) -> bool {
    Manifest::decode("", snapshot).is_ok_and(|snapshot| snapshot.plan == plan)
}

fn panicked() -> Error {
    Error::failed("a publishing thread panicked")
}

/// Puts the snapshot, which may be there from an earlier run; gives what is there when that is another one.
fn put_snapshot(sink: &dyn Sink, snapshot: &str, text: &[u8]) -> Result<Option<Bytes>> {
    if sink.put_if_absent(snapshot, text)? {
        return Ok(None);
    }
    let theirs = sink.get(snapshot)?.unwrap_or_default();
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
fn read(sink: &dyn Sink, index: &str) -> Result<(Footer, (u64, u32))> {
    let damaged = |what| Error::new(Kind::Damage, format!("{sink}/{index}: {what}"));
    let file = sink.get(index)?.ok_or_else(|| damaged("it vanished"))?;
    let size = file.len() as u64;
    let footer =
        Footer::decode(index, &file, size)?.map_err(|_| damaged("its footer cannot be found"))?;
    Ok((footer, (size, crc32fast::hash(&file))))
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
    };
    (entry, footer)
}

fn manifest(stored: &Stored, entries: Vec<(ShardEntry, Footer)>) -> Manifest {
    let plan = &stored.plan;
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
    for (entry, footer) in entries {
        if let Some(split) = splits.iter_mut().find(|split| split.name == footer.split) {
            split.samples += entry.samples;
            split.bytes += entry.bytes;
            split.shards.push(entry);
        }
        skipped.extend(footer.skipped);
        odd.extend(footer.odd);
    }
    Manifest {
        kind: MANIFEST_KIND.to_owned(),
        version: 1,
        name: plan.recipe.name.clone(),
        snapshot: 1,
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

/// Writes what people and tools look for beside the manifest, before it.
fn put_beside(sink: &dyn Sink, manifest: &Manifest) -> Result<()> {
    let mut files = vec![("README.md", card::render(manifest))];
    let sums: String = manifest
        .shards()
        .filter_map(|(_, shard)| Some(format!("{}  {}\n", shard.sha256.as_ref()?, shard.name)))
        .collect();
    if !sums.is_empty() {
        files.push(("SHA256SUMS", sums));
    }
    for (name, text) in files {
        // A card that somebody completed by hand stays.
        sink.put_if_absent(name, text.as_bytes())?;
    }
    Ok(())
}
