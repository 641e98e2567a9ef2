//! Reading a member: one range of the file that is opened, as the plan says.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};

use super::UNPACKED_BYTES;
use super::compressed::{Unpacked, WINDOW_LOG_MAX};
use super::forward::{Forward, Packed};
use super::inflate::{INFLATER_BYTES, Inflater, Parts, check_crc32, unpacked};
use crate::base::buffer::{Buffer, allocated, room_for};
use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::base::reactor::Pending;
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::model::extent::{Extent, Method};
use crate::model::sample::{Field, FilePath, SourcePath, Version};
use crate::store::Source;

/// Memory of what is done with a range when it is there: both ends of it, and what they remember.
const THEN_BYTES: u64 = 512;
/// What one that unpacks an archive forwards takes, with as much for those that wait to be gone on with.
const STREAM_BYTES: u64 = 64 << 20;
/// What unpacking a few frames takes.
const FRAME_BYTES: u64 = 4 << 20;
/// Large members that are being read in pieces, of which more than where they begin is remembered.
const REMEMBERED: usize = 32;

/// Where members that are read piece by piece have got to, by where their content begins.
#[derive(Default)]
pub(super) struct Readers {
    /// Of stored ones the checksum so far.
    sums: Mutex<HashMap<(FilePath, u64), (u64, crc32fast::Hasher)>>,
    /// Of packed ones what unpacks them.
    inflaters: Mutex<HashMap<(FilePath, u64), Inflater<Parts>>>,
    /// Of those in archives that are packed as a whole and are not held what unpacks these.
    forward: Forward,
}

/// A read of a member, or of a part of one.
pub(super) struct Reading {
    inner: Arc<dyn Source>,
    unpacked: Arc<Unpacked>,
    readers: Arc<Readers>,
    member: FilePath,
    size: u64,
    /// The file that is opened.
    archive: Field,
    extent: Extent,
    offset: u64,
    length: u64,
    whole: bool,
    /// Whether a list says where it lies.
    is_listed: bool,
}

impl Reading {
    /// Of a planned member; of all of it, or of so many bytes from a place in it.
    pub(super) fn new(
        inner: &Arc<dyn Source>,
        unpacked: &Arc<Unpacked>,
        readers: &Arc<Readers>,
        lone: Option<&FilePath>,
        field: &Field,
        part: Option<(u64, u64)>,
    ) -> Result<Self> {
        let Version::Member(member) = &field.version else {
            return Err(Error::source_data(format!(
                "{} was planned from a directory, and the source is an archive: make a new plan",
                field.path
            )));
        };
        let prefix = usize::from(member.archive.prefix_bytes);
        let path = match (&member.archive.listed_at, prefix.checked_sub(1), lone) {
            (Some(path), _, None) => Some(path.clone()),
            (None, None, Some(lone)) => Some(lone.clone()),
            (None, Some(end), None) => archive_path(&field.path, end),
            _ => None,
        };
        let stored = !member.extent.method.is_packed_alone();
        let sound = !stored || member.extent.bytes == field.size;
        let path = path.filter(|_| sound).ok_or_else(|| {
            Error::source_data(format!(
                "{} was planned from another archive: make a new plan",
                field.path
            ))
        })?;
        let (offset, length) = part.unwrap_or((0, field.size));
        Ok(Self {
            inner: Arc::clone(inner),
            unpacked: Arc::clone(unpacked),
            readers: Arc::clone(readers),
            member: field.path.clone(),
            size: field.size,
            archive: Field {
                content: None,
                name: String::new(),
                path,
                size: member.archive.bytes,
                version: member.archive.version.clone(),
            },
            extent: member.extent,
            offset,
            length,
            whole: part.is_none(),
            is_listed: member.archive.listed_at.is_some(),
        })
    }

    /// Memory that it takes besides the content, while that is not handed over.
    pub(super) fn started_bytes(&self) -> u64 {
        let packed = match self.extent.method {
            Method::Stored => 0,
            // Before it is unpacked, both are there.
            Method::Deflate if self.size <= STREAM_ABOVE_BYTES => {
                let bytes = usize::try_from(self.extent.bytes).unwrap_or(usize::MAX / 2);
                allocated(room_for(bytes)) + INFLATER_BYTES
            }
            Method::Deflate => INFLATER_BYTES,
            Method::Gzip | Method::Zstd => UNPACKED_BYTES,
            Method::GzipStream | Method::ZstdStream => STREAM_BYTES,
            Method::Frames { .. } => FRAME_BYTES,
        };
        self.inner.started_bytes(&self.archive)
            + packed
            + THEN_BYTES
            + allocated(self.member.as_bytes().len())
            + allocated(self.archive.path.as_bytes().len())
            + self.archive.version.heap_bytes()
    }

