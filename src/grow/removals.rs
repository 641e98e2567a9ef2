//! What of a published dataset is gone from its source, and whether the user said that it may be.
//!
//! A file system that is not mounted looks like a directory that somebody emptied. So a split without any sample always needs its name to be
//! said, however small it is beside the others, and more than a few samples need a number.

use std::collections::BTreeMap;

use crate::base::error::{Error, Result};
use crate::base::units::{Share, count_text, counted};
use crate::model::offenders::{NAMED, Shortlist};
use crate::model::sample::{Sample, SourcePath};

/// What may be gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowedRemovals {
    /// Most samples, of those of all splits that are not named.
    pub samples: Share,
    /// Splits of which everything may be gone.
    pub splits: Vec<String>,
}

/// How many samples were published, and how many of them are not in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    published: u64,
    gone: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.published += other.published;
        self.gone += other.gone;
    }

    fn text(self) -> String {
        let (gone, published) = (count_text(self.gone), count_text(self.published));
        match self.gone == self.published {
            true => format!("all {gone}"),
            false => format!("{gone} of {published}"),
        }
    }
}

/// What is gone, by split and class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removals {
    splits: BTreeMap<String, Tally>,
    classes: BTreeMap<u32, Tally>,
    paths: Shortlist<SourcePath>,
}

impl Removals {
    /// Counts a published sample of a split, and whether it is gone.
    pub(crate) fn count(&mut self, split: &str, sample: &Sample, gone: bool) {
        let tally = Tally {
            published: 1,
            gone: u64::from(gone),
        };
        match self.splits.get_mut(split) {
            Some(split) => split.add(tally),
            None => self.count_split(split, 1, u64::from(gone)),
        }
        if let Some(label) = sample.label {
            self.classes.entry(label).or_default().add(tally);
        }
        if gone {
            self.paths.push(sample.path());
        }
    }

    /// Counts the samples of a split of which only the number is known.
    pub(crate) fn count_split(&mut self, split: &str, published: u64, gone: u64) {
        let tally = Tally { published, gone };
        self.splits.entry(split.to_owned()).or_default().add(tally);
    }

    /// Counts what was counted elsewhere.
    pub(crate) fn merge(&mut self, other: Self) {
        for (split, tally) in other.splits {
            self.splits.entry(split).or_default().add(tally);
        }
        for (class, tally) in other.classes {
            self.classes.entry(class).or_default().add(tally);
        }
        self.paths.merge(other.paths);
    }

    /// The files that are gone, where they are known.
    pub(crate) fn paths(&self) -> &Shortlist<SourcePath> {
        &self.paths
    }

    /// Classes all of whose samples are gone: the number of each, and how many samples it had.
    pub(crate) fn emptied_classes(&self) -> impl Iterator<Item = (u32, u64)> {
        let all = |(_, tally): &(&u32, &Tally)| tally.gone == tally.published;
        let classes = self.classes.iter().filter(all);
        classes.map(|(class, tally)| (*class, tally.gone))
    }

    /// Refuses what is gone without a word of the user. `here` is the dataset for the message, `left` gives the number of samples that the
    /// source has of a split now, and `classes` are class names by label.
    pub(crate) fn check(
        &self,
        here: &dyn std::fmt::Display,
        allowed: &AllowedRemovals,
        left: impl Fn(&str) -> u64,
        classes: &[String],
    ) -> Result<()> {
        let is_lost = |split: &str, tally: &Tally| tally.published > 0 && left(split) == 0;
        let named = |split: &str| allowed.splits.iter().any(|name| name == split);
        let lost: Vec<&str> = self
            .splits
            .iter()
            .filter(|(split, tally)| is_lost(split, tally) && !named(split))
            .map(|(split, _)| split.as_str())
            .collect();
        // A split that may go as a whole does not use up what may go of the others.
        let counts = |split: &str, tally: &Tally| !is_lost(split, tally);
        let mut others = Tally::default();
        for (split, tally) in &self.splits {
            if counts(split, tally) {
                others.add(*tally);
            }
        }
        let published = self.splits.values().map(|tally| tally.published).sum();
        let too_many = others.gone > allowed.samples.of(published);
        if lost.is_empty() && !too_many {
            return Ok(());
        }
        let mut words: Vec<String> = lost
            .iter()
            .map(|split| format!("`--allow-gone-split {split}`"))
            .collect();
        if too_many {
            words.push(format!("`--max-gone {}`", others.gone));
        }
        Err(self.refusal(here, &words, classes))
    }

