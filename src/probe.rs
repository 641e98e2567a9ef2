//! Looks at an image's bytes: what format it really is, how large it is in pixels, and whether it
//! is whole.
//!
//! Nothing here reads a file or trusts a file name. [`probe`] sees the whole image, [`probe_ends`]
//! the first and last bytes of one too large to hold; both run the same checks over a view of the
//! file, without copies and, on success, without allocation. The structure has to be walked anyway
//! to tell a whole file from a truncated one, so the dimensions are taken on the way. Only
//! [`Validate::Decode`] looks at pixels.

use std::io::Cursor;
use std::panic::catch_unwind;

use image::{ImageError, ImageReader, Limits};
use serde::{Deserialize, Serialize};

/// Bytes [`probe_ends`] needs from the start of a file.
pub const HEAD_BYTES: usize = 1 << 20;
/// Bytes [`probe_ends`] needs from the end of a file.
pub const TAIL_BYTES: usize = 64 << 10;

/// The last chunk of a PNG, which has no content.
const PNG_END: &[u8] = b"\0\0\0\0IEND\xAE\x42\x60\x82";

/// Memory that decoding one image may take, in bytes: an RGB image of 178 megapixels, which is
/// where Pillow refuses as well.
const DECODE_BYTES: u64 = 512 << 20;

/// How closely each image is looked at before it is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Validate {
    /// Not at all.
    None,
    /// Format, dimensions and the end of the file: finds truncated and false images without
    /// decoding. A TIFF has no end that could be missing; only its directory is looked at.
    Header,
    /// As `Header`, then every pixel is decoded.
    Decode,
}

/// A format an image can have, whatever its file is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// JPEG, baseline or progressive, in JFIF, EXIF or no wrapping.
    Jpeg,
    /// Portable Network Graphics.
    Png,
    /// WebP, lossy or lossless.
    Webp,
    /// Graphics Interchange Format.
    Gif,
    /// Windows or OS/2 bitmap.
    Bmp,
    /// Tagged Image File Format, BigTIFF included.
    Tiff,
    /// Portable bit, grey or pixel map (P1 to P6).
    Pnm,
}

impl ImageFormat {
    const ALL: [ImageFormat; 7] = [
        ImageFormat::Jpeg,
        ImageFormat::Png,
        ImageFormat::Webp,
        ImageFormat::Gif,
        ImageFormat::Bmp,
        ImageFormat::Tiff,
        ImageFormat::Pnm,
    ];

    /// The name in records and messages; lower case.
    pub fn name(self) -> &'static str {
        match self {
            ImageFormat::Jpeg => "jpeg",
            ImageFormat::Png => "png",
            ImageFormat::Webp => "webp",
            ImageFormat::Gif => "gif",
            ImageFormat::Bmp => "bmp",
            ImageFormat::Tiff => "tiff",
            ImageFormat::Pnm => "pnm",
        }
    }

    /// The format with this [`name`](ImageFormat::name).
    pub fn from_name(name: &str) -> Option<ImageFormat> {
        ImageFormat::ALL
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// The format a field name from [`image_field`] promises.
    pub fn of_extension(ext: &str) -> Option<ImageFormat> {
        match ext {
            "jpg" => Some(ImageFormat::Jpeg),
            "ppm" | "pgm" | "pbm" => Some(ImageFormat::Pnm),
            _ => ImageFormat::from_name(ext).filter(|format| *format != ImageFormat::Jpeg),
        }
    }

    fn decoder(self) -> image::ImageFormat {
        match self {
            ImageFormat::Jpeg => image::ImageFormat::Jpeg,
            ImageFormat::Png => image::ImageFormat::Png,
            ImageFormat::Webp => image::ImageFormat::WebP,
            ImageFormat::Gif => image::ImageFormat::Gif,
            ImageFormat::Bmp => image::ImageFormat::Bmp,
            ImageFormat::Tiff => image::ImageFormat::Tiff,
            ImageFormat::Pnm => image::ImageFormat::Pnm,
        }
    }
}

/// The field name an image with this file extension gets, or `None` if it is no image's extension.
///
/// The extension comes without its dot, in any case; `jpeg`, `jpe` and `jfif` become `jpg`, and
/// `tif` becomes `tiff`.
pub fn image_field(extension: &[u8]) -> Option<&'static str> {
    const FIELDS: [(&str, &str); 14] = [
        ("jpeg", "jpg"),
        ("jpg", "jpg"),
        ("png", "png"),
        ("webp", "webp"),
        ("jpe", "jpg"),
        ("jfif", "jpg"),
        ("gif", "gif"),
        ("bmp", "bmp"),
        ("tif", "tiff"),
        ("tiff", "tiff"),
        ("ppm", "ppm"),
        ("pgm", "pgm"),
        ("pbm", "pbm"),
        ("pnm", "pnm"),
    ];
    let known = FIELDS
        .iter()
        .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(extension));
    known.map(|(_, field)| *field)
}

/// What an image's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageInfo {
    /// The format of the bytes, which need not be that of the file's name.
    pub format: ImageFormat,
    /// Pixels in a row as stored, before any EXIF rotation; 0 only where [`probe_ends`] could not
    /// see it.
    pub width: u32,
    /// Rows as stored, before any EXIF rotation; 0 exactly where the width is.
    pub height: u32,
}

