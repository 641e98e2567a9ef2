//! A dataset as it is, or a part of it, brought to another place: checked while it passes, gone on with where it ended, and visible when all is
//! there.
//!
//! In come two places and what is wanted; shards, their indexes and what lies beside them go out, and last the manifest. A copy of all of it
//! has the manifest's very bytes, and the plans too, so that everything works there that does at the source. A part is a dataset of its own
//! that says what it is a part of. Neighbouring shards may be joined to larger ones. Where one server holds both ends, it is asked to copy.

mod companions;
mod destination;
mod selection;
mod target;
mod transfer;

use std::collections::HashSet;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::signal::Stop;
use crate::base::text::hex;
use crate::base::units::counted;
use crate::format::Finding;
use crate::model::counters::Counters;
use crate::model::manifest::{Manifest, SNAPSHOT_DIR, ShardEntry, SplitEntry, snapshot_number};
use crate::model::recipe::Cut;
use crate::model::selection::Derivation;
use crate::publish::commit::{commit_copy, export_copy};
use crate::state::done::footer;
use crate::state::published::{load, require_text, sizes_beside_shards};
use crate::state::refusals::{COPY, refuse_without_room};
use crate::store::{Sink, at_once};
use crate::upkeep::copy::companions::{copy_files, copy_plans};
use crate::upkeep::copy::destination::Found;
use crate::upkeep::copy::target::{Target, as_they_are, joined};
use crate::upkeep::copy::transfer::{bring, look};
use crate::upkeep::verify::Verifier;

pub(crate) use crate::upkeep::copy::selection::Selection;
pub(crate) use crate::upkeep::copy::transfer::Moved;

/// Names in a message at most.
const NAMED: usize = 5;

/// One copy.
pub(crate) struct Copy<'a> {
    /// Where the dataset lies.
    pub from: &'a dyn Sink,
    /// What is published there.
    pub original: &'a Original,
    /// Where it is to be.
    pub to: &'a dyn Sink,
    /// What of it.
    pub selection: &'a Selection,
    /// Most bytes of a shard, where neighbours are to be joined.
    pub shard_bytes: Option<u64>,
    /// Shards that are copied at once.
    pub jobs: usize,
    /// Memory that reader indexes may take.
    pub memory: u64,
    /// Nothing is written.
    pub dry_run: bool,
    /// Counts what happens.
    pub counters: &'a Counters,
    /// Says when to stop.
    pub stop: &'a Stop,
}

/// What came of a copy.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The manifest of the copy.
    pub manifest: Manifest,
    /// How its shards came there; of a dry run, those that are lacking are those that pass.
    pub moved: Moved,
    /// Bytes of the shards that were not there.
    pub bytes: u64,
    /// Shards of an earlier copy that are not in this one, and were removed.
    pub removed: usize,
    /// Whether there was anything to do.
    pub changed: bool,
    /// How many samples are of the classes that were named, if any was.
    pub of_classes: Option<u64>,
    /// The snapshot that the source has by now, where that is a later one.
    pub later: Option<u64>,
}

/// A dataset that is copied.
pub(crate) struct Original {
    /// Its manifest.
    pub manifest: Manifest,
    /// That as it lies there.
    text: Bytes,
}

impl Original {
    /// The dataset that is published there.
    pub(crate) fn load(from: &dyn Sink) -> Result<Self> {
        let (manifest, text) = require_text(from)?;
        Ok(Self { manifest, text })
    }

