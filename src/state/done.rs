//! Which shards of a plan are done: those with a record under the plan's digest, and the length that the record says.

use std::collections::{HashMap, HashSet};

use crate::base::error::{Error, Kind, Result};
use crate::model::record::{FOOTER_GUESS, Footer, index_name};
use crate::state::plans::Stored;
use crate::store::{Sink, at_once};

/// The records that exist of these shards under this plan; a shard whose length differs from its record is not done.
pub(crate) fn done(
    sink: &dyn Sink,
    stored: &Stored,
    shards: &[usize],
) -> Result<Vec<Option<Footer>>> {
    if stored.fresh {
        return Ok(vec![None; shards.len()]);
    }
    let read = |name: &str, size| Ok((footer(sink, name, size)?, ()));
    let records = records(sink, stored, shards, sink.requests(), read)?;
    let footer = |record: Option<(Footer, ())>| record.map(|(footer, ())| footer);
    Ok(records.into_iter().map(footer).collect())
}

/// The same with what `read` makes of each index file, given its name and size; so many at once.
pub(crate) fn records<T: Send>(
    sink: &dyn Sink,
    stored: &Stored,
    shards: &[usize],
    depth: usize,
    read: impl Fn(&str, u64) -> Result<(Footer, T)> + Sync,
) -> Result<Vec<Option<(Footer, T)>>> {
    let lists = at_once(sink.requests(), &["data", "index"], |prefix| {
        sink.list(prefix)
    })?;
    let mut sizes = lists
        .into_iter()
        .map(|list| list.into_iter().collect::<HashMap<_, _>>());
    let (data, indexes) = (
        sizes.next().unwrap_or_default(),
        sizes.next().unwrap_or_default(),
    );
    let look = |shard: &usize| -> Result<Option<(Footer, T)>> {
        let shard = &stored.plan.shards[*shard];
        let name = index_name(&shard.name);
        let Some(size) = indexes.get(&name) else {
            return Ok(None);
        };
        let (footer, made) = match read(&name, *size) {
            // A record that cannot be read is as good as none: the shard is packed again.
            Err(error) if error.kind() == Kind::Damage => return Ok(None),
            record => record?,
        };
        let ours = footer.plan == stored.digest && footer.shard == shard.name;
        let whole = data.get(shard.name.as_str()) == Some(&footer.bytes);
        Ok((ours && whole).then_some((footer, made)))
    };
    at_once(depth, shards, look)
}

/// Names of the plan's shards that have no record yet, by one listing and without reading any.
pub(crate) fn unpacked(sink: &dyn Sink, stored: &Stored) -> Result<Vec<String>> {
    let there: HashSet<String> = sink
        .list("index")?
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let names = stored.plan.shards.iter().map(|shard| &shard.name);
    let unpacked = names.filter(|name| !there.contains(&index_name(name)));
    Ok(unpacked.map(ToString::to_string).collect())
}

/// The footer of an index of `size` bytes, by reading its end.
pub(crate) fn footer(sink: &dyn Sink, name: &str, size: u64) -> Result<Footer> {
    let mut length = FOOTER_GUESS.min(size);
    for _ in 0..3 {
        let tail = sink.range(name, size - length, length as usize)?;
        match Footer::decode(name, &tail, size)? {
            Ok(footer) => return Ok(footer),
            Err(needed) => length = needed,
        }
    }
    Err(Error::new(
        Kind::Damage,
        format!("{name}: not a readable index: its footer cannot be found"),
    ))
}
