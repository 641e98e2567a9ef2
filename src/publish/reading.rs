//! How a dataset is read: a line of Python that goes through its manifest. The brace pattern of shards would read removed samples after a
//! rebuild.

use crate::model::manifest::{MANIFEST, Manifest};
use crate::model::recipe::{Compression, Format};

/// Python that reads a dataset.
pub(crate) struct Reading {
    /// What it imports.
    pub(crate) imports: String,
    /// The samples, as one expression.
    pub(crate) line: String,
}

/// Python that reads one split, `train` if there is one; none where no library reads its shards as they are.
pub(crate) fn reading(manifest: &Manifest, destination: &str) -> Option<Reading> {
    let mut names = manifest.splits.iter().map(|split| split.name.as_str());
    let split = names.position(|name| name == "train").unwrap_or(0);
    let place = destination.trim_end_matches('/');
    let is_remote = place.starts_with("s3://");
    let literal = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let open = match is_remote {
        true => "fsspec.open",
        false => "open",
    };
    let text = literal(&format!("{place}/{MANIFEST}"));
    let manifest_of = match is_remote {
        true => format!("{open}({text}).open()"),
        false => format!("{open}({text})"),
    };
    let compress = manifest.recipe.compress;
    let before = match (manifest.recipe.format, is_remote, compress) {
        (Format::WebDataset, true, _) => "pipe:aws s3 cp --quiet ",
        (Format::WebDataset, false, Compression::Zstd { .. }) => "pipe:zstd -dc ",
        _ => "",
    };
    let after = match (manifest.recipe.format, is_remote, compress) {
        (Format::WebDataset, true, Compression::Zstd { .. }) => " + \" - | zstd -dc\"",
        (Format::WebDataset, true, _) => " + \" -\"",
        _ => "",
    };
    let shards = format!(
        "[{} + s[\"name\"]{after} for s in json.load({manifest_of})[\"splits\"][{split}][\"shards\"]]",
        literal(&format!("{before}{place}/"))
    );
    let (library, line) = match manifest.recipe.format {
        Format::WebDataset => (
            "webdataset as wds",
            format!("wds.WebDataset({shards}, shardshuffle=100)"),
        ),
        Format::TfRecord => (
            "tensorflow as tf",
            match compress {
                Compression::None => format!("tf.data.TFRecordDataset({shards})"),
                Compression::Gzip { .. } => {
                    format!("tf.data.TFRecordDataset({shards}, compression_type=\"GZIP\")")
                }
                // TensorFlow has no zstd.
                Compression::Zstd { .. } => return None,
            },
        ),
        Format::Parquet => (
            "datasets",
            format!("datasets.load_dataset(\"parquet\", data_files={shards}, split=\"train\")"),
        ),
    };
    let remote = if is_remote { "fsspec, " } else { "" };
    Some(Reading {
        imports: format!("import {remote}json, {library}"),
        line,
    })
}
