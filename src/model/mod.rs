//! What is written down of a dataset: samples and their keys, recipe and policy, the record of a shard, the manifest.
//!
//! Values only, with the form that they have on the wire: nothing here lists, reads or writes a file.

pub mod counters;
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
