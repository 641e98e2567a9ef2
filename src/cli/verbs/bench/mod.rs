//! `bench`: how fast a source can be read as files and as shards, and whether a GPU would wait.
//!
//! Without a dataset to compare with, a sample of the source is packed into one by the ordinary conversion. It is removed again however the
//! verb ends, but by a kill.

mod words;

use std::sync::Arc;
use std::time::Instant;

use super::convert;
use super::summary::Summary;
use crate::base::error::{Error, Kind, Result};
use crate::base::image::Validate;
use crate::base::text::quoted;
use crate::base::unique;
use crate::base::units::bytes_text;
use crate::cli::file;
use crate::cli::settings::{Benching, Planning, Price, Running, command_line, default_recipe};
use crate::model::manifest::Manifest;
use crate::model::policy::Policy;
use crate::model::recipe::{Arrangement, Cut, Recipe};
use crate::publish::reading::reading;
use crate::report::bench::page;
use crate::state::published::require;
use crate::store::{self, Access, Sink, Source};
use crate::upkeep::bench::{
    Around, BLOCK_BYTES, Bench, Bencher, Epoch, Images, Limit, ReadOrder, Shards, best,
    has_requests, verdict,
};

/// Most bytes of a source that are packed to be read as shards, ...
const SAMPLE_BYTES: u64 = 256_000_000;
/// ... which are no more than this part of all that may be read.
const SAMPLE_PART: u64 = 8;
/// Least and most bytes of a shard of it: large beside what its beginning costs, and several of them.
const SHARD_BYTES: std::ops::RangeInclusive<u64> = 4_000_000..=32_000_000;
const SAMPLE_SHARDS: u64 = 8;
/// Images of it at least, however slowly they are read.
const LEAST_IMAGES: f64 = 64.0;
/// Bytes of a shard of a dataset that is not there yet, for the requests of an epoch.
const USUAL_SHARD_BYTES: u64 = 1_000_000_000;
/// How the dataset is called that is removed again.
const TEMPORARY: &str = "shardpack-bench-";

/// Measures, and says what it means.
pub(crate) fn run(benching: &Benching, running: &Running) -> Result<Summary> {
    let began = Instant::now();
    let most = benching.bounds.most();
    let running = &Running {
        access: Access {
            // More than asked for is never under way.
            reads: Some(running.access.reads.unwrap_or(most).min(most)),
            // What is not on the disk yet cannot be forgotten.
            fsync: benching.bounds.cold && running.access.fsync,
            ..running.access.clone()
        },
        ..running.clone()
    };
    let source: Arc<dyn Source> = Arc::from(store::source(&benching.source, &running.access)?);
    let around = Around {
        stop: running.stop.clone(),
        counters: Arc::clone(&running.counters),
        has_requests: has_requests(source.as_ref()),
    };
    // Nobody wants to know of shards that are gone soon.
    running.counters.log_shards(false);
    running.counters.begin("list", 0, 0, 0);
    let images = Images::list(&source)?;
    running.stop.check()?;
    let (trains, decodes) = (benching.pace.is_some(), benching.decode);
    let mut measuring = Measuring {
        bencher: Bencher::new(benching.bounds.clone(), around, trains, decodes),
        bench: Bench {
            command: command_line(),
            source: source.to_string(),
            images: images.count,
            bytes: images.bytes,
            has_requests: has_requests(source.as_ref()),
            listing: images.rate,
            target: benching.target,
            ..Bench::default()
        },
        images,
        benching,
        running,
    };
    measuring.files()?;
    let read = match &benching.shards {
        Some(location) => measuring.shards_at(location)?,
        None => {
            measuring.temporary_shards()?;
            None
        }
    };
    let bench = measuring.end(began);
    summary(&bench, read, benching, running)
}

