//! Memory for file contents, used again and again: fresh pages cost more than reading a warm file.

use std::ops::Deref;

use crate::sync::{Mutex, PoisonError};

/// Bytes that unused buffers of one source may hold together.
const SPARE_BYTES: usize = 16 << 20;

/// The content of a file. Memory that was used before is not cleared again.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    length: usize,
    /// CRC-32 of the content, once [`Buffer::sum`] was called.
    pub crc32: u32,
}

impl Buffer {
    /// Room for exactly `length` bytes, with whatever was there before.
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length {
            // Copying the old content to a larger place would be in vain.
            let spare = self.bytes.capacity() - self.bytes.len();
            if self.bytes.len() + spare < length {
                self.bytes = Vec::with_capacity(length);
            }
            self.bytes.resize(length, 0);
        }
        self.length = length;
        &mut self.bytes[..length]
    }

    /// Checksums the content, best done where it was read: there it is still in a cache.
    pub fn sum(&mut self) {
        self.crc32 = crc32fast::hash(self);
    }
}

impl From<Buffer> for bytes::Bytes {
    fn from(mut buffer: Buffer) -> Self {
        buffer.bytes.truncate(buffer.length);
        buffer.bytes.into()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Buffers nobody uses now, the last used first: it is still in a cache.
#[derive(Debug, Default)]
pub struct Buffers(Mutex<(Vec<Buffer>, usize)>);

impl Buffers {
    /// A buffer, used or new.
    pub fn take(&self) -> Buffer {
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match spares.0.pop() {
            Some(buffer) => {
                spares.1 -= buffer.bytes.capacity();
                buffer
            }
            None => Buffer::default(),
        }
    }

    /// Takes a buffer back, or lets it go when there are enough.
    pub fn give_back(&self, buffer: Buffer) {
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = buffer.bytes.capacity();
        if spares.1 + bytes <= SPARE_BYTES {
            spares.1 += bytes;
            spares.0.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_buffer_has_the_length_asked_for() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.room(1000).fill(7);
        buffers.give_back(buffer);
        let mut buffer = buffers.take();
        assert_eq!(buffer.room(10).len(), 10);
        assert_eq!(&*buffer, [7; 10]);
        assert_eq!(buffer.room(2000).len(), 2000);
    }

    #[test]
    fn spare_buffers_are_bounded_together() {
        let buffers = Buffers::default();
        for _ in 0..4 {
            let mut buffer = Buffer::default();
            buffer.room(SPARE_BYTES / 2);
            buffers.give_back(buffer);
        }
        assert_eq!(buffers.0.lock().unwrap().0.len(), 2);
    }
}
