//! What a source was taken for, in a few lines: its layout, classes and splits, and what is left out. Said before anything is written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::units::count_text;
use crate::source::samples::{Scan, kinds_text};

/// Something with how many samples it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// What it is called.
    pub(crate) name: String,
    /// Its samples.
    pub(crate) samples: u64,
}

/// What a source was taken for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Outline {
    /// How its files are arranged.
    pub(crate) layout: String,
    /// Which columns of a label file were taken; empty where there was nothing to choose.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) labels: String,
    /// What becomes of the columns of tables of metadata; empty where none are columns of shards.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) columns: String,
    /// What was chosen of it, step by step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) chosen: Vec<String>,
    /// Number of classes.
    pub(crate) classes: u64,
    /// Name of the first and of the last class, by label.
    pub(crate) first_and_last: Vec<String>,
    /// The class with the fewest samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) smallest: Option<Part>,
    /// The class with the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) largest: Option<Part>,
    /// Splits with their samples.
    pub(crate) splits: Vec<Part>,
    /// Files that are in no sample, because they are neither images nor named like one, by extension.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) left_out: BTreeMap<String, u64>,
}

impl Outline {
    /// That of a scan of a source with this layout.
    pub(crate) fn of(scan: &Scan, layout: String, labels: String) -> Self {
        let sizes = &scan.class_sizes;
        let part = |label: usize| Part {
            name: scan.classes[label].clone(),
            samples: sizes[label],
        };
        let mut splits = vec![0; scan.splits.len()];
        for entry in &scan.entries {
            splits[usize::from(entry.split)] += 1;
        }
        let named = scan.splits.iter().zip(splits);
        let ends = [scan.classes.first(), scan.classes.last()];
        Self {
            layout,
            labels,
            columns: String::new(),
            chosen: Vec::new(),
            classes: scan.classes.len() as u64,
            first_and_last: ends.into_iter().flatten().cloned().collect(),
            smallest: (0..sizes.len()).min_by_key(|&label| sizes[label]).map(part),
            largest: (0..sizes.len())
                .rev()
                .max_by_key(|&label| sizes[label])
                .map(part),
            splits: named
                .map(|(name, samples)| Part {
                    name: name.clone(),
                    samples,
                })
                .collect(),
            left_out: scan.notes.odd_kinds.clone(),
        }
    }

    /// The classes: how many, the first and the last, the smallest and the largest.
    pub(crate) fn classes_text(&self) -> String {
        let [first, last] = &self.first_and_last[..] else {
            return "none: the images have no labels".to_owned();
        };
        let ends = match self.classes {
            1 => first.clone(),
            _ => format!("{first} … {last}"),
        };
        let part = |part: &Option<Part>| match part {
            Some(part) => format!("`{}` {}", part.name, count_text(part.samples)),
            None => String::new(),
        };
        format!(
            "{}: {ends}, smallest {}, largest {}",
            count_text(self.classes),
            part(&self.smallest),
            part(&self.largest)
        )
    }

    /// The splits with their samples.
    pub(crate) fn splits_text(&self) -> String {
        let split = |part: &Part| format!("{} {}", part.name, count_text(part.samples));
        let splits: Vec<String> = self.splits.iter().map(split).collect();
        splits.join(", ")
    }

    /// What to say, each with its heading.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("layout", self.layout.clone())];
        if !self.labels.is_empty() {
            lines.push(("labels", self.labels.clone()));
        }
        if !self.columns.is_empty() {
            lines.push(("columns", self.columns.clone()));
        }
        let chosen = self.chosen.iter();
        lines.extend(chosen.map(|step| ("chosen", step.clone())));
        lines.push(("classes", self.classes_text()));
        lines.push(("splits", self.splits_text()));
        if !self.left_out.is_empty() {
            lines.push(("left out", kinds_text(&self.left_out)));
        }
        lines
    }
}
