//! Files of somebody else where reader indexes are to be: refused before anything is written, or moved out of the way by `--replace`.

use crate::base::error::Result;
use crate::cli::settings::Running;
use crate::model::manifest::Manifest;
use crate::model::record::index_name;
use crate::plan::value::Plan;
use crate::publish::readers::{Described, files_in_the_way, refuse_to_replace};
use crate::state::published;
use crate::store::Sink;

/// Refuses files in the way of these indexes, unless they are to be replaced.
pub(super) fn check(sink: &dyn Sink, what: &Described<'_>, running: &Running) -> Result<()> {
    match running.replace {
        true => Ok(()),
        false => refuse_to_replace(sink, &files_in_the_way(sink, what)?),
    }
}

/// The same, and removes those that are to be replaced: what is written next takes their place.
pub(super) fn clear(sink: &dyn Sink, what: &Described<'_>, running: &Running) -> Result<()> {
    let there = files_in_the_way(sink, what)?;
    if !running.replace {
        return refuse_to_replace(sink, &there);
    }
    for name in there {
        tracing::warn!("{sink}/{name}: replaced");
        sink.remove(&name)?;
    }
    Ok(())
}

/// Names of the indexes that publishing a plan writes: those it was made with, and those of what it goes on from.
fn indexes(plan: &Plan, published: Option<&Manifest>) -> Vec<String> {
    match published {
        Some(base) => base.readers(),
        None => plan.recipe.indexes.clone(),
    }
}

/// What publishing a plan describes, given to `then`.
pub(super) fn of_plan(
    sink: &dyn Sink,
    plan: &Plan,
    then: impl FnOnce(&Described<'_>) -> Result<()>,
) -> Result<()> {
    let published = match plan.base.is_some() {
        true => published::load(sink)?,
        false => None,
    };
    then(&Described {
        recipe: &plan.recipe,
        splits: plan.dataset(),
        indexes: &indexes(plan, published.as_ref()),
        record: &|shard| Some(index_name(shard)),
    })
}
