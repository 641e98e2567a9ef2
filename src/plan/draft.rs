//! The plan: which samples go into which shard, in which order, under which recipe. Pure values; stored by [`crate::state::stored`].
//!
//! A plan's digest covers everything that can change a byte of the output: the recipe, the class list, and every source file with
//! its path and size. Where the source lies, how many threads work and what is skipped are no part of it. Outputs carry the
//! digest, so a copy of the source gives the same bytes. A plan's id covers the versions of the files too: the stored plan and the
//! claim go by it, so that nobody goes on packing a source that was written to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io::Write;
use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::base::error::{Error, Kind, Result};
use crate::base::text::hex;
use crate::format::{About, Layout};
use crate::model::listing::{Problem, ProblemKind, render};
use crate::model::name::ObjectName;
use crate::model::recipe::{Cut, Missing, Names, Order, Recipe, filling};
use crate::model::sample::{Field, Sample, SourcePath};
use crate::plan::worker::Worker;
use crate::source::scan::{Entry, Notes, Scan};

/// One shard to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardPlan {
    /// Name below the destination.
    pub name: ObjectName,
    /// Split it belongs to.
    pub split: String,
    /// The published shard whose place it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ObjectName>,
    /// Samples in it.
    pub samples: u64,
    /// Its length in bytes, not compressed, if nothing is skipped: exact, but for what only the headers of images decide.
    pub bytes: u64,
    /// Bytes of source files in it.
    pub source_bytes: u64,
    /// SHA-256 of its samples' lines.
    pub listing: String,
    /// Length of those lines.
    pub listing_bytes: u64,
    /// SHA-256 of those lines without the versions of the files.
    pub unversioned: String,
}

/// The published dataset that a plan goes on from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Digest of the plan that it was last published under.
    pub plan: String,
    /// The shards of it that stay or whose place others take, in order, by split: none if all is made anew.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shards: BTreeMap<String, Vec<ObjectName>>,
}

fn first_generation() -> u64 {
    1
}

fn is_first_generation(generation: &u64) -> bool {
    *generation == 1
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Always `shardpack-plan`.
    pub kind: String,
    /// Version of this form, 1.
    pub version: u32,
    /// Its number among the plans of the destination, from 1.
    #[serde(
        default = "first_generation",
        skip_serializing_if = "is_first_generation"
    )]
    pub generation: u64,
    /// What it goes on from, if something is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// [`Scan::fingerprint`] of the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Samples whose files changed or went since they were packed, and that stay as they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stale: u64,
    /// First number that no shard has, by split; empty in a first plan, whose shards say it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, u64>,
    /// The options.
    pub recipe: Recipe,
    /// What labels and fields are called.
    #[serde(flatten)]
    pub names: Names,
    /// Names of the splits that the dataset then has.
    pub splits: Vec<String>,
    /// The shards to be made, split by split.
    pub shards: Vec<ShardPlan>,
}

/// Value of [`Plan::kind`].
pub const PLAN_KIND: &str = "shardpack-plan";

impl Plan {
    /// SHA-256 of the plan in its serialised form. Files that were written to since make another.
    pub fn id(&self) -> String {
        // A plan holds strings and numbers only: serialising it cannot fail.
        hex(&Sha256::digest(
            serde_json::to_vec(self).unwrap_or_default(),
        ))
    }

    /// SHA-256 of the plan without what comes from the versions of source files. A copy of the source makes the same.
    pub fn digest(&self) -> String {
        let mut plan = self.clone();
        plan.source.clear();
        plan.stale = 0;
        for shard in &mut plan.shards {
            shard.listing.clear();
            shard.listing_bytes = 0;
        }
        plan.id()
    }

    /// Samples in all shards.
    pub fn samples(&self) -> u64 {
        self.shards.iter().map(|shard| shard.samples).sum()
    }

    /// Bytes of all shards.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    /// Whether it goes on from what was published under the plan of this digest.
    pub fn goes_on_from(&self, digest: &str) -> bool {
        self.base.as_ref().is_some_and(|base| base.plan == digest)
    }

