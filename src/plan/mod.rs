//! From samples to a plan: order, selection, cut, and how much memory the run will hold.
//!
//! In comes the scan of a source; out goes a draft, whose plan says which samples go into which shard under which recipe. Pure values: nothing
//! here reads or writes.

pub(crate) mod budget;
pub(crate) mod columns;
pub(crate) mod cut;
pub(crate) mod draft;
pub(crate) mod lines;
pub(crate) mod order;
pub(crate) mod select;
pub(crate) mod value;
pub(crate) mod worker;
