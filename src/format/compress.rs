//! A shard's bytes on their way to and from the store: as they are, or through zstd or gzip. A layout knows nothing of it.
//!
//! Sources: RFC 8878 (zstd), RFC 1952 (gzip), zstd `contrib/seekable_format` 0.1.0. One thread and fixed parameters: the same
//! input gives the same bytes. One zstd frame says how long its content is and carries its checksum; of seekable ones each
//! begins and ends with a sample, or with a piece of a sample too large for one frame.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flate2::{GzBuilder, bufread::MultiGzDecoder, write::GzEncoder};
use zstd::stream::write::Encoder;

use crate::base::buffer::Pieces;
use crate::base::checksum::{Digest, SCAN_BYTES, Scanner, Sum};
use crate::base::error::{Error, Kind, Result};
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::format::{Body, Out, Spot};
use crate::model::recipe::Compression;
use crate::model::record::{FrameRecord, ShardRecord};
use crate::store::Sink;

/// A seekable frame ends before the sample that would bring it over this: small enough to be read for one sample, large enough
/// that small samples are compressed together.
const FRAME_BYTES: u64 = 256 << 10;
/// A seekable frame ends here even inside a sample, so that memory stays bounded.
const MAX_FRAME_BYTES: usize = 4 << 20;
/// How a gzip member with deflate in it begins, and a zstd frame.
const GZIP_MAGIC: [u8; 3] = [0x1F, 0x8B, 8];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// Magic number of the skippable frame that holds the seek table, and of its footer.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// Bytes of the skippable frame's header, of an entry and of the footer.
const TABLE_HEADER: usize = 8;
const TABLE_ENTRY: usize = 8;
const TABLE_FOOTER: usize = 9;
/// Most frames that a seek table may list.
const MAX_FRAMES: usize = 0x800_0000;
/// Largest window of a frame that is read, as a power of two: what the zstd tool takes without being asked for more.
const WINDOW_LOG_MAX: u32 = 27;

impl Compression {
    /// What it adds to a shard's file name.
    pub fn suffix(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Zstd { .. } => ".zst",
            Compression::Gzip { .. } => ".gz",
        }
    }

    /// Memory of one compressor or decompressor, in bytes; rounded up from what libzstd 1.5.7 says of its contexts.
    pub fn memory_bytes(self) -> u64 {
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
                        // The window of a second attempt, see `pipeline`.
                        false => STREAM_ABOVE_BYTES,
                    }
            }
        }
    }

    /// Whether a shard's length unpacked must be known before its first byte is written.
    pub fn pledges(self) -> bool {
        matches!(
            self,
            Compression::Zstd {
                seekable: false,
                ..
            }
        )
    }

    /// Length of `content` compressed, for estimates.
    pub fn try_on(self, content: &[u8]) -> Result<u64> {
        let bytes = content.len() as u64;
        let mut out = Compressor::new("estimate", Digest::new(io::sink(), false), self, bytes)?;
        out.write(content, None)?;
        out.finish().map(|packed| packed.sum.bytes)
    }
}

/// One independent frame of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    packed: u32,
    unpacked: u32,
}

/// The independent frames of a shard, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames(Vec<Frame>);

impl Frames {
    /// The frames that hold these bytes of the unpacked shard, for each of several ranges in ascending order.
    pub fn cover(&self, ranges: impl Iterator<Item = (u64, u64)>) -> Vec<FrameRecord> {
        let mut covers = Vec::new();
        let (mut at, mut offset, mut start) = (0, 0u64, 0u64);
        let unpacked = |frame: &Frame| u64::from(frame.unpacked);
        for (from, length) in ranges {
            while let Some(frame) = self.0.get(at)
                && start + unpacked(frame) <= from
            {
                offset += u64::from(frame.packed);
                start += unpacked(frame);
                at += 1;
            }
            let (mut packed, mut end) = (0, start);
            for frame in &self.0[at..] {
                packed += u64::from(frame.packed);
                end += unpacked(frame);
                if end >= from + length {
                    break;
                }
            }
            covers.push(FrameRecord {
                offset,
                length: packed,
                start,
            });
        }
        covers
    }

    /// The skippable frame that ends the shard.
    fn table(&self) -> Vec<u8> {
        let mut table = Vec::with_capacity(self.table_bytes());
        let body = self.table_bytes() - TABLE_HEADER;
        table.extend(SKIPPABLE_MAGIC.to_le_bytes());
        table.extend((body as u32).to_le_bytes());
        for frame in &self.0 {
            table.extend(frame.packed.to_le_bytes());
            table.extend(frame.unpacked.to_le_bytes());
        }
        table.extend((self.0.len() as u32).to_le_bytes());
        // No checksums here: each frame has its own.
        table.push(0);
        table.extend(SEEKABLE_MAGIC.to_le_bytes());
        table
    }

    fn table_bytes(&self) -> usize {
        TABLE_HEADER + self.0.len() * TABLE_ENTRY + TABLE_FOOTER
    }

