//! What a run has done so far: counters, what they were over time, and a thread that shows them as a bar on a terminal, as lines in a
//! log, and to a scheduler that named a file for it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::base::units::{bytes_text, count_text, seconds_text};
use crate::cli::file;
use crate::model::counters::{Counters, LOOK_INTERVAL};

const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two writes of the scheduler's file, which Argo reads as often.
const FILE_INTERVAL: Duration = Duration::from_secs(3);

/// The bar that is on the terminal now.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn bar_now() -> MutexGuard<'static, Option<ProgressBar>> {
    BAR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stderr as log lines are written to it: above the bar, if there is one, which would be left behind in pieces otherwise.
pub(crate) struct AboveBar;

impl Write for AboveBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &*bar_now() {
            Some(bar) => bar.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// A bar that is redrawn.
    Bar,
    /// A line every ten seconds.
    Log,
    /// Nothing.
    None,
}

/// Shows counters until dropped, and keeps their history.
pub(crate) struct Reporter {
    ended: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    /// Starts showing. The file, if one is named, gets a line `N/M` every three seconds and at the end: bytes done, of how many.
    pub(crate) fn start(show: Show, counters: &Arc<Counters>, file: Option<PathBuf>) -> Self {
        let [ended, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        counters.log_shards(show == Show::Log);
        let (counters, end, whole) = (Arc::clone(counters), Arc::clone(&ended), Arc::clone(&done));
        let work = move || {
            let mut view = View::new(show);
            let mut told = file.map(SchedulerFile::new);
            while !end.load(Ordering::Relaxed) {
                counters.remember();
                view.show(&counters);
                if let Some(told) = &mut told {
                    told.tell(&counters, false);
                }
                std::thread::park_timeout(LOOK_INTERVAL);
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
    pub(crate) fn end(self, done: bool) {
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
struct SchedulerFile {
    path: PathBuf,
    at: Option<Instant>,
    failed: bool,
}

impl SchedulerFile {
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
                *bar_now() = Some(bar.clone());
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
                bar.set_length(counters.counts().all_bytes.max(1));
                // While a source is listed nobody knows how much there is to read.
                let known = counters.counts().all_bytes > 0;
                bar.set_position(if known { counters.bytes() } else { 0 });
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
            *bar_now() = None;
        }
    }
}

fn line(counters: &Counters, rate: &mut Rate) {
    let counts = counters.counts();
    tracing::info!(
        stage = counters.stage(),
        samples = counts.samples,
        of_samples = counts.all_samples,
        bytes = counts.bytes,
        of_bytes = counts.all_bytes,
        shards = counts.shards,
        of_shards = counts.all_shards,
        skipped = counts.skipped,
        bytes_per_second = rate.now(counters) as u64,
        listed = counts.listed,
        reads_allowed = counts.reads,
        retries = counts.retries,
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
        let counts = counters.counts();
        let rate = self.now(counters);
        let left = counts.all_bytes.saturating_sub(counters.bytes());
        let eta = if rate > 0.0 {
            seconds_text(left as f64 / rate)
        } else {
            "-".to_owned()
        };
        if counts.all_samples == 0 && counts.listed > 0 {
            return format!(
                "{} files listed  {} read",
                count_text(counts.listed),
                bytes_text(counts.bytes)
            );
        }
        let mut message = format!(
            "{}/{} samples  {}/s  {}/{} shards  ETA {eta}",
            count_text(counts.samples),
            count_text(counts.all_samples),
            bytes_text(rate as u64),
            counts.shards,
            counts.all_shards,
        );
        for (count, what) in [
            (counts.reads, "reads"),
            (counts.retries, "retries"),
            (counts.skipped, "skipped"),
            (counts.refused, "bad"),
        ] {
            if count > 0 {
                message.push_str(&format!("  {count} {what}"));
            }
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedulers_file_never_tells_more_than_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        let counters = Arc::new(Counters::default());
        let mut told = SchedulerFile::new(path.clone());
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
