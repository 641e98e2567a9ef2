//! Where samples come from and where shards go: two traits, one backend a folder.
//!
//! A location and what the user said of access come in; checked bytes and durable objects go out. Objects are names and bytes here: what
//! a dataset is, nobody in this folder knows. A new backend is one new file and one line in [`source`] and [`sink`]. Nothing above this
//! folder opens a file or a socket.

mod archive;
mod contents;
mod local;
mod options;
mod parallel;
mod ranges;
#[cfg(feature = "s3")]
mod s3;

use std::fmt;
use std::io::{BufRead, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::base::buffer::Buffer;
use crate::base::error::{Error, Result};
use crate::base::reactor::Pending;
use crate::base::signal::Stop;
use crate::base::text::quoted;
use crate::model::counters::Counters;
use crate::model::listing::Listing;
use crate::model::sample::{Field, FilePath, Version};
use crate::store::contents::WithContents;

pub(crate) use archive::{LeftOut, counted_directory, unpacks_in_memory};
pub use options::S3Options;
pub(crate) use parallel::at_once;
pub(crate) use ranges::{PIECE_BYTES, Ranges, in_pieces, whole};

#[cfg(test)]
pub(crate) use local::{Step, Steps};

/// Where samples come from.
pub(crate) trait Source: fmt::Display + Send + Sync {
    /// Lists every file below the root, in no particular order; hidden ones are counted, not listed.
    ///
    /// What cannot be listed is a [`crate::model::listing::Problem`] in the result, so that all of them are found at once.
    fn list(&self) -> Result<Listing>;

    /// Starts reading and checksumming one file and returns at once.
    ///
    /// The bytes are exactly the planned ones or the read fails with [`crate::base::error::Kind::Source`]: a file that
    /// changed after planning must not slip in.
    fn start(&self, field: &Field) -> Pending<Buffer>;

    /// Starts reads of several files, none of which may be too large to hold, and returns at once: those of which each adjoins one before, in
    /// one read.
    fn start_all(&self, fields: &[&Field]) -> Vec<Pending<Buffer>> {
        fields.iter().map(|field| self.start(field)).collect()
    }

    /// Whether one read had better give both of these files, because they lie side by side in a third.
    fn adjoins(&self, field: &Field, next: &Field) -> bool {
        let _ = (field, next);
        false
    }

    /// Memory of the part that a file has in a read of several, besides its own; 0 if it is never read with others.
    fn share_bytes(&self, field: &Field) -> u64 {
        let _ = field;
        0
    }

    /// Bytes of a file that one read may give at most, where it gives what lies side by side in it; 0 where that is no faster than many reads.
    fn together_bytes(&self) -> u64 {
        0
    }

    /// Memory for a content of so many bytes, used before if there is some.
    fn spare(&self, length: usize) -> Buffer {
        let _ = length;
        Buffer::default()
    }

    /// Takes the memory of a content back that is not needed any more.
    fn recycle(&self, buffer: Buffer);

    /// Says that so many threads of the caller have nothing to do any more: reading ahead may use their cores.
    fn lend(&self, threads: usize);

    /// Starts reading and checksumming so many bytes of a file from `offset`, at least one and none past its planned end, and returns at
    /// once. The same promise for each part: if all of them could be read, together they are the planned file.
    fn part(&self, field: &Field, offset: u64, length: u64) -> Pending<Buffer>;

    /// Memory that a started read takes until its content is handed over, besides that content. What it takes more while it is in
    /// flight is in [`Source::overhead_bytes`].
    fn started_bytes(&self, field: &Field) -> u64;

    /// Reads in flight at most.
    fn reads(&self) -> usize;

    /// Memory that those reads take, besides what they read.
    fn overhead_bytes(&self) -> u64;

    /// Bytes to be read ahead by one who is to lose no time on large files.
    fn window_bytes(&self) -> u64;

    /// Requests that listing takes where so many files are in a directory, and those that reading a file of so many bytes takes, where
    /// requests are counted: none on a disk.
    fn requests_to_list(&self, files: u64) -> u64 {
        let _ = files;
        0
    }

    /// See [`Source::requests_to_list`].
    fn requests_to_read(&self, bytes: u64) -> u64 {
        let _ = bytes;
        0
    }

    /// Length and state of one file below the root, without listing what lies around it; `None` if there is no such file.
    fn look(&self, name: &FilePath) -> Result<Option<(u64, Version)>> {
        let _ = name;
        Ok(None)
    }

    /// Opens a listed file for many small reads, each of which waits; `None` where one that waits costs much more than many bytes, so that
    /// [`Source::part`], started ahead, is the better way.
    fn open(&self, field: &Field) -> Result<Option<Box<dyn Positioned>>> {
        let _ = field;
        Ok(None)
    }

    /// The same as [`Source::list`] where the source was listed before: `walks` gives what [`Source::walks`] was then, and what did not change
    /// since is not walked through again. That may be damaged, or of another source; it is asked for only if there are archives.
    fn list_again(&self, walks: &dyn Fn() -> Result<Vec<u8>>) -> Result<Listing> {
        let _ = walks;
        self.list()
    }

    /// What the last listing found by walking through archives; empty where there was none.
    fn walks(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Has this machine forget what it keeps of a file in memory, so that the next read is the storage's; `None` where it keeps nothing, or
    /// cannot be told to.
    fn drop_cached(&self, field: &Field) -> Result<Option<Dropped>> {
        let _ = field;
        Ok(None)
    }
}

/// What became of a file's content in the page cache when it was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// It is gone.
    Gone,
    /// It is still there: the file lives in memory, or something holds it.
    Still,
    /// The file system does not say.
    Unknown,
}

/// A file that is read at any place.
pub(crate) trait Positioned: Send + Sync {
    /// Fills `room` with the bytes from `offset` on.
    fn read_at(&self, offset: u64, room: &mut [u8]) -> Result<()>;

    /// Refuses a file that was written to since it was listed, with [`crate::base::error::Kind::Source`].
    fn check(&self) -> Result<()>;
}

/// The checksum that a store has of an object's content, said without sending that content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredChecksum {
    /// The CRC-32 of the content that was written, compared by the store itself with what it has.
    Crc32(u32),
    /// None, and reading the object is what the caller wanted to avoid.
    Unknown,
    /// None, but reading the object is cheap.
    ReadInstead,
}

