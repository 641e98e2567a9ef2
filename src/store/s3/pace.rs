//! How many requests run at once and how fast: one pace for a whole process.
//!
//! Reads start high, come down when the server pushes back and only then, and recover slowly. A push back also makes every
//! request wait for a moment: hundreds that go on asking keep a server from recovering.

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::sync::{
    Arc, AtomicUsize, Duration, Instant, Mutex, MutexGuard, Ordering, PoisonError,
};
use crate::model::counters::Counters;

/// Reads at once before the first tick; more at a stroke are a storm of look-ups and connections.
const FIRST_READS: usize = 128;
/// Reads added at each tick until all are allowed.
const RAMP: usize = 64;
/// How often the number of reads is looked at.
const TICK: Duration = Duration::from_millis(100);
/// Fewest reads at once, however hard the server pushes back.
const FEWEST_READS: usize = 8;
/// Push backs within this time are one: requests under way were sent before anything could be learnt.
const ONE_PUSH: Duration = Duration::from_millis(500);
/// Time without a push back after which reads are added again.
const CLEAN: Duration = Duration::from_secs(1);
/// First and longest time that all requests wait after a push back.
const PAUSES: std::ops::Range<Duration> = Duration::from_millis(250)..Duration::from_secs(5);

/// Gives out places for reads and makes requests wait when the server asks for it.
pub(super) struct Pace {
    places: Arc<Semaphore>,
    /// Places to take away as soon as they come back.
    debt: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    limit: usize,
    most: usize,
    ramping: bool,
    last_push: Option<Instant>,
    resume: Option<Instant>,
    pause: Duration,
    /// Hundredths of a place earned since the last one was given back.
    earned: usize,
}

/// A read's place; given back when dropped.
pub(super) struct Place {
    pace: Arc<Pace>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else {
            return;
        };
        let owed = self
            .pace
            .debt
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |debt| {
                debt.checked_sub(1)
            });
        if owed.is_ok() {
            permit.forget();
        }
    }
}

impl Pace {
    /// At most `most` reads at once.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let most = most.max(1);
        let limit = most.min(FIRST_READS);
        Arc::new(Self {
            places: Arc::new(Semaphore::new(limit)),
            debt: AtomicUsize::new(0),
            state: Mutex::new(State {
                limit,
                most,
                ramping: limit < most,
                last_push: None,
                resume: None,
                pause: PAUSES.start,
                earned: 0,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads allowed at once now.
    pub(super) fn limit(&self) -> usize {
        self.state().limit
    }

    /// Waits for a place.
    pub(super) async fn place(self: &Arc<Self>) -> Place {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.places).acquire_owned().await.ok();
        Place {
            pace: Arc::clone(self),
            permit,
        }
    }

    /// Waits while the server wants to be left alone. Those who wait do not all go on at once.
    pub(super) async fn ready(&self) {
        loop {
            let resume = self.state().resume;
            let now = Instant::now();
            match resume {
                Some(resume) if resume > now => {
                    let spread = PAUSES.start.mul_f64(fastrand::f64());
                    tokio::time::sleep(resume - now + spread).await;
                }
                _ => return,
            }
        }
    }

    /// The server pushed back, perhaps saying for how long.
    pub(super) fn push_back(&self, wait: Option<Duration>) {
        let now = Instant::now();
        let mut state = self.state();
        if state.last_push.is_some_and(|last| now - last < ONE_PUSH) {
            return;
        }
        // Pushing back again right after a pause: it was too short.
        let again = state
            .resume
            .is_some_and(|resume| now < resume + ONE_PUSH * 2);
        state.pause = match again {
            true => (state.pause * 2).min(PAUSES.end),
            false => PAUSES.start,
        };
        let wait = wait.unwrap_or_default().min(PAUSES.end).max(state.pause);
        state.resume = Some(now + wait);
        state.last_push = Some(now);
        state.ramping = false;
        state.earned = 0;
        let limit = (state.limit * 7 / 10).max(FEWEST_READS.min(state.limit));
        let fewer = state.limit - limit;
        state.limit = limit;
        drop(state);
        let taken = self.places.forget_permits(fewer);
        self.debt.fetch_add(fewer - taken, Ordering::Relaxed);
    }

    /// Called every [`TICK`]: adds reads while nothing speaks against it.
    pub(super) fn tick(&self) {
        let mut state = self.state();
        let clean = state.last_push.is_none_or(|last| last.elapsed() > CLEAN);
        if !clean || state.limit >= state.most {
            return;
        }
        let add = if state.ramping {
            RAMP
        } else {
            // Two in a hundred of all that were allowed, each second, and at least one.
            state.earned += (state.most * 2).max(100) / 10;
            let whole = state.earned / 100;
            state.earned %= 100;
            whole
        };
        let add = add.min(state.most - state.limit);
        state.limit += add;
        drop(state);
        let mut add = add;
        while add > 0 {
            let owed = self
                .debt
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |debt| {
                    debt.checked_sub(1)
                });
            if owed.is_err() {
                break;
            }
            add -= 1;
        }
        self.places.add_permits(add);
    }

    /// Adjusts the pace for as long as anybody uses it.
    pub(super) async fn run(pace: std::sync::Weak<Self>, counters: Arc<Counters>) {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            match pace.upgrade() {
                Some(pace) => {
                    pace.tick();
                    counters.reads_allowed(pace.limit());
                }
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(pace: &Pace) -> usize {
        pace.places.available_permits()
    }

    #[test]
    fn reads_ramp_up_to_the_most_and_no_further() {
        let pace = Pace::new(300);
        assert_eq!((pace.limit(), places(&pace)), (128, 128));
        for _ in 0..10 {
            pace.tick();
        }
        assert_eq!((pace.limit(), places(&pace)), (300, 300));
        assert_eq!(Pace::new(4).limit(), 4);
    }

    #[test]
    fn a_push_back_takes_reads_away_once_even_those_under_way() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let pace = Pace::new(100);
        let held: Vec<_> = (0..100).map(|_| runtime.block_on(pace.place())).collect();
        pace.push_back(None);
        pace.push_back(None);
        assert_eq!((pace.limit(), places(&pace)), (70, 0));
        drop(held);
        assert_eq!(places(&pace), 70);
    }

    #[test]
    fn it_never_comes_down_to_nothing() {
        let pace = Pace::new(20);
        for _ in 0..20 {
            pace.state().last_push = None;
            pace.push_back(None);
        }
        assert_eq!((pace.limit(), places(&pace)), (8, 8));
    }

    #[test]
    fn it_recovers_slowly() {
        let pace = Pace::new(500);
        for _ in 0..10 {
            pace.tick();
        }
        pace.push_back(None);
        assert_eq!(pace.limit(), 350);
        pace.tick();
        assert_eq!(pace.limit(), 350, "not at once");
        pace.state().last_push = Some(Instant::now() - CLEAN * 2);
        for _ in 0..10 {
            pace.tick();
        }
        assert_eq!((pace.limit(), places(&pace)), (360, 360), "2 % a second");
    }
}
