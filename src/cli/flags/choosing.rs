//! Which part of a source is taken.

use std::ffi::OsString;

use clap::Args;

use crate::base::units::parse_bytes;

/// Which samples are taken, of any source; what becomes of their labels and splits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct SelectArgs {
    /// Take only this class: its name, or a glob of names; repeat for more
    #[arg(long, value_name = "NAME|GLOB", env = "SHARDPACK_CLASS")]
    pub(crate) class: Vec<String>,
    /// Take only the classes in this file, a name or glob a line
    #[arg(long, value_name = "FILE", env = "SHARDPACK_CLASSES_FILE")]
    pub(crate) classes_file: Option<OsString>,
    /// Take only the samples with these keys: one a line, or the column `key` of a .csv, .jsonl or .parquet
    #[arg(long, value_name = "FILE", env = "SHARDPACK_KEYS")]
    pub(crate) keys: Option<OsString>,
    /// Take only images of at least this length in bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, env = "SHARDPACK_MIN_BYTES")]
    pub(crate) min_bytes: Option<u64>,
    /// Take only images of at most this length in bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, env = "SHARDPACK_MAX_BYTES")]
    pub(crate) max_bytes: Option<u64>,
    /// Take only images whose shorter side has at least so many pixels
    ///
    /// From the index of a published dataset; of other sources the beginning of each image is read.
    #[arg(long, value_name = "PIXELS", env = "SHARDPACK_MIN_SIDE")]
    pub(crate) min_side: Option<u32>,
    /// Take only images whose longer side has at most so many pixels
    #[arg(long, value_name = "PIXELS", env = "SHARDPACK_MAX_SIDE")]
    pub(crate) max_side: Option<u32>,
    /// Take this part of what is left, by a hash of --seed and key: 0.1 or 10%
    ///
    /// The same samples for ever; a smaller part is in every larger one.
    #[arg(long, value_name = "PART", env = "SHARDPACK_FRACTION")]
    pub(crate) fraction: Option<String>,
    /// Take at most so many samples of each class, by the same hash
    #[arg(long, value_name = "N", env = "SHARDPACK_PER_CLASS")]
    pub(crate) per_class: Option<u64>,
    /// Number the classes that are left from 0, instead of keeping their numbers
    #[arg(long, env = "SHARDPACK_RELABEL")]
    pub(crate) relabel: bool,
    /// Divide samples into splits anew, by a hash of --seed and key: train=0.9,val=0.1
    #[arg(
        long,
        value_name = "NAME=PART",
        value_delimiter = ',',
        env = "SHARDPACK_RESPLIT"
    )]
    pub(crate) resplit: Vec<String>,
    /// With --resplit: divide each class so
    #[arg(long, env = "SHARDPACK_STRATIFY")]
    pub(crate) stratify: bool,
}