    /// Starts it and returns at once.
    pub(super) fn start(self) -> Pending<Buffer> {
        let (inner, archive) = (Arc::clone(&self.inner), self.archive.clone());
        if self.length == 0 {
            // One byte says whether the archive is still the planned one.
            return inner
                .part(&archive, 0, 1)
                .then(move |read| self.told(read.map(|_| Buffer::default())));
        }
        match self.extent.method {
            Method::Stored => inner
                .part(&archive, self.extent.offset + self.offset, self.length)
                .then(move |read| self.finish(read)),
            Method::Deflate
                if self.whole && self.size <= STREAM_ABOVE_BYTES && self.extent.bytes > 0 =>
            {
                inner
                    .part(&archive, self.extent.offset, self.extent.bytes)
                    .then(move |read| {
                        let read = read.and_then(|packed| self.inflated(&packed));
                        self.told(read)
                    })
            }
            // What goes on from the piece before may hold bytes that were read then: whether the file still is the planned one is asked each time.
            Method::Deflate => inner.part(&archive, 0, 1).then(move |byte| {
                let read = byte.and_then(|_| self.inflated_on());
                self.told(read)
            }),
            Method::Frames { skip }
                if self.whole && self.extent.bytes.max(self.size) <= STREAM_ABOVE_BYTES =>
            {
                inner
                    .part(&archive, self.extent.offset, self.extent.bytes)
                    .then(move |read| {
                        let read = read.and_then(|frames| self.unframed(&frames, skip));
                        self.told(read.and_then(|buffer| self.summed(buffer)))
                    })
            }
            Method::GzipStream | Method::ZstdStream | Method::Frames { .. } => {
                inner.part(&archive, 0, 1).then(move |byte| {
                    let read = byte.and_then(|_| self.unpacked_on());
                    self.told(read.and_then(|buffer| self.summed(buffer)))
                })
            }
            // What is held was read under the planned version; whether the file still has it is asked each time, as of any other.
            Method::Gzip | Method::Zstd => inner.part(&archive, 0, 1).then(move |byte| {
                let read = byte.and_then(|_| self.copied());
                let read = read.and_then(|buffer| self.summed(buffer));
                self.told(read)
            }),
        }
    }

    /// Where the bytes of a stored member lie that are wanted: in which file, their first, and the one after their last.
    pub(super) fn place(&self) -> (&FilePath, u64, u64) {
        let begin = self.extent.offset + self.offset;
        (&self.archive.path, begin, begin + self.length)
    }

    /// The file that is opened.
    pub(super) fn archive(&self) -> &Field {
        &self.archive
    }

    /// The content of a stored member that was read in some other way.
    pub(super) fn finish(&self, read: Result<Buffer>) -> Result<Buffer> {
        self.told(read.and_then(|buffer| self.summed(buffer)))
    }

    /// The result, with the archive, the member and its place in the words of an error.
    fn told(&self, read: Result<Buffer>) -> Result<Buffer> {
        read.map_err(|error| match error.kind() {
            Kind::Source | Kind::Damage => {
                let (offset, archive) = (self.extent.offset, &self.archive.path);
                error.within(format!("{}, at {offset} of {archive}", self.member))
            }
            _ => error,
        })
    }

    fn key(&self) -> (FilePath, u64) {
        (self.archive.path.clone(), self.extent.offset)
    }

    /// Compares a stored content with its checksum, if the archive has one: at once, or when its last piece came after all others.
    fn summed(&self, buffer: Buffer) -> Result<Buffer> {
        if self.extent.crc32.is_none() {
            return Ok(buffer);
        }
        if self.length == self.size {
            return self.compare(buffer.crc32).map(|()| buffer);
        }
        let mut sums = self
            .readers
            .sums
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = match self.offset {
            0 => Some((0, crc32fast::Hasher::new())),
            _ => sums.remove(&self.key()),
        };
        let Some((at, mut sum)) = before else {
            return Ok(buffer);
        };
        if at != self.offset {
            // The end of it, which is looked at before the rest.
            sums.insert(self.key(), (at, sum));
            return Ok(buffer);
        }
        sum.combine(&crc32fast::Hasher::new_with_initial_len(
            buffer.crc32,
            self.length,
        ));
        match at + self.length == self.size {
            true => self.compare(sum.finalize())?,
            false if sums.len() < REMEMBERED => {
                _ = sums.insert(self.key(), (at + self.length, sum))
            }
            false => {}
        }
        Ok(buffer)
    }

    /// Refuses a content with another checksum than the archive says. Where a list says it, which was made with the archive, one of the two is
    /// damaged, and no other image may be taken for that.
    fn compare(&self, crc32: u32) -> Result<()> {
        match self.extent.crc32 {
            Some(said) if said != crc32 && self.is_listed => Err(Error::new(
                Kind::Damage,
                format!(
                    "crc32 {}, listed with {}: nothing is made of it; `shardpack verify` names all that is damaged there, `shardpack repair` mends it",
                    crc_text(crc32),
                    crc_text(said)
                ),
            )),
            said => check_crc32(crc32, said),
        }
    }

