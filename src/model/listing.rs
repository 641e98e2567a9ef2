//! A source's files as they were listed, kept compactly: one string area and 16 bytes a file for each directory.
//!
//! Planning must hold every name of the dataset at once and may cost about 150 bytes a sample, so nothing here
//! is a `String` or a `PathBuf` of its own. No rule about images or classes belongs here.

use std::sync::Arc;

use crate::model::extent::{Extent, put_number, take_number};
use crate::model::offenders::{NAMED, and_more};
use crate::model::sample::{Archive, FilePath, Member, SourcePath, Version};

/// Everything a source holds below its root.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Directories with their files, sorted by path; the root's path is empty. Empty directories are there too.
    pub dirs: Vec<Dir>,
    /// Hidden files and directories passed over.
    pub hidden: u64,
    /// What could not be listed, or must not be read.
    pub problems: Vec<Problem>,
}

impl Listing {
    /// Number of files listed.
    pub(crate) fn files(&self) -> u64 {
        self.dirs.iter().map(|dir| dir.len() as u64).sum()
    }
}

/// Why a source is refused; each kind has one remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProblemKind {
    /// A file or directory that cannot be read.
    Unreadable,
    /// An archive that cannot be taken for a directory, or a member that cannot be taken for a file.
    Archive,
    /// A symbolic link that leads to a directory it lies in.
    Loop,
    /// Neither file nor directory.
    Special,
    /// An image of no bytes.
    ZeroLength,
    /// A file over the format's limit.
    TooLarge,
    /// Files that would become one key or one field.
    Collision,
    /// A class directory without images.
    EmptyClass,
    /// Images beside class directories.
    Loose,
    /// An image without a label, or a label without an image.
    Unlabelled,
    /// An image of a kind that is not read.
    UnreadKind,
    /// A key that was asked for, and no sample has it.
    UnknownKey,
}

impl ProblemKind {
    /// Heading and remedy for a list of such problems.
    pub(crate) fn explain(self) -> (&'static str, &'static str) {
        match self {
            ProblemKind::Unreadable => (
                "cannot be read",
                "mend the permissions or the link, or leave it out with `--exclude`",
            ),
            ProblemKind::Archive => (
                "archive that cannot be read as a directory",
                "get or make it again, unpack it, or leave it out with `--exclude`",
            ),
            ProblemKind::Loop => (
                "symbolic link leads back to a directory it lies in",
                "remove the link",
            ),
            ProblemKind::Special => (
                "neither a file nor a directory",
                "remove it, or leave it out with `--exclude`",
            ),
            ProblemKind::ZeroLength => (
                "image of zero length",
                "restore or remove it, leave it out with `--exclude`, or give `--on-error skip`",
            ),
            ProblemKind::TooLarge => (
                "too large for this format",
                "leave it out with `--exclude`, or give `--on-error skip`",
            ),
            ProblemKind::Collision => (
                "files that would become one key or one field",
                "rename all but one, or leave them out with `--exclude`",
            ),
            ProblemKind::EmptyClass => (
                "class directory without images",
                "remove it, leave it out with `--exclude`, or keep the class with `--allow-empty`",
            ),
            ProblemKind::Loose => (
                "image beside class directories",
                "move it into a class directory, or leave it out with `--exclude`",
            ),
            ProblemKind::Unlabelled => (
                "label and image do not match",
                "correct the label file, or leave the image out with `--exclude`",
            ),
            ProblemKind::UnreadKind => (
                "image of a kind that is not read",
                "convert it to JPEG, PNG or WebP, or leave it out with `--exclude`, as `--exclude '**/*.avif'`",
            ),
            ProblemKind::UnknownKey => (
                "key that no sample has",
                "take it out of the file of `--keys`, or correct it: keys are those of the index, as `shardpack ls` shows them",
            ),
        }
    }
}

/// One offender.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// What sort of problem it is.
    pub kind: ProblemKind,
    /// The file or directory.
    pub path: SourcePath,
    /// What follows the path when it is told.
    pub detail: String,
}

impl Problem {
    /// A problem of `kind` at `path`; `detail` follows the path when it is told.
    pub(crate) fn new(
        kind: ProblemKind,
        path: impl Into<SourcePath>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            path: path.into(),
            detail: detail.into(),
        }
    }
}

