//! Reads an index file back, column by column.

use bytes::Bytes;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::parser::parse_message_type;

use crate::base::checksum::crc_from_text;
use crate::base::error::Result;
use crate::model::record::columns::{
    COLUMNS, COLUMNS_BEFORE, Cells, Column, KEY, Put, ReadRow, schema, string,
};
use crate::model::record::footer::{Footer, damaged};
use crate::model::record::{FieldRecord, SampleRecord, ShardRecord};

impl ShardRecord {
    /// Reads an index file back. `name` is for messages.
    pub(crate) fn decode(name: &str, file: &Bytes) -> Result<Self> {
        guarded(name, || Self::decode_all(name, file))
    }

    fn decode_all(name: &str, file: &Bytes) -> Result<Self> {
        let (reader, footer) = open(name, file)?;
        let found = reader.metadata().file_metadata().schema().get_fields();
        let has = |columns: &[Column]| -> Result<bool> {
            let expected = parse_message_type(&schema(columns));
            Ok(found == expected.map_err(|error| damaged(name, error))?.get_fields())
        };
        // What was added later follows from the others.
        if !has(&COLUMNS)? && !has(&COLUMNS[..COLUMNS_BEFORE])? {
            let error = ParquetError::General("its columns are not those of an index".into());
            return Err(damaged(name, error));
        }
        let mut samples = Vec::new();
        for group in 0..reader.num_row_groups() {
            let group = reader
                .get_row_group(group)
                .map_err(|error| damaged(name, error))?;
            read_rows(group.as_ref(), &mut samples).map_err(|error| damaged(name, error))?;
        }
        if samples.len() as u64 != footer.samples {
            return Err(damaged(
                name,
                format!("{} rows, its footer says {}", samples.len(), footer.samples),
            ));
        }
        let crc32 = crc_from_text(&footer.crc32)
            .ok_or_else(|| damaged(name, "its crc32 is not eight hexadecimal digits"))?;
        Ok(Self {
            shard: footer.shard,
            split: footer.split,
            plan: footer.plan,
            bytes: footer.bytes,
            unpacked_bytes: footer.unpacked_bytes,
            crc32,
            sha256: footer.sha256,
            samples,
            skipped: footer.skipped,
            odd: footer.odd,
        })
    }

    /// The keys alone, in shard order.
    pub(crate) fn decode_keys(name: &str, file: &Bytes) -> Result<Vec<String>> {
        guarded(name, || Self::decode_only_keys(name, file))
    }

    fn decode_only_keys(name: &str, file: &Bytes) -> Result<Vec<String>> {
        let (reader, _) = open(name, file)?;
        let mut keys = Vec::new();
        for group in 0..reader.num_row_groups() {
            let group = reader
                .get_row_group(group)
                .map_err(|error| damaged(name, error))?;
            let column = ColumnValues::<ByteArrayType>::read(group.as_ref(), KEY)
                .map_err(|error| damaged(name, error))?;
            for key in column.values {
                keys.push(string(key).map_err(|error| damaged(name, error))?);
            }
        }
        Ok(keys)
    }
}

impl ShardRecord {
    /// The fields of each sample alone, in shard order: a few columns of the file.
    pub(crate) fn decode_fields(name: &str, file: &Bytes) -> Result<Vec<Vec<FieldRecord>>> {
        guarded(name, || Self::decode_only_fields(name, file))
    }

    fn decode_only_fields(name: &str, file: &Bytes) -> Result<Vec<Vec<FieldRecord>>> {
        let (reader, footer) = open(name, file)?;
        let mut rows: Vec<ReadRow> = Vec::new();
        // An index has one row group.
        rows.resize_with(footer.samples as usize, ReadRow::default);
        for group in 0..reader.num_row_groups() {
            let group = reader
                .get_row_group(group)
                .map_err(|error| damaged(name, error))?;
            let columns = COLUMNS.iter().enumerate();
            for (index, column) in columns.filter(|(_, column)| column.is_of_fields()) {
                read_column(group.as_ref(), index, column, &mut rows)
                    .map_err(|error| damaged(name, error))?;
            }
        }
        Ok(rows.into_iter().map(|row| row.sample.fields).collect())
    }
}

/// Takes a panic for damage. The parquet crate panics over some files that were made to harm, with all checksums right.
fn guarded<T>(name: &str, read: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(damaged(name, "its columns contradict each other")))
}

/// Opens an index file. The parquet crate panics over some damage: every byte is compared with its checksum first.
fn open(name: &str, file: &Bytes) -> Result<(SerializedFileReader<Bytes>, Footer)> {
    let footer = Footer::of_file(name, file)?;
    let reader = SerializedFileReader::new(file.clone()).map_err(|error| damaged(name, error))?;
    Ok((reader, footer))
}

/// What a column has of a row group, with the levels that say where values are missing and where lists begin.
struct ColumnValues<T: DataType> {
    values: Vec<T::T>,
    defined: Vec<i16>,
    repeated: Vec<i16>,
}

