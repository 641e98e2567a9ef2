//! The manifest put back in place: from its snapshot, to its snapshot, or from records.
//!
//! Of copies that differ the one is taken that nothing contradicts; where nothing tells, nothing is written.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::base::error::{Error, Kind, Result};
use crate::model::manifest::{MANIFEST, Manifest, SNAPSHOT_DIR, snapshot_name, snapshot_number};
use crate::publish::companions::put_companions;
use crate::publish::readers::NamedFile;
use crate::publish::records::manifest_from_records;
use crate::state::claims::load;
use crate::state::claims::plans;
use crate::state::done::unpacked;
use crate::state::plans::Stored;
use crate::upkeep::repair::truth::{ManifestCopy, judge, undecided};
use crate::upkeep::repair::{RepairOutcome, Repairer};

/// The snapshots that are there.
struct Snapshots {
    /// The newest that can be read.
    newest: Option<ManifestCopy>,
    /// Number of the last that cannot be read, of those above it; 0 where there is none.
    unreadable: u64,
}

impl Repairer<'_> {
    /// The manifest, put back in place where it or its snapshot is lost. Of copies that differ the one is taken that nothing contradicts.
    pub(crate) fn manifest(&self, outcome: &mut RepairOutcome) -> Result<Manifest> {
        let text = self.sink.get(MANIFEST)?;
        let is_there = text.is_some();
        let current = match text {
            Some(text) => ManifestCopy::decode(self.sink, MANIFEST, text)?,
            None => None,
        };
        let Snapshots { newest, unreadable } = self.snapshots(outcome)?;
        match (current, newest) {
            (Some(current), Some(newest)) => self.choose(current, newest, outcome),
            (Some(current), None) => {
                let name = snapshot_name(current.manifest.snapshot);
                self.put_back(&name, current, outcome)
            }
            (None, Some(newest)) if unreadable <= newest.manifest.snapshot => {
                self.put_back(MANIFEST, newest, outcome)
            }
            // What was published last is one that cannot be read.
            (None, Some(newest)) => match self.manifest_from_records(unreadable, outcome) {
                // An older dataset is better than none, and no better than what may still be read by hand.
                Err(error) if error.kind() == Kind::Damage && !is_there => {
                    tracing::warn!("{error}");
                    self.put_back(MANIFEST, newest, outcome)
                }
                made => made,
            },
            (None, None) => self.manifest_from_records(unreadable, outcome),
        }
    }

    /// Looks for the newest snapshot that can be read; those above it are lost.
    fn snapshots(&self, outcome: &mut RepairOutcome) -> Result<Snapshots> {
        let mut unreadable = 0;
        for (name, _) in self.sink.list(SNAPSHOT_DIR)?.into_iter().rev() {
            let Some(text) = self.sink.get(&name)? else {
                continue;
            };
            match ManifestCopy::decode(self.sink, &name, text)? {
                Some(copy) if snapshot_name(copy.manifest.snapshot) == name => {
                    return Ok(Snapshots {
                        newest: Some(copy),
                        unreadable,
                    });
                }
                _ => {
                    unreadable = unreadable.max(snapshot_number(&name).unwrap_or(0));
                    outcome.lost.insert(name, "not a manifest".to_owned());
                }
            }
        }
        Ok(Snapshots {
            newest: None,
            unreadable,
        })
    }

    /// Of the manifest and the newest snapshot, the one that was published last, put where the other should be the same.
    fn choose(
        &self,
        current: ManifestCopy,
        newest: ManifestCopy,
        outcome: &mut RepairOutcome,
    ) -> Result<Manifest> {
        let number = current.manifest.snapshot;
        match number.cmp(&newest.manifest.snapshot) {
            Ordering::Equal if current.text == newest.text => Ok(current.manifest),
            Ordering::Equal => self.of_two(current, newest, outcome),
            // A run ended between the two, or the manifest is an older one.
            Ordering::Less => self.put_back(MANIFEST, newest, outcome),
            // Each snapshot has something that the one before has not: the number alone is wrong.
            Ordering::Greater if is_but_renumbered(&current.manifest, &newest.manifest) => {
                self.put(MANIFEST, &newest.text, outcome)?;
                Ok(newest.manifest)
            }
            Ordering::Greater => self.put_back(&snapshot_name(number), current, outcome),
        }
    }

    /// Writes a manifest under this name, once nothing that is there contradicts it; over something else only when all of it is known to
    /// be what was published.
    fn put_back(
        &self,
        name: &str,
        copy: ManifestCopy,
        outcome: &mut RepairOutcome,
    ) -> Result<Manifest> {
        let absent = self.sink.get(name)?.is_none();
        let verdict = judge(self.sink, &copy, self.memory)?;
        // What lies there may still have what this copy has lost.
        let unsure = !absent && !verdict.is_certain();
        match verdict.against {
            None if unsure => {
                let what = "what lies there is not it, and nothing tells whether the only other copy is what was published";
                outcome.lost.insert(name.to_owned(), what.to_owned());
            }
            None if name == MANIFEST => {
                return self.put_manifest(copy.manifest, Vec::new(), outcome);
            }
            None => self.put(name, &copy.text, outcome)?,
            Some(what) => {
                let what = format!("the only copy of it is not what was published: {what}");
                outcome.lost.insert(name.to_owned(), what);
            }
        }
        Ok(copy.manifest)
    }

    /// Of manifest and snapshot, which differ, the one that was published, written over the other.
    fn of_two(
        &self,
        current: ManifestCopy,
        newest: ManifestCopy,
        outcome: &mut RepairOutcome,
    ) -> Result<Manifest> {
        let snapshot = snapshot_name(newest.manifest.snapshot);
        let of_current = judge(self.sink, &current, self.memory)?;
        let of_newest = judge(self.sink, &newest, self.memory)?;
        match (
            of_current.is_certain_beside(&current.manifest, &newest.manifest),
            of_newest.is_certain_beside(&newest.manifest, &current.manifest),
        ) {
            (false, true) => self.put_manifest(newest.manifest, Vec::new(), outcome),
            (true, false) => {
                self.put(&snapshot, &current.text, outcome)?;
                Ok(current.manifest)
            }
            _ => Err(undecided(
                self.sink,
                &format!(
                    "{MANIFEST} and {snapshot} differ, and nothing tells which of them was published"
                ),
            )),
        }
    }

    fn put(&self, name: &str, text: &[u8], outcome: &mut RepairOutcome) -> Result<()> {
        if !self.dry_run {
            self.sink.put(name, text)?;
        }
        outcome.lost.remove(name);
        outcome.repaired.insert(name.to_owned());
        Ok(())
    }

    /// Publishes the stored plan again, from records alone. `unreadable` is the number of the snapshot that cannot be read, if one is
    /// there, and else 0.
    fn manifest_from_records(
        &self,
        unreadable: u64,
        outcome: &mut RepairOutcome,
    ) -> Result<Manifest> {
        let mut history = self.history()?;
        // The last one may have been planned and not packed.
        if let [_, .., last] = &history[..]
            && !unpacked(self.sink, last)?.is_empty()
        {
            history.pop();
        }
        if self.dry_run {
            return Err(Error::failed(format!(
                "{}: neither {MANIFEST} nor a snapshot of it can be read: `shardpack repair` would publish the plan again",
                self.sink
            )));
        }
        let (manifest, made) = manifest_from_records(self.sink, &history, self.memory)?;
        if manifest.snapshot < unreadable {
            return Err(undecided(
                self.sink,
                &format!(
                    "{} cannot be read, and records make snapshot {} of it",
                    snapshot_name(unreadable),
                    manifest.snapshot
                ),
            ));
        }
        let text = manifest.encode()?;
        // Over what lies there, which is no manifest.
        self.put(&snapshot_name(manifest.snapshot), &text, outcome)?;
        self.put_manifest(manifest, made, outcome)
    }

    /// Puts a snapshot's manifest and what lies beside it, or those of a later one that was published meanwhile.
    fn put_manifest(
        &self,
        manifest: Manifest,
        made: Vec<NamedFile>,
        outcome: &mut RepairOutcome,
    ) -> Result<Manifest> {
        outcome.lost.remove(MANIFEST);
        outcome.repaired.insert(MANIFEST.to_owned());
        if self.dry_run {
            return Ok(manifest);
        }
        match put_companions(self.sink, manifest.clone(), made, self.memory) {
            // What else lies beside it waits for indexes that are made again later.
            Err(error) if error.kind() == Kind::Damage => {
                self.sink.put(MANIFEST, &manifest.encode()?)?;
                Ok(manifest)
            }
            put => put,
        }
    }

    /// The plan that was claimed last behind those that it goes on from, the first of them first.
    fn history(&self) -> Result<Vec<Stored>> {
        let mut history = vec![load(self.sink)?];
        while let Some(base) = history.last().and_then(|stored| stored.plan.base.clone()) {
            let mut found = plans(self.sink, &HashSet::from([base.plan.as_str()]))?;
            history.push(found.remove(&base.plan).ok_or_else(|| {
                Error::new(
                    Kind::Damage,
                    format!(
                        "{}: the plan {} that a later one goes on from is lost",
                        self.sink, base.plan
                    ),
                )
            })?);
        }
        history.reverse();
        Ok(history)
    }
}

/// Whether two manifests are the same but for their numbers.
fn is_but_renumbered(one: &Manifest, other: &Manifest) -> bool {
    let renumbered = Manifest {
        snapshot: other.snapshot,
        ..one.clone()
    };
    renumbered == *other
}
