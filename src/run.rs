//! One run of the program: arguments parsed, the verb called, its error told, its summary written, the exit code given.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::{self, Verb};
use crate::command::summary::Summary;
use crate::error::{Error, Result};
use crate::progress::{Counters, Reporter, Show};
use crate::settings::{FanOut, Running};
use crate::{command, settings};

/// Parses the process's arguments, runs the verb, and gives the exit code.
pub fn main() -> u8 {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.verb {
        Verb::Convert(args) => run("convert", &args.common, |running| {
            let planning = settings::planning(
                &args.source,
                &args.destination,
                &args.recipe,
                args.policy.on_error,
                &args.growth,
            )?;
            let policy = settings::policy(&args.policy)?;
            let fan_out = settings::fan_out(&args.worker)?;
            command::convert::run(&planning, policy, fan_out, args.dry_run, running)
        }),
        Verb::Plan(args) => run("plan", &args.common, |running| {
            let planning = settings::planning(
                &args.source,
                &args.destination,
                &args.recipe,
                args.on_error,
                &args.growth,
            )?;
            let told = settings::told(&args)?;
            command::plan::run(&planning, &told, args.dry_run, running)
        }),
        Verb::Pack(args) => run("pack", &args.common, |running| {
            let fan_out = FanOut {
                worker: settings::worker(&args.worker)?,
                publish: args.worker.publish_when_complete,
            };
            let policy = settings::policy(&args.policy)?;
            command::pack::run(
                &args.destination,
                args.source.as_deref(),
                fan_out,
                policy,
                running,
            )
        }),
        Verb::Publish(args) => run("publish", &args.common, |running| {
            let digest = args.out_digest.as_ref().map(Path::new);
            command::publish::run(&args.destination, digest, running)
        }),
        Verb::Verify(args) => run("verify", &args.common, |running| {
            let source = args.source.as_deref().or(args.source_argument.as_deref());
            let level = settings::level(args.level, source)?;
            let part = settings::partly(&args, level)?;
            command::verify::run(&args.destination, level, source, &part, args.json, running)
        }),
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
            command::index::run(&args.destination, &names, running)
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
    let bar = std::io::stderr().is_terminal() && !args.verbose && args.log == cli::Log::Text;
    let show = match args.progress {
        _ if args.quiet => Show::None,
        cli::Progress::Auto if bar => Show::Bar,
        cli::Progress::Auto | cli::Progress::Log => Show::Log,
        cli::Progress::Bar => Show::Bar,
        cli::Progress::None => Show::None,
    };
    log_to_stderr(args, show);
    let started = std::time::Instant::now();
    let counters = Arc::new(Counters::default());
    let result = settings::running(args, &counters).and_then(|running| {
        let _reporter = Reporter::start(show, &counters);
        work(&running)
    });
    let (mut summary, code) = match result {
        Ok(summary) => {
            let code = summary.exit_code;
            (summary, code)
        }
        Err(error) => {
            let code = error.kind().exit_code();
            tell(&error, args.log);
            (Summary::failed(&error), code)
        }
    };
    summary.end(verb, code, started.elapsed(), &counters);
    // Damage is told even to those who want errors only.
    if !args.quiet || code != 0 {
        summary.print();
    }
    if let Some(path) = &args.summary
        && let Err(error) = summary.write(&PathBuf::from(path))
    {
        tell(&error, args.log);
        return if code == 0 {
            error.kind().exit_code()
        } else {
            code
        };
    }
    code
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
