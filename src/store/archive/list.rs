//! Listing: archives take the place of the files that they are, each walked through, many at once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::compressed::{Unpacked, check_size};
use super::entries::{Entries, Found, Nested, Place, below};
use super::left_out::LeftOut;
use super::walks::Walks;
use super::window::{At, Window};
use super::{DEPTH, Stop, tar, zip};
use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop as RunStop;
use crate::model::counters::Counters;
use crate::model::extent::Method;
use crate::model::listing::{Dir, Listing, Problem, ProblemKind};
use crate::model::sample::{Archive, Field, FilePath, SourcePath, Version, split_extension};
use crate::store::Source;

/// Archives walked through at once: on a disk whose every read may be slow, and over a network, where each holds some MiB.
const WALKS_ON_DISK: usize = 32;
const WALKS_OVER_NETWORK: usize = 8;

/// What it takes to list a source.
pub(super) struct Lister<'a> {
    pub(super) inner: &'a Arc<dyn Source>,
    /// The source as it was given, for messages.
    pub(super) location: &'a str,
    /// The archive that is the source.
    pub(super) lone: Option<&'a FilePath>,
    pub(super) left_out: &'a LeftOut,
    pub(super) counters: &'a Counters,
    pub(super) stop: &'a RunStop,
    pub(super) unpacked: &'a Unpacked,
    /// What the whole run is to stay within, in bytes.
    pub(super) memory: u64,
}

/// A file of the inner source that is an archive.
struct Outer {
    field: Field,
    archive: Arc<Archive>,
    place: Place,
}

/// A walk to be done.
struct Walk {
    /// Number of the file that is opened.
    outer: usize,
    place: Place,
    name: Vec<u8>,
    begin: u64,
    bytes: u64,
    method: Method,
    depth: usize,
}

/// What is to do and what was done.
#[derive(Default)]
struct Work {
    todo: VecDeque<Walk>,
    running: usize,
    found: Vec<(usize, Found)>,
    failed: Option<Error>,
}

/// Lists the inner source, with what is in the archives among its files, or in the one that is the source. `known` gives what is known of them
/// from before, if there are any; it comes back with what was found.
pub(super) fn list(
    source: &Lister<'_>,
    known: &mut dyn FnMut() -> Result<Walks>,
) -> Result<(Listing, Walks)> {
    let mut listing = match source.lone {
        None => source.inner.list()?,
        Some(_) => Listing::default(),
    };
    let outers = match source.lone {
        None => take_archives(source, &mut listing),
        Some(name) => vec![lone(source, name)?],
    };
    let mut kept = Walks::default();
    if outers.is_empty() {
        return Ok((listing, kept));
    }
    let mut before = known()?;
    let rule = source.left_out.rule();
    let mut found: Vec<Option<Found>> = Vec::new();
    for outer in &outers {
        found.push(before.take(&outer.field, rule, &outer.archive, &mut kept));
    }
    let known: Vec<bool> = found.iter().map(Option::is_some).collect();
    for (number, more) in walk_all(source, &outers, &known)? {
        let all = found[number].get_or_insert_default();
        all.dirs.extend(more.dirs);
        all.hidden += more.hidden;
        all.problems.extend(more.problems);
    }
    for ((outer, found), known) in outers.iter().zip(found).zip(known) {
        let Some(mut found) = found else { continue };
        found.dirs.sort_by(|a, b| a.opened_at.cmp(&b.opened_at));
        if !known && found.problems.is_empty() {
            kept.add(&outer.field, rule, &found)?;
        }
        listing.hidden += found.hidden;
        listing.problems.extend(found.problems);
        listing.dirs.extend(found.dirs);
    }
    listing
        .dirs
        .sort_by(|a, b| (&a.path, &a.opened_at).cmp(&(&b.path, &b.opened_at)));
    collisions(&mut listing);
    Ok((listing, kept))
}

/// The archive that the source is.
fn lone(source: &Lister<'_>, name: &FilePath) -> Result<Outer> {
    let found = source.inner.look(name)?;
    let (size, version) = found.ok_or_else(|| {
        let location = source.location;
        Error::source_data(format!("{location}: the archive vanished: run again")).of_absent_place()
    })?;
    let archive = Archive {
        listed_at: None,
        prefix_bytes: 0,
        bytes: size,
        version: version.clone(),
    };
    Ok(Outer {
        field: field(name.clone(), size, version),
        archive: Arc::new(archive),
        place: Place {
            opened_at: Vec::new(),
            path: Vec::new(),
        },
    })
}

