//! Columns of metadata: what the field `json` of each sample says, with a type a column.
//!
//! They hold nothing that is not in that field, so they are made from it: when a shard is written and, from what lies there, when it is checked.

use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use serde_json::{Map, Value};

use crate::model::column::{Column, ColumnKind};

/// The field that tells what a table says of the image.
pub(super) const JSON: &str = "json";

/// The cells of the columns of a row group, row by row.
pub(super) struct Cells<'a> {
    columns: &'a [Column],
    values: Vec<Values>,
    text: Vec<u8>,
    is_known: bool,
}

impl<'a> Cells<'a> {
    /// No cells yet of these columns, which get so many rows.
    pub(super) fn new(columns: &'a [Column], rows: usize) -> Self {
        Self {
            columns,
            values: columns
                .iter()
                .map(|column| Values::new(column.kind, rows))
                .collect(),
            text: Vec::new(),
            is_known: true,
        }
    }

    /// Takes the content of the next row's field of this name, which may be another than the one that counts.
    pub(super) fn text_of(&mut self, field: &str) -> CellText<'_, 'a> {
        self.text.clear();
        let counts = field == JSON && !self.columns.is_empty();
        CellText(counts.then_some(self))
    }

    /// Whether all contents were what they were recorded to be.
    pub(super) fn are_known(&self) -> bool {
        self.is_known
    }

    /// The columns in their order.
    pub(super) fn columns(&self) -> &[Values] {
        &self.values
    }

    fn add(&mut self, row: &Map<String, Value>) {
        for (column, values) in self.columns.iter().zip(&mut self.values) {
            values.push(row.get(&column.name).unwrap_or(&Value::Null));
        }
    }
}

/// A content that passes.
pub(super) struct CellText<'c, 'a>(Option<&'c mut Cells<'a>>);

impl CellText<'_, '_> {
    /// The next piece of it.
    pub(super) fn add(&mut self, piece: &[u8]) {
        if let Some(cells) = &mut self.0 {
            cells.text.extend_from_slice(piece);
        }
    }

    /// Its end; this is the CRC-32 that it should have.
    pub(super) fn end(self, crc32: u32) {
        let Some(cells) = self.0 else {
            return;
        };
        cells.is_known &= crc32fast::hash(&cells.text) == crc32;
        let text = std::mem::take(&mut cells.text);
        cells.add(&serde_json::from_slice(&text).unwrap_or_default());
        cells.text = text;
    }
}

/// The cells of a column: those that are there, and which are.
pub(super) struct Values {
    present: Vec<i16>,
    values: Typed,
}

enum Typed {
    Bool(Vec<bool>),
    Int64(Vec<i64>),
    Float64(Vec<f64>),
    String(Vec<ByteArray>),
    Json(Vec<ByteArray>),
}

impl Values {
    fn new(kind: ColumnKind, rows: usize) -> Self {
        Self {
            present: Vec::with_capacity(rows),
            values: match kind {
                ColumnKind::Bool => Typed::Bool(Vec::new()),
                ColumnKind::Int64 => Typed::Int64(Vec::new()),
                ColumnKind::Float64 => Typed::Float64(Vec::new()),
                ColumnKind::String => Typed::String(Vec::new()),
                ColumnKind::Json => Typed::Json(Vec::new()),
            },
        }
    }

