//! What a source that grew or changed since it was published comes to: which shards stay, which are made again, and which are new.
//!
//! The listing is compared with what the plans of the published shards say of every sample: nothing else is read, and what did not change
//! is not written again. Classes keep their numbers, and a name that was ever planned is not used a second time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::base::units::{count_text, counted};
use crate::grow::removals::{Allowed, Gone};
use crate::model::history::Changes;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::name::ObjectName;
use crate::model::offenders::{First, NAMED};
use crate::model::problems::Problems;
use crate::model::recipe::{Cut, Missing};
use crate::model::sample::{Sample, SourcePath};
use crate::plan::budget::lists_at_once;
use crate::plan::draft::{Base, Draft, Next, Ordered, Plan, Rebuilt};
use crate::state::stored::{self as resume, Stored};
use crate::store::{Sink, at_once};

/// What happens to shards whose samples changed or went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// The source is refused.
    #[default]
    Refuse,
    /// They are made again, under new names.
    Rebuild,
    /// They stay as they are.
    Keep,
}

/// How to go on from a published dataset.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    /// What happens to shards whose samples changed or went.
    pub on_change: OnChange,
    /// Fewer new samples than this wait for more.
    pub min_new_samples: u64,
    /// Nothing that is published stays.
    pub full: bool,
    /// Small shards are merged.
    pub compact: bool,
    /// New classes are refused.
    pub frozen: bool,
    /// What may be gone, where it goes from the dataset too.
    pub gone: Allowed,
}

/// What is to be done about it.
pub enum Grown {
    /// Nothing.
    Same(Changes),
    /// This.
    Draft(Box<Draft>, Changes),
}

/// What became of the samples of one published shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fate {
    /// Numbers of those that are in the source, in the order of the shard.
    present: Vec<u32>,
    /// How many of these are not as they were packed.
    changed: u64,
    /// How many are not in the source any more.
    gone: u64,
}

impl Fate {
    fn is_touched(&self) -> bool {
        self.changed > 0 || self.gone > 0
    }
}

/// What became of all published samples.
#[derive(Default)]
struct Fates {
    /// By shard, in the order of the manifest.
    shards: Vec<Fate>,
    /// Those that are not as they were packed.
    changed: First<SourcePath>,
    gone: Gone,
}

/// What a source is compared with.
#[derive(Clone, Copy)]
pub struct Published<'a> {
    /// The dataset.
    pub sink: &'a dyn Sink,
    /// What is published of it.
    pub manifest: &'a Manifest,
    /// The plan that was claimed last, whether it was published or not.
    pub newest: &'a Plan,
}

/// Compares an ordered source with what is published, and drafts the next plan. All that changed or is gone is told to `problems`.
pub fn grow(
    published: Published<'_>,
    mut ordered: Ordered,
    new_classes: Vec<String>,
    growth: &Growth,
    problems: &Problems,
    memory: u64,
    stop: &Stop,
) -> Result<Grown> {
    let Published { sink, manifest, .. } = published;
    check_fields(sink, manifest, &ordered, &new_classes, growth)?;
    let fates = match growth.full {
        true => Fates {
            gone: fewer(manifest, &ordered),
            ..Fates::default()
        },
        false => {
            ordered.keep_sidecars(&manifest.names.sidecars);
            fates(sink, manifest, &ordered, problems, memory, stop)?
        }
    };
    decide(published, ordered, &fates, new_classes, growth)
}

/// By how many samples each split is smaller than it was published: other options may well have made other samples of the same files.
fn fewer(manifest: &Manifest, ordered: &Ordered) -> Gone {
    let mut gone = Gone::default();
    for split in &manifest.splits {
        let now = ordered.of_split(&split.name);
        gone.count_split(
            &split.name,
            split.samples,
            split.samples.saturating_sub(now),
        );
    }
    gone
}

/// Refuses what shards that stay have no place for.
fn check_fields(
    sink: &dyn Sink,
    manifest: &Manifest,
    ordered: &Ordered,
    new_classes: &[String],
    growth: &Growth,
) -> Result<()> {
    if growth.frozen && !new_classes.is_empty() {
        return Err(Error::source_data(format!(
            "{} new classes, nothing was written: {}\n  remove them, or drop `--classes frozen`",
            new_classes.len(),
            some(new_classes)
        )));
    }
    if growth.full {
        return Ok(());
    }
    let refused = |what: String| {
        Err(Error::source_data(format!(
            "{sink}: {what}, and shards that stay have no place for that; nothing was written: start over with `--full`"
        )))
    };
    let (before, now) = (&manifest.names, ordered.names());
    if before.sidecars != now.sidecars && manifest.recipe.missing != Missing::Keep {
        let text = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        return refused(format!(
            "samples have other fields than those that are published (before {}, now {})",
            text(&before.sidecars),
            text(&now.sidecars)
        ));
    }
    if !new_classes.is_empty() && manifest.recipe.layout().lists_classes() {
        return refused(format!("new classes ({})", some(new_classes)));
    }
    if before.texts.is_empty() != now.texts.is_empty() {
        return Err(Error::usage(format!(
            "{sink} was made {} `--class-names`: give the same, or start over with `--full`",
            if now.texts.is_empty() {
                "with"
            } else {
                "without"
            }
        )));
    }
    if now.texts.get(..before.texts.len()) != Some(&before.texts[..]) {
        return refused("classes are called otherwise".to_owned());
    }
    Ok(())
}

