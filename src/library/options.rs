//! How to run: what all verbs have in common.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::signal::Stop;
use crate::cli::settings::{Limits, Running};
use crate::model::counters::Counters;
use crate::store::S3Options;

/// How to run. The default is what the command line does when nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Shards at once, at least 1: as many as keep all cores busy.
    pub jobs: Option<usize>,
    /// Reads in flight, at least 1: what hides the latency of the source.
    pub reads: Option<usize>,
    /// Memory in bytes that a run stays within: a part of what the machine or its control group has.
    pub memory: Option<u64>,
    /// Does not wait until what is written is on the disk: faster, and not safe when the machine fails.
    pub no_fsync: bool,
    /// How S3 is reached.
    pub s3: S3Options,
}

impl Options {
    /// These options, checked.
    pub(super) fn running(&self) -> Result<Running> {
        let limits = Limits {
            jobs: self.jobs,
            reads: self.reads,
            memory: self.memory,
            fsync: !self.no_fsync,
            s3: self.s3.clone(),
        };
        Running::new(limits, &Arc::new(Counters::default()), &Stop::default())
    }
}
