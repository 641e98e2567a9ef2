//! What reading takes, from the headers of a file alone.

use parquet::basic::{CompressionCodec, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use crate::source::metadata::parquet::thrift::Compact;

/// What a Parquet file ends with: the footer's length, and this.
const MAGIC: &[u8; 4] = b"PAR1";
/// Most bytes of a footer: what the library makes of it is many times that.
const MOST_FOOTER_BYTES: usize = 2 << 20;
/// Most columns that have columns within: the library nests calls as deep.
const MOST_GROUPS: u64 = 500;
/// Most plain columns.
const MOST_COLUMNS: u64 = 5_000;
/// What a value takes while it is held, besides its bytes; two levels among it.
const VALUE_BYTES: u64 = 48;
/// Rows and levels that a column holds whatever is in it.
const LEAF_BYTES: u64 = 64 << 10;

/// Fields of a page's header, and of a column's in the footer.
mod field {
    use crate::source::metadata::parquet::thrift::Place;

    /// Of the footer: what the values of a plain column are.
    pub(super) const TYPE: Place = (2, 1);
    /// How many columns a column has within.
    pub(super) const CHILDREN: Place = (2, 5);
    pub(super) const KIND: Place = (1, 0);
    pub(super) const UNPACKED_BYTES: Place = (2, 0);
    pub(super) const BYTES: Place = (3, 0);
    pub(super) const COUNTS: [Place; 3] = [(5, 1), (7, 1), (8, 1)];
    pub(super) const ENCODINGS: [Place; 3] = [(5, 2), (7, 2), (8, 4)];
}

/// Encodings that take no more than their page and its count of values say.
const ENCODINGS: [i64; 6] = [
    0, // plain
    2, // dictionary, by its old name
    3, // run lengths
    5, // differences of numbers
    8, // dictionary
    9, // bytes of numbers apart
];

const DICTIONARY_PAGE: i64 = 2;

/// Refuses a footer that is too much for the library.
pub(super) fn check_footer(file: &[u8]) -> Result<(), String> {
    let end = file.len().checked_sub(8).ok_or("it is too short")?;
    let (length, magic) = file[end..].split_at(4);
    if magic != MAGIC {
        return Err("it does not end like one".to_owned());
    }
    let length = length.try_into().map_or(usize::MAX, |length| {
        usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX)
    });
    if length > MOST_FOOTER_BYTES {
        return Err(format!(
            "its footer has {length} bytes, expected at most {MOST_FOOTER_BYTES}, as with larger row groups"
        ));
    }
    let start = end.checked_sub(length).ok_or("its footer is cut off")?;
    let (mut groups, mut columns) = (0, 0);
    let mut count = |place, value| {
        groups += u64::from(place == field::CHILDREN && value > 0);
        columns += u64::from(place == field::TYPE);
    };
    Compact::new(&file[start..end])
        .structure(&mut count)
        .ok_or("its footer is not one")?;
    if groups > MOST_GROUPS {
        return Err(format!(
            "{groups} columns have columns within, expected at most {MOST_GROUPS}"
        ));
    }
    match columns > MOST_COLUMNS {
        true => Err(format!(
            "it has {columns} columns, expected at most {MOST_COLUMNS}"
        )),
        false => Ok(()),
    }
}

/// What reading a row group holds at most, all of its columns side by side.
pub(super) fn needed(file: &[u8], group: &RowGroupMetaData) -> Result<u64, String> {
    let columns = group.columns().iter();
    let each = columns.map(|column| of_column(file, column));
    each.sum()
}

fn of_column(file: &[u8], column: &ColumnChunkMetaData) -> Result<u64, String> {
    if !matches!(
        column.compression_codec(),
        CompressionCodec::UNCOMPRESSED | CompressionCodec::SNAPPY | CompressionCodec::ZSTD
    ) {
        let what = format!("it is compressed by {}", column.compression_codec());
        return Err(what);
    }
    let data = column.data_page_offset();
    let start = column
        .dictionary_page_offset()
        .filter(|dictionary| *dictionary > 0 && *dictionary < data)
        .unwrap_or(data);
    let chunk = usize::try_from(start)
        .ok()
        .zip(usize::try_from(column.compressed_size()).ok())
        .and_then(|(start, length)| file.get(start..start.checked_add(length)?))
        .ok_or("a column lies outside of it")?;
    let (mut at, mut largest, mut dictionary, mut values) = (0, 0, 0, 0_u64);
    while at < chunk.len() {
        let page = Page::read(&chunk[at..])?;
        at = at
            .checked_add(page.header + page.bytes)
            .filter(|end| *end <= chunk.len())
            .ok_or("a page is cut off")?;
        if page.is_dictionary {
            // Values point into the page, except that numbers are copied.
            dictionary += page.unpacked + page.values * VALUE_BYTES;
        } else {
            largest = largest.max(page.unpacked);
            values = values.saturating_add(page.values);
        }
    }
    // Only where there are lists a row may have more than one value.
    let described = column.column_descr();
    let held = match described.max_rep_level() {
        0 => LEAF_BYTES,
        _ => LEAF_BYTES.saturating_add(values.saturating_mul(VALUE_BYTES)),
    };
    // A page and the one after it, while values of the first are still held; unpacked bits take a byte each.
    let pages = match described.physical_type() {
        Type::BOOLEAN => 10 * largest,
        _ => 2 * largest,
    };
    Ok(held.saturating_add(pages).saturating_add(dictionary))
}

/// What a page says of itself.
struct Page {
    /// Bytes of its header.
    header: usize,
    /// Bytes that follow it.
    bytes: usize,
    /// Bytes of the page unpacked.
    unpacked: u64,
    values: u64,
    is_dictionary: bool,
}

impl Page {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let (mut kind, mut sizes, mut values) = (None, [None; 2], None);
        let mut unread = None;
        let mut seen = |place, value: i64| match place {
            field::KIND => kind = Some(value),
            field::UNPACKED_BYTES => sizes[0] = u32::try_from(value).ok(),
            field::BYTES => sizes[1] = u32::try_from(value).ok(),
            _ if field::COUNTS.contains(&place) => values = values.max(u32::try_from(value).ok()),
            _ if field::ENCODINGS.contains(&place) && !ENCODINGS.contains(&value) => {
                unread = Some(value);
            }
            _ => {}
        };
        let mut reader = Compact::new(bytes);
        reader
            .structure(&mut seen)
            .ok_or("the header of a page is not one")?;
        if let Some(unread) = unread {
            return Err(format!(
                "a page has encoding {unread}, and plain values, dictionaries and differences of numbers are read"
            ));
        }
        let [Some(unpacked), Some(bytes)] = sizes else {
            return Err("a page has no size".to_owned());
        };
        Ok(Self {
            header: reader.at,
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            unpacked: unpacked.into(),
            values: values.unwrap_or(0).into(),
            is_dictionary: kind == Some(DICTIONARY_PAGE),
        })
    }
}
