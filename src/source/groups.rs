//! Groups the files of a directory into samples: those with one stem are the fields of one.

use std::collections::BTreeMap;

use crate::model::listing::{Dir, FileRef, ProblemKind};
use crate::model::sample::{SourcePath, split_extension};
use crate::source::dirs::{Classes, Place, Split};
use crate::source::samples::{Entry, Scan, field_name, is_image};
use crate::source::scanner::Scanner;

impl Scanner<'_> {
    /// Groups the files of one directory by stem.
    pub(super) fn group(
        &mut self,
        scan: &mut Scan,
        index: usize,
        place: &Place,
        splits: &[Split],
        classes: &Classes,
    ) {
        let dir = &mut scan.dirs[index];
        dir.sort_by(|a, b| split_extension(a).cmp(&split_extension(b)));
        let dir = &scan.dirs[index];
        let class = place
            .class
            .as_ref()
            .and_then(|class| classes.by_dir.get(class));
        let split = &splits[usize::from(place.split)];
        let mut first = 0;
        while first < dir.len() {
            let stem = split_extension(dir.file(first).name).0;
            let mut end = first + 1;
            while end < dir.len() && split_extension(dir.file(end).name).0 == stem {
                end += 1;
            }
            let images = (first..end).filter(|&i| is_image(dir.file(i).name)).count();
            match (images, class) {
                (0, _) => (first..end).for_each(|i| self.odd(&dir.path_of(i))),
                (_, None) if !split.flat => {
                    (first..end).for_each(|i| self.problem(ProblemKind::Loose, dir.path_of(i), ""));
                }
                _ => {
                    let label = match class {
                        Some(label) => Some(*label),
                        None => self.label(dir, first, split, classes),
                    };
                    self.check(dir, first, end);
                    if let (Some(label), Ok(count)) = (label, u16::try_from(end - first)) {
                        scan.entries.push(Entry {
                            rank: 0,
                            bytes: 0,
                            label,
                            dir: index as u32,
                            first: first as u32,
                            count,
                            split: place.split,
                        });
                    }
                }
            }
            first = end;
        }
    }

    /// Looks at the files of one sample: one image, each field once, sizes that can be packed.
    fn check(&mut self, dir: &Dir, first: usize, end: usize) {
        let mut names: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut images = Vec::new();
        let (mut all_bytes, mut one_is_too_large) = (0u64, false);
        for i in first..end {
            let file = dir.file(i);
            let Some(name) = field_name(file.name) else {
                self.odd(&dir.path_of(i));
                continue;
            };
            if is_image(file.name) {
                images.push(i);
            } else {
                names.entry(name).or_default().push(i);
            }
            let image = images.last() == Some(&i);
            all_bytes = file.size.saturating_add(all_bytes);
            one_is_too_large |= self.rules.limits.refuse(file.size, image).is_some();
            self.check_size(dir, i, file, image);
        }
        if let Some(what) = self.rules.limits.refuse_together(all_bytes)
            && !one_is_too_large
            && !self.rules.keep_faulty
        {
            let path = dir.path_of(images.first().copied().unwrap_or(first));
            self.problem(ProblemKind::TooLarge, path, format!(": {what}"));
        }
        let others = |of: &[usize]| -> String {
            of[1..]
                .iter()
                .map(|&i| format!(", {}", dir.path_of(i)))
                .collect()
        };
        if images.len() > 1 {
            self.problem(
                ProblemKind::Collision,
                dir.path_of(images[0]),
                others(&images),
            );
        }
        if let Some(row) = self.rules.metadata.as_ref().and_then(|rows| {
            let image = dir.file(*images.first()?).name;
            rows.find(SourcePath::join(&dir.path, image).as_bytes())
        }) {
            let made: Vec<&str> = row.fields().map(|(name, _)| name).collect();
            for (name, of) in names
                .iter()
                .filter(|(name, _)| made.contains(&name.as_str()))
            {
                let what = format!(": the field `{name}` is made from the metadata");
                self.problem(ProblemKind::Collision, dir.path_of(of[0]), what);
            }
        }
        for (name, of) in names {
            let made = self.rules.generated.iter().find(|made| **made == name);
            let detail = match made {
                Some(made) => format!("{}: the field `{made}` is made from the class", others(&of)),
                None => others(&of),
            };
            if made.is_some() || of.len() > 1 {
                self.problem(ProblemKind::Collision, dir.path_of(of[0]), detail);
            }
            *self.notes.sidecars.entry(name).or_default() += 1;
        }
    }

    /// Looks at the size of one file.
    fn check_size(&mut self, dir: &Dir, index: usize, file: FileRef<'_>, image: bool) {
        if self.rules.keep_faulty {
            return;
        }
        if let Some(what) = self.rules.limits.refuse(file.size, image) {
            let path = dir.path_of(index);
            self.problem(ProblemKind::TooLarge, path, format!(": {what}"));
        }
        if image && file.size == 0 {
            self.problem(ProblemKind::ZeroLength, dir.path_of(index), "");
        }
    }
}
