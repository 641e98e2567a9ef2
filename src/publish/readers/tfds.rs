//! TensorFlow Datasets: what `tfds.builder_from_directory` reads at the dataset's root.
//!
//! Source: TFDS 4.9.10 `core/proto/dataset_info.proto`, `core/proto/feature.proto`. The labels of a base of 1 get a background
//! class of number 0.

use serde_json::{Map, Value, json as value};

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::model::manifest::{Manifest, SplitEntry};
use crate::model::recipe::{Compression, Format, Missing, Recipe};
use crate::publish::readers::exporter::{Exporter, NamedFile, Splits};
use crate::publish::readers::facts::Facts;
use crate::publish::readers::paths::json;

/// Bytes that frame a record.
const FRAME_BYTES: u64 = 16;
const FEATURES: &str = "tensorflow_datasets.core.features";

const INFO: &str = "dataset_info.json";
const FEATURE_FILE: &str = "features.json";

fn label_file(recipe: &Recipe) -> String {
    let (_, label) = recipe.schema.features();
    format!("{}.labels.txt", label.replace('/', "."))
}

pub(super) struct Tfds;

impl Exporter for Tfds {
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        match (recipe.format, recipe.compress) {
            (Format::TfRecord, Compression::None) => Ok(()),
            (Format::TfRecord, _) => Err(
                "TFDS reads plain TFRecords only: drop `--compress` or drop this index".to_owned(),
            ),
            _ => Err("TFDS reads TFRecords: use `--format tfrecord` or drop this index".to_owned()),
        }
    }

    fn check_names(&self, split: &str, shards: &[&str]) -> Result<(), String> {
        for (number, shard) in shards.iter().enumerate() {
            let expected = format!("data/{split}-{number:05}.tfrecord");
            if *shard != expected {
                return Err(format!(
                    "{shard} would have to be named {expected} for TFDS to find it: convert the images to another destination, or do without this index"
                ));
            }
        }
        Ok(())
    }

    fn dataset_files(&self, recipe: &Recipe, _: &Splits<'_>) -> Vec<String> {
        vec![INFO.to_owned(), FEATURE_FILE.to_owned(), label_file(recipe)]
    }

    fn dataset(&self, manifest: &Manifest, facts: &Facts) -> Result<Vec<NamedFile>> {
        let refused = |what: String| {
            Err(Error::usage(format!(
                "--index tfds: {what}, or drop this index"
            )))
        };
        for split in &manifest.splits {
            let names: Vec<_> = split.shards.iter().map(|s| s.name.as_str()).collect();
            self.check_names(&split.name, &names)
                .map_err(|why| Error::usage(format!("--index tfds: {why}")))?;
        }
        if manifest.recipe.missing == Missing::Keep && !manifest.names.sidecars.is_empty() {
            return refused(
                "TFDS wants all features in every record: use `--missing-fields fill`".to_owned(),
            );
        }
        let known = ["jpeg", "png", "gif", "bmp"];
        if let Some(other) = facts
            .image_formats
            .iter()
            .find(|format| !known.contains(format))
        {
            return refused(format!(
                "TFDS decodes jpeg, png, gif and bmp, and some images are {other}: leave them out"
            ));
        }
        let (image, label) = manifest.recipe.schema.features();
        Ok(vec![
            (INFO.to_owned(), json(&info(manifest, image, label))?),
            (
                FEATURE_FILE.to_owned(),
                json(&features(manifest, facts, image, label))?,
            ),
            (
                label_file(&manifest.recipe),
                labels(manifest)
                    .iter()
                    .map(|name| format!("{name}\n"))
                    .collect::<String>()
                    .into_bytes(),
            ),
        ])
    }
}

/// A name as TFDS takes it: letters, digits and `_`, beginning with a letter.
fn identifier(name: &str) -> String {
    let word = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(word).collect();
    match name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => name,
        false => format!("dataset_{name}"),
    }
}

fn info(manifest: &Manifest, image: &str, label: &str) -> Value {
    let split = |split: &SplitEntry| {
        let lengths: Vec<_> = split
            .shards
            .iter()
            .map(|shard| shard.samples.to_string())
            .collect();
        value!({
            "filepathTemplate": "data/{SPLIT}-{SHARD_INDEX}.{FILEFORMAT}",
            "name": split.name,
            "numBytes": (split.bytes - split.samples * FRAME_BYTES).to_string(),
            "shardLengths": lengths,
        })
    };
    let splits: Vec<_> = manifest.splits.iter().map(split).collect();
    let items = [image, label].map(|key| value!({ "featureKey": key }));
    value!({
        "fileFormat": "tfrecord",
        "name": identifier(&manifest.name),
        "splits": splits,
        "supervisedKeys": { "tuple": { "items": items } },
        "version": "1.0.0",
    })
}

fn labels(manifest: &Manifest) -> Vec<String> {
    let background = (manifest.recipe.label_base > 0).then(|| "background".to_owned());
    // One a line: a line break in a name is shown, not written.
    let names = manifest
        .names
        .classes
        .iter()
        .map(|name| show(name.as_bytes()));
    background.into_iter().chain(names).collect()
}

fn features(manifest: &Manifest, facts: &Facts, image: &str, label: &str) -> Value {
    let class = |module: &str, class: &str| format!("{FEATURES}.{module}.{class}");
    let text = || value!({ "pythonClassName": class("text_feature", "Text"), "text": {} });
    let mut shape = value!({ "dtype": "uint8", "shape": { "dimensions": ["-1", "-1", "3"] } });
    let formats: Vec<_> = facts.image_formats.iter().collect();
    if let [&only @ ("jpeg" | "png")] = formats[..] {
        shape["encodingFormat"] = Value::from(only);
    }
    let mut all = Map::new();
    all.insert(
        image.to_owned(),
        value!({ "pythonClassName": class("image_feature", "Image"), "image": shape }),
    );
    all.insert(
        label.to_owned(),
        value!({
            "pythonClassName": class("class_label_feature", "ClassLabel"),
            "classLabel": { "numClasses": labels(manifest).len().to_string() },
        }),
    );
    let name = match image {
        "image" => "file_name",
        _ => "image/filename",
    };
    all.insert(name.to_owned(), text());
    for sidecar in &manifest.names.sidecars {
        all.insert(sidecar.clone(), text());
    }
    value!({
        "pythonClassName": class("features_dict", "FeaturesDict"),
        "featuresDict": { "features": all },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_becomes_one_that_tfds_takes() {
        assert_eq!(identifier("my set-2"), "my_set_2");
        assert_eq!(identifier("2024"), "dataset_2024");
        assert_eq!(identifier("ImageNet"), "imagenet");
    }
}
