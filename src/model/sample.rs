//! The values that everything else is about: a source path, a version, a field, a sample, and its key.
//!
//! A key names a sample for every reader, so it is made of characters that all of them accept; the mapping
//! from path to key is one to one, so two files never share a key by accident of escaping.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::base::buffer::allocated;
use crate::base::text::{hex, show, unhex};
use crate::model::extent::Extent;

/// Longest key in bytes; with [`MAX_FIELD_BYTES`] and the dot it fits the 100 bytes of a ustar name.
pub(crate) const MAX_KEY_BYTES: usize = 80;
/// Longest field name in bytes.
pub(crate) const MAX_FIELD_BYTES: usize = 19;

/// A path as a source, a shard or an index tells it, `/`-separated, of any bytes: for people, for comparing and for indexes. It may say
/// anything; what is opened is a [`FilePath`].
///
/// Shown with `\xNN` for what is not UTF-8 and for control characters; serialised as a string, or as
/// `{"hex": "…"}` when it is not UTF-8, so nothing is lost.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourcePath(Vec<u8>);

/// The path of what came from no file.
pub(crate) static NO_PATH: SourcePath = SourcePath(Vec::new());

impl SourcePath {
    /// A path from its bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// `dir` and `name` joined; an empty `dir` is the root.
    pub fn join(dir: &[u8], name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(dir.len() + 1 + name.len());
        bytes.extend_from_slice(dir);
        if !dir.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    /// The path's bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The same, borrowed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path that the file would have if all archives that it lies in had been unpacked, each into a directory of its name: shards are the
    /// same bytes whether they were.
    pub fn counted(&self) -> std::borrow::Cow<'_, Self> {
        let is_archive = |part: &[u8]| part.strip_suffix(b"!").and_then(archive_stem).is_some();
        let mut parts = self.0.split(|&b| b == b'/');
        if !parts.any(is_archive) {
            return std::borrow::Cow::Borrowed(self);
        }
        let parts = self.0.split(|&b| b == b'/').map(|part| {
            let stem = part.strip_suffix(b"!").and_then(archive_stem);
            stem.unwrap_or(part)
        });
        let parts: Vec<&[u8]> = parts.collect();
        std::borrow::Cow::Owned(Self(parts.join(&b'/')))
    }

    /// The path as it is if it is UTF-8, and as it is shown if not.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        match self.as_str() {
            Some(text) => text.into(),
            None => show(&self.0).into(),
        }
    }

    /// The path as text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Display for SourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(&self.0))
    }
}

impl fmt::Debug for SourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// Ends of the names of archives, the longer ones first.
const ARCHIVE_ENDS: [&[u8]; 5] = [b".tar.gz", b".tar.zst", b".tgz", b".tar", b".zip"];

/// The name of the directory that an archive of this name stands for; `None` if it is the name of no archive.
pub(crate) fn archive_stem(name: &[u8]) -> Option<&[u8]> {
    let stem = |end: &&[u8]| {
        let (stem, tail) = name.split_at_checked(name.len().checked_sub(end.len())?)?;
        (!stem.is_empty() && tail.eq_ignore_ascii_case(end)).then_some(stem)
    };
    ARCHIVE_ENDS.iter().find_map(stem)
}

/// 64 bits that tell keys apart but for one chance in 2⁶⁴ a pair: the first of its SHA-256, least significant first.
pub(crate) fn key_hash(key: &str) -> u64 {
    let digest = Sha256::digest(key.as_bytes());
    u64::from_le_bytes(std::array::from_fn(|i| digest[i]))
}

impl Serialize for SourcePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_map([("hex", hex(&self.0))]),
        }
    }
}

