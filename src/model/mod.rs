//! What is written down of a dataset: samples and their keys, recipe and policy, the record of a shard, the manifest.
//!
//! Values, with the form that they have on the wire, and what a run adds to while it goes on: its counters and the file of `--problems`. No
//! source and no destination is touched here.

pub mod counters;
pub mod extent;
pub mod history;
pub mod limits;
pub mod listing;
pub mod manifest;
pub mod name;
pub mod offenders;
pub mod policy;
pub mod problems;
pub mod recipe;
pub mod record;
pub mod sample;
pub mod version;
