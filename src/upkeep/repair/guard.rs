//! The one way by which a repair writes what is published: bytes that are not those of the manifest never get there.
//!
//! Whoever makes an object again writes it here as to any store. Length and CRC-32 are compared before anything becomes visible, so
//! what lies there, damaged in one place and intact in all others, is only ever replaced by the whole.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::base::checksum::{crc_from_text, crc_text};
use crate::base::error::Result;
use crate::model::manifest::Manifest;
use crate::model::name::RECORD_DIR;
use crate::model::record::ShardRecord;
use crate::publish::card::{CARD, render_card};
use crate::publish::companions::{SUMS, sha256_sums};
use crate::store::{Leftover, ObjectMeta, ShardWriter, Sink, StoredChecksum};

/// Length and CRC-32 of an object.
type Sum = (u64, u32);

/// What was offered for each object.
#[derive(Default)]
struct Offered {
    /// Names of objects of which the very bytes were made.
    made: HashSet<String>,
    /// What came out for others, in words.
    refused: HashMap<String, String>,
}

/// A store that takes of each object nothing but what was published under its name.
///
/// A write of other bytes is dropped and remembered, and succeeds: whoever makes several objects goes on with the next.
pub(super) struct Guard<'a> {
    sink: &'a dyn Sink,
    published: HashMap<String, Sum>,
    /// Objects that are known to be what was published: not written again.
    intact: HashSet<String>,
    /// Class names by label.
    classes: Vec<String>,
    dry_run: bool,
    offered: Arc<Mutex<Offered>>,
}

impl<'a> Guard<'a> {
    /// Lets through to `sink` what this manifest names; with `dry_run` nothing at all, and tells what would have been.
    pub(super) fn new(sink: &'a dyn Sink, manifest: &Manifest, dry_run: bool) -> Self {
        let shards = manifest.shards().flat_map(|(_, shard)| {
            [
                (&shard.name, shard.bytes, &shard.crc32),
                (&shard.index, shard.index_bytes, &shard.index_crc32),
            ]
        });
        let files = manifest
            .indexes
            .iter()
            .map(|file| (&file.name, file.bytes, &file.crc32));
        let sum = |(name, bytes, crc32): (&String, u64, &String)| {
            Some((name.clone(), (bytes, crc_from_text(crc32)?)))
        };
        // These follow from the manifest.
        let sums = sha256_sums(manifest).map(|sums| (SUMS, sums));
        let rendered = sums.into_iter().chain([(CARD, render_card(manifest))]);
        let rendered = rendered.map(|(name, text)| {
            let sum = (text.len() as u64, crc32fast::hash(text.as_bytes()));
            (name.to_owned(), sum)
        });
        Self {
            sink,
            published: shards
                .chain(files)
                .filter_map(sum)
                .chain(rendered)
                .collect(),
            intact: HashSet::new(),
            classes: manifest.names.classes.clone(),
            dry_run,
            offered: Arc::default(),
        }
    }

    /// Leaves this object alone, which is as it was published.
    pub(super) fn leave(&mut self, name: &str) {
        self.intact.insert(name.to_owned());
    }

    /// Whether this object is left alone.
    pub(super) fn leaves(&self, name: &str) -> bool {
        self.intact.contains(name)
    }

    /// Whether the published bytes of this object were made and are, or in a dry run would be, in place.
    pub(super) fn made(&self, name: &str) -> bool {
        lock(&self.offered).made.contains(name)
    }

    /// What was made of this object instead of what was published, if anything was.
    pub(super) fn refused(&self, name: &str) -> Option<String> {
        lock(&self.offered).refused.get(name).cloned()
    }

    /// An index as it was published, where it was written before it had all the columns that it has now.
    fn as_before(&self, name: &str, body: &[u8]) -> Option<Vec<u8>> {
        let published = self.published.get(name)?;
        let is_it = |body: &[u8]| *published == (body.len() as u64, crc32fast::hash(body));
        if !name.starts_with(RECORD_DIR) || is_it(body) {
            return None;
        }
        let record = ShardRecord::decode(name, &Bytes::copy_from_slice(body)).ok()?;
        let before = record.encode_as_before(&self.classes).ok()?;
        is_it(&before).then_some(before)
    }

