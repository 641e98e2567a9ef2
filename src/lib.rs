//! shardpack turns an ImageFolder tree into large sequential shards that training jobs stream, and proves that they are intact.
//!
//! ```text
//! list → scan → plan → claim → read ahead → pack → compress → digest → put → record → publish
//! ```
//!
//! Data moves left to right. Left of `claim` runs once and ends in a [plan](plan::value::Plan); `claim … record` runs on many threads and
//! workers, one thread owning one shard; `publish` runs once, from records alone.
//!
//! A folder of `src/` is a room, and imports only from those before it in this table, which a test reads:
//!
//! | room | what happens here |
//! |---|---|
//! | `base/` | What knows no dataset: errors and exit codes, sizes, checksums, buffers, the one seam between threads, signals, headers of images. |
//! | `model/` | What is written down: sample, field, key, recipe, policy, record, manifest, and what a run counts. |
//! | `store/` | Bytes in, bytes out, on local disk and S3: listing, reading, committing. No word of datasets. |
//! | `source/` | From a listing to samples: scan, splits, classes, labels. |
//! | `format/` | One layout a file: its packer, its walk through shards of others, and the check that packs again and compares; compression around them. |
//! | `plan/` | Order, selection and cut of the samples into shards, with a budget of memory. |
//! | `state/` | The protocol on the destination: stored plans, claims, what is done, what is published. |
//! | `grow/` | What a source that changed comes to: which shards stay, are made again, are new. |
//! | `pack/` | Claim, read ahead, pack, compress, digest, put, record: one thread a shard. |
//! | `publish/` | Snapshot, manifest, and what lies beside it; one reader's index a file. |
//! | `upkeep/` | Everything afterwards: verify, repair, gc, shards of others. |
//! | `report/` | Pages for people: values in, text out. |
//! | `cli/` | What is typed and what is said: flags, settings, verbs, progress, summaries. |
//!
//! `docs/architecture.md` says more of each.

pub mod base;
pub mod cli;
pub mod format;
pub mod grow;
pub mod model;
pub mod pack;
pub mod plan;
pub mod publish;
pub mod report;
pub mod source;
pub mod state;
pub mod store;
pub mod upkeep;

#[cfg(test)]
mod testing;

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod testing;
