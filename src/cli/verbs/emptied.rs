//! Classes that lost all their samples because those were damaged and left out: readers count them, and never see one.

use std::collections::BTreeMap;

use super::summary::EmptiedClass;
use crate::base::error::Result;
use crate::model::manifest::Manifest;
use crate::model::record::Remark;
use crate::state::published::read_record;
use crate::store::Sink;

/// Classes named in a warning.
const NAMED: usize = 20;

/// Warns of classes that have no sample left, if samples were left out, and gives them. Indexes are read until each of their classes was seen
/// in one.
pub(super) fn tell_emptied(sink: &dyn Sink, manifest: &Manifest) -> Result<Vec<EmptiedClass>> {
    let mut emptied = lost_by_class(manifest);
    for (_, shard) in manifest.shards() {
        if emptied.is_empty() {
            return Ok(Vec::new());
        }
        let Some(record) = read_record(shard, sink)? else {
            return Ok(Vec::new());
        };
        for sample in record.samples {
            emptied.remove(&(sample.label as usize));
        }
    }
    for (label, skipped) in emptied.iter().take(NAMED) {
        tracing::warn!(
            "class `{}` has no samples left: all {skipped} are damaged and were left out; its label {label} stays",
            manifest.names.classes[*label]
        );
    }
    if emptied.len() > NAMED {
        tracing::warn!("{} more classes have none left", emptied.len() - NAMED);
    }
    let class = |(label, samples): (usize, u64)| EmptiedClass {
        name: manifest.names.classes[label].clone(),
        label: label as u64,
        samples,
    };
    Ok(emptied.into_iter().map(class).collect())
}

/// How many samples of each class were left out, by label, as far as their directories tell.
fn lost_by_class(manifest: &Manifest) -> BTreeMap<usize, u64> {
    let labels: BTreeMap<&str, usize> = (manifest.names.classes.iter())
        .enumerate()
        .map(|(label, name)| (name.as_str(), label))
        .collect();
    let label = |remark: &Remark| {
        let path = remark.path.text().into_owned();
        let mut directories = path.split(['/', '!']).rev().skip(1);
        directories.find_map(|name| labels.get(name.trim_end_matches(".tar")).copied())
    };
    let mut lost = BTreeMap::new();
    for remark in &manifest.skipped {
        if let Some(label) = label(remark) {
            *lost.entry(label).or_default() += 1;
        }
    }
    lost
}
