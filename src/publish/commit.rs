//! Records become a snapshot, put if absent, and then `manifest.json`: the one moment at which a dataset appears.

use bytes::Bytes;

use crate::base::error::{Error, Kind, Result};
use crate::model::manifest::{MANIFEST, Manifest, snapshot_name};
use crate::model::version;
use crate::publish::companions::{catch_up, put_companions, restore_companions};
use crate::publish::readers::{ExportedFiles, NamedFile, export_readers};
use crate::publish::records::prepare;
use crate::state::plans::Stored;
use crate::state::published::load;
use crate::state::storing::check_exclusive;
use crate::store::Sink;

/// Checks that every shard of the plan is there and commits the manifest. Done twice, it changes nothing the second time.
///
/// Reader indexes may take up to `memory` bytes.
pub(crate) fn publish(sink: &dyn Sink, stored: &Stored, memory: u64) -> Result<Manifest> {
    check_exclusive(sink, stored)?;
    loop {
        let published = newest_snapshot(sink, memory)?;
        let base = match (&stored.plan.base, published) {
            // Its first snapshot may be gone by now.
            (_, Some(published)) if published.plan == stored.digest && published.snapshot > 1 => {
                return restore_companions(sink, published, Vec::new(), memory);
            }
            (None, _) => None,
            (Some(base), Some(published)) if published.plan == base.plan => Some(published),
            (Some(_), published) => return Err(overtaken(sink, published.as_ref())),
        };
        let (manifest, made) = prepare(sink, stored, base.as_ref(), memory)?;
        let Some(theirs) = put_snapshot(sink, &manifest, &manifest.encode()?)? else {
            return put_companions(sink, manifest, made, memory);
        };
        // Where an index was added to what this goes on from, the next turn goes on from that.
        if !base.is_some_and(|base| is_next(&theirs, &manifest, &base.plan)) {
            return Err(disagreement(sink, &manifest, &theirs));
        }
    }
}

/// The last snapshot there is, made the manifest if it was not yet. Reader indexes that this takes are made from records, in at most
/// `memory` bytes.
pub(crate) fn newest_snapshot(sink: &dyn Sink, memory: u64) -> Result<Option<Manifest>> {
    load(sink)?
        .map(|manifest| catch_up(sink, manifest, memory))
        .transpose()
}

/// Why a plan cannot be published that goes on from another snapshot than the newest.
fn overtaken(sink: &dyn Sink, published: Option<&Manifest>) -> Error {
    match published {
        Some(published) => Error::new(
            Kind::Conflict,
            format!(
                "{sink}: another plan was published meanwhile, as snapshot {}: run again to go on from that",
                published.snapshot
            ),
        ),
        None => Error::new(
            Kind::Damage,
            format!(
                "{sink}/{MANIFEST}: missing, and the plan goes on from it: run `shardpack repair {sink_word}`",
                sink_word = sink.word()
            ),
        ),
    }
}

/// Adds reader indexes to what is published, as the next snapshot; what is there already is not made again.
pub(crate) fn add_indexes(
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
        match put_snapshot(sink, &next, &next.encode()?)? {
            None => return put_companions(sink, next, of_dataset, memory),
            // Another run added its own meanwhile: ours come on top of that.
            Some(theirs) if is_next(&theirs, &next, &manifest.plan) => {}
            Some(theirs) => return Err(disagreement(sink, &next, &theirs)),
        }
    }
}

/// Puts the snapshot and then what lies beside it. It has no reader indexes.
pub(crate) fn commit_snapshot(
    sink: &dyn Sink,
    manifest: Manifest,
    memory: u64,
) -> Result<Manifest> {
    let text = manifest.encode()?;
    commit_copy(sink, manifest, &text, Vec::new(), memory)
}

/// The same of a manifest whose bytes are these, with reader indexes of the whole dataset, `made` already where they are.
pub(crate) fn commit_copy(
    sink: &dyn Sink,
    manifest: Manifest,
    text: &[u8],
    made: Vec<NamedFile>,
    memory: u64,
) -> Result<Manifest> {
    match put_snapshot(sink, &manifest, text)? {
        None => put_companions(sink, manifest, made, memory),
        Some(theirs) => Err(disagreement(sink, &manifest, &theirs)),
    }
}

/// Adds reader indexes to a manifest that is not committed yet, and gives those of the whole dataset, which are to be put after it.
pub(crate) fn export_copy(
    sink: &dyn Sink,
    manifest: &mut Manifest,
    readers: &[String],
    memory: u64,
) -> Result<Vec<NamedFile>> {
    let exported = export_readers(sink, manifest, readers, memory)?;
    manifest.indexes = exported.entries;
    Ok(exported.of_dataset)
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
fn put_snapshot(sink: &dyn Sink, manifest: &Manifest, text: &[u8]) -> Result<Option<Bytes>> {
    let snapshot = snapshot_name(manifest.snapshot);
    if sink.put_if_absent(&snapshot, text)? {
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
                "{sink}: shards or indexes are not those that {snapshot} was published with: run `shardpack verify {sink_word}`",
                sink_word = sink.word()
            ),
        ),
        false => Error::new(
            Kind::Conflict,
            format!("{sink}/{snapshot} was published by another plan: choose another destination"),
        ),
    }
}
