//! Samples in the order that they are packed in: shuffled by their keys, or sorted by them.

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::base::error::{Error, Result};
use crate::format::{About, Layout, RecipeLayout as _};
use crate::model::listing::{Problem, ProblemKind, render};
use crate::model::recipe::{Missing, Names, Order, Recipe, filling};
use crate::model::sample::Sample;
use crate::plan::columns;
use crate::source::samples::{Entry, Scan};

/// Samples in the order of their recipe, not cut into shards yet.
pub(crate) struct Ordered {
    pub(super) scan: Scan,
    pub(super) recipe: Recipe,
    pub(super) names: Names,
    /// [`Scan::fingerprint`] of all of them.
    pub(super) source: String,
}

impl Ordered {
    /// Orders the samples of a scan whose [`Scan::fingerprint`] is `source`.
    ///
    /// `texts` are what the classes are called for people: empty, or one for each class.
    pub(crate) fn new(
        mut scan: Scan,
        recipe: Recipe,
        texts: Vec<String>,
        source: String,
    ) -> Result<Self> {
        let names = Names {
            classes: scan.classes.clone(),
            texts,
            sidecars: scan.notes.sidecars.keys().cloned().collect(),
            columns: columns::own(&scan, &recipe)?,
        };
        if recipe.missing == Missing::Fail {
            refuse_missing(&scan)?;
        }
        order(&mut scan, &recipe, &names)?;
        Ok(Self {
            scan,
            recipe,
            names,
            source,
        })
    }

    /// The names that all samples share.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Adds fields to those that samples may have: shards that stay have them.
    pub(crate) fn keep_sidecars(&mut self, before: &[String]) {
        let sidecars = &mut self.names.sidecars;
        sidecars.extend_from_slice(before);
        sidecars.sort();
        sidecars.dedup();
    }

    /// Number of samples.
    pub(crate) fn len(&self) -> usize {
        self.scan.entries.len()
    }

    /// The names of the splits, sorted.
    pub(crate) fn splits(&self) -> &[String] {
        &self.scan.splits
    }

    /// Number of samples of a split; none if there is no such split.
    pub(crate) fn of_split(&self, split: &str) -> u64 {
        let Ok(number) = self
            .scan
            .splits
            .binary_search_by(|known| known.as_str().cmp(split))
        else {
            return 0;
        };
        let before = |most: usize| {
            let entries = &self.scan.entries;
            entries.partition_point(|entry| usize::from(entry.split) < most)
        };
        (before(number + 1) - before(number)) as u64
    }

    /// The sample of this number.
    pub(crate) fn sample(&self, number: u32) -> Sample {
        self.scan.sample(&self.scan.entries[number as usize])
    }

    /// The number of the sample with this key.
    pub(crate) fn find(&self, split: &str, key: &str) -> Option<u32> {
        let split = self
            .scan
            .splits
            .binary_search_by(|known| known.as_str().cmp(split));
        let split = split.ok()?;
        let rank = match self.recipe.order {
            Order::Shuffled => rank(self.recipe.seed, key),
            Order::Listed => 0,
        };
        let entries = &self.scan.entries;
        let found = entries.binary_search_by(|entry| {
            (usize::from(entry.split), entry.rank)
                .cmp(&(split, rank))
                .then_with(|| self.scan.key(entry).as_str().cmp(key))
        });
        found.ok().map(|number| number as u32)
    }
}

/// Refuses a source of which only some samples have a sidecar file.
fn refuse_missing(scan: &Scan) -> Result<()> {
    let samples = scan.entries.len() as u64;
    let mut text = String::new();
    for (name, count) in &scan.notes.sidecars {
        if *count == samples {
            continue;
        }
        let lacks = |sample: &Sample| !sample.fields.iter().any(|field| field.name == *name);
        let without = scan
            .entries
            .iter()
            .map(|entry| scan.sample(entry))
            .find(lacks);
        let path = without
            .as_ref()
            .and_then(Sample::image)
            .map(|image| image.path.to_string());
        text.push_str(&format!(
            "\n  {} of {samples} samples have no `{name}` file, {} for example",
            samples - count,
            path.unwrap_or_default()
        ));
    }
    match text.is_empty() {
        true => Ok(()),
        false => Err(Error::source_data(format!(
            "samples have different fields, which several readers cannot take; nothing was written{text}\n  \
             add or remove files, leave some out with `--exclude`, or say `--missing-fields fill` for empty ones or `--missing-fields keep`"
        ))),
    }
}

/// Bytes of a sample in its shard, as far as they are known before it is read.
fn sample_bytes(
    recipe: &Recipe,
    layout: &dyn Layout,
    sample: &Sample,
    split: &str,
    names: &Names,
) -> u64 {
    let about = About::of(sample, split, None, names);
    let read = sample
        .fields
        .iter()
        .map(|field| (field.name.as_str(), field.size));
    let filled = recipe.filled(&sample.fields, names).into_iter();
    let filled = filled.map(|name| (name, filling(name).len() as u64));
    let fields: Vec<_> = read.chain(filled).collect();
    layout.sample_bytes(&about, &fields)
}

/// Where the key comes in the shuffled order.
fn rank(seed: u64, key: &str) -> u64 {
    let digest = Sha256::new()
        .chain_update(seed.to_le_bytes())
        .chain_update(key)
        .finalize();
    u64::from_be_bytes(std::array::from_fn(|i| digest[i]))
}

/// Sorts the entries by split and then in the recipe's order; refuses two samples with one key.
fn order(scan: &mut Scan, recipe: &Recipe, names: &Names) -> Result<()> {
    let mut entries = std::mem::take(&mut scan.entries);
    let known = &*scan;
    let layout = recipe.layout();
    // Before they are shuffled, entries lie beside their names in memory.
    entries.par_iter_mut().for_each(|entry| {
        let sample = known.sample(entry);
        let split = &known.splits[usize::from(entry.split)];
        entry.bytes = sample_bytes(recipe, layout.as_ref(), &sample, split, names);
        if recipe.order == Order::Shuffled {
            entry.rank = rank(recipe.seed, &sample.key);
        }
    });
    let compare = |a: &Entry, b: &Entry| {
        let by_rank = (a.split, a.rank).cmp(&(b.split, b.rank));
        by_rank.then_with(|| known.compare_keys(a, b))
    };
    match recipe.order {
        Order::Shuffled => entries.par_sort_unstable_by(compare),
        // Entries come grouped by directory and sorted in each, which a merging sort is quick with.
        Order::Listed => entries.par_sort_by(compare),
    }
    let same = |pair: &&[Entry]| {
        pair[0].rank == pair[1].rank && known.compare_keys(&pair[0], &pair[1]).is_eq()
    };
    let mut problems: Vec<Problem> = entries
        .windows(2)
        .filter(same)
        .map(|pair| {
            let path = |entry| known.sample(entry).image().map(|image| image.path.clone());
            let other = path(&pair[1]).unwrap_or_default();
            Problem::new(
                ProblemKind::Collision,
                path(&pair[0]).unwrap_or_default(),
                format!(", {other}"),
            )
        })
        .collect();
    scan.entries = entries;
    if problems.is_empty() {
        return Ok(());
    }
    Err(Error::source_data(format!(
        "two samples with one key, nothing was written{}",
        render(&mut problems)
    )))
}
