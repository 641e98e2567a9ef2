//! The one seam between code that waits and work that runs elsewhere: [`Reactor::start`] gives a [`Pending`].
//!
//! Whoever waits for work that nobody has begun runs it itself. So the same code is inline when files are warm (the
//! hand-off would cost more than the read) and hundreds deep when every read waits 100 ms. How deep is Little's law:
//! enough readers that the blocked time of a read, measured as it goes, does not keep the packers waiting.
//!
//! Work may block but must not wait for other work. Work that blocks nobody, because a network client runs it, keeps its
//! promise through `promise`.

use std::collections::VecDeque;

use crate::base::buffer::allocated;
use crate::base::error::{Error, Result};
use crate::base::sync::{
    Arc, Builder, Condvar, Duration, Instant, Mutex, MutexGuard, PoisonError, oneshot, thread_time,
};

/// Reads a second that the packers of one machine can use at most; with the blocked time of a read it gives the depth.
const READS_PER_SECOND: f64 = 30_000.0;
/// Depth before anything was measured: deep enough to find out quickly, shallow enough to cost nothing when warm.
const FIRST_DEPTH: usize = 16;
/// Blocked times remembered; the median of so many is not moved by a preemption or one slow disk access.
const REMEMBERED: usize = 9;
/// Results that readers who are busy without need may be ahead by, each: what lies longer leaves the caches again.
const AHEAD: isize = 16;
/// Tasks that need not be looked for in the queue when their owners ran them.
const FORGOTTEN: usize = 64;
/// A reader thread's stack in bytes; its work is a few system calls.
const STACK_BYTES: usize = 256 * 1024;

type Work<T> = Box<dyn FnOnce() -> Result<T> + Send>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock means a reader panicked: its task is lost and says so, the others are intact.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

enum Progress<T> {
    Queued(Work<T>),
    Running,
    Done(Result<T>),
    /// Handed over, or nobody wants it any more.
    Gone,
}

struct Task<T> {
    progress: Mutex<Progress<T>>,
    done: Condvar,
}

/// What the queue knows of a task.
trait Runnable: Send + Sync {
    /// Takes the work if nobody has; the closure runs it and stores the result.
    fn claim(self: Arc<Self>) -> Option<Box<dyn FnOnce() + Send>>;
    fn is_queued(&self) -> bool;
}

impl<T: Send + 'static> Task<T> {
    fn take(&self) -> Option<Work<T>> {
        let mut progress = lock(&self.progress);
        match std::mem::replace(&mut *progress, Progress::Running) {
            Progress::Queued(work) => Some(work),
            other => {
                *progress = other;
                None
            }
        }
    }
}

impl<T: Send + 'static> Runnable for Task<T> {
    fn claim(self: Arc<Self>) -> Option<Box<dyn FnOnce() + Send>> {
        let work = self.take()?;
        Some(Box::new(move || {
            let mut guard = Unfinished(Some(&self));
            let result = work();
            guard.0 = None;
            self.store(result);
        }))
    }

    fn is_queued(&self) -> bool {
        matches!(*lock(&self.progress), Progress::Queued(_))
    }
}

impl<T> Task<T> {
    fn store(&self, result: Result<T>) {
        let mut progress = lock(&self.progress);
        if matches!(*progress, Progress::Running) {
            *progress = Progress::Done(result);
        }
        drop(progress);
        self.done.notify_all();
    }
}

/// Turns a panic of the work into an error for whoever waits.
struct Unfinished<'a, T>(Option<&'a Task<T>>);

impl<T> Drop for Unfinished<'_, T> {
    fn drop(&mut self) {
        if let Some(task) = self.0 {
            task.store(Err(Error::failed("a reader thread panicked")));
        }
    }
}

/// A value that work started elsewhere will deliver. Dropped, the work is forgotten if it has not begun.
#[must_use]
pub(crate) struct Pending<T: Send + 'static>(By<T>);

/// Who does the work.
enum By<T: Send + 'static> {
    /// A reader of the pool, or whoever waits.
    Readers(Queued<T>),
    /// A network client.
    Network(oneshot::Receiver<Result<T>>),
    /// Whoever waits, with what somebody else gives.
    Then(Box<dyn FnOnce() -> Result<T> + Send>),
}

/// A promise and what it promises. Whoever made it sees by the promise's `closed` that nobody wants the value any more.
pub(crate) fn promise<T: Send + 'static>() -> (oneshot::Sender<Result<T>>, Pending<T>) {
    let (sender, receiver) = oneshot::channel();
    (sender, Pending(By::Network(receiver)))
}

