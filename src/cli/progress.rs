//! What a run has done so far: counters, what they were over time, and a thread that shows them as a bar on a terminal, as lines in a
//! log, and to a scheduler that named a file for it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::base::units::{bytes_text, count_text, seconds_text};
use crate::cli::file;
use crate::model::history::{History, Phase, Point};

const BAR_INTERVAL: Duration = Duration::from_millis(100);
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two writes of the scheduler's file, which Argo reads as often.
const FILE_INTERVAL: Duration = Duration::from_secs(3);
/// Points of a history at most. When there are more, every second one is dropped and the next ones come half as often.
const POINTS: usize = 240;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// A bar that is redrawn.
    Bar,
    /// A line every ten seconds.
    Log,
    /// Nothing.
    None,
}

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
            interval: BAR_INTERVAL,
            due: BAR_INTERVAL,
        }
    }
}

/// Counts what happens; shared by all threads.
#[derive(Debug, Default)]
pub struct Counters {
    samples: AtomicU64,
    bytes: AtomicU64,
    shards: AtomicU64,
    skipped: AtomicU64,
    refused: AtomicU64,
    all_samples: AtomicU64,
    all_bytes: AtomicU64,
    all_shards: AtomicU64,
    listed: AtomicU64,
    retries: AtomicU64,
    push_backs: AtomicU64,
    hedges: AtomicU64,
    reads: AtomicU64,
    past: Mutex<Past>,
    logs_shards: AtomicBool,
}

