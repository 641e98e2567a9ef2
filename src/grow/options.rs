//! What the user wants done about a source that is not as it was when it was published.

use crate::grow::removals::AllowedRemovals;

/// What happens to shards whose samples changed or went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnChange {
    /// The source is refused.
    #[default]
    Refuse,
    /// They are made again, under new names.
    Rebuild,
    /// They stay as they are.
    Keep,
}

/// How to go on from a published dataset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Growth {
    /// What happens to shards whose samples changed or went.
    pub on_change: OnChange,
    /// Fewer new samples than this wait for more.
    pub min_new_samples: u64,
    /// Nothing that is published stays: all is made anew.
    pub full: bool,
    /// Small shards are merged.
    pub compact: bool,
    /// New classes are refused.
    pub frozen: bool,
    /// What may be gone, where it goes from the dataset too.
    pub gone: AllowedRemovals,
}
