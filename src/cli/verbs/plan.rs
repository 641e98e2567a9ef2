//! `plan`: list the source, fix order and boundaries, store the plan; or only say what it would be.

use super::decide::{Decided, Decision, decide};
use super::describe::{describe, tell_saving};
use super::origin::open_source;
use super::summary::Summary;
use super::{next, way};
use crate::base::error::Result;
use crate::cli::file::{self};
use crate::cli::settings::{PlanOutputs, Planning, Running};
use crate::model::history::Changes;
use crate::model::manifest::Manifest;
use crate::publish::companions::restore_companions;
use crate::publish::reading::reading;
use crate::source::outline::Outline;
use crate::state::names::source_name;
use crate::state::storing::store;
use crate::state::walks;
use crate::store::{self, Sink};

/// Plans; stores the plan unless this is a dry run.
pub(crate) fn run(
    planning: &Planning,
    outputs: &PlanOutputs,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let sink = store::sink(&planning.destination, &running.access)?;
    let summary = on(sink.as_ref(), planning, dry_run, running)?;
    if dry_run {
        return Ok(summary);
    }
    let changed = summary.changed.unwrap_or(true);
    if let Some((path, most)) = &outputs.workers {
        let workers = match changed {
            true => summary.shards.min(*most as u64),
            false => 0,
        };
        file::write("--out-workers", path, workers.to_string().as_bytes())?;
    }
    if let Some(path) = &outputs.changed {
        file::write("--out-changed", path, changed.to_string().as_bytes())?;
    }
    Ok(summary)
}

/// The same on an opened destination.
pub(crate) fn on(
    sink: &dyn Sink,
    planning: &Planning,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let source = open_source(planning, sink, running)?;
    let decided = decide(planning, source.as_ref(), sink, dry_run, running)?;
    if dry_run {
        let estimate = &planning.estimate;
        return describe(&decided, source.as_ref(), sink, estimate, running);
    }
    sink.sweep()?;
    let Decided { decision, outline } = decided;
    let (stored, changes) = match decision {
        Decision::UpToDate(manifest, changes) => {
            return up_to_date(sink, *manifest, changes, outline, running);
        }
        Decision::GoOn(stored, _) => (*stored, None),
        Decision::New(draft, changes) => {
            way::of_plan(sink, &draft.plan, |what| way::check(sink, what, running))?;
            tell_saving(&draft, source.as_ref())?;
            let changes = draft.plan.base.is_some().then_some(changes);
            (store(sink, &draft)?, changes)
        }
    };
    walks::keep(sink, &stored.id, source.as_ref());
    let location = store::absolute(&planning.source);
    sink.put(&source_name(&stored.id), location.as_bytes())?;
    Ok(Summary {
        done: "planned",
        next: ["pack", "publish"]
            .map(|verb| next::command(verb, &sink.to_string(), &[], running))
            .to_vec(),
        changed: Some(true),
        changes,
        source: Some(outline),
        destination: Some(sink.to_string()),
        plan: Some(stored.digest),
        samples: stored.plan.samples(),
        shards: stored.plan.shards.len() as u64,
        bytes: stored.plan.bytes(),
        ..Summary::default()
    })
}

/// What a run says that has nothing to do but to put right what lies beside the manifest: a process that slept through the publication
/// of this snapshot and died may have left what belongs to an earlier one.
pub(super) fn up_to_date(
    sink: &dyn Sink,
    manifest: Manifest,
    changes: Changes,
    outline: Outline,
    running: &Running,
) -> Result<Summary> {
    let manifest = restore_companions(sink, manifest, Vec::new(), running.memory)?;
    let shards = manifest.shards().count() as u64;
    Ok(Summary {
        done: "up to date:",
        changed: Some(false),
        read: reading(&manifest, &sink.to_string()).map(|reading| reading.line),
        next: vec![next::command("verify", &sink.to_string(), &[], running)],
        destination: Some(sink.to_string()),
        plan: Some(manifest.plan),
        samples: manifest.samples,
        shards,
        shards_reused: shards,
        bytes: manifest.bytes,
        changes: Some(changes),
        source: Some(outline),
        skipped: manifest.skipped,
        odd: manifest.odd,
        ..Summary::default()
    })
}
