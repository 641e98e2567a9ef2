//! `metadata.parquet`: rows of any columns, nested ones too, as the JSON that the other forms have.
//!
//! What reading a row group may take is reckoned from its headers before the Parquet library is asked, because it believes them. It panics
//! over some damage besides; that is taken for damage.

mod assemble;
mod bounds;
mod leaf;
mod thrift;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use crate::base::text::show;
use crate::source::metadata::parquet::assemble::Node;
use crate::source::metadata::parquet::leaf::Leaf;
use crate::source::metadata::{Record, Refusal, Table};

/// Rows that are read at once.
const BATCH_ROWS: usize = 256;

type Reader = SerializedFileReader<Bytes>;

/// What the Parquet library refused.
fn damaged(table: &Table, error: impl std::fmt::Display) -> String {
    // The library shows names that are in the file.
    let error = show(error.to_string().as_bytes());
    format!(
        "{} is damaged, or no Parquet file that is read: {error}: save it again with snappy or zstd, or leave it out with `--exclude`",
        table.name
    )
}

/// Takes a panic of the library for damage.
fn guarded<T>(table: &Table, read: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let what = damaged(table, "its parts contradict each other");
        Err(what.into())
    })
}

/// Opens a table whose footer is bounded.
fn open(table: &Table) -> Result<Reader, Refusal> {
    bounds::check_footer(&table.bytes).map_err(|what| damaged(table, what))?;
    let reader = SerializedFileReader::new(table.bytes.clone());
    Ok(reader.map_err(|error| damaged(table, error))?)
}

/// The columns of a table.
pub(super) fn columns(table: &Table) -> Result<BTreeSet<String>, Refusal> {
    guarded(table, || {
        let reader = open(table)?;
        let schema = reader.metadata().file_metadata().schema();
        let columns = schema.get_fields().iter();
        let columns: Vec<String> = columns.map(|field| field.name().to_owned()).collect();
        let names: BTreeSet<String> = columns.iter().cloned().collect();
        match names.len() == columns.len() {
            true => Ok(names),
            false => Err(damaged(table, "it has two columns of one name").into()),
        }
    })
}

/// Hands each row on. What is read of it at once takes no more than `most_bytes`.
pub(super) fn each(
    table: &Table,
    most_bytes: u64,
    take: &mut dyn FnMut(Record) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    guarded(table, || {
        let reader = open(table)?;
        let columns = Node::columns(reader.metadata().file_metadata().schema_descr())
            .map_err(|what| format!("{}: {what}", table.name))?;
        let mut line = 0;
        for number in 0..reader.num_row_groups() {
            let group = reader
                .get_row_group(number)
                .map_err(|error| damaged(table, error))?;
            let needed = bounds::needed(&table.bytes, group.metadata());
            let needed = needed.map_err(|what| damaged(table, what))?;
            if needed > most_bytes {
                return Err(Refusal::Memory(format!(
                    "{}: reading its row group {number} takes {} MiB: write it with smaller row groups",
                    table.name,
                    needed.div_ceil(1 << 20)
                )));
            }
            let mut open = Vec::with_capacity(columns.plain.len());
            for (index, leaf) in columns.plain.iter().enumerate() {
                let column = group.get_column_reader(index);
                let column = column.map_err(|error| damaged(table, error))?;
                open.push(Leaf::new(leaf, column));
            }
            let mut left = u64::try_from(group.metadata().num_rows()).unwrap_or(0);
            while left > 0 {
                let rows = fill(&mut open, BATCH_ROWS.min(left as usize))
                    .map_err(|error| damaged(table, error))?;
                for _ in 0..rows {
                    line += 1;
                    take(row(table, line, &columns.named, &mut open)?)?;
                }
                left -= rows as u64;
            }
        }
        Ok(())
    })
}

/// Reads so many rows of all columns.
fn fill(leaves: &mut [Leaf], rows: usize) -> Result<usize, ParquetError> {
    for leaf in leaves {
        let read = leaf.fill(rows)?;
        if read != rows {
            let what = format!("a column has {read} of {rows} rows");
            return Err(ParquetError::General(what));
        }
    }
    Ok(rows)
}

