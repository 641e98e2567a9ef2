//! Shards that nobody recorded: each is walked, and what no walk can tell is said.

use crate::base::error::{Error, Result};
use crate::model::manifest::MANIFEST;
use crate::upkeep::adopt::{foreign_shards, key_beginnings};
use crate::upkeep::verify::collected::Collected;
use crate::upkeep::verify::verification::{Report, Verifier};

/// Walks every tar or TFRecord of a directory.
pub(super) fn check(verification: &Verifier<'_>) -> Result<Report> {
    let sink = verification.sink;
    let shards = foreign_shards(sink)?;
    if shards.is_empty() {
        return Err(Error::failed(format!(
            "{sink}: neither a {MANIFEST} nor any tar or TFRecord: give the directory of a dataset"
        )));
    }
    let counters = verification.counters;
    let collected = Collected::new(None);
    let bytes = shards.iter().map(|shard| shard.bytes).sum();
    let names: Vec<&str> = shards.iter().map(|shard| shard.name.as_str()).collect();
    let keys = key_beginnings(&names);
    counters.begin("verify", 0, bytes, shards.len() as u64);
    verification.on_threads(shards.len(), &|i: usize| {
        let shard = &shards[i];
        let walked = shard.walk(&keys[i], verification.open(&shard.name)?)?;
        let samples = walked.rows.len() as u64;
        counters.shard(&shard.name, shard.bytes, samples);
        let mut report = collected.report();
        report.samples += samples;
        report.bytes += walked.bytes.0;
        report.findings.extend(walked.found);
        report.notes.extend(walked.noted);
        Ok(())
    })?;
    let mut report = collected.into_report();
    report.shards = shards.len() as u64;
    report.unchecked = [
        format!(
            "contents: there is no {MANIFEST} with checksums to compare with (`shardpack index {sink_word}` makes one)", sink_word = sink.word()),
        "completeness: nothing says how many shards and samples there should be".to_owned(),
        "labels: nothing says how many classes there are".to_owned(),
    ]
    .to_vec();
    Ok(report)
}
