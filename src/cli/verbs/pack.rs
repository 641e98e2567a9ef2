//! `pack`: write this worker's shards of the stored plan; those with a record are not touched.

use super::cost::check_room;
use super::next;
use super::origin::planned_source;
use super::publish::finish;
use super::summary::Summary;
use crate::base::error::{Error, Result};
use crate::base::units::{count_text, counted};
use crate::cli::settings::{FanOut, Running, check_build};
use crate::model::offenders::Offender;
use crate::model::policy::Policy;
use crate::model::record::Remark;
use crate::pack::pipeline::{self};
use crate::pack::run::RefusedSamples;
use crate::pack::run::Run;
use crate::plan::budget::Budget;
use crate::plan::worker::Worker;
use crate::state::claims::load;
use crate::state::done::done;
use crate::state::done::unpacked;
use crate::state::plans::Stored;
use crate::state::refusals::refuse_later;
use crate::store::{self, Sink, Source};

/// Packs this worker's part of the destination's plan.
pub(crate) fn run(
    destination: &str,
    source: Option<&str>,
    fan_out: FanOut,
    policy: Policy,
    running: &Running,
) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    on(sink.as_ref(), source, fan_out, policy, running)
}

/// The same on an opened destination.
pub(crate) fn on(
    sink: &dyn Sink,
    source: Option<&str>,
    fan_out: FanOut,
    policy: Policy,
    running: &Running,
) -> Result<Summary> {
    refuse_later(sink)?;
    let stored = load(sink)?;
    let planned = planned_source(sink, &stored.id)?;
    // A name that was never tried may be a wrong one.
    let tried = source.is_none() || source == planned.as_deref();
    let location = source.map(str::to_owned).or(planned).ok_or_else(|| {
        Error::usage(format!(
            "{sink}: nothing says where the source lies: add `--source SRC`"
        ))
    })?;
    let source = store::source(&location, &running.access).map_err(|error| match tried {
        true => error.known_to_have_been_there(&location),
        false => error,
    })?;
    sink.sweep()?;
    let budget = running.budget(&stored.plan, source.as_ref(), sink)?;
    let packed = pack(
        &stored,
        source.as_ref(),
        sink,
        fan_out.worker,
        policy,
        budget,
        running,
    )?;
    end_part(&stored, sink, fan_out, packed, running)
}

/// Publishes after this worker's part, if it is to and nothing is left to pack; several may find that at once, and publish the same.
pub(crate) fn end_part(
    stored: &Stored,
    sink: &dyn Sink,
    fan_out: FanOut,
    packed: Summary,
    running: &Running,
) -> Result<Summary> {
    let packed = Summary {
        done: "packed",
        destination: Some(sink.to_string()),
        plan: Some(stored.digest.clone()),
        ..packed
    };
    if !fan_out.publish {
        let next = match packed.shards == stored.plan.shards.len() as u64 {
            true => vec![next::command("publish", &sink.to_string(), &[], running)],
            false => Vec::new(),
        };
        return Ok(Summary { next, ..packed });
    }
    let left = unpacked(sink, stored)?.len();
    if left > 0 {
        tracing::info!(
            "{left} of {} left to other workers: the last one publishes",
            counted(stored.plan.shards.len() as u64, "shard")
        );
        return Ok(packed);
    }
    finish(stored, sink, packed, running)
}

/// Packs what has no record yet; refuses, with all of them named, when samples at fault were found.
pub(crate) fn pack(
    stored: &Stored,
    source: &dyn Source,
    sink: &dyn Sink,
    worker: Worker,
    policy: Policy,
    budget: Budget,
    running: &Running,
) -> Result<Summary> {
    check_build(&stored.plan.recipe)?;
    let part = stored.plan.part(worker);
    let done = done(sink, stored, &part)?;
    let todo: Vec<usize> = part
        .iter()
        .zip(&done)
        .filter_map(|(shard, done)| done.is_none().then_some(*shard))
        .collect();
    let sum = |shards: &[usize], of: fn(&crate::plan::value::ShardPlan) -> u64| -> u64 {
        shards
            .iter()
            .map(|&shard| of(&stored.plan.shards[shard]))
            .sum()
    };
    let mut skipped: Vec<Remark> = Vec::new();
    let mut odd: Vec<Remark> = Vec::new();
    for footer in done.into_iter().flatten() {
        skipped.extend(footer.skipped);
        odd.extend(footer.odd);
    }
    let run = Run {
        source,
        sink,
        stored,
        budget,
        cores: running.cores,
        policy,
        skipped_before: skipped.len() as u64,
        counters: &running.counters,
        stop: &running.stop,
        problems: running.problems.clone(),
    };
    check_room(sink, &stored.plan, &todo)?;
    running.counters.begin(
        "pack",
        sum(&todo, |shard| shard.samples),
        sum(&todo, |shard| shard.source_bytes),
        todo.len() as u64,
    );
    source.lend(running.cores.saturating_sub(budget.jobs.min(todo.len())));
    let outcome = pipeline::pack(&run, &todo)?;
    if !outcome.refused.is_empty() {
        return Err(refusal(&outcome.refused, policy, outcome.skips));
    }
    skipped.extend(outcome.skipped);
    odd.extend(outcome.odd);
    Ok(Summary {
        samples: sum(&part, |shard| shard.samples) - skipped.len() as u64,
        shards: part.len() as u64,
        shards_reused: (part.len() - todo.len()) as u64,
        bytes: sum(&part, |shard| shard.bytes),
        bytes_read: sum(&todo, |shard| shard.source_bytes),
        skipped,
        odd,
        ..Summary::default()
    })
}

fn refusal(refused: &RefusedSamples, policy: Policy, skipped: u64) -> Error {
    let mut text = format!(
        "{} cannot be packed, nothing was published; finished shards are kept",
        counted(refused.count(), "sample")
    );
    if !refused.stale.is_empty() && !refused.damaged.is_empty() {
        let (stale, damaged) = (refused.stale.count(), refused.damaged.count());
        text.push_str(&format!(
            ": {} changed or gone after planning, {} damaged",
            count_text(stale),
            count_text(damaged)
        ));
    }
    // Some reasons name the path themselves.
    let line = |Offender { path, reason }: &Offender| {
        let path = path.to_string();
        match reason.starts_with(&path) {
            true => reason.clone(),
            false => format!("{path}: {reason}"),
        }
    };
    for list in [&refused.damaged, &refused.stale] {
        text.push_str(&list.lines("  ", line));
    }
    text.push_str(&match policy {
        Policy::Fail => "\n  repair or remove them and plan again, or run again with `--on-error skip` to leave damaged ones out".to_owned(),
        Policy::Skip { at_most } if skipped >= at_most => {
            format!("\n  `--max-skipped {at_most}` is used up: raise it, or repair them")
        }
        Policy::Skip { .. } => "\n  only damaged images can be skipped: mend the source and plan again".to_owned(),
    });
    Error::source_data(text)
}
