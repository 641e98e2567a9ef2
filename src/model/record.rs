//! What is known of a finished shard: one row a sample, stored as the Parquet index that is also the completion record.
//!
//! The rows are for DuckDB, pandas and polars; the footer's `shardpack` entry says under which plan the shard was made, how
//! long it is, its checksum, and what was skipped. Written only after the shard itself is durable.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Kind, Result};
use crate::base::image::{ImageFormat, ImageInfo};
use crate::base::version;
use crate::model::sample::SourcePath;

/// The index's columns. `docs/formats.md` explains them.
pub const SCHEMA: &str = "message shardpack_index {
  required binary key (UTF8);
  required binary split (UTF8);
  required binary shard (UTF8);
  required int64 ordinal;
  required int64 label;
  required binary class (UTF8);
  required binary source_path (UTF8);
  optional binary source_path_bytes;
  required int64 offset;
  required int64 length;
  optional int32 width;
  optional int32 height;
  optional binary format (UTF8);
  required group fields (LIST) {
    repeated group list {
      required group element {
        required binary name (UTF8);
        required int64 offset;
        required int64 length;
        required int64 crc32;
      }
    }
  }
  optional int64 frame_offset;
  optional int64 frame_length;
  optional int64 frame_start;
}";

/// Columns with few different values.
const REPEATING: [&str; 6] = [
    "split",
    "shard",
    "label",
    "class",
    "format",
    "fields.list.element.name",
];
/// Name of the footer entry.
const FOOTER_KEY: &str = "shardpack";
/// Bytes read from the end of an index at first to find its footer.
pub const FOOTER_GUESS: u64 = 64 * 1024;
/// Bytes of a Parquet file after its footer: the footer's length and the magic number.
const PARQUET_END: usize = 8;
/// Bytes of the checksum before the footer.
const SEAL: usize = 4;

/// Label of a sample that has none, in shards that somebody else made; -1 in the index.
pub const NO_LABEL: u32 = u32::MAX;

/// One field of a packed sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldRecord {
    /// Field name.
    pub name: String,
    /// First content byte in the shard.
    pub offset: u64,
    /// Content length in bytes.
    pub length: u64,
    /// CRC-32 of the content.
    pub crc32: u32,
}

/// The compressed frames that hold a sample and can be unpacked on their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRecord {
    /// First byte of the first of them in the shard.
    pub offset: u64,
    /// Bytes of all of them.
    pub length: u64,
    /// Where what they hold begins in the unpacked shard.
    pub start: u64,
}

/// One packed sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleRecord {
    /// Unique over the dataset.
    pub key: String,
    /// Class number, 0-based.
    pub label: u32,
    /// The image's path below the source's root.
    pub source_path: SourcePath,
    /// First byte of the sample in the shard, framing included.
    pub offset: u64,
    /// Bytes from there to the next sample.
    pub length: u64,
    /// What the image's header says, if it was looked at.
    pub image: Option<ImageInfo>,
    /// Its fields in shard order.
    pub fields: Vec<FieldRecord>,
    /// Where to begin reading, in a shard of frames that can be read on their own. All other offsets are in the unpacked shard.
    pub frame: Option<FrameRecord>,
}

/// A sample or file with a remark: why it was skipped, or what is odd about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Key of the sample.
    pub key: String,
    /// The file concerned.
    pub path: SourcePath,
    /// The reason.
    pub reason: String,
}

/// A finished shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord {
    /// Name of the shard below the destination.
    pub shard: String,
    /// Split it belongs to.
    pub split: String,
    /// Digest of the plan it was made under.
    pub plan: String,
    /// Length of the shard.
    pub bytes: u64,
    /// Length of what is packed in it, when it is compressed.
    pub unpacked_bytes: Option<u64>,
    /// CRC-32 of the shard.
    pub crc32: u32,
    /// SHA-256 of the shard, when asked for.
    pub sha256: Option<String>,
    /// The samples in shard order.
    pub samples: Vec<SampleRecord>,
    /// Planned samples that are not in it.
    pub skipped: Vec<Remark>,
    /// Samples that are in it although something about them is odd.
    pub odd: Vec<Remark>,
}