    /// The shards of the dataset that this makes, in order, by split: those that stay, those that take the place of others, and new ones.
    pub fn dataset(&self) -> BTreeMap<&str, Vec<&str>> {
        let made = self.shards.iter();
        let places: HashMap<&str, &str> = made
            .clone()
            .filter_map(|shard| Some((shard.replaces.as_deref()?, shard.name.as_str())))
            .collect();
        let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (split, stay) in self.base.iter().flat_map(|base| &base.shards) {
            let stay = stay.iter().map(ObjectName::as_str);
            let stay = stay.map(|name| places.get(name).copied().unwrap_or(name));
            names.insert(split, stay.collect());
        }
        for shard in made.filter(|shard| shard.replaces.is_none()) {
            names.entry(&shard.split).or_default().push(&shard.name);
        }
        names
    }

    /// The shards that one worker packs, in order: about as many bytes as every other worker has.
    pub fn part(&self, worker: Worker) -> Vec<usize> {
        let mut shards: Vec<usize> = (0..self.shards.len()).collect();
        // The largest first, each to the worker that has the least so far.
        shards.sort_by_key(|&shard| (Reverse(self.shards[shard].bytes), shard));
        let mut workers: BinaryHeap<_> = (0..worker.of)
            .map(|number| Reverse((0u64, number)))
            .collect();
        let mut part = Vec::new();
        for shard in shards {
            if let Some(mut least) = workers.peek_mut() {
                let Reverse((bytes, number)) = &mut *least;
                *bytes += self.shards[shard].bytes;
                if *number == worker.number {
                    part.push(shard);
                }
            }
        }
        part.sort_unstable();
        part
    }
}

/// Samples in the order of their recipe, not cut into shards yet.
pub struct Ordered {
    scan: Scan,
    recipe: Recipe,
    names: Names,
    /// [`Scan::fingerprint`] of all of them.
    source: String,
}

/// What a plan that goes on from a published dataset is to be.
#[derive(Debug, Default)]
pub struct Next {
    /// [`Plan::generation`].
    pub generation: u64,
    /// [`Plan::base`].
    pub base: Option<Base>,
    /// [`Plan::splits`].
    pub splits: Vec<String>,
    /// [`Plan::stale`].
    pub stale: u64,
    /// Numbers from which those of new shards go on, by split.
    pub numbers: BTreeMap<String, u64>,
    /// Shards that are made again, in the order of the manifest.
    pub rebuilt: Vec<Rebuilt>,
    /// Samples that are in no shard that stays; all of them if there is nothing to go on from.
    pub fresh: Option<Vec<u32>>,
    /// How those of a split are cut, where that is not as the recipe says.
    pub cuts: BTreeMap<String, Cut>,
}

/// A shard that is made again with the state that its samples have now.
#[derive(Debug)]
pub struct Rebuilt {
    /// Its new name.
    pub name: ObjectName,
    /// The shard whose place it takes.
    pub replaces: ObjectName,
    /// Its split.
    pub split: String,
    /// Its samples, in order.
    pub entries: Vec<u32>,
}

