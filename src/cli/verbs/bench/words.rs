//! The figures of `bench` as lines for people, and as JSON for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::base::error::{Error, Result};
use crate::base::units::{bytes_text, count_text, counted, seconds_text};
use crate::upkeep::bench::{
    Bench, Cold, Epoch, Limit, Readers, best, rate_text, times, waiting_text,
};

/// For programs; `docs/bench.md` says what each figure is.
pub(super) fn json(bench: &Bench) -> Result<String> {
    let all = |rates: &[Readers], readers: &str| -> Result<Vec<Value>> {
        rates.iter().map(|at| rate_json(at, readers)).collect()
    };
    let mut shards = all(&bench.shards, "readers")?;
    for (shard, at) in shards.iter_mut().zip(&bench.shards) {
        shard["first_sample_ms"] = json!(at.rate.first_sample_ms());
    }
    let text = serde_json::to_string_pretty(&json!({
        "source": bench.source,
        "images": bench.images,
        "bytes": bench.bytes,
        "dataset": bench.dataset,
        "dataset_is_temporary": bench.is_temporary,
        "shard_bytes": bench.shard_bytes,
        "files": all(&bench.files, "concurrency")?,
        "files_in_order": all(&bench.files_in_order, "concurrency")?,
        "shards": shards,
        "random": all(&bench.random, "concurrency")?,
        "blocks": all(&bench.blocks, "concurrency")?,
        "left_out": bench.left_out,
        "listing": bench.listing,
        "first_byte_alone_ms": bench.first_byte,
        "decode": bench.decode,
        "gpu": bench.training,
        "epoch": { "files": bench.epoch_files, "shards": bench.epoch_shards },
        "cold": bench.cold,
        "target": bench.target,
        "read_bytes": bench.read_bytes,
        "seconds": bench.seconds,
        "verdict": bench.verdict,
    }));
    text.map(|text| text + "\n")
        .map_err(|error| Error::failed(error.to_string()))
}

fn rate_json(at: &Readers, readers: &str) -> Result<Value> {
    let rate = serde_json::to_value(&at.rate);
    let mut rate = rate.map_err(|error| Error::failed(error.to_string()))?;
    rate[readers] = json!(at.readers);
    Ok(rate)
}

/// For people; `cores` are this machine's.
pub(super) fn text(bench: &Bench, cores: usize) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "source    {}: {}, {}, listed in {} ({} files/s)",
        bench.source,
        counted(bench.images, "image"),
        bytes_text(bench.bytes),
        seconds_text(bench.listing.seconds),
        rate_text(bench.listing.files_per_second)
    );
    let _ = writeln!(
        out,
        "shards    {}, {} a shard",
        bench.dataset,
        bytes_text(bench.shard_bytes)
    );
    table(&mut out, bench);
    for line in &bench.left_out {
        let _ = writeln!(out, "left out  {line}");
    }
    if let Some(first) = &bench.first_byte {
        let _ = writeln!(
            out,
            "latency   first byte of a file, alone: {:.1} ms, p95 {:.1}, p99 {:.1}",
            first.p50, first.p95, first.p99
        );
    }
    if let Some(decode) = &bench.decode {
        let _ = writeln!(
            out,
            "decode    {} images/s a core, {:.0} megapixels/s, by {}",
            rate_text(decode.images_per_second_per_core),
            decode.megapixels_per_second_per_core,
            decode.decoder
        );
    }
    if let Some(training) = &bench.training {
        let _ = writeln!(
            out,
            "gpu       batches of {} at {}/s: {} with files ({} readers), {} with shards ({})",
            count_text(training.batch),
            rate_text(training.images_per_second),
            waiting_text(&training.files),
            training.files_readers,
            waiting_text(&training.shards),
            training.shards_readers
        );
    }
    if let (Some(files), Some(shards)) = (&bench.epoch_files, &bench.epoch_shards) {
        let _ = writeln!(
            out,
            "epoch     {} as files, {} as shards",
            epoch_text(files),
            epoch_text(shards)
        );
    }
    let _ = writeln!(out, "memory    {}", memory_text(bench));
    let _ = writeln!(
        out,
        "read      {} in {}",
        bytes_text(bench.read_bytes),
        seconds_text(bench.seconds)
    );
    if let Some(verdict) = &bench.verdict {
        let _ = writeln!(out, "verdict   {}", verdict.text);
        if let Some(advice) = advice(bench, verdict.limit, cores) {
            let _ = writeln!(out, "advice    {advice}");
        }
    }
    out
}

