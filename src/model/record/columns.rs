//! The columns of an index: one table that says what each is called, what it means, and how it is written and read.

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use crate::base::image::{ImageFormat, ImageInfo};
use crate::model::record::{
    FieldRecord, FrameRecord, NO_LABEL, SampleRecord, ShardRecord, label_number,
};
use crate::model::sample::SourcePath;

/// A column of the index.
pub(super) struct Column {
    /// Its name, after those of the groups that it is in.
    name: &'static str,
    /// How a Parquet schema declares it.
    declared: &'static str,
    /// What it means. `docs/formats.md` has more words for it.
    #[cfg_attr(not(test), expect(dead_code, reason = "for those who read the table"))]
    meaning: &'static str,
    /// Whether it has few different values.
    pub(super) repeats: bool,
    /// What is in it.
    pub(super) cells: Cells,
}

/// Puts a value that was read where it belongs.
pub(super) type Put<R, V> = fn(&mut R, V) -> Result<(), ParquetError>;

/// What a column has of a row, and where that goes when it is read; columns that follow from others are not read.
#[derive(Clone, Copy)]
pub(super) enum Cells {
    /// A text in each row.
    Text {
        of: fn(&Row<'_>) -> ByteArray,
        put: Option<Put<ReadRow, ByteArray>>,
    },
    /// A number in each row.
    Number {
        of: fn(&Row<'_>) -> i64,
        put: Option<Put<ReadRow, i64>>,
    },
    /// Bytes in some rows.
    SomeBytes {
        of: fn(&SampleRecord) -> Option<ByteArray>,
        put: Put<ReadRow, ByteArray>,
    },
    /// A number of pixels in some rows.
    SomePixels {
        of: fn(&SampleRecord) -> Option<i32>,
        put: Put<ReadRow, i32>,
    },
    /// A number in some rows.
    SomeNumber {
        of: fn(&Row<'_>) -> Option<i64>,
        put: Option<Put<ReadRow, i64>>,
    },
    /// A text of each field; the first column of fields, which says how many there are.
    FieldText {
        of: fn(&FieldRecord) -> ByteArray,
        put: Put<FieldRecord, ByteArray>,
    },
    /// A number of each field.
    FieldNumber {
        of: fn(&FieldRecord) -> i64,
        put: Put<FieldRecord, i64>,
    },
}

/// A row that is written.
pub(super) struct Row<'a> {
    /// The record it is of.
    pub(super) shard: &'a ShardRecord,
    /// Class names by label.
    pub(super) classes: &'a [String],
    /// Its number in the shard.
    pub(super) ordinal: i64,
    /// Its sample.
    pub(super) sample: &'a SampleRecord,
}

impl<'a> Row<'a> {
    fn class(&self) -> &'a str {
        let class = self.classes.get(self.sample.label as usize);
        class.map_or("", String::as_str)
    }

    /// The image, where it lies in the shard as it is.
    fn image(&self) -> Option<&'a FieldRecord> {
        let image = self.sample.image();
        image.filter(|_| self.shard.unpacked_bytes.is_none())
    }
}

/// A row as far as it is read.
#[derive(Default)]
pub(super) struct ReadRow {
    /// What needs no other column.
    pub(super) sample: SampleRecord,
    width: Option<u32>,
    height: Option<u32>,
    format: Option<ByteArray>,
    frame_offset: Option<u64>,
    frame_length: Option<u64>,
    frame_start: Option<u64>,
}

impl ReadRow {
    /// The sample, when all columns are read.
    pub(super) fn finish(mut self) -> Result<SampleRecord, ParquetError> {
        if let (Some(width), Some(height), Some(format)) = (self.width, self.height, self.format) {
            self.sample.image = Some(ImageInfo {
                format: ImageFormat::from_name(&string(format)?)
                    .ok_or_else(|| ParquetError::General("an unknown image format".into()))?,
                width,
                height,
            });
        }
        if let (Some(offset), Some(length), Some(start)) =
            (self.frame_offset, self.frame_length, self.frame_start)
        {
            self.sample.frame = Some(FrameRecord {
                offset,
                length,
                start,
            });
        }
        Ok(self.sample)
    }
}

/// Number of the column of keys, which every row has.
pub(super) const KEY: usize = 0;

/// How many of the first columns indexes had before they had all of these.
pub(super) const COLUMNS_BEFORE: usize = 20;

