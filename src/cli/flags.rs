//! What the user types: every flag with its help and its environment twin. No flag is judged here, see [`crate::cli::settings`].

use std::ffi::OsString;
use std::sync::LazyLock;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::base::units::{parse_bytes, parse_time};

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
pub struct Cli {
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
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Images: a directory or s3://BUCKET/PREFIX with one directory per class, or splits of such
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
    /// Images: a directory or s3://BUCKET/PREFIX with one directory per class, or splits of such
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

/// What may become of files that were there before.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// Replace files of somebody else that lie where reader indexes are to be; without it they are named and nothing is written
    #[arg(long, env = "SHARDPACK_REPLACE")]
    pub(crate) replace: bool,
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

/// Telling people how a run went.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct ReportFlag {
    /// Write a page about this run and the dataset to this file, also when the run fails: one HTML file without scripts
    #[arg(long, value_name = "FILE", env = "SHARDPACK_REPORT")]
    pub(crate) report: Option<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// Show where this sample lies instead: its key, or the path of one of its files in the source
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<String>,
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

/// What can change a byte of the output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct RecipeArgs {
    /// Shard layout
    #[arg(long, value_enum, default_value_t = Format::Wds, env = "SHARDPACK_FORMAT")]
    pub(crate) format: Format,
    /// Feature names of --format tfrecord [default: imagenet]
    #[arg(long, value_enum, env = "SHARDPACK_SCHEMA")]
    pub(crate) schema: Option<Schema>,
    /// Label of the first class in --format tfrecord [default: 1 for --schema imagenet, where 0 is background, else 0]
    #[arg(long, value_name = "0|1", env = "SHARDPACK_LABEL_BASE")]
    pub(crate) label_base: Option<u32>,
    /// What classes are called for people, in --schema imagenet: a line `class name` each, as in LOC_synset_mapping.txt
    #[arg(long, value_name = "FILE", env = "SHARDPACK_CLASS_NAMES")]
    pub(crate) class_names: Option<OsString>,
    /// Compress shards: none, zstd[:1-19] or gzip[:1-9]. JPEG gains next to nothing; --dry-run says what would be saved
    #[arg(
        long,
        value_name = "METHOD",
        default_value = "none",
        env = "SHARDPACK_COMPRESS"
    )]
    pub(crate) compress: String,
    /// With --compress zstd: frames that can be read on their own, and a seek table
    #[arg(long, env = "SHARDPACK_ZSTD_SEEKABLE")]
    pub(crate) zstd_seekable: bool,
    /// Files for readers that want to find shards described in their own way, several with commas between: dali, energon,
    /// energon-sqlite, openclip, tfds, tfrecord, timm, wids
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        env = "SHARDPACK_INDEX"
    )]
    pub(crate) index: Vec<String>,
    /// Largest shard, not compressed; all are made about equal [default: 1GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, env = "SHARDPACK_SHARD_SIZE")]
    pub(crate) shard_size: Option<u64>,
    /// Number of shards of each split
    #[arg(long, value_name = "N", env = "SHARDPACK_SHARDS")]
    pub(crate) shards: Option<u64>,
    /// Most samples in a shard
    #[arg(long, value_name = "N", env = "SHARDPACK_SHARD_SAMPLES")]
    pub(crate) shard_samples: Option<u64>,
    /// Order of samples: shuffled by a keyed hash, or by key
    #[arg(long, value_enum, default_value_t = Order::Shuffled, env = "SHARDPACK_ORDER")]
    pub(crate) order: Order,
    /// Seed of the shuffled order
    #[arg(long, value_name = "N", default_value_t = 0, env = "SHARDPACK_SEED")]
    pub(crate) seed: u64,
    /// Add a `json` field with class, file name, label and split to each sample
    #[arg(long, env = "SHARDPACK_JSON")]
    pub(crate) json: bool,
    /// Add SHA-256 digests to the manifest, and a SHA256SUMS file
    #[arg(long, env = "SHARDPACK_SHA256")]
    pub(crate) sha256: bool,
    /// Name of the dataset in its card
    #[arg(long, default_value = "dataset", env = "SHARDPACK_NAME")]
    pub(crate) name: String,
    /// A split and its directory below SRC; repeat for more [default: directories named train, val, test …]
    #[arg(
        long,
        value_name = "NAME=SUBPATH",
        env = "SHARDPACK_SPLIT",
        value_delimiter = ',',
        help_heading = "Input"
    )]
    pub(crate) split: Vec<OsString>,
    /// Labels of images in no class directory: `filename class` as CSV, TSV or text, or ImageNet's ground-truth list
    #[arg(
        long,
        value_name = "FILE",
        env = "SHARDPACK_LABELS",
        help_heading = "Input"
    )]
    pub(crate) labels: Option<OsString>,
    /// Class names in the order that the numbers of --labels count, one a line
    #[arg(
        long,
        value_name = "FILE",
        requires = "labels",
        env = "SHARDPACK_SYNSETS",
        help_heading = "Input"
    )]
    pub(crate) synsets: Option<OsString>,
    /// Take only files that match this glob, relative to SRC; repeat for more
    #[arg(
        long,
        value_name = "GLOB",
        env = "SHARDPACK_INCLUDE",
        help_heading = "Input"
    )]
    pub(crate) include: Vec<String>,
    /// Leave out files and directories that match this glob, relative to SRC; repeat for more
    #[arg(
        long,
        value_name = "GLOB",
        env = "SHARDPACK_EXCLUDE",
        help_heading = "Input"
    )]
    pub(crate) exclude: Vec<String>,
    /// When only some samples have a sidecar file (x.json beside x.jpg)
    #[arg(long, value_enum, default_value_t = Missing::Fail, env = "SHARDPACK_MISSING_FIELDS", help_heading = "Input")]
    pub(crate) missing_fields: Missing,
    /// Accept class directories without images
    #[arg(long, env = "SHARDPACK_ALLOW_EMPTY", help_heading = "Input")]
    pub(crate) allow_empty: bool,
    /// How closely to look at each image: not, at its header and end, or decode it
    #[arg(long, value_enum, default_value_t = Validate::Header, env = "SHARDPACK_VALIDATE", help_heading = "Damaged samples")]
    pub(crate) validate: Validate,
}

