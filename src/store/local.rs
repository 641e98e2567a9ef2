//! The local file system as source and sink.
//!
//! Reading: opens are deep when they are slow and inline when they are not (see [`crate::base::reactor`]); every file is checked
//! against its planned size and time after its last byte. Writing: temporary name, write, fsync, rename, fsync of the directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::Advice;

use super::{Access, Aged, Kept, Leftover, ShardWriter, Sink, Source, Steps};
use crate::base::buffer::{Buffer, Buffers, allocated};
use crate::base::error::{Error, Kind, Result, reason};
use crate::base::reactor::{Pending, Reactor};
use crate::base::text::show;
use crate::base::unique;
use crate::model::listing::{Dir, Listing, Problem, ProblemKind};
use crate::model::name::check_name;
use crate::model::sample::{Field, FilePath, SourcePath, Version};

/// Reads at once when nothing is said: what a file system needs whose every open takes 100 ms.
const READS: usize = 256;
/// What a reader thread touches of its stack and the allocator.
const READER_BYTES: u64 = 40 << 10;
/// Directory entries looked at in one piece of work.
const CHUNK_ENTRIES: usize = 2048;
/// Pieces of stat work of one directory started before the oldest is waited for.
const CHUNKS_AHEAD: usize = 64;
/// Written bytes after which the disk is set to work, so that the fsync at the end finds little to do.
const WRITE_BACK_BYTES: u64 = 16 << 20;
/// Small writes are gathered up to here; larger ones go out with them in one call, uncopied.
const GATHER_BYTES: usize = 8 * 1024;

/// Directories in a dataset that are ours.
const OURS: [&str; 4] = ["data", "index", ".nv-meta", "_shardpack"];

/// The root of a fresh ext4 volume has it, and only root may look inside.
const LOST_FOUND: &str = "lost+found";

/// An ImageFolder on a file system.
pub(super) struct LocalSource {
    root: Arc<Root>,
    reactor: Reactor,
    buffers: Arc<Buffers>,
    reads: usize,
    steps: Steps,
}

/// The directory of a source.
struct Root {
    /// As it was given, for messages.
    given: String,
    /// Where that was when the run began.
    path: PathBuf,
}

impl LocalSource {
    pub(super) fn open(location: &str, access: &Access) -> Result<Self> {
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
                "{location} is a file: give the directory that holds the images"
            )));
        }
        let reads = access.reads.unwrap_or(READS).min(access.open_files).max(1);
        Ok(Self {
            root: Arc::new(Root {
                given: show(location.as_bytes()),
                path,
            }),
            reactor: Reactor::new(reads, 0),
            buffers: Arc::new(Buffers::within(access.memory)),
            reads,
            steps: access.steps.clone(),
        })
    }
}

/// A read that was started: what it takes to do it.
struct Reading {
    root: Arc<Root>,
    name: FilePath,
    /// Of the whole file, as planned.
    size: u64,
    version: Version,
    offset: u64,
    length: u64,
    buffers: Arc<Buffers>,
    steps: Steps,
}

impl Reading {
    fn run(self) -> Result<Buffer> {
        let Self {
            name,
            size,
            version,
            offset,
            steps,
            ..
        } = self;
        let fail = |error: io::Error| unreadable(&name, &error);
        let length = usize::try_from(self.length)
            .map_err(|_| Error::failed(format!("{name} is too large to hold")))?;
        let path = std::ffi::OsStr::from_bytes(name.as_bytes());
        let path = self.root.path.join(path);
        let mut file = steps
            .read("open", &path, || File::open(&path))
            .map_err(|error| gone(&self.root, &name, &error))?;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset)).map_err(fail)?;
        }
        let mut buffer = self.buffers.take(length);
        let room = buffer.room(length);
        let read = steps
            .read("read", &path, || read_full(&mut file, room))
            .map_err(fail)?;
        // A part that is complete says nothing of the rest, but the length and the time that are compared do.
        let reached = match read < length {
            true => offset + read as u64,
            false => size,
        };
        let meta = steps.read("look", &path, || file.metadata());
        check_unchanged(meta, &name, size, &version, reached)?;
        buffer.sum();
        Ok(buffer)
    }
}

impl std::fmt::Display for LocalSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.root.given)
    }
}

impl Source for LocalSource {
    fn list(&self) -> Result<Listing> {
        // Two threads when files are warm, as many as reads when every directory is slow.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Walk {
            reactor: Reactor::new(self.reads.max(cores), cores.saturating_sub(1)),
            listing: Listing::default(),
            directories: Vec::new(),
            entries: std::collections::VecDeque::new(),
            steps: self.steps.clone(),
        }
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
}

