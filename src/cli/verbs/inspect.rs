//! `inspect`: what is in a dataset, or where one sample lies.

use std::fmt::Write;

use super::next;
use super::summary::Summary;
use crate::base::checksum::crc_text;
use crate::base::error::{Error, Result};
use crate::base::units::{bytes_text, classes, count_text, counted};
use crate::cli::settings::Running;
use crate::format::RecipeLayout as _;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::record::{SampleRecord, label_number};
use crate::state::published::require;
use crate::store;
use crate::upkeep::find::{Found, find};

/// Classes listed by name.
const NAMED: usize = 10;

/// Column of shard names at most.
const WIDEST: usize = 200;

/// Describes the dataset, or the sample `key`, which is a key or the path of a file of the source.
pub(crate) fn run(
    destination: &str,
    key: Option<&str>,
    json: bool,
    running: &Running,
) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    let manifest = require(sink.as_ref())?;
    let mut next = vec![next::command(
        "ls",
        destination,
        &["--limit", "10"],
        running,
    )];
    let text = match (key, json) {
        (None, true) => String::from_utf8_lossy(&manifest.encode()?).into_owned(),
        (None, false) => describe(&manifest, destination),
        (Some(key), _) => {
            let found = find(sink.as_ref(), &manifest, key, &running.effort())?;
            let Found { shard, row, .. } = found;
            next = vec![next::command("cat", destination, &[&row.key], running)];
            let path = row.source_path.text();
            let file = path.rsplit(['/', '!']).next().unwrap_or_default();
            if row.image.is_some() && !file.is_empty() {
                next[0] = next::command("cat", destination, &[&row.key, "-o", file], running);
            }
            match json {
                true => encode(&row_json(shard, &row, &manifest))?,
                false => describe_row(shard, &row, &manifest),
            }
        }
    };
    Ok(Summary {
        is_json: json,
        next,
        text: Some(text),
        ..Summary::of_dataset(sink.as_ref(), &manifest)
    })
}

fn describe(manifest: &Manifest, destination: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_manifest(&mut out, manifest, destination);
    out
}

fn write_manifest(out: &mut String, manifest: &Manifest, destination: &str) -> std::fmt::Result {
    writeln!(out, "dataset   {} ({destination})", manifest.name)?;
    writeln!(out, "plan      {}", manifest.plan)?;
    writeln!(out, "snapshot  {}", manifest.snapshot)?;
    writeln!(
        out,
        "samples   {} in {}, {}",
        count_text(manifest.samples),
        classes(manifest.names.classes.len()),
        bytes_text(manifest.bytes)
    )?;
    writeln!(out, "format    {}", manifest.recipe.describe())?;
    let named = &manifest.names.classes[..manifest.names.classes.len().min(NAMED)];
    let more = if named.len() < manifest.names.classes.len() {
        ", …"
    } else {
        ""
    };
    writeln!(out, "classes   {}{more}", named.join(", "))?;
    if let Some(derived) = &manifest.derived_from {
        let what = match derived.selection.as_str() {
            "" => "all of it",
            selection => selection,
        };
        writeln!(
            out,
            "from      dataset `{}`, manifest {}: {what}",
            derived.name, derived.manifest
        )?;
    }
    if !manifest.skipped.is_empty() {
        writeln!(
            out,
            "skipped   {}",
            count_text(manifest.skipped.len() as u64)
        )?;
    }
    if !manifest.odd.is_empty() {
        writeln!(out, "odd       {}", count_text(manifest.odd.len() as u64))?;
    }
    for split in &manifest.splits {
        writeln!(
            out,
            "\nsplit {}: {}, {}, {}",
            split.name,
            counted(split.samples, "sample"),
            counted(split.shards.len() as u64, "shard"),
            bytes_text(split.bytes)
        )?;
        let width = split
            .shards
            .iter()
            .map(|shard| shard.name.len())
            .max()
            .unwrap_or(0)
            .min(WIDEST);
        for shard in &split.shards {
            writeln!(
                out,
                "  {:width$}  {:>9} samples  {:>15} bytes  crc32 {}",
                shard.name,
                count_text(shard.samples),
                count_text(shard.bytes),
                shard.crc32
            )?;
        }
    }
    Ok(())
}

pub(super) fn class<'a>(row: &SampleRecord, manifest: &'a Manifest) -> &'a str {
    manifest
        .names
        .classes
        .get(row.label as usize)
        .map_or("", String::as_str)
}

fn describe_row(shard: &ShardEntry, row: &SampleRecord, manifest: &Manifest) -> String {
    let mut out = format!(
        "sample  {}\nshard   {} bytes {}..{}\nlabel   {} ({})\nsource  {}\n",
        row.key,
        shard.name,
        row.offset,
        row.offset + row.length,
        label_number(row.label),
        class(row, manifest),
        row.source_path
    );
    if let Some(image) = row.image {
        out.push_str(&format!(
            "image   {} {} x {}\n",
            image.format.name(),
            image.width,
            image.height
        ));
    }
    for field in &row.fields {
        out.push_str(&format!(
            "field   {}: {} bytes at {}, crc32 {}\n",
            field.name,
            field.length,
            field.offset,
            crc_text(field.crc32)
        ));
    }
    out
}

/// What is known of a sample, for programs.
pub(super) fn row_json(
    shard: &ShardEntry,
    row: &SampleRecord,
    manifest: &Manifest,
) -> serde_json::Value {
    let fields: Vec<_> = row
        .fields
        .iter()
        .map(|field| {
            serde_json::json!({
                "name": field.name,
                "offset": field.offset,
                "length": field.length,
                "crc32": crc_text(field.crc32),
            })
        })
        .collect();
    let image = row.image().filter(|_| shard.unpacked_bytes.is_none());
    serde_json::json!({
        "key": row.key,
        "shard": shard.name,
        "offset": row.offset,
        "length": row.length,
        "label": label_number(row.label),
        "class": class(row, manifest),
        "source_path": row.source_path,
        "format": row.image.map(|image| image.format.name()),
        "width": row.image.map(|image| image.width),
        "height": row.image.map(|image| image.height),
        "image_offset": image.map(|image| image.offset),
        "image_length": image.map(|image| image.length),
        "image_crc32": image.map(|image| crc_text(image.crc32)),
        "fields": fields,
        "frame": row.frame.map(|frame| serde_json::json!({
            "offset": frame.offset,
            "length": frame.length,
            "start": frame.start,
        })),
    })
}

fn encode(value: &serde_json::Value) -> Result<String> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Error::failed(error.to_string()))
}
