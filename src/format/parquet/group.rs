//! A row group: its images are written as they come, the columns of what is small when it ends.

use std::io::Write as _;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedPageWriter;
use parquet::schema::types::SchemaDescPtr;

use crate::base::error::{Error, Result};
use crate::format::parquet::columns::Cells;
use crate::format::parquet::pages::{PageIndex, Pages, page_start};
use crate::format::parquet::tail::{Tail, track};
use crate::format::{Body, LateField, Out, Spot};
use crate::model::recipe::Names;
use crate::model::record::FieldRecord;

/// Content of a row group at most, unless one sample alone has more; what HuggingFace's writer and viewer go by.
const GROUP_BYTES: u64 = 100_000_000;

/// Sidecars of a row group at most: they are written after its images, and wait in memory.
pub(super) const WAITING_BYTES: u64 = 16 << 20;

/// The error over what the Parquet library refused.
pub(super) fn failed(error: ParquetError) -> Error {
    Error::failed(format!("a Parquet file cannot be made: {error}"))
}

/// A place that belongs to no sample.
pub(super) fn spot(what: &'static str) -> Spot<'static> {
    Spot {
        what,
        sample: None,
        field: "",
    }
}

/// A sidecar's content until its column is written.
pub(super) enum WaitingField {
    Bytes {
        bytes: Vec<u8>,
        crc32: u32,
    },
    /// Content that was written before.
    Recorded {
        /// Its length in bytes.
        size: u64,
        crc32: u32,
    },
}

impl WaitingField {
    /// The content as it is packed.
    pub(super) fn body(&self) -> Body<'_> {
        match self {
            WaitingField::Bytes { bytes, crc32 } => Body::Bytes {
                bytes,
                crc32: *crc32,
            },
            WaitingField::Recorded { size, crc32 } => Body::Recorded {
                size: *size,
                crc32: *crc32,
            },
        }
    }
}

/// The row group being written.
#[derive(Default)]
pub(super) struct Group {
    /// Number of its first row in the file.
    pub(super) first_row: usize,
    /// How many it has so far.
    pub(super) rows: usize,
    /// Where its first page begins.
    pub(super) start: u64,
    /// Bytes of its contents.
    pub(super) bytes: u64,
    /// The pages of its images.
    pub(super) pages: Pages,
    /// File names of its images.
    pub(super) paths: Vec<ByteArray>,
    /// Labels of its rows.
    pub(super) labels: Vec<i64>,
    /// For each sidecar column, its values.
    pub(super) sidecars: Vec<Vec<WaitingField>>,
    /// Bytes of these, which wait in memory.
    pub(super) waiting_bytes: u64,
}

impl Group {
    /// A group whose first row is this one of the file, and whose first page begins at `start`.
    pub(super) fn new(first_row: usize, start: u64, sidecars: usize) -> Self {
        Self {
            first_row,
            start,
            sidecars: (0..sidecars).map(|_| Vec::new()).collect(),
            ..Self::default()
        }
    }

    /// Whether a row with an image and sidecars of so many bytes is too much for it.
    pub(super) fn is_full_for(&self, image: u64, sidecars: u64) -> bool {
        self.bytes + image + sidecars > GROUP_BYTES || self.waiting_bytes + sidecars > WAITING_BYTES
    }
}

/// A row group that is written.
pub(super) struct WrittenGroup {
    /// For the footer; `None` where contents are not what they were recorded to be.
    pub(super) metadata: Option<RowGroupMetaData>,
    /// Where the pages of its columns are.
    pub(super) indexes: Vec<PageIndex>,
    /// Where its sidecars ended up.
    pub(super) late: Vec<LateField>,
}

/// The columns of a row group that is being ended.
pub(super) struct Columns<'a> {
    /// All columns of the file.
    schema: &'a SchemaDescPtr,
    properties: &'a WriterPropertiesPtr,
    made: Vec<ColumnChunkMetaData>,
    indexes: Vec<PageIndex>,
}

