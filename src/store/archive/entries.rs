//! What a walk meets, gathered into the directories that an unpacked archive would be.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Stop;
use super::left_out::LeftOut;
use crate::model::counters::Counters;
use crate::model::extent::{Extent, Method};
use crate::model::listing::{Dir, Problem, ProblemKind, is_hidden};
use crate::model::sample::{Archive, SourcePath, archive_stem};

/// Problems of one archive after which its walk ends: more tell nobody more.
const MOST_PROBLEMS: usize = 1000;
/// Directories in each other, and bytes of all their paths: short headers can name many long ones.
const MOST_DEEP: usize = 128;
const MOST_PATH_BYTES: usize = 32 << 20;
/// Links that lead to links that lead to links are followed so often.
const LINKS_FOLLOWED: usize = 8;
/// Members between two times that they are counted.
const COUNTED_AT_ONCE: u64 = 512;

/// Where an archive lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The path that its members are opened by, with the `!`; empty for the source itself.
    pub(super) opened_at: Vec<u8>,
    /// The path that counts.
    pub(super) path: Vec<u8>,
}

impl Place {
    /// The place of an archive of this name in a directory with these paths; `None` if no archive is called so.
    pub(super) fn below(opened_at: &[u8], path: &[u8], name: &[u8]) -> Option<Self> {
        Some(Self {
            opened_at: [&below(opened_at, name)[..], b"!"].concat(),
            path: below(path, archive_stem(name)?),
        })
    }
}

/// The path of what lies at `path` below `dir`; either may be empty.
pub(super) fn below(dir: &[u8], path: &[u8]) -> Vec<u8> {
    match path {
        b"" => dir.to_vec(),
        path => SourcePath::join(dir, path).into_bytes(),
    }
}

/// An archive that is a member of another.
pub(super) struct Nested {
    pub(super) place: Place,
    pub(super) name: Vec<u8>,
    pub(super) extent: Extent,
}

/// What was found in one archive.
#[derive(Default)]
pub(super) struct Found {
    pub(super) dirs: Vec<Dir>,
    pub(super) hidden: u64,
    pub(super) problems: Vec<Problem>,
}

struct Link {
    path: Vec<u8>,
    target: Vec<u8>,
    header: u64,
}

/// The members of one archive.
pub(super) struct Entries<'a> {
    place: &'a Place,
    archive: &'a Arc<Archive>,
    left_out: &'a LeftOut,
    counters: &'a Counters,
    /// Is shown each archive in the archive as soon as it is met.
    nested: &'a dyn Fn(Nested),
    dirs: Vec<Dir>,
    /// Numbers of `dirs`, by path in the archive; and the one that was asked for last.
    numbers: HashMap<Vec<u8>, usize>,
    last: (Vec<u8>, usize),
    path_bytes: usize,
    hidden: u64,
    hidden_dirs: HashSet<Vec<u8>>,
    links: Vec<Link>,
    /// Archives in the archive, with where they begin.
    archives: HashMap<Vec<u8>, u64>,
    problems: Vec<Problem>,
    /// Members that are not counted yet.
    uncounted: u64,
}

impl<'a> Entries<'a> {
    /// None yet, of the archive at this place.
    pub(super) fn new(
        place: &'a Place,
        archive: &'a Arc<Archive>,
        left_out: &'a LeftOut,
        counters: &'a Counters,
        nested: &'a dyn Fn(Nested),
    ) -> Self {
        let mut entries = Self {
            place,
            archive,
            left_out,
            counters,
            nested,
            dirs: Vec::new(),
            numbers: HashMap::new(),
            last: (Vec::new(), 0),
            path_bytes: 0,
            hidden: 0,
            hidden_dirs: HashSet::new(),
            links: Vec::new(),
            archives: HashMap::new(),
            problems: Vec::new(),
            uncounted: 0,
        };
        entries.dir(b"");
        entries
    }

    /// A file of this length.
    pub(super) fn file(&mut self, path: &[u8], size: u64, extent: Extent, header: u64) {
        let Some(path) = self.visible(path, false, header) else {
            return;
        };
        self.uncounted += 1;
        if self.uncounted >= COUNTED_AT_ONCE {
            self.counters.listed(std::mem::take(&mut self.uncounted));
        }
        let (dir, name) = split(&path);
        if archive_stem(name).is_some() {
            return self.nested(&path, size, extent, header);
        }
        let number = self.dir(dir);
        if !self.dirs[number].push_member(name, size, &extent) {
            self.problem(&path, &format!(": does not fit, at {header}"));
        }
    }

    /// A directory, which may be empty.
    pub(super) fn directory(&mut self, path: &[u8], header: u64) {
        if let Some(path) = self.visible(path, true, header) {
            self.dir(&path);
        }
    }

    /// A link to another member: a hard one says the member's path, a symbolic one where to go from its own directory.
    pub(super) fn link(&mut self, path: &[u8], target: &[u8], hard: bool, header: u64) {
        let Some(path) = self.visible(path, false, header) else {
            return;
        };
        let from = if hard { b"" } else { split(&path).0 };
        match resolve(from, target) {
            Some(target) => self.links.push(Link {
                path,
                target,
                header,
            }),
            None => {
                let what = format!(
                    " -> {}: leads out of the archive, at {header}",
                    SourcePath::new(target)
                );
                self.problem(&path, &what);
            }
        }
    }

