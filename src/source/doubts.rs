//! What a listing may be instead of what it is taken for. A tool that finished with wrong labels would be believed, so what is ambiguous is
//! refused here, with the command line that was probably meant; `--layout imagefolder` takes it as it stands.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::error::{Error, Result};
use crate::base::text::{first_of, quoted, show};
use crate::model::listing::Dir;
use crate::model::sample::{SourcePath, archive_stem};
use crate::source::dirs::{Place, Split, split_name};
use crate::source::rules::{first_component, under};
use crate::source::samples::images;
use crate::source::scanner::Scanner;

/// Words in the names of directories that say nothing of what is in them, beside the name of a split: `ILSVRC2012_img_train`, `val2017`.
const NOISE: [&str; 14] = [
    "cls", "coco", "data", "ilsvrc", "imagenet", "image", "images", "img", "imgs", "loc", "set",
    "sets", "split", "splits",
];
/// Directories named in a message.
const NAMED: usize = 5;

/// How to say that directories are classes all the same.
const AS_IT_STANDS: &str = "`--layout imagefolder` takes these directories as classes all the same";

/// The split that a directory's name resembles: `val` of `val2017`.
fn resembled_split(directory: &[u8]) -> Option<&'static str> {
    let mut split = None;
    let words = directory.split(|byte| !byte.is_ascii_alphabetic());
    for word in words.filter(|word| !word.is_empty()) {
        let noise = |known: &str| known.as_bytes().eq_ignore_ascii_case(word);
        match split_name(word) {
            Some(name) if split.is_none() => split = Some(name),
            None if NOISE.iter().any(|known| noise(known)) => (),
            _ => return None,
        }
    }
    split
}

/// Directories for a message.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>) -> String {
    first_of(names.map(|name| format!("`{}/`", show(name))), NAMED)
}

/// Where the images of a directory lie.
#[derive(Default)]
struct Below<'a> {
    /// Whether some lie directly in it.
    direct: bool,
    /// The directories in it that hold some, at any depth.
    children: BTreeSet<&'a [u8]>,
}

impl<'a> Below<'a> {
    /// Adds the directory of some images, by its path below this one.
    fn add(&mut self, path: &'a [u8]) {
        match first_component(path).0 {
            [] => self.direct = true,
            child => _ = self.children.insert(child),
        }
    }

    /// Whether it holds no images itself but directories that are called as splits are.
    fn holds_splits(&self) -> bool {
        !self.direct && self.children.iter().any(|name| split_name(name).is_some())
    }
}

/// Where images lie below `root`.
fn images_below<'a>(dirs: &'a [Dir], root: &[u8]) -> Below<'a> {
    let mut below = Below::default();
    for dir in dirs {
        let Some(rest) = under(&dir.path, root) else {
            continue;
        };
        if images(dir).next().is_some() {
            below.add(rest);
        }
    }
    below
}

impl Scanner<'_> {
    /// Refuses directories of the root of which some are called as splits are and others are not: as classes they would be mixed.
    pub(super) fn doubt_splits(&self, dirs: &[Dir], top: &[&[u8]]) -> Result<()> {
        if !self.rules.doubt || top.len() < 2 {
            return Ok(());
        }
        let named: Vec<(&[u8], Option<&str>)> = top
            .iter()
            .map(|name| (*name, resembled_split(name)))
            .collect();
        let is_named = |name: &[u8]| split_name(name).is_some();
        let distinct: BTreeSet<&str> = named.iter().filter_map(|(_, split)| *split).collect();
        let holds_classes = |name: &[u8]| {
            let below = images_below(dirs, name);
            !below.direct && !below.children.is_empty()
        };
        let mixed = distinct.len() > 1
            || named.iter().any(|(name, split)| {
                (split.is_some() && holds_classes(name))
                    || (is_named(name) && !holds_images(dirs, name))
            });
        // Two that would be one split, `Train` and `train`, are told here too.
        if distinct.is_empty() || !mixed {
            return Ok(());
        }
        let others: Vec<&[u8]> = named
            .iter()
            .filter(|(_, split)| split.is_none())
            .map(|(name, _)| *name)
            .collect();
        let mut given = BTreeSet::new();
        let mut line = String::new();
        for (name, split) in &named {
            let Some(split) = split else { continue };
            // Two directories of one split keep their own names.
            let mut split = (*split).to_owned();
            if given.contains(&split) {
                split = plain_name(name);
            }
            while !given.insert(split.clone()) {
                split.push('_');
            }
            line.push_str(&format!(" --split {split}={}", quoted(name)));
        }
        let left_out = match others.is_empty() {
            true => String::new(),
            false => format!(
                ", which leaves {} out (`--split NAME=SUBPATH` for each that is a split too)",
                listed(others.iter().copied())
            ),
        };
        Err(Error::source_data(format!(
            "{}: some of its directories are called as splits are, not all of them ({}), so they would be taken for classes: give `{}`{left_out}; {AS_IT_STANDS}",
            self.source,
            listed(top.iter().copied()),
            line.trim_start(),
        )))
    }

    /// Refuses class directories that hold class or split directories: SRC is a level too high, or not what it is taken for.
    pub(super) fn doubt_classes(
        &self,
        dirs: &[Dir],
        places: &[Option<Place>],
        splits: &[Split],
    ) -> Result<()> {
        if !self.rules.doubt {
            return Ok(());
        }
        let meant = doubtful(dirs, places, splits);
        let Some(Doubtful {
            root, meant: found, ..
        }) = meant.first()
        else {
            return Ok(());
        };
        let inside: Vec<&[u8]> = images_below(dirs, found).children.into_iter().collect();
        let inside = listed(inside.into_iter());
        if !meant[0].is_only_class {
            let roots: Vec<&[u8]> = meant.iter().map(|one| one.root.as_slice()).collect();
            return Err(Error::source_data(format!(
                "{}: the class directories {} hold directories that are called as splits are ({inside}), whose images would be mixed: give \
                 the directory of one dataset as SRC, `{}` for example, or name the splits, `--split train={}`; {AS_IT_STANDS}",
                self.source,
                listed(roots.into_iter()),
                below(self.source, root),
                quoted(SourcePath::join(root, b"train").as_bytes()),
            )));
        }
        // What lies in an archive is no place that can be SRC.
        let is_archive = archive_stem(self.source.as_bytes()).is_some();
        let remedy = match (splits.len(), self.rules.splits.len()) {
            (1, 0) if !is_archive => format!("give `{}` as SRC", below(self.source, found)),
            _ => {
                let flag = |one: &Doubtful<'_>| {
                    format!("--split {}={}", one.split.name, quoted(&one.meant))
                };
                let flags: Vec<String> = meant.iter().map(flag).collect();
                format!("give `{}`", flags.join(" "))
            }
        };
        Err(Error::source_data(format!(
            "{}: all images would be of one class, `{}`, which holds no image itself but directories of them ({}{inside}): {remedy}; {AS_IT_STANDS}",
            self.source,
            show(first_component(under(root, &meant[0].split.path).unwrap_or(root)).0),
            match found == root {
                true => String::new(),
                false => format!("`{}/` with ", show(found)),
            },
        )))
    }
}

