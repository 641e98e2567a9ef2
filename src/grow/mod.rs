//! grow

pub mod generation;
pub mod removals;
