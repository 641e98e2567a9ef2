//! Reading a large object from its beginning: ranges of it are under way ahead of the reader.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use crate::base::buffer::{Buffer, Buffers};
use crate::base::error::Error;
use crate::base::reactor::Pending;
use crate::store::s3::connection::Connection;
use crate::store::s3::read::{Object, Span, read};
use crate::store::s3::trouble::RequestError;

/// How a large object is read: in ranges of so many bytes, so many of them ahead of the reader.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    range_bytes: u64,
    ranges: usize,
}

impl Ahead {
    /// For a shard, of which a few are read with nothing else to do.
    pub(super) const SHARD: Self = Self {
        range_bytes: 8 << 20,
        ranges: 8,
    };

    /// Memory that one opened object takes.
    pub(super) const fn bytes(self) -> u64 {
        self.range_bytes * (self.ranges as u64 + 1)
    }

    /// What the ranges are read into: fresh memory for each would cost a quarter of the processor time.
    fn buffers(self) -> Buffers {
        Buffers::holding(self.ranges + 1, self.range_bytes as usize)
    }
}

/// A large object, read from its beginning with ranges in flight ahead of the reader.
pub(super) struct AheadReader {
    connection: Arc<Connection>,
    object: Object,
    size: u64,
    ahead: Ahead,
    next: u64,
    started: VecDeque<Pending<Buffer>>,
    current: Buffer,
    at: usize,
    buffers: Arc<Buffers>,
    explain: fn(&Connection, &Object, &RequestError) -> Error,
}

impl AheadReader {
    /// Reads an object of `size` bytes; `explain` says what a failed read is to its reader.
    pub(super) fn new(
        connection: &Arc<Connection>,
        object: Object,
        size: u64,
        ahead: Ahead,
        explain: fn(&Connection, &Object, &RequestError) -> Error,
    ) -> Self {
        Self {
            connection: Arc::clone(connection),
            object,
            size,
            ahead,
            next: 0,
            started: VecDeque::new(),
            current: Buffer::default(),
            at: 0,
            buffers: Arc::new(ahead.buffers()),
            explain,
        }
    }

    /// Starts ranges until as many as wanted are under way.
    fn top_up(&mut self) {
        while self.started.len() < self.ahead.ranges && self.next < self.size {
            let length = (self.size - self.next).min(self.ahead.range_bytes);
            let span = match length == self.size {
                true => Span::Whole(Some(length)),
                false => Span::Part(self.next, length),
            };
            self.next += length;
            let (connection, object) = (Arc::clone(&self.connection), self.object.clone());
            let (buffers, explain) = (Arc::clone(&self.buffers), self.explain);
            let pending = self.connection.start(async move {
                let read = read(&connection, &object, span, &buffers).await;
                read.map_err(|trouble| explain(&connection, &object, &trouble))
            });
            self.started.push_back(pending);
        }
    }
}

impl BufRead for AheadReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.current.len() {
            let used = std::mem::take(&mut self.current);
            self.buffers.give_back(used);
            self.at = 0;
            self.top_up();
            let Some(pending) = self.started.pop_front() else {
                break;
            };
            self.current = pending.wait().map_err(io::Error::other)?;
        }
        Ok(&self.current[self.at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

impl Read for AheadReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let n = out.len().min(piece.len());
        out[..n].copy_from_slice(&piece[..n]);
        self.consume(n);
        Ok(n)
    }
}
