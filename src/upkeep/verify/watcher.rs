//! What is looked at while a shard is compared with its record: labels, and the source's files beside the shard's contents.

use crate::base::error::Error;
use crate::format::RecipeLayout as _;
use crate::format::{Finding, Watch};
use crate::model::counters::Counters;
use crate::model::manifest::Manifest;
use crate::model::recipe::{Missing, filling};
use crate::model::record::{FieldRecord, NO_LABEL, SampleRecord, ShardRecord};
use crate::model::sample::Sample;
use crate::upkeep::verify::collected::{Collected, SourceSamples};
use crate::upkeep::verify::comparison::SourceComparison;
use crate::upkeep::verify::verification::Verifier;

/// Watches the check of one shard.
pub(super) struct ShardWatcher<'a> {
    /// What the shard should hold.
    pub(super) record: &'a ShardRecord,
    /// What is wrong so far.
    pub(super) findings: Vec<Finding>,
    /// The first failure to read the source.
    pub(super) error: Option<Error>,
    comparison: Option<SourceComparison<'a>>,
    counters: &'a Counters,
    /// Samples that were seen and counted.
    pub(super) seen: u64,
}

impl<'a> ShardWatcher<'a> {
    pub(super) fn new(
        verification: &Verifier<'a>,
        manifest: &Manifest,
        record: &'a ShardRecord,
        collected: &'a Collected<'_>,
    ) -> Self {
        let mut findings = wrong_labels(manifest, record);
        let comparison = collected.source.as_ref().map(|source| {
            let samples = source_samples(manifest, record, source, &mut findings);
            let deferred = manifest.recipe.layout().defers();
            SourceComparison::new(source.source, samples, verification.window_bytes, deferred)
        });
        Self {
            record,
            findings,
            error: None,
            comparison,
            counters: verification.counters,
            seen: 0,
        }
    }

    /// The comparison, moved on to the files of this sample; `None` where there is nothing to compare with.
    fn comparison_at(&mut self, sample: usize) -> Option<&mut SourceComparison<'a>> {
        let comparison = self.comparison.as_mut()?;
        match comparison.enter(sample) {
            Ok(()) => Some(comparison),
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }
}

/// Labels that are numbers of no class.
fn wrong_labels(manifest: &Manifest, record: &ShardRecord) -> Vec<Finding> {
    let classes = manifest.names.classes.len();
    let wrong =
        |sample: &&SampleRecord| sample.label as usize >= classes && sample.label != NO_LABEL;
    let samples = record.samples.iter().filter(wrong);
    samples
        .map(|sample| {
            Finding::new(&record.shard, "label")
                .sample(&sample.key)
                .values(format!("below {classes}"), sample.label)
        })
        .collect()
}

/// The source's samples for those of a shard, in its order; `None` for one that the source has not. What only one of the two has is
/// added to `findings`.
fn source_samples(
    manifest: &Manifest,
    record: &ShardRecord,
    source: &SourceSamples<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<Option<Sample>> {
    let generated = manifest.recipe.layout().generated();
    let is_made = |field: &FieldRecord| {
        let filling = filling(&field.name);
        let filled = manifest.recipe.missing == Missing::Fill
            && manifest.names.sidecars.contains(&field.name)
            && (field.length, field.crc32) == (filling.len() as u64, crc32fast::hash(filling));
        filled || generated.contains(&field.name.as_str())
    };
    let mut samples = Vec::with_capacity(record.samples.len());
    for row in &record.samples {
        let finding = |what: &str| Finding::new(&record.shard, what).sample(&row.key);
        let met = source.meet(&row.key);
        match &met {
            None => findings.push(finding("is in the dataset, not in the source")),
            Some(met) => {
                if met.again {
                    findings.push(finding("is in the dataset twice"));
                }
                for field in &row.fields {
                    if !is_made(field) && !met.sample.fields.iter().any(|f| f.name == field.name) {
                        let finding = finding("is in the dataset, not in the source");
                        findings.push(finding.field(&field.name));
                    }
                }
                for field in &met.sample.fields {
                    if !row.fields.iter().any(|f| f.name == field.name) {
                        let what = "is in the source, not in the dataset";
                        let finding = Finding::new(field.path.to_string(), what);
                        findings.push(finding.sample(&row.key).field(&field.name));
                    }
                }
            }
        }
        samples.push(met.map(|met| met.sample));
    }
    samples
}

impl Watch for ShardWatcher<'_> {
    fn piece(&mut self, sample: usize, field: usize, piece: &[u8]) {
        let name = &self.record.samples[sample].fields[field].name;
        let comparison = self.comparison_at(sample);
        if let Some(file) = comparison.and_then(|comparison| comparison.file(sample, name)) {
            file.compare(piece);
        }
    }

    fn field_end(&mut self, sample: usize, field: usize) {
        if field == 0 {
            self.seen += 1;
            self.counters.samples(1);
        }
        let record = self.record;
        let row = &record.samples[sample];
        let place = &row.fields[field];
        let finding = |what: &str| {
            Finding::new(&record.shard, what)
                .sample(&row.key)
                .field(&place.name)
                .range(place.offset, place.offset + place.length)
        };
        // A content of no bytes came without a piece.
        let Some(comparison) = self.comparison_at(sample) else {
            return;
        };
        let Some(file) = comparison.file(sample, &place.name) else {
            return;
        };
        let found = if let Some(why) = file.end() {
            let what = format!("cannot be compared with the source: {why}");
            Some(finding(&what))
        } else if file.size != place.length {
            let finding = finding("has another length than the source's file");
            Some(finding.values(file.size, place.length))
        } else {
            file.differs.map(|at| {
                finding("differs from the source's file")
                    .range(place.offset + at, place.offset + place.length)
            })
        };
        comparison.forget(sample);
        self.findings.extend(found);
    }

    fn finding(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}
