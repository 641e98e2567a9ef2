//! What to measure of a source, and within which bounds.

use std::path::PathBuf;
use std::time::Duration;

use super::estimate::{Price, dollars};
use crate::base::error::{Error, Result};
use crate::cli::flags as cli;
use crate::upkeep::bench::{Bounds, Pace};

/// Readers at once at most: each is a thread.
const MOST_READERS: usize = 4096;
/// Longest time of a measurement in seconds.
const LONGEST_SECONDS: f64 = 86_400.0;

/// What to measure, checked.
#[derive(Debug)]
pub(crate) struct Benching {
    /// Where the images are.
    pub(crate) source: String,
    /// A dataset of them, if there is one.
    pub(crate) shards: Option<String>,
    /// Where one is to be made, if not beside the source.
    pub(crate) scratch: Option<String>,
    pub(crate) bounds: Bounds,
    /// Images a second that a GPU wants, more than 0.
    pub(crate) target: f64,
    /// A training loop to be simulated.
    pub(crate) pace: Option<Pace>,
    pub(crate) decode: bool,
    pub(crate) probe_latency: bool,
    pub(crate) price: Option<Price>,
    /// The page's file.
    pub(crate) report: Option<PathBuf>,
    pub(crate) json: bool,
}

/// Checks what is to be measured; an empty environment twin says nothing.
pub(crate) fn benching(args: &cli::BenchArgs) -> Result<Benching> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let positive = |flag: &str, value: f64| match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(Error::usage(format!(
            "{flag} {value}: give a number above 0"
        ))),
    };
    let target = positive("--target", args.target)?;
    let seconds = positive("--seconds", args.seconds)?.min(LONGEST_SECONDS);
    let mut concurrency = args.concurrency.clone();
    concurrency.sort_unstable();
    concurrency.dedup();
    let fits = |readers: &usize| (1..=MOST_READERS).contains(readers);
    if let Some(readers) = concurrency.iter().find(|readers| !fits(readers)) {
        return Err(Error::usage(format!(
            "--concurrency {readers}: give numbers of readers from 1 to {MOST_READERS}, for example 1,8,32"
        )));
    }
    if args.max_bytes == 0 {
        return Err(Error::usage("--max-bytes 0: give a size, for example 2GB"));
    }
    if args.shards.is_some() && args.scratch.is_some() {
        return Err(Error::usage(
            "--scratch is where a dataset is made, and --shards names one that is there: drop one of them",
        ));
    }
    if args.decode && !cfg!(feature = "decode") {
        return Err(Error::usage(
            "--decode: this program was built without decoders: build it with the feature `decode`, or drop it",
        ));
    }
    let pace = match args.gpu_batch {
        None => None,
        Some(0) => return Err(Error::usage("--gpu-batch 0: give at least 1")),
        Some(batch) => Some(Pace {
            batch,
            images_per_second: positive(
                "--gpu-images-per-second",
                args.gpu_images_per_second.unwrap_or(target),
            )?,
        }),
    };
    Ok(Benching {
        source: args.source.clone(),
        shards: given(&args.shards),
        scratch: given(&args.scratch),
        bounds: Bounds {
            concurrency,
            time: Duration::from_secs_f64(seconds),
            bytes: args.max_bytes,
            cold: args.cold,
        },
        target,
        pace,
        decode: args.decode,
        probe_latency: args.probe_latency,
        price: given(&args.price).as_deref().map(dollars).transpose()?,
        report: (args.report.as_ref())
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
        json: args.common.json,
    })
}
