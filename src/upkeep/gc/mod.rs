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
use crate::model::manifest::{MANIFEST, STATE};
use crate::publish::card::CARD;
use crate::publish::companions::SUMS;
use crate::store::{Leftover, Sink, at_once};
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
    let leftover = |unused: &UnusedObject<'_>| Leftover {
        name: unused.object.name.clone(),
        what: unused.what,
        bytes: Some(unused.object.bytes),
        age: unused.object.age,
        id: String::new(),
        ours: true,
    };
    for stage in garbage.old.values() {
        if !rules.dry_run {
            at_once(sink.requests(), stage, |unused| {
                sink.remove(&unused.object.name)
            })?;
        }
        outcome.removed.extend(stage.iter().map(leftover));
    }
    outcome.young.extend(garbage.young.iter().map(leftover));
    Ok(outcome)
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
