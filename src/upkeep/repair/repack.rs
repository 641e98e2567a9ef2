//! Shards packed again from the source and their plan alone, where the index is lost too.

use std::collections::{BTreeMap, HashMap};

use crate::base::error::{Kind, Result};
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::policy::Policy;
use crate::model::problems::Problems;
use crate::pack::pipeline::pack;
use crate::pack::run::Run;
use crate::upkeep::repair::guard::Guard;
use crate::upkeep::repair::source::Origin;
use crate::upkeep::repair::{RepairOutcome, Repairer, lacking};

/// Files at fault that are named.
const NAMED: usize = 20;

impl Repairer<'_> {
    /// Packs shards again from the source and their plan alone, and their indexes with them.
    pub(super) fn repack(
        &self,
        manifest: &Manifest,
        shards: &[&ShardEntry],
        origin: &Origin<'_>,
        guard: &Guard<'_>,
        outcome: &mut RepairOutcome,
    ) -> Result<()> {
        let numbers: HashMap<&str, usize> = (origin.stored.plan.shards.iter().enumerate())
            .map(|(number, shard)| (shard.name.as_str(), number))
            .collect();
        let mut todo = Vec::new();
        let mut reasons = BTreeMap::new();
        for shard in shards {
            let name = shard.name.as_str();
            match (origin.refused.get(name), numbers.get(name)) {
                (None, Some(number)) => todo.push(*number),
                (Some(why), _) => _ = reasons.insert(name, why.clone()),
                (None, None) => {
                    _ = reasons.insert(name, "the plan has no such shard".to_owned());
                }
            }
        }
        let sum = |of: fn(&ShardEntry) -> u64| shards.iter().map(|shard| of(shard)).sum();
        let (samples, bytes) = (sum(|shard| shard.samples), sum(|shard| shard.bytes));
        self.counters
            .begin("repair", samples, bytes, todo.len() as u64);
        let offenders = self.pack_again(manifest, &todo, origin, guard)?;
        for shard in shards {
            for name in [&shard.name, &shard.index] {
                if guard.made(name) && !guard.leaves(name) {
                    outcome.repaired.insert(name.clone());
                }
            }
            if guard.made(&shard.name) && guard.made(&shard.index) {
                continue;
            }
            let refused = || guard.refused(&shard.name).or(guard.refused(&shard.index));
            let why = match reasons.remove(shard.name.as_str()) {
                Some(why) => why,
                None if !offenders.is_empty() => offenders.clone(),
                None => refused().unwrap_or_else(|| "it could not be packed again".to_owned()),
            };
            let lost = lacking(shard, guard).clone();
            outcome.lost.insert(lost, format!("{why}: the source's files changed, and without its index nothing tells which; what is there stays as it is"));
        }
        Ok(())
    }

    /// Packs the shards of these numbers; says which files of the source were at fault, if any were.
    fn pack_again(
        &self,
        manifest: &Manifest,
        numbers: &[usize],
        origin: &Origin<'_>,
        guard: &Guard<'_>,
    ) -> Result<String> {
        let run = Run {
            source: origin.source,
            sink: guard,
            stored: &origin.stored,
            budget: origin.budget,
            cores: self.cores,
            // What was left out must be left out again, and nothing more.
            policy: match manifest.skipped.len() as u64 {
                0 => Policy::Fail,
                at_most => Policy::Skip { at_most },
            },
            skipped_before: 0,
            counters: self.counters,
            stop: self.stop,
            problems: Problems::default(),
        };
        match pack(&run, numbers) {
            Ok(outcome) => {
                let refused = outcome.refused.iter().take(NAMED);
                let refused = refused.map(|remark| format!("{}: {}", remark.path, remark.reason));
                let mut offenders: Vec<String> = refused.collect();
                let more = outcome.refused.count() - offenders.len() as u64;
                if more > 0 {
                    offenders.push(format!("and {more} more"));
                }
                Ok(offenders.join("; "))
            }
            // Of the source, not of this run.
            Err(error) if matches!(error.kind(), Kind::Source | Kind::Sample) => {
                Ok(error.to_string())
            }
            Err(error) => Err(error),
        }
    }
}
