//! A dataset's samples as shards: read from their beginning to their end, sample by sample, and by blocks of samples.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::load::{Allowance, Load, Portion, Reader};
use crate::base::error::{Error, Kind, Result};
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::recipe::Compression;
use crate::model::record::ShardRecord;
use crate::state::published::require_record;
use crate::store::{Sink, at_once};

/// Shards whose samples are looked up at most.
const MOST_SHARDS: usize = 256;
/// Bytes that a reader takes of what it streams at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes of a block of samples at least.
pub(crate) const BLOCK_BYTES: u64 = 4 << 20;
const SEED: u64 = 0x5eed;

/// Neighbouring bytes of a shard, and the images in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// Number of the shard in [`Shards::shards`].
    shard: u32,
    images: u32,
    offset: u64,
    length: u64,
}

/// A shard to be read.
struct Shard {
    name: String,
    bytes: u64,
    /// Where each sample ends in the file, in order.
    ends: Vec<u64>,
    /// Where its images are; none in a shard that must be unpacked from its beginning.
    images: Vec<(u64, u64)>,
}

impl Shard {
    fn new(entry: &ShardEntry, record: &ShardRecord, compress: Compression) -> Self {
        // Where a sample lies in a packed shard nobody knows; about as far into it as into what it unpacks to.
        let packed = record.bytes as f64 / record.unpacked_bytes().max(1) as f64;
        let samples = record.samples.iter();
        let end = |end: u64| match compress {
            Compression::None => end,
            _ => (end as f64 * packed) as u64,
        };
        let ends = samples
            .clone()
            .map(|sample| end(sample.offset + sample.length).min(entry.bytes))
            .collect();
        let images = samples
            .filter(|_| compress == Compression::None)
            .filter_map(|sample| sample.image())
            .map(|image| (image.offset, image.length))
            .collect();
        Self {
            name: entry.name.clone(),
            bytes: entry.bytes,
            ends,
            images,
        }
    }
}

/// Shards of a dataset, chosen at random where there are many.
pub(crate) struct Shards {
    sink: Arc<dyn Sink>,
    shards: Arc<Vec<Shard>>,
    /// Where the readers of the next measurement begin.
    next: AtomicUsize,
}

impl Shards {
    /// Reads the indexes of some shards.
    ///
    /// # Errors
    ///
    /// An index that cannot be read; a dataset without samples.
    pub(crate) fn open(
        sink: &Arc<dyn Sink>,
        manifest: &Manifest,
        most_requests: usize,
        check: impl Fn() -> Result<()> + Sync,
    ) -> Result<Self> {
        let mut entries: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
        Rng::with_seed(SEED).shuffle(&mut entries);
        entries.truncate(MOST_SHARDS);
        let compress = manifest.recipe.compress;
        let shards = at_once(most_requests, &entries, |entry| {
            check()?;
            let record = require_record(entry, sink.as_ref())?;
            Ok(Shard::new(entry, &record, compress))
        })?;
        if shards.iter().all(|shard| shard.ends.is_empty()) {
            return Err(Error::failed(format!(
                "{sink}: there are no samples in it that could be read"
            )));
        }
        Ok(Self {
            sink: Arc::clone(sink),
            shards: Arc::new(shards),
            next: AtomicUsize::new(0),
        })
    }

    /// Whether samples can be read alone.
    pub(crate) fn has_ranges(&self) -> bool {
        self.shards.iter().any(|shard| !shard.images.is_empty())
    }

    /// Bytes of a shard in the mean.
    pub(crate) fn mean_bytes(&self) -> u64 {
        let bytes: u64 = self.shards.iter().map(|shard| shard.bytes).sum();
        bytes / self.shards.len().max(1) as u64
    }

    /// Has the machine forget them; `each` is told of every one.
    pub(crate) fn forget(&self, mut each: impl FnMut(&dyn Sink, &str) -> Result<()>) -> Result<()> {
        let mut shards = self.shards.iter();
        shards.try_for_each(|shard| each(self.sink.as_ref(), &shard.name))
    }

    /// Whole shards, from their beginning; each once, or again and again.
    pub(crate) fn streams(&self, once: bool) -> Streams {
        Streams {
            sink: Arc::clone(&self.sink),
            shards: Arc::clone(&self.shards),
            first: self.next.fetch_add(1, Ordering::Relaxed),
            once,
        }
    }

    /// Images one by one in random order, or blocks of at least so many bytes in random order; each once, or again and again.
    pub(crate) fn ranges(&self, block: Option<u64>, once: bool) -> Ranges {
        let numbered = (0u32..).zip(self.shards.iter());
        let mut spans: Vec<Span> = match block {
            None => numbered
                .flat_map(|(number, shard)| {
                    let span = move |&(offset, length): &(u64, u64)| Span {
                        shard: number,
                        images: 1,
                        offset,
                        length,
                    };
                    shard.images.iter().map(span)
                })
                .collect(),
            Some(bytes) => numbered
                .flat_map(|(number, shard)| blocks(number, &shard.ends, bytes))
                .collect(),
        };
        Rng::with_seed(SEED).shuffle(&mut spans);
        Ranges {
            sink: Arc::clone(&self.sink),
            shards: Arc::clone(&self.shards),
            spans: Arc::new(spans),
            next: Arc::default(),
            once,
        }
    }
}

/// Neighbouring samples that are at least so many bytes together.
fn blocks(shard: u32, ends: &[u64], bytes: u64) -> Vec<Span> {
    let mut blocks: Vec<Span> = Vec::new();
    let mut begin = 0;
    for &end in ends {
        match blocks.last_mut().filter(|block| block.length < bytes) {
            Some(block) => {
                block.length = end - block.offset;
                block.images += 1;
            }
            None => blocks.push(Span {
                shard,
                images: 1,
                offset: begin,
                length: end - begin,
            }),
        }
        begin = end;
    }
    blocks
}