impl<T: Send + 'static> Pending<T> {
    /// Waits for the value, or runs the work here if nobody has begun it.
    pub(crate) fn wait(self) -> Result<T> {
        match self.0 {
            By::Readers(queued) => queued.wait(),
            By::Network(receiver) => receiver
                .blocking_recv()
                .unwrap_or_else(|_| Err(Error::failed("a request was given up"))),
            By::Then(wait) => wait(),
        }
    }

    /// The same value after `work` was done on it, by whoever waits: `work` may wait itself.
    pub(crate) fn then(self, work: impl FnOnce(Result<T>) -> Result<T> + Send + 'static) -> Self {
        Self(By::Then(Box::new(move || work(self.wait()))))
    }

    /// A value that is made by whoever waits for it.
    pub(crate) fn later(work: impl FnOnce() -> Result<T> + Send + 'static) -> Self {
        Self(By::Then(Box::new(work)))
    }
}

/// Work of the pool.
struct Queued<T: Send + 'static> {
    task: Arc<Task<T>>,
    shared: Arc<Shared>,
}

impl<T: Send + 'static> Queued<T> {
    fn wait(self) -> Result<T> {
        let mut state = lock(&self.shared.state);
        loop {
            if state.running < self.shared.reads {
                if let Some(work) = self.task.take() {
                    state.running += 1;
                    state.forget_begun();
                    drop(state);
                    return self.shared.timed(work);
                }
                break;
            }
            if !self.task.is_queued() {
                break;
            }
            state.waiting += 1;
            state = wait(&self.shared.slot, state);
            state.waiting -= 1;
        }
        drop(state);
        let mut progress = lock(&self.task.progress);
        loop {
            match std::mem::replace(&mut *progress, Progress::Gone) {
                Progress::Done(result) => {
                    drop(progress);
                    self.shared.taken();
                    return result;
                }
                Progress::Running => *progress = Progress::Running,
                Progress::Queued(_) | Progress::Gone => {
                    return Err(Error::failed("a read was given up"));
                }
            }
            progress = wait(&self.task.done, progress);
        }
    }
}

impl<T: Send + 'static> Drop for Queued<T> {
    fn drop(&mut self) {
        let mut progress = lock(&self.task.progress);
        if matches!(*progress, Progress::Running) {
            return;
        }
        let was = std::mem::replace(&mut *progress, Progress::Gone);
        drop(progress);
        if matches!(was, Progress::Done(_)) {
            self.shared.taken();
        }
    }
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}

struct State {
    queue: VecDeque<Arc<dyn Runnable>>,
    /// Tasks in the queue that their owners ran themselves, or a few more.
    begun: usize,
    /// Work running now, on readers and on waiting threads.
    running: usize,
    /// Reader threads busy, parked, and together.
    busy: usize,
    parked: usize,
    threads: usize,
    /// Threads that wait for a place to run their own work.
    waiting: usize,
    depth: usize,
    /// Readers kept busy even when nothing blocks.
    floor: usize,
    /// Results of readers that nobody has taken yet; for a moment one too few.
    ready: isize,
    blocked: [Duration; REMEMBERED],
    measured: usize,
    closed: bool,
}

impl State {
    /// Whether one more reader is of use.
    fn wants_reader(&self) -> bool {
        let needed = self.depth > self.floor || self.ready < AHEAD * self.floor as isize;
        self.busy < self.depth && needed
    }

    /// Drops tasks that their owners ran themselves: those at the front, and all of them when they are most of the queue. One owner who
    /// is busy with something else must not make the queue grow by all that the others do meanwhile.
    fn forget_begun(&mut self) {
        self.begun += 1;
        while self.queue.front().is_some_and(|task| !task.is_queued()) {
            self.queue.pop_front();
            self.begun = self.begun.saturating_sub(1);
        }
        if self.begun > FORGOTTEN.max(self.queue.len() / 2) {
            self.queue.retain(|task| task.is_queued());
            self.begun = 0;
        }
    }
}

struct Shared {
    state: Mutex<State>,
    /// There is work for a parked reader.
    work: Condvar,
    /// One piece of work ended.
    slot: Condvar,
    reads: usize,
}

