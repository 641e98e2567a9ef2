//! Looking at the entries of one directory of a source: which are files, which directories, and which nothing that can be packed.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::{Error, Kind, Result, reason};
use crate::base::text::show;
use crate::model::listing::{Dir, Problem, ProblemKind};
use crate::model::sample::{SourcePath, Version};
use crate::store::local::paths::{holds_nothing, is_of_the_data, mtime};
use crate::store::local::steps::Steps;

/// A directory being listed and those it lies in, to find symbolic links that lead back.
pub(super) struct Place {
    /// The root of the source as it was given.
    pub(super) source: Arc<str>,
    /// Its path below the root.
    pub(super) path: Vec<u8>,
    /// Its device and inode.
    pub(super) id: (u64, u64),
    pub(super) parent: Option<Arc<Place>>,
}

impl Place {
    /// Its name for messages about the directory itself.
    pub(super) fn shown(&self) -> String {
        name_of_directory(&self.source, &self.path)
    }

    /// The error of a directory that was there a moment ago.
    pub(super) fn vanished(&self) -> Error {
        Error::new(
            Kind::Transient,
            format!(
                "{}: the source's directory vanished while it was listed: run again",
                self.shown()
            ),
        )
    }

    /// The path of the directory this one is, if it lies in itself.
    fn loops_to(&self) -> Option<&[u8]> {
        let mut above = self.parent.as_deref();
        while let Some(place) = above {
            if place.id == self.id {
                return Some(&place.path);
            }
            above = place.parent.as_deref();
        }
        None
    }
}

/// A directory of a source, for messages about it itself.
pub(super) fn name_of_directory(source: &str, path: &[u8]) -> String {
    match path {
        b"" => source.to_owned(),
        path => format!("{source}/{}", show(path)),
    }
}

/// Entries of a directory that were looked at.
#[derive(Default)]
pub(super) struct LookedAt {
    pub(super) files: Dir,
    pub(super) directories: Vec<(PathBuf, Arc<Place>)>,
    pub(super) problems: Vec<Problem>,
    /// Why the rest was not looked at: an error of the machine, or an outage.
    pub(super) failed: Option<Error>,
}

/// Looks at entries of `place`, in their order, until one cannot be looked at for a reason that is not its own.
pub(super) fn look_at(place: &Arc<Place>, entries: &[fs::DirEntry], steps: &Steps) -> LookedAt {
    let mut looked_at = LookedAt::default();
    for entry in entries {
        if let Err(error) = looked_at.add(place, entry, steps) {
            looked_at.failed = Some(error);
            return looked_at;
        }
    }
    looked_at.files.shrink();
    looked_at
}

impl LookedAt {
    fn add(&mut self, place: &Arc<Place>, entry: &fs::DirEntry, steps: &Steps) -> Result<()> {
        let name = entry.file_name().into_vec();
        let problem =
            |kind, detail: &str| Problem::new(kind, SourcePath::join(&place.path, &name), detail);
        let directory = Path::new(OsStr::from_bytes(&place.path));
        let (meta, readable) = match steps.read("look", directory, || look(entry)) {
            Ok(seen) => seen,
            Err(error) => {
                let detail = why_unreadable(place, entry, &name, error)?;
                self.problems
                    .push(problem(ProblemKind::Unreadable, &detail));
                return Ok(());
            }
        };
        if meta.is_dir() {
            let below = Place {
                source: Arc::clone(&place.source),
                path: SourcePath::join(&place.path, &name).into_bytes(),
                id: (meta.dev(), meta.ino()),
                parent: Some(Arc::clone(place)),
            };
            match below.loops_to() {
                Some(ancestor) => {
                    let end = if ancestor.is_empty() {
                        b".".as_slice()
                    } else {
                        ancestor
                    };
                    let detail = format!(" -> {}/", show(end));
                    self.problems.push(problem(ProblemKind::Loop, &detail));
                }
                None => self.directories.push((entry.path(), Arc::new(below))),
            }
        } else if meta.is_file() {
            let version = Version::Mtime(mtime(&meta));
            let refused = if !readable {
                ": permission denied"
            } else if !self.files.push(&name, meta.len(), &version) {
                ": the name is too long"
            } else {
                return Ok(());
            };
            self.problems
                .push(problem(ProblemKind::Unreadable, refused));
        } else {
            self.problems
                .push(problem(ProblemKind::Special, kind_of(meta.file_type())));
        }
        Ok(())
    }
}

/// What lies behind an entry, and whether this user may read it. Not following the link costs no path look-up; only links are looked
/// at twice.
fn look(entry: &fs::DirEntry) -> io::Result<(fs::Metadata, bool)> {
    let meta = entry.metadata()?;
    let meta = match meta.is_symlink() {
        true => fs::metadata(entry.path())?,
        false => meta,
    };
    let readable = !meta.is_file() || may_read(&entry.path(), &meta)?;
    Ok((meta, readable))
}

/// Why an entry cannot be looked at, for the problem that is told of it; an error if the reason is not its own.
fn why_unreadable(
    place: &Place,
    entry: &fs::DirEntry,
    name: &[u8],
    error: io::Error,
) -> Result<String> {
    if !is_of_the_data(&error) {
        let path = SourcePath::join(&place.path, name);
        return Err(Error::io(path.to_string(), error));
    }
    let path = entry.path();
    let link = fs::read_link(&path);
    let directory = path.parent().unwrap_or(Path::new("/"));
    if link.is_err() && error.kind() == io::ErrorKind::NotFound && holds_nothing(directory) {
        return Err(place.vanished());
    }
    Ok(match link {
        Ok(target) => format!(
            " -> {}: {}",
            show(target.as_os_str().as_bytes()),
            reason(&error)
        ),
        Err(_) => format!(": {}", reason(&error)),
    })
}

/// What an entry is that is neither file nor directory, for the problem that is told of it.
fn kind_of(kind: fs::FileType) -> &'static str {
    if kind.is_fifo() {
        " is a pipe"
    } else if kind.is_socket() {
        " is a socket"
    } else {
        " is a device"
    }
}

/// Whether this user may read the file; asks the system only where the permission bits leave doubt.
fn may_read(path: &Path, meta: &fs::Metadata) -> io::Result<bool> {
    use rustix::io::Errno;
    if meta.mode() & 0o444 == 0o444 {
        return Ok(true);
    }
    match rustix::fs::access(path, rustix::fs::Access::READ_OK) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