/// Whole shards to be read from their beginning.
pub(crate) struct Streams {
    sink: Arc<dyn Sink>,
    shards: Arc<Vec<Shard>>,
    /// The shard that the first reader begins with.
    first: usize,
    once: bool,
}

impl Load for Streams {
    fn reader(&self, number: usize, of: usize) -> Box<dyn Reader> {
        let count = self.shards.len();
        // Far apart while there are enough, as loaders divide them.
        let begin = match count >= of {
            true => number * count / of,
            false => number,
        };
        let end = match (self.once, count >= of) {
            (false, _) => usize::MAX,
            (true, true) => (number + 1) * count / of,
            (true, false) => (number + 1).min(count),
        };
        Box::new(Stream {
            sink: Arc::clone(&self.sink),
            shards: Arc::clone(&self.shards),
            first: self.first,
            next: begin,
            end,
            open: None,
            buffer: Vec::new(),
        })
    }
}

/// One who reads shard after shard.
struct Stream {
    sink: Arc<dyn Sink>,
    shards: Arc<Vec<Shard>>,
    first: usize,
    next: usize,
    end: usize,
    open: Option<Open>,
    buffer: Vec<u8>,
}

/// A shard that is being read.
struct Open {
    shard: usize,
    reader: Box<dyn Read + Send>,
    opened: Instant,
    at: u64,
    /// Samples that are there.
    samples: usize,
}

impl Stream {
    /// Opens the next shard with samples; false when there is none.
    fn open_next(&mut self) -> Result<bool> {
        for _ in 0..self.shards.len() {
            if self.next >= self.end {
                return Ok(false);
            }
            let shard = self.first.wrapping_add(self.next) % self.shards.len();
            self.next += 1;
            let Shard {
                name, bytes, ends, ..
            } = &self.shards[shard];
            if ends.is_empty() {
                continue;
            }
            let opened = Instant::now();
            self.open = Some(Open {
                shard,
                reader: self.sink.stream(name, *bytes)?,
                opened,
                at: 0,
                samples: 0,
            });
            return Ok(true);
        }
        Ok(false)
    }
}

impl Reader for Stream {
    fn read(&mut self, allowance: &Allowance) -> Result<Option<Portion>> {
        if self.open.is_none() && !self.open_next()? {
            return Ok(None);
        }
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        let shard = &self.shards[open.shard];
        let mut portion = Portion::default();
        let left = shard.bytes - open.at;
        let room = allowance.take_most(left.min(BUFFER_BYTES as u64)) as usize;
        if room == 0 {
            return Ok(None);
        }
        self.buffer.resize(BUFFER_BYTES, 0);
        let fail = |error| Error::io(format!("{}/{}", self.sink, shard.name), error);
        let mut read = 0;
        if open.at == 0 {
            portion.requests = 1;
            read = fill(&mut open.reader, &mut self.buffer[..room.min(1)]).map_err(fail)?;
            portion.waited = Some(open.opened.elapsed());
        }
        read += fill(&mut open.reader, &mut self.buffer[read..room]).map_err(fail)?;
        if read < room {
            return Err(Error::new(
                Kind::Damage,
                format!(
                    "{}/{}: ends after {} bytes, {} expected: run `shardpack verify {}`",
                    self.sink,
                    shard.name,
                    open.at + read as u64,
                    shard.bytes,
                    self.sink.word()
                ),
            ));
        }
        open.at += read as u64;
        let ended = &shard.ends[open.samples..];
        let ended = ended.partition_point(|end| *end <= open.at);
        if open.samples == 0 && ended > 0 {
            portion.first_sample = Some(open.opened.elapsed());
        }
        open.samples += ended;
        portion.images = ended as u64;
        portion.bytes = read as u64;
        if open.at >= shard.bytes {
            self.open = None;
        }
        Ok(Some(portion))
    }
}

/// Reads until the room is full or nothing more comes.
fn fill(reader: &mut dyn Read, room: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match reader.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Parts of shards to be read in an order.
#[derive(Clone)]
pub(crate) struct Ranges {
    sink: Arc<dyn Sink>,
    shards: Arc<Vec<Shard>>,
    spans: Arc<Vec<Span>>,
    next: Arc<AtomicUsize>,
    once: bool,
}

impl Load for Ranges {
    fn reader(&self, _: usize, _: usize) -> Box<dyn Reader> {
        Box::new(self.clone())
    }
}

impl Reader for Ranges {
    fn read(&mut self, allowance: &Allowance) -> Result<Option<Portion>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if self.spans.is_empty() || self.once && number >= self.spans.len() {
            return Ok(None);
        }
        let span = self.spans[number % self.spans.len()];
        if !allowance.take(span.length) {
            return Ok(None);
        }
        let length = usize::try_from(span.length)
            .map_err(|_| Error::failed("a sample is too large to hold"))?;
        let name = &self.shards[span.shard as usize].name;
        let asked = Instant::now();
        self.sink.range(name, span.offset, length)?;
        let waited: Duration = asked.elapsed();
        Ok(Some(Portion {
            images: u64::from(span.images),
            bytes: span.length,
            requests: 1,
            waited: Some(waited),
            first_sample: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_neighbours_that_hold_every_sample_once() {
        let ends = [10, 15, 40, 41, 42, 90];
        let blocks = blocks(3, &ends, 20);
        let said: Vec<_> = blocks
            .iter()
            .map(|block| (block.offset, block.length, block.images))
            .collect();
        assert_eq!(said, [(0, 40, 3), (40, 50, 3)]);
        assert!(blocks.iter().all(|block| block.shard == 3));
        assert_eq!(super::blocks(0, &[], 20), []);
    }
}
