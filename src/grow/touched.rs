//! Files that only look changed: touched, or copied again. Their contents are read and compared with the checksums that the index of their
//! shard has, before anything is refused or made again.

use std::collections::HashMap;

use crate::base::error::{Kind, Result, unless_damaged};
use crate::base::signal::Stop;
use crate::base::units::{STREAM_ABOVE_BYTES, counted};
use crate::model::counters::Counters;
use crate::model::manifest::ShardEntry;
use crate::model::record::SampleRecord;
use crate::model::sample::{Field, Sample};
use crate::plan::order::Ordered;
use crate::state::published::read_record;
use crate::store::{Sink, Source, at_once, in_pieces};

/// What an index takes in memory, as a multiple of its length in the store.
const UNPACKED: u64 = 8;
/// Shards looked at at once, at most: each reads many files.
const SHARDS: usize = 8;

/// Whether only the state of a sample's files is another than it was: their sizes, and all else that is known, are the same.
pub(super) fn looks_touched(planned: &Sample, now: &Sample) -> bool {
    let is_same = |(before, now): (&Field, &Field)| {
        (&before.name, &before.path, before.size, &before.content)
            == (&now.name, &now.path, now.size, &now.content)
    };
    planned.key == now.key
        && planned.label == now.label
        && planned.fields.len() == now.fields.len()
        && planned.fields.iter().zip(&now.fields).all(is_same)
}

/// Samples of a published shard that look touched, by their numbers in the source.
pub(super) struct Suspects<'a> {
    pub(super) shard: &'a ShardEntry,
    pub(super) samples: &'a [u32],
}

/// Reads files and compares them with what was packed of them.
#[derive(Clone, Copy)]
pub(super) struct Contents<'a> {
    /// The destination.
    pub(super) sink: &'a dyn Sink,
    /// The source.
    pub(super) source: &'a dyn Source,
    /// Its samples.
    pub(super) ordered: &'a Ordered,
    /// Bytes that the whole run may hold.
    pub(super) memory_bytes: u64,
    /// Counts what is compared.
    pub(super) counters: &'a Counters,
    /// Says when to stop.
    pub(super) stop: &'a Stop,
}

impl Contents<'_> {
    /// The numbers of those whose content is another, for each of the shards.
    pub(super) fn changed(&self, suspects: &[Suspects<'_>]) -> Result<Vec<Vec<u32>>> {
        let all: u64 = suspects.iter().map(|some| some.samples.len() as u64).sum();
        if all == 0 {
            return Ok(suspects.iter().map(|_| Vec::new()).collect());
        }
        let sizes = |number: &u32| -> u64 {
            let sample = self.ordered.sample(*number);
            sample.fields.iter().map(|field| field.size).sum()
        };
        let bytes = suspects.iter().flat_map(|some| some.samples).map(sizes);
        self.counters.begin("compare", all, bytes.sum(), 0);
        tracing::info!(
            "files of {} have the sizes that were published, and other times or entity tags: comparing their contents",
            counted(all, "sample")
        );
        let largest = suspects.iter().map(|some| some.shard.index_bytes).max();
        let each = largest.unwrap_or(0).saturating_mul(UNPACKED).max(1);
        let shards = usize::try_from(self.memory_bytes / 8 / each).unwrap_or(SHARDS);
        let shards = shards.clamp(1, SHARDS).min(suspects.len());
        let buffers = usize::try_from(self.memory_bytes / 4 / STREAM_ABOVE_BYTES);
        let reads = self.source.reads().min(buffers.unwrap_or(1)) / shards;
        let changed = at_once(shards, suspects, |some| self.of_shard(some, reads.max(1)))?;
        let others: usize = changed.iter().map(Vec::len).sum();
        tracing::info!(
            "compared {}: {others} changed, the others were only touched",
            counted(all, "sample")
        );
        Ok(changed)
    }

    fn of_shard(&self, suspects: &Suspects<'_>, reads: usize) -> Result<Vec<u32>> {
        let (shard, numbers) = (suspects.shard, suspects.samples);
        let Some(record) = unless_damaged(read_record(shard, self.sink))?.flatten() else {
            // Nothing says what was packed.
            return Ok(numbers.to_vec());
        };
        let rows: HashMap<&str, &SampleRecord> = record
            .samples
            .iter()
            .map(|row| (row.key.as_str(), row))
            .collect();
        let is_same = at_once(reads, numbers, |&number| {
            self.stop.check()?;
            let sample = self.ordered.sample(number);
            // What was skipped is in no index.
            let is_same = match rows.get(sample.key.as_str()) {
                Some(row) => self.is_same(&sample, row)?,
                None => false,
            };
            self.counters
                .sample(sample.fields.iter().map(|field| field.size).sum());
            Ok(is_same)
        })?;
        let changed = numbers.iter().zip(is_same).filter(|(_, is_same)| !is_same);
        Ok(changed.map(|(number, _)| *number).collect())
    }

    /// Whether a sample's files have the contents that were packed.
    fn is_same(&self, sample: &Sample, row: &SampleRecord) -> Result<bool> {
        for (at, field) in sample.fields.iter().enumerate() {
            // What a table says of an image was compared already.
            if field.content.is_some() {
                continue;
            }
            let packed = row.fields.iter().find(|packed| match at {
                0 => packed.name == field.name || packed.holds_image(),
                _ => packed.name == field.name,
            });
            let is_same = match packed {
                Some(packed) if packed.length == field.size => {
                    self.crc32(field)? == Some(packed.crc32)
                }
                _ => false,
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The CRC-32 of a file's content; `None` if the file is another than was listed.
    fn crc32(&self, field: &Field) -> Result<Option<u32>> {
        // The source sums each piece while it is in the cache.
        let mut crc = crc32fast::Hasher::new();
        let read = in_pieces(self.source, field, &mut |piece| {
            let length = piece.len() as u64;
            crc.combine(&crc32fast::Hasher::new_with_initial_len(
                piece.crc32,
                length,
            ));
        });
        match read {
            Err(error) if error.kind() == Kind::Source => Ok(None),
            read => read.map(|()| Some(crc.finalize())),
        }
    }
}
