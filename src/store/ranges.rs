//! Objects and files, read forwards in pieces that can be held.

use std::io::{self, Read};

use bytes::Bytes;

use crate::base::buffer::Buffer;
use crate::base::error::Result;
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::model::sample::{Field, FilePath};
use crate::store::{Sink, Source};

/// Bytes asked for at once by [`Ranges`].
pub(crate) const PIECE_BYTES: u64 = 8 << 20;

/// Reads a planned file, a piece of at most 4 MiB at a time, which is what it holds. Nothing is read ahead.
pub(crate) fn in_pieces(
    source: &dyn Source,
    field: &Field,
    take: &mut dyn FnMut(&Buffer),
) -> Result<()> {
    let mut pass = |piece: Buffer| {
        take(&piece);
        source.recycle(piece);
    };
    if field.size <= STREAM_ABOVE_BYTES {
        pass(source.start(field).wait()?);
        return Ok(());
    }
    let mut offset = 0;
    while offset < field.size {
        let length = (field.size - offset).min(STREAM_ABOVE_BYTES);
        pass(source.part(field, offset, length).wait()?);
        offset += length;
    }
    Ok(())
}

/// A file of a source as it is now, planned or not; `None` if there is none, or one of more than `most_bytes`.
pub(crate) fn whole(
    source: &dyn Source,
    path: FilePath,
    most_bytes: u64,
) -> Result<Option<Buffer>> {
    let Some((size, version)) = source.look(&path)?.filter(|(size, _)| *size <= most_bytes) else {
        return Ok(None);
    };
    let field = Field {
        name: String::new(),
        path,
        size,
        version,
        content: None,
    };
    source.start(&field).wait().map(Some)
}

/// Reads the bytes `at..end` of an object, a piece of at most 8 MiB at a time, which is what it holds.
///
/// What the store refuses comes through as the store's own [`crate::base::error::Error`]; an object that ends before `end` is damage.
pub(crate) struct Ranges<'a> {
    sink: &'a dyn Sink,
    name: &'a str,
    at: u64,
    end: u64,
    piece: Bytes,
}

impl<'a> Ranges<'a> {
    /// The bytes `at..end` of the object `name`.
    pub(crate) fn new(sink: &'a dyn Sink, name: &'a str, at: u64, end: u64) -> Self {
        Self {
            sink,
            name,
            at,
            end,
            piece: Bytes::new(),
        }
    }
}

impl Read for Ranges<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && self.at < self.end {
            let length = PIECE_BYTES.min(self.end - self.at);
            let piece = self.sink.range(self.name, self.at, length as usize);
            self.piece = piece.map_err(io::Error::other)?;
            self.at += length;
        }
        let n = buffer.len().min(self.piece.len());
        buffer[..n].copy_from_slice(&self.piece.split_to(n));
        Ok(n)
    }
}
