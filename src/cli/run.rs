//! One run of the program: arguments parsed, the verb called, its error told, its summary written, the exit code given.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::cli::flags::{self as cli, Verb};
use crate::cli::progress::{Reporter, Show};
use crate::cli::settings;
use crate::cli::settings::{FanOut, Running};
use crate::cli::verbs as command;
use crate::cli::verbs::summary::Summary;
use crate::model::counters::Counters;
use crate::model::history::Setup;
use crate::model::problems::Problems;

/// Parses the process's arguments, runs the verb, and gives the exit code.
pub fn main() -> u8 {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.verb {
        Verb::Convert(args) => run_with_page(
            "convert",
            &args.common,
            &args.page,
            &args.destination,
            |running| {
                let planning = settings::planning(
                    &args.source,
                    &args.destination,
                    &args.recipe,
                    args.policy.on_error,
                    &args.growth,
                )?;
                let policy = settings::policy(&args.policy)?;
                let fan_out = settings::fan_out(&args.worker)?;
                let running = running.replacing(&args.replace);
                command::convert::run(&planning, policy, fan_out, args.dry_run, &running)
            },
        ),
        Verb::Plan(args) => run("plan", &args.common, |running| {
            let planning = settings::planning(
                &args.source,
                &args.destination,
                &args.recipe,
                args.on_error,
                &args.growth,
            )?;
            let told = settings::told(&args)?;
            let running = running.replacing(&args.replace);
            command::plan::run(&planning, &told, args.dry_run, &running)
        }),
        Verb::Pack(args) => run_with_page(
            "pack",
            &args.common,
            &args.page,
            &args.destination,
            |running| {
                let fan_out = FanOut {
                    worker: settings::worker(&args.worker)?,
                    publish: args.worker.publish_when_complete,
                };
                let policy = settings::policy(&args.policy)?;
                let running = running.replacing(&args.replace);
                command::pack::run(
                    &args.destination,
                    args.source.as_deref(),
                    fan_out,
                    policy,
                    &running,
                )
            },
        ),
        Verb::Publish(args) => run_with_page(
            "publish",
            &args.common,
            &args.page,
            &args.destination,
            |running| {
                let digest = args.out_digest.as_ref().map(Path::new);
                let running = running.replacing(&args.replace);
                command::publish::run(&args.destination, digest, &running)
            },
        ),
        Verb::Verify(args) => run_with_page(
            "verify",
            &args.common,
            &args.page,
            &args.destination,
            |running| {
                let source = args.source.as_deref().or(args.source_argument.as_deref());
                // A batch template's parameter may be empty.
                let source = source.filter(|source| !source.is_empty());
                let level = settings::level(args.level, source)?;
                let part = settings::partly(&args, level)?;
                command::verify::run(&args.destination, level, source, &part, args.json, running)
            },
        ),
        Verb::Repair(args) => run("repair", &args.common, |running| {
            let source = args.source.as_deref();
            command::repair::run(&args.destination, source, args.dry_run, running)
        }),
        Verb::Compact(args) => run("compact", &args.common, |running| {
            let policy = settings::policy(&args.policy)?;
            let files = settings::Files {
                labels: args.labels.clone(),
                synsets: args.synsets.clone(),
                class_names: args.class_names.clone(),
            };
            let source = args.source.as_deref();
            command::compact::run(
                &args.destination,
                source,
                files,
                policy,
                args.dry_run,
                running,
            )
        }),
        Verb::Gc(args) => run("gc", &args.common, |running| {
            let rules = settings::gc(&args)?;
            command::gc::run(&args.destination, &rules, running)
        }),
        Verb::Index(args) => run("index", &args.common, |running| {
            let names = settings::index_names(&args.index);
            let running = running.replacing(&args.replace);
            command::index::run(&args.destination, &names, &running)
        }),
        Verb::Report(args) => run("report", &args.common, |running| {
            let summary = args.run.as_ref().map(Path::new);
            command::report::run(&args.destination, Path::new(&args.output), summary, running)
        }),
        Verb::Inspect(args) => run("inspect", &args.common, |running| {
            command::inspect::run(&args.destination, args.key.as_deref(), args.json, running)
        }),
        Verb::Cat(args) => run("cat", &args.common, |running| {
            let what = settings::part(args.field.as_deref(), args.whole);
            command::cat::run(&args.destination, &args.key, what, running)
        }),
    }
}

/// Sets the run up, runs a verb, tells its error and writes its summary; gives the exit code.
fn run(
    verb: &'static str,
    args: &cli::CommonArgs,
    work: impl FnOnce(&Running) -> Result<Summary>,
) -> u8 {
    run_to_end(verb, args, None, work)
}

