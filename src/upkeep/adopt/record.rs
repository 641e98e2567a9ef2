//! The index of one shard, from what a walk through it saw.

use crate::base::checksum::crc_text;
use crate::base::error::Result;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::recipe::Compression;
use crate::model::record::ShardRecord;
use crate::store::Sink;
use crate::upkeep::adopt::labels::{numbered, renumber};
use crate::upkeep::adopt::names::{key_beginnings, split_of};
use crate::upkeep::adopt::walk::{Walked, walk_foreign};

/// The record of a walked shard, and class names for it. `known` are those that the dataset has, where that is known.
pub(super) fn record_of(
    shard: &str,
    compress: Compression,
    plan: &str,
    walked: &mut Walked,
    known: &[String],
) -> (ShardRecord, Vec<String>) {
    let names = match walked.named.is_empty() {
        true => numbered(&mut walked.rows, &walked.classes, known),
        false if known.is_empty() => walked.named.clone(),
        false => {
            renumber(&mut walked.rows, &walked.named, known);
            known.to_vec()
        }
    };
    let record = ShardRecord {
        split: split_of(shard).to_owned(),
        plan: plan.to_owned(),
        bytes: walked.bytes.0,
        crc32: walked.bytes.1,
        unpacked_bytes: (compress != Compression::None).then_some(walked.unpacked_bytes),
        samples: std::mem::take(&mut walked.rows),
        ..ShardRecord::empty(shard)
    };
    (record, names)
}

/// The index file of a published shard, made again from the shard; `None` if that is damaged.
pub(crate) fn index_from_foreign(
    sink: &dyn Sink,
    manifest: &Manifest,
    shard: &ShardEntry,
) -> Result<Option<Vec<u8>>> {
    let kind = (manifest.recipe.format, manifest.recipe.compress);
    let most = shard.unpacked_bytes.unwrap_or(shard.bytes);
    let all: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
    let mut names: Vec<&str> = all.iter().map(|shard| shard.name.as_str()).collect();
    names.sort_unstable();
    let keys = key_beginnings(&names);
    let at = names.binary_search(&shard.name.as_str()).unwrap_or(0);
    let again = |known: &[String]| -> Result<Option<Vec<u8>>> {
        let reader = sink.open(&shard.name)?;
        let mut walked = walk_foreign(&shard.name, &keys[at], kind, reader, most)?;
        if !walked.found.is_empty() {
            return Ok(None);
        }
        let (plan, compress) = (&manifest.plan, manifest.recipe.compress);
        let (record, names) = record_of(&shard.name, compress, plan, &mut walked, known);
        record.encode(&names).map(Some)
    };
    // Numbers have the names that their shard says, or else those of the dataset.
    let own = again(&[])?;
    match own {
        Some(file) if crc_text(crc32fast::hash(&file)) != shard.index_crc32 => {
            again(&manifest.names.classes)
        }
        own => Ok(own),
    }
}
