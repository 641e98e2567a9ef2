//! Parquet as HuggingFace datasets writes and reads it: `image` as a struct of bytes and path, `label` as a class label.
//!
//! Sources: Apache Parquet format 2.11 (`parquet.thrift`), HuggingFace datasets 5.2.0 `features/image.py`, `arrow_writer.py`.
//! Every image is a page of its own, plain and not compressed: a sample is read by one range read, and its content never waits
//! in memory. What comes after the images of a row group is small and does wait.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, OffsetIndexBuilder, ParquetMetaDataBuilder,
    ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{About, Body, Late, Layout, Out, Packer, Placed, Spot};
use crate::base::error::{Error, Kind, Result};
use crate::base::image::image_field;
use crate::model::limits::Limits;
use crate::model::recipe::Names;
use crate::model::record::FieldRecord;

const MAGIC: &[u8; 4] = b"PAR1";
/// Content of a row group at most, unless one sample alone has more; what HuggingFace's writer and viewer go by.
const GROUP_BYTES: u64 = 100_000_000;
/// Sidecars of a row group at most: they are written after its images, and wait in memory.
const WAITING_BYTES: u64 = 16 << 20;
/// Page sizes are signed 32-bit numbers.
const MAX_FIELD: u64 = (1 << 31) - (1 << 20);
/// Sidecars wait in memory until the images of their row group are written: they are contents that are held, not streamed.
const MAX_SIDECAR: u64 = 4 << 20;
/// A page header and a value's length, and the page's entry in the page index; for the estimate of sizes.
const PAGE_BYTES: u64 = 51;
/// A label and a path's own bytes, which compress well.
const ROW_BYTES: u64 = 12;
/// Schema, metadata and magic numbers.
const FILE_BYTES: u64 = 2048;
/// Sidecars that are text for readers, and must be UTF-8.
const TEXTS: [&str; 10] = [
    "caption",
    "csv",
    "json",
    "jsonl",
    "text",
    "transcript",
    "tsv",
    "txt",
    "xml",
    "yaml",
];
/// Columns before those of the sidecars: `image.bytes`, `image.path`, `label`.
const SIDECARS_FROM: usize = 3;

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
        pages + ROW_BYTES + base(about).len() as u64
    }

    fn overhead_bytes(&self) -> u64 {
        FILE_BYTES
    }

    fn lists_classes(&self) -> bool {
        true
    }

    fn defers(&self) -> bool {
        true
    }

    fn memory_bytes(&self, names: &Names) -> u64 {
        // Columns of paths and labels are encoded beside it.
        let columns = 4 << 20;
        match names.sidecars.is_empty() {
            true => columns,
            false => columns + WAITING_BYTES,
        }
    }

    fn packer<'a>(&'a self, names: &'a Names) -> Result<Box<dyn Packer + 'a>> {
        let packer = ParquetPacker::new(names);
        packer
            .map(|packer| Box::new(packer) as Box<dyn Packer>)
            .map_err(failed)
    }
}

fn failed(error: ParquetError) -> Error {
    Error::failed(format!("a Parquet file cannot be made: {error}"))
}

/// The image's file name, as HuggingFace keeps it.
fn base(about: &About<'_>) -> String {
    let path = about.path.text();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Every column may be null, though none is: readers take the `huggingface` entry at its word only where it agrees to the letter
/// with the columns, and in it everything may be null.
fn schema(names: &Names) -> String {
    let mut schema = "message schema {
        optional group image { optional binary bytes; optional binary path (UTF8); }
        optional int64 label;\n"
        .to_owned();
    for sidecar in &names.sidecars {
        let text = if TEXTS.contains(&sidecar.as_str()) {
            " (UTF8)"
        } else {
            ""
        };
        schema.push_str(&format!("optional binary {sidecar}{text};\n"));
    }
    schema.push('}');
    schema
}

/// Columns with what they are to HuggingFace, in their order.
struct Features<'a>(&'a Names);

impl Serialize for Features<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let value = |name: &str| match TEXTS.contains(&name) {
            true => json!({ "dtype": "string", "_type": "Value" }),
            false => json!({ "dtype": "binary", "_type": "Value" }),
        };
        let label = json!({ "names": self.0.classes, "_type": "ClassLabel" });
        let first: [(&str, Value); 2] = [("image", json!({ "_type": "Image" })), ("label", label)];
        let sidecars = self
            .0
            .sidecars
            .iter()
            .map(|name| (name.as_str(), value(name)));
        serializer.collect_map(first.into_iter().chain(sidecars))
    }
}

fn huggingface(names: &Names) -> String {
    #[derive(Serialize)]
    struct Info<'a> {
        features: Features<'a>,
    }
    #[derive(Serialize)]
    struct Whole<'a> {
        info: Info<'a>,
    }
    let info = Info {
        features: Features(names),
    };
    // Strings always serialise.
    serde_json::to_string(&Whole { info }).unwrap_or_default()
}

