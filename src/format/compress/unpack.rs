//! A shard's bytes on their way from the store: counted, checksummed and decompressed.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flate2::bufread::MultiGzDecoder;

use crate::base::checksum::{SCAN_BYTES, Scanner};
use crate::base::error::{Error, Result};
use crate::model::recipe::Compression;

/// Largest window of a frame that is read, as a power of two: what the zstd tool takes without being asked for more.
const WINDOW_LOG_MAX: u32 = 27;

/// How a gzip member with deflate in it begins, and a zstd frame.
const GZIP_MAGIC: [u8; 3] = [0x1F, 0x8B, 8];

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// A shard as it lies in the store: counted and checksummed however far a decompressor reads it, and whether reading it failed, which
/// is no damage.
#[derive(Clone)]
pub(crate) struct Raw<'a>(Arc<Mutex<RawState<'a>>>);

struct RawState<'a> {
    scanner: Scanner<'a>,
    /// Whether a read failed.
    failed: bool,
}

impl<'a> Raw<'a> {
    /// Starts at the beginning of `inner`.
    pub(crate) fn new(inner: impl Read + Send + 'a) -> Self {
        Self(Arc::new(Mutex::new(RawState {
            scanner: Scanner::new(inner),
            failed: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, RawState<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store failed to give it.
    pub(crate) fn failed(&self) -> bool {
        self.lock().failed
    }

    /// Reads to the end; gives the length and CRC-32 of all of it.
    pub(crate) fn drain(&self) -> io::Result<(u64, u32)> {
        self.lock().scanner.drain()
    }
}

impl Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.lock();
        let read = state.scanner.read(buffer);
        state.failed |= read.is_err();
        read
    }
}

/// The compression whose files begin so, in its usual setting.
pub(crate) fn packed_as(head: &[u8]) -> Option<Compression> {
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
pub(crate) fn unpack<'a>(
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
