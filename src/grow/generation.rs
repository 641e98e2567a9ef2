//! What a source that grew or changed since it was published comes to: nothing, or the plan that is packed next.
//!
//! The listing is compared with what the plans of the published shards say of every sample, and files that look touched with the checksums
//! of what was packed: nothing else is read, and what did not change is not written again. Classes keep their numbers, and a name that was ever planned is not used a second time.

use std::collections::BTreeMap;

use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::base::units::{count_text, counted};
use crate::grow::compare::{Comparison, SourceChanges, shrunk_splits};

pub(crate) use crate::grow::compare::Reading;
use crate::grow::numbering::{free_numbers, planned_numbers};
use crate::grow::places::check_fields;
use crate::grow::shards::{ShardChoice, cuts};
use crate::model::history::Changes;
use crate::model::manifest::Manifest;
use crate::model::problems::Problems;
use crate::plan::draft::Draft;
use crate::plan::order::Ordered;
use crate::plan::select::NextPlan;
use crate::plan::value::{Base, Plan};
use crate::state::plans::Stored;
use crate::store::Sink;

use crate::grow::options::{Growth, OnChange};

/// What is to be done about a source that was compared with what is published.
pub(crate) enum NextGeneration {
    /// Nothing: it is as it was, or too few samples are new.
    Unchanged(Changes),
    /// This plan is to be packed.
    Draft(Box<Draft>, Changes),
}

/// What a source is compared with.
#[derive(Clone, Copy)]
pub(crate) struct Published<'a> {
    /// The dataset.
    pub sink: &'a dyn Sink,
    /// How the source is read, where its listing does not say enough.
    pub reading: Reading<'a>,
    /// What is published of it.
    pub manifest: &'a Manifest,
    /// The plan that was claimed last, whether it was published or not.
    pub newest: &'a Plan,
}

/// Compares an ordered source with what is published, and drafts the next plan. All that changed or is gone is told to `problems`, and the
/// whole run is to stay within `memory` bytes.
///
/// # Errors
///
/// A source that the published shards have no place for, or in which samples changed or are gone, where `growth` does not say what is to
/// become of them.
pub(crate) fn grow(
    published: Published<'_>,
    mut ordered: Ordered,
    new_classes: Vec<String>,
    growth: &Growth,
    problems: &Problems,
    memory: u64,
    stop: &Stop,
) -> Result<NextGeneration> {
    let Published {
        sink,
        manifest,
        reading,
        ..
    } = published;
    check_fields(sink, manifest, &ordered, &new_classes, growth)?;
    let found = match growth.full {
        true => shrunk_splits(manifest, &ordered),
        false => {
            ordered.keep_sidecars(&manifest.names.sidecars);
            let comparison = Comparison {
                sink,
                ordered: &ordered,
                memory_bytes: memory,
                reading,
                stop,
            };
            comparison.with_published(manifest, problems)?
        }
    };
    let changes = Changes {
        new_classes,
        changed: found.shards.iter().map(|shard| shard.changed).sum(),
        touched: found.touched,
        deleted: found.shards.iter().map(|shard| shard.gone).sum(),
        ..Changes::default()
    };
    check_changes(sink, manifest, &ordered, &found, &changes, growth)?;
    next_plan(published, ordered, &found, changes, growth)
}

/// Refuses a source that does not look like the published one, and one with changes that the user did not allow.
fn check_changes(
    sink: &dyn Sink,
    manifest: &Manifest,
    ordered: &Ordered,
    found: &SourceChanges,
    changes: &Changes,
    growth: &Growth,
) -> Result<()> {
    let stale = changes.changed + changes.deleted;
    if stale > 0 && found.shards.iter().all(|shard| shard.present.is_empty()) {
        return Err(Error::new(
            Kind::Conflict,
            format!(
                "{sink}: not one of its {} samples is in the source, nothing was written: check that it is the right one, or start over with `--full`",
                count_text(changes.deleted)
            ),
        ));
    }
    if stale > 0 && growth.on_change == OnChange::Refuse {
        return Err(refusal(sink, found, changes));
    }
    // A sample that is kept in its shard is not lost.
    if growth.full || growth.on_change == OnChange::Rebuild {
        let left = |split: &str| ordered.of_split(split);
        let classes = &manifest.names.classes;
        found.removals.check(&sink, &growth.gone, left, classes)?;
        for (class, gone) in found.removals.emptied_classes() {
            let name = classes.get(class as usize).map_or("?", String::as_str);
            tracing::warn!(
                "class `{name}`: all of its {} are gone from the source",
                counted(gone, "published sample")
            );
        }
    }
    Ok(())
}

