//! What is published in a destination: its manifest, and the index of each shard.

use std::collections::HashMap;

use bytes::Bytes;

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::model::manifest::{MANIFEST, Manifest, ShardEntry};
use crate::model::record::ShardRecord;
use crate::store::Sink;

/// The destination's manifest, if it is published.
pub(crate) fn load(sink: &dyn Sink) -> Result<Option<Manifest>> {
    Ok(load_text(sink)?.map(|(manifest, _)| manifest))
}

/// The same with its bytes.
pub(crate) fn load_text(sink: &dyn Sink) -> Result<Option<(Manifest, Bytes)>> {
    let Some(text) = sink.get(MANIFEST)? else {
        return Ok(None);
    };
    let manifest = Manifest::decode(&format!("{sink}/{MANIFEST}"), &text);
    let manifest = manifest.map_err(|error| match error.kind() {
        Kind::Damage => {
            let remedy = format!(
                "if it was made by shardpack, `shardpack repair {sink_word}` makes it again",
                sink_word = sink.word()
            );
            Error::new(Kind::Damage, format!("{error}: {remedy}"))
        }
        _ => error,
    })?;
    Ok(Some((manifest, text)))
}

/// The destination's manifest, or an error that says how to get one.
pub(crate) fn require(sink: &dyn Sink) -> Result<Manifest> {
    require_text(sink).map(|(manifest, _)| manifest)
}

/// The same with its bytes.
pub(crate) fn require_text(sink: &dyn Sink) -> Result<(Manifest, Bytes)> {
    load_text(sink)?.ok_or_else(|| {
        Error::failed(format!(
            "{sink} has no {MANIFEST}: nothing is published there, run `shardpack convert SRC {sink_word}` to its end", sink_word = sink.word()))
    })
}

/// The index file as it was published; `None` if it is gone, and damage if it is another.
pub(crate) fn read_index(entry: &ShardEntry, sink: &dyn Sink) -> Result<Option<Bytes>> {
    let Some(file) = sink.get(&entry.index)? else {
        return Ok(None);
    };
    let crc32 = crc_text(crc32fast::hash(&file));
    match crc32 == entry.index_crc32 {
        true => Ok(Some(file)),
        false => Err(Error::new(
            Kind::Damage,
            format!(
                "{sink}/{}: crc32 {crc32}, the manifest says {}: run `shardpack verify {sink_word}`",
                entry.index,
                entry.index_crc32,
                sink_word = sink.word()
            ),
        )),
    }
}

/// The index file as it was published; damage if it is gone or another.
pub(crate) fn require_index(entry: &ShardEntry, sink: &dyn Sink) -> Result<Bytes> {
    read_index(entry, sink)?.ok_or_else(|| {
        Error::new(
            Kind::Damage,
            format!(
                "{sink}/{}: missing: run `shardpack verify {sink_word}`",
                entry.index,
                sink_word = sink.word()
            ),
        )
    })
}

/// Sizes in bytes of the objects where these shards, or files beside them, lie; by name.
pub(crate) fn sizes_beside_shards<'n>(
    sink: &dyn Sink,
    mut names: impl Iterator<Item = &'n str>,
) -> Result<HashMap<String, u64>> {
    // Shards of others lie anywhere.
    let place = match names.all(|name| name.starts_with("data/")) {
        true => "data",
        false => "",
    };
    Ok(sink.list(place)?.into_iter().collect())
}

/// What an index says, if it is as it was published; `None` if it is gone, and damage if it is another.
pub(crate) fn read_record(entry: &ShardEntry, sink: &dyn Sink) -> Result<Option<ShardRecord>> {
    let file = read_index(entry, sink)?;
    file.map(|file| ShardRecord::decode(&entry.index, &file))
        .transpose()
}

/// What an index says; damage if it is gone or another than was published.
pub(crate) fn require_record(entry: &ShardEntry, sink: &dyn Sink) -> Result<ShardRecord> {
    ShardRecord::decode(&entry.index, &require_index(entry, sink)?)
}
