//! A packer thread: it claims one shard after the other, reads ahead for it, packs it and puts its record.
//!
//! One thread owns one shard: order needs no repair, and the first `?` drops everything that shard had started.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use crate::base::error::{Error, Kind, Result};
use crate::base::image::Validate;
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::format::RecipeLayout as _;
use crate::model::record::{Remark, index_name};
use crate::model::sample::Sample;
use crate::pack::lookahead::Lookahead;
use crate::pack::policy::Shared;
use crate::pack::run::Run;
use crate::pack::shard::{Attempt, ShardPacking};
use crate::plan::value::ShardPlan;
use crate::state::samples::samples;

/// One of the threads that pack the shards of a run.
pub(super) struct PackerThread<'a> {
    /// The run.
    pub(super) run: &'a Run<'a>,
    /// Numbers of its shards in the plan.
    pub(super) shards: &'a [usize],
    /// What the threads share.
    pub(super) shared: &'a Shared,
}

impl PackerThread<'_> {
    /// Packs shards until none is left.
    pub(super) fn work(&self) -> Result<()> {
        let Run { budget, source, .. } = self.run;
        let mut ahead = Lookahead::new(*source, self.samples(), budget.window_bytes)
            .with_tails(self.looks_at_ends());
        while let Some(shard) = ahead.next_shard() {
            self.pack_shard(shard?, &mut ahead)?;
        }
        // With fewer packers left than cores, reading for them is what there is to share.
        if self.shared.active.fetch_sub(1, Ordering::Relaxed) <= self.run.cores {
            source.lend(1);
        }
        Ok(())
    }

    /// The samples of the shards this worker claims, one shard after the other, claimed when their reads can begin.
    fn samples(&self) -> impl Iterator<Item = Result<(usize, Sample)>> {
        let mut shard = 0;
        let mut listed = Vec::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(sample) = listed.next() {
                    return Some(Ok((shard, sample)));
                }
                let next = self.shared.next.fetch_add(1, Ordering::Relaxed);
                shard = *self.shards.get(next)?;
                match samples(self.run.sink, self.run.stored, shard) {
                    Ok(list) => listed = list.into_iter(),
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    /// Whether images are looked at without being read whole.
    fn looks_at_ends(&self) -> bool {
        self.run.stored.plan.recipe.validate == Validate::Header
    }

    fn pack_shard(&self, shard: usize, ahead: &mut Lookahead<'_>) -> Result<()> {
        let Run {
            stored,
            sink,
            counters,
            ..
        } = self.run;
        let plan = &stored.plan.shards[shard];
        let mut attempt = self.attempt(plan, plan.samples, plan.bytes, ahead)?;
        if let Attempt::Resized { bytes, skipped } = attempt {
            attempt = self.again(shard, bytes, skipped)?;
        }
        let record = match attempt {
            Attempt::Made(record) => record,
            Attempt::RefusedSamples => return Ok(()),
            Attempt::Resized { bytes, .. } => {
                let what = format!(
                    "{}: {bytes} bytes, another length than a moment ago: the data changed, make a new plan",
                    plan.name
                );
                return Err(Error::new(Kind::Source, what));
            }
        };
        sink.put(
            &index_name(&plan.name),
            &record.encode(&stored.plan.names.classes)?,
        )?;
        counters.shard(&plan.name, record.bytes, record.samples.len() as u64);
        let mut outcome = self.shared.outcome();
        outcome.skipped.extend(record.skipped);
        outcome.odd.extend(record.odd);
        Ok(())
    }

    /// Packs a shard whose first bytes say how long it is, now that this is known to be another length than planned.
    fn again(&self, shard: usize, bytes: u64, skipped: Vec<Remark>) -> Result<Attempt> {
        let stored = self.run.stored;
        let plan = &stored.plan.shards[shard];
        let left_out: HashSet<&str> = skipped.iter().map(|remark| remark.key.as_str()).collect();
        let samples = samples(self.run.sink, stored, shard)?;
        let samples = samples
            .into_iter()
            .filter(|sample| !left_out.contains(sample.key.as_str()));
        let samples: Vec<_> = samples.map(|sample| Ok((shard, sample))).collect();
        let count = samples.len() as u64;
        // The reads of the next shard have the window.
        let mut ahead = Lookahead::new(self.run.source, samples.into_iter(), STREAM_ABOVE_BYTES)
            .with_tails(self.looks_at_ends());
        let mut attempt = self.attempt(plan, count, bytes, &mut ahead)?;
        if let Attempt::Made(record) = &mut attempt {
            record.skipped = skipped;
        }
        Ok(attempt)
    }

    /// Packs so many samples into a shard that is to have so many bytes before compression.
    fn attempt(
        &self,
        plan: &ShardPlan,
        samples: u64,
        bytes: u64,
        ahead: &mut Lookahead<'_>,
    ) -> Result<Attempt> {
        let layout = self.run.stored.plan.recipe.layout();
        let mut shard = ShardPacking::begin(self.run, self.shared, layout.as_ref(), plan, bytes)?;
        for _ in 0..samples {
            self.shared.check_stop(self.run.stop)?;
            let Some(fetched) = ahead.fetch() else {
                return Err(Error::failed(format!(
                    "{}: fewer samples than planned",
                    plan.name
                )));
            };
            let mut fetched = fetched?;
            shard.push(&mut fetched)?;
            ahead.recycle(fetched.contents);
        }
        shard.finish()
    }
}