/// The first of some names, for a message.
fn some(names: &[String]) -> String {
    let first = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Finds every published sample in the source.
fn fates(
    sink: &dyn Sink,
    manifest: &Manifest,
    ordered: &Ordered,
    problems: &Problems,
    memory: u64,
    stop: &Stop,
) -> Result<Fates> {
    let digests: HashSet<&str> = manifest
        .shards()
        .map(|(_, shard)| manifest.plan_of(shard))
        .collect();
    let plans = resume::plans(sink, &digests)?;
    let numbers: HashMap<(&str, &str), usize> = plans
        .iter()
        .flat_map(|(digest, stored)| {
            let shards = stored.plan.shards.iter().enumerate();
            shards.map(move |(number, shard)| ((digest.as_str(), shard.name.as_str()), number))
        })
        .collect();
    let planned = |shard: &ShardEntry| {
        let digest = manifest.plan_of(shard);
        let number = numbers.get(&(digest, shard.name.as_str()));
        plans.get(digest).zip(number.copied())
    };
    let shards: Vec<(&str, &ShardEntry)> = manifest.shards().collect();
    let lists = shards.iter().filter_map(|(_, shard)| planned(shard));
    let depth = depth(sink, memory, ordered, lists);
    let all: Mutex<(First<SourcePath>, Gone)> = Mutex::default();
    let fates = at_once(depth, &shards, |(split, shard)| {
        stop.check()?;
        let Some((stored, number)) = planned(shard) else {
            return Err(Error::new(
                Kind::Damage,
                format!(
                    "{sink}: the plan of {} is lost, so that nothing says what changed: start over with `--full`",
                    shard.name
                ),
            ));
        };
        let (mut changed, mut gone) = <(First<SourcePath>, Gone)>::default();
        let list = (stored, number);
        let fate = fate(sink, list, split, ordered, &mut |sample, became| {
            gone.count(split, sample, became == Became::Gone);
            let what = match became {
                Became::Unchanged => return,
                Became::Changed => "changed",
                Became::Gone => "gone",
            };
            let path = sample.path();
            problems.tell(what, &path, split);
            if became == Became::Changed {
                changed.push(path);
            }
        })?;
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.0.merge(changed);
        all.1.merge(gone);
        Ok(fate)
    })?;
    let (changed, gone) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Fates {
        shards: fates,
        changed,
        gone,
    })
}

/// The list of samples of a shard: the plan that has it, and the shard's number in that.
type List<'s> = (&'s Stored, usize);

/// How many lists of samples, of those that are to be read, are read at once.
fn depth<'s>(
    sink: &dyn Sink,
    memory: u64,
    ordered: &Ordered,
    lists: impl Iterator<Item = List<'s>>,
) -> usize {
    let most = sink.requests().max(rayon::current_num_threads());
    let bytes = lists.map(|(stored, number)| resume::list_bytes(stored, number));
    let largest = bytes.max().unwrap_or(0);
    lists_at_once(memory, ordered.len() as u64, largest, most)
}

/// What became of a published sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    Unchanged,
    Changed,
    Gone,
}

/// What became of the samples of a list, each of which is told.
fn fate(
    sink: &dyn Sink,
    (stored, number): List<'_>,
    split: &str,
    ordered: &Ordered,
    tell: &mut dyn FnMut(&Sample, Became),
) -> Result<Fate> {
    let mut fate = Fate::default();
    resume::each_sample(sink, stored, number, |sample| {
        let became = match ordered.find(split, &sample.key) {
            None => {
                fate.gone += 1;
                Became::Gone
            }
            Some(number) => {
                fate.present.push(number);
                match ordered.sample(number) == sample {
                    true => Became::Unchanged,
                    false => {
                        fate.changed += 1;
                        Became::Changed
                    }
                }
            }
        };
        tell(&sample, became);
    })?;
    Ok(fate)
}