    /// What can be no file of a sample.
    pub(super) fn special(&mut self, path: &[u8], what: &str, header: u64) {
        if let Some(path) = self.visible(path, false, header) {
            self.problem(&path, &format!(" {what}, at {header}"));
        }
    }

    /// Ends a walk that meets nothing but problems, or more than can be held.
    pub(super) fn check(&self) -> Result<(), Stop> {
        let what = if self.problems.len() >= MOST_PROBLEMS {
            "and so on: nothing more was looked at"
        } else if self.path_bytes > MOST_PATH_BYTES {
            "more than 32 MiB of paths of directories"
        } else {
            return Ok(());
        };
        Err(Stop::Bad(what.to_owned()))
    }

    /// What all of it comes to.
    pub(super) fn finish(mut self) -> Found {
        self.counters.listed(self.uncounted);
        self.sort();
        self.follow_links();
        self.find_doubles();
        Found {
            dirs: self.dirs,
            hidden: self.hidden,
            problems: self.problems,
        }
    }

    /// The path of a member as it would be unpacked; `None` if it is hidden, or leads elsewhere, which is a problem.
    fn visible(&mut self, path: &[u8], is_directory: bool, header: u64) -> Option<Vec<u8>> {
        let Some(clean) = clean(path) else {
            let what = format!(": no path below a directory, at {header}");
            self.problem(path, &what);
            return None;
        };
        let mut begin = 0;
        for part in clean.split(|&b| b == b'/') {
            let end = begin + part.len();
            if is_hidden(part) {
                let whole = end == clean.len();
                let new =
                    (whole && !is_directory) || self.hidden_dirs.insert(clean[..end].to_vec());
                self.hidden += u64::from(new);
                return None;
            }
            begin = end + 1;
        }
        match (clean.is_empty(), is_directory) {
            // The directory that was packed.
            (true, true) => None,
            (true, false) => {
                self.problem(path, &format!("a member without a name, at {header}"));
                None
            }
            _ => Some(clean),
        }
    }

    /// An archive in the archive.
    fn nested(&mut self, path: &[u8], size: u64, extent: Extent, header: u64) {
        let (dir, name) = split(path);
        let number = self.dir(dir);
        let parent = &self.dirs[number];
        let opened_at = parent.opened_at.clone().unwrap_or_default();
        let Some(place) = Place::below(&opened_at, &parent.path, name) else {
            return;
        };
        if let Some(before) = self.archives.insert(path.to_vec(), header) {
            let what = format!(": twice in the archive, at {before} and at {header}");
            return self.problem(path, &what);
        }
        if self.left_out.has(&below(&parent.path, name)) {
            if !self.dirs[number].push_member(name, size, &extent) {
                self.problem(path, &format!(": does not fit, at {header}"));
            }
            return;
        }
        if self.left_out.has(&place.path) {
            let mut unopened = Dir::in_archive(place.path, opened_at, Arc::clone(self.archive));
            if unopened.push_member(name, size, &extent) {
                self.dirs.push(unopened);
            }
            return;
        }
        let lower = name.to_ascii_lowercase();
        let is_zip = lower.ends_with(b".zip");
        let packed_here = !(lower.ends_with(b".tar") || is_zip) || extent.method == Method::Deflate;
        let packed_around = is_zip && extent.method != Method::Stored;
        if packed_here || packed_around {
            let what = format!(
                ": a compressed archive inside of an archive, at {header}: unpack one of them"
            );
            return self.problem(path, &what);
        }
        (self.nested)(Nested {
            place,
            name: name.to_vec(),
            extent,
        });
    }

    /// The number of the directory at this path of the archive, which is made with those it lies in.
    fn dir(&mut self, path: &[u8]) -> usize {
        if self.last.0 == path && !self.dirs.is_empty() {
            return self.last.1;
        }
        let number = match self.numbers.get(path) {
            Some(&number) => number,
            None => {
                if !path.is_empty() {
                    self.dir(split(path).0);
                }
                let at = below(&self.place.path, path);
                let opened_at = below(&self.place.opened_at, path);
                self.path_bytes += at.len() + opened_at.len() + path.len();
                self.dirs
                    .push(Dir::in_archive(at, opened_at, Arc::clone(self.archive)));
                self.numbers.insert(path.to_vec(), self.dirs.len() - 1);
                self.dirs.len() - 1
            }
        };
        self.last = (path.to_vec(), number);
        number
    }

    fn problem(&mut self, path: &[u8], what: &str) {
        let path = SourcePath::new(below(&self.place.opened_at, path));
        self.problems
            .push(Problem::new(ProblemKind::Archive, path, what));
    }

    fn sort(&mut self) {
        for dir in &mut self.dirs {
            dir.sort_by(Ord::cmp);
        }
    }

