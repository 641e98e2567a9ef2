//! A shard's index: read, compared with what the manifest says of it, and its remarks with the manifest's lists.

use crate::base::checksum::crc_text;
use crate::base::error::{Kind, Result};
use crate::format::Finding;
use crate::model::manifest::{MANIFEST, Manifest, ShardEntry};
use crate::model::record::{Remark, ShardRecord};
use crate::upkeep::verify::collected::{Collected, ShardRemarks, lock};
use crate::upkeep::verify::verification::{Level, Verifier};

/// Reads an index and compares it with the manifest; `None` when there is no index to go by, or the level does not ask for it.
pub(super) fn check(
    verification: &Verifier<'_>,
    manifest: &Manifest,
    split: &str,
    shard: &ShardEntry,
    findings: &mut Vec<Finding>,
) -> Result<Option<ShardRecord>> {
    let Some(file) = verification.sink.get(&shard.index)? else {
        return Ok(None);
    };
    let crc32 = crc_text(crc32fast::hash(&file));
    if crc32 != shard.index_crc32 {
        findings.push(
            Finding::new(&shard.index, "content of the index, by crc32")
                .range(0, file.len() as u64)
                .values(&shard.index_crc32, crc32),
        );
        return Ok(None);
    }
    if verification.level < Level::Data {
        return Ok(None);
    }
    match ShardRecord::decode(&shard.index, &file) {
        Ok(record) => {
            findings.extend(disagreements(manifest, split, shard, &record));
            Ok(Some(record))
        }
        Err(error) if error.kind() == Kind::Damage => {
            findings.push(Finding::new(&shard.index, error.to_string()));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What manifest and index say differently of a shard.
fn disagreements(
    manifest: &Manifest,
    split: &str,
    shard: &ShardEntry,
    record: &ShardRecord,
) -> Vec<Finding> {
    let samples = record.samples.len() as u64;
    let option = |of_manifest: &dyn std::fmt::Debug, of_record: &dyn std::fmt::Debug| {
        (format!("{of_manifest:?}"), format!("{of_record:?}"))
    };
    let text = |of_manifest: &dyn ToString, of_record: &dyn ToString| {
        (of_manifest.to_string(), of_record.to_string())
    };
    [
        ("shard", text(&shard.name, &record.shard)),
        ("plan", text(&manifest.plan_of(shard), &record.plan)),
        ("samples", text(&shard.samples, &samples)),
        ("bytes", text(&shard.bytes, &record.bytes)),
        ("crc32", text(&shard.crc32, &crc_text(record.crc32))),
        (
            "unpacked_bytes",
            option(&shard.unpacked_bytes, &record.unpacked_bytes),
        ),
        ("sha256", option(&shard.sha256, &record.sha256)),
        ("split", text(&split, &record.split)),
    ]
    .into_iter()
    .filter(|(_, (of_manifest, of_record))| of_manifest != of_record)
    .map(|(what, (of_manifest, of_record))| {
        Finding::new(&shard.index, format!("its {what} is not the manifest's"))
            .values(of_manifest, of_record)
    })
    .collect()
}

/// Writes down what a record says of skipped and odd samples, for [`check_remarks`].
pub(super) fn collect_remarks(shard: &ShardEntry, record: &ShardRecord, collected: &Collected<'_>) {
    let remarks = ShardRemarks {
        skipped: record.skipped.clone(),
        odd: record.odd.clone(),
    };
    lock(&collected.remarks).insert(shard.name.clone(), remarks);
}

/// Compares what the manifest says of skipped and odd samples with the records, when all of them were read.
pub(super) fn check_remarks(
    manifest: &Manifest,
    shards: &[&ShardEntry],
    collected: &Collected<'_>,
) {
    let remarks = lock(&collected.remarks);
    let of_shards: Vec<&ShardRemarks> = shards
        .iter()
        .filter_map(|shard| remarks.get(&shard.name))
        .collect();
    if of_shards.len() != shards.len() {
        return;
    }
    let compare = |what: &str, listed: &[Remark], of: fn(&ShardRemarks) -> &Vec<Remark>| {
        let recorded: Vec<&Remark> = of_shards.iter().copied().flat_map(of).collect();
        if !listed.iter().eq(recorded.iter().copied()) {
            let what = format!("its list of {what} samples is not that of the records");
            let finding = Finding::new(MANIFEST, what).values(
                format!("{} samples", recorded.len()),
                format!("{} samples, or other words", listed.len()),
            );
            collected.find([finding]);
        }
    };
    compare("skipped", &manifest.skipped, |remarks| &remarks.skipped);
    compare("odd", &manifest.odd, |remarks| &remarks.odd);
}
