//! Finds every published sample in the source, by the lists of samples of the plans that the published shards were made under.
//!
//! A sample is as it was if its files have the sizes and versions that its plan says, and nothing else is read then. Where only the versions
//! are others, the contents say it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::grow::removals::Removals;
use crate::grow::touched::{Contents, Suspects, looks_touched};
use crate::model::counters::Counters;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::offenders::Shortlist;
use crate::model::problems::Problems;
use crate::model::sample::{Sample, SourcePath};
use crate::plan::budget::lists_at_once;
use crate::plan::order::Ordered;
use crate::state::claims::plans;
use crate::state::plans::Stored;
use crate::state::samples::{each_sample, list_bytes};
use crate::store::{Sink, Source, at_once};

/// What became of a published sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SampleChange {
    /// Its files are as they were packed.
    Same,
    /// They have other sizes, or are known to have other contents.
    Changed,
    /// They have other versions only: whether they changed, their contents say.
    Touched,
    /// They are not in the source any more.
    Gone,
}

/// What became of the samples of one published shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShardChanges {
    /// Numbers in the source of the samples that are still there, in the shard's order.
    pub(super) present: Vec<u32>,
    /// How many of these are not as they were packed.
    pub(super) changed: u64,
    /// Numbers of those whose contents were, or are to be, compared.
    pub(super) touched: Vec<u32>,
    /// How many samples of the shard are not in the source any more.
    pub(super) gone: u64,
}

impl ShardChanges {
    /// Whether the shard would be another if it were made now.
    pub(super) fn is_any(&self) -> bool {
        self.changed > 0 || self.gone > 0
    }
}

/// What became of all published samples.
#[derive(Default)]
pub(super) struct SourceChanges {
    /// By shard, in the order of the manifest; empty where shards were not compared.
    pub(super) shards: Vec<ShardChanges>,
    /// Files of samples that are not as they were packed.
    pub(super) changed: Shortlist<SourcePath>,
    /// What is not in the source any more.
    pub(super) removals: Removals,
    /// Samples whose files were touched or copied, and have the contents that were packed.
    pub(super) touched: u64,
}

/// Where the list of samples of a shard is: the plan that has it, and the shard's number in that plan.
#[derive(Clone, Copy)]
struct SampleList<'s> {
    plan: &'s Stored,
    shard: usize,
}

/// The lists of samples of published shards, by digest of the plan and name of the shard.
struct SampleLists<'s> {
    plans: &'s HashMap<String, Stored>,
    numbers: HashMap<(&'s str, &'s str), usize>,
}

impl<'s> SampleLists<'s> {
    fn new(plans: &'s HashMap<String, Stored>) -> Self {
        let mut numbers = HashMap::new();
        for (digest, stored) in plans {
            for (number, shard) in stored.plan.shards.iter().enumerate() {
                numbers.insert((digest.as_str(), shard.name.as_str()), number);
            }
        }
        Self { plans, numbers }
    }

    /// The list of a published shard; `None` if its plan is lost.
    fn of(&self, manifest: &Manifest, shard: &ShardEntry) -> Option<SampleList<'s>> {
        let digest = manifest.plan_of(shard);
        let number = self.numbers.get(&(digest, shard.name.as_str()));
        Some(SampleList {
            plan: self.plans.get(digest)?,
            shard: *number?,
        })
    }
}

/// How the source is read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// The source.
    pub(crate) source: &'a dyn Source,
    /// Counts what is read.
    pub(crate) counters: &'a Counters,
}

/// A source that lists of samples of a destination are compared with.
#[derive(Clone, Copy)]
pub(super) struct Comparison<'a> {
    /// The destination.
    pub(super) sink: &'a dyn Sink,
    /// The source.
    pub(super) ordered: &'a Ordered,
    /// Bytes that the whole run may hold.
    pub(super) memory_bytes: u64,
    /// How the source is read, where its listing does not say enough.
    pub(super) reading: Reading<'a>,
    /// Says when to stop.
    pub(super) stop: &'a Stop,
}

