//! A directory of a dataset as a [`Sink`].

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use rustix::fs::{Advice, fadvise};

use crate::base::checksum::SCAN_BYTES;
use crate::base::error::{Error, Kind, Result};
use crate::base::text::show;
use crate::store::local::cached::drop_cached;
use crate::store::local::destination::{Destination, age};
use crate::store::local::leftovers;
use crate::store::local::shard::LocalShard;
use crate::store::local::temporary::place_if_absent;
use crate::store::{
    Access, Dropped, Leftover, ObjectMeta, Scheme, ShardWriter, Sink, StoredChecksum, scheme,
};

/// A dataset on a file system.
pub(in crate::store) struct LocalSink {
    destination: Destination,
    /// Directories that are this program's alone, where killed runs left what is swept.
    directories: Vec<&'static str>,
}

impl LocalSink {
    /// Opens a directory that is there or may be made.
    pub(in crate::store) fn open(location: &str, access: &Access) -> Result<Self> {
        Ok(Self {
            destination: Destination::open(location, access)?,
            directories: access.layout.directories.clone(),
        })
    }
}

impl fmt::Display for LocalSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.destination.fmt(f)
    }
}

impl Sink for LocalSink {
    fn create(&self, name: &str, _bytes: u64) -> Result<Box<dyn ShardWriter>> {
        Ok(Box::new(LocalShard::create(&self.destination, name)?))
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        match fs::read(self.destination.path(name)?) {
            Ok(body) => Ok(Some(body.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(self.destination.label(name), error)),
        }
    }

    fn range(&self, name: &str, offset: u64, length: usize) -> Result<Bytes> {
        let path = self.destination.path(name)?;
        let fail = |error| Error::io(self.destination.label(name), error);
        let mut file = File::open(path).map_err(fail)?;
        let end = file.metadata().map_err(fail)?.len();
        // The length may come from a damaged file: compare before reserving memory for it.
        if offset
            .checked_add(length as u64)
            .is_none_or(|wanted| wanted > end)
        {
            return Err(Error::new(
                Kind::Damage,
                format!(
                    "{}: {end} bytes, but {length} bytes are wanted at {offset}: it was cut short",
                    self.destination.label(name)
                ),
            ));
        }
        file.seek(SeekFrom::Start(offset)).map_err(fail)?;
        let mut buffer = vec![0; length];
        file.read_exact(&mut buffer).map_err(fail)?;
        Ok(buffer.into())
    }

    fn open(&self, name: &str) -> Result<Box<dyn BufRead + Send>> {
        let fail = |error| Error::io(self.destination.label(name), error);
        let file = File::open(self.destination.path(name)?).map_err(fail)?;
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        Ok(Box::new(BufReader::with_capacity(SCAN_BYTES, file)))
    }

    fn drop_cached(&self, name: &str) -> Result<Option<Dropped>> {
        let dropped = drop_cached(&self.destination.path(name)?);
        let dropped = dropped.map_err(|error| Error::io(self.destination.label(name), error))?;
        Ok(Some(dropped))
    }

    fn remove_all(&self) -> Result<()> {
        let root = &self.destination.root;
        let removed = self
            .destination
            .steps
            .take("remove", root, || fs::remove_dir_all(root));
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(self.to_string(), error))
            }
            _ => Ok(()),
        }
    }

    fn put(&self, name: &str, body: &[u8]) -> Result<()> {
        let path = self.destination.path(name)?;
        self.destination
            .written(&path, body)
            .and_then(|temporary| self.destination.rename(temporary, &path))
            .map_err(|error| Error::io(self.destination.label(name), error))
    }

    fn put_if_absent(&self, name: &str, body: &[u8]) -> Result<bool> {
        let path = self.destination.path(name)?;
        let placed = self.destination.written(&path, body).and_then(|temporary| {
            let link = || place_if_absent(&temporary.path, &path);
            let placed = match self.destination.steps.take("link", &path, link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                placed => placed.map(|()| true),
            }?;
            self.destination
                .sync_dir(path.parent().unwrap_or(&self.destination.root))?;
            if placed {
                return Ok(true);
            }
            // Perhaps our own: over a network, a request whose reply was lost is made again by the kernel.
            match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                there => Ok(there? == body),
            }
        });
        placed.map_err(|error| Error::io(self.destination.label(name), error))
    }

    fn check_exclusive(&self, _name: &str, _body: &[u8]) -> Result<()> {
        Ok(())
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let found = self.destination.files(prefix)?.into_iter();
        Ok(found.map(|(name, meta)| (name, meta.len())).collect())
    }

    fn list_with_ages(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        let now = self.destination.now();
        let with_age = |(name, meta): (String, fs::Metadata)| {
            let fail = |error| Error::io(self.destination.label(&name), error);
            let age = age(&meta, now).map_err(fail)?;
            let bytes = meta.len();
            Ok(ObjectMeta { name, bytes, age })
        };
        let found = self.destination.files(prefix)?.into_iter();
        found.map(with_age).collect()
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.destination.path(name)?;
        let parent = path.parent().unwrap_or(&self.destination.root);
        let removed = self
            .destination
            .steps
            .take("remove", &path, || fs::remove_file(&path))
            .and_then(|()| self.destination.sync_dir(parent));
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(self.destination.label(name), error));
            }
            _ => {}
        }
        // Directories that every dataset has stay: another run may be about to write there.
        let below = name.rsplit_once('/').map_or("", |(dir, _)| dir);
        if below.contains('/') && fs::remove_dir(parent).is_ok() {
            let above = parent.parent().unwrap_or(&self.destination.root);
            self.destination
                .sync_dir(above)
                .map_err(|error| Error::io(self.destination.label(name), error))?;
        }
        Ok(())
    }

    fn sweep(&self) -> Result<u64> {
        leftovers::sweep(&self.destination, &self.directories)
    }

    fn leftovers(&self) -> Result<Vec<Leftover>> {
        leftovers::leftovers(&self.destination, &self.directories)
    }

    fn discard(&self, leftover: &Leftover) -> Result<()> {
        leftovers::discard(&self.destination, leftover)
    }

    fn stored_checksum(&self, _name: &str) -> Result<StoredChecksum> {
        Ok(StoredChecksum::ReadInstead)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.destination.free_bytes()
    }

    fn requests(&self) -> usize {
        1
    }

    fn writing_bytes(&self) -> u64 {
        0
    }

    fn reading_bytes(&self) -> u64 {
        0
    }

    fn check_apart(&self, source: &str) -> Result<()> {
        if scheme(source)? != Scheme::Path {
            return Ok(());
        }
        let source = fs::canonicalize(source).map_err(|error| Error::io(source, error))?;
        if self.destination.root.starts_with(&source) {
            return Err(Error::usage(format!(
                "{self} lies in the source {}: choose a destination outside it",
                show(source.as_os_str().as_bytes())
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::local::steps::{Step, Steps};
    use std::time::{Duration, SystemTime};

    #[test]
    fn ages_go_by_the_clock_of_the_file_system() {
        const HOUR: Duration = Duration::from_secs(3600);
        let dir = tempfile::tempdir().unwrap();
        // What is made now has another time than this machine's: the server's of a network file system, three hours ahead.
        let there = SystemTime::now() + 3 * HOUR;
        let dated = move |step: Step<'_>| match (step.taken, step.name) {
            (true, "create") => File::options()
                .write(true)
                .open(step.path)?
                .set_modified(there),
            _ => Ok(()),
        };
        let access = Access {
            steps: Steps::observed_by(dated),
            ..Access::default()
        };
        let sink = LocalSink::open(dir.path().to_str().unwrap(), &access).unwrap();
        for (name, time) in [("a", there - HOUR), ("b", there), ("c", there + HOUR)] {
            sink.put(name, b"").unwrap();
            let file = File::options().write(true).open(dir.path().join(name));
            file.unwrap().set_modified(time).unwrap();
        }
        let left = dir
            .path()
            .join(".x.tar.0123456789ab-00112233445566778899aabbccddeeff.tmp");
        File::create(&left)
            .unwrap()
            .set_modified(there - 2 * HOUR)
            .unwrap();

        let ages: Vec<_> = sink
            .list_with_ages("")
            .unwrap()
            .iter()
            .map(|object| object.age)
            .collect();
        assert_eq!(ages, [HOUR, Duration::ZERO, Duration::ZERO]);
        let left: Vec<_> = sink
            .leftovers()
            .unwrap()
            .iter()
            .map(|left| left.age)
            .collect();
        assert_eq!(left, [2 * HOUR]);
        // Nothing stays of what was made to know the time, and a listing makes nothing.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
    }
}
