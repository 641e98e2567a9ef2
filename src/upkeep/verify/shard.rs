//! One shard from its index to its last byte, as deep as the level asks.

use crate::base::checksum::{Scanner, crc_text};
use crate::base::error::{Error, Result};
use crate::format::Finding;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::store::StoredChecksum;
use crate::upkeep::verify::collected::Collected;
use crate::upkeep::verify::verification::{Level, Verifier};
use crate::upkeep::verify::{content, keys, record};

/// Checks one shard; what is wrong goes to the report.
pub(super) fn check(
    verification: &Verifier<'_>,
    manifest: &Manifest,
    split: &str,
    shard: &ShardEntry,
    collected: &Collected<'_>,
) -> Result<()> {
    if verification.level == Level::Head && check_kept(verification, shard, collected)? {
        return Ok(());
    }
    let mut findings = Vec::new();
    let record = record::check(verification, manifest, split, shard, &mut findings)?;
    let (bytes, crc32) = match &record {
        Some(record) => {
            record::collect_remarks(shard, record, collected);
            keys::collect(shard, record, collected);
            content::check(
                verification,
                manifest,
                shard,
                record,
                collected,
                &mut findings,
            )?
        }
        None => Scanner::over(verification.open(&shard.name)?)
            .drain()
            .map_err(|error| Error::io(&shard.name, error))?,
    };
    let crc32 = crc_text(crc32);
    if crc32 != shard.crc32 && findings.is_empty() {
        findings.push(
            Finding::new(&shard.name, "content of the shard, by crc32")
                .range(0, bytes)
                .values(&shard.crc32, crc32),
        );
    }
    let counters = verification.counters;
    counters.shard(&shard.name, shard.bytes, shard.samples);
    let mut report = collected.report();
    report.bytes += bytes;
    report.samples += record.map_or(0, |record| record.samples.len() as u64);
    report.findings.extend(findings);
    Ok(())
}

/// Compares a shard and its index with the checksums that the store itself keeps, reading nothing; false where reading is
/// the way to find out.
fn check_kept(
    verification: &Verifier<'_>,
    shard: &ShardEntry,
    collected: &Collected<'_>,
) -> Result<bool> {
    let objects = [
        (&shard.name, shard.bytes, &shard.crc32),
        (&shard.index, shard.index_bytes, &shard.index_crc32),
    ];
    let mut findings = Vec::new();
    let mut unknown = 0;
    for (name, bytes, expected) in objects {
        match verification.sink.stored_checksum(name)? {
            StoredChecksum::ReadInstead => return Ok(false),
            StoredChecksum::Unknown => unknown += 1,
            StoredChecksum::Crc32(crc32) if crc_text(crc32) != *expected => findings.push(
                Finding::new(name, "content, by the crc32 that the store keeps")
                    .range(0, bytes)
                    .values(expected, crc_text(crc32)),
            ),
            StoredChecksum::Crc32(_) => {}
        }
    }
    let counters = verification.counters;
    counters.samples(shard.samples);
    counters.shard(&shard.name, shard.bytes, shard.samples);
    let mut report = collected.report();
    report.findings.extend(findings);
    report.unknown += unknown;
    Ok(true)
}