/// Looks at a whole image held in memory; `None` only for [`Validate::None`].
///
/// # Errors
///
/// A sentence without the file's name: the bytes are empty, not an image, truncated, without
/// pixels, or do not decode. A valid image of a kind the decoder cannot handle (a 12-bit or
/// arithmetic-coded JPEG, say) is not at fault and passes.
pub fn probe(bytes: &[u8], level: Validate) -> Result<Option<ImageInfo>, String> {
    if level == Validate::None {
        return Ok(None);
    }
    let file = File {
        head: bytes,
        tail: bytes,
        size: bytes.len() as u64,
    };
    let info = examine(&file)?;
    if level == Validate::Decode {
        decode(&file, info)?;
    }
    Ok(Some(info))
}

/// Looks at the two ends of an image too large to hold, as [`Validate::Header`] would at the whole.
///
/// `head` is at least the first `min(size, HEAD_BYTES)` bytes, `tail` at least the last
/// `min(size, TAIL_BYTES)`, and `size` the length of the whole file. Where the dimensions are in
/// neither (a TIFF's directory may be anywhere, a JPEG may open with megabytes of metadata), width
/// and height are 0. An end marker further from the end than `tail` reaches is not seen: such a
/// file counts as truncated.
///
/// # Errors
///
/// As [`probe`].
pub fn probe_ends(head: &[u8], tail: &[u8], size: u64) -> Result<ImageInfo, String> {
    examine(&File { head, tail, size })
}

/// As much of a file as is at hand: its first bytes, its last bytes, and how long it is.
struct File<'a> {
    head: &'a [u8],
    tail: &'a [u8],
    size: u64,
}

/// Why a header could not be read.
enum Trouble {
    /// It goes on after the end of the file.
    PastEnd,
    /// It goes on in a part of the file that is not at hand.
    NotHeld,
    /// It contradicts its format; the text is the whole message.
    Broken(String),
}

impl Trouble {
    fn broken(message: impl Into<String>) -> Trouble {
        Trouble::Broken(message.into())
    }
}

/// What the checks need from a header.
struct Header {
    width: u32,
    height: u32,
    /// Bytes a whole file has at least; an end marker only comes after them.
    least_bytes: u64,
}

impl Header {
    fn new(width: impl Into<u32>, height: impl Into<u32>, least_bytes: u64) -> Header {
        Header {
            width: width.into(),
            height: height.into(),
            least_bytes,
        }
    }
}

impl<'a> File<'a> {
    /// The bytes from `at` to `at + length`.
    fn bytes(&self, at: u64, length: usize) -> Result<&'a [u8], Trouble> {
        let end = at.saturating_add(length as u64);
        if end > self.size {
            return Err(Trouble::PastEnd);
        }
        let slice = |part: &'a [u8], start: u64| {
            let from = usize::try_from(at.checked_sub(start)?).ok()?;
            part.get(from..from.checked_add(length)?)
        };
        slice(self.head, 0)
            .or_else(|| slice(self.tail, self.tail_at()))
            .ok_or(Trouble::NotHeld)
    }

    fn array<const N: usize>(&self, at: u64) -> Result<[u8; N], Trouble> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(at, N)?);
        Ok(array)
    }

    fn u16_le(&self, at: u64) -> Result<u16, Trouble> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u16_be(&self, at: u64) -> Result<u16, Trouble> {
        self.array(at).map(u16::from_be_bytes)
    }

    fn u32_le(&self, at: u64) -> Result<u32, Trouble> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u32_be(&self, at: u64) -> Result<u32, Trouble> {
        self.array(at).map(u32::from_be_bytes)
    }

    fn tail_at(&self) -> u64 {
        self.size.saturating_sub(self.tail.len() as u64)
    }

    /// The part of the tail that is not before `at`.
    fn tail_from(&self, at: u64) -> &'a [u8] {
        let skip = usize::try_from(at.saturating_sub(self.tail_at())).unwrap_or(usize::MAX);
        self.tail.get(skip..).unwrap_or_default()
    }
}

fn examine(file: &File) -> Result<ImageInfo, String> {
    if file.size == 0 {
        return Err("is empty".into());
    }
    let format = sniff(file.head).ok_or_else(|| not_an_image(file.head))?;
    let header = match read_header(format, file) {
        Ok(header) if header.width == 0 || header.height == 0 => {
            return Err(no_pixels(format, &header));
        }
        Ok(header) => header,
        Err(Trouble::NotHeld) => Header::new(0_u32, 0_u32, file.head.len() as u64),
        Err(Trouble::PastEnd) => {
            let (name, size) = (format.name(), file.size);
            return Err(format!(
                "truncated: ends inside the {name} header, {size} bytes"
            ));
        }
        Err(Trouble::Broken(message)) => return Err(message),
    };
    let Header {
        width,
        height,
        least_bytes,
    } = header;
    if file.size < least_bytes {
        let size = file.size;
        return Err(format!(
            "truncated: {size} bytes, its header asks for {least_bytes}"
        ));
    }
    check_end(format, file, least_bytes)?;
    Ok(ImageInfo {
        format,
        width,
        height,
    })
}

