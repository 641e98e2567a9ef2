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
    /// As [`Method::Gzip`], too large to be unpacked in memory.
    GzipStream,
    /// As [`Method::Zstd`], too large to be unpacked in memory.
    ZstdStream,
    /// In frames of zstd that can be unpacked on their own: offset and length are those of the frames, and the content begins `skip` bytes into
    /// what they unpack to.
    Frames {
        /// Bytes before the content.
        skip: u64,
    },
}

impl Method {
    /// All of them, each with its name.
    const NAMES: [(Method, &'static str); 7] = [
        (Method::Stored, "stored"),
        (Method::Deflate, "deflate"),
        (Method::Gzip, "gzip"),
        (Method::Zstd, "zstd"),
        (Method::GzipStream, "gzip_stream"),
        (Method::ZstdStream, "zstd_stream"),
        (Method::Frames { skip: 0 }, "frames"),
    ];

    /// Its place in [`Method::NAMES`].
    fn number(self) -> u8 {
        match self {
            Method::Stored => 0,
            Method::Deflate => 1,
            Method::Gzip => 2,
            Method::Zstd => 3,
            Method::GzipStream => 4,
            Method::ZstdStream => 5,
            Method::Frames { .. } => 6,
        }
    }

    /// Whether what is packed has another length than the content.
    pub(crate) fn is_packed_alone(self) -> bool {
        matches!(self, Method::Deflate | Method::Frames { .. })
    }
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
            (Method::Stored | Method::Deflate | Method::Frames { .. }, Some(end)) => {
                end <= archive_bytes
            }
            (Method::Gzip | Method::Zstd | Method::GzipStream | Method::ZstdStream, Some(_)) => {
                true
            }
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
        // Two bits of the method's number first, and its third after the others.
        let number = method.number();
        let method_bits = (number & 3) | (number >> 2) << 4;
        let flags = method_bits | u8::from(crc32.is_some()) << 2 | u8::from(packed) << 3;
        out.push(flags);
        if let Method::Frames { skip } = method {
            put_number(skip, out);
        }
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
        let number = (flags & 3) | (flags >> 4 & 1) << 2;
        let (mut method, _) = *Method::NAMES.get(usize::from(number))?;
        if let Method::Frames { skip } = &mut method {
            *skip = take_number(from)?;
        }
        let offset = take_number(from)?;
        let bytes = match flags & 8 {
            0 => content_bytes,
            _ => take_number(from)?,
        };
        let crc32 = match flags & 4 {
            0 => None,
            _ => Some(u32::from_le_bytes(from.split_off(..4)?.try_into().ok()?)),
        };
        (flags < 32).then_some(Self {
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

/// `OFFSET+BYTES-METHOD`, `@SKIP` after frames, and `~CRC32` where that is known.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, method) = Method::NAMES[usize::from(self.method.number())];
        write!(f, "{}+{}-{method}", self.offset, self.bytes)?;
        if let Method::Frames { skip } = self.method {
            write!(f, "@{skip}")?;
        }
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
            let (method, skipped) = match method.split_once('@') {
                Some((method, skip)) => (method, Some(skip.parse().ok()?)),
                None => (method, None),
            };
            let known = Method::NAMES.iter().find(|(_, name)| *name == method)?;
            let method = match (known.0, skipped) {
                (Method::Frames { .. }, Some(skip)) => Method::Frames { skip },
                (Method::Frames { .. }, None) | (_, Some(_)) => return None,
                (method, None) => method,
            };
            Some(Self {
                offset: offset.parse().ok()?,
                bytes: bytes.parse().ok()?,
                method,
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
            for (bytes, method) in [
                (9, Method::Stored),
                (5, Method::Deflate),
                (9, Method::Zstd),
                (9, Method::ZstdStream),
                (5, Method::Frames { skip: 300 }),
            ] {
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
