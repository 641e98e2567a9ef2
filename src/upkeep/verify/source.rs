//! The source level: no sample of the source is missing in the dataset.

use crate::base::error::{Result, unless_damaged};
use crate::format::Finding;
use crate::model::manifest::{MANIFEST, Manifest, ShardEntry};
use crate::model::record::ShardRecord;
use crate::state::published::read_index;
use crate::store::at_once;
use crate::upkeep::verify::collected::{Collected, lock};
use crate::upkeep::verify::verification::Verifier;

/// Every sample of the source is in a shard or among the skipped. What is in the shards that were not read, their indexes say.
pub(super) fn check(
    verification: &Verifier<'_>,
    manifest: &Manifest,
    shards: &[&ShardEntry],
    collected: &Collected<'_>,
) -> Result<()> {
    let Some(source) = &collected.source else {
        return Ok(());
    };
    if manifest.recipe.select.keys.is_some() {
        let what = "whether samples of the source are missing is not said: they were chosen by the file of `--keys`";
        collected.report().notes.push(Finding::new(MANIFEST, what));
        return Ok(());
    }
    let read = lock(&collected.remarks);
    let unread: Vec<&ShardEntry> = shards
        .iter()
        .copied()
        .filter(|shard| !read.contains_key(&shard.name))
        .collect();
    drop(read);
    let sink = verification.sink;
    let depth = verification.jobs.max(sink.requests());
    let met = at_once(depth, &unread, |shard| {
        verification.stop.check()?;
        let file = unless_damaged(read_index(shard, sink))?.flatten();
        let keys = file.map(|file| ShardRecord::decode_keys(&shard.index, &file));
        let Some(keys) = unless_damaged(keys.transpose())?.flatten() else {
            return Ok(false);
        };
        for key in keys {
            source.meet(&key);
        }
        Ok(true)
    })?;
    let unknown = met.iter().filter(|met| !**met).count();
    if unknown > 0 {
        collected.report().unchecked.push(format!(
            "whether every sample of the source is in the dataset: {unknown} indexes cannot be read"
        ));
        return Ok(());
    }
    for remark in &manifest.skipped {
        source.meet(&remark.key);
    }
    let missing = source.unmet().map(|sample| {
        let image = sample.image().map(|field| field.path.to_string());
        let what = "is in the source, not in the dataset";
        Finding::new(image.unwrap_or_default(), what).sample(sample.key)
    });
    collected.find(missing);
    Ok(())
}
