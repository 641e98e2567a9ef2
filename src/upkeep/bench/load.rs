//! Readers that all read at once for a while, and what they got: images and bytes a second, how long each read took, what it cost.
//!
//! Each reader has one read under way and begins the next when that has ended, as the workers of a training loop do. How much may be read is
//! settled before each read begins, and no reader begins one after its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::queue::Queue;
use crate::base::error::{Error, Result};
use crate::base::signal::Stop;
use crate::model::counters::Counters;

/// Stack of a reader in bytes: what it reads lies elsewhere.
const STACK_BYTES: usize = 512 << 10;
/// Time between two looks whether the run was told to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Something to be read by many at once.
pub(crate) trait Load: Send + Sync + 'static {
    /// The reader of this number, from 0, of so many.
    fn reader(&self, number: usize, of: usize) -> Box<dyn Reader>;
}

/// One of those who read a load.
pub(crate) trait Reader: Send {
    /// Reads on by one read; `None` when nothing is left, or the next read is more than may be read.
    fn read(&mut self, allowance: &Allowance) -> Result<Option<Portion>>;
}

/// What one read gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Portion {
    /// Images of which the last byte is there now.
    pub(crate) images: u64,
    pub(crate) bytes: u64,
    /// Requests that it took, where requests are counted.
    pub(crate) requests: u64,
    /// Time from asking to having, for a read that began anew and did not go on with one before.
    pub(crate) waited: Option<Duration>,
    /// Time from opening a shard until its first sample was there, for the read that brought it.
    pub(crate) first_sample: Option<Duration>,
}

/// Bytes that may still be read.
#[derive(Debug)]
pub(crate) struct Allowance(AtomicU64);

impl Allowance {
    /// So many.
    pub(crate) fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes so many; false, and takes none, where fewer are left.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let taken = |left: u64| left.checked_sub(bytes);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken)
            .is_ok()
    }

    /// Takes so many, or those that are left; says how many.
    pub(crate) fn take_most(&self, bytes: u64) -> u64 {
        let taken = |left: u64| Some(left.saturating_sub(bytes));
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        before.map_or(0, |left| left.min(bytes))
    }

    /// How many are left.
    pub(crate) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Milliseconds that a part of all reads took at most.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

impl Percentiles {
    /// Of these times in milliseconds, sorted.
    pub(crate) fn of(sorted: &[f32]) -> Self {
        let at = |part: f64| {
            let rank = (sorted.len() as f64 * part).ceil() as usize;
            let value = sorted.get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1)));
            value.map_or(0.0, |&value| f64::from(value))
        };
        Self {
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}

/// What so many readers got.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Rate {
    pub(crate) images_per_second: f64,
    pub(crate) megabytes_per_second: f64,
    pub(crate) first_byte_ms: Percentiles,
    /// Requests an image, those made again included; none where requests are not counted.
    pub(crate) requests_per_image: Option<f64>,
    /// Processor time of this process.
    pub(crate) processor_ms_per_image: f64,
    pub(crate) images: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// Milliseconds that each read took, sorted.
    #[serde(skip)]
    pub(crate) waits_ms: Vec<f32>,
    /// Milliseconds until the first sample of each opened shard, sorted.
    #[serde(skip)]
    pub(crate) first_samples_ms: Vec<f32>,
}

impl Rate {
    /// How long an opened shard's first sample took.
    pub(crate) fn first_sample_ms(&self) -> Percentiles {
        Percentiles::of(&self.first_samples_ms)
    }
}

/// What measuring takes besides a load.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) stop: Stop,
    pub(crate) counters: Arc<Counters>,
    /// Whether requests are counted.
    pub(crate) has_requests: bool,
}

/// How much one measurement may be.
#[derive(Clone)]
pub(crate) struct Limits {
    pub(crate) readers: usize,
    pub(crate) time: Duration,
    pub(crate) allowance: Arc<Allowance>,
}

