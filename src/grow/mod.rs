//! What a source that changed since it was published comes to: which shards stay, which are made again, which are new.
//!
//! In come an ordered source, the manifest and the plans that its shards were made under; out goes the draft of the next plan, or the word
//! that there is nothing to do. Nothing is written here.

mod compare;
pub(crate) mod generation;
mod numbering;
pub(crate) mod options;
mod places;
pub(crate) mod removals;
mod shards;
mod touched;
