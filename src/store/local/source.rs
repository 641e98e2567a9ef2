//! A directory tree of samples as a [`Source`].

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::base::buffer::{Buffer, Buffers, allocated};
use crate::base::error::{Error, Kind, Result};
use crate::base::reactor::{Pending, Reactor};
use crate::base::text::show;
use crate::model::counters::Counters;
use crate::model::listing::Listing;
use crate::model::sample::{Field, FilePath, Version};
use crate::store::local::cached::drop_cached;
use crate::store::local::list::Walk;
use crate::store::local::paths::mtime;
use crate::store::local::read::{Opened, Reading, SourceRoot};
use crate::store::local::steps::Steps;
use crate::store::{Access, Dropped, Positioned, Source};

/// Reads at once when nothing is said: what a file system needs whose every open takes 100 ms.
const READS: usize = 256;
/// What a reader thread touches of its stack and the allocator.
const READER_BYTES: u64 = 40 << 10;

/// An ImageFolder on a file system.
pub(in crate::store) struct LocalSource {
    root: Arc<SourceRoot>,
    reactor: Reactor,
    buffers: Arc<Buffers>,
    reads: usize,
    steps: Steps,
    counters: Arc<Counters>,
}

impl LocalSource {
    /// Opens a directory that is there; anything else is refused with [`Kind::Source`].
    pub(in crate::store) fn open(location: &str, access: &Access) -> Result<Self> {
        let opened =
            fs::metadata(location).and_then(|meta| Ok((meta, fs::canonicalize(location)?)));
        let (meta, path) = opened.map_err(|error| {
            let remedy = "give the directory that holds the images";
            let absent = error.kind() == io::ErrorKind::NotFound;
            let refusal = Error::named(Kind::Source, location, error, remedy);
            match absent {
                true => refusal.of_absent_place(),
                false => refusal,
            }
        })?;
        if !meta.is_dir() {
            return Err(Error::source_data(format!(
                "{location} is a file: give the directory that holds the images, or an archive of them (.tar, .zip, a small .tar.gz)"
            )));
        }
        let reads = access.reads.unwrap_or(READS).min(access.open_files).max(1);
        Ok(Self {
            root: Arc::new(SourceRoot {
                given: show(location.as_bytes()),
                path,
            }),
            reactor: Reactor::new(reads, 0),
            buffers: Arc::new(Buffers::within(access.memory)),
            reads,
            steps: Steps::of(access),
            counters: Arc::clone(&access.counters),
        })
    }
}

impl fmt::Display for LocalSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root.given)
    }
}

impl Source for LocalSource {
    fn list(&self) -> Result<Listing> {
        // Two threads when files are warm, as many as reads when every directory is slow.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let reactor = Reactor::new(self.reads.max(cores), cores.saturating_sub(1));
        Walk::new(reactor, self.steps.clone(), Arc::clone(&self.counters))
            .run(&self.root.given, &self.root.path)
    }

    fn start(&self, field: &Field) -> Pending<Buffer> {
        self.part(field, 0, field.size)
    }

    fn part(&self, field: &Field, offset: u64, length: u64) -> Pending<Buffer> {
        let reading = Reading {
            root: Arc::clone(&self.root),
            name: field.path.clone(),
            size: field.size,
            version: field.version.clone(),
            offset,
            length,
            buffers: Arc::clone(&self.buffers),
            steps: self.steps.clone(),
        };
        self.reactor.start(move || reading.run())
    }

    fn started_bytes(&self, field: &Field) -> u64 {
        Reactor::started_bytes::<Buffer>(size_of::<Reading>())
            + allocated(field.path.as_bytes().len())
    }

    fn recycle(&self, buffer: Buffer) {
        self.buffers.give_back(buffer);
    }

    fn lend(&self, threads: usize) {
        self.reactor.lend(threads);
    }

    fn reads(&self) -> usize {
        self.reads
    }

    fn overhead_bytes(&self) -> u64 {
        self.reads as u64 * READER_BYTES
    }

    fn window_bytes(&self) -> u64 {
        0
    }

    fn look(&self, name: &FilePath) -> Result<Option<(u64, Version)>> {
        let path = self.root.path.join(OsStr::from_bytes(name.as_bytes()));
        match self.steps.read("look", &path, || fs::metadata(&path)) {
            Ok(meta) if meta.is_file() => Ok(Some((meta.len(), Version::Mtime(mtime(&meta))))),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(name.to_string(), error)),
        }
    }

    fn drop_cached(&self, field: &Field) -> Result<Option<Dropped>> {
        let path = self
            .root
            .path
            .join(OsStr::from_bytes(field.path.as_bytes()));
        let dropped =
            drop_cached(&path).map_err(|error| Error::io(field.path.to_string(), error))?;
        Ok(Some(dropped))
    }

    fn open(&self, field: &Field) -> Result<Option<Box<dyn Positioned>>> {
        let opened = Opened::open(&self.root, field, &self.steps)?;
        Ok(Some(Box::new(opened)))
    }
}