impl<T: DataType> ColumnValues<T> {
    fn read(group: &dyn RowGroupReader, index: usize) -> Result<Self, ParquetError> {
        let described = group.metadata().schema_descr();
        if index >= described.num_columns()
            || described.column(index).physical_type() != T::get_physical_type()
        {
            return Err(ParquetError::General(format!(
                "column {index} is of another type"
            )));
        }
        let mut column = Self {
            values: Vec::new(),
            defined: Vec::new(),
            repeated: Vec::new(),
        };
        let mut reader = get_typed_column_reader::<T>(group.get_column_reader(index)?);
        loop {
            let (records, _, levels) = reader.read_records(
                64 * 1024,
                Some(&mut column.defined),
                Some(&mut column.repeated),
                &mut column.values,
            )?;
            if records == 0 && levels == 0 {
                return Ok(column);
            }
        }
    }

    /// Puts a value into each row.
    fn put_all<R>(self, rows: &mut [R], put: Put<R, T::T>) -> Result<(), ParquetError> {
        expect(self.values.len(), rows.len())?;
        for (row, value) in rows.iter_mut().zip(self.values) {
            put(row, value)?;
        }
        Ok(())
    }

    /// Puts values into the rows that have one.
    fn put_some<R>(self, rows: &mut [R], put: Put<R, T::T>) -> Result<(), ParquetError> {
        expect(self.defined.len(), rows.len())?;
        let mut values = self.values.into_iter();
        for (row, _) in rows.iter_mut().zip(&self.defined).filter(|(_, d)| **d > 0) {
            if let Some(value) = values.next() {
                put(row, value)?;
            }
        }
        Ok(())
    }
}

/// Refuses a column of another length than the rows have.
fn expect(values: usize, rows: usize) -> Result<(), ParquetError> {
    match values == rows {
        true => Ok(()),
        false => Err(ParquetError::General(format!(
            "{values} values for {rows} rows"
        ))),
    }
}

/// Adds the samples of a row group.
fn read_rows(
    group: &dyn RowGroupReader,
    samples: &mut Vec<SampleRecord>,
) -> Result<(), ParquetError> {
    let keys = ColumnValues::<ByteArrayType>::read(group, KEY)?.values;
    let mut rows: Vec<ReadRow> = Vec::new();
    rows.resize_with(keys.len(), ReadRow::default);
    for (row, key) in rows.iter_mut().zip(keys) {
        row.sample.key = string(key)?;
    }
    for (index, column) in COLUMNS.iter().enumerate().filter(|(at, _)| *at != KEY) {
        read_column(group, index, column, &mut rows)?;
    }
    samples.reserve_exact(rows.len());
    for row in rows {
        samples.push(row.finish()?);
    }
    Ok(())
}

/// Puts what a column has into the rows; columns that follow from others are passed over.
fn read_column(
    group: &dyn RowGroupReader,
    index: usize,
    column: &Column,
    rows: &mut [ReadRow],
) -> Result<(), ParquetError> {
    let bytes = || ColumnValues::<ByteArrayType>::read(group, index);
    let numbers = || ColumnValues::<Int64Type>::read(group, index);
    match column.cells {
        Cells::Text { put: None, .. } | Cells::Number { put: None, .. } => Ok(()),
        Cells::Text { put: Some(put), .. } => bytes()?.put_all(rows, put),
        Cells::Number { put: Some(put), .. } => numbers()?.put_all(rows, put),
        Cells::SomeBytes { put, .. } => bytes()?.put_some(rows, put),
        Cells::SomeNumber { put: None, .. } => Ok(()),
        Cells::SomeNumber { put: Some(put), .. } => numbers()?.put_some(rows, put),
        Cells::SomePixels { put, .. } => {
            ColumnValues::<Int32Type>::read(group, index)?.put_some(rows, put)
        }
        Cells::FieldText { put, .. } => begin_fields(rows, bytes()?, put),
        Cells::FieldNumber { put, .. } => {
            let values = numbers()?.values;
            let fields = || rows.iter().map(|row| row.sample.fields.len());
            expect(values.len(), fields().sum())?;
            let fields = rows.iter_mut().flat_map(|row| &mut row.sample.fields);
            fields
                .zip(values)
                .try_for_each(|(field, value)| put(field, value))
        }
    }
}

/// Gives the rows their fields, as the first column of the list of fields has them.
fn begin_fields(
    rows: &mut [ReadRow],
    column: ColumnValues<ByteArrayType>,
    put: Put<FieldRecord, ByteArray>,
) -> Result<(), ParquetError> {
    let mut levels = column.defined.iter().zip(&column.repeated).peekable();
    let mut values = column.values.into_iter();
    for row in rows {
        let mut is_first = true;
        while let Some((defined, _)) = levels.next_if(|(_, repeated)| is_first || **repeated > 0) {
            is_first = false;
            if *defined > 0 {
                let mut field = FieldRecord::default();
                put(&mut field, values.next().unwrap_or_default())?;
                row.sample.fields.push(field);
            }
        }
    }
    Ok(())
}
