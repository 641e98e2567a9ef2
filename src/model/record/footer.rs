//! The footer of an index: under which plan its shard was made, how long that is, its checksum, and what was skipped.
//!
//! Between the pages of an index and its Parquet footer lie four bytes that no reader looks at: the checksum of that footer.

use bytes::Bytes;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use serde::{Deserialize, Serialize};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::model::record::{Remark, ShardRecord};
use crate::model::version;

/// Name of the entry in the metadata of an index.
pub(super) const FOOTER_KEY: &str = "shardpack";

/// Bytes read from the end of an index at first to find its footer.
pub(crate) const FOOTER_GUESS: u64 = 64 * 1024;

/// Bytes of a Parquet file after its footer: the footer's length and the magic number.
pub(super) const PARQUET_END: usize = 8;

/// Bytes of the checksum before the footer.
pub(super) const SEAL: usize = 4;

/// The footer entry: everything about a shard but its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Footer {
    /// Version of this entry, 1.
    pub version: u32,
    /// Digest of the plan.
    pub plan: String,
    /// Name of the shard below the destination.
    pub shard: String,
    /// Split it belongs to.
    pub split: String,
    /// Samples in the shard.
    pub samples: u64,
    /// Length of the shard.
    pub bytes: u64,
    /// Length of what is packed in it, when it is compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked_bytes: Option<u64>,
    /// CRC-32 of the shard, eight hexadecimal digits.
    pub crc32: String,
    /// SHA-256 of the shard, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Planned samples that are not in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Remark>,
    /// Samples that are in it although something about them is odd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub odd: Vec<Remark>,
    /// Length of the index file's pages, which are its first bytes.
    #[serde(default)]
    pub rows_bytes: u64,
    /// CRC-32 of those pages, eight hexadecimal digits.
    #[serde(default)]
    pub rows_crc32: String,
}

impl ShardRecord {
    /// The footer entry of an index file with these pages.
    pub(crate) fn footer(&self, pages: &[u8]) -> Footer {
        Footer {
            version: 1,
            plan: self.plan.clone(),
            shard: self.shard.clone(),
            split: self.split.clone(),
            samples: self.samples.len() as u64,
            bytes: self.bytes,
            unpacked_bytes: self.unpacked_bytes,
            crc32: crc_text(self.crc32),
            sha256: self.sha256.clone(),
            skipped: self.skipped.clone(),
            odd: self.odd.clone(),
            rows_bytes: pages.len() as u64,
            rows_crc32: crc_text(crc32fast::hash(pages)),
        }
    }
}

impl Footer {
    /// Reads the footer of an index from its last bytes; `Err(n)` inside says that `n` bytes are needed.
    pub(crate) fn decode(
        name: &str,
        tail: &Bytes,
        size: u64,
    ) -> Result<std::result::Result<Self, u64>> {
        let needed = footer_length(tail)
            .and_then(|length| length.checked_add(PARQUET_END + SEAL))
            .ok_or_else(|| damaged(name, "it does not end like one"))?;
        if needed as u64 > size {
            return Err(damaged(name, "its footer would begin before the file"));
        }
        let Some(start) = tail.len().checked_sub(needed) else {
            return Ok(Err(needed as u64));
        };
        check_seal(name, &tail[start..])?;
        let footer = &tail[start + SEAL..tail.len() - PARQUET_END];
        let metadata =
            ParquetMetaDataReader::decode_metadata(footer).map_err(|error| damaged(name, error))?;
        footer_of(name, &metadata).map(Ok)
    }

    /// The footer of a whole index, every byte of which is compared with its checksums.
    pub(crate) fn of_file(name: &str, file: &Bytes) -> Result<Self> {
        let footer = Self::decode(name, file, file.len() as u64)?
            .map_err(|_| damaged(name, "it is too short"))?;
        footer.check_pages(name, file)?;
        Ok(footer)
    }

    /// Compares the pages of the index that this footer is of with their checksum.
    pub(crate) fn check_pages(&self, name: &str, file: &[u8]) -> Result<()> {
        let end = footer_length(file).unwrap_or(0) + PARQUET_END + SEAL;
        let pages = &file[..file.len().saturating_sub(end)];
        let actual = crc_text(crc32fast::hash(pages));
        if pages.len() as u64 != self.rows_bytes || actual != self.rows_crc32 {
            let what = format!(
                "its rows are {} bytes with crc32 {actual}, its footer says {} with {}",
                pages.len(),
                self.rows_bytes,
                self.rows_crc32
            );
            return Err(damaged(name, what));
        }
        Ok(())
    }
}

/// Length of the footer that a Parquet file's last bytes announce.
pub(super) fn footer_length(tail: &[u8]) -> Option<usize> {
    let (rest, magic) = tail.split_last_chunk::<4>()?;
    let (_, length) = rest.split_last_chunk::<4>()?;
    (magic == b"PAR1").then(|| u32::from_le_bytes(*length) as usize)
}

/// Compares a footer, from its seal to the end of the file, with that seal.
fn check_seal(name: &str, sealed: &[u8]) -> Result<()> {
    let Some((seal, footer)) = sealed.split_first_chunk::<SEAL>() else {
        return Err(damaged(name, "it is too short"));
    };
    let (actual, expected) = (crc32fast::hash(footer), u32::from_le_bytes(*seal));
    if actual != expected {
        let what = format!(
            "its footer has crc32 {}, the bytes before it say {}",
            crc_text(actual),
            crc_text(expected)
        );
        return Err(damaged(name, what));
    }
    Ok(())
}

/// The entry in the metadata of an index.
fn footer_of(name: &str, metadata: &ParquetMetaData) -> Result<Footer> {
    let entries = metadata.file_metadata().key_value_metadata();
    let entry = entries
        .into_iter()
        .flatten()
        .find(|entry| entry.key == FOOTER_KEY)
        .and_then(|entry| entry.value.as_deref())
        .ok_or_else(|| damaged(name, "no `shardpack` entry in its footer"))?;
    version::RECORD.check(name, entry.as_bytes())?;
    let footer: Footer = serde_json::from_str(entry).map_err(|error| damaged(name, error))?;
    if footer.version != 1 {
        let what = format!("record version {}, this program knows 1", footer.version);
        return Err(damaged(name, what));
    }
    Ok(footer)
}

/// The error over an index that cannot be read.
pub(super) fn damaged(name: &str, error: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Damage,
        format!("{name}: not a readable index: {error}"),
    )
}
