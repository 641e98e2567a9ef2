//! What a run has done so far, counted by all threads, and what the counters were over time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::model::history::{History, Phase, Point};

/// Time between two points of a history at first, and between two looks at the counters.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Points of a history at most. When there are more, every second one is dropped and the next ones come half as often.
const POINTS: usize = 240;

/// What [`Counters`] remember of the past.
#[derive(Debug)]
struct Past {
    began: Instant,
    /// The last one holds what was done before the counters last began again.
    history: History,
    /// Time between two points, and when the next is due.
    interval: Duration,
    due: Duration,
}

impl Default for Past {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            history: History::default(),
            interval: LOOK_INTERVAL,
            due: LOOK_INTERVAL,
        }
    }
}

/// Counts what happens; shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    samples: AtomicU64,
    bytes: AtomicU64,
    shards: AtomicU64,
    skipped: AtomicU64,
    refused: AtomicU64,
    all_samples: AtomicU64,
    all_bytes: AtomicU64,
    all_shards: AtomicU64,
    listed: AtomicU64,
    directories: AtomicU64,
    retries: AtomicU64,
    push_backs: AtomicU64,
    hedges: AtomicU64,
    reads: AtomicU64,
    past: Mutex<Past>,
    logs_shards: AtomicBool,
}

/// What [`Counters`] stand at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Samples done in this stage, and how many there are to do.
    pub samples: u64,
    /// Samples to do.
    pub all_samples: u64,
    /// Bytes done in this stage.
    pub bytes: u64,
    /// Bytes to do.
    pub all_bytes: u64,
    /// Shards done in this stage.
    pub shards: u64,
    /// Shards to do.
    pub all_shards: u64,
    /// Samples left out.
    pub skipped: u64,
    /// Samples that stop publication.
    pub refused: u64,
    /// Files listed.
    pub listed: u64,
    /// Directories they are in, where a listing goes by directories.
    pub directories: u64,
    /// Network reads that may be in flight.
    pub reads: u64,
    /// Requests made again.
    pub retries: u64,
}

