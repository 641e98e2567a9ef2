//! Which shards of a dataset are wanted, and what that is called.

use std::collections::HashSet;

use crate::base::error::{Error, Result};
use crate::base::text::quoted;
use crate::base::units::counted;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::plan::worker::Worker;
use crate::state::published::require_record;
use crate::store::{Sink, at_once};

/// Records that are looked through at once at most.
const RECORDS: usize = 4;
/// Names in a message at most.
const NAMED: usize = 10;

/// What of a dataset is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Only these splits, if any is named.
    pub splits: Vec<String>,
    /// Only shards that hold samples of these classes, if any is named.
    pub classes: Vec<String>,
    /// Of what is left, every so manieth shard of each split.
    pub part: Option<Worker>,
}

/// A wanted shard, with the name of its split.
pub(super) type Wanted<'a> = (&'a str, &'a ShardEntry);

/// The wanted shards.
pub(super) struct Selected<'a> {
    /// In the order of the manifest.
    pub(super) shards: Vec<Wanted<'a>>,
    /// How many of their samples are of the classes that were named, if any was.
    pub(super) of_classes: Option<u64>,
}

impl Selection {
    /// Whether all of a dataset is wanted.
    pub(super) fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// In words: the same for the same choice.
    pub(super) fn words(&self) -> String {
        let listed = |what: (&str, &str), names: &[String]| {
            let names: HashSet<&String> = names.iter().collect();
            let mut names: Vec<&str> = names.into_iter().map(String::as_str).collect();
            names.sort_unstable();
            let noun = if names.len() == 1 { what.0 } else { what.1 };
            (!names.is_empty()).then(|| format!("{noun} {}", names.join(", ")))
        };
        let splits = listed(("split", "splits"), &self.splits);
        let classes = listed(
            (
                "shards with samples of class",
                "shards with samples of classes",
            ),
            &self.classes,
        );
        let part = self.part.map(|part| format!("part {part} of the shards"));
        let words: Vec<String> = [splits, classes, part].into_iter().flatten().collect();
        words.join("; ")
    }

    /// The wanted shards of a dataset; an error where nothing is.
    pub(super) fn of<'a>(&self, from: &dyn Sink, manifest: &'a Manifest) -> Result<Selected<'a>> {
        let known: Vec<&str> = manifest.splits.iter().map(|s| s.name.as_str()).collect();
        refuse_unknown(from, "split", &self.splits, &known)?;
        let known: Vec<&str> = manifest.names.classes.iter().map(String::as_str).collect();
        refuse_unknown(from, "class", &self.classes, &known)?;
        let is_of_split = |(split, _): &Wanted<'_>| {
            self.splits.is_empty() || self.splits.iter().any(|name| name == split)
        };
        let mut shards: Vec<Wanted<'a>> = manifest.shards().filter(is_of_split).collect();
        let mut counts = vec![0; shards.len()];
        if !self.classes.is_empty() {
            let labels = self.labels(manifest);
            counts = at_once(from.requests().clamp(1, RECORDS), &shards, |(_, shard)| {
                let record = require_record(shard, from)?;
                let is_wanted = |label: u32| labels.contains(&label);
                Ok(record.samples.iter().filter(|s| is_wanted(s.label)).count() as u64)
            })?;
            let mut counted = counts.iter();
            shards.retain(|_| counted.next().is_some_and(|count| *count > 0));
            counts.retain(|count| *count > 0);
        }
        if let Some(part) = self.part {
            let mut kept = Vec::new();
            let (mut split, mut number) = ("", 0);
            for (shard, count) in shards.iter().zip(&counts) {
                if split != shard.0 {
                    (split, number) = (shard.0, 0);
                }
                if number % part.of == part.number {
                    kept.push((*shard, *count));
                }
                number += 1;
            }
            if kept.is_empty() {
                return Err(Error::usage(format!(
                    "--shards {part}: of {} none is left for this part: make fewer parts",
                    counted(shards.len() as u64, "shard")
                )));
            }
            (shards, counts) = kept.into_iter().unzip();
        }
        match shards.is_empty() {
            true => Err(Error::usage(format!(
                "{from}: {} holds no shard",
                self.words()
            ))),
            false => Ok(Selected {
                shards,
                of_classes: (!self.classes.is_empty()).then(|| counts.iter().sum()),
            }),
        }
    }

    /// The labels of the classes.
    fn labels(&self, manifest: &Manifest) -> HashSet<u32> {
        let classes = (0..).zip(&manifest.names.classes);
        let wanted = classes.filter(|(_, class)| self.classes.contains(class));
        wanted.map(|(label, _)| label).collect()
    }
}

/// Refuses names that the dataset has not.
fn refuse_unknown(from: &dyn Sink, what: &str, names: &[String], known: &[&str]) -> Result<()> {
    let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let mut some: Vec<&str> = known.iter().take(NAMED).copied().collect();
    if known.len() > NAMED {
        some.push("…");
    }
    let there = match some.is_empty() {
        true => "none".to_owned(),
        false => some.join(", "),
    };
    Err(Error::usage(format!(
        "--{what} {}: {from} has no such {what}: it has {there}",
        quoted(name)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_choice_has_the_same_words() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let selection = Selection {
            splits: names(&["val", "train", "val"]),
            classes: names(&["cat"]),
            part: Some(Worker { number: 0, of: 8 }),
        };
        let words = "splits train, val; shards with samples of class cat; part 0/8 of the shards";
        assert_eq!(selection.words(), words);
        assert!(!selection.is_all() && Selection::default().is_all());
    }
}
