//! Which of several copies of a manifest is the published one, told by what else lies in the destination.
//!
//! Every index carries a seal over its footer and a checksum over its rows, and the stored plan is named by its digest. A manifest that
//! contradicts one of them is not the one that was published with them; of what is lost or unsound itself, nothing is concluded.

use std::collections::HashSet;

use bytes::Bytes;

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::model::manifest::{IndexFile, Manifest, ShardEntry};
use crate::model::record::{Footer, Remark, index_name};
use crate::publish::readers::{export_readers, reader_names};
use crate::state::claims::plans;
use crate::store::{Sink, at_once};
use crate::upkeep::repair::guard::Guard;
use crate::upkeep::verify::not_as_planned;

/// Indexes held at once.
const INDEXES: usize = 16;

/// A copy of a manifest, and the bytes it was read from.
pub(super) struct ManifestCopy {
    pub(super) manifest: Manifest,
    pub(super) text: Bytes,
}

impl ManifestCopy {
    /// Reads the object of this name; `None` where it is damaged.
    pub(super) fn decode(sink: &dyn Sink, name: &str, text: Bytes) -> Result<Option<Self>> {
        let manifest = unless_damaged(Manifest::decode(&format!("{sink}/{name}"), &text))?;
        Ok(manifest.map(|manifest| Self { manifest, text }))
    }
}

/// What the rest of a destination tells of a copy of its manifest.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// What speaks against this being what was published; nothing where all that can be compared agrees.
    pub(super) against: Option<String>,
    /// Shards of which nothing tells: their index is lost or unsound.
    unknown: HashSet<String>,
    /// Whether nothing tells of recipe and names: the plan is lost.
    unknown_plan: bool,
    /// Whether nothing tells of the reader indexes.
    unknown_readers: bool,
}

impl Verdict {
    fn contradicted(what: impl Into<String>) -> Self {
        Self {
            against: Some(what.into()),
            ..Self::default()
        }
    }

    /// Whether everything in it is known to be what was published.
    pub(super) fn is_certain(&self) -> bool {
        self.against.is_none()
            && self.unknown.is_empty()
            && !self.unknown_plan
            && !self.unknown_readers
    }

    /// Whether everything in which `ours`, the copy that this is about, differs from `theirs` is known to be what was published.
    pub(super) fn is_certain_beside(&self, ours: &Manifest, theirs: &Manifest) -> bool {
        let unknown = |manifest: &Manifest| -> Vec<ShardEntry> {
            let shards = manifest.shards().map(|(_, shard)| shard);
            let unknown = shards.filter(|shard| self.unknown.contains(&shard.name));
            unknown.cloned().collect()
        };
        let remarks = |manifest: &Manifest| (manifest.skipped.clone(), manifest.odd.clone());
        let plan = |manifest: &Manifest| (manifest.recipe.clone(), manifest.names.clone());
        self.against.is_none()
            && unknown(ours) == unknown(theirs)
            && (self.unknown.is_empty() || remarks(ours) == remarks(theirs))
            && (!self.unknown_plan || plan(ours) == plan(theirs))
            && (!self.unknown_readers || ours.indexes == theirs.indexes)
    }
}

/// Compares a copy of a manifest with everything that tells of what was published. Reader indexes that hold every row may take up to
/// `memory` bytes.
pub(super) fn judge(sink: &dyn Sink, copy: &ManifestCopy, memory: u64) -> Result<Verdict> {
    let ManifestCopy { manifest, text } = copy;
    if manifest.encode()? != *text {
        return Ok(Verdict::contradicted("it is not written as manifests are"));
    }
    let sums = |of: fn(&ShardEntry) -> u64| manifest.shards().map(|(_, shard)| of(shard)).sum();
    let totals: (u64, u64) = (sums(|shard| shard.samples), sums(|shard| shard.bytes));
    let of_splits = (
        manifest.splits.iter().map(|split| split.samples).sum(),
        manifest.splits.iter().map(|split| split.bytes).sum(),
    );
    if (manifest.samples, manifest.bytes) != totals || of_splits != totals {
        let what = "its totals are not the sums of its shards";
        return Ok(Verdict::contradicted(what));
    }
    if manifest.name != manifest.recipe.name {
        return Ok(Verdict::contradicted("it has two names"));
    }
    let named = |shard: &ShardEntry| shard.index == index_name(&shard.name);
    if !manifest.recipe.foreign && !manifest.shards().all(|(_, shard)| named(shard)) {
        let what = "an index is not named after its shard";
        return Ok(Verdict::contradicted(what));
    }
    let mut verdict = Verdict::default();
    verdict.against = against_plans(sink, manifest, &mut verdict)?;
    if verdict.against.is_none() {
        verdict.against = against_indexes(sink, manifest, &mut verdict)?;
    }
    if verdict.against.is_none() {
        verdict.against = against_readers(sink, manifest, memory, &mut verdict)?;
    }
    Ok(verdict)
}

