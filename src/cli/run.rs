//! One run of the program: arguments parsed, the verb called, its error told, its summary written, the exit code given.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::time::FormatTime;

use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::cli::flags::{self as cli, Page, Typed, Verb};
use crate::cli::progress::{AboveBar, Reporter, Show, leave};
use crate::cli::settings;
use crate::cli::settings::{Running, SummaryPlace};
use crate::cli::terminal::has_colours;
use crate::cli::verbs;
use crate::cli::verbs::outline::OUTLINE;
use crate::cli::verbs::summary::Summary;
use crate::model::counters::Counters;
use crate::model::history::Setup;
use crate::model::problems::Problems;

/// Parses the process's arguments, runs the verb, and gives the exit code.
pub fn main() -> u8 {
    match cli::parse() {
        Ok((cli, typed)) => run(&cli.verb, typed),
        Err(code) => code,
    }
}

/// Sets the run up, runs a verb, tells its error and writes its summary; gives the exit code.
fn run(verb: &Verb, typed: Typed) -> u8 {
    let args = verb.common();
    let show = how_to_show(verb);
    log_to_stderr(args, show);
    let counters = Arc::new(Counters::default());
    let stop = Stop::default();
    let running = settings::running(args, &counters, &stop).map(|running| Running {
        for_real: typed.for_real.clone(),
        ..running
    });
    let end = Arc::new(End {
        verb: verb.name(),
        started: Instant::now(),
        started_at: settings::now(),
        setup: running.as_ref().ok().map(|running| Setup {
            command: Some(settings::command_line()),
            source: verb.source().map(str::to_owned),
            ..running.setup()
        }),
        problems: running
            .as_ref()
            .ok()
            .map(|running| running.problems.clone()),
        counters: Arc::clone(&counters),
        log: args.log,
        quiet: args.quiet,
        summary: settings::summary(args),
        json: args.json && !verb.fills_stdout(),
        typed,
        page: verb.page(),
        told: Mutex::new(false),
    });
    let last = Arc::clone(&end);
    let watched = stop.watch(
        settings::deadline(|name| std::env::var(name).ok()),
        move |error| last.tell_in_haste(error),
    );
    let (running, result) = match running {
        Err(error) => (None, Err(error)),
        Ok(running) => {
            let result = watched.and_then(|()| {
                settings::check_stdout(verb)?;
                let reporter = Reporter::start(show, &counters, settings::progress_file());
                let result = verbs::run(verb, &running);
                reporter.end(result.is_ok());
                result
            });
            (Some(running), result)
        }
    };
    end.tell(result, running.as_ref())
}

/// Where progress is shown. What is asked for on stdout may go to the same terminal, where a bar would wipe it away.
fn how_to_show(verb: &cli::Verb) -> Show {
    let args = verb.common();
    let shares_terminal = verb.fills_stdout() && std::io::stdout().is_terminal();
    let bar = std::io::stderr().is_terminal() && !args.verbose && args.log == cli::Log::Text;
    let lines = match args.log {
        cli::Log::Text => Show::Log,
        cli::Log::Json => Show::LogJson,
    };
    match args.progress {
        _ if args.quiet || shares_terminal => Show::None,
        cli::Progress::Auto if bar => Show::Bar,
        cli::Progress::Auto | cli::Progress::Log => lines,
        cli::Progress::Bar => Show::Bar,
        cli::Progress::None => Show::None,
    }
}

/// What is told when a run ends, by whoever ends it.
struct End {
    verb: &'static str,
    started: Instant,
    started_at: String,
    setup: Option<Setup>,
    problems: Option<Problems>,
    counters: Arc<Counters>,
    log: cli::Log,
    quiet: bool,
    summary: Option<SummaryPlace>,
    /// Whether the result is printed as JSON.
    json: bool,
    typed: Typed,
    page: Option<Page>,
    /// Whether a thread has told how the run ended; held by the one that is at it. Nobody tells a second time.
    told: Mutex<bool>,
}

impl End {
    /// Tells how the run ended, and gives the exit code.
    fn tell(&self, result: Result<Summary>, running: Option<&Running>) -> u8 {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        while std::mem::replace(&mut *told, true) {
            // The other thread ends the process at this moment.
            std::thread::park();
        }
        let (summary, interrupted) = match result {
            Ok(summary) => (summary, false),
            Err(error) => (self.failed(&error), stopped(&error)),
        };
        // Who is told to stop has no time to read a dataset, and what was not reached need not be.
        self.write(summary, running.filter(|_| !interrupted))
    }

