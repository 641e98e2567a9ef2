//! A shard that is written to a file, gathered into large writes.

use std::io::{self, IoSlice, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;

use rustix::fs::{Advice, fadvise};

use crate::base::error::{Error, Result};
use crate::store::ShardWriter;
use crate::store::local::destination::Destination;
use crate::store::local::temporary::Temporary;

/// Written bytes after which the disk is set to work, so that the fsync at the end finds little to do.
const WRITE_BACK_BYTES: u64 = 16 << 20;
/// Small writes are gathered up to here; larger ones go out with them in one call, uncopied.
const GATHER_BYTES: usize = 8 * 1024;

/// A shard being written.
pub(super) struct LocalShard {
    destination: Destination,
    /// Its name, for messages.
    label: String,
    path: PathBuf,
    temporary: Temporary,
    gathered: Vec<u8>,
    written: u64,
    /// Bytes the disk was already told to take.
    begun: u64,
}

impl LocalShard {
    /// Opens a temporary file for the shard of this name.
    pub(super) fn create(destination: &Destination, name: &str) -> Result<Self> {
        let path = destination.path(name)?;
        let label = destination.label(name);
        let temporary = destination
            .temporary(&path)
            .map_err(|error| Error::io(label.clone(), error))?;
        Ok(Self {
            destination: destination.clone(),
            label,
            path,
            temporary,
            gathered: Vec::with_capacity(GATHER_BYTES),
            written: 0,
            begun: 0,
        })
    }

    /// Sets the disk to work on what was written since the last time. Linux starts writing dirty pages when told that they are
    /// not needed, and keeps them, because they are dirty; elsewhere it is a hint without effect.
    fn begin_write_back(&mut self) {
        let new = self.written - self.begun;
        if self.destination.fsync && new >= WRITE_BACK_BYTES {
            let length = NonZeroU64::new(new);
            let _ = fadvise(&self.temporary.file, self.begun, length, Advice::DontNeed);
            self.begun = self.written;
        }
    }
}

impl Write for LocalShard {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_all(data)?;
        Ok(data.len())
    }

    fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        if self.gathered.len() + data.len() <= GATHER_BYTES {
            self.gathered.extend_from_slice(data);
            return Ok(());
        }
        self.written += (self.gathered.len() + data.len()) as u64;
        let mut slices = [IoSlice::new(&self.gathered), IoSlice::new(data)];
        let mut slices = slices.as_mut_slice();
        while !slices.is_empty() {
            let Temporary { path, file, .. } = &mut self.temporary;
            let write = || file.write_vectored(slices);
            match self.destination.steps.take("write", path, write) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut slices, n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.gathered.clear();
        self.begin_write_back();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        let Temporary { path, file, .. } = &mut self.temporary;
        let write = || file.write_all(&gathered);
        self.destination.steps.take("write", path, write)
    }
}

impl ShardWriter for LocalShard {
    fn commit(mut self: Box<Self>, _crc32: u32) -> Result<()> {
        let label = self.label.clone();
        let done = self.flush().and_then(|()| {
            let Self {
                destination,
                path,
                temporary,
                ..
            } = *self;
            destination.sync(&temporary)?;
            destination.rename(temporary, &path)
        });
        done.map_err(|error| Error::io(label, error))
    }
}
