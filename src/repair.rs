//! What is damaged or missing is made again, byte for byte as it was published, and nothing else is touched.
//!
//! Three sources are tried, the nearest first: the manifest from its snapshot or from records, an index from its shard and the plan, a
//! shard from the images. What comes out is compared with the manifest; what does not agree is told, not published.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::beside;
use crate::budget::Budget;
use crate::checksum::{Scanner, crc_text};
use crate::compress::Frames;
use crate::error::{Error, Kind, Result, unless_damaged};
use crate::file::Problems;
use crate::foreign;
use crate::format::tfrecord::is_image;
use crate::index::File;
use crate::manifest::{IndexFile, MANIFEST, Manifest, SNAPSHOT_DIR, ShardEntry, snapshot_name};
use crate::pipeline::{self, Run, odd};
use crate::policy::Policy;
use crate::progress::Counters;
use crate::publish::from_records;
use crate::recipe::{Compression, Format, Recipe};
use crate::record::{FieldRecord, Footer, SampleRecord, ShardRecord, index_name};
use crate::resume::{self, Stored};
use crate::sample::Sample;
use crate::signal::Stop;
use crate::store::{Sink, Source};
use crate::verify::{Level, Portion, Report, Verification};

/// Where the images are, and the plan by which they were packed.
pub struct Origin<'a> {
    /// Where samples come from.
    pub source: &'a dyn Source,
    /// The plan, with the versions that the files have now.
    pub stored: Stored,
    /// What each packer may hold.
    pub budget: Budget,
}

/// Finds the origin of shards of the plan with this digest.
pub type Find<'f, 'o> = dyn FnMut(&str, &[&ShardEntry]) -> Result<Origin<'o>> + 'f;

