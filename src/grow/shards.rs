//! Which published shards stay, which are made again under new names, and which go, with the samples that are then in no shard.

use std::collections::{BTreeMap, HashSet};

use crate::base::error::{Error, Result};
use crate::format::RecipeLayout as _;
use crate::grow::compare::ShardChanges;
use crate::grow::numbering::number_of;
use crate::grow::options::{Growth, OnChange};
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::name::ObjectName;
use crate::model::recipe::Cut;
use crate::plan::select::RebuiltShard;
use crate::store::Sink;

/// What happens to the published shards.
#[derive(Debug, Default)]
pub(super) struct ShardChoice {
    /// The shards that stay or whose place others take, in order, by split.
    pub(super) places: BTreeMap<String, Vec<ObjectName>>,
    /// The shards that are made again.
    pub(super) rebuilt: Vec<RebuiltShard>,
    /// How many stay as they are.
    pub(super) kept: u64,
    /// How many go because their samples are packed with others, into larger shards.
    pub(super) merged: u64,
    /// How many samples these have.
    pub(super) merged_samples: u64,
    /// How many go because none of their samples is left.
    pub(super) emptied: u64,
    /// By number of a sample in the source, whether a shard that stays or is made again has it.
    covered: Vec<bool>,
}

impl ShardChoice {
    /// Decides for each shard of the manifest, of which `changes` says what became of its samples. The source has `samples` samples, and
    /// the next plan is of this generation.
    pub(super) fn new(
        sink: &dyn Sink,
        manifest: &Manifest,
        changes: &[ShardChanges],
        samples: usize,
        generation: u64,
        growth: &Growth,
    ) -> Result<Self> {
        let merged = match growth.compact {
            true => mergeable(manifest, changes),
            false => HashSet::new(),
        };
        let extension = manifest.recipe.extension();
        let mut choice = Self {
            covered: vec![false; samples],
            ..Self::default()
        };
        for ((split, shard), changes) in manifest.shards().zip(changes) {
            if merged.contains(shard.name.as_str()) {
                choice.merged += 1;
                choice.merged_samples += changes.present.len() as u64;
                continue;
            }
            for &number in &changes.present {
                choice.covered[number as usize] = true;
            }
            if !changes.is_any() || growth.on_change != OnChange::Rebuild {
                choice.kept += 1;
            } else if changes.present.is_empty() {
                choice.emptied += 1;
                continue;
            } else {
                let number = number_of(&shard.name, split)
                    .ok_or_else(|| cannot_be_renamed(sink, &shard.name))?;
                let name = format!("data/{split}-{number:05}-g{generation}.{extension}");
                choice.rebuilt.push(RebuiltShard {
                    name: ObjectName::new(name)?,
                    replaces: ObjectName::new(shard.name.clone())?,
                    split: split.to_owned(),
                    entries: changes.present.clone(),
                });
            }
            let of_split = choice.places.entry(split.to_owned()).or_default();
            of_split.push(ObjectName::new(shard.name.clone())?);
        }
        Ok(choice)
    }

    /// Whether what is published stays as it is.
    pub(super) fn keeps_all(&self) -> bool {
        self.rebuilt.is_empty() && self.merged + self.emptied == 0
    }

    /// Numbers of the samples that are in no shard that stays or is made again, ascending.
    pub(super) fn unpacked(&self) -> Vec<u32> {
        let numbered = (0..).zip(&self.covered);
        let unpacked = numbered.filter(|(_, covered)| !**covered);
        unpacked.map(|(number, _)| number).collect()
    }
}

fn cannot_be_renamed(sink: &dyn Sink, shard: &str) -> Error {
    Error::source_data(format!(
        "{sink}: {shard} is not named as this program names shards: it cannot be made again under a new name, start over \
         with `--full`"
    ))
}

/// The shards of each split that are less than half as large as they could be, where there are at least two of them. Those that hold
/// samples that changed are left alone.
fn mergeable<'m>(manifest: &'m Manifest, changes: &[ShardChanges]) -> HashSet<&'m str> {
    let mut small: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let cuts = cuts(manifest);
    for ((split, shard), change) in manifest.shards().zip(changes) {
        let is_small = match cuts.get(split).copied().unwrap_or(manifest.recipe.cut) {
            Cut::ShardBytes(limit) => unpacked_bytes(shard) * 2 < limit,
            Cut::ShardSamples(limit) => shard.samples * 2 < limit,
            Cut::Shards(_) => false,
        };
        if is_small && !change.is_any() {
            small.entry(split).or_default().push(&shard.name);
        }
    }
    small
        .into_values()
        .filter(|names| names.len() > 1)
        .flatten()
        .collect()
}

/// How new samples are cut where the recipe says a number of shards: into such as large as the largest there is.
pub(super) fn cuts(manifest: &Manifest) -> BTreeMap<String, Cut> {
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

/// Length of a shard before compression.
fn unpacked_bytes(shard: &ShardEntry) -> u64 {
    shard.unpacked_bytes.unwrap_or(shard.bytes)
}