impl Shared {
    /// Runs `work`, counted in `running` by the caller, and learns from how long it was blocked.
    fn timed<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        struct Running<'a>(&'a Arc<Shared>, Instant, Duration);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                let busy = thread_time().saturating_sub(self.2);
                self.0.ended(self.1.elapsed().saturating_sub(busy));
            }
        }
        let _running = Running(self, Instant::now(), thread_time());
        work()
    }

    fn ended(self: &Arc<Self>, blocked: Duration) {
        let mut state = lock(&self.state);
        state.running -= 1;
        let at = state.measured % REMEMBERED;
        state.blocked[at] = blocked;
        state.measured += 1;
        if state.measured > REMEMBERED / 2 {
            let mut known = state.blocked;
            let known = &mut known[..state.measured.min(REMEMBERED)];
            let middle = known.len() / 2;
            let (_, median, _) = known.select_nth_unstable(middle);
            let depth = (median.as_secs_f64() * READS_PER_SECOND) as usize;
            state.depth = depth.clamp(state.floor, self.reads);
        }
        self.staff(&mut state);
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.slot.notify_all();
        }
    }

    /// A reader's result went to whoever wanted it.
    fn taken(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        state.ready -= 1;
        self.staff(&mut state);
    }

    /// Wakes or adds a reader if there is work that one may take.
    fn staff(self: &Arc<Self>, state: &mut State) {
        if state.queue.is_empty() || !state.wants_reader() {
            return;
        }
        if state.parked > 0 {
            self.work.notify_one();
        } else if state.threads < state.depth {
            let shared = Arc::clone(self);
            let spawned = Builder::new()
                .name("reader".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || shared.reader());
            match spawned {
                Ok(_) => state.threads += 1,
                // No more threads to be had: the ones there are, and those who wait, do the work.
                Err(_) => state.depth = state.threads,
            }
        }
    }

    fn reader(self: Arc<Self>) {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return;
            }
            if state.wants_reader()
                && state.running < self.reads
                && let Some(task) = state.queue.pop_front()
            {
                let Some(run) = task.claim() else { continue };
                state.busy += 1;
                state.running += 1;
                drop(state);
                self.timed(run);
                state = lock(&self.state);
                state.busy -= 1;
                state.ready += 1;
                continue;
            }
            state.parked += 1;
            state = wait(&self.work, state);
            state.parked -= 1;
        }
    }
}

/// Starts work, at most so many pieces at once.
pub(crate) struct Reactor {
    shared: Arc<Shared>,
}

