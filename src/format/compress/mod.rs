//! A shard's bytes on their way to and from the store: as they are, or through zstd or gzip. A layout knows nothing of it.
//!
//! Sources: RFC 8878 (zstd), RFC 1952 (gzip). One thread and fixed parameters: the same input gives the same bytes. One zstd frame says how
//! long its content is and carries its checksum; of seekable ones each begins and ends with a sample, or with a piece of a sample too large
//! for one frame.

mod frames;
mod seekable;
mod unpack;

use std::io::{self, Write};

use flate2::GzBuilder;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder;

use crate::base::buffer::Pieces;
use crate::base::checksum::{Digest, SCAN_BYTES, Sum};
use crate::base::error::{Error, Kind, Result};
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::format::compress::seekable::{MAX_FRAME_BYTES, Seekable};
use crate::format::{Body, Out, Spot};
use crate::model::recipe::Compression;

pub(crate) use crate::format::compress::frames::Frames;
pub(crate) use crate::format::compress::unpack::{Raw, packed_as, unpack};

/// A seekable frame ends before the sample that would bring it over this: small enough to be read for one sample, large enough
/// that small samples are compressed together.
const FRAME_BYTES: u64 = 256 << 10;

/// Where a compressor writes, by its compression.
enum Inner<W: Write> {
    Plain(Digest<W>),
    Zstd(Encoder<'static, Digest<W>>),
    Gzip(GzEncoder<Digest<W>>),
    Seekable(Seekable<W>),
}

/// What a packer writes to: it compresses, counts and checksums what passes.
pub(crate) struct Compressor<W: Write> {
    name: String,
    inner: Inner<W>,
    position: u64,
    /// Length that was promised, where the first bytes say it.
    pledged: Option<u64>,
}

/// What a [`Compressor`] made.
pub(crate) struct Packed<W> {
    /// What it wrote to.
    pub inner: W,
    /// Length and checksums of what was written.
    pub sum: Sum,
    /// Length of what was packed.
    pub unpacked_bytes: u64,
    /// The frames that can be read on their own, if there are such.
    pub frames: Option<Frames>,
}

impl<W: Write> Compressor<W> {
    /// Packs the shard `name` of `bytes` bytes into `out`.
    pub(crate) fn new(
        name: &str,
        out: Digest<W>,
        compression: Compression,
        bytes: u64,
    ) -> Result<Self> {
        let inner = match compression {
            Compression::None => Ok(Inner::Plain(out)),
            Compression::Gzip { level } => Ok(Inner::Gzip(
                // No time and no operating system.
                GzBuilder::new()
                    .mtime(0)
                    .operating_system(255)
                    .write(out, flate2::Compression::new(level)),
            )),
            Compression::Zstd {
                level,
                seekable: false,
            } => one_frame(out, level, bytes),
            Compression::Zstd {
                level,
                seekable: true,
            } => Seekable::new(out, level).map(Inner::Seekable),
        };
        Ok(Self {
            name: name.to_owned(),
            inner: inner.map_err(|error| Error::io(name, error))?,
            position: 0,
            pledged: compression.pledges().then_some(bytes),
        })
    }

    /// Says that a sample of about so many bytes begins here.
    pub(crate) fn begin_sample(&mut self, bytes: u64) -> Result<()> {
        match &mut self.inner {
            Inner::Seekable(frames) if frames.waiting_bytes() as u64 + bytes > FRAME_BYTES => {
                frames
                    .end_frame()
                    .map_err(|error| Error::io(&self.name, error))
            }
            _ => Ok(()),
        }
    }

    /// Says that a sample begins here that is known to begin an independent frame: in a shard that is made again from its record.
    pub(crate) fn begin_frame(&mut self) -> Result<()> {
        match &mut self.inner {
            Inner::Seekable(frames) => frames
                .end_frame()
                .map_err(|error| Error::io(&self.name, error)),
            _ => Ok(()),
        }
    }

    /// Whether the shard turned out to be of another length than its first bytes say: it must be packed again, as
    /// [`Out::position`] bytes.
    pub(crate) fn broke_pledge(&self) -> bool {
        self.pledged.is_some_and(|bytes| bytes != self.position)
    }

    /// Ends the shard.
    pub(crate) fn finish(self) -> Result<Packed<W>> {
        let (out, frames) = match self.inner {
            Inner::Plain(out) => Ok((out, None)),
            Inner::Zstd(encoder) => encoder.finish().map(|out| (out, None)),
            Inner::Gzip(encoder) => encoder.finish().map(|out| (out, None)),
            Inner::Seekable(frames) => frames.finish().map(|(out, frames)| (out, Some(frames))),
        }
        .map_err(|error| Error::io(&self.name, error))?;
        let (inner, sum) = out.finish();
        Ok(Packed {
            inner,
            sum,
            unpacked_bytes: self.position,
            frames,
        })
    }