/// Header of a data page of one plain value, and what is before the value in it: its definition level and its length.
///
/// `PageHeader` in Thrift's compact protocol; `level` is that of a value that is there.
fn page_start(length: u64, level: u8) -> Vec<u8> {
    const I32: u8 = 0x15;
    // The length of the levels, and a run of one.
    let levels = [2, 0, 0, 0, 2, level];
    let page_bytes = levels.len() as u64 + 4 + length;
    let mut header = vec![I32, 0];
    for _ in ["uncompressed", "compressed"] {
        header.push(I32);
        // Zigzag of a positive number.
        prost::encoding::encode_varint(page_bytes * 2, &mut header);
    }
    // Field 5, a struct: one value, plain, its level run-length encoded.
    header.extend([0x2C, I32, 2, I32, 0, I32, 6, I32, 6, 0, 0]);
    header.extend(levels);
    header.extend((length as u32).to_le_bytes());
    header
}

/// A sidecar's content until its column is written.
enum Held {
    Bytes(Vec<u8>, u32),
    Recorded(u64, u32),
}

impl Held {
    fn body(&self) -> Body<'_> {
        match self {
            Held::Bytes(bytes, crc32) => Body::Bytes {
                bytes,
                crc32: *crc32,
            },
            Held::Recorded(size, crc32) => Body::Recorded {
                size: *size,
                crc32: *crc32,
            },
        }
    }
}

/// The row group being written.
#[derive(Default)]
struct Group {
    first_row: usize,
    rows: usize,
    start: u64,
    bytes: u64,
    pages: Pages,
    paths: Vec<ByteArray>,
    labels: Vec<i64>,
    /// For each sidecar column, its values.
    sidecars: Vec<Vec<Held>>,
    waiting_bytes: u64,
}

/// The pages of a column so far.
#[derive(Default)]
struct Pages {
    index: OffsetIndexBuilder,
    bytes: u64,
}

impl Pages {
    fn push(&mut self, offset: u64, bytes: u64) {
        self.index.append_row_count(1);
        // Within what a file's and a page's signed numbers hold.
        self.index
            .append_offset_and_size(offset as i64, bytes as i32);
        self.bytes += bytes;
    }
}

/// Page indexes by row group and column.
#[derive(Debug, Default)]
struct PageIndexes(Vec<Vec<(Option<ColumnIndexMetaData>, Option<OffsetIndexMetaData>)>>);

impl PageIndexProvider for PageIndexes {
    fn as_any(&self) -> &(dyn std::any::Any + 'static) {
        self
    }

    fn has_offset_indexes(&self) -> bool {
        true
    }

    fn has_column_indexes(&self) -> bool {
        true
    }

    fn column_index(&self, group: usize, column: usize) -> Option<&ColumnIndexMetaData> {
        self.0.get(group)?.get(column)?.0.as_ref()
    }

    fn offset_index(&self, group: usize, column: usize) -> Option<&OffsetIndexMetaData> {
        self.0.get(group)?.get(column)?.1.as_ref()
    }
}

/// Takes what follows the bytes that are written already; positions are counted from the beginning of the file.
struct Tail {
    skip: u64,
    bytes: Vec<u8>,
}

impl Tail {
    fn new(position: u64) -> Self {
        Self {
            skip: position,
            bytes: Vec::new(),
        }
    }
}

/// A writer that knows its position in the file. It can only be moved there by writing what the tail skips.
fn track(tail: &mut Tail, position: u64) -> io::Result<TrackedWrite<&mut Tail>> {
    let zeros = vec![0; 1 << 20];
    let mut tracked = TrackedWrite::new(tail);
    let mut left = position;
    while left > 0 {
        let n = left.min(zeros.len() as u64);
        tracked.write_all(&zeros[..n as usize])?;
        left -= n;
    }
    Ok(tracked)
}

impl Write for Tail {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let skipped = self.skip.min(data.len() as u64);
        self.skip -= skipped;
        self.bytes.extend_from_slice(&data[skipped as usize..]);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ParquetPacker<'a> {
    names: &'a Names,
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    rows: usize,
    group: Group,
    groups: Vec<RowGroupMetaData>,
    indexes: PageIndexes,
    late: Vec<Late>,
}