impl Counters {
    /// Names what is being done and how much of it there is; counts start again. The same name again goes on with that phase.
    pub fn begin(&self, stage: &'static str, samples: u64, bytes: u64, shards: u64) {
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
    fn remember(&self) {
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
    pub fn history(&self) -> History {
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
    fn done_of(&self) -> (u64, u64) {
        let history = self.history();
        history.phases.iter().fold((0, 0), |(done, of), phase| {
            (done + phase.bytes.min(phase.of_bytes), of + phase.of_bytes)
        })
    }

    /// A sample of so many bytes is done.
    pub fn sample(&self, bytes: u64) {
        self.samples.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes were read, of no sample in particular.
    pub fn read(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A shard is done.
    pub fn shard(&self, name: &str, bytes: u64, samples: u64) {
        self.shards.fetch_add(1, Ordering::Relaxed);
        if self.logs_shards.load(Ordering::Relaxed) {
            tracing::info!(shard = name, bytes, samples, "shard done");
        }
    }

    /// A sample was left out.
    pub fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// A sample was found that stops publication.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// So many files were listed.
    pub fn listed(&self, files: u64) {
        self.listed.fetch_add(files, Ordering::Relaxed);
    }

    /// A request is made again.
    pub fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// A server asked for fewer requests.
    pub fn push_back(&self) {
        self.push_backs.fetch_add(1, Ordering::Relaxed);
    }

    /// A slow read was asked for a second time.
    pub fn hedge(&self) {
        self.hedges.fetch_add(1, Ordering::Relaxed);
    }

    /// So many network reads may be in flight now.
    pub fn reads_allowed(&self, reads: usize) {
        self.reads.store(reads as u64, Ordering::Relaxed);
    }

    /// Requests made again, those of them that the server pushed back, and reads asked for twice, of the whole run.
    pub fn again(&self) -> (u64, u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            load(&self.retries),
            load(&self.push_backs),
            load(&self.hedges),
        )
    }

    /// Bytes done in this stage.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn stage(&self) -> String {
        let past = self.past();
        past.history
            .phases
            .last()
            .map_or_else(String::new, |phase| phase.name.clone())
    }
}

/// Shows counters until dropped, and keeps their history.
pub struct Reporter {
    ended: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    /// Starts showing. The file, if one is named, gets a line `N/M` every three seconds and at the end: bytes done, of how many.
    pub fn start(show: Show, counters: &Arc<Counters>, file: Option<PathBuf>) -> Self {
        let [ended, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        counters
            .logs_shards
            .store(show == Show::Log, Ordering::Relaxed);
        let (counters, end, whole) = (Arc::clone(counters), Arc::clone(&ended), Arc::clone(&done));
        let work = move || {
            let mut view = View::new(show);
            let mut told = file.map(Told::new);
            while !end.load(Ordering::Relaxed) {
                counters.remember();
                view.show(&counters);
                if let Some(told) = &mut told {
                    told.tell(&counters, false);
                }
                std::thread::park_timeout(BAR_INTERVAL);
            }
            view.end();
            if let Some(told) = &mut told {
                told.at = None;
                told.tell(&counters, whole.load(Ordering::Relaxed));
            }
        };
        // Without the thread there is no progress to see, which is no reason to fail.
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(work)
            .ok();
        Self {
            ended,
            done,
            thread,
        }
    }

    /// Ends showing; whether all there was to do is done.
    pub fn end(self, done: bool) {
        self.done.store(done, Ordering::Relaxed);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The file of a scheduler.
struct Told {
    path: PathBuf,
    at: Option<Instant>,
    failed: bool,
}

impl Told {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            at: None,
            failed: false,
        }
    }

    /// Writes how far the run is, if it is time to and anything is known of it.
    fn tell(&mut self, counters: &Counters, whole: bool) {
        if self.failed || self.at.is_some_and(|at| at.elapsed() < FILE_INTERVAL) {
            return;
        }
        let line = match counters.done_of() {
            (_, 0) if !whole => return,
            (_, of) if whole => format!("{0}/{0}", of.max(1)),
            (done, of) => format!("{done}/{of}"),
        };
        self.at = Some(Instant::now());
        if let Err(error) = file::write_line(&self.path, &line) {
            self.failed = true;
            let reason = crate::base::error::reason(&error);
            tracing::warn!("progress file {}: {reason}", self.path.display());
        }
    }
}

/// Where a person sees progress.
enum View {
    Bar {
        bar: ProgressBar,
        rate: Rate,
        stage: String,
    },
    Lines {
        rate: Rate,
        last: Instant,
    },
    None,
}

impl View {
    fn new(show: Show) -> Self {
        match show {
            Show::Bar => {
                let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
                let style = ProgressStyle::with_template(
                    "{prefix:>8} {wide_bar:.cyan/dim} {percent:>3}%  {msg}",
                );
                bar.set_style(
                    style
                        .unwrap_or_else(|_| ProgressStyle::default_bar())
                        .progress_chars("━━─"),
                );
                Self::Bar {
                    bar,
                    rate: Rate::default(),
                    stage: String::new(),
                }
            }
            Show::Log => Self::Lines {
                rate: Rate::default(),
                last: Instant::now(),
            },
            Show::None => Self::None,
        }
    }

    fn show(&mut self, counters: &Counters) {
        match self {
            Self::Bar { bar, rate, stage } => {
                let now = counters.stage();
                if now != *stage {
                    *rate = Rate::default();
                    bar.set_prefix(now.clone());
                    *stage = now;
                }
                bar.set_length(counters.all_bytes.load(Ordering::Relaxed).max(1));
                bar.set_position(counters.bytes());
                bar.set_message(rate.message(counters));
            }
            Self::Lines { rate, last } if last.elapsed() >= LINE_INTERVAL => {
                *last = Instant::now();
                line(counters, rate);
            }
            Self::Lines { .. } | Self::None => {}
        }
    }

    fn end(&self) {
        if let Self::Bar { bar, .. } = self {
            bar.finish_and_clear();
        }
    }
}

fn line(counters: &Counters, rate: &mut Rate) {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    tracing::info!(
        stage = counters.stage(),
        samples = load(&counters.samples),
        of_samples = load(&counters.all_samples),
        bytes = load(&counters.bytes),
        of_bytes = load(&counters.all_bytes),
        shards = load(&counters.shards),
        of_shards = load(&counters.all_shards),
        skipped = load(&counters.skipped),
        bytes_per_second = rate.now(counters) as u64,
        listed = load(&counters.listed),
        reads_allowed = load(&counters.reads),
        retries = load(&counters.retries),
        "progress"
    );
}

/// Speed over the last seconds.
struct Rate {
    at: Instant,
    bytes: u64,
    smooth: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            at: Instant::now(),
            bytes: 0,
            smooth: 0.0,
        }
    }
}

impl Rate {
    fn now(&mut self, counters: &Counters) -> f64 {
        let seconds = self.at.elapsed().as_secs_f64();
        let bytes = counters.bytes();
        if seconds > 0.05 {
            let rate = bytes.saturating_sub(self.bytes) as f64 / seconds;
            // About three seconds of memory, whatever the interval.
            let weight = if self.smooth == 0.0 {
                1.0
            } else {
                (seconds / 3.0).min(1.0)
            };
            self.smooth += (rate - self.smooth) * weight;
            self.at = Instant::now();
            self.bytes = bytes;
        }
        self.smooth
    }

    fn message(&mut self, counters: &Counters) -> String {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let rate = self.now(counters);
        let left = load(&counters.all_bytes).saturating_sub(counters.bytes());
        let eta = if rate > 0.0 {
            seconds_text(left as f64 / rate)
        } else {
            "-".to_owned()
        };
        let mut message = format!(
            "{}/{} samples  {}/s  {}/{} shards  ETA {eta}",
            count_text(load(&counters.samples)),
            count_text(load(&counters.all_samples)),
            bytes_text(rate as u64),
            load(&counters.shards),
            load(&counters.all_shards),
        );
        for (counter, what) in [
            (&counters.reads, "reads"),
            (&counters.retries, "retries"),
            (&counters.skipped, "skipped"),
            (&counters.refused, "bad"),
        ] {
            if load(counter) > 0 {
                message.push_str(&format!("  {} {what}", load(counter)));
            }
        }
        message
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
        assert!(counters.past().interval > 4 * BAR_INTERVAL);
    }

    #[test]
    fn a_schedulers_file_never_tells_more_than_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        let counters = Arc::new(Counters::default());
        let mut told = Told::new(path.clone());
        told.tell(&counters, false);
        assert!(!path.exists());
        counters.begin("pack", 1, 10, 1);
        counters.sample(25);
        told.tell(&counters, false);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "10/10\n");
        for (done, text) in [(false, "10/30\n"), (true, "30/30\n")] {
            let reporter = Reporter::start(Show::None, &counters, Some(path.clone()));
            if !done {
                counters.begin("verify", 0, 20, 1);
            }
            reporter.end(done);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let nothing = Arc::new(Counters::default());
        Reporter::start(Show::None, &nothing, Some(path.clone())).end(true);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1/1\n");
    }
}
