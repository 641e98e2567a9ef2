//! A listing becomes samples by the rules of torchvision's `ImageFolder`: one directory a class, classes numbered by sorted name.
//!
//! Source: torchvision `datasets/folder.py`. Ours on top: splits with one class list, label files for flat directories, sidecar
//! fields. All offenders are found before anything is refused. Nothing here opens a file or knows of shards.

use std::collections::{BTreeMap, HashMap};

use globset::GlobSet;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::base::error::{Error, Result};
use crate::base::image::image_field;
use crate::base::text::{hex, show};
use crate::model::limits::Limits;
use crate::model::listing::{Dir, FileRef, Listing, Problem, ProblemKind, render};
use crate::model::problems::Problems;
use crate::model::sample::{
    Field, Sample, SourcePath, is_plain, key, sidecar_field, split_extension,
};
use crate::source::labels::{Kind as LabelKind, Labels};

/// Directory names that are splits when all of the root's directories have one; the keywords of HuggingFace datasets.
pub const SPLIT_NAMES: [&str; 10] = [
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
/// Name of the split when the root holds the class directories itself.
pub const ONLY_SPLIT: &str = "train";
/// Examples kept of files that are neither images nor sidecars.
const ODD_EXAMPLES: usize = 20;

/// Entries that one thread describes before the next takes some.
const HASHED_AT_ONCE: usize = 8192;

/// How a listing is read.
pub struct Rules {
    /// Splits with their directories below the root; found by name when empty.
    pub splits: Vec<(String, SourcePath)>,
    /// Labels of the images that lie in no class directory.
    pub labels: Option<Labels>,
    /// Take flat splits without labels: for callers who want the files only.
    pub labels_unneeded: bool,
    /// Whether a class may be without images.
    pub allow_empty: bool,
    /// Whether images of no bytes stay, and files that are too large, to be skipped when packed.
    pub keep_faulty: bool,
    /// Files to take; all when empty. Matched against the path below the root.
    pub include: GlobSet,
    /// Files and directories to leave out.
    pub exclude: GlobSet,
    /// Field names that are made, not read.
    pub generated: Vec<&'static str>,
    /// Where all problems are told.
    pub problems: Problems,
    /// What is too large.
    pub limits: Limits,
}

/// Where a sample's files are in the listing; 32 bytes, because there are millions.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Position in the plan's order, set by planning.
    pub rank: u64,
    /// Bytes in its shard, set by planning.
    pub bytes: u64,
    /// Class number.
    pub label: u32,
    dir: u32,
    first: u32,
    count: u16,
    /// Index into [`Scan::splits`].
    pub split: u16,
}

/// What was seen besides samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Hidden files and directories passed over.
    pub hidden: u64,
    /// Files left out by `--include` and `--exclude`, or outside of the named splits.
    pub left_out: u64,
    /// Files that are neither images nor share an image's stem.
    pub odd: u64,
    /// Some of them.
    pub odd_examples: Vec<String>,
    /// Labels in the label file that no image has.
    pub unused_labels: u64,
    /// Sidecar field names with the number of samples that have them.
    pub sidecars: BTreeMap<String, u64>,
}

/// The samples of a source.
#[derive(Debug)]
pub struct Scan {
    dirs: Vec<Dir>,
    /// Class names by label.
    pub classes: Vec<String>,
    /// Split names, sorted.
    pub splits: Vec<String>,
    /// The samples, grouped by directory until planning orders them.
    pub entries: Vec<Entry>,
    /// What else was seen.
    pub notes: Notes,
    /// Samples of each class.
    pub class_sizes: Vec<u64>,
}

impl Scan {
    /// The sample of an entry.
    pub fn sample(&self, entry: &Entry) -> Sample {
        let dir = &self.dirs[entry.dir as usize];
        let range = entry.first as usize..entry.first as usize + usize::from(entry.count);
        let mut fields: Vec<Field> = range
            .clone()
            .filter_map(|i| {
                let file = dir.file(i);
                Some(Field {
                    name: field_name(file.name)?,
                    path: dir.path_of(i),
                    size: file.size,
                    version: file.version(),
                })
            })
            .collect();
        fields.sort_by(|a, b| (!is_image(&a.path), &a.name).cmp(&(!is_image(&b.path), &b.name)));
        Sample {
            key: self.key(entry),
            label: entry.label,
            fields,
        }
    }