/// All columns in the order of the file.
pub(super) static COLUMNS: [Column; 23] = [
    Column {
        name: "key",
        declared: "required binary key (UTF8)",
        meaning: "unique over the dataset",
        repeats: false,
        cells: Cells::Text {
            of: |row| text(&row.sample.key),
            put: Some(|row, value| {
                row.sample.key = string(value)?;
                Ok(())
            }),
        },
    },
    Column {
        name: "split",
        declared: "required binary split (UTF8)",
        meaning: "name of the split",
        repeats: true,
        cells: Cells::Text {
            of: |row| text(&row.shard.split),
            put: None,
        },
    },
    Column {
        name: "shard",
        declared: "required binary shard (UTF8)",
        meaning: "name of the shard below the destination",
        repeats: true,
        cells: Cells::Text {
            of: |row| text(&row.shard.shard),
            put: None,
        },
    },
    Column {
        name: "ordinal",
        declared: "required int64 ordinal",
        meaning: "place in the shard, from 0",
        repeats: false,
        cells: Cells::Number {
            of: |row| row.ordinal,
            put: None,
        },
    },
    Column {
        name: "label",
        declared: "required int64 label",
        meaning: "number of the class from 0; -1 in shards of others that say none",
        repeats: true,
        cells: Cells::Number {
            of: |row| label_number(row.sample.label),
            put: Some(|row, value| {
                row.sample.label = label_of(value)?;
                Ok(())
            }),
        },
    },
    Column {
        name: "class",
        declared: "required binary class (UTF8)",
        meaning: "name of the class",
        repeats: true,
        cells: Cells::Text {
            of: |row| text(row.class()),
            put: None,
        },
    },
    Column {
        name: "source_path",
        declared: "required binary source_path (UTF8)",
        meaning: "the image below the source, as text",
        repeats: false,
        cells: Cells::Text {
            of: |row| text(&row.sample.source_path.text()),
            put: Some(|row, value| {
                row.sample.source_path = SourcePath::new(value.data());
                Ok(())
            }),
        },
    },
    Column {
        name: "source_path_bytes",
        declared: "optional binary source_path_bytes",
        meaning: "the path where it is not UTF-8",
        repeats: false,
        cells: Cells::SomeBytes {
            of: |sample| odd_path(&sample.source_path),
            put: |row, value| {
                row.sample.source_path = SourcePath::new(value.data());
                Ok(())
            },
        },
    },
    Column {
        name: "offset",
        declared: "required int64 offset",
        meaning: "the sample's first byte in the shard, headers included",
        repeats: false,
        cells: Cells::Number {
            of: |row| row.sample.offset as i64,
            put: Some(|row, value| {
                row.sample.offset = count(value)?;
                Ok(())
            }),
        },
    },
    Column {
        name: "length",
        declared: "required int64 length",
        meaning: "bytes from there to the next sample",
        repeats: false,
        cells: Cells::Number {
            of: |row| row.sample.length as i64,
            put: Some(|row, value| {
                row.sample.length = count(value)?;
                Ok(())
            }),
        },
    },
    Column {
        name: "width",
        declared: "optional int32 width",
        meaning: "pixels as stored, before any EXIF rotation; 0 where not known",
        repeats: false,
        cells: Cells::SomePixels {
            of: |sample| sample.image.map(|image| pixels(image.width)),
            put: |row, value| {
                row.width = Some(value as u32);
                Ok(())
            },
        },
    },
    Column {
        name: "height",
        declared: "optional int32 height",
        meaning: "pixels as stored, before any EXIF rotation; 0 where not known",
        repeats: false,
        cells: Cells::SomePixels {
            of: |sample| sample.image.map(|image| pixels(image.height)),
            put: |row, value| {
                row.height = Some(value as u32);
                Ok(())
            },
        },
    },
    Column {
        name: "format",
        declared: "optional binary format (UTF8)",
        meaning: "format of the image, by its bytes",
        repeats: true,
        cells: Cells::SomeBytes {
            of: |sample| sample.image.map(|image| text(image.format.name())),
            put: |row, value| {
                row.format = Some(value);
                Ok(())
            },
        },
    },
    Column {
        name: "fields.list.element.name",
        declared: "required binary name (UTF8)",
        meaning: "name of a field, in shard order",
        repeats: true,
        cells: Cells::FieldText {
            of: |field| text(&field.name),
            put: |field, value| {
                field.name = string(value)?;
                Ok(())
            },
        },
    },
    Column {
        name: "fields.list.element.offset",
        declared: "required int64 offset",
        meaning: "first byte of its content in the shard",
        repeats: false,
        cells: Cells::FieldNumber {
            of: |field| field.offset as i64,
            put: |field, value| {
                field.offset = count(value)?;
                Ok(())
            },
        },
    },
    Column {
        name: "fields.list.element.length",
        declared: "required int64 length",
        meaning: "length of its content in bytes",
        repeats: false,
        cells: Cells::FieldNumber {
            of: |field| field.length as i64,
            put: |field, value| {
                field.length = count(value)?;
                Ok(())
            },
        },
    },
    Column {
        name: "fields.list.element.crc32",
        declared: "required int64 crc32",
        meaning: "CRC-32 of its content",
        repeats: false,
        cells: Cells::FieldNumber {
            of: |field| i64::from(field.crc32),
            put: |field, value| {
                field.crc32 = crc32(value)?;
                Ok(())
            },
        },
    },
    Column {
        name: "frame_offset",
        declared: "optional int64 frame_offset",
        meaning: "first of the frames that hold the sample, in the shard as it lies there",
        repeats: false,
        cells: Cells::SomeNumber {
            of: |row| row.sample.frame.map(|frame| frame.offset as i64),
            put: Some(|row, value| {
                row.frame_offset = Some(count(value)?);
                Ok(())
            }),
        },
    },
    Column {
        name: "frame_length",
        declared: "optional int64 frame_length",
        meaning: "bytes of all of them",
        repeats: false,
        cells: Cells::SomeNumber {
            of: |row| row.sample.frame.map(|frame| frame.length as i64),
            put: Some(|row, value| {
                row.frame_length = Some(count(value)?);
                Ok(())
            }),
        },
    },
    Column {
        name: "frame_start",
        declared: "optional int64 frame_start",
        meaning: "where what they hold begins in the unpacked shard",
        repeats: false,
        cells: Cells::SomeNumber {
            of: |row| row.sample.frame.map(|frame| frame.start as i64),
            put: Some(|row, value| {
                row.frame_start = Some(count(value)?);
                Ok(())
            }),
        },
    },
    Column {
        name: "image_offset",
        declared: "optional int64 image_offset",
        meaning: "first byte of the image in the shard as it lies there; null where that is compressed",
        repeats: false,
        cells: Cells::SomeNumber {
            of: |row| row.image().map(|image| image.offset as i64),
            put: None,
        },
    },
    Column {
        name: "image_length",
        declared: "optional int64 image_length",
        meaning: "bytes of the image there",
        repeats: false,
        cells: Cells::SomeNumber {
            of: |row| row.image().map(|image| image.length as i64),
            put: None,
        },
    },
    Column {
        name: "image_crc32",
        declared: "optional int64 image_crc32",
        meaning: "CRC-32 of the image",
        repeats: false,
        cells: Cells::SomeNumber {
            of: |row| row.image().map(|image| i64::from(image.crc32)),
            put: None,
        },
    },
];