/// The number in `data/train-00012-g3.tar`, if this is a name that we give.
fn number_of(name: &str, split: &str) -> Option<u64> {
    let rest = name.strip_prefix("data/")?.strip_prefix(split)?;
    let rest = rest.strip_prefix('-')?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..end].parse().ok()
}

fn decide(
    published: Published<'_>,
    ordered: Ordered,
    all: &Fates,
    new_classes: Vec<String>,
    growth: &Growth,
) -> Result<Grown> {
    let Published {
        sink,
        manifest,
        newest,
    } = published;
    let fates = &all.shards[..];
    let shards: Vec<(&str, &ShardEntry)> = manifest.shards().collect();
    let mut changes = Changes {
        new_classes,
        changed: fates.iter().map(|fate| fate.changed).sum(),
        deleted: fates.iter().map(|fate| fate.gone).sum(),
        ..Changes::default()
    };
    let stale = changes.changed + changes.deleted;
    if stale > 0 && fates.iter().all(|fate| fate.present.is_empty()) {
        return Err(Error::new(
            Kind::Conflict,
            format!(
                "{sink}: not one of its {} samples is in the source, nothing was written: check that it is the right one, or start over with `--full`",
                count_text(changes.deleted)
            ),
        ));
    }
    if stale > 0 && growth.on_change == OnChange::Refuse {
        return Err(refusal(sink, all, &changes));
    }
    // What is kept is not lost.
    if growth.full || growth.on_change == OnChange::Rebuild {
        let left = |split: &str| ordered.of_split(split);
        let classes = &manifest.names.classes;
        all.gone.check(&sink, &growth.gone, left, classes)?;
        for (class, gone) in all.gone.classes() {
            let name = classes.get(class as usize).map_or("?", String::as_str);
            tracing::warn!(
                "class `{name}`: all of its {} are gone from the source",
                counted(gone, "published sample")
            );
        }
    }
    let generation = newest.generation + 1;
    let extension = manifest.recipe.extension();
    let merged = match growth.compact {
        true => small(manifest, fates),
        false => HashSet::new(),
    };
    let mut covered = vec![false; ordered.len()];
    let mut rebuilt = Vec::new();
    let mut dropped = 0;
    let mut stay: BTreeMap<String, Vec<ObjectName>> = BTreeMap::new();
    for ((split, shard), fate) in shards.iter().zip(fates) {
        if merged.contains(shard.name.as_str()) {
            dropped += 1;
            changes.merged += 1;
            continue;
        }
        for &number in &fate.present {
            covered[number as usize] = true;
        }
        if fate.is_touched() && growth.on_change == OnChange::Rebuild {
            if fate.present.is_empty() {
                dropped += 1;
                continue;
            }
            let Some(number) = number_of(&shard.name, split) else {
                return Err(Error::source_data(format!(
                    "{sink}: {} is not named as this program names shards: it cannot be made again under a new name, start over \
                     with `--full`",
                    shard.name
                )));
            };
            changes.rebuilt += 1;
            rebuilt.push(Rebuilt {
                name: ObjectName::new(format!(
                    "data/{split}-{number:05}-g{generation}.{extension}"
                ))?,
                replaces: ObjectName::new(shard.name.clone())?,
                split: (*split).to_owned(),
                entries: fate.present.clone(),
            });
        } else {
            changes.kept += 1;
        }
        let of_split = stay.entry((*split).to_owned()).or_default();
        of_split.push(ObjectName::new(shard.name.clone())?);
    }
    let fresh: Vec<u32> = (0..ordered.len() as u32)
        .filter(|&number| !covered[number as usize])
        .collect();
    let of_merged: usize = shards
        .iter()
        .zip(fates)
        .filter(|((_, shard), _)| merged.contains(shard.name.as_str()))
        .map(|(_, fate)| fate.present.len())
        .sum();
    changes.new = (fresh.len() - of_merged) as u64;
    let nothing_else = rebuilt.is_empty() && dropped == 0 && !growth.full;
    if nothing_else && changes.new < growth.min_new_samples {
        changes.waiting = changes.new;
    }
    if nothing_else && (fresh.is_empty() || changes.waiting > 0) {
        return Ok(Grown::Same(changes));
    }
    let mut splits: Vec<String> = stay.keys().chain(ordered.splits()).cloned().collect();
    splits.sort();
    splits.dedup();
    let next = Next {
        generation,
        base: Some(Base {
            plan: manifest.plan.clone(),
            shards: stay,
        }),
        splits,
        // Those that are made again have the state of now.
        stale: match growth.on_change {
            OnChange::Keep => stale,
            _ => 0,
        },
        numbers: free_numbers(manifest, newest),
        rebuilt,
        fresh: (!growth.full).then_some(fresh),
        cuts: match growth.full {
            true => BTreeMap::new(),
            false => cuts(manifest),
        },
    };
    let draft = ordered.cut_next(next)?;
    Ok(Grown::Draft(Box::new(draft), changes))
}

