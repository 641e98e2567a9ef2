//! That no key is in two shards of others, with 16 bytes of memory a sample.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::error::{Error, Result};
use crate::model::record::{SampleRecord, ShardRecord};
use crate::model::sample::key_hash;
use crate::store::Sink;

/// Keys named in a message.
const NAMED: usize = 5;

/// A hash that is met in two shards, by their numbers.
struct SharedHash {
    hash: u64,
    first: u32,
    second: u32,
}

/// Hashes of all keys, each with the number of its shard.
#[derive(Default)]
pub(super) struct Keys(Mutex<Vec<(u64, u32)>>);

impl Keys {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the keys of a shard.
    pub(super) fn add(&self, shard: usize, rows: &[SampleRecord]) {
        let hashes = rows.iter().map(|row| (key_hash(&row.key), shard as u32));
        self.lock().extend(hashes);
    }

    /// Refuses keys that are in two shards, some of them by name: the indexes of the shards are written by now.
    pub(super) fn check(&self, sink: &dyn Sink, shards: &[&str], indexes: &[String]) -> Result<()> {
        let mut keys = self.lock();
        keys.sort_unstable();
        let mut twice: Vec<SharedHash> = keys
            .windows(2)
            .filter(|pair| pair[0].0 == pair[1].0)
            .map(|pair| SharedHash {
                hash: pair[0].0,
                first: pair[0].1,
                second: pair[1].1,
            })
            .collect();
        *keys = Vec::new();
        // Shard by shard, so that few indexes are read; equal hashes of unequal keys are possible, and no mistake.
        twice.sort_unstable_by_key(|shared| (shared.first, shared.second, shared.hash));
        let mut named = Vec::new();
        let mut equal = 0;
        let shards_of = |shared: &SharedHash| (shared.first, shared.second);
        for same in twice.chunk_by(|x, y| shards_of(x) == shards_of(y)) {
            let (a, b) = (same[0].first as usize, same[0].second as usize);
            if named.len() == NAMED {
                equal += same.len();
                continue;
            }
            let of = |at: usize| keys_of(sink, &indexes[at], same);
            let (first, second) = (of(a)?, of(b)?);
            for (hash, key) in first {
                if second.get(&hash) != Some(&key) {
                    continue;
                }
                equal += 1;
                if named.len() < NAMED {
                    named.push(format!("\n  `{key}`: {} and {}", shards[a], shards[b]));
                }
            }
        }
        if equal == 0 {
            return Ok(());
        }
        let more = match equal - named.len() {
            0 => String::new(),
            more => format!("\n  and {more} more"),
        };
        Err(Error::source_data(format!(
            "{sink}: keys of samples must be unique over the dataset, and some are in two shards: index directories that repeat keys each alone, or make the keys differ{}{more}",
            named.concat()
        )))
    }
}

/// The keys of a shard that have these hashes.
fn keys_of(sink: &dyn Sink, index: &str, hashes: &[SharedHash]) -> Result<BTreeMap<u64, String>> {
    let file = sink
        .get(index)?
        .ok_or_else(|| Error::failed(format!("{sink}/{index}: it vanished")))?;
    let wanted: HashSet<u64> = hashes.iter().map(|shared| shared.hash).collect();
    let keys = ShardRecord::decode_keys(index, &file)?;
    let hashed = keys.into_iter().map(|key| (key_hash(&key), key));
    Ok(hashed.filter(|(hash, _)| wanted.contains(hash)).collect())
}
