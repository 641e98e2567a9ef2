//! Storing a draft: its lists of samples, its plan, and last the claim that makes it the plan of its generation.

use std::collections::HashMap;

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::plan::draft::Draft;
use crate::state::claims::{claim, claim_text};
use crate::state::names::{claim_name, plan_name};
use crate::state::plans::{Stored, json, load_id};
use crate::state::samples::{WrittenLists, store_samples};
use crate::store::Sink;

/// Makes this draft the destination's plan of its generation and stores it; if another plan is, that is a conflict.
pub(crate) fn store(sink: &dyn Sink, draft: &Draft) -> Result<Stored> {
    let generation = draft.plan.generation;
    let claimed = claim(sink, generation)?;
    if let Some(owner) = &claimed {
        if *owner != draft.id {
            return Err(conflict(sink, owner, &draft.id));
        }
        if let Some(stored) = unless_damaged(load_id(sink, owner))? {
            check_exclusive(sink, &stored)?;
            return Ok(stored);
        }
    }
    // The plan is in place before the claim names it.
    let mut stored = put_plan(sink, draft)?;
    check_exclusive(sink, &stored)?;
    let ours = sink.put_if_absent(&claim_name(generation), &claim_text(&draft.id)?)?;
    if !ours {
        let owner = claim(sink, generation)?.unwrap_or_default();
        if owner != draft.id {
            return Err(conflict(sink, &owner, &draft.id));
        }
    }
    // A claim that was there already was made by a run that may have packed shards since.
    stored.fresh = ours && claimed.is_none();
    Ok(stored)
}

/// Stores a draft that has the digest of what is published, beside the plan that is claimed: the same files with other versions.
pub(crate) fn store_beside(sink: &dyn Sink, draft: &Draft) -> Result<Stored> {
    if let Some(stored) = unless_damaged(load_id(sink, &draft.id))? {
        return Ok(stored);
    }
    put_plan(sink, draft)
}

/// Writes a draft's plan and samples.
fn put_plan(sink: &dyn Sink, draft: &Draft) -> Result<Stored> {
    let WrittenLists { frames, crc32 } = store_samples(sink, draft)?;
    let stored = Stored {
        id: draft.id.clone(),
        digest: draft.digest.clone(),
        plan: draft.plan.clone(),
        frames,
        samples_crc32: Some(crc_text(crc32)),
        fresh: false,
        revised: HashMap::new(),
    };
    sink.put(&plan_name(&draft.id), &json(&stored)?)?;
    Ok(stored)
}

/// Refuses a destination where two plans could both believe to have won. The plan is stored already.
pub(crate) fn check_exclusive(sink: &dyn Sink, stored: &Stored) -> Result<()> {
    sink.check_exclusive(&plan_name(&stored.id), &json(stored)?)
}

/// The error over a destination that another plan has.
fn conflict(sink: &dyn Sink, owner: &str, ours: &str) -> Error {
    let short = |id: &str| id.chars().take(12).collect::<String>();
    Error::new(
        Kind::Conflict,
        format!(
            "{sink} belongs to another plan ({}, this one is {}): the source or the options differ; give the same ones to go on, \
             choose another destination, or start over in this one with `--full`",
            short(owner),
            short(ours)
        ),
    )
}
