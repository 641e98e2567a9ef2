//! Writes an index file. The same record gives the same bytes.

use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::base::error::{Error, Result};
use crate::model::record::columns::{COLUMNS, COLUMNS_BEFORE, Cells, Column, Row, schema};
use crate::model::record::footer::{FOOTER_KEY, PARQUET_END, footer_length};
use crate::model::record::{FieldRecord, ShardRecord};

impl ShardRecord {
    /// The index file. The same record gives the same bytes. `classes` are the class names by label.
    pub(crate) fn encode(&self, classes: &[String]) -> Result<Vec<u8>> {
        self.write(&COLUMNS, classes)
    }

    /// The index file as it was written before it had all columns.
    pub(crate) fn encode_as_before(&self, classes: &[String]) -> Result<Vec<u8>> {
        self.write(&COLUMNS[..COLUMNS_BEFORE], classes)
    }

    fn write(&self, columns: &[Column], classes: &[String]) -> Result<Vec<u8>> {
        self.write_parquet(columns, classes).map_err(|error| {
            Error::failed(format!("{}: index cannot be encoded: {error}", self.shard))
        })
    }

    fn write_parquet(
        &self,
        columns: &[Column],
        classes: &[String],
    ) -> Result<Vec<u8>, ParquetError> {
        let schema = Arc::new(parse_message_type(&schema(columns))?);
        // Dictionaries only where values repeat; level 1, because names and offsets hardly compress better at any other.
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by("shardpack".to_owned());
        for column in columns.iter().filter(|column| column.repeats) {
            properties = properties.set_column_dictionary_enabled(column.path().into(), true);
        }
        let properties = properties.build();
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for column in columns {
            if let Some(mut next) = group.next_column()? {
                self.write_column(column, classes, next.untyped())?;
                next.close()?;
            }
        }
        group.close()?;
        let pages = &writer.inner()[..writer.bytes_written()];
        let footer = serde_json::to_string(&self.footer(pages))
            .map_err(|error| ParquetError::External(error.into()))?;
        writer.append_key_value_metadata(KeyValue::new(FOOTER_KEY.to_owned(), footer));
        let mut file = writer.into_inner()?;
        // Readers find the footer from the end and rows by their offsets, so what lies between the two is ours.
        let footer = file.len() - footer_length(&file).unwrap_or(0) - PARQUET_END;
        let seal = crc32fast::hash(&file[footer..]).to_le_bytes();
        file.splice(footer..footer, seal);
        Ok(file)
    }

    fn write_column(
        &self,
        column: &Column,
        classes: &[String],
        writer: &mut ColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        let rows = (0..).zip(&self.samples).map(|(ordinal, sample)| Row {
            shard: self,
            classes,
            ordinal,
            sample,
        });
        match (column.cells, writer) {
            (Cells::Text { of, .. }, ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let values: Vec<_> = rows.map(|row| of(&row)).collect();
                writer.write_batch(&values, None, None)?;
            }
            (Cells::Number { of, .. }, ColumnWriter::Int64ColumnWriter(writer)) => {
                let values: Vec<_> = rows.map(|row| of(&row)).collect();
                writer.write_batch(&values, None, None)?;
            }
            (Cells::SomeBytes { of, .. }, ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let (present, values) = present(rows.map(|row| of(row.sample)));
                writer.write_batch(&values, Some(&present), None)?;
            }
            (Cells::SomePixels { of, .. }, ColumnWriter::Int32ColumnWriter(writer)) => {
                let (present, values) = present(rows.map(|row| of(row.sample)));
                writer.write_batch(&values, Some(&present), None)?;
            }
            (Cells::SomeNumber { of, .. }, ColumnWriter::Int64ColumnWriter(writer)) => {
                let (present, values) = present(rows.map(|row| of(&row)));
                writer.write_batch(&values, Some(&present), None)?;
            }
            (Cells::FieldText { of, .. }, ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let (defined, repeated) = self.list_levels();
                let values: Vec<_> = self.fields().map(of).collect();
                writer.write_batch(&values, Some(&defined), Some(&repeated))?;
            }
            (Cells::FieldNumber { of, .. }, ColumnWriter::Int64ColumnWriter(writer)) => {
                let (defined, repeated) = self.list_levels();
                let values: Vec<_> = self.fields().map(of).collect();
                writer.write_batch(&values, Some(&defined), Some(&repeated))?;
            }
            _ => return Err(ParquetError::General("unexpected column".into())),
        }
        Ok(())
    }

    fn fields(&self) -> impl Iterator<Item = &FieldRecord> {
        self.samples.iter().flat_map(|sample| &sample.fields)
    }

    /// Definition and repetition levels of the `fields` list: one entry a field, or one for an empty list.
    fn list_levels(&self) -> (Vec<i16>, Vec<i16>) {
        let mut defined = Vec::new();
        let mut repeated = Vec::new();
        for sample in &self.samples {
            for i in 0..sample.fields.len().max(1) {
                defined.push(i16::from(!sample.fields.is_empty()));
                repeated.push(i16::from(i > 0));
            }
        }
        (defined, repeated)
    }
}

/// Which rows have a value, and the values.
fn present<V>(cells: impl Iterator<Item = Option<V>>) -> (Vec<i16>, Vec<V>) {
    let (mut present, mut values) = (Vec::new(), Vec::new());
    for cell in cells {
        present.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    (present, values)
}
