//! What is written down of a dataset: samples and their keys, recipe and policy, the record of a shard, the manifest.
//!
//! Values, with the form that they have on the wire, and what a run adds to while it goes on: its counters and the file of `--problems`. No
//! source and no destination is touched here.

pub(crate) mod column;
pub(crate) mod counters;
pub(crate) mod extent;
pub(crate) mod history;
pub(crate) mod limits;
pub(crate) mod listing;
pub(crate) mod manifest;
pub(crate) mod name;
pub(crate) mod offenders;
pub(crate) mod policy;
pub(crate) mod problems;
pub(crate) mod recipe;
pub(crate) mod record;
pub(crate) mod sample;
pub(crate) mod selection;
pub(crate) mod version;
