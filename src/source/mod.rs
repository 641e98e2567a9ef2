//! From a listing to samples: which files are fields of one sample, and which split and class it belongs to.
//!
//! In come a listing, the rules to read it by and perhaps a label file; out goes a scan, or a refusal that names every offender.

pub(crate) mod choose;
mod contradictions;
pub(crate) mod dataset;
pub(crate) mod dirs;
mod doubts;
mod groups;
pub(crate) mod imagenet;
mod labelling;
pub(crate) mod labels;
pub(crate) mod layouts;
pub(crate) mod metadata;
pub(crate) mod outline;
pub(crate) mod rules;
pub(crate) mod samples;
pub(crate) mod scan;
mod scanner;