    /// Adds a cell. One of another kind than the column is none: where it came from, the table, had no such cell.
    fn push(&mut self, cell: &Value) {
        fn kept<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
            let is_there = value.is_some();
            values.extend(value);
            is_there
        }
        let is_there = match &mut self.values {
            Typed::Bool(values) => kept(values, cell.as_bool()),
            Typed::Int64(values) => kept(values, cell.as_i64()),
            Typed::Float64(values) => kept(values, cell.as_f64()),
            Typed::String(values) => kept(values, cell.as_str().map(ByteArray::from)),
            Typed::Json(values) => {
                let text = (!cell.is_null()).then(|| cell.to_string());
                kept(values, text.map(|text| ByteArray::from(text.into_bytes())))
            }
        };
        self.present.push(i16::from(is_there));
    }

    /// Writes all of it.
    pub(super) fn write(&self, writer: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let present = Some(self.present.as_slice());
        match (&self.values, writer) {
            (Typed::Bool(values), ColumnWriter::BoolColumnWriter(writer)) => {
                writer.write_batch(values, present, None)
            }
            (Typed::Int64(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(values, present, None)
            }
            (Typed::Float64(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(values, present, None)
            }
            (
                Typed::String(values) | Typed::Json(values),
                ColumnWriter::ByteArrayColumnWriter(writer),
            ) => writer.write_batch(values, present, None),
            _ => Err(ParquetError::General("unexpected column".into())),
        }
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    use serde_json::json;

    use super::*;
    use crate::format::parquet::Parquet;
    use crate::format::test::{Members, check_as, names, pack_as};
    use crate::model::recipe::Names;

    const KINDS: [(&str, ColumnKind); 5] = [
        ("a b \"c\"", ColumnKind::String),
        ("boxes", ColumnKind::Json),
        ("height", ColumnKind::Float64),
        ("ok", ColumnKind::Bool),
        ("year", ColumnKind::Int64),
    ];

    fn told() -> Names {
        let column = |(name, kind): (&str, _)| Column {
            name: name.to_owned(),
            kind,
        };
        Names {
            sidecars: vec![JSON.to_owned()],
            columns: KINDS.map(column).to_vec(),
            ..names()
        }
    }

    fn members(rows: &[Value], image_bytes: usize) -> Members {
        let sample = |(number, row): (usize, &Value)| {
            let image = vec![number as u8; image_bytes];
            let text = row.to_string().into_bytes();
            let fields = vec![("jpg".to_owned(), image), (JSON.to_owned(), text)];
            (format!("s{number}"), 1, fields)
        };
        rows.iter().enumerate().map(sample).collect()
    }

    fn rows() -> Vec<Value> {
        vec![
            json!({ "a b \"c\"": "ü", "boxes": [1, { "x": null }], "height": 2, "ok": true, "year": -3 }),
            json!({}),
            json!({ "a b \"c\"": "", "boxes": "text", "height": 0.5, "ok": false, "year": i64::MAX }),
        ]
    }

    #[test]
    fn every_column_of_the_metadata_has_its_type_and_its_values() {
        let names = told();
        let (bytes, _) = pack_as(&Parquet, &names, &members(&rows(), 9));
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let read: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().into_columns().into_iter().skip(3))
            .map(|columns| columns.map(|(_, field)| field).collect())
            .collect();
        let text = |text: &str| Field::Str(text.to_owned());
        assert_eq!(
            read,
            [
                vec![
                    text("ü"),
                    text("[1,{\"x\":null}]"),
                    Field::Double(2.0),
                    Field::Bool(true),
                    Field::Long(-3)
                ],
                vec![Field::Null; 5],
                vec![
                    text(""),
                    text("\"text\""),
                    Field::Double(0.5),
                    Field::Bool(false),
                    Field::Long(i64::MAX)
                ],
            ]
        );
        let entry = reader.metadata().file_metadata().key_value_metadata();
        let entry = entry.unwrap()[0].value.clone().unwrap();
        let features: Value = serde_json::from_str(&entry).unwrap();
        let features = &features["info"]["features"];
        for (name, kind) in KINDS {
            let expected = json!({ "_type": "Value", "dtype": kind.dtype() });
            assert_eq!(features[name], expected);
        }
    }

    #[test]
    fn a_flipped_byte_is_one_finding_whether_it_is_told_in_columns_or_not() {
        let names = told();
        let (mut bytes, record) = pack_as(&Parquet, &names, &members(&rows(), 9));
        assert_eq!(check_as(&Parquet, &names, &bytes, &record), []);
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            let found = check_as(&Parquet, &names, &bytes, &record);
            assert_eq!(found.len(), 1, "byte {at}: {found:?}");
            bytes[at] ^= 0x10;
            let cut = check_as(&Parquet, &names, &bytes[..at], &record);
            assert_eq!(cut.len(), 1, "cut at {at}");
        }
    }

    #[test]
    fn what_comes_after_a_damaged_row_group_is_compared_all_the_same() {
        let names = told();
        let (mut bytes, record) = pack_as(&Parquet, &names, &members(&rows(), 45_000_000));
        let field =
            |sample: usize, field: usize| record.samples[sample].fields[field].offset as usize;
        assert!(field(0, 1) < field(2, 0), "two row groups");
        // A digit becomes another one: the columns are longer or shorter then.
        let text = &mut bytes[field(0, 1)..][..record.samples[0].fields[1].length as usize];
        let digit = text.iter().position(|&b| b == b'3').unwrap();
        text[digit] = b'"';
        bytes[field(2, 0) + 5] ^= 1;
        let found = check_as(&Parquet, &names, &bytes, &record);
        let samples: Vec<_> = found.iter().map(|finding| finding.sample.clone()).collect();
        assert_eq!(
            samples,
            [Some("s0".to_owned()), Some("s2".to_owned())],
            "{found:?}"
        );
    }
}