/// The file of an archive; what field it would be nobody asks.
fn field(path: FilePath, size: u64, version: Version) -> Field {
    Field {
        content: None,
        name: String::new(),
        path,
        size,
        version,
    }
}

/// Takes the archives from among the files of a listing. One that nobody wants stays a file, or is all of a directory that nobody wants.
fn take_archives(source: &Lister<'_>, listing: &mut Listing) -> Vec<Outer> {
    let mut outers = Vec::new();
    let mut unopened = Vec::new();
    for dir in &mut listing.dirs {
        let mut taken = Vec::new();
        for i in 0..dir.len() {
            let file = dir.file(i);
            let Some(place) = Place::below(&dir.path, &dir.path, file.name) else {
                continue;
            };
            if source.left_out.has(&below(&dir.path, file.name)) {
                continue;
            }
            taken.push(file.name.to_vec());
            if source.left_out.has(&place.path) {
                let mut alone = Dir::new(place.path);
                alone.opened_at = Some(dir.path.clone());
                if alone.push(file.name, file.size, &file.version()) {
                    unopened.push(alone);
                }
                continue;
            }
            let path = dir.path_of(i);
            let Ok(prefix_bytes) = u16::try_from(place.opened_at.len()) else {
                let what = ": its path is too long";
                let problem = Problem::new(ProblemKind::Archive, path, what);
                listing.problems.push(problem);
                continue;
            };
            let archive = Archive {
                listed_at: None,
                prefix_bytes,
                bytes: file.size,
                version: file.version(),
            };
            outers.push(Outer {
                field: field(path, file.size, file.version()),
                archive: Arc::new(archive),
                place,
            });
        }
        if !taken.is_empty() {
            taken.sort_unstable();
            dir.retain(|name| taken.binary_search_by(|taken| taken[..].cmp(name)).is_err());
        }
    }
    listing.dirs.extend(unopened);
    outers
}

/// Walks through the archives that are not known, and all that are in them.
fn walk_all(source: &Lister<'_>, outers: &[Outer], known: &[bool]) -> Result<Vec<(usize, Found)>> {
    let mut work = Work::default();
    for (number, outer) in outers.iter().enumerate().filter(|(n, _)| !known[*n]) {
        let name = outer.field.path.as_bytes();
        work.todo.push_back(Walk {
            outer: number,
            place: outer.place.clone(),
            name: name.to_vec(),
            begin: 0,
            bytes: outer.field.size,
            method: method_of(name),
            depth: 1,
        });
    }
    let Some(first) = work.todo.front() else {
        return Ok(Vec::new());
    };
    // A file that cannot be opened is told by its walk.
    let opened = source.inner.open(&outers[first.outer].field);
    let walks = match opened {
        Ok(None) => WALKS_OVER_NETWORK,
        Ok(Some(_)) | Err(_) => WALKS_ON_DISK,
    };
    let work = (Mutex::new(work), Condvar::new());
    let walker = || walk_on(source, outers, &work);
    std::thread::scope(|scope| {
        // Those that the machine has no threads for are done by the others.
        for _ in 1..walks.min(source.inner.reads().max(1)) {
            let named = std::thread::Builder::new().name("walker".to_owned());
            if named.spawn_scoped(scope, walker).is_err() {
                break;
            }
        }
        walker();
    });
    let work = work.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    match work.failed {
        Some(error) => Err(error),
        None => Ok(work.found),
    }
}

fn lock(work: &(Mutex<Work>, Condvar)) -> MutexGuard<'_, Work> {
    work.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Walks through archives until there is none left and none to come.