    /// The key of an entry.
    pub fn key(&self, entry: &Entry) -> String {
        let dir = &self.dirs[entry.dir as usize];
        key(
            &dir.path,
            split_extension(dir.file(entry.first as usize).name).0,
        )
    }

    /// Compares the keys of two entries, without building them where the stems are their own keys.
    pub fn compare_keys(&self, a: &Entry, b: &Entry) -> std::cmp::Ordering {
        let stem = |entry: &Entry| {
            let dir = &self.dirs[entry.dir as usize];
            let stem = split_extension(dir.file(entry.first as usize).name).0;
            is_plain(&dir.path, stem).then_some(stem)
        };
        match (a.dir == b.dir, stem(a), stem(b)) {
            (true, Some(a), Some(b)) => a.cmp(b),
            _ => self.key(a).cmp(&self.key(b)),
        }
    }
}

impl Scan {
    /// SHA-256 over all samples with the paths, sizes and versions of their files, their splits and classes, and what the classes are
    /// called: another scan with the same is of the same source in the same state. Taken before planning orders the entries.
    pub fn fingerprint(&self, texts: &[String]) -> String {
        let of_some = |entries: &[Entry]| {
            let mut hasher = Sha256::new();
            let mut dir_before = None;
            for entry in entries {
                let dir = &self.dirs[entry.dir as usize];
                if dir_before != Some(entry.dir) {
                    dir_before = Some(entry.dir);
                    hasher.update((dir.path.len() as u64).to_le_bytes());
                    hasher.update(&dir.path);
                }
                hasher.update(entry.split.to_le_bytes());
                hasher.update(entry.label.to_le_bytes());
                hasher.update(entry.count.to_le_bytes());
                for i in entry.first..entry.first + u32::from(entry.count) {
                    dir.file(i as usize)
                        .describe(&mut |bytes| hasher.update(bytes));
                }
            }
            hasher.finalize()
        };
        let some: Vec<_> = self
            .entries
            .par_chunks(HASHED_AT_ONCE)
            .map(of_some)
            .collect();
        let mut hasher = Sha256::new();
        for names in [&self.splits[..], &self.classes, texts] {
            hasher.update((names.len() as u64).to_le_bytes());
            for name in names {
                hasher.update((name.len() as u64).to_le_bytes());
                hasher.update(name);
            }
        }
        for digest in some {
            hasher.update(digest);
        }
        hex(&hasher.finalize())
    }

    /// Numbers the classes as `known` does; those that are not in it follow, sorted by name. Gives these.
    pub fn number_like(&mut self, known: &[String]) -> Vec<String> {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        for (label, name) in known.iter().enumerate() {
            numbers.insert(name, label as u32);
        }
        let mut classes = known.to_vec();
        let mut labels = Vec::with_capacity(self.classes.len());
        for name in &self.classes {
            labels.push(numbers.get(name.as_str()).copied().unwrap_or_else(|| {
                classes.push(name.clone());
                classes.len() as u32 - 1
            }));
        }
        let mut sizes = vec![0; classes.len()];
        for (label, size) in labels.iter().zip(&self.class_sizes) {
            sizes[*label as usize] = *size;
        }
        for entry in &mut self.entries {
            if let Some(label) = labels.get(entry.label as usize) {
                entry.label = *label;
            }
        }
        self.class_sizes = sizes;
        self.classes = classes;
        self.classes[known.len()..].to_vec()
    }
}

fn is_image(path: &SourcePath) -> bool {
    image_field(split_extension(path.as_bytes()).1).is_some()
}

/// The name of the field that a file of this name becomes; `None` if readers could not address it.
pub fn field_name(file: &[u8]) -> Option<String> {
    let extension = split_extension(file).1;
    match image_field(extension) {
        Some(name) => Some(name.to_owned()),
        None => sidecar_field(extension),
    }
}

