//! How fast a source can be read as files and as shards, and whether a GPU would wait: what training will meet, measured before it begins.
//!
//! A source and a dataset come in, with numbers of readers, time and bytes that may be spent; figures and what they mean go out. Reading is the
//! stores' own, so that what is measured is what the other verbs do. Nothing is written here.

mod decode;
mod images;
mod load;
mod queue;
mod shards;
mod verdict;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::base::error::{Error, Result};
use crate::model::sample::Field;
use crate::store::Dropped;

pub(crate) use decode::{Decoding, decode};
pub(crate) use images::{Images, ListingRate, ReadOrder, has_requests};
use load::{Allowance, Limits, Load, measure};
pub(crate) use load::{Around, Percentiles, Rate};
use queue::Queue;
pub(crate) use queue::{Pace, Waiting};
pub(crate) use shards::{BLOCK_BYTES, Shards};
pub(crate) use verdict::{
    Feeding, Limit, Verdict, best, fastest, rate_text, times, verdict, waiting_text,
};

/// Bytes that a measurement of streams may take, as a multiple of another's: each shard's beginning costs time that does not count in a long one.
const WEIGHT_OF_STREAMS: u64 = 4;
/// The same for a training loop, which wants its rate for all of its time.
const WEIGHT_OF_TRAINING: u64 = 8;
/// Images whose first byte is asked for alone.
const PROBED: usize = 100;

/// What so many readers got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    pub(crate) readers: usize,
    pub(crate) rate: Rate,
}

/// What was read of what is not in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Cold {
    /// Files that the machine forgot before they were read.
    pub(crate) gone: u64,
    /// Files that stayed in memory.
    pub(crate) still: u64,
    /// Files of which nobody says.
    pub(crate) unknown: u64,
    /// Files that no memory of this machine is asked about, or that cannot be asked about.
    pub(crate) not_cached: u64,
}

impl Cold {
    fn add(&mut self, dropped: Option<Dropped>) {
        match dropped {
            Some(Dropped::Gone) => self.gone += 1,
            Some(Dropped::Still) => self.still += 1,
            Some(Dropped::Unknown) => self.unknown += 1,
            None => self.not_cached += 1,
        }
    }
}

/// What a training loop would do.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Training {
    pub(crate) batch: u64,
    pub(crate) images_per_second: f64,
    /// Readers that were fastest with files, and what a GPU behind them would do.
    pub(crate) files_readers: usize,
    pub(crate) files: Waiting,
    pub(crate) shards_readers: usize,
    pub(crate) shards: Waiting,
}

/// Requests of one epoch, and what they cost where that was asked.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Epoch {
    pub(crate) requests: u64,
    pub(crate) dollars: Option<f64>,
}

/// What is measured of a source, as files and as shards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bench {
    /// The command line that measured; empty where nobody typed one.
    pub(crate) command: String,
    pub(crate) source: String,
    /// Images of the source, and their bytes.
    pub(crate) images: u64,
    pub(crate) bytes: u64,
    /// Whether it lies where requests are counted.
    pub(crate) has_requests: bool,
    /// The dataset that shards were read of, and whether it was made for that.
    pub(crate) dataset: String,
    pub(crate) is_temporary: bool,
    /// Mean length of its shards.
    pub(crate) shard_bytes: u64,
    /// Why not all of it was measured.
    pub(crate) left_out: Vec<String>,
    pub(crate) files: Vec<Readers>,
    pub(crate) files_in_order: Vec<Readers>,
    pub(crate) shards: Vec<Readers>,
    pub(crate) random: Vec<Readers>,
    pub(crate) blocks: Vec<Readers>,
    pub(crate) listing: ListingRate,
    pub(crate) first_byte: Option<Percentiles>,
    pub(crate) decode: Option<Decoding>,
    pub(crate) training: Option<Training>,
    pub(crate) epoch_files: Option<Epoch>,
    pub(crate) epoch_shards: Option<Epoch>,
    pub(crate) cold: Option<Cold>,
    /// Images a second that a GPU wants.
    pub(crate) target: f64,
    /// Bytes that were read in all.
    pub(crate) read_bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) verdict: Option<Verdict>,
}

/// How much may be done.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// Numbers of readers, rising, each at least 1.
    pub(crate) concurrency: Vec<usize>,
    /// Of each measurement.
    pub(crate) time: Duration,
    /// Bytes read in all.
    pub(crate) bytes: u64,
    /// Whether the machine is to forget what is read next.
    pub(crate) cold: bool,
}

impl Bounds {
    /// Most readers at once.
    pub(crate) fn most(&self) -> usize {
        self.concurrency.iter().copied().max().unwrap_or(1)
    }
}

/// Measures one thing after the other within its bounds.
pub(crate) struct Bencher {
    bounds: Bounds,
    around: Around,
    /// Bytes that may still be read, and the weight of all measurements that are to come.
    left: u64,
    weight: u64,
    /// What became of files that were to be forgotten.
    pub(crate) cold: Cold,
}

impl Bencher {
    /// One who will measure all there is, a training loop and decoding if they are wanted.
    pub(crate) fn new(bounds: Bounds, around: Around, trains: bool, decodes: bool) -> Self {
        let each = bounds.concurrency.len() as u64;
        // Files by each number of readers and once in order, streams, samples, and blocks of them.
        let weight = each * (WEIGHT_OF_STREAMS + 3)
            + 1
            + u64::from(trains) * 2 * WEIGHT_OF_TRAINING
            + u64::from(decodes);
        Self {
            left: bounds.bytes,
            bounds,
            around,
            weight,
            cold: Cold::default(),
        }
    }

