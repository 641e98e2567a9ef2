//! What lies beside the shards for others to read: `SHA256SUMS` and the reader indexes, compared with the manifest.

use crate::base::checksum::crc_text;
use crate::base::error::Result;
use crate::format::Finding;
use crate::model::manifest::{IndexFile, MANIFEST, Manifest};
use crate::publish::companions::{SUMS, sha256_sums};
use crate::publish::later_snapshot;
use crate::publish::readers::{is_for_people, reader_names};
use crate::store::{StoredChecksum, at_once};
use crate::upkeep::verify::collected::Collected;
use crate::upkeep::verify::verification::{Level, Verifier};

/// Compares kind and size of one reader index with the manifest. `listed` is its size, if a listing showed it.
pub(super) fn check_size(
    verification: &Verifier<'_>,
    file: &IndexFile,
    listed: Option<u64>,
    collected: &Collected<'_>,
) -> Result<SizeCheck> {
    let mut findings = SizeCheck::default();
    if !reader_names().any(|name| name == file.reader) {
        let what = "names a reader index of a kind that there is not";
        let known = reader_names().collect::<Vec<_>>().join(", ");
        findings.kind = Some(Finding::new(MANIFEST, what).values(known, &file.reader));
    }
    let size = match listed {
        // Those at the root and in hidden directories are few.
        None => {
            let content = verification.sink.get(&file.name)?;
            content.map(|content| content.len() as u64)
        }
        listed => listed,
    };
    if size.is_some_and(|size| size != file.bytes) && is_for_people(file) {
        collected.note(completed(file));
    } else if size != Some(file.bytes) {
        let size = size.map_or("nothing".to_owned(), |size| format!("{size} bytes"));
        let finding = Finding::new(&file.name, "reader index is missing or of another size");
        findings.size = Some(finding.values(format!("{} bytes", file.bytes), size));
    }
    Ok(findings)
}

/// What is wrong with one reader index, without its content.
#[derive(Default)]
pub(super) struct SizeCheck {
    /// The manifest gives it a kind that does not exist.
    pub(super) kind: Option<Finding>,
    /// It is missing or of another size.
    pub(super) size: Option<Finding>,
}

/// Compares the reader indexes with their checksums; those of another size were found before.
pub(super) fn check_content(
    verification: &Verifier<'_>,
    manifest: &Manifest,
    collected: &Collected<'_>,
) -> Result<()> {
    let sink = verification.sink;
    let depth = verification.jobs.max(sink.requests());
    let findings = at_once(depth, &manifest.indexes, |file| {
        verification.stop.check()?;
        let crc32 = match (verification.level, sink.stored_checksum(&file.name)) {
            (Level::Head, Ok(StoredChecksum::Crc32(crc32))) => crc32,
            _ => match sink.get(&file.name)? {
                Some(content) if content.len() as u64 == file.bytes => crc32fast::hash(&content),
                _ => return Ok(None),
            },
        };
        let differs = crc_text(crc32) != file.crc32;
        if differs && is_for_people(file) {
            collected.note(completed(file));
            return Ok(None);
        }
        Ok(differs.then(|| {
            Finding::new(&file.name, "content of the reader index, by crc32")
                .range(0, file.bytes)
                .values(&file.crc32, crc_text(crc32))
        }))
    })?;
    let differing = findings.into_iter().flatten().collect();
    let findings = unless_overwritten(verification, manifest, differing, collected)?;
    collected.find(findings);
    Ok(())
}

/// Compares `SHA256SUMS` with the digests in the manifest.
pub(super) fn check_sums(
    verification: &Verifier<'_>,
    manifest: &Manifest,
) -> Result<Option<Finding>> {
    let Some(expected) = sha256_sums(manifest) else {
        return Ok(None);
    };
    let finding = |what: &str| Finding::new(SUMS, what);
    let Some(actual) = verification.sink.get(SUMS)? else {
        let bytes = format!("{} bytes", expected.len());
        return Ok(Some(finding("missing").values(bytes, "nothing")));
    };
    let pairs = expected.bytes().zip(&actual);
    let same = pairs.take_while(|(a, b)| a == *b).count();
    if same == expected.len() && same == actual.len() {
        return Ok(None);
    }
    let end = expected.len().max(actual.len()) as u64;
    Ok(Some(
        finding("differs from the digests in the manifest")
            .range(same as u64, end)
            .values(
                crc_text(crc32fast::hash(expected.as_bytes())),
                crc_text(crc32fast::hash(&actual)),
            ),
    ))
}

/// Gives back findings on files that every snapshot has under the same names. None where a later snapshot is there: it writes these
/// files before the manifest, so that they may be its own; that is said instead.
pub(super) fn unless_overwritten(
    verification: &Verifier<'_>,
    manifest: &Manifest,
    findings: Vec<Finding>,
    collected: &Collected<'_>,
) -> Result<Vec<Finding>> {
    let sink = verification.sink;
    if findings.is_empty() || later_snapshot(sink, manifest.snapshot)?.is_none() {
        return Ok(findings);
    }
    let unchecked = findings.iter().map(|finding| {
        format!(
            "{}: a next snapshot is being made, which may have written it anew; `shardpack publish {sink_word}` ends that",
            finding.object, sink_word = sink.word())
    });
    collected.report().unchecked.extend(unchecked);
    Ok(Vec::new())
}

/// Says that a file which people complete is not as it was written.
fn completed(file: &IndexFile) -> Finding {
    let what =
        "completed by somebody: it is not compared; removed, `shardpack index` writes it again";
    Finding::new(&file.name, what)
}
