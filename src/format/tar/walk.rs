//! Walks a tar that anybody made and says which samples are in it, as webdataset, wids and energon would group its members.

use std::collections::HashSet;
use std::io::{self, Read};
use std::ops::Range;

use crate::base::image::{Validate, image_field, probe};
use crate::base::text::show;
use crate::format::check::END;
use crate::format::tar::header::{BLOCK, END_BYTES, NAME_BYTES, ZEROS, padding};
use crate::format::{Finding, HELD_BYTES, Visit};
use crate::model::record::{FieldRecord, NO_LABEL, SampleRecord};
use crate::model::sample::SourcePath;

/// Walks a tar made by anybody: headers, grouping of samples, end marker.
pub(super) fn walk(
    name: &str,
    shard: &mut (dyn Read + Send),
    visit: &mut dyn Visit,
) -> io::Result<()> {
    let mut counted = Counted {
        inner: shard,
        bytes: 0,
        tail: [0; END_BYTES],
    };
    let mut walk = Walk {
        name,
        visit,
        keys: HashSet::new(),
        gathered: None,
        held: Vec::new(),
    };
    let mut archive = tar::Archive::new(&mut counted);
    let mut end = 0;
    for entry in archive.entries()? {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                walk.no_header(&error);
                return Ok(());
            }
        };
        // Long names and other extensions come before the header that they belong to.
        let begin = end;
        end = entry.raw_file_position() + entry.size() + padding(entry.size()) as u64;
        if !walk.member(&mut entry, begin..end) {
            return Ok(());
        }
    }
    if let Some(last) = walk.gathered.take() {
        walk.visit.sample(last.row, last.class);
    }
    // The rest is padding; the archive must have ended in two blocks of zeros, not merely in the end of the file.
    io::copy(&mut counted, &mut io::sink())?;
    if counted.bytes < END_BYTES as u64 || counted.tail != ZEROS {
        let what = Finding::new(
            name,
            "no end marker: the tar was cut short, or never finished",
        );
        visit.found(what.sample(END));
    }
    Ok(())
}

/// What a walk has met so far.
struct Walk<'v> {
    /// The shard's name, for findings.
    name: &'v str,
    visit: &'v mut dyn Visit,
    /// Keys of all samples.
    keys: HashSet<Vec<u8>>,
    /// The sample whose fields are being gathered.
    gathered: Option<Gathered>,
    /// Content of the member read last, as much of it as is held.
    held: Vec<u8>,
}

/// The content of a member that was read.
struct Content {
    /// Its first byte in the shard.
    start: u64,
    /// Its length in bytes.
    size: u64,
    crc32: u32,
}

impl Walk<'_> {
    fn finding(&self, path: &[u8], what: impl Into<String>) -> Finding {
        Finding::new(self.name, what).sample(show(path))
    }

    /// Where a header must be there is none.
    fn no_header(&mut self, error: &io::Error) {
        let what = format!("no tar header where one must be ({error})");
        let what = Finding::new(self.name, what);
        self.visit.found(match &self.gathered {
            Some(sample) => what.sample(format!("after {}", show(&sample.key))),
            None => what,
        });
    }

    /// Takes a member that has these bytes of the shard with its headers and padding; false where the tar ends inside of it.
    fn member<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>, bytes: Range<u64>) -> bool {
        let path = entry.path_bytes().into_owned();
        let kind = entry.header().entry_type();
        if !kind.is_file() {
            if !kind.is_dir() {
                self.skipped(&path, "member is not a regular file, readers skip it");
            }
            return true;
        }
        if let Some(why) = unread_by_wids(entry.header().as_bytes(), &path) {
            let at = entry.raw_header_position();
            let what = self.finding(&path, format!("{why}: wids cannot read it"));
            self.visit.noted(what.range(at, at + BLOCK as u64));
        }
        let Some(content) = self.read(entry, &path) else {
            return false;
        };
        if is_meta(&path) {
            self.skipped(&path, "name begins with `__…__`, readers skip it");
        } else if let Some((key, field)) = split_member(&path) {
            self.begin_sample(key, &path, bytes.start);
            self.add_field(&path, show(field), &content, bytes.end);
        } else {
            self.skipped(&path, "name has no field extension, readers skip it");
        }
        true
    }

    fn skipped(&mut self, path: &[u8], why: &str) {
        let what = self.finding(path, why);
        self.visit.noted(what);
    }

    /// Reads the content of a member; `None` where the tar ends inside of it.
    fn read<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>, path: &[u8]) -> Option<Content> {
        let (start, size) = (entry.raw_file_position(), entry.size());
        self.held.clear();
        let mut crc = crc32fast::Hasher::new();
        let held = &mut self.held;
        let read = each_piece(entry, |piece| {
            crc.update(piece);
            if held.len() + piece.len() <= HELD_BYTES {
                held.extend_from_slice(piece);
            }
        });
        let what = match read {
            Ok(read) if read == size => {
                let crc32 = crc.finalize();
                return Some(Content { start, size, crc32 });
            }
            Ok(read) => self
                .finding(path, "tar ends inside this member")
                .values(size, read),
            Err(error) => self.finding(path, format!("tar ends inside this member ({error})")),
        };
        self.visit.found(what);
        None
    }

    /// Begins a sample with the member at `path`, unless it is the one that is being gathered; that one is shown then.
    fn begin_sample(&mut self, key: &[u8], path: &[u8], begin: u64) {
        if self
            .gathered
            .as_ref()
            .is_some_and(|sample| sample.key == key)
        {
            return;
        }
        if !self.keys.insert(key.to_vec()) {
            let what = self.finding(key, "members of one sample are not adjacent");
            self.visit.found(what);
        }
        let row = SampleRecord {
            key: show(key),
            label: NO_LABEL,
            source_path: SourcePath::new(path.to_vec()),
            offset: begin,
            ..SampleRecord::default()
        };
        let sample = Gathered {
            key: key.to_vec(),
            row,
            class: None,
        };
        if let Some(before) = self.gathered.replace(sample) {
            self.visit.sample(before.row, before.class);
        }
    }

    /// Adds a field to the sample that is being gathered, whose members now end at `end`.
    fn add_field(&mut self, path: &[u8], field: String, content: &Content, end: u64) {
        let Some(Gathered { row, class, .. }) = &mut self.gathered else {
            return;
        };
        if row.fields.iter().any(|other| other.name == field) {
            let what = Finding::new(self.name, "the field occurs twice");
            self.visit.found(what.sample(&row.key).field(&field));
        }
        let is_whole = self.held.len() as u64 == content.size;
        if field == "cls" {
            let text = String::from_utf8_lossy(&self.held);
            let text = text.trim();
            match text.parse::<i64>() {
                Ok(label) => row.label = u32::try_from(label).unwrap_or(NO_LABEL),
                // A name, unless nothing is there or it is no text at all.
                Err(_) if is_whole => *class = Some(show(text.as_bytes())),
                Err(_) => {}
            }
        }
        if image_field(field.as_bytes()).is_some() && row.image.is_none() {
            row.source_path = SourcePath::new(path.to_vec());
            if is_whole {
                row.image = probe(&self.held, Validate::Header, 0).unwrap_or(None);
            }
        }
        row.fields.push(FieldRecord {
            name: field,
            offset: content.start,
            length: content.size,
            crc32: content.crc32,
        });
        row.length = end - row.offset;
    }
}