    /// What is to be copied as a manifest, without reader indexes; those of all of it are as they were.
    fn wanted(&self, run: &Copy<'_>, targets: &[Target<'_>]) -> Manifest {
        let whole = &self.manifest;
        if run.is_whole() {
            return whole.clone();
        }
        let mut splits: Vec<SplitEntry> = Vec::new();
        for target in targets {
            if splits.last().is_none_or(|split| split.name != target.split) {
                splits.push(SplitEntry {
                    name: target.split.to_owned(),
                    samples: 0,
                    bytes: 0,
                    shards: Vec::new(),
                });
            }
            if let Some(split) = splits.last_mut() {
                split.samples += target.entry.samples;
                split.bytes += target.entry.bytes;
                split.shards.push(target.entry.clone());
            }
        }
        let mut words = vec![run.selection.words()];
        words.retain(|words| !words.is_empty());
        let mut recipe = whole.recipe.clone();
        let mut plan = whole.plan.clone();
        if let Some(shard_bytes) = run.shard_bytes {
            words.push(format!(
                "neighbours joined to shards of {shard_bytes} bytes at most"
            ));
            recipe.cut = Cut::ShardBytes(shard_bytes);
            // A digest of what is not read cannot be known.
            recipe.sha256 = false;
            plan = digest_of_joined(&words, targets);
        }
        Manifest {
            plan,
            recipe,
            samples: splits.iter().map(|split| split.samples).sum(),
            bytes: splits.iter().map(|split| split.bytes).sum(),
            splits,
            indexes: Vec::new(),
            skipped: Vec::new(),
            odd: Vec::new(),
            derived_from: Some(Derivation {
                name: whole.name.clone(),
                manifest: hex(&Sha256::digest(&self.text)),
                selection: words.join("; "),
                copied: true,
            }),
            ..whole.clone()
        }
    }
}

/// What stands for the digest of a plan: it is over what was chosen and the shards that were joined.
fn digest_of_joined(words: &[String], targets: &[Target<'_>]) -> String {
    let parts = |target: &Target<'_>| -> Vec<(String, u64, String)> {
        let parts = target.parts.iter();
        parts
            .map(|part| (part.name.clone(), part.bytes, part.crc32.clone()))
            .collect()
    };
    let parts: Vec<_> = targets.iter().map(parts).collect();
    // Strings and numbers always serialise.
    hex(&Sha256::digest(
        serde_json::to_vec(&(words, parts)).unwrap_or_default(),
    ))
}

/// Copies a dataset, or what is wanted of it.
///
/// # Errors
///
/// Damage of the source names shard, and sample where there is one; a destination that holds anything else is a conflict, and nothing
/// was written.
pub(crate) fn copy(run: &Copy<'_>) -> Result<Copied> {
    let original = run.original;
    let selected = run.selection.of(run.from, &original.manifest)?;
    let targets = match run.shard_bytes {
        None => as_they_are(&selected.shards),
        Some(bytes) => joined(run.from, &original.manifest, &selected.shards, bytes)?,
    };
    let wanted = original.wanted(run, &targets);
    let found = destination::look(run.from, run.to, &wanted)?;
    let there = look(run, &targets, &wanted.plan)?;
    let lacking = targets
        .iter()
        .zip(&there)
        .filter(|(_, there)| there.is_none());
    let lacking: Vec<&Target<'_>> = lacking.map(|(target, _)| target).collect();
    run.refuse_missing(&lacking)?;
    let bytes = lacking.iter().map(|target| target.entry.bytes).sum();
    refuse_without_room(run.to, bytes)?;
    if run.dry_run {
        let moved = Moved {
            there: targets.len() - lacking.len(),
            passed: lacking.len(),
            ..Moved::default()
        };
        return Ok(Copied {
            manifest: wanted,
            moved,
            bytes,
            removed: 0,
            changed: false,
            of_classes: selected.of_classes,
            later: None,
        });
    }
    run.to.sweep()?;
    destination::claim(run.to, &found, &wanted)?;
    let has_plans = run.is_whole() && copy_plans(run.from, run.to, &wanted)?;
    let moved = bring(run, &targets, there, &wanted.plan, &wanted.names.classes)?;
    run.counters.begin("publish", 0, 0, 0);
    let manifest = publish(run, wanted, &moved)?;
    let removed = match has_plans {
        true => 0,
        false => remove_earlier(run.to, &manifest)?,
    };
    // Where nothing may be removed it stays, and means nothing beside a manifest.
    if let Err(error) = run.to.remove(COPY) {
        tracing::debug!("{error}");
    }
    let was = match &found {
        Found::Published(before) => Some(before.snapshot),
        Found::Nothing | Found::Begun => None,
    };
    Ok(Copied {
        changed: moved.assembled + moved.passed > 0 || was != Some(manifest.snapshot),
        manifest,
        moved,
        bytes,
        removed,
        of_classes: selected.of_classes,
        later: run.later(original.manifest.snapshot),
    })
}

