//! By which rules a listing is read, and which paths they leave out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use globset::GlobSet;

use crate::model::limits::Limits;
use crate::model::problems::Problems;
use crate::model::recipe::MetadataColumns;
use crate::model::sample::SourcePath;
use crate::source::labels::Labels;
use crate::source::metadata::Rows;

/// How a listing is read.
pub(crate) struct Rules {
    /// Splits with their directories below the root; found by name when empty.
    pub splits: Vec<(String, SourcePath)>,
    /// Labels of the images that lie in no class directory.
    pub labels: Option<Labels>,
    /// Take flat splits without labels: for callers who want the files only.
    pub labels_unneeded: bool,
    /// Whether all directories are directories only, and no image has a label.
    pub(crate) flat: bool,
    /// Which columns of tables of metadata the user means.
    pub(crate) metadata_columns: MetadataColumns,
    /// What tables say of the images, if there are such: then directories are no classes.
    pub(crate) metadata: Option<Arc<Rows>>,
    /// What such tables, and what comes of them, may take of memory.
    pub(crate) table_bytes: u64,
    /// Files that were left out before the listing was renamed.
    pub(crate) left_out_before: u64,
    /// Splits whose images lie in no class directories and have no labels, though others have.
    pub(crate) unlabelled: Vec<&'static str>,
    /// Whether what is ambiguous is refused: not where the user says that directories are classes, nor where files are only compared.
    pub doubt: bool,
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

impl Rules {
    /// Whether the directories of a split are no classes, whatever says the labels of its images.
    pub(super) fn has_no_classes(&self, split: &str) -> bool {
        self.metadata.is_some() || self.is_unlabelled(split)
    }

    /// Whether the images of a split have no labels.
    pub(super) fn is_unlabelled(&self, split: &str) -> bool {
        self.flat || self.unlabelled.contains(&split)
    }
}

#[cfg(test)]
impl Rules {
    /// Those of a conversion without options, for tests.
    pub(crate) fn plain() -> Self {
        Self {
            splits: Vec::new(),
            labels: None,
            labels_unneeded: false,
            flat: false,
            metadata_columns: MetadataColumns::default(),
            metadata: None,
            table_bytes: 64 << 20,
            left_out_before: 0,
            unlabelled: Vec::new(),
            doubt: true,
            allow_empty: false,
            keep_faulty: false,
            include: GlobSet::empty(),
            exclude: GlobSet::empty(),
            generated: vec!["cls"],
            problems: Problems::default(),
            limits: Limits::of_fields(1 << 33, "too much"),
        }
    }
}

/// Whether the path or a directory above it is to be left out.
pub(crate) fn excluded(exclude: &GlobSet, path: &[u8]) -> bool {
    !exclude.is_empty()
        && (exclude.is_match(as_path(path))
            || path
                .iter()
                .enumerate()
                .any(|(i, &byte)| byte == b'/' && exclude.is_match(as_path(&path[..i]))))
}

/// A path in the form that globs are matched against.
pub(super) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The first component of a path, and what follows it.
pub(super) fn first_component(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, b""),
    }
}

/// The part of `path` below `root`, empty for `root` itself; `None` when it lies elsewhere.
pub(super) fn under<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    if root.is_empty() {
        return Some(path);
    }
    match path.strip_prefix(root)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}
