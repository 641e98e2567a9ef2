//! Looks at an image's bytes: what format it really is, how large it is in pixels, and whether it is whole.
//!
//! Format and dimensions come from the `imagesize` crate where it is right, and from the `image` crate's decoders elsewhere;
//! ours is only the question whether the end of the file is there, which neither answers. Nothing here reads a file or trusts
//! a file name. Only [`Validate::Decode`] looks at pixels.

#[cfg(feature = "decode")]
mod thumbnail;

use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::panic::{UnwindSafe, catch_unwind};

use image::codecs::pnm::{PnmDecoder, PnmSubtype, SampleEncoding};
use image::error::{ImageError, ImageResult};
use image::{ImageDecoder, ImageReader, Limits};
use imagesize::ImageType;
use serde::{Deserialize, Serialize};

#[cfg(feature = "decode")]
pub(crate) use thumbnail::thumbnail;

/// A build without decoders has no small pictures.
///
/// # Errors
///
/// Always.
#[cfg(not(feature = "decode"))]
pub(crate) fn thumbnail(_: &[u8], _: u32, _: u64) -> Result<Vec<u8>, String> {
    Err("this program was built without the feature `decode`".to_owned())
}

/// Bytes [`probe_ends`] needs from the start of a file.
pub(crate) const HEAD_BYTES: usize = 1 << 20;
/// Bytes [`probe_ends`] needs from the end of a file.
pub(crate) const TAIL_BYTES: usize = 64 << 10;

/// The last chunk of a PNG, which has no content.
const PNG_END: &[u8] = b"\0\0\0\0IEND\xAE\x42\x60\x82";
/// Memory that a decoder may take to read a header.
const HEADER_BYTES: u64 = 16 << 20;

/// How closely each image is looked at before it is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Validate {
    /// Not at all.
    None,
    /// Format, dimensions and the end of the file: finds truncated and false images without decoding. A TIFF and a PNM in text
    /// have no end that could be missing; only their headers are looked at.
    #[default]
    Header,
    /// As `Header`, then every pixel is decoded.
    Decode,
}

/// A format an image can have, whatever its file is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ImageFormat {
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

/// Every format with its name and its decoder, in the order of the enum.
const FORMATS: [(ImageFormat, &str, image::ImageFormat); 7] = [
    (ImageFormat::Jpeg, "jpeg", image::ImageFormat::Jpeg),
    (ImageFormat::Png, "png", image::ImageFormat::Png),
    (ImageFormat::Webp, "webp", image::ImageFormat::WebP),
    (ImageFormat::Gif, "gif", image::ImageFormat::Gif),
    (ImageFormat::Bmp, "bmp", image::ImageFormat::Bmp),
    (ImageFormat::Tiff, "tiff", image::ImageFormat::Tiff),
    (ImageFormat::Pnm, "pnm", image::ImageFormat::Pnm),
];

impl ImageFormat {
    /// The name in records and messages; lower case.
    pub(crate) fn name(self) -> &'static str {
        FORMATS[self as usize].1
    }

    /// The format with this [`name`](ImageFormat::name).
    pub(crate) fn from_name(name: &str) -> Option<ImageFormat> {
        let known = FORMATS.iter().find(|(_, known, _)| *known == name);
        known.map(|(format, ..)| *format)
    }

    /// The format a field name from [`image_field`] promises.
    pub(crate) fn of_extension(ext: &str) -> Option<ImageFormat> {
        match ext {
            "jpg" => Some(ImageFormat::Jpeg),
            "jpeg" => None,
            "ppm" | "pgm" | "pbm" => Some(ImageFormat::Pnm),
            _ => ImageFormat::from_name(ext),
        }
    }

    /// The format the first bytes announce.
    fn of_bytes(head: &[u8]) -> Option<ImageFormat> {
        // `imagesize` wants 12 bytes, more than the smallest PNM has.
        let mut start = [0; 12];
        let length = head.len().min(start.len());
        start[..length].copy_from_slice(&head[..length]);
        match imagesize::image_type(&start).ok()? {
            ImageType::Jpeg => Some(ImageFormat::Jpeg),
            ImageType::Png => Some(ImageFormat::Png),
            ImageType::Webp => Some(ImageFormat::Webp),
            ImageType::Gif => Some(ImageFormat::Gif),
            ImageType::Tiff => Some(ImageFormat::Tiff),
            // Two letters prove little; the size of BMP's second header is below 256, and PNM goes on with white space.
            ImageType::Bmp if head.get(15..18) == Some(&[0; 3]) => Some(ImageFormat::Bmp),
            ImageType::Pnm if start[2].is_ascii_whitespace() || start[2] == b'#' => {
                Some(ImageFormat::Pnm)
            }
            _ => None,
        }
    }
}

