//! The three splits of ImageNet wherever they lie, renamed to `train`, `val` and `test`.

use std::collections::BTreeSet;

use crate::base::error::Result;
use crate::base::text::{first_of, show};
use crate::base::units::count_text;
use crate::model::listing::Dir;
use crate::model::sample::SourcePath;
use crate::source::imagenet;
use crate::source::labels::Labels;
use crate::source::layouts::Unknown;
use crate::source::rules::{excluded, first_component, under};
use crate::source::samples::images;

/// Directories or images named in a message.
const NAMED: usize = 5;

/// Where the splits lie below the root.
#[derive(Default)]
pub(super) struct Places {
    pub(super) train: Option<Vec<u8>>,
    pub(super) val: Option<Vec<u8>>,
    pub(super) test: Option<Vec<u8>>,
}

impl Places {
    /// Each with the name of its split.
    pub(super) fn named(&mut self) -> [(&'static str, &mut Option<Vec<u8>>); 3] {
        [
            ("train", &mut self.train),
            ("val", &mut self.val),
            ("test", &mut self.test),
        ]
    }
}

/// What a split holds.
#[derive(Default)]
struct Content<'a> {
    /// Images that lie directly in it.
    loose: u64,
    /// Images in class directories.
    classed: u64,
    /// The directories in it that hold some.
    classes: BTreeSet<&'a [u8]>,
}

/// What lies below a split's directory.
fn content<'a>(dirs: &'a [Dir], root: &[u8]) -> Content<'a> {
    let mut content = Content::default();
    for dir in dirs {
        let Some(below) = under(&dir.path, root) else {
            continue;
        };
        let images = images(dir).count() as u64;
        match first_component(below).0 {
            [] => content.loose += images,
            class if images > 0 => {
                content.classed += images;
                content.classes.insert(class);
            }
            _ => (),
        }
    }
    content
}

/// Whether this is the name of a class directory of ImageNet.
fn is_class(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| imagenet::label(name).is_some())
}

/// The directory that holds the classes or images of a split: an archive that was unpacked may have its own name inside.
pub(super) fn inner(dirs: &[Dir], root: Vec<u8>) -> Vec<u8> {
    let content = content(dirs, &root);
    let mut classes = content.classes.iter();
    match (content.loose, classes.next(), classes.next()) {
        (0, Some(only), None) if !is_class(only) => SourcePath::join(&root, only).into_bytes(),
        _ => root,
    }
}

/// Whether all images directly in a directory are ImageNet's validation or test images by their names, and there are some.
pub(super) fn are_official(dirs: &[Dir], root: &[u8], is: fn(&[u8]) -> bool) -> bool {
    let Some(dir) = dirs.iter().find(|dir| dir.path == root) else {
        return false;
    };
    images(dir).next().is_some() && images(dir).all(|i| is(dir.file(i).name))
}

/// Whether a file is a validation image by its name.
pub(super) fn is_validation_image(file: &[u8]) -> bool {
    imagenet::validation_number(file).is_some()
}

/// How many there are of how many there should be, said shortly where that is all.
fn of_all(there: u64, all: u64) -> String {
    match there == all {
        true => count_text(there),
        false => format!("{} of {}", count_text(there), count_text(all)),
    }
}

