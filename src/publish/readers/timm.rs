//! timm: `_info.json` beside the shards, or in the directory that all of theirs lie in.
//!
//! Source: timm `data/readers/reader_wds.py`. Names of shards are relative to the file's own place.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::base::error::Result;
use crate::model::manifest::{Manifest, ShardEntry, SplitEntry};
use crate::model::recipe::{Compression, Format, Recipe};
use crate::publish::readers::exporter::{Exporter, NamedFile, Splits, splits_of};
use crate::publish::readers::facts::Facts;
use crate::publish::readers::paths::{common_directory, json};

const INFO: &str = "_info.json";

pub(super) struct Timm;

#[derive(Serialize)]
struct Info<'a> {
    splits: BTreeMap<&'a str, Split<'a>>,
}

#[derive(Serialize)]
struct Split<'a> {
    name: &'a str,
    num_samples: u64,
    filenames: Vec<&'a str>,
    shard_lengths: Vec<u64>,
}

/// The readers built on the webdataset package take what it takes.
pub(super) fn check_webdataset(recipe: &Recipe, reader: &str) -> Result<(), String> {
    match (recipe.format, recipe.compress) {
        (Format::WebDataset, Compression::None | Compression::Gzip { .. }) => Ok(()),
        (Format::WebDataset, Compression::Zstd { .. }) => Err(format!(
            "{reader} does not read zstd: use `--compress gzip` or none, or drop this index"
        )),
        _ => Err(format!(
            "{reader} reads WebDataset tar: use `--format wds` or drop this index"
        )),
    }
}

impl Exporter for Timm {
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        check_webdataset(recipe, "timm")
    }

    fn dataset_files(&self, _: &Recipe, splits: &Splits<'_>) -> Vec<String> {
        vec![format!("{}{INFO}", common_directory(splits))]
    }

    fn dataset(&self, manifest: &Manifest, _: &Facts) -> Result<Vec<NamedFile>> {
        let dir = common_directory(&splits_of(manifest));
        fn split<'a>(split: &'a SplitEntry, dir: &str) -> (&'a str, Split<'a>) {
            let named = |shard: &'a ShardEntry| &shard.name[dir.len()..];
            let info = Split {
                name: &split.name,
                num_samples: split.samples,
                filenames: split.shards.iter().map(named).collect(),
                shard_lengths: split.shards.iter().map(|shard| shard.samples).collect(),
            };
            (&split.name, info)
        }
        let splits = manifest.splits.iter().map(|entry| split(entry, dir));
        let splits = splits.collect();
        Ok(vec![(format!("{dir}{INFO}"), json(&Info { splits })?)])
    }
}