/// Reads until `buffer` is full or the file ends.
fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// A planned file that cannot be opened. Where the whole directory that it lay in is gone or empty, or the root itself, as after a file system
/// was unmounted, that is an outage and told as one: nothing in it can be read, and naming all of it would help nobody.
fn gone(root: &Root, name: &SourcePath, error: &io::Error) -> Error {
    if error.kind() != io::ErrorKind::NotFound {
        return unreadable(name, error);
    }
    let path = name.as_bytes();
    let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let above = std::iter::once(&path[..0]).chain(above.map(|(end, _)| &path[..end]));
    for directory in above {
        if holds_nothing(&root.path.join(std::ffi::OsStr::from_bytes(directory))) {
            return Error::new(
                Kind::Transient,
                format!(
                    "{}: the source's directory is gone or empty, with all that was planned from it: bring it back and run again, or plan \
                     again if it is to be so",
                    below(&root.given, directory)
                ),
            );
        }
    }
    unreadable(name, error)
}

/// A directory of a source, for messages about it itself.
fn below(source: &str, path: &[u8]) -> String {
    match path {
        b"" => source.to_owned(),
        path => format!("{source}/{}", show(path)),
    }
}

/// The error of a directory that was there a moment ago.
fn vanished(place: &Place) -> Error {
    Error::new(
        Kind::Transient,
        format!(
            "{}: the source's directory vanished while it was listed: run again",
            place.shown()
        ),
    )
}

/// Whether a directory is not there, or has nothing in it that a listing would take.
fn holds_nothing(place: &Path) -> bool {
    match fs::read_dir(place) {
        Ok(entries) => !entries
            .flatten()
            .any(|entry| !entry.file_name().as_bytes().starts_with(b".")),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// A planned file that cannot be read any more. Not skippable: a mount that went away must not look like a smaller dataset.
fn unreadable(name: &SourcePath, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::source_data(format!(
            "{name} vanished after planning: the data changed, make a new plan"
        )),
        io::ErrorKind::PermissionDenied => Error::source_data(format!(
            "{name} cannot be read: {}: mend its permissions",
            reason(error)
        )),
        _ => {
            let io = error.raw_os_error().map_or_else(
                || io::Error::new(error.kind(), error.to_string()),
                io::Error::from_raw_os_error,
            );
            Error::io(name.to_string(), io)
        }
    }
}

fn changed(name: &SourcePath, actual: u64, planned: u64) -> Error {
    Error::source_data(format!(
        "{name} is {actual} bytes, planned as {planned}: the data changed, make a new plan"
    ))
}

/// Called after the last byte was read: the planned size and time mean that no byte changed since the plan.
fn check_unchanged(
    meta: io::Result<fs::Metadata>,
    name: &SourcePath,
    size: u64,
    version: &Version,
    read: u64,
) -> Result<()> {
    let meta = meta.map_err(|error| unreadable(name, &error))?;
    if meta.len() != size || read != size {
        return Err(changed(
            name,
            if meta.len() == size { read } else { meta.len() },
            size,
        ));
    }
    let now = Version::Mtime(mtime(&meta));
    if now != *version {
        return Err(Error::source_data(format!(
            "{name} was written to after planning ({now}, planned as {version}): the data changed, make a new plan"
        )));
    }
    Ok(())
}

fn mtime(meta: &fs::Metadata) -> i64 {
    meta.mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(meta.mtime_nsec())
}

/// The walk over a tree: reading a directory and looking at its entries are pieces of work, order does not matter.
struct Walk {
    reactor: Reactor,
    listing: Listing,
    directories: Vec<(usize, Pending<Entries>)>,
    entries: std::collections::VecDeque<(usize, Pending<Looked>)>,
    steps: Steps,
}

/// A directory being listed and those it lies in, to find symbolic links that lead back.
struct Place {
    source: Arc<str>,
    path: Vec<u8>,
    id: (u64, u64),
    parent: Option<Arc<Place>>,
}

/// Some entries of a directory, looked at or not, and the rest of it.
struct Entries {
    place: Arc<Place>,
    looked: Looked,
    some: Vec<fs::DirEntry>,
    rest: Option<fs::ReadDir>,
    problems: Vec<Problem>,
    hidden: u64,
    failed: Option<Error>,
}

/// Entries that were looked at.
#[derive(Default)]
struct Looked {
    files: Dir,
    below: Vec<(PathBuf, Arc<Place>)>,
    problems: Vec<Problem>,
    failed: Option<Error>,
}

impl Walk {
    fn run(mut self, source: &str, root: &Path) -> Result<Listing> {
        let meta = fs::metadata(root).map_err(|error| {
            let absent = error.kind() == io::ErrorKind::NotFound;
            let error = Error::io(source, error);
            match absent {
                true => error.of_absent_place(),
                false => error,
            }
        })?;
        let place = Arc::new(Place {
            source: source.into(),
            path: Vec::new(),
            id: (meta.dev(), meta.ino()),
            parent: None,
        });
        self.enter(root.to_owned(), place);
        loop {
            // Going on with directories first keeps many pieces of work started; the bound keeps their memory small.
            if self.entries.len() < CHUNKS_AHEAD
                && let Some((dir, pending)) = self.directories.pop()
            {
                let entries = pending.wait()?;
                self.look(dir, entries)?;
                continue;
            }
            let Some((dir, pending)) = self.entries.pop_front() else {
                break;
            };
            let looked = pending.wait()?;
            self.take(dir, looked)?;
        }
        let mut listing = self.listing;
        listing.dirs.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    fn enter(&mut self, path: PathBuf, place: Arc<Place>) {
        let dir = self.listing.dirs.len();
        self.listing.dirs.push(Dir::new(place.path.clone()));
        let steps = self.steps.clone();
        let pending = self.reactor.start(move || {
            let listed = steps.read("list", &path, || fs::read_dir(&path));
            Ok(match listed {
                // It was a directory when it was looked at.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(vanished(&place));
                }
                Err(error) if !is_of_the_data(&error) => {
                    return Err(Error::io(place.shown(), error));
                }
                Ok(rest) => {
                    // Most directories are looked at whole by whoever lists them: raw entries are large.
                    let mut entries = next_entries(place, rest, &steps);
                    let some = std::mem::take(&mut entries.some);
                    entries.looked = look_at(&entries.place, &some, &steps);
                    entries
                }
                Err(error) => {
                    let problem = unlistable(&place.path, &error);
                    Entries {
                        place,
                        looked: Looked::default(),
                        some: Vec::new(),
                        rest: None,
                        problems: vec![problem],
                        hidden: 0,
                        failed: None,
                    }
                }
            })
        });
        self.directories.push((dir, pending));
    }

    fn look(&mut self, dir: usize, entries: Entries) -> Result<()> {
        let Entries {
            place,
            looked,
            some,
            rest,
            problems,
            hidden,
            failed,
        } = entries;
        if let Some(error) = failed {
            return Err(error);
        }
        self.listing.problems.extend(problems);
        self.listing.hidden += hidden;
        if let Some(rest) = rest {
            let place = Arc::clone(&place);
            let steps = self.steps.clone();
            let next = move || Ok(next_entries(place, rest, &steps));
            let pending = self.reactor.start(next);
            self.directories.push((dir, pending));
        }
        if !some.is_empty() {
            let steps = self.steps.clone();
            let look = move || Ok(look_at(&place, &some, &steps));
            let pending = self.reactor.start(look);
            self.entries.push_back((dir, pending));
        }
        self.take(dir, looked)
    }

    fn take(&mut self, dir: usize, looked: Looked) -> Result<()> {
        if let Some(error) = looked.failed {
            return Err(error);
        }
        self.listing.problems.extend(looked.problems);
        let into = &mut self.listing.dirs[dir];
        if !into.append(looked.files) {
            return Err(Error::failed(format!(
                "{}: more than 4 GiB of file names in one directory: spread the files over several",
                show(&into.path)
            )));
        }
        for (path, place) in looked.below {
            self.enter(path, place);
        }
        Ok(())
    }
}

fn next_entries(place: Arc<Place>, mut rest: fs::ReadDir, steps: &Steps) -> Entries {
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(&place.path));
    let mut next = || {
        steps
            .read("list", &path, || rest.next().transpose())
            .transpose()
    };
    let mut entries = Entries {
        place,
        looked: Looked::default(),
        some: Vec::new(),
        rest: None,
        problems: Vec::new(),
        hidden: 0,
        failed: None,
    };
    while entries.some.len() < CHUNK_ENTRIES {
        match next() {
            None => return entries,
            Some(Ok(entry)) if entry.file_name().as_bytes().starts_with(b".") => {
                entries.hidden += 1
            }
            Some(Ok(entry)) => entries.some.push(entry),
            Some(Err(error)) if is_of_the_data(&error) => {
                entries
                    .problems
                    .push(unlistable(&entries.place.path, &error));
                return entries;
            }
            Some(Err(error)) => {
                entries.failed = Some(Error::io(entries.place.shown(), error));
                return entries;
            }
        }
    }
    entries.rest = Some(rest);
    entries
}