    /// Length of the seek table that a shard's last bytes announce; `None` if they announce none.
    pub fn announced_bytes(tail: &[u8]) -> Option<u64> {
        let footer = tail.last_chunk::<TABLE_FOOTER>()?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| footer[at + i]));
        let (frames, descriptor, magic) = (number(0) as usize, footer[4], number(5));
        if magic != SEEKABLE_MAGIC || frames > MAX_FRAMES || descriptor & 0x7C != 0 {
            return None;
        }
        let entry = if descriptor & 0x80 != 0 {
            12
        } else {
            TABLE_ENTRY
        };
        Some((TABLE_HEADER + frames * entry + TABLE_FOOTER) as u64)
    }

    /// The seek table at the end of the shard `name` of this record and of `bytes` bytes, or what is wrong with it.
    pub fn read(
        sink: &dyn Sink,
        name: &str,
        bytes: u64,
        record: &ShardRecord,
    ) -> Result<Result<Self, String>> {
        // An entry a sample, and one for every cut inside of a sample, is the most that a table can have.
        let entries = record.samples.len() as u64 + (record.unpacked_bytes() >> 18);
        let longest = (64 + TABLE_ENTRY as u64 * entries).min(bytes);
        let tail = bytes.min(TABLE_FOOTER as u64);
        let tail = sink.range(name, bytes - tail, tail as usize)?;
        match Self::announced_bytes(&tail) {
            None => Ok(Err("the shard does not end in one".to_owned())),
            Some(length) if length > longest => Ok(Err(format!(
                "its length is {length}, at most {longest} are possible"
            ))),
            Some(length) => {
                let table = sink.range(name, bytes - length, length as usize)?;
                Ok(Self::parse(&table))
            }
        }
    }

    /// Enters into a record which frames hold its samples.
    pub fn enter(&self, record: &mut ShardRecord) {
        let ranges = record.samples.iter().map(|row| (row.offset, row.length));
        let covers = self.cover(ranges);
        for (row, cover) in record.samples.iter_mut().zip(covers) {
            row.frame = Some(cover);
        }
    }

    /// Reads a seek table, which is all of `table`; says what is wrong with it.
    pub fn parse(table: &[u8]) -> Result<Self, String> {
        let number = |at: usize| {
            let bytes = table.get(at..at + 4)?;
            Some(u32::from_le_bytes(std::array::from_fn(|i| bytes[i])))
        };
        if Self::announced_bytes(table) != Some(table.len() as u64) {
            return Err("no footer of a seek table".to_owned());
        }
        if number(0) != Some(SKIPPABLE_MAGIC)
            || number(4) != Some((table.len() - TABLE_HEADER) as u32)
        {
            return Err("no header of a seek table".to_owned());
        }
        let entry = match table[table.len() - 5] & 0x80 {
            0 => TABLE_ENTRY,
            _ => TABLE_ENTRY + 4,
        };
        let entries = &table[TABLE_HEADER..table.len() - TABLE_FOOTER];
        let frames = entries.chunks_exact(entry).map(|entry| {
            let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
            Frame {
                packed: number(0),
                unpacked: number(4),
            }
        });
        Ok(Self(frames.collect()))
    }

    /// Bytes of all frames, with the table, and of what they hold.
    pub fn totals(&self) -> (u64, u64) {
        let sum = |of: fn(&Frame) -> u32| self.0.iter().map(|f| u64::from(of(f))).sum::<u64>();
        let table = self.table_bytes() as u64;
        (sum(|f| f.packed) + table, sum(|f| f.unpacked))
    }
}

/// Writes independent frames.
struct Seekable<W: Write> {
    out: Digest<W>,
    frame: Vec<u8>,
    compressor: zstd::bulk::Compressor<'static>,
    frames: Frames,
}

impl<W: Write> Seekable<W> {
    fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let n = data.len().min(MAX_FRAME_BYTES - self.frame.len());
            self.frame.extend_from_slice(&data[..n]);
            data = &data[n..];
            if self.frame.len() == MAX_FRAME_BYTES {
                self.end_frame()?;
            }
        }
        Ok(())
    }

    fn end_frame(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let packed = self.compressor.compress(&self.frame)?;
        self.out.write_all(&packed)?;
        // Both are a few MiB at most.
        self.frames.0.push(Frame {
            packed: packed.len() as u32,
            unpacked: self.frame.len() as u32,
        });
        self.frame.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<(Digest<W>, Frames)> {
        self.end_frame()?;
        self.out.write_all(&self.frames.table())?;
        Ok((self.out, self.frames))
    }
}