/// What the name of a column of the list of fields begins with.
const OF_FIELDS: &str = "fields.list.element.";

impl Column {
    /// Its name, part by part.
    pub(super) fn path(&self) -> Vec<String> {
        self.name.split('.').map(str::to_owned).collect()
    }

    pub(super) fn is_of_fields(&self) -> bool {
        self.name.starts_with(OF_FIELDS)
    }
}

/// The schema of an index with these columns, as the Parquet library parses it.
pub(super) fn schema(columns: &[Column]) -> String {
    let mut schema = "message shardpack_index {\n".to_owned();
    for columns in columns.chunk_by(|a, b| a.is_of_fields() == b.is_of_fields()) {
        let declared = columns
            .iter()
            .map(|column| format!("{};\n", column.declared));
        let declared: String = declared.collect();
        match columns.iter().any(Column::is_of_fields) {
            false => schema.push_str(&declared),
            true => schema.push_str(&format!(
                "required group fields (LIST) {{ repeated group list {{ required group element {{\n{declared}}} }} }}\n"
            )),
        }
    }
    schema + "}"
}

fn text(value: &str) -> ByteArray {
    ByteArray::from(value.as_bytes().to_vec())
}

/// The text of a value that was read.
pub(super) fn string(value: ByteArray) -> Result<String, ParquetError> {
    String::from_utf8(value.data().to_vec())
        .map_err(|_| ParquetError::General("text that is not UTF-8".into()))
}

/// The bytes of a path that is not UTF-8.
fn odd_path(path: &SourcePath) -> Option<ByteArray> {
    let is_text = path.as_str().is_some();
    (!is_text).then(|| ByteArray::from(path.as_bytes().to_vec()))
}

fn pixels(side: u32) -> i32 {
    i32::try_from(side).unwrap_or(i32::MAX)
}

fn label_of(number: i64) -> Result<u32, ParquetError> {
    match number {
        -1 => Ok(NO_LABEL),
        _ => u32::try_from(number).map_err(|_| ParquetError::General(format!("label {number}"))),
    }
}

fn crc32(value: i64) -> Result<u32, ParquetError> {
    u32::try_from(value).map_err(|_| ParquetError::General("a crc32 of more than 32 bits".into()))
}

fn count(value: i64) -> Result<u64, ParquetError> {
    u64::try_from(value)
        .map_err(|_| ParquetError::General(format!("{value} is no offset or length")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_column() {
        let page = include_str!("../../../docs/formats.md");
        for column in &COLUMNS {
            let name = column.name.strip_prefix(OF_FIELDS).unwrap_or(column.name);
            assert!(page.contains(&format!("`{name}`")), "{name}");
            assert!(column.declared.contains(&format!(" {name}")), "{name}");
            assert!(!column.meaning.is_empty(), "{name}");
        }
    }
}