    /// Whether these are the bytes to be written; what is not is remembered.
    fn judge(&self, name: &str, body: &[u8]) -> bool {
        let made = (body.len() as u64, crc32fast::hash(body));
        let same = judge(&self.offered, name, self.published.get(name), made);
        same && !self.dry_run && !self.intact.contains(name)
    }
}

/// Compares what was made with what was published, and remembers how that ended.
fn judge(offered: &Mutex<Offered>, name: &str, published: Option<&Sum>, made: Sum) -> bool {
    let mut offered = lock(offered);
    if published == Some(&made) {
        offered.made.insert(name.to_owned());
        return true;
    }
    let text = |(bytes, crc32): Sum| format!("{bytes} bytes with crc32 {}", crc_text(crc32));
    let published = published.map_or("nothing".to_owned(), |sum| text(*sum));
    let what = format!(
        "made again it is not what was published: {}, published were {published}",
        text(made)
    );
    offered.refused.insert(name.to_owned(), what);
    false
}

fn lock(offered: &Mutex<Offered>) -> MutexGuard<'_, Offered> {
    offered.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sink.fmt(f)
    }
}

impl Sink for Guard<'_> {
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn ShardWriter>> {
        let write = !self.dry_run && !self.intact.contains(name);
        Ok(Box::new(GuardedWriter {
            inner: write.then(|| self.sink.create(name, bytes)).transpose()?,
            name: name.to_owned(),
            published: self.published.get(name).copied(),
            bytes: 0,
            offered: Arc::clone(&self.offered),
        }))
    }

    fn put(&self, name: &str, body: &[u8]) -> Result<()> {
        let before = self.as_before(name, body);
        let body = before.as_deref().unwrap_or(body);
        match self.judge(name, body) {
            true => self.sink.put(name, body),
            false => Ok(()),
        }
    }

    fn put_if_absent(&self, name: &str, body: &[u8]) -> Result<bool> {
        match self.judge(name, body) {
            true => self.sink.put_if_absent(name, body),
            false => Ok(true),
        }
    }

    /// Nothing is removed by a repair.
    fn remove(&self, _: &str) -> Result<()> {
        Ok(())
    }

    /// Nothing is removed by a repair.
    fn discard(&self, _: &Leftover) -> Result<()> {
        Ok(())
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.sink.get(name)
    }

    fn range(&self, name: &str, offset: u64, length: usize) -> Result<Bytes> {
        self.sink.range(name, offset, length)
    }

    fn open(&self, name: &str) -> Result<Box<dyn BufRead + Send>> {
        self.sink.open(name)
    }

    fn check_exclusive(&self, name: &str, body: &[u8]) -> Result<()> {
        self.sink.check_exclusive(name, body)
    }

    fn list_with_ages(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        self.sink.list_with_ages(prefix)
    }

    fn sweep(&self) -> Result<u64> {
        self.sink.sweep()
    }

    fn leftovers(&self) -> Result<Vec<Leftover>> {
        self.sink.leftovers()
    }

    fn stored_checksum(&self, name: &str) -> Result<StoredChecksum> {
        self.sink.stored_checksum(name)
    }

    fn requests(&self) -> usize {
        self.sink.requests()
    }

    fn writing_bytes(&self) -> u64 {
        self.sink.writing_bytes()
    }

    fn reading_bytes(&self) -> u64 {
        self.sink.reading_bytes()
    }

    fn check_apart(&self, source: &str) -> Result<()> {
        self.sink.check_apart(source)
    }
}

/// An object being made again. Its writer leaves nothing behind when it is dropped.
struct GuardedWriter {
    /// `None` where nothing is to be written.
    inner: Option<Box<dyn ShardWriter>>,
    name: String,
    published: Option<Sum>,
    bytes: u64,
    offered: Arc<Mutex<Offered>>,
}

impl Write for GuardedWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let n = match &mut self.inner {
            Some(inner) => inner.write(data)?,
            None => data.len(),
        };
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl ShardWriter for GuardedWriter {
    fn commit(self: Box<Self>, crc32: u32) -> Result<()> {
        let made = (self.bytes, crc32);
        let same = judge(&self.offered, &self.name, self.published.as_ref(), made);
        match self.inner {
            Some(inner) if same => inner.commit(crc32),
            _ => Ok(()),
        }
    }
}