impl Reactor {
    /// At most `reads` pieces of work at once, in flight or run by those who wait; `floor` readers are kept busy even
    /// when nothing blocks, for callers who would otherwise leave a core idle.
    pub(crate) fn new(reads: usize, floor: usize) -> Self {
        let reads = reads.max(1);
        let state = State {
            queue: VecDeque::new(),
            begun: 0,
            running: 0,
            busy: 0,
            parked: 0,
            threads: 0,
            waiting: 0,
            depth: FIRST_DEPTH.min(reads).max(floor.min(reads)),
            floor: floor.min(reads),
            ready: 0,
            blocked: [Duration::ZERO; REMEMBERED],
            measured: 0,
            closed: false,
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                work: Condvar::new(),
                slot: Condvar::new(),
                reads,
            }),
        }
    }

    /// Says that so many threads of the caller have nothing to do any more: readers may use their cores.
    pub(crate) fn lend(&self, threads: usize) {
        let mut state = lock(&self.shared.state);
        state.floor = (state.floor + threads).min(self.shared.reads);
        state.depth = state.depth.max(state.floor);
        for _ in 0..threads {
            self.shared.staff(&mut state);
        }
    }

    /// Memory that started work takes until its value is handed over, besides that value's own: its place in the queue, its state, and the
    /// work itself, whose size is given.
    pub(crate) fn started_bytes<T>(work: usize) -> u64 {
        // A queue doubles when it is full; an `Arc` has two counts.
        let queued = 2 * size_of::<Arc<dyn Runnable>>() as u64;
        let task = allocated(2 * size_of::<usize>() + size_of::<Task<T>>());
        queued + task + allocated(work)
    }

    /// Queues `work` and returns at once.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let task = Arc::new(Task {
            progress: Mutex::new(Progress::Queued(Box::new(work))),
            done: Condvar::new(),
        });
        let mut state = lock(&self.shared.state);
        state
            .queue
            .push_back(Arc::clone(&task) as Arc<dyn Runnable>);
        self.shared.staff(&mut state);
        drop(state);
        Pending(By::Readers(Queued {
            task,
            shared: Arc::clone(&self.shared),
        }))
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.closed = true;
        state.queue.clear();
        drop(state);
        // Readers end by themselves: one that hangs in a dead mount must not hang the process too.
        self.shared.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn is_queued<T: Send>(pending: &Pending<T>) -> bool {
        matches!(&pending.0, By::Readers(queued) if queued.task.is_queued())
    }

    #[test]
    fn a_promise_is_kept_or_known_to_be_broken() {
        let (promise, pending) = promise();
        promise.send(Ok(7)).unwrap();
        assert_eq!(pending.wait().unwrap(), 7);
        let (broken, pending) = super::promise::<u8>();
        drop(broken);
        assert!(pending.wait().is_err());
        let (unwanted, pending) = super::promise::<u8>();
        drop(pending);
        assert!(unwanted.is_closed());
    }

    #[test]
    fn what_comes_after_work_is_done_by_whoever_waits() {
        let (promise, pending) = promise();
        promise.send(Ok(7)).unwrap();
        let here = std::thread::current().id();
        let doubled = pending.then(move |value| {
            assert_eq!(std::thread::current().id(), here);
            Ok(value? * 2)
        });
        assert_eq!(doubled.wait().unwrap(), 14);
        assert_eq!(Pending::later(|| Ok(3)).wait().unwrap(), 3);
    }

    #[test]
    fn work_nobody_has_begun_runs_on_the_thread_that_waits() {
        let reactor = Reactor::new(1, 0);
        lock(&reactor.shared.state).depth = 0;
        let here = std::thread::current().id();
        let pending = reactor.start(move || Ok(std::thread::current().id() == here));
        assert!(pending.wait().unwrap());
    }

    #[test]
    fn slow_work_goes_as_deep_as_allowed_and_never_deeper() {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let reactor = Reactor::new(24, 0);
        let pending: Vec<_> = (0..240)
            .map(|i| {
                reactor.start(move || {
                    MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(10));
                    NOW.fetch_sub(1, Ordering::SeqCst);
                    Ok(i)
                })
            })
            .collect();
        for (i, pending) in pending.into_iter().enumerate() {
            assert_eq!(pending.wait().unwrap(), i);
        }
        assert_eq!(MOST.load(Ordering::SeqCst), 24);
    }

    #[test]
    fn quick_work_comes_down_to_no_readers_at_all() {
        let reactor = Reactor::new(256, 0);
        for _ in 0..100 {
            reactor.start(|| Ok(())).wait().unwrap();
        }
        assert!(lock(&reactor.shared.state).depth <= 8);
    }

    #[test]
    fn a_lent_thread_reads_ahead_even_when_nothing_blocks() {
        let reactor = Reactor::new(256, 0);
        for _ in 0..100 {
            reactor.start(|| Ok(())).wait().unwrap();
        }
        let before = lock(&reactor.shared.state).depth;
        reactor.lend(before + 1);
        let pending = reactor.start(|| Ok(()));
        while is_queued(&pending) {
            std::thread::yield_now();
        }
        pending.wait().unwrap();
        assert_eq!(lock(&reactor.shared.state).floor, before + 1);
    }

    #[test]
    fn a_panic_in_a_reader_is_an_error_for_whoever_waits() {
        let reactor = Reactor::new(4, 4);
        let pending = reactor.start::<()>(|| panic!("boom"));
        while is_queued(&pending) {
            std::thread::yield_now();
        }
        let error = pending.wait().unwrap_err();
        assert_eq!(error.to_string(), "a reader thread panicked");
    }

    #[test]
    fn an_owner_who_is_busy_does_not_make_the_queue_grow_by_what_others_do() {
        let reactor = Reactor::new(4, 0);
        lock(&reactor.shared.state).depth = 0;
        let first = reactor.start(|| Ok(()));
        for _ in 0..10_000 {
            reactor.start(|| Ok(())).wait().unwrap();
            lock(&reactor.shared.state).depth = 0;
            assert!(lock(&reactor.shared.state).queue.len() <= FORGOTTEN + 2);
        }
        first.wait().unwrap();
    }

    #[test]
    fn work_that_was_given_up_is_not_done() {
        let reactor = Reactor::new(1, 0);
        lock(&reactor.shared.state).depth = 0;
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        drop(reactor.start(move || {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }));
        reactor.start(|| Ok(())).wait().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        assert!(lock(&reactor.shared.state).queue.is_empty());
    }
}