/// Renders problems, grouped by kind: the number of each, its remedy, and the first of them.
pub(crate) fn render(problems: &mut [Problem]) -> String {
    problems.sort();
    let mut out = String::new();
    for group in problems.chunk_by(|a, b| a.kind == b.kind) {
        let (heading, remedy) = group[0].kind.explain();
        out.push_str(&format!("\n  {heading} ({}): {remedy}", group.len()));
        for problem in &group[..group.len().min(NAMED)] {
            out.push_str(&format!("\n    {}{}", problem.path, problem.detail));
        }
        out.push_str(&and_more("    ", group.len() as u64, NAMED));
    }
    out
}

/// One directory and the files directly in it.
#[derive(Debug, Default)]
pub(crate) struct Dir {
    /// Path below the source's root by which its files are grouped, keyed and labelled.
    pub path: Vec<u8>,
    /// Where its files are opened, if that is another path: what lies in an archive counts as if it had been unpacked.
    pub opened_at: Option<Vec<u8>>,
    /// The archive that its files lie in; all of them or none.
    archive: Option<Arc<Archive>>,
    /// The archives that its listed files lie in, which are those of many directories.
    listed_in: Option<Arc<[Arc<Archive>]>>,
    arena: Vec<u8>,
    files: Vec<File>,
}

/// Where a file's name and version lie in the directory's area: the name, then the tag if there is one.
#[derive(Clone, Copy, Debug)]
struct File {
    at: u32,
    name: u16,
    /// Length of the entity tag, or [`File::TIME`]: then 8 bytes of modification time follow the name; or [`File::MEMBER`]: then its place in
    /// the archive does; or [`File::LISTED`]: then the number of its archive and its place in that do.
    tag: u16,
    size: u64,
}

impl File {
    const TIME: u16 = u16::MAX;
    const MEMBER: u16 = u16::MAX - 1;
    const LISTED: u16 = u16::MAX - 2;
}

/// A listed file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileRef<'a> {
    /// File name without its directory.
    pub name: &'a [u8],
    /// Length in bytes.
    pub size: u64,
    version: RawVersion<'a>,
}

#[derive(Clone, Copy, Debug)]
enum RawVersion<'a> {
    Time(i64),
    Tag(&'a [u8]),
    Member(&'a Arc<Archive>, Extent),
}

impl FileRef<'_> {
    /// State of the file when it was listed.
    pub(crate) fn version(&self) -> Version {
        match self.version {
            RawVersion::Time(ns) => Version::Mtime(ns),
            RawVersion::Tag(tag) => Version::ETag(String::from_utf8_lossy(tag).into_owned()),
            RawVersion::Member(archive, extent) => Version::Member(Box::new(Member {
                archive: Arc::clone(archive),
                extent,
            })),
        }
    }

    /// Where in the directory's archive it lies, if it lies in one.
    pub(crate) fn extent(&self) -> Option<Extent> {
        match self.version {
            RawVersion::Member(_, extent) => Some(extent),
            RawVersion::Time(_) | RawVersion::Tag(_) => None,
        }
    }

    /// Gives `to` everything that is known of the file, so that two files give the same only if they are in the same state.
    pub(crate) fn describe(&self, to: &mut impl FnMut(&[u8])) {
        to(&(self.name.len() as u64).to_le_bytes());
        to(self.name);
        to(&self.size.to_le_bytes());
        match self.version {
            RawVersion::Time(ns) => {
                to(&u64::MAX.to_le_bytes());
                to(&ns.to_le_bytes());
            }
            RawVersion::Tag(tag) => {
                to(&(tag.len() as u64).to_le_bytes());
                to(tag);
            }
            RawVersion::Member(..) => {
                let text = self.version().to_string();
                to(&(u64::MAX - 1).to_le_bytes());
                to(&(text.len() as u64).to_le_bytes());
                to(text.as_bytes());
            }
        }
    }
}

impl Dir {
    /// An empty directory at `path` below the root.
    pub(crate) fn new(path: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }

    /// An empty directory at `path` below the root whose files lie in an archive, where it is `opened_at`.
    pub(crate) fn in_archive(
        path: impl Into<Vec<u8>>,
        opened_at: impl Into<Vec<u8>>,
        archive: Arc<Archive>,
    ) -> Self {
        Self {
            path: path.into(),
            opened_at: Some(opened_at.into()),
            archive: Some(archive),
            ..Self::default()
        }
    }

    /// An empty directory at `path` below the root whose files lie in some of these archives, as a list says that does not lie in them.
    pub(crate) fn listed(
        path: impl Into<Vec<u8>>,
        opened_at: Option<Vec<u8>>,
        archives: Arc<[Arc<Archive>]>,
    ) -> Self {
        Self {
            path: path.into(),
            opened_at,
            listed_in: Some(archives),
            ..Self::default()
        }
    }

