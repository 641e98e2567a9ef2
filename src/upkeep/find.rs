//! Where a sample lies, by its key or by the path of one of its files: the index that names it is looked for, as many at once as the store
//! takes.
//!
//! A sample that an index names is found whatever became of the others; only when none names it, one that cannot be read is an error.
//! So the answer depends on neither the order in which indexes arrive nor on how many are read at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::record::{SampleRecord, ShardRecord};
use crate::model::sample::{key, split_extension};
use crate::source::samples::field_name;
use crate::state::published::require_index;
use crate::store::{Sink, at_once};

/// Indexes read at once where nobody says how many: what hides 100 ms of each.
const DEPTH: usize = 64;
/// What an index takes in memory, as a multiple of its length in the store.
const UNPACKED: u64 = 8;

/// A sample in its shard.
pub(crate) struct Found<'m> {
    /// Its shard.
    pub shard: &'m ShardEntry,
    /// Its row in that shard's index.
    pub row: SampleRecord,
    /// The field that was named with it, if one was.
    pub field: Option<String>,
}

/// How to look.
pub(crate) struct Effort<'a> {
    /// Indexes read at once, if the user said how many.
    pub reads: Option<usize>,
    /// Memory in bytes that the whole run is to stay within.
    pub memory: u64,
    /// Says when to stop.
    pub stop: &'a Stop,
}

/// What a word that a user typed may mean: a key, and a field of that sample.
type Meaning = (String, Option<String>);

/// Everything that `text` may mean, what is meant by most first.
fn meanings(text: &str) -> Vec<Meaning> {
    let mut meanings = vec![(text.to_owned(), None)];
    let (dir, base) = match text.rsplit_once('/') {
        Some((dir, base)) => (Some(dir), base),
        None => (None, text),
    };
    // A key's last part has no dot, so what follows one is a field.
    if let Some((stem, field)) = base.split_once('.') {
        let key = dir.map_or(stem.to_owned(), |dir| format!("{dir}/{stem}"));
        meanings.push((key, Some(field.to_owned())));
    }
    // Features of TFRecords have names like `image/encoded`.
    if let Some((key, field)) = text.split_once('.')
        && field.contains('/')
    {
        meanings.push((key.to_owned(), Some(field.to_owned())));
    }
    let (stem, _) = split_extension(base.as_bytes());
    if let Some(field) = field_name(base.as_bytes()) {
        let key = key(dir.unwrap_or_default().as_bytes(), stem);
        meanings.push((key, Some(field)));
    }
    meanings
}

/// What an index says of a sample.
enum Look<'m> {
    /// It is here, with the field that was asked for.
    Found(Box<Found<'m>>),
    /// It is here, without that.
    Without(Box<Found<'m>>),
    /// It is not here, or somewhere else for certain.
    Elsewhere,
    /// The index cannot be read.
    Unreadable(Error),
}

/// The sample that `text` names: by its key, `KEY.FIELD`, or the path of one of its files below the source's root.
pub(crate) fn find<'m>(
    sink: &dyn Sink,
    manifest: &'m Manifest,
    text: &str,
    effort: &Effort<'_>,
) -> Result<Found<'m>> {
    let shards: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
    let meanings = meanings(text);
    let found = AtomicBool::new(false);
    let look = |shard: &&'m ShardEntry| -> Result<Look<'m>> {
        effort.stop.check()?;
        if found.load(Ordering::Relaxed) {
            return Ok(Look::Elsewhere);
        }
        let look = look(sink, shard, &meanings).unwrap_or_else(Look::Unreadable);
        if let Look::Found(_) = look {
            found.store(true, Ordering::Relaxed);
        }
        Ok(look)
    };
    let (mut without, mut unreadable) = (None, Vec::new());
    for look in at_once(depth(sink, &shards, effort), &shards, look)? {
        match look {
            Look::Found(found) => return Ok(*found),
            Look::Without(found) => without = without.or(Some(found)),
            Look::Elsewhere => {}
            Look::Unreadable(error) => unreadable.push(error),
        }
    }
    if let Some(found) = without {
        return Ok(*found);
    }
    let count = unreadable.len();
    // An outage is told before damage: after it, the answer may be another one.
    unreadable.sort_by_key(|error| error.kind() == Kind::Damage);
    match unreadable.into_iter().next() {
        Some(error) if error.kind() == Kind::Damage => Err(Error::new(
            Kind::Damage,
            format!(
                "{sink}: no sample `{text}` in the indexes that can be read, and {count} of {} cannot: {error}",
                shards.len()
            ),
        )),
        Some(error) => Err(error),
        None => Err(Error::failed(format!(
            "{sink}: no sample `{text}`: keys look like `{}`",
            example(sink, manifest).unwrap_or_default()
        ))),
    }
}

/// Indexes read at once: as many as reads were asked for, within a quarter of the memory.
pub(crate) fn depth(sink: &dyn Sink, shards: &[&ShardEntry], effort: &Effort<'_>) -> usize {
    let depth = effort.reads.unwrap_or(DEPTH.max(sink.requests())).max(1);
    let largest = shards.iter().map(|shard| shard.index_bytes).max();
    let each = largest.unwrap_or(0).saturating_mul(UNPACKED).max(1);
    let fit = usize::try_from(effort.memory / 4 / each).unwrap_or(usize::MAX);
    depth.min(fit).max(1)
}

/// Looks a sample up in one index.
fn look<'m>(sink: &dyn Sink, shard: &'m ShardEntry, meanings: &[Meaning]) -> Result<Look<'m>> {
    let file = require_index(shard, sink)?;
    let keys = ShardRecord::decode_keys(&shard.index, &file)?;
    let mut rows = Vec::new();
    for (key, field) in meanings {
        let row = keys.iter().position(|known| known == key);
        rows.extend(row.map(|row| (row, field)));
    }
    if rows.is_empty() {
        return Ok(Look::Elsewhere);
    }
    let record = ShardRecord::decode(&shard.index, &file)?;
    let has = |(row, field): &&(usize, &Option<String>)| {
        let fields = &record.samples[*row].fields;
        field
            .as_ref()
            .is_none_or(|name| fields.iter().any(|field| field.name == *name))
    };
    let whole = rows.iter().find(has).copied();
    let (row, field) = whole.unwrap_or(rows[0]);
    let found = Box::new(Found {
        shard,
        row: record.samples[row].clone(),
        field: field.clone(),
    });
    Ok(match whole {
        Some(_) => Look::Found(found),
        None => Look::Without(found),
    })
}

fn example(sink: &dyn Sink, manifest: &Manifest) -> Option<String> {
    let (_, shard) = manifest.shards().next()?;
    let file = sink.get(&shard.index).ok()??;
    ShardRecord::decode_keys(&shard.index, &file)
        .ok()?
        .into_iter()
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_taken_for_a_key_a_field_and_a_path() {
        let all = |text: &str| -> Vec<String> {
            let meanings = meanings(text).into_iter();
            let text = |(key, field): Meaning| match field {
                Some(field) => format!("{key} {field}"),
                None => key,
            };
            meanings.map(text).collect()
        };
        assert_eq!(all("cat/001"), ["cat/001"]);
        assert_eq!(
            all("cat/001.txt"),
            ["cat/001.txt", "cat/001 txt", "cat/001 txt"]
        );
        assert_eq!(
            all("a.v2/x.JPEG"),
            ["a.v2/x.JPEG", "a.v2/x JPEG", "a v2/x.JPEG", "a~2Ev2/x jpg"]
        );
        assert_eq!(all("x.seg.png"), ["x.seg.png", "x seg.png", "x~2Eseg png"]);
    }
}