impl<'de> Deserialize<'de> for SourcePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = SourcePath;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or `{\"hex\": …}`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SourcePath, E> {
                Ok(SourcePath::new(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SourcePath, A::Error> {
                match map.next_entry::<String, String>()? {
                    Some((name, digits)) if name == "hex" => unhex(&digits)
                        .map(SourcePath)
                        .ok_or_else(|| de::Error::custom("path is not hexadecimal")),
                    _ => Err(de::Error::missing_field("hex")),
                }
            }
        }
        deserializer.deserialize_any(Form)
    }
}

/// The path of a file below the source's root. It cannot lead out of it, wherever it was read: it is relative, and no part of it is empty, `.`
/// or `..`. Symbolic links below the root are followed all the same, because people build sources of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "SourcePath", into = "SourcePath")]
pub struct FilePath(SourcePath);

impl FilePath {
    /// The file of this name in a directory below the root; `dir` is empty for the root. What no listing gives, a name that leads
    /// elsewhere, becomes the empty path: no file has it.
    pub fn below(dir: &[u8], name: &[u8]) -> Self {
        Self::try_from(SourcePath::join(dir, name)).unwrap_or_default()
    }
}

impl TryFrom<SourcePath> for FilePath {
    type Error = String;

    fn try_from(path: SourcePath) -> Result<Self, String> {
        let leads_out = |part: &[u8]| part.is_empty() || part == b"." || part == b"..";
        match path.0.split(|&b| b == b'/').any(leads_out) {
            true => Err(format!("`{path}` is no path of a file below a source")),
            false => Ok(Self(path)),
        }
    }
}

impl std::ops::Deref for FilePath {
    type Target = SourcePath;

    fn deref(&self) -> &SourcePath {
        &self.0
    }
}

impl From<FilePath> for SourcePath {
    fn from(path: FilePath) -> Self {
        path.0
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// What tells one state of a source file from another, besides its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Modification time on a file system, in nanoseconds since 1970.
    Mtime(i64),
    /// Entity tag of an object store, without quotes.
    ETag(String),
    /// Where the file lies in an archive, and the state of that.
    Member(Box<Member>),
}

/// A file that is a part of another one: everything that it takes to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The file that is opened, which may have other archives in it.
    pub archive: Arc<Archive>,
    /// Where in that file it lies.
    pub extent: Extent,
}

/// A file whose content is other files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Archive {
    /// Where it lies below the source, if its members' paths do not begin with that: those of a list that says where each of them is.
    pub listed_at: Option<FilePath>,
    /// How much of its members' paths is its own path and the `!` after that; 0 if it is the source itself, or listed.
    pub prefix_bytes: u16,
    /// Its length.
    pub bytes: u64,
    /// Its state; never that of a member.
    pub version: Version,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Mtime(ns) => write!(f, "mtime:{ns}"),
            Version::ETag(tag) => write!(f, "etag:{tag}"),
            Version::Member(member) => {
                let Member { archive, extent } = &**member;
                let Archive {
                    listed_at,
                    prefix_bytes,
                    bytes,
                    version,
                } = &**archive;
                match listed_at {
                    None => write!(f, "in:{prefix_bytes}:{bytes}:{extent}:{version}"),
                    Some(path) => {
                        let path = hex(path.as_bytes());
                        write!(f, "listed:{path}:{bytes}:{extent}:{version}")
                    }
                }
            }
        }
    }
}

impl std::str::FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("mtime", ns)) => ns
                .parse()
                .map(Version::Mtime)
                .map_err(|_| format!("version `{text}`: not a number of nanoseconds")),
            Some(("etag", tag)) => Ok(Version::ETag(tag.to_owned())),
            Some((place @ ("in" | "listed"), member)) => parse_member(place == "listed", member)
                .map(|member| Version::Member(Box::new(member)))
                .ok_or_else(|| format!("version `{text}`: not a place in an archive")),
            _ => Err(format!(
                "version `{text}`: expected `mtime:NS`, `etag:TAG`, `in:…` or `listed:…`"
            )),
        }
    }
}

