//! What is damaged or missing is made again, byte for byte as it was published, and nothing else is touched.
//!
//! The nearest is tried first: the manifest from its snapshot or from records, an index from its shard and the plan, a shard from itself,
//! and from the source only what it has lost. What comes out is compared with what was published before it replaces anything, see
//! [`guard`]; what does not agree is told. So a repair that cannot help leaves all as it was, and one that is interrupted too.

mod guard;
mod rebuild;
mod salvage;
mod truth;

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use guard::Guard;
use rebuild::{Damaged, Rebuild, Supply, Wanted};
use truth::Copy;

use crate::base::checksum::{SCAN_BYTES, Scanner, crc_text};
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::signal::Stop;
use crate::format::compress::Frames;
use crate::format::tfrecord::is_image;
use crate::model::counters::Counters;
use crate::model::listing::Listing;
use crate::model::manifest::{
    IndexFile, MANIFEST, Manifest, SNAPSHOT_DIR, ShardEntry, snapshot_name, snapshot_number,
};
use crate::model::policy::Policy;
use crate::model::problems::Problems;
use crate::model::recipe::{Compression, Format, Recipe};
use crate::model::record::{FieldRecord, SampleRecord, ShardRecord};
use crate::model::sample::Sample;
use crate::pack::pipeline::{self, Run, odd};
use crate::plan::budget::{Budget, Overhead, divide_repair};
use crate::publish::commit::manifest_from_records;
use crate::publish::companions::{SUMS, put_companions, remake_companions};
use crate::publish::readers::NamedFile;
use crate::state::published::read_index;
use crate::state::stored::{Stored, load, plans, samples, unpacked};
use crate::store::{PIECE_BYTES, Sink, Source, at_once};
use crate::upkeep::adopt::{index_from_foreign, walk_foreign};
use crate::upkeep::verify::{Level, Portion, Report, Verification};

/// Opens the source, or says why there is none.
pub type Open<'a> = dyn Fn() -> Result<Box<dyn Source>> + 'a;

/// A source and its files.
type Opened = (Box<dyn Source>, Listing);

/// The source's files, opened and listed when the first is needed.
pub struct Images<'a> {
    open: Box<Open<'a>>,
    opened: OnceCell<Result<Opened, (Kind, String)>>,
}

impl<'a> Images<'a> {
    /// Those of the source that `open` gives.
    pub fn new(open: impl Fn() -> Result<Box<dyn Source>> + 'a) -> Self {
        Self {
            open: Box::new(open),
            opened: OnceCell::new(),
        }
    }

    /// The source and its files as they are now. What failed once is not tried again.
    pub fn get(&self) -> Result<(&dyn Source, &Listing)> {
        let open = || {
            let source = (self.open)()?;
            let listing = source.list()?;
            Ok((source, listing))
        };
        let opened = self
            .opened
            .get_or_init(|| open().map_err(|error: Error| (error.kind(), error.to_string())));
        match opened {
            Ok((source, listing)) => Ok((source.as_ref(), listing)),
            Err((kind, what)) => Err(Error::new(*kind, what.clone())),
        }
    }
}

/// Where the images are, and the plan by which they were packed.
pub struct Origin<'a> {
    /// Where samples come from.
    pub source: &'a dyn Source,
    /// The plan, with the versions that the files have now.
    pub stored: Stored,
    /// What each packer may hold.
    pub budget: Budget,
    /// Shards that cannot be packed again, each with the reason.
    pub refused: BTreeMap<String, String>,
}

/// Finds the origin of shards of the plan with this digest.
pub type Find<'f, 'o> = dyn FnMut(&str, &[&ShardEntry]) -> Result<Origin<'o>> + 'f;

/// Samples of shards that are made again in one go: what is known of them is held in memory.
const SAMPLES_AT_ONCE: u64 = 100_000;

/// Memory of one reader of a damaged shard.
const PIECES_BYTES: u64 = PIECE_BYTES + SCAN_BYTES as u64;

/// Files at fault that are named.
const NAMED: usize = 20;

/// One repair.
pub struct Repair<'a> {
    /// The dataset.
    pub sink: &'a dyn Sink,
    /// Shards at once.
    pub jobs: usize,
    /// Cores to keep busy.
    pub cores: usize,
    /// Memory that reader indexes may take.
    pub memory: u64,
    /// Nothing is written.
    pub dry_run: bool,
    /// Counts what happens.
    pub counters: &'a Counters,
    /// Says when to stop.
    pub stop: &'a Stop,
}