/// What one reader got.
#[derive(Default)]
struct Tally {
    all: Portion,
    waits: Vec<f32>,
    first_samples: Vec<f32>,
    /// Time from the beginning of all until its last read ended.
    time: Duration,
}

/// What the readers of one measurement share.
struct Shared {
    began: Instant,
    until: Instant,
    allowance: Arc<Allowance>,
    counters: Arc<Counters>,
    /// Whoever measures has no use for them any more.
    ended: AtomicBool,
    queue: Option<Arc<Queue>>,
}

impl Shared {
    fn run(&self, mut reader: Box<dyn Reader>) -> Result<Tally> {
        let mut tally = Tally::default();
        while Instant::now() < self.until && !self.ended.load(Ordering::Relaxed) {
            let Some(portion) = reader.read(&self.allowance)? else {
                break;
            };
            tally.time = self.began.elapsed();
            tally.all.images += portion.images;
            tally.all.bytes += portion.bytes;
            tally.all.requests += portion.requests;
            let milliseconds = |time: Duration| time.as_secs_f32() * 1e3;
            tally.waits.extend(portion.waited.map(milliseconds));
            let first = portion.first_sample.map(milliseconds);
            tally.first_samples.extend(first);
            self.counters.samples(portion.images);
            self.counters.read(portion.bytes);
            if let Some(queue) = &self.queue {
                queue.put(portion.images, self.until);
            }
        }
        Ok(tally)
    }
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Has so many readers read a load; `queue` gets the images as they come.
///
/// # Errors
///
/// The first read that failed; that the run was told to stop: then nobody waits for reads that are under way.
pub(crate) fn measure(
    load: &dyn Load,
    limits: &Limits,
    queue: Option<&Arc<Queue>>,
    around: &Around,
) -> Result<Rate> {
    let (again, spent) = (requests_again(&around.counters), processor_time());
    let began = Instant::now();
    let shared = Arc::new(Shared {
        began,
        until: began + limits.time,
        allowance: Arc::clone(&limits.allowance),
        counters: Arc::clone(&around.counters),
        ended: AtomicBool::new(false),
        queue: queue.cloned(),
    });
    let (sender, receiver) = mpsc::channel();
    for number in 0..limits.readers {
        let reader = load.reader(number, limits.readers);
        let (sender, shared) = (sender.clone(), Arc::clone(&shared));
        let work = move || {
            let _ = sender.send(shared.run(reader));
        };
        let started = Builder::new()
            .name("reader".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(work);
        started.map_err(|error| Error::io("a reader's thread", error))?;
    }
    drop(sender);
    let mut tallies = Vec::with_capacity(limits.readers);
    let gathered = loop {
        match receiver.recv_timeout(LOOK) {
            Ok(Ok(tally)) => tallies.push(tally),
            Ok(Err(error)) => break Err(error),
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(stopped) = around.stop.check() {
                    break Err(stopped);
                }
            }
        }
    };
    shared.ended.store(true, Ordering::Relaxed);
    if let Some(queue) = queue {
        queue.end();
    }
    // A read that was given up because of the signal says less than the signal.
    around.stop.check()?;
    gathered?;
    let again = requests_again(&around.counters) - again;
    let spent = processor_time().saturating_sub(spent);
    Ok(rate(tallies, again, spent, around.has_requests))
}

/// Requests made a second time so far, and reads asked for twice.
fn requests_again(counters: &Counters) -> u64 {
    let (retries, _, hedges) = counters.again();
    retries + hedges
}

/// Adds up what readers got. Each counts for as long as it read: those who wait for a last slow read do not slow the others down.
fn rate(tallies: Vec<Tally>, again: u64, spent: Duration, has_requests: bool) -> Rate {
    let mut rate = Rate::default();
    let mut requests = again;
    for tally in tallies {
        let seconds = tally.time.as_secs_f64();
        if seconds > 0.0 {
            rate.images_per_second += tally.all.images as f64 / seconds;
            rate.megabytes_per_second += tally.all.bytes as f64 / seconds / 1e6;
        }
        rate.seconds = rate.seconds.max(seconds);
        rate.images += tally.all.images;
        rate.bytes += tally.all.bytes;
        requests += tally.all.requests;
        rate.waits_ms.extend(tally.waits);
        rate.first_samples_ms.extend(tally.first_samples);
    }
    rate.waits_ms.sort_unstable_by(f32::total_cmp);
    rate.first_samples_ms.sort_unstable_by(f32::total_cmp);
    rate.first_byte_ms = Percentiles::of(&rate.waits_ms);
    let images = rate.images.max(1) as f64;
    rate.requests_per_image = has_requests.then_some(requests as f64 / images);
    rate.processor_ms_per_image = spent.as_secs_f64() * 1e3 / images;
    rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// Reads of ten bytes and one image that take no time; counts how many are under way at once.
    #[derive(Default)]
    struct Instantly {
        now: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
    }

    struct One(Arc<AtomicUsize>, Arc<AtomicUsize>);

    impl Load for Instantly {
        fn reader(&self, _: usize, _: usize) -> Box<dyn Reader> {
            Box::new(One(Arc::clone(&self.now), Arc::clone(&self.most)))
        }
    }

    impl Reader for One {
        fn read(&mut self, allowance: &Allowance) -> Result<Option<Portion>> {
            if !allowance.take(10) {
                return Ok(None);
            }
            let now = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            self.1.fetch_max(now, Ordering::SeqCst);
            std::thread::yield_now();
            self.0.fetch_sub(1, Ordering::SeqCst);
            Ok(Some(Portion {
                images: 1,
                bytes: 10,
                requests: 2,
                waited: Some(Duration::from_millis(1)),
                first_sample: None,
            }))
        }
    }

    fn around() -> Around {
        Around {
            stop: Stop::default(),
            counters: Arc::default(),
            has_requests: true,
        }
    }

    #[test]
    fn no_more_is_read_than_may_be_and_by_no_more_readers() {
        let load = Instantly::default();
        let limits = Limits {
            readers: 4,
            time: Duration::from_secs(60),
            allowance: Arc::new(Allowance::new(10_005)),
        };
        let rate = measure(&load, &limits, None, &around()).unwrap();
        assert_eq!((rate.images, rate.bytes), (1000, 10_000));
        assert_eq!(limits.allowance.left(), 5);
        assert_eq!(rate.requests_per_image, Some(2.0));
        assert_eq!(rate.waits_ms.len(), 1000);
        assert!(load.most.load(Ordering::SeqCst) <= 4);
    }

    #[test]
    fn what_is_left_is_taken_once() {
        let allowance = Allowance::new(25);
        assert_eq!(allowance.take_most(10), 10);
        assert!(!allowance.take(16));
        assert_eq!(allowance.take_most(20), 15);
        assert_eq!(allowance.take_most(20), 0);
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let sorted: Vec<f32> = (1..=200).map(|ms| ms as f32).collect();
        let all = Percentiles::of(&sorted);
        assert_eq!((all.p50, all.p95, all.p99), (100.0, 190.0, 198.0));
        assert_eq!(Percentiles::of(&[]).p99, 0.0);
        assert_eq!(Percentiles::of(&[7.0]).p50, 7.0);
    }

    #[test]
    fn a_reader_counts_for_as_long_as_it_read() {
        let tally = |images: u64, seconds: u64| Tally {
            all: Portion {
                images,
                ..Portion::default()
            },
            time: Duration::from_secs(seconds),
            ..Tally::default()
        };
        // The second had one slow read at its end.
        let tallies = vec![tally(100, 10), tally(100, 20), tally(0, 0)];
        let rate = rate(tallies, 0, Duration::from_secs(1), false);
        assert_eq!(rate.images_per_second, 15.0);
        assert_eq!(rate.requests_per_image, None);
        assert_eq!(rate.processor_ms_per_image, 5.0);
    }
}