/// The field name an image with this file extension gets, or `None` if it is no image's extension.
///
/// The extension comes without its dot, in any case; `jpeg`, `jpe` and `jfif` become `jpg`, and `tif` becomes `tiff`.
pub(crate) fn image_field(extension: &[u8]) -> Option<&'static str> {
    const FIELDS: [(&str, &[&str]); 10] = [
        ("jpg", &["jpeg", "jpg", "jpe", "jfif"]),
        ("png", &["png"]),
        ("webp", &["webp"]),
        ("gif", &["gif"]),
        ("bmp", &["bmp"]),
        ("tiff", &["tif", "tiff"]),
        ("ppm", &["ppm"]),
        ("pnm", &["pnm"]),
        ("pgm", &["pgm"]),
        ("pbm", &["pbm"]),
    ];
    let same = |known: &&str| known.as_bytes().eq_ignore_ascii_case(extension);
    let known = FIELDS.iter().find(|(_, all)| all.iter().any(same));
    known.map(|(field, _)| *field)
}

/// What an image's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageInfo {
    /// The format of the bytes, which need not be that of the file's name.
    pub format: ImageFormat,
    /// Pixels in a row as stored, before any EXIF rotation; 0 where it is not known: [`probe_ends`] did not see it, or the
    /// image is of a kind that no reader here knows.
    pub width: u32,
    /// Rows as stored, before any EXIF rotation; 0 exactly where the width is.
    pub height: u32,
}

/// Looks at a whole image held in memory; `None` only for [`Validate::None`].
///
/// `decode_bytes` is what decoding may allocate, by the decoder's own count.
///
/// # Errors
///
/// A sentence without the file's name: the bytes are empty, not an image, truncated, without pixels, or do not decode. A valid
/// image of a kind the decoder cannot handle (a 12-bit or arithmetic-coded JPEG, say) is not at fault and passes.
pub(crate) fn probe(
    bytes: &[u8],
    level: Validate,
    decode_bytes: u64,
) -> Result<Option<ImageInfo>, String> {
    if level == Validate::None {
        return Ok(None);
    }
    let info = probe_ends(bytes, bytes, bytes.len() as u64)?;
    if level == Validate::Decode {
        decode(bytes, info, decode_bytes)?;
    }
    Ok(Some(info))
}

/// Width and height of an image, if its first bytes say them.
pub(crate) fn sides_of(head: &[u8]) -> Option<(u32, u32)> {
    let format = ImageFormat::of_bytes(head)?;
    let (width, height) = dimensions(format, head, Cursor::new(head)).ok()?;
    (width > 0 && height > 0).then_some((width, height))
}

/// Looks at the two ends of an image too large to hold, as [`Validate::Header`] would at the whole.
///
/// `head` is at least the first `min(size, HEAD_BYTES)` bytes, `tail` at least the last `min(size, TAIL_BYTES)`, and `size` the
/// length of the whole file. Where the dimensions are not in `head` (a TIFF's directory may be anywhere, a JPEG may open with
/// megabytes of metadata), width and height are 0. An end marker further from the end than `tail` reaches is not seen: such a
/// file counts as truncated.
///
/// # Errors
///
/// As [`probe`].
pub(crate) fn probe_ends(head: &[u8], tail: &[u8], size: u64) -> Result<ImageInfo, String> {
    if size == 0 {
        return Err("is empty".into());
    }
    let format = ImageFormat::of_bytes(head).ok_or_else(|| not_an_image(head))?;
    let whole = head.len() as u64 >= size;
    check_end(format, head, tail, size)?;
    let known = if whole {
        dimensions(format, head, Cursor::new(head))
    } else {
        let ends = Ends {
            head,
            tail,
            size,
            position: 0,
        };
        dimensions(format, head, BufReader::new(ends))
    };
    let (width, height) = match known {
        Ok((width, height)) if width == 0 || height == 0 => {
            return Err(format!(
                "{} header says {width}x{height} pixels, expected at least 1x1",
                format.name()
            ));
        }
        Ok(known) => known,
        Err(ImageError::Unsupported(_)) => (0, 0),
        Err(_) if !whole => (0, 0),
        Err(ImageError::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err(inside_header(format, size));
        }
        Err(error) => return Err(format!("{} header: {error}", format.name())),
    };
    Ok(ImageInfo {
        format,
        width,
        height,
    })
}