/// Whether an error says something of the file or directory itself, to be told with all others like it; any other is one of the
/// machine, or an outage.
fn is_of_the_data(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::ACCESS
                | Errno::PERM
        )
    )
}

fn unlistable(path: &[u8], error: &io::Error) -> Problem {
    let path = if path.is_empty() { b"." } else { path };
    let detail = format!("/: {}", reason(error));
    Problem::new(ProblemKind::Unreadable, SourcePath::new(path), detail)
}

fn look_at(place: &Arc<Place>, entries: &[fs::DirEntry], steps: &Steps) -> Looked {
    let mut looked = Looked::default();
    let dir = Path::new(std::ffi::OsStr::from_bytes(&place.path));
    for entry in entries {
        let name = entry.file_name().into_vec();
        let problem =
            |kind, detail: &str| Problem::new(kind, SourcePath::join(&place.path, &name), detail);
        // Not following the link costs no path look-up; only links are looked at twice.
        let look = || {
            let meta = entry.metadata()?;
            let meta = match meta.is_symlink() {
                true => fs::metadata(entry.path())?,
                false => meta,
            };
            let readable = !meta.is_file() || may_read(&entry.path(), &meta)?;
            Ok((meta, readable))
        };
        let (meta, readable) = match steps.read("look", dir, look) {
            Ok(looked) => looked,
            Err(error) if !is_of_the_data(&error) => {
                let path = SourcePath::join(&place.path, &name);
                looked.failed = Some(Error::io(path.to_string(), error));
                return looked;
            }
            Err(error) => {
                let link = fs::read_link(entry.path());
                let directory = entry.path();
                let directory = directory.parent().unwrap_or(Path::new("/"));
                if link.is_err()
                    && error.kind() == io::ErrorKind::NotFound
                    && holds_nothing(directory)
                {
                    looked.failed = Some(vanished(place));
                    return looked;
                }
                let detail = match link {
                    Ok(target) => format!(
                        " -> {}: {}",
                        show(target.as_os_str().as_bytes()),
                        reason(&error)
                    ),
                    Err(_) => format!(": {}", reason(&error)),
                };
                looked
                    .problems
                    .push(problem(ProblemKind::Unreadable, &detail));
                continue;
            }
        };
        if meta.is_dir() {
            let below = Place {
                source: Arc::clone(&place.source),
                path: SourcePath::join(&place.path, &name).as_bytes().to_vec(),
                id: (meta.dev(), meta.ino()),
                parent: Some(Arc::clone(place)),
            };
            match below.loops_to() {
                Some(ancestor) => {
                    let end = if ancestor.is_empty() {
                        b".".as_slice()
                    } else {
                        ancestor
                    };
                    let detail = format!(" -> {}/", show(end));
                    looked.problems.push(problem(ProblemKind::Loop, &detail));
                }
                None => looked.below.push((entry.path(), Arc::new(below))),
            }
        } else if meta.is_file() {
            if !readable {
                looked
                    .problems
                    .push(problem(ProblemKind::Unreadable, ": permission denied"));
            } else if !looked
                .files
                .push(&name, meta.len(), &Version::Mtime(mtime(&meta)))
            {
                looked
                    .problems
                    .push(problem(ProblemKind::Unreadable, ": the name is too long"));
            }
        } else {
            let kind = meta.file_type();
            let detail = if kind.is_fifo() {
                " is a pipe"
            } else if kind.is_socket() {
                " is a socket"
            } else {
                " is a device"
            };
            looked.problems.push(problem(ProblemKind::Special, detail));
        }
    }
    looked.files.shrink();
    looked
}

