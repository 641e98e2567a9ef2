//! OpenCLIP: `sizes.json` beside the shards, samples by shard name.
//!
//! Source: open_clip `src/open_clip_train/data.py`.

use std::collections::BTreeMap;

use super::{Exporter, Facts, File, base, beside, json, timm};
use crate::error::Result;
use crate::manifest::Manifest;
use crate::recipe::Recipe;

pub(super) struct OpenClip;

impl Exporter for OpenClip {
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        timm::check_webdataset(recipe, "OpenCLIP")
    }

    fn dataset(&self, manifest: &Manifest, _: &Facts) -> Result<Vec<File>> {
        let shards = manifest
            .shards()
            .map(|(_, shard)| (base(&shard.name), shard.samples));
        let sizes: BTreeMap<&str, u64> = shards.collect();
        Ok(vec![(beside(manifest, "sizes.json"), json(&sizes)?)])
    }
}
