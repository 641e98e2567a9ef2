//! OpenCLIP: `sizes.json` beside the shards, samples by shard name.
//!
//! Source: open_clip `src/open_clip_train/data.py`. It looks beside the first shard that it is given and asks for base names, so that
//! each directory of shards has a file of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::error::Result;
use crate::model::manifest::Manifest;
use crate::model::recipe::Recipe;
use crate::publish::readers::exporter::{Exporter, NamedFile, Splits};
use crate::publish::readers::facts::Facts;
use crate::publish::readers::paths::{base, directory, json};
use crate::publish::readers::timm::check_webdataset;

const SIZES: &str = "sizes.json";

pub(super) struct OpenClip;

impl Exporter for OpenClip {
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        check_webdataset(recipe, "OpenCLIP")
    }

    fn dataset_files(&self, _: &Recipe, splits: &Splits<'_>) -> Vec<String> {
        let shards = splits.values().flatten();
        let dirs: BTreeSet<&str> = shards.map(|shard| directory(shard)).collect();
        let file = |dir| format!("{dir}{SIZES}");
        dirs.into_iter().map(file).collect()
    }

    fn dataset(&self, manifest: &Manifest, _: &Facts) -> Result<Vec<NamedFile>> {
        let mut sizes: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for (_, shard) in manifest.shards() {
            let beside = sizes.entry(directory(&shard.name)).or_default();
            beside.insert(base(&shard.name), shard.samples);
        }
        let file = |(dir, sizes)| Ok((format!("{dir}{SIZES}"), json(&sizes)?));
        sizes.into_iter().map(file).collect()
    }

    fn warning(&self, facts: &Facts) -> Option<String> {
        let all = facts.all.as_ref()?;
        (!all.fields.contains("txt")).then(|| {
            "not every sample has a caption, `txt`: OpenCLIP leaves out those without one, and says nothing of it"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::readers::exporter::vector;

    #[test]
    fn samples_without_a_caption_are_told_and_samples_with_one_are_not() {
        let (_, mut record) = vector();
        assert!(OpenClip.warning(&Facts::default()).is_none());
        let told = OpenClip.warning(&Facts::of(&record)).unwrap();
        assert!(told.contains("`txt`"), "{told}");
        for sample in &mut record.samples {
            sample.fields[0].name = "txt".to_owned();
        }
        assert_eq!(OpenClip.warning(&Facts::of(&record)), None);
        record.samples[1].fields[0].name = "cls".to_owned();
        assert!(OpenClip.warning(&Facts::of(&record)).is_some());
    }
}
