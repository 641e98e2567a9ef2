//! What lies beside a snapshot under names that every snapshot has: the manifest, the card, `SHA256SUMS`, and the reader indexes of the
//! whole dataset.
//!
//! A snapshot never changes, and what lies beside it follows from it and its records, so that anybody can put it at any time. Whoever puts
//! one of these names may have slept before that, and others published meanwhile: so each looks once more when it has put something, and
//! puts what belongs to the newest snapshot. What a process that died in between left is put right by the next run that finds it.

use std::collections::HashSet;

use bytes::Bytes;

use crate::base::checksum::{Scanner, crc_text};
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::model::manifest::{IndexFile, MANIFEST, Manifest, snapshot_name};
use crate::publish::card::{CARD, render_card};
use crate::publish::own_files::OwnFiles;
use crate::publish::readers::{
    NamedFile, export_files_again, files_of_dataset, files_of_shards, is_for_people,
};
use crate::publish::snapshots::later_snapshot;
use crate::state::published::sizes_beside_shards;
use crate::store::{Sink, StoredChecksum, at_once};

/// `sha256sum -c` reads it.
pub(crate) const SUMS: &str = "SHA256SUMS";
/// A file larger than this is not held to be compared.
const HELD_BYTES: u64 = 8 << 20;

/// The `SHA256SUMS` of a snapshot, if it has such digests.
pub(crate) fn sha256_sums(manifest: &Manifest) -> Option<String> {
    let sums: String = manifest
        .shards()
        .filter_map(|(_, shard)| Some(format!("{}  {}\n", shard.sha256.as_ref()?, shard.name)))
        .collect();
    (!sums.is_empty()).then_some(sums)
}

/// Goes on to the newest snapshot there is, and puts what belongs to it if it is another one than this.
pub(crate) fn catch_up(sink: &dyn Sink, manifest: Manifest, memory: u64) -> Result<Manifest> {
    match later_snapshot(sink, manifest.snapshot)? {
        None => Ok(manifest),
        Some(later) => put_companions(sink, later, Vec::new(), memory),
    }
}

/// Puts what belongs to this snapshot, or to a later one if there is one, and gives that which it was. `made` are reader indexes of this
/// one; what else is not as it should be is made from records and may take up to `memory` bytes.
pub(crate) fn put_companions(
    sink: &dyn Sink,
    manifest: Manifest,
    made: Vec<NamedFile>,
    memory: u64,
) -> Result<Manifest> {
    settle(sink, manifest, made, memory).map(|settled| settled.manifest)
}

/// The same for what was published before: reader indexes of single shards are looked at too, and one that cannot be put right is damage.
pub(crate) fn restore_companions(
    sink: &dyn Sink,
    manifest: Manifest,
    made: Vec<NamedFile>,
    memory: u64,
) -> Result<Manifest> {
    let Settled {
        manifest,
        mut unmade,
    } = settle(sink, manifest, made, memory)?;
    unmade.extend(put_shard_files(sink, &manifest, memory)?);
    match &unmade[..] {
        [] => Ok(manifest),
        [file, ..] => Err(Error::new(
            Kind::Damage,
            format!(
                "{sink}/{}: not what the manifest says, and made again it is neither: run `shardpack index {sink_word} --index {}` to publish \
                 it anew",
                file.name,
                file.reader,
                sink_word = sink.word()
            ),
        )),
    }
}

/// Makes reader indexes of this snapshot again that are damaged, and what else lies beside it where that is. Gives those that are not what
/// the manifest says when they are made again.
pub(crate) fn remake_companions(
    sink: &dyn Sink,
    manifest: &Manifest,
    damaged: &[&IndexFile],
    memory: u64,
) -> Result<Vec<IndexFile>> {
    let mut unmade = put_again(sink, manifest, damaged, memory)?;
    unmade.extend(settle(sink, manifest.clone(), Vec::new(), memory)?.unmade);
    Ok(unmade)
}

/// A snapshot with what belongs to it in place.
struct Settled {
    manifest: Manifest,
    /// Reader indexes that are not what it says, and could not be made so: another version may have written them.
    unmade: Vec<IndexFile>,
}

/// Puts what belongs to this snapshot, and again for each later one that appears meanwhile.
fn settle(
    sink: &dyn Sink,
    mut manifest: Manifest,
    mut made: Vec<NamedFile>,
    memory: u64,
) -> Result<Settled> {
    let mut own = OwnFiles::default();
    loop {
        let current = match sink.get(MANIFEST)? {
            Some(text) => unless_damaged(Manifest::decode(MANIFEST, &text))?,
            None => None,
        };
        // Each snapshot goes on from the one before: a later one is not taken back. That of the manifest itself may be lost.
        let mut newest = current
            .clone()
            .filter(|current| current.snapshot > manifest.snapshot);
        let number = newest.as_ref().unwrap_or(&manifest).snapshot;
        if let Some(later) = later_snapshot(sink, number)? {
            newest = Some(later);
        }
        if let Some(newest) = newest {
            manifest = newest;
            made.clear();
        }
        let Files { put, unmade } = put_files(sink, &manifest, &made, &mut own, memory)?;
        // The last of them: a reader of the manifest finds the others.
        let is_current = current.as_ref() == Some(&manifest);
        if !is_current {
            put_manifest(sink, &manifest)?;
        }
        let slept = (put || !is_current) && later_snapshot(sink, manifest.snapshot)?.is_some();
        if !slept {
            return Ok(Settled { manifest, unmade });
        }
    }
}