/// Samples of shards that are made again in one go: what is known of them is held in memory.
const SAMPLES_AT_ONCE: u64 = 100_000;

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
    /// The manifest, put back in place where it or its snapshot is lost.
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
                    mended.lost.insert(name, "not a manifest".to_owned());
                }
            }
        }
        let number = |manifest: &Option<Manifest>| manifest.as_ref().map_or(0, |m| m.snapshot);
        match (current, newest, there) {
            (current, Some((manifest, text)), there) if number(&current) <= manifest.snapshot => {
                match there.as_deref() == Some(&text) {
                    true => Ok(manifest),
                    false => self.put_manifest(manifest, Vec::new(), mended),
                }
            }
            // Its own snapshot is what is lost.
            (Some(manifest), _, Some(text)) => {
                self.put(&snapshot_name(manifest.snapshot), &text, mended)?;
                Ok(manifest)
            }
            _ => self.manifest_from_records(mended),
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

    /// Publishes the stored plan again, with records made from shards where they are lost.
    fn manifest_from_records(&self, mended: &mut Mended) -> Result<Manifest> {
        let there: HashSet<String> = self
            .sink
            .list("data")?
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let mut plans = self.plans()?;
        for stored in &plans {
            let shards: Vec<usize> = (0..stored.plan.shards.len()).collect();
            let done = resume::done(self.sink, stored, &shards)?;
            for shard in shards.into_iter().filter(|&shard| done[shard].is_none()) {
                let name = &stored.plan.shards[shard].name;
                if there.contains(name.as_str())
                    && let Some(file) = self.index_from_shard(stored, shard, None)?
                {
                    self.put(&index_name(name), &file, mended)?;
                }
            }
        }
        // The last one may have been planned and not packed.
        if let [_, .., last] = &plans[..]
            && !resume::unpacked(self.sink, last)?.is_empty()
        {
            plans.pop();
        }
        if self.dry_run {
            return Err(Error::failed(format!(
                "{}: neither {MANIFEST} nor a snapshot of it can be read: `shardpack repair` would publish the plan again",
                self.sink
            )));
        }
        let (manifest, made) = from_records(self.sink, &plans, self.memory)?;
        let text = manifest.encode()?;
        // Over what lies there, which is no manifest.
        self.put(&snapshot_name(manifest.snapshot), &text, mended)?;
        self.put_manifest(manifest, made, mended)
    }

    /// Puts a snapshot's manifest and what lies beside it, or those of a later one that was published meanwhile.
    fn put_manifest(
        &self,
        manifest: Manifest,
        made: Vec<File>,
        mended: &mut Mended,
    ) -> Result<Manifest> {
        mended.lost.remove(MANIFEST);
        mended.repaired.insert(MANIFEST.to_owned());
        match self.dry_run {
            true => Ok(manifest),
            false => beside::put(self.sink, manifest, made, self.memory),
        }
    }

    /// The plan that was claimed last behind those that it goes on from.
    fn plans(&self) -> Result<Vec<Stored>> {
        let mut plans = vec![resume::load(self.sink)?];
        while let Some(base) = plans.last().and_then(|stored| stored.plan.base.clone()) {
            let mut found = resume::plans(self.sink, &HashSet::from([base.plan.as_str()]))?;
            plans.push(found.remove(&base.plan).ok_or_else(|| {
                Error::new(
                    Kind::Damage,
                    format!(
                        "{}: the plan {} that a later one goes on from is lost",
                        self.sink, base.plan
                    ),
                )
            })?);
        }
        plans.reverse();
        Ok(plans)
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

    /// Mends what a verification found. `origin` gives the images, when a shard needs them.
    pub fn mend<'o>(
        &self,
        manifest: &Manifest,
        report: &Report,
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
        let mut repack = Vec::new();
        for shard in &shards {
            let (data, index) = (
                found.contains_key(shard.name.as_str()),
                found.contains_key(shard.index.as_str()),
            );
            let mended = match (data, index) {
                (false, false) => true,
                (false, true) => self.intact(shard)? && self.mend_index(manifest, shard, mended)?,
                (true, _) => false,
            };
            if !mended {
                repack.push(*shard);
            }
        }
        // Plan by plan, some samples at a time.
        repack.sort_by_key(|shard| manifest.plan_of(shard));
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
        for some in repack.chunk_by(together) {
            match origin(manifest.plan_of(some[0]), some) {
                Ok(origin) => self.repack(manifest, some, &origin, mended)?,
                Err(error) => {
                    for shard in some {
                        mended.lost.insert(shard.name.clone(), error.to_string());
                    }
                }
            }
        }
        self.mend_beside(manifest, &found, mended)?;
        let known: HashSet<&str> = shards
            .iter()
            .flat_map(|shard| [shard.name.as_str(), shard.index.as_str()])
            .chain(manifest.indexes.iter().map(|file| file.name.as_str()))
            .chain([MANIFEST, beside::SUMS])
            .collect();
        for (object, what) in &found {
            let told = mended.repaired.contains(*object) || mended.lost.contains_key(*object);
            if !known.contains(object) && !told {
                mended.lost.insert((*object).to_owned(), what.clone());
            }
        }
        Ok(())
    }

    /// Whether a shard is what the manifest says, by reading all of it: without its index, verifying only looked at its size.
    fn intact(&self, shard: &ShardEntry) -> Result<bool> {
        let read = Scanner::new(self.sink.open(&shard.name)?).drain();
        let (bytes, crc32) = read.map_err(|error| Error::io(&shard.name, error))?;
        Ok((bytes, crc_text(crc32)) == (shard.bytes, shard.crc32.clone()))
    }

    /// Makes an index from its shard; false where that does not give what was published.
    fn mend_index(
        &self,
        manifest: &Manifest,
        shard: &ShardEntry,
        mended: &mut Mended,
    ) -> Result<bool> {
        let file = match manifest.recipe.foreign {
            true => foreign::index_of(self.sink, manifest, shard)?,
            false => {
                let digest = manifest.plan_of(shard);
                let mut plans = resume::plans(self.sink, &HashSet::from([digest]))?;
                let Some(stored) = plans.remove(digest) else {
                    return Ok(false);
                };
                let number = stored
                    .plan
                    .shards
                    .iter()
                    .position(|plan| plan.name == shard.name);
                match number {
                    Some(number) => self.index_from_shard(&stored, number, Some(manifest))?,
                    None => None,
                }
            }
        };
        let Some(file) = file else {
            return Ok(false);
        };
        let same = (file.len() as u64, crc_text(crc32fast::hash(&file)))
            == (shard.index_bytes, shard.index_crc32.clone());
        if same {
            self.put(&shard.index, &file, mended)?;
        }
        Ok(same)
    }

    /// The index file of a shard of the plan, from the shard itself; `None` where the shard does not tell enough.
    fn index_from_shard(
        &self,
        stored: &Stored,
        number: usize,
        manifest: Option<&Manifest>,
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
        let walked = foreign::walk(&plan.name, "", kind, reader, most)?;
        let Ok(samples) = resume::samples(self.sink, stored, number) else {
            return Ok(None);
        };
        let skipped: Vec<_> = manifest
            .map(|manifest| manifest.skipped.as_slice())
            .unwrap_or_default()
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
            let entry = manifest.and_then(|manifest| {
                let mut shards = manifest.shards().map(|(_, entry)| entry);
                shards.find(|entry| entry.name == plan.name)
            });
            match entry {
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

    /// Packs shards again and compares them with what was published.
    fn repack(
        &self,
        manifest: &Manifest,
        shards: &[&ShardEntry],
        origin: &Origin<'_>,
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
        for shard in shards {
            match numbers.get(shard.name.as_str()) {
                Some(number) => todo.push(*number),
                None => {
                    let why = "the plan has no such shard".to_owned();
                    mended.lost.insert(shard.name.clone(), why);
                }
            }
        }
        if self.dry_run {
            mended
                .repaired
                .extend(shards.iter().map(|shard| shard.name.clone()));
            return Ok(());
        }
        let run = Run {
            source: origin.source,
            sink: self.sink,
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
        self.counters.begin(
            "repair",
            samples,
            sum(|shard| shard.bytes),
            todo.len() as u64,
        );
        let refused = pipeline::pack(&run, &todo)?.refused;
        for shard in shards {
            let agrees = |footer: &Footer| {
                footer.plan == manifest.plan_of(shard)
                    && (footer.bytes, &footer.crc32) == (shard.bytes, &shard.crc32)
            };
            let file = self.sink.get(&shard.index)?;
            let index = file
                .as_ref()
                .map(|file| (file.len() as u64, crc_text(crc32fast::hash(file))));
            let footer = match &file {
                Some(file) => {
                    let decoded = Footer::decode(&shard.index, file, file.len() as u64);
                    unless_damaged(decoded)?.and_then(std::result::Result::ok)
                }
                None => None,
            };
            let same = footer.as_ref().is_some_and(agrees)
                && index == Some((shard.index_bytes, shard.index_crc32.clone()));
            if same {
                mended.repaired.insert(shard.name.clone());
                continue;
            }
            let reasons: Vec<_> = refused
                .iter()
                .map(|remark| format!("{}: {}", remark.path, remark.reason))
                .collect();
            let why = match reasons.is_empty() {
                true => "packed again it is not what was published: the source's files changed"
                    .to_owned(),
                false => reasons.join("; "),
            };
            mended.lost.insert(shard.name.clone(), why);
        }
        Ok(())
    }

    /// Makes what lies beside the manifest again where that is damaged.
    fn mend_beside(
        &self,
        manifest: &Manifest,
        found: &BTreeMap<&str, String>,
        mended: &mut Mended,
    ) -> Result<()> {
        let indexes = manifest.indexes.iter();
        let damaged: Vec<&IndexFile> = indexes
            .filter(|file| found.contains_key(file.name.as_str()))
            .collect();
        let names = damaged.iter().map(|file| file.name.as_str());
        let names: BTreeSet<&str> = names
            .chain(
                [beside::SUMS]
                    .into_iter()
                    .filter(|name| found.contains_key(name)),
            )
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
        let unmade = match beside::make_again(self.sink, manifest, &damaged, self.memory) {
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
    let looked = recipe.validate != crate::probe::Validate::None;
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
