//! Keys over all shards: no sample may be in two places.

use crate::format::Finding;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::record::ShardRecord;
use crate::model::sample::key_hash;
use crate::upkeep::verify::collected::{Collected, KeyPlace, lock};

/// Writes down the keys of a shard, for [`check`].
pub(super) fn collect(shard: &ShardEntry, record: &ShardRecord, collected: &Collected<'_>) {
    let keys = record.samples.iter().map(|sample| key_hash(&sample.key));
    let shard = crc32fast::hash(shard.name.as_bytes());
    lock(&collected.keys).extend(keys.map(|key| KeyPlace { key, shard }));
}

/// Finds keys that were met in two places.
pub(super) fn check(manifest: &Manifest, collected: &Collected<'_>) {
    let mut keys = lock(&collected.keys);
    keys.sort_unstable();
    let name = |number: u32| {
        let is = |shard: &&ShardEntry| crc32fast::hash(shard.name.as_bytes()) == number;
        let mut shards = manifest.shards().map(|(_, shard)| shard);
        shards
            .find(is)
            .map_or(String::new(), |shard| shard.name.clone())
    };
    let twice = keys.windows(2).filter(|pair| pair[0].key == pair[1].key);
    let findings: Vec<_> = twice
        .map(|pair| {
            let (a, b) = (name(pair[0].shard), name(pair[1].shard));
            Finding::new(a, format!("a sample of this shard is also in {b}"))
                .values("each key once", "one key twice")
        })
        .collect();
    collected.find(findings);
}
