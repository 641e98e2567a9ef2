//! model

pub mod history;
pub mod listing;
pub mod manifest;
pub mod name;
pub mod offenders;
pub mod policy;
pub mod recipe;
pub mod record;
pub mod sample;
