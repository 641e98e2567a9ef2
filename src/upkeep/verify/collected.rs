//! What the threads of one verification write down together, to be compared once all shards were read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::format::Finding;
use crate::model::record::Remark;
use crate::model::sample::{Sample, key_hash};
use crate::source::samples::Entry;
use crate::source::samples::Scan;
use crate::store::Source;
use crate::upkeep::verify::verification::{Report, SourceToCompare};

/// Where a sample was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyPlace {
    /// Hash of its key.
    pub(super) key: u64,
    /// CRC-32 of the name of its shard.
    pub(super) shard: u32,
}

/// What the record of one shard says of samples that are unusual.
pub(super) struct ShardRemarks {
    pub(super) skipped: Vec<Remark>,
    pub(super) odd: Vec<Remark>,
}

/// What the threads of a verification share.
pub(super) struct Collected<'a> {
    report: Mutex<Report>,
    /// One place for each sample of the shards that were read.
    pub(super) keys: Mutex<Vec<KeyPlace>>,
    /// What records say of skipped and odd samples, by shard.
    pub(super) remarks: Mutex<HashMap<String, ShardRemarks>>,
    /// The source, if the dataset is compared with one.
    pub(super) source: Option<SourceSamples<'a>>,
}

impl<'a> Collected<'a> {
    pub(super) fn new(against: Option<&'a SourceToCompare<'a>>) -> Self {
        Self {
            report: Mutex::default(),
            keys: Mutex::default(),
            remarks: Mutex::default(),
            source: against.map(SourceSamples::new),
        }
    }

    /// The report so far.
    pub(super) fn report(&self) -> MutexGuard<'_, Report> {
        lock(&self.report)
    }

    /// Adds what is wrong.
    pub(super) fn find(&self, findings: impl IntoIterator<Item = Finding>) {
        self.report().findings.extend(findings);
    }

    /// Adds something that is not wrong.
    pub(super) fn note(&self, finding: Finding) {
        self.report().notes.push(finding);
    }

    /// The report, with its findings in order.
    pub(super) fn into_report(self) -> Report {
        let report = self.report.into_inner();
        let mut report = report.unwrap_or_else(PoisonError::into_inner);
        report
            .findings
            .sort_by(|a, b| (&a.object, a.range).cmp(&(&b.object, b.range)));
        report
    }
}

/// Locks, also behind a thread that panicked: its own error is what the run ends with.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sample of the source that has the key of one in a shard.
pub(super) struct MetSample {
    pub(super) sample: Sample,
    /// Whether its key was met before, in this shard or another.
    pub(super) again: bool,
}

/// The source's samples by a hash of their key, each marked when it was met in a shard.
pub(super) struct SourceSamples<'a> {
    pub(super) source: &'a dyn Source,
    scan: &'a Scan,
    by_key: HashMap<u64, u32>,
    met: Vec<AtomicBool>,
}

impl<'a> SourceSamples<'a> {
    fn new(against: &'a SourceToCompare<'a>) -> Self {
        let SourceToCompare { source, scan } = *against;
        let by_key = scan.entries.iter().enumerate();
        Self {
            source,
            scan,
            by_key: by_key
                .map(|(i, entry)| (key_hash(&scan.key(entry)), i as u32))
                .collect(),
            met: scan
                .entries
                .iter()
                .map(|_| AtomicBool::new(false))
                .collect(),
        }
    }

    /// The source's sample of this key, which is marked as met.
    pub(super) fn meet(&self, key: &str) -> Option<MetSample> {
        let index = *self.by_key.get(&key_hash(key))? as usize;
        let entry: &Entry = &self.scan.entries[index];
        let sample = self.scan.sample(entry);
        if sample.key != key {
            return None;
        }
        let again = self.met[index].swap(true, Ordering::Relaxed);
        Some(MetSample { sample, again })
    }

    /// The samples that were not met.
    pub(super) fn unmet(&self) -> impl Iterator<Item = Sample> {
        let entries = self.scan.entries.iter().zip(&self.met);
        entries
            .filter(|(_, met)| !met.load(Ordering::Relaxed))
            .map(|(entry, _)| self.scan.sample(entry))
    }
}
