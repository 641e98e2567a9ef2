//! The seek table that ends a shard of independent zstd frames, as zstd's `contrib/seekable_format` 0.1.0 writes it.

use crate::base::error::Result;
use crate::model::record::{FrameRecord, ShardRecord};
use crate::store::Sink;

/// Magic number of the skippable frame that holds the seek table, and of its footer.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;

const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;

/// Bytes of the skippable frame's header, of an entry and of the footer.
const TABLE_HEADER: usize = 8;

const TABLE_ENTRY: usize = 8;

const TABLE_FOOTER: usize = 9;

/// Most frames that a seek table may list.
const MAX_FRAMES: usize = 0x800_0000;

/// One independent frame of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its compressed length in bytes.
    pub(super) packed: u32,
    /// Length of what it holds.
    pub(super) unpacked: u32,
}

/// The independent frames of a shard, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frames(pub(super) Vec<Frame>);

impl Frames {
    /// The frames that hold these bytes of the unpacked shard, for each of several ranges in ascending order.
    pub(crate) fn cover(&self, ranges: impl Iterator<Item = (u64, u64)>) -> Vec<FrameRecord> {
        let mut covers = Vec::new();
        let (mut at, mut offset, mut start) = (0, 0u64, 0u64);
        let unpacked = |frame: &Frame| u64::from(frame.unpacked);
        for (from, length) in ranges {
            while let Some(frame) = self.0.get(at)
                && start + unpacked(frame) <= from
            {
                offset += u64::from(frame.packed);
                start += unpacked(frame);
                at += 1;
            }
            let (mut packed, mut end) = (0, start);
            for frame in &self.0[at..] {
                packed += u64::from(frame.packed);
                end += unpacked(frame);
                if end >= from + length {
                    break;
                }
            }
            covers.push(FrameRecord {
                offset,
                length: packed,
                start,
            });
        }
        covers
    }

    /// The skippable frame that ends the shard.
    pub(super) fn table(&self) -> Vec<u8> {
        let mut table = Vec::with_capacity(self.table_bytes());
        let body = self.table_bytes() - TABLE_HEADER;
        table.extend(SKIPPABLE_MAGIC.to_le_bytes());
        table.extend((body as u32).to_le_bytes());
        for frame in &self.0 {
            table.extend(frame.packed.to_le_bytes());
            table.extend(frame.unpacked.to_le_bytes());
        }
        table.extend((self.0.len() as u32).to_le_bytes());
        // No checksums here: each frame has its own.
        table.push(0);
        table.extend(SEEKABLE_MAGIC.to_le_bytes());
        table
    }

    fn table_bytes(&self) -> usize {
        TABLE_HEADER + self.0.len() * TABLE_ENTRY + TABLE_FOOTER
    }

    /// Length of the seek table that a shard's last bytes announce; `None` if they announce none.
    pub(crate) fn announced_bytes(tail: &[u8]) -> Option<u64> {
        let footer = tail.last_chunk::<TABLE_FOOTER>()?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| footer[at + i]));
        let (frames, descriptor, magic) = (number(0) as usize, footer[4], number(5));
        if magic != SEEKABLE_MAGIC || frames > MAX_FRAMES || descriptor & 0x7C != 0 {
            return None;
        }
        let entry = if descriptor & 0x80 != 0 {
            12
        } else {
            TABLE_ENTRY
        };
        Some((TABLE_HEADER + frames * entry + TABLE_FOOTER) as u64)
    }

    /// The seek table at the end of the shard `name` of this record and of `bytes` bytes, or what is wrong with it.
    pub(crate) fn read(
        sink: &dyn Sink,
        name: &str,
        bytes: u64,
        record: &ShardRecord,
    ) -> Result<Result<Self, String>> {
        // An entry a sample, and one for every cut inside of a sample, is the most that a table can have.
        let entries = record.samples.len() as u64 + (record.unpacked_bytes() >> 18);
        let longest = (64 + TABLE_ENTRY as u64 * entries).min(bytes);
        let tail = bytes.min(TABLE_FOOTER as u64);
        let tail = sink.range(name, bytes - tail, tail as usize)?;
        match Self::announced_bytes(&tail) {
            None => Ok(Err("the shard does not end in one".to_owned())),
            Some(length) if length > longest => Ok(Err(format!(
                "its length is {length}, at most {longest} are possible"
            ))),
            Some(length) => {
                let table = sink.range(name, bytes - length, length as usize)?;
                Ok(Self::parse(&table))
            }
        }
    }

    /// Enters into a record which frames hold its samples.
    pub(crate) fn enter(&self, record: &mut ShardRecord) {
        let ranges = record.samples.iter().map(|row| (row.offset, row.length));
        let covers = self.cover(ranges);
        for (row, cover) in record.samples.iter_mut().zip(covers) {
            row.frame = Some(cover);
        }
    }

    /// Reads a seek table, which is all of `table`; says what is wrong with it.
    pub(crate) fn parse(table: &[u8]) -> Result<Self, String> {
        let number = |at: usize| {
            let bytes = table.get(at..at + 4)?;
            Some(u32::from_le_bytes(std::array::from_fn(|i| bytes[i])))
        };
        if Self::announced_bytes(table) != Some(table.len() as u64) {
            return Err("no footer of a seek table".to_owned());
        }
        if number(0) != Some(SKIPPABLE_MAGIC)
            || number(4) != Some((table.len() - TABLE_HEADER) as u32)
        {
            return Err("no header of a seek table".to_owned());
        }
        let entry = match table[table.len() - 5] & 0x80 {
            0 => TABLE_ENTRY,
            _ => TABLE_ENTRY + 4,
        };
        let entries = &table[TABLE_HEADER..table.len() - TABLE_FOOTER];
        let frames = entries.chunks_exact(entry).map(|entry| {
            let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
            Frame {
                packed: number(0),
                unpacked: number(4),
            }
        });
        Ok(Self(frames.collect()))
    }

    /// Bytes of all frames, with the table, and of what they hold.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let sum = |of: fn(&Frame) -> u32| self.0.iter().map(|f| u64::from(of(f))).sum::<u64>();
        let table = self.table_bytes() as u64;
        (sum(|f| f.packed) + table, sum(|f| f.unpacked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::text::hex;

    #[test]
    fn the_published_seek_table_comes_out_byte_for_byte() {
        let frame = |packed, unpacked| Frame { packed, unpacked };
        let frames = Frames(vec![frame(30, 1000), frame(25, 600)]);
        let table = frames.table();
        let expected = "5e2a4d18190000001e000000e803000019000000580200000200000000b1ea928f";
        assert_eq!(hex(&table), expected);
        assert_eq!(Frames::announced_bytes(&table), Some(33));
        assert_eq!(Frames::parse(&table), Ok(frames.clone()));
        let covers = frames.cover([(0, 400), (400, 700), (1100, 500)].into_iter());
        let all: Vec<_> = covers
            .iter()
            .map(|c| (c.offset, c.length, c.start))
            .collect();
        assert_eq!(all, [(0, 30, 0), (0, 55, 0), (30, 25, 1000)]);
    }
}
