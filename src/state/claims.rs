//! Claims: which plan has which generation of a destination.
//!
//! `_shardpack/claims/00000001.json` names the first plan, and each later one that goes on from what is published has the next number. A
//! claim is put if absent, so of two different plans for one number exactly one wins; and no two plans write shards of one name, so the
//! workers of a plan that was given up do no harm.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::text::show;
use crate::model::version;
use crate::state::names::{CLAIMS, claim_name, generations_of, is_id};
use crate::state::plans::{Stored, json, load_id};
use crate::store::{Sink, at_once};

/// Value of a claim's `kind`.
const CLAIM_KIND: &str = "shardpack-claim";

/// Plans that are read at once: there is one a night, and each can be some megabytes.
const PLANS_AT_ONCE: usize = 8;

/// What a claim says: which plan has its generation.
#[derive(Debug, Serialize, Deserialize)]
struct Claim {
    kind: String,
    plan_id: PlanId,
}

/// The claim of the plan of this id, as it is written.
pub(super) fn claim_text(id: &str) -> Result<Vec<u8>> {
    json(&Claim {
        kind: CLAIM_KIND.to_owned(),
        plan_id: PlanId(id.to_owned()),
    })
}

/// The id of a plan, which is the name of its directory: 64 hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "String")]
struct PlanId(String);

impl TryFrom<String> for PlanId {
    type Error = String;

    fn try_from(id: String) -> Result<Self, String> {
        match is_id(&id) {
            true => Ok(Self(id)),
            false => Err(format!("`{}` is no id of a plan", show(id.as_bytes()))),
        }
    }
}

/// The generations that are claimed, in order.
pub(crate) fn generations(sink: &dyn Sink) -> Result<Vec<u64>> {
    let objects = sink.list(CLAIMS)?;
    Ok(generations_of(
        objects.iter().map(|(name, _)| name.as_str()),
    ))
}

/// The stored plan of a generation, if it is claimed.
pub(crate) fn of_generation(sink: &dyn Sink, generation: u64) -> Result<Option<Stored>> {
    claim(sink, generation)?
        .map(|id| load_id(sink, &id))
        .transpose()
}

/// The id of the plan that owns the destination, if one does: the one claimed last.
pub(crate) fn claimed(sink: &dyn Sink) -> Result<Option<String>> {
    match generations(sink)?.last() {
        Some(generation) => claim(sink, *generation),
        None => Ok(None),
    }
}

/// The id of the plan of a generation, if it is claimed.
pub(crate) fn claim(sink: &dyn Sink, generation: u64) -> Result<Option<String>> {
    let name = claim_name(generation);
    let Some(text) = sink.get(&name)? else {
        return Ok(None);
    };
    let place = format!("{sink}/{name}");
    version::CLAIM.check(&place, &text)?;
    let bad = |what: String| Error::new(Kind::Damage, format!("{place}: {what}"));
    let claim: Claim =
        serde_json::from_slice(&text).map_err(|error| bad(format!("not a claim: {error}")))?;
    if claim.kind != CLAIM_KIND {
        return Err(bad(format!(
            "not a claim: `{}`",
            show(claim.kind.as_bytes())
        )));
    }
    Ok(Some(claim.plan_id.0))
}

/// The stored plans with these digests, by digest. Of several that were claimed with one digest it is the newest; one that is lost or damaged
/// is left out.
pub(crate) fn plans(sink: &dyn Sink, digests: &HashSet<&str>) -> Result<HashMap<String, Stored>> {
    let mut generations = generations(sink)?;
    generations.reverse();
    let read = |generation: &u64| -> Result<Option<Stored>> {
        let Some(id) = claim(sink, *generation)? else {
            return Ok(None);
        };
        let stored = unless_damaged(load_id(sink, &id))?;
        Ok(stored.filter(|stored| digests.contains(stored.digest.as_str())))
    };
    let depth = sink.requests().clamp(1, PLANS_AT_ONCE);
    let mut found = HashMap::new();
    for some in generations.chunks(depth) {
        if found.len() == digests.len() {
            break;
        }
        for stored in at_once(depth, some, read)?.into_iter().flatten() {
            found.entry(stored.digest.clone()).or_insert(stored);
        }
    }
    Ok(found)
}

/// The plan of the destination, if one is claimed for it.
pub(crate) fn stored(sink: &dyn Sink) -> Result<Option<Stored>> {
    claimed(sink)?.map(|id| load_id(sink, &id)).transpose()
}

/// The plan of the destination, or an error that says how to make one.
pub(crate) fn load(sink: &dyn Sink) -> Result<Stored> {
    stored(sink)?.ok_or_else(|| {
        Error::usage(format!(
            "{sink} holds no plan: make one with `shardpack plan SRC {sink_word}`",
            sink_word = sink.word()
        ))
    })
}
