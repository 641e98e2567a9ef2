//! The snapshots that lie around one: each goes on from the one before, and a later one is never taken back.

use crate::base::error::{Result, unless_damaged};
use crate::model::manifest::{Manifest, SNAPSHOT_DIR, snapshot_name, snapshot_number};
use crate::store::Sink;

/// The newest snapshot after the one of this number, if there is a later one. One that cannot be read is passed over.
///
/// Found by a listing: those in between may be gone.
pub(crate) fn later_snapshot(sink: &dyn Sink, number: u64) -> Result<Option<Manifest>> {
    let names = sink.list(SNAPSHOT_DIR)?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|(name, _)| snapshot_number(name))
        .filter(|&there| there > number)
        .collect();
    numbers.sort_unstable();
    for number in numbers.into_iter().rev() {
        let name = snapshot_name(number);
        let Some(text) = sink.get(&name)? else {
            continue;
        };
        let manifest = unless_damaged(Manifest::decode(&format!("{sink}/{name}"), &text))?;
        if let Some(manifest) = manifest.filter(|manifest| manifest.snapshot == number) {
            return Ok(Some(manifest));
        }
    }
    Ok(None)
}

/// The last `count` snapshots before this one, the latest first; fewer where one is gone.
pub(super) fn snapshots_before(
    sink: &dyn Sink,
    manifest: &Manifest,
    count: usize,
) -> Result<Vec<Manifest>> {
    let mut before = Vec::new();
    for number in (1..manifest.snapshot).rev().take(count) {
        let name = snapshot_name(number);
        let Some(text) = sink.get(&name)? else {
            break;
        };
        before.extend(unless_damaged(Manifest::decode(&name, &text))?);
    }
    Ok(before)
}
