//! What the Parquet library writes, kept apart from what is written already.

use std::io::{self, Write};

use parquet::file::writer::TrackedWrite;

/// Takes what follows the bytes that are written already; positions are counted from the beginning of the file.
pub(super) struct Tail {
    /// Bytes that are written already and still to come.
    skip: u64,
    /// What follows them.
    pub(super) bytes: Vec<u8>,
}

impl Tail {
    /// Takes what is written from `position` on.
    pub(super) fn new(position: u64) -> Self {
        Self {
            skip: position,
            bytes: Vec::new(),
        }
    }
}

/// A writer that knows its position in the file. It can only be moved there by writing what the tail skips.
pub(super) fn track(tail: &mut Tail, position: u64) -> io::Result<TrackedWrite<&mut Tail>> {
    let zeros = vec![0; 1 << 20];
    let mut tracked = TrackedWrite::new(tail);
    let mut left = position;
    while left > 0 {
        let n = left.min(zeros.len() as u64);
        tracked.write_all(&zeros[..n as usize])?;
        left -= n;
    }
    Ok(tracked)
}

impl Write for Tail {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let skipped = self.skip.min(data.len() as u64);
        self.skip -= skipped;
        self.bytes.extend_from_slice(&data[skipped as usize..]);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