/// Something half written that a run left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    /// Name of the object it was to become, below the root.
    pub name: String,
    /// What it is, for people.
    pub what: &'static str,
    /// Its length, where the backend says it.
    pub bytes: Option<u64>,
    /// Time since it was begun or last written to, by the clock of the store; zero where that lies in the future.
    pub age: Duration,
    /// What the backend knows it by.
    pub id: String,
    /// Whether that alone says that this program left it.
    pub ours: bool,
}

/// A finished object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectMeta {
    /// Its name below the root.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Time since it was written, by the clock of the store; zero where that lies in the future.
    pub age: Duration,
}

/// The beginning of an object of another place, of which something is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    /// The place, as its store says it.
    pub location: &'a str,
    /// Name of the object below that.
    pub name: &'a str,
    /// How many of its first bytes, at least one.
    pub bytes: u64,
    /// Its length.
    pub of_bytes: u64,
    /// CRC-32 of all of it.
    pub of_crc32: u32,
}

/// What came of [`Sink::assemble`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Assembled {
    /// The object is there, and is what it should be.
    Done,
    /// Nothing was made, for this reason: the bytes have to pass through this machine.
    Cannot(String),
}

/// Where shards go, and where they are read back from.
///
/// Names are relative, `/`-separated and checked: a name from a manifest cannot leave the root.
pub(crate) trait Sink: fmt::Display + Send + Sync {
    /// Where it is, as a word of a command line to be pasted.
    fn word(&self) -> String {
        quoted(self.to_string())
    }