/// What happens to damaged samples.
#[derive(Debug, Args)]
#[command(next_help_heading = "Damaged samples")]
pub(crate) struct PolicyArgs {
    /// When a sample is damaged: publish nothing, or leave it out and list it
    #[arg(long, value_enum, default_value_t = OnError::Fail, env = "SHARDPACK_ON_ERROR")]
    pub(crate) on_error: OnError,
    /// Most samples that --on-error skip may leave out [default: no limit]
    #[arg(long, value_name = "N", env = "SHARDPACK_MAX_SKIPPED")]
    pub(crate) max_skipped: Option<u64>,
}

/// How to go on from what is published already, when the source grew or changed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Growing datasets")]
pub(crate) struct GrowthArgs {
    /// When published samples changed or are gone
    #[arg(long, value_enum, default_value_t = OnChange::Refuse, env = "SHARDPACK_ON_CHANGE")]
    pub(crate) on_change: OnChange,
    /// Most published samples that may be gone from the source, as a number or in percent, for --on-change rebuild and --full: more of them
    /// are refused, because a file system that is not mounted looks like one that was emptied [default: 1%]
    #[arg(long, value_name = "N|PERCENT", env = "SHARDPACK_MAX_GONE")]
    pub(crate) max_gone: Option<String>,
    /// A split all of whose samples may be gone, whatever --max-gone says; repeat for more
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        env = "SHARDPACK_ALLOW_GONE_SPLIT"
    )]
    pub(crate) allow_gone_split: Vec<String>,
    /// Do nothing while fewer samples than this are new
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        env = "SHARDPACK_MIN_NEW_SAMPLES"
    )]
    pub(crate) min_new_samples: u64,
    /// Whether there may be new classes; they get the numbers after those there are
    #[arg(long, value_enum, default_value_t = Classes::Append, env = "SHARDPACK_CLASSES")]
    pub(crate) classes: Classes,
    /// Start over: pack everything anew, with other options if you like; what is published stays until that is
    #[arg(long, env = "SHARDPACK_FULL")]
    pub(crate) full: bool,
}

