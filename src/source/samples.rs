//! The samples of a source in a compact form: positions in its listing. Nothing here knows of shards.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::base::image::image_field;
use crate::base::text::hex;
use crate::base::units::count_text;
use crate::model::column::Column;
use crate::model::listing::Dir;
use crate::model::record::{NO_LABEL, known_label};
use crate::model::sample::{
    Field, FilePath, Sample, SourcePath, Version, is_plain, key, sidecar_field, split_extension,
};
use crate::model::selection::Derivation;
use crate::source::metadata::{Row, Rows};

/// Entries that one thread describes before the next takes some.
const HASHED_AT_ONCE: usize = 8192;

/// Where a sample's files are in the listing; 32 bytes, because there are millions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Position in the plan's order, set by planning.
    pub rank: u64,
    /// Bytes in its shard, set by planning.
    pub bytes: u64,
    /// Class number, or [`NO_LABEL`](crate::model::record::NO_LABEL).
    pub label: u32,
    /// Number of its directory in the scan.
    pub(super) dir: u32,
    /// Its first file in that.
    pub(super) first: u32,
    /// How many files it has.
    pub(super) count: u16,
    /// Index into [`Scan::splits`].
    pub split: u16,
}

/// What was seen besides samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    /// Hidden files and directories passed over.
    pub hidden: u64,
    /// Files left out by `--include` and `--exclude`, or outside of the named splits.
    pub left_out: u64,
    /// Files that are neither images nor share an image's stem.
    pub odd: u64,
    /// Some of them.
    pub odd_examples: Vec<String>,
    /// How many of them have which extension, in lower case; empty for none.
    pub odd_kinds: BTreeMap<String, u64>,
    /// Labels in the label file that no image has.
    pub unused_labels: u64,
    /// Sidecar field names with the number of samples that have them.
    pub sidecars: BTreeMap<String, u64>,
}

/// The samples of a source.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(super) dirs: Vec<Dir>,
    /// Class names by label.
    pub classes: Vec<String>,
    /// Split names, sorted.
    pub splits: Vec<String>,
    /// What tables say of the images, if there are such.
    pub(super) metadata: Option<Arc<Rows>>,
    /// The columns of tables besides class and image, sorted by name; none if there are no tables.
    pub columns: Vec<Column>,
    /// The dataset that the source is, if it is one.
    pub derived_from: Option<Derivation>,
    /// What the source itself says that classes are called for people, by name.
    pub texts: BTreeMap<String, String>,
    /// The samples, grouped by directory until planning orders them.
    pub entries: Vec<Entry>,
    /// What else was seen.
    pub notes: Notes,
    /// Samples of each class.
    pub class_sizes: Vec<u64>,
}

impl Scan {
    /// No samples yet, of these directories, splits and classes.
    pub(super) fn empty(dirs: Vec<Dir>, splits: Vec<String>, classes: Vec<String>) -> Self {
        Self {
            dirs,
            splits,
            metadata: None,
            columns: Vec::new(),
            derived_from: None,
            texts: BTreeMap::new(),
            entries: Vec::new(),
            notes: Notes::default(),
            class_sizes: vec![0; classes.len()],
            classes,
        }
    }

    /// Counts the samples of each class anew.
    pub(super) fn count_classes(&mut self) {
        self.class_sizes = vec![0; self.classes.len()];
        for entry in &self.entries {
            if let Some(size) = self.class_sizes.get_mut(entry.label as usize) {
                *size += 1;
            }
        }
    }