/// Puts the manifest, when all shards are there, and what lies beside it.
fn publish(run: &Copy<'_>, mut wanted: Manifest, moved: &Moved) -> Result<Manifest> {
    let (original, to, memory) = (run.original, run.to, run.memory);
    if run.is_whole() {
        let made = copy_files(run.from, to, &wanted)?;
        return commit_copy(to, wanted, &original.text, made, memory);
    }
    complete(run, &mut wanted, &original.manifest, moved)?;
    let made = export_copy(to, &mut wanted, &original.manifest.readers(), memory)?;
    let text = wanted.encode()?;
    commit_copy(to, wanted, &text, made, memory)
}

/// Adds to the manifest of a part what is known of it once its indexes are there.
fn complete(run: &Copy<'_>, wanted: &mut Manifest, whole: &Manifest, moved: &Moved) -> Result<()> {
    let shards = wanted.splits.iter_mut().flat_map(|split| &mut split.shards);
    for (shard, (bytes, crc32)) in shards.zip(&moved.indexes) {
        (shard.index_bytes, shard.index_crc32) = (*bytes, crc32.clone());
    }
    // Then no record says anything either.
    if whole.skipped.is_empty() && whole.odd.is_empty() {
        return Ok(());
    }
    let shards: Vec<&ShardEntry> = wanted.shards().map(|(_, shard)| shard).collect();
    let footers = at_once(run.to.requests(), &shards, |shard| {
        footer(run.to, &shard.index, shard.index_bytes)
    })?;
    for footer in footers {
        wanted.skipped.extend(footer.skipped);
        wanted.odd.extend(footer.odd);
    }
    Ok(())
}

/// Removes earlier snapshots of a copy that has no plans, with what only they name: nobody else would know whose it is. Gives the number of
/// shards.
fn remove_earlier(to: &dyn Sink, now: &Manifest) -> Result<usize> {
    let named: HashSet<&str> = names_of(now).collect();
    let mut removed = 0;
    for (name, _) in to.list(SNAPSHOT_DIR)? {
        if snapshot_number(&name).is_none_or(|number| number >= now.snapshot) {
            continue;
        }
        let text = to.get(&name)?.unwrap_or_default();
        if let Some(before) = unless_damaged(Manifest::decode(&name, &text))? {
            let unnamed: Vec<&str> = names_of(&before)
                .filter(|name| !named.contains(name))
                .collect();
            at_once(to.requests(), &unnamed, |name| to.remove(name))?;
            let shards = before.shards().map(|(_, shard)| shard.name.as_str());
            removed += shards.filter(|name| !named.contains(name)).count();
        }
        // The last of them: a run that ends before finds it again.
        to.remove(&name)?;
    }
    Ok(removed)
}

/// Everything that a manifest names: indexes first, without which no shard is taken for one.
fn names_of(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let shards = || manifest.shards().map(|(_, shard)| shard);
    let files = manifest.indexes.iter().map(|file| file.name.as_str());
    files
        .chain(shards().map(|shard| shard.index.as_str()))
        .chain(shards().map(|shard| shard.name.as_str()))
}