    /// The error over what is gone; `words` are the options that would allow it.
    fn refusal(&self, here: &dyn std::fmt::Display, words: &[String], classes: &[String]) -> Error {
        let published = self.splits.values().map(|tally| tally.published).sum();
        let all = self.splits.values().map(|tally| tally.gone).sum();
        let mut text = format!(
            "{here}: {} of {} that are published {} gone from the source, nothing was written: is all of it mounted? restore them, or say \
             that they may go: {}",
            count_text(all),
            counted(published, "sample"),
            if all == 1 { "is" } else { "are" },
            words.join(" ")
        );
        for (split, tally) in self.splits.iter().filter(|(_, tally)| tally.gone > 0) {
            text.push_str(&format!("\n  split   {split}: {}", tally.text()));
        }
        let hurt = || self.classes.iter().filter(|(_, tally)| tally.gone > 0);
        for (class, tally) in hurt().take(NAMED) {
            let name = classes.get(*class as usize).map_or("?", String::as_str);
            text.push_str(&format!("\n  class   {name}: {}", tally.text()));
        }
        if let Some(more) = hurt().count().checked_sub(NAMED).filter(|more| *more > 0) {
            text.push_str(&format!(
                "\n  … and of {} more classes",
                count_text(more as u64)
            ));
        }
        text.push_str(&self.paths.lines("  gone    ", ToString::to_string));
        Error::source_data(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Kind;

    fn gone(splits: &[(&str, u64, u64)]) -> Removals {
        let mut gone = Removals::default();
        for (split, published, of_them) in splits {
            gone.count_split(split, *published, *of_them);
        }
        gone
    }

    fn check(gone: &Removals, samples: Share, splits: &[&str]) -> Result<()> {
        let allowed = AllowedRemovals {
            samples,
            splits: splits.iter().map(|&split| split.to_owned()).collect(),
        };
        let left = |split: &str| {
            let tally = gone.splits[split];
            tally.published - tally.gone
        };
        gone.check(&"out", &allowed, left, &[])
    }

    #[test]
    fn a_split_needs_its_name_whatever_may_go_otherwise() {
        let lost = gone(&[("train", 1_000_000, 0), ("val", 10, 10)]);
        for share in [
            Share::default(),
            Share::Percent(100.0),
            Share::Count(u64::MAX),
        ] {
            let error = check(&lost, share, &["test"]).unwrap_err();
            assert_eq!(error.kind(), Kind::Source);
            let text = error.to_string();
            assert!(
                text.contains("10 of 1,000,010 samples that are published are gone"),
                "{text}"
            );
            assert!(
                text.contains("go: `--allow-gone-split val`\n  split   val: all 10"),
                "{text}"
            );
        }
        check(&lost, Share::Count(0), &["val"]).unwrap();
    }

    #[test]
    fn more_samples_than_may_go_need_their_number_and_a_named_split_does_not_count() {
        let some = gone(&[("train", 900, 11), ("val", 100, 100)]);
        let error = check(&some, Share::Percent(1.0), &["val"]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("that they may go: `--max-gone 11`\n"),
            "{error}"
        );
        let error = check(&some, Share::Percent(1.0), &[]).unwrap_err();
        let words = "that they may go: `--allow-gone-split val` `--max-gone 11`\n";
        assert!(error.to_string().contains(words), "{error}");
        check(&some, Share::Count(11), &["val"]).unwrap();
        check(&some, Share::Percent(1.1), &["val"]).unwrap();
        check(&gone(&[("train", 24, 1)]), Share::Percent(1.0), &[]).unwrap();
        check(&gone(&[("train", 24, 2)]), Share::Percent(1.0), &[]).unwrap_err();
        check(&gone(&[("train", 24, 1)]), Share::Count(0), &[]).unwrap_err();
        check(
            &gone(&[("train", 24, 0), ("empty", 0, 0)]),
            Share::Count(0),
            &[],
        )
        .unwrap();
    }
}