/// Reads a listing by the rules, or refuses it with every offender named.
pub fn scan(listing: Listing, rules: &Rules, source: &str) -> Result<Scan> {
    let mut scanner = Scanner {
        rules,
        source,
        problems: listing.problems,
        notes: Notes {
            hidden: listing.hidden,
            ..Notes::default()
        },
    };
    // An unreadable or looping place that was to be left out is none of our business.
    scanner
        .problems
        .retain(|problem| !excluded(&rules.exclude, problem.path.as_bytes()));
    let mut dirs = listing.dirs;
    scanner.filter(&mut dirs);
    let mut splits = scanner.splits(&dirs)?;
    let places = scanner.places(&dirs, &splits)?;
    let classes = scanner.classes(&dirs, &places, &mut splits)?;
    let mut scan = Scan {
        dirs,
        splits: splits.iter().map(|split| split.name.clone()).collect(),
        entries: Vec::new(),
        notes: Notes::default(),
        class_sizes: vec![0; classes.names.len()],
        classes: classes.names.clone(),
    };
    for (index, place) in places.iter().enumerate() {
        if let Some(place) = place {
            scanner.group(&mut scan, index, place, &splits, &classes)?;
        }
    }
    scanner.label_by_position(&mut scan, &splits, &classes);
    scanner.unused_labels(&scan, &splits);
    for entry in &scan.entries {
        if let Some(size) = scan.class_sizes.get_mut(entry.label as usize) {
            *size += 1;
        }
    }
    scan.notes = std::mem::take(&mut scanner.notes);
    scanner.refuse(&scan)?;
    scan.entries.shrink_to_fit();
    Ok(scan)
}

/// Whether the path or a directory above it is to be left out.
fn excluded(exclude: &GlobSet, path: &[u8]) -> bool {
    !exclude.is_empty()
        && (exclude.is_match(as_path(path))
            || path
                .iter()
                .enumerate()
                .any(|(i, &byte)| byte == b'/' && exclude.is_match(as_path(&path[..i]))))
}

fn as_path(bytes: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// A split and the directory it lies in.
struct Split {
    name: String,
    path: Vec<u8>,
    /// Images directly in the directory, no class directories: labels come from a file.
    flat: bool,
}

/// Which split and class a directory belongs to.
struct Place {
    split: u16,
    /// Name of the class directory, or `None` in the split's own directory and in flat splits.
    class: Option<Vec<u8>>,
}

struct Classes {
    names: Vec<String>,
    /// Label of each class directory name.
    by_dir: BTreeMap<Vec<u8>, u32>,
    /// Label of each class of the label file.
    by_label: Vec<u32>,
}

struct Scanner<'a> {
    rules: &'a Rules,
    source: &'a str,
    problems: Vec<Problem>,
    notes: Notes,
}