fn not_an_image(head: &[u8]) -> String {
    const SHOWN: usize = 8;
    let shown = head[..head.len().min(SHOWN)].escape_ascii();
    let more = if head.len() > SHOWN { "…" } else { "" };
    format!("not an image: starts with `{shown}{more}`")
}

fn inside_header(format: ImageFormat, size: u64) -> String {
    let name = format.name();
    format!("truncated: ends inside the {name} header, {size} bytes")
}

/// Width and height, from the header alone.
fn dimensions(
    format: ImageFormat,
    head: &[u8],
    file: impl BufRead + Seek,
) -> ImageResult<(u32, u32)> {
    // `imagesize` is quick and knows images that no decoder does, but leaves the scaling bits of lossy WebP in, and misreads
    // OS/2 and top-down BMP, comments in PNM, and PNG that does not start as it must.
    let trusted = match format {
        ImageFormat::Jpeg | ImageFormat::Gif | ImageFormat::Tiff => true,
        ImageFormat::Png => head.get(12..16) == Some(b"IHDR"),
        ImageFormat::Webp => matches!(head.get(12..16), Some(b"VP8L" | b"VP8X")),
        ImageFormat::Bmp | ImageFormat::Pnm => false,
    };
    if trusted
        && let Ok(size) = imagesize::reader_size(file)
        && let (Ok(width), Ok(height)) = (size.width.try_into(), size.height.try_into())
    {
        return Ok((width, height));
    }
    guarded(|| reader(head, format, HEADER_BYTES).into_dimensions())
}

/// A file of which only the ends are at hand; reading between them fails.
struct Ends<'a> {
    head: &'a [u8],
    tail: &'a [u8],
    /// Length of the file in bytes.
    size: u64,
    position: u64,
}

impl Read for Ends<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let tail_begins = self.size.saturating_sub(self.tail.len() as u64);
        let mut held = match self.position.checked_sub(tail_begins) {
            _ if self.position < self.head.len() as u64 => &self.head[self.position as usize..],
            Some(from) => self.tail.get(from as usize..).unwrap_or_default(),
            None => return Err(ErrorKind::UnexpectedEof.into()),
        };
        let count = held.read(out)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Ends<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.position = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.position.saturating_add_signed(by),
            SeekFrom::End(by) => self.size.saturating_add_signed(by),
        };
        Ok(self.position)
    }
}

/// Whether the end of the image is there; what follows it is padding and accepted.
fn check_end(format: ImageFormat, head: &[u8], tail: &[u8], size: u64) -> Result<(), String> {
    let (whole, marker) = match format {
        ImageFormat::Jpeg => {
            let scan = match jpeg_scan(head) {
                Some((scan, _)) => scan,
                None if head.len() as u64 >= size => return Err(inside_header(format, size)),
                None => head.len(),
            };
            // The marker that ends a thumbnail lies before the scan.
            let after = tail.len().min(size.saturating_sub(scan as u64) as usize);
            let end = &tail[tail.len() - after..];
            (contains_from_end(end, b"\xFF\xD9"), "FF D9")
        }
        ImageFormat::Png => (contains_from_end(tail, PNG_END), "IEND"),
        ImageFormat::Gif => {
            let last = tail.iter().rev().find(|byte| **byte != 0);
            (size > 13 && last == Some(&b';'), "3B")
        }
        ImageFormat::Webp => return check_length(size, u32_at(head, 4).map(|length| length + 8)),
        ImageFormat::Bmp => return check_length(size, u32_at(head, 2)),
        ImageFormat::Pnm => return check_length(size, pnm_length(head)),
        ImageFormat::Tiff => return Ok(()),
    };
    if whole {
        return Ok(());
    }
    Err(format!(
        "truncated: no end marker ({marker}) after the image data, {size} bytes"
    ))
}

