//! The SQLite database that energon finds samples by key with: every sample and its parts, with their places.

use crate::base::error::{Error, Result};
use crate::model::record::ShardRecord;

const TABLES: &str = "
CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, sample_index INTEGER NOT NULL,
                      byte_offset INTEGER, byte_size INTEGER);
CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT,
                           content_byte_offset INTEGER, content_byte_size INTEGER);
";
const INDEXES: &str = "
CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index);
CREATE INDEX idx_sample_parts_seq ON sample_parts(tar_file_id, sample_index, content_byte_offset);
CREATE INDEX idx_sample_parts_full ON sample_parts(tar_file_id, sample_index, part_name, content_byte_offset, content_byte_size);
";

/// The database's file, from the records of all shards in order.
pub(super) fn database(records: &mut dyn Iterator<Item = Result<ShardRecord>>) -> Result<Vec<u8>> {
    let failed = |error: rusqlite::Error| Error::failed(format!("index.sqlite: {error}"));
    let connection = rusqlite::Connection::open_in_memory().map_err(failed)?;
    connection
        .execute_batch(&format!("{TABLES} BEGIN;"))
        .map_err(failed)?;
    let mut sample = connection
        .prepare("INSERT INTO samples VALUES (?1, ?2, ?3, ?4, ?5)")
        .map_err(failed)?;
    let mut part = connection
        .prepare("INSERT INTO sample_parts VALUES (?1, ?2, ?3, ?4, ?5)")
        .map_err(failed)?;
    // SQLite has signed integers; no offset in a shard comes near their end.
    let number = |value: u64| value as i64;
    for (shard, record) in records.enumerate() {
        let record = record?;
        for (index, row) in record.samples.iter().enumerate() {
            sample
                .execute((
                    shard as i64,
                    &row.key,
                    index as i64,
                    number(row.offset),
                    number(row.length),
                ))
                .map_err(failed)?;
            for field in &row.fields {
                part.execute((
                    shard as i64,
                    index as i64,
                    &field.name,
                    number(field.offset),
                    number(field.length),
                ))
                .map_err(failed)?;
            }
        }
    }
    drop((sample, part));
    connection
        .execute_batch(&format!("COMMIT; {INDEXES}"))
        .map_err(failed)?;
    Ok(connection.serialize("main").map_err(failed)?.to_vec())
}
