//! What to plan: the source, the destination, and the files that say more of the images.

use std::ffi::OsString;

use super::choosing::read_files;
use super::estimate::{Estimate, estimate};
use super::given::{given, read};
use super::recipe::{NO_LABELS, recipe, rules_of};
use crate::base::error::{Error, Result};
use crate::base::units::parse_share;
use crate::cli::flags as cli;
use crate::grow::options::Growth;
use crate::grow::options::OnChange;
use crate::grow::removals::AllowedRemovals;
use crate::model::recipe::{Arrangement, MetadataColumns, Recipe};
use crate::source::choose::keys::Keys;
use crate::source::labels::Labels;
use crate::source::labels::columns::Columns;
use crate::source::layouts::known_texts;
use crate::source::rules::Rules;
use crate::source::samples::Scan;

/// What to plan, checked.
#[derive(Clone)]
pub(crate) struct Planning {
    /// Where the images are.
    pub source: String,
    /// Where the dataset goes.
    pub destination: String,
    /// The options that can change a byte.
    pub recipe: Recipe,
    /// Images of no bytes, and files that are too large for the format, are left to be skipped when packed.
    pub keep_faulty: bool,
    /// How to go on from what is published.
    pub growth: Growth,
    /// Files that flags name.
    pub files: Files,
    /// What a dry run says more.
    pub(crate) estimate: Estimate,
    /// The keys that the recipe's selection lists.
    pub(crate) keys: Option<Keys>,
    /// Whether what the source is taken for is said before anything is written.
    pub(crate) is_told: bool,
    /// How the user says the source is arranged; `None` for what is recognised.
    pub(crate) layout: Option<Arrangement>,
}

/// Files that say more of the images than their directories do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// What class each image is of.
    pub labels: Option<OsString>,
    /// What class the numbers in `labels` are.
    pub synsets: Option<OsString>,
    /// What classes are called for people.
    pub class_names: Option<OsString>,
    /// Which columns of `labels` are meant.
    pub(crate) columns: Columns,
}

/// Columns of a label file; an empty environment twin says nothing.
pub(crate) fn columns(file: Option<&String>, label: Option<&String>) -> Columns {
    let given = |column: Option<&String>| column.filter(|column| !column.is_empty()).cloned();
    Columns {
        file: given(file),
        label: given(label),
    }
}

impl Planning {
    /// The same for a source that was recognised to be arranged so.
    pub(crate) fn arranged(&self, layout: Arrangement) -> Self {
        let mut planning = self.clone();
        planning.recipe.layout = layout;
        if layout != Arrangement::Metadata {
            planning.recipe.metadata = MetadataColumns::default();
        }
        planning
    }

    /// What a recipe alone says, without files that flags name.
    pub(crate) fn new(source: &str, destination: &str, recipe: Recipe) -> Self {
        Self {
            source: source.to_owned(),
            destination: destination.to_owned(),
            keep_faulty: false,
            growth: Growth::default(),
            files: Files::default(),
            estimate: Estimate::default(),
            keys: None,
            is_told: true,
            // What is in a recipe was recognised, or typed.
            layout: Some(recipe.layout),
            recipe,
        }
    }

    /// What these classes are called for people; empty when nobody said.
    pub(crate) fn class_texts(&self, scan: &Scan) -> Result<Vec<String>> {
        let classes = &scan.classes;
        match &self.files.class_names {
            None => Ok(known_texts(self.recipe.layout, scan)),
            Some(path) => {
                let (name, text) = read(path)?;
                class_texts(&name, &text, classes)
            }
        }
    }

    /// The same where the first classes are called `before` already: one that the file does not name stays so.
    pub(crate) fn class_texts_after(&self, scan: &Scan, before: &[String]) -> Result<Vec<String>> {
        let classes = &scan.classes;
        let mut known = known_texts(self.recipe.layout, scan);
        if self.files.class_names.is_none() && !known.is_empty() {
            let kept = before.len().min(known.len());
            known[..kept].clone_from_slice(&before[..kept]);
            return Ok(known);
        }
        let missing = match &self.files.class_names {
            None if before.is_empty() => return Ok(Vec::new()),
            None => &classes[before.len().min(classes.len())..],
            Some(path) => {
                let (name, text) = read(path)?;
                let known =
                    |class: &&String| class_texts(&name, &text, std::slice::from_ref(*class)).ok();
                let texts = classes.iter().enumerate().map(|(label, class)| {
                    let text = known(&class).and_then(|mut texts| texts.pop());
                    text.or_else(|| before.get(label).cloned())
                });
                // A class without a name was refused when all of the source's were looked up.
                return Ok(texts.map(Option::unwrap_or_default).collect());
            }
        };
        match missing.first() {
            None => Ok(before.to_vec()),
            Some(class) => Err(Error::usage(format!(
                "new class `{class}` has no name, and the others have: give `--class-names`"
            ))),
        }
    }

