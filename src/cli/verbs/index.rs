//! `index`: describe finished shards to more readers; shards that somebody else made get a manifest first.

use std::collections::HashMap;

use super::summary::Summary;
use super::{next, way};
use crate::base::error::Result;
use crate::cli::settings::Running;
use crate::publish::commit::{add_indexes, commit_snapshot};
use crate::publish::readers::{Described, splits_of};
use crate::state::published::load;
use crate::state::refusals::refuse_later;
use crate::store::{self, Sink};
use crate::upkeep::adopt::{Adoption, adopt, foreign_shards, foreign_splits, refuse_unfinished};

/// Adds the indexes of these names to a dataset, and a manifest where there is none.
pub(crate) fn run(destination: &str, names: &[String], running: &Running) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    on(sink.as_ref(), names, running)
}

/// The same on an opened destination.
pub(crate) fn on(sink: &dyn Sink, names: &[String], running: &Running) -> Result<Summary> {
    refuse_later(sink)?;
    sink.sweep()?;
    let (manifest, done) = match load(sink)? {
        Some(manifest) => (manifest, "up to date:"),
        None => {
            refuse_unfinished(sink)?;
            let shards = foreign_shards(sink)?;
            if let Some(shard) = shards.first() {
                let what = Described {
                    recipe: &shard.recipe(),
                    splits: foreign_splits(&shards),
                    indexes: names,
                    record: &|_| None,
                };
                way::check(sink, &what, running)?;
            }
            let manifest = adopt(&Adoption {
                sink,
                shards: &shards,
                jobs: running.jobs_for(shards.len()),
                replace: running.replace,
                counters: &running.counters,
                stop: &running.stop,
            })?;
            (commit_snapshot(sink, manifest, running.memory)?, "indexed")
        }
    };
    running.counters.begin("index", 0, 0, 0);
    let records: HashMap<&str, &str> = manifest
        .shards()
        .map(|(_, shard)| (shard.name.as_str(), shard.index.as_str()))
        .collect();
    let what = Described {
        recipe: &manifest.recipe,
        splits: splits_of(&manifest),
        indexes: names,
        record: &|shard| records.get(shard).map(|index| (*index).to_owned()),
    };
    way::clear(sink, &what, running)?;
    let snapshot = manifest.snapshot;
    let manifest = add_indexes(sink, manifest, names, running.memory)?;
    Ok(Summary {
        done: match manifest.snapshot == snapshot {
            true => done,
            false => "indexed",
        },
        next: vec![next::command("verify", &sink.to_string(), &[], running)],
        ..Summary::of_dataset(sink, &manifest)
    })
}
