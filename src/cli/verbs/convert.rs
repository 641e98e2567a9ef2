//! `convert`: plan, pack and publish in one process.

use super::cost::check_room;
use super::decide::{Decided, Decision, SourceSince, decide};
use super::describe::{describe, tell_saving};
use super::origin::open_source;
use super::publish::finish;
use super::summary::Summary;
use super::{pack, plan, way};
use crate::base::error::Result;
use crate::cli::settings::{FanOut, Planning, Running};
use crate::model::policy::Policy;
use crate::plan::worker::Worker;
use crate::state::storing::store;
use crate::state::walks;
use crate::store::{self, Sink, Source};

/// Converts, going on where an earlier run of the same plan stopped. One of several workers packs its part only.
pub(crate) fn run(
    planning: &Planning,
    policy: Policy,
    fan_out: Option<FanOut>,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let sink = store::sink(&planning.destination, &running.access)?;
    on(sink.as_ref(), planning, policy, fan_out, dry_run, running)
}

/// The same on an opened destination.
pub(crate) fn on(
    sink: &dyn Sink,
    planning: &Planning,
    policy: Policy,
    fan_out: Option<FanOut>,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let source = open_source(planning, sink, running)?;
    let (summary, since) = from(
        source.as_ref(),
        sink,
        planning,
        policy,
        fan_out,
        dry_run,
        running,
    )?;
    match since {
        SourceSince::Unchanged => Ok(summary),
        // An earlier run's plan comes first, so that nothing of its work is lost.
        SourceSince::Changed => on(sink, planning, policy, None, dry_run, running),
    }
}

/// The same from an opened source; says too whether there is more in it than what was converted now.
pub(super) fn from(
    source: &dyn Source,
    sink: &dyn Sink,
    planning: &Planning,
    policy: Policy,
    fan_out: Option<FanOut>,
    dry_run: bool,
    running: &Running,
) -> Result<(Summary, SourceSince)> {
    let whole = |summary| (summary, SourceSince::Unchanged);
    let decided = decide(planning, source, sink, dry_run, running)?;
    if dry_run {
        let estimate = &planning.estimate;
        return describe(&decided, source, sink, estimate, running).map(whole);
    }
    sink.sweep()?;
    let Decided { decision, outline } = decided;
    let (stored, since, changes) = match decision {
        Decision::UpToDate(manifest, changes) => {
            return plan::up_to_date(sink, *manifest, changes, outline, running).map(whole);
        }
        Decision::GoOn(stored, since) => (*stored, since, None),
        Decision::New(draft, changes) => {
            way::of_plan(sink, &draft.plan, |what| way::check(sink, what, running))?;
            tell_saving(&draft, source)?;
            let shards: Vec<usize> = (0..draft.plan.shards.len()).collect();
            check_room(sink, &draft.plan, &shards)?;
            // Before anything is written: a destination is not claimed for a run that cannot start.
            running.budget(&draft.plan, source, sink)?;
            // The compact listing is not needed any more then, and packing wants the memory.
            let changes = draft.plan.base.is_some().then_some(changes);
            let stored = store(sink, &draft)?;
            walks::keep(sink, &stored.id, source);
            (stored, SourceSince::Unchanged, changes)
        }
    };
    let budget = running.budget(&stored.plan, source, sink)?;
    let packed = pack::pack(
        &stored,
        source,
        sink,
        fan_out.map_or(Worker::ALONE, |fan_out| fan_out.worker),
        policy,
        budget,
        running,
    )?;
    let packed = Summary {
        changed: Some(true),
        changes,
        source: Some(outline),
        ..packed
    };
    if let Some(fan_out) = fan_out {
        return pack::end_part(&stored, sink, fan_out, packed, running).map(whole);
    }
    Ok((finish(&stored, sink, packed, running)?, since))
}
