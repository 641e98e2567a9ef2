//! An index made again from its shard, where the shard itself is as it was published.

use std::collections::HashSet;

use crate::base::error::Result;
use crate::base::image::Validate;
use crate::format::compress::Frames;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::recipe::{Compression, Format, Recipe};
use crate::model::record::{
    FieldRecord, Remark, SampleRecord, ShardRecord, is_image_feature, recorded_label,
};
use crate::model::sample::Sample;
use crate::pack::look::odd;
use crate::state::claims::plans;
use crate::state::plans::Stored;
use crate::state::samples::samples;
use crate::store::Sink;
use crate::upkeep::adopt::{index_from_foreign, walk_foreign};
use crate::upkeep::repair::Repairer;
use crate::upkeep::repair::guard::Guard;

impl Repairer<'_> {
    /// Makes an index from its shard; false where that does not give what was published.
    pub(super) fn mend_index(
        &self,
        manifest: &Manifest,
        shard: &ShardEntry,
        guard: &Guard<'_>,
    ) -> Result<bool> {
        let file = match manifest.recipe.foreign {
            true => index_from_foreign(self.sink, manifest, shard)?,
            false => {
                let digest = manifest.plan_of(shard);
                let mut plans = plans(self.sink, &HashSet::from([digest]))?;
                let Some(stored) = plans.remove(digest) else {
                    return Ok(false);
                };
                let number = stored
                    .plan
                    .shards
                    .iter()
                    .position(|plan| plan.name == shard.name);
                match number {
                    Some(number) => self.index_from_shard(&stored, number, manifest)?,
                    None => None,
                }
            }
        };
        if let Some(file) = file {
            guard.put(&shard.index, &file)?;
        }
        Ok(guard.made(&shard.index))
    }

    /// The index file of a shard of the plan, from the shard itself; `None` where the shard does not tell enough.
    fn index_from_shard(
        &self,
        stored: &Stored,
        number: usize,
        manifest: &Manifest,
    ) -> Result<Option<Vec<u8>>> {
        let plan = &stored.plan.shards[number];
        let recipe = &stored.plan.recipe;
        if recipe.format == Format::Parquet {
            return Ok(None);
        }
        // Twice what was planned is more than any header can add.
        let most = plan.bytes * 2 + 4096;
        let reader = self.sink.open(&plan.name)?;
        // Keys are the plan's to say.
        let kind = (recipe.format, recipe.compress);
        let walked = walk_foreign(&plan.name, "", kind, reader, most)?;
        let Ok(planned) = samples(self.sink, stored, number) else {
            return Ok(None);
        };
        let (packed, skipped) = split_skipped(planned, manifest);
        if !walked.found.is_empty() || walked.rows.len() != packed.len() {
            return Ok(None);
        }
        let mut record = ShardRecord {
            split: plan.split.clone(),
            plan: stored.digest.clone(),
            bytes: walked.bytes.0,
            crc32: walked.bytes.1,
            unpacked_bytes: (recipe.compress != Compression::None).then_some(walked.unpacked_bytes),
            skipped,
            ..ShardRecord::empty(&plan.name)
        };
        if recipe.sha256 {
            let mut shards = manifest.shards().map(|(_, entry)| entry);
            match shards.find(|entry| entry.name == plan.name) {
                Some(entry) => record.sha256.clone_from(&entry.sha256),
                None => return Ok(None),
            }
        }
        for (walked, sample) in walked.rows.into_iter().zip(&packed) {
            let Some(row) = row_of(recipe, walked, sample) else {
                return Ok(None);
            };
            record.odd.extend(odd(sample, row.image));
            record.samples.push(row);
        }
        if matches!(recipe.compress, Compression::Zstd { seekable: true, .. }) {
            match Frames::read(self.sink, &plan.name, record.bytes, &record)? {
                Ok(frames) => frames.enter(&mut record),
                Err(_) => return Ok(None),
            }
        }
        record.encode(&stored.plan.names.classes).map(Some)
    }
}

/// The planned samples of a shard that were packed, and what the manifest says of those that were left out.
fn split_skipped(planned: Vec<Sample>, manifest: &Manifest) -> (Vec<Sample>, Vec<Remark>) {
    let skipped: Vec<Remark> = manifest
        .skipped
        .iter()
        .filter(|remark| planned.iter().any(|sample| sample.key == remark.key))
        .cloned()
        .collect();
    let keys: HashSet<&str> = skipped.iter().map(|remark| remark.key.as_str()).collect();
    let packed = planned
        .into_iter()
        .filter(|sample| !keys.contains(sample.key.as_str()))
        .collect();
    (packed, skipped)
}

/// The row of a sample, from the plan and what the shard was seen to hold; `None` where the two do not fit.
fn row_of(recipe: &Recipe, walked: SampleRecord, sample: &Sample) -> Option<SampleRecord> {
    let tar = recipe.format == Format::WebDataset;
    if tar && walked.key != sample.key {
        return None;
    }
    let image = sample.image()?;
    let field = |field: FieldRecord| match tar {
        true => Some(field),
        // Features that are made are no fields.
        false if is_image_feature(&field.name) => Some(FieldRecord {
            name: image.name.clone(),
            ..field
        }),
        false => {
            let read = sample.fields.iter().any(|read| read.name == field.name);
            read.then_some(field)
        }
    };
    let looked = recipe.validate != Validate::None;
    Some(SampleRecord {
        key: sample.key.clone(),
        label: recorded_label(sample.label),
        source_path: image.path.clone().into(),
        offset: walked.offset,
        length: walked.length,
        image: walked.image.filter(|_| looked),
        fields: walked.fields.into_iter().filter_map(field).collect(),
        frame: None,
    })
}