fn walk_on(source: &Lister<'_>, outers: &[Outer], work: &(Mutex<Work>, Condvar)) {
    let mut state = lock(work);
    loop {
        if state.failed.is_some() {
            return;
        }
        let Some(walk) = state.todo.pop_front() else {
            if state.running == 0 {
                work.1.notify_all();
                return;
            }
            state = work.1.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.running += 1;
        drop(state);
        let add = |walk: Walk| {
            lock(work).todo.push_back(walk);
            work.1.notify_one();
        };
        let found = walk_one(source, &outers[walk.outer], &walk, &add);
        state = lock(work);
        state.running -= 1;
        match found {
            Ok(found) => state.found.push((walk.outer, found)),
            Err(error) => _ = state.failed.get_or_insert(error),
        }
        work.1.notify_all();
    }
}

/// How the members of a file of this name lie in it, if they are not packed one by one.
fn method_of(name: &[u8]) -> Method {
    match name.to_ascii_lowercase() {
        name if name.ends_with(b".zst") => Method::Zstd,
        name if name.ends_with(b"gz") => Method::Gzip,
        _ => Method::Stored,
    }
}

/// Walks through one archive; `add` is shown those in it.
fn walk_one(source: &Lister<'_>, outer: &Outer, walk: &Walk, add: &dyn Fn(Walk)) -> Result<Found> {
    let too_deep = std::cell::Cell::new(None);
    let nested = |nested: Nested| {
        if walk.depth >= DEPTH {
            too_deep.set(Some(nested.place.opened_at));
            return;
        }
        add(Walk {
            outer: walk.outer,
            place: nested.place,
            name: nested.name,
            begin: nested.extent.offset,
            bytes: nested.extent.bytes,
            method: nested.extent.method,
            depth: walk.depth + 1,
        });
    };
    let mut entries = Entries::new(
        &walk.place,
        &outer.archive,
        source.left_out,
        source.counters,
        &nested,
    );
    let walked = through(source, outer, walk, &mut entries);
    let mut found = entries.finish();
    if let Some(path) = too_deep.take() {
        let what = format!(": more than {DEPTH} archives in each other");
        let path = SourcePath::new(without_mark(&path));
        found
            .problems
            .push(Problem::new(ProblemKind::Archive, path, what));
    }
    match walked {
        Ok(()) => {}
        Err(Stop::Failed(error)) => return Err(error),
        Err(Stop::Bad(what)) => {
            let path = match walk.place.opened_at.is_empty() {
                true => SourcePath::from(outer.field.path.clone()),
                false => SourcePath::new(without_mark(&walk.place.opened_at)),
            };
            let problem = Problem::new(ProblemKind::Archive, path, format!(": {what}"));
            found.problems.push(problem);
        }
    }
    Ok(found)
}

fn without_mark(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"!").unwrap_or(path)
}

/// Goes through the members of one archive.
fn through(
    source: &Lister<'_>,
    outer: &Outer,
    walk: &Walk,
    entries: &mut Entries<'_>,
) -> Result<(), Stop> {
    let range = walk.begin..walk.begin.saturating_add(walk.bytes);
    if walk.method != Method::Stored {
        check_size(outer.field.size).map_err(Stop::Bad)?;
        let walked = source.unpacked.with(
            source.inner,
            &outer.field,
            (walk.method, Kind::Source),
            |content| {
                let end = range.end.min(content.len() as u64);
                let range = match walk.depth {
                    1 => 0..content.len() as u64,
                    _ => range.start.min(end)..end,
                };
                tar::walk(&mut &content[..], range, walk.method, entries)
            },
        );
        // What does not unpack is told with all else that is wrong.
        return walked.unwrap_or_else(|error| match error.kind() {
            crate::base::error::Kind::Source => Err(Stop::Bad(error.to_string())),
            _ => Err(Stop::Failed(error)),
        });
    }
    let window = || {
        let (inner, field) = (source.inner.as_ref(), &outer.field);
        Window::open(
            inner,
            field,
            range.end,
            (source.memory, WALKS_OVER_NETWORK),
            source.counters,
            source.stop,
        )
    };
    let mut at = window()?;
    match walk.name.to_ascii_lowercase().ends_with(b".zip") {
        true => zip::walk(
            &mut window()?,
            &mut at as &mut dyn At,
            range.clone(),
            entries,
        )?,
        false => tar::walk(&mut at, range.clone(), Method::Stored, entries)?,
    }
    Ok(at.check()?)
}

/// Refuses files of one stem in directories that count as one: unpacked, they would be one sample, or one file.
fn collisions(listing: &mut Listing) {
    let mut found = Vec::new();
    for same in listing.dirs.chunk_by(|a, b| a.path == b.path) {
        let filled: Vec<&Dir> = same.iter().filter(|dir| !dir.is_empty()).collect();
        if filled.len() < 2 {
            continue;
        }
        let mut first: HashMap<&[u8], FilePath> = HashMap::new();
        for dir in filled {
            let mut here: HashMap<&[u8], FilePath> = HashMap::new();
            for i in 0..dir.len() {
                let stem = split_extension(dir.file(i).name).0;
                match first.get(stem) {
                    Some(other) => {
                        let what = format!(", {}", dir.path_of(i));
                        found.push(Problem::new(ProblemKind::Collision, other.clone(), what));
                    }
                    None => _ = here.entry(stem).or_insert_with(|| dir.path_of(i)),
                }
            }
            first.extend(here);
        }
    }
    listing.problems.extend(found);
}
