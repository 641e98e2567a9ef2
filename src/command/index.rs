//! `index`: describe finished shards to more readers.

use super::summary::Summary;
use crate::error::Result;
use crate::manifest::Manifest;
use crate::publish::add_indexes;
use crate::settings::Running;
use crate::store;

/// Adds the indexes of these names to a published dataset.
pub fn run(destination: &str, names: &[String], running: &Running) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    running.counters.begin("index", 0, 0, 0);
    let before = Manifest::require(sink.as_ref())?;
    let snapshot = before.snapshot;
    let manifest = add_indexes(sink.as_ref(), before, names, running.memory)?;
    Ok(Summary {
        done: match manifest.snapshot == snapshot {
            true => "up to date:",
            false => "indexed",
        },
        destination: Some(sink.to_string()),
        plan: Some(manifest.plan.clone()),
        samples: manifest.samples,
        shards: manifest.shards().count() as u64,
        bytes: manifest.bytes,
        ..Summary::default()
    })
}