impl Place {
    /// Its name for messages about the directory itself.
    fn shown(&self) -> String {
        below(&self.source, &self.path)
    }

    /// The path of the directory this one is, if it lies in itself.
    fn loops_to(&self) -> Option<&[u8]> {
        let mut above = self.parent.as_deref();
        while let Some(place) = above {
            if place.id == self.id {
                return Some(&place.path);
            }
            above = place.parent.as_deref();
        }
        None
    }
}

/// Whether this user may read the file; asks the system only where the permission bits leave doubt.
fn may_read(path: &Path, meta: &fs::Metadata) -> io::Result<bool> {
    use rustix::io::Errno;
    if meta.mode() & 0o444 == 0o444 {
        return Ok(true);
    }
    match rustix::fs::access(path, rustix::fs::Access::READ_OK) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The path without symbolic links; of a directory that is not there yet, that of the nearest one above it that is.
fn real(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    for above in absolute.ancestors() {
        match fs::canonicalize(above) {
            Ok(real) => return Ok(real.join(absolute.strip_prefix(above).unwrap_or(above))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(absolute)
}

/// A dataset on a file system.
#[derive(Clone)]
pub(super) struct LocalSink {
    given: String,
    /// Where that was when the run began: what is written is named, and removed, where it lies, whatever links lead to meanwhile.
    root: PathBuf,
    fsync: bool,
    steps: Steps,
}

/// A file being written under a temporary name, locked as ours. Dropped before it got its own name, it is removed.
struct Temporary {
    path: PathBuf,
    file: File,
    steps: Steps,
    placed: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            let _ = self
                .steps
                .take("remove", &self.path, || fs::remove_file(&self.path));
        }
    }
}

impl LocalSink {
    pub(super) fn open(location: &str, access: &Access) -> Result<Self> {
        match fs::metadata(location) {
            Ok(meta) if !meta.is_dir() => Err(Error::usage(format!(
                "{location} is a file: give a directory for the dataset"
            ))),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io(location, error)),
        }?;
        Ok(Self {
            given: show(location.as_bytes()),
            root: real(Path::new(location)).map_err(|error| Error::io(location, error))?,
            fsync: access.fsync,
            steps: access.steps.clone(),
        })
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        Ok(self.root.join(name))
    }

    /// Opens a temporary file beside `path`, making its directories, and locks it as ours.
    fn temporary(&self, path: &Path) -> io::Result<Temporary> {
        let parent = path.parent().unwrap_or(&self.root);
        self.make_dirs(parent)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        unique::make(|random| {
            let path = parent.join(format!(".{name}.{}-{random}.tmp", machine()));
            let create = || File::create_new(&path);
            let temporary = Temporary {
                file: self.steps.take("create", &path, create)?,
                path,
                steps: self.steps.clone(),
                placed: false,
            };
            // Where locks do not work the file is never swept: it stays until `gc` finds it old.
            let _ = temporary.file.lock();
            // Before it was locked, another run may have taken it for one of the dead and removed it.
            match was_removed(&temporary.file)? {
                true => Err(io::ErrorKind::AlreadyExists.into()),
                false => Ok(temporary),
            }
        })
    }

    /// Makes `dir` and what is missing above it, each new name made durable in its parent.
    fn make_dirs(&self, dir: &Path) -> io::Result<()> {
        if dir.as_os_str().is_empty() || dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(Path::new(""));
        self.make_dirs(parent)?;
        match self.steps.take("mkdir", dir, || fs::create_dir(dir)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.sync_dir(parent)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if !self.fsync {
            return Ok(());
        }
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        self.steps.take("fsync of the directory", dir, || {
            File::open(dir)?.sync_all()
        })
    }

    /// Makes what was written durable.
    fn sync(&self, temporary: &Temporary) -> io::Result<()> {
        let sync = || temporary.file.sync_all();
        match self.fsync {
            true => self.steps.take("fsync", &temporary.path, sync),
            false => Ok(()),
        }
    }

    /// Makes names durable that a run gave before it died: what is found here is gone on with.
    fn settle(&self) -> io::Result<()> {
        if !self.fsync {
            return Ok(());
        }
        // Above the dataset it may not be allowed to look.
        for above in self.root.ancestors().skip(1) {
            let _ = self.sync_dir(above);
        }
        let mut todo = vec![self.root.clone()];
        while let Some(dir) = todo.pop() {
            match self.sync_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                synced => synced?,
            }
            if dir == self.root {
                todo.extend(OURS.map(|part| self.root.join(part)));
                continue;
            }
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() && entry.file_name() != LOST_FOUND {
                    todo.push(entry.path());
                }
            }
        }
        Ok(())
    }

    /// Gives a temporary file its name, over what has it.
    fn rename(&self, mut temporary: Temporary, path: &Path) -> io::Result<()> {
        let rename = || fs::rename(&temporary.path, path);
        self.steps.take("rename", path, rename)?;
        temporary.placed = true;
        self.sync_dir(path.parent().unwrap_or(&self.root))
    }

    /// A temporary file with `body` in it.
    fn written(&self, path: &Path, body: &[u8]) -> io::Result<Temporary> {
        let mut temporary = self.temporary(path)?;
        let file = &mut temporary.file;
        self.steps
            .take("write", &temporary.path, || file.write_all(body))?;
        self.sync(&temporary)?;
        Ok(temporary)
    }

    fn label(&self, name: &str) -> String {
        format!("{self}/{name}")
    }

    /// The time by the clock of the file system, which need not be this machine's: what a file made now has. Where none can be made,
    /// nothing can be removed either, and this machine's clock is near enough to tell about ages.
    fn now(&self) -> SystemTime {
        let made = || {
            self.temporary(&self.root.join("clock"))?
                .file
                .metadata()?
                .modified()
        };
        match self.root.is_dir().then(made) {
            Some(Ok(now)) => now,
            _ => SystemTime::now(),
        }
    }

    /// The finished files below `prefix`, sorted by name.
    fn found(&self, prefix: &str) -> Result<Vec<(String, fs::Metadata)>> {
        let dir = match prefix {
            "" => self.root.clone(),
            prefix => self.path(prefix)?,
        };
        let mut found = Vec::new();
        self.walk(&dir, &mut |entry, path| {
            let name = path.strip_prefix(&self.root).unwrap_or(path);
            let name = name.to_string_lossy().into_owned();
            if is_temporary(&entry.file_name().to_string_lossy()) {
                return Ok(());
            }
            match entry.metadata() {
                // Another run removed it a moment ago.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                meta => found.push((name, meta?)),
            }
            Ok(())
        })
        .map_err(|error| Error::io(self.label(prefix), error))?;
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// Visits the files of the directories that are ours, and those in the root itself.
    fn each_of_ours(
        &self,
        visit: &mut dyn FnMut(&fs::DirEntry, &Path) -> io::Result<()>,
    ) -> Result<()> {
        // The manifest and the card lie in the root itself; nothing else there is ours to look at.
        let mut in_root = || -> io::Result<()> {
            let entries = match fs::read_dir(&self.root) {
                Err(error) if is_of_the_data(&error) => return Ok(()),
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                    visit(&entry, &entry.path())?;
                }
            }
            Ok(())
        };
        in_root().map_err(|error| Error::io(self.to_string(), error))?;
        for part in OURS {
            self.walk(&self.root.join(part), visit)
                .map_err(|error| Error::io(self.label(part), error))?;
        }
        Ok(())
    }

    fn walk(
        &self,
        dir: &Path,
        visit: &mut dyn FnMut(&fs::DirEntry, &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if entry.file_name() != LOST_FOUND {
                    self.walk(&path, visit)?;
                }
            } else {
                visit(&entry, &path)?;
            }
        }
        Ok(())
    }
}

