//! What a run has done so far: counters, what they were over time, and a thread that shows them as a bar on a terminal, as lines in a
//! log, and to a scheduler that named a file for it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cli::file;
use crate::cli::pace::{Figures, Pace};
use crate::cli::terminal::{columns, has_colours};
use crate::model::counters::{Counters, LOOK_INTERVAL};

const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two writes of the scheduler's file, which Argo reads as often.
const FILE_INTERVAL: Duration = Duration::from_secs(3);

/// On fewer columns than this there is no room for a bar.
const WIDE: usize = 70;
/// Columns of the bar itself.
const BAR_COLUMNS: usize = 20;

/// The line that is on the terminal now.
static SCREEN: Mutex<Option<Screen>> = Mutex::new(None);

fn screen() -> MutexGuard<'static, Option<Screen>> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line of a terminal that is drawn over and over, always the last one.
#[derive(Debug, Default)]
struct Screen {
    /// What is there, with colours.
    text: String,
    /// How many columns that takes.
    length: usize,
}

impl Screen {
    /// What takes the line away again. On a terminal that became smaller it is several.
    fn erasing(&self) -> String {
        let more = self.length.saturating_sub(1) / columns().max(1);
        format!("\r\x1b[K{}", "\x1b[A\x1b[K".repeat(more))
    }

    fn draw(&mut self, text: String, length: usize) {
        let drawn = format!("{}{text}", self.erasing());
        (self.text, self.length) = (text, length);
        let _ = io::stderr().write_all(drawn.as_bytes());
    }
}

/// Leaves the terminal to what is said at the end.
pub(crate) fn leave() {
    if let Some(last) = screen().take() {
        let _ = io::stderr().write_all(last.erasing().as_bytes());
    }
}

/// Stderr as log lines are written to it: above the bar, if there is one, which would be left behind in pieces otherwise.
pub(crate) struct AboveBar;

impl Write for AboveBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &*screen() {
            Some(screen) => {
                let line = [screen.erasing().as_bytes(), bytes, screen.text.as_bytes()].concat();
                io::stderr().write_all(&line).map(|()| bytes.len())
            }
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
    /// The same as JSON.
    LogJson,
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
        counters.log_shards(matches!(show, Show::Log | Show::LogJson));
        let (counters, end, whole) = (Arc::clone(counters), Arc::clone(&ended), Arc::clone(&done));
        let work = move || {
            let (mut view, mut pace) = (View::new(show), Pace::default());
            let mut told = file.map(SchedulerFile::new);
            while !end.load(Ordering::Relaxed) {
                counters.remember();
                view.show(&counters, &mut pace);
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
    Bar,
    Lines { json: bool, last: Instant },
    None,
}

impl View {
    fn new(show: Show) -> Self {
        match show {
            Show::Bar => {
                *screen() = Some(Screen::default());
                Self::Bar
            }
            Show::Log | Show::LogJson => Self::Lines {
                json: show == Show::LogJson,
                last: Instant::now(),
            },
            Show::None => Self::None,
        }
    }

    fn show(&mut self, counters: &Counters, pace: &mut Pace) {
        let figures = pace.look(counters);
        match self {
            Self::Bar => {
                // Whoever ends the run may have left the terminal already.
                if let Some(screen) = &mut *screen() {
                    let (text, length) = bar(&figures, columns(), has_colours());
                    screen.draw(text, length);
                }
            }
            Self::Lines { json, last } if last.elapsed() >= LINE_INTERVAL => {
                *last = Instant::now();
                match json {
                    true => line(counters, &figures),
                    false => tracing::info!("{}", figures.line()),
                }
            }
            Self::Lines { .. } | Self::None => {}
        }
    }

    fn end(&self) {
        if let Self::Bar = self {
            leave();
        }
    }
}

/// A line about a stage for a terminal of so many columns, and how many it takes.
fn bar(figures: &Figures, columns: usize, colours: bool) -> (String, usize) {
    let wide = columns >= WIDE;
    let mut start = match wide {
        true => format!("{:>8}  ", figures.stage),
        false => format!("{}  ", figures.stage),
    };
    let mut length = start.chars().count();
    if let Some(done) = figures.done {
        let percent = figures.percent().unwrap_or_default();
        if wide {
            let full = (done * BAR_COLUMNS as f64) as usize;
            let (done, rest) = ("━".repeat(full), "─".repeat(BAR_COLUMNS - full));
            start.push_str(&match colours {
                true => format!("\x1b[36m{done}\x1b[0m\x1b[2m{rest}\x1b[0m "),
                false => format!("{done}{rest} "),
            });
            length += BAR_COLUMNS + 1;
        }
        let percent = format!("{percent:>3}%  ");
        length += percent.chars().count();
        start.push_str(&percent);
    }
    // The last column stays free: some terminals begin a new line when it is written.
    let message = figures.within(columns.saturating_sub(length + 1));
    length += message.chars().count();
    (start + &message, length)
}

/// The figures for programs.
fn line(counters: &Counters, figures: &Figures) {
    let counts = counters.counts();
    tracing::info!(
        stage = figures.stage,
        percent = figures.percent(),
        samples = counts.samples,
        of_samples = counts.all_samples,
        bytes = counts.bytes,
        of_bytes = counts.all_bytes,
        shards = counts.shards,
        of_shards = counts.all_shards,
        skipped = counts.skipped,
        bytes_per_second = figures.bytes_per_second as u64,
        samples_per_second = figures.samples_per_second as u64,
        seconds = figures.seconds as u64,
        seconds_left = figures.left.map(|left| left as u64),
        listed = counts.listed,
        directories = counts.directories,
        reads_allowed = counts.reads,
        retries = counts.retries,
        "progress"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fits_its_terminal_and_is_left_out_where_there_is_no_room() {
        let counters = Counters::default();
        counters.begin("pack", 900, 100_000_000, 8);
        for _ in 0..391 {
            counters.sample(110_000);
        }
        let figures = Pace::default().look(&counters);
        let (wide, length) = bar(&figures, 120, false);
        assert!(
            wide.starts_with("    pack  ━━━━━━━━────────────  43%  391/900 samples"),
            "{wide}"
        );
        assert_eq!(wide.chars().count(), length);
        let (narrow, _) = bar(&figures, 40, false);
        assert!(narrow.starts_with("pack   43%  "), "{narrow}");
        let (coloured, of_coloured) = bar(&figures, 120, true);
        assert!(coloured.contains("\x1b[36m"));
        assert_eq!(of_coloured, length);
        for columns in 20..200 {
            assert!(bar(&figures, columns, false).1 < columns);
        }
    }

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
