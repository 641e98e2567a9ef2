//! The steps that a store takes on a disk, each taken again when a signal interrupted it.
//!
//! Tests of this crate put an observer in their way, which can end a run at each step or have it fail.

use std::io;
use std::path::Path;
#[cfg(test)]
use std::sync::Arc;

use crate::store::Access;

/// A step on a disk, as an observer is told of it.
#[cfg(test)]
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    /// Whether it has been taken already.
    pub(crate) taken: bool,
    /// What it is: `open`, `rename`, `fsync` and so on.
    pub(crate) name: &'static str,
    /// The file or directory that it is about.
    pub(crate) path: &'a Path,
}

/// Says whether a step may be taken, or was taken well.
#[cfg(test)]
type Observer = dyn Fn(Step<'_>) -> io::Result<()> + Send + Sync;

/// Takes the steps of a store.
#[derive(Clone, Default)]
pub(crate) struct Steps {
    /// Asked before and after every step that changes a disk, and before every step of reading a source.
    #[cfg(test)]
    observer: Option<Arc<Observer>>,
}

#[cfg(not(test))]
impl Steps {
    /// Those of a store that is opened with this access.
    pub(super) fn of(_: &Access) -> Self {
        Self::default()
    }

    fn observe(&self, _taken: bool, _name: &'static str, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
impl Steps {
    /// Those of a store that is opened with this access.
    pub(super) fn of(access: &Access) -> Self {
        access.steps.clone()
    }

    /// Steps that `observer` is asked about.
    pub(crate) fn observed_by(
        observer: impl Fn(Step<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            observer: Some(Arc::new(observer)),
        }
    }

    fn observe(&self, taken: bool, name: &'static str, path: &Path) -> io::Result<()> {
        let step = Step { taken, name, path };
        self.observer.as_ref().map_or(Ok(()), |ask| ask(step))
    }
}

impl Steps {
    /// Takes a step that changes the disk.
    pub(super) fn take<T>(
        &self,
        name: &'static str,
        path: &Path,
        work: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let done = self.read(name, path, work)?;
        self.observe(true, name, path)?;
        Ok(done)
    }

    /// Takes a step that changes nothing.
    pub(super) fn read<T>(
        &self,
        name: &'static str,
        path: &Path,
        mut work: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match self.observe(false, name, path).and_then(|()| work()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

#[cfg(test)]
impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Steps")
    }
}