impl Comparison<'_> {
    /// What became of every published sample. What changed or is gone is told to `problems` too.
    pub(super) fn with_published(
        &self,
        manifest: &Manifest,
        problems: &Problems,
    ) -> Result<SourceChanges> {
        let digests: HashSet<&str> = manifest
            .shards()
            .map(|(_, shard)| manifest.plan_of(shard))
            .collect();
        let plans = plans(self.sink, &digests)?;
        let lists = SampleLists::new(&plans);
        let shards: Vec<(&str, &ShardEntry)> = manifest.shards().collect();
        let known = shards
            .iter()
            .filter_map(|(_, shard)| lists.of(manifest, shard));
        let changes: Mutex<SourceChanges> = Mutex::default();
        let by_shard = at_once(self.lists_at_once(known), &shards, |(split, shard)| {
            self.stop.check()?;
            let Some(list) = lists.of(manifest, shard) else {
                return Err(Error::new(
                    Kind::Damage,
                    format!(
                        "{}: the plan of {} is lost, so that nothing says what changed: start over with `--full`",
                        self.sink, shard.name
                    ),
                ));
            };
            let mut found = SourceChanges::default();
            let shard = self.with_list(list, split, &mut |sample, change| {
                found.note(split, sample, change, problems);
            })?;
            let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.changed.merge(found.changed);
            changes.removals.merge(found.removals);
            Ok(shard)
        })?;
        let changes = changes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut changes = SourceChanges {
            shards: by_shard,
            ..changes
        };
        self.compare_contents(&shards, &mut changes, problems)?;
        Ok(changes)
    }

    /// Reads what was touched, and takes note of what changed of it.
    fn compare_contents(
        &self,
        shards: &[(&str, &ShardEntry)],
        changes: &mut SourceChanges,
        problems: &Problems,
    ) -> Result<()> {
        let suspects: Vec<Suspects<'_>> = shards
            .iter()
            .zip(&changes.shards)
            .filter(|(_, changes)| !changes.touched.is_empty())
            .map(|((_, shard), changes)| Suspects {
                shard,
                samples: &changes.touched,
            })
            .collect();
        let changed = Contents {
            sink: self.sink,
            source: self.reading.source,
            ordered: self.ordered,
            memory_bytes: self.memory_bytes,
            counters: self.reading.counters,
            stop: self.stop,
        }
        .changed(&suspects)?;
        let mut changed = changed.into_iter();
        for ((split, _), of_shard) in shards.iter().zip(&mut changes.shards) {
            if of_shard.touched.is_empty() {
                continue;
            }
            let others = changed.next().unwrap_or_default();
            of_shard.changed += others.len() as u64;
            changes.touched += (of_shard.touched.len() - others.len()) as u64;
            for number in others {
                let path = self.ordered.sample(number).path();
                problems.tell("changed", &path, split);
                changes.changed.push(path);
            }
        }
        Ok(())
    }

    /// Whether all samples of a plan are as they were when it was made.
    pub(super) fn is_as_planned(&self, plan: &Stored) -> Result<bool> {
        let shards: Vec<usize> = (0..plan.plan.shards.len()).collect();
        let lists = shards.iter().map(|&shard| SampleList { plan, shard });
        let same = at_once(self.lists_at_once(lists), &shards, |&shard| {
            self.stop.check()?;
            let split = &plan.plan.shards[shard].split;
            let changes = self.with_list(SampleList { plan, shard }, split, &mut |_, _| {})?;
            // Packers refuse a file of another version than was planned.
            Ok(!changes.is_any() && changes.touched.is_empty())
        })?;
        Ok(same.into_iter().all(|same| same))
    }

    /// How many of these lists of samples are read at once.
    fn lists_at_once<'s>(&self, lists: impl Iterator<Item = SampleList<'s>>) -> usize {
        let most = self.sink.requests().max(rayon::current_num_threads());
        let largest = lists.map(|list| list_bytes(list.plan, list.shard)).max();
        let samples = self.ordered.len() as u64;
        lists_at_once(self.memory_bytes, samples, largest.unwrap_or(0), most)
    }

    /// What became of the samples of a list, each of which is shown to `visit`.
    fn with_list(
        &self,
        list: SampleList<'_>,
        split: &str,
        visit: &mut dyn FnMut(&Sample, SampleChange),
    ) -> Result<ShardChanges> {
        let ordered = self.ordered;
        let mut changes = ShardChanges::default();
        each_sample(self.sink, list.plan, list.shard, |sample| {
            let number = ordered.find(split, &sample.key);
            changes.present.extend(number);
            let change = match number {
                None => SampleChange::Gone,
                Some(number) => {
                    let now = ordered.sample(number);
                    match now == sample {
                        true => SampleChange::Same,
                        false if looks_touched(&sample, &now) => SampleChange::Touched,
                        false => SampleChange::Changed,
                    }
                }
            };
            if change == SampleChange::Touched {
                changes.touched.extend(number);
            }
            changes.gone += u64::from(change == SampleChange::Gone);
            changes.changed += u64::from(change == SampleChange::Changed);
            visit(&sample, change);
        })?;
        Ok(changes)
    }
}

impl SourceChanges {
    /// Takes note of what became of a published sample of a split.
    fn note(&mut self, split: &str, sample: &Sample, change: SampleChange, problems: &Problems) {
        self.removals
            .count(split, sample, change == SampleChange::Gone);
        match change {
            SampleChange::Same | SampleChange::Touched => {}
            SampleChange::Changed => {
                problems.tell("changed", &sample.path(), split);
                self.changed.push(sample.path());
            }
            SampleChange::Gone => problems.tell("gone", &sample.path(), split),
        }
    }
}

/// By how many samples each split is smaller than it was published. Other options may well have made other samples of the same files, so
/// that single samples cannot be compared.
pub(super) fn shrunk_splits(manifest: &Manifest, ordered: &Ordered) -> SourceChanges {
    let mut removals = Removals::default();
    for split in &manifest.splits {
        let now = ordered.of_split(&split.name);
        let gone = split.samples.saturating_sub(now);
        removals.count_split(&split.name, split.samples, gone);
    }
    SourceChanges {
        removals,
        ..SourceChanges::default()
    }
}
