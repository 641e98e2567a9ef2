//! A walk through a tar, from header to header.

use std::ops::Range;

use tar::EntryType;

use super::Stop;
use super::entries::Entries;
use super::header::{BLOCK_BYTES, NAME_BYTES, member};
use super::window::At;
use crate::model::extent::{Extent, Method};

/// Bytes after the end marker that are looked at: archives that were joined together would end at the first one's.
const TAIL_BYTES: u64 = 64 << 10;

/// Tells `entries` all members of the tar at these bytes, whose contents lie there by `method`.
pub(super) fn walk(
    at: &mut dyn At,
    range: Range<u64>,
    method: Method,
    entries: &mut Entries<'_>,
) -> Result<(), Stop> {
    let Range { start, end } = range;
    let mut offset = start;
    while let Some(member) = member(at, offset, end)? {
        let header = offset;
        offset = member.next;
        if member.path.len() > NAME_BYTES {
            return Err(Stop::Bad(format!(
                "a name of {} bytes, at {header}",
                member.path.len()
            )));
        }
        let is_directory = member.kind.is_dir() || is_old_directory(&member.kind, &member.path);
        let extent = Extent {
            offset: member.offset,
            bytes: member.bytes,
            method,
            crc32: None,
        };
        match member.kind {
            _ if is_directory => entries.directory(&member.path, header),
            EntryType::Regular | EntryType::Continuous => {
                entries.file(&member.path, member.bytes, extent, header);
            }
            EntryType::Link => entries.link(&member.path, &member.target, true, header),
            EntryType::Symlink => entries.link(&member.path, &member.target, false, header),
            EntryType::GNUSparse => entries.special(&member.path, "is sparse", header),
            EntryType::Char | EntryType::Block => {
                entries.special(&member.path, "is a device", header)
            }
            EntryType::Fifo => entries.special(&member.path, "is a pipe", header),
            kind => {
                let letter = char::from(kind.as_byte()).escape_default();
                entries.special(
                    &member.path,
                    &format!("is of the unknown type `{letter}`"),
                    header,
                );
            }
        }
        entries.check()?;
    }
    tail(at, offset, end)
}

/// Before there was a type for directories, their names ended in a slash.
fn is_old_directory(kind: &EntryType, path: &[u8]) -> bool {
    *kind == EntryType::Regular && path.ends_with(b"/")
}

/// Refuses what comes after the end marker, which readers never see.
fn tail(at: &mut dyn At, marker: u64, end: u64) -> Result<(), Stop> {
    let left = (end - marker).min(TAIL_BYTES);
    let mut tail = vec![0; left as usize];
    if left > BLOCK_BYTES {
        at.read(marker, &mut tail)?;
    }
    match tail.iter().position(|&b| b != 0) {
        None => Ok(()),
        Some(first) => Err(Stop::Bad(format!(
            "something follows the end marker, at {}: archives that were joined together are read to the first one's end only",
            marker + first as u64
        ))),
    }
}
