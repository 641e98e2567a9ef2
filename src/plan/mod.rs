//! From samples to a plan: order, selection, cut, and how much memory the run will hold.
//!
//! In comes the scan of a source; out goes a draft, whose plan says which samples go into which shard under which recipe. Pure values: nothing
//! here reads or writes.

pub mod budget;
pub mod cut;
pub mod draft;
pub mod lines;
pub mod order;
pub mod select;
pub mod value;
pub mod worker;
