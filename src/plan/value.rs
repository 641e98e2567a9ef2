//! The plan as a value: which samples go into which shard, in which order, under which recipe. Stored by [`crate::state::storing`].
//!
//! A plan's digest covers everything that can change a byte of the output: the recipe, the class list, and every source file with
//! its path and size. Where the source lies, how many threads work and what is skipped are no part of it. Outputs carry the
//! digest, so a copy of the source gives the same bytes. A plan's id covers the versions of the files too: the stored plan and the
//! claim go by it, so that nobody goes on packing a source that was written to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::base::text::hex;
use crate::model::name::ObjectName;
use crate::model::recipe::{Names, Recipe};
use crate::model::selection::Derivation;
use crate::plan::worker::Worker;

/// One shard to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardPlan {
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
pub(crate) struct Base {
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
pub(crate) struct Plan {
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
    /// [`Scan::fingerprint`](crate::source::samples::Scan::fingerprint) of the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The dataset that the source is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived_from: Option<Derivation>,
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
pub(crate) const PLAN_KIND: &str = "shardpack-plan";

impl Plan {
    /// SHA-256 of the plan in its serialised form. Files that were written to since make another.
    pub(crate) fn id(&self) -> String {
        // A plan holds strings and numbers only: serialising it cannot fail.
        hex(&Sha256::digest(
            serde_json::to_vec(self).unwrap_or_default(),
        ))
    }

    /// SHA-256 of the plan without what comes from the versions of source files. A copy of the source makes the same.
    pub(crate) fn digest(&self) -> String {
        let mut plan = self.clone();
        plan.source.clear();
        plan.derived_from = None;
        plan.stale = 0;
        for shard in &mut plan.shards {
            shard.listing.clear();
            shard.listing_bytes = 0;
        }
        plan.id()
    }

    /// Samples in all shards.
    pub(crate) fn samples(&self) -> u64 {
        self.shards.iter().map(|shard| shard.samples).sum()
    }

    /// Bytes of all shards.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    /// Whether it goes on from what was published under the plan of this digest.
    pub(crate) fn goes_on_from(&self, digest: &str) -> bool {
        self.base.as_ref().is_some_and(|base| base.plan == digest)
    }

    /// The shards of the dataset that this makes, in order, by split: those that stay, those that take the place of others, and new ones.
    pub(crate) fn dataset(&self) -> BTreeMap<&str, Vec<&str>> {
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
    pub(crate) fn part(&self, worker: Worker) -> Vec<usize> {
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