fn spot(what: &'static str) -> Spot<'static> {
    Spot {
        what,
        sample: None,
        field: "",
    }
}

impl<'a> ParquetPacker<'a> {
    fn new(names: &'a Names) -> Result<Self, ParquetError> {
        let schema = parse_message_type(&schema(names))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(true)
            .set_created_by("shardpack".to_owned())
            .build();
        Ok(Self {
            names,
            schema: Arc::new(SchemaDescriptor::new(Arc::new(schema))),
            properties: Arc::new(properties),
            rows: 0,
            group: Group::default(),
            groups: Vec::new(),
            indexes: PageIndexes::default(),
            late: Vec::new(),
        })
    }

    fn begin_file(&self, out: &mut dyn Out) -> Result<()> {
        match out.position() {
            0 => out.frame(spot("magic number"), MAGIC),
            _ => Ok(()),
        }
    }

    /// A column whose values are pages of their own.
    fn plain_column(
        &self,
        column: usize,
        start: u64,
        rows: usize,
        bytes: u64,
    ) -> Result<ColumnChunkMetaData, ParquetError> {
        ColumnChunkMetaData::builder(self.schema.column(column))
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE])
            .set_compression(Compression::UNCOMPRESSED)
            .set_num_values(rows as i64)
            .set_total_compressed_size(bytes as i64)
            .set_total_uncompressed_size(bytes as i64)
            .set_data_page_offset(start as i64)
            .build()
    }

    /// A column of small values, as the library writes it, and its bytes.
    fn small_column(
        &self,
        column: usize,
        position: u64,
        write: impl FnOnce(&mut ColumnWriter<'_>) -> Result<(), ParquetError>,
    ) -> Result<(Vec<u8>, ColumnCloseResult), ParquetError> {
        let mut tail = Tail::new(position);
        let mut tracked = track(&mut tail, position)?;
        let closed = {
            let pages = Box::new(SerializedPageWriter::new(&mut tracked));
            let properties = Arc::clone(&self.properties);
            let mut writer = get_column_writer(self.schema.column(column), properties, pages);
            write(&mut writer)?;
            match writer {
                ColumnWriter::ByteArrayColumnWriter(writer) => writer.close()?,
                ColumnWriter::Int64ColumnWriter(writer) => writer.close()?,
                _ => return Err(ParquetError::General("unexpected column".into())),
            }
        };
        tracked.flush()?;
        drop(tracked);
        Ok((tail.bytes, closed))
    }

    fn end_group(&mut self, out: &mut dyn Out) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        if group.rows == 0 {
            return Ok(());
        }
        let mut columns = Vec::new();
        let mut indexes = Vec::new();
        let images = self.plain_column(0, group.start, group.rows, group.pages.bytes);
        columns.push(images.map_err(failed)?);
        indexes.push((None, Some(group.pages.index.build())));

        let paths = |writer: &mut ColumnWriter<'_>| match writer {
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                let levels = vec![2; group.rows];
                writer
                    .write_batch(&group.paths, Some(&levels), None)
                    .map(drop)
            }
            _ => Err(ParquetError::General("unexpected column".into())),
        };
        let labels = |writer: &mut ColumnWriter<'_>| match writer {
            ColumnWriter::Int64ColumnWriter(writer) => {
                let levels = vec![1; group.rows];
                writer
                    .write_batch(&group.labels, Some(&levels), None)
                    .map(drop)
            }
            _ => Err(ParquetError::General("unexpected column".into())),
        };
        let (bytes, closed) = self
            .small_column(1, out.position(), paths)
            .map_err(failed)?;
        out.frame(spot("column of paths"), &bytes)?;
        columns.push(closed.metadata);
        indexes.push((closed.column_index, closed.offset_index));
        let (bytes, closed) = self
            .small_column(2, out.position(), labels)
            .map_err(failed)?;
        out.frame(spot("column of labels"), &bytes)?;
        columns.push(closed.metadata);
        indexes.push((closed.column_index, closed.offset_index));

        for (number, values) in group.sidecars.iter().enumerate() {
            let name = &self.names.sidecars[number];
            let start = out.position();
            let mut pages = Pages::default();
            for (row, held) in values.iter().enumerate() {
                let sample = group.first_row + row;
                let spot = |what| Spot {
                    what,
                    sample: Some(sample),
                    field: name,
                };
                let mut body = held.body();
                let begin = out.position();
                out.frame(spot("page header"), &page_start(body.size(), 1))?;
                let offset = out.position();
                let crc32 = out.content(spot("content"), &mut body, &mut |_| ())?;
                pages.push(begin, out.position() - begin);
                self.late.push(Late {
                    sample,
                    field: FieldRecord {
                        name: name.clone(),
                        offset,
                        length: body.size(),
                        crc32,
                    },
                });
            }
            let column = self.plain_column(SIDECARS_FROM + number, start, group.rows, pages.bytes);
            columns.push(column.map_err(failed)?);
            indexes.push((None, Some(pages.index.build())));
        }
        let total = columns
            .iter()
            .map(ColumnChunkMetaData::uncompressed_size)
            .sum();
        let metadata = RowGroupMetaData::builder(Arc::clone(&self.schema))
            .set_num_rows(group.rows as i64)
            .set_total_byte_size(total)
            .set_file_offset(group.start as i64)
            .set_column_metadata(columns)
            .build()
            .map_err(failed)?;
        self.groups.push(metadata);
        self.indexes.0.push(indexes);
        Ok(())
    }

    fn footer(&mut self, position: u64) -> Result<Vec<u8>, ParquetError> {
        let entry = KeyValue::new("huggingface".to_owned(), huggingface(self.names));
        let file = FileMetaData::new(
            1,
            self.rows as i64,
            Some("shardpack".to_owned()),
            Some(vec![entry]),
            Arc::clone(&self.schema),
            None,
        );
        let metadata = ParquetMetaDataBuilder::new(file)
            .set_row_groups(std::mem::take(&mut self.groups))
            .set_page_index(Some(Arc::new(std::mem::take(&mut self.indexes))))
            .build();
        let mut tail = Tail::new(position);
        let tracked = track(&mut tail, position)?;
        ParquetMetaDataWriter::new_with_tracked(tracked, &metadata).finish()?;
        Ok(tail.bytes)
    }
}