impl Counters {
    /// What they stand at now.
    pub(crate) fn counts(&self) -> Counts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            samples: load(&self.samples),
            all_samples: load(&self.all_samples),
            bytes: load(&self.bytes),
            all_bytes: load(&self.all_bytes),
            shards: load(&self.shards),
            all_shards: load(&self.all_shards),
            skipped: load(&self.skipped),
            refused: load(&self.refused),
            listed: load(&self.listed),
            directories: load(&self.directories),
            reads: load(&self.reads),
            retries: load(&self.retries),
        }
    }

    /// Whether each finished shard gets a line in the log.
    pub(crate) fn log_shards(&self, wanted: bool) {
        self.logs_shards.store(wanted, Ordering::Relaxed);
    }

    /// Names what is being done and how much of it there is; counts start again. The same name again goes on with that phase.
    pub(crate) fn begin(&self, stage: &'static str, samples: u64, bytes: u64, shards: u64) {
        let mut past = self.past();
        self.settle(&mut past);
        let began = past.began.elapsed().as_secs_f64();
        let phases = &mut past.history.phases;
        match phases.last_mut().filter(|phase| phase.name == stage) {
            Some(phase) => {
                phase.of_samples += samples;
                phase.of_bytes += bytes;
                phase.of_shards += shards;
            }
            None => phases.push(Phase {
                name: stage.to_owned(),
                began,
                of_samples: samples,
                of_bytes: bytes,
                of_shards: shards,
                ..Phase::default()
            }),
        }
        for (counter, value) in [
            (&self.all_samples, samples),
            (&self.all_bytes, bytes),
            (&self.all_shards, shards),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
    }

    /// Moves what the counters hold to the phase that is under way.
    fn settle(&self, past: &mut Past) {
        let now = past.began.elapsed().as_secs_f64();
        let taken = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        let (samples, bytes, shards) = (
            taken(&self.samples),
            taken(&self.bytes),
            taken(&self.shards),
        );
        if let Some(phase) = past.history.phases.last_mut() {
            phase.seconds = now - phase.began;
            phase.samples += samples;
            phase.bytes += bytes;
            phase.shards += shards;
        }
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has been done since the run began.
    fn point(&self, past: &Past) -> Point {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let phases = past.history.phases.iter();
        Point {
            seconds: past.began.elapsed().as_secs_f64(),
            samples: load(&self.samples) + phases.clone().map(|phase| phase.samples).sum::<u64>(),
            bytes: load(&self.bytes) + phases.map(|phase| phase.bytes).sum::<u64>(),
            retries: load(&self.retries),
        }
    }

    /// Remembers how far the run is, if it is time to; for a thread that calls this often.
    pub(crate) fn remember(&self) {
        let mut past = self.past();
        if past.began.elapsed() < past.due {
            return;
        }
        let point = self.point(&past);
        past.history.timeline.push(point);
        if past.history.timeline.len() >= POINTS {
            let mut keep = false;
            past.history.timeline.retain(|_| {
                keep = !keep;
                !keep
            });
            past.interval *= 2;
        }
        past.due = past.began.elapsed() + past.interval;
    }

    /// The run so far.
    pub(crate) fn history(&self) -> History {
        let past = self.past();
        let now = self.point(&past);
        let mut history = past.history.clone();
        history.timeline.push(now);
        if let Some(phase) = history.phases.last_mut() {
            let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            phase.seconds = now.seconds - phase.began;
            phase.samples += load(&self.samples);
            phase.bytes += load(&self.bytes);
            phase.shards += load(&self.shards);
        }
        history
    }

    /// Bytes done and to do in all phases so far, for schedulers: the first is never the larger one.
    pub(crate) fn done_of(&self) -> (u64, u64) {
        let history = self.history();
        history.phases.iter().fold((0, 0), |(done, of), phase| {
            (done + phase.bytes.min(phase.of_bytes), of + phase.of_bytes)
        })
    }

    /// A sample of so many bytes is done.
    pub(crate) fn sample(&self, bytes: u64) {
        self.samples.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many samples are done, whose bytes are counted as they are read, or not read.
    pub(crate) fn samples(&self, samples: u64) {
        self.samples.fetch_add(samples, Ordering::Relaxed);
    }

    /// Bytes were read, of no sample in particular.
    pub(crate) fn read(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A shard is done.
    pub(crate) fn shard(&self, name: &str, bytes: u64, samples: u64) {
        self.shards.fetch_add(1, Ordering::Relaxed);
        if self.logs_shards.load(Ordering::Relaxed) {
            tracing::info!(shard = name, bytes, samples, "shard done");
        }
    }

    /// A sample was left out.
    pub(crate) fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// A sample was found that stops publication.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// So many files were listed.
    pub(crate) fn listed(&self, files: u64) {
        self.listed.fetch_add(files, Ordering::Relaxed);
    }

    /// One more directory is listed.
    pub(crate) fn directory(&self) {
        self.directories.fetch_add(1, Ordering::Relaxed);
    }

    /// A request is made again.
    pub(crate) fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// A server asked for fewer requests.
    pub(crate) fn push_back(&self) {
        self.push_backs.fetch_add(1, Ordering::Relaxed);
    }

    /// A slow read was asked for a second time.
    pub(crate) fn hedge(&self) {
        self.hedges.fetch_add(1, Ordering::Relaxed);
    }

    /// So many network reads may be in flight now.
    pub(crate) fn reads_allowed(&self, reads: usize) {
        self.reads.store(reads as u64, Ordering::Relaxed);
    }

    /// Requests made again, those of them that the server pushed back, and reads asked for twice, of the whole run.
    pub(crate) fn again(&self) -> (u64, u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            load(&self.retries),
            load(&self.push_backs),
            load(&self.hedges),
        )
    }

    /// Name of the stage under way.
    pub(crate) fn stage(&self) -> String {
        let past = self.past();
        past.history
            .phases
            .last()
            .map_or_else(String::new, |phase| phase.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_adds_up_its_phases_and_goes_on_with_one_of_the_same_name() {
        let counters = Counters::default();
        counters.begin("scan", 0, 0, 0);
        for _ in 0..2 {
            counters.begin("pack", 4, 100, 1);
            counters.sample(30);
            counters.read(20);
            counters.shard("x", 50, 1);
        }
        counters.begin("publish", 0, 0, 0);
        let history = counters.history();
        let names: Vec<_> = history.phases.iter().map(|phase| &phase.name).collect();
        assert_eq!(names, ["scan", "pack", "publish"]);
        let pack = &history.phases[1];
        assert_eq!((pack.samples, pack.of_samples), (2, 8));
        assert_eq!((pack.bytes, pack.of_bytes), (100, 200));
        assert_eq!((pack.shards, pack.of_shards), (2, 2));
        let last = history.timeline.last().unwrap();
        assert_eq!((last.samples, last.bytes), (2, 100));
        assert_eq!(counters.done_of(), (100, 200));
    }

    #[test]
    fn a_history_of_any_length_has_few_points_in_order() {
        let counters = Counters::default();
        counters.begin("pack", 0, 0, 0);
        for i in 0..10 * POINTS as u64 {
            counters.sample(7);
            counters.past().due = Duration::ZERO;
            counters.remember();
            let history = counters.history();
            assert!(history.timeline.len() <= POINTS);
            assert_eq!(history.timeline.last().unwrap().samples, i + 1);
        }
        let points = counters.history().timeline;
        assert!(points.len() > POINTS / 3, "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a.seconds <= b.seconds && a.samples <= b.samples));
        assert!(counters.past().interval > 4 * LOOK_INTERVAL);
    }
}