    fn write(&mut self, data: &[u8], crc32: Option<u32>) -> Result<()> {
        self.position += data.len() as u64;
        match (&mut self.inner, crc32) {
            // Only counted from here on.
            _ if self.pledged.is_some_and(|bytes| self.position > bytes) => Ok(()),
            (Inner::Plain(out), Some(crc32)) => out.write_summed(data, crc32),
            (Inner::Plain(out), None) => out.write_all(data),
            (Inner::Zstd(encoder), _) => encoder.write_all(data),
            (Inner::Gzip(encoder), _) => encoder.write_all(data),
            (Inner::Seekable(frames), _) => frames.write(data),
        }
        .map_err(|error| Error::io(&self.name, error))
    }

    /// Writes a content piece by piece; gives its CRC-32.
    fn stream(
        &mut self,
        pieces: &mut dyn Pieces,
        size: u64,
        pass: &mut dyn FnMut(&[u8]),
    ) -> Result<u32> {
        // What a compressor makes of a content must not depend on how it was read: small ones always come whole, as packers hold them.
        let cut = match size > STREAM_ABOVE_BYTES {
            true => SCAN_BYTES,
            false => usize::MAX,
        };
        let mut whole = crc32fast::Hasher::new();
        let mut read = 0;
        while let Some(piece) = pieces.next_piece()? {
            let length = piece.len() as u64;
            read += length;
            if read > size {
                break;
            }
            whole.combine(&crc32fast::Hasher::new_with_initial_len(
                piece.crc32,
                length,
            ));
            match &self.inner {
                Inner::Plain(_) => self.write(piece, Some(piece.crc32))?,
                _ => piece
                    .chunks(cut)
                    .try_for_each(|chunk| self.write(chunk, None))?,
            }
            pass(piece);
        }
        match read == size {
            true => Ok(whole.finalize()),
            false => Err(Error::new(
                Kind::Source,
                format!("{read} bytes instead of {size}: the data changed, make a new plan"),
            )),
        }
    }
}

/// A shard of one zstd frame, which says that it holds `bytes` bytes.
fn one_frame<W: Write>(out: Digest<W>, level: i32, bytes: u64) -> io::Result<Inner<W>> {
    let mut encoder = Encoder::new(out, level)?;
    encoder.include_checksum(true)?;
    encoder.include_contentsize(true)?;
    encoder.set_pledged_src_size(Some(bytes))?;
    Ok(Inner::Zstd(encoder))
}

impl<W: Write> Out for Compressor<W> {
    fn frame(&mut self, _: Spot<'_>, bytes: &[u8]) -> Result<()> {
        self.write(bytes, None)
    }

    fn content(
        &mut self,
        _: Spot<'_>,
        body: &mut Body<'_>,
        pass: &mut dyn FnMut(&[u8]),
    ) -> Result<u32> {
        match body {
            Body::Bytes { bytes, crc32 } => {
                self.write(bytes, Some(*crc32))?;
                pass(bytes);
                Ok(*crc32)
            }
            Body::Stream { pieces, size } => self.stream(*pieces, *size, pass),
            Body::Recorded { .. } => Err(Error::failed("a content that nobody read")),
        }
    }

    fn position(&self) -> u64 {
        self.position
    }
}

/// What compressing costs and saves.
pub(crate) trait CompressionCost {
    /// Memory of one compressor or decompressor, in bytes; rounded up from what libzstd 1.5.7 says of its contexts.
    fn memory_bytes(self) -> u64;
    /// Length of `content` compressed, in bytes, for estimates.
    fn try_on(self, content: &[u8]) -> Result<u64>;
}

impl CompressionCost for Compression {
    fn memory_bytes(self) -> u64 {
        let mib = |n: u64| n << 20;
        match self {
            Compression::None => 0,
            Compression::Gzip { .. } => mib(1),
            Compression::Zstd { level, seekable } => {
                let context = match level {
                    ..=4 => 8,
                    5..=8 => 20,
                    9..=12 => 48,
                    13..=15 => 72,
                    _ => 112,
                };
                mib(context)
                    + match seekable {
                        // A frame before and after.
                        true => 2 * MAX_FRAME_BYTES as u64,
                        // The window for packing the shard a second time, where its length was not the promised one.
                        false => STREAM_ABOVE_BYTES,
                    }
            }
        }
    }