/// Writes all of a row group but its images, which are written already.
pub(super) fn end_group(
    group: Group,
    schema: &SchemaDescPtr,
    properties: &WriterPropertiesPtr,
    names: &Names,
    out: &mut dyn Out,
) -> Result<WrittenGroup> {
    let mut columns = Columns {
        schema,
        properties,
        made: Vec::new(),
        indexes: Vec::new(),
    };
    let (rows, start) = (group.rows, group.start);
    columns.plain(start, rows, group.pages)?;
    columns.small(out, "column of paths", |writer| match writer {
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let levels = vec![2; rows];
            writer
                .write_batch(&group.paths, Some(&levels), None)
                .map(drop)
        }
        _ => Err(ParquetError::General("unexpected column".into())),
    })?;
    columns.small(out, "column of labels", |writer| match writer {
        ColumnWriter::Int64ColumnWriter(writer) => {
            let levels = vec![1; rows];
            writer
                .write_batch(&group.labels, Some(&levels), None)
                .map(drop)
        }
        _ => Err(ParquetError::General("unexpected column".into())),
    })?;
    let mut late = Vec::new();
    let mut cells = Cells::new(&names.columns, rows);
    for (name, values) in names.sidecars.iter().zip(&group.sidecars) {
        columns.sidecar(out, name, group.first_row, values, &mut cells, &mut late)?;
    }
    if !cells.are_known() {
        out.unknown(group.first_row + rows)?;
        return Ok(WrittenGroup {
            metadata: None,
            indexes: Vec::new(),
            late,
        });
    }
    for column in cells.columns() {
        columns.small(out, "column of metadata", |writer| column.write(writer))?;
    }
    let total = columns
        .made
        .iter()
        .map(ColumnChunkMetaData::uncompressed_size)
        .sum();
    let metadata = RowGroupMetaData::builder(Arc::clone(schema))
        .set_num_rows(rows as i64)
        .set_total_byte_size(total)
        .set_file_offset(start as i64)
        .set_column_metadata(columns.made)
        .build()
        .map_err(failed)?;
    Ok(WrittenGroup {
        metadata: Some(metadata),
        indexes: columns.indexes,
        late,
    })
}

impl Columns<'_> {
    /// Adds a column whose values are pages of their own, which are written already.
    fn plain(&mut self, start: u64, rows: usize, pages: Pages) -> Result<()> {
        let bytes = pages.bytes as i64;
        let column = ColumnChunkMetaData::builder(self.schema.column(self.made.len()))
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE])
            .set_compression(Compression::UNCOMPRESSED)
            .set_num_values(rows as i64)
            .set_total_compressed_size(bytes)
            .set_total_uncompressed_size(bytes)
            .set_data_page_offset(start as i64)
            .build();
        self.made.push(column.map_err(failed)?);
        self.indexes.push(pages.index());
        Ok(())
    }

    /// Writes a column of small values, as the library encodes them.
    fn small(
        &mut self,
        out: &mut dyn Out,
        what: &'static str,
        write: impl FnOnce(&mut ColumnWriter<'_>) -> Result<(), ParquetError>,
    ) -> Result<()> {
        let (bytes, closed) = self.encode(out.position(), write).map_err(failed)?;
        out.frame(spot(what), &bytes)?;
        self.made.push(closed.metadata);
        self.indexes.push(PageIndex {
            columns: closed.column_index,
            offsets: closed.offset_index,
        });
        Ok(())
    }

    /// The bytes of the next column, which begins at `position`, and what the footer says of it.
    fn encode(
        &self,
        position: u64,
        write: impl FnOnce(&mut ColumnWriter<'_>) -> Result<(), ParquetError>,
    ) -> Result<(Vec<u8>, ColumnCloseResult), ParquetError> {
        let mut tail = Tail::new(position);
        let mut tracked = track(&mut tail, position)?;
        let closed = {
            let pages = Box::new(SerializedPageWriter::new(&mut tracked));
            let column = self.schema.column(self.made.len());
            let mut writer = get_column_writer(column, Arc::clone(self.properties), pages);
            write(&mut writer)?;
            match writer {
                ColumnWriter::ByteArrayColumnWriter(writer) => writer.close()?,
                ColumnWriter::Int64ColumnWriter(writer) => writer.close()?,
                ColumnWriter::DoubleColumnWriter(writer) => writer.close()?,
                ColumnWriter::BoolColumnWriter(writer) => writer.close()?,
                _ => return Err(ParquetError::General("unexpected column".into())),
            }
        };
        tracked.flush()?;
        drop(tracked);
        Ok((tail.bytes, closed))
    }

    /// Writes a column of sidecars, each in a page of its own, and says in `late` where they are. What a table says of images goes into
    /// `cells`.
    fn sidecar(
        &mut self,
        out: &mut dyn Out,
        name: &str,
        first_row: usize,
        values: &[WaitingField],
        cells: &mut Cells<'_>,
        late: &mut Vec<LateField>,
    ) -> Result<()> {
        let start = out.position();
        let mut pages = Pages::default();
        for (row, held) in values.iter().enumerate() {
            let sample = first_row + row;
            let spot = |what| Spot {
                what,
                sample: Some(sample),
                field: name,
            };
            let mut body = held.body();
            let begin = out.position();
            out.frame(spot("page header"), &page_start(body.size(), 1))?;
            let offset = out.position();
            let mut cell_text = cells.text_of(name);
            let crc32 = out.content(spot("content"), &mut body, &mut |piece| {
                cell_text.add(piece)
            })?;
            cell_text.end(crc32);
            pages.push(begin, out.position() - begin);
            late.push(LateField {
                sample,
                field: FieldRecord {
                    name: name.to_owned(),
                    offset,
                    length: body.size(),
                    crc32,
                },
            });
        }
        self.plain(start, values.len(), pages)
    }
}