/// Which part of the work this process does.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workers")]
pub(crate) struct WorkerArgs {
    /// Pack only the part of worker K of N, K from 0 to N-1
    #[arg(long, value_name = "K/N", env = "SHARDPACK_WORKER")]
    pub(crate) worker: Option<String>,
    /// How many workers there are; which one this is, is said by the variables of a Kubernetes Indexed Job, a SLURM or AWS Batch array,
    /// Cloud Run or Google Batch [default: what the scheduler says, or this one alone]
    #[arg(long, value_name = "N", env = "SHARDPACK_WORKERS")]
    pub(crate) workers: Option<usize>,
    /// Publish if this worker finds that all shards are packed, so that the last one to end does
    #[arg(long, env = "SHARDPACK_PUBLISH_WHEN_COMPLETE")]
    pub(crate) publish_when_complete: bool,
}

/// How to run; none of this changes a byte of the output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct CommonArgs {
    /// Shards at once [default: number of cores, a few more when few shards divide better so]
    #[arg(long, value_name = "N", env = "SHARDPACK_JOBS")]
    pub(crate) jobs: Option<usize>,
    /// Reads of source files in flight at most [default: 256 of files, 512 of objects]
    #[arg(long, value_name = "N", env = "SHARDPACK_READS")]
    pub(crate) reads: Option<usize>,
    /// Memory to stay within [default: a quarter of what this machine or container has]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, env = "SHARDPACK_MEMORY")]
    pub(crate) memory: Option<u64>,
    /// Do not wait until data is on the disk; a power cut may then lose what was reported done
    #[arg(long, env = "SHARDPACK_NO_FSYNC")]
    pub(crate) no_fsync: bool,
    /// How to show progress; auto is a bar on a terminal and a line every 10 s elsewhere
    #[arg(long, value_enum, default_value_t = Progress::Auto, env = "SHARDPACK_PROGRESS")]
    pub(crate) progress: Progress,
    /// Form of log lines on stderr
    #[arg(long, value_enum, default_value_t = Log::Text, env = "SHARDPACK_LOG")]
    pub(crate) log: Log,
    /// Write a summary as JSON to this file, also when the run fails
    #[arg(long, value_name = "FILE", env = "SHARDPACK_SUMMARY")]
    pub(crate) summary: Option<OsString>,
    /// Write everything that is at fault to this file, a line for each: what it is, the path and the rest, with tabs between. Messages name the first 20
    #[arg(long, value_name = "FILE", env = "SHARDPACK_PROBLEMS")]
    pub(crate) problems: Option<OsString>,
    /// Print errors only
    #[arg(short, long, env = "SHARDPACK_QUIET", conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more: every shard, every request made again
    #[arg(short, long, env = "SHARDPACK_VERBOSE")]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) s3: S3Args,
}