/// Reads what [`Version`] shows of a member after `in:` or `listed:`. An archive's own version is that of a file, so this ends.
fn parse_member(is_listed: bool, text: &str) -> Option<Member> {
    let mut parts = text.splitn(4, ':');
    let place = parts.next()?;
    let (listed_at, prefix_bytes) = match is_listed {
        true => {
            let path = SourcePath::new(unhex(place)?);
            (Some(FilePath::try_from(path).ok()?), 0)
        }
        false => (None, place.parse().ok()?),
    };
    let bytes = parts.next()?.parse().ok()?;
    let extent: Extent = parts.next()?.parse().ok()?;
    let version = parts.next()?;
    let of_a_file = version.starts_with("mtime:") || version.starts_with("etag:");
    let version = of_a_file.then(|| version.parse().ok()).flatten()?;
    let archive = Archive {
        listed_at,
        prefix_bytes,
        bytes,
        version,
    };
    extent.is_within(bytes).then(|| Member {
        archive: Arc::new(archive),
        extent,
    })
}

impl Version {
    /// CRC-32 of the content, where a list says it that was made with the file in which it lies.
    pub(crate) fn listed_crc32(&self) -> Option<u32> {
        match self {
            Version::Member(member) if member.archive.listed_at.is_some() => member.extent.crc32,
            _ => None,
        }
    }

    /// Memory in bytes that it takes besides its own few words.
    pub(crate) fn heap_bytes(&self) -> u64 {
        match self {
            Version::Mtime(_) => 0,
            Version::ETag(tag) => allocated(tag.capacity()),
            // A version that was read from a plan shares its archive with no other.
            Version::Member(member) => {
                allocated(size_of::<Member>())
                    + allocated(size_of::<Archive>() + 2 * size_of::<usize>())
                    + (member.archive.listed_at.as_ref())
                        .map_or(0, |path| allocated(path.0.0.capacity()))
                    + member.archive.version.heap_bytes()
            }
        }
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = Version;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`mtime:NS`, `etag:TAG`, `in:…` or `listed:…`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Version, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Form)
    }
}

/// One source file that becomes one field of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Field {
    /// Field name: the normalised, lower-case extension.
    #[serde(deserialize_with = "field_name")]
    pub name: String,
    /// Where the file is, below the source's root.
    pub path: FilePath,
    /// Length in bytes.
    pub size: u64,
    /// State of the file at planning time.
    pub version: Version,
    /// The content of a field that lies in no file: what a table says of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<str>>,
}

/// One image and the files that belong to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Unique over the dataset; see [`key`].
    #[serde(deserialize_with = "sample_key")]
    pub key: String,
    /// Class number, 0-based; `None` where nobody knows its class.
    pub label: Option<u32>,
    /// The image first, then the sidecar files sorted by field name.
    pub fields: Vec<Field>,
}

impl Sample {
    /// The field that holds the image.
    pub(crate) fn image(&self) -> Option<&Field> {
        self.fields.first()
    }

    /// The path of the image, to be told.
    pub(crate) fn path(&self) -> SourcePath {
        let image = self.image().map(|image| image.path.clone());
        image.unwrap_or_default().into()
    }

    /// Memory in bytes that it takes besides its own few words: its names and paths, as the allocator gives it out.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let field = |field: &Field| {
            let content = field
                .content
                .as_ref()
                .map_or(0, |content| allocated(content.len()));
            allocated(field.name.capacity())
                + allocated(field.path.0.0.capacity())
                + field.version.heap_bytes()
                + content
        };
        allocated(self.key.capacity())
            + allocated(self.fields.capacity() * size_of::<Field>())
            + self.fields.iter().map(field).sum::<u64>()
    }
}