/// What was mended, and what could not be.
#[derive(Debug, Default)]
pub struct Mended {
    /// Objects that are again what was published, or would be.
    pub repaired: BTreeSet<String>,
    /// Objects that are not, each with the reason.
    pub lost: BTreeMap<String, String>,
}

impl Repair<'_> {
    /// The manifest, put back in place where it or its snapshot is lost. Of copies that differ the one is taken that nothing contradicts.
    pub fn manifest(&self, mended: &mut Mended) -> Result<Manifest> {
        let there = self.sink.get(MANIFEST)?;
        let sink = self.sink;
        let decode = |name: &str, text: &[u8]| {
            unless_damaged(Manifest::decode(&format!("{sink}/{name}"), text))
        };
        let current = match there.as_deref() {
            Some(text) => decode(MANIFEST, text)?,
            None => None,
        };
        let mut newest = None;
        // Of those above the newest that can be read, the number of the last.
        let mut lost = 0;
        for (name, _) in self.sink.list(SNAPSHOT_DIR)?.into_iter().rev() {
            let Some(text) = self.sink.get(&name)? else {
                continue;
            };
            match decode(&name, &text)? {
                Some(manifest) if snapshot_name(manifest.snapshot) == name => {
                    newest = Some((manifest, text));
                    break;
                }
                _ => {
                    lost = lost.max(snapshot_number(&name).unwrap_or(0));
                    mended.lost.insert(name, "not a manifest".to_owned());
                }
            }
        }
        let unreadable = there.is_some() && current.is_none();
        match (current.zip(there), newest) {
            (Some((current, text)), Some((newest, its))) => {
                match current.snapshot.cmp(&newest.snapshot) {
                    Ordering::Equal if text == its => Ok(current),
                    Ordering::Equal => self.of_two((current, &text), (newest, &its), mended),
                    // A run ended between the two, or the manifest is an older one.
                    Ordering::Less => self.put_back(MANIFEST, newest, &its, mended),
                    // Each snapshot has something that the one before has not: the number alone is wrong.
                    Ordering::Greater if is_but_renumbered(&current, &newest) => {
                        self.put(MANIFEST, &its, mended)?;
                        Ok(newest)
                    }
                    Ordering::Greater => {
                        let name = snapshot_name(current.snapshot);
                        self.put_back(&name, current, &text, mended)
                    }
                }
            }
            (Some((current, text)), None) => {
                let name = snapshot_name(current.snapshot);
                self.put_back(&name, current, &text, mended)
            }
            (None, Some((newest, text))) if lost <= newest.snapshot => {
                self.put_back(MANIFEST, newest, &text, mended)
            }
            // What was published last is one that cannot be read.
            (None, Some((newest, text))) => match self.manifest_from_records(lost, mended) {
                // An older dataset is better than none, and no better than what may still be read by hand.
                Err(error) if error.kind() == Kind::Damage && !unreadable => {
                    tracing::warn!("{error}");
                    self.put_back(MANIFEST, newest, &text, mended)
                }
                made => made,
            },
            (None, None) => self.manifest_from_records(lost, mended),
        }
    }

    /// Writes a manifest under this name, once nothing that is there contradicts it; over something else only when all of it is known to
    /// be what was published.
    fn put_back(
        &self,
        name: &str,
        manifest: Manifest,
        text: &[u8],
        mended: &mut Mended,
    ) -> Result<Manifest> {
        let absent = self.sink.get(name)?.is_none();
        let copy = Copy {
            manifest: &manifest,
            text,
        };
        let verdict = truth::judge(self.sink, &copy, self.memory)?;
        // What lies there may still have what this copy has lost.
        let unsure = !absent && !verdict.is_certain();
        match verdict.against {
            None if unsure => {
                let what = "what lies there is not it, and nothing tells whether the only other copy is what was published";
                mended.lost.insert(name.to_owned(), what.to_owned());
            }
            None if name == MANIFEST => return self.put_manifest(manifest, Vec::new(), mended),
            None => self.put(name, text, mended)?,
            Some(what) => {
                let what = format!("the only copy of it is not what was published: {what}");
                mended.lost.insert(name.to_owned(), what);
            }
        }
        Ok(manifest)
    }

    /// Of manifest and snapshot, which differ, the one that was published, written over the other.
    fn of_two(
        &self,
        (current, text): (Manifest, &[u8]),
        (newest, its): (Manifest, &[u8]),
        mended: &mut Mended,
    ) -> Result<Manifest> {
        let judge = |manifest, text| truth::judge(self.sink, &Copy { manifest, text }, self.memory);
        let snapshot = snapshot_name(newest.snapshot);
        let (ours, theirs) = (judge(&current, text)?, judge(&newest, its)?);
        match (
            ours.is_certain_beside(&current, &newest),
            theirs.is_certain_beside(&newest, &current),
        ) {
            (false, true) => self.put_manifest(newest, Vec::new(), mended),
            (true, false) => {
                self.put(&snapshot, text, mended)?;
                Ok(current)
            }
            _ => Err(truth::undecided(
                self.sink,
                &format!(
                    "{MANIFEST} and {snapshot} differ, and nothing tells which of them was published"
                ),
            )),
        }
    }

    fn put(&self, name: &str, text: &[u8], mended: &mut Mended) -> Result<()> {
        if !self.dry_run {
            self.sink.put(name, text)?;
        }
        mended.lost.remove(name);
        mended.repaired.insert(name.to_owned());
        Ok(())
    }

    /// Publishes the stored plan again, from records alone. `lost` is the number of the snapshot that cannot be read, if one is there.
    fn manifest_from_records(&self, lost: u64, mended: &mut Mended) -> Result<Manifest> {
        let mut plans = self.plans()?;
        // The last one may have been planned and not packed.
        if let [_, .., last] = &plans[..]
            && !unpacked(self.sink, last)?.is_empty()
        {
            plans.pop();
        }
        if self.dry_run {
            return Err(Error::failed(format!(
                "{}: neither {MANIFEST} nor a snapshot of it can be read: `shardpack repair` would publish the plan again",
                self.sink
            )));
        }
        let (manifest, made) = manifest_from_records(self.sink, &plans, self.memory)?;
        if manifest.snapshot < lost {
            return Err(truth::undecided(
                self.sink,
                &format!(
                    "{} cannot be read, and records make snapshot {} of it",
                    snapshot_name(lost),
                    manifest.snapshot
                ),
            ));
        }
        let text = manifest.encode()?;
        // Over what lies there, which is no manifest.
        self.put(&snapshot_name(manifest.snapshot), &text, mended)?;
        self.put_manifest(manifest, made, mended)
    }

    /// Puts a snapshot's manifest and what lies beside it, or those of a later one that was published meanwhile.
    fn put_manifest(
        &self,
        manifest: Manifest,
        made: Vec<NamedFile>,
        mended: &mut Mended,
    ) -> Result<Manifest> {
        mended.lost.remove(MANIFEST);
        mended.repaired.insert(MANIFEST.to_owned());
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

    /// The plan that was claimed last behind those that it goes on from.
    fn plans(&self) -> Result<Vec<Stored>> {
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

    /// What is damaged, by verifying all of it.
    pub fn look(&self, manifest: &Manifest) -> Result<Report> {
        Verification {
            sink: self.sink,
            level: Level::Data,
            against: None,
            portion: Portion::ALL,
            jobs: self.jobs,
            window_bytes: 0,
            counters: self.counters,
            stop: self.stop,
        }
        .run(manifest)
    }

    /// Mends what a verification found. `images` are the source's files, for what a shard has lost; `origin` gives the plan of shards
    /// whose index is lost, too.
    pub fn mend<'o>(
        &self,
        manifest: &Manifest,
        report: &Report,
        images: &Images<'_>,
        origin: &mut Find<'_, 'o>,
        mended: &mut Mended,
    ) -> Result<()> {
        let found: BTreeMap<&str, String> = report
            .findings
            .iter()
            .rev()
            .map(|finding| (finding.object.as_str(), finding.to_string()))
            .collect();
        let shards: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
        let is_found = |name: &String| found.contains_key(name.as_str());
        let mut guard = Guard::new(self.sink, manifest, self.dry_run);
        // Those whose index is as it was published, with their length now; and those that have nothing but their plan.
        let (mut damaged, mut unknown) = (Vec::new(), Vec::new());
        let touched = |shard: &&ShardEntry| is_found(&shard.name) || is_found(&shard.index);
        let there = match shards.iter().any(touched) {
            true => self.lengths(manifest)?,
            false => HashMap::new(),
        };
        for shard in shards.iter().copied().filter(|shard| touched(shard)) {
            let bytes = there.get(&shard.name).copied();
            let intact = bytes == Some(shard.bytes) && self.intact(shard)?;
            let indexed = record(self.sink, shard)?.is_some();
            if intact {
                guard.leave(&shard.name);
            }
            match (intact, indexed) {
                (true, true) => {
                    // Not of a kind that making it again could mend.
                    for name in [&shard.name, &shard.index] {
                        if let Some(what) = found.get(name.as_str()) {
                            mended.lost.insert(name.clone(), what.clone());
                        }
                    }
                }
                (true, false) if self.mend_index(manifest, shard, &guard)? => {
                    mended.repaired.insert(shard.index.clone());
                }
                (_, false) => unknown.push(shard),
                (false, true) => damaged.push((shard, bytes.unwrap_or(0))),
            }
        }
        let mut samples = 0;
        let together = |(a, _): &(&ShardEntry, u64), (b, _): &(&ShardEntry, u64)| {
            samples += a.samples;
            let fits = samples + b.samples <= SAMPLES_AT_ONCE;
            samples *= u64::from(fits);
            fits
        };
        for some in damaged.chunk_by(together) {
            self.rebuild(manifest, some, images, &guard, mended)?;
        }
        // Plan by plan, some samples at a time.
        unknown.sort_by_key(|shard| manifest.plan_of(shard));
        let mut samples = 0;
        let together = |a: &&ShardEntry, b: &&ShardEntry| {
            samples += a.samples;
            let fits = samples + b.samples <= SAMPLES_AT_ONCE;
            let same = manifest.plan_of(a) == manifest.plan_of(b);
            if !(fits && same) {
                samples = 0;
            }
            fits && same
        };
        for some in unknown.chunk_by(together) {
            match origin(manifest.plan_of(some[0]), some) {
                Ok(origin) => self.repack(manifest, some, &origin, &guard, mended)?,
                Err(error) if is_outage(error.kind()) => return Err(error),
                Err(error) => {
                    for shard in some {
                        let name = lacking(shard, &guard);
                        mended.lost.insert(name.clone(), error.to_string());
                    }
                }
            }
        }
        self.mend_beside(manifest, &found, &guard, mended)?;
        let known: HashSet<&str> = shards
            .iter()
            .flat_map(|shard| [shard.name.as_str(), shard.index.as_str()])
            .chain(manifest.indexes.iter().map(|file| file.name.as_str()))
            .chain([MANIFEST, SUMS])
            .collect();
        for (object, what) in &found {
            let told = mended.repaired.contains(*object) || mended.lost.contains_key(*object);
            if !known.contains(object) && !told {
                mended.lost.insert((*object).to_owned(), what.clone());
            }
        }
        Ok(())
    }

    /// Lengths of the shards that are there, by name.
    fn lengths(&self, manifest: &Manifest) -> Result<HashMap<String, u64>> {
        // Shards of others lie anywhere.
        let place = match manifest.recipe.foreign {
            true => "",
            false => "data",
        };
        Ok(self.sink.list(place)?.into_iter().collect())
    }

    /// Whether a shard of the right length is what the manifest says, by reading all of it.
    fn intact(&self, shard: &ShardEntry) -> Result<bool> {
        let read = Scanner::new(self.sink.open(&shard.name)?).drain();
        let (bytes, crc32) = read.map_err(|error| Error::io(&shard.name, error))?;
        Ok((bytes, crc_text(crc32)) == (shard.bytes, shard.crc32.clone()))
    }

    /// Makes shards again whose indexes are as they were published.
    fn rebuild<'s>(
        &self,
        manifest: &Manifest,
        shards: &[(&'s ShardEntry, u64)],
        images: &Images<'_>,
        guard: &Guard<'_>,
        mended: &mut Mended,
    ) -> Result<()> {
        let sum = |of: fn(&ShardEntry) -> u64| shards.iter().map(|(shard, _)| of(shard)).sum();
        let samples = sum(|shard| shard.samples);
        let bytes = sum(|shard| shard.bytes);
        self.counters
            .begin("repair", samples, bytes, shards.len() as u64);
        let largest = shards.iter().map(|(shard, _)| shard.samples).max();
        let recipe = &manifest.recipe;
        let columns = match recipe.layout().defers() {
            true => 1 + manifest.names.sidecars.len() as u64,
            false => 1,
        };
        let divide = |source: Option<&dyn Source>| {
            let overhead = Overhead {
                reads: source.map_or(0, |source| source.reads()),
                bytes: source.map_or(0, |source| source.overhead_bytes())
                    + self.sink.writing_bytes(),
                window_bytes: source.map_or(0, |source| source.window_bytes()),
                job_bytes: columns * PIECES_BYTES
                    + 2 * recipe.compress.memory_bytes()
                    + recipe.layout().memory_bytes(&manifest.names),
            };
            divide_repair(self.memory, self.jobs, overhead, largest.unwrap_or(0))
        };
        let rebuild = |window_bytes| Rebuild {
            sink: guard,
            manifest,
            window_bytes,
            counters: self.counters,
            stop: self.stop,
        };
        let survey = |(shard, bytes): &(&'s ShardEntry, u64)| {
            self.stop.check()?;
            // It was there a moment ago.
            match record(self.sink, shard)? {
                Some(record) => rebuild(0).survey(shard, record, *bytes).map(Some),
                None => Ok(None),
            }
        };
        let surveyed: Vec<Damaged<'_>> = at_once(divide(None).jobs, shards, survey)?
            .into_iter()
            .flatten()
            .collect();
        let mut wanted = Wanted::default();
        surveyed.iter().for_each(|damaged| wanted.add(damaged));
        let why;
        let (supply, budget) = match wanted.is_empty() || recipe.foreign {
            true => (Supply::Nowhere(""), divide(None)),
            false => match images.get() {
                Ok((source, listing)) => {
                    wanted.find(listing);
                    (Supply::Files(source, &wanted), divide(Some(source)))
                }
                Err(error) if is_outage(error.kind()) => return Err(error),
                Err(error) => {
                    why = error.to_string();
                    (Supply::Nowhere(&why), divide(None))
                }
            },
        };
        let rebuild = rebuild(budget.window_bytes);
        let lost = at_once(budget.jobs, &surveyed, |damaged| {
            rebuild.make(damaged, supply)
        })?;
        for (damaged, lost) in surveyed.iter().zip(lost) {
            let name = &damaged.shard.name;
            match lost.or_else(|| guard.refused(name)) {
                Some(why) => mended.lost.insert(name.clone(), why).is_none(),
                None => mended.repaired.insert(name.clone()),
            };
        }
        Ok(())
    }

    /// Makes an index from its shard; false where that does not give what was published.
    fn mend_index(
        &self,
        manifest: &Manifest,
        shard: &ShardEntry,
        guard: &Guard<'_>,
    ) -> Result<bool> {
        let file = match manifest.recipe.foreign {
            true => index_from_foreign(self.sink, manifest, shard)?,
            false => {
                let digest = manifest.plan_of(shard);
                let mut plans = plans(self.sink, &HashSet::from([digest]))?;
                let Some(stored) = plans.remove(digest) else {
                    return Ok(false);
                };
                let number = stored
                    .plan
                    .shards
                    .iter()
                    .position(|plan| plan.name == shard.name);
                match number {
                    Some(number) => self.index_from_shard(&stored, number, manifest)?,
                    None => None,
                }
            }
        };
        if let Some(file) = file {
            guard.put(&shard.index, &file)?;
        }
        Ok(guard.made(&shard.index))
    }

    /// The index file of a shard of the plan, from the shard itself; `None` where the shard does not tell enough.
    fn index_from_shard(
        &self,
        stored: &Stored,
        number: usize,
        manifest: &Manifest,
    ) -> Result<Option<Vec<u8>>> {
        let plan = &stored.plan.shards[number];
        let recipe = &stored.plan.recipe;
        if recipe.format == Format::Parquet {
            return Ok(None);
        }
        // Twice what was planned is more than any header can add.
        let most = plan.bytes * 2 + 4096;
        let reader = self.sink.open(&plan.name)?;
        // Keys are the plan's to say.
        let kind = (recipe.format, recipe.compress);
        let walked = walk_foreign(&plan.name, "", kind, reader, most)?;
        let Ok(samples) = samples(self.sink, stored, number) else {
            return Ok(None);
        };
        let skipped: Vec<_> = manifest
            .skipped
            .iter()
            .filter(|remark| samples.iter().any(|sample| sample.key == remark.key))
            .cloned()
            .collect();
        let left_out: HashSet<&str> = skipped.iter().map(|remark| remark.key.as_str()).collect();
        let samples: Vec<Sample> = samples
            .into_iter()
            .filter(|sample| !left_out.contains(sample.key.as_str()))
            .collect();
        if !walked.found.is_empty() || walked.rows.len() != samples.len() {
            return Ok(None);
        }
        let mut record = ShardRecord {
            split: plan.split.clone(),
            plan: stored.digest.clone(),
            bytes: walked.bytes.0,
            crc32: walked.bytes.1,
            unpacked_bytes: (recipe.compress != Compression::None).then_some(walked.unpacked_bytes),
            skipped,
            ..ShardRecord::empty(&plan.name)
        };
        if recipe.sha256 {
            let mut shards = manifest.shards().map(|(_, entry)| entry);
            match shards.find(|entry| entry.name == plan.name) {
                Some(entry) => record.sha256.clone_from(&entry.sha256),
                None => return Ok(None),
            }
        }
        for (walked, sample) in walked.rows.into_iter().zip(&samples) {
            let Some(row) = row_of(recipe, walked, sample) else {
                return Ok(None);
            };
            record.odd.extend(odd(sample, row.image));
            record.samples.push(row);
        }
        if matches!(recipe.compress, Compression::Zstd { seekable: true, .. }) {
            match Frames::read(self.sink, &plan.name, record.bytes, &record)? {
                Ok(frames) => frames.enter(&mut record),
                Err(_) => return Ok(None),
            }
        }
        record.encode(&stored.plan.names.classes).map(Some)
    }

    /// Packs shards again from the source and their plan alone, and their indexes with them.
    fn repack(
        &self,
        manifest: &Manifest,
        shards: &[&ShardEntry],
        origin: &Origin<'_>,
        guard: &Guard<'_>,
        mended: &mut Mended,
    ) -> Result<()> {
        let plan = &origin.stored.plan;
        let numbers: HashMap<&str, usize> = plan
            .shards
            .iter()
            .enumerate()
            .map(|(number, shard)| (shard.name.as_str(), number))
            .collect();
        let mut todo = Vec::new();
        let mut reasons = BTreeMap::new();
        for shard in shards {
            let name = shard.name.as_str();
            match (origin.refused.get(name), numbers.get(name)) {
                (None, Some(number)) => todo.push(*number),
                (Some(why), _) => _ = reasons.insert(name, why.clone()),
                (None, None) => {
                    _ = reasons.insert(name, "the plan has no such shard".to_owned());
                }
            }
        }
        let run = Run {
            source: origin.source,
            sink: guard,
            stored: &origin.stored,
            budget: origin.budget,
            cores: self.cores,
            // What was left out must be left out again, and nothing more.
            policy: match manifest.skipped.len() as u64 {
                0 => Policy::Fail,
                at_most => Policy::Skip { at_most },
            },
            skipped_before: 0,
            counters: self.counters,
            stop: self.stop,
            problems: Problems::default(),
        };
        let sum = |of: fn(&ShardEntry) -> u64| shards.iter().map(|shard| of(shard)).sum();
        let samples = sum(|shard| shard.samples);
        let bytes = sum(|shard| shard.bytes);
        self.counters
            .begin("repair", samples, bytes, todo.len() as u64);
        let offenders = match pipeline::pack(&run, &todo) {
            Ok(outcome) => {
                let refused = outcome.refused.iter().take(NAMED);
                let refused = refused.map(|remark| format!("{}: {}", remark.path, remark.reason));
                let mut offenders: Vec<String> = refused.collect();
                let more = outcome.refused.count() - offenders.len() as u64;
                if more > 0 {
                    offenders.push(format!("and {more} more"));
                }
                offenders.join("; ")
            }
            // Of the source, not of this run.
            Err(error) if matches!(error.kind(), Kind::Source | Kind::Sample) => error.to_string(),
            Err(error) => return Err(error),
        };
        for shard in shards {
            for name in [&shard.name, &shard.index] {
                if guard.made(name) && !guard.leaves(name) {
                    mended.repaired.insert(name.clone());
                }
            }
            if guard.made(&shard.name) && guard.made(&shard.index) {
                continue;
            }
            let refused = || guard.refused(&shard.name).or(guard.refused(&shard.index));
            let why = match reasons.remove(shard.name.as_str()) {
                Some(why) => why,
                None if !offenders.is_empty() => offenders.clone(),
                None => refused().unwrap_or_else(|| "it could not be packed again".to_owned()),
            };
            let lost = lacking(shard, guard).clone();
            mended.lost.insert(lost, format!("{why}: the source's files changed, and without its index nothing tells which; what is there stays as it is"));
        }
        Ok(())
    }

    /// Makes what lies beside the manifest again where that is damaged.
    fn mend_beside(
        &self,
        manifest: &Manifest,
        found: &BTreeMap<&str, String>,
        guard: &Guard<'_>,
        mended: &mut Mended,
    ) -> Result<()> {
        let indexes = manifest.indexes.iter();
        let damaged: Vec<&IndexFile> = indexes
            .filter(|file| found.contains_key(file.name.as_str()))
            .collect();
        let names = damaged.iter().map(|file| file.name.as_str());
        let names: BTreeSet<&str> = names
            .chain([SUMS].into_iter().filter(|name| found.contains_key(name)))
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let repaired =
            |mended: &mut Mended, name: &str| _ = mended.repaired.insert(name.to_owned());
        if self.dry_run {
            names.into_iter().for_each(|name| repaired(mended, name));
            return Ok(());
        }
        let unmade = match remake_companions(guard, manifest, &damaged, self.memory) {
            Ok(unmade) => unmade,
            Err(error) if error.kind() == Kind::Damage => {
                for name in names {
                    mended.lost.insert(name.to_owned(), error.to_string());
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for name in names {
            match unmade.iter().any(|file| file.name == name) {
                false => repaired(mended, name),
                true => {
                    let why = "made again it is not what was published".to_owned();
                    mended.lost.insert(name.to_owned(), why);
                }
            }
        }
        Ok(())
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

/// What of a shard and its index is not in place.
fn lacking<'s>(shard: &'s ShardEntry, guard: &Guard<'_>) -> &'s String {
    match guard.leaves(&shard.name) || guard.made(&shard.name) {
        true => &shard.index,
        false => &shard.name,
    }
}

/// Whether another run may well succeed: such an error says nothing of what is lost.
fn is_outage(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Transient | Kind::Interrupted(_) | Kind::Cancelled
    )
}

/// What a shard's index says, if that is as it was published.
fn record(sink: &dyn Sink, shard: &ShardEntry) -> Result<Option<ShardRecord>> {
    match unless_damaged(read_index(shard, sink))?.flatten() {
        Some(file) => unless_damaged(ShardRecord::decode(&shard.index, &file)),
        None => Ok(None),
    }
}

/// The row of a sample, from the plan and what the shard was seen to hold; `None` where the two do not fit.
fn row_of(recipe: &Recipe, walked: SampleRecord, sample: &Sample) -> Option<SampleRecord> {
    let tar = recipe.format == Format::WebDataset;
    if tar && walked.key != sample.key {
        return None;
    }
    let image = sample.image()?;
    let field = |field: FieldRecord| match tar {
        true => Some(field),
        // Features that are made are no fields.
        false if is_image(&field.name) => Some(FieldRecord {
            name: image.name.clone(),
            ..field
        }),
        false => {
            let read = sample.fields.iter().any(|read| read.name == field.name);
            read.then_some(field)
        }
    };
    let looked = recipe.validate != crate::base::image::Validate::None;
    Some(SampleRecord {
        key: sample.key.clone(),
        label: sample.label,
        source_path: image.path.clone().into(),
        offset: walked.offset,
        length: walked.length,
        image: walked.image.filter(|_| looked),
        fields: walked.fields.into_iter().filter_map(field).collect(),
        frame: None,
    })
}
