//! Parquet as HuggingFace datasets writes and reads it: `image` as a struct of bytes and path, `label` as a class label.
//!
//! Sources: Apache Parquet format 2.11 (`parquet.thrift`), HuggingFace datasets 5.2.0 `features/image.py`, `arrow_writer.py`.
//! Every image is a page of its own, plain and not compressed: a sample is read by one range read, and its content never waits
//! in memory. What comes after the images of a row group is small and does wait.

mod columns;
mod group;
mod packer;
mod pages;
mod schema;
mod tail;

use crate::base::error::Result;
use crate::format::parquet::columns::JSON;
use crate::format::parquet::group::{WAITING_BYTES, failed};
use crate::format::parquet::packer::ParquetPacker;
use crate::format::parquet::schema::{TEXTS, base};
use crate::format::{About, Layout, Packer};
use crate::model::limits::Limits;
use crate::model::recipe::Names;

/// Page sizes are signed 32-bit numbers.
const MAX_FIELD: u64 = (1 << 31) - (1 << 20);

/// Sidecars wait in memory until the images of their row group are written: they are contents that are held, not streamed.
const MAX_SIDECAR: u64 = 4 << 20;

/// A page header and a value's length, and the page's entry in the page index; for the estimate of sizes.
const PAGE_BYTES: u64 = 51;

/// A label and a path's own bytes, which compress well.
const ROW_BYTES: u64 = 12;

/// A cell at most, besides the text that is in the sample's `json` too.
const COLUMN_BYTES: u64 = 9;

/// Schema, metadata and magic numbers.
const FILE_BYTES: u64 = 2048;

/// The layout `parquet`.
pub(super) struct Parquet;

impl Layout for Parquet {
    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn limits(&self) -> Limits {
        Limits {
            sidecar: (
                MAX_SIDECAR,
                "a column beside the image takes 4 MiB a row: `--format` wds and tfrecord take more",
            ),
            ..Limits::of_fields(MAX_FIELD, "a page of a Parquet file ends at 2 GiB")
        }
    }