    /// All of a packed member.
    fn inflated(&self, packed: &[u8]) -> Result<Buffer> {
        let mut inflater = Inflater::new(packed);
        let buffer = self.next(&mut inflater)?;
        inflater.end(self.extent.crc32)?;
        Ok(buffer)
    }

    /// So many bytes of what comes next.
    fn next<R: BufRead>(&self, inflater: &mut Inflater<R>) -> Result<Buffer> {
        let length = usize::try_from(self.length)
            .map_err(|_| Error::failed(format!("{} is too large to hold", self.member)))?;
        let mut buffer = Buffer::default();
        inflater.fill(buffer.room(length))?;
        buffer.sum();
        Ok(buffer)
    }

    /// A part of a packed member: going on where the part before ended, or from the beginning.
    fn inflated_on(&self) -> Result<Buffer> {
        let inflaters = || {
            self.readers
                .inflaters
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let before = inflaters().remove(&self.key());
        let mut inflater = match before {
            Some(inflater) if inflater.at == self.offset => inflater,
            before => {
                // Whoever reads the pieces in order may go on with theirs.
                if let Some(before) = before {
                    inflaters().insert(self.key(), before);
                }
                let (begin, end) = (self.extent.offset, self.extent.offset + self.extent.bytes);
                let parts = Parts::new(Arc::clone(&self.inner), self.archive.clone(), begin, end);
                Inflater::new(parts)
            }
        };
        inflater.skip_to(self.offset)?;
        let buffer = self.next(&mut inflater)?;
        if inflater.at == self.size {
            inflater.end(self.extent.crc32)?;
        } else {
            let mut inflaters = inflaters();
            if inflaters.len() < REMEMBERED {
                inflaters.entry(self.key()).or_insert(inflater);
            }
        }
        Ok(buffer)
    }

    /// All of a member in these frames.
    fn unframed(&self, frames: &[u8], skip: u64) -> Result<Buffer> {
        let length = usize::try_from(self.size)
            .map_err(|_| Error::failed(format!("{} is too large to hold", self.member)))?;
        let mut buffer = Buffer::default();
        let mut unpack = || -> io::Result<()> {
            let mut unpacker = zstd::stream::Decoder::with_buffer(frames)?;
            unpacker.window_log_max(WINDOW_LOG_MAX)?;
            io::copy(&mut (&mut unpacker).take(skip), &mut io::sink())?;
            unpacker.read_exact(buffer.room(length))
        };
        unpack().map_err(|error| unpacked(error, self.damage()))?;
        buffer.sum();
        Ok(buffer)
    }

    /// A part of what is unpacked forwards.
    fn unpacked_on(&self) -> Result<Buffer> {
        let Extent {
            offset,
            bytes,
            method,
            ..
        } = self.extent;
        let (begin, end, skip) = match method {
            Method::Frames { skip } => (offset, offset.saturating_add(bytes), skip),
            _ => (0, self.archive.size, offset),
        };
        let packed = Packed {
            archive: self.archive.clone(),
            begin,
            end,
            method,
            damage: self.damage(),
        };
        let from = skip.saturating_add(self.offset);
        self.readers
            .forward
            .read(&self.inner, &packed, from, self.length)
    }

    /// Kind of the error where the archive cannot be unpacked.
    fn damage(&self) -> Kind {
        match self.is_listed {
            true => Kind::Damage,
            false => Kind::Source,
        }
    }

    /// A part of a member of a compressed tar.
    fn copied(&self) -> Result<Buffer> {
        let Extent { offset, method, .. } = self.extent;
        let copy = |content: &[u8]| {
            let begin = usize::try_from(offset.checked_add(self.offset)?).ok()?;
            let end = begin.checked_add(usize::try_from(self.length).ok()?)?;
            let bytes = content.get(begin..end)?;
            let mut buffer = Buffer::default();
            buffer.room(bytes.len()).copy_from_slice(bytes);
            buffer.sum();
            Some(buffer)
        };
        let copied =
            self.unpacked
                .with(&self.inner, &self.archive, (method, self.damage()), copy)?;
        copied.ok_or_else(|| {
            Error::source_data("the archive unpacks to less than planned: make a new plan")
        })
    }
}

/// The path of the file that is opened for a member, the beginning of the member's.
fn archive_path(member: &FilePath, end: usize) -> Option<FilePath> {
    let bytes = member.as_bytes();
    let (path, rest) = bytes.split_at_checked(end)?;
    rest.starts_with(b"!/")
        .then(|| FilePath::try_from(SourcePath::new(path)).ok())
        .flatten()
}