impl Ordered {
    /// Orders the samples of a scan whose [`Scan::fingerprint`] is `source`.
    ///
    /// `texts` are what the classes are called for people: empty, or one for each class.
    pub fn new(mut scan: Scan, recipe: Recipe, texts: Vec<String>, source: String) -> Result<Self> {
        let names = Names {
            classes: scan.classes.clone(),
            texts,
            sidecars: scan.notes.sidecars.keys().cloned().collect(),
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
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The options.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Adds fields to those that samples may have: shards that stay have them.
    pub fn keep_sidecars(&mut self, before: &[String]) {
        let sidecars = &mut self.names.sidecars;
        sidecars.extend_from_slice(before);
        sidecars.sort();
        sidecars.dedup();
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.scan.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.scan.entries.is_empty()
    }

    /// The names of the splits, sorted.
    pub fn splits(&self) -> &[String] {
        &self.scan.splits
    }

    /// Number of samples of a split; none if there is no such split.
    pub fn of_split(&self, split: &str) -> u64 {
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
    pub fn sample(&self, number: u32) -> Sample {
        self.scan.sample(&self.scan.entries[number as usize])
    }

    /// The number of the sample with this key.
    pub fn find(&self, split: &str, key: &str) -> Option<u32> {
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

    /// Cuts all samples into the shards of a first plan.
    pub fn cut(self) -> Result<Draft> {
        let splits = self.scan.splits.clone();
        self.cut_next(Next {
            generation: 1,
            splits,
            ..Next::default()
        })
    }

    /// Cuts samples into new shards, beside those that are made again.
    pub fn cut_next(mut self, mut next: Next) -> Result<Draft> {
        let layout = self.recipe.layout();
        let overhead = layout.overhead_bytes();
        let extension = self.recipe.extension();
        if let Some(mut fresh) = next.fresh.take() {
            // In the order they have, which is that of their splits too.
            fresh.sort_unstable();
            let all = std::mem::take(&mut self.scan.entries);
            let rebuilt = next.rebuilt.iter().flat_map(|shard| &shard.entries);
            self.scan.entries = rebuilt.chain(&fresh).map(|&i| all[i as usize]).collect();
        }
        let Scan {
            entries, splits, ..
        } = &self.scan;
        let mut made: Vec<(ShardPlan, Range<usize>)> = Vec::new();
        let shard =
            |name: ObjectName, split: &str, replaces: Option<ObjectName>, range: Range<usize>| {
                let bytes: u64 = entries[range.clone()].iter().map(|e| e.bytes).sum();
                let plan = ShardPlan {
                    name,
                    split: split.to_owned(),
                    replaces,
                    samples: range.len() as u64,
                    bytes: overhead + bytes,
                    source_bytes: 0,
                    listing: String::new(),
                    listing_bytes: 0,
                    unversioned: String::new(),
                };
                (plan, range)
            };
        let mut first_fresh = 0;
        for again in next.rebuilt {
            let range = first_fresh..first_fresh + again.entries.len();
            first_fresh = range.end;
            made.push(shard(again.name, &again.split, Some(again.replaces), range));
        }
        for (number, split) in splits.iter().enumerate() {
            let fresh = &entries[first_fresh..];
            let begin = fresh.partition_point(|e| usize::from(e.split) < number);
            let end = fresh.partition_point(|e| usize::from(e.split) <= number);
            let by = next.cuts.get(split).copied().unwrap_or(self.recipe.cut);
            let free = next.numbers.entry(split.clone()).or_default();
            for range in cut(&fresh[begin..end], |e| e.bytes, overhead, by) {
                let from = first_fresh + begin;
                let range = from + range.start..from + range.end;
                let name = ObjectName::new(format!("data/{split}-{free:05}.{extension}"))?;
                made.push(shard(name, split, None, range));
                *free += 1;
            }
        }
        // Stable, so that those made again come first in each split.
        made.sort_by(|(a, _), (b, _)| a.split.cmp(&b.split));
        let (mut shards, ranges): (Vec<ShardPlan>, Vec<_>) = made.into_iter().unzip();
        shards
            .par_iter_mut()
            .zip(&ranges)
            .for_each(|(shard, range)| sum_up(shard, samples(&self.scan, range)));
        let plan = Plan {
            kind: PLAN_KIND.to_owned(),
            version: 1,
            generation: next.generation,
            base: next.base,
            source: self.source,
            stale: next.stale,
            // A first plan's are those of its shards.
            numbers: match next.generation {
                1 => BTreeMap::new(),
                _ => next.numbers,
            },
            recipe: self.recipe,
            names: self.names,
            splits: next.splits,
            shards,
        };
        Ok(Draft {
            id: plan.id(),
            digest: plan.digest(),
            plan,
            scan: self.scan,
            ranges,
        })
    }
}

/// A plan with its samples still in the compact form of the scan.
pub struct Draft {
    /// The plan.
    pub plan: Plan,
    /// Its [`Plan::id`].
    pub id: String,
    /// Its [`Plan::digest`].
    pub digest: String,
    scan: Scan,
    /// For each shard, its entries.
    ranges: Vec<Range<usize>>,
}

impl Draft {
    /// Orders and cuts the samples of a scan into the shards of a first plan.
    ///
    /// `texts` are what the classes are called for people: empty, or one for each class.
    pub fn new(scan: Scan, recipe: Recipe, texts: Vec<String>) -> Result<Self> {
        let source = scan.fingerprint(&texts);
        Ordered::new(scan, recipe, texts, source)?.cut()
    }

    /// What was seen besides samples.
    pub fn notes(&self) -> &Notes {
        &self.scan.notes
    }

    /// Samples of each class.
    pub fn class_sizes(&self) -> &[u64] {
        &self.scan.class_sizes
    }

    /// The samples of one shard, in order.
    pub fn samples(&self, shard: usize) -> impl Iterator<Item = Sample> {
        samples(&self.scan, &self.ranges[shard])
    }

    /// Writes the samples of one shard, one JSON object a line; never holds more than one of them.
    pub fn write_lines(&self, shard: usize, out: &mut impl Write) -> std::io::Result<()> {
        let mut line = Vec::new();
        for sample in self.samples(shard) {
            set_line(&mut line, &sample)?;
            out.write_all(&line)?;
        }
        Ok(())
    }

    /// Warnings a user should see before packing.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Cut::ShardBytes(limit) = self.plan.recipe.cut {
            for (shard, plan) in self.plan.shards.iter().enumerate() {
                if plan.bytes > limit {
                    let names: Vec<_> = self.samples(shard).take(1).map(|s| s.key).collect();
                    warnings.push(format!(
                        "{}: {} bytes, over `--shard-size` {limit}: sample `{}` alone is larger; raise `--shard-size` or leave it out",
                        plan.name, plan.bytes, names.join("")
                    ));
                }
            }
        }
        if let (Cut::Shards(wanted), None) = (self.plan.recipe.cut, &self.plan.base) {
            for split in &self.plan.splits {
                let made = self
                    .plan
                    .shards
                    .iter()
                    .filter(|s| s.split == *split)
                    .count() as u64;
                if made < wanted {
                    warnings.push(format!(
                        "split `{split}`: {made} shards instead of {wanted}, because it has only {made} samples"
                    ));
                }
            }
        }
        let samples = self.scan.entries.len() as u64;
        for (name, count) in &self.scan.notes.sidecars {
            if *count < samples && self.plan.recipe.missing == Missing::Keep {
                warnings.push(format!(
                    "only {count} of {samples} samples have a `{name}` file: HuggingFace datasets wants the same fields in every sample"
                ));
            }
        }
        warnings
    }
}

/// The samples of a range of entries, in order.
fn samples(scan: &Scan, range: &Range<usize>) -> impl Iterator<Item = Sample> {
    scan.entries[range.clone()]
        .iter()
        .map(|entry| scan.sample(entry))
}

/// Makes `line` the value's JSON and a newline.
fn set_line(line: &mut Vec<u8>, value: &impl Serialize) -> serde_json::Result<()> {
    line.clear();
    serde_json::to_writer(&mut *line, value)?;
    line.push(b'\n');
    Ok(())
}

/// A sample as its line has it, but for the versions of its files.
fn unversioned(sample: &Sample) -> impl Serialize {
    #[derive(Serialize)]
    struct Unversioned<'a> {
        key: &'a str,
        label: u32,
        fields: Vec<File<'a>>,
    }
    #[derive(Serialize)]
    struct File<'a> {
        name: &'a str,
        path: &'a SourcePath,
        size: u64,
    }
    // Taken apart by name: what is added to a sample or a field must be added here, or left out on purpose.
    let Sample { key, label, fields } = sample;
    let files = fields.iter().map(|field| {
        let Field {
            name,
            path,
            size,
            version: _,
        } = field;
        let size = *size;
        File { name, path, size }
    });
    Unversioned {
        key,
        label: *label,
        fields: files.collect(),
    }
}