    /// The file at a path of the archive; directories are sorted.
    fn find(&self, path: &[u8]) -> Option<(u64, Extent)> {
        let (dir, name) = split(path);
        let dir = &self.dirs[*self.numbers.get(dir)?];
        let file = dir.file(find(dir, name)?);
        Some((file.size, file.extent()?))
    }

    /// Makes links files with the content of what they lead to.
    fn follow_links(&mut self) {
        for _ in 0..LINKS_FOLLOWED {
            let (found, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.links)
                .into_iter()
                .map(|link| (self.find(&link.target), link))
                .partition(|(found, _)| found.is_some());
            self.links = left.into_iter().map(|(_, link)| link).collect();
            if found.is_empty() {
                break;
            }
            for (file, link) in found {
                let number = self.dir(split(&link.path).0);
                let name = split(&link.path).1;
                let is_archive = archive_stem(name).is_some();
                match file.filter(|_| !is_archive) {
                    Some((size, extent)) if self.dirs[number].push_member(name, size, &extent) => {}
                    _ => self.problem(
                        &link.path,
                        &format!(": a link that cannot be followed, at {}", link.header),
                    ),
                }
            }
            self.sort();
        }
        for link in std::mem::take(&mut self.links) {
            let what = if self.archives.contains_key(&link.target) {
                "which is an archive"
            } else if self.numbers.contains_key(&link.target) {
                "which is a directory"
            } else {
                "which is no file of the archive"
            };
            let target = SourcePath::new(below(&self.place.opened_at, &link.target));
            let what = format!(" -> {target}, {what}, at {}", link.header);
            self.problem(&link.path, &what);
        }
    }

    /// Refuses names that two members have: programs that unpack would keep one of them.
    fn find_doubles(&mut self) {
        let mut found = Vec::new();
        for (path, &number) in &self.numbers {
            let dir = &self.dirs[number];
            for i in 1..dir.len() {
                let (a, b) = (dir.file(i - 1), dir.file(i));
                if a.name == b.name {
                    let [a, b] = [a, b].map(|file| file.extent().map_or(0, |extent| extent.offset));
                    let what = format!(
                        ": twice in the archive, with contents at {} and at {}",
                        a.min(b),
                        a.max(b)
                    );
                    found.push((below(path, dir.file(i).name), what));
                }
            }
            let (above, name) = split(path);
            let is_file = |above: &usize| find(&self.dirs[*above], name).is_some();
            if !path.is_empty() && self.numbers.get(above).is_some_and(is_file) {
                let what = ": both a file and a directory of the archive".to_owned();
                found.push((path.clone(), what));
            }
        }
        for (path, what) in found.iter().take(MOST_PROBLEMS) {
            self.problem(path, what);
        }
    }
}

/// The number of a file in a sorted directory.
fn find(dir: &Dir, name: &[u8]) -> Option<usize> {
    let (mut low, mut high) = (0, dir.len());
    while low < high {
        let middle = low.midpoint(high);
        match dir.file(middle).name < name {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    (low < dir.len() && dir.file(low).name == name).then_some(low)
}

/// Directory and name of a path.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// A member's path without what means nothing; `None` if it leads elsewhere than below the directory that it is unpacked into.
fn clean(path: &[u8]) -> Option<Vec<u8>> {
    if path.starts_with(b"/") || path.contains(&0) {
        return None;
    }
    resolve_parts(Vec::new(), path, false)
}

/// Where a link in the directory `from` leads.
fn resolve(from: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    if target.starts_with(b"/") {
        return None;
    }
    resolve_parts(from.to_vec(), target, true)
}

/// Goes on from `at` by a relative path; `upwards` says whether it may have `..`.
fn resolve_parts(mut at: Vec<u8>, path: &[u8], upwards: bool) -> Option<Vec<u8>> {
    let mut deep = 0;
    for part in path.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if upwards && !at.is_empty() => at.truncate(split(&at).0.len()),
            b".." => return None,
            part => {
                deep += 1;
                if !at.is_empty() {
                    at.push(b'/');
                }
                at.extend_from_slice(part);
            }
        }
    }
    (deep <= MOST_DEEP).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_what_means_nothing_and_never_lead_out() {
        for (path, is) in [
            ("./a//b/./c.jpg", Some("a/b/c.jpg")),
            ("a/", Some("a")),
            ("./", Some("")),
            ("a/../b", None),
            ("../b", None),
            ("/a", None),
            ("a\0b", None),
        ] {
            let clean = clean(path.as_bytes()).map(|path| String::from_utf8(path).unwrap());
            assert_eq!(clean.as_deref(), is, "{path}");
        }
        for (from, target, is) in [
            ("a/b", "../c/x.jpg", Some("a/c/x.jpg")),
            ("a", "../../x", None),
            ("", "/etc/passwd", None),
            ("", "a/b", Some("a/b")),
        ] {
            let to = resolve(from.as_bytes(), target.as_bytes());
            let to = to.map(|path| String::from_utf8(path).unwrap());
            assert_eq!(to.as_deref(), is, "{from} {target}");
        }
        assert_eq!(clean(&b"a/".repeat(MOST_DEEP + 1)), None);
    }
}
