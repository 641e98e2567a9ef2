//! Arrangements of files that are recognised besides a directory a class, each in a file: what was found is renamed to what an ImageFolder of
//! the same images would be, so that keys, labels and shards come out the same.
//!
//! In come a listing, the rules and what the user says; out goes what to scan and by which rules, with one line that says what was recognised.
//! Recognised is by directory names alone; files are read only to be compared with what is known.

mod imagenet;
mod kaggle;
mod metadata;
mod splits;

use crate::base::error::{Error, Result};
use crate::model::listing::{Dir, Listing};
use crate::model::recipe::{Arrangement, MetadataColumns};
use crate::model::sample::{Field, SourcePath};
use crate::source::dataset::{Listed, scan_dataset};
use crate::source::imagenet as known;
use crate::source::rules::{Rules, excluded};
use crate::source::samples::Scan;
use crate::source::scan::scan;
use crate::store::Source;

/// Most bytes of a file that is read to be compared with what is known.
const SMALL_BYTES: u64 = 64 << 20;
/// Most bytes of a table of metadata, all of which is held.
const TABLE_BYTES: u64 = 512 << 20;

/// What was recognised.
pub(crate) struct Recognised {
    /// How the source is arranged.
    pub(crate) layout: Arrangement,
    /// The same for people, in one line.
    pub(crate) said: String,
}

/// A source whose arrangement is to be found out.
pub(super) struct Unknown<'a> {
    pub(super) listing: Listing,
    pub(super) rules: &'a mut Rules,
    pub(super) source: &'a dyn Source,
    /// Name of the source, for messages.
    pub(super) name: &'a str,
    /// Whether the user says that it is arranged so: then what does not fit is refused, and not taken for something else.
    pub(super) is_wanted: bool,
}

/// Reads a listing as what the user says it is, or as what it is recognised as where nobody says.
pub(crate) fn scan_as(
    listed: Listed,
    mut rules: Rules,
    layout: Option<Arrangement>,
    source: &dyn Source,
    name: &str,
) -> Result<(Scan, Recognised)> {
    let listing = match listed {
        Listed::Samples(catalogue) => return scan_dataset(*catalogue, &rules, name),
        Listed::Files(listing) => listing,
    };
    let has_file = rules.labels.is_some() || rules.labels_unneeded;
    let has_splits = !rules.splits.is_empty();
    let mut unknown = Unknown {
        listing,
        rules: &mut rules,
        source,
        name,
        is_wanted: layout.is_some(),
    };
    let tries = match layout {
        None if has_file => &[],
        None if !has_splits => &[
            Arrangement::Kaggle,
            Arrangement::Imagenet,
            Arrangement::Metadata,
        ][..],
        None => &[Arrangement::Metadata],
        Some(Arrangement::Kaggle) => &[Arrangement::Kaggle],
        Some(Arrangement::Imagenet) => &[Arrangement::Imagenet],
        Some(Arrangement::Metadata) => &[Arrangement::Metadata],
        Some(_) => &[],
    };
    if !tries.is_empty() {
        // By the paths that the user sees; what is renamed is filtered once more, by those that count.
        let exclude = unknown.rules.exclude.clone();
        unknown.leave_out(|dir| excluded(&exclude, &dir.path));
    }
    let mut recognised = None;
    for layout in tries {
        recognised = match layout {
            Arrangement::Kaggle => kaggle::recognise(&mut unknown)?,
            Arrangement::Metadata => metadata::recognise(&mut unknown)?,
            _ => imagenet::recognise(&mut unknown)?,
        };
        if recognised.is_some() {
            break;
        }
    }
    let listing = unknown.listing;
    let recognised = recognised.unwrap_or_else(|| Recognised {
        layout: layout.unwrap_or_default(),
        said: match layout {
            Some(Arrangement::Flat) => "flat: images without classes",
            _ if rules.labels.is_some() => {
                "ImageFolder, with a label file for images in no class directory"
            }
            _ => "ImageFolder: a directory a class",
        }
        .to_owned(),
    });
    if recognised.layout != Arrangement::Metadata
        && rules.metadata_columns != MetadataColumns::default()
    {
        return Err(Error::usage(
            "--label-column, --caption-column and --missing-rows are about columns and rows of a label file or of metadata.csv, and there is \
             neither: add `--labels FILE` or drop them",
        ));
    }
    Ok((scan(listing, &rules, name)?, recognised))
}

/// What the classes are called for people, by label, where the source says it or is a known dataset; empty for others.
pub(crate) fn known_texts(layout: Arrangement, scan: &Scan) -> Vec<String> {
    let said = |class: &String| scan.texts.get(class).unwrap_or(class).clone();
    let known = |class: &String| known::words(class).unwrap_or(class).to_owned();
    match layout {
        _ if !scan.texts.is_empty() => scan.classes.iter().map(said).collect(),
        Arrangement::Imagenet | Arrangement::Kaggle => scan.classes.iter().map(known).collect(),
        _ => Vec::new(),
    }
}

impl Unknown<'_> {
    /// Leaves directories out, and counts their files.
    pub(super) fn leave_out(&mut self, is_out: impl Fn(&Dir) -> bool) {
        let mut files = 0;
        self.listing.dirs.retain(|dir| {
            let out = is_out(dir);
            files += if out { dir.len() as u64 } else { 0 };
            !out
        });
        self.rules.left_out_before += files;
    }

    /// What to say where the user says that it is something, and it is not.
    pub(super) fn refusal(&self, what: impl std::fmt::Display) -> Error {
        Error::source_data(format!("{}: {what}", self.name))
    }

    /// The content of a small file.
    pub(super) fn read(&self, dir: &Dir, index: usize, most_bytes: u64) -> Result<Vec<u8>> {
        let (path, file) = (dir.path_of(index), dir.file(index));
        if file.size > most_bytes {
            return Err(self.refusal(format!(
                "{path} has {} bytes, expected at most {most_bytes}: leave it out with `--exclude`",
                file.size
            )));
        }
        let field = Field {
            name: "txt".to_owned(),
            path,
            size: file.size,
            version: file.version(),
            content: None,
        };
        let buffer = self.source.start(&field).wait()?;
        Ok(buffer.to_vec())
    }

    /// The files of this name that are not left out, with their directories.
    pub(super) fn files_named<'s>(
        &'s self,
        name: &'s [u8],
    ) -> impl Iterator<Item = (&'s Dir, usize)> {
        let exclude = &self.rules.exclude;
        let is_in = move |dir: &Dir, i: usize| {
            dir.file(i).name == name
                && !excluded(exclude, SourcePath::join(&dir.path, name).as_bytes())
        };
        let in_dir = move |dir: &'s Dir| {
            let found = (0..dir.len()).filter(move |&i| is_in(dir, i));
            found.map(move |i| (dir, i))
        };
        self.listing.dirs.iter().flat_map(in_dir)
    }
}
