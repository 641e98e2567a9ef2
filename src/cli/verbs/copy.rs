//! `copy`: a dataset, or a part of it, at another place.

use super::copied::CopyReport;
use super::next;
use super::summary::Summary;
use crate::base::error::{Error, Result};
use crate::cli::settings::{CopyScope, Running};
use crate::model::manifest::Manifest;
use crate::plan::budget::{Overhead, divide_copy};
use crate::state::published::require;
use crate::store::{self, Sink};
use crate::upkeep::copy::{Copied, Copy, copy};

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
    let manifest =
        require(from.as_ref()).map_err(|error| unpublished(error, from.as_ref(), destination))?;
    let to = store::sink(destination, &running.access)?;
    to.check_apart(source)?;
    let copied = copy(&Copy {
        from: from.as_ref(),
        to: to.as_ref(),
        selection: &scope.selection,
        shard_bytes: scope.shard_bytes,
        jobs: jobs(from.as_ref(), to.as_ref(), &manifest, running)?,
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
fn jobs(from: &dyn Sink, to: &dyn Sink, manifest: &Manifest, running: &Running) -> Result<usize> {
    let overhead = Overhead {
        bytes: to.writing_bytes(),
        job_bytes: from.reading_bytes(),
        ..Overhead::default()
    };
    let samples: Vec<u64> = manifest.shards().map(|(_, shard)| shard.samples).collect();
    let largest = samples.iter().max().copied().unwrap_or(0);
    let jobs = running.jobs_for(samples.len());
    Ok(divide_copy(running.memory, jobs, overhead, largest)?.jobs)
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