    /// Opens a shard of about so many bytes for writing; nothing is visible under `name` until it is committed.
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn ShardWriter>>;

    /// Whether objects of that location may lie where this store can have them copied without reading them.
    fn may_assemble(&self, location: &str) -> bool {
        let _ = location;
        false
    }

    /// Makes an object of the beginnings of others, which the server that holds them puts together: none of their bytes passes through here.
    /// It is visible under `name` once the server has found that its CRC-32 is this. An object that is not as long, or has not the checksum,
    /// that its piece says is [`crate::base::error::Kind::Damage`].
    fn assemble(&self, name: &str, pieces: &[Piece<'_>], crc32: u32) -> Result<Assembled> {
        let _ = (name, pieces, crc32);
        Ok(Assembled::Cannot("this is no server".to_owned()))
    }

    /// Reads a small object (plan, record, manifest), or `None` if it is not there.
    fn get(&self, name: &str) -> Result<Option<Bytes>>;

    /// Reads exactly `length` bytes at `offset`.
    fn range(&self, name: &str, offset: u64, length: usize) -> Result<Bytes>;

    /// Opens an object for reading from its beginning.
    fn open(&self, name: &str) -> Result<Box<dyn BufRead + Send>>;

    /// Opens an object of so many bytes for one who reads it as a training loop does: it comes by one request, from its beginning, and no more
    /// of it is under way than fits into a small buffer.
    fn stream(&self, name: &str, bytes: u64) -> Result<Box<dyn Read + Send>> {
        let _ = bytes;
        Ok(self.open(name)?)
    }

    /// The same as [`Source::drop_cached`].
    fn drop_cached(&self, name: &str) -> Result<Option<Dropped>> {
        let _ = name;
        Ok(None)
    }

    /// Writes a small object, all or nothing, over what was there.
    fn put(&self, name: &str, body: &[u8]) -> Result<()>;

    /// Writes a small object if nothing has its name. True if the name has this content now, whoever gave it that: after a reply
    /// that was lost nobody can tell; false if it has another one.
    fn put_if_absent(&self, name: &str, body: &[u8]) -> Result<bool>;

    /// Refuses a store where [`Sink::put_if_absent`] does not keep its word, before anything depends on it. `name` is an object
    /// that is there with this `body`.
    fn check_exclusive(&self, name: &str, body: &[u8]) -> Result<()>;

    /// Names and sizes of the objects below `prefix` (a directory, or empty for all), sorted by name.
    /// Unfinished writes are not among them.
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let found = self.list_with_ages(prefix)?.into_iter();
        Ok(found.map(|object| (object.name, object.bytes)).collect())
    }

    /// The same with ages.
    fn list_with_ages(&self, prefix: &str) -> Result<Vec<ObjectMeta>>;

    /// Removes a finished object, durably; no error if it is gone already.
    fn remove(&self, name: &str) -> Result<()>;

    /// Removes everything, the destination itself too: only for one that this process made under a name that nobody else has.
    fn remove_all(&self) -> Result<()> {
        let names = self.list("")?;
        at_once(self.requests(), &names, |(name, _)| self.remove(name))?;
        // A write that was given up has left nothing but when it could not say so; who may not look for such has removed the rest all the same.
        let left = self.leftovers().unwrap_or_default();
        at_once(self.requests(), &left, |leftover| self.discard(leftover))?;
        Ok(())
    }

    /// Removes what a killed run of this machine left half written, and only that.
    fn sweep(&self) -> Result<u64>;

    /// What runs left half written, of whatever machine; nothing that is known to be alive.
    fn leftovers(&self) -> Result<Vec<Leftover>>;

    /// Removes one of them; no error if it is gone already.
    fn discard(&self, leftover: &Leftover) -> Result<()>;

    /// The checksum that the store itself has of an object's content.
    fn stored_checksum(&self, name: &str) -> Result<StoredChecksum>;

