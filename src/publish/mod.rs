//! A dataset appears: records become a manifest, the manifest a snapshot, and beside it lies what readers and people look for.
//!
//! The records of a plan's shards come in; a snapshot goes out, put if absent, then `SHA256SUMS`, the card and the reader indexes of the
//! whole dataset, and `manifest.json` last. Shards are neither read nor written here.

pub(crate) mod card;
pub(crate) mod commit;
pub(crate) mod companions;
pub(crate) mod layout;
mod own_files;
pub(crate) mod readers;
pub(crate) mod reading;
pub(crate) mod records;
mod snapshots;

pub(crate) use crate::publish::snapshots::later_snapshot;
