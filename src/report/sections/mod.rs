//! The sections of a page, each a function that writes it, and nothing where there is nothing to say.

pub(super) mod activity;
pub(super) mod changes;
pub(super) mod classes;
pub(super) mod distribution;
pub(super) mod duplicates;
pub(super) mod gallery;
pub(super) mod head;
pub(super) mod images;
pub(super) mod outcome;
pub(super) mod remarks;
pub(super) mod samples;
pub(super) mod shards;
pub(super) mod usage;