fn epoch_text(epoch: &Epoch) -> String {
    let gets = format!("{} GET", count_text(epoch.requests));
    match epoch.dollars {
        Some(dollars) => format!("{gets} (${dollars:.4})"),
        None => gets,
    }
}

/// What was measured, a line for each number of readers.
fn table(out: &mut String, bench: &Bench) {
    let _ = writeln!(
        out,
        "\n{:<22}{:>8}{:>11}{:>9}{:>9}{:>9}{:>9}{:>10}{:>9}",
        "", "readers", "images/s", "MB/s", "p50 ms", "p95", "p99", "requests", "cpu ms"
    );
    let sorts = [
        ("files, random order", &bench.files),
        ("files, as listed", &bench.files_in_order),
        ("shards", &bench.shards),
        ("samples of shards", &bench.random),
        ("blocks of samples", &bench.blocks),
    ];
    for (name, rates) in sorts {
        for at in rates {
            let rate = &at.rate;
            let requests = rate.requests_per_image;
            let requests = requests.map_or_else(|| "–".to_owned(), |each| format!("{each:.3}"));
            let _ = writeln!(
                out,
                "{name:<22}{:>8}{:>11}{:>9.1}{:>9.1}{:>9.1}{:>9.1}{requests:>10}{:>9.2}",
                at.readers,
                rate_text(rate.images_per_second),
                rate.megabytes_per_second,
                rate.first_byte_ms.p50,
                rate.first_byte_ms.p95,
                rate.first_byte_ms.p99,
                rate.processor_ms_per_image
            );
        }
    }
    out.push('\n');
}

/// Where what was read came from, as far as one knows.
fn memory_text(bench: &Bench) -> String {
    match &bench.cold {
        _ if bench.has_requests => {
            "nothing is kept on this machine; the server may keep what was read before".to_owned()
        }
        None => "files and shards may lie in this machine's memory, where a first epoch would not find them: `--cold` has it forget them"
            .to_owned(),
        Some(cold) => cold_text(cold),
    }
}

pub(super) fn cold_text(cold: &Cold) -> String {
    let mut parts = Vec::new();
    for (count, what) in [
        (cold.gone, "were forgotten before they were read"),
        (cold.still, "stayed in memory"),
        (
            cold.unknown,
            "may have stayed: this file system does not say",
        ),
        (cold.not_cached, "cannot be asked about"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", counted(count, "file")));
        }
    }
    match parts.is_empty() {
        true => "nothing was there to be forgotten".to_owned(),
        false => parts.join(", "),
    }
}

/// What to do, where no command does it.
fn advice(bench: &Bench, limit: Limit, cores: usize) -> Option<String> {
    let decodes = bench
        .decode
        .as_ref()
        .is_some_and(|decode| decode.images_per_second_per_core * cores as f64 >= bench.target);
    match limit {
        Limit::Nothing | Limit::Shards => Some(match (&bench.decode, decodes) {
            (Some(_), true) => {
                "storage and decoding keep up: look at augmentation and at the number of loader workers".to_owned()
            }
            (Some(_), false) => {
                "storage keeps up and decoding does not: make the images smaller once before packing them, or decode on the GPU (NVIDIA DALI)"
                    .to_owned()
            }
            (None, _) => "storage keeps up: `--decode` measures what a loader's cores can decode".to_owned(),
        }),
        Limit::Storage | Limit::Both => {
            let (readers, rate) = best(&bench.shards);
            Some(format!(
                "{} is {} too slow even with {}: put the shards nearer to the GPU, on its own disk for example",
                bench.source,
                times(bench.target / rate.max(f64::MIN_POSITIVE)),
                counted(readers as u64, "reader")
            ))
        }
        Limit::Files => None,
    }
}
