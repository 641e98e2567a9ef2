//! Shards made again whose indexes are as they were published: surveyed together, looked for in the source together, then each rebuilt.

use crate::base::error::Result;
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::format::RecipeLayout as _;
use crate::format::compress::CompressionCost as _;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::plan::budget::{Budget, Overhead, divide_repair};
use crate::store::{PIECE_BYTES, Source, at_once};
use crate::upkeep::repair::guard::Guard;
use crate::upkeep::repair::rebuild::{Rebuild, Supply, SurveyedShard};
use crate::upkeep::repair::source::SourceFiles;
use crate::upkeep::repair::wanted::WantedFiles;
use crate::upkeep::repair::{DamagedShard, RepairOutcome, Repairer, is_outage, published_record};

/// Memory of one reader of a damaged shard.
const PIECES_BYTES: u64 = PIECE_BYTES + STREAM_ABOVE_BYTES;

impl Repairer<'_> {
    /// Makes shards again whose indexes are as they were published.
    pub(super) fn rebuild(
        &self,
        manifest: &Manifest,
        shards: &[DamagedShard<'_>],
        files: &SourceFiles<'_>,
        guard: &Guard<'_>,
        outcome: &mut RepairOutcome,
    ) -> Result<()> {
        let sum = |of: fn(&ShardEntry) -> u64| shards.iter().map(|damaged| of(damaged.shard)).sum();
        let (samples, bytes) = (sum(|shard| shard.samples), sum(|shard| shard.bytes));
        self.counters
            .begin("repair", samples, bytes, shards.len() as u64);
        let rebuild = |window_bytes| Rebuild {
            sink: guard,
            manifest,
            window_bytes,
            counters: self.counters,
            stop: self.stop,
        };
        let surveying = self.budget(manifest, shards, None);
        let surveyed = at_once(surveying.jobs, shards, |damaged| {
            self.stop.check()?;
            // It was there a moment ago.
            match published_record(self.sink, damaged.shard)? {
                Some(record) => {
                    let surveyed = rebuild(0).survey(damaged.shard, record, damaged.bytes)?;
                    Ok(Some(surveyed))
                }
                None => Ok(None),
            }
        })?;
        let surveyed: Vec<SurveyedShard<'_>> = surveyed.into_iter().flatten().collect();
        let mut wanted = WantedFiles::default();
        for shard in &surveyed {
            wanted.add(&shard.record, &shard.losses);
        }
        let why;
        let (supply, budget) = match wanted.is_empty() || manifest.recipe.foreign {
            true => (Supply::Nowhere(""), surveying),
            false => match files.get() {
                Ok((source, listing)) => {
                    wanted.find(listing);
                    wanted.find_in_tables(files.in_tables(source)?);
                    let budget = self.budget(manifest, shards, Some(source));
                    (Supply::Files(source, &wanted), budget)
                }
                Err(error) if is_outage(error.kind()) => return Err(error),
                Err(error) => {
                    why = error.to_string();
                    (Supply::Nowhere(&why), surveying)
                }
            },
        };
        let rebuild = rebuild(budget.window_bytes);
        let lost = at_once(budget.jobs, &surveyed, |shard| rebuild.make(shard, supply))?;
        for (surveyed, lost) in surveyed.iter().zip(lost) {
            let name = &surveyed.shard.name;
            match lost.or_else(|| guard.refused(name)) {
                Some(why) => outcome.lost.insert(name.clone(), why).is_none(),
                None => outcome.repaired.insert(name.clone()),
            };
        }
        Ok(())
    }

    /// How many of these shards are made again at once, and what each may read ahead from `source`.
    fn budget(
        &self,
        manifest: &Manifest,
        shards: &[DamagedShard<'_>],
        source: Option<&dyn Source>,
    ) -> Budget {
        let largest = shards.iter().map(|damaged| damaged.shard.samples).max();
        let (recipe, names) = (&manifest.recipe, &manifest.names);
        let layout = recipe.layout();
        let columns = match layout.defers() {
            true => 1 + names.sidecars.len() as u64,
            false => 1,
        };
        let overhead = Overhead {
            reads: source.map_or(0, |source| source.reads()),
            bytes: source.map_or(0, |source| source.overhead_bytes()) + self.sink.writing_bytes(),
            window_bytes: source.map_or(0, |source| source.window_bytes()),
            job_bytes: columns * PIECES_BYTES
                + 2 * recipe.compress.memory_bytes()
                + layout.memory_bytes(names),
        };
        divide_repair(self.memory, self.jobs, overhead, largest.unwrap_or(0))
    }
}