/// As it lies among the snapshots.
fn put_manifest(sink: &dyn Sink, manifest: &Manifest) -> Result<()> {
    let name = snapshot_name(manifest.snapshot);
    let is_it =
        |text: &Bytes| Manifest::decode(&name, text).is_ok_and(|decoded| decoded == *manifest);
    match sink.get(&name)?.filter(is_it) {
        Some(text) => sink.put(MANIFEST, &text),
        None => sink.put(MANIFEST, &manifest.encode()?),
    }
}

/// What came of putting files.
struct Files {
    /// Whether any was put.
    put: bool,
    /// Those that are not what the manifest says, and could not be made so.
    unmade: Vec<IndexFile>,
}

/// Puts the card, `SHA256SUMS` and the reader indexes of the whole dataset where they are not in place.
fn put_files(
    sink: &dyn Sink,
    manifest: &Manifest,
    made: &[NamedFile],
    own: &mut OwnFiles,
    memory: u64,
) -> Result<Files> {
    let depth = sink.requests();
    let wide = files_of_dataset(manifest);
    let in_place = at_once(depth, &wide, |file| {
        is_in_place(sink, &file.name, file.bytes, &file.crc32)
    })?;
    let mut todo: Vec<NamedFile> = Vec::new();
    let (mut wrong, mut lacking) = (Vec::new(), Vec::new());
    for (file, in_place) in wide.into_iter().zip(in_place) {
        if in_place || (is_for_people(file) && own.stays(sink, manifest, &file.name)?) {
            continue;
        }
        match made.iter().find(|made| is_it(file, made)) {
            Some(made) => todo.push(made.clone()),
            None => lacking.push(file),
        }
    }
    if !lacking.is_empty() {
        let again = export_files_again(sink, manifest, &lacking, memory)?;
        for file in lacking {
            match again.iter().find(|made| is_it(file, made)) {
                Some(made) => {
                    let snapshot = manifest.snapshot;
                    tracing::warn!(
                        "{sink}/{}: not that of snapshot {snapshot}: made again",
                        file.name
                    );
                    todo.push(made.clone());
                }
                None => wrong.push(file.clone()),
            }
        }
    }
    let card = render_card(manifest).into_bytes();
    let sums = sha256_sums(manifest).map(String::into_bytes);
    let of_sums = sums.map(|sums| (SUMS.to_owned(), sums));
    for file in of_sums.into_iter().chain([(CARD.to_owned(), card)]) {
        let (name, content) = &file;
        let crc32 = crc_text(crc32fast::hash(content));
        let in_place = is_in_place(sink, name, content.len() as u64, &crc32)?;
        let stays = in_place || (name == CARD && own.stays(sink, manifest, CARD)?);
        if !stays {
            todo.push(file);
        }
    }
    at_once(depth, &todo, |(name, content)| sink.put(name, content))?;
    let put = !todo.is_empty();
    own.put.extend(todo);
    Ok(Files { put, unmade: wrong })
}

/// Whether this is the content that the manifest says of a reader index.
fn is_it(file: &IndexFile, (name, content): &NamedFile) -> bool {
    *name == file.name
        && content.len() as u64 == file.bytes
        && crc_text(crc32fast::hash(content)) == file.crc32
}

/// Whether an object of this content is there; asks the store where that knows, and holds no large one.
fn is_in_place(sink: &dyn Sink, name: &str, bytes: u64, crc32: &str) -> Result<bool> {
    if let StoredChecksum::Crc32(kept) = sink.stored_checksum(name)? {
        return Ok(crc_text(kept) == crc32);
    }
    if bytes <= HELD_BYTES {
        return Ok(sink.get(name)?.is_some_and(|content| {
            content.len() as u64 == bytes && crc_text(crc32fast::hash(&content)) == crc32
        }));
    }
    let directory = name.rsplit_once('/').map_or("", |(directory, _)| directory);
    if !sink.list(directory)?.contains(&(name.to_owned(), bytes)) {
        return Ok(false);
    }
    let read = Scanner::over(sink.open(name)?).drain();
    let (_, actual) = read.map_err(|error| Error::io(name, error))?;
    Ok(crc_text(actual) == crc32)
}

/// Puts reader indexes of single shards that are missing or of another length: their names are never used for anything else, so that
/// no other content comes there. Gives those that cannot be made as they were.
fn put_shard_files(sink: &dyn Sink, manifest: &Manifest, memory: u64) -> Result<Vec<IndexFile>> {
    let files = files_of_shards(manifest);
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let sizes = sizes_beside_shards(sink, files.iter().map(|file| file.name.as_str()))?;
    let is_there = |file: &&IndexFile| sizes.get(&file.name) == Some(&file.bytes);
    let wrong: Vec<&IndexFile> = files.into_iter().filter(|file| !is_there(file)).collect();
    put_again(sink, manifest, &wrong, memory)
}

/// Makes those of these files again that describe one shard each. Gives those that cannot be made as they were.
fn put_again(
    sink: &dyn Sink,
    manifest: &Manifest,
    files: &[&IndexFile],
    memory: u64,
) -> Result<Vec<IndexFile>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let of_shards: HashSet<&IndexFile> = files_of_shards(manifest).into_iter().collect();
    let files: Vec<&IndexFile> = files
        .iter()
        .filter(|file| of_shards.contains(*file))
        .copied()
        .collect();
    let made = export_files_again(sink, manifest, &files, memory)?;
    let made_of = |file: &&IndexFile| made.iter().find(|made| is_it(file, made));
    let todo: Vec<&NamedFile> = files.iter().filter_map(made_of).collect();
    at_once(sink.requests(), &todo, |(name, content)| {
        tracing::warn!("{sink}/{name}: not that of its shard: made again");
        sink.put(name, content)
    })?;
    Ok(files
        .into_iter()
        .filter(|file| made_of(file).is_none())
        .cloned()
        .collect())
}