fn contains_from_end(bytes: &[u8], marker: &[u8]) -> bool {
    bytes.ends_with(marker) || bytes.windows(marker.len()).rev().any(|w| w == marker)
}

fn check_length(size: u64, least: Option<u64>) -> Result<(), String> {
    match least {
        Some(least) if size < least => Err(format!(
            "truncated: {size} bytes, its header asks for {least}"
        )),
        _ => Ok(()),
    }
}

fn u32_at(head: &[u8], at: usize) -> Option<u64> {
    let bytes = head.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes).into())
}

/// Where the first scan's data starts, and the frame header from its marker on; `None` when the bytes end before.
///
/// A thumbnail lies inside a segment and is stepped over. As every decoder does, this passes over repeated FF (legal fill) and
/// stray bytes between segments (not legal, but cameras write them).
fn jpeg_scan(head: &[u8]) -> Option<(usize, &[u8])> {
    let (mut at, mut frame) = (2, &head[..0]);
    loop {
        let marker = match *head.get(at..at + 2)? {
            [0xFF, marker @ 1..=0xFE] => marker,
            _ => {
                at += 1;
                continue;
            }
        };
        at += 2;
        // These stand alone, without a length.
        if matches!(marker, 0x01 | 0xD0..=0xD9) {
            continue;
        }
        let length = head.get(at..at + 2)?;
        let end = at + usize::from(u16::from_be_bytes([length[0], length[1]]));
        match marker {
            0xDA => return Some((end, frame)),
            0xC4 | 0xC8 | 0xCC => {}
            0xC0..=0xCF if frame.is_empty() => frame = head.get(at - 1..end)?,
            _ => {}
        }
        at = end;
    }
}

/// Whether the decoder knows this kind of JPEG: 8-bit Huffman-coded grey, colour or CMYK, sampled by powers of two.
///
/// Its own errors do not tell an image it cannot handle from one that is damaged.
fn jpeg_is_decodable(frame: &[u8]) -> bool {
    match frame {
        [0xC0..=0xC2, _, _, 8, _, _, _, _, 1 | 3 | 4, components @ ..] => components
            .chunks_exact(3)
            .all(|component| (component[1] >> 4).is_power_of_two()),
        _ => false,
    }
}

/// The length of a PNM with raw pixels.
fn pnm_length(head: &[u8]) -> Option<u64> {
    let decoder = PnmDecoder::new(Cursor::new(head)).ok()?;
    let pixels = match decoder.subtype() {
        PnmSubtype::Bitmap(SampleEncoding::Binary) => {
            let (width, height) = decoder.dimensions();
            u64::from(width.div_ceil(8)) * u64::from(height)
        }
        PnmSubtype::Graymap(SampleEncoding::Binary)
        | PnmSubtype::Pixmap(SampleEncoding::Binary) => decoder.total_bytes(),
        _ => 0,
    };
    Some(decoder.into_inner().0.position().saturating_add(pixels))
}

/// Decodes every pixel and drops them.
fn decode(bytes: &[u8], info: ImageInfo, limit: u64) -> Result<(), String> {
    let format = info.format;
    match guarded(|| reader(bytes, format, limit).decode()) {
        Ok(_) | Err(ImageError::Unsupported(_)) => Ok(()),
        Err(ImageError::Limits(_)) => Err(format!(
            "does not decode within {} MiB, {}x{} pixels: use `--validate header`",
            limit >> 20,
            info.width,
            info.height
        )),
        Err(_)
            if format == ImageFormat::Jpeg
                && jpeg_scan(bytes).is_some_and(|(_, frame)| !jpeg_is_decodable(frame)) =>
        {
            Ok(())
        }
        Err(error) => Err(format!("does not decode: {error}")),
    }
}

fn reader(bytes: &[u8], format: ImageFormat, limit: u64) -> ImageReader<Cursor<&[u8]>> {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(limit);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), FORMATS[format as usize].2);
    reader.limits(limits);
    reader
}

