//! A training loop without a GPU: images come into a queue as they are read, and batches leave it at the pace of a GPU.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Batches that loaders keep ready at most.
const READY_BATCHES: u64 = 4;

/// A GPU's pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Images of a batch, at least 1.
    pub(crate) batch: u64,
    /// Images a second while it computes, more than 0.
    pub(crate) images_per_second: f64,
}

/// Parts of the time, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Waiting {
    pub(crate) busy: f64,
    pub(crate) waiting: f64,
}

/// Images that were read and are not used yet.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    most: u64,
}

#[derive(Default)]
struct State {
    images: u64,
    ended: bool,
}

/// What came of waiting for a batch.
#[derive(Debug, PartialEq, Eq)]
enum Batch {
    Taken,
    /// It did not come in time.
    Late,
    /// Nobody reads any more.
    Never,
}

impl Queue {
    /// A queue before a GPU of this pace.
    pub(crate) fn new(pace: Pace) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            most: pace.batch * READY_BATCHES,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while it is full, until then at the latest, and adds images; a reader that brings many at once may fill it beyond.
    pub(super) fn put(&self, images: u64, until: Instant) {
        let mut state = self.state();
        while state.images >= self.most && !state.ended {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return;
            };
            state = self.wait(state, left);
        }
        state.images += images;
        self.changed.notify_all();
    }

    /// Nobody reads any more.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, most: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn take(&self, batch: u64, until: Instant) -> Batch {
        let mut state = self.state();
        loop {
            if state.images >= batch {
                state.images -= batch;
                self.changed.notify_all();
                return Batch::Taken;
            }
            if state.ended {
                return Batch::Never;
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return Batch::Late;
            };
            state = self.wait(state, left);
        }
    }

    /// Takes batches at this pace until then, or until nothing comes any more. The time before the first batch, which every epoch has once,
    /// counts only if none came.
    pub(crate) fn consume(&self, pace: Pace, until: Instant) -> Waiting {
        let (mut busy, mut waited) = (Duration::ZERO, Duration::ZERO);
        let computing = Duration::from_secs_f64(pace.batch as f64 / pace.images_per_second);
        let mut is_first = true;
        loop {
            let asked = Instant::now();
            let batch = self.take(pace.batch, until);
            if !(is_first && batch == Batch::Taken) {
                waited += asked.elapsed();
            }
            is_first = false;
            if batch != Batch::Taken {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            let time = computing.min(left);
            std::thread::sleep(time);
            busy += time;
        }
        let all = (busy + waited).as_secs_f64().max(f64::MIN_POSITIVE);
        Waiting {
            busy: busy.as_secs_f64() / all,
            waiting: waited.as_secs_f64() / all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        batch: 10,
        images_per_second: 1000.0,
    };

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_queue_that_holds_all_that_is_needed_keeps_a_gpu_busy() {
        let queue = Queue::new(PACE);
        queue.put(35, later());
        queue.end();
        assert_eq!(queue.take(10, later()), Batch::Taken);
        assert_eq!(queue.state().images, 25);
        let waiting = queue.consume(PACE, later());
        assert_eq!(queue.state().images, 5);
        assert!(waiting.busy > waiting.waiting, "{waiting:?}");
    }

    #[test]
    fn a_gpu_that_never_gets_a_batch_waits_all_the_time() {
        let queue = Queue::new(PACE);
        queue.put(9, later());
        let waiting = queue.consume(PACE, Instant::now() + Duration::from_millis(5));
        assert_eq!((waiting.busy, waiting.waiting), (0.0, 1.0));
    }

    #[test]
    fn readers_wait_while_it_is_full() {
        let queue = Queue::new(PACE);
        queue.put(40, later());
        // Nobody takes: the time ends, and nothing is added.
        queue.put(1, Instant::now());
        assert_eq!(queue.state().images, 40);
        assert_eq!(queue.take(10, later()), Batch::Taken);
        queue.put(1, Instant::now());
        assert_eq!(queue.state().images, 31);
    }
}