    /// The same for a run that does not end although it was told to, from another thread and right before the process ends.
    fn tell_in_haste(&self, error: &Error) {
        match self.told.try_lock() {
            Ok(mut told) if !*told => {
                self.write(self.failed(error), None);
                *told = true;
            }
            // The run ends by itself at this very moment: it only needs a little more time.
            _ => std::thread::sleep(Duration::from_millis(700)),
        }
    }

    fn failed(&self, error: &Error) -> Summary {
        leave();
        let origin = match error.kind() {
            Kind::Usage | Kind::Conflict => self.typed.origin(&error.to_string()),
            _ => String::new(),
        };
        let error = &error.and(&origin);
        tell(error, self.log);
        Summary {
            exit_code: error.kind().exit_code(),
            destination: self.page.as_ref().map(|page| page.destination.clone()),
            ..Summary::failed(error)
        }
    }

    fn write(&self, mut summary: Summary, running: Option<&Running>) -> u8 {
        summary.end(self.verb, self.started.elapsed(), &self.counters);
        summary.started_at.clone_from(&self.started_at);
        summary.setup.clone_from(&self.setup);
        let code = summary.exit_code;
        // Damage is told even to those who want errors only.
        let quiet = self.quiet && code == 0;
        let printed = match &self.summary {
            Some(SummaryPlace::Stdout) => summary.print_json(),
            _ if quiet => Ok(()),
            _ => summary.print(self.json),
        };
        let told = [
            Some(printed),
            self.problems.as_ref().map(Problems::end),
            match &self.summary {
                Some(SummaryPlace::File(path)) => Some(summary.write(path)),
                Some(SummaryPlace::Stdout) | None => None,
            },
            self.page
                .as_ref()
                .map(|page| verbs::report::write(page, &summary, running)),
        ];
        let mut codes = vec![code];
        for error in told.into_iter().flatten().filter_map(Result::err) {
            tell(&error, self.log);
            codes.push(error.kind().exit_code());
        }
        codes.into_iter().find(|&code| code != 0).unwrap_or(0)
    }
}

/// Whether a run ended because it was told to, by an outage, or before it began.
fn stopped(error: &Error) -> bool {
    matches!(
        error.kind(),
        Kind::Interrupted(_) | Kind::Transient | Kind::Usage
    )
}

fn log_to_stderr(args: &cli::CommonArgs, show: Show) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::prelude::*;
    let level = match show {
        _ if args.quiet => LevelFilter::ERROR,
        _ if args.verbose => LevelFilter::DEBUG,
        Show::Log | Show::LogJson => LevelFilter::INFO,
        Show::Bar | Show::None => LevelFilter::WARN,
    };
    let outline = match show {
        _ if args.quiet => LevelFilter::ERROR,
        Show::None => level,
        Show::Bar | Show::Log | Show::LogJson => LevelFilter::INFO,
    };
    // Libraries log requests, and some of those hold secrets: only our own words are let out.
    let ours = Targets::new()
        .with_target("shardpack", level)
        .with_target(OUTLINE, outline);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| AboveBar)
        .with_target(false);
    // A second call, in tests, keeps the first subscriber.
    let _ = match args.log {
        cli::Log::Json => tracing_subscriber::registry()
            .with(lines.json().flatten_event(true).with_filter(ours))
            .try_init(),
        // Beside a bar somebody looks on.
        cli::Log::Text if show == Show::Bar => tracing_subscriber::registry()
            .with(lines.with_ansi(false).without_time().with_filter(ours))
            .try_init(),
        cli::Log::Text => tracing_subscriber::registry()
            .with(lines.with_ansi(false).with_timer(Now).with_filter(ours))
            .try_init(),
    };
}

/// The time of a log line, in UTC and whole seconds.
struct Now;

impl FormatTime for Now {
    fn format_time(
        &self,
        out: &mut tracing_subscriber::fmt::format::Writer<'_>,
    ) -> std::fmt::Result {
        out.write_str(&settings::now())
    }
}

fn tell(error: &Error, log: cli::Log) {
    match log {
        cli::Log::Text => {
            // As the command line's own errors are coloured.
            let word = match has_colours() {
                true => "\x1b[1m\x1b[31merror:\x1b[0m",
                false => "error:",
            };
            let _ = writeln!(std::io::stderr(), "{word} {error}");
        }
        cli::Log::Json => tracing::error!(exit_code = error.kind().exit_code(), "{error}"),
    }
}