    /// Bytes that can still be written here, where somebody knows.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Requests that writing a shard of so many bytes takes, where requests are counted: none on a disk.
    fn requests_to_write(&self, bytes: u64) -> u64 {
        let _ = bytes;
        0
    }

    /// Small requests that are best made at once: one where an answer takes no time.
    fn requests(&self) -> usize;

    /// Memory that all shards being written take together, besides a small buffer each.
    fn writing_bytes(&self) -> u64;

    /// Memory that an opened object takes.
    fn reading_bytes(&self) -> u64;

    /// Refuses a destination that lies in the source (or is it), before anything is written.
    fn check_apart(&self, source: &str) -> Result<()>;
}

/// A shard being written. Dropped without `commit`, it leaves nothing behind.
pub(crate) trait ShardWriter: Write + Send {
    /// Makes the shard visible and durable. `crc32` is the checksum of all that was written.
    fn commit(self: Box<Self>, crc32: u32) -> Result<()>;
}

/// How a destination is laid out, as far as a store has to know, which has no idea what the objects are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// Directories below the root that are this program's alone to write: what killed runs left half written is looked for in them and
    /// in the root itself, and their names are made durable.
    pub directories: Vec<&'static str>,
    /// Beginning of the names of the objects that get the storage class which was asked for; all others are small and read often.
    pub in_storage_class: &'static str,
    /// Beginning of the names of objects that are made to learn what a server does, and removed again.
    pub probe: &'static str,
}

/// What backends need to know to open a location.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Reads in flight at most, if the user said how many.
    pub reads: Option<usize>,
    /// Files and connections that may be open at once for reads.
    pub open_files: usize,
    /// Memory that the whole run is to stay within.
    pub memory: u64,
    /// Whether commits wait until the data is on the disk.
    pub fsync: bool,
    /// What is said about S3.
    pub s3: S3Options,
    /// The connection of this process, shared by its source and its sink.
    #[cfg(feature = "s3")]
    pub(crate) network: s3::Network,
    /// How what is written is laid out.
    pub layout: Layout,
    /// Which archives of a source need not be opened.
    pub left_out: LeftOut,
    /// Counts requests that had to be made again.
    pub counters: Arc<Counters>,
    /// Says when to stop.
    pub stop: Stop,
    /// What tests see, and may have fail, of the steps on a disk.
    #[cfg(test)]
    pub(crate) steps: Steps,
}

impl Access {
    /// The same for what is to be done although the run was told to stop, over a connection of its own.
    pub(crate) fn unstoppable(&self) -> Self {
        Self {
            stop: Stop::default(),
            #[cfg(feature = "s3")]
            network: s3::Network::default(),
            ..self.clone()
        }
    }
}

/// Opens the source at a path or `s3://` location.
pub(crate) fn source(location: &str, access: &Access) -> Result<Box<dyn Source>> {
    let plain = |location: &str| -> Result<Box<dyn Source>> {
        Ok(match scheme(location)? {
            Scheme::Path => Box::new(local::LocalSource::open(location, access)?),
            #[cfg(feature = "s3")]
            Scheme::S3 => Box::new(s3::S3Source::open(location, access)?),
        })
    };
    let source = archive::open(location, access, &plain)?;
    Ok(Box::new(WithContents(source)))
}

/// Opens the destination at a path or `s3://` location; it need not exist yet.
pub(crate) fn sink(location: &str, access: &Access) -> Result<Box<dyn Sink>> {
    Ok(match scheme(location)? {
        Scheme::Path => Box::new(local::LocalSink::open(location, access)?),
        #[cfg(feature = "s3")]
        Scheme::S3 => Box::new(s3::S3Sink::open(location, access)?),
    })
}

/// A location as it can be given again from another directory.
pub(crate) fn absolute(location: &str) -> String {
    match scheme(location) {
        Ok(Scheme::Path) => std::path::absolute(location)
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_else(|_| location.to_owned()),
        _ => location.to_owned(),
    }
}