/// Drafts the next plan, if there is anything to do.
fn next_plan(
    published: Published<'_>,
    ordered: Ordered,
    found: &SourceChanges,
    mut changes: Changes,
    growth: &Growth,
) -> Result<NextGeneration> {
    let Published {
        sink,
        manifest,
        newest,
        ..
    } = published;
    let generation = newest.generation + 1;
    let samples = ordered.len();
    let choice = ShardChoice::new(sink, manifest, &found.shards, samples, generation, growth)?;
    let unpacked = choice.unpacked();
    changes.kept = choice.kept;
    changes.rebuilt = choice.rebuilt.len() as u64;
    changes.merged = choice.merged;
    changes.new = unpacked.len() as u64 - choice.merged_samples;
    let nothing_else = choice.keeps_all() && !growth.full;
    if nothing_else && changes.new < growth.min_new_samples {
        changes.waiting = changes.new;
    }
    if nothing_else && (unpacked.is_empty() || changes.waiting > 0) {
        return Ok(NextGeneration::Unchanged(changes));
    }
    let of_places = choice.places.keys();
    let mut splits: Vec<String> = of_places.chain(ordered.splits()).cloned().collect();
    splits.sort();
    splits.dedup();
    let next = NextPlan {
        generation,
        base: Some(Base {
            plan: manifest.plan.clone(),
            shards: choice.places,
        }),
        splits,
        // Shards that are made again have the samples as they are now.
        stale: match growth.on_change {
            OnChange::Keep => changes.changed + changes.deleted,
            _ => 0,
        },
        numbers: free_numbers(manifest, newest),
        rebuilt: choice.rebuilt,
        fresh: (!growth.full).then_some(unpacked),
        cuts: match growth.full {
            true => BTreeMap::new(),
            false => cuts(manifest),
        },
    };
    let draft = ordered.cut_next(next)?;
    Ok(NextGeneration::Draft(Box::new(draft), changes))
}

/// Whether all samples of an unfinished plan are as they were when it was made, so that it can be finished. The whole run is to stay within
/// `memory` bytes.
pub(crate) fn still_holds(
    sink: &dyn Sink,
    stored: &Stored,
    ordered: &Ordered,
    memory: u64,
    reading: Reading<'_>,
    stop: &Stop,
) -> Result<bool> {
    let comparison = Comparison {
        sink,
        ordered,
        memory_bytes: memory,
        reading,
        stop,
    };
    comparison.is_as_planned(stored)
}

/// The plan of a destination where a plan was stored and nothing published, whose place this one takes.
pub(crate) fn start_over(newest: &Plan, ordered: Ordered) -> Result<Draft> {
    let next = NextPlan {
        generation: newest.generation + 1,
        splits: ordered.splits().to_vec(),
        numbers: planned_numbers(newest),
        ..NextPlan::default()
    };
    ordered.cut_next(next)
}

fn refusal(sink: &dyn Sink, found: &SourceChanges, changes: &Changes) -> Error {
    let mut text = format!(
        "{sink}: {} changed and {} are gone since they were published, nothing was written: restore them, or say what is to become \
         of their shards: `--on-change rebuild` makes them again, `--on-change keep` leaves them as they are",
        counted(changes.changed, "sample"),
        count_text(changes.deleted)
    );
    let lists = [
        ("changed", &found.changed),
        ("gone   ", found.removals.paths()),
    ];
    for (what, paths) in lists {
        text.push_str(&paths.lines(&format!("  {what} "), ToString::to_string));
    }
    Error::source_data(text)
}
