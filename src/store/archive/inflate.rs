//! Contents that are packed, unpacked as they are read.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use flate2::bufread::DeflateDecoder;

use crate::base::buffer::Buffer;
use crate::base::error::{Error, Kind, Result};
use crate::model::sample::Field;
use crate::store::Source;

/// Bytes of a file that are read at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Memory of one that unpacks: its window and tables, and a piece.
pub(super) const INFLATER_BYTES: u64 = (64 << 10) + PIECE_BYTES;

/// A part of a file of the inner source, read forwards.
pub(super) struct Parts {
    source: Arc<dyn Source>,
    field: Field,
    at: u64,
    end: u64,
    piece: Buffer,
    used: usize,
}

impl Parts {
    /// The bytes `at..end` of a file.
    pub(super) fn new(source: Arc<dyn Source>, field: Field, at: u64, end: u64) -> Self {
        Self {
            source,
            field,
            at,
            end,
            piece: Buffer::default(),
            used: 0,
        }
    }
}

impl BufRead for Parts {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.piece.len() && self.at < self.end {
            let length = PIECE_BYTES.min(self.end - self.at);
            self.source.recycle(std::mem::take(&mut self.piece));
            let piece = self.source.part(&self.field, self.at, length).wait();
            self.piece = piece.map_err(io::Error::other)?;
            self.at += length;
            self.used = 0;
        }
        Ok(&self.piece[self.used..])
    }

    fn consume(&mut self, bytes: usize) {
        self.used += bytes;
    }
}

impl Read for Parts {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let held = self.fill_buf()?;
        let some = held.len().min(room.len());
        room[..some].copy_from_slice(&held[..some]);
        self.consume(some);
        Ok(some)
    }
}

/// The content of one member of a zip, from its beginning.
pub(super) struct Inflater<R: BufRead> {
    packed: DeflateDecoder<R>,
    /// Bytes that were read.
    pub(super) at: u64,
    crc: crc32fast::Hasher,
}

impl<R: BufRead> Inflater<R> {
    pub(super) fn new(packed: R) -> Self {
        Self {
            packed: DeflateDecoder::new(packed),
            at: 0,
            crc: crc32fast::Hasher::new(),
        }
    }

    /// Fills `room` with what comes next.
    pub(super) fn fill(&mut self, room: &mut [u8]) -> Result<()> {
        self.packed.read_exact(room).map_err(damaged)?;
        self.crc.update(room);
        self.at += room.len() as u64;
        Ok(())
    }

    /// Passes over all before `offset`.
    pub(super) fn skip_to(&mut self, offset: u64) -> Result<()> {
        let mut passed = vec![0; 64 << 10];
        while self.at < offset {
            let some = passed.len().min((offset - self.at) as usize);
            self.fill(&mut passed[..some])?;
        }
        Ok(())
    }

    /// After the last byte: refuses one that goes on, or has another checksum.
    pub(super) fn end(mut self, crc32: Option<u32>) -> Result<()> {
        if self.packed.read(&mut [0]).map_err(damaged)? > 0 {
            return Err(Error::source_data(format!(
                "unpacks to more than the {} bytes that the archive says",
                self.at
            )));
        }
        check_crc32(self.crc.finalize(), crc32)
    }
}

/// Refuses a content with another checksum than its archive says.
pub(super) fn check_crc32(actual: u32, said: Option<u32>) -> Result<()> {
    match said.filter(|said| *said != actual) {
        None => Ok(()),
        Some(said) => Err(Error::source_data(format!(
            "crc32 {actual:08x}, the archive says {said:08x}: it is damaged, get it again"
        ))),
    }
}

/// The error of a source that cannot be unpacked.
fn damaged(error: io::Error) -> Error {
    unpacked(error, Kind::Source)
}

/// The error of one that unpacks: a read that failed, or, as this kind, what is packed wrongly.
pub(super) fn unpacked(error: io::Error, damage: Kind) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => Error::new(
            damage,
            format!("cannot be unpacked ({error}): it is damaged, get it again"),
        ),
    }
}
