//! What the user types: every flag with its help and its environment twin. No flag is judged here, see [`crate::cli::settings`].

mod groups;
mod papers;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand};

use crate::base::units::parse_time;

pub(crate) use groups::*;
pub(crate) use papers::*;
pub(crate) use values::*;

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  failed
    2  usage: the command line is wrong
    3  source problems, nothing published
    4  verification found damage
   10  another writer won
   75  transient, run me again
  130  interrupted (SIGINT), 143 terminated (SIGTERM)

Every flag --some-name has an environment twin SHARDPACK_SOME_NAME; the flag wins.";

/// With the commit, if the build was told which: never a time, so that two builds of one commit are the same bytes.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("SHARDPACK_COMMIT").filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
});

/// Turn an ImageFolder tree into large WebDataset, TFRecord or Parquet shards, and prove that they are intact
#[derive(Debug, Parser)]
#[command(name = "shardpack", version = VERSION.as_str(), after_help = EXIT_CODES, propagate_version = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Plan, pack and publish in one process
    #[command(after_help = EXIT_CODES)]
    Convert(ConvertArgs),
    /// List the source once, fix order and shard boundaries, store the plan
    #[command(after_help = EXIT_CODES)]
    Plan(ConvertPlanArgs),
    /// Write this worker's shards of the stored plan
    #[command(after_help = EXIT_CODES)]
    Pack(PackArgs),
    /// Check that every shard is there and commit the manifest
    #[command(after_help = EXIT_CODES)]
    Publish(PublishArgs),
    /// Re-read shards against their records; exit 4 on damage
    #[command(after_help = EXIT_CODES)]
    Verify(VerifyArgs),
    /// Make damaged or missing shards and indexes again, byte for byte as they were published
    #[command(after_help = EXIT_CODES)]
    Repair(RepairArgs),
    /// Merge small shards, which many small additions leave behind, into large ones
    #[command(after_help = EXIT_CODES)]
    Compact(CompactArgs),
    /// Remove what nothing needs: partial files, unfinished uploads, and shards and plans that no snapshot names
    #[command(after_help = EXIT_CODES)]
    Gc(GcArgs),
    /// Describe finished shards to more readers; shards that somebody else made get a manifest first
    #[command(after_help = EXIT_CODES)]
    Index(IndexArgs),
    /// Make a page about a dataset for people: splits, shards, classes, images, and a run if one is given
    #[command(after_help = EXIT_CODES)]
    Report(ReportArgs),
    /// Show what is in a dataset, or where one sample lies
    #[command(after_help = EXIT_CODES)]
    Inspect(InspectArgs),
    /// Write one sample or field to stdout, reading only its bytes
    #[command(after_help = EXIT_CODES)]
    Cat(CatArgs),
    /// Print what a shell needs to complete verbs and flags
    #[command(after_help = EXIT_CODES)]
    Completions(CompletionsArgs),
    /// Write pages for man(1) into a directory
    #[command(after_help = EXIT_CODES)]
    Man(ManArgs),
}

/// A page about the run and its destination that a verb is to write beside its work.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The page's file.
    pub(crate) path: PathBuf,
    /// The dataset that it is about.
    pub(crate) destination: String,
}