/// The format the first bytes announce.
fn sniff(head: &[u8]) -> Option<ImageFormat> {
    match head {
        [0xFF, 0xD8, 0xFF, ..] => Some(ImageFormat::Jpeg),
        _ if head.starts_with(b"\x89PNG\r\n\x1A\n") => Some(ImageFormat::Png),
        _ if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") => {
            Some(ImageFormat::Webp)
        }
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(ImageFormat::Gif),
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some(ImageFormat::Tiff),
        [b'P', b'1'..=b'6', b'#', ..] => Some(ImageFormat::Pnm),
        [b'P', b'1'..=b'6', next, ..] if next.is_ascii_whitespace() => Some(ImageFormat::Pnm),
        // two letters prove little, so the size of the second header has to be one that exists
        [b'B', b'M', ..] => match head.get(14..18)? {
            [12 | 16 | 40 | 52 | 56 | 64 | 108 | 124, 0, 0, 0] => Some(ImageFormat::Bmp),
            _ => None,
        },
        _ => None,
    }
}

fn not_an_image(head: &[u8]) -> String {
    const SHOWN: usize = 8;
    let shown = head[..head.len().min(SHOWN)].escape_ascii();
    let more = if head.len() > SHOWN { "…" } else { "" };
    format!("not an image: starts with `{shown}{more}`")
}

fn no_pixels(format: ImageFormat, header: &Header) -> String {
    let Header { width, height, .. } = header;
    format!(
        "{} header says {width}x{height} pixels, expected at least 1x1",
        format.name()
    )
}

fn read_header(format: ImageFormat, file: &File) -> Result<Header, Trouble> {
    match format {
        ImageFormat::Jpeg => jpeg(file),
        ImageFormat::Png => png(file),
        ImageFormat::Webp => webp(file),
        ImageFormat::Gif => gif(file),
        ImageFormat::Bmp => bmp(file),
        ImageFormat::Tiff => tiff(file),
        ImageFormat::Pnm => pnm(file),
    }
}

/// Looks for the marker that ends an image, for formats that have one, from byte `from` on.
///
/// What follows the marker is padding and accepted.
fn check_end(format: ImageFormat, file: &File, from: u64) -> Result<(), String> {
    let end = file.tail_from(from);
    let (whole, marker) = match format {
        ImageFormat::Jpeg => (contains_from_end(end, b"\xFF\xD9"), "FF D9"),
        ImageFormat::Png => (contains_from_end(end, PNG_END), "IEND"),
        ImageFormat::Gif => (last_nonzero(end) == Some(0x3B), "3B"),
        ImageFormat::Webp | ImageFormat::Bmp | ImageFormat::Tiff | ImageFormat::Pnm => {
            return Ok(());
        }
    };
    if whole {
        return Ok(());
    }
    let size = file.size;
    Err(format!(
        "truncated: no end marker ({marker}) after the image data, {size} bytes"
    ))
}

fn contains_from_end(bytes: &[u8], marker: &[u8]) -> bool {
    bytes.ends_with(marker)
        || bytes
            .windows(marker.len())
            .rev()
            .any(|window| window == marker)
}

fn last_nonzero(bytes: &[u8]) -> Option<u8> {
    bytes.iter().rev().copied().find(|byte| *byte != 0)
}

/// A JPEG's frame header and where the data of the first scan starts.
struct Frame {
    marker: u8,
    /// Where the segment's length is, in bytes from the start of the file.
    at: u64,
    data_at: u64,
}

fn jpeg(file: &File) -> Result<Header, Trouble> {
    let frame = jpeg_frame(file)?;
    let (height, width) = (file.u16_be(frame.at + 3)?, file.u16_be(frame.at + 5)?);
    Ok(Header::new(width, height, frame.data_at))
}

/// Walks the segments up to the first scan of the main image; a thumbnail lies inside a segment and
/// is stepped over.
fn jpeg_frame(file: &File) -> Result<Frame, Trouble> {
    let mut frame = None;
    let mut at = 2;
    loop {
        let (marker, length_at) = next_marker(file, at)?;
        at = match marker {
            0xD9 => {
                return Err(Trouble::broken(
                    "no image data before the end marker (FF D9)",
                ));
            }
            // these stand alone, without a length
            0x01 | 0xD0..=0xD8 => length_at,
            _ => length_at + segment_length(file, marker, length_at)?,
        };
        match marker {
            0xDA => break,
            // the frame header; C4, C8 and CC are not of this family
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                frame = frame.or(Some((marker, length_at)));
            }
            _ => {}
        }
    }
    match frame {
        Some((marker, frame_at)) => Ok(Frame {
            marker,
            at: frame_at,
            data_at: at,
        }),
        None => Err(Trouble::broken("no frame header before the image data")),
    }
}

fn segment_length(file: &File, marker: u8, at: u64) -> Result<u64, Trouble> {
    match file.u16_be(at)? {
        length @ 0..2 => Err(Trouble::broken(format!(
            "segment FF {marker:02X} at byte {} has length {length}, expected 2 or more",
            at - 2
        ))),
        length => Ok(length.into()),
    }
}