/// Which backend a location is of.
#[derive(PartialEq, Eq)]
enum Scheme {
    /// A path of this machine.
    Path,
    /// A bucket.
    #[cfg(feature = "s3")]
    S3,
}

/// How locations in S3 begin.
const S3_SCHEME: &str = "s3://";

/// The scheme of a location; one that cannot be opened is a usage error.
fn scheme(location: &str) -> Result<Scheme> {
    match location.split_once("://") {
        #[cfg(feature = "s3")]
        Some(_) if location.starts_with(S3_SCHEME) => Ok(Scheme::S3),
        #[cfg(not(feature = "s3"))]
        Some(_) if location.starts_with(S3_SCHEME) => Err(Error::usage(format!(
            "{location}: this program was built without S3: build it with the feature `s3`, or give a path"
        ))),
        Some((scheme, _)) => Err(Error::usage(format!(
            "{location}: `{scheme}://` is not a location this version can open: give a path, or s3://BUCKET/PREFIX"
        ))),
        None if location.starts_with("s3:") => Err(Error::usage(format!(
            "{location}: a location in S3 begins with `s3://`: write s3://{}, or ./{location} for a path",
            location["s3:".len()..].trim_start_matches('/')
        ))),
        None if location.is_empty() => Err(Error::usage(
            "an empty location: give a path, or s3://BUCKET/PREFIX",
        )),
        None => Ok(Scheme::Path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_fixtures::archives::{Dialect, Tar, ZipOptions, gzip, zip};
    use shardpack_fixtures::s3_server::{self, Server};

    fn access(fsync: bool) -> Access {
        Access {
            reads: Some(2),
            open_files: 64,
            memory: 256 << 20,
            fsync,
            ..Access::default()
        }
    }

    #[test]
    fn a_scheme_that_cannot_be_opened_is_a_usage_error() {
        let access = access(false);
        let Err(error) = source("gs://bucket/x", &access) else {
            panic!("opened")
        };
        assert_eq!(error.kind(), crate::base::error::Kind::Usage);
    }

    /// What every sink owes its callers; each backend runs it on an empty destination.
    fn sink_contract(sink: &dyn Sink) {
        assert_eq!(sink.list("").unwrap(), []);
        assert_eq!(sink.get("a/b.json").unwrap(), None);

        sink.put("a/b.json", b"one").unwrap();
        sink.put("a/b.json", b"two").unwrap();
        assert_eq!(sink.get("a/b.json").unwrap().unwrap(), "two");
        assert!(!sink.put_if_absent("a/b.json", b"three").unwrap());
        assert_eq!(sink.get("a/b.json").unwrap().unwrap(), "two");
        assert!(sink.put_if_absent("a/b.json", b"two").unwrap(), "it is so");
        for _ in 0..2 {
            assert!(sink.put_if_absent("a/c.json", b"").unwrap());
        }
        assert_eq!(sink.get("a/c.json").unwrap().unwrap(), "");

        let content: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let mut writer = sink.create("data/x.tar", 200_000).unwrap();
        for piece in content.chunks(3000).chain([&content[..0]]) {
            writer.write_all(piece).unwrap();
        }
        assert_eq!(
            sink.get("data/x.tar").unwrap(),
            None,
            "not before its commit"
        );
        assert!(sink.list("data").unwrap().is_empty());
        writer.commit(crc32fast::hash(&content)).unwrap();
        assert_eq!(sink.get("data/x.tar").unwrap().unwrap(), content);
        let mut dropped = sink.create("data/y.tar", 200_000).unwrap();
        dropped.write_all(&content).unwrap();
        drop(dropped);
        let all = [("a/b.json", 3), ("a/c.json", 0), ("data/x.tar", 200_000)];
        let all = all.map(|(name, size): (&str, u64)| (name.to_owned(), size));
        assert_eq!(sink.list("").unwrap(), all, "dropped, it leaves nothing");
        assert_eq!(sink.list("data").unwrap(), all[2..]);

        let mut read = Vec::new();
        let mut reader = sink.open("data/x.tar").unwrap();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, content);
        let range = |offset, length| sink.range("data/x.tar", offset, length);
        assert_eq!(range(1000, 5000).unwrap(), content[1000..6000]);
        assert_eq!(range(200_000, 0).unwrap(), "");
        for (offset, length) in [(199_999, 2), (u64::MAX, 1), (0, usize::MAX)] {
            let error = range(offset, length).unwrap_err();
            assert_eq!(error.kind(), crate::base::error::Kind::Damage);
        }
        for name in ["../x", "/x", "a/../../x"] {
            assert!(sink.put(name, b"").is_err() && sink.get(name).is_err());
            assert!(sink.remove(name).is_err());
        }

        for _ in 0..2 {
            sink.remove("a/b.json").unwrap();
        }
        let aged = sink.list_with_ages("").unwrap();
        let names: Vec<_> = aged.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["a/c.json", "data/x.tar"]);
        assert!(
            aged.iter()
                .all(|object| object.age < Duration::from_secs(600))
        );
    }

    #[test]
    fn the_local_sink_keeps_the_contract() {
        for fsync in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let access = access(fsync);
            let location = dir.path().join("new/out");
            let sink = sink(location.to_str().unwrap(), &access).unwrap();
            sink_contract(sink.as_ref());
        }
    }

    /// What every source owes its callers, for a source that holds only `c/a.jpg` with this content; `change` makes it longer.
    fn source_contract(source: &dyn Source, content: &[u8], change: &dyn Fn()) {
        let listing = source.list().unwrap();
        let dirs: Vec<_> = listing.dirs.iter().filter(|dir| !dir.is_empty()).collect();
        let [dir] = dirs[..] else {
            panic!("{listing:?}")
        };
        let file = dir.file(0);
        let field = Field {
            name: "jpg".into(),
            path: dir.path_of(0),
            size: file.size,
            version: file.version(),
            content: None,
        };
        assert_eq!((dir.len(), field.path.to_string()), (1, "c/a.jpg".into()));
        assert_eq!(field.size, content.len() as u64);

        let parts = [(0, 4), (4, 5), (9, 1), (1, 3), (0, 10)];
        let pending = parts.map(|(offset, length)| source.part(&field, offset, length));
        for ((offset, length), pending) in parts.into_iter().zip(pending) {
            let part = &content[offset as usize..][..length as usize];
            let buffer = pending.wait().unwrap();
            assert_eq!(&*buffer, part);
            assert_eq!(buffer.crc32, crc32fast::hash(part));
        }
        let pending: Vec<_> = (0..9).map(|_| source.start(&field)).collect();
        for pending in pending {
            let buffer = pending.wait().unwrap();
            assert_eq!(&*buffer, content);
            assert_eq!(buffer.crc32, crc32fast::hash(content));
            source.recycle(buffer);
        }

        change();
        let refused = |error: Error, name: &str| {
            assert_eq!(error.kind(), crate::base::error::Kind::Source);
            assert!(error.to_string().contains(name), "{error}");
        };
        let changed = source.start(&field).wait();
        refused(changed.unwrap_err(), "c/a.jpg");
        // Not one part of a file that changed, wherever it changed.
        for (offset, length) in parts {
            let changed = source.part(&field, offset, length).wait();
            refused(changed.unwrap_err(), "c/a.jpg");
        }
        let gone = Field {
            path: crate::model::sample::FilePath::below(b"c", b"gone.jpg"),
            ..field
        };
        refused(source.start(&gone).wait().unwrap_err(), "c/gone.jpg");
    }

    /// An archive of each sort, with this content as `c/a.jpg`.
    fn archives(content: &[u8]) -> [(&'static str, Vec<u8>); 6] {
        let mut tar = Tar::new(Dialect::Gnu);
        let tar = tar.directory("c").file("c/a.jpg", content).finish();
        let zipped = |deflated| {
            let options = ZipOptions {
                deflated,
                ..ZipOptions::default()
            };
            zip(&[("c/", b""), ("c/a.jpg", content)], options)
        };
        let zstd = zstd::encode_all(&tar[..], 1).unwrap();
        [
            ("x.tar.gz", gzip(&tar)),
            ("x.tgz", gzip(&tar)),
            ("x.tar.zst", zstd),
            ("x.tar", tar),
            ("stored.zip", zipped(false)),
            ("deflated.zip", zipped(true)),
        ]
    }

    #[test]
    fn an_archive_on_a_disk_keeps_the_contract() {
        let before = archives(b"0123456789");
        for ((name, content), (_, after)) in before.iter().zip(archives(b"0123456789+")) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            let source = source(path.to_str().unwrap(), &access(false)).unwrap();
            source_contract(source.as_ref(), b"0123456789", &|| {
                std::fs::write(&path, &after).unwrap();
            });
        }
    }

    #[test]
    fn an_archive_in_a_bucket_keeps_the_contract() {
        let server = server();
        let before = archives(b"0123456789");
        for ((name, content), (_, after)) in before.iter().zip(archives(b"0123456789+")) {
            let key = format!("sets/{name}");
            server.put(&key, content.clone());
            let location = format!("s3://bucket/{key}");
            let source = source(&location, &s3(&server)).unwrap();
            source_contract(source.as_ref(), b"0123456789", &|| {
                server.put(&key, after.clone());
            });
        }
    }

    #[test]
    fn the_local_source_keeps_the_contract() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c/a.jpg");
        std::fs::create_dir(dir.path().join("c")).unwrap();
        std::fs::write(&path, b"0123456789").unwrap();
        let access = access(false);
        let source = source(dir.path().to_str().unwrap(), &access).unwrap();
        source_contract(source.as_ref(), b"0123456789", &|| {
            std::fs::write(&path, b"0123456789+").unwrap();
        });
    }

    /// Credentials come from the environment, which is the whole process's.
    fn s3(server: &Server) -> Access {
        Access {
            s3: S3Options {
                endpoint_url: Some(server.endpoint()),
                no_sign_request: true,
                region: Some("us-east-1".into()),
                ..S3Options::default()
            },
            ..access(false)
        }
    }

    fn server() -> Server {
        Server::with(s3_server::Options {
            anonymous: true,
            page: 2,
            ..s3_server::Options::default()
        })
    }

    #[test]
    fn the_s3_sink_keeps_the_contract() {
        let server = server();
        let sink = sink("s3://bucket/new/out", &s3(&server)).unwrap();
        sink_contract(sink.as_ref());
        assert_eq!(server.uploads(), []);
    }

    #[test]
    fn an_s3_sink_that_is_told_to_do_without_conditions_keeps_the_contract() {
        let server = server();
        let mut access = s3(&server);
        access.s3.no_conditional_put = true;
        let sink = sink("s3://bucket/new/out", &access).unwrap();
        sink_contract(sink.as_ref());
    }

    #[test]
    fn a_put_whose_reply_was_lost_is_ours_and_one_that_lost_is_not() {
        let server = server();
        let sink = sink("s3://bucket/out", &s3(&server)).unwrap();
        let lost = || s3_server::Fault::new(s3_server::Kind::LostReply);
        server.fault(lost().on("PutObject").times(2));
        assert!(sink.put_if_absent("claim", b"ours").unwrap());
        assert!(!sink.put_if_absent("claim", b"theirs").unwrap());
        assert_eq!(sink.get("claim").unwrap().unwrap(), "ours");
    }

    #[test]
    fn the_s3_source_keeps_the_contract() {
        let server = server();
        server.put("images/c/a.jpg", "0123456789");
        let source = source("s3://bucket/images", &s3(&server)).unwrap();
        source_contract(source.as_ref(), b"0123456789", &|| {
            server.put("images/c/a.jpg", "0123456789+");
        });
    }
}