impl Copy<'_> {
    /// Whether the copy is to be the same dataset.
    fn is_whole(&self) -> bool {
        self.selection.is_all() && self.shard_bytes.is_none()
    }

    /// Begins a stage about these of the targets; whether their bytes pass through here.
    fn begin(&self, stage: &'static str, targets: &[Target<'_>], todo: &[usize], passes: bool) {
        let sum = |of: fn(&ShardEntry) -> u64| todo.iter().map(|&at| of(&targets[at].entry)).sum();
        let samples = sum(|entry| entry.samples);
        let bytes = if passes { sum(|entry| entry.bytes) } else { 0 };
        self.counters
            .begin(stage, samples, bytes, todo.len() as u64);
    }

    /// Refuses to begin where shards of the source are not there, or of another length.
    fn refuse_missing(&self, lacking: &[&Target<'_>]) -> Result<()> {
        if lacking.is_empty() {
            return Ok(());
        }
        let parts = || lacking.iter().flat_map(|target| &target.parts);
        let sizes = sizes_beside_shards(self.from, parts().map(|part| part.name.as_str()))?;
        let wrong: Vec<String> = parts()
            .filter(|part| sizes.get(&part.name) != Some(&part.bytes))
            .map(|part| match sizes.get(&part.name) {
                Some(bytes) => format!("{}: {bytes} bytes instead of {}", part.name, part.bytes),
                None => format!("{}: missing", part.name),
            })
            .collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(self.explained(Error::new(
                Kind::Damage,
                format!(
                    "{}: {} not as the manifest says: {}{}: `shardpack repair {}` makes them again",
                    self.from,
                    counted(wrong.len() as u64, "shard"),
                    wrong[..wrong.len().min(NAMED)].join(", "),
                    if wrong.len() > NAMED { ", …" } else { "" },
                    self.from.word()
                ),
            ))),
        }
    }

    /// The snapshot that the source has by now, where that is a later one than this.
    fn later(&self, snapshot: u64) -> Option<u64> {
        let now = load(self.from).ok().flatten()?.snapshot;
        (now > snapshot).then_some(now)
    }

    /// An error over the source, which may have been published anew and tidied up while it was read: then it is none that stays.
    fn explained(&self, error: Error) -> Error {
        let kinds = [Kind::Failed, Kind::Damage];
        let now = match kinds.contains(&error.kind()) {
            true => load(self.from).ok().flatten(),
            false => None,
        };
        let Some(now) = now else {
            return error;
        };
        let is_named = |name: &str| error.to_string().contains(name);
        match now
            .shards()
            .any(|(_, shard)| is_named(&shard.name) || is_named(&shard.index))
        {
            true => error,
            false => Error::new(
                Kind::Transient,
                format!(
                    "{error}: {} is at snapshot {} by now, and what was copied was removed there: run again to copy that",
                    self.from, now.snapshot
                ),
            ),
        }
    }

    /// The error over shards of the source that are not what its manifest says, each with what it is: they are read once more to say where.
    fn damage(&self, mut damaged: Vec<(ShardEntry, String)>) -> Error {
        damaged.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        damaged.dedup_by(|a, b| a.0.name == b.0.name);
        let names: HashSet<&str> = damaged
            .iter()
            .map(|(shard, _)| shard.name.as_str())
            .collect();
        let mut findings = self.findings(&names).unwrap_or_default();
        findings.retain(|finding| names.contains(finding.object.as_str()));
        for (shard, found) in &damaged {
            if !findings.iter().any(|finding| finding.object == shard.name) {
                findings.push(Finding::new(&shard.name, found));
            }
        }
        let lines: Vec<String> = findings
            .iter()
            .map(|finding| format!("\n  {finding}"))
            .collect();
        Error::new(
            Kind::Damage,
            format!(
                "{}: {} damaged, nothing was published at {}: `shardpack repair {}` makes them again, and then the same command goes on{}",
                self.from,
                counted(damaged.len() as u64, "shard"),
                self.to,
                self.from.word(),
                lines.concat()
            ),
        )
    }

    /// What verification finds in these shards of the source.
    fn findings(&self, names: &HashSet<&str>) -> Result<Vec<Finding>> {
        let mut manifest = self.original.manifest.clone();
        for split in &mut manifest.splits {
            split
                .shards
                .retain(|shard| names.contains(shard.name.as_str()));
        }
        let verifier = Verifier::of_data(self.from, self.jobs, self.counters, self.stop);
        Ok(verifier.run(&manifest)?.findings)
    }
}
