//! The part of a report that is about a dataset.

use crate::model::record::Remark;
use crate::report::figures::Figures;
use crate::report::pictures::Pictures;
use crate::upkeep::duplicates::Duplicates;

/// One split of a dataset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Split {
    /// Its name.
    pub name: String,
    /// Its samples.
    pub samples: u64,
    /// Bytes of its shards.
    pub bytes: u64,
    /// Bytes of each shard.
    pub shards: Vec<u64>,
    /// Samples of each class, by label.
    pub labels: Vec<u64>,
}

/// What is told of a dataset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dataset {
    /// Where it lies.
    pub destination: String,
    /// Its name.
    pub name: String,
    /// Digest of its plan.
    pub plan: String,
    /// SHA-256 of its manifest.
    pub digest: String,
    /// Number of the snapshot.
    pub snapshot: u64,
    /// Layout and compression.
    pub format: String,
    /// Lines of Python that read it, where there are some.
    pub reading: Option<String>,
    /// Its samples.
    pub samples: u64,
    /// Bytes of its shards.
    pub bytes: u64,
    /// Class names by label.
    pub classes: Vec<String>,
    /// What classes are called for people; empty when nobody said.
    pub texts: Vec<String>,
    /// Its splits.
    pub splits: Vec<Split>,
    /// All samples added up.
    pub figures: Figures,
    /// Samples of the source that are not in it.
    pub skipped: Vec<Remark>,
    /// Samples that are in it although something about them is odd.
    pub odd: Vec<Remark>,
    /// Indexes that could not be read, and why: their samples are in none of the figures.
    pub unread: Vec<String>,
    /// Images that are there several times.
    pub duplicates: Duplicates,
    /// Why nobody looked for these, if so.
    pub uncompared: Option<String>,
    /// Pictures of some samples.
    pub pictures: Pictures,
}

impl Dataset {
    /// Number of its shards.
    pub(super) fn shards(&self) -> usize {
        self.splits.iter().map(|split| split.shards.len()).sum()
    }

    /// A class as people call it.
    pub(super) fn class(&self, label: usize) -> String {
        let name = self.classes.get(label).map_or("", String::as_str);
        match self.texts.get(label).filter(|text| !text.is_empty()) {
            Some(text) if text != name => format!("{name} ({text})"),
            _ => name.to_owned(),
        }
    }
}