    /// Adds a file of the directory's archive; false when it does not fit.
    #[must_use]
    pub(crate) fn push_member(&mut self, name: &[u8], size: u64, extent: &Extent) -> bool {
        self.push_placed(name, size, File::MEMBER, |arena| extent.encode(size, arena))
    }

    /// Adds a file of the archive of this number in the directory's list of them, and the width and height that the list says of it; false when
    /// it does not fit.
    #[must_use]
    pub(crate) fn push_listed(
        &mut self,
        name: &[u8],
        size: u64,
        archive: usize,
        extent: &Extent,
        sides: Option<(u32, u32)>,
    ) -> bool {
        let (width, height) = sides.unwrap_or((0, 0));
        self.push_placed(name, size, File::LISTED, |arena| {
            put_number(archive as u64, arena);
            extent.encode(size, arena);
            put_number(u64::from(width), arena);
            put_number(u64::from(height), arena);
        })
    }

    fn push_placed(
        &mut self,
        name: &[u8],
        size: u64,
        tag: u16,
        place: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let (Ok(at), Ok(name_len)) = (u32::try_from(self.arena.len()), u16::try_from(name.len()))
        else {
            return false;
        };
        self.arena.extend_from_slice(name);
        place(&mut self.arena);
        self.files.push(File {
            at,
            name: name_len,
            tag,
            size,
        });
        true
    }

    /// Adds a file; false when it does not fit (64 KiB a name or tag, 4 GiB of names a directory, one archive a directory).
    #[must_use]
    pub(crate) fn push(&mut self, name: &[u8], size: u64, version: &Version) -> bool {
        let (Ok(at), Ok(name_len)) = (u32::try_from(self.arena.len()), u16::try_from(name.len()))
        else {
            return false;
        };
        let tag = match version {
            Version::Mtime(_) => File::TIME,
            Version::ETag(tag) => match u16::try_from(tag.len()) {
                Ok(length) if length < File::LISTED => length,
                _ => return false,
            },
            Version::Member(member) => {
                let archive = self
                    .archive
                    .get_or_insert_with(|| Arc::clone(&member.archive));
                return *archive == member.archive && self.push_member(name, size, &member.extent);
            }
        };
        self.arena.extend_from_slice(name);
        match version {
            Version::Mtime(ns) => self.arena.extend_from_slice(&ns.to_le_bytes()),
            Version::ETag(tag) => self.arena.extend_from_slice(tag.as_bytes()),
            Version::Member(_) => {}
        }
        self.files.push(File {
            at,
            name: name_len,
            tag,
            size,
        });
        true
    }

    /// Takes over the files of another part of the same directory.
    #[must_use]
    pub(crate) fn append(&mut self, other: Dir) -> bool {
        if self.is_empty() {
            let path = std::mem::take(&mut self.path);
            let opened_at = self.opened_at.take();
            *self = Dir {
                path,
                opened_at,
                ..other
            };
            return true;
        }
        (0..other.len()).all(|i| {
            let file = other.file(i);
            self.push(file.name, file.size, &file.version())
        })
    }

