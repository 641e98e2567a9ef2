//! Archives that are packed as a whole and too large to be unpacked in memory, and frames of such: unpacked forwards, and gone on with where a read
//! before ended.
//!
//! Whoever reads in the order of the archive unpacks it once. Whoever goes back begins at its first byte again: there is no other way.

use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flate2::bufread::MultiGzDecoder;

use super::compressed::WINDOW_LOG_MAX;
use super::inflate::{Parts, unpacked};
use crate::base::buffer::Buffer;
use crate::base::error::{Error, Kind, Result};
use crate::model::extent::Method;
use crate::model::sample::Field;
use crate::store::Source;

/// Unpackers that wait to be gone on with at most: several shards are read at once, and some reads come too late for theirs.
const KEPT: usize = 8;

/// What is unpacked: so many bytes of a file, how, and for whom errors are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) archive: Field,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) method: Method,
    /// Kind of the error where it cannot be unpacked.
    pub(super) damage: Kind,
}

/// One that unpacks, and how far it has got in what is unpacked.
struct Unpacker {
    packed: Packed,
    reader: Box<dyn Read + Send>,
    at: u64,
}

/// Those that wait to be gone on with.
#[derive(Default)]
pub(super) struct Forward(Mutex<Vec<Unpacker>>);

impl Forward {
    fn lock(&self) -> MutexGuard<'_, Vec<Unpacker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many bytes from `offset` of what is unpacked.
    pub(super) fn read(
        &self,
        source: &Arc<dyn Source>,
        packed: &Packed,
        offset: u64,
        length: u64,
    ) -> Result<Buffer> {
        let mut unpacker = match self.take(packed, offset) {
            Some(unpacker) => unpacker,
            None => {
                Unpacker::new(source, packed).map_err(|error| unpacked(error, packed.damage))?
            }
        };
        let buffer = unpacker
            .fill(offset, length)
            .map_err(|error| unpacked(error, packed.damage))?;
        let mut kept = self.lock();
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(unpacker);
        Ok(buffer)
    }

    /// The one that has got furthest of those that have not passed `offset`.
    fn take(&self, packed: &Packed, offset: u64) -> Option<Unpacker> {
        let mut kept = self.lock();
        let fits = |known: &Unpacker| known.at <= offset && known.packed == *packed;
        let fitting = kept.iter().enumerate().filter(|(_, known)| fits(known));
        let (number, _) = fitting.max_by_key(|(_, known)| known.at)?;
        Some(kept.remove(number))
    }
}

impl Unpacker {
    fn new(source: &Arc<dyn Source>, packed: &Packed) -> io::Result<Self> {
        let parts = Parts::new(
            Arc::clone(source),
            packed.archive.clone(),
            packed.begin,
            packed.end,
        );
        let parts = BufReader::new(parts);
        let reader: Box<dyn Read + Send> = match packed.method {
            Method::GzipStream => Box::new(MultiGzDecoder::new(parts)),
            _ => {
                let mut unpacker = zstd::stream::Decoder::with_buffer(parts)?;
                unpacker.window_log_max(WINDOW_LOG_MAX)?;
                Box::new(unpacker)
            }
        };
        Ok(Self {
            packed: packed.clone(),
            reader,
            at: 0,
        })
    }

    fn fill(&mut self, offset: u64, length: u64) -> io::Result<Buffer> {
        let length = usize::try_from(length)
            .map_err(|_| io::Error::other(Error::failed("too large to hold")))?;
        let passed = offset - self.at;
        let gone = io::copy(&mut (&mut self.reader).take(passed), &mut io::sink())?;
        if gone < passed {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut buffer = Buffer::default();
        self.reader.read_exact(buffer.room(length))?;
        buffer.sum();
        self.at = offset + length as u64;
        Ok(buffer)
    }
}
