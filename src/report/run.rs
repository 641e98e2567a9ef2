//! The part of a report that is about a run, from the JSON that `--summary` writes.

use serde::Deserialize;

use crate::base::error::{Error, Result};
use crate::model::history::{Changes, History, Setup};
use crate::model::record::Remark;
use crate::source::outline::Outline;

/// What a run did, as its summary tells it; what an older version did not write is empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Run {
    /// The verb.
    pub verb: String,
    /// The exit code.
    pub exit_code: u8,
    /// What went wrong, if something did.
    pub error: Option<String>,
    /// The destination.
    pub destination: Option<String>,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// Samples in the dataset or in this run's part of it.
    pub samples: u64,
    /// Shards in the dataset or in this run's part of it.
    pub shards: u64,
    /// Those that an earlier run had finished.
    pub shards_reused: u64,
    /// Bytes of all those shards.
    pub bytes: u64,
    /// How the source differed from what was published of it.
    pub changes: Option<Changes>,
    /// What the source was taken for.
    pub(crate) source: Option<Outline>,
    /// Requests to an object store that were made again.
    pub retries: u64,
    /// Those of them that it answered by asking for fewer.
    pub push_backs: u64,
    /// Slow reads that were asked for a second time.
    pub hedges: u64,
    /// Damage that was found.
    pub findings: Vec<String>,
    /// Samples left out, with the reason.
    pub skipped: Vec<Remark>,
    /// Samples packed although something about them is odd.
    pub odd: Vec<Remark>,
    /// Wall-clock time.
    pub seconds: f64,
    /// Largest resident memory of the process.
    pub peak_rss_bytes: Option<u64>,
    /// How it was set up.
    pub setup: Option<Setup>,
    /// The run over time.
    #[serde(flatten)]
    pub history: History,
}

impl Run {
    /// Reads a summary; `name` is for messages.
    pub(crate) fn decode(name: &str, text: &[u8]) -> Result<Self> {
        serde_json::from_slice(text).map_err(|error| {
            Error::usage(format!(
                "{name}: not a summary: {error}: give a file that `--summary` wrote"
            ))
        })
    }
}
