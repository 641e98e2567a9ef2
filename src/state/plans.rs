//! The plan as a stored object, read back and checked.
//!
//! `_shardpack/plan/ID/` holds `plan.json`, and beside it the lists of samples, one zstd frame a shard, so that a worker reads only its part.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Kind, Result};
use crate::base::units::{MOST_BYTES, MOST_SAMPLES, are_sane};
use crate::model::manifest::STATE;
use crate::model::name::check_name;
use crate::model::record::index_name;
use crate::model::sample::Sample;
use crate::model::version;
use crate::plan::value::{PLAN_KIND, Plan, ShardPlan};
use crate::state::names::plan_name;
use crate::store::Sink;

/// Numbers of plans and shards that can be: adding to them does not overflow.
const GENERATIONS: std::ops::RangeInclusive<u64> = 0..=u64::MAX / 2;

/// A plan with the places of its shards' samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// [`Plan::id`]: what the plan is stored and claimed under.
    pub id: String,
    /// [`Plan::digest`]: what everything that is made from the plan carries.
    pub digest: String,
    /// The plan.
    pub plan: Plan,
    /// For each shard: offset and length of its frame.
    pub frames: Vec<[u64; 2]>,
    /// CRC-32 of all frames, eight hexadecimal digits; plans of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_crc32: Option<String>,
    /// Whether this run claimed the destination: then nothing in it is of this plan, whatever it looks like.
    #[serde(skip)]
    pub fresh: bool,
    /// Shards whose files have other versions by now, with those.
    #[serde(skip)]
    pub revised: HashMap<usize, Vec<Sample>>,
}

impl Stored {
    /// Length of the list of samples.
    pub(crate) fn samples_bytes(&self) -> u64 {
        let ends = self.frames.iter();
        let ends = ends.map(|[offset, length]| offset.saturating_add(*length));
        ends.max().unwrap_or(0)
    }
}

/// An object of the protocol as it is written: JSON for people too, with a newline at its end.
pub(super) fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|error| Error::failed(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

/// The stored plan of this id; one that is missing or unsound is damage.
pub(crate) fn load_id(sink: &dyn Sink, id: &str) -> Result<Stored> {
    let name = plan_name(id);
    let bad = |what: &str| {
        Error::new(
            Kind::Damage,
            format!("{sink}/{name}: {what}: make the plan again"),
        )
    };
    let text = sink.get(&name)?.ok_or_else(|| bad("missing"))?;
    version::PLAN.check(&format!("{sink}/{name}"), &text)?;
    let stored: Stored =
        serde_json::from_slice(&text).map_err(|error| bad(&format!("not a plan: {error}")))?;
    let plan = &stored.plan;
    let sound = plan.kind == PLAN_KIND
        && plan.version == 1
        && stored.id == id
        && plan.id() == id
        && stored.digest == plan.digest()
        && GENERATIONS.contains(&plan.generation)
        && plan
            .numbers
            .values()
            .all(|number| GENERATIONS.contains(number))
        && stored.frames.len() == plan.shards.len()
        && plan.shards.iter().all(is_sound)
        && are_sane(plan.shards.iter().map(|shard| shard.samples), MOST_SAMPLES)
        && are_sane(plan.shards.iter().flat_map(sizes), MOST_BYTES);
    if sound {
        Ok(stored)
    } else {
        Err(bad("its content does not match its id"))
    }
}

/// Whether a plan may name such a shard: where shards lie.
fn is_sound(shard: &ShardPlan) -> bool {
    shard.name.starts_with("data/") && check_name(&shard.split).is_ok()
}

/// Lengths of a shard and of what it is made from, in bytes.
fn sizes(shard: &ShardPlan) -> [u64; 3] {
    [shard.bytes, shard.source_bytes, shard.listing_bytes]
}

/// Names of the shards, and of their indexes, of every plan stored in the destination; a plan that cannot be read names none.
pub(crate) fn stored_names(sink: &dyn Sink) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    for (name, _) in sink.list(&format!("{STATE}/plan"))? {
        if name.ends_with("/plan.json")
            && let Some(text) = sink.get(&name)?
        {
            version::PLAN.check(&format!("{sink}/{name}"), &text)?;
            let stored = serde_json::from_slice::<Stored>(&text).ok();
            for shard in stored.into_iter().flat_map(|stored| stored.plan.shards) {
                names.insert(index_name(&shard.name));
                names.insert(shard.name.into());
            }
        }
    }
    Ok(names)
}
