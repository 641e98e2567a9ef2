//! `convert`: plan, pack and publish in one process.

use super::summary::Summary;
use super::{pack, plan};
use crate::error::Result;
use crate::policy::Policy;
use crate::publish::publish;
use crate::scheduler::Worker;
use crate::settings::{FanOut, Planning, Running};
use crate::store::{self, Sink};

/// Converts, going on where an earlier run of the same plan stopped. One of several workers packs its part only.
pub fn run(
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
pub fn on(
    sink: &dyn Sink,
    planning: &Planning,
    policy: Policy,
    fan_out: Option<FanOut>,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let source = store::source(&planning.source, &running.access)?;
    let draft = plan::draft(planning, source.as_ref(), sink, running)?;
    if dry_run {
        return Ok(Summary::text(plan::describe(&draft, source.as_ref())?));
    }
    plan::tell_saving(&draft, source.as_ref())?;
    // Before anything is written: a destination is not claimed for a run that cannot start.
    let budget = running.budget(&draft.plan, source.as_ref(), sink)?;
    let (published, stored) = std::thread::scope(|scope| {
        let published = scope.spawn(|| plan::published(&draft, sink));
        let stored = plan::store_plan(&draft, sink);
        (published.join(), stored)
    });
    let stored = stored?;
    let published = published.unwrap_or_else(|_| Ok(None))?.is_some();
    // The compact listing is not needed any more, and packing wants the memory.
    drop(draft);
    let packed = pack::pack(
        &stored,
        source.as_ref(),
        sink,
        fan_out.map_or(Worker::ALONE, |fan_out| fan_out.worker),
        policy,
        budget,
        running,
    )?;
    if let Some(fan_out) = fan_out {
        return pack::end_part(&stored, sink, fan_out, packed, running);
    }
    running.counters.begin("publish", 0, 0, 0);
    let manifest = publish(sink, &stored, running.memory)?;
    Ok(Summary {
        done: if published && packed.shards_reused == packed.shards {
            "up to date:"
        } else {
            "published"
        },
        destination: Some(sink.to_string()),
        plan: Some(stored.digest),
        samples: manifest.samples,
        bytes: manifest.bytes,
        ..packed
    })
}