    /// Bytes that were read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.bounds.bytes - self.left
    }

    /// Bytes that may still be read.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Takes bytes that are read elsewhere.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// What one measurement may read: what is left, divided among those that are to come, so that those that need less leave it to the others.
    fn share(&mut self, weight: u64) -> u64 {
        let share = self.left / self.weight.max(1) * weight;
        self.weight = self.weight.saturating_sub(weight);
        share.min(self.left)
    }

    fn measure(
        &mut self,
        load: &dyn Load,
        readers: usize,
        share: u64,
        queue: Option<&Arc<Queue>>,
    ) -> Result<Readers> {
        let allowance = Arc::new(Allowance::new(share));
        let limits = Limits {
            readers,
            time: self.bounds.time,
            allowance: Arc::clone(&allowance),
        };
        let rate = measure(load, &limits, queue, &self.around)?;
        self.left -= share - allowance.left();
        Ok(Readers { readers, rate })
    }

    /// The images as files, by each number of readers.
    pub(crate) fn files(
        &mut self,
        images: &Images,
        order: ReadOrder,
        readers: &[usize],
    ) -> Result<Vec<Readers>> {
        let mut all = Vec::new();
        for &readers in readers {
            let share = self.share(1);
            let load = match self.bounds.cold {
                false => images.load(order),
                true => self.cold_files(images, order, share)?,
            };
            all.push(self.measure(&load, readers, share, None)?);
        }
        Ok(all)
    }

    /// Files that are in no memory, as far as one can have that, of so many bytes.
    fn cold_files(
        &mut self,
        images: &Images,
        order: ReadOrder,
        mut share: u64,
    ) -> Result<images::Files> {
        let (cold, stop) = (&mut self.cold, &self.around.stop);
        images.load_once(order, self.bounds.time, |field: &Field| {
            stop.check()?;
            let fits = share > 0;
            share = share.saturating_sub(field.size);
            if fits {
                cold.add(images.drop_cached(field)?);
            }
            Ok(fits)
        })
    }

    fn cool(&mut self, shards: &Shards) -> Result<()> {
        if !self.bounds.cold {
            return Ok(());
        }
        let (cold, stop) = (&mut self.cold, &self.around.stop);
        shards.forget(|sink, name| {
            stop.check()?;
            cold.add(sink.drop_cached(name)?);
            Ok(())
        })
    }

    /// Whole shards by each number of readers.
    pub(crate) fn shards(&mut self, shards: &Shards) -> Result<Vec<Readers>> {
        let mut all = Vec::new();
        for readers in self.bounds.concurrency.clone() {
            self.cool(shards)?;
            let share = self.share(WEIGHT_OF_STREAMS);
            let load = shards.streams(self.bounds.cold);
            all.push(self.measure(&load, readers, share, None)?);
        }
        Ok(all)
    }

    /// Samples in random order, or blocks of them, by each number of readers.
    pub(crate) fn ranges(&mut self, shards: &Shards, block: Option<u64>) -> Result<Vec<Readers>> {
        let mut all = Vec::new();
        for readers in self.bounds.concurrency.clone() {
            self.cool(shards)?;
            let share = self.share(1);
            // Each reader has some of them.
            let least = |bytes: u64| bytes.min(share / readers as u64 / 2).max(1);
            let load = shards.ranges(block.map(least), self.bounds.cold);
            all.push(self.measure(&load, readers, share, None)?);
        }
        Ok(all)
    }

    /// A training loop at this pace, behind as many readers as were fastest.
    pub(crate) fn training(
        &mut self,
        pace: Pace,
        images: &Images,
        shards: &Shards,
        bench: &Bench,
    ) -> Result<Training> {
        let files_readers = best(&bench.files).0.max(1);
        let share = self.share(WEIGHT_OF_TRAINING);
        let files = match self.bounds.cold {
            false => images.load(ReadOrder::Random),
            true => self.cold_files(images, ReadOrder::Random, share)?,
        };
        let of_files = self.behind(&files, files_readers, share, pace)?;
        self.cool(shards)?;
        let shards_readers = best(&bench.shards).0.max(1);
        let share = self.share(WEIGHT_OF_TRAINING);
        let streams = shards.streams(self.bounds.cold);
        Ok(Training {
            batch: pace.batch,
            images_per_second: pace.images_per_second,
            files_readers,
            files: of_files,
            shards_readers,
            shards: self.behind(&streams, shards_readers, share, pace)?,
        })
    }

    fn behind(
        &mut self,
        load: &dyn Load,
        readers: usize,
        share: u64,
        pace: Pace,
    ) -> Result<Waiting> {
        let queue = Queue::new(pace);
        let until = Instant::now() + self.bounds.time;
        let consumer = {
            let queue = Arc::clone(&queue);
            let work = move || queue.consume(pace, until);
            let builder = std::thread::Builder::new().name("gpu".to_owned());
            builder
                .spawn(work)
                .map_err(|error| Error::io("a thread in place of a GPU", error))?
        };
        self.measure(load, readers, share, Some(&queue))?;
        match consumer.join() {
            Ok(waiting) => Ok(waiting),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Milliseconds until the first byte of an image, asked for alone.
    pub(crate) fn first_byte(&self, images: &Images) -> Result<Percentiles> {
        let check = || self.around.stop.check();
        let waits = images.first_bytes(PROBED, self.bounds.time, check)?;
        Ok(Percentiles::of(&waits))
    }

    /// How fast a core decodes.
    pub(crate) fn decode(&mut self, images: &Images) -> Result<Decoding> {
        let share = self.share(1);
        let allowance = Allowance::new(share);
        let decoding = decode(images, self.bounds.time, &allowance, &self.around.stop)?;
        self.left -= share - allowance.left();
        Ok(decoding)
    }
}