/// Whether an open file has no name any more.
fn was_removed(file: &File) -> io::Result<bool> {
    use rustix::io::Errno;
    match file.metadata() {
        Ok(meta) => Ok(meta.nlink() == 0),
        // What a network file system says of a file that another machine removed.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::STALE) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The name that a temporary file was to get: `data/.x.tar.MACHINE-RANDOM.tmp` → `data/x.tar`.
fn becomes(temporary: &str) -> String {
    let (dir, name) = temporary.rsplit_once('/').unwrap_or(("", temporary));
    let name = name.strip_prefix('.').unwrap_or(name);
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
    match dir {
        "" => name.to_owned(),
        dir => format!("{dir}/{name}"),
    }
}

/// The machine that a temporary file's name says it was made on, `None` if it is no name that is given here: `.NAME.MACHINE-RANDOM.tmp`,
/// in earlier versions `.NAME.MACHINE-PID-N.tmp`.
fn made_on(temporary: &str) -> Option<&str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let (_, tail) = temporary
        .strip_prefix('.')?
        .strip_suffix(".tmp")?
        .rsplit_once('.')?;
    let (machine, own) = tail.split_once('-')?;
    let known = match own.split_once('-') {
        None => own.len() == 32 && hex(own),
        Some((process, count)) => digits(process) && digits(count),
    };
    (known && hex(machine)).then_some(machine)
}

/// A temporary file without a living writer, locked: whoever made it a moment ago waits for the lock and then sees whether it
/// was removed. `None` if a writer holds it, or it is gone.
fn dead(path: &Path) -> Option<File> {
    let file = OpenOptions::new().write(true).open(path).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// Tells the temporary files of this machine (since its start) from those of others, whose locks need not reach here. Empty where
/// a machine does not say when it started: nothing of that name is swept, for it could be anybody's.
fn machine() -> &'static str {
    static MACHINE: OnceLock<String> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        boot.chars()
            .filter(char::is_ascii_hexdigit)
            .take(12)
            .collect()
    })
}

