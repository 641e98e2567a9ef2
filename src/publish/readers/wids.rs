//! wids: one JSON a split, for random access by sample number.
//!
//! Source: webdataset 1.0.2 `wids/wids_specs.py`. URLs are resolved against the file's own place. No `md5sum`: readers do not
//! compare it, and the manifest has better.

use serde::Serialize;

use crate::base::error::Result;
use crate::model::manifest::Manifest;
use crate::model::recipe::Recipe;
use crate::publish::readers::exporter::{Exporter, NamedFile, Splits};
use crate::publish::readers::facts::Facts;
use crate::publish::readers::paths::{json, plain_tar};

pub(super) struct Wids;

fn file_name(split: &str) -> String {
    format!("wids-{split}.json")
}

#[derive(Serialize)]
struct Index<'a> {
    #[serde(rename = "__kind__")]
    kind: &'a str,
    wids_version: u32,
    name: &'a str,
    shardlist: Vec<Shard<'a>>,
}

#[derive(Serialize)]
struct Shard<'a> {
    url: &'a str,
    nsamples: u64,
    filesize: u64,
}

impl Exporter for Wids {
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        plain_tar(recipe, "wids")
    }

    fn dataset_files(&self, _: &Recipe, splits: &Splits<'_>) -> Vec<String> {
        splits.keys().map(|split| file_name(split)).collect()
    }

    fn dataset(&self, manifest: &Manifest, _: &Facts) -> Result<Vec<NamedFile>> {
        let file = |split: &crate::model::manifest::SplitEntry| {
            let shard = |shard: &'_ crate::model::manifest::ShardEntry| {
                (shard.name.clone(), shard.samples, shard.bytes)
            };
            let shards: Vec<_> = split.shards.iter().map(shard).collect();
            let index = Index {
                kind: "wids-shard-index-v1",
                wids_version: 1,
                name: &split.name,
                shardlist: shards
                    .iter()
                    .map(|(url, nsamples, filesize)| Shard {
                        url,
                        nsamples: *nsamples,
                        filesize: *filesize,
                    })
                    .collect(),
            };
            Ok((file_name(&split.name), json(&index)?))
        };
        manifest.splits.iter().map(file).collect()
    }
}
