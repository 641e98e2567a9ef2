//! A run over time, and how it was set up: what `--summary` holds and a report draws.

use serde::{Deserialize, Serialize};

/// What had been done by a moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Seconds since the run began.
    pub seconds: f64,
    /// Samples done.
    pub samples: u64,
    /// Bytes of source files read, or of shards verified.
    pub bytes: u64,
    /// Requests made again.
    pub retries: u64,
}

/// A stage of a run: what was done in it, of how much.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// What was done.
    pub name: String,
    /// Seconds from the run's beginning to this phase's.
    pub began: f64,
    /// Seconds it took.
    pub seconds: f64,
    /// Samples done.
    pub samples: u64,
    /// Samples there were to do, where that is counted.
    pub of_samples: u64,
    /// Bytes done.
    pub bytes: u64,
    /// Bytes there were to do.
    pub of_bytes: u64,
    /// Shards done.
    pub shards: u64,
    /// Shards there were to do.
    pub of_shards: u64,
}

/// A run over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Its stages, one after the other.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// How far it was at regular moments and at its end, 241 at most.
    #[serde(default)]
    pub timeline: Vec<Point>,
}

/// How a run was set up: what was asked for, and what was settled on when nothing was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Version of the program.
    pub version: String,
    /// Cores kept busy.
    pub cores: usize,
    /// Shards at once, if it was said how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<usize>,
    /// Reads in flight at most, if it was said how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<usize>,
    /// Memory to stay within.
    pub memory_bytes: u64,
    /// Whether commits wait for the disk.
    pub fsync: bool,
}
