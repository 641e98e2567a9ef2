//! What happens when one sample is at fault: skip it, or refuse the whole.

use crate::base::error::{Error, Kind};

/// Whether damaged samples may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// One damaged sample is enough to publish nothing.
    Fail,
    /// Damaged samples are left out and listed, up to so many.
    Skip {
        /// Most samples of one run that may be left out.
        at_most: u64,
    },
}

/// What to do about one error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Leave the sample out and list it.
    Skip,
    /// Go on reading to find the other offenders, then publish nothing.
    Refuse,
    /// Stop now.
    Abort,
}

impl Policy {
    /// Only a sample that is itself at fault may be skipped: an outage must never look like a smaller dataset.
    /// `skipped` counts the samples left out so far.
    pub(crate) fn judge(&self, error: &Error, skipped: u64) -> Verdict {
        match (self, error.kind()) {
            (Policy::Skip { at_most }, Kind::Sample) if skipped < *at_most => Verdict::Skip,
            (_, Kind::Sample | Kind::Source) => Verdict::Refuse,
            _ => Verdict::Abort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sample_at_fault_is_skipped_and_only_when_asked_for() {
        let skip = Policy::Skip { at_most: 2 };
        let sample = Error::new(Kind::Sample, "truncated");
        assert_eq!(skip.judge(&sample, 0), Verdict::Skip);
        assert_eq!(skip.judge(&sample, 2), Verdict::Refuse);
        assert_eq!(Policy::Fail.judge(&sample, 0), Verdict::Refuse);
        assert_eq!(
            skip.judge(&Error::source_data("changed"), 0),
            Verdict::Refuse
        );
        assert_eq!(skip.judge(&Error::failed("disk full"), 0), Verdict::Abort);
    }
}
