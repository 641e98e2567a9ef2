//! Listing a source: a walk over its directories, many at once where they are slow.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::{Error, Result, reason};
use crate::base::reactor::{Pending, Reactor};
use crate::base::text::show;
use crate::model::counters::Counters;
use crate::model::listing::{Dir, Listing, Problem, ProblemKind, is_hidden};
use crate::model::sample::SourcePath;
use crate::store::local::look::{LookedAt, Place, look_at};
use crate::store::local::paths::is_of_the_data;
use crate::store::local::steps::Steps;

/// Directory entries looked at in one piece of work.
const CHUNK_ENTRIES: usize = 2048;
/// Pieces of stat work of one directory started before the oldest is waited for.
const CHUNKS_AHEAD: usize = 64;

/// The walk over a tree: reading a directory and looking at its entries are pieces of work, order does not matter.
pub(super) struct Walk {
    reactor: Reactor,
    listing: Listing,
    directories: Vec<(usize, Pending<Entries>)>,
    entries: VecDeque<(usize, Pending<LookedAt>)>,
    steps: Steps,
    counters: Arc<Counters>,
}

/// Some entries of a directory, looked at or not, and the rest of it.
struct Entries {
    place: Arc<Place>,
    looked_at: LookedAt,
    to_look_at: Vec<fs::DirEntry>,
    rest: Option<fs::ReadDir>,
    problems: Vec<Problem>,
    hidden: u64,
    /// Why the rest was not listed: an error of the machine, or an outage.
    failed: Option<Error>,
}

impl Entries {
    fn none_of(place: Arc<Place>) -> Self {
        Self {
            place,
            looked_at: LookedAt::default(),
            to_look_at: Vec::new(),
            rest: None,
            problems: Vec::new(),
            hidden: 0,
            failed: None,
        }
    }
}

impl Walk {
    /// A walk whose pieces of work `reactor` does.
    pub(super) fn new(reactor: Reactor, steps: Steps, counters: Arc<Counters>) -> Self {
        Self {
            reactor,
            listing: Listing::default(),
            directories: Vec::new(),
            entries: VecDeque::new(),
            steps,
            counters,
        }
    }

    /// Everything below `root`, which messages call `source`.
    pub(super) fn run(mut self, source: &str, root: &Path) -> Result<Listing> {
        let meta = fs::metadata(root).map_err(|error| {
            let absent = error.kind() == io::ErrorKind::NotFound;
            let error = Error::io(source, error);
            match absent {
                true => error.of_absent_place(),
                false => error,
            }
        })?;
        let place = Arc::new(Place {
            source: source.into(),
            path: Vec::new(),
            id: (meta.dev(), meta.ino()),
            parent: None,
        });
        self.enter(root.to_owned(), place);
        loop {
            // Going on with directories first keeps many pieces of work started; the bound keeps their memory small.
            if self.entries.len() < CHUNKS_AHEAD
                && let Some((dir, pending)) = self.directories.pop()
            {
                let entries = pending.wait()?;
                self.add_entries(dir, entries)?;
                continue;
            }
            let Some((dir, pending)) = self.entries.pop_front() else {
                break;
            };
            let looked_at = pending.wait()?;
            self.add(dir, looked_at)?;
        }
        let mut listing = self.listing;
        listing.dirs.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    fn enter(&mut self, path: PathBuf, place: Arc<Place>) {
        self.counters.directory();
        let dir = self.listing.dirs.len();
        self.listing.dirs.push(Dir::new(place.path.clone()));
        let steps = self.steps.clone();
        let pending = self.reactor.start(move || {
            match steps.read("list", &path, || fs::read_dir(&path)) {
                Ok(rest) => {
                    // Most directories are looked at whole by whoever lists them: raw entries are large.
                    let mut entries = next_entries(place, rest, &steps);
                    let some = std::mem::take(&mut entries.to_look_at);
                    entries.looked_at = look_at(&entries.place, &some, &steps);
                    Ok(entries)
                }
                // It was a directory when it was looked at.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(place.vanished()),
                Err(error) if !is_of_the_data(&error) => Err(Error::io(place.shown(), error)),
                Err(error) => {
                    let problems = vec![unlistable(&place.path, &error)];
                    let none = Entries::none_of(place);
                    Ok(Entries { problems, ..none })
                }
            }
        });
        self.directories.push((dir, pending));
    }

    fn add_entries(&mut self, dir: usize, entries: Entries) -> Result<()> {
        if let Some(error) = entries.failed {
            return Err(error);
        }
        self.listing.problems.extend(entries.problems);
        self.listing.hidden += entries.hidden;
        if let Some(rest) = entries.rest {
            let place = Arc::clone(&entries.place);
            let steps = self.steps.clone();
            let next = move || Ok(next_entries(place, rest, &steps));
            let pending = self.reactor.start(next);
            self.directories.push((dir, pending));
        }
        if !entries.to_look_at.is_empty() {
            let (place, some) = (entries.place, entries.to_look_at);
            let steps = self.steps.clone();
            let look = move || Ok(look_at(&place, &some, &steps));
            let pending = self.reactor.start(look);
            self.entries.push_back((dir, pending));
        }
        self.add(dir, entries.looked_at)
    }

    fn add(&mut self, dir: usize, looked_at: LookedAt) -> Result<()> {
        if let Some(error) = looked_at.failed {
            return Err(error);
        }
        self.listing.problems.extend(looked_at.problems);
        self.counters.listed(looked_at.files.len() as u64);
        let into = &mut self.listing.dirs[dir];
        if !into.append(looked_at.files) {
            return Err(Error::failed(format!(
                "{}: more than 4 GiB of file names in one directory: spread the files over several",
                show(&into.path)
            )));
        }
        for (path, place) in looked_at.directories {
            self.enter(path, place);
        }
        Ok(())
    }
}

/// The next entries of a directory, as many as one piece of work looks at.
fn next_entries(place: Arc<Place>, mut rest: fs::ReadDir, steps: &Steps) -> Entries {
    let path = PathBuf::from(OsStr::from_bytes(&place.path));
    let mut next = || {
        steps
            .read("list", &path, || rest.next().transpose())
            .transpose()
    };
    let mut entries = Entries::none_of(place);
    while entries.to_look_at.len() < CHUNK_ENTRIES {
        match next() {
            None => return entries,
            Some(Ok(entry)) if is_hidden(entry.file_name().as_bytes()) => entries.hidden += 1,
            Some(Ok(entry)) => entries.to_look_at.push(entry),
            Some(Err(error)) if is_of_the_data(&error) => {
                entries
                    .problems
                    .push(unlistable(&entries.place.path, &error));
                return entries;
            }
            Some(Err(error)) => {
                entries.failed = Some(Error::io(entries.place.shown(), error));
                return entries;
            }
        }
    }
    entries.rest = Some(rest);
    entries
}

/// The problem that is told of a directory which cannot be listed.
fn unlistable(path: &[u8], error: &io::Error) -> Problem {
    let path = if path.is_empty() { b"." } else { path };
    let detail = format!("/: {}", reason(error));
    Problem::new(ProblemKind::Unreadable, SourcePath::new(path), detail)
}
