//! Reading one planned file, or a part of it, and making sure that it is still the planned one.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::buffer::{Buffer, Buffers};
use crate::base::error::{Error, Kind, Result, reason};
use crate::model::sample::{Field, FilePath, SourcePath, Version};
use crate::store::Positioned;
use crate::store::local::look::name_of_directory;
use crate::store::local::paths::{holds_nothing, mtime};
use crate::store::local::steps::Steps;

/// The directory of a source.
pub(super) struct SourceRoot {
    /// As it was given, for messages.
    pub(super) given: String,
    /// Where that was when the run began.
    pub(super) path: PathBuf,
}

/// A read that was started: what it takes to do it.
pub(super) struct Reading {
    pub(super) root: Arc<SourceRoot>,
    pub(super) name: FilePath,
    /// Of the whole file, as planned.
    pub(super) size: u64,
    pub(super) version: Version,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) buffers: Arc<Buffers>,
    pub(super) steps: Steps,
}

impl Reading {
    /// The planned bytes, or an error of [`Kind::Source`] if the file is not the planned one any more.
    pub(super) fn run(self) -> Result<Buffer> {
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
        let path = OsStr::from_bytes(name.as_bytes());
        let path = self.root.path.join(path);
        let mut file = steps
            .read("open", &path, || File::open(&path))
            .map_err(|error| missing(&self.root, &name, &error))?;
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

/// A file that is kept open, to be read at many places.
pub(super) struct Opened {
    file: File,
    path: PathBuf,
    name: FilePath,
    size: u64,
    version: Version,
    steps: Steps,
}

impl Opened {
    /// Opens a listed file.
    pub(super) fn open(root: &SourceRoot, field: &Field, steps: &Steps) -> Result<Self> {
        let path = root.path.join(OsStr::from_bytes(field.path.as_bytes()));
        let file = steps
            .read("open", &path, || File::open(&path))
            .map_err(|error| missing(root, &field.path, &error))?;
        Ok(Self {
            file,
            path,
            name: field.path.clone(),
            size: field.size,
            version: field.version.clone(),
            steps: steps.clone(),
        })
    }
}

impl Positioned for Opened {
    fn read_at(&self, offset: u64, room: &mut [u8]) -> Result<()> {
        let read = self
            .steps
            .read("read", &self.path, || self.file.read_exact_at(room, offset));
        read.or_else(|error| match error.kind() {
            // The file ends before it was to: whether it changed says the rest.
            io::ErrorKind::UnexpectedEof => {
                self.check()?;
                Err(changed(&self.name, offset, self.size))
            }
            _ => Err(unreadable(&self.name, &error)),
        })
    }

    fn check(&self) -> Result<()> {
        let meta = self.steps.read("look", &self.path, || self.file.metadata());
        check_unchanged(meta, &self.name, self.size, &self.version, self.size)
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
fn missing(root: &SourceRoot, name: &SourcePath, error: &io::Error) -> Error {
    if error.kind() != io::ErrorKind::NotFound {
        return unreadable(name, error);
    }
    let path = name.as_bytes();
    let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let above = std::iter::once(&path[..0]).chain(above.map(|(end, _)| &path[..end]));
    for directory in above {
        if holds_nothing(&root.path.join(OsStr::from_bytes(directory))) {
            return Error::new(
                Kind::Transient,
                format!(
                    "{}: the source's directory is gone or empty, with all that was planned from it: bring it back and run again, or plan \
                     again if it is to be so",
                    name_of_directory(&root.given, directory)
                ),
            );
        }
    }
    unreadable(name, error)
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
