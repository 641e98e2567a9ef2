//! cli

pub mod file;
pub mod flags;
pub mod progress;
pub mod run;
pub mod scheduler;
pub mod settings;
pub mod verbs;
