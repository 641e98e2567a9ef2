//! `publish`: check that every shard is there and commit the manifest.

use super::summary::Summary;
use crate::error::Result;
use crate::publish::publish;
use crate::resume;
use crate::settings::Running;
use crate::store::{self, Sink};

/// Publishes the destination's plan.
pub fn run(destination: &str, running: &Running) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    on(sink.as_ref(), running)
}

/// The same on an opened destination.
pub fn on(sink: &dyn Sink, running: &Running) -> Result<Summary> {
    let stored = resume::load(sink)?;
    sink.sweep()?;
    running.counters.begin("publish", 0, 0, 0);
    let manifest = publish(sink, &stored, running.memory)?;
    Ok(Summary {
        done: "published",
        destination: Some(sink.to_string()),
        plan: Some(stored.digest),
        samples: manifest.samples,
        shards: manifest.shards().count() as u64,
        bytes: manifest.bytes,
        skipped: manifest.skipped,
        odd: manifest.odd,
        ..Summary::default()
    })
}