/// How to reach s3:// locations. Credentials come from the environment, a profile, or the machine's role, never from a flag.
#[derive(Debug, Args)]
#[command(next_help_heading = "S3")]
pub(crate) struct S3Args {
    /// Server that speaks S3, instead of AWS [default: AWS_ENDPOINT_URL_S3]
    #[arg(long, value_name = "URL", env = "SHARDPACK_ENDPOINT_URL")]
    pub(crate) endpoint_url: Option<String>,
    /// Region of the bucket [default: AWS_REGION or the profile's]
    #[arg(long, value_name = "NAME", env = "SHARDPACK_REGION")]
    pub(crate) region: Option<String>,
    /// Profile in the AWS configuration files; its credentials and no others are used, whatever the environment holds [default: AWS_PROFILE, after keys in the environment]
    #[arg(long, value_name = "NAME", env = "SHARDPACK_PROFILE")]
    pub(crate) profile: Option<String>,
    /// Send requests without credentials, for public buckets
    #[arg(long, env = "SHARDPACK_NO_SIGN_REQUEST")]
    pub(crate) no_sign_request: bool,
    /// Agree to pay for requests to a bucket whose owner does not
    #[arg(long, value_name = "requester", value_parser = ["requester"], env = "SHARDPACK_REQUEST_PAYER")]
    pub(crate) request_payer: Option<String>,
    /// Storage class of shards, for example INTELLIGENT_TIERING; everything else stays in the standard class
    #[arg(long, value_name = "CLASS", env = "SHARDPACK_STORAGE_CLASS")]
    pub(crate) storage_class: Option<String>,
    /// Server-side encryption of what is written: AES256, aws:kms or aws:kms:dsse
    #[arg(long, value_name = "ALGORITHM", env = "SHARDPACK_SSE")]
    pub(crate) sse: Option<String>,
    /// Key of --sse aws:kms [default: the account's own]
    #[arg(long, value_name = "ID", env = "SHARDPACK_SSE_KMS_KEY_ID")]
    pub(crate) sse_kms_key_id: Option<String>,
    /// Tags of every object written, as NAME=VALUE&NAME=VALUE
    #[arg(long, value_name = "TAGS", env = "SHARDPACK_TAGGING")]
    pub(crate) tagging: Option<String>,
    /// Bucket in the URL's path or in the host name; auto is path for --endpoint-url, host for AWS
    #[arg(long, value_enum, default_value_t = Addressing::Auto, env = "SHARDPACK_ADDRESSING")]
    pub(crate) addressing: Addressing,
    /// Seconds without any progress after which a request is made again
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        env = "SHARDPACK_REQUEST_TIMEOUT"
    )]
    pub(crate) request_timeout: u64,
    /// Seconds for which a request that may succeed later is made again: push backs, outages, credentials that cannot be fetched
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 180,
        env = "SHARDPACK_RETRY_FOR"
    )]
    pub(crate) retry_for: u64,
    /// Publish to a server without conditional writes; only safe while nobody else writes there
    #[arg(long, env = "SHARDPACK_UNSAFE_NO_CONDITIONAL_PUT")]
    pub(crate) unsafe_no_conditional_put: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Addressing {
    Auto,
    Path,
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// WebDataset tar
    Wds,
    /// TFRecord files of tf.train.Example
    Tfrecord,
    /// Parquet files of HuggingFace datasets
    Parquet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Schema {
    /// image/encoded, image/class/label and the others of slim and the TPU models
    Imagenet,
    /// image, label, file_name
    Tfds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Missing {
    /// Refuse the source
    Fail,
    /// Give them an empty one, `{}` where it is JSON
    Fill,
    /// Leave them without
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    Shuffled,
    Listed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Validate {
    None,
    Header,
    Decode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    Fail,
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnChange {
    /// Publish nothing, and list them
    Refuse,
    /// Make the shards that hold them again, under new names
    Rebuild,
    /// Leave those shards as they are
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Classes {
    Append,
    Frozen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Names and sizes, nothing missing or extra
    List,
    /// Checksums of whole shards
    Head,
    /// Every header, field, end marker and index row
    Data,
    /// Every file of the source, byte for byte
    Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    Auto,
    Bar,
    Log,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    Text,
    Json,
}

/// Parses the process's arguments; what is wrong with them, and help, is printed, and the exit code given.
pub(crate) fn parse() -> Result<Cli, u8> {
    Cli::try_parse().map_err(|error| {
        let _ = error.print();
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

/// The command as clap sees it, for tests and documentation.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_sound_and_each_has_its_environment_twin() {
        command().debug_assert();
        for verb in command().get_subcommands() {
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