/// What is told of it, and the page.
fn summary(
    bench: &Bench,
    read: Option<String>,
    benching: &Benching,
    running: &Running,
) -> Result<Summary> {
    if let Some(path) = &benching.report {
        file::write("--report", path, page(bench).as_bytes())?;
    }
    let text = match benching.json {
        true => words::json(bench)?,
        false => words::text(bench, running.cores),
    };
    let limit = bench.verdict.as_ref().map(|verdict| verdict.limit);
    let helps = matches!(limit, Some(Limit::Files | Limit::Storage));
    let convert = (helps && bench.is_temporary).then(|| {
        let reach = match benching.source.starts_with("s3://") {
            true => running.reach.as_str(),
            false => "",
        };
        format!("shardpack convert {} DST{reach}", quoted(&benching.source))
    });
    Ok(Summary {
        is_json: benching.json,
        read: read.filter(|_| helps),
        next: convert.into_iter().collect(),
        samples: bench.images,
        bytes_read: bench.read_bytes,
        ..Summary::text(text)
    })
}

/// One run, as far as it is.
struct Measuring<'a> {
    bencher: Bencher,
    bench: Bench,
    images: Images,
    benching: &'a Benching,
    running: &'a Running,
}

impl Measuring<'_> {
    /// What there is to measure without shards.
    fn files(&mut self) -> Result<()> {
        let (bencher, images) = (&mut self.bencher, &self.images);
        if self.benching.probe_latency {
            self.running.counters.begin("first bytes", 0, 0, 0);
            self.bench.first_byte = Some(bencher.first_byte(images)?);
        }
        self.running.counters.begin("files", 0, 0, 0);
        let readers = &self.benching.bounds.concurrency;
        self.bench.files = bencher.files(images, ReadOrder::Random, readers)?;
        self.running.counters.begin("files in order", 0, 0, 0);
        let fastest = [best(&self.bench.files).0.max(1)];
        self.bench.files_in_order = bencher.files(images, ReadOrder::Listed, &fastest)?;
        if self.benching.decode {
            self.running.counters.begin("decode", 0, 0, 0);
            self.bench.decode = Some(bencher.decode(images)?);
        }
        Ok(())
    }

    /// A dataset that is there; gives the line of Python that reads it.
    fn shards_at(&mut self, location: &str) -> Result<Option<String>> {
        let sink: Arc<dyn Sink> = Arc::from(store::sink(location, &self.running.access)?);
        let manifest = require(sink.as_ref())?;
        self.bench.dataset = sink.to_string();
        self.shards(&sink, &manifest)?;
        Ok(reading(&manifest, location).map(|reading| reading.line))
    }

    /// A dataset of a sample of the source, for as long as it is measured.
    fn temporary_shards(&mut self) -> Result<()> {
        let location = self.place()?;
        let measured = self.packed_at(&location);
        // Although the run was told to stop.
        let access = self.running.access.unstoppable();
        let removed = store::sink(&location, &access).and_then(|sink| sink.remove_all());
        let removed = removed.map_err(|error| {
            error.within(format!(
                "{location} was made to be measured and could not be removed: remove it yourself"
            ))
        });
        match (measured, removed) {
            (Err(error), Ok(())) => Err(match error.kind() {
                kind @ Kind::Interrupted(_) => {
                    Error::new(kind, "interrupted: nothing of it was left behind")
                }
                _ => error,
            }),
            (Err(error), Err(left)) => Err(error.and(&format!("\n{left}"))),
            (Ok(()), removed) => removed,
        }
    }

    /// Where that goes: a name of its own beside the source, on the same storage.
    fn place(&self) -> Result<String> {
        let above = match &self.benching.scratch {
            Some(scratch) => scratch.trim_end_matches('/').to_owned(),
            None => {
                let whole = store::absolute(&self.benching.source);
                let whole = whole.trim_end_matches('/');
                let above = whole.rsplit_once('/').map(|(above, _)| above);
                let above = above.filter(|above| !above.ends_with(":/"));
                above.map(str::to_owned).ok_or_else(|| {
                    Error::usage(format!(
                        "{whole} has no place beside it where a sample could be packed: give one with `--scratch`, or a dataset with `--shards`"
                    ))
                })?
            }
        };
        let name = unique::make(|random| Ok(format!("{above}/{TEMPORARY}{}", &random[..12])));
        name.map_err(|error| Error::io(above, error))
    }

    fn packed_at(&mut self, location: &str) -> Result<()> {
        let (_, rate) = best(&self.bench.files);
        // No longer than two measurements, as far as files tell.
        let images = (rate * self.benching.bounds.time.as_secs_f64() * 2.0).max(LEAST_IMAGES);
        let bytes = SAMPLE_BYTES.min(self.benching.bounds.bytes / SAMPLE_PART);
        let bytes = bytes.min(self.bencher.left() / 2);
        let sample = self.images.some(bytes, images as u64);
        self.bencher.spend(sample.bytes);
        let shard_bytes = sample.bytes / SAMPLE_SHARDS;
        let recipe = Recipe {
            // What is in the images and of which class they are is not looked at.
            layout: Arrangement::Flat,
            validate: Validate::None,
            cut: Cut::ShardBytes(shard_bytes.clamp(*SHARD_BYTES.start(), *SHARD_BYTES.end())),
            ..default_recipe()
        };
        let planning = Planning {
            is_told: false,
            ..Planning::new(&self.benching.source, location, recipe)
        };
        let sink: Arc<dyn Sink> = Arc::from(store::sink(location, &self.running.access)?);
        let skip = Policy::Skip { at_most: u64::MAX };
        let said = |error: Error| {
            match &self.benching.scratch {
            None if error.kind() == Kind::Failed => error.and(
                ": a sample is packed beside the source to compare with: `--scratch PLACE` chooses another place on that storage",
            ),
            _ => error,
        }
        };
        convert::from(
            &sample,
            sink.as_ref(),
            &planning,
            skip,
            None,
            false,
            self.running,
        )
        .map_err(said)?;
        self.bench.is_temporary = true;
        self.bench.dataset = format!("a sample of {} packed for this", bytes_text(sample.bytes));
        let manifest = require(sink.as_ref())?;
        self.shards(&sink, &manifest)
    }

    /// What there is to measure of shards.
    fn shards(&mut self, sink: &Arc<dyn Sink>, manifest: &Manifest) -> Result<()> {
        let (bencher, running) = (&mut self.bencher, self.running);
        let most = self.benching.bounds.most();
        let shards = Shards::open(sink, manifest, most, || running.stop.check())?;
        self.bench.shard_bytes = shards.mean_bytes();
        running.counters.begin("shards", 0, 0, 0);
        self.bench.shards = bencher.shards(&shards)?;
        if shards.has_ranges() {
            running.counters.begin("samples", 0, 0, 0);
            self.bench.random = bencher.ranges(&shards, None)?;
            running.counters.begin("blocks", 0, 0, 0);
            self.bench.blocks = bencher.ranges(&shards, Some(BLOCK_BYTES))?;
        } else {
            let compressed = "samples by ranges: these shards are compressed, and can only be read from their beginning";
            self.bench.left_out.push(compressed.to_owned());
        }
        if let Some(pace) = self.benching.pace {
            running.counters.begin("training", 0, 0, 0);
            let training = bencher.training(pace, &self.images, &shards, &self.bench)?;
            self.bench.training = Some(training);
        }
        let count = match self.bench.is_temporary {
            true => self.images.bytes.div_ceil(USUAL_SHARD_BYTES),
            false => manifest.shards().count() as u64,
        };
        if self.bench.has_requests {
            let price = self.benching.price.as_ref();
            self.bench.epoch_files = Some(epoch(self.images.requests, price));
            self.bench.epoch_shards = Some(epoch(count, price));
        }
        Ok(())
    }

    /// All figures, and what they mean.
    fn end(self, began: Instant) -> Bench {
        let Self {
            bencher, mut bench, ..
        } = self;
        bench.cold = self.benching.bounds.cold.then_some(bencher.cold);
        bench.read_bytes = bencher.read_bytes();
        bench.seconds = began.elapsed().as_secs_f64();
        bench.verdict = Some(verdict(&bench, self.running.cores));
        bench
    }
}

/// So many GETs, which is all that an epoch asks for.
fn epoch(requests: u64, price: Option<&Price>) -> Epoch {
    Epoch {
        requests,
        dollars: price.map(|price| price.get * requests as f64),
    }
}