/// Gives `temporary` the name `path` if nothing has it.
/// Time since a file was written to; zero where that lies in the future.
fn age(meta: &fs::Metadata, now: SystemTime) -> io::Result<Duration> {
    Ok(now.duration_since(meta.modified()?).unwrap_or_default())
}

fn place_if_absent(temporary: &Path, path: &Path) -> io::Result<()> {
    use rustix::io::Errno;
    // A hard link is the one way that network file systems have too; FAT and its like know only the other.
    let linkless = [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS].map(Errno::raw_os_error);
    match fs::hard_link(temporary, path) {
        Err(error) if error.raw_os_error().is_some_and(|e| linkless.contains(&e)) => {
            rename_if_absent(temporary, path)
        }
        placed => placed,
    }
}

fn rename_if_absent(temporary: &Path, path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let flags = RenameFlags::NOREPLACE;
    Ok(renameat_with(CWD, temporary, CWD, path, flags)?)
}

fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

impl std::fmt::Display for LocalSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.given)
    }
}

impl Sink for LocalSink {
    fn create(&self, name: &str, _bytes: u64) -> Result<Box<dyn ShardWriter>> {
        let path = self.path(name)?;
        let temporary = self
            .temporary(&path)
            .map_err(|error| Error::io(self.label(name), error))?;
        Ok(Box::new(LocalShard {
            label: self.label(name),
            sink: self.clone(),
            path,
            temporary,
            gathered: Vec::with_capacity(GATHER_BYTES),
            written: 0,
            begun: 0,
        }))
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        match fs::read(self.path(name)?) {
            Ok(body) => Ok(Some(body.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(self.label(name), error)),
        }
    }

    fn range(&self, name: &str, offset: u64, length: usize) -> Result<Bytes> {
        let path = self.path(name)?;
        let fail = |error| Error::io(self.label(name), error);
        let mut file = File::open(path).map_err(fail)?;
        let end = file.metadata().map_err(fail)?.len();
        // The length may come from a damaged file: compare before reserving memory for it.
        if offset
            .checked_add(length as u64)
            .is_none_or(|wanted| wanted > end)
        {
            return Err(Error::new(
                Kind::Damage,
                format!(
                    "{}: {end} bytes, but {length} bytes are wanted at {offset}: it was cut short",
                    self.label(name)
                ),
            ));
        }
        file.seek(SeekFrom::Start(offset)).map_err(fail)?;
        let mut buffer = vec![0; length];
        file.read_exact(&mut buffer).map_err(fail)?;
        Ok(buffer.into())
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send>> {
        let file =
            File::open(self.path(name)?).map_err(|error| Error::io(self.label(name), error))?;
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Sequential);
        Ok(Box::new(file))
    }

    fn put(&self, name: &str, body: &[u8]) -> Result<()> {
        let path = self.path(name)?;
        self.written(&path, body)
            .and_then(|temporary| self.rename(temporary, &path))
            .map_err(|error| Error::io(self.label(name), error))
    }

    fn put_if_absent(&self, name: &str, body: &[u8]) -> Result<bool> {
        let path = self.path(name)?;
        let placed = self.written(&path, body).and_then(|temporary| {
            let link = || place_if_absent(&temporary.path, &path);
            let placed = match self.steps.take("link", &path, link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                placed => placed.map(|()| true),
            }?;
            self.sync_dir(path.parent().unwrap_or(&self.root))?;
            if placed {
                return Ok(true);
            }
            // Perhaps our own: over a network, a request whose reply was lost is made again by the kernel.
            match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                there => Ok(there? == body),
            }
        });
        placed.map_err(|error| Error::io(self.label(name), error))
    }

