//! shardpack turns an ImageFolder tree into large sequential shards that training jobs stream, and proves that they are intact.
//!
//! It is a command line tool first; the same verbs are here as values: a [`Conversion`] makes a dataset of a tree, a [`Verification`] looks
//! for damage, a [`Repair`] makes again what is damaged, and a [`Dataset`] is read sample by sample. `docs/library.md` shows them at work.
//!
//! # Inside
//!
//! ```text
//! list → scan → plan → claim → read ahead → pack → compress → digest → put → record → publish
//! ```
//!
//! Data moves left to right. Left of `claim` runs once and ends in a plan; `claim … record` runs on many threads and workers, one thread
//! owning one shard; `publish` runs once, from records alone.
//!
//! A folder of `src/` is a room, and imports only from those before it in this table, which a test reads:
//!
//! | room | what happens here |
//! |---|---|
//! | `base/` | What knows no dataset: errors and exit codes, sizes, checksums, buffers, the one seam between threads, signals, headers of images. |
//! | `model/` | What is written down: sample, field, key, recipe, policy, record, manifest, and what a run counts. |
//! | `store/` | Bytes in, bytes out, on local disk and S3: listing, reading, committing. No word of datasets. |
//! | `source/` | From a listing to samples: layouts that are recognised, scan, splits, classes, labels, metadata. |
//! | `format/` | One layout a file: its packer, its walk through shards of others, and the check that packs again and compares; compression around them. |
//! | `plan/` | Order, selection and cut of the samples into shards, with a budget of memory. |
//! | `state/` | The protocol on the destination: stored plans, claims, what is done, what is published. |
//! | `grow/` | What a source that changed comes to: which shards stay, are made again, are new. |
//! | `pack/` | Claim, read ahead, pack, compress, digest, put, record: one thread a shard. |
//! | `publish/` | Snapshot, manifest, and what lies beside it; one reader's index a file. |
//! | `upkeep/` | Everything afterwards: verify, repair, gc, shards of others. |
//! | `report/` | Pages for people: values in, text out. |
//! | `cli/` | What is typed and what is said: flags, settings, verbs, progress, summaries. |
//! | `library/` | What a program calls instead: the same verbs as values. |
//!
//! `docs/architecture.md` says more of each.

// What only network stores call is there in every build.
#![cfg_attr(not(feature = "s3"), allow(dead_code))]

mod base;
mod cli;
mod format;
mod grow;
mod library;
mod model;
mod pack;
mod plan;
mod publish;
mod report;
mod source;
mod state;
mod store;
mod upkeep;

#[cfg(test)]
mod testing;

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod testing;

pub use crate::base::error::{Error, Kind as ErrorKind, Result};
pub use crate::base::image::Validate;
pub use crate::cli::run::main as command_line;
pub use crate::format::Finding;
pub use crate::library::{
    Conversion, Converted, Dataset, Options, Repair, Sample, SampleNote, Samples, Verification,
};
pub use crate::model::policy::Policy;
pub use crate::model::recipe::{Compression, Cut, Format, Order};
pub use crate::store::S3Options;
pub use crate::upkeep::repair::RepairOutcome;
pub use crate::upkeep::verify::{Level, Report};

#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct Guide;