fn against_plans(
    sink: &dyn Sink,
    manifest: &Manifest,
    verdict: &mut Verdict,
) -> Result<Option<String>> {
    if manifest.recipe.foreign {
        verdict.unknown_plan = true;
        return Ok(None);
    }
    let digests = manifest.plan_digests();
    let plans = plans(sink, &digests)?;
    // A plan that is lost says nothing; its digest is in every index.
    let Some(stored) = plans.get(&manifest.plan) else {
        verdict.unknown_plan = true;
        return Ok(None);
    };
    let added = |file: &IndexFile| !manifest.recipe.indexes.contains(&file.reader);
    let first = stored.plan.base.is_none() && !manifest.indexes.iter().any(added);
    if first && manifest.snapshot != 1 {
        let number = manifest.snapshot;
        let what = format!("it is the first of its dataset and says that it is number {number}");
        return Ok(Some(what));
    }
    let findings = not_as_planned(manifest, stored, &plans);
    Ok(findings.first().map(|finding| finding.what.clone()))
}

/// What a sound index says of its shard, and what it is itself.
struct IndexStatement {
    footer: Footer,
    /// Length of the index in bytes.
    bytes: u64,
    crc32: String,
}

fn against_indexes(
    sink: &dyn Sink,
    manifest: &Manifest,
    verdict: &mut Verdict,
) -> Result<Option<String>> {
    let shards: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
    let statements = at_once(
        sink.requests().min(INDEXES),
        &shards,
        |shard| -> Result<Option<IndexStatement>> {
            let Some(file) = sink.get(&shard.index)? else {
                return Ok(None);
            };
            let footer = unless_damaged(Footer::of_file(&shard.index, &file))?;
            let crc32 = crc_text(crc32fast::hash(&file));
            Ok(footer.map(|footer| IndexStatement {
                footer,
                bytes: file.len() as u64,
                crc32,
            }))
        },
    )?;
    let (mut skipped, mut odd): (Vec<&Remark>, Vec<&Remark>) = (Vec::new(), Vec::new());
    for (shard, statement) in shards.iter().zip(&statements) {
        let Some(IndexStatement {
            footer,
            bytes,
            crc32,
        }) = statement
        else {
            verdict.unknown.insert(shard.name.clone());
            continue;
        };
        let same = (footer.plan.as_str(), &footer.shard) == (manifest.plan_of(shard), &shard.name)
            && (footer.samples, footer.bytes, &footer.crc32)
                == (shard.samples, shard.bytes, &shard.crc32)
            && (footer.unpacked_bytes, &footer.sha256) == (shard.unpacked_bytes, &shard.sha256)
            && (*bytes, crc32) == (shard.index_bytes, &shard.index_crc32);
        if !same {
            let what = format!("{} says something else of {}", shard.index, shard.name);
            return Ok(Some(what));
        }
        skipped.extend(&footer.skipped);
        odd.extend(&footer.odd);
    }
    let all = statements.iter().all(Option::is_some);
    if all && (!manifest.skipped.iter().eq(skipped) || !manifest.odd.iter().eq(odd)) {
        let what = "its lists of skipped and odd samples are not those of the indexes";
        return Ok(Some(what.to_owned()));
    }
    Ok(None)
}

/// Compares what a manifest says of its reader indexes with what records make of them; nothing is written.
fn against_readers(
    sink: &dyn Sink,
    manifest: &Manifest,
    memory: u64,
    verdict: &mut Verdict,
) -> Result<Option<String>> {
    let mut readers: Vec<String> = manifest
        .indexes
        .iter()
        .map(|file| file.reader.clone())
        .collect();
    readers.dedup();
    if let Some(name) = readers
        .iter()
        .find(|name| !reader_names().any(|known| known == name.as_str()))
    {
        return Ok(Some(format!("there is no reader index `{name}`")));
    }
    let nowhere = Guard::new(sink, manifest, true);
    match export_readers(&nowhere, manifest, &readers, memory) {
        Ok(made) if made.entries == manifest.indexes => Ok(None),
        Ok(_) => Ok(Some(
            "its reader indexes are not those of its shards".to_owned(),
        )),
        // Without all records, or without the memory for them, nothing is known.
        Err(error) if matches!(error.kind(), Kind::Damage | Kind::Usage) => {
            verdict.unknown_readers = true;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Refuses to go on from copies none of which is known to be what was published.
pub(super) fn undecided(sink: &dyn Sink, what: &str) -> Error {
    Error::new(
        Kind::Damage,
        format!(
            "{sink}: {what}: nothing was written; put back a copy of the right one, or publish the dataset again from its source with `--full`"
        ),
    )
}