enum Inner<W: Write> {
    Plain(Digest<W>),
    Zstd(Encoder<'static, Digest<W>>),
    Gzip(GzEncoder<Digest<W>>),
    Seekable(Seekable<W>),
}

/// What a packer writes to: it compresses, counts and checksums what passes.
pub struct Compressor<W: Write> {
    name: String,
    inner: Inner<W>,
    position: u64,
    /// Length that was promised, where the first bytes say it.
    pledged: Option<u64>,
}

/// What a [`Compressor`] made.
pub struct Packed<W> {
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
    pub fn new(name: &str, out: Digest<W>, compression: Compression, bytes: u64) -> Result<Self> {
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
            } => zstd::bulk::Compressor::new(level).and_then(|mut compressor| {
                compressor.include_checksum(true)?;
                Ok(Inner::Seekable(Seekable {
                    out,
                    frame: Vec::new(),
                    compressor,
                    frames: Frames::default(),
                }))
            }),
        };
        Ok(Self {
            name: name.to_owned(),
            inner: inner.map_err(|error| Error::io(name, error))?,
            position: 0,
            pledged: compression.pledges().then_some(bytes),
        })
    }

    /// Says that a sample of about so many bytes begins here.
    pub fn begin_sample(&mut self, bytes: u64) -> Result<()> {
        match &mut self.inner {
            Inner::Seekable(frames) if frames.frame.len() as u64 + bytes > FRAME_BYTES => frames
                .end_frame()
                .map_err(|error| Error::io(&self.name, error)),
            _ => Ok(()),
        }
    }

    /// Says that a sample begins here that is known to begin an independent frame: in a shard that is made again from its record.
    pub fn begin_frame(&mut self) -> Result<()> {
        match &mut self.inner {
            Inner::Seekable(frames) => frames
                .end_frame()
                .map_err(|error| Error::io(&self.name, error)),
            _ => Ok(()),
        }
    }

    /// Whether the shard turned out to be of another length than its first bytes say: it must be packed again, as
    /// [`Out::position`] bytes.
    pub fn broke_pledge(&self) -> bool {
        self.pledged.is_some_and(|bytes| bytes != self.position)
    }

    /// Ends the shard.
    pub fn finish(self) -> Result<Packed<W>> {
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

    fn stream(
        &mut self,
        pieces: &mut dyn Pieces,
        size: u64,
        pass: &mut dyn FnMut(&[u8]),
    ) -> Result<u32> {
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
                // What a compressor makes of it must not depend on how it was read.
                _ => piece
                    .chunks(SCAN_BYTES)
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

/// A shard as it lies in the store: counted and checksummed however far a decompressor reads it, and whether reading it failed, which
/// is no damage.
#[derive(Clone)]
pub struct Raw<'a>(Arc<Mutex<(Scanner<'a>, bool)>>);

impl<'a> Raw<'a> {
    /// Starts at the beginning of `inner`.
    pub fn new(inner: impl Read + Send + 'a) -> Self {
        Self(Arc::new(Mutex::new((Scanner::new(inner), false))))
    }

    fn lock(&self) -> MutexGuard<'_, (Scanner<'a>, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store failed to give it.
    pub fn failed(&self) -> bool {
        self.lock().1
    }

    /// Reads to the end; gives the length and CRC-32 of all of it.
    pub fn drain(&self) -> io::Result<(u64, u32)> {
        self.lock().0.drain()
    }
}

impl Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.lock();
        let read = state.0.read(buffer);
        state.1 |= read.is_err();
        read
    }
}

/// The compression whose files begin so, in its usual setting.
pub fn packed_as(head: &[u8]) -> Option<Compression> {
    let gzip = head.starts_with(&GZIP_MAGIC);
    let zstd = head.starts_with(&ZSTD_MAGIC);
    let seekable = false;
    match (gzip, zstd) {
        (true, _) => Some(Compression::Gzip { level: 6 }),
        (_, true) => Some(Compression::Zstd { level: 3, seekable }),
        _ => None,
    }
}

/// Unpacks a shard. More than `bytes` bytes are never given: what a manifest does not announce is read as one byte too many.
pub fn unpack<'a>(
    compression: Compression,
    packed: impl Read + Send + 'a,
    bytes: u64,
) -> Result<Box<dyn Read + Send + 'a>> {
    let most = bytes.saturating_add(1);
    let buffered = io::BufReader::with_capacity(SCAN_BYTES, packed);
    Ok(match compression {
        Compression::None => Box::new(buffered.into_inner()),
        Compression::Gzip { .. } => Box::new(MultiGzDecoder::new(buffered).take(most)),
        Compression::Zstd { .. } => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered)
                .map_err(|error| Error::io("zstd", error))?;
            decoder
                .window_log_max(WINDOW_LOG_MAX)
                .map_err(|error| Error::io("zstd", error))?;
            Box::new(decoder.take(most))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::text::hex;
    use proptest::prelude::*;

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
    fn the_published_seek_table_comes_out_byte_for_byte() {
        let frame = |packed, unpacked| Frame { packed, unpacked };
        let frames = Frames(vec![frame(30, 1000), frame(25, 600)]);
        let table = frames.table();
        let expected = "5e2a4d18190000001e000000e803000019000000580200000200000000b1ea928f";
        assert_eq!(hex(&table), expected);
        assert_eq!(Frames::announced_bytes(&table), Some(33));
        assert_eq!(Frames::parse(&table), Ok(frames.clone()));
        let covers = frames.cover([(0, 400), (400, 700), (1100, 500)].into_iter());
        let all: Vec<_> = covers
            .iter()
            .map(|c| (c.offset, c.length, c.start))
            .collect();
        assert_eq!(all, [(0, 30, 0), (0, 55, 0), (30, 25, 1000)]);
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
