//! Flags that several verbs share, in groups as `--help` shows them.

use std::ffi::OsString;

use clap::Args;

use crate::base::units::parse_bytes;

use super::choosing::SelectArgs;
use super::values::*;

/// What a dataset is called where nobody says it.
pub(crate) const DEFAULT_NAME: &str = "dataset";

/// What may become of files that were there before.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// Replace files of somebody else that lie where reader indexes are to be; without it they are named and nothing is written
    #[arg(long, env = "SHARDPACK_REPLACE")]
    pub(crate) replace: bool,
}

/// What a dry run does and says.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct DryRunArgs {
    /// Print what would be done, and write nothing
    #[arg(short = 'n', long, env = "SHARDPACK_DRY_RUN")]
    pub(crate) dry_run: bool,
    /// In a dry run: what requests and storage cost, in dollars
    ///
    /// For example get=0.0004/1000,put=0.005/1000,list=0.005/1000,gb=0.023, where gb is a gigabyte for a month; a LIST costs a PUT unless said.
    #[arg(long, value_name = "PRICES", env = "SHARDPACK_PRICE")]
    pub(crate) price: Option<String>,
    /// In a dry run: read N files, to say how long all will take
    #[arg(long, value_name = "N", env = "SHARDPACK_PROBE")]
    pub(crate) probe: Option<u64>,
}

/// Telling people how a run went.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct ReportFlag {
    /// Write a page about run and dataset to this file
    ///
    /// One HTML file, written also when the run fails.
    #[arg(long, value_name = "FILE", env = "SHARDPACK_REPORT")]
    pub(crate) report: Option<OsString>,
}

/// What can change a byte of the output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct RecipeArgs {
    /// Shard layout: wds (tar), tfrecord or parquet
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
    /// Compress shards: none, zstd[:1-19] or gzip[:1-9]
    ///
    /// JPEG gains next to nothing; --dry-run says what would be saved.
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
    /// Describe shards to readers too: wids, dali …
    ///
    /// Several with commas between: dali, energon, energon-sqlite, openclip, tfds, tfrecord, timm, wids.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        env = "SHARDPACK_INDEX"
    )]
    pub(crate) index: Vec<String>,
    /// Largest shard [default: 1GB]
    ///
    /// Not compressed; all are made about equal.
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
    #[arg(long, env = "SHARDPACK_ADD_JSON")]
    pub(crate) add_json: bool,
    /// It was typed as `--json`, which it was called before.
    #[arg(skip)]
    pub(crate) called_json: bool,
    /// Add SHA-256 digests to the manifest, and a SHA256SUMS file
    #[arg(long, env = "SHARDPACK_SHA256")]
    pub(crate) sha256: bool,
    /// Name of the dataset in its card
    #[arg(long, default_value = DEFAULT_NAME, env = "SHARDPACK_NAME")]
    pub(crate) name: String,
    /// How SRC is arranged
    #[arg(long, value_enum, default_value_t = Layout::Auto, env = "SHARDPACK_LAYOUT", help_heading = "Input")]
    pub(crate) layout: Layout,
    /// A split and its place in SRC, or NAME to take it
    ///
    /// A place is a directory or an archive; repeat for more. [default: directories named train, val, test …]
    #[arg(
        long,
        value_name = "NAME=SUBPATH",
        env = "SHARDPACK_SPLIT",
        value_delimiter = ',',
        help_heading = "Input"
    )]
    pub(crate) split: Vec<OsString>,
    /// Labels of images in no class directory, or `none`
    ///
    /// `filename class` as CSV, TSV, text or JSON lines, or ImageNet's ground-truth list; `none` packs all images without labels.
    #[arg(
        long,
        value_name = "FILE",
        env = "SHARDPACK_LABELS",
        help_heading = "Input"
    )]
    pub(crate) labels: Option<OsString>,
    /// Column of the --labels file that names the images, by its name in the header or its number from 1 [default: `file`, `image`, `id` …]
    #[arg(
        long,
        value_name = "COLUMN",
        env = "SHARDPACK_FILE_COLUMN",
        help_heading = "Input"
    )]
    pub(crate) file_column: Option<String>,
    /// Column of metadata.csv, metadata.jsonl or metadata.parquet that is a caption: it becomes a `txt` field too [default: `text`, `caption`]
    #[arg(
        long,
        value_name = "COLUMN",
        env = "SHARDPACK_CAPTION_COLUMN",
        help_heading = "Input"
    )]
    pub(crate) caption_column: Option<String>,
    /// When images have no row in the metadata, or rows no image
    #[arg(long, value_enum, default_value_t = MissingRows::Fail, env = "SHARDPACK_MISSING_ROWS", help_heading = "Input")]
    pub(crate) missing_rows: MissingRows,
    /// Column of the --labels file or of the metadata that is the class, by its name in the header or its number from 1; never guessed [default: `label`,
    /// `class`, `synset` …]
    #[arg(
        long,
        value_name = "COLUMN",
        env = "SHARDPACK_LABEL_COLUMN",
        help_heading = "Input"
    )]
    pub(crate) label_column: Option<String>,
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
    /// Leave out what matches this glob; repeat for more
    ///
    /// Files and directories, relative to SRC.
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
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