    /// The rules by which the source is scanned, in so much memory.
    pub(crate) fn rules(&self, memory: u64) -> Result<Rules> {
        let synsets = self.files.synsets.as_ref().map(read).transpose()?;
        let labels = match &self.files.labels {
            None => None,
            Some(path) if path == NO_LABELS => None,
            Some(path) => {
                let (name, text) = read(path)?;
                let synsets = synsets
                    .as_ref()
                    .map(|(name, text)| (name.as_str(), text.as_slice()));
                let labels = Labels::parse_columns(&name, &text, synsets, &self.files.columns);
                Some(labels.map_err(Error::source_data)?)
            }
        };
        Ok(Rules {
            labels,
            labels_unneeded: false,
            // What was published once is merged as it is.
            doubt: self.layout != Some(Arrangement::ImageFolder) && !self.growth.compact,
            keep_faulty: self.keep_faulty,
            ..rules_of(&self.recipe, memory)?
        })
    }
}

/// The names in a file of lines `class name`, in the order of `classes`; each class must have one.
fn class_texts(file: &str, text: &[u8], classes: &[String]) -> Result<Vec<String>> {
    let text = std::str::from_utf8(text)
        .map_err(|_| Error::usage(format!("{file}: not UTF-8: save it as UTF-8")))?;
    let named: std::collections::HashMap<&str, &str> = text
        .lines()
        .filter_map(|line| {
            let (class, name) = line.trim().split_once([' ', '\t', ','])?;
            Some((class, name.trim().trim_matches('"')))
        })
        .collect();
    let missing: Vec<_> = classes
        .iter()
        .filter(|class| !named.contains_key(class.as_str()))
        .map(String::as_str)
        .collect();
    if let Some(first) = missing.first() {
        return Err(Error::usage(format!(
            "{file}: no name for {} of {} classes, `{first}` for example: write lines of class and name",
            missing.len(),
            classes.len()
        )));
    }
    let texts = classes.iter().map(|class| named[class.as_str()].to_owned());
    Ok(texts.collect())
}

/// Checks what is to be planned.
pub(crate) fn planning(
    source: &str,
    destination: &str,
    args: &cli::RecipeArgs,
    on_error: cli::OnError,
    growth: &cli::GrowthArgs,
    dry: &cli::DryRunArgs,
    memory: u64,
) -> Result<Planning> {
    let mut recipe = recipe(args)?;
    let keys = read_files(&args.select, &mut recipe.select, memory)?;
    Ok(Planning {
        keep_faulty: on_error == cli::OnError::Skip,
        growth: Growth {
            on_change: match growth.on_change {
                cli::OnChange::Refuse => OnChange::Refuse,
                cli::OnChange::Rebuild => OnChange::Rebuild,
                cli::OnChange::Keep => OnChange::Keep,
            },
            min_new_samples: growth.min_new_samples,
            full: growth.full,
            compact: false,
            frozen: growth.classes == cli::Classes::Frozen,
            gone: gone(growth)?,
        },
        files: Files {
            labels: args.labels.clone(),
            synsets: args.synsets.clone(),
            class_names: args.class_names.clone(),
            columns: columns(args.file_column.as_ref(), args.label_column.as_ref()),
        },
        layout: match (args.layout, recipe.layout) {
            (cli::Layout::Auto, Arrangement::ImageFolder) => None,
            (_, layout) => Some(layout),
        },
        keys,
        estimate: estimate(dry.price.as_deref(), dry.probe, dry.dry_run)?,
        ..Planning::new(source, destination, recipe)
    })
}

/// What may be gone of what is published; an empty environment twin says nothing.
fn gone(args: &cli::GrowthArgs) -> Result<AllowedRemovals> {
    let share = |text: &str| {
        parse_share(text).ok_or_else(|| {
            Error::usage(format!(
                "--max-gone `{text}`: write a number of samples or a part of them, for example 500 or 1%"
            ))
        })
    };
    let samples = args.max_gone.as_deref().filter(|text| !text.is_empty());
    Ok(AllowedRemovals {
        samples: samples.map(share).transpose()?.unwrap_or_default(),
        splits: given(&args.allow_gone_split),
    })
}
