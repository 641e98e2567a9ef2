//! Which split and class each directory belongs to, and how the classes are numbered.

use std::collections::BTreeMap;

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::base::units::counted;
use crate::model::listing::{Dir, ProblemKind};
use crate::model::sample::SourcePath;
use crate::source::rules::{first_component, under};
use crate::source::samples::{images, is_image, is_unread_image};
use crate::source::scanner::Scanner;
use crate::store::counted_directory;

/// Directory names that are splits when all of the root's directories have one, in any case; the keywords of HuggingFace datasets.
pub(crate) const SPLIT_NAMES: [&str; 10] = [
    "train",
    "training",
    "val",
    "valid",
    "validation",
    "dev",
    "test",
    "testing",
    "eval",
    "evaluation",
];

/// The split that a directory's name says, in any case: `train` of `Train`.
pub(super) fn split_name(directory: &[u8]) -> Option<&'static str> {
    let same = |name: &&&str| name.as_bytes().eq_ignore_ascii_case(directory);
    SPLIT_NAMES.iter().find(same).copied()
}

/// Name of the split when the root holds the class directories itself.
pub(crate) const ONLY_SPLIT: &str = "train";

/// A split and the directory it lies in.
pub(super) struct Split {
    /// Its name.
    pub(super) name: String,
    /// The directory, below the source's root.
    pub(super) path: Vec<u8>,
    /// Whether its images lie directly in it, in no class directories: labels come from a file.
    pub(super) flat: bool,
}

/// The directory that a split was named by: itself, or the archive that counts as one.
fn split_directory(dirs: &[Dir], path: &[u8]) -> Vec<u8> {
    match dirs.iter().any(|dir| under(&dir.path, path).is_some()) {
        true => path.to_vec(),
        false => counted_directory(path),
    }
}

/// Which split and class a directory belongs to.
pub(super) struct Place {
    /// Number of the split.
    pub(super) split: u16,
    /// Name of the class directory, or `None` in the split's own directory and in flat splits.
    pub(super) class: Option<Vec<u8>>,
}

/// The classes of all splits.
pub(super) struct Classes {
    /// Their names by label.
    pub(super) names: Vec<String>,
    /// Label of each class directory name.
    pub(super) by_dir: BTreeMap<Vec<u8>, u32>,
    /// Label of each class of the label file.
    pub(super) by_label: Vec<u32>,
}