/// Puts a row together.
fn row(
    table: &Table,
    line: usize,
    columns: &[(String, Node)],
    leaves: &mut [Leaf],
) -> Result<Record, Refusal> {
    let mut left = super::MOST_BYTES;
    let mut values = super::Values::new();
    for (name, node) in columns {
        let value = node.value(leaves, &mut left);
        let value: Value = value.map_err(|what| {
            format!(
                "{}: row {line}: column `{}`: {what}",
                table.name,
                show(name.as_bytes())
            )
        })?;
        values.insert(name.clone(), value);
    }
    // Columns of one row have as many values in it as each other: otherwise the next row would begin with what is left.
    if leaves.iter().any(Leaf::is_within_row) {
        return Err(damaged(table, format!("row {line} has lists of other lengths")).into());
    }
    Ok(Record { line, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use proptest::prelude::*;

    const SCHEMA: &str = "message m {
        optional binary file_name (UTF8);
        optional group boxes (LIST) { repeated group list { optional int64 element; } } }";

    /// A table of one image, of which so many numbers are known.
    fn table(numbers: usize) -> Table {
        let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_data_page_row_count_limit(usize::MAX)
            .build();
        let mut bytes = Vec::new();
        let mut writer =
            SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let name = [ByteArray::from("a.jpg")];
        let typed = column.typed::<ByteArrayType>();
        typed.write_batch(&name, Some(&[1]), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let mut follows = vec![1; numbers];
        follows[0] = 0;
        let (values, levels) = (vec![7; numbers], vec![3; numbers]);
        let typed = column.typed::<Int64Type>();
        typed
            .write_batch(&values, Some(&levels), Some(&follows))
            .unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        Table {
            name: "metadata.parquet".to_owned(),
            dir: Vec::new(),
            bytes: bytes.into(),
        }
    }

    fn rows(table: &Table, most_bytes: u64) -> Result<Vec<Value>, Refusal> {
        let mut rows = Vec::new();
        each(table, most_bytes, &mut |record| {
            rows.push(Value::Object(record.values));
            Ok(())
        })?;
        Ok(rows)
    }

    #[test]
    fn rows_are_objects() {
        let expected = serde_json::json!({ "file_name": "a.jpg", "boxes": [7, 7] });
        assert_eq!(rows(&table(2), 1 << 20).unwrap(), [expected]);
    }

    #[test]
    fn a_small_file_of_many_values_is_refused_before_it_is_read() {
        let bomb = table(5_000_000);
        assert!(bomb.bytes.len() < 20_000, "{}", bomb.bytes.len());
        let Err(Refusal::Memory(what)) = rows(&bomb, 64 << 20) else {
            panic!("read")
        };
        assert!(what.contains("smaller row groups"), "{what}");
        // With enough memory the row itself is too much.
        let Err(Refusal::Data(what)) = rows(&bomb, 1 << 30) else {
            panic!("read")
        };
        assert!(
            what.contains("row 1: column `boxes`: more than 4 MiB"),
            "{what}"
        );
    }

    #[test]
    fn columns_within_columns_without_end_are_refused() {
        // A footer of version 1 whose schema is columns that each have one within.
        let (mut footer, depth) = (vec![0x15, 2, 0x19, 0xFC], 100_000_u32);
        prost::encoding::encode_varint(depth.into(), &mut footer);
        for _ in 0..depth {
            footer.extend([0x48, 1, b'g', 0x15, 2, 0]);
        }
        footer.extend([0x16, 0, 0x19, 0x0C, 0]);
        let mut deep = table(1);
        let length = (footer.len() as u32).to_le_bytes();
        deep.bytes = [b"PAR1", &footer[..], &length, b"PAR1"].concat().into();
        let Err(Refusal::Data(what)) = columns(&deep) else {
            panic!("read")
        };
        assert!(what.contains("columns have columns within"), "{what}");
    }

    proptest! {
        #[test]
        fn changed_bytes_are_rows_or_refused(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            which in 0_usize..3,
        ) {
            let mut changed = table(50);
            let mut text = match which {
                0 => changed.bytes.to_vec(),
                1 => include_bytes!("../../../../fixtures/golden/metadata/pyarrow.parquet").to_vec(),
                _ => include_bytes!("../../../../fixtures/golden/metadata/plain.parquet").to_vec(),
            };
            for (at, byte) in changes {
                let at = at.index(text.len());
                text[at] = byte;
            }
            for text in [text, bytes] {
                changed.bytes = text.into();
                let _ = columns(&changed);
                let _ = rows(&changed, 1 << 20);
            }
        }
    }
}
