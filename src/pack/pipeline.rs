//! The shards of a worker on scoped threads, several at once.

use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};

use crate::base::error::{Error, Kind, Result};
use crate::pack::policy::Shared;
use crate::pack::worker::PackerThread;

use crate::pack::run::{Outcome, Run};

/// Packs the shards of these numbers, several at once.
pub(crate) fn pack(run: &Run<'_>, shards: &[usize]) -> Result<Outcome> {
    let jobs = run.budget.jobs.clamp(1, shards.len().max(1));
    let shared = Shared::new(jobs, run.skipped_before);
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let worker = |_| {
            scope.spawn(|| {
                let result = PackerThread {
                    run,
                    shards,
                    shared: &shared,
                }
                .work();
                if result.is_err() {
                    shared.failed.store(true, Ordering::Relaxed);
                }
                result
            })
        };
        let threads: Vec<_> = (0..jobs).map(worker).collect();
        let join = |thread: ScopedJoinHandle<'_, Result<()>>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(Error::failed("a packer thread panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    // The error that made the others stop is the one to tell.
    let mut errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| error.kind() == Kind::Cancelled);
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    Ok(shared.into_outcome())
}