/// Whether the decoder knows this kind of JPEG: 8-bit Huffman-coded grey, colour or CMYK.
///
/// Its own errors do not tell an image it cannot handle from one that is damaged.
fn jpeg_is_decodable(file: &File) -> Result<bool, Trouble> {
    let frame = jpeg_frame(file)?;
    let [precision, _, _, _, _, components] = file.array(frame.at + 2)?;
    let sampling = file.bytes(frame.at + 8, 3 * usize::from(components))?;
    Ok(matches!(frame.marker, 0xC0..=0xC2)
        && precision == 8
        && matches!(components, 1 | 3 | 4)
        && sampling
            .chunks(3)
            .all(|component| (component[1] >> 4).is_power_of_two()))
}

/// The next marker's code and the position after it.
///
/// As every decoder does, this passes over repeated FF (legal fill) and stray bytes between
/// segments (not legal, but cameras write them).
fn next_marker(file: &File, mut at: u64) -> Result<(u8, u64), Trouble> {
    loop {
        match file.array(at)? {
            [0xFF, marker @ 1..=0xFE] => return Ok((marker, at + 2)),
            _ => at += 1,
        }
    }
}

fn png(file: &File) -> Result<Header, Trouble> {
    let chunk = file.array::<4>(12)?;
    if &chunk != b"IHDR" {
        return Err(Trouble::broken(format!(
            "png starts with chunk `{}`, expected `IHDR`",
            chunk.escape_ascii()
        )));
    }
    Ok(Header::new(file.u32_be(16)?, file.u32_be(20)?, 33))
}

fn gif(file: &File) -> Result<Header, Trouble> {
    Ok(Header::new(file.u16_le(6)?, file.u16_le(8)?, 13))
}

fn webp(file: &File) -> Result<Header, Trouble> {
    let whole = u64::from(file.u32_le(4)?) + 8;
    match &file.array::<4>(12)? {
        // the two high bits of each are a hint for scaling
        b"VP8 " => {
            let (width, height) = (file.u16_le(26)? & 0x3FFF, file.u16_le(28)? & 0x3FFF);
            Ok(Header::new(width, height, whole))
        }
        b"VP8L" => {
            let packed = file.u32_le(21)?;
            Ok(Header::new(
                (packed & 0x3FFF) + 1,
                (packed >> 14 & 0x3FFF) + 1,
                whole,
            ))
        }
        b"VP8X" => {
            let [w0, w1, w2, h0, h1, h2] = file.array(24)?;
            let (width, height) = ([w0, w1, w2, 0], [h0, h1, h2, 0]);
            let (width, height) = (u32::from_le_bytes(width), u32::from_le_bytes(height));
            Ok(Header::new(width + 1, height + 1, whole))
        }
        chunk => {
            let chunk = chunk.escape_ascii();
            Err(Trouble::broken(format!(
                "webp starts with chunk `{chunk}`, expected `VP8 `, `VP8L` or `VP8X`"
            )))
        }
    }
}

fn bmp(file: &File) -> Result<Header, Trouble> {
    let whole = file.u32_le(2)?.into();
    if file.u32_le(14)? == 12 {
        return Ok(Header::new(file.u16_le(18)?, file.u16_le(20)?, whole));
    }
    // a negative height is a picture stored top row first
    let height = i32::from_le_bytes(file.array(22)?).unsigned_abs();
    Ok(Header::new(file.u32_le(18)?, height, whole))
}

/// Reads the text header, and from it how many bytes of pixels have to follow.
fn pnm(file: &File) -> Result<Header, Trouble> {
    let kind = file.array::<2>(0)?[1];
    let mut at = 2;
    let width = pnm_number(file, &mut at)?;
    let height = pnm_number(file, &mut at)?;
    let largest = if matches!(kind, b'1' | b'4') {
        1
    } else {
        pnm_number(file, &mut at)?
    };
    let sample_bytes = 1 + u64::from(largest > 255);
    let (row, rows) = (u64::from(width), u64::from(height));
    let pixels = row.saturating_mul(rows);
    let data_bytes = match kind {
        b'1' => pixels,
        // in text, a sample is at least a digit and a space
        b'2' => pixels.saturating_mul(2).saturating_sub(1),
        b'3' => pixels.saturating_mul(6).saturating_sub(1),
        b'4' => row.div_ceil(8).saturating_mul(rows),
        b'5' => pixels.saturating_mul(sample_bytes),
        _ => pixels.saturating_mul(3 * sample_bytes),
    };
    Ok(Header::new(width, height, at.saturating_add(data_bytes)))
}

