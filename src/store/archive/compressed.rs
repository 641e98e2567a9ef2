//! Small tars that are packed as a whole: unpacked in memory, the last one is kept.
//!
//! Nothing in them can be found without unpacking all before it, and each member on its own would unpack the same again. So one archive at a
//! time is held, by all who read from it; whoever reads a member counts with all of it.

use std::io::{BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::bufread::MultiGzDecoder;

use super::inflate::{Parts, unpacked};
use super::{COMPRESSED_BYTES, UNPACKED_BYTES};
use crate::base::error::{Error, Kind, Result};
use crate::model::extent::Method;
use crate::model::sample::Field;
use crate::store::Source;

/// Largest window of a zstd frame that is read, as a power of two.
pub(super) const WINDOW_LOG_MAX: u32 = 25;

/// The archive that was unpacked last.
#[derive(Default)]
pub(super) struct Unpacked(Mutex<Option<(Field, Vec<u8>)>>);

impl Unpacked {
    /// What `read` makes of the content of an archive; `damage` is the kind of the error where it cannot be unpacked. Others wait meanwhile: two contents at once would be twice the memory.
    pub(super) fn with<T>(
        &self,
        source: &Arc<dyn Source>,
        archive: &Field,
        (method, damage): (Method, Kind),
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = last.take().filter(|(field, _)| field == archive);
        let content = match held {
            Some((_, content)) => content,
            None => unpack(source, archive, method, damage)?,
        };
        let made = read(&content);
        *last = Some((archive.clone(), content));
        Ok(made)
    }
}

/// Refuses one that is too large to be unpacked in memory.
pub(super) fn check_size(bytes: u64) -> Result<(), String> {
    match bytes <= COMPRESSED_BYTES {
        true => Ok(()),
        false => Err(format!(
            "{bytes} bytes, and a compressed tar is read up to {COMPRESSED_BYTES}: nothing in it can be found without unpacking all before it; unpack it to a plain `.tar`"
        )),
    }
}

fn unpack(
    source: &Arc<dyn Source>,
    archive: &Field,
    method: Method,
    damage: Kind,
) -> Result<Vec<u8>> {
    check_size(archive.size)
        .map_err(|what| Error::source_data(format!("{}: {what}", archive.path)))?;
    let packed = Parts::new(Arc::clone(source), archive.clone(), 0, archive.size);
    let mut content = Vec::new();
    let read = match method {
        Method::Zstd => {
            zstd::stream::Decoder::with_buffer(BufReader::new(packed)).and_then(|mut unpacker| {
                unpacker.window_log_max(WINDOW_LOG_MAX)?;
                unpacker.take(UNPACKED_BYTES + 1).read_to_end(&mut content)
            })
        }
        _ => {
            let unpacker = MultiGzDecoder::new(BufReader::new(packed));
            unpacker.take(UNPACKED_BYTES + 1).read_to_end(&mut content)
        }
    };
    read.map_err(|error| unpacked(error, damage).within(&archive.path))?;
    match content.len() as u64 <= UNPACKED_BYTES {
        true => Ok(content),
        false => Err(Error::source_data(format!(
            "{}: unpacks to more than {UNPACKED_BYTES} bytes: unpack it to a plain `.tar`",
            archive.path
        ))),
    }
}