/// Whether all samples of an unfinished plan are as they were when it was made, so that it can be finished. The whole run is to stay within
/// `memory` bytes.
pub fn still_holds(
    sink: &dyn Sink,
    stored: &Stored,
    ordered: &Ordered,
    memory: u64,
    stop: &Stop,
) -> Result<bool> {
    let shards: Vec<usize> = (0..stored.plan.shards.len()).collect();
    let lists = shards.iter().map(|&number| (stored, number));
    let depth = depth(sink, memory, ordered, lists);
    let hold = at_once(depth, &shards, |&number| {
        stop.check()?;
        let split = &stored.plan.shards[number].split;
        let list = (stored, number);
        Ok(!fate(sink, list, split, ordered, &mut |_, _| {})?.is_touched())
    })?;
    Ok(hold.into_iter().all(|holds| holds))
}

/// The plan of a destination where a plan was stored and nothing published, which this one takes the place of.
pub fn start_over(newest: &Plan, ordered: Ordered) -> Result<Draft> {
    let next = Next {
        generation: newest.generation + 1,
        splits: ordered.splits().to_vec(),
        numbers: planned_numbers(newest),
        ..Next::default()
    };
    ordered.cut_next(next)
}

fn refusal(sink: &dyn Sink, fates: &Fates, changes: &Changes) -> Error {
    let mut text = format!(
        "{sink}: {} changed and {} are gone since they were published, nothing was written: restore them, or say what is to become \
         of their shards: `--on-change rebuild` makes them again, `--on-change keep` leaves them as they are",
        counted(changes.changed, "sample"),
        count_text(changes.deleted)
    );
    let lists = [("changed", &fates.changed), ("gone   ", fates.gone.paths())];
    for (what, paths) in lists {
        text.push_str(&paths.lines(&format!("  {what} "), ToString::to_string));
    }
    Error::source_data(text)
}

/// The shards of each split that are less than half as large as they could be, where there are at least two of them. Those that hold
/// samples that changed are left alone.
fn small<'m>(manifest: &'m Manifest, fates: &[Fate]) -> HashSet<&'m str> {
    let mut small: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let cuts = cuts(manifest);
    for ((split, shard), fate) in manifest.shards().zip(fates) {
        let is_small = match cuts.get(split).copied().unwrap_or(manifest.recipe.cut) {
            Cut::ShardBytes(limit) => unpacked_bytes(shard) * 2 < limit,
            Cut::ShardSamples(limit) => shard.samples * 2 < limit,
            Cut::Shards(_) => false,
        };
        if is_small && !fate.is_touched() {
            small.entry(split).or_default().push(&shard.name);
        }
    }
    small
        .into_values()
        .filter(|names| names.len() > 1)
        .flatten()
        .collect()
}

fn unpacked_bytes(shard: &ShardEntry) -> u64 {
    shard.unpacked_bytes.unwrap_or(shard.bytes)
}

/// How new samples are cut where the recipe says a number of shards: into such as large as the largest there is.
fn cuts(manifest: &Manifest) -> BTreeMap<String, Cut> {
    let Cut::Shards(_) = manifest.recipe.cut else {
        return BTreeMap::new();
    };
    let largest = |shards: &[ShardEntry]| shards.iter().map(unpacked_bytes).max();
    let of_all = manifest
        .splits
        .iter()
        .filter_map(|s| largest(&s.shards))
        .max();
    manifest
        .splits
        .iter()
        .filter_map(|split| {
            let bytes = largest(&split.shards).or(of_all)?;
            Some((split.name.clone(), Cut::ShardBytes(bytes)))
        })
        .collect()
}

/// The first number of each split that neither a published shard has nor one that was ever planned.
fn free_numbers(manifest: &Manifest, newest: &Plan) -> BTreeMap<String, u64> {
    let mut numbers = planned_numbers(newest);
    for (split, shard) in manifest.shards() {
        count(&mut numbers, split, &shard.name);
    }
    numbers
}

/// The same where nothing is published.
fn planned_numbers(newest: &Plan) -> BTreeMap<String, u64> {
    let mut numbers = newest.numbers.clone();
    for shard in &newest.shards {
        count(&mut numbers, &shard.split, &shard.name);
    }
    numbers
}

fn count(numbers: &mut BTreeMap<String, u64>, split: &str, name: &str) {
    if let Some(number) = number_of(name, split) {
        let free = numbers.entry(split.to_owned()).or_default();
        *free = (*free).max(number.saturating_add(1));
    }
}
