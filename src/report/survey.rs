//! Everything a report tells of a dataset: its manifest, the rows of all indexes added up while they are read, and some of its pictures.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::base::text::hex;
use crate::format::RecipeLayout as _;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::publish::reading::reading;
use crate::report::dataset::{Dataset, Split};
use crate::report::figures::{Extreme, Figures};
use crate::report::page::LISTED;
use crate::report::pictures::{Candidates, Picture, Pictures, skipped};
use crate::state::published::read_record;
use crate::store::{Sink, Source, at_once};
use crate::upkeep::duplicates::{Duplicates, Prints};
use crate::upkeep::places::{Place, Shelf};

/// What one row takes while its index is read: the file, its columns, and the row itself.
const ROW_BYTES: u64 = 1000;

/// What is gathered while indexes are read; in whatever order, the result is the same.
#[derive(Default)]
struct Gathered {
    figures: Figures,
    prints: Prints,
    candidates: Candidates,
    /// Where the odd samples are that are listed.
    odd: Vec<Place>,
}

impl Gathered {
    fn merge(&mut self, other: Self) {
        self.figures.merge(&other.figures);
        self.prints.merge(other.prints);
        self.candidates.merge(other.candidates);
        self.odd.extend(other.odd);
    }
}

/// Reads all indexes of a dataset, as many at once as `memory` bytes allow. One that is missing or damaged is told, not an error. `source`
/// has what was skipped.
pub(crate) fn survey(
    sink: &dyn Sink,
    manifest: &Manifest,
    source: Option<&dyn Source>,
    cores: usize,
    memory: u64,
    stop: &Stop,
) -> Result<Dataset> {
    let largest = manifest.shards().map(|(_, shard)| shard.samples).max();
    let room = memory / (largest.unwrap_or(0) * ROW_BYTES).max(1);
    let depth = cores.max(sink.requests()).min(room as usize).max(1);
    let shelf = Shelf {
        sink,
        manifest,
        depth,
        stop,
    };
    let compares = Prints::memory_bytes(manifest.samples) <= memory / 4;
    let mut whole = Gathered::default();
    let mut splits = Vec::new();
    let mut unread = Vec::new();
    let mut before = 0;
    for split in &manifest.splits {
        let (gathered, problems) = gather(&shelf, &split.shards, before, compares)?;
        before += split.shards.len();
        unread.extend(problems);
        splits.push(Split {
            name: split.name.clone(),
            samples: split.samples,
            bytes: split.bytes,
            shards: split.shards.iter().map(|shard| shard.bytes).collect(),
            labels: gathered.figures.labels.clone(),
        });
        whole.merge(gathered);
    }
    let prints = std::mem::take(&mut whole.prints);
    let duplicates = match compares {
        true => or_reason(prints.judge(&shelf, LISTED))?,
        false => Err("--memory is too little to compare that many".to_owned()),
    };
    let skipped = match source {
        Some(source) => skipped(source, &manifest.skipped, stop)?,
        None => Vec::new(),
    };
    let pictures = pictures(&shelf, skipped, &whole, &duplicates, memory)?;
    Ok(Dataset {
        destination: sink.to_string(),
        name: manifest.name.clone(),
        plan: manifest.plan.clone(),
        digest: hex(&Sha256::digest(manifest.encode()?)),
        snapshot: manifest.snapshot,
        format: manifest.recipe.describe(),
        reading: reading(manifest, &sink.to_string())
            .map(|reading| format!("{}\n\nsamples = {}", reading.imports, reading.line)),
        samples: manifest.samples,
        bytes: manifest.bytes,
        classes: manifest.names.classes.clone(),
        texts: manifest.names.texts.clone(),
        splits,
        figures: whole.figures,
        skipped: manifest.skipped.clone(),
        odd: manifest.odd.clone(),
        unread,
        uncompared: duplicates.as_ref().err().cloned(),
        duplicates: duplicates.unwrap_or_default(),
        pictures,
    })
}

/// Reads the indexes of these shards, the first of which has the number `before`; names those that cannot be read.
fn gather(
    shelf: &Shelf<'_>,
    shards: &[ShardEntry],
    before: usize,
    compares: bool,
) -> Result<(Gathered, Vec<String>)> {
    let manifest = shelf.manifest;
    let classes = manifest.names.classes.len();
    let odd = manifest.odd.iter().take(LISTED);
    let odd: BTreeSet<&str> = odd.map(|remark| remark.key.as_str()).collect();
    let nothing = || Gathered {
        figures: Figures::new(classes),
        ..Gathered::default()
    };
    let all = Mutex::new(nothing());
    let shards: Vec<(u32, &ShardEntry)> = (before as u32..).zip(shards).collect();
    let problems = at_once(shelf.depth, &shards, |&(shard, entry)| {
        shelf.stop.check()?;
        let record = match read_record(entry, shelf.sink) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(Some(format!("{}: missing", entry.index))),
            Err(error) if error.kind() == Kind::Damage => return Ok(Some(error.to_string())),
            Err(error) => return Err(error),
        };
        let mut own = nothing();
        for (ordinal, sample) in (0..).zip(&record.samples) {
            let place = Place { shard, ordinal };
            own.figures.add(sample, place);
            own.candidates.add(sample, place);
            if compares {
                own.prints.add(&sample.fields, place);
            }
            if odd.contains(sample.key.as_str()) {
                own.odd.push(place);
            }
        }
        all.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .merge(own);
        Ok(None)
    })?;
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((all, problems.into_iter().flatten().collect()))
}

/// Those of the samples that a page is to show, what deserves it most first.
fn pictures(
    shelf: &Shelf<'_>,
    skipped: Vec<Picture>,
    gathered: &Gathered,
    duplicates: &Result<Duplicates, String>,
    memory: u64,
) -> Result<Pictures> {
    let of_groups = duplicates.iter().flat_map(|found| &found.groups);
    let of_groups = of_groups.filter_map(|group| group.named.first());
    let mut first: Vec<Place> = of_groups.map(|(_, place, _)| *place).collect();
    let mut odd = gathered.odd.clone();
    odd.sort_unstable();
    first.extend(odd);
    for extremes in [&gathered.figures.by_pixels, &gathered.figures.by_bytes] {
        let both = extremes.largest.iter().chain(&extremes.smallest);
        first.extend(both.map(|extreme: &Extreme| extreme.place));
    }
    let made = Pictures::make(shelf, skipped, &first, &gathered.candidates, memory);
    Ok(or_reason(made)?.unwrap_or_else(Pictures::none))
}

/// What a page can do without, or why it must; a run that is told to stop stops.
fn or_reason<T>(result: Result<T>) -> Result<Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if matches!(error.kind(), Kind::Interrupted(_)) => Err(error),
        Err(error) => Ok(Err(Error::to_string(&error))),
    }
}
