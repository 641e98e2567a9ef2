//! What the machine keeps of a file in its page cache.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::Path;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::store::Dropped;

/// Asks the kernel to forget a file, which needs no privileges, and looks whether it did: a read that must not wait finds only what is in memory.
/// What is not on the disk yet cannot go.
pub(super) fn drop_cached(path: &Path) -> io::Result<Dropped> {
    let file = File::open(path)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut byte = [0];
    let read = preadv2(
        &file,
        &mut [IoSliceMut::new(&mut byte)],
        0,
        ReadWriteFlags::NOWAIT,
    );
    Ok(match read {
        Err(Errno::AGAIN) => Dropped::Gone,
        // A file without content has nothing to keep.
        Ok(0) => Dropped::Gone,
        Ok(_) => Dropped::Still,
        Err(_) => Dropped::Unknown,
    })
}