    fn check_exclusive(&self, _name: &str, _body: &[u8]) -> Result<()> {
        Ok(())
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let found = self.found(prefix)?.into_iter();
        Ok(found.map(|(name, meta)| (name, meta.len())).collect())
    }

    fn aged(&self, prefix: &str) -> Result<Vec<Aged>> {
        let now = self.now();
        let aged = |(name, meta): (String, fs::Metadata)| {
            let age = age(&meta, now).map_err(|error| Error::io(self.label(&name), error))?;
            let bytes = meta.len();
            Ok(Aged { name, bytes, age })
        };
        self.found(prefix)?.into_iter().map(aged).collect()
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        let parent = path.parent().unwrap_or(&self.root);
        let removed = self
            .steps
            .take("remove", &path, || fs::remove_file(&path))
            .and_then(|()| self.sync_dir(parent));
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(self.label(name), error));
            }
            _ => {}
        }
        // Directories that every dataset has stay: another run may be about to write there.
        let below = name.rsplit_once('/').map_or("", |(dir, _)| dir);
        if below.contains('/') && fs::remove_dir(parent).is_ok() {
            let above = parent.parent().unwrap_or(&self.root);
            self.sync_dir(above)
                .map_err(|error| Error::io(self.label(name), error))?;
        }
        Ok(())
    }

    fn sweep(&self) -> Result<u64> {
        let ours = Some(machine()).filter(|machine| !machine.is_empty());
        let mut removed = 0;
        let mut visit = |entry: &fs::DirEntry, path: &Path| {
            let name = entry.file_name().to_string_lossy().into_owned();
            if ours.is_none() || made_on(&name) != ours {
                return Ok(());
            }
            if let Some(_locked) = dead(path) {
                let swept = self.steps.take("sweep", path, || fs::remove_file(path));
                removed += u64::from(swept.is_ok());
            }
            Ok(())
        };
        self.each_of_ours(&mut visit)?;
        self.settle()
            .map_err(|error| Error::io(self.to_string(), error))?;
        Ok(removed)
    }

    fn leftovers(&self) -> Result<Vec<Leftover>> {
        let now = self.now();
        let mut found = Vec::new();
        self.each_of_ours(&mut |entry, path| {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !is_temporary(&name) || dead(path).is_none() {
                return Ok(());
            }
            let below = path.strip_prefix(&self.root).unwrap_or(path);
            let below = below.to_string_lossy().into_owned();
            let meta = entry.metadata()?;
            found.push(Leftover {
                name: becomes(&below),
                what: "partial file",
                bytes: Some(meta.len()),
                age: age(&meta, now)?,
                id: below,
                ours: made_on(&name).is_some(),
            });
            Ok(())
        })?;
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn discard(&self, leftover: &Leftover) -> Result<()> {
        let path = self.path(&leftover.id)?;
        let Some(_locked) = dead(&path) else {
            return Ok(());
        };
        match self.steps.take("discard", &path, || fs::remove_file(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(self.label(&leftover.id), error))
            }
            _ => Ok(()),
        }
    }

    fn kept(&self, _name: &str) -> Result<Kept> {
        Ok(Kept::Readable)
    }

    fn requests(&self) -> usize {
        1
    }

    fn writing_bytes(&self) -> u64 {
        0
    }

    fn reading_bytes(&self) -> u64 {
        0
    }

    fn check_apart(&self, source: &str) -> Result<()> {
        if super::scheme(source)?.is_some() {
            return Ok(());
        }
        let source = fs::canonicalize(source).map_err(|error| Error::io(source, error))?;
        if self.root.starts_with(&source) {
            return Err(Error::usage(format!(
                "{self} lies in the source {}: choose a destination outside it",
                show(source.as_os_str().as_bytes())
            )));
        }
        Ok(())
    }
}

struct LocalShard {
    label: String,
    sink: LocalSink,
    path: PathBuf,
    temporary: Temporary,
    gathered: Vec<u8>,
    written: u64,
    /// Bytes the disk was already told to take.
    begun: u64,
}

