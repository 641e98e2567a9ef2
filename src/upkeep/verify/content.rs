//! The data level: every byte of a shard compared with its record.
//!
//! A shard of our own is packed again from its record into something that compares; one that somebody else made is walked, and what
//! the walk meets is compared.

use crate::base::checksum::{Scanner, crc_text};
use crate::base::error::{Error, Result};
use crate::format::Finding;
use crate::format::RecipeLayout as _;
use crate::format::check::check as check_layout;
use crate::format::compress::{Frames, Raw, unpack};
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::recipe::Compression;
use crate::model::record::{FrameRecord, SampleRecord, ShardRecord};
use crate::store::Sink;
use crate::upkeep::adopt::walk_foreign;
use crate::upkeep::verify::collected::Collected;
use crate::upkeep::verify::verification::{CountedReader, Verifier};
use crate::upkeep::verify::watcher::ShardWatcher;

/// Compares a shard with its record; gives length and CRC-32 of the shard as it lies in the store.
pub(super) fn check(
    verification: &Verifier<'_>,
    manifest: &Manifest,
    shard: &ShardEntry,
    record: &ShardRecord,
    collected: &Collected<'_>,
    findings: &mut Vec<Finding>,
) -> Result<(u64, u32)> {
    let raw = verification.open(&shard.name)?;
    let samples = record.samples.len() as u64;
    if manifest.recipe.foreign {
        verification.counters.samples(samples);
        return check_foreign(manifest, shard, raw, record, findings);
    }
    let mut watcher = ShardWatcher::new(verification, manifest, record, collected);
    let read = check_packed(manifest, shard, raw, &mut watcher)?;
    // What came after damage was not looked at one by one.
    let unseen = samples.saturating_sub(watcher.seen);
    verification.counters.samples(unseen);
    findings.append(&mut watcher.findings);
    if let Some(error) = watcher.error {
        return Err(error);
    }
    let seekable = matches!(
        manifest.recipe.compress,
        Compression::Zstd { seekable: true, .. }
    );
    // Of a shard cut short there is no end to look at.
    if seekable && read.0 == shard.bytes {
        check_frames(verification.sink, shard, record, findings)?;
    }
    Ok(read)
}

/// Unpacks a shard and compares it with what its layout makes of its record.
fn check_packed(
    manifest: &Manifest,
    shard: &ShardEntry,
    raw: CountedReader<'_>,
    watcher: &mut ShardWatcher<'_>,
) -> Result<(u64, u32)> {
    let record = watcher.record;
    let layout = manifest.recipe.layout();
    let names = &manifest.names;
    let failed = |error| Error::io(&shard.name, error);
    let mut compare = |scanner: &mut Scanner<'_>| {
        check_layout(layout.as_ref(), names, scanner, record, watcher)?;
        // Where the check ended early; and decompressors tell of a checksum at the very end.
        scanner.drain()
    };
    let compress = manifest.recipe.compress;
    if compress == Compression::None {
        return compare(&mut Scanner::over(raw)).map_err(failed);
    }
    let raw = Raw::new(raw);
    let mut scanner = Scanner::new(unpack(compress, raw.clone(), record.unpacked_bytes())?);
    let compared = compare(&mut scanner);
    match compared {
        Err(error) if raw.failed() => return Err(failed(error)),
        Err(error) => {
            let at = scanner.position();
            let what = format!("cannot be unpacked beyond byte {at} of its content: {error}");
            watcher.findings.push(Finding::new(&shard.name, what));
        }
        Ok(_) => {}
    }
    raw.drain().map_err(failed)
}

/// Compares the seek table of a shard, and where the index says its samples' frames are.
fn check_frames(
    sink: &dyn Sink,
    shard: &ShardEntry,
    record: &ShardRecord,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let finding = |what: &str| Finding::new(&shard.name, what).sample("(seek table)");
    let frames = match Frames::read(sink, &shard.name, shard.bytes, record)? {
        Ok(frames) => frames,
        Err(what) => {
            findings.push(finding(&what));
            return Ok(());
        }
    };
    let text = |(packed, unpacked): (u64, u64)| format!("{packed} bytes that hold {unpacked}");
    let whole = (shard.bytes, record.unpacked_bytes());
    if frames.totals() != whole {
        findings.push(finding("its total").values(text(whole), text(frames.totals())));
        return Ok(());
    }
    let covers = frames.cover(record.samples.iter().map(|row| (row.offset, row.length)));
    let text = |frame: Option<FrameRecord>| match frame {
        Some(frame) => format!("{}+{} from {}", frame.offset, frame.length, frame.start),
        None => "none".to_owned(),
    };
    for (row, cover) in record.samples.iter().zip(covers) {
        if row.frame != Some(cover) {
            findings.push(
                Finding::new(&record.shard, "index gives other frames for the sample")
                    .sample(&row.key)
                    .values(text(Some(cover)), text(row.frame)),
            );
        }
    }
    Ok(())
}

/// Walks a shard that somebody else made and compares what it holds with its record.
fn check_foreign(
    manifest: &Manifest,
    shard: &ShardEntry,
    raw: CountedReader<'_>,
    record: &ShardRecord,
    findings: &mut Vec<Finding>,
) -> Result<(u64, u32)> {
    let kind = (manifest.recipe.format, manifest.recipe.compress);
    let most = record.unpacked_bytes();
    // Where the shard has no keys, those of the index stand.
    let first = record
        .samples
        .first()
        .and_then(|row| row.key.rsplit_once('/'));
    let keys = first.map_or("", |(keys, _)| keys);
    let walked = walk_foreign(&shard.name, keys, kind, raw, most)?;
    findings.extend(walked.found);
    for (actual, said) in walked.rows.iter().zip(&record.samples) {
        compare_rows(shard, actual, said, findings);
    }
    if walked.rows.len() != record.samples.len() {
        let finding = Finding::new(&shard.name, "samples in the shard");
        findings.push(finding.values(record.samples.len(), walked.rows.len()));
    }
    Ok(walked.bytes)
}

/// Compares a sample as it lies in a shard with what the index says of it.
fn compare_rows(
    shard: &ShardEntry,
    actual: &SampleRecord,
    said: &SampleRecord,
    findings: &mut Vec<Finding>,
) {
    let finding = |what: &str| Finding::new(&shard.name, what).sample(&said.key);
    fn place(row: &SampleRecord) -> (&str, u64, u64) {
        (&row.key, row.offset, row.length)
    }
    if place(actual) != place(said) {
        let text = |row: &SampleRecord| format!("`{}` at {}+{}", row.key, row.offset, row.length);
        let finding = finding("another sample than the index says");
        findings.push(finding.values(text(said), text(actual)));
    }
    for (actual, said) in actual.fields.iter().zip(&said.fields) {
        if actual.crc32 != said.crc32 {
            let finding = finding("content, by crc32").field(&said.name);
            let finding = finding.range(said.offset, said.offset + said.length);
            findings.push(finding.values(crc_text(said.crc32), crc_text(actual.crc32)));
        } else if actual != said {
            findings.push(finding("another field than the index says").field(&said.name));
        }
    }
    if actual.fields.len() != said.fields.len() {
        findings.push(finding("fields").values(said.fields.len(), actual.fields.len()));
    }
}
