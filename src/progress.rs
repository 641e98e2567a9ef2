//! What a run has done so far: counters, and a thread that shows them as a bar on a terminal or as lines in a log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units::{bytes_text, count_text, seconds_text};

const BAR_INTERVAL: Duration = Duration::from_millis(100);
const LINE_INTERVAL: Duration = Duration::from_secs(10);

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
    stage: Mutex<&'static str>,
    logs_shards: AtomicBool,
}

impl Counters {
    /// Names what is being done and how much of it there is; counts start again.
    pub fn begin(&self, stage: &'static str, samples: u64, bytes: u64, shards: u64) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
        for (counter, value) in [
            (&self.samples, 0),
            (&self.bytes, 0),
            (&self.shards, 0),
            (&self.all_samples, samples),
            (&self.all_bytes, bytes),
            (&self.all_shards, shards),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
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

    fn stage(&self) -> &'static str {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows counters until dropped.
pub struct Reporter {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    /// Starts showing; nothing is shown for [`Show::None`].
    pub fn start(show: Show, counters: &Arc<Counters>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        counters
            .logs_shards
            .store(show == Show::Log, Ordering::Relaxed);
        let run: fn(&Counters, &AtomicBool) = match show {
            Show::Bar => bar,
            Show::Log => lines,
            Show::None => {
                return Self {
                    ended,
                    thread: None,
                };
            }
        };
        let (counters, end) = (Arc::clone(counters), Arc::clone(&ended));
        // Without the thread there is no progress to see, which is no reason to fail.
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || run(&counters, &end))
            .ok();
        Self { ended, thread }
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

fn bar(counters: &Counters, ended: &AtomicBool) {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style =
        ProgressStyle::with_template("{prefix:>8} {wide_bar:.cyan/dim} {percent:>3}%  {msg}");
    bar.set_style(
        style
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━━─"),
    );
    let mut rate = Rate::default();
    let mut stage = "";
    while !ended.load(Ordering::Relaxed) {
        if counters.stage() != stage {
            stage = counters.stage();
            rate = Rate::default();
            bar.set_prefix(stage);
        }
        bar.set_length(counters.all_bytes.load(Ordering::Relaxed).max(1));
        bar.set_position(counters.bytes());
        bar.set_message(rate.message(counters));
        std::thread::park_timeout(BAR_INTERVAL);
    }
    bar.finish_and_clear();
}

fn lines(counters: &Counters, ended: &AtomicBool) {
    let mut rate = Rate::default();
    let mut last = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        std::thread::park_timeout(BAR_INTERVAL * 5);
        if last.elapsed() < LINE_INTERVAL {
            continue;
        }
        last = Instant::now();
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
