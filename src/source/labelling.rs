//! Gives the images that lie in no class directory their labels, from the label file.

use crate::model::listing::{Dir, ProblemKind};
use crate::model::record::NO_LABEL;
use crate::model::sample::{SourcePath, split_extension};
use crate::source::dirs::{Classes, Split};
use crate::source::labels::Matching;
use crate::source::metadata::Rows;
use crate::source::rules::{excluded, under};
use crate::source::samples::{Entry, Scan, is_image};
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
        if let Some(metadata) = &self.rules.metadata {
            return self.label_by_row(metadata, dir, first);
        }
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

    /// The label in the metadata's row of the image of a sample, which begins at `first`; `None` if it is left out or refused.
    fn label_by_row(&mut self, metadata: &Rows, dir: &Dir, first: usize) -> Option<u32> {
        let stem = split_extension(dir.file(first).name).0;
        let files = (first..dir.len()).take_while(|&i| split_extension(dir.file(i).name).0 == stem);
        let mut images = files.filter(|&i| is_image(dir.file(i).name));
        let image = images.next().unwrap_or(first);
        let path = SourcePath::join(&dir.path, dir.file(image).name);
        match metadata.number(path.as_bytes()) {
            Some(number) => {
                self.rows_seen.resize(metadata.len(), false);
                self.rows_seen[number] = true;
                let row = metadata.find(path.as_bytes())?;
                for (name, _) in row.fields() {
                    *self.notes.sidecars.entry(name.to_owned()).or_default() += 1;
                }
                Some(row.label)
            }
            None if metadata.skip_missing => {
                self.notes.left_out += 1;
                None
            }
            None => {
                let what = ": no row in the metadata, and no `--missing-rows skip`";
                self.problem(ProblemKind::Unlabelled, dir.path_of(image), what);
                None
            }
        }
    }

    /// Refuses rows of the metadata that no image has, unless images may be left out.
    pub(super) fn rows_without_images(&mut self) {
        let Some(metadata) = self.rules.metadata.clone() else {
            return;
        };
        self.rows_seen.resize(metadata.len(), false);
        let filtered = !self.rules.include.is_empty();
        for (number, row) in metadata.iter().enumerate() {
            if self.rows_seen[number] || filtered || excluded(&self.rules.exclude, &row.path) {
                continue;
            }
            if metadata.skip_missing {
                self.notes.unused_labels += 1;
                continue;
            }
            let what = ": in the metadata, and no image is there; `--missing-rows skip` leaves such rows out";
            self.problem(
                ProblemKind::Unlabelled,
                SourcePath::new(row.path.clone()),
                what,
            );
        }
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
