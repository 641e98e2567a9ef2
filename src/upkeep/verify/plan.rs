//! The manifest compared with the stored plans that its shards were made by, and those plans' lists of samples with themselves.

use std::collections::HashMap;

use crate::base::checksum::{Scanner, crc_text};
use crate::base::error::{Error, Result, unless_damaged};
use crate::format::Finding;
use crate::model::manifest::{MANIFEST, Manifest, STATE, ShardEntry};
use crate::state::claims::generations;
use crate::state::claims::plans;
use crate::state::names::samples_name;
use crate::state::plans::Stored;
use crate::state::samples::each_line;
use crate::store::{StoredChecksum, at_once};
use crate::upkeep::verify::collected::Collected;
use crate::upkeep::verify::verification::{Level, Verifier};

/// Compares the manifest with the plans of its shards, the last of which it repeats: their digests are over that.
pub(super) fn check(
    verification: &Verifier<'_>,
    manifest: &Manifest,
    collected: &Collected<'_>,
) -> Result<()> {
    if manifest.recipe.foreign {
        return Ok(());
    }
    let sink = verification.sink;
    let digests = manifest.plan_digests();
    let plans = plans(sink, &digests)?;
    if plans.is_empty() && generations(sink)?.is_empty() {
        let what = "recipe and classes: there is no stored plan to compare them with";
        collected.report().unchecked.push(what.to_owned());
        return Ok(());
    }
    let mut findings = Vec::new();
    for digest in &digests {
        if !plans.contains_key(*digest) {
            let what = "no stored plan that can be read is that of the manifest or of its shards";
            findings.push(Finding::new(STATE, what).values(digest, "none"));
        }
    }
    if let Some(stored) = plans.get(&manifest.plan) {
        findings.extend(not_as_planned(manifest, stored, &plans));
    }
    let sizes = sink.list(&format!("{STATE}/plan"))?;
    let sizes: HashMap<String, u64> = sizes.into_iter().collect();
    for stored in plans.values() {
        findings.extend(check_samples(verification, stored, &sizes, collected)?);
    }
    collected.find(findings);
    Ok(())
}

/// Compares the list of samples of a stored plan with what the plan says of it. `sizes` are those of all parts of plans.
fn check_samples(
    verification: &Verifier<'_>,
    stored: &Stored,
    sizes: &HashMap<String, u64>,
    collected: &Collected<'_>,
) -> Result<Vec<Finding>> {
    let name = samples_name(&stored.id);
    let bytes = stored.samples_bytes();
    let finding = |what: &str| Finding::new(&name, what);
    let size = sizes.get(&name);
    if size != Some(&bytes) {
        let size = size.map_or("nothing".to_owned(), |size| format!("{size} bytes"));
        let what = "the plan's list of samples is missing or of another size";
        return Ok(vec![finding(what).values(format!("{bytes} bytes"), size)]);
    }
    let mut findings = Vec::new();
    if verification.level >= Level::Head
        && let Some(expected) = &stored.samples_crc32
    {
        let actual = samples_crc32(verification, &name)?;
        collected.report().unknown += u64::from(actual.is_none());
        match actual.map(crc_text) {
            Some(actual) if actual != *expected => findings.push(
                finding("content of the plan's list of samples, by crc32")
                    .range(0, bytes)
                    .values(expected, actual),
            ),
            _ => return Ok(findings),
        }
    }
    if verification.level < Level::Data {
        return Ok(findings);
    }
    // Which shards it is about; and all there is to go by in plans of earlier versions.
    let damaged = damaged_shards(verification, stored, &name)?;
    match damaged.is_empty() {
        true => Ok(findings),
        false => Ok(damaged),
    }
}

/// The CRC-32 of a list of samples; `None` where the store keeps none and reading is too deep.
fn samples_crc32(verification: &Verifier<'_>, name: &str) -> Result<Option<u32>> {
    let sink = verification.sink;
    Ok(match (verification.level, sink.stored_checksum(name)?) {
        (Level::Head, StoredChecksum::Crc32(crc32)) => Some(crc32),
        (Level::Head, StoredChecksum::Unknown) => None,
        _ => {
            let read = Scanner::over(sink.open(name)?).drain();
            Some(read.map_err(|error| Error::io(name, error))?.1)
        }
    })
}

/// The shards of a plan whose lines in the list of samples, the object of this name, are not those of the plan.
fn damaged_shards(
    verification: &Verifier<'_>,
    stored: &Stored,
    name: &str,
) -> Result<Vec<Finding>> {
    let shards: Vec<usize> = (0..stored.frames.len()).collect();
    let damaged = at_once(verification.jobs, &shards, |&shard| {
        verification.stop.check()?;
        let lines = each_line(verification.sink, stored, shard, |_| ());
        let [offset, length] = stored.frames[shard];
        let what = format!("the samples of {}", stored.plan.shards[shard].name);
        let finding = Finding::new(name, format!("{what} are not those of the plan"));
        let finding = finding.range(offset, offset.saturating_add(length));
        Ok(unless_damaged(lines)?.is_none().then_some(finding))
    })?;
    Ok(damaged.into_iter().flatten().collect())
}

/// What of a manifest is not as its plan has it. `plans` are those of its shards, by digest.
pub(crate) fn not_as_planned(
    manifest: &Manifest,
    stored: &Stored,
    plans: &HashMap<String, Stored>,
) -> Vec<Finding> {
    let plan = &stored.plan;
    let splits = manifest.splits.iter().map(|split| split.name.as_str());
    let named = plan.dataset();
    let as_named = manifest.splits.iter().all(|split| {
        let shards = split.shards.iter().map(|shard| shard.name.as_str());
        let none = Vec::new();
        let named = named.get(split.name.as_str()).unwrap_or(&none);
        named.iter().copied().eq(shards)
    });
    let samples = planned_samples(manifest, plans);
    let of_manifest = manifest.samples + manifest.skipped.len() as u64;
    [
        ("recipe", plan.recipe == manifest.recipe),
        ("classes or fields", plan.names == manifest.names),
        ("splits", plan.splits.iter().eq(splits)),
        ("shards", as_named && samples.is_some()),
        (
            "samples and skipped",
            samples.is_none_or(|samples| samples == of_manifest),
        ),
    ]
    .into_iter()
    .filter(|(_, same)| !same)
    .map(|(what, _)| {
        let what = format!("its {what} are not those of the stored plan");
        Finding::new(MANIFEST, what).values("as planned", "otherwise")
    })
    .collect()
}

/// How many samples were planned for the shards of a manifest; `None` where a shard is in none of its plans.
fn planned_samples(manifest: &Manifest, plans: &HashMap<String, Stored>) -> Option<u64> {
    let of = |stored: &Stored| -> HashMap<String, u64> {
        let shards = stored.plan.shards.iter();
        shards
            .map(|shard| (shard.name.to_string(), shard.samples))
            .collect()
    };
    let planned: HashMap<&str, _> = plans
        .iter()
        .map(|(digest, stored)| (digest.as_str(), of(stored)))
        .collect();
    let of_shard = |shard: &ShardEntry| {
        let of_plan = planned.get(manifest.plan_of(shard))?;
        of_plan.get(&shard.name).copied()
    };
    manifest.shards().map(|(_, shard)| of_shard(shard)).sum()
}