/// The next number of a text header; `at` ends up after the one white-space byte that ends it.
fn pnm_number(file: &File, at: &mut u64) -> Result<u32, Trouble> {
    let mut number: Option<u32> = None;
    loop {
        let [byte] = file.array(*at)?;
        *at += 1;
        match (byte, number) {
            (b'0'..=b'9', _) => {
                let grown = number.unwrap_or(0).checked_mul(10);
                number = grown.and_then(|tens| tens.checked_add(u32::from(byte - b'0')));
                if number.is_none() {
                    return Err(Trouble::broken("pnm header has a number above 4294967295"));
                }
            }
            (_, Some(number)) if byte.is_ascii_whitespace() => return Ok(number),
            (_, None) if byte.is_ascii_whitespace() => {}
            (b'#', _) => {
                while file.array(*at)? != *b"\n" {
                    *at += 1;
                }
            }
            _ => {
                let found = byte.escape_ascii();
                return Err(Trouble::broken(format!(
                    "pnm header has `{found}`, expected a number"
                )));
            }
        }
    }
}

/// Finds width and height in the first directory, which may be anywhere in the file.
fn tiff(file: &File) -> Result<Header, Trouble> {
    let little = file.array(0)? == *b"II";
    let number = |at: u64, length: usize| {
        let bytes = file.bytes(at, length)?;
        let shift = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Ok(if little {
            bytes.iter().rev().fold(0, shift)
        } else {
            bytes.iter().fold(0, shift)
        })
    };
    let big = number(2, 2)? == 43;
    let (directory, count_bytes, entry_bytes, value) = if big {
        (number(8, 8)?, 8, 20, 12)
    } else {
        (number(4, 4)?, 2, 12, 8)
    };
    let (mut width, mut height) = (0, 0);
    // no directory has more entries than there are tags
    for entry in 0..number(directory, count_bytes)?.min(1 << 16) {
        let at = directory.saturating_add(count_bytes as u64 + entry * entry_bytes);
        let dimension = match number(at, 2)? {
            256 => &mut width,
            257 => &mut height,
            _ => continue,
        };
        let length = match number(at + 2, 2)? {
            3 => 2,
            16 if big => 8,
            _ => 4,
        };
        *dimension = u32::try_from(number(at + value, length)?).unwrap_or(u32::MAX);
        if width > 0 && height > 0 {
            break;
        }
    }
    Ok(Header::new(width, height, 0))
}

/// Decodes every pixel and drops them.
fn decode(file: &File, info: ImageInfo) -> Result<(), String> {
    // a decoder that panics on one image must not end a run over millions
    match catch_unwind(|| decoded(file.head, info.format)) {
        Ok(Ok(()) | Err(ImageError::Unsupported(_))) => Ok(()),
        Ok(Err(ImageError::Limits(_))) => Err(format!(
            "does not decode within {} MiB, {}x{} pixels: use `--validate header`",
            DECODE_BYTES >> 20,
            info.width,
            info.height
        )),
        _ if info.format == ImageFormat::Jpeg && matches!(jpeg_is_decodable(file), Ok(false)) => {
            Ok(())
        }
        Ok(Err(error)) => Err(format!("does not decode: {error}")),
        Err(_) => Err("does not decode: the decoder panicked".into()),
    }
}

fn decoded(bytes: &[u8], format: ImageFormat) -> Result<(), ImageError> {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(DECODE_BYTES);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format.decoder());
    reader.limits(limits);
    reader.decode().map(drop)
}

#[cfg(test)]
mod tests {
    use image::codecs::pnm::{PnmEncoder, PnmSubtype, SampleEncoding};
    use image::{DynamicImage, RgbImage};
    use proptest::prelude::*;

    use super::*;

    const WIDTH: u32 = 37;
    const HEIGHT: u32 = 23;

    /// A picture with enough detail that every format has some data to lose.
    fn picture(width: u32, height: u32) -> DynamicImage {
        let pixel = |x: u32, y: u32| {
            image::Rgb([
                (x * 7 + y) as u8,
                (y * 11) as u8,
                (x * y).wrapping_mul(2_654_435_761) as u8,
            ])
        };
        RgbImage::from_fn(width, height, pixel).into()
    }

    fn encode(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        if format == ImageFormat::Pnm {
            let pixmap = PnmSubtype::Pixmap(SampleEncoding::Binary);
            image
                .write_with_encoder(PnmEncoder::new(&mut bytes).with_subtype(pixmap))
                .unwrap();
        } else {
            image.write_to(&mut bytes, format.decoder()).unwrap();
        }
        bytes.into_inner()
    }

    fn encoded(format: ImageFormat) -> Vec<u8> {
        encode(&picture(WIDTH, HEIGHT), format)
    }

    fn info(bytes: &[u8], level: Validate) -> ImageInfo {
        probe(bytes, level).unwrap().unwrap()
    }

    fn error(bytes: &[u8]) -> String {
        probe(bytes, Validate::Header).unwrap_err()
    }

