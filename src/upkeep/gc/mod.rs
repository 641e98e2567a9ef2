//! What nothing needs any more is found and removed: what killed runs left half written, and finished objects that no snapshot names and no
//! plan still can.
//!
//! Only names that this program gave are looked at: temporary files and uploads of its own, and what claimed plans, snapshots and claims
//! name. Everything is listed first and judged by what the destination says of itself afterwards, so that what begins meanwhile is in
//! neither list. Removed is in such an order that a run which ends in the middle leaves a dataset whose every snapshot is whole, and
//! knows the rest the next time. Claims stay: numbers are never given twice.

mod garbage;
mod inventory;
mod objects;

use std::collections::HashSet;
use std::time::Duration;

use crate::base::error::Result;
use crate::model::manifest::{MANIFEST, STATE, snapshot_number};
use crate::publish::card::CARD;
use crate::publish::companions::SUMS;
use crate::store::{Leftover, ObjectMeta, Sink, at_once};
pub(crate) use crate::upkeep::gc::garbage::EARLIER_SNAPSHOT;
use crate::upkeep::gc::garbage::UnusedObject;
use crate::upkeep::gc::inventory::Inventory;

/// What to remove.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemovalRules {
    /// Younger ones are left alone: no run may stand still for longer.
    pub older_than: Duration,
    /// So many snapshots stay, at least 1; all of them where nothing is said.
    pub keep: Option<usize>,
    /// Nothing is removed.
    pub dry_run: bool,
}

/// What was found, each list in the order in which it is removed.
#[derive(Debug, Default)]
pub(crate) struct RemovalOutcome {
    /// Removed, or to be removed.
    pub removed: Vec<Leftover>,
    /// Too young.
    pub young: Vec<Leftover>,
    /// Not of this dataset.
    pub foreign: Vec<Leftover>,
    /// Where nothing was removed: earlier snapshots and what only they need, which stay because nobody said that they may go.
    pub kept: Vec<Leftover>,
    /// Whether those are older than [`RemovalRules::older_than`].
    pub kept_is_old: bool,
}

/// Finds what nothing needs and removes what the rules allow.
pub(crate) fn collect(sink: &dyn Sink, rules: &RemovalRules) -> Result<RemovalOutcome> {
    let leftovers = sink.leftovers()?;
    let objects = sink.list_with_ages("")?;
    if leftovers.is_empty() && objects.is_empty() {
        tracing::warn!("{sink} holds nothing: is it the right place?");
    }
    let mut outcome = RemovalOutcome::default();
    let inventory = inventory::take(sink, &objects, rules)?;
    discard(sink, leftovers, &inventory, rules, &mut outcome)?;
    let garbage = garbage::find(&objects, &inventory, rules.older_than);
    for stage in garbage.old.values() {
        if !rules.dry_run {
            at_once(sink.requests(), stage, |unused| {
                sink.remove(&unused.object.name)
            })?;
        }
        outcome.removed.extend(stage.iter().map(leftover));
    }
    outcome.young.extend(garbage.young.iter().map(leftover));
    let is_snapshot = |object: &&ObjectMeta| snapshot_number(&object.name).is_some();
    // Of one snapshot none is earlier, and nothing has to be read to know that.
    let has_earlier = objects.iter().filter(is_snapshot).nth(1).is_some();
    if has_earlier && outcome.removed.is_empty() && rules.keep.is_none() {
        for (older_than, is_old) in [(rules.older_than, true), (Duration::ZERO, false)] {
            outcome.kept = only_kept(sink, &objects, older_than, &outcome)?;
            outcome.kept_is_old = is_old;
            if !outcome.kept.is_empty() {
                break;
            }
        }
    }
    Ok(outcome)
}

/// What would go besides, if only the newest snapshot were kept.
fn only_kept(
    sink: &dyn Sink,
    objects: &[ObjectMeta],
    older_than: Duration,
    outcome: &RemovalOutcome,
) -> Result<Vec<Leftover>> {
    let rules = RemovalRules {
        older_than,
        keep: Some(1),
        dry_run: true,
    };
    let inventory = inventory::take(sink, objects, &rules)?;
    if inventory.dropped.is_empty() {
        return Ok(Vec::new());
    }
    let garbage = garbage::find(objects, &inventory, older_than);
    let known: HashSet<&str> = outcome
        .young
        .iter()
        .map(|young| young.name.as_str())
        .collect();
    let all = garbage.old.values().flatten();
    let kept = all.filter(|unused| !known.contains(unused.object.name.as_str()));
    Ok(kept.map(leftover).collect())
}

fn leftover(unused: &UnusedObject<'_>) -> Leftover {
    Leftover {
        name: unused.object.name.clone(),
        what: unused.what,
        bytes: Some(unused.object.bytes),
        age: unused.object.age,
        id: String::new(),
        ours: true,
    }
}

/// Removes what was left half written.
fn discard(
    sink: &dyn Sink,
    mut leftovers: Vec<Leftover>,
    inventory: &Inventory,
    rules: &RemovalRules,
    outcome: &mut RemovalOutcome,
) -> Result<()> {
    leftovers.sort_by(|a, b| a.name.cmp(&b.name));
    let plans = inventory.plans.values();
    let planned: HashSet<String> = plans
        .flat_map(|plan| plan.files().map(|file| file.name))
        .collect();
    for leftover in leftovers {
        let name = leftover.name.as_str();
        let named = [MANIFEST, CARD, SUMS].contains(&name)
            || planned.contains(name)
            || name.starts_with(&format!("{STATE}/"));
        if !leftover.ours && !named {
            outcome.foreign.push(leftover);
        } else if leftover.age < rules.older_than {
            outcome.young.push(leftover);
        } else {
            if !rules.dry_run {
                sink.discard(&leftover)?;
            }
            outcome.removed.push(leftover);
        }
    }
    Ok(())
}
