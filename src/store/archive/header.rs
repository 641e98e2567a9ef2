//! One header of a tar, with the extended ones that came before it.

use std::borrow::Cow;

use tar::{EntryType, Header, PaxExtensions};

use super::Stop;
use super::window::At;

/// Length of a header; contents are padded to it.
pub(super) const BLOCK_BYTES: u64 = 512;
/// Longest content of an extended header, and of all those of one member.
const EXTENDED_BYTES: u64 = 1 << 20;
/// Longest name; longer ones no file system has.
pub(super) const NAME_BYTES: usize = 4096;

/// What headers say of a member.
pub(super) struct Member {
    pub(super) kind: EntryType,
    pub(super) path: Vec<u8>,
    /// Where a link leads.
    pub(super) target: Vec<u8>,
    /// Where the content begins, and its length.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Where the next header is.
    pub(super) next: u64,
}

/// What extended headers say of the member that follows.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    bytes: Option<u64>,
    sparse: bool,
}

/// The member whose headers begin at `begin`; `None` at the end marker.
pub(super) fn member(at: &mut dyn At, begin: u64, end: u64) -> Result<Option<Member>, Stop> {
    let mut extended = Extended::default();
    let (mut offset, mut extended_bytes) = (begin, 0);
    loop {
        if end.saturating_sub(offset) < BLOCK_BYTES {
            let what = "no end marker: it was cut short, or never finished";
            return Err(Stop::Bad(format!("{what}, at {offset}")));
        }
        let mut block = [0; BLOCK_BYTES as usize];
        at.read(offset, &mut block)?;
        if block.iter().all(|&b| b == 0) {
            return match offset == begin {
                true => Ok(None),
                false => Err(Stop::Bad(format!(
                    "an extended header belongs to nothing, at {begin}"
                ))),
            };
        }
        let header = Header::from_byte_slice(&block);
        if !is_header(header) {
            return Err(Stop::Bad(format!(
                "no tar header where one must be, at {offset}"
            )));
        }
        let bytes = header.entry_size().map_err(|error| {
            Stop::Bad(format!("a header without a length ({error}), at {offset}"))
        })?;
        let content = offset + BLOCK_BYTES;
        let kind = header.entry_type();
        let is_extended = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        if !is_extended {
            return finish(header, extended, content, offset, end).map(Some);
        }
        extended_bytes += bytes.saturating_add(BLOCK_BYTES);
        if bytes > EXTENDED_BYTES || extended_bytes > EXTENDED_BYTES {
            let what = "extended headers of more than 1 MiB for one member";
            return Err(Stop::Bad(format!("{what}, at {offset}")));
        }
        offset = past(content, bytes, end, offset)?;
        let mut text = vec![0; bytes as usize];
        at.read(content, &mut text)?;
        extended.add(kind, text, content)?;
    }
}

impl Extended {
    fn add(&mut self, kind: EntryType, mut text: Vec<u8>, offset: u64) -> Result<(), Stop> {
        if kind.is_gnu_longname() || kind.is_gnu_longlink() {
            let length = text.iter().position(|&b| b == 0).unwrap_or(text.len());
            text.truncate(length);
            match kind.is_gnu_longname() {
                true => self.path = Some(text),
                false => self.target = Some(text),
            }
            return Ok(());
        }
        let bad = |what: &str| Stop::Bad(format!("an extended header {what}, at {offset}"));
        let global = kind.is_pax_global_extensions();
        for record in PaxExtensions::new(&text) {
            let record = record.map_err(|_| bad("that cannot be read"))?;
            let (key, value) = (record.key_bytes(), record.value_bytes());
            let known = matches!(key, b"path" | b"linkpath" | b"size");
            let sparse = key.starts_with(b"GNU.sparse.");
            if global && (known || sparse) {
                return Err(bad("that is for all members"));
            }
            match key {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.target = Some(value.to_vec()),
                b"size" => {
                    let digits = std::str::from_utf8(value).ok();
                    let number = digits.and_then(|digits| digits.parse().ok());
                    self.bytes =
                        Some(number.ok_or_else(|| bad("with a length that is no number"))?);
                }
                _ => self.sparse |= sparse,
            }
        }
        Ok(())
    }
}

/// What a header says, with what came before it.
fn finish(
    header: &Header,
    extended: Extended,
    content: u64,
    offset: u64,
    end: u64,
) -> Result<Member, Stop> {
    let kind = header.entry_type();
    let has_content = !(kind.is_dir() || kind.is_hard_link() || kind.is_symlink());
    let said = match extended.bytes {
        Some(bytes) => bytes,
        None => header.entry_size().unwrap_or(0),
    };
    let own = |name: Option<Cow<'_, [u8]>>| name.unwrap_or_default().into_owned();
    let path = match extended.path {
        Some(path) => path,
        None => header.path_bytes().into_owned(),
    };
    // A link that repeats the length of its target has no content all the same.
    let bytes = if has_content { said } else { 0 };
    let kind = match extended.sparse {
        true => EntryType::GNUSparse,
        false => kind,
    };
    Ok(Member {
        next: past(content, bytes, end, offset)?,
        kind,
        path,
        target: match extended.target {
            Some(target) => target,
            None => own(header.link_name_bytes()),
        },
        offset: content,
        bytes,
    })
}

/// Where the next header is.
fn past(content: u64, bytes: u64, end: u64, header: u64) -> Result<u64, Stop> {
    let padded = bytes.checked_next_multiple_of(BLOCK_BYTES);
    let next = padded.and_then(|padded| content.checked_add(padded));
    // The padding of the last member may be missing in what was cut to its length; its content may not.
    match (next, content.checked_add(bytes)) {
        (Some(next), Some(last)) if last <= end => Ok(next),
        _ => Err(Stop::Bad(format!(
            "a member of {bytes} bytes where {} are left: it was cut short, at {header}",
            end.saturating_sub(content)
        ))),
    }
}

/// Whether the checksum is that of a header, its own field taken as blanks; some old programs summed signed bytes.
fn is_header(header: &Header) -> bool {
    let bytes = header.as_bytes();
    let sum = |some: &[u8]| some.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    let unsigned = sum(&bytes[..148]) + 8 * u32::from(b' ') + sum(&bytes[156..]);
    let high = |some: &[u8]| some.iter().filter(|byte| **byte >= 0x80).count() as i64;
    let signed = i64::from(unsigned) - 256 * (high(&bytes[..148]) + high(&bytes[156..]));
    header
        .cksum()
        .is_ok_and(|sum| sum == unsigned || i64::from(sum) == signed)
}