impl Scanner<'_> {
    /// The splits, sorted by name: those of the rules, or the directories of the root if all of them are called as splits are.
    pub(super) fn splits(&mut self, dirs: &[Dir]) -> Result<Vec<Split>> {
        let split = |name: &str, path: &[u8]| Split {
            name: name.to_owned(),
            path: path.to_vec(),
            flat: false,
        };
        if !self.rules.splits.is_empty() {
            for (name, path) in &self.rules.splits {
                let directory = split_directory(dirs, path.as_bytes());
                let below = |dir: &Dir| under(&dir.path, &directory).is_some();
                if !dirs.iter().any(below) {
                    return Err(Error::source_data(format!(
                        "{}: split `{name}`: no directory `{path}`: correct `--split {name}=…`",
                        self.source
                    )));
                }
            }
            let mut splits: Vec<_> = self
                .rules
                .splits
                .iter()
                .map(|(name, path)| split(name, &split_directory(dirs, path.as_bytes())))
                .collect();
            splits.sort_by(|a, b| a.name.cmp(&b.name));
            return Ok(splits);
        }
        let mut top: Vec<&[u8]> = dirs
            .iter()
            .map(|dir| first_component(&dir.path).0)
            .filter(|name| !name.is_empty())
            .collect();
        top.sort_unstable();
        top.dedup();
        let mut named: Vec<Split> = top
            .iter()
            .filter_map(|path| Some(split(split_name(path)?, path)))
            .collect();
        named.sort_by(|a, b| a.name.cmp(&b.name));
        let all_differ = named.windows(2).all(|pair| pair[0].name != pair[1].name);
        if !named.is_empty() && named.len() == top.len() && all_differ {
            return Ok(named);
        }
        self.doubt_splits(dirs, &top)?;
        Ok(vec![split(ONLY_SPLIT, b"")])
    }

    /// Assigns every directory to a split and a class; `None` for those outside of all splits.
    pub(super) fn places(&mut self, dirs: &[Dir], splits: &[Split]) -> Result<Vec<Option<Place>>> {
        let place = |dir: &Dir| {
            splits.iter().enumerate().find_map(|(number, split)| {
                let below = under(&dir.path, &split.path)?;
                let class = first_component(below).0;
                let is_class = !class.is_empty() && !self.rules.has_no_classes(&split.name);
                Some(Place {
                    split: number as u16,
                    class: is_class.then(|| class.to_vec()),
                })
            })
        };
        let places: Vec<_> = dirs.iter().map(place).collect();
        for (dir, place) in dirs.iter().zip(&places) {
            if place.is_some() {
                continue;
            }
            // With splits found by name, images beside them would be lost in silence.
            let found = self.rules.splits.is_empty();
            for i in 0..dir.len() {
                if found && is_image(dir.file(i).name) {
                    self.problem(ProblemKind::Loose, dir.path_of(i), "");
                } else if found {
                    self.odd(&dir.path_of(i));
                } else {
                    self.notes.left_out += 1;
                }
            }
        }
        Ok(places)
    }

    /// Finds which splits are flat, the class list, and the classes without images.
    pub(super) fn classes(
        &mut self,
        dirs: &[Dir],
        places: &[Option<Place>],
        splits: &mut [Split],
    ) -> Result<Classes> {
        let mut by_dir: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut counts: BTreeMap<(u16, Option<&[u8]>), u64> = BTreeMap::new();
        let mut unread: BTreeMap<(u16, &[u8]), u64> = BTreeMap::new();
        for (dir, place) in dirs.iter().zip(places) {
            let Some(place) = place else { continue };
            let count = images(dir).count() as u64;
            *counts
                .entry((place.split, place.class.as_deref()))
                .or_default() += count;
            let class = place.class.as_deref().filter(|_| self.rules.doubt);
            let kinds = (0..dir.len()).filter(|&i| is_unread_image(dir.file(i).name));
            if let (Some(class), count @ 1..) = (class, kinds.count() as u64) {
                *unread.entry((place.split, class)).or_default() += count;
            }
        }
        for (number, split) in splits.iter_mut().enumerate() {
            let number = number as u16;
            if self.rules.has_no_classes(&split.name) {
                split.flat = true;
                continue;
            }
            let loose = counts.get(&(number, None)).copied().unwrap_or(0);
            let classed: u64 = counts
                .iter()
                .filter(|((s, class), _)| *s == number && class.is_some())
                .map(|(_, count)| count)
                .sum();
            if loose > 0 && (classed == 0 || self.rules.labels_unneeded) {
                if self.rules.labels.is_none() && !self.rules.labels_unneeded {
                    return Err(Error::source_data(format!(
                        "{}: {loose} images lie directly in {}, none in a class directory: \
                         make one directory per class, or give `--labels FILE`",
                        self.source,
                        if split.path.is_empty() {
                            "it".to_owned()
                        } else {
                            format!("`{}`", show(&split.path))
                        },
                    )));
                }
                split.flat = true;
            }
        }
        self.doubt_classes(dirs, places, splits)?;
        for ((number, class), count) in &counts {
            let Some(class) = class else { continue };
            if splits[usize::from(*number)].flat {
                continue;
            }
            by_dir.insert(class.to_vec(), 0);
            if let (0, Some(left_out)) = (*count, unread.get(&(*number, class))) {
                let path = SourcePath::join(&splits[usize::from(*number)].path, class);
                let what = format!("/: all of its {}", counted(*left_out, "image"));
                self.problem(ProblemKind::UnreadKind, path, what);
                continue;
            }
            if *count == 0 && !self.rules.allow_empty {
                let path = SourcePath::join(&splits[usize::from(*number)].path, class);
                self.problem(ProblemKind::EmptyClass, path, "/");
            }
        }
        let is_labelled = |split: &Split| split.flat && !self.rules.is_unlabelled(&split.name);
        let any_flat = splits.iter().any(is_labelled);
        if self.rules.labels.is_some() && !any_flat {
            return Err(Error::usage(
                "`--labels` is for images that lie in no class directory, and there are none: drop `--labels`",
            ));
        }
        self.number(by_dir, any_flat)
    }

    /// Numbers the classes: sorted names, over all splits.
    fn number(&self, mut by_dir: BTreeMap<Vec<u8>, u32>, any_flat: bool) -> Result<Classes> {
        if let Some(metadata) = &self.rules.metadata {
            return Ok(Classes {
                names: metadata.classes.clone(),
                by_dir,
                by_label: Vec::new(),
            });
        }
        let from_file = match &self.rules.labels {
            Some(labels) if any_flat => labels.classes(),
            _ => &[],
        };
        let dir_names = by_dir.len();
        let positions = from_file
            .iter()
            .enumerate()
            .all(|(i, name)| *name == i.to_string());
        let names: Vec<Vec<u8>> = if dir_names == 0 {
            // The label file's own order: its numbers may be labels.
            from_file
                .iter()
                .map(|name| name.clone().into_bytes())
                .collect()
        } else {
            let known = |name: &String| by_dir.contains_key(name.as_bytes());
            if positions && !from_file.iter().all(known) {
                // Numbers that are no class names count the sorted class directories.
                if from_file.len() > dir_names {
                    return Err(Error::source_data(format!(
                        "the label file counts to {}, but there are {dir_names} class directories: \
                         give the label file of this dataset",
                        from_file.len() - 1
                    )));
                }
            } else {
                for name in from_file {
                    by_dir.entry(name.clone().into_bytes()).or_default();
                }
            }
            by_dir.keys().cloned().collect()
        };
        for (label, name) in names.iter().enumerate() {
            by_dir.insert(name.clone(), label as u32);
        }
        let by_label = from_file
            .iter()
            .enumerate()
            .map(|(i, name)| by_dir.get(name.as_bytes()).copied().unwrap_or(i as u32))
            .collect();
        Ok(Classes {
            names: names.iter().map(|name| show(name)).collect(),
            by_dir,
            by_label,
        })
    }
}
