//! A walk through a zip: its directory, each entry of which is compared with the header before the content.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

use rawzip::{CompressionMethod, ErrorKind, ReaderAt, ZipFileHeaderRecord, ZipLocator};

use super::Stop;
use super::entries::Entries;
use super::header::NAME_BYTES;
use super::window::At;
use crate::base::error::{Error, Result};
use crate::model::extent::{Extent, Method};

/// Length of the header before a content, without name and extra fields.
const LOCAL_BYTES: usize = 30;
const LOCAL_SIGNATURE: [u8; 4] = *b"PK\x03\x04";
/// What stands in a field of four bytes when the number is elsewhere.
const ELSEWHERE: u32 = u32::MAX;
/// The flag that says so of lengths and checksum.
const DESCRIBED_LATER: u16 = 1 << 3;
/// Where the end of a zip is looked for: its comment may have as many bytes.
const SEARCHED_BYTES: usize = 128 << 10;

/// A part of an archive, as the library reads it.
struct Part<'a> {
    at: RefCell<&'a mut dyn At>,
    begin: u64,
    bytes: u64,
}

impl ReaderAt for Part<'_> {
    fn read_at(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.bytes.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(room.len());
        let room = &mut room[..length];
        if length > 0 {
            let read = self.at.borrow_mut().read(self.begin + offset, room);
            read.map_err(io::Error::other)?;
        }
        Ok(length)
    }
}

/// Tells `entries` all members of the zip at these bytes. `directory` and `local` are the same bytes: the one is read where the directory
/// lies, the other where the contents do.
pub(super) fn walk(
    directory: &mut dyn At,
    local: &mut dyn At,
    range: Range<u64>,
    entries: &mut Entries<'_>,
) -> Result<(), Stop> {
    let part = Part {
        at: RefCell::new(directory),
        begin: range.start,
        bytes: range.end - range.start,
    };
    let mut buffer = vec![0; SEARCHED_BYTES];
    let located = ZipLocator::new().locate_in_reader(&part, &mut buffer, part.bytes);
    let zip = located.map_err(|(_, error)| of_the_library(error))?;
    let mut buffer = vec![0; rawzip::MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let mut records = zip.entries(&mut buffer);
    let end = range
        .start
        .saturating_add(zip.directory_offset())
        .min(range.end);
    let mut taken: Vec<(u64, u64)> = Vec::new();
    while let Some(record) = records.next_entry().map_err(of_the_library)? {
        let begin = range.start.saturating_add(record.local_header_offset());
        let content = content(&record, local, begin, end)?;
        taken.push((begin, content.offset + content.bytes));
        member(&record, content, begin, entries);
        entries.check()?;
    }
    let (said, found) = (zip.entries_hint(), taken.len() as u64);
    // Programs that know no zip64 count to 65,535 and begin again.
    if said != found && (said > 0xFFFF || said != found & 0xFFFF) {
        return Err(Stop::Bad(format!(
            "its directory has {found} entries and says {said}"
        )));
    }
    overlapping(taken)
}

/// Tells of one member.
fn member(
    record: &ZipFileHeaderRecord<'_>,
    content: Extent,
    header: u64,
    entries: &mut Entries<'_>,
) {
    let path = record.file_path();
    let path = path.as_bytes();
    let size = record.uncompressed_size_hint();
    if record.is_dir() {
        return entries.directory(path, header);
    }
    let flags = record.flags();
    if flags.is_encrypted() || flags.has_strong_encryption() || flags.is_masked() {
        return entries.special(path, "is encrypted", header);
    }
    if record.mode().is_symlink() {
        return entries.special(path, "is a symbolic link", header);
    }
    let method = match record.compression_method() {
        CompressionMethod::STORE if content.bytes == size => Method::Stored,
        // Deflate makes nothing much longer; what is, is no content.
        CompressionMethod::DEFLATE
            if content.bytes <= size.saturating_mul(2).saturating_add(1024) =>
        {
            Method::Deflate
        }
        CompressionMethod::STORE | CompressionMethod::DEFLATE => {
            return entries.special(path, "has impossible lengths", header);
        }
        other => {
            let number = other.as_u16();
            let what =
                format!("is packed by method {number}, only `stored` and `deflate` are read");
            return entries.special(path, &what, header);
        }
    };
    entries.file(path, size, Extent { method, ..content }, header);
}

/// Where the content of an entry lies, by the header before it, which must say the same as the directory.
fn content(
    record: &ZipFileHeaderRecord<'_>,
    local: &mut dyn At,
    begin: u64,
    end: u64,
) -> Result<Extent, Stop> {
    let path = record.file_path();
    let name = path.as_bytes();
    let shown = crate::base::text::show(&name[..name.len().min(NAME_BYTES)]);
    let bad = |what: &str| Stop::Bad(format!("`{shown}`: {what}, at {begin}"));
    if name.len() > NAME_BYTES {
        return Err(bad("a name of more than 4,096 bytes"));
    }
    let fixed = LOCAL_BYTES + name.len();
    if end.saturating_sub(begin) < fixed as u64 {
        return Err(bad(
            "the directory says it lies where nothing is left of the archive",
        ));
    }
    let mut header = vec![0; fixed];
    local.read(begin, &mut header)?;
    let (header, local_name) = header.split_at(LOCAL_BYTES);
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let long = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
    if header[..4] != LOCAL_SIGNATURE {
        return Err(bad("there is no header where the directory says"));
    }
    let flags = short(6);
    let same_method = short(8) == record.compression_method().as_u16();
    let same_name = usize::from(short(26)) == name.len() && local_name == name;
    let packed = record.compressed_size_hint();
    let is = |said: u32, bytes: u64| said == ELSEWHERE || u64::from(said) == bytes;
    let same_content = flags & DESCRIBED_LATER != 0
        || (long(14) == record.crc32()
            && is(long(18), packed)
            && is(long(22), record.uncompressed_size_hint()));
    let same_secret = (flags & 1 != 0) == record.flags().is_encrypted();
    if !(same_name && same_method && same_content && same_secret) {
        return Err(bad(
            "the directory and the header before the content say different things",
        ));
    }
    let offset = begin + fixed as u64 + u64::from(short(28));
    match offset.checked_add(packed) {
        Some(last) if last <= end => Ok(Extent {
            offset,
            bytes: packed,
            method: Method::Stored,
            crc32: Some(record.crc32()),
        }),
        _ => Err(bad(&format!(
            "{packed} bytes where {} are left: it was cut short",
            end.saturating_sub(offset)
        ))),
    }
}

/// Refuses contents that overlap: a few bytes can be made to look like any number of files.
fn overlapping(mut taken: Vec<(u64, u64)>) -> Result<(), Stop> {
    taken.sort_unstable();
    let both = taken.windows(2).find(|both| both[0].1 > both[1].0);
    match both {
        None => Ok(()),
        Some(both) => Err(Stop::Bad(format!(
            "two members have the same bytes, at {} and at {}",
            both[0].0, both[1].0
        ))),
    }
}

/// What the library says; one of our own errors stays that.
fn of_the_library(error: rawzip::Error) -> Stop {
    match error.into_kind() {
        ErrorKind::IO(error) => Stop::Failed(Error::io("zip", error)),
        kind => Stop::Bad(format!("no directory of a zip that can be read ({kind})")),
    }
}
