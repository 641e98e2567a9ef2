//! What walks found, as bytes that are kept where the plan is: a later run takes them instead of walking again.
//!
//! One zstd frame for each archive that is opened, with all archives in it, behind its path, length and version: where these are the same, so is
//! what is in it. A checksum covers the whole; whatever is wrong with it, the archives are walked through again.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

use super::entries::Found;
use crate::base::error::{Error, Result};
use crate::model::extent::{Extent, put_number, take_number};
use crate::model::listing::Dir;
use crate::model::sample::{Archive, Field};

/// The beginning of this form; another one is not read.
const MAGIC: &[u8] = b"shardpack walks 1\n";
/// Level of zstd.
const LEVEL: i32 = 1;
/// The largest window that is unpacked, as a power of two.
const WINDOW_LOG: u32 = 20;

/// What walks found, by what tells the archive's state.
#[derive(Default)]
pub(super) struct Walks {
    frames: HashMap<Vec<u8>, Vec<u8>>,
}

/// What tells an archive in one state from all others, under a rule of what is left out.
fn state(archive: &Field, rule: &str) -> Vec<u8> {
    let mut state = Vec::new();
    put_bytes(archive.path.as_bytes(), &mut state);
    put_number(archive.size, &mut state);
    put_bytes(archive.version.to_string().as_bytes(), &mut state);
    // What was left out then may be wanted now.
    put_bytes(rule.as_bytes(), &mut state);
    state
}

impl Walks {
    /// Those in these bytes; none if they are damaged.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        Self::parse(bytes).unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, crc32) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*crc32) {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let mut frames = HashMap::new();
        while !rest.is_empty() {
            let state = take_bytes(&mut rest)?.to_vec();
            frames.insert(state, take_bytes(&mut rest)?.to_vec());
        }
        Some(Self { frames })
    }

    /// Whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// These as bytes, the same for the same walks.
    pub(super) fn encode(&self) -> Vec<u8> {
        if self.frames.is_empty() {
            return Vec::new();
        }
        let mut sorted: Vec<_> = self.frames.iter().collect();
        sorted.sort_unstable();
        let mut bytes = MAGIC.to_vec();
        for (state, frame) in sorted {
            put_bytes(state, &mut bytes);
            put_bytes(frame, &mut bytes);
        }
        let crc32 = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc32.to_le_bytes());
        bytes
    }

    /// Takes down what was found in an archive.
    pub(super) fn add(&mut self, archive: &Field, rule: &str, found: &Found) -> Result<()> {
        let frame = pack(found).map_err(|error| Error::io(archive.path.to_string(), error))?;
        self.frames.insert(state(archive, rule), frame);
        Ok(())
    }

    /// What was found in an archive that is in the same state, whose members are now told as those of `as_archive`; it moves to `kept`.
    pub(super) fn take(
        &mut self,
        archive: &Field,
        rule: &str,
        as_archive: &Arc<Archive>,
        kept: &mut Self,
    ) -> Option<Found> {
        let (state, frame) = self.frames.remove_entry(&state(archive, rule))?;
        let found = unpack(&frame, as_archive)?;
        kept.frames.insert(state, frame);
        Some(found)
    }
}

fn pack(found: &Found) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), LEVEL)?;
    let mut some = Vec::new();
    put_number(found.hidden, &mut some);
    for dir in &found.dirs {
        put_bytes(&dir.path, &mut some);
        put_bytes(dir.opened_at.as_deref().unwrap_or_default(), &mut some);
        put_number(dir.len() as u64, &mut some);
        for i in 0..dir.len() {
            let file = dir.file(i);
            put_bytes(file.name, &mut some);
            put_number(file.size, &mut some);
            if let Some(extent) = file.extent() {
                extent.encode(file.size, &mut some);
            }
            if some.len() > 64 << 10 {
                encoder.write_all(&some)?;
                some.clear();
            }
        }
    }
    encoder.write_all(&some)?;
    encoder.finish()
}

/// What was packed. All of it is less than the archive itself, whose headers say as much; more is none of ours.
fn unpack(frame: &[u8], archive: &Arc<Archive>) -> Option<Found> {
    let mut content = Vec::new();
    let mut unpacker = zstd::stream::Decoder::with_buffer(frame).ok()?;
    unpacker.window_log_max(WINDOW_LOG).ok()?;
    let most = archive.bytes.saturating_mul(16).saturating_add(4096);
    unpacker.take(most).read_to_end(&mut content).ok()?;
    let mut rest = &content[..];
    let mut found = Found {
        hidden: take_number(&mut rest)?,
        ..Found::default()
    };
    while !rest.is_empty() {
        let path = take_bytes(&mut rest)?;
        let opened_at = take_bytes(&mut rest)?;
        let mut dir = Dir::in_archive(path, opened_at, Arc::clone(archive));
        for _ in 0..take_number(&mut rest)? {
            let name = take_bytes(&mut rest)?;
            let size = take_number(&mut rest)?;
            let extent = Extent::decode(size, &mut rest)?;
            let is_name = !name.is_empty() && !name.contains(&b'/');
            let fits = is_name && extent.is_within(archive.bytes);
            if !fits || !dir.push_member(name, size, &extent) {
                return None;
            }
        }
        dir.shrink();
        found.dirs.push(dir);
    }
    Some(found)
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(from)?).ok()?;
    from.split_off(..length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::extent::Method;
    use crate::model::sample::{FilePath, Version};

    #[test]
    fn walks_come_back_for_the_same_archive_under_the_same_rule_only() {
        let field = |size: u64| Field {
            content: None,
            name: String::new(),
            path: FilePath::below(b"", b"a.tar"),
            size,
            version: Version::Mtime(7),
        };
        let archive = |bytes: u64| {
            Arc::new(Archive {
                listed_at: None,
                prefix_bytes: 6,
                bytes,
                version: Version::Mtime(7),
            })
        };
        let mut dir = Dir::in_archive("a/b", "a.tar!/b", archive(99_999));
        let extent = Extent {
            offset: 512,
            bytes: 9,
            method: Method::Stored,
            crc32: Some(5),
        };
        assert!(dir.push_member(b"x.jpg", 9, &extent));
        let found = Found {
            dirs: vec![dir, Dir::in_archive("a/c", "a.tar!/c", archive(99_999))],
            hidden: 3,
            problems: Vec::new(),
        };
        let mut walks = Walks::default();
        walks.add(&field(99_999), "x", &found).unwrap();
        let bytes = walks.encode();
        let take = |bytes: &[u8], size: u64, rule: &str| {
            let mut kept = Walks::default();
            let found = Walks::decode(bytes).take(&field(size), rule, &archive(size), &mut kept);
            assert_eq!(found.is_some(), !kept.frames.is_empty());
            found.map(|found| (found, kept.encode()))
        };
        let (again, kept) = take(&bytes, 99_999, "x").unwrap();
        assert_eq!(format!("{:?}", again.dirs), format!("{:?}", found.dirs));
        assert_eq!((again.hidden, kept), (3, bytes.clone()));
        assert!(take(&bytes, 99_998, "x").is_none());
        assert!(take(&bytes, 99_999, "").is_none());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(take(&damaged, 99_999, "x").is_none());
            assert!(take(&bytes[..at], 99_999, "x").is_none());
        }
        assert!(Walks::default().encode().is_empty());
    }
}