/// What happens to damaged samples.
#[derive(Debug, Args)]
#[command(next_help_heading = "Damaged samples")]
pub(crate) struct PolicyArgs {
    /// Damaged samples: fail, or skip them
    ///
    /// Publish nothing, or leave them out and list them in the manifest.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnError::Fail, env = "SHARDPACK_ON_ERROR")]
    pub(crate) on_error: OnError,
    /// Most samples that --on-error skip may leave out [default: no limit]
    #[arg(long, value_name = "N", env = "SHARDPACK_MAX_SKIPPED")]
    pub(crate) max_skipped: Option<u64>,
}

/// How to go on from what is published already, when the source grew or changed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Growing datasets")]
pub(crate) struct GrowthArgs {
    /// What to do when published samples changed or are gone
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
    /// Start over: pack everything anew
    ///
    /// With other options if you like; what is published stays until that is.
    #[arg(long, env = "SHARDPACK_FULL")]
    pub(crate) full: bool,
}

/// Which part of the work this process does.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workers")]
pub(crate) struct WorkerArgs {
    /// Pack only the part of worker K of N, from 0
    #[arg(long, value_name = "K/N", env = "SHARDPACK_WORKER")]
    pub(crate) worker: Option<String>,
    /// How many workers there are
    ///
    /// Which one this is, is said by the variables of a Kubernetes Indexed Job, a SLURM or AWS Batch array, Cloud Run or Google Batch.
    /// [default: what the scheduler says, or this one alone]
    #[arg(long, value_name = "N", env = "SHARDPACK_WORKERS")]
    pub(crate) workers: Option<usize>,
    /// Publish if this worker finds that all are packed
    ///
    /// So that the last one to end does.
    #[arg(long, env = "SHARDPACK_PUBLISH_WHEN_COMPLETE")]
    pub(crate) publish_when_complete: bool,
}

/// How to run; none of this changes a byte of the output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct CommonArgs {
    /// Shards at once [default: number of cores]
    ///
    /// A few more when few shards divide better so.
    #[arg(short, long, value_name = "N", env = "SHARDPACK_JOBS")]
    pub(crate) jobs: Option<usize>,
    /// Reads in flight at most
    ///
    /// [default: 256 files, 512 objects]
    #[arg(long, value_name = "N", env = "SHARDPACK_READS")]
    pub(crate) reads: Option<usize>,
    /// Memory to stay within [default: a quarter of it]
    ///
    /// A quarter of what this machine or container has, 256 MiB to 4 GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, env = "SHARDPACK_MEMORY")]
    pub(crate) memory: Option<u64>,
    /// Do not wait until data is on the disk; a power cut may then lose what was reported done
    #[arg(long, env = "SHARDPACK_NO_FSYNC")]
    pub(crate) no_fsync: bool,
    /// Progress: auto, bar, log or none
    ///
    /// auto is a bar on a terminal and a line every 10 s elsewhere.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Progress::Auto, env = "SHARDPACK_PROGRESS")]
    pub(crate) progress: Progress,
    /// Print the result on stdout as JSON
    #[arg(long, env = "SHARDPACK_JSON")]
    pub(crate) json: bool,
    /// Form of log lines: text or json
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Log::Text, env = "SHARDPACK_LOG")]
    pub(crate) log: Log,
    /// Write a summary as JSON to this file; `-` is stdout
    ///
    /// Also when the run fails.
    #[arg(long, value_name = "FILE", env = "SHARDPACK_SUMMARY")]
    pub(crate) summary: Option<OsString>,
    /// Write everything that is at fault to this file
    ///
    /// A line for each: what it is, the path and the rest, with tabs between. Messages name the first 20.
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
    /// Server that speaks S3, instead of AWS
    ///
    /// [default: AWS_ENDPOINT_URL_S3]
    #[arg(long, value_name = "URL", env = "SHARDPACK_ENDPOINT_URL")]
    pub(crate) endpoint_url: Option<String>,
    /// Region of the bucket
    ///
    /// [default: AWS_REGION or the profile's]
    #[arg(long, value_name = "NAME", env = "SHARDPACK_REGION")]
    pub(crate) region: Option<String>,
    /// Profile in the AWS configuration files
    ///
    /// Its credentials and no others are used, whatever the environment holds. [default: AWS_PROFILE, after keys in the environment]
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
