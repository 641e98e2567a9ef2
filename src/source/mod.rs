//! source

pub mod labels;
pub mod scan;