/// The footer entry: everything about a shard but its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footer {
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

/// The index's name for a shard's name: `data/train-00000.tar` → `index/train-00000.parquet`.
pub fn index_name(shard: &str) -> String {
    let base = shard.rsplit('/').next().unwrap_or(shard);
    let stem = base.split('.').next().unwrap_or(base);
    format!("index/{stem}.parquet")
}

/// Takes a panic for damage. The parquet crate panics over some files that were made to harm, with all checksums right.
fn guarded<T>(name: &str, read: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(damaged(name, "its columns contradict each other")))
}

fn damaged(name: &str, error: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Damage,
        format!("{name}: not a readable index: {error}"),
    )
}

fn text(value: &str) -> ByteArray {
    ByteArray::from(value.as_bytes().to_vec())
}

impl ShardRecord {
    /// A record of nothing yet.
    pub fn empty(shard: &str) -> Self {
        Self {
            shard: shard.to_owned(),
            split: String::new(),
            plan: String::new(),
            bytes: 0,
            unpacked_bytes: None,
            crc32: 0,
            sha256: None,
            samples: Vec::new(),
            skipped: Vec::new(),
            odd: Vec::new(),
        }
    }

    /// Length of the shard when it is unpacked.
    pub fn unpacked_bytes(&self) -> u64 {
        self.unpacked_bytes.unwrap_or(self.bytes)
    }

    /// The footer entry of an index file with these pages.
    pub fn footer(&self, pages: &[u8]) -> Footer {
        Footer {
            version: 1,
            plan: self.plan.clone(),
            shard: self.shard.clone(),
            split: self.split.clone(),
            samples: self.samples.len() as u64,
            bytes: self.bytes,
            unpacked_bytes: self.unpacked_bytes,
            crc32: crate::base::checksum::crc_text(self.crc32),
            sha256: self.sha256.clone(),
            skipped: self.skipped.clone(),
            odd: self.odd.clone(),
            rows_bytes: pages.len() as u64,
            rows_crc32: crate::base::checksum::crc_text(crc32fast::hash(pages)),
        }
    }

    /// The index file. The same record gives the same bytes. `classes` are the class names by label.
    pub fn encode(&self, classes: &[String]) -> Result<Vec<u8>> {
        self.write_parquet(classes).map_err(|error| {
            Error::failed(format!("{}: index cannot be encoded: {error}", self.shard))
        })
    }