/// The fields of a sample of a tar that anybody made, gathered until its key changes.
struct Gathered {
    key: Vec<u8>,
    row: SampleRecord,
    class: Option<String>,
}

/// Why wids does not find a member's name or length. It reads headers by itself, and nothing of extended ones; magic numbers it
/// does not look at.
fn unread_by_wids(header: &[u8], path: &[u8]) -> Option<&'static str> {
    let name = &header[..NAME_BYTES];
    let end = name.iter().position(|&b| b == 0).unwrap_or(NAME_BYTES);
    let binary_size = header[124] & 0x80 != 0;
    if name[..end] != *path {
        Some("extended or split name")
    } else {
        binary_size.then_some("size of 8 GiB or more")
    }
}

/// Whether webdataset and energon skip a member of this name whatever its type: its first part is `__…__`.
fn is_meta(path: &[u8]) -> bool {
    let first = path.split(|&b| b == b'/').next().unwrap_or(path);
    first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__")
}

/// Reads to the end in pieces of moderate size; gives how much it was.
fn each_piece(reader: &mut dyn Read, mut each: impl FnMut(&[u8])) -> io::Result<u64> {
    let mut piece = vec![0; 64 << 10];
    let mut read = 0;
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(read),
            Ok(n) => {
                each(&piece[..n]);
                read += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Key and field of a member name, by the rule that webdataset, HuggingFace datasets and energon share.
fn split_member(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let base = path
        .iter()
        .rposition(|&b| b == b'/')
        .map_or(0, |slash| slash + 1);
    let dot = base + path[base..].iter().position(|&b| b == b'.')?;
    (dot > 0).then(|| (&path[..dot], &path[dot + 1..]))
}

/// Counts what is read and remembers the last two blocks.
struct Counted<'a> {
    inner: &'a mut (dyn Read + Send),
    bytes: u64,
    tail: [u8; END_BYTES],
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.bytes += n as u64;
        if n >= END_BYTES {
            self.tail.copy_from_slice(&buffer[n - END_BYTES..n]);
        } else {
            self.tail.copy_within(n.., 0);
            self.tail[END_BYTES - n..].copy_from_slice(&buffer[..n]);
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tar::header::header;
    use crate::format::tar::tests::{tar, vector};
    use crate::format::test::{pack, walk as walk_through};

    #[test]
    fn members_that_readers_skip_are_no_samples() {
        let (mut bytes, _) = pack(&tar(), &vector());
        let shard = [&header("__meta__/a.txt", 0)[..], &bytes].concat();
        let seen = walk_through(&tar(), &shard);
        assert_eq!((seen.rows.len(), seen.noted.len()), (2, 1));
        assert_eq!(seen.rows[0].offset, 512);
        for (name, is) in [
            ("__x__/a", true),
            ("__x__.jpg", false),
            ("a/__x__/b", false),
        ] {
            assert_eq!(is_meta(name.as_bytes()), is, "{name}");
        }
        // GNU's magic is nothing to wids, a name in the prefix is.
        bytes[257..265].copy_from_slice(b"ustar  \0");
        assert_eq!(unread_by_wids(&bytes, b"000000.cls"), None);
        assert!(unread_by_wids(&bytes, b"a/000000.cls").is_some());
        bytes[124] = 0x80;
        assert!(unread_by_wids(&bytes, b"000000.cls").is_some());
    }

    #[test]
    fn member_names_split_as_the_readers_do() {
        let split = |name: &str| split_member(name.as_bytes()).map(|(k, f)| (show(k), show(f)));
        let some = |k: &str, f: &str| Some((k.to_owned(), f.to_owned()));
        assert_eq!(split("a/b.seg.png"), some("a/b", "seg.png"));
        assert_eq!(split("a.b/c.jpg"), some("a.b/c", "jpg"));
        assert_eq!(split("a.b/c"), None);
        assert_eq!(split(".hidden.jpg"), None);
        assert_eq!(split("a/.hidden.jpg"), some("a/", "hidden.jpg"));
    }
}
