//! What a verification is asked, what it answers, and how its work is spread over threads.

use std::io::{BufRead, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use serde::Serialize;

use crate::base::error::{Error, Result};
use crate::base::signal::Stop;
use crate::format::Finding;
use crate::model::counters::Counters;
use crate::source::samples::Scan;
use crate::store::{Sink, Source};

/// How deep a verification looks; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Names and sizes, nothing missing, nothing extra.
    List,
    /// Checksums of whole shards and indexes.
    Head,
    /// Every header, field, end marker and index row.
    Data,
    /// Every file of the source, byte for byte.
    Source,
}

/// What a verification saw and found.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Shards looked at.
    pub shards: u64,
    /// Samples looked at.
    pub samples: u64,
    /// Bytes of shards read.
    pub bytes: u64,
    /// What is wrong, sorted by object and place.
    pub findings: Vec<Finding>,
    /// What is not wrong, but worth knowing.
    pub notes: Vec<Finding>,
    /// What could not be checked, and why.
    pub unchecked: Vec<String>,
    /// Shards and indexes of which the store keeps no checksum, at [`Level::Head`].
    pub unknown: u64,
    /// Shards whose content was not looked at, because only some were to be read, or for so long.
    #[serde(skip_serializing_if = "is_zero")]
    pub left: u64,
}

impl Report {
    /// Whether all that was looked at is as it was published.
    pub fn is_intact(&self) -> bool {
        self.findings.is_empty() && self.unknown == 0
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The source that a dataset is compared with.
pub(crate) struct SourceToCompare<'a> {
    /// Where its files are read.
    pub source: &'a dyn Source,
    /// Its samples as they are now.
    pub scan: &'a Scan,
}

/// Which of the shards are read, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    /// The first of them, in the order of the manifest.
    pub from: usize,
    /// How many, going on at the beginning after the last.
    pub count: usize,
    /// No shard is begun after this.
    pub until: Option<Instant>,
}

impl Portion {
    /// All shards.
    pub(crate) const ALL: Self = Self {
        from: 0,
        count: usize::MAX,
        until: None,
    };
}

/// One verification.
pub(crate) struct Verifier<'a> {
    /// The dataset.
    pub sink: &'a dyn Sink,
    /// How deep.
    pub level: Level,
    /// The source, for [`Level::Source`].
    pub against: Option<SourceToCompare<'a>>,
    /// Which shards, beyond [`Level::List`].
    pub portion: Portion,
    /// Shards read at once.
    pub jobs: usize,
    /// Bytes of source files held by each of them.
    pub window_bytes: u64,
    /// Counts what happens.
    pub counters: &'a Counters,
    /// Says when to stop.
    pub stop: &'a Stop,
}

impl<'a> Verifier<'a> {
    /// One that looks at all of a dataset without its source.
    pub(crate) fn of_data(
        sink: &'a dyn Sink,
        jobs: usize,
        counters: &'a Counters,
        stop: &'a Stop,
    ) -> Self {
        Self {
            sink,
            level: Level::Data,
            against: None,
            portion: Portion::ALL,
            jobs,
            window_bytes: 0,
            counters,
            stop,
        }
    }
}

impl Verifier<'_> {
    /// Calls `work` for 0..count on several threads until it is done or the time is over, and gives how many were begun. The first
    /// error ends it.
    pub(super) fn on_threads(
        &self,
        count: usize,
        work: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<usize> {
        let next = AtomicUsize::new(0);
        let run = || {
            loop {
                self.stop.check()?;
                let until = self.portion.until;
                if until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(());
                }
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= count {
                    return Ok(());
                }
                work(i).inspect_err(|_| next.store(count, Ordering::Relaxed))?;
            }
        };
        // What the store itself compares takes no memory here: as many as there may be requests.
        let most = match self.level {
            Level::Head => self.jobs.max(self.sink.requests()),
            _ => self.jobs,
        };
        let ended: Vec<Result<()>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..most.clamp(1, count.max(1)))
                .map(|_| scope.spawn(run))
                .collect();
            let join = |thread: ScopedJoinHandle<'_, Result<()>>| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::failed("a verifying thread panicked")))
            };
            threads.into_iter().map(join).collect()
        });
        ended.into_iter().collect::<Result<()>>()?;
        Ok(next.into_inner().min(count))
    }

    /// Opens a shard; its bytes are counted as they are read.
    pub(super) fn open(&self, name: &str) -> Result<CountedReader<'_>> {
        Ok(CountedReader {
            inner: self.sink.open(name)?,
            counters: self.counters,
            stop: self.stop.clone(),
        })
    }
}

/// Counts what is read of a shard and ends the reading when the run is to stop.
pub(super) struct CountedReader<'a> {
    inner: Box<dyn BufRead + Send>,
    counters: &'a Counters,
    stop: Stop,
}

impl BufRead for CountedReader<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.stop.check().map_err(std::io::Error::other)?;
        self.inner.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.counters.read(bytes as u64);
        self.inner.consume(bytes);
    }
}

impl Read for CountedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stop.check().map_err(std::io::Error::other)?;
        let n = self.inner.read(buffer)?;
        self.counters.read(n as u64);
        Ok(n)
    }
}
