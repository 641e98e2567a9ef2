//! What is damaged or missing is made again, byte for byte as it was published, and nothing else is touched.
//!
//! The findings of a verification come in; what was repaired and what is lost goes out. The nearest is tried first: the manifest from
//! its snapshot or from records, an index from its shard and the plan, a shard from itself, and from the source only what it has lost.
//! What comes out is compared with what was published before it replaces anything, see `guard`; what does not agree is said. So a
//! repair that cannot help leaves all as it was, and one that is interrupted too.

mod companions;
mod contents;
mod guard;
mod index;
mod manifest;
mod rebuild;
mod repack;
mod salvage;
mod shards;
mod source;
mod truth;
mod wanted;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::base::checksum::{Scanner, crc_text};
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::signal::Stop;
use crate::model::counters::Counters;
use crate::model::manifest::{MANIFEST, Manifest, ShardEntry};
use crate::model::record::ShardRecord;
use crate::publish::companions::SUMS;
use crate::state::published::read_record;
use crate::store::Sink;
use crate::upkeep::repair::guard::Guard;
use crate::upkeep::verify::{Report, Verifier};

pub(crate) use crate::upkeep::repair::source::{FindOrigin, Origin, SourceFiles};

/// Samples of shards that are made again in one go: what is known of them is held in memory.
const SAMPLES_AT_ONCE: u64 = 100_000;

/// One repair.
pub(crate) struct Repairer<'a> {
    /// The dataset.
    pub sink: &'a dyn Sink,
    /// Shards at once.
    pub jobs: usize,
    /// Cores to keep busy.
    pub cores: usize,
    /// Bytes of memory that reader indexes may take.
    pub memory: u64,
    /// Nothing is written.
    pub dry_run: bool,
    /// Counts what happens.
    pub counters: &'a Counters,
    /// Says when to stop.
    pub stop: &'a Stop,
}

/// What was repaired, and what could not be.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RepairOutcome {
    /// Objects that are again what was published, or would be.
    pub repaired: BTreeSet<String>,
    /// Objects that are not, each with the reason.
    pub lost: BTreeMap<String, String>,
}

/// A shard that is not what was published.
struct DamagedShard<'m> {
    shard: &'m ShardEntry,
    /// Its length now in bytes; nothing where it is gone.
    bytes: u64,
}

/// What is to be made again of shards.
#[derive(Default)]
struct ShardDamage<'m> {
    /// Shards whose index is as it was published.
    indexed: Vec<DamagedShard<'m>>,
    /// Shards that have nothing but their plan.
    unindexed: Vec<&'m ShardEntry>,
}