impl Scanner<'_> {
    fn problem(
        &mut self,
        kind: ProblemKind,
        path: impl Into<SourcePath>,
        detail: impl Into<String>,
    ) {
        self.problems.push(Problem::new(kind, path, detail));
    }

    /// Applies `--include` and `--exclude`. A directory that had images and lost all of them is no class any more.
    fn filter(&mut self, dirs: &mut Vec<Dir>) {
        let Rules {
            include, exclude, ..
        } = self.rules;
        if include.is_empty() && exclude.is_empty() {
            return;
        }
        let mut left_out = 0;
        dirs.retain_mut(|dir| {
            if excluded(exclude, &dir.path) {
                left_out += dir.len() as u64;
                return false;
            }
            let path = dir.path.clone();
            let gone = dir.retain(|name| {
                let file = SourcePath::join(&path, name);
                let file = as_path(file.as_bytes());
                (include.is_empty() || include.is_match(file)) && !exclude.is_match(file)
            });
            left_out += gone;
            gone == 0 || !dir.is_empty()
        });
        self.notes.left_out += left_out;
    }

    fn splits(&mut self, dirs: &[Dir]) -> Result<Vec<Split>> {
        let split = |name: &str, path: &[u8]| Split {
            name: name.to_owned(),
            path: path.to_vec(),
            flat: false,
        };
        if !self.rules.splits.is_empty() {
            for (name, path) in &self.rules.splits {
                let below = |dir: &Dir| under(&dir.path, path.as_bytes()).is_some();
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
                .map(|(name, path)| split(name, path.as_bytes()))
                .collect();
            splits.sort_by(|a, b| a.name.cmp(&b.name));
            return Ok(splits);
        }
        let mut top: Vec<&[u8]> = dirs
            .iter()
            .filter_map(|dir| dir.path.split(|&b| b == b'/').next())
            .filter(|name| !name.is_empty())
            .collect();
        top.sort_unstable();
        top.dedup();
        let named = !top.is_empty()
            && top
                .iter()
                .all(|name| SPLIT_NAMES.iter().any(|s| s.as_bytes() == *name));
        if named {
            let name = |path: &&[u8]| split(&show(path), path);
            Ok(top.iter().map(name).collect())
        } else {
            Ok(vec![split(ONLY_SPLIT, b"")])
        }
    }

    /// Assigns every directory to a split and a class; `None` for those outside of all splits.
    fn places(&mut self, dirs: &[Dir], splits: &[Split]) -> Result<Vec<Option<Place>>> {
        let place = |dir: &Dir| {
            splits.iter().enumerate().find_map(|(number, split)| {
                let below = under(&dir.path, &split.path)?;
                let class = below.split(|&b| b == b'/').next().unwrap_or_default();
                Some(Place {
                    split: number as u16,
                    class: (!class.is_empty()).then(|| class.to_vec()),
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
                if found && is_image(&dir.path_of(i)) {
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
    fn classes(
        &mut self,
        dirs: &[Dir],
        places: &[Option<Place>],
        splits: &mut [Split],
    ) -> Result<Classes> {
        let mut by_dir: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut images: BTreeMap<(u16, Option<&[u8]>), u64> = BTreeMap::new();
        for (dir, place) in dirs.iter().zip(places) {
            let Some(place) = place else { continue };
            let count = (0..dir.len())
                .filter(|&i| image_field(split_extension(dir.file(i).name).1).is_some())
                .count() as u64;
            *images
                .entry((place.split, place.class.as_deref()))
                .or_default() += count;
        }
        for (number, split) in splits.iter_mut().enumerate() {
            let number = number as u16;
            let loose = images.get(&(number, None)).copied().unwrap_or(0);
            let classed: u64 = images
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
        for ((number, class), count) in &images {
            let Some(class) = class else { continue };
            if splits[usize::from(*number)].flat {
                continue;
            }
            by_dir.insert(class.to_vec(), 0);
            if *count == 0 && !self.rules.allow_empty {
                let path = SourcePath::join(&splits[usize::from(*number)].path, class);
                self.problem(ProblemKind::EmptyClass, path, "/");
            }
        }
        let any_flat = splits.iter().any(|split| split.flat);
        if self.rules.labels.is_some() && !any_flat {
            return Err(Error::usage(
                "`--labels` is for images that lie in no class directory, and there are none: drop `--labels`",
            ));
        }
        self.number(by_dir, any_flat)
    }

    /// Numbers the classes: sorted names, over all splits.
    fn number(&self, mut by_dir: BTreeMap<Vec<u8>, u32>, any_flat: bool) -> Result<Classes> {
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

    fn odd(&mut self, path: &SourcePath) {
        self.notes.odd += 1;
        if self.notes.odd_examples.len() < ODD_EXAMPLES {
            self.notes.odd_examples.push(path.to_string());
        }
    }

    /// Groups the files of one directory by stem.
    fn group(
        &mut self,
        scan: &mut Scan,
        index: usize,
        place: &Place,
        splits: &[Split],
        classes: &Classes,
    ) -> Result<()> {
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
            let images = (first..end)
                .filter(|&i| image_field(split_extension(dir.file(i).name).1).is_some())
                .count();
            match (images, class) {
                (0, _) => (first..end).for_each(|i| self.odd(&dir.path_of(i))),
                (_, None) if !self.is_flat(place, splits) => {
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
        Ok(())
    }

    fn is_flat(&self, place: &Place, splits: &[Split]) -> bool {
        splits[usize::from(place.split)].flat
    }

    /// The label of a flat image by its name; position labels are given when all are known.
    fn label(&mut self, dir: &Dir, first: usize, split: &Split, classes: &Classes) -> Option<u32> {
        let Some(labels) = &self.rules.labels else {
            return Some(0);
        };
        if !matches!(labels.kind(), LabelKind::ByName) {
            return Some(u32::MAX);
        }
        let path = dir.path_of(first);
        let relative = under(path.as_bytes(), &split.path).unwrap_or(path.as_bytes());
        let found = labels.by_name(relative);
        if found.is_none() {
            self.problem(ProblemKind::Unlabelled, path, ": no row in the label file");
        }
        found.and_then(|label| classes.by_label.get(label as usize).copied())
    }

    /// Gives the k-th row of the label file to the k-th flat image in path order.
    fn label_by_position(&mut self, scan: &mut Scan, splits: &[Split], classes: &Classes) {
        let Some(labels) = &self.rules.labels else {
            return;
        };
        let LabelKind::ByPosition { rows } = labels.kind() else {
            return;
        };
        for (number, split) in splits.iter().enumerate().filter(|(_, split)| split.flat) {
            let mut flat: Vec<usize> = (0..scan.entries.len())
                .filter(|&i| usize::from(scan.entries[i].split) == number)
                .collect();
            flat.sort_by_cached_key(|&i| {
                let entry = &scan.entries[i];
                scan.dirs[entry.dir as usize].path_of(entry.first as usize)
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

    fn unused_labels(&mut self, scan: &Scan, splits: &[Split]) {
        let Some(labels) = &self.rules.labels else {
            return;
        };
        if matches!(labels.kind(), LabelKind::ByName) {
            let flat = |entry: &&Entry| splits[usize::from(entry.split)].flat;
            let used = scan.entries.iter().filter(flat).count() as u64;
            self.notes.unused_labels = (labels.names().count() as u64).saturating_sub(used);
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
            if image_field(split_extension(file.name).1).is_some() {
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

    fn refuse(&mut self, scan: &Scan) -> Result<()> {
        if !self.problems.is_empty() {
            let count = self.problems.len();
            for Problem { kind, path, detail } in &self.problems {
                self.rules.problems.tell(kind.explain().0, path, detail);
            }
            return Err(Error::source_data(format!(
                "{}: {count} problem{}, nothing was written{}",
                self.source,
                if count == 1 { "" } else { "s" },
                render(&mut self.problems)
            )));
        }
        if scan.entries.is_empty() {
            let odd = match scan.notes.odd {
                0 => String::new(),
                n => format!(
                    " ({n} other files, such as {})",
                    scan.notes.odd_examples.join(", ")
                ),
            };
            return Err(Error::source_data(format!(
                "{}: no images{odd}: give a directory with one directory of images per class \
                 (jpg, png, webp, gif, bmp, tiff, ppm)",
                self.source
            )));
        }
        Ok(())
    }
}

/// The part of `path` below `root`, empty for `root` itself; `None` when it lies elsewhere.
fn under<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    if root.is_empty() {
        return Some(path);
    }
    match path.strip_prefix(root)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Kind;
    use crate::model::sample::Version;

    fn rules() -> Rules {
        Rules {
            splits: Vec::new(),
            labels: None,
            labels_unneeded: false,
            allow_empty: false,
            keep_faulty: false,
            include: GlobSet::empty(),
            exclude: GlobSet::empty(),
            generated: vec!["cls"],
            problems: Default::default(),
            limits: Limits::of_fields(1 << 33, "too much"),
        }
    }

    /// A listing of these paths; a trailing slash is an empty directory, `@N` after a path its size.
    fn listing(paths: &[&str]) -> Listing {
        let mut dirs: BTreeMap<Vec<u8>, Dir> = BTreeMap::new();
        dirs.insert(Vec::new(), Dir::default());
        for path in paths {
            let (path, size) = path
                .split_once('@')
                .map_or((*path, 7), |(p, s)| (p, s.parse().unwrap()));
            let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
            let mut above = dir;
            while !above.is_empty() {
                dirs.entry(above.into()).or_insert_with(|| Dir::new(above));
                above = above.rsplit_once('/').map_or("", |(above, _)| above);
            }
            if !name.is_empty() {
                let dir = dirs.get_mut(dir.as_bytes()).unwrap();
                assert!(dir.push(name.as_bytes(), size, &Version::Mtime(1)));
            }
        }
        Listing {
            dirs: dirs.into_values().collect(),
            ..Listing::default()
        }
    }

    /// Key, split and label of every sample, sorted by key.
    fn samples(scan: &Scan) -> Vec<(String, &str, u32)> {
        let mut samples: Vec<_> = scan
            .entries
            .iter()
            .map(|e| {
                (
                    scan.key(e),
                    scan.splits[usize::from(e.split)].as_str(),
                    e.label,
                )
            })
            .collect();
        samples.sort();
        samples
    }

    fn refusal(paths: &[&str], rules: &Rules) -> String {
        let error = scan(listing(paths), rules, "SRC").unwrap_err();
        assert_eq!(error.kind(), Kind::Source);
        error.to_string()
    }

    #[test]
    fn the_fingerprint_is_of_every_file_and_class() {
        let scanned = |paths: &[&str]| scan(listing(paths), &rules(), "SRC").unwrap();
        let plain = ["a/1.jpg", "a/1.txt", "b/2.jpg"];
        let one = scanned(&plain).fingerprint(&[]);
        assert_eq!(one, scanned(&plain).fingerprint(&[]));
        let odd = scanned(&["a/1.jpg", "a/1.txt", "a/notes.md", "b/2.jpg"]);
        assert_eq!(one, odd.fingerprint(&[]), "what is no sample is nothing");
        assert_ne!(one, scanned(&plain).fingerprint(&["A".into(), "B".into()]));
        for other in [
            &["a/1.jpg@8", "a/1.txt", "b/2.jpg"][..],
            &["a/1.jpg", "a/1.json", "b/2.jpg"],
            &["a/1.jpg", "a/1.txt", "c/2.jpg"],
            &["a/1.jpg", "a/1.txt", "b/2.jpg", "b/3.jpg"],
            &["train/a/1.jpg", "train/a/1.txt", "train/b/2.jpg"],
        ] {
            assert_ne!(one, scanned(other).fingerprint(&[]), "{other:?}");
        }
    }

    #[test]
    fn classes_keep_their_numbers_and_new_ones_follow() {
        let mut scan = scan(
            listing(&["a/1.jpg", "c/1.jpg", "c/2.jpg", "b/1.jpg"]),
            &rules(),
            "SRC",
        )
        .unwrap();
        let known = ["z", "c"].map(str::to_owned);
        assert_eq!(scan.number_like(&known), ["a", "b"]);
        assert_eq!(scan.classes, ["z", "c", "a", "b"]);
        assert_eq!(scan.class_sizes, [0, 2, 1, 1]);
        let labels: Vec<_> = samples(&scan).into_iter().map(|s| (s.0, s.2)).collect();
        let expected = [("a/1", 2), ("b/1", 3), ("c/1", 1), ("c/2", 1)];
        assert_eq!(labels, expected.map(|(key, label)| (key.to_owned(), label)));
    }

    #[test]
    fn classes_are_numbered_by_sorted_name_over_all_splits() {
        let scan = scan(
            listing(&[
                "train/b/1.jpg",
                "train/a/deep/er/2.PNG",
                "val/c/3.jpeg",
                "val/a/4.webp",
            ]),
            &rules(),
            "SRC",
        )
        .unwrap();
        assert_eq!(scan.classes, ["a", "b", "c"]);
        assert_eq!(
            samples(&scan),
            [
                ("train/a/deep/er/2".into(), "train", 0),
                ("train/b/1".into(), "train", 1),
                ("val/a/4".into(), "val", 0),
                ("val/c/3".into(), "val", 2),
            ]
        );
        assert_eq!(scan.class_sizes, [2, 1, 1]);
    }

    #[test]
    fn directories_are_classes_unless_all_of_them_name_splits() {
        let scan = scan(listing(&["train/1.jpg", "cat/2.jpg"]), &rules(), "SRC").unwrap();
        assert_eq!(scan.classes, ["cat", "train"]);
        assert_eq!(scan.splits, ["train"]);
    }

    #[test]
    fn class_order_is_by_component_and_not_by_whole_path() {
        let scan = scan(listing(&["a-b/x.jpg", "a/y.jpg"]), &rules(), "SRC").unwrap();
        assert_eq!(scan.classes, ["a", "a-b"]);
    }

    #[test]
    fn files_of_one_stem_are_the_fields_of_one_sample() {
        let scan = scan(
            listing(&[
                "c/x.json",
                "c/x.TXT",
                "c/x.jpg",
                "c/x.v1.jpg",
                "c/notes.md",
                "c/y.jpg~",
            ]),
            &rules(),
            "SRC",
        )
        .unwrap();
        let entry = scan.entries.iter().find(|e| scan.key(e) == "c/x").unwrap();
        let sample = scan.sample(entry);
        let names: Vec<_> = sample.fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["jpg", "json", "txt"], "the image first");
        assert_eq!(scan.entries.len(), 2);
        assert_eq!((scan.notes.odd, scan.notes.sidecars["json"]), (2, 1));
    }

    #[test]
    fn all_offenders_are_named_at_once_with_their_remedies() {
        let text = refusal(
            &[
                "c/a.jpg",
                "c/a.JPEG",
                "c/b.jpg@0",
                "c/d.jpg@9999999999",
                "c/e.jpg",
                "c/e.cls",
                "empty/",
                "loose.jpg",
            ],
            &rules(),
        );
        for part in [
            "c/a.JPEG, c/a.jpg",
            "c/b.jpg",
            "c/d.jpg",
            "c/e.cls",
            "empty/",
            "loose.jpg",
            "--allow-empty",
            "6 problems",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_is_left_out_is_no_problem_any_more() {
        let mut rules = rules();
        let set = |glob: &str| {
            let glob = globset::GlobBuilder::new(glob)
                .literal_separator(true)
                .build()
                .unwrap();
            globset::GlobSetBuilder::new().add(glob).build().unwrap()
        };
        rules.exclude = set("bad");
        let paths = ["c/a.jpg", "bad/b.jpg@0", "bad/deep/x.jpg"];
        let found = scan(listing(&paths), &rules, "SRC").unwrap();
        assert_eq!((found.classes.len(), found.notes.left_out), (1, 2));
        rules.include = set("c/*");
        rules.exclude = GlobSet::empty();
        let found = scan(listing(&paths), &rules, "SRC").unwrap();
        assert_eq!(found.classes, ["c"]);
    }

    #[test]
    fn flat_images_take_their_labels_from_a_file() {
        let paths = [
            "train/dog/1.jpg",
            "train/cat/2.jpg",
            "val/x.jpg",
            "val/y.jpg",
        ];
        assert!(refusal(&paths, &rules()).contains("--labels FILE"));
        let mut rules = rules();
        rules.labels = Some(Labels::parse("l.csv", b"x.jpg,dog\ny,cat\n", None).unwrap());
        let found = scan(listing(&paths), &rules, "SRC").unwrap();
        assert_eq!(
            samples(&found)[2..],
            [("val/x".into(), "val", 1), ("val/y".into(), "val", 0)]
        );
        rules.labels = Some(Labels::parse("l.csv", b"x.jpg,dog\n", None).unwrap());
        assert!(refusal(&paths, &rules).contains("val/y.jpg: no row"));
        // Numbers count the class directories.
        rules.labels = Some(Labels::parse("val.txt", b"x.jpg 1\ny.jpg 0\n", None).unwrap());
        let found = scan(listing(&paths), &rules, "SRC").unwrap();
        assert_eq!(found.classes, ["cat", "dog"]);
        assert_eq!(samples(&found)[2].2, 1);
    }

    #[test]
    fn the_ground_truth_list_goes_by_sorted_file_name() {
        let synsets = Some(("synsets.txt", b"n03\nn01\nn02\n".as_slice()));
        let mut rules = rules();
        rules.labels = Some(Labels::parse("truth.txt", b"1\n3\n", synsets).unwrap());
        let found = scan(listing(&["b.jpg", "a.jpg"]), &rules, "SRC").unwrap();
        assert_eq!(found.classes, ["n01", "n02", "n03"]);
        assert_eq!(
            samples(&found),
            [("a".into(), "train", 2), ("b".into(), "train", 1)]
        );
        assert!(refusal(&["b.jpg", "a.jpg", "c.jpg"], &rules).contains("3 images, 2 rows"));
    }

    #[test]
    fn a_named_split_takes_its_own_directory_only() {
        let mut rules = rules();
        rules.splits = vec![("val".into(), SourcePath::new("old/val"))];
        let found = scan(listing(&["old/val/c/1.jpg", "new/c/2.jpg"]), &rules, "SRC").unwrap();
        assert_eq!(samples(&found), [("old/val/c/1".into(), "val", 0)]);
        assert_eq!(found.notes.left_out, 1);
        rules.splits = vec![("val".into(), SourcePath::new("nowhere"))];
        assert!(refusal(&["c/1.jpg"], &rules).contains("no directory `nowhere`"));
    }

    #[test]
    fn a_source_without_images_says_what_an_image_is() {
        assert!(refusal(&["c/readme.txt"], &rules()).contains("class directory without images"));
        let text = refusal(&["readme.txt"], &rules());
        assert!(
            text.contains("no images") && text.contains("webp"),
            "{text}"
        );
    }
}
