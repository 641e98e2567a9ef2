//! A run over time, what it found changed, and how it was set up: what `--summary` holds and a report draws.

use serde::{Deserialize, Serialize};

use crate::base::units::count_text;

/// How a source differs from what is published of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Changes {
    /// Samples that are not published.
    pub new: u64,
    /// Samples with another size, content, label or other fields than when they were packed.
    pub changed: u64,
    /// Samples whose files were touched or copied again, and have the contents that were packed.
    #[serde(skip_serializing_if = "is_none")]
    pub touched: u64,
    /// Published samples that are not in the source any more.
    pub deleted: u64,
    /// New samples that wait for more.
    pub waiting: u64,
    /// Classes that are new, in the order of their numbers.
    pub new_classes: Vec<String>,
    /// Published shards that stay.
    pub kept: u64,
    /// Shards that are made again.
    pub rebuilt: u64,
    /// Small shards whose samples go into new ones.
    pub merged: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Changes {
    /// What there is any of, with what to call it.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("new", self.new),
            ("changed", self.changed),
            ("touched only", self.touched),
            ("gone", self.deleted),
            ("waiting for more", self.waiting),
            ("new classes", self.new_classes.len() as u64),
            ("shards kept", self.kept),
            ("made again", self.rebuilt),
            ("merged", self.merged),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
    }

    /// For people, in one line.
    pub(crate) fn text(&self) -> String {
        let parts: Vec<String> = self
            .counts()
            .map(|(what, count)| format!("{what} {}", count_text(count)))
            .collect();
        match parts.is_empty() {
            true => "none".to_owned(),
            false => parts.join(", "),
        }
    }
}

/// What had been done by a moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
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
pub(crate) struct Phase {
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
pub(crate) struct History {
    /// Its stages, one after the other.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// How far it was at regular moments and at its end, 241 at most.
    #[serde(default)]
    pub timeline: Vec<Point>,
}

/// How a run was set up: what was asked for, and what was settled on when nothing was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Setup {
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
    /// The command line, with the variables of ours before it, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The source that was named, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}
