//! Lists of what is at fault, however long they get: all of it is counted, the first of it is named.
//!
//! A million files that cannot be read make one message that a person can read, and take no memory to speak of. `--problems FILE` has them all,
//! see [`crate::model::problems::Problems`].

use std::collections::BTreeSet;

use crate::base::units::count_text;
use crate::model::sample::SourcePath;

/// How many of a kind are named.
pub(crate) const NAMED: usize = 20;

/// A file or sample, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offender {
    /// The file.
    pub path: SourcePath,
    /// What is wrong with it.
    pub reason: String,
}

/// The number of some things, and the first [`NAMED`] of them in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortlist<T> {
    count: u64,
    first: BTreeSet<T>,
}

impl<T> Default for Shortlist<T> {
    fn default() -> Self {
        Self {
            count: 0,
            first: BTreeSet::new(),
        }
    }
}

impl<T: Ord> Shortlist<T> {
    /// Counts one more.
    pub(crate) fn push(&mut self, item: T) {
        self.count += 1;
        self.keep(item);
    }

    /// Counts those that were counted elsewhere.
    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        other.first.into_iter().for_each(|item| self.keep(item));
    }

    fn keep(&mut self, item: T) {
        let late = self.first.len() >= NAMED && self.first.last().is_some_and(|last| item >= *last);
        if !late {
            self.first.insert(item);
        }
        if self.first.len() > NAMED {
            self.first.pop_last();
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter()
    }

    /// Line after line what `text` says of the first of them, each after `indent`, and how many more there are.
    pub(crate) fn lines(&self, indent: &str, text: impl Fn(&T) -> String) -> String {
        let mut out = String::new();
        for item in &self.first {
            out.push_str(&format!("\n{indent}{}", text(item)));
        }
        let blank = &indent[..indent.len() - indent.trim_start().len()];
        out.push_str(&and_more(blank, self.count, self.first.len()));
        out
    }
}

impl<T: Ord> FromIterator<T> for Shortlist<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut first = Self::default();
        items.into_iter().for_each(|item| first.push(item));
        first
    }
}

/// The end of a list of which so many were named; nothing where that is all.
pub(crate) fn and_more(indent: &str, count: u64, named: usize) -> String {
    match count.saturating_sub(named as u64) {
        0 => String::new(),
        more => format!(
            "\n{indent}… and {} more: `--problems FILE` writes all of them to a file",
            count_text(more)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_the_first_are_named_wherever_they_were_found() {
        let mut all: Shortlist<u32> = (0..50).rev().collect();
        all.merge((50..1050).chain(7..9).collect());
        assert_eq!(all.count(), 1052);
        assert_eq!(
            all.iter().copied().collect::<Vec<_>>(),
            (0..20).collect::<Vec<_>>()
        );
        let text = all.lines("  ", |item| format!("number {item}"));
        assert_eq!(text.lines().count(), 22);
        assert!(text.starts_with("\n  number 0\n  number 1\n"));
        assert!(
            text.ends_with("\n  … and 1,032 more: `--problems FILE` writes all of them to a file")
        );
        let few: Shortlist<u32> = [2, 1].into_iter().collect();
        assert_eq!(few.lines("", u32::to_string), "\n1\n2");
    }
}
