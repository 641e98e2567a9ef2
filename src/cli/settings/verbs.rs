//! What single verbs are told besides: workers, files for schedulers, which part to verify, what to remove.

use std::ffi::OsString;
use std::path::PathBuf;

use super::given::given;
use crate::base::error::{Error, Result};
use crate::base::units::parse_percent;
use crate::cli::flags as cli;
use crate::cli::scheduler::{self};
use crate::model::policy::Policy;
use crate::plan::worker::Worker;
use crate::upkeep::copy::Selection;
use crate::upkeep::gc::RemovalRules;
use crate::upkeep::verify::Level;

/// What of a sample to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SamplePart {
    /// The image.
    Image,
    /// A field of this name.
    Field(String),
    /// The members as they lie in the shard.
    Whole,
}

/// Which part of a dataset to verify.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VerifyScope {
    /// Percent of the shards, those that come next.
    pub sample: Option<f64>,
    /// Go on where the last run ended.
    pub resume: bool,
    /// Begin no shard after this.
    pub max_duration: Option<std::time::Duration>,
}

impl VerifyScope {
    /// Whether anything but the whole is wanted.
    pub(crate) fn is_part(&self) -> bool {
        self.sample.is_some() || self.resume || self.max_duration.is_some()
    }
}

/// What of a dataset to copy, and how its shards are to be cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyScope {
    /// What of it.
    pub selection: Selection,
    /// Most bytes of a shard, where neighbours are to be joined.
    pub shard_bytes: Option<u64>,
}

/// One worker of several that do a conversion together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FanOut {
    /// Which one.
    pub worker: Worker,
    /// Whether it publishes when it finds that all shards are packed.
    pub publish: bool,
}

/// Files that tell a scheduler what a plan comes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanOutputs {
    /// Workers that will have something to do, of how many there are at most.
    pub workers: Option<(PathBuf, usize)>,
    /// `true` if there is anything to do, `false` if not.
    pub changed: Option<PathBuf>,
}

/// Checks what happens to damaged samples.
pub(crate) fn policy(args: &cli::PolicyArgs) -> Result<Policy> {
    match (args.on_error, args.max_skipped) {
        (cli::OnError::Fail, None) => Ok(Policy::Fail),
        (cli::OnError::Fail, Some(_)) => Err(Error::usage(
            "--max-skipped says how many samples --on-error skip may leave out: add `--on-error skip` or drop it",
        )),
        (cli::OnError::Skip, limit) => Ok(Policy::Skip {
            at_most: limit.unwrap_or(u64::MAX),
        }),
    }
}

/// The indexes asked for, each once.
pub(crate) fn index_names(names: &[String]) -> Vec<String> {
    let mut names = given(names);
    names.sort();
    names.dedup();
    names
}

/// Which worker of how many this is; a variable that is set to nothing counts as not set.
pub(crate) fn worker(args: &cli::WorkerArgs) -> Result<Worker> {
    let variable = |name: &str| std::env::var(name).ok();
    scheduler::worker(given_worker(args), args.workers, variable)
}

/// An empty environment twin says nothing.
fn given_worker(args: &cli::WorkerArgs) -> Option<&str> {
    args.worker.as_deref().filter(|text| !text.is_empty())
}

/// The part of a conversion that this process does: all of it, unless a flag says that there are other workers. A scheduler's variables
/// alone say nothing here: each task of an array may well convert a dataset of its own.
pub(crate) fn fan_out(args: &cli::WorkerArgs) -> Result<Option<FanOut>> {
    let asked =
        given_worker(args).is_some() || args.workers.is_some() || args.publish_when_complete;
    match asked {
        false => Ok(None),
        true => Ok(Some(FanOut {
            worker: worker(args)?,
            publish: args.publish_when_complete,
        })),
    }
}

/// What to tell a scheduler of a plan.
pub(crate) fn plan_outputs(args: &cli::ConvertPlanArgs) -> Result<PlanOutputs> {
    if args.workers == Some(0) {
        return Err(Error::usage("--workers 0: give at least 1"));
    }
    let path = |given: &Option<OsString>| given.as_ref().map(PathBuf::from);
    Ok(PlanOutputs {
        workers: path(&args.out_workers).map(|path| (path, args.workers.unwrap_or(usize::MAX))),
        changed: path(&args.out_changed),
    })
}

/// How deep to verify.
pub(crate) fn level(level: cli::Level, source: Option<&str>) -> Result<Level> {
    match (level, source) {
        (cli::Level::Source, None) => Err(Error::usage(
            "--level source compares with the source: add `--source SRC`",
        )),
        (cli::Level::Source, Some(_)) => Ok(Level::Source),
        (_, Some(_)) => Err(Error::usage(
            "a source is compared at `--level source` only: add that, or drop the source",
        )),
        (cli::Level::List, None) => Ok(Level::List),
        (cli::Level::Head, None) => Ok(Level::Head),
        (cli::Level::Data, None) => Ok(Level::Data),
    }
}

/// Which shards to verify.
pub(crate) fn verify_scope(args: &cli::VerifyArgs, level: Level) -> Result<VerifyScope> {
    let sample = args.sample.as_deref().filter(|text| !text.is_empty());
    let percent = |text: &str| {
        let percent = parse_percent(text).filter(|percent| *percent > 0.0);
        percent.ok_or_else(|| {
            Error::usage(format!(
                "--sample `{text}`: write a part of the shards, for example 1%"
            ))
        })
    };
    let part = VerifyScope {
        sample: sample.map(percent).transpose()?,
        resume: args.resume,
        max_duration: args.max_duration,
    };
    match level {
        _ if !part.is_part() => Ok(part),
        Level::Head | Level::Data | Level::Source => Ok(part),
        Level::List => Err(Error::usage(
            "--level list reads no shards that --sample, --resume and --max-duration could choose from: drop them, or use `--level data`",
        )),
    }
}

/// What of a dataset to copy.
pub(crate) fn copy(args: &cli::CopyArgs) -> Result<CopyScope> {
    let part = args.shards.as_deref().filter(|text| !text.is_empty());
    if args.shard_size == Some(0) {
        return Err(Error::usage("--shard-size 0: give a size, for example 1GB"));
    }
    Ok(CopyScope {
        selection: Selection {
            splits: given(&args.split),
            classes: given(&args.class),
            part: part
                .map(|text| scheduler::parse("--shards", text))
                .transpose()?,
        },
        shard_bytes: args.shard_size,
    })
}

/// What of a sample to write.
pub(crate) fn part(field: Option<&str>, whole: bool) -> SamplePart {
    match (field, whole) {
        (_, true) => SamplePart::Whole,
        (Some(field), _) => SamplePart::Field(field.to_owned()),
        (None, _) => SamplePart::Image,
    }
}

/// What to remove.
pub(crate) fn gc(args: &cli::GcArgs) -> Result<RemovalRules> {
    Ok(RemovalRules {
        older_than: args.older_than,
        keep: match args.keep {
            Some(0) => {
                return Err(Error::usage(
                    "--keep 0: the newest snapshot always stays, give at least 1",
                ));
            }
            keep => keep,
        },
        dry_run: args.dry_run,
    })
}
