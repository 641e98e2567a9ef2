//! Images that a dataset has several times: `inspect --duplicates` lists them, and whoever publishes warns of those in several splits.

use std::fmt::Write as _;

use serde_json::json;

use super::summary::Summary;
use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::base::units::{bytes_text, counted};
use crate::cli::settings::Running;
use crate::model::manifest::Manifest;
use crate::state::published::require;
use crate::store::{self, Sink};
use crate::upkeep::content::pick;
use crate::upkeep::duplicates::{Duplicates, Group, duplicates};
use crate::upkeep::places::Shelf;

/// Groups that are read before a warning.
const WARNED_OF: usize = 20;

/// Lists every image that is there several times.
pub(crate) fn run(destination: &str, json: bool, running: &Running) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    let manifest = require(sink.as_ref())?;
    let found = look(sink.as_ref(), &manifest, usize::MAX, running)?;
    let text = match json {
        true => as_json(&found)?,
        false => as_text(&found),
    };
    Ok(Summary {
        is_json: json,
        text: Some(text),
        ..Summary::of_dataset(sink.as_ref(), &manifest)
    })
}

fn look(
    sink: &dyn Sink,
    manifest: &Manifest,
    most: usize,
    running: &Running,
) -> Result<Duplicates> {
    let shelf = Shelf {
        sink,
        manifest,
        depth: running.cores.max(sink.requests()),
        stop: &running.stop,
    };
    duplicates(&shelf, running.memory, most)
}

/// Warns of images that are in several splits: a model is tested with what it was trained with. What cannot be looked at is no error,
/// since the dataset is published.
pub(super) fn warn(sink: &dyn Sink, manifest: &Manifest, running: &Running) {
    if manifest.splits.len() < 2 {
        return;
    }
    match look(sink, manifest, WARNED_OF, running) {
        Ok(found) => {
            let across = found.groups.iter().find(|group| group.splits.len() > 1);
            let Some(group) = across else { return };
            let of_split = |split: &String| group.named.iter().find(|(own, ..)| own == split);
            let named = group.splits.iter().filter_map(of_split).take(2);
            let named: Vec<String> = named.map(|(_, _, row)| format!("`{}`", row.key)).collect();
            tracing::warn!(
                "{} in several splits, as {}: see `shardpack inspect {} --duplicates`",
                match found.across {
                    1 => "1 image is".to_owned(),
                    images => format!("{} are", counted(images, "image")),
                },
                named.join(" and "),
                sink.word()
            );
        }
        Err(error) if matches!(error.kind(), Kind::Interrupted(_)) => {}
        Err(error) => tracing::info!("nobody looked for images in several splits: {error}"),
    }
}

fn as_text(found: &Duplicates) -> String {
    let mut out = match found.images {
        0 => "duplicates  none: no image is there twice\n".to_owned(),
        images => format!(
            "duplicates  {} in {}, {} in several splits\n",
            counted(images, "image"),
            counted(found.samples, "sample"),
            found.across
        ),
    };
    for group in &found.groups {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "\n{} times, {}, {}",
            group.samples,
            bytes_text(group.length),
            group.splits.join(" and ")
        );
        for (split, _, row) in &group.named {
            let _ = writeln!(out, "  {split:8}  {}", row.key);
        }
        if group.samples > group.named.len() {
            let _ = writeln!(out, "  … and {} more", group.samples - group.named.len());
        }
    }
    out
}

fn as_json(found: &Duplicates) -> Result<String> {
    let group = |group: &Group| -> Result<serde_json::Value> {
        let (_, _, first) = &group.named[0];
        let image = pick(first, None)?;
        let samples = group.named.iter();
        let samples: Vec<_> = samples
            .map(|(split, _, row)| json!({"split": split, "key": row.key, "source_path": row.source_path}))
            .collect();
        Ok(json!({
            "times": group.samples,
            "bytes": group.length,
            "crc32": crc_text(image.crc32),
            "splits": group.splits,
            "samples": samples,
        }))
    };
    let groups: Vec<_> = found.groups.iter().map(group).collect::<Result<_>>()?;
    let value = json!({
        "images": found.images,
        "samples": found.samples,
        "in_several_splits": found.across,
        "groups": groups,
    });
    serde_json::to_string_pretty(&value)
        .map(|text| text + "\n")
        .map_err(|error| Error::failed(error.to_string()))
}