    /// The sample of an entry.
    pub(crate) fn sample(&self, entry: &Entry) -> Sample {
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
                    content: None,
                })
            })
            .collect();
        fields.extend(self.made_fields(entry));
        fields.sort_by(|a, b| {
            let is_other = |field: &Field| !is_image(field.path.as_bytes());
            (is_other(a), &a.name).cmp(&(is_other(b), &b.name))
        });
        Sample {
            key: self.key(entry),
            label: known_label(entry.label),
            fields,
        }
    }

    /// What tables say of the image of an entry; nothing if there are none.
    fn row(&self, entry: &Entry) -> Option<&Row> {
        let rows = self.metadata.as_ref()?;
        let (dir, image) = self.image(entry)?;
        rows.find(SourcePath::join(&dir.path, dir.file(image).name).as_bytes())
    }

    /// The fields that an entry has from tables: as if such files lay beside the image.
    fn made_fields(&self, entry: &Entry) -> impl Iterator<Item = Field> {
        let dir = &self.dirs[entry.dir as usize];
        let place = dir.opened_at.as_ref().unwrap_or(&dir.path);
        let stem = split_extension(dir.file(entry.first as usize).name).0;
        let fields = self.row(entry).into_iter().flat_map(Row::fields);
        fields.map(move |(name, content)| Field {
            name: name.to_owned(),
            path: FilePath::below(place, &[stem, b".", name.as_bytes()].concat()),
            size: content.len() as u64,
            // Other rows of the same table may change without it.
            version: Version::ETag(hex(&Sha256::digest(content)[..8])),
            content: Some(content.into()),
        })
    }

    /// The number of the image of an entry in its directory.
    fn image(&self, entry: &Entry) -> Option<(&Dir, usize)> {
        let dir = &self.dirs[entry.dir as usize];
        let mut files = entry.first as usize..entry.first as usize + usize::from(entry.count);
        Some((dir, files.find(|&i| is_image(dir.file(i).name))?))
    }

    /// Length of the image of an entry, in bytes.
    pub(super) fn image_bytes(&self, entry: &Entry) -> Option<u64> {
        let (dir, image) = self.image(entry)?;
        Some(dir.file(image).size)
    }

    /// Width and height of the image of an entry, where the list says them in which it was found.
    pub(super) fn listed_sides(&self, entry: &Entry) -> Option<(u32, u32)> {
        let (dir, image) = self.image(entry)?;
        dir.listed_sides(image)
    }

    /// Keeps the samples that `keep` says.
    pub(super) fn retain(&mut self, keep: impl Fn(&Self, &Entry) -> bool) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|entry| keep(self, entry));
        self.entries = entries;
    }

    /// Numbers the classes that have samples from 0, in their order, and forgets the others.
    pub(super) fn relabel(&mut self) {
        let mut numbers = vec![NO_LABEL; self.classes.len()];
        let mut classes = Vec::new();
        for (label, class) in self.classes.iter().enumerate() {
            if self.class_sizes[label] > 0 {
                numbers[label] = classes.len() as u32;
                classes.push(class.clone());
            }
        }
        for entry in &mut self.entries {
            if let Some(number) = numbers.get(entry.label as usize) {
                entry.label = *number;
            }
        }
        self.classes = classes;
        self.count_classes();
    }

    /// Gives each entry the split of the part that it is in; `names` are those of the parts.
    pub(super) fn split_anew(&mut self, names: &[String], parts: &[usize]) {
        self.splits = names.to_vec();
        for (entry, part) in self.entries.iter_mut().zip(parts) {
            entry.split = *part as u16;
        }
        self.drop_splits();
    }

    /// Sorts the splits, and forgets those that have no samples.
    pub(super) fn drop_splits(&mut self) {
        let mut sizes = vec![0u64; self.splits.len()];
        for entry in &self.entries {
            sizes[usize::from(entry.split)] += 1;
        }
        let mut left: Vec<usize> = (0..sizes.len()).filter(|&split| sizes[split] > 0).collect();
        left.sort_by(|&a, &b| self.splits[a].cmp(&self.splits[b]));
        for (number, &split) in left.iter().enumerate() {
            sizes[split] = number as u64;
        }
        for entry in &mut self.entries {
            entry.split = sizes[usize::from(entry.split)] as u16;
        }
        self.splits = left
            .iter()
            .map(|&split| self.splits[split].clone())
            .collect();
    }

    /// Counts anew how many samples have which sidecar fields.
    pub(super) fn count_sidecars(&mut self) {
        let mut sidecars = BTreeMap::new();
        for entry in &self.entries {
            for field in self.sample(entry).fields.iter().skip(1) {
                *sidecars.entry(field.name.clone()).or_default() += 1;
            }
        }
        self.notes.sidecars = sidecars;
    }

    /// The key of an entry.
    pub(crate) fn key(&self, entry: &Entry) -> String {
        let dir = &self.dirs[entry.dir as usize];
        key(
            &dir.path,
            split_extension(dir.file(entry.first as usize).name).0,
        )
    }

    /// Compares the keys of two entries, without building them where the stems are their own keys.
    pub(crate) fn compare_keys(&self, a: &Entry, b: &Entry) -> std::cmp::Ordering {
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

    /// SHA-256 over all samples with the paths, sizes and versions of their files, their splits and classes, and what the classes are
    /// called: another scan with the same is of the same source in the same state. Taken before planning orders the entries.
    pub(crate) fn fingerprint(&self, texts: &[String]) -> String {
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
                for (name, content) in self.row(entry).into_iter().flat_map(Row::fields) {
                    hasher.update(name);
                    hasher.update((content.len() as u64).to_le_bytes());
                    hasher.update(content);
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
    pub(crate) fn number_like(&mut self, known: &[String]) -> Vec<String> {
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

/// Whether a file is an image, by its extension.
pub(super) fn is_image(name: &[u8]) -> bool {
    image_field(split_extension(name).1).is_some()
}

/// The images directly in a directory, by their numbers.
pub(super) fn images(dir: &Dir) -> impl Iterator<Item = usize> {
    (0..dir.len()).filter(|&i| is_image(dir.file(i).name))
}

/// Extensions of images that are not read.
const UNREAD_IMAGES: [&str; 29] = [
    "ai", "arw", "avif", "cr2", "cr3", "dcm", "dds", "dng", "emf", "eps", "exr", "hdr", "heic",
    "heif", "hif", "ico", "j2k", "jp2", "jpf", "jpx", "jxl", "nef", "orf", "psd", "raf", "rw2",
    "svg", "tga", "xcf",
];

/// Whether a file is an image of a kind that is not read, by its extension.
pub(super) fn is_unread_image(name: &[u8]) -> bool {
    let extension = split_extension(name).1;
    let is = |kind: &&str| kind.as_bytes().eq_ignore_ascii_case(extension);
    UNREAD_IMAGES.iter().any(is)
}

/// How many files are left out, and how many of them have which extension: `3: 1 avif, 1 heic, 1 svg`.
pub(super) fn kinds_text(kinds: &BTreeMap<String, u64>) -> String {
    let kind = |(kind, count): (&String, &u64)| match kind.as_str() {
        "" => format!("{} without extension", count_text(*count)),
        kind => format!("{} {kind}", count_text(*count)),
    };
    let each: Vec<String> = kinds.iter().map(kind).collect();
    format!("{}: {}", count_text(kinds.values().sum()), each.join(", "))
}

/// The name of the field that a file of this name becomes; `None` if readers could not address it.
pub(crate) fn field_name(file: &[u8]) -> Option<String> {
    let extension = split_extension(file).1;
    match image_field(extension) {
        Some(name) => Some(name.to_owned()),
        None => sidecar_field(extension),
    }
}