    fn write_parquet(&self, classes: &[String]) -> Result<Vec<u8>, ParquetError> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        // Dictionaries only where values repeat; level 1, because names and offsets hardly compress better at any other.
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by("shardpack".to_owned());
        for column in REPEATING {
            let path: Vec<String> = column.split('.').map(str::to_owned).collect();
            properties = properties.set_column_dictionary_enabled(path.into(), true);
        }
        let properties = properties.build();
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        let mut index = 0;
        while let Some(mut column) = group.next_column()? {
            self.write_column(index, classes, column.untyped())?;
            column.close()?;
            index += 1;
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
        index: usize,
        classes: &[String],
        column: &mut ColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        let rows = &self.samples;
        match column {
            ColumnWriter::ByteArrayColumnWriter(column) => {
                let class =
                    |row: &SampleRecord| classes.get(row.label as usize).map_or("", String::as_str);
                let (values, present): (Vec<ByteArray>, Option<Vec<i16>>) = match index {
                    0 => (rows.iter().map(|r| text(&r.key)).collect(), None),
                    1 => (rows.iter().map(|_| text(&self.split)).collect(), None),
                    2 => (rows.iter().map(|_| text(&self.shard)).collect(), None),
                    5 => (rows.iter().map(|r| text(class(r))).collect(), None),
                    6 => (
                        rows.iter().map(|r| text(&r.source_path.text())).collect(),
                        None,
                    ),
                    7 => {
                        let odd = |r: &&SampleRecord| r.source_path.as_str().is_none();
                        let bytes =
                            |r: &SampleRecord| ByteArray::from(r.source_path.as_bytes().to_vec());
                        let present = rows.iter().map(|r| i16::from(odd(&r))).collect();
                        (rows.iter().filter(odd).map(bytes).collect(), Some(present))
                    }
                    12 => {
                        let present = rows.iter().map(|r| i16::from(r.image.is_some())).collect();
                        let names = rows
                            .iter()
                            .filter_map(|r| r.image)
                            .map(|i| text(i.format.name()));
                        (names.collect(), Some(present))
                    }
                    _ => {
                        let (levels, repeated) = self.list_levels();
                        let names: Vec<_> = self.fields().map(|f| text(&f.name)).collect();
                        column.write_batch(&names, Some(&levels), Some(&repeated))?;
                        return Ok(());
                    }
                };
                column.write_batch(&values, present.as_deref(), None)?;
            }
            ColumnWriter::Int32ColumnWriter(column) => {
                let present: Vec<i16> = rows.iter().map(|r| i16::from(r.image.is_some())).collect();
                let side = |image: ImageInfo| {
                    if index == 10 {
                        image.width
                    } else {
                        image.height
                    }
                };
                let values: Vec<i32> = rows
                    .iter()
                    .filter_map(|r| r.image)
                    .map(|image| i32::try_from(side(image)).unwrap_or(i32::MAX))
                    .collect();
                column.write_batch(&values, Some(&present), None)?;
            }
            ColumnWriter::Int64ColumnWriter(column) => {
                let rows = rows.iter();
                let values: Vec<i64> = match index {
                    3 => (0..rows.len() as i64).collect(),
                    4 => rows.map(|r| label_number(r.label)).collect(),
                    17..=19 => {
                        let present = rows.clone().map(|r| i16::from(r.frame.is_some()));
                        let present: Vec<i16> = present.collect();
                        let number = |frame: FrameRecord| match index {
                            17 => frame.offset as i64,
                            18 => frame.length as i64,
                            _ => frame.start as i64,
                        };
                        let values: Vec<_> = rows.filter_map(|r| r.frame).map(number).collect();
                        column.write_batch(&values, Some(&present), None)?;
                        return Ok(());
                    }
                    8 => rows.map(|r| r.offset as i64).collect(),
                    9 => rows.map(|r| r.length as i64).collect(),
                    _ => {
                        let value = |f: &FieldRecord| match index {
                            14 => f.offset as i64,
                            15 => f.length as i64,
                            _ => i64::from(f.crc32),
                        };
                        let (levels, repeated) = self.list_levels();
                        let values: Vec<_> = self.fields().map(value).collect();
                        column.write_batch(&values, Some(&levels), Some(&repeated))?;
                        return Ok(());
                    }
                };
                column.write_batch(&values, None, None)?;
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

    /// Reads an index file back. `name` is for messages.
    pub fn decode(name: &str, file: &Bytes) -> Result<Self> {
        guarded(name, || Self::decode_all(name, file))
    }

    fn decode_all(name: &str, file: &Bytes) -> Result<Self> {
        let (reader, footer) = open(name, file)?;
        let expected = parse_message_type(SCHEMA).map_err(|error| damaged(name, error))?;
        check_schema(reader.metadata().file_metadata().schema(), &expected)
            .map_err(|error| damaged(name, error))?;
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
        let crc32 = crate::base::checksum::crc_from_text(&footer.crc32)
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
    pub fn decode_keys(name: &str, file: &Bytes) -> Result<Vec<String>> {
        guarded(name, || Self::decode_only_keys(name, file))
    }

    fn decode_only_keys(name: &str, file: &Bytes) -> Result<Vec<String>> {
        let (reader, _) = open(name, file)?;
        let mut keys = Vec::new();
        for group in 0..reader.num_row_groups() {
            let group = reader
                .get_row_group(group)
                .map_err(|error| damaged(name, error))?;
            let column = Column::<ByteArrayType>::read(group.as_ref(), 0)
                .map_err(|error| damaged(name, error))?;
            for key in column.values {
                keys.push(string(key).map_err(|error| damaged(name, error))?);
            }
        }
        Ok(keys)
    }
}

impl Footer {
    /// Reads the footer of an index from its last bytes; `Err(n)` inside says that `n` bytes are needed.
    pub fn decode(name: &str, tail: &Bytes, size: u64) -> Result<std::result::Result<Self, u64>> {
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
    pub fn of_file(name: &str, file: &Bytes) -> Result<Self> {
        let footer = Self::decode(name, file, file.len() as u64)?
            .map_err(|_| damaged(name, "it is too short"))?;
        footer.check_pages(name, file)?;
        Ok(footer)
    }

    /// Compares the pages of the index that this footer is of with their checksum.
    pub fn check_pages(&self, name: &str, file: &[u8]) -> Result<()> {
        let end = footer_length(file).unwrap_or(0) + PARQUET_END + SEAL;
        let pages = &file[..file.len().saturating_sub(end)];
        let actual = crate::base::checksum::crc_text(crc32fast::hash(pages));
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
fn footer_length(tail: &[u8]) -> Option<usize> {
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
        let text = crate::base::checksum::crc_text;
        let what = format!(
            "its footer has crc32 {}, the bytes before it say {}",
            text(actual),
            text(expected)
        );
        return Err(damaged(name, what));
    }
    Ok(())
}

/// Opens an index file. The parquet crate panics over some damage: every byte is compared with its checksum first.
fn open(name: &str, file: &Bytes) -> Result<(SerializedFileReader<Bytes>, Footer)> {
    let footer = Footer::of_file(name, file)?;
    let reader = SerializedFileReader::new(file.clone()).map_err(|error| damaged(name, error))?;
    Ok((reader, footer))
}

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

fn check_schema(actual: &Type, expected: &Type) -> Result<(), ParquetError> {
    if actual.get_fields() == expected.get_fields() {
        Ok(())
    } else {
        Err(ParquetError::General(
            "its columns are not those of an index".into(),
        ))
    }
}

struct Column<T: DataType> {
    values: Vec<T::T>,
    defined: Vec<i16>,
    repeated: Vec<i16>,
}

impl<T: DataType> Column<T> {
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

    /// The values of a column whose every row must have one.
    fn required(self, rows: usize) -> Result<Vec<T::T>, ParquetError> {
        if self.values.len() == rows {
            Ok(self.values)
        } else {
            Err(ParquetError::General(format!(
                "{} values for {rows} rows",
                self.values.len()
            )))
        }
    }

    /// The values of an optional column, row by row.
    fn optional(self, rows: usize) -> Result<Vec<Option<T::T>>, ParquetError> {
        let mut values = self.values.into_iter();
        let out: Vec<_> = self
            .defined
            .iter()
            .map(|&d| if d > 0 { values.next() } else { None })
            .collect();
        if out.len() == rows {
            Ok(out)
        } else {
            Err(ParquetError::General(format!(
                "{} values for {rows} rows",
                out.len()
            )))
        }
    }
}

fn string(value: ByteArray) -> Result<String, ParquetError> {
    String::from_utf8(value.data().to_vec())
        .map_err(|_| ParquetError::General("text that is not UTF-8".into()))
}

/// A label as readers of the index know it: -1 for none, as in TFDS.
pub fn label_number(label: u32) -> i64 {
    if label == NO_LABEL {
        -1
    } else {
        i64::from(label)
    }
}

fn label_of(number: i64) -> Result<u32, ParquetError> {
    match number {
        -1 => Ok(NO_LABEL),
        _ => u32::try_from(number).map_err(|_| ParquetError::General(format!("label {number}"))),
    }
}

fn count(value: i64) -> Result<u64, ParquetError> {
    u64::try_from(value)
        .map_err(|_| ParquetError::General(format!("{value} is no offset or length")))
}

fn read_rows(
    group: &dyn RowGroupReader,
    samples: &mut Vec<SampleRecord>,
) -> Result<(), ParquetError> {
    let keys = Column::<ByteArrayType>::read(group, 0)?.values;
    let rows = keys.len();
    let texts = |index| Column::<ByteArrayType>::read(group, index)?.required(rows);
    let numbers = |index| Column::<Int64Type>::read(group, index)?.required(rows);
    let sides = |index| Column::<Int32Type>::read(group, index)?.optional(rows);
    let labels = numbers(4)?;
    let paths = texts(6)?;
    let path_bytes = Column::<ByteArrayType>::read(group, 7)?.optional(rows)?;
    let (offsets, lengths) = (numbers(8)?, numbers(9)?);
    let (widths, heights) = (sides(10)?, sides(11)?);
    let formats = Column::<ByteArrayType>::read(group, 12)?.optional(rows)?;
    let names = Column::<ByteArrayType>::read(group, 13)?;
    let field_numbers =
        |index| Column::<Int64Type>::read(group, index)?.required(names.values.len());
    let frames = |index| -> Result<_, ParquetError> {
        let values = Column::<Int64Type>::read(group, index)?.optional(rows)?;
        let number = |value: Option<i64>| value.map(count).transpose();
        values
            .into_iter()
            .map(number)
            .collect::<Result<Vec<_>, _>>()
    };
    let (frame_offsets, frame_lengths, frame_starts) = (frames(17)?, frames(18)?, frames(19)?);
    let (starts, sizes, sums) = (field_numbers(14)?, field_numbers(15)?, field_numbers(16)?);

    let mut field = 0;
    let mut level = 0;
    let mut rest = paths.into_iter().zip(path_bytes).zip(formats);
    for (row, key) in keys.into_iter().enumerate() {
        let Some(((path, bytes), format)) = rest.next() else {
            break;
        };
        let mut fields = Vec::new();
        let first = level;
        while level < names.repeated.len() && (level == first || names.repeated[level] > 0) {
            if names.defined[level] > 0 {
                let name = names.values.get(field).cloned().unwrap_or_default();
                fields.push(FieldRecord {
                    name: string(name)?,
                    offset: count(starts[field])?,
                    length: count(sizes[field])?,
                    crc32: u32::try_from(sums[field]).map_err(|_| {
                        ParquetError::General("a crc32 of more than 32 bits".into())
                    })?,
                });
                field += 1;
            }
            level += 1;
        }
        let image = match (widths[row], heights[row], format) {
            (Some(width), Some(height), Some(format)) => Some(ImageInfo {
                format: ImageFormat::from_name(&string(format)?)
                    .ok_or_else(|| ParquetError::General("an unknown image format".into()))?,
                width: width as u32,
                height: height as u32,
            }),
            _ => None,
        };
        samples.push(SampleRecord {
            key: string(key)?,
            label: label_of(labels[row])?,
            source_path: SourcePath::new(bytes.unwrap_or(path).data()),
            offset: count(offsets[row])?,
            length: count(lengths[row])?,
            image,
            fields,
            frame: match (frame_offsets[row], frame_lengths[row], frame_starts[row]) {
                (Some(offset), Some(length), Some(start)) => Some(FrameRecord {
                    offset,
                    length,
                    start,
                }),
                _ => None,
            },
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rows: usize) -> ShardRecord {
        let sample = |i: usize| SampleRecord {
            key: format!("train/cat/{i}"),
            label: if i == 3 { NO_LABEL } else { (i % 3) as u32 },
            source_path: SourcePath::new(if i.is_multiple_of(4) {
                vec![b'x', 0xff, i as u8]
            } else {
                format!("cat/{i}.jpg").into_bytes()
            }),
            offset: i as u64 * 2048,
            length: 2048,
            image: i.is_multiple_of(2).then_some(ImageInfo {
                format: ImageFormat::Jpeg,
                width: 500,
                height: 375,
            }),
            fields: (0..i % 4)
                .map(|f| FieldRecord {
                    name: format!("f{f}"),
                    offset: (i * 2048 + f * 512) as u64,
                    length: 7,
                    crc32: u32::MAX - i as u32,
                })
                .collect(),
            frame: i.is_multiple_of(5).then_some(FrameRecord {
                offset: i as u64,
                length: 70,
                start: i as u64 * 2048,
            }),
        };
        ShardRecord {
            split: "train".into(),
            plan: "abc".into(),
            bytes: 1 << 33,
            crc32: 0xdead_beef,
            sha256: Some("00".into()),
            samples: (0..rows).map(sample).collect(),
            skipped: vec![Remark {
                key: "k".into(),
                path: SourcePath::new("p"),
                reason: "truncated".into(),
            }],
            ..ShardRecord::empty("data/train-00000.tar")
        }
    }

    fn classes() -> Vec<String> {
        ["a", "b", "c"].map(String::from).to_vec()
    }

    #[test]
    fn a_record_survives_its_index_file() {
        for rows in [0, 1, 5, 1000] {
            let record = record(rows);
            let file = Bytes::from(record.encode(&classes()).unwrap());
            assert_eq!(ShardRecord::decode("x", &file).unwrap(), record);
            let keys: Vec<_> = record.samples.iter().map(|s| s.key.clone()).collect();
            assert_eq!(ShardRecord::decode_keys("x", &file).unwrap(), keys);
            assert_eq!(record.encode(&classes()).unwrap(), file, "same bytes again");
        }
    }

    #[test]
    fn the_footer_is_found_from_the_files_end() {
        let record = record(1000);
        let file = Bytes::from(record.encode(&classes()).unwrap());
        let size = file.len() as u64;
        let needed = Footer::decode("x", &file.slice(file.len() - 8..), size)
            .unwrap()
            .unwrap_err();
        let tail = file.slice(file.len() - needed as usize..);
        let footer = Footer::decode("x", &tail, size).unwrap().unwrap();
        assert_eq!(footer, record.footer(&file[..footer.rows_bytes as usize]));
    }

    #[test]
    fn index_names_follow_shard_names() {
        assert_eq!(
            index_name("data/train-00012.tar"),
            "index/train-00012.parquet"
        );
        assert_eq!(
            index_name("data/val-00000-g3.tar.zst"),
            "index/val-00000-g3.parquet"
        );
    }

    /// Makes the checksums of a changed index right again; false where there is no place for them any more.
    fn seal(file: &mut [u8]) -> bool {
        let end = file.len();
        let Some(footer) = footer_length(file).map(|length| length + PARQUET_END) else {
            return false;
        };
        let Some(start) = end.checked_sub(footer + SEAL) else {
            return false;
        };
        let rows = crate::base::checksum::crc_text(crc32fast::hash(&file[..start]));
        let label = b"\"rows_crc32\":\"";
        if let Some(at) = file.windows(label.len()).rposition(|bytes| bytes == label) {
            let at = at + label.len();
            if at + rows.len() <= end {
                file[at..at + rows.len()].copy_from_slice(rows.as_bytes());
            }
        }
        let seal = crc32fast::hash(&file[start + SEAL..]).to_le_bytes();
        file[start..start + SEAL].copy_from_slice(&seal);
        true
    }

    proptest::proptest! {
        #[test]
        fn an_index_made_to_harm_is_damage_or_an_index(
            changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), proptest::prelude::any::<u8>()), 1..4),
        ) {
            let mut file = record(20).encode(&classes()).unwrap();
            for (at, byte) in changes {
                let at = at.index(file.len());
                file[at] = byte;
            }
            if seal(&mut file) {
                let file = Bytes::from(file);
                for error in [ShardRecord::decode("x", &file).err(), ShardRecord::decode_keys("x", &file).err()] {
                    proptest::prop_assert!(error.is_none_or(|error| error.kind() == Kind::Damage));
                }
            }
        }

        #[test]
        fn any_bytes_are_no_index(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600)) {
            ShardRecord::decode("x", &Bytes::from(bytes)).unwrap_err();
        }
    }

    #[test]
    fn any_flipped_bit_and_any_cut_of_an_index_file_is_found() {
        let file = record(20).encode(&classes()).unwrap();
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut flipped = file.clone();
                flipped[at] ^= 1 << bit;
                let error = ShardRecord::decode("x", &Bytes::from(flipped)).unwrap_err();
                assert_eq!(error.kind(), Kind::Damage, "byte {at}, bit {bit}");
            }
            ShardRecord::decode("x", &Bytes::copy_from_slice(&file[..at])).unwrap_err();
        }
    }
}