    fn try_on(self, content: &[u8]) -> Result<u64> {
        let bytes = content.len() as u64;
        let mut out = Compressor::new("estimate", Digest::new(io::sink(), false), self, bytes)?;
        out.write(content, None)?;
        out.finish().map(|packed| packed.sum.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;
    use crate::format::compress::frames::Frame;

    const ALL: [Compression; 4] = [
        Compression::None,
        Compression::Zstd {
            level: 3,
            seekable: false,
        },
        Compression::Zstd {
            level: 3,
            seekable: true,
        },
        Compression::Gzip { level: 6 },
    ];

    fn pack(compression: Compression, samples: &[Vec<u8>], pledged: u64) -> Packed<Vec<u8>> {
        let mut out =
            Compressor::new("x", Digest::new(Vec::new(), false), compression, pledged).unwrap();
        for sample in samples {
            out.begin_sample(sample.len() as u64).unwrap();
            out.write(sample, None).unwrap();
        }
        assert!(!out.broke_pledge());
        out.finish().unwrap()
    }

    fn unpacked(compression: Compression, packed: &[u8], bytes: u64) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        unpack(compression, packed, bytes)
            .unwrap()
            .read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn one_frame_says_its_length_and_carries_a_checksum() {
        let packed = pack(ALL[1], &[b"hello ".to_vec(), vec![b'x'; 5000]], 5006).inner;
        // RFC 8878, 3.1.1.1: content size of two bytes, one segment or not, checksum flag.
        assert_eq!(packed[..4], [0x28, 0xB5, 0x2F, 0xFD]);
        assert_eq!((packed[4] >> 6, packed[4] & 4), (1, 4));
        assert_eq!(
            zstd::zstd_safe::get_frame_content_size(&packed).unwrap(),
            Some(5006)
        );
    }

    #[test]
    fn a_broken_pledge_is_told_with_the_true_length() {
        for (pledged, length) in [(10, 20), (20, 10)] {
            let digest = Digest::new(Vec::new(), false);
            let mut out = Compressor::new("x", digest, ALL[1], pledged).unwrap();
            out.write(&vec![0; length], None).unwrap();
            assert!(out.broke_pledge());
            assert_eq!(out.position(), length as u64);
        }
    }

    #[test]
    fn a_compressor_holds_what_it_says_at_every_level() {
        use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective};
        let input = vec![7; 1 << 20];
        for level in 1..=19 {
            let mut context = CCtx::create();
            context
                .set_parameter(CParameter::CompressionLevel(level))
                .unwrap();
            context.set_pledged_src_size(Some(1 << 30)).unwrap();
            let mut packed = vec![0; 2 << 20];
            let mut out = OutBuffer::around(&mut packed);
            let mut bytes = InBuffer::around(&input);
            context
                .compress_stream2(&mut out, &mut bytes, ZSTD_EndDirective::ZSTD_e_continue)
                .unwrap();
            let said = Compression::Zstd {
                level,
                seekable: false,
            }
            .memory_bytes();
            assert!(
                context.sizeof() as u64 <= said,
                "level {level}: {} of {said}",
                context.sizeof()
            );
        }
    }

    #[test]
    fn a_bomb_gives_one_byte_more_than_was_announced() {
        for compression in &ALL[1..] {
            let packed = pack(*compression, &[vec![0; 1 << 20]], 1 << 20).inner;
            assert!(packed.len() < 10_000);
            assert_eq!(unpacked(*compression, &packed, 1000).unwrap().len(), 1001);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_was_packed_is_unpacked_and_each_frame_alone_too(
            samples in proptest::collection::vec((any::<u8>(), 0usize..300_000), 1..8)
        ) {
            let samples: Vec<Vec<u8>> = samples.iter().map(|&(seed, n)| (0..n).map(|i| (i as u8) ^ seed).collect()).collect();
            let whole = samples.concat();
            for compression in ALL {
                let packed = pack(compression, &samples, whole.len() as u64);
                prop_assert_eq!(&unpacked(compression, &packed.inner, whole.len() as u64).unwrap(), &whole);
                prop_assert_eq!(packed.unpacked_bytes, whole.len() as u64);
                let again = pack(compression, &samples, whole.len() as u64);
                prop_assert_eq!(&again.inner, &packed.inner);
                let Some(frames) = packed.frames else { continue };
                prop_assert_eq!(frames.totals(), (packed.inner.len() as u64, whole.len() as u64));
                let mut at = 0u64;
                let ranges: Vec<_> = samples.iter().map(|s| { at += s.len() as u64; (at - s.len() as u64, s.len() as u64) }).collect();
                for ((from, length), cover) in ranges.iter().zip(frames.cover(ranges.iter().copied())) {
                    let some = &packed.inner[cover.offset as usize..(cover.offset + cover.length) as usize];
                    let held = unpacked(compression, some, u64::MAX - 1).unwrap();
                    let skip = (from - cover.start) as usize;
                    prop_assert_eq!(&held[skip..skip + *length as usize], &whole[*from as usize..(from + length) as usize]);
                }
            }
        }

        #[test]
        fn hostile_tables_and_streams_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), flip in any::<usize>()) {
            let _ = Frames::parse(&bytes);
            let mut table = Frames(vec![Frame { packed: 7, unpacked: 9 }; 5]).table();
            let at = flip % table.len();
            table[at] ^= 1 << (flip % 8);
            if let Ok(frames) = Frames::parse(&table) {
                frames.cover([(0, u64::MAX), (u64::MAX, 0)].into_iter());
            }
            for compression in ALL {
                let _ = unpacked(compression, &bytes, 1000);
            }
        }
    }
}
