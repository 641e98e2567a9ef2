//! model

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
