//! The list of samples of a stored plan, made again: from itself where it can still be read, and else from the records of the shards
//! and the source. Nothing is written that is not what was planned.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::base::error::{Kind, Result};
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::sample::Sample;
use crate::plan::lines::lines_of;
use crate::source::samples::Scan;
use crate::state::claims::plans;
use crate::state::names::Part;
use crate::state::names::plan_file;
use crate::state::names::samples_name;
use crate::state::plans::Stored;
use crate::state::published::read_record;
use crate::state::samples::are_planned;
use crate::state::samples::lines;
use crate::state::samples::put_samples;
use crate::store::Sink;
use crate::upkeep::verify::Report;

/// What became of the damaged lists of samples, by name: `None` where one is again what was planned, else why not.
pub(crate) type RelistedPlans = HashMap<String, Option<String>>;

/// Names of the lists of samples that a verification found damaged.
pub(crate) fn damaged_lists(report: &Report) -> BTreeSet<&str> {
    let objects = report.findings.iter().map(|found| found.object.as_str());
    objects
        .filter(|name| matches!(plan_file(name), Some((_, Part::Samples))))
        .collect()
}

/// Makes these lists of samples again. `scan` gives the samples of the source, with the classes numbered as they are published; it is
/// asked for them once, if that is needed.
pub(crate) fn relist(
    sink: &dyn Sink,
    manifest: &Manifest,
    damaged: &BTreeSet<&str>,
    scan: &mut dyn FnMut() -> Result<Scan>,
) -> Result<RelistedPlans> {
    let digests: HashSet<&str> = manifest
        .shards()
        .map(|(_, shard)| manifest.plan_of(shard))
        .chain([manifest.plan.as_str()])
        .collect();
    let mut source = None;
    let mut relisted = RelistedPlans::new();
    for stored in plans(sink, &digests)?.values() {
        let name = samples_name(&stored.id);
        if !damaged.contains(name.as_str()) {
            continue;
        }
        let mut why = "made again it is not what was planned: files of the source changed";
        let put = put_samples(sink, stored, |shard| {
            if let Some(lines) = if_readable(lines(sink, stored, shard))? {
                return Ok(Some(lines));
            }
            let source = match &source {
                Some(source) => source,
                None => source.insert(SourceSamples::new(scan()?)),
            };
            let lines = from_record(sink, manifest, stored, shard, source)?;
            if lines.is_none() {
                why = "the records do not tell all samples of it";
            }
            let plan = &stored.plan.shards[shard];
            Ok(lines.filter(|lines| are_planned(plan, lines)))
        });
        let harm = format!(
            "all that is published can be read, but nothing tells what changes: start over with `--full` when it does, in {sink}"
        );
        let became = match put {
            Ok(true) => None,
            Ok(false) => Some(format!("{why}; {harm}")),
            Err(error) if error.kind() == Kind::Transient => return Err(error),
            Err(error) => Some(format!("{error}; {harm}")),
        };
        relisted.insert(name, became);
    }
    Ok(relisted)
}

/// The source's samples by a hash of their key.
struct SourceSamples {
    scan: Scan,
    by_key: HashMap<u64, u32>,
}

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl SourceSamples {
    fn new(scan: Scan) -> Self {
        let by_key = scan.entries.iter().enumerate();
        let by_key = by_key
            .map(|(number, entry)| (hash(&scan.key(entry)), number as u32))
            .collect();
        Self { scan, by_key }
    }

    fn sample(&self, key: &str) -> Option<Sample> {
        let number = *self.by_key.get(&hash(key))?;
        let sample = self.scan.sample(&self.scan.entries[number as usize]);
        (sample.key == key).then_some(sample)
    }
}

/// The lines of a published shard, of the samples that its record names; `None` where samples were left out, whose places nobody knows.
fn from_record(
    sink: &dyn Sink,
    manifest: &Manifest,
    stored: &Stored,
    shard: usize,
    source: &SourceSamples,
) -> Result<Option<Vec<u8>>> {
    let name = &stored.plan.shards[shard].name;
    let is_it =
        |entry: &&ShardEntry| entry.name == *name && manifest.plan_of(entry) == stored.digest;
    let Some(entry) = manifest.shards().map(|(_, shard)| shard).find(is_it) else {
        return Ok(None);
    };
    let Some(record) = if_readable(read_record(entry, sink))?.flatten() else {
        return Ok(None);
    };
    if !record.skipped.is_empty() {
        return Ok(None);
    }
    let rows = record.samples.iter();
    let samples: Option<Vec<Sample>> = rows.map(|row| source.sample(&row.key)).collect();
    Ok(samples.map(|samples| lines_of(&samples)))
}

/// What can be read; an outage is no damage.
fn if_readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if [Kind::Transient, Kind::Cancelled].contains(&error.kind()) => Err(error),
        read => Ok(read.ok()),
    }
}
