//! Where in an archive a file's content lies, and how it is packed there.

use std::fmt;
use std::str::FromStr;

/// How a content lies in its archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// As it is.
    Stored,
    /// Packed on its own, in a zip.
    Deflate,
    /// In a tar that is packed as a whole with gzip: offset and length are those in the unpacked tar.
    Gzip,
    /// The same with zstd.
    Zstd,
}

impl Method {
    /// All of them, each with its name.
    const NAMES: [(Method, &'static str); 4] = [
        (Method::Stored, "stored"),
        (Method::Deflate, "deflate"),
        (Method::Gzip, "gzip"),
        (Method::Zstd, "zstd"),
    ];
}

/// A part of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Its first byte.
    pub offset: u64,
    /// Its length there: that of the packed content where it is packed on its own.
    pub bytes: u64,
    /// How it lies there.
    pub method: Method,
    /// Checksum of the content, where the archive has one.
    pub crc32: Option<u32>,
}

impl Extent {
    /// Whether an archive of so many bytes can have it.
    pub(crate) fn is_within(&self, archive_bytes: u64) -> bool {
        match (self.method, self.offset.checked_add(self.bytes)) {
            (_, None) => false,
            (Method::Stored | Method::Deflate, Some(end)) => end <= archive_bytes,
            (Method::Gzip | Method::Zstd, Some(_)) => true,
        }
    }

    /// Adds it to the end of `out`, in few bytes; a content of so many bytes has it.
    pub(crate) fn encode(&self, content_bytes: u64, out: &mut Vec<u8>) {
        let Self {
            offset,
            bytes,
            method,
            crc32,
        } = *self;
        let packed = bytes != content_bytes;
        let flags = method as u8 | u8::from(crc32.is_some()) << 2 | u8::from(packed) << 3;
        out.push(flags);
        put_number(offset, out);
        if packed {
            put_number(bytes, out);
        }
        if let Some(crc32) = crc32 {
            out.extend_from_slice(&crc32.to_le_bytes());
        }
    }

    /// Takes it off the beginning of `from`; `None` if that is no extent.
    pub(crate) fn decode(content_bytes: u64, from: &mut &[u8]) -> Option<Self> {
        let flags = *from.split_off_first()?;
        let (method, _) = Method::NAMES[usize::from(flags & 3)];
        let offset = take_number(from)?;
        let bytes = match flags & 8 {
            0 => content_bytes,
            _ => take_number(from)?,
        };
        let crc32 = match flags & 4 {
            0 => None,
            _ => Some(u32::from_le_bytes(from.split_off(..4)?.try_into().ok()?)),
        };
        (flags < 16).then_some(Self {
            offset,
            bytes,
            method,
            crc32,
        })
    }
}

/// Adds a number to the end of `out`, seven bits a byte, the lowest first.
pub(crate) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the beginning of `from`; `None` if there is none.
pub(crate) fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *from.split_off_first()?;
        let bits = u64::from(byte & 0x7F);
        number |= bits << shift;
        if byte < 0x80 {
            return (bits << shift >> shift == bits).then_some(number);
        }
    }
    None
}

/// `OFFSET+BYTES-METHOD`, and `~CRC32` where that is known.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, method) = Method::NAMES[self.method as usize];
        write!(f, "{}+{}-{method}", self.offset, self.bytes)?;
        match self.crc32 {
            Some(crc32) => write!(f, "~{crc32:08x}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Extent {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parse = || {
            let (text, crc32) = match text.split_once('~') {
                Some((text, crc32)) => (text, Some(u32::from_str_radix(crc32, 16).ok()?)),
                None => (text, None),
            };
            let (place, method) = text.split_once('-')?;
            let (offset, bytes) = place.split_once('+')?;
            let known = Method::NAMES.iter().find(|(_, name)| *name == method)?;
            Some(Self {
                offset: offset.parse().ok()?,
                bytes: bytes.parse().ok()?,
                method: known.0,
                crc32,
            })
        };
        parse().ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_comes_back_from_bytes_and_text() {
        for offset in [0, 127, 128, 147_897_477_120, u64::MAX - 9] {
            for (bytes, method) in [(9, Method::Stored), (5, Method::Deflate), (9, Method::Zstd)] {
                for crc32 in [None, Some(0x9AE0_DAAF)] {
                    let extent = Extent {
                        offset,
                        bytes,
                        method,
                        crc32,
                    };
                    let mut packed = Vec::new();
                    extent.encode(9, &mut packed);
                    let mut rest = &packed[..];
                    assert_eq!(Extent::decode(9, &mut rest), Some(extent));
                    assert!(rest.is_empty());
                    assert_eq!(extent.to_string().parse(), Ok(extent));
                    for end in 0..packed.len() {
                        assert_eq!(Extent::decode(9, &mut &packed[..end]), None);
                    }
                }
            }
        }
        assert_eq!(take_number(&mut &[0xFF; 11][..]), None);
    }
}
