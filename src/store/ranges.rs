//! A part of an object, read forwards in large pieces.

use std::io::{self, Read};

use bytes::Bytes;

use crate::store::Sink;

/// Bytes asked for at once by [`Ranges`].
pub(crate) const PIECE_BYTES: u64 = 8 << 20;

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
