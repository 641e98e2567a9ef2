//! What a run of packing needs, and what it did.

use crate::base::signal::Stop;
use crate::model::counters::Counters;
use crate::model::offenders::{Offender, Shortlist};
use crate::model::policy::Policy;
use crate::model::problems::Problems;
use crate::model::record::Remark;
use crate::plan::budget::Budget;
use crate::state::plans::Stored;
use crate::store::{Sink, Source};

/// What packing needs to know and to touch.
pub(crate) struct Run<'a> {
    /// Where samples come from.
    pub source: &'a dyn Source,
    /// Where shards go.
    pub sink: &'a dyn Sink,
    /// The plan.
    pub stored: &'a Stored,
    /// What each packer may hold.
    pub budget: Budget,
    /// Cores to keep busy.
    pub cores: usize,
    /// What to do about samples at fault.
    pub policy: Policy,
    /// Samples skipped by earlier runs of this plan.
    pub skipped_before: u64,
    /// Counts what happens.
    pub counters: &'a Counters,
    /// Says when to stop.
    pub stop: &'a Stop,
    /// Takes all samples at fault.
    pub problems: Problems,
}

/// What a run did.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Samples left out of the shards made by this run.
    pub skipped: Vec<Remark>,
    /// Samples at fault that were not skipped: nothing may be published.
    pub refused: RefusedSamples,
    /// Samples packed although something about them is odd.
    pub odd: Vec<Remark>,
    /// Samples left out so far, those of shards that could not be finished and of earlier runs too.
    pub skips: u64,
}

/// Samples at fault that were not skipped, by what is to be done about them.
#[derive(Debug, Default)]
pub(crate) struct RefusedSamples {
    /// Those whose files changed or went after planning.
    pub stale: Shortlist<Offender>,
    /// Those that are damaged.
    pub damaged: Shortlist<Offender>,
}

impl RefusedSamples {
    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.stale.count() + self.damaged.count()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The first of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Offender> {
        self.stale.iter().chain(self.damaged.iter())
    }
}
