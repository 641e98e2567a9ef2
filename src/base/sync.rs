//! What the seam between threads stands on: locks, threads, clocks, and values that are sent once.
//!
//! In one place so that `tests/model` can compile the modules above it with a checker's instead, which tries the orders in which threads may
//! run. Nothing else in here: what another module needs of the kind it takes from the standard library.

#[cfg_attr(not(feature = "s3"), allow(unused_imports))]
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread::Builder;
pub(crate) use std::time::{Duration, Instant};

pub(crate) use tokio::sync::oneshot;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this thread.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
