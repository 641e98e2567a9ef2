//! The flags of each verb.

use std::ffi::OsString;

use clap::Args;

use crate::base::units::{parse_bytes, parse_time};

use super::groups::*;
use super::values::*;

/// Where the images are, and where the dataset goes.
#[derive(Debug, Args)]
pub(crate) struct PlacesArgs {
    /// Images or a dataset: a directory, s3://BUCKET/PREFIX or archive
    ///
    /// With one directory per class, or splits of such; archives in it count as directories.
    #[arg(value_name = "SRC", env = "SHARDPACK_SRC")]
    pub(crate) source: String,
    /// Where the dataset goes: a directory or s3://BUCKET/PREFIX
    #[arg(
        value_name = "DST",
        env = "SHARDPACK_DST",
        required_unless_present = "into"
    )]
    pub(super) destination: Option<String>,
    /// The same as DST
    #[arg(short = 'o', id = "into", value_name = "DST")]
    pub(super) into: Option<String>,
}

impl PlacesArgs {
    /// Where the dataset goes: what was typed wins over the environment.
    pub(crate) fn destination(&self) -> &str {
        let place = self.into.as_deref().or(self.destination.as_deref());
        place.unwrap_or_default()
    }
}

/// The dataset that a verb is about.
#[derive(Debug, Args)]
pub(crate) struct DatasetArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) places: PlacesArgs,
    #[command(flatten)]
    pub(crate) recipe: RecipeArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) growth: GrowthArgs,
    #[command(flatten)]
    pub(crate) worker: WorkerArgs,
    #[command(flatten)]
    pub(crate) dry: DryRunArgs,
    #[command(flatten)]
    pub(crate) page: ReportFlag,
    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertPlanArgs {
    #[command(flatten)]
    pub(crate) places: PlacesArgs,
    #[command(flatten)]
    pub(crate) recipe: RecipeArgs,
    /// Images of no bytes: fail, or skip them
    ///
    /// Refuse the source, or leave them to be skipped when packed.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnError::Fail, env = "SHARDPACK_ON_ERROR", help_heading = "Damaged samples")]
    pub(crate) on_error: OnError,
    #[command(flatten)]
    pub(crate) growth: GrowthArgs,
    /// Workers that are to pack
    ///
    /// For --out-workers. [default: one for each shard]
    #[arg(
        long,
        value_name = "N",
        env = "SHARDPACK_WORKERS",
        help_heading = "Workers"
    )]
    pub(crate) workers: Option<usize>,
    /// Write to this file how many workers will have work
    ///
    /// At most --workers, 0 when nothing changed.
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
    #[command(flatten)]
    pub(crate) dry: DryRunArgs,
    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
    /// Where the source lies now, if it was moved
    ///
    /// [default: where it was when planned]
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
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
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
    /// How deep to look: list, head, data or source
    ///
    /// Each level includes those before it.
    #[arg(long, value_enum, default_value_t = Level::Data, env = "SHARDPACK_LEVEL")]
    pub(crate) level: Level,
    /// The source to compare with, for --level source
    #[arg(long, value_name = "SRC", env = "SHARDPACK_SOURCE")]
    pub(crate) source: Option<String>,
    /// Read only this part of the shards, the next ones
    ///
    /// Those that come after the last run's: 1% reads all in 100 runs.
    #[arg(long, value_name = "PERCENT", env = "SHARDPACK_SAMPLE")]
    pub(crate) sample: Option<String>,
    /// Begin no shard after this time: 90s, 30m, 12h
    ///
    /// `--resume` goes on.
    #[arg(long, value_name = "TIME", value_parser = parse_time, env = "SHARDPACK_MAX_DURATION")]
    pub(crate) max_duration: Option<std::time::Duration>,
    /// Go on with the shard at which the last run ended
    #[arg(long, env = "SHARDPACK_RESUME")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) page: ReportFlag,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
    /// The images it was made from, or a copy of them
    ///
    /// [default: where they were, when `plan` stored the plan]
    #[arg(long, value_name = "SRC", env = "SHARDPACK_SOURCE")]
    pub(crate) source: Option<String>,
    /// Print what would be repaired, and write nothing
    #[arg(short = 'n', long, env = "SHARDPACK_DRY_RUN", help_heading = "Running")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
    /// The images it was made from, or more of them
    ///
    /// [default: where they were, when `plan` stored the plan]
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
    #[arg(short = 'n', long, env = "SHARDPACK_DRY_RUN", help_heading = "Running")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// The dataset: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "SRC", env = "SHARDPACK_SRC")]
    pub(crate) source: String,
    /// Where the copy goes: a directory or s3://BUCKET/PREFIX
    #[arg(value_name = "DST", env = "SHARDPACK_DST")]
    pub(crate) destination: String,
    /// Only this split; repeat for more
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        env = "SHARDPACK_SPLIT",
        help_heading = "Part of it"
    )]
    pub(crate) split: Vec<String>,
    /// Only part K of N of the shards, from 0: 0/8
    ///
    /// Every Nth shard of each split, beginning with the Kth.
    #[arg(
        long,
        value_name = "K/N",
        env = "SHARDPACK_SHARDS",
        help_heading = "Part of it"
    )]
    pub(crate) shards: Option<String>,
    /// Only shards with samples of this class; repeat for more
    ///
    /// Whole shards are copied, so that other classes come along: of a shuffled dataset nearly all do.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        env = "SHARDPACK_CLASS",
        help_heading = "Part of it"
    )]
    pub(crate) class: Vec<String>,
    /// Join neighbouring shards to larger ones of at most this size
    ///
    /// Tar and TFRecord without compression. Inside one S3 no byte of them is read or sent.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, env = "SHARDPACK_SHARD_SIZE", help_heading = "Part of it")]
    pub(crate) shard_size: Option<u64>,
    /// Print what would be copied, and write nothing
    #[arg(short = 'n', long, env = "SHARDPACK_DRY_RUN", help_heading = "Running")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
    /// Leave alone what is younger: 30m, 12h, 7d
    ///
    /// A run that still writes it may be alive. `0s` takes all.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_time, env = "SHARDPACK_OLDER_THAN")]
    pub(crate) older_than: std::time::Duration,
    /// Keep only the newest N snapshots, and what they name
    ///
    /// All of them where this is not said. An earlier one goes when the one after it is older than `--older-than`.
    #[arg(long, value_name = "N", env = "SHARDPACK_KEEP")]
    pub(crate) keep: Option<usize>,
    /// Print what would be removed, and remove nothing
    #[arg(short = 'n', long, env = "SHARDPACK_DRY_RUN", help_heading = "Running")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
    /// Readers to describe the shards to, with commas between
    ///
    /// dali, energon, energon-sqlite, openclip, tfds, tfrecord, timm, wids
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
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
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
    /// The images it was made from: shows pictures of those that were skipped
    #[arg(long, value_name = "SRC", env = "SHARDPACK_SOURCE")]
    pub(crate) source: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
    /// Show where this sample lies: its key, or a file's path in the source
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// List images that are there several times
    ///
    /// Those in several splits come first. Each is read and compared.
    #[arg(long, conflicts_with = "key", env = "SHARDPACK_DUPLICATES")]
    pub(crate) duplicates: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
    /// Only samples whose key or source path matches, or a directory above it
    ///
    /// `*` stays within a directory, as in a shell: `cat`, `cat/0*`, `**/*.png`.
    #[arg(value_name = "GLOB")]
    pub(crate) glob: Option<String>,
    /// End after so many samples
    #[arg(long, value_name = "N", env = "SHARDPACK_LIMIT")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
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
    /// Write it to this file [default: stdout, unless that is a terminal]
    #[arg(short, long, value_name = "FILE", env = "SHARDPACK_OUTPUT")]
    pub(crate) output: Option<OsString>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Images: a directory, s3://BUCKET/PREFIX, or an archive (.tar, .zip)
    #[arg(value_name = "SRC", env = "SHARDPACK_SRC")]
    pub(crate) source: String,
    /// The same data as shards, to compare with
    ///
    /// A dataset at a directory or s3://BUCKET/PREFIX. [default: a sample of SRC is packed beside it, and removed afterwards]
    #[arg(long, value_name = "DST", env = "SHARDPACK_SHARDS")]
    pub(crate) shards: Option<String>,
    /// Where the sample is packed, if not beside SRC
    ///
    /// A directory or s3://BUCKET/PREFIX, on the storage that training is to read from.
    #[arg(long, value_name = "PLACE", env = "SHARDPACK_SCRATCH")]
    pub(crate) scratch: Option<String>,
    /// Longest time of each measurement
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10.0,
        env = "SHARDPACK_SECONDS"
    )]
    pub(crate) seconds: f64,
    /// Readers at once, measured one number after the other; never more
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "1,8,32,128",
        env = "SHARDPACK_CONCURRENCY"
    )]
    pub(crate) concurrency: Vec<usize>,
    /// Images a second that one GPU wants
    ///
    /// A ResNet-50 on a modern GPU takes about 2,000, which are 300 MB/s.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2000.0,
        env = "SHARDPACK_TARGET"
    )]
    pub(crate) target: f64,
    /// Measure how fast a core decodes, too
    #[arg(long, env = "SHARDPACK_DECODE")]
    pub(crate) decode: bool,
    /// Measure the first byte of 100 files alone, too
    #[arg(long, env = "SHARDPACK_PROBE_LATENCY")]
    pub(crate) probe_latency: bool,
    /// Have this machine forget what is read next
    ///
    /// So that the disk answers and not memory (`posix_fadvise`, which needs no privileges); what came of it is said.
    #[arg(long, env = "SHARDPACK_COLD")]
    pub(crate) cold: bool,
    /// Read at most so much in all
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "2GB", env = "SHARDPACK_MAX_BYTES")]
    pub(crate) max_bytes: u64,
    /// Simulate training with batches of so many images
    ///
    /// Says which part of the time a GPU would wait, with files and with shards.
    #[arg(long, value_name = "N", env = "SHARDPACK_GPU_BATCH")]
    pub(crate) gpu_batch: Option<u64>,
    /// Images a second of that simulated GPU [default: --target]
    #[arg(
        long,
        value_name = "N",
        requires = "gpu_batch",
        env = "SHARDPACK_GPU_IMAGES_PER_SECOND"
    )]
    pub(crate) gpu_images_per_second: Option<f64>,
    /// Say what the requests of an epoch cost, in dollars
    ///
    /// For example get=0.0004/1000.
    #[arg(long, value_name = "PRICES", env = "SHARDPACK_PRICE")]
    pub(crate) price: Option<String>,
    /// Write a page with the figures to this file
    #[arg(long, value_name = "FILE", env = "SHARDPACK_REPORT")]
    pub(crate) report: Option<OsString>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