/// Enters into the plan of a shard what its samples come to.
fn sum_up(shard: &mut ShardPlan, samples: impl Iterator<Item = Sample>) {
    let (mut listing, mut digest) = (Sha256::new(), Sha256::new());
    let mut line = Vec::new();
    for sample in samples {
        // Strings and numbers always serialise.
        let _ = set_line(&mut line, &sample);
        listing.update(&line);
        shard.listing_bytes += line.len() as u64;
        let _ = set_line(&mut line, &unversioned(&sample));
        digest.update(&line);
        shard.source_bytes += sample.fields.iter().map(|field| field.size).sum::<u64>();
    }
    shard.listing = hex(&listing.finalize());
    shard.unversioned = hex(&digest.finalize());
}

/// The lines of these samples.
pub fn lines_of(samples: &[Sample]) -> Vec<u8> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for sample in samples {
        // Strings and numbers always serialise.
        let _ = set_line(&mut line, sample);
        lines.extend_from_slice(&line);
    }
    lines
}

/// The sample in a line of a shard's list.
pub fn parse_line(name: &str, line: &[u8]) -> Result<Sample> {
    let sample: Result<Sample, _> = serde_json::from_slice(line);
    let mut sample = sample.map_err(|error| {
        Error::new(
            Kind::Damage,
            format!(
                "{name}: the plan's list of samples cannot be read: {error}: make the plan again"
            ),
        )
    })?;
    // Grown one by one, it has room for four, which would be most of a sample's memory.
    sample.fields.shrink_to_fit();
    Ok(sample)
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

/// Cuts items of these `bytes` into shards of nearly equal size; every shard has at least one item.
pub fn cut<T>(
    items: &[T],
    bytes: impl Fn(&T) -> u64 + Copy,
    overhead: u64,
    by: Cut,
) -> Vec<Range<usize>> {
    let count = items.len() as u64;
    if count == 0 {
        return Vec::new();
    }
    let total: u64 = items.iter().map(bytes).sum();
    match by {
        Cut::Shards(shards) => spread(items, bytes, total, shards.clamp(1, count)),
        Cut::ShardSamples(limit) => {
            let shards = count.div_ceil(limit.max(1));
            (0..shards)
                .map(|i| (count * i / shards) as usize..(count * (i + 1) / shards) as usize)
                .collect()
        }
        Cut::ShardBytes(limit) => {
            let room = limit.saturating_sub(overhead).max(1);
            let mut shards = total.div_ceil(room).clamp(1, count);
            loop {
                let cuts = spread(items, bytes, total, shards);
                // A sample that is too large alone stays so with any number of shards.
                let over = |range: &Range<usize>| {
                    range.len() > 1 && items[range.clone()].iter().map(bytes).sum::<u64>() > room
                };
                let over = cuts.iter().filter(|range| over(range)).count() as u64;
                if over == 0 || shards == count {
                    return cuts;
                }
                // Growing by a part of what is over ends soon even when a few huge samples dominate.
                shards = (shards + (over / 4).max(1)).min(count);
            }
        }
    }
}

/// Cuts where the running total comes nearest to equal parts.
fn spread<T>(items: &[T], bytes: impl Fn(&T) -> u64, total: u64, shards: u64) -> Vec<Range<usize>> {
    let mut cuts = Vec::with_capacity(shards as usize);
    let mut start = 0;
    let mut at = 0;
    let mut sum = 0u64;
    for shard in 1..=shards {
        let left = (shards - shard) as usize;
        let ideal = (u128::from(total) * u128::from(shard) / u128::from(shards)) as u64;
        // At least one sample here and one for every shard to come.
        while at < items.len() - left
            && (at == start || sum + bytes(&items[at]) / 2 < ideal || left == 0)
        {
            sum += bytes(&items[at]);
            at += 1;
        }
        cuts.push(start..at);
        start = at;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::listing::{Dir, Listing};
    use crate::model::sample::Version;
    use crate::source::scan::{Rules, scan};
    use globset::GlobSet;
    use proptest::prelude::*;

    /// The draft for a class with these files, each with its size and version.
    fn draft(files: &[(&str, u64, Version)], seed: u64) -> Draft {
        let mut class = Dir::new("cat");
        for (name, size, version) in files {
            assert!(class.push(name.as_bytes(), *size, version));
        }
        let listing = Listing {
            dirs: vec![Dir::default(), class],
            ..Listing::default()
        };
        let rules = Rules {
            splits: vec![],
            labels: None,
            labels_unneeded: false,
            allow_empty: false,
            keep_faulty: false,
            include: GlobSet::empty(),
            exclude: GlobSet::empty(),
            generated: vec!["cls"],
            problems: Default::default(),
            limits: crate::model::limits::Limits::of_fields(1 << 33, "too much"),
        };
        let recipe = Recipe {
            missing: Missing::Keep,
            seed,
            cut: Cut::Shards(2),
            ..Recipe::default()
        };
        Draft::new(scan(listing, &rules, "SRC").unwrap(), recipe, vec![]).unwrap()
    }

    #[test]
    fn versions_are_in_the_id_and_not_in_the_digest() {
        let old = Version::Mtime(1_795_228_923_351_288_083);
        let names = ["1.jpg", "2.jpg", "2.txt", "3.jpg"];
        let files = |version: &Version| names.map(|name| (name, 7, version.clone()));
        let plan = draft(&files(&old), 0);
        for version in [Version::Mtime(-5), Version::ETag("d41d8cd9-12".into())] {
            let mut one = files(&old);
            one[2].2 = version.clone();
            for copy in [draft(&files(&version), 0), draft(&one, 0)] {
                assert_eq!(copy.digest, plan.digest);
                assert_ne!(copy.id, plan.id);
            }
        }
        let same = draft(&files(&old), 0);
        assert_eq!((same.id, &same.digest), (plan.id, &plan.digest));
    }

    #[test]
    fn names_sizes_and_the_recipe_are_in_the_digest() {
        let files = ["1.jpg", "2.jpg", "2.txt"].map(|name| (name, 7, Version::Mtime(1)));
        let plan = draft(&files, 0);
        let mut larger = files.clone();
        larger[1].1 = 8;
        let mut renamed = files.clone();
        renamed[2].0 = "2.json";
        // The same key, field and size from another path.
        let mut upper = files.clone();
        upper[0].0 = "1.JPG";
        for other in [
            draft(&larger, 0),
            draft(&renamed, 0),
            draft(&upper, 0),
            draft(&files[..2], 0),
            draft(&files, 1),
        ] {
            assert_ne!(other.digest, plan.digest);
        }
    }

    #[test]
    fn workers_share_all_shards_and_have_about_as_many_bytes_each() {
        let mut plan = draft(&[("1.jpg", 7, Version::Mtime(1))], 0).plan;
        let shard = |number: u64| ShardPlan {
            // Some full ones and many small ones.
            bytes: if number < 7 { 1000 } else { 90 + number },
            ..plan.shards[0].clone()
        };
        plan.shards = (0..40).map(shard).collect();
        let total = plan.bytes();
        for of in [1, 3, 16, 40, 100] {
            let parts: Vec<_> = (0..of)
                .map(|number| plan.part(Worker { number, of }))
                .collect();
            let mut all: Vec<usize> = parts.concat();
            all.sort_unstable();
            assert_eq!(all, (0..40).collect::<Vec<_>>());
            let bytes = |part: &Vec<usize>| part.iter().map(|&i| plan.shards[i].bytes).sum();
            let most: u64 = parts.iter().map(bytes).max().unwrap();
            let even = total / of as u64;
            assert!(
                most <= (even + 130).max(1000),
                "{of} workers: {most}, {even} if even"
            );
        }
    }

    #[test]
    fn shards_are_even_and_there_is_no_runt() {
        let cuts = cut(&[1024; 1000], |b| *b, 1024, Cut::ShardBytes(100 * 1024));
        assert_eq!(cuts.len(), 11);
        assert!(
            cuts.iter().all(|c| (90..=91).contains(&c.len())),
            "{cuts:?}"
        );
    }

    #[test]
    fn a_sample_over_the_shard_size_gets_a_shard_of_its_own() {
        let mut sizes = vec![100; 20];
        sizes[7] = 5000;
        let cuts = cut(&sizes, |b| *b, 0, Cut::ShardBytes(1000));
        for range in cuts {
            let sum: u64 = sizes[range.clone()].iter().sum();
            assert!(sum <= 1000 || range.len() == 1, "{range:?}");
        }
    }

    #[test]
    fn more_shards_than_samples_gives_one_sample_each() {
        assert_eq!(
            cut(&[5, 5, 5], |b| *b, 0, Cut::Shards(8)),
            [0..1, 1..2, 2..3]
        );
        assert!(cut(&[], |b| *b, 0, Cut::Shards(8)).is_empty());
    }

    proptest! {
        #[test]
        fn every_sample_is_in_exactly_one_shard(
            sizes in proptest::collection::vec(1u64..10_000, 1..300),
            by in prop_oneof![(1u64..20).prop_map(Cut::Shards), (1u64..50).prop_map(Cut::ShardSamples), (1u64..50_000).prop_map(Cut::ShardBytes)],
        ) {
            let cuts = cut(&sizes, |b| *b, 1024, by);
            let mut next = 0;
            for range in &cuts {
                prop_assert_eq!(range.start, next);
                prop_assert!(range.end > range.start);
                next = range.end;
            }
            prop_assert_eq!(next, sizes.len());
            match by {
                Cut::Shards(n) => prop_assert_eq!(cuts.len() as u64, n.min(sizes.len() as u64)),
                Cut::ShardSamples(n) => prop_assert!(cuts.iter().all(|c| c.len() as u64 <= n)),
                Cut::ShardBytes(limit) => {
                    let fits = |c: &Range<usize>| sizes[c.clone()].iter().sum::<u64>() + 1024 <= limit;
                    prop_assert!(cuts.iter().all(|c| c.len() == 1 || fits(c)));
                }
            }
        }
    }
}
