//! A source whose archives are directories.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::compressed::Unpacked;
use super::left_out::LeftOut;
use super::list::{Lister, list};
use super::read::Readers;
use super::together::{self, GAP_BYTES};
use super::walks::Walks;
use crate::base::buffer::Buffer;
use crate::base::error::Result;
use crate::base::reactor::Pending;
use crate::base::signal::Stop;
use crate::model::counters::Counters;
use crate::model::extent::Method;
use crate::model::listing::Listing;
use crate::model::sample::{Field, FilePath, Member, Version};
use crate::store::{Access, Dropped, Positioned, Source};

/// As far apart may members lie of which one read had better give both: what belongs to one sample may lie in between.
const NEAR_BYTES: u64 = 512 << 10;

/// A store with the archives in it as directories, or one archive as all there is.
pub(super) struct ArchiveSource {
    inner: Arc<dyn Source>,
    /// As it was given.
    location: String,
    /// The archive that is the source, in the directory that `inner` is.
    lone: Option<FilePath>,
    left_out: LeftOut,
    counters: Arc<Counters>,
    stop: Stop,
    unpacked: Arc<Unpacked>,
    memory: u64,
    readers: Arc<Readers>,
    /// What walks found, for the next listing.
    walks: Mutex<Walks>,
}

impl ArchiveSource {
    pub(super) fn new(
        inner: Box<dyn Source>,
        location: &str,
        lone: Option<FilePath>,
        access: &Access,
    ) -> Self {
        Self {
            inner: Arc::from(inner),
            location: location.to_owned(),
            lone,
            left_out: access.left_out.clone(),
            counters: Arc::clone(&access.counters),
            stop: access.stop.clone(),
            unpacked: Arc::default(),
            memory: access.memory,
            readers: Arc::default(),
            walks: Mutex::default(),
        }
    }

    fn last_walks(&self) -> MutexGuard<'_, Walks> {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it takes to read a part of a member.
    fn reading(&self, field: &Field, part: Option<(u64, u64)>) -> Result<super::read::Reading> {
        super::read::Reading::new(
            &self.inner,
            &self.unpacked,
            &self.readers,
            self.lone.as_ref(),
            field,
            part,
        )
    }
}

/// The path of the file that is opened for a member.
fn archive_of<'f>(field: &'f Field, member: &Member) -> Option<&'f [u8]> {
    let prefix = usize::from(member.archive.prefix_bytes);
    field.path.as_bytes().get(..prefix)
}

impl fmt::Display for ArchiveSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lone {
            None => self.inner.fmt(f),
            Some(_) => f.write_str(&crate::base::text::show(self.location.as_bytes())),
        }
    }
}

impl Source for ArchiveSource {
    fn list(&self) -> Result<Listing> {
        self.list_again(&|| Ok(Vec::new()))
    }

    fn list_again(&self, walks: &dyn Fn() -> Result<Vec<u8>>) -> Result<Listing> {
        let lister = Lister {
            inner: &self.inner,
            location: &self.location,
            lone: self.lone.as_ref(),
            left_out: &self.left_out,
            counters: &self.counters,
            stop: &self.stop,
            unpacked: &self.unpacked,
            memory: self.memory,
        };
        let mut last = self.last_walks();
        let mut known = || {
            let last = std::mem::take(&mut *last);
            Ok(match last.is_empty() {
                true => Walks::decode(&walks()?),
                false => last,
            })
        };
        let (listing, found) = list(&lister, &mut known)?;
        *last = found;
        Ok(listing)
    }

    fn start(&self, field: &Field) -> Pending<Buffer> {
        match (&field.version, &self.lone) {
            (Version::Mtime(_) | Version::ETag(_), None) => self.inner.start(field),
            _ => match self.reading(field, None) {
                Ok(reading) => reading.start(),
                Err(error) => Pending::later(|| Err(error)),
            },
        }
    }

    fn part(&self, field: &Field, offset: u64, length: u64) -> Pending<Buffer> {
        match (&field.version, &self.lone) {
            (Version::Mtime(_) | Version::ETag(_), None) => self.inner.part(field, offset, length),
            _ => match self.reading(field, Some((offset, length))) {
                Ok(reading) => reading.start(),
                Err(error) => Pending::later(|| Err(error)),
            },
        }
    }

    fn started_bytes(&self, field: &Field) -> u64 {
        match (&field.version, &self.lone) {
            (Version::Mtime(_) | Version::ETag(_), None) => self.inner.started_bytes(field),
            _ => self
                .reading(field, None)
                .map_or(0, |reading| reading.started_bytes()),
        }
    }

    fn start_all(&self, fields: &[&Field]) -> Vec<Pending<Buffer>> {
        let reading = |field: &&Field| match self.share_bytes(field) {
            0 => None,
            _ => self.reading(field, None).ok(),
        };
        let readings = fields.iter().map(reading).collect();
        let started = together::start(&self.inner, readings).into_iter();
        let alone =
            |(started, field): (Option<_>, &&Field)| started.unwrap_or_else(|| self.start(field));
        started.zip(fields).map(alone).collect()
    }

    fn adjoins(&self, field: &Field, next: &Field) -> bool {
        let (Version::Member(one), Version::Member(other)) = (&field.version, &next.version) else {
            return false;
        };
        let (a, b) = (one.extent, other.extent);
        let apart = match a.offset <= b.offset {
            true => b.offset.saturating_sub(a.offset + a.bytes),
            false => a.offset.saturating_sub(b.offset + b.bytes),
        };
        apart <= NEAR_BYTES
            && (Arc::ptr_eq(&one.archive, &other.archive) || one.archive == other.archive)
            && archive_of(field, one) == archive_of(next, other)
    }

    fn share_bytes(&self, field: &Field) -> u64 {
        match &field.version {
            Version::Member(member)
                if member.extent.method == Method::Stored
                    && field.size > 0
                    && self.together_bytes() > 0 =>
            {
                field.size + GAP_BYTES
            }
            _ => 0,
        }
    }

    fn together_bytes(&self) -> u64 {
        self.inner.together_bytes()
    }

    fn drop_cached(&self, field: &Field) -> Result<Option<Dropped>> {
        match (&field.version, &self.lone) {
            (Version::Mtime(_) | Version::ETag(_), None) => self.inner.drop_cached(field),
            // A member is a part of a file, whose other parts are read by others.
            _ => Ok(None),
        }
    }

    fn spare(&self, length: usize) -> Buffer {
        self.inner.spare(length)
    }

    fn recycle(&self, buffer: Buffer) {
        self.inner.recycle(buffer);
    }

    fn lend(&self, threads: usize) {
        self.inner.lend(threads);
    }

    fn requests_to_list(&self, files: u64) -> u64 {
        self.inner.requests_to_list(files)
    }

    fn requests_to_read(&self, bytes: u64) -> u64 {
        self.inner.requests_to_read(bytes)
    }

    fn reads(&self) -> usize {
        self.inner.reads()
    }

    fn overhead_bytes(&self) -> u64 {
        self.inner.overhead_bytes()
    }

    fn window_bytes(&self) -> u64 {
        self.inner.window_bytes()
    }

    fn look(&self, name: &FilePath) -> Result<Option<(u64, Version)>> {
        self.inner.look(name)
    }

    fn open(&self, field: &Field) -> Result<Option<Box<dyn Positioned>>> {
        self.inner.open(field)
    }

    fn walks(&self) -> Vec<u8> {
        self.last_walks().encode()
    }
}
