//! `copy`: a dataset, or a part of it, at another place.

use super::copied::CopyReport;
use super::next;
use super::summary::Summary;
use crate::base::error::{Error, Result};
use crate::cli::settings::{CopyScope, Running};
use crate::model::manifest::{Manifest, ShardEntry};
use crate::plan::budget::{Overhead, divide_copy};
use crate::store::{self, Sink};
use crate::upkeep::copy::{Copied, Copy, Original, copy};

/// Shards that pass through this machine at once at least, when nothing is said: copying waits for the other side, and at the end of each
/// shard for the disk, longer than it keeps a core busy.
const LEAST_JOBS: usize = 4;
/// And at most.
const MOST_JOBS: usize = 64;
/// So much is to be under way to or from a store whose every answer takes time: what a good link carries in that.
const UNDER_WAY_BYTES: u64 = 256 << 20;

/// Copies what is wanted of `source` to `destination`, or says what it would copy.
pub(crate) fn run(
    source: &str,
    destination: &str,
    scope: &CopyScope,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    running.counters.begin("list", 0, 0, 0);
    let from = store::sink(source, &running.access)?;
    let original = Original::load(from.as_ref());
    let original = original.map_err(|error| unpublished(error, from.as_ref(), destination))?;
    let to = store::sink(destination, &running.access)?;
    to.check_apart(source)?;
    let copied = copy(&Copy {
        from: from.as_ref(),
        original: &original,
        to: to.as_ref(),
        selection: &scope.selection,
        shard_bytes: scope.shard_bytes,
        jobs: jobs(
            from.as_ref(),
            to.as_ref(),
            &original.manifest,
            scope.shard_bytes,
            running,
        )?,
        memory: running.memory,
        dry_run,
        counters: &running.counters,
        stop: &running.stop,
    })?;
    Ok(summary(
        copied,
        from.as_ref(),
        to.as_ref(),
        dry_run,
        running,
    ))
}

/// An error over a source that is no dataset, or none yet.
fn unpublished(error: Error, from: &dyn Sink, destination: &str) -> Error {
    match from.list("").is_ok_and(|objects| objects.is_empty()) {
        true => Error::new(
            error.kind(),
            format!(
                "{from} holds nothing: `copy` takes a dataset first and then where it goes, here {destination}"
            ),
        ),
        false => error,
    }
}

/// Shards that pass through this machine at once.
fn jobs(
    from: &dyn Sink,
    to: &dyn Sink,
    manifest: &Manifest,
    shard_bytes: Option<u64>,
    running: &Running,
) -> Result<usize> {
    let shards: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
    let most = |of: fn(&ShardEntry) -> u64| shards.iter().map(|&shard| of(shard)).max();
    let (samples, bytes) = (most(|shard| shard.samples), most(|shard| shard.bytes));
    // Of a small shard not all that may be read ahead is.
    let held = from.reading_bytes().min(bytes.unwrap_or(0));
    let is_far = from.requests().max(to.requests()) > 1;
    let jobs = running.jobs.unwrap_or_else(|| {
        let of_size = UNDER_WAY_BYTES.div_ceil(bytes.unwrap_or(0).clamp(1, UNDER_WAY_BYTES));
        let of_size = if is_far { of_size as usize } else { 0 };
        of_size
            .min(MOST_JOBS)
            .max(LEAST_JOBS.max(2 * running.cores))
    });
    let overhead = Overhead {
        bytes: to.writing_bytes(),
        job_bytes: held,
        ..Overhead::default()
    };
    let jobs = jobs.min(shards.len());
    // A joined shard has the samples of several; twice as many as on average are a shard of small ones.
    let of_bytes = |bytes: u64| {
        let share = bytes as f64 / manifest.bytes.max(1) as f64;
        ((manifest.samples as f64 * share * 2.0) as u64).min(manifest.samples)
    };
    let samples = samples.unwrap_or(0).max(shard_bytes.map_or(0, of_bytes));
    Ok(divide_copy(running.memory, jobs, overhead, samples)?.jobs)
}

fn summary(
    copied: Copied,
    from: &dyn Sink,
    to: &dyn Sink,
    dry_run: bool,
    running: &Running,
) -> Summary {
    let place = to.to_string();
    let next = match (dry_run, copied.moved.assembled > 0) {
        (true, _) => running.for_real.iter().cloned().collect(),
        (false, true) => vec![next::command(
            "verify",
            &place,
            &["--level", "head"],
            running,
        )],
        (false, false) => vec![next::command("verify", &place, &[], running)],
    };
    let derived = copied.manifest.derived_from.as_ref();
    let derived = derived.filter(|derived| derived.copied);
    Summary {
        done: match (dry_run, copied.changed) {
            (true, _) => "would copy",
            (false, true) => "copied",
            (false, false) => "up to date:",
        },
        shards_reused: copied.moved.there as u64,
        bytes_read: copied.moved.passed_bytes,
        changed: (!dry_run).then_some(copied.changed),
        copy: Some(CopyReport {
            selection: derived.map(|derived| format!("{} of {from}", derived.selection)),
            samples_of_classes: copied.of_classes,
            shards_passed: copied.moved.passed,
            shards_in_store: copied.moved.assembled,
            not_in_store: copied.moved.cannot,
            shards_removed: copied.removed,
            source_snapshot: copied.later,
            would_copy: dry_run.then_some(copied.bytes),
        }),
        next,
        ..Summary::of_dataset(to, &copied.manifest)
    }
}
