//! Pages of one value each, and the indexes that say where they are.

use parquet::file::metadata::OffsetIndexBuilder;
use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;

/// Header of a data page of one plain value, and what is before the value in it: its definition level and its length.
///
/// `PageHeader` in Thrift's compact protocol; `level` is that of a value that is there.
pub(super) fn page_start(length: u64, level: u8) -> Vec<u8> {
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

/// The pages of a column so far.
#[derive(Default)]
pub(super) struct Pages {
    index: OffsetIndexBuilder,
    /// Bytes of all of them.
    pub(super) bytes: u64,
}

impl Pages {
    /// Adds a page of one row.
    pub(super) fn push(&mut self, offset: u64, bytes: u64) {
        self.index.append_row_count(1);
        // Within what a file's and a page's signed numbers hold.
        self.index
            .append_offset_and_size(offset as i64, bytes as i32);
        self.bytes += bytes;
    }

    /// Where they are.
    pub(super) fn index(self) -> PageIndex {
        PageIndex {
            columns: None,
            offsets: Some(self.index.build()),
        }
    }
}

/// Page indexes by row group and column.
#[derive(Debug, Default)]
pub(super) struct PageIndexes(Vec<Vec<PageIndex>>);

/// What a file says of the pages of a column.
#[derive(Debug)]
pub(super) struct PageIndex {
    /// What is in them.
    pub(super) columns: Option<ColumnIndexMetaData>,
    /// Where they are.
    pub(super) offsets: Option<OffsetIndexMetaData>,
}

impl PageIndexes {
    /// Adds those of a row group, column by column.
    pub(super) fn push(&mut self, columns: Vec<PageIndex>) {
        self.0.push(columns);
    }
}

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
        self.0.get(group)?.get(column)?.columns.as_ref()
    }

    fn offset_index(&self, group: usize, column: usize) -> Option<&OffsetIndexMetaData> {
        self.0.get(group)?.get(column)?.offsets.as_ref()
    }
}
