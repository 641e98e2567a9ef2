//! Memory for file contents, used again and again: fresh pages cost more than reading a warm file.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;

use crate::base::sync::{Mutex, PoisonError};

use crate::base::error::Result;

/// Bytes that unused buffers of one source may hold together.
const SPARE_BYTES: usize = 16 << 20;
/// With little memory they may hold this part of it, but at least two pieces of a large file: an allocator that is given such pieces back
/// keeps them too, in one place for each thread.
const SPARE_SHARE: u64 = 16;
const LEAST_SPARE_BYTES: usize = 2 * MOST_ROUNDED + (1 << 20);
/// Room for the smallest content.
const LEAST_ROOM: usize = 64;
/// Larger contents are rare, and half of their size would be much: they have room for themselves alone.
const MOST_ROUNDED: usize = 4 << 20;

/// What the allocator takes for a piece of so many bytes: glibc's header, rounded to 16 bytes or, for what is mapped on its own, to pages.
pub(crate) const fn allocated(bytes: usize) -> u64 {
    let chunk = match bytes {
        0 => 0,
        1..=24 => 32,
        25..0x2_0000 => (bytes + 8).next_multiple_of(16),
        _ => (bytes + 16).next_multiple_of(4096),
    };
    chunk as u64
}

/// Memory that a content of so many bytes is held in: one of few sizes, so that memory serves many contents, and none lies in what was made for
/// a much larger one.
pub(crate) const fn room_for(length: usize) -> usize {
    if length <= LEAST_ROOM {
        return LEAST_ROOM;
    }
    if length > MOST_ROUNDED {
        return length;
    }
    let power = length.next_power_of_two();
    match length <= power / 4 * 3 {
        true => power / 4 * 3,
        false => power,
    }
}

/// A content that is too large to hold, piece by piece.
pub(crate) trait Pieces {
    /// The next piece with its checksum, `None` after the last.
    ///
    /// # Errors
    ///
    /// As reading the file: one that is not the planned one any more must not slip in.
    fn next_piece(&mut self) -> Result<Option<&Buffer>>;
}

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
            if self.bytes.capacity() < length {
                self.bytes = Vec::with_capacity(room_for(length));
            }
            self.bytes.resize(length, 0);
        }
        self.length = length;
        &mut self.bytes[..length]
    }

    /// Memory that it takes.
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
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

/// Buffers nobody uses now, by the room they have; of each kind the last used first: it is still in a cache.
#[derive(Debug)]
pub(crate) struct Buffers {
    spares: Mutex<Spares>,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Spares {
    /// By the room they have, each with its number, the last given back at the end.
    by_room: BTreeMap<usize, VecDeque<(u64, Buffer)>>,
    bytes: usize,
    /// Buffers given back so far.
    count: u64,
}

impl Spares {
    fn take(&mut self, room: usize) -> Option<Buffer> {
        let (_, buffer) = self.by_room.get_mut(&room)?.pop_back()?;
        self.bytes -= buffer.held_bytes();
        Some(buffer)
    }

    /// Lets go of the one that was not used for longest; false if there is none.
    fn forget_oldest(&mut self) -> bool {
        let front =
            |(room, buffers): (&usize, &VecDeque<(u64, Buffer)>)| Some((buffers.front()?.0, *room));
        let oldest = self.by_room.iter().filter_map(front).min();
        let buffer = oldest.and_then(|(_, room)| self.by_room.get_mut(&room)?.pop_front());
        match buffer {
            Some((_, buffer)) => {
                self.bytes -= buffer.held_bytes();
                true
            }
            None => false,
        }
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self::within(u64::MAX)
    }
}

impl Buffers {
    /// Buffers of a run that is to stay within so many bytes.
    pub(crate) fn within(memory: u64) -> Self {
        let share = usize::try_from(memory / SPARE_SHARE);
        Self {
            spares: Mutex::default(),
            most_bytes: share.map_or(SPARE_BYTES, |share| {
                share.clamp(LEAST_SPARE_BYTES, SPARE_BYTES)
            }),
        }
    }

    /// Buffers of a reader that has so many of so many bytes each, all of them used again and again.
    pub(crate) fn holding(buffers: usize, length: usize) -> Self {
        Self {
            spares: Mutex::default(),
            most_bytes: buffers * (size_of::<Buffer>() + room_for(length)),
        }
    }

    /// A buffer, used or new, for a content of so many bytes.
    pub(crate) fn take(&self, length: usize) -> Buffer {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        spares.take(room_for(length)).unwrap_or_default()
    }

    /// Takes a buffer back. When there are too many, those that were not used for longest go.
    pub(crate) fn give_back(&self, buffer: Buffer) {
        let bytes = buffer.held_bytes();
        if bytes > self.most_bytes {
            return;
        }
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        while spares.bytes + bytes > self.most_bytes && spares.forget_oldest() {}
        spares.bytes += bytes;
        spares.count += 1;
        let (number, room) = (spares.count, buffer.bytes.capacity());
        let same = spares.by_room.entry(room).or_default();
        same.push_back((number, buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_buffer_has_the_length_asked_for() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take(1000);
        buffer.room(1000).fill(7);
        let place = buffer.as_ptr();
        buffers.give_back(buffer);
        let mut buffer = buffers.take(900);
        assert_eq!(buffer.room(900).len(), 900);
        assert_eq!(&*buffer, [7; 900]);
        assert_eq!(buffer.as_ptr(), place, "the same memory");
        assert_eq!(buffer.room(2000).len(), 2000);
    }

    #[test]
    fn a_small_content_never_lies_in_the_memory_of_a_large_one() {
        let buffers = Buffers::default();
        let mut large = buffers.take(4 << 20);
        large.room(4 << 20);
        buffers.give_back(large);
        let mut small = buffers.take(69);
        small.room(69);
        assert_eq!(small.bytes.capacity(), room_for(69));
        for length in 0..100_000 {
            let room = room_for(length);
            assert!(room >= length && room <= (length * 3 / 2).max(LEAST_ROOM));
            assert_eq!(
                room_for(room),
                room,
                "a room is for contents of its own size too"
            );
        }
    }

    #[test]
    fn as_many_buffers_as_a_reader_has_are_all_used_again() {
        let (count, length) = (9, 8 << 20);
        let buffers = Buffers::holding(count, length);
        let taken: Vec<Buffer> = (0..count + 1)
            .map(|_| {
                let mut buffer = buffers.take(length);
                buffer.room(length);
                buffer
            })
            .collect();
        for buffer in taken {
            buffers.give_back(buffer);
        }
        let held: Vec<usize> = (0..count + 1)
            .map(|_| buffers.take(length).bytes.capacity())
            .collect();
        assert_eq!(held, [&vec![length; count][..], &[0]].concat());
    }

    #[test]
    fn spare_buffers_are_bounded_together_and_those_of_other_sizes_go_first() {
        let buffers = Buffers::default();
        let give = |length: usize, count: usize| {
            for _ in 0..count {
                let mut buffer = Buffer::default();
                buffer.room(length);
                buffers.give_back(buffer);
            }
        };
        let held = || buffers.spares.lock().unwrap().bytes;
        give(1000, 3 * SPARE_BYTES / 1000);
        assert!((1..=SPARE_BYTES).contains(&held()));
        give(SPARE_BYTES / 4, 5);
        assert!((SPARE_BYTES / 4..=SPARE_BYTES).contains(&held()));
        assert!(buffers.take(SPARE_BYTES / 4).bytes.capacity() > 0);
    }
}