impl Write for LocalShard {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_all(data)?;
        Ok(data.len())
    }

    fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        if self.gathered.len() + data.len() <= GATHER_BYTES {
            self.gathered.extend_from_slice(data);
            return Ok(());
        }
        self.written += (self.gathered.len() + data.len()) as u64;
        let mut slices = [IoSlice::new(&self.gathered), IoSlice::new(data)];
        let mut slices = slices.as_mut_slice();
        while !slices.is_empty() {
            let Temporary { path, file, .. } = &mut self.temporary;
            let write = || file.write_vectored(slices);
            match self.sink.steps.take("write", path, write) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut slices, n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.gathered.clear();
        self.begin_write_back();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        let Temporary { path, file, .. } = &mut self.temporary;
        let write = || file.write_all(&gathered);
        self.sink.steps.take("write", path, write)
    }
}

impl LocalShard {
    /// Sets the disk to work on what was written since the last time. Linux starts writing dirty pages when told that they are
    /// not needed, and keeps them, because they are dirty; elsewhere it is a hint without effect.
    fn begin_write_back(&mut self) {
        let new = self.written - self.begun;
        if self.sink.fsync && new >= WRITE_BACK_BYTES {
            let length = std::num::NonZeroU64::new(new);
            let _ = rustix::fs::fadvise(&self.temporary.file, self.begun, length, Advice::DontNeed);
            self.begun = self.written;
        }
    }
}

impl ShardWriter for LocalShard {
    fn commit(mut self: Box<Self>, _crc32: u32) -> Result<()> {
        let label = self.label.clone();
        let done = self.flush().and_then(|()| {
            let Self {
                sink,
                path,
                temporary,
                ..
            } = *self;
            sink.sync(&temporary)?;
            sink.rename(temporary, &path)
        });
        done.map_err(|error| Error::io(label, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_known_by_their_names() {
        for (name, machine) in [
            (
                ".x.tar.0123456789ab-00112233445566778899aabbccddeeff.tmp",
                "0123456789ab",
            ),
            // A machine that does not say when it started.
            (".x.tar.-00112233445566778899aabbccddeeff.tmp", ""),
            // As earlier versions named them.
            (".x.tar.0123456789ab-77-0.tmp", "0123456789ab"),
            ("..info.json.0123456789ab-1-12.tmp", "0123456789ab"),
            (".x.tar.-77-0.tmp", ""),
        ] {
            assert_eq!(made_on(name), Some(machine), "{name}");
            assert!(is_temporary(name));
        }
        for name in [
            ".x.tmp",
            ".x.tar.77-0.tmp",
            ".x.ab-7-x.tmp",
            ".x.ab-7-0-1.tmp",
            ".x.tar.ab-00112233445566778899aabbccddeef.tmp",
            ".x.tar.ab-00112233445566778899aabbccddeefg.tmp",
        ] {
            assert_eq!(made_on(name), None, "{name}");
        }
        for tail in ["77-0", "00112233445566778899aabbccddeeff"] {
            let name = format!("data/.x.tar.0123456789ab-{tail}.tmp");
            assert_eq!(becomes(&name), "data/x.tar");
        }
    }

    #[test]
    fn both_ways_of_placing_leave_what_is_there_alone() {
        let dir = tempfile::tempdir().unwrap();
        let [new, path] = ["new", "path"].map(|name| dir.path().join(name));
        for place in [place_if_absent, rename_if_absent] {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(&new);
            fs::write(&new, "first").unwrap();
            place(&new, &path).unwrap();
            let _ = fs::remove_file(&new);
            fs::write(&new, "second").unwrap();
            let error = place(&new, &path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        }
    }

    #[test]
    fn ages_go_by_the_clock_of_the_file_system() {
        const HOUR: Duration = Duration::from_secs(3600);
        let dir = tempfile::tempdir().unwrap();
        // What is made now has another time than this machine's: the server's of a network file system, three hours ahead.
        let there = SystemTime::now() + 3 * HOUR;
        let ask = move |(done, step, path): crate::store::Step<'_>| match (done, step) {
            (true, "create") => File::options().write(true).open(path)?.set_modified(there),
            _ => Ok(()),
        };
        let access = Access {
            steps: Steps(Some(Arc::new(ask))),
            ..Access::default()
        };
        let sink = LocalSink::open(dir.path().to_str().unwrap(), &access).unwrap();
        for (name, time) in [("a", there - HOUR), ("b", there), ("c", there + HOUR)] {
            sink.put(name, b"").unwrap();
            let file = File::options().write(true).open(dir.path().join(name));
            file.unwrap().set_modified(time).unwrap();
        }
        let left = dir
            .path()
            .join(".x.tar.0123456789ab-00112233445566778899aabbccddeeff.tmp");
        File::create(&left)
            .unwrap()
            .set_modified(there - 2 * HOUR)
            .unwrap();

        let ages: Vec<_> = sink
            .aged("")
            .unwrap()
            .iter()
            .map(|object| object.age)
            .collect();
        assert_eq!(ages, [HOUR, Duration::ZERO, Duration::ZERO]);
        let left: Vec<_> = sink
            .leftovers()
            .unwrap()
            .iter()
            .map(|left| left.age)
            .collect();
        assert_eq!(left, [2 * HOUR]);
        // Nothing stays of what was made to know the time, and a listing makes nothing.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
    }
}