impl Packer for ParquetPacker<'_> {
    fn append(
        &mut self,
        out: &mut dyn Out,
        about: &About<'_>,
        fields: &mut [(&str, Body<'_>)],
    ) -> Result<Placed> {
        self.begin_file(out)?;
        let image = fields
            .iter()
            .position(|(name, _)| image_field(name.as_bytes()).is_some())
            .ok_or_else(|| Error::failed(format!("sample `{}` has no image", about.key)))?;
        let mut sidecars = Vec::with_capacity(self.names.sidecars.len());
        let mut waiting = 0;
        for name in &self.names.sidecars {
            let body = fields
                .iter()
                .find(|(field, _)| field == name)
                .map(|(_, body)| body);
            let held = match body {
                Some(Body::Bytes { bytes, crc32 }) => Held::Bytes(bytes.to_vec(), *crc32),
                Some(Body::Recorded { size, crc32 }) => Held::Recorded(*size, *crc32),
                Some(Body::Stream { size, .. }) => {
                    let what = format!(
                        "sample `{}`: its `{name}` file of {size} bytes is too large for a column beside the image: use another `--format`, or leave it out with `--exclude`",
                        about.key
                    );
                    return Err(Error::new(Kind::Source, what));
                }
                None => {
                    let what = format!(
                        "sample `{}` has no `{name}`, and a row has all columns",
                        about.key
                    );
                    return Err(Error::new(Kind::Source, what));
                }
            };
            waiting += held.body().size();
            sidecars.push(held);
        }
        let size = fields[image].1.size();
        let group = &self.group;
        let full = group.bytes + size + waiting > GROUP_BYTES
            || group.waiting_bytes + waiting > WAITING_BYTES;
        if full {
            self.end_group(out)?;
        }
        if self.group.rows == 0 {
            self.group = Group {
                first_row: self.rows,
                start: out.position(),
                sidecars: sidecars.iter().map(|_| Vec::new()).collect(),
                ..Group::default()
            };
        }
        let (name, body) = &mut fields[image];
        let spot = |what| Spot {
            what,
            sample: Some(self.rows),
            field: name,
        };
        let begin = out.position();
        out.frame(spot("page header"), &page_start(size, 2))?;
        let offset = out.position();
        let crc32 = out.content(spot("content"), body, &mut |_| ())?;
        let length = out.position() - begin;
        let group = &mut self.group;
        group.pages.push(begin, length);
        group.rows += 1;
        group.bytes += size + waiting;
        group.waiting_bytes += waiting;
        group.paths.push(ByteArray::from(base(about).into_bytes()));
        group.labels.push(i64::from(about.label));
        for (column, held) in group.sidecars.iter_mut().zip(sidecars) {
            column.push(held);
        }
        self.rows += 1;
        Ok(Placed {
            offset: begin,
            length,
            fields: vec![FieldRecord {
                name: (*name).to_owned(),
                offset,
                length: size,
                crc32,
            }],
        })
    }

    fn finish(&mut self, out: &mut dyn Out) -> Result<()> {
        self.begin_file(out)?;
        self.end_group(out)?;
        let footer = self.footer(out.position()).map_err(failed)?;
        out.frame(spot("footer"), &footer)
    }

    fn late(&mut self) -> Vec<Late> {
        std::mem::take(&mut self.late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::test::{Members, check, names, pack, samples};
    use bytes::Bytes;
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
        assert_eq!(MAX_SIDECAR, crate::base::units::STREAM_ABOVE_BYTES);
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
