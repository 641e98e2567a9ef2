//! The directory of a dataset that is written to: names are checked and resolved against it, and what is written is made durable.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::base::unique;
use crate::model::name::check_name;
use crate::store::Access;
use crate::store::local::paths::{LOST_FOUND, each_file, real};
use crate::store::local::steps::Steps;
use crate::store::local::temporary::{Temporary, is_temporary, temporary_name, was_removed};

/// The directory of a dataset.
#[derive(Clone)]
pub(super) struct Destination {
    /// As it was given, for messages.
    given: String,
    /// Where that was when the run began: what is written is named, and removed, where it lies, whatever links lead to meanwhile.
    pub(super) root: PathBuf,
    /// Whether what is written is made durable.
    pub(super) fsync: bool,
    pub(super) steps: Steps,
}

/// Shows the location as it was given.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

impl Destination {
    /// A directory that is there or may be made; a file is refused.
    pub(super) fn open(location: &str, access: &Access) -> Result<Self> {
        match fs::metadata(location) {
            Ok(meta) if !meta.is_dir() => Err(Error::usage(format!(
                "{location} is a file: give a directory for the dataset"
            ))),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io(location, error)),
        }?;
        Ok(Self {
            given: show(location.as_bytes()),
            root: real(Path::new(location)).map_err(|error| Error::io(location, error))?,
            fsync: access.fsync,
            steps: Steps::of(access),
        })
    }

    /// Where the object of this name lies.
    pub(super) fn path(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        Ok(self.root.join(name))
    }

    /// The name of an object, for messages.
    pub(super) fn label(&self, name: &str) -> String {
        format!("{self}/{name}")
    }

    /// Opens a temporary file beside `path`, making its directories, and locks it as ours.
    pub(super) fn temporary(&self, path: &Path) -> io::Result<Temporary> {
        let parent = path.parent().unwrap_or(&self.root);
        self.make_dirs(parent)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        unique::make(|random| {
            let path = parent.join(temporary_name(&name, random));
            let create = || File::create_new(&path);
            let temporary = Temporary {
                file: self.steps.take("create", &path, create)?,
                path,
                steps: self.steps.clone(),
                placed: false,
            };
            // Where locks do not work the file is never swept: it stays until `gc` finds it old.
            let _ = temporary.file.lock();
            // Before it was locked, another run may have taken it for one of the dead and removed it.
            match was_removed(&temporary.file)? {
                true => Err(io::ErrorKind::AlreadyExists.into()),
                false => Ok(temporary),
            }
        })
    }

    /// Makes `dir` and what is missing above it, each new name made durable in its parent.
    fn make_dirs(&self, dir: &Path) -> io::Result<()> {
        if dir.as_os_str().is_empty() || dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(Path::new(""));
        self.make_dirs(parent)?;
        match self.steps.take("mkdir", dir, || fs::create_dir(dir)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.sync_dir(parent)
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if !self.fsync {
            return Ok(());
        }
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        self.steps.take("fsync of the directory", dir, || {
            File::open(dir)?.sync_all()
        })
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self, temporary: &Temporary) -> io::Result<()> {
        let sync = || temporary.file.sync_all();
        match self.fsync {
            true => self.steps.take("fsync", &temporary.path, sync),
            false => Ok(()),
        }
    }

    /// Bytes that this user can still write where the dataset is to be; `None` where the file system does not say.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let there = self.root.ancestors().find(|path| path.is_dir())?;
        let found = rustix::fs::statvfs(there).ok()?;
        let blocks = match rustix::process::geteuid().is_root() {
            true => found.f_bfree,
            false => found.f_bavail,
        };
        // Some mounts have no idea of their size.
        (found.f_blocks > 0).then(|| blocks.saturating_mul(found.f_frsize))
    }

    /// Makes names durable that a run gave before it died: what is found here is gone on with.
    pub(super) fn settle(&self, directories: &[&str]) -> io::Result<()> {
        if !self.fsync {
            return Ok(());
        }
        // Above the dataset it may not be allowed to look.
        for above in self.root.ancestors().skip(1) {
            let _ = self.sync_dir(above);
        }
        let mut todo = vec![self.root.clone()];
        while let Some(dir) = todo.pop() {
            match self.sync_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                synced => synced?,
            }
            if dir == self.root {
                todo.extend(directories.iter().map(|part| self.root.join(part)));
                continue;
            }
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() && entry.file_name() != LOST_FOUND {
                    todo.push(entry.path());
                }
            }
        }
        Ok(())
    }

    /// Gives a temporary file its name, over what has it.
    pub(super) fn rename(&self, mut temporary: Temporary, path: &Path) -> io::Result<()> {
        let rename = || fs::rename(&temporary.path, path);
        self.steps.take("rename", path, rename)?;
        temporary.placed = true;
        self.sync_dir(path.parent().unwrap_or(&self.root))
    }

    /// A temporary file with `body` in it.
    pub(super) fn written(&self, path: &Path, body: &[u8]) -> io::Result<Temporary> {
        let mut temporary = self.temporary(path)?;
        let file = &mut temporary.file;
        self.steps
            .take("write", &temporary.path, || file.write_all(body))?;
        self.sync(&temporary)?;
        Ok(temporary)
    }

    /// The time by the clock of the file system, which need not be this machine's: what a file made now has. Where none can be made,
    /// nothing can be removed either, and this machine's clock is near enough to tell about ages.
    pub(super) fn now(&self) -> SystemTime {
        let made = || {
            self.temporary(&self.root.join("clock"))?
                .file
                .metadata()?
                .modified()
        };
        match self.root.is_dir().then(made) {
            Some(Ok(now)) => now,
            _ => SystemTime::now(),
        }
    }

    /// The finished files below `prefix`, sorted by name.
    pub(super) fn files(&self, prefix: &str) -> Result<Vec<(String, fs::Metadata)>> {
        let dir = match prefix {
            "" => self.root.clone(),
            prefix => self.path(prefix)?,
        };
        let mut found = Vec::new();
        each_file(&dir, &mut |entry, path| {
            let name = path.strip_prefix(&self.root).unwrap_or(path);
            let name = name.to_string_lossy().into_owned();
            if is_temporary(&entry.file_name().to_string_lossy()) {
                return Ok(());
            }
            match entry.metadata() {
                // Another run removed it a moment ago.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                meta => found.push((name, meta?)),
            }
            Ok(())
        })
        .map_err(|error| Error::io(self.label(prefix), error))?;
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }
}

/// Time since a file was written to; zero where that lies in the future.
pub(super) fn age(meta: &fs::Metadata, now: SystemTime) -> io::Result<Duration> {
    Ok(now.duration_since(meta.modified()?).unwrap_or_default())
}
