//! What source and sink both ask of paths and directories.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The root of a fresh ext4 volume has it, and only root may look inside.
pub(super) const LOST_FOUND: &str = "lost+found";

/// The path without symbolic links; of a directory that is not there yet, that of the nearest one above it that is.
pub(super) fn real(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    for above in absolute.ancestors() {
        match fs::canonicalize(above) {
            Ok(real) => return Ok(real.join(absolute.strip_prefix(above).unwrap_or(above))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(absolute)
}

/// Whether an error says something of the file or directory itself, to be told with all others like it; any other is one of the
/// machine, or an outage.
pub(super) fn is_of_the_data(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::ACCESS
                | Errno::PERM
        )
    )
}

/// Whether a directory is not there, or has nothing in it that a listing would take.
pub(super) fn holds_nothing(directory: &Path) -> bool {
    match fs::read_dir(directory) {
        Ok(entries) => !entries
            .flatten()
            .any(|entry| !entry.file_name().as_bytes().starts_with(b".")),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Time of the last change of a content, in nanoseconds since 1970.
pub(super) fn mtime(meta: &fs::Metadata) -> i64 {
    meta.mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(meta.mtime_nsec())
}

/// Visits every file below `directory`, whatever depth; none if it is not there.
pub(super) fn each_file(
    directory: &Path,
    visit: &mut dyn FnMut(&fs::DirEntry, &Path) -> io::Result<()>,
) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if entry.file_name() != LOST_FOUND {
                each_file(&path, visit)?;
            }
        } else {
            visit(&entry, &path)?;
        }
    }
    Ok(())
}
