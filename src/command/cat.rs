//! `cat`: one sample or field to stdout, reading only its bytes and comparing them with the index.

use std::io::Write;

use super::inspect::find;
use super::summary::Summary;
use crate::checksum::crc_text;
use crate::error::{Error, Kind, Result};
use crate::manifest::{Manifest, ShardEntry};
use crate::probe::image_field;
use crate::record::{FieldRecord, SampleRecord};
use crate::settings::{Part, Running};
use crate::store::{self, Sink};

/// Bytes read and written at once.
const PIECE_BYTES: u64 = 8 << 20;

/// Writes a part of the sample `key` (or `key.field`).
pub fn run(destination: &str, key: &str, part: Part, running: &Running) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    let manifest = Manifest::require(sink.as_ref())?;
    // A key has no dot, so what follows one is a field.
    let (key, part) = match (key.split_once('.'), part) {
        (Some((key, field)), Part::Image) => (key, Part::Field(field.to_owned())),
        (_, part) => (key, part),
    };
    let (shard, row) = find(sink.as_ref(), &manifest, key)?;
    if part == Part::Whole {
        write_range(sink.as_ref(), shard, row.offset, row.length)?;
        for field in &row.fields {
            let crc32 = read_range(
                sink.as_ref(),
                shard,
                field.offset,
                field.length,
                &mut |_| Ok(()),
            )?;
            check(sink.as_ref(), shard, key, field, crc32)?;
        }
    } else {
        let field = pick(&row, &part)?;
        let crc32 = write_range(sink.as_ref(), shard, field.offset, field.length)?;
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
        _ => image_field(field.name.as_bytes()).is_some(),
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

/// Writes a range of a shard to stdout; gives its CRC-32.
fn write_range(sink: &dyn Sink, shard: &ShardEntry, offset: u64, length: u64) -> Result<u32> {
    let mut out = std::io::stdout().lock();
    let failed = |error: std::io::Error| match error.kind() {
        // Whoever read has seen enough; what they saw cannot be judged any more.
        std::io::ErrorKind::BrokenPipe => {
            Error::new(Kind::Failed, "stdout was closed before the end")
        }
        _ => Error::io("stdout", error),
    };
    let crc32 = read_range(sink, shard, offset, length, &mut |piece| {
        out.write_all(piece).map_err(failed)
    })?;
    out.flush().map_err(failed)?;
    Ok(crc32)
}

/// Reads a range of a shard piece by piece; gives its CRC-32.
fn read_range(
    sink: &dyn Sink,
    shard: &ShardEntry,
    offset: u64,
    length: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    let mut done = 0;
    while done < length {
        let n = PIECE_BYTES.min(length - done);
        let piece = sink.range(&shard.name, offset + done, n as usize)?;
        crc.update(&piece);
        take(&piece)?;
        done += n;
    }
    Ok(crc.finalize())
}
