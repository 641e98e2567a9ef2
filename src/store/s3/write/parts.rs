//! The parts of shards in memory: how large they are, and how many may be held at once.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a part: what reaches the full rate of a connection; larger only where 10,000 of them would not do.
const PART_BYTES: u64 = 8 << 20;
/// Most parts of an upload. The limit of S3 is 10,000; a shard may come out a little larger than planned.
const MOST_PARTS: u64 = 9_500;
/// Parts of all shards held at once: at most this much, or a quarter of the memory.
const HELD_BYTES: RangeInclusive<u64> = 2 * PART_BYTES..=512 << 20;
/// Unit in which held bytes are counted.
const UNIT: u64 = 1 << 20;

/// The part size for a shard of so many bytes.
pub(super) fn part_bytes(shard_bytes: u64) -> u64 {
    shard_bytes
        .div_ceil(MOST_PARTS)
        .next_multiple_of(UNIT)
        .max(PART_BYTES)
}

/// Requests that writing a shard of so many bytes takes: one, or the parts of an upload with its beginning and its end.
pub(in crate::store::s3) fn requests(shard_bytes: u64) -> u64 {
    match part_bytes(shard_bytes) {
        part if shard_bytes <= part => 1,
        part => shard_bytes.div_ceil(part) + 2,
    }
}

/// The memory of all parts.
pub(super) struct Parts {
    held: Arc<Semaphore>,
    held_bytes: u64,
    /// Memory of parts that have gone: fresh pages cost more than filling them.
    spare: Mutex<Vec<BytesMut>>,
}

impl Parts {
    /// A quarter of this memory, within bounds.
    pub(super) fn within(memory: u64) -> Self {
        let held_bytes = (memory / 4).clamp(*HELD_BYTES.start(), *HELD_BYTES.end());
        Self {
            held: Arc::new(Semaphore::new((held_bytes / UNIT) as usize)),
            held_bytes,
            spare: Mutex::default(),
        }
    }

    /// Memory that all parts take together at most.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Waits until another part of so many bytes may be held; `None` never happens while writes go on.
    pub(super) fn hold(
        &self,
        part_bytes: usize,
    ) -> impl Future<Output = Option<OwnedSemaphorePermit>> + use<> {
        // One part always fits, however large.
        let units = (part_bytes as u64).min(self.held_bytes) / UNIT;
        let held = Arc::clone(&self.held);
        async move { held.acquire_many_owned(units as u32).await.ok() }
    }

    /// Memory for a part, used or new.
    pub(super) fn take_spare(&self, bytes: usize) -> BytesMut {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        match spare.pop() {
            Some(buffer) if buffer.capacity() >= bytes => buffer,
            _ => BytesMut::with_capacity(bytes),
        }
    }

    /// Takes the memory of a part back, unless something still looks at it.
    pub(super) fn give_back(&self, body: Bytes) {
        if let Ok(mut buffer) = body.try_into_mut() {
            buffer.clear();
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_the_limits_of_s3() {
        assert_eq!(part_bytes(0), 8 << 20);
        assert_eq!(part_bytes(1_000_000_000), 8 << 20);
        for shard in [76 << 30, 1 << 40, 40 << 40] {
            let part = part_bytes(shard);
            assert!(shard.div_ceil(part) <= 10_000 && part >= 5 << 20, "{shard}");
            assert_eq!(part % UNIT, 0);
        }
    }
}