/// Reads a key: it becomes the name of a member of a tar, and is of the form that [`key`] gives.
fn sample_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let key = String::deserialize(deserializer)?;
    let plain = |part: &str| {
        let bytes = part.bytes();
        !part.is_empty()
            && bytes
                .into_iter()
                .all(|b| b.is_ascii_alphanumeric() || b"_-~".contains(&b))
    };
    match key.len() <= MAX_KEY_BYTES && key.split('/').all(plain) {
        true => Ok(key),
        false => Err(de::Error::custom(format!(
            "`{}` is no key of a sample",
            show(key.as_bytes())
        ))),
    }
}

/// Reads the name of a field, the end of such a name.
fn field_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    match sidecar_field(name.as_bytes()).as_deref() == Some(&name) {
        true => Ok(name),
        false => Err(de::Error::custom(format!(
            "`{}` is no name of a field",
            show(name.as_bytes())
        ))),
    }
}

/// The key of the sample with this stem in this directory (both relative to the source's root).
///
/// Letters, digits, `_` and `-` stay; every other byte becomes `~` and two hexadecimal digits, and so does the first
/// `_` of a component that starts with `__` (several readers skip such names). A result over [`MAX_KEY_BYTES`] keeps its
/// beginning and ends in `~~` and 16 digits of the SHA-256 of the whole. `~~` cannot come from escaping, so distinct
/// paths have distinct keys unless 64 bits of SHA-256 collide, which planning checks.
pub(crate) fn key(dir: &[u8], stem: &[u8]) -> String {
    let mut key = String::with_capacity(dir.len() + stem.len() + 1);
    if !dir.is_empty() {
        for component in dir.split(|&b| b == b'/') {
            push_component(&mut key, component);
            key.push('/');
        }
    }
    push_component(&mut key, stem);
    if key.len() > MAX_KEY_BYTES {
        let digest = hex(&Sha256::digest(key.as_bytes())[..8]);
        let mut keep = MAX_KEY_BYTES - 2 - digest.len();
        // Neither half an escape nor a trailing slash before the digest.
        while key[..keep].ends_with('/')
            || key[keep - 1..].starts_with('~')
            || key[keep - 2..].starts_with('~')
        {
            keep -= 1;
        }
        key.truncate(keep);
        key.push_str("~~");
        key.push_str(&digest);
    }
    key
}

/// Whether [`key`] leaves this directory and stem as they are, so that keys compare as the names do.
pub(crate) fn is_plain(dir: &[u8], stem: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/');
    dir.len() + 1 + stem.len() <= MAX_KEY_BYTES
        && !stem.starts_with(b"__")
        && stem.iter().all(plain)
        && dir.iter().all(plain)
        && dir
            .split(|&b| b == b'/')
            .all(|component| !component.starts_with(b"__"))
}

fn push_component(key: &mut String, component: &[u8]) {
    use fmt::Write;
    for (i, &byte) in component.iter().enumerate() {
        let reserved = i == 0 && component.starts_with(b"__");
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' => key.push(char::from(byte)),
            b'_' if !reserved => key.push('_'),
            _ => {
                let _ = write!(key, "~{byte:02X}");
            }
        }
    }
}

/// Splits a file name at its last dot into stem and extension; a name without a dot has none.
pub(crate) fn split_extension(name: &[u8]) -> (&[u8], &[u8]) {
    match name.iter().rposition(|&b| b == b'.') {
        Some(dot) => (&name[..dot], &name[dot + 1..]),
        None => (name, b""),
    }
}

