//! A dataset appears: records become a manifest, the manifest a snapshot, and beside it lies what readers and people look for.
//!
//! The records of a plan's shards come in; a snapshot goes out, put if absent, then `SHA256SUMS`, the card and the reader indexes of the
//! whole dataset, and `manifest.json` last. Shards are neither read nor written here.

pub mod card;
pub mod commit;
pub mod companions;
pub mod layout;
mod own_files;
pub mod readers;
pub mod records;
mod snapshots;

pub use crate::publish::snapshots::later_snapshot;