    fn segment(marker: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len() + 2).unwrap().to_be_bytes();
        [&[0xFF, marker], &length[..], body].concat()
    }

    /// An 8x8 JPEG of one grey block per component, spelled out by hand.
    fn blank_jpeg(frame_marker: u8, precision: u8, components: u8) -> Vec<u8> {
        let quantization = [&[0][..], &[1; 64]].concat();
        // one code of one bit: "no difference" for DC, "end of block" for AC
        let huffman = |class: u8| [&[class, 1][..], &[0; 15], &[0]].concat();
        let mut frame = vec![precision, 0, 8, 0, 8, components];
        let mut scan = vec![components];
        for id in 1..=components {
            frame.extend([id, 0x11, 0]);
            scan.extend([id, 0]);
        }
        scan.extend([0, 63, 0]);
        [
            vec![0xFF, 0xD8],
            segment(0xDB, &quantization),
            segment(frame_marker, &frame),
            segment(0xC4, &huffman(0x00)),
            segment(0xC4, &huffman(0x10)),
            segment(0xDA, &scan),
            vec![0x00, 0xFF, 0xD9],
        ]
        .concat()
    }

    /// The JPEG with a whole thumbnail, end marker and all, in an APP1 segment like a camera's.
    fn with_thumbnail(jpeg: &[u8]) -> Vec<u8> {
        let thumbnail = encode(&picture(8, 8), ImageFormat::Jpeg);
        let exif = segment(0xE1, &[b"Exif\0\0", &thumbnail[..]].concat());
        [&jpeg[..2], &exif, &jpeg[2..]].concat()
    }

    /// A TIFF whose directory lies at the end, after `gap` bytes of pixels.
    fn tiff_with_late_directory(gap: u32, big_endian: bool) -> Vec<u8> {
        let short = |n: u16| {
            if big_endian {
                n.to_be_bytes()
            } else {
                n.to_le_bytes()
            }
        };
        let long = |n: u32| {
            if big_endian {
                n.to_be_bytes()
            } else {
                n.to_le_bytes()
            }
        };
        let mut bytes = if big_endian {
            b"MM".to_vec()
        } else {
            b"II".to_vec()
        };
        bytes.extend(short(42));
        bytes.extend(long(8 + gap));
        bytes.resize(8 + gap as usize, 0x55);
        bytes.extend(short(2));
        for (tag, value) in [(256, 640), (257, 480)] {
            bytes.extend(short(tag));
            bytes.extend(short(3));
            bytes.extend(long(1));
            bytes.extend(short(value));
            bytes.extend(short(0));
        }
        bytes.extend(long(0));
        bytes
    }

    #[test]
    fn every_format_is_known_by_its_bytes() {
        for format in ImageFormat::ALL {
            let expected = ImageInfo {
                format,
                width: WIDTH,
                height: HEIGHT,
            };
            let bytes = encoded(format);
            assert_eq!(info(&bytes, Validate::Header), expected);
            assert_eq!(info(&bytes, Validate::Decode), expected);
            assert_eq!(probe_ends(&bytes, &bytes, bytes.len() as u64), Ok(expected));
            assert_eq!(probe(&bytes, Validate::None), Ok(None));
        }
    }

    #[test]
    fn dimensions_agree_with_another_reader() {
        for format in ImageFormat::ALL {
            let bytes = encoded(format);
            let other = imagesize::blob_size(&bytes).unwrap();
            assert_eq!(
                (other.width, other.height),
                (WIDTH as usize, HEIGHT as usize),
                "{format:?}"
            );
        }
    }

    #[test]
    fn an_image_of_one_pixel_is_fine() {
        for format in ImageFormat::ALL {
            let bytes = encode(&picture(1, 1), format);
            assert_eq!(
                info(&bytes, Validate::Decode),
                ImageInfo {
                    format,
                    width: 1,
                    height: 1
                }
            );
        }
        for bytes in [
            &b"P4 1 1\n\x80"[..],
            b"P5\n1 1\n255\n\0",
            b"P1\n# one\n1 1\n1",
            b"P2 1 1 9 7",
        ] {
            let expected = ImageInfo {
                format: ImageFormat::Pnm,
                width: 1,
                height: 1,
            };
            assert_eq!(info(bytes, Validate::Header), expected);
        }
    }

    #[test]
    fn a_truncated_image_is_caught_at_every_cut() {
        use ImageFormat::{Gif, Jpeg, Png, Pnm, Webp};
        for format in [Jpeg, Png, Webp, Pnm, Gif] {
            let bytes = encoded(format);
            for cut in 0..bytes.len() {
                // a GIF has no lengths to add up, so pixels that look like the trailer pass for it
                if format == Gif && last_nonzero(&bytes[..cut]) == Some(0x3B) {
                    continue;
                }
                assert!(
                    probe(&bytes[..cut], Validate::Header).is_err(),
                    "{format:?} cut at {cut}"
                );
                assert!(probe_ends(&bytes[..cut], &bytes[..cut], cut as u64).is_err());
            }
        }
        let bytes = encoded(ImageFormat::Bmp);
        assert!(error(&bytes[..bytes.len() - 1]).starts_with("truncated: "));
    }

    #[test]
    fn a_truncated_image_is_named_so() {
        let jpeg = encoded(ImageFormat::Jpeg);
        let cut = jpeg.len() - 1;
        let expected =
            format!("truncated: no end marker (FF D9) after the image data, {cut} bytes");
        assert_eq!(error(&jpeg[..cut]), expected);
        assert_eq!(
            error(&jpeg[..30]),
            "truncated: ends inside the jpeg header, 30 bytes"
        );
        assert_eq!(
            error(b"P5 4 4 255 123"),
            "truncated: 14 bytes, its header asks for 27"
        );
    }

    #[test]
    fn a_thumbnail_does_not_pass_for_the_end_of_the_image() {
        let bytes = with_thumbnail(&encoded(ImageFormat::Jpeg));
        let expected = ImageInfo {
            format: ImageFormat::Jpeg,
            width: WIDTH,
            height: HEIGHT,
        };
        assert_eq!(info(&bytes, Validate::Decode), expected);
        for cut in 0..bytes.len() {
            assert!(
                probe(&bytes[..cut], Validate::Header).is_err(),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn padding_after_the_end_is_accepted() {
        for format in ImageFormat::ALL {
            let mut bytes = encoded(format);
            bytes.resize(bytes.len() + 5000, 0);
            assert!(probe(&bytes, Validate::Decode).is_ok(), "{format:?}");
        }
        let mut bytes = encoded(ImageFormat::Jpeg);
        bytes.extend(b"\r\nnot part of the image");
        assert!(probe(&bytes, Validate::Header).is_ok());
    }

    #[test]
    fn fill_and_stray_bytes_between_segments_are_passed_over() {
        let jpeg = blank_jpeg(0xC0, 8, 3);
        let odd = [
            &jpeg[..2],
            &[0xFF, 0xFF, 0xFF],
            &segment(0xFE, b"hi")[1..],
            &[0, 7],
            &jpeg[2..],
        ]
        .concat();
        assert_eq!(info(&odd, Validate::Header).width, 8);
    }

    #[test]
    fn grey_colour_and_cmyk_jpegs_decode() {
        for components in [1, 3, 4] {
            let bytes = blank_jpeg(0xC0, 8, components);
            assert_eq!(
                decoded(&bytes, ImageFormat::Jpeg).map_err(|e| e.to_string()),
                Ok(())
            );
            assert!(probe(&bytes, Validate::Decode).is_ok());
        }
    }

    #[test]
    fn an_image_the_decoder_cannot_handle_is_not_at_fault() {
        // 12-bit, arithmetic-coded, two components
        for bytes in [
            blank_jpeg(0xC1, 12, 1),
            blank_jpeg(0xC9, 8, 3),
            blank_jpeg(0xC0, 8, 2),
        ] {
            assert_eq!(info(&bytes, Validate::Decode).width, 8);
        }
    }

    #[test]
    fn an_image_with_damaged_pixels_does_not_decode() {
        let mut png = encoded(ImageFormat::Png);
        let middle = png.len() / 2;
        png[middle] ^= 0xFF;
        assert!(probe(&png, Validate::Header).is_ok());
        let message = probe(&png, Validate::Decode).unwrap_err();
        assert!(message.starts_with("does not decode: "), "{message}");
    }

    #[test]
    fn an_image_too_large_to_decode_is_refused_with_a_remedy() {
        let mut jpeg = blank_jpeg(0xC0, 8, 3);
        let frame = jpeg
            .windows(2)
            .position(|pair| pair == [0xFF, 0xC0])
            .unwrap();
        jpeg[frame + 5..frame + 9].copy_from_slice(&[0xFF; 4]);
        let message = probe(&jpeg, Validate::Decode).unwrap_err();
        assert_eq!(
            message,
            "does not decode within 512 MiB, 65535x65535 pixels: use `--validate header`"
        );
    }

    #[test]
    fn images_of_more_than_eight_bits_are_fine() {
        for format in [ImageFormat::Png, ImageFormat::Tiff] {
            let deep = DynamicImage::from(picture(WIDTH, HEIGHT).to_rgb16());
            assert_eq!(info(&encode(&deep, format), Validate::Decode).width, WIDTH);
        }
        let deep = b"P5 2 1 65535 \x01\x02\x03\x04";
        assert_eq!(info(deep, Validate::Decode).width, 2);
        assert_eq!(
            error(&deep[..15]),
            "truncated: 15 bytes, its header asks for 17"
        );
    }

    #[test]
    fn what_is_no_image_says_how_it_starts() {
        assert_eq!(error(b""), "is empty");
        assert_eq!(
            error(b"hello world"),
            "not an image: starts with `hello wo…`"
        );
        assert_eq!(error(b"\xFF\xD8"), "not an image: starts with `\\xff\\xd8`");
        assert_eq!(
            error(b"BM is short for bitmap"),
            "not an image: starts with `BM is sh…`"
        );
        assert_eq!(
            error(&[0; 100]),
            r"not an image: starts with `\x00\x00\x00\x00\x00\x00\x00\x00…`"
        );
    }

    #[test]
    fn an_image_without_pixels_is_refused() {
        assert_eq!(
            error(b"P5 0 4 255 "),
            "pnm header says 0x4 pixels, expected at least 1x1"
        );
        assert!(error(b"GIF89a\0\0\x01\0\0\0\0;").contains("0x1 pixels"));
    }

    #[test]
    fn a_bitmap_may_be_stored_top_row_first_or_be_very_old() {
        let mut bytes = encoded(ImageFormat::Bmp);
        bytes[22..26].copy_from_slice(&(-(HEIGHT as i32)).to_le_bytes());
        assert_eq!(info(&bytes, Validate::Decode).height, HEIGHT);

        let old = b"BM\0\0\0\0\0\0\0\0\x1A\0\0\0\x0C\0\0\0\x05\0\x03\0\x01\0\x18\0";
        let expected = ImageInfo {
            format: ImageFormat::Bmp,
            width: 5,
            height: 3,
        };
        assert_eq!(info(old, Validate::Header), expected);
    }

    #[test]
    fn a_comment_in_a_pnm_header_is_no_number() {
        let bytes = b"P5 # 12 34\n2\n#\n1 255\nab";
        let expected = ImageInfo {
            format: ImageFormat::Pnm,
            width: 2,
            height: 1,
        };
        assert_eq!(info(bytes, Validate::Decode), expected);
        assert_eq!(
            error(b"P5 two 1 255\nab"),
            "pnm header has `t`, expected a number"
        );
        assert_eq!(
            error(b"P5 9999999999 1 255\n"),
            "pnm header has a number above 4294967295"
        );
    }

    #[test]
    fn a_directory_at_the_end_of_a_tiff_is_found() {
        for big_endian in [false, true] {
            let bytes = tiff_with_late_directory(3000, big_endian);
            let expected = ImageInfo {
                format: ImageFormat::Tiff,
                width: 640,
                height: 480,
            };
            assert_eq!(info(&bytes, Validate::Header), expected);
            let (head, tail) = (&bytes[..100], &bytes[bytes.len() - 100..]);
            assert_eq!(probe_ends(head, tail, bytes.len() as u64), Ok(expected));
            assert!(error(&bytes[..2000]).starts_with("truncated: "));
        }
    }

    #[test]
    fn dimensions_out_of_sight_are_unknown_and_not_an_error() {
        let tiff = tiff_with_late_directory(3000, false);
        let unknown =
            probe_ends(&tiff[..100], &tiff[tiff.len() - 10..], tiff.len() as u64).unwrap();
        assert_eq!((unknown.width, unknown.height), (0, 0));

        let jpeg = with_thumbnail(&encoded(ImageFormat::Jpeg));
        let (head, tail, size) = (&jpeg[..50], &jpeg[jpeg.len() - 50..], jpeg.len() as u64);
        let expected = ImageInfo {
            format: ImageFormat::Jpeg,
            width: 0,
            height: 0,
        };
        assert_eq!(probe_ends(head, tail, size), Ok(expected));
        assert!(probe_ends(head, &tail[..49], size - 1).is_err());
    }

    #[test]
    fn the_ends_of_a_large_image_are_enough() {
        for format in ImageFormat::ALL {
            let bytes = encode(&picture(320, 200), format);
            let (head, tail) = (&bytes[..bytes.len().min(9000)], &bytes[bytes.len() - 900..]);
            let expected = ImageInfo {
                format,
                width: 320,
                height: 200,
            };
            assert_eq!(probe_ends(head, tail, bytes.len() as u64), Ok(expected));
            if format != ImageFormat::Tiff {
                let tail = &tail[..tail.len() - 1];
                assert!(
                    probe_ends(head, tail, bytes.len() as u64 - 1).is_err(),
                    "{format:?}"
                );
            }
        }
    }

    #[test]
    fn extensions_become_field_names() {
        for (extension, field) in [
            ("JPEG", "jpg"),
            ("jpe", "jpg"),
            ("JFIF", "jpg"),
            ("Tif", "tiff"),
            ("PGM", "pgm"),
        ] {
            assert_eq!(image_field(extension.as_bytes()), Some(field));
            assert!(ImageFormat::of_extension(field).is_some());
        }
        assert_eq!(image_field(b"json"), None);
        assert_eq!(image_field(b""), None);
        assert_eq!(ImageFormat::of_extension("jpeg"), None);
        assert_eq!(ImageFormat::of_extension("webp"), Some(ImageFormat::Webp));
    }

    #[test]
    fn names_are_those_in_records() {
        for format in ImageFormat::ALL {
            assert_eq!(ImageFormat::from_name(format.name()), Some(format));
            assert_eq!(serde_json::to_value(format).unwrap(), format.name());
        }
        assert_eq!(ImageFormat::from_name("JPEG"), None);
        assert_eq!(
            serde_json::from_str::<Validate>("\"decode\"").unwrap(),
            Validate::Decode
        );
    }

    fn any_format() -> impl Strategy<Value = ImageFormat> {
        proptest::sample::select(&ImageFormat::ALL[..])
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(format in any_format(), kept in 0_usize..32, junk: Vec<u8>) {
            let bytes = [&encoded(format)[..kept], &junk].concat();
            let _ = probe(&bytes, Validate::Decode);
        }

        #[test]
        fn mutated_images_never_panic(
            format in any_format(),
            changes in proptest::collection::vec((0.0..1.0_f64, any::<u8>()), 1..8),
            size: u64,
        ) {
            let mut bytes = encoded(format);
            for (place, value) in changes {
                // most headers are short, so half of the changes go there
                let reach = if value % 2 == 0 { bytes.len().min(64) } else { bytes.len() };
                bytes[(place * reach as f64) as usize] = value;
            }
            let _ = probe(&bytes, Validate::Decode);
            let _ = probe_ends(&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..], size);
        }
    }
}
