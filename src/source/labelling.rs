//! Gives the images that lie in no class directory their labels, from the label file.

use crate::model::listing::{Dir, ProblemKind};
use crate::model::record::NO_LABEL;
use crate::model::sample::SourcePath;
use crate::source::dirs::{Classes, Split};
use crate::source::labels::Matching;
use crate::source::rules::under;
use crate::source::samples::{Entry, Scan};
use crate::source::scanner::Scanner;

impl Scanner<'_> {
    /// The label of a flat image by its name; position labels are given when all are known.
    pub(super) fn label(
        &mut self,
        dir: &Dir,
        first: usize,
        split: &Split,
        classes: &Classes,
    ) -> Option<u32> {
        if self.rules.is_unlabelled(&split.name) {
            return Some(NO_LABEL);
        }
        let Some(labels) = &self.rules.labels else {
            return Some(0);
        };
        if !matches!(labels.matching(), Matching::ByName) {
            return Some(u32::MAX);
        }
        let path = SourcePath::join(&dir.path, dir.file(first).name);
        let relative = under(path.as_bytes(), &split.path).unwrap_or(path.as_bytes());
        let found = labels.by_name(relative);
        if found.is_none() {
            let what = ": no row in the label file";
            self.problem(ProblemKind::Unlabelled, dir.path_of(first), what);
        }
        found.and_then(|label| classes.by_label.get(label as usize).copied())
    }

    /// Gives the k-th row of the label file to the k-th flat image in path order.
    pub(super) fn label_by_position(
        &mut self,
        scan: &mut Scan,
        splits: &[Split],
        classes: &Classes,
    ) {
        let Some(labels) = &self.rules.labels else {
            return;
        };
        let Matching::ByPosition { rows } = labels.matching() else {
            return;
        };
        for (number, split) in splits.iter().enumerate() {
            if !split.flat || self.rules.is_unlabelled(&split.name) {
                continue;
            }
            let mut flat: Vec<usize> = (0..scan.entries.len())
                .filter(|&i| usize::from(scan.entries[i].split) == number)
                .collect();
            flat.sort_by_cached_key(|&i| {
                let entry = &scan.entries[i];
                let dir = &scan.dirs[entry.dir as usize];
                SourcePath::join(&dir.path, dir.file(entry.first as usize).name)
            });
            if flat.len() != rows {
                self.problem(
                    ProblemKind::Unlabelled,
                    SourcePath::new(split.path.clone()),
                    format!("/: {} images, {rows} rows in the label file", flat.len()),
                );
                return;
            }
            for (row, i) in flat.into_iter().enumerate() {
                let label = labels
                    .by_position(row)
                    .and_then(|l| classes.by_label.get(l as usize));
                scan.entries[i].label = label.copied().unwrap_or(u32::MAX);
            }
        }
    }

    /// Counts the rows of the label file that no image has.
    pub(super) fn unused_labels(&mut self, scan: &Scan, splits: &[Split]) {
        let Some(labels) = &self.rules.labels else {
            return;
        };
        if matches!(labels.matching(), Matching::ByName) {
            let flat =
                |entry: &&Entry| splits[usize::from(entry.split)].flat && entry.label != NO_LABEL;
            let used = scan.entries.iter().filter(flat).count() as u64;
            self.notes.unused_labels = (labels.names().count() as u64).saturating_sub(used);
        }
    }
}