    /// Number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether no file lies directly in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The file at `index`.
    pub(crate) fn file(&self, index: usize) -> FileRef<'_> {
        let file = self.files[index];
        let (name, rest) = self.arena[file.at as usize..].split_at(usize::from(file.name));
        let version = match file.tag {
            File::TIME => RawVersion::Time(i64::from_le_bytes(std::array::from_fn(|i| rest[i]))),
            File::MEMBER => member(self.archive.as_ref(), file.size, rest),
            File::LISTED => self.listed_member(file.size, rest),
            length => RawVersion::Tag(&rest[..usize::from(length)]),
        };
        FileRef {
            name,
            size: file.size,
            version,
        }
    }

    /// The width and height that a list says of the file at `index`, if one says them.
    pub(crate) fn listed_sides(&self, index: usize) -> Option<(u32, u32)> {
        let file = self.files[index];
        if file.tag != File::LISTED {
            return None;
        }
        let mut rest = &self.arena[file.at as usize + usize::from(file.name)..];
        take_number(&mut rest)?;
        Extent::decode(file.size, &mut rest)?;
        let mut side = || u32::try_from(take_number(&mut rest)?).ok();
        let (width, height) = (side()?, side()?);
        (width > 0 && height > 0).then_some((width, height))
    }

    /// What was put down of a listed file: the number of its archive, and an extent in that.
    fn listed_member(&self, size: u64, mut place: &[u8]) -> RawVersion<'_> {
        let number = take_number(&mut place).and_then(|number| usize::try_from(number).ok());
        let archive = number.and_then(|number| self.listed_in.as_ref()?.get(number));
        member(archive, size, place)
    }

    /// The path that the file at `index` is opened by, below the root.
    pub(crate) fn path_of(&self, index: usize) -> FilePath {
        let dir = self.opened_at.as_ref().unwrap_or(&self.path);
        FilePath::below(dir, self.file(index).name)
    }

    /// Sorts the files by the given comparison of their names and gives spare memory back.
    pub(crate) fn sort_by(&mut self, compare: impl Fn(&[u8], &[u8]) -> std::cmp::Ordering) {
        let arena = &self.arena;
        let name = |f: &File| &arena[f.at as usize..f.at as usize + usize::from(f.name)];
        self.files
            .sort_unstable_by(|a, b| compare(name(a), name(b)));
        self.shrink();
    }

    /// Gives spare memory back.
    pub(crate) fn shrink(&mut self) {
        self.files.shrink_to_fit();
        self.arena.shrink_to_fit();
    }

    /// Keeps the files whose name satisfies `keep`; returns how many went.
    pub(crate) fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) -> u64 {
        let before = self.files.len();
        let arena = &self.arena;
        self.files
            .retain(|f| keep(&arena[f.at as usize..f.at as usize + usize::from(f.name)]));
        (before - self.files.len()) as u64
    }
}

/// What was put down of a member: an extent, in an archive.
fn member<'a>(archive: Option<&'a Arc<Archive>>, size: u64, mut extent: &[u8]) -> RawVersion<'a> {
    match (archive, Extent::decode(size, &mut extent)) {
        (Some(archive), Some(extent)) => RawVersion::Member(archive, extent),
        // Cannot be: they went in together.
        _ => RawVersion::Tag(b""),
    }
}

/// Whether a file or directory of this name is none of the data: hidden, or left by a system that shows directories to people.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".") || name == b"__MACOSX" || name.eq_ignore_ascii_case(b"Thumbs.db")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_as_they_went_in() {
        let mut dir = Dir::new("a");
        assert!(dir.push(b"y.jpg", 7, &Version::Mtime(-5)));
        assert!(dir.push(
            b"x.jpg",
            9,
            &Version::ETag("d41d8cd98f00b204e9800998ecf8427e-12".into())
        ));
        dir.sort_by(Ord::cmp);
        assert_eq!(dir.file(0).name, b"x.jpg");
        assert_eq!(
            dir.file(0).version(),
            Version::ETag("d41d8cd98f00b204e9800998ecf8427e-12".into())
        );
        assert_eq!(dir.file(1).size, 7);
        assert_eq!(dir.file(1).version(), Version::Mtime(-5));
        assert_eq!(dir.path_of(1).to_string(), "a/y.jpg");
        dir.opened_at = Some(b"a.tar!".to_vec());
        assert_eq!(dir.path_of(1).to_string(), "a.tar!/y.jpg");
        let archive = Archive {
            listed_at: None,
            prefix_bytes: 6,
            bytes: 10_240,
            version: Version::Mtime(7),
        };
        let extent = Extent {
            offset: 512,
            bytes: 7,
            method: crate::model::extent::Method::Stored,
            crc32: None,
        };
        let mut members = Dir::in_archive("a", "a.tar!", Arc::new(archive));
        assert!(members.push_member(b"z.jpg", 7, &extent));
        let version = members.file(0).version();
        assert_eq!(version.to_string(), "in:6:10240:512+7-stored:mtime:7");
        let mut taken_over = Dir::new("a");
        assert!(taken_over.push(b"y.jpg", 1, &version));
        assert!(taken_over.append(members));
        assert_eq!(taken_over.file(1).version(), version);
    }

    #[test]
    fn problems_are_listed_in_full_with_one_remedy_a_kind() {
        let mut problems = vec![
            Problem::new(ProblemKind::ZeroLength, SourcePath::new("b.jpg"), ""),
            Problem::new(ProblemKind::Loop, SourcePath::new("l"), " -> ."),
            Problem::new(ProblemKind::ZeroLength, SourcePath::new("a.jpg"), ""),
        ];
        let text = render(&mut problems);
        assert!(text.contains("image of zero length (2)"));
        assert!(text.find("a.jpg") < text.find("b.jpg"));
    }
}
