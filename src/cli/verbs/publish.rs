//! `publish`: check that every shard is there and commit the manifest.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::duplicates;
use super::emptied::tell_emptied;
use super::summary::Summary;
use super::{next, way};
use crate::base::error::Result;
use crate::base::text::hex;
use crate::cli::file;
use crate::cli::settings::Running;
use crate::model::manifest::MANIFEST;
use crate::publish::commit::publish;
use crate::publish::reading::reading;
use crate::state::claims::load;
use crate::state::plans::Stored;
use crate::state::refusals::refuse_later;
use crate::store::{self, Sink};

/// Publishes the destination's plan.
///
/// The SHA-256 of `manifest.json` goes to the file `digest`, if one is named.
pub(crate) fn run(destination: &str, digest: Option<&Path>, running: &Running) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    let summary = on(sink.as_ref(), running)?;
    if let Some(path) = digest {
        let manifest = sink.get(MANIFEST)?.unwrap_or_default();
        let digest = hex(&Sha256::digest(&manifest));
        file::write("--out-digest", path, digest.as_bytes())?;
    }
    Ok(summary)
}

/// The same on an opened destination.
pub(crate) fn on(sink: &dyn Sink, running: &Running) -> Result<Summary> {
    refuse_later(sink)?;
    let stored = load(sink)?;
    sink.sweep()?;
    finish(&stored, sink, Summary::default(), running)
}

/// Publishes a plan all of whose shards are packed; adds what is published then to what `packed` says.
pub(crate) fn finish(
    stored: &Stored,
    sink: &dyn Sink,
    packed: Summary,
    running: &Running,
) -> Result<Summary> {
    running.counters.begin("publish", 0, 0, 0);
    way::of_plan(sink, &stored.plan, |what| way::clear(sink, what, running))?;
    let manifest = publish(sink, stored, running.memory)?;
    duplicates::warn(sink, &manifest, running);
    let emptied = tell_emptied(sink, &manifest)?;
    let place = sink.to_string();
    Ok(Summary {
        done: "published",
        emptied,
        read: reading(&manifest, &place).map(|reading| reading.line),
        next: vec![next::command("verify", &place, &[], running)],
        destination: Some(place),
        plan: Some(stored.digest.clone()),
        samples: manifest.samples,
        shards: manifest.shards().count() as u64,
        bytes: manifest.bytes,
        skipped: manifest.skipped,
        odd: manifest.odd,
        ..packed
    })
}