/// A decoder that panics on one image must not end a run over millions.
fn guarded<T>(work: impl FnOnce() -> ImageResult<T> + UnwindSafe) -> ImageResult<T> {
    catch_unwind(work).unwrap_or_else(|_| {
        let panicked = std::io::Error::other("the decoder panicked");
        Err(ImageError::IoError(panicked))
    })
}

#[cfg(test)]
mod tests {
    use image::codecs::pnm::{PnmEncoder, PnmSubtype, SampleEncoding};
    use image::{DynamicImage, RgbImage};
    use proptest::prelude::*;

    use super::*;

    const WIDTH: u32 = 37;
    const HEIGHT: u32 = 23;
    const DECODE_BYTES: u64 = 512 << 20;

    fn all() -> [ImageFormat; 7] {
        FORMATS.map(|(format, ..)| format)
    }

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
            image
                .write_to(&mut bytes, FORMATS[format as usize].2)
                .unwrap();
        }
        bytes.into_inner()
    }

    fn encoded(format: ImageFormat) -> Vec<u8> {
        encode(&picture(WIDTH, HEIGHT), format)
    }

    fn info(bytes: &[u8], level: Validate) -> ImageInfo {
        probe(bytes, level, DECODE_BYTES).unwrap().unwrap()
    }

    fn error(bytes: &[u8]) -> String {
        probe(bytes, Validate::Header, DECODE_BYTES).unwrap_err()
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
        for format in all() {
            let expected = ImageInfo {
                format,
                width: WIDTH,
                height: HEIGHT,
            };
            let bytes = encoded(format);
            assert_eq!(info(&bytes, Validate::Header), expected);
            assert_eq!(info(&bytes, Validate::Decode), expected);
            assert_eq!(probe_ends(&bytes, &bytes, bytes.len() as u64), Ok(expected));
            assert_eq!(probe(&bytes, Validate::None, DECODE_BYTES), Ok(None));
        }
    }

    #[test]
    fn dimensions_agree_with_another_reader() {
        for format in all() {
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
        for format in all() {
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
                if format == Gif
                    && bytes[..cut].iter().rev().find(|byte| **byte != 0) == Some(&0x3B)
                {
                    continue;
                }
                assert!(
                    probe(&bytes[..cut], Validate::Header, DECODE_BYTES).is_err(),
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
                probe(&bytes[..cut], Validate::Header, DECODE_BYTES).is_err(),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn padding_after_the_end_is_accepted() {
        for format in all() {
            let mut bytes = encoded(format);
            bytes.resize(bytes.len() + 5000, 0);
            assert!(
                probe(&bytes, Validate::Decode, DECODE_BYTES).is_ok(),
                "{format:?}"
            );
        }
        let mut bytes = encoded(ImageFormat::Jpeg);
        bytes.extend(b"\r\nnot part of the image");
        assert!(probe(&bytes, Validate::Header, DECODE_BYTES).is_ok());
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
                reader(&bytes, ImageFormat::Jpeg, DECODE_BYTES)
                    .decode()
                    .map(drop)
                    .map_err(|e| e.to_string()),
                Ok(())
            );
            assert!(probe(&bytes, Validate::Decode, DECODE_BYTES).is_ok());
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
        assert!(probe(&png, Validate::Header, DECODE_BYTES).is_ok());
        let message = probe(&png, Validate::Decode, DECODE_BYTES).unwrap_err();
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
        let message = probe(&jpeg, Validate::Decode, DECODE_BYTES).unwrap_err();
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
            "pnm header: Format error decoding Pnm: Non-ASCII-digit character when parsing number in number in preamble"
        );
        assert!(error(b"P5 9999999999 1 255\n").starts_with("pnm header: "));
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
        for format in all() {
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
        for format in all() {
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
        proptest::sample::select(all().to_vec())
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(format in any_format(), kept in 0_usize..32, junk: Vec<u8>) {
            let bytes = [&encoded(format)[..kept], &junk].concat();
            let _ = probe(&bytes, Validate::Decode, DECODE_BYTES);
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
            let _ = probe(&bytes, Validate::Decode, DECODE_BYTES);
            let _ = probe_ends(&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..], size);
        }
    }
}