    fn generated(&self) -> Vec<&'static str> {
        vec!["image", "label"]
    }

    fn check_sidecar(&self, field: &str, content: &[u8]) -> Result<(), String> {
        match std::str::from_utf8(content) {
            Err(_) if TEXTS.contains(&field) => {
                Err("not UTF-8, and a column of text: save it as UTF-8".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn sample_bytes(&self, about: &About<'_>, fields: &[(&str, u64)]) -> u64 {
        let pages: u64 = fields.iter().map(|(_, size)| PAGE_BYTES + size).sum();
        let columns = match (about.names.columns.len() as u64, json_bytes(fields)) {
            (0, _) => 0,
            (columns, json) => columns * COLUMN_BYTES + json,
        };
        pages + ROW_BYTES + base(about).len() as u64 + columns
    }

    fn overhead_bytes(&self) -> u64 {
        FILE_BYTES
    }

    fn lists_classes(&self) -> bool {
        true
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn defers(&self) -> bool {
        true
    }

    fn memory_bytes(&self, names: &Names) -> u64 {
        // Columns of paths and labels are encoded beside it.
        let columns = 4 << 20;
        match (names.sidecars.is_empty(), names.columns.is_empty()) {
            (true, _) => columns,
            (false, true) => columns + WAITING_BYTES,
            // The cells of a row group, and the column that they are encoded into.
            (false, false) => columns + 3 * WAITING_BYTES,
        }
    }

    fn packer<'a>(&'a self, names: &'a Names) -> Result<Box<dyn Packer + 'a>> {
        let packer = ParquetPacker::new(names);
        packer
            .map(|packer| Box::new(packer) as Box<dyn Packer>)
            .map_err(failed)
    }
}

/// Bytes of the field that tells what a table says of the image.
fn json_bytes(fields: &[(&str, u64)]) -> u64 {
    let json = fields.iter().find(|(name, _)| *name == JSON);
    json.map_or(0, |(_, size)| *size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::STREAM_ABOVE_BYTES;
    use crate::format::test::{Members, check, names, pack, samples};
    use bytes::Bytes;
    use parquet::basic::Compression;
    use parquet::errors::ParquetError;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, RowAccessor};
    use proptest::prelude::*;

    fn two() -> Members {
        let sample = |key: &str, label, size| {
            let fields = vec![
                ("jpg".to_owned(), vec![b'A'; size]),
                ("txt".to_owned(), b"a text".to_vec()),
            ];
            (key.to_owned(), label, fields)
        };
        vec![sample("a/b", 0, 600), sample("c", 2, 0)]
    }

    /// Image, path, label and text of every row, as the library reads them.
    fn read(bytes: &[u8]) -> Vec<(Vec<u8>, String, i64, String)> {
        let reader = SerializedFileReader::new(Bytes::copy_from_slice(bytes)).unwrap();
        let row = |row: Result<parquet::record::Row, ParquetError>| {
            let row = row.unwrap();
            let image = row.get_group(0).unwrap();
            let (bytes, path) = (image.get_bytes(0).unwrap(), image.get_string(1).unwrap());
            let Some((_, Field::Str(text))) = row.get_column_iter().nth(2) else {
                panic!("no text")
            };
            (
                bytes.data().to_vec(),
                path.clone(),
                row.get_long(1).unwrap(),
                text.clone(),
            )
        };
        reader.get_row_iter(None).unwrap().map(row).collect()
    }

    #[test]
    fn the_columns_and_their_meaning_are_those_of_huggingface() {
        let (bytes, _) = pack(&Parquet, &two());
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let file = reader.metadata().file_metadata();
        let entry = &file.key_value_metadata().unwrap()[0];
        assert_eq!(entry.key, "huggingface");
        let expected = r#"{"info":{"features":{"image":{"_type":"Image"},"label":{"_type":"ClassLabel","names":["cat","dog","emu"]},"txt":{"_type":"Value","dtype":"string"}}}}"#;
        assert_eq!(entry.value.as_deref(), Some(expected));
        let columns: Vec<_> = file
            .schema_descr()
            .columns()
            .iter()
            .map(|c| c.path().string())
            .collect();
        assert_eq!(columns, ["image.bytes", "image.path", "label", "txt"]);
        let group = reader.metadata().row_group(0);
        assert_eq!(group.column(0).compression(), Compression::UNCOMPRESSED);
        assert!(
            group
                .columns()
                .iter()
                .all(|column| column.offset_index_offset().is_some())
        );
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_found() {
        let (mut bytes, record) = pack(&Parquet, &two());
        assert_eq!(check(&Parquet, &bytes, &record), []);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(check(&Parquet, &damaged, &record).len(), 1, "byte {at}");
            assert_eq!(
                check(&Parquet, &bytes[..at], &record).len(),
                1,
                "cut at {at}"
            );
        }
        bytes.push(0);
        assert_eq!(check(&Parquet, &bytes, &record).len(), 1);
    }

    #[test]
    fn row_groups_end_before_they_are_too_large() {
        let sample = |number: usize| {
            let image = vec![number as u8; 30_000_000];
            let fields = vec![("jpg".to_owned(), image), ("txt".to_owned(), vec![b'x'; 7])];
            (format!("s{number}"), 1, fields)
        };
        let members: Members = (0..7).map(sample).collect();
        let (bytes, record) = pack(&Parquet, &members);
        let reader = SerializedFileReader::new(Bytes::from(bytes.clone())).unwrap();
        let rows: Vec<_> = reader
            .metadata()
            .row_groups()
            .iter()
            .map(|g| g.num_rows())
            .collect();
        assert_eq!(rows, [3, 3, 1]);
        for row in &record.samples {
            for field in &row.fields {
                let content = &bytes[field.offset as usize..(field.offset + field.length) as usize];
                assert_eq!(crc32fast::hash(content), field.crc32);
            }
        }
        assert_eq!(check(&Parquet, &bytes, &record), []);
    }

    #[test]
    fn a_sidecar_that_is_planned_is_one_that_is_held() {
        assert_eq!(MAX_SIDECAR, STREAM_ABOVE_BYTES);
    }

    #[test]
    fn text_that_is_no_text_is_refused() {
        assert!(Parquet.check_sidecar("txt", b"\xff").is_err());
        assert!(Parquet.check_sidecar("npy", b"\xff").is_ok());
    }

    proptest! {
        #[test]
        fn any_samples_read_back_equal_with_the_library(members in samples()) {
            let names = names();
            prop_assert_eq!(names.sidecars, ["txt"]);
            let (bytes, record) = pack(&Parquet, &members);
            let rows = read(&bytes);
            prop_assert_eq!(rows.len(), members.len());
            for ((image, path, label, text), (key, class, fields)) in rows.into_iter().zip(&members) {
                prop_assert_eq!(&image, &fields[0].1);
                prop_assert_eq!(path, format!("{}.JPEG", key.rsplit('/').next().unwrap()));
                prop_assert_eq!(label, i64::from(*class));
                prop_assert_eq!(text.as_bytes(), &fields[1].1);
            }
            prop_assert_eq!(check(&Parquet, &bytes, &record), vec![]);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let (_, record) = pack(&Parquet, &two());
            check(&Parquet, &bytes, &record);
        }
    }
}
