//! An archive seen as a directory: one decorator over any store.
//!
//! A source that has tars and zips comes in, and one goes out whose listing has their members as files. Headers are read when the source is
//! listed, contents never; what is found of a member makes reading it one range read of the file that is opened, through the inner store's own
//! machinery. What an image or a class is, nobody here knows.
//!
//! Paths are counted as if everything had been unpacked: `train.tar` stands for the directory `train`. They are opened, and told, with a `!` after
//! the name of each archive: `train.tar!/n01440764.tar!/n01440764_10026.JPEG`. Of a source that is an archive itself the members lie at the root.

mod compressed;
mod entries;
mod forward;
mod header;
mod inflate;
mod left_out;
mod list;
mod read;
mod source;
mod tar;
mod together;
mod walks;
mod window;
mod zip;

use crate::base::error::{Error, Result};
use crate::model::sample::{FilePath, archive_stem};
use crate::store::{Access, Source};

pub(crate) use left_out::LeftOut;
use source::ArchiveSource;

/// Largest compressed tar that is read: it is unpacked in memory.
const COMPRESSED_BYTES: u64 = 64 << 20;
/// Largest that it may unpack to.
const UNPACKED_BYTES: u64 = 128 << 20;
/// Whether an archive of so many bytes that unpacks to so many is unpacked in memory.
pub(crate) fn unpacks_in_memory(bytes: u64, unpacked_bytes: u64) -> bool {
    bytes <= COMPRESSED_BYTES && unpacked_bytes <= UNPACKED_BYTES
}

/// Archives in each other at most. Each takes at least a header of the one around it, so that there is an end without this too.
const DEPTH: usize = 8;

/// Opens a location as a directory, with the archives in it as directories, or as the one archive that it names. `plain` opens a directory.
pub(super) fn open(
    location: &str,
    access: &Access,
    plain: &dyn Fn(&str) -> Result<Box<dyn Source>>,
) -> Result<Box<dyn Source>> {
    if let Some((above, name)) = split(location)
        && archive_stem(name.as_bytes()).is_some()
    {
        let name = FilePath::below(b"", name.as_bytes());
        // What cannot be opened is told of the location itself.
        if let Ok(inner) = plain(above)
            && inner.look(&name)?.is_some()
        {
            let source = ArchiveSource::new(inner, location, Some(name), access);
            return Ok(Box::new(source));
        }
    }
    let source = ArchiveSource::new(plain(location)?, location, None, access);
    Ok(Box::new(source))
}

/// The directory above a location, and the name below it.
fn split(location: &str) -> Option<(&str, &str)> {
    let location = location.trim_end_matches('/');
    match location.rsplit_once('/') {
        None => Some((".", location)),
        Some(("", name)) => Some(("/", name)),
        // A bucket is no archive, whatever it is called.
        Some((above, _)) if above.ends_with(":/") => None,
        Some(parts) => Some(parts),
    }
}

/// The path that counts for a directory that was named by that of an archive, or by where it is opened.
pub(crate) fn counted_directory(path: &[u8]) -> Vec<u8> {
    let parts = path.split(|&b| b == b'/').map(|part| {
        let name = part.strip_suffix(b"!").unwrap_or(part);
        archive_stem(name).unwrap_or(part)
    });
    let parts: Vec<&[u8]> = parts.collect();
    parts.join(&b'/')
}

/// Why a walk through an archive ended early.
enum Stop {
    /// The archive could not be read, or the run is to end.
    Failed(Error),
    /// What is wrong with the archive itself.
    Bad(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}
