//! What packers share: which shard comes next, what was skipped, and what is done about a sample at fault.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::model::offenders::Offender;
use crate::model::policy::Verdict;
use crate::model::record::{Remark, ShardRecord};
use crate::model::sample::Sample;
use crate::pack::run::{Outcome, Run};

/// State shared by the packers of one run.
pub(super) struct Shared {
    /// Place of the shard to be claimed next, among those of the run.
    pub(super) next: AtomicUsize,
    /// Packers at work.
    pub(super) active: AtomicUsize,
    /// Whether a packer failed.
    pub(super) failed: AtomicBool,
    /// Samples skipped so far, those of earlier runs too.
    skipped: AtomicU64,
    outcome: Mutex<Outcome>,
}

/// What is done about a sample at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The shard is made without it.
    Skipped,
    /// The shard is not made.
    RefusedSamples,
}

impl Shared {
    /// So many packers, after runs of the same plan that skipped so many samples.
    pub(super) fn new(packers: usize, skipped_before: u64) -> Self {
        Self {
            next: AtomicUsize::new(0),
            active: AtomicUsize::new(packers),
            failed: AtomicBool::new(false),
            skipped: AtomicU64::new(skipped_before),
            outcome: Mutex::default(),
        }
    }

    /// Stops a packer where the run is stopped, or where another packer failed.
    pub(super) fn check_stop(&self, stop: &Stop) -> Result<()> {
        stop.check()?;
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::new(
                Kind::Cancelled,
                "stopped because another shard failed",
            ));
        }
        Ok(())
    }

    /// What the run did so far.
    pub(super) fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a sample at fault: left out of the shard of this record, or refused, and then nothing of the shard may be published.
    ///
    /// # Errors
    ///
    /// The fault itself, where it is one to stop at.
    pub(super) fn judge(
        &self,
        run: &Run<'_>,
        sample: &Sample,
        error: Error,
        record: &mut ShardRecord,
    ) -> Result<Judgement> {
        // Counted before it is judged, so that packers together never skip one too many.
        let skipped = self.skipped.fetch_add(1, Ordering::Relaxed);
        let verdict = run.policy.judge(&error, skipped);
        if verdict != Verdict::Skip {
            self.skipped.fetch_sub(1, Ordering::Relaxed);
        }
        let path = sample.path();
        let reason = error.to_string();
        // The list of offenders names the path itself.
        let reason = match reason.strip_prefix(&format!("{path}: ")) {
            Some(rest) => rest.to_owned(),
            None => reason,
        };
        let remark = Remark {
            key: sample.key.clone(),
            path,
            reason,
        };
        match verdict {
            Verdict::Abort => Err(error),
            Verdict::Skip => {
                run.counters.skip();
                record.skipped.push(remark);
                Ok(Judgement::Skipped)
            }
            Verdict::Refuse => {
                run.counters.refuse();
                let Remark { path, reason, .. } = remark;
                let refused = &mut self.outcome().refused;
                let (what, list) = match error.kind() {
                    Kind::Sample => ("damaged", &mut refused.damaged),
                    _ => ("changed or gone after planning", &mut refused.stale),
                };
                run.problems.tell(what, &path, &reason);
                list.push(Offender { path, reason });
                Ok(Judgement::RefusedSamples)
            }
        }
    }

    /// What the run did, when all packers ended.
    pub(super) fn into_outcome(self) -> Outcome {
        let mut outcome = self
            .outcome
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        outcome.skips = self.skipped.into_inner();
        for remarks in [&mut outcome.skipped, &mut outcome.odd] {
            remarks.sort_by(|a, b| a.path.cmp(&b.path));
        }
        outcome
    }
}
