//! The bytes of one published sample, read by ranges and compared with the index.

use std::io::{self, Read};

use crate::base::checksum::{Scanner, crc_text};
use crate::base::error::{Error, Kind, Result};
use crate::format::compress::unpack;
use crate::model::manifest::ShardEntry;
use crate::model::recipe::Compression;
use crate::model::record::{FieldRecord, SampleRecord};
use crate::store::{Ranges, Sink};

/// The field of a sample that has this name, or its image.
pub(crate) fn pick<'a>(row: &'a SampleRecord, name: Option<&str>) -> Result<&'a FieldRecord> {
    let wanted = |field: &&FieldRecord| match name {
        Some(name) => field.name == name,
        None => field.holds_image(),
    };
    row.fields.iter().find(wanted).ok_or_else(|| {
        let names: Vec<_> = row.fields.iter().map(|field| field.name.as_str()).collect();
        Error::failed(format!(
            "sample `{}` has no such field: it has {}",
            row.key,
            names.join(", ")
        ))
    })
}

/// A sample in its shard. Offsets are those of the unpacked shard.
pub(crate) struct Content<'a> {
    /// The dataset.
    pub sink: &'a dyn Sink,
    /// How its shards are compressed.
    pub compress: Compression,
    /// The shard.
    pub shard: &'a ShardEntry,
    /// What the index says of the sample.
    pub row: &'a SampleRecord,
}

impl Content<'_> {
    /// Hands a field over piece by piece; an error of [`Kind::Damage`] at its end if it is not what the index says.
    pub(crate) fn field(
        &self,
        field: &FieldRecord,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let crc32 = self.range(field.offset, field.length, take)?;
        if crc32 == field.crc32 {
            return Ok(());
        }
        Err(Error::new(
            Kind::Damage,
            format!(
                "{}: sample `{}` field `{}`: crc32 {}, record says {}: run `shardpack verify {}`",
                self.shard.name,
                self.row.key,
                field.name,
                crc_text(crc32),
                crc_text(field.crc32),
                self.sink.word()
            ),
        ))
    }

    /// Hands the sample over as it lies in the shard, framing included, and compares its fields.
    pub(crate) fn whole(&self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.range(self.row.offset, self.row.length, take)?;
        let mut fields = self.row.fields.iter();
        fields.try_for_each(|field| self.field(field, &mut |_| Ok(())))
    }

    /// Reads a range piece by piece; gives its CRC-32. Of a compressed shard without frames, all that is before it is read too.
    fn range(
        &self,
        offset: u64,
        length: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<u32> {
        let pieces = |at, end| Ranges::new(self.sink, &self.shard.name, at, end);
        let (reader, start): (Box<dyn Read + Send + '_>, u64) =
            match (self.compress, self.row.frame) {
                (Compression::None, _) => (Box::new(pieces(offset, offset + length)), offset),
                (_, Some(frame)) => {
                    let packed = pieces(frame.offset, frame.offset.saturating_add(frame.length));
                    (Box::new(packed), frame.start)
                }
                (_, None) => (self.sink.open(&self.shard.name)?, 0),
            };
        let Some(skip) = offset.checked_sub(start) else {
            return Err(self.damaged("its frames begin after it"));
        };
        let unpacked = unpack(self.compress, reader, skip.saturating_add(length))?;
        let mut scanner = Scanner::new(unpacked);
        let failed = |error: io::Error| match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => self.damaged(&error.to_string()),
        };
        scanner.pass(skip, |_| ()).map_err(failed)?;
        let mut taken = Ok(());
        let (read, crc32) = scanner
            .pass(length, |piece| {
                if taken.is_ok() {
                    taken = take(piece);
                }
            })
            .map_err(failed)?;
        taken?;
        match read == length {
            true => Ok(crc32),
            false => Err(self.damaged(&format!("{read} of {length} bytes are there"))),
        }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::new(
            Kind::Damage,
            format!(
                "{}: sample `{}`: {what}: run `shardpack verify {}`",
                self.shard.name,
                self.row.key,
                self.sink.word()
            ),
        )
    }
}
