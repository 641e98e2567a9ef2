//! What lies where a copy is to be, and whether that is the same dataset.
//!
//! A copy that is not finished says what it is to be, in an object of its own that goes when the manifest is there. So two different copies
//! never get into each other's way, and nothing of anybody else is written over.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Kind, Result};
use crate::base::text::show;
use crate::base::units::counted;
use crate::model::manifest::{Manifest, STATE, snapshot_name};
use crate::state::published::load;
use crate::state::refusals::{COPY, check_ours, refuse_later};
use crate::store::Sink;

/// Value of a note's `kind`.
const NOTE_KIND: &str = "shardpack-copy";

/// What an unfinished copy is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    kind: String,
    /// Name of the dataset.
    name: String,
    /// Digest of the plan of the source's manifest.
    plan: String,
    /// What of it, in words; empty for all of it.
    selection: String,
}

/// What lies where the copy is to be.
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// A copy of this that was not finished.
    Begun,
    /// An earlier copy of this, or this one.
    Published(Box<Manifest>),
}

/// What of a dataset a manifest describes, in words; all of it in none.
fn selection_of(manifest: &Manifest) -> &str {
    let derived = manifest.derived_from.as_ref();
    let derived = derived.filter(|derived| derived.copied);
    derived.map_or("", |derived| derived.selection.as_str())
}

impl Note {
    pub(super) fn new(wanted: &Manifest) -> Self {
        Self {
            kind: NOTE_KIND.to_owned(),
            name: wanted.name.clone(),
            plan: wanted.plan.clone(),
            selection: selection_of(wanted).to_owned(),
        }
    }

    fn text(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|error| Error::failed(error.to_string()))
    }

    /// What it says, for people.
    fn describe(&self) -> String {
        let selection = match self.selection.as_str() {
            "" => "all of it".to_owned(),
            selection => show(selection.as_bytes()),
        };
        let plan: String = self.plan.chars().take(12).collect();
        format!(
            "of `{}`, plan {}, {selection}",
            show(self.name.as_bytes()),
            show(plan.as_bytes())
        )
    }
}

/// Looks at what lies where the copy is to be. What is not an earlier state of it is refused, and nothing was changed.
pub(super) fn look(from: &dyn Sink, to: &dyn Sink, wanted: &Manifest) -> Result<Found> {
    refuse_later(to)?;
    let conflict = |what: String| Err(Error::new(Kind::Conflict, what));
    if let Some(published) = load(to)? {
        return match relation(&published, wanted) {
            Relation::Earlier => Ok(Found::Published(Box::new(published))),
            Relation::Later => conflict(format!(
                "{to} is at snapshot {} and {from} at snapshot {}: the copy is newer than what it is to be a copy of; the other way round it \
                 would be `shardpack copy {} {}`",
                published.snapshot,
                wanted.snapshot,
                to.word(),
                from.word()
            )),
            Relation::OtherPart => conflict(format!(
                "{to} holds {} of this dataset, not {}: give the flags that it was made with, or another destination",
                words(&published),
                words(wanted)
            )),
            Relation::None => conflict(format!(
                "{to} holds another dataset, `{}` with {} in {}, and nothing of it is written over: choose another destination",
                show(published.name.as_bytes()),
                counted(published.samples, "sample"),
                counted(published.shards().count() as u64, "shard"),
            )),
        };
    }
    let Some(text) = to.get(COPY)? else {
        return match to.list(STATE)?.is_empty() {
            true => check_ours(to).map(|()| Found::Nothing),
            false => conflict(format!(
                "{to} holds a conversion that is not finished: finish it, or choose another destination"
            )),
        };
    };
    let ours = Note::new(wanted);
    match serde_json::from_slice::<Note>(&text).ok() {
        Some(note) if note == ours => Ok(Found::Begun),
        // A later snapshot of the same: what is there already is compared shard by shard.
        Some(note)
            if note.name == ours.name
                && note.selection == ours.selection
                && note.kind == ours.kind =>
        {
            to.put(COPY, &ours.text()?)?;
            Ok(Found::Begun)
        }
        Some(note) if note.kind == ours.kind => conflict(format!(
            "{to} holds a copy that is not finished, {}, and this is one {}: finish that, or choose another destination",
            note.describe(),
            ours.describe()
        )),
        _ => Err(Error::new(
            Kind::Damage,
            format!("{to}/{COPY}: not what a copy writes: choose another destination"),
        )),
    }
}

fn words(manifest: &Manifest) -> String {
    match selection_of(manifest) {
        "" => "all".to_owned(),
        selection => format!("`{}`", show(selection.as_bytes())),
    }
}

/// What a published dataset is to one that is to be copied over it.
#[derive(Debug, PartialEq, Eq)]
enum Relation {
    /// The same, or an earlier snapshot.
    Earlier,
    Later,
    /// The same dataset, and another part of it.
    OtherPart,
    /// Another one.
    None,
}

fn relation(published: &Manifest, wanted: &Manifest) -> Relation {
    let shards = |manifest: &Manifest| -> HashMap<String, (u64, String)> {
        let shards = manifest.shards().map(|(_, shard)| shard);
        shards
            .map(|shard| (shard.name.clone(), (shard.bytes, shard.crc32.clone())))
            .collect()
    };
    let is_same_part = selection_of(published) == selection_of(wanted);
    let (theirs, ours) = (shards(published), shards(wanted));
    let common = || {
        theirs
            .iter()
            .filter_map(|(name, it)| Some((it, ours.get(name)?)))
    };
    // A name of a dataset is never used a second time: what has it is the same.
    let is_one = published.name == wanted.name
        && common().all(|(a, b)| a == b)
        && (common().next().is_some() || !is_same_part && published.plan == wanted.plan);
    let is_derived =
        |manifest: &Manifest| manifest.derived_from.as_ref().map(|d| d.manifest.clone());
    match (
        is_one,
        is_same_part,
        published.snapshot.cmp(&wanted.snapshot),
    ) {
        (false, ..) => Relation::None,
        (true, false, _) => Relation::OtherPart,
        (true, true, std::cmp::Ordering::Greater) => Relation::Later,
        (true, true, std::cmp::Ordering::Less) => Relation::Earlier,
        (true, true, std::cmp::Ordering::Equal) => {
            match is_derived(published) == is_derived(wanted) && theirs == ours {
                true => Relation::Earlier,
                false => Relation::None,
            }
        }
    }
}

/// Says in the destination what is to come there, unless it does so already; of two different copies one gets it.
pub(super) fn claim(to: &dyn Sink, found: &Found, wanted: &Manifest) -> Result<()> {
    if let Found::Published(published) = found {
        let name = snapshot_name(published.snapshot);
        return match to.get(&name)? {
            Some(text) => to.check_exclusive(&name, &text),
            None => Ok(()),
        };
    }
    let text = Note::new(wanted).text()?;
    match to.put_if_absent(COPY, &text)? {
        true => to.check_exclusive(COPY, &text),
        false => Err(Error::new(
            Kind::Conflict,
            format!("{to}: another copy began there a moment ago: choose another destination"),
        )),
    }
}