/// The same for a verb that can write a page about itself and its destination.
fn run_with_page(
    verb: &'static str,
    args: &cli::CommonArgs,
    page: &cli::ReportFlag,
    destination: &str,
    work: impl FnOnce(&Running) -> Result<Summary>,
) -> u8 {
    let path = page.report.as_ref().filter(|path| !path.is_empty());
    let page = path.map(|path| (PathBuf::from(path), destination.to_owned()));
    run_to_end(verb, args, page, work)
}

fn run_to_end(
    verb: &'static str,
    args: &cli::CommonArgs,
    page: Option<(PathBuf, String)>,
    work: impl FnOnce(&Running) -> Result<Summary>,
) -> u8 {
    let bar = std::io::stderr().is_terminal() && !args.verbose && args.log == cli::Log::Text;
    let show = match args.progress {
        _ if args.quiet => Show::None,
        cli::Progress::Auto if bar => Show::Bar,
        cli::Progress::Auto | cli::Progress::Log => Show::Log,
        cli::Progress::Bar => Show::Bar,
        cli::Progress::None => Show::None,
    };
    log_to_stderr(args, show);
    let counters = Arc::new(Counters::default());
    let stop = Stop::default();
    let running = settings::running(args, &counters, &stop);
    let end = Arc::new(End {
        verb,
        started: Instant::now(),
        started_at: settings::now(),
        setup: running.as_ref().ok().map(Running::setup),
        problems: running
            .as_ref()
            .ok()
            .map(|running| running.problems.clone()),
        counters: Arc::clone(&counters),
        log: args.log,
        quiet: args.quiet,
        summary: args.summary.as_ref().map(PathBuf::from),
        page,
        told: Mutex::new(()),
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
                let reporter = Reporter::start(show, &counters, settings::progress_file());
                let result = work(&running);
                reporter.end(result.is_ok());
                result
            });
            (Some(running), result)
        }
    };
    end.tell(result, running.as_ref())
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
    summary: Option<PathBuf>,
    /// The file of the page, and the destination it is about.
    page: Option<(PathBuf, String)>,
    /// Held by who tells.
    told: Mutex<()>,
}

impl End {
    /// Tells how the run ended, and gives the exit code.
    fn tell(&self, result: Result<Summary>, running: Option<&Running>) -> u8 {
        // For good: nobody has anything to add to what is told here.
        std::mem::forget(self.told.lock());
        let (summary, interrupted) = match result {
            Ok(summary) => (summary, false),
            Err(error) => (self.failed(&error), stopped(&error)),
        };
        // Who is told to stop has no time to read a dataset, and what was not reached need not be.
        self.write(summary, running.filter(|_| !interrupted))
    }

    /// The same for a run that does not end although it was told to, from another thread and right before the process ends.
    fn tell_in_haste(&self, error: &Error) {
        // The run ends by itself at this very moment: it only needs a little more time.
        let Ok(telling) = self.told.try_lock() else {
            return std::thread::sleep(Duration::from_millis(700));
        };
        self.write(self.failed(error), None);
        // The run itself has nothing more to tell.
        std::mem::forget(telling);
    }

    fn failed(&self, error: &Error) -> Summary {
        tell(error, self.log);
        Summary {
            exit_code: error.kind().exit_code(),
            destination: self.page.as_ref().map(|(_, place)| place.clone()),
            ..Summary::failed(error)
        }
    }

    fn write(&self, mut summary: Summary, running: Option<&Running>) -> u8 {
        summary.end(self.verb, self.started.elapsed(), &self.counters);
        summary.started_at.clone_from(&self.started_at);
        summary.setup.clone_from(&self.setup);
        let code = summary.exit_code;
        // Damage is told even to those who want errors only.
        if !self.quiet || code != 0 {
            summary.print();
        }
        let told = [
            self.problems.as_ref().map(Problems::end),
            self.summary.as_ref().map(|path| summary.write(path)),
            self.page.as_ref().map(|(path, destination)| {
                command::report::write(path, &summary, destination, running)
            }),
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
        Show::Log => LevelFilter::INFO,
        Show::Bar | Show::None => LevelFilter::WARN,
    };
    // Libraries log requests, and some of those hold secrets: only our own words are let out.
    let ours = Targets::new().with_target("shardpack", level);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    // A second call, in tests, keeps the first subscriber.
    let _ = match args.log {
        cli::Log::Json => tracing_subscriber::registry()
            .with(lines.json().flatten_event(true).with_filter(ours))
            .try_init(),
        cli::Log::Text => tracing_subscriber::registry()
            .with(lines.with_ansi(false).without_time().with_filter(ours))
            .try_init(),
    };
}

fn tell(error: &Error, log: cli::Log) {
    match log {
        cli::Log::Text => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
        }
        cli::Log::Json => tracing::error!(exit_code = error.kind().exit_code(), "{error}"),
    }
}
