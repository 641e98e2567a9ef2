//! Everything a report tells of a dataset: its manifest, and the rows of all indexes added up while they are read.

use std::sync::{Mutex, PoisonError};

use crate::base::error::{Kind, Result};
use crate::base::signal::Stop;
use crate::format::RecipeLayout as _;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::record::ShardRecord;
use crate::report::dataset::{Dataset, Split};
use crate::report::figures::Figures;
use crate::state::published::read_index;
use crate::store::{Sink, at_once};

/// What one row takes while its index is read: the file, its columns, and the row itself.
const ROW_BYTES: u64 = 1000;

/// Reads all indexes of a dataset, as many at once as `memory` bytes allow. One that is missing or damaged is told, not an error.
pub(crate) fn survey(
    sink: &dyn Sink,
    manifest: &Manifest,
    cores: usize,
    memory: u64,
    stop: &Stop,
) -> Result<Dataset> {
    let shards = || manifest.shards().map(|(_, shard)| shard);
    let largest = shards().map(|shard| shard.samples).max().unwrap_or(0);
    let room = memory / (largest * ROW_BYTES).max(1);
    let depth = cores.max(sink.requests()).min(room as usize).max(1);
    let classes = manifest.names.classes.len();
    let mut whole = Figures::new(classes);
    let mut splits = Vec::new();
    let mut unread = Vec::new();
    for split in &manifest.splits {
        let figures = Mutex::new(Figures::new(classes));
        let problems = at_once(depth, &split.shards, |shard| {
            stop.check()?;
            match read(sink, shard) {
                Ok(Some(record)) => {
                    let mut own = Figures::new(classes);
                    record.samples.iter().for_each(|sample| own.add(sample));
                    let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
                    figures.merge(&own);
                    Ok(None)
                }
                Ok(None) => Ok(Some(format!("{}: missing", shard.index))),
                Err(error) if error.kind() == Kind::Damage => Ok(Some(error.to_string())),
                Err(error) => Err(error),
            }
        })?;
        unread.extend(problems.into_iter().flatten());
        let figures = figures.into_inner().unwrap_or_else(PoisonError::into_inner);
        whole.merge(&figures);
        splits.push(Split {
            name: split.name.clone(),
            samples: split.samples,
            bytes: split.bytes,
            shards: split.shards.iter().map(|shard| shard.bytes).collect(),
            labels: figures.labels,
        });
    }
    Ok(Dataset {
        destination: sink.to_string(),
        name: manifest.name.clone(),
        plan: manifest.plan.clone(),
        snapshot: manifest.snapshot,
        format: manifest.recipe.describe(),
        samples: manifest.samples,
        bytes: manifest.bytes,
        classes: manifest.names.classes.clone(),
        texts: manifest.names.texts.clone(),
        splits,
        figures: whole,
        skipped: manifest.skipped.clone(),
        odd: manifest.odd.clone(),
        unread,
    })
}

fn read(sink: &dyn Sink, shard: &ShardEntry) -> Result<Option<ShardRecord>> {
    let file = read_index(shard, sink)?;
    file.map(|file| ShardRecord::decode(&shard.index, &file))
        .transpose()
}
