//! From a listing to samples: which files are fields of one sample, and which split and class it belongs to.
//!
//! In come a listing, the rules to read it by and perhaps a label file; out goes a scan, or a refusal that names every offender.

mod contradictions;
pub mod dirs;
mod doubts;
mod groups;
pub(crate) mod imagenet;
mod labelling;
pub mod labels;
pub(crate) mod layouts;
pub(crate) mod metadata;
pub(crate) mod outline;
pub mod rules;
pub mod samples;
pub mod scan;
mod scanner;