impl Repairer<'_> {
    /// What is damaged, by verifying all of it.
    pub(crate) fn look(&self, manifest: &Manifest) -> Result<Report> {
        Verifier::of_data(self.sink, self.jobs, self.counters, self.stop).run(manifest)
    }

    /// Mends what a verification found. `files` are the source's, for what a shard has lost; `origin` gives the plan of shards whose
    /// index is lost, too.
    ///
    /// What cannot be mended is in the outcome; an error is an outage, or says that the run was stopped.
    pub(crate) fn mend<'o>(
        &self,
        manifest: &Manifest,
        report: &Report,
        files: &SourceFiles<'_>,
        origin: &mut FindOrigin<'_, 'o>,
        outcome: &mut RepairOutcome,
    ) -> Result<()> {
        // The first finding of each object.
        let found: BTreeMap<&str, String> = report
            .findings
            .iter()
            .rev()
            .map(|finding| (finding.object.as_str(), finding.to_string()))
            .collect();
        let mut guard = Guard::new(self.sink, manifest, self.dry_run);
        let ShardDamage {
            indexed,
            mut unindexed,
        } = self.mend_indexes(manifest, &found, &mut guard, outcome)?;
        for group in groups(&indexed, |damaged| damaged.shard, |_, _| true) {
            self.rebuild(manifest, group, files, &guard, outcome)?;
        }
        // Plan by plan, some samples at a time.
        unindexed.sort_by_key(|shard| manifest.plan_of(shard));
        let of_one_plan =
            |a: &ShardEntry, b: &ShardEntry| manifest.plan_of(a) == manifest.plan_of(b);
        for group in groups(&unindexed, |shard| shard, of_one_plan) {
            match origin(manifest.plan_of(group[0]), group) {
                Ok(origin) => self.repack(manifest, group, &origin, &guard, outcome)?,
                Err(error) if is_outage(error.kind()) => return Err(error),
                Err(error) => {
                    for shard in group {
                        let name = lacking(shard, &guard).clone();
                        outcome.lost.insert(name, error.to_string());
                    }
                }
            }
        }
        if outcome.lost.contains_key(MANIFEST) {
            // It would say what a manifest says that is known to be wrong.
            guard.leave(SUMS);
            if found.contains_key(SUMS) {
                let why = format!("it follows from {MANIFEST}, which is not what was published");
                outcome.lost.insert(SUMS.to_owned(), why);
            }
        }
        self.mend_companions(manifest, &found, &guard, outcome)?;
        lose_others(manifest, &found, outcome);
        Ok(())
    }

    /// Sorts the shards of which something was found by what they still have, and makes the indexes again that their shard tells.
    fn mend_indexes<'m>(
        &self,
        manifest: &'m Manifest,
        found: &BTreeMap<&str, String>,
        guard: &mut Guard<'_>,
        outcome: &mut RepairOutcome,
    ) -> Result<ShardDamage<'m>> {
        let is_found = |name: &String| found.contains_key(name.as_str());
        let touched: Vec<&ShardEntry> = manifest
            .shards()
            .map(|(_, shard)| shard)
            .filter(|shard| is_found(&shard.name) || is_found(&shard.index))
            .collect();
        let mut damage = ShardDamage::default();
        if touched.is_empty() {
            return Ok(damage);
        }
        let lengths = self.lengths(manifest)?;
        for shard in touched {
            let bytes = lengths.get(&shard.name).copied();
            let intact = bytes == Some(shard.bytes) && self.is_intact(shard)?;
            let indexed = published_record(self.sink, shard)?.is_some();
            if intact {
                guard.leave(&shard.name);
            }
            match (intact, indexed) {
                (true, true) => {
                    // Not of a kind that making it again could mend.
                    for name in [&shard.name, &shard.index] {
                        if let Some(what) = found.get(name.as_str()) {
                            outcome.lost.insert(name.clone(), what.clone());
                        }
                    }
                }
                (true, false) if self.mend_index(manifest, shard, guard)? => {
                    outcome.repaired.insert(shard.index.clone());
                }
                (_, false) => damage.unindexed.push(shard),
                (false, true) => damage.indexed.push(DamagedShard {
                    shard,
                    bytes: bytes.unwrap_or(0),
                }),
            }
        }
        Ok(damage)
    }

    /// Lengths in bytes of the shards that are there, by name.
    fn lengths(&self, manifest: &Manifest) -> Result<HashMap<String, u64>> {
        // Shards of others lie anywhere.
        let place = match manifest.recipe.foreign {
            true => "",
            false => "data",
        };
        Ok(self.sink.list(place)?.into_iter().collect())
    }

    /// Whether a shard of the right length is what the manifest says, by reading all of it.
    fn is_intact(&self, shard: &ShardEntry) -> Result<bool> {
        let read = Scanner::over(self.sink.open(&shard.name)?).drain();
        let (bytes, crc32) = read.map_err(|error| Error::io(&shard.name, error))?;
        Ok((bytes, crc_text(crc32)) == (shard.bytes, shard.crc32.clone()))
    }
}

/// Cuts shards into groups of at most [`SAMPLES_AT_ONCE`] samples, or of one shard. Only neighbours that are `alike` stay together.
fn groups<'g, T>(
    shards: &'g [T],
    entry: impl Fn(&T) -> &ShardEntry + 'g,
    alike: impl Fn(&ShardEntry, &ShardEntry) -> bool + 'g,
) -> impl Iterator<Item = &'g [T]> {
    let mut samples = 0;
    shards.chunk_by(move |a, b| {
        let (a, b) = (entry(a), entry(b));
        samples += a.samples;
        let together = samples + b.samples <= SAMPLES_AT_ONCE && alike(a, b);
        if !together {
            samples = 0;
        }
        together
    })
}

/// What of a shard and its index is not in place.
fn lacking<'s>(shard: &'s ShardEntry, guard: &Guard<'_>) -> &'s String {
    match guard.leaves(&shard.name) || guard.made(&shard.name) {
        true => &shard.index,
        false => &shard.name,
    }
}

/// Adds findings to what is lost that are about none of the objects which a repair makes again.
fn lose_others(manifest: &Manifest, found: &BTreeMap<&str, String>, outcome: &mut RepairOutcome) {
    let made_again: HashSet<&str> = manifest
        .shards()
        .flat_map(|(_, shard)| [shard.name.as_str(), shard.index.as_str()])
        .chain(manifest.indexes.iter().map(|file| file.name.as_str()))
        .chain([MANIFEST, SUMS])
        .collect();
    for (object, what) in found {
        let done = outcome.repaired.contains(*object) || outcome.lost.contains_key(*object);
        if !made_again.contains(object) && !done {
            outcome.lost.insert((*object).to_owned(), what.clone());
        }
    }
}

/// Whether another run may well succeed: such an error says nothing of what is lost.
fn is_outage(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Transient | Kind::Interrupted(_) | Kind::Cancelled
    )
}

/// What a shard's index says, if that is as it was published.
fn published_record(sink: &dyn Sink, shard: &ShardEntry) -> Result<Option<ShardRecord>> {
    Ok(unless_damaged(read_record(shard, sink))?.flatten())
}