impl Verb {
    /// As it is typed.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Convert(_) => "convert",
            Self::Plan(_) => "plan",
            Self::Pack(_) => "pack",
            Self::Publish(_) => "publish",
            Self::Verify(_) => "verify",
            Self::Repair(_) => "repair",
            Self::Compact(_) => "compact",
            Self::Gc(_) => "gc",
            Self::Index(_) => "index",
            Self::Report(_) => "report",
            Self::Inspect(_) => "inspect",
            Self::Cat(_) => "cat",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }

    /// The flags that every verb has.
    pub(crate) fn common(&self) -> &CommonArgs {
        match self {
            Self::Convert(args) => &args.common,
            Self::Plan(args) => &args.common,
            Self::Pack(args) => &args.common,
            Self::Publish(args) => &args.common,
            Self::Verify(args) => &args.common,
            Self::Repair(args) => &args.common,
            Self::Compact(args) => &args.common,
            Self::Gc(args) => &args.common,
            Self::Index(args) => &args.common,
            Self::Report(args) => &args.common,
            Self::Inspect(args) => &args.common,
            Self::Cat(args) => &args.common,
            Self::Completions(args) => &args.common,
            Self::Man(args) => &args.common,
        }
    }

    /// The source that was named.
    pub(crate) fn source(&self) -> Option<&str> {
        let source = match self {
            Self::Convert(args) => Some(&args.source),
            Self::Plan(args) => Some(&args.source),
            Self::Pack(args) => args.source.as_ref(),
            Self::Verify(args) => args.source.as_ref().or(args.source_argument.as_ref()),
            Self::Repair(args) => args.source.as_ref(),
            Self::Compact(args) => args.source.as_ref(),
            _ => None,
        };
        source
            .map(String::as_str)
            .filter(|source| !source.is_empty())
    }

    /// The page that is wanted beside its work.
    pub(crate) fn page(&self) -> Option<Page> {
        let (flag, destination) = match self {
            Self::Convert(args) => (&args.page, &args.destination),
            Self::Pack(args) => (&args.page, &args.destination),
            Self::Publish(args) => (&args.page, &args.destination),
            Self::Verify(args) => (&args.page, &args.destination),
            _ => return None,
        };
        // An empty environment twin says nothing.
        let path = flag.report.as_ref().filter(|path| !path.is_empty())?;
        Some(Page {
            path: PathBuf::from(path),
            destination: destination.clone(),
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Images: a directory, s3://BUCKET/PREFIX or an archive (.tar, .zip) with one directory per class, or splits of such; archives in it count as
    /// directories
    #[arg(value_name = "SRC", env = "SHARDPACK_SRC")]
    pub(crate) source: String,
    /// Where the dataset goes: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    #[command(flatten)]
    pub(crate) recipe: RecipeArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) growth: GrowthArgs,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
    /// Print what would be done, and write nothing
    #[arg(long, env = "SHARDPACK_DRY_RUN", help_heading = "Running")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) page: ReportFlag,
    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertPlanArgs {
    /// Images: a directory, s3://BUCKET/PREFIX or an archive (.tar, .zip) with one directory per class, or splits of such; archives in it count as
    /// directories
    #[arg(value_name = "SRC", env = "SHARDPACK_SRC")]
    pub(crate) source: String,
    /// Where the dataset goes: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    #[command(flatten)]
    pub(crate) recipe: RecipeArgs,
    /// What to do about images of no bytes: refuse the source, or leave them to be skipped when packed
    #[arg(long, value_enum, default_value_t = OnError::Fail, env = "SHARDPACK_ON_ERROR", help_heading = "Damaged samples")]
    pub(crate) on_error: OnError,
    #[command(flatten)]
    pub(crate) growth: GrowthArgs,
    /// Workers that are to pack, for --out-workers [default: one for each shard]
    #[arg(
        long,
        value_name = "N",
        env = "SHARDPACK_WORKERS",
        help_heading = "Workers"
    )]
    pub(crate) workers: Option<usize>,
    /// Write to this file how many workers will have something to do: at most --workers, 0 when nothing changed
    #[arg(
        long,
        value_name = "FILE",
        env = "SHARDPACK_OUT_WORKERS",
        help_heading = "Workers"
    )]
    pub(crate) out_workers: Option<OsString>,
    /// Write to this file whether there is anything to do: `true` or `false`
    #[arg(
        long,
        value_name = "FILE",
        env = "SHARDPACK_OUT_CHANGED",
        help_heading = "Workers"
    )]
    pub(crate) out_changed: Option<OsString>,
    /// Print what would be done, and write nothing
    #[arg(long, env = "SHARDPACK_DRY_RUN", help_heading = "Running")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// Where the source lies now [default: where it was when planned]
    #[arg(long, value_name = "SRC", env = "SHARDPACK_SOURCE")]
    pub(crate) source: Option<String>,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) page: ReportFlag,
    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// Write the SHA-256 of manifest.json to this file
    #[arg(long, value_name = "FILE", env = "SHARDPACK_OUT_DIGEST")]
    pub(crate) out_digest: Option<OsString>,
    #[command(flatten)]
    pub(crate) page: ReportFlag,
    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The dataset, or anybody's tar shards: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// The same as --source
    #[arg(value_name = "SRC", conflicts_with = "source")]
    pub(crate) source_argument: Option<String>,
    /// How deep to look; each level includes those before it
    #[arg(long, value_enum, default_value_t = Level::Data, env = "SHARDPACK_LEVEL")]
    pub(crate) level: Level,
    /// The source to compare with, for --level source
    #[arg(long, value_name = "SRC", env = "SHARDPACK_SOURCE")]
    pub(crate) source: Option<String>,
    /// Read only this part of the shards, those that come after the last run's: 1% reads all in 100 runs
    #[arg(long, value_name = "PERCENT", env = "SHARDPACK_SAMPLE")]
    pub(crate) sample: Option<String>,
    /// Begin no shard after this time; `--resume` goes on. 90s, 30m, 12h
    #[arg(long, value_name = "TIME", value_parser = parse_time, env = "SHARDPACK_MAX_DURATION")]
    pub(crate) max_duration: Option<std::time::Duration>,
    /// Go on with the shard at which the last run ended
    #[arg(long, env = "SHARDPACK_RESUME")]
    pub(crate) resume: bool,
    /// Print the report as JSON
    #[arg(long, env = "SHARDPACK_JSON")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) page: ReportFlag,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// The images it was made from, or a copy of them [default: where they were, when `plan` stored the plan]
    #[arg(long, value_name = "SRC", env = "SHARDPACK_SOURCE")]
    pub(crate) source: Option<String>,
    /// Print what would be repaired, and write nothing
    #[arg(long, env = "SHARDPACK_DRY_RUN")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// The images it was made from, or more of them [default: where they were, when `plan` stored the plan]
    #[arg(long, value_name = "SRC", env = "SHARDPACK_SOURCE")]
    pub(crate) source: Option<String>,
    /// The file given as --labels before
    #[arg(long, value_name = "FILE", env = "SHARDPACK_LABELS")]
    pub(crate) labels: Option<OsString>,
    /// The column given as --file-column before
    #[arg(long, value_name = "COLUMN", env = "SHARDPACK_FILE_COLUMN")]
    pub(crate) file_column: Option<String>,
    /// The column given as --label-column before
    #[arg(long, value_name = "COLUMN", env = "SHARDPACK_LABEL_COLUMN")]
    pub(crate) label_column: Option<String>,
    /// The file given as --synsets before
    #[arg(
        long,
        value_name = "FILE",
        requires = "labels",
        env = "SHARDPACK_SYNSETS"
    )]
    pub(crate) synsets: Option<OsString>,
    /// The file given as --class-names before
    #[arg(long, value_name = "FILE", env = "SHARDPACK_CLASS_NAMES")]
    pub(crate) class_names: Option<OsString>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print what would be done, and write nothing
    #[arg(long, env = "SHARDPACK_DRY_RUN", help_heading = "Running")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// Leave alone what is younger: a run that still writes it may be alive. `0s` takes all; also 30m, 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_time, env = "SHARDPACK_OLDER_THAN")]
    pub(crate) older_than: std::time::Duration,
    /// Keep only the newest N snapshots, and what they name; all of them where this is not said. An earlier one goes when the one after
    /// it is older than `--older-than`
    #[arg(long, value_name = "N", env = "SHARDPACK_KEEP")]
    pub(crate) keep: Option<usize>,
    /// Print what would be removed, with size and age, and remove nothing
    #[arg(long, env = "SHARDPACK_DRY_RUN")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// Indexes to write, several with commas between: dali, energon, energon-sqlite, openclip, tfds, tfrecord, timm, wids
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        env = "SHARDPACK_INDEX"
    )]
    pub(crate) index: Vec<String>,
    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// Where the page goes; `-` is stdout
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "report.html",
        env = "SHARDPACK_OUTPUT"
    )]
    pub(crate) output: OsString,
    /// Tell of this run too: the file that its --summary wrote
    #[arg(long, value_name = "SUMMARY", env = "SHARDPACK_RUN")]
    pub(crate) run: Option<OsString>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// Show where this sample lies instead: its key, or the path of one of its files in the source
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// List images that are there several times instead, those in several splits first; each is read
    #[arg(long, conflicts_with = "key", env = "SHARDPACK_DUPLICATES")]
    pub(crate) duplicates: bool,
    /// Print as JSON
    #[arg(long, env = "SHARDPACK_JSON")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// Key of the sample, KEY.FIELD, or the path of one of its files in the source
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// Field to write [default: the image]
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "whole",
        env = "SHARDPACK_FIELD"
    )]
    pub(crate) field: Option<String>,
    /// Write the whole sample as it lies in the shard: tar members (`| tar x` unpacks them), or the record
    #[arg(long, env = "SHARDPACK_WHOLE")]
    pub(crate) whole: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Parses the process's arguments; what is wrong with them, and help, is printed, and the exit code given.
pub(crate) fn parse() -> Result<Cli, u8> {
    Cli::try_parse().map_err(|error| {
        let _ = error.print();
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flags_are_sound_and_each_has_its_environment_twin() {
        Cli::command().debug_assert();
        for verb in Cli::command().get_subcommands() {
            for flag in verb
                .get_arguments()
                .filter_map(|arg| Some((arg.get_long()?, arg.get_env())))
            {
                let (name, env) = flag;
                if ["help", "version"].contains(&name) {
                    continue;
                }
                let twin = format!("SHARDPACK_{}", name.to_uppercase().replace('-', "_"));
                let env = env
                    .unwrap_or_else(|| panic!("--{name} has no twin"))
                    .to_string_lossy();
                assert_eq!(env, twin, "{}", verb.get_name());
            }
        }
    }
}