/// The field name of a sidecar file's extension: lower case, or `None` if readers could not address it.
pub(crate) fn sidecar_field(extension: &[u8]) -> Option<String> {
    let usable = !extension.is_empty()
        && extension.len() <= MAX_FIELD_BYTES
        && extension
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    usable.then(|| {
        extension
            .to_ascii_lowercase()
            .iter()
            .map(|&b| char::from(b))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_version_says_where_in_which_archive_a_file_lies() {
        for text in [
            "mtime:-5",
            "etag:a:b-12",
            "in:10:147897477120:512+11034-stored:mtime:1325376000000000000",
            "in:0:99:0+99-deflate~9ae0daaf:etag:x:y",
            "in:0:99:5000+99-gzip:etag:x",
            "listed:646174612f782e746172:99:5+9-stored~9ae0daaf:etag:x:y",
        ] {
            assert_eq!(text.parse::<Version>().unwrap().to_string(), text);
        }
        for text in [
            "in:",
            "in:1:99:0+100-stored:mtime:1",
            "in:1:99:18446744073709551615+1-stored:mtime:1",
            "in:1:99:0+9-lzma:mtime:1",
            "in:1:99:0+9-stored:in:1:9:0+9-stored:mtime:1",
            "in:1:99:0+9-stored:",
            "listed:2e2e2f78:99:0+9-stored:mtime:1",
            "listed:1:99:0+9-stored:mtime:1",
        ] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_through_archives_counts_as_if_they_had_been_unpacked() {
        for (path, counted) in [
            ("a/b.jpg", "a/b.jpg"),
            ("train.tar!/n01.TAR!/x.JPEG", "train/n01/x.JPEG"),
            ("s/d.tar.gz!/x", "s/d/x"),
            ("a.tar/b!/.tar!/x.zip", "a.tar/b!/.tar!/x.zip"),
        ] {
            assert_eq!(SourcePath::new(path).counted().to_string(), counted);
        }
    }

    #[test]
    fn plain_imagenet_paths_are_their_own_keys() {
        assert_eq!(
            key(b"train/n01440764", b"n01440764_10026"),
            "train/n01440764/n01440764_10026"
        );
        assert_eq!(key(b"", b"loose"), "loose");
    }

    #[test]
    fn unsafe_bytes_are_escaped_and_reserved_components_are_opened() {
        assert_eq!(key(b"a.b", b"x.v1"), "a~2Eb/x~2Ev1");
        assert_eq!(key(b"__background__", b"__x"), "~5F_background__/~5F_x");
        assert_eq!(key("ñ".as_bytes(), b"a b~\n"), "~C3~B1/a~20b~7E~0A");
        assert_eq!(key(b"\xff", b"x"), "~FF/x");
    }

    #[test]
    fn long_keys_are_cut_to_the_limit_and_stay_distinct() {
        let long = vec![b'x'; 255];
        let mut other = long.clone();
        other[254] = b'y';
        let (a, b) = (key(b"c", &long), key(b"c", &other));
        assert_eq!(a.len(), MAX_KEY_BYTES);
        assert_ne!(a, b);
    }

    #[test]
    fn an_escape_is_never_cut_in_half() {
        for pad in 0..8 {
            let mut stem = vec![b'x'; 54 + pad];
            stem.extend_from_slice("éééééééééééé".as_bytes());
            let key = key(b"", &stem);
            let (head, _) = key.split_once("~~").expect("cut");
            let escapes = head.split('~').skip(1);
            assert!(
                escapes
                    .clone()
                    .all(|e| e.len() >= 2 && e.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit)),
                "{key}"
            );
        }
    }

    #[test]
    fn nothing_that_is_read_leads_out_of_the_source() {
        let text = |key: &str, name: &str, path: &str| {
            format!(
                r#"{{"key":"{key}","label":0,"fields":[{{"name":"{name}","path":{path},"size":1,"version":"mtime:0"}}]}}"#
            )
        };
        let read = |text: String| serde_json::from_str::<Sample>(&text).map_err(|e| e.to_string());
        let plain = text("cat/1", "jpg", r#""cat/..1.jpg""#);
        assert_eq!(
            read(plain).unwrap().fields[0].path.to_string(),
            "cat/..1.jpg"
        );
        for path in [
            "../x",
            "/etc/passwd",
            "a/../../x",
            "a//x",
            "./x",
            "a/.",
            "..",
            ".",
            "",
            "a/",
            "\\u0000/../x",
        ] {
            let error = read(text("cat/1", "jpg", &format!("\"{path}\""))).unwrap_err();
            assert!(
                error.contains("is no path of a file below a source"),
                "{path}: {error}"
            );
        }
        // `../\xff`
        let error = read(text("cat/1", "jpg", r#"{"hex":"2e2e2fff"}"#)).unwrap_err();
        assert!(
            error.contains("is no path of a file below a source"),
            "{error}"
        );
        for key in [
            "../cat",
            "/cat",
            "cat//1",
            "",
            "cat/",
            "a.b",
            "a b",
            "é",
            "a/./b",
            &"a".repeat(81),
        ] {
            let error = read(text(key, "jpg", r#""x.jpg""#)).unwrap_err();
            assert!(error.contains("is no key of a sample"), "{key}: {error}");
        }
        for name in ["", "../jpg", "j/pg", "JPG", "a.b", "aaaaaaaaaaaaaaaaaaaa"] {
            let error = read(text("cat/1", name, r#""x.jpg""#)).unwrap_err();
            assert!(error.contains("is no name of a field"), "{name}: {error}");
        }
        assert_eq!(*FilePath::below(b"a", b"../x"), SourcePath::default());
        assert_eq!(FilePath::below(b"", b"x").as_bytes(), b"x");
    }

    #[test]
    fn sidecar_names_are_lower_case_or_refused() {
        assert_eq!(sidecar_field(b"JSON").as_deref(), Some("json"));
        assert_eq!(sidecar_field(b"jpg~"), None);
        assert_eq!(sidecar_field(b""), None);
        assert_eq!(sidecar_field(&[b'a'; 20]), None);
    }

    proptest! {
        #[test]
        fn keys_are_safe_for_every_reader_and_one_to_one(
            a in proptest::collection::vec(1u8..=255, 1..120),
            b in proptest::collection::vec(1u8..=255, 1..120),
        ) {
            let slashless = |v: &[u8]| -> Vec<u8> { v.iter().map(|&x| if x == b'/' { b'.' } else { x }).collect() };
            let (a, b) = (slashless(&a), slashless(&b));
            let (ka, kb) = (key(b"dir", &a), key(b"dir", &b));
            prop_assert_eq!(ka == kb, a == b);
            prop_assert_eq!(is_plain(b"dir", &a), ka.as_bytes() == [b"dir/", &a[..]].concat());
            prop_assert!(ka.len() <= MAX_KEY_BYTES);
            prop_assert!(ka.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-~/".contains(&c)));
            prop_assert!(!ka.split('/').any(|c| c.starts_with("__")));
        }

        #[test]
        fn what_keys_are_made_is_read_again(dir in proptest::collection::vec(1u8..=255, 1..90), stem in proptest::collection::vec(1u8..=255, 1..90)) {
            let slashless = |v: &[u8]| -> Vec<u8> { v.iter().map(|&x| if x == b'/' { b'.' } else { x }).collect() };
            let (dir, stem) = (slashless(&dir), slashless(&stem));
            let sample = Sample {
                key: key(&dir, &stem),
                label: Some(0),
                fields: vec![Field {
                    name: "jpg".into(),
                    path: FilePath::below(b"", &[b"x".as_slice(), &stem].concat()),
                    size: 1,
                    version: Version::Mtime(0),
                    content: None,
                }],
            };
            let text = serde_json::to_string(&sample).unwrap();
            prop_assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample);
        }

        #[test]
        fn paths_and_versions_survive_json(bytes in proptest::collection::vec(1u8..=255, 0..40), ns in any::<i64>()) {
            let path = SourcePath::new(bytes);
            let text = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<SourcePath>(&text).unwrap(), path);
            let version = Version::Mtime(ns);
            let text = serde_json::to_string(&version).unwrap();
            prop_assert_eq!(serde_json::from_str::<Version>(&text).unwrap(), version);
        }
    }
}
