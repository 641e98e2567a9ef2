//! One verb a file: open the stores, call the stage, say what was done.

pub(crate) mod bench;
pub(crate) mod cat;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod convert;
mod copied;
pub(crate) mod copy;
mod cost;
mod decide;
mod describe;
mod duplicates;
mod emptied;
pub(crate) mod gc;
pub(crate) mod index;
pub(crate) mod inspect;
pub(crate) mod ls;
pub(crate) mod man;
mod next;
mod origin;
pub(in crate::cli) mod outline;
pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod publish;
pub(crate) mod repair;
pub(crate) mod report;
pub(crate) mod summary;
pub(crate) mod verify;
mod way;

use std::io::Write;
use std::path::Path;

use crate::base::error::Result;
use crate::cli::flags::{self, Verb};
use crate::cli::settings::{self, FanOut, Files, Running};

use summary::Summary;

/// Runs a verb: its flags become checked values, and it begins.
pub(crate) fn run(verb: &Verb, running: &Running) -> Result<Summary> {
    match verb {
        Verb::Convert(args) => convert(args, &running.replacing(&args.replace)),
        Verb::Plan(args) => plan(args, &running.replacing(&args.replace)),
        Verb::Pack(args) => pack(args, &running.replacing(&args.replace)),
        Verb::Publish(args) => {
            let digest = args.out_digest.as_ref().map(Path::new);
            publish::run(
                &args.dataset.destination,
                digest,
                &running.replacing(&args.replace),
            )
        }
        Verb::Verify(args) => verify(args, running),
        Verb::Repair(args) => {
            let source = args.source.as_deref();
            repair::run(&args.dataset.destination, source, args.dry_run, running)
        }
        Verb::Compact(args) => compact(args, running),
        Verb::Copy(args) => copy::run(
            &args.source,
            &args.destination,
            &settings::copy(args)?,
            args.dry_run,
            running,
        ),
        Verb::Gc(args) => gc::run(&args.dataset.destination, &settings::gc(args)?, running),
        Verb::Index(args) => {
            let names = settings::index_names(&args.index);
            index::run(
                &args.dataset.destination,
                &names,
                &running.replacing(&args.replace),
            )
        }
        Verb::Report(args) => {
            let summary = args.run.as_ref().map(Path::new);
            report::run(
                &args.dataset.destination,
                Path::new(&args.output),
                summary,
                verb.source(),
                running,
            )
        }
        Verb::Inspect(args) if args.duplicates => {
            duplicates::run(&args.dataset.destination, args.common.json, running)
        }
        Verb::Inspect(args) => {
            let json = args.common.json;
            inspect::run(
                &args.dataset.destination,
                args.key.as_deref(),
                json,
                running,
            )
        }
        Verb::Ls(args) => ls::run(&settings::listing(args)?, running),
        Verb::Cat(args) => {
            let what = settings::part(args.field.as_deref(), args.whole);
            let output = args.output.as_ref().filter(|path| !path.is_empty());
            let output = output.map(Path::new);
            cat::run(&args.dataset.destination, &args.key, what, output, running)
        }
        Verb::Bench(args) => bench::run(&settings::benching(args)?, running),
        Verb::Completions(args) => Ok(completions::run(args)),
        Verb::Man(args) => man::run(args),
    }
}

fn convert(args: &flags::ConvertArgs, running: &Running) -> Result<Summary> {
    let planning = settings::planning(
        &args.places.source,
        args.places.destination(),
        &args.recipe,
        args.policy.on_error,
        &args.growth,
        &args.dry,
        running.memory,
    )?;
    let policy = settings::policy(&args.policy)?;
    let fan_out = settings::fan_out(&args.worker)?;
    convert::run(&planning, policy, fan_out, args.dry.dry_run, running)
}

fn plan(args: &flags::ConvertPlanArgs, running: &Running) -> Result<Summary> {
    let planning = settings::planning(
        &args.places.source,
        args.places.destination(),
        &args.recipe,
        args.on_error,
        &args.growth,
        &args.dry,
        running.memory,
    )?;
    plan::run(
        &planning,
        &settings::plan_outputs(args)?,
        args.dry.dry_run,
        running,
    )
}

fn pack(args: &flags::PackArgs, running: &Running) -> Result<Summary> {
    let fan_out = FanOut {
        worker: settings::worker(&args.worker)?,
        publish: args.worker.publish_when_complete,
    };
    let policy = settings::policy(&args.policy)?;
    let source = args.source.as_deref();
    pack::run(&args.dataset.destination, source, fan_out, policy, running)
}

fn verify(args: &flags::VerifyArgs, running: &Running) -> Result<Summary> {
    let source = args.source.as_deref().or(args.source_argument.as_deref());
    // A batch template's parameter may be empty.
    let source = source.filter(|source| !source.is_empty());
    let level = settings::level(args.level, source)?;
    let part = settings::verify_scope(args, level)?;
    let json = args.common.json;
    verify::run(&args.destination, level, source, &part, json, running)
}

fn compact(args: &flags::CompactArgs, running: &Running) -> Result<Summary> {
    let policy = settings::policy(&args.policy)?;
    let files = Files {
        labels: args.labels.clone(),
        synsets: args.synsets.clone(),
        class_names: args.class_names.clone(),
        columns: settings::columns(args.file_column.as_ref(), args.label_column.as_ref()),
    };
    let source = args.source.as_deref();
    compact::run(
        &args.dataset.destination,
        source,
        files,
        policy,
        args.dry_run,
        running,
    )
}

/// Writes to stdout; a reader that went away is no error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