impl Unknown<'_> {
    /// Renames the splits, gives them their labels, and says what they hold. `compared` is what the labels were compared with.
    ///
    /// `None` if the training classes are not ImageNet's, and nobody says that they are.
    pub(super) fn take(&mut self, mut places: Places, compared: &str) -> Result<Option<String>> {
        for (name, place) in places.named() {
            let is_left_out =
                !self.rules.exclude.is_empty() && excluded(&self.rules.exclude, name.as_bytes());
            if let Some(root) = place.take_if(|root| is_left_out && !root.is_empty()) {
                self.leave_out(|dir| under(&dir.path, &root).is_some());
            }
        }
        let dirs = &self.listing.dirs;
        let mut said = Vec::new();
        let (mut splits, mut unlabelled) = (Vec::new(), Vec::new());
        let (mut few, mut has_flat) = (false, false);
        if let Some(root) = &places.train {
            let train = content(dirs, root);
            if self.refuse_strange(root, &train)? {
                return Ok(None);
            }
            said.push(format!(
                "train {} classes, {} images",
                of_all(train.classes.len() as u64, imagenet::CLASSES as u64),
                of_all(train.classed, imagenet::TRAIN_IMAGES)
            ));
            few = train.classes.len() < imagenet::CLASSES;
            splits.push(("train", root));
        }
        if let Some(root) = &places.val {
            let val = content(dirs, root);
            self.check_validation(root)?;
            has_flat = val.loose > 0;
            let how = match has_flat {
                false => "by their directories".to_owned(),
                true => format!("by the labels built in{compared}"),
            };
            let images = of_all(val.loose + val.classed, imagenet::VALIDATION_IMAGES);
            said.push(format!("val {images} images {how}"));
            splits.push(("val", root));
        }
        if let Some(root) = &places.test {
            let test = content(dirs, root);
            if test.classed == 0 || !test.classes.iter().all(|name| is_class(name)) {
                unlabelled.push("test");
                let images = of_all(test.loose + test.classed, imagenet::TEST_IMAGES);
                said.push(format!("test {images} images without labels"));
            } else {
                said.push(format!(
                    "test {} images by their directories",
                    count_text(test.classed)
                ));
            }
            splits.push(("test", root));
        }
        self.refuse_others(&splits)?;
        if has_flat {
            self.rules.labels = Some(Labels::of_imagenet());
        }
        said.push(match (has_flat, few) {
            (true, true) => "labels count all 1,000 classes".to_owned(),
            (false, true) => "labels count the classes that are there".to_owned(),
            _ => String::new(),
        });
        said.retain(|part| !part.is_empty());
        self.rules.unlabelled = unlabelled;
        let splits: Vec<_> = splits
            .into_iter()
            .map(|(name, root)| (name, root.clone()))
            .collect();
        self.rename(&splits);
        Ok(Some(said.join(", ")))
    }

    /// Whether training classes are not ImageNet's; refuses them where the user says that they are.
    fn refuse_strange(&self, root: &[u8], train: &Content<'_>) -> Result<bool> {
        let strange: Vec<&[u8]> = train
            .classes
            .iter()
            .filter(|name| !is_class(name))
            .copied()
            .collect();
        match strange.len() {
            0 => Ok(false),
            _ if !self.is_wanted => Ok(true),
            count => Err(self.refusal(format!(
                "{} in `{}/` are no synsets of ImageNet ({}): leave them out with `--exclude`, or give `--layout imagefolder`",
                count_text(count as u64),
                show(root),
                names(&strange)
            ))),
        }
    }

    /// Refuses validation images whose names ImageNet does not know, and those in the directory of another class.
    fn check_validation(&self, root: &[u8]) -> Result<()> {
        let (mut wrong, mut count) = (Vec::new(), 0u64);
        for dir in &self.listing.dirs {
            let Some(below) = under(&dir.path, root) else {
                continue;
            };
            let class = first_component(below).0;
            let class = std::str::from_utf8(class).unwrap_or_default();
            for i in images(dir) {
                let label = imagenet::validation_label(dir.file(i).name);
                let what = match (label, class) {
                    (None, "") => ": no name of a validation image",
                    (Some(label), class)
                        if !class.is_empty() && imagenet::class(label) != Some(class) =>
                    {
                        ": in the directory of another class than it is of"
                    }
                    _ => continue,
                };
                count += 1;
                if wrong.len() < NAMED {
                    wrong.push(format!("\n  {}{what}", dir.path_of(i)));
                }
            }
        }
        match count {
            0 => Ok(()),
            _ => Err(self.refusal(format!(
                "{} validation images are not where ImageNet has them, nothing was written: correct them, leave them out with `--exclude`, or say \
                 `--layout imagefolder`{}",
                count_text(count),
                wrong.concat()
            ))),
        }
    }

    /// Refuses images that lie in none of the splits: they would be lost in silence.
    fn refuse_others(&self, splits: &[(&str, &Vec<u8>)]) -> Result<()> {
        let inside = |dir: &Dir| {
            splits
                .iter()
                .any(|(_, root)| under(&dir.path, root).is_some())
        };
        let dirs = self.listing.dirs.iter();
        let others: Vec<&[u8]> = dirs
            .filter(|dir| !inside(dir) && images(dir).next().is_some())
            .map(|dir| dir.path.as_slice())
            .collect();
        match others.is_empty() {
            true => Ok(()),
            false => Err(self.refusal(format!(
                "this is ImageNet, and images lie beside its splits, in {}: leave them out with `--exclude`, or name the splits with `--split`",
                names(&others)
            ))),
        }
    }

    /// Renames the directories of splits, whose files are still opened where they are.
    fn rename(&mut self, splits: &[(&'static str, Vec<u8>)]) {
        for (name, root) in splits {
            // A source that is one split keeps its paths.
            let to: &[u8] = if root.is_empty() {
                b""
            } else {
                name.as_bytes()
            };
            for dir in &mut self.listing.dirs {
                let Some(below) = under(&dir.path, root) else {
                    continue;
                };
                let path = match below {
                    [] => to.to_vec(),
                    below => SourcePath::join(to, below).into_bytes(),
                };
                if path != dir.path {
                    let before = std::mem::replace(&mut dir.path, path);
                    dir.opened_at.get_or_insert(before);
                }
            }
            self.rules
                .splits
                .push(((*name).to_owned(), SourcePath::new(to)));
        }
        self.listing.dirs.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

/// Names for a message.
fn names(of: &[&[u8]]) -> String {
    first_of(of.iter().map(|name| format!("`{}`", show(name))), NAMED)
}
