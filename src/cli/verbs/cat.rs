//! `cat`: one sample or field to stdout, reading only its bytes and comparing them with the index.

use std::io::{self, Read, Write};

use super::find::{Found, find};
use super::summary::Summary;
use crate::base::checksum::{Scanner, crc_text};
use crate::base::error::{Error, Kind, Result};
use crate::base::image::image_field;
use crate::cli::settings::{Part, Running};
use crate::format::RecipeLayout as _;
use crate::format::compress::unpack;
use crate::format::tfrecord::is_image;
use crate::model::manifest::ShardEntry;
use crate::model::recipe::Compression;
use crate::model::record::{FieldRecord, SampleRecord};
use crate::state::published::require;
use crate::store::{self, Ranges, Sink};

/// Writes a part of the sample `key`, which is a key, `key.field`, or the path of a file of the source.
pub fn run(destination: &str, key: &str, part: Part, running: &Running) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    let manifest = require(sink.as_ref())?;
    let Found { shard, row, field } = find(sink.as_ref(), &manifest, key, running)?;
    let key = row.key.as_str();
    let part = match (field, part) {
        (Some(field), Part::Image) => Part::Field(field),
        (_, part) => part,
    };
    let place = Place {
        sink: sink.as_ref(),
        compress: manifest.recipe.compress,
        shard,
        row: &row,
    };
    if part == Part::Whole && manifest.recipe.layout().defers() {
        return Err(Error::usage(
            "--whole: a row of Parquet lies in several columns: name a field, or read the file with a tool for Parquet",
        ));
    }
    if part == Part::Whole {
        place.write(row.offset, row.length)?;
        for field in &row.fields {
            let crc32 = place.read(field.offset, field.length, &mut |_| Ok(()))?;
            check(sink.as_ref(), shard, key, field, crc32)?;
        }
    } else {
        let field = pick(&row, &part)?;
        let crc32 = place.write(field.offset, field.length)?;
        check(sink.as_ref(), shard, key, field, crc32)?;
    }
    Ok(Summary {
        destination: Some(sink.to_string()),
        ..Summary::text(String::new())
    })
}

fn check(
    sink: &dyn Sink,
    shard: &ShardEntry,
    key: &str,
    field: &FieldRecord,
    crc32: u32,
) -> Result<()> {
    if crc32 == field.crc32 {
        return Ok(());
    }
    Err(Error::new(
        Kind::Damage,
        format!(
            "{}: sample `{key}` field `{}`: crc32 {}, record says {}: run `shardpack verify {sink}`",
            shard.name,
            field.name,
            crc_text(crc32),
            crc_text(field.crc32)
        ),
    ))
}

fn pick<'a>(row: &'a SampleRecord, part: &Part) -> Result<&'a FieldRecord> {
    let wanted = |field: &&FieldRecord| match part {
        Part::Field(name) => field.name == *name,
        _ => image_field(field.name.as_bytes()).is_some() || is_image(&field.name),
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
struct Place<'a> {
    sink: &'a dyn Sink,
    compress: Compression,
    shard: &'a ShardEntry,
    row: &'a SampleRecord,
}

impl Place<'_> {
    /// Writes a range to stdout; gives its CRC-32.
    fn write(&self, offset: u64, length: u64) -> Result<u32> {
        let mut out = std::io::stdout().lock();
        let failed = |error: io::Error| match error.kind() {
            // Whoever read has seen enough; what they saw cannot be judged any more.
            io::ErrorKind::BrokenPipe => {
                Error::new(Kind::Failed, "stdout was closed before the end")
            }
            _ => Error::io("stdout", error),
        };
        let crc32 = self.read(offset, length, &mut |piece| {
            out.write_all(piece).map_err(failed)
        })?;
        out.flush().map_err(failed)?;
        Ok(crc32)
    }

    /// Reads a range piece by piece; gives its CRC-32. Of a compressed shard without frames, all that is before it is read too.
    fn read(
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
                self.shard.name, self.row.key, self.sink
            ),
        )
    }
}