/// A class directory that may be none.
struct Doubtful<'a> {
    /// The split it lies in.
    split: &'a Split,
    /// Its path.
    root: Vec<u8>,
    /// The directory that was probably meant as that of all classes or splits.
    meant: Vec<u8>,
    /// Whether there is no other class.
    is_only_class: bool,
}

/// The class directories that may be none.
fn doubtful<'a>(dirs: &[Dir], places: &[Option<Place>], splits: &'a [Split]) -> Vec<Doubtful<'a>> {
    let mut classes: BTreeMap<(u16, &[u8]), Below<'_>> = BTreeMap::new();
    for (dir, place) in dirs.iter().zip(places) {
        let Some(Place {
            split,
            class: Some(class),
        }) = place
        else {
            continue;
        };
        let split_path = &splits[usize::from(*split)].path;
        if splits[usize::from(*split)].flat || images(dir).next().is_none() {
            continue;
        }
        let in_split = under(&dir.path, split_path).unwrap_or_default();
        let below = classes.entry((*split, class)).or_default();
        below.add(first_component(in_split).1);
    }
    let names: BTreeSet<&[u8]> = classes.keys().map(|(_, class)| *class).collect();
    let mut meant = Vec::new();
    for ((split, class), below) in &classes {
        let split = &splits[usize::from(*split)];
        let root = SourcePath::join(&split.path, class).into_bytes();
        let found = match names.len() {
            1 => meant_root(dirs, &root),
            _ => below.holds_splits().then(|| root.clone()),
        };
        meant.push((split, root, found, below.direct));
    }
    let is_only_class = names.len() == 1;
    let is_any = meant.iter().any(|(_, _, found, _)| found.is_some());
    let doubtful = |(split, root, found, direct): (_, Vec<u8>, Option<Vec<u8>>, bool)| {
        // A split with images of one class looks right, and is arranged as the others are.
        let same = || (is_only_class && is_any && !direct).then(|| root.clone());
        let meant = found.or_else(same)?;
        Some(Doubtful {
            split,
            root,
            meant,
            is_only_class,
        })
    };
    meant.into_iter().filter_map(doubtful).collect()
}

/// Whether images lie directly in a directory.
fn holds_images(dirs: &[Dir], root: &[u8]) -> bool {
    images_below(dirs, root).direct
}

/// The directory below the only class directory that was probably meant as the one of all classes or splits; `None` if the class may well be
/// one.
fn meant_root(dirs: &[Dir], class: &[u8]) -> Option<Vec<u8>> {
    let mut root = class.to_vec();
    loop {
        let below = images_below(dirs, &root);
        if below.direct {
            return None;
        }
        if below.holds_splits() {
            return Some(root);
        }
        let mut children = below.children.into_iter();
        match (children.next(), children.next()) {
            (Some(only), None) => root = SourcePath::join(&root, only).into_bytes(),
            _ => return Some(root),
        }
    }
}

/// A location and a path below it.
fn below(source: &str, path: &[u8]) -> String {
    format!("{}/{}", source.trim_end_matches('/'), show(path))
}

/// A directory's name as the name of a split.
fn plain_name(directory: &[u8]) -> String {
    let plain = |byte: &u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte.to_ascii_lowercase()),
        false => '_',
    };
    directory.iter().map(plain).collect()
}
