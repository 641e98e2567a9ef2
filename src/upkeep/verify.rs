//! Shards re-read against their records, at four depths: list, head, data, source.
//!
//! Nothing here mends or writes. Every finding names its object, sample, byte range, and what was expected and found.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::base::buffer::Buffer;
use crate::base::checksum::{Scanner, crc_text};
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::signal::Stop;
use crate::base::version;
use crate::format::check::check;
use crate::format::compress::{Frames, Raw, unpack};
use crate::format::{Finding, Watch};
use crate::model::counters::Counters;
use crate::model::manifest::{IndexFile, MANIFEST, Manifest, STATE, ShardEntry, snapshot_name};
use crate::model::recipe::{Compression, Missing, filling};
use crate::model::record::{
    FieldRecord, FrameRecord, NO_LABEL, Remark, SampleRecord, ShardRecord, index_name,
};
use crate::model::sample::{Sample, key_hash};
use crate::pack::lookahead::{Content, Large, Lookahead};
use crate::publish::companions as beside;
use crate::publish::readers as index;
use crate::source::scan::{Entry, Scan};
use crate::state::published;
use crate::state::stored::{self as resume, Stored};
use crate::store::{Sink, Source, StoredChecksum, at_once};
use crate::upkeep::adopt as foreign;

/// How deep a verification looks; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Names and sizes, nothing missing, nothing extra.
    List,
    /// Checksums of whole shards and indexes.
    Head,
    /// Every header, field, end marker and index row.
    Data,
    /// Every file of the source, byte for byte.
    Source,
}

/// What a verification saw and found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Shards looked at.
    pub shards: u64,
    /// Samples looked at.
    pub samples: u64,
    /// Bytes of shards read.
    pub bytes: u64,
    /// What is wrong, sorted by object and place.
    pub findings: Vec<Finding>,
    /// What is not wrong, but worth knowing.
    pub notes: Vec<Finding>,
    /// What could not be checked, and why.
    pub unchecked: Vec<String>,
    /// Shards and indexes of which the store keeps no checksum, at [`Level::Head`].
    pub unknown: u64,
    /// Shards whose content was not looked at, because of [`Portion`].
    #[serde(skip_serializing_if = "is_zero")]
    pub left: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The source to compare with.
pub struct Against<'a> {
    /// Where its files are read.
    pub source: &'a dyn Source,
    /// Its samples now.
    pub scan: &'a Scan,
}

/// Which of the shards are read, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Portion {
    /// The first of them, in the order of the manifest.
    pub from: usize,
    /// How many, going on at the beginning after the last.
    pub count: usize,
    /// No shard is begun after this.
    pub until: Option<Instant>,
}

impl Portion {
    /// All shards.
    pub const ALL: Self = Self {
        from: 0,
        count: usize::MAX,
        until: None,
    };
}

/// One verification.
pub struct Verification<'a> {
    /// The dataset.
    pub sink: &'a dyn Sink,
    /// How deep.
    pub level: Level,
    /// The source, for [`Level::Source`].
    pub against: Option<Against<'a>>,
    /// Which shards, beyond [`Level::List`].
    pub portion: Portion,
    /// Shards read at once.
    pub jobs: usize,
    /// Bytes of source files held by each of them.
    pub window_bytes: u64,
    /// Counts what happens.
    pub counters: &'a Counters,
    /// Says when to stop.
    pub stop: &'a Stop,
}

/// Skipped and odd samples of one shard.
type Remarks = (Vec<Remark>, Vec<Remark>);

/// What the threads of a verification share.
struct Shared<'a> {
    report: Mutex<Report>,
    next: AtomicUsize,
    keys: Mutex<Vec<(u64, u32)>>,
    /// What records say of skipped and odd samples, by shard.
    remarks: Mutex<HashMap<String, Remarks>>,
    source: Option<SourceSet<'a>>,
}

/// The source's samples by a hash of their key, each marked when it was met in a shard.
struct SourceSet<'a> {
    against: &'a Against<'a>,
    by_key: HashMap<u64, u32>,
    seen: Vec<AtomicBool>,
}

impl<'a> SourceSet<'a> {
    fn new(against: &'a Against<'a>) -> Self {
        let entries = &against.scan.entries;
        let by_key = entries.iter().enumerate();
        Self {
            against,
            by_key: by_key
                .map(|(i, entry)| (key_hash(&against.scan.key(entry)), i as u32))
                .collect(),
            seen: entries.iter().map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// The source's sample of this key; marks it as met, and says whether it was before.
    fn meet(&self, key: &str) -> Option<(Sample, bool)> {
        let index = *self.by_key.get(&key_hash(key))? as usize;
        let entry: &Entry = &self.against.scan.entries[index];
        let sample = self.against.scan.sample(entry);
        if sample.key != key {
            return None;
        }
        let before = self.seen[index].swap(true, Ordering::Relaxed);
        Some((sample, before))
    }
}

impl Verification<'_> {
    /// Verifies a published dataset.
    pub fn run(&self, manifest: &Manifest) -> Result<Report> {
        let shared = Shared {
            report: Mutex::default(),
            next: AtomicUsize::new(0),
            keys: Mutex::default(),
            remarks: Mutex::default(),
            source: self.against.as_ref().map(SourceSet::new),
        };
        let splits: Vec<&str> = manifest.shards().map(|(split, _)| split).collect();
        let shards: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
        let whole = self.check_list(manifest, &shards, &shared)?;
        self.check_plan(manifest, &shared)?;
        let count = self.portion.count.min(shards.len());
        let mut left = 0;
        if self.level > Level::List {
            let turn = |i: usize| (self.portion.from + i) % shards.len();
            let sum = |of: fn(&ShardEntry) -> u64| (0..count).map(|i| of(shards[turn(i)])).sum();
            let (samples, bytes) = (sum(|shard| shard.samples), sum(|shard| shard.bytes));
            self.counters.begin("verify", samples, bytes, count as u64);
            let work = |i: usize| match whole[turn(i)] {
                true => self.check_shard(manifest, splits[turn(i)], shards[turn(i)], &shared),
                false => Ok(()),
            };
            self.on_threads(count, &work, &shared)?;
            left = shards.len() - shared.next.load(Ordering::Relaxed).min(count);
        }
        if self.level > Level::List {
            self.check_indexes(manifest, &shared)?;
        }
        self.check_keys(manifest, &shared);
        check_remarks(manifest, &shards, &shared);
        self.check_source(manifest, &shards, &shared)?;
        let mut report = shared
            .report
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        report.shards = shards.len() as u64;
        if self.level < Level::Data {
            report.samples = manifest.samples;
        }
        report.left = left as u64;
        if left > 0 {
            report.unchecked.push(format!(
                "the content of {left} of {} shards: they were not this run's to read",
                shards.len()
            ));
        }
        if report.unknown > 0 {
            report.unchecked.push(format!(
                "the content of {} shards and indexes: the store keeps no checksum of them, use `--level data`",
                report.unknown
            ));
        }
        report
            .findings
            .sort_by(|a, b| (&a.object, a.range).cmp(&(&b.object, b.range)));
        Ok(report)
    }

    /// Verifies a directory of tars or TFRecords that nobody recorded.
    pub fn run_foreign(&self) -> Result<Report> {
        let shards = foreign::shards(self.sink)?;
        if shards.is_empty() {
            return Err(Error::failed(format!(
                "{}: neither a {MANIFEST} nor any tar or TFRecord: give the directory of a dataset",
                self.sink
            )));
        }
        let shared = Shared {
            report: Mutex::default(),
            next: AtomicUsize::new(0),
            keys: Mutex::default(),
            remarks: Mutex::default(),
            source: None,
        };
        let bytes = shards.iter().map(|shard| shard.bytes).sum();
        let names: Vec<&str> = shards.iter().map(|shard| shard.name.as_str()).collect();
        let keys = foreign::key_beginnings(&names);
        self.counters.begin("verify", 0, bytes, shards.len() as u64);
        let check = |i: usize| {
            let shard = &shards[i];
            let walked = shard.walk(&keys[i], self.passing(&shard.name)?)?;
            let samples = walked.rows.len() as u64;
            self.counters.shard(&shard.name, shard.bytes, samples);
            let mut report = lock(&shared.report);
            report.samples += samples;
            report.bytes += walked.bytes.0;
            report.findings.extend(walked.found);
            report.notes.extend(walked.noted);
            Ok(())
        };
        self.on_threads(shards.len(), &check, &shared)?;
        let mut report = shared
            .report
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        report.shards = shards.len() as u64;
        report
            .findings
            .sort_by(|a, b| (&a.object, a.range).cmp(&(&b.object, b.range)));
        report.unchecked = [
            format!(
                "contents: there is no {MANIFEST} with checksums to compare with (`shardpack index {}` makes one)",
                self.sink
            ),
            "completeness: nothing says how many shards and samples there should be".to_owned(),
            "labels: nothing says how many classes there are".to_owned(),
        ]
        .to_vec();
        Ok(report)
    }

    /// Calls `work` for 0..count on several threads; the first error wins.
    fn on_threads(
        &self,
        count: usize,
        work: &(dyn Fn(usize) -> Result<()> + Sync),
        shared: &Shared<'_>,
    ) -> Result<()> {
        let run = || {
            loop {
                self.stop.check()?;
                if self
                    .portion
                    .until
                    .is_some_and(|until| Instant::now() >= until)
                {
                    return Ok(());
                }
                let i = shared.next.fetch_add(1, Ordering::Relaxed);
                if i >= count {
                    return Ok(());
                }
                work(i).inspect_err(|_| shared.next.store(count, Ordering::Relaxed))?;
            }
        };
        // Nothing is held of what the store itself compares.
        let most = match self.level {
            Level::Head => self.jobs.max(self.sink.requests()),
            _ => self.jobs,
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..most.clamp(1, count.max(1)))
                .map(|_| scope.spawn(run))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::failed("a verifying thread panicked")))
            };
            threads
                .into_iter()
                .map(join)
                .collect::<Vec<_>>()
                .into_iter()
                .collect()
        })
    }

    /// Names and sizes. True for each shard whose content is worth reading.
    fn check_list(
        &self,
        manifest: &Manifest,
        shards: &[&ShardEntry],
        shared: &Shared<'_>,
    ) -> Result<Vec<bool>> {
        // Shards of others lie anywhere.
        let places: &[&str] = match manifest.recipe.foreign {
            true => &[""],
            false => &["data", "index"],
        };
        let there: HashMap<String, u64> = places
            .iter()
            .map(|part| self.sink.list(part))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        let mut findings = Vec::new();
        let mut named = std::collections::HashSet::new();
        let mut whole = Vec::with_capacity(shards.len());
        for shard in shards {
            let present = |name: &str, bytes: u64, findings: &mut Vec<Finding>| match there
                .get(name)
            {
                None => {
                    findings.push(
                        Finding::new(name, "missing").values(format!("{bytes} bytes"), "nothing"),
                    );
                    false
                }
                Some(&size) if size != bytes => {
                    let finding = Finding::new(name, "another size");
                    let range = (size.min(bytes), size.max(bytes));
                    findings.push(
                        finding
                            .range(range.0, range.1)
                            .values(format!("{bytes} bytes"), format!("{size} bytes")),
                    );
                    self.level >= Level::Data
                }
                Some(_) => true,
            };
            let data = present(&shard.name, shard.bytes, &mut findings);
            let index = present(&shard.index, shard.index_bytes, &mut findings);
            whole.push(data && (index || self.level == Level::Head));
            for name in [&shard.name, &shard.index] {
                if !named.insert(name.as_str()) {
                    findings.push(Finding::new(name, "named twice by the manifest"));
                }
            }
        }
        let mut differing = Vec::new();
        for file in &manifest.indexes {
            if !index::names().any(|name| name == file.reader) {
                let finding =
                    Finding::new(MANIFEST, "names a reader index of a kind that there is not");
                findings.push(
                    finding.values(index::names().collect::<Vec<_>>().join(", "), &file.reader),
                );
            }
            let listed = there.get(&file.name).copied();
            let size = match listed {
                // Those at the root and in hidden directories are few.
                None => self
                    .sink
                    .get(&file.name)?
                    .map(|content| content.len() as u64),
                listed => listed,
            };
            named.insert(&file.name);
            if size.is_some_and(|size| size != file.bytes) && index::is_for_people(file) {
                lock(&shared.report).notes.push(completed(file));
            } else if size != Some(file.bytes) {
                let size = size.map_or("nothing".to_owned(), |size| format!("{size} bytes"));
                let finding =
                    Finding::new(&file.name, "reader index is missing or of another size");
                differing.push(finding.values(format!("{} bytes", file.bytes), size));
            }
        }
        differing.extend(self.check_sums(manifest)?);
        findings.extend(self.unless_overwritten(manifest, differing, shared)?);
        let ours = |name: &str| {
            !manifest.recipe.foreign || foreign::is_shard(name, manifest.recipe.format)
        };
        let mut extra: Vec<&String> = there
            .keys()
            .filter(|name| !named.contains(name.as_str()) && ours(name))
            .collect();
        extra.sort();
        let known = match extra.is_empty() {
            true => HashSet::new(),
            false => self.known_stems(manifest)?,
        };
        for name in extra {
            let what = "not in the manifest: a reader that globs would take it";
            match known.contains(stem(name)) {
                true => lock(&shared.report).notes.push(Finding::new(
                    name,
                    "of an earlier snapshot, or of one that is being made: `shardpack gc` removes what is not needed",
                )),
                false => findings.push(Finding::new(name, what)),
            }
        }
        let snapshot = snapshot_name(manifest.snapshot);
        match (self.sink.get(&snapshot)?, self.sink.get(MANIFEST)?) {
            (None, _) => findings.push(Finding::new(
                &snapshot,
                "missing: the manifest cannot be compared with it",
            )),
            (Some(a), Some(b)) if a != b => {
                version::MANIFEST.check(&snapshot, &a)?;
                findings.push(
                    Finding::new(MANIFEST, format!("differs from {snapshot}"))
                        .values(crc_text(crc32fast::hash(&a)), crc_text(crc32fast::hash(&b))),
                );
            }
            _ => {}
        }
        let name = &manifest.recipe.name;
        if *name != manifest.name {
            findings.push(Finding::new(MANIFEST, "its name").values(name, &manifest.name));
        }
        for split in &manifest.splits {
            let sums = |of: fn(&ShardEntry) -> u64| split.shards.iter().map(of).sum::<u64>();
            for (what, said, is) in [
                ("samples", split.samples, sums(|s| s.samples)),
                ("bytes", split.bytes, sums(|s| s.bytes)),
            ] {
                if said != is {
                    let what = format!("its total of {what} of split `{}`", split.name);
                    findings.push(Finding::new(MANIFEST, what).values(is, said));
                }
            }
        }
        let sums = |of: fn(&ShardEntry) -> u64| shards.iter().map(|shard| of(shard)).sum::<u64>();
        for (what, said, is) in [
            ("samples", manifest.samples, sums(|s| s.samples)),
            ("bytes", manifest.bytes, sums(|s| s.bytes)),
        ] {
            if said != is {
                findings
                    .push(Finding::new(MANIFEST, format!("its total of {what}")).values(is, said));
            }
        }
        lock(&shared.report).findings.extend(findings);
        Ok(whole)
    }

    /// Stems of the shards, and of their indexes, that other plans than that of the manifest may have left.
    fn known_stems(&self, manifest: &Manifest) -> Result<HashSet<String>> {
        let names = resume::stored_names(self.sink)?;
        let mut known: HashSet<String> = names.iter().map(|name| stem(name).to_owned()).collect();
        let digests = HashSet::from([manifest.plan.as_str()]);
        for stored in resume::plans(self.sink, &digests)?.values() {
            for name in stored.plan.dataset().into_values().flatten() {
                known.remove(stem(name));
                known.remove(stem(&index_name(name)));
            }
        }
        Ok(known)
    }

    /// Compares `SHA256SUMS` with the digests in the manifest.
    fn check_sums(&self, manifest: &Manifest) -> Result<Option<Finding>> {
        let Some(sums) = beside::sums(manifest) else {
            return Ok(None);
        };
        let finding = |what: &str| Finding::new(beside::SUMS, what);
        let Some(there) = self.sink.get(beside::SUMS)? else {
            let bytes = format!("{} bytes", sums.len());
            return Ok(Some(finding("missing").values(bytes, "nothing")));
        };
        let same = sums
            .bytes()
            .zip(&there)
            .take_while(|(a, b)| a == *b)
            .count();
        if same == sums.len() && same == there.len() {
            return Ok(None);
        }
        let end = sums.len().max(there.len()) as u64;
        Ok(Some(
            finding("differs from the digests in the manifest")
                .range(same as u64, end)
                .values(
                    crc_text(crc32fast::hash(sums.as_bytes())),
                    crc_text(crc32fast::hash(&there)),
                ),
        ))
    }

    /// Compares the list of samples of a stored plan with what the plan says of it. `sizes` are those of all parts of plans.
    fn check_samples(
        &self,
        stored: &Stored,
        sizes: &HashMap<String, u64>,
        shared: &Shared<'_>,
    ) -> Result<Vec<Finding>> {
        let name = resume::samples_name(&stored.id);
        let bytes = stored.samples_bytes();
        let finding = |what: String| Finding::new(&name, what);
        let size = sizes.get(&name);
        if size != Some(&bytes) {
            let size = size.map_or("nothing".to_owned(), |size| format!("{size} bytes"));
            let what = "the plan's list of samples is missing or of another size".to_owned();
            return Ok(vec![finding(what).values(format!("{bytes} bytes"), size)]);
        }
        let mut findings = Vec::new();
        if self.level >= Level::Head
            && let Some(crc32) = &stored.samples_crc32
        {
            let there = match (self.level, self.sink.stored_checksum(&name)?) {
                (Level::Head, StoredChecksum::Crc32(there)) => Some(there),
                (Level::Head, StoredChecksum::Unknown) => None,
                _ => {
                    let read = Scanner::new(self.sink.open(&name)?).drain();
                    Some(read.map_err(|error| Error::io(&name, error))?.1)
                }
            };
            lock(&shared.report).unknown += u64::from(there.is_none());
            match there.map(crc_text) {
                Some(there) if there != *crc32 => findings.push(
                    finding("content of the plan's list of samples, by crc32".to_owned())
                        .range(0, bytes)
                        .values(crc32, there),
                ),
                _ => return Ok(findings),
            }
        }
        if self.level < Level::Data {
            return Ok(findings);
        }
        // Which shards it is about; and all there is to go by in plans of earlier versions.
        let shards: Vec<usize> = (0..stored.frames.len()).collect();
        let damaged = at_once(self.jobs, &shards, |&shard| {
            self.stop.check()?;
            let lines = resume::each_line(self.sink, stored, shard, |_| ());
            let [offset, length] = stored.frames[shard];
            let what = format!("the samples of {}", stored.plan.shards[shard].name);
            let finding = finding(format!("{what} are not those of the plan"));
            let finding = finding.range(offset, offset.saturating_add(length));
            Ok(unless_damaged(lines)?.is_none().then_some(finding))
        })?;
        let damaged: Vec<Finding> = damaged.into_iter().flatten().collect();
        match damaged.is_empty() {
            true => Ok(findings),
            false => Ok(damaged),
        }
    }

    /// Findings on what lies beside the manifest, all or none: a later snapshot that is there has its own before the manifest. Then that
    /// is told.
    fn unless_overwritten(
        &self,
        manifest: &Manifest,
        findings: Vec<Finding>,
        shared: &Shared<'_>,
    ) -> Result<Vec<Finding>> {
        if findings.is_empty() || beside::later(self.sink, manifest.snapshot)?.is_none() {
            return Ok(findings);
        }
        let told = findings.iter().map(|finding| {
            format!(
                "{}: a next snapshot is being made, which may have written it anew; `shardpack publish {}` ends that",
                finding.object, self.sink
            )
        });
        lock(&shared.report).unchecked.extend(told);
        Ok(Vec::new())
    }

    /// Compares the reader indexes with their checksums; those of another size were told.
    fn check_indexes(&self, manifest: &Manifest, shared: &Shared<'_>) -> Result<()> {
        let depth = self.jobs.max(self.sink.requests());
        let findings = at_once(depth, &manifest.indexes, |file| {
            self.stop.check()?;
            let crc32 = match (self.level, self.sink.stored_checksum(&file.name)) {
                (Level::Head, Ok(StoredChecksum::Crc32(crc32))) => crc32,
                _ => match self.sink.get(&file.name)? {
                    Some(content) if content.len() as u64 == file.bytes => {
                        crc32fast::hash(&content)
                    }
                    _ => return Ok(None),
                },
            };
            let finding = || {
                Finding::new(&file.name, "content of the reader index, by crc32")
                    .range(0, file.bytes)
                    .values(&file.crc32, crc_text(crc32))
            };
            let differs = crc_text(crc32) != file.crc32;
            if differs && index::is_for_people(file) {
                lock(&shared.report).notes.push(completed(file));
                return Ok(None);
            }
            Ok(differs.then(finding))
        })?;
        let differing = findings.into_iter().flatten().collect();
        let findings = self.unless_overwritten(manifest, differing, shared)?;
        lock(&shared.report).findings.extend(findings);
        Ok(())
    }

    /// Compares the manifest with the plans of its shards, the last of which it repeats: their digests are over that.
    fn check_plan(&self, manifest: &Manifest, shared: &Shared<'_>) -> Result<()> {
        if manifest.recipe.foreign {
            return Ok(());
        }
        let digests: HashSet<&str> = manifest
            .shards()
            .map(|(_, shard)| manifest.plan_of(shard))
            .chain([manifest.plan.as_str()])
            .collect();
        let plans = resume::plans(self.sink, &digests)?;
        let mut findings = Vec::new();
        if plans.is_empty() && resume::generations(self.sink)?.is_empty() {
            lock(&shared.report).unchecked.push(
                "recipe and classes: there is no stored plan to compare them with".to_owned(),
            );
            return Ok(());
        }
        for digest in &digests {
            if !plans.contains_key(*digest) {
                let finding = Finding::new(
                    STATE,
                    "no stored plan that can be read is that of the manifest or of its shards",
                );
                findings.push(finding.values(digest, "none"));
            }
        }
        if let Some(stored) = plans.get(&manifest.plan) {
            findings.extend(not_as_planned(manifest, stored, &plans));
        }
        let sizes = self.sink.list(&format!("{STATE}/plan"))?;
        let sizes: HashMap<String, u64> = sizes.into_iter().collect();
        for stored in plans.values() {
            findings.extend(self.check_samples(stored, &sizes, shared)?);
        }
        lock(&shared.report).findings.extend(findings);
        Ok(())
    }

    fn check_shard(
        &self,
        manifest: &Manifest,
        split: &str,
        shard: &ShardEntry,
        shared: &Shared<'_>,
    ) -> Result<()> {
        if self.level == Level::Head && self.check_kept(shard, shared)? {
            return Ok(());
        }
        let mut findings = Vec::new();
        let index = self.check_index(manifest, split, shard, &mut findings)?;
        if let Some(record) = &index {
            let said = (record.skipped.clone(), record.odd.clone());
            lock(&shared.remarks).insert(shard.name.clone(), said);
        }
        let raw = self.passing(&shard.name)?;
        let (bytes, crc32) = match &index {
            Some(record) if self.level >= Level::Data && manifest.recipe.foreign => {
                self.meet_keys(shard, record, shared);
                check_walk(manifest, shard, raw, record, &mut findings)?
            }
            Some(record) if self.level >= Level::Data => {
                let mut watcher = Watcher::new(self, record, manifest, shared);
                let read = check_content(manifest, shard, raw, &mut watcher)?;
                findings.append(&mut watcher.findings);
                if let Some(error) = watcher.error {
                    return Err(error);
                }
                let seekable = matches!(
                    manifest.recipe.compress,
                    Compression::Zstd { seekable: true, .. }
                );
                // Of a shard cut short there is no end to look at.
                if seekable && read.0 == shard.bytes {
                    self.check_frames(shard, record, &mut findings)?;
                }
                self.meet_keys(shard, record, shared);
                read
            }
            _ => Scanner::new(raw)
                .drain()
                .map_err(|error| failed(shard, error))?,
        };
        let crc32 = crc_text(crc32);
        if crc32 != shard.crc32 && findings.is_empty() {
            findings.push(
                Finding::new(&shard.name, "content of the shard, by crc32")
                    .range(0, bytes)
                    .values(&shard.crc32, crc32),
            );
        }
        self.counters.shard(&shard.name, shard.bytes, shard.samples);
        let mut report = lock(&shared.report);
        report.bytes += bytes;
        report.samples += index.map_or(0, |record| record.samples.len() as u64);
        report.findings.extend(findings);
        Ok(())
    }

    /// A shard's bytes, counted.
    fn passing(&self, name: &str) -> Result<Passing<'_>> {
        Ok(Passing {
            inner: self.sink.open(name)?,
            counters: self.counters,
            stop: self.stop.clone(),
        })
    }

    /// Compares the seek table of a shard, and where the index says its samples' frames are.
    fn check_frames(
        &self,
        shard: &ShardEntry,
        record: &ShardRecord,
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let finding = |what: String| Finding::new(&shard.name, what).sample("(seek table)");
        let frames = match Frames::read(self.sink, &shard.name, shard.bytes, record)? {
            Ok(frames) => frames,
            Err(what) => {
                findings.push(finding(what));
                return Ok(());
            }
        };
        let text = |(packed, unpacked): (u64, u64)| format!("{packed} bytes that hold {unpacked}");
        let whole = (shard.bytes, record.unpacked_bytes());
        if frames.totals() != whole {
            findings
                .push(finding("its total".to_owned()).values(text(whole), text(frames.totals())));
            return Ok(());
        }
        let covers = frames.cover(record.samples.iter().map(|row| (row.offset, row.length)));
        for (row, cover) in record.samples.iter().zip(covers) {
            if row.frame != Some(cover) {
                let finding =
                    Finding::new(&record.shard, "index gives other frames for the sample");
                let text = |frame: Option<FrameRecord>| match frame {
                    Some(frame) => {
                        format!("{}+{} from {}", frame.offset, frame.length, frame.start)
                    }
                    None => "none".to_owned(),
                };
                findings.push(
                    finding
                        .sample(&row.key)
                        .values(text(Some(cover)), text(row.frame)),
                );
            }
        }
        Ok(())
    }

    /// Compares a shard and its index with the checksums that the store itself keeps, reading nothing; false where reading is
    /// the way to find out.
    fn check_kept(&self, shard: &ShardEntry, shared: &Shared<'_>) -> Result<bool> {
        let objects = [
            (&shard.name, shard.bytes, &shard.crc32),
            (&shard.index, shard.index_bytes, &shard.index_crc32),
        ];
        let mut findings = Vec::new();
        let mut unknown = 0;
        for (name, bytes, expected) in objects {
            match self.sink.stored_checksum(name)? {
                StoredChecksum::ReadInstead => return Ok(false),
                StoredChecksum::Unknown => unknown += 1,
                StoredChecksum::Crc32(crc32) if crc_text(crc32) != *expected => findings.push(
                    Finding::new(name, "content, by the crc32 that the store keeps")
                        .range(0, bytes)
                        .values(expected, crc_text(crc32)),
                ),
                StoredChecksum::Crc32(_) => {}
            }
        }
        self.counters.shard(&shard.name, shard.bytes, shard.samples);
        let mut report = lock(&shared.report);
        report.findings.extend(findings);
        report.unknown += unknown;
        Ok(true)
    }

    /// Reads the index and compares it with the manifest; `None` when there is no index to go by.
    fn check_index(
        &self,
        manifest: &Manifest,
        split: &str,
        shard: &ShardEntry,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<ShardRecord>> {
        let Some(file) = self.sink.get(&shard.index)? else {
            return Ok(None);
        };
        let crc32 = crc_text(crc32fast::hash(&file));
        if crc32 != shard.index_crc32 {
            findings.push(
                Finding::new(&shard.index, "content of the index, by crc32")
                    .range(0, file.len() as u64)
                    .values(&shard.index_crc32, crc32),
            );
            return Ok(None);
        }
        if self.level < Level::Data {
            return Ok(None);
        }
        let record = match ShardRecord::decode(&shard.index, &file) {
            Ok(record) => record,
            Err(error) if error.kind() == Kind::Damage => {
                findings.push(Finding::new(&shard.index, error.to_string()));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let agree = [
            ("shard", shard.name.clone(), record.shard.clone()),
            (
                "plan",
                manifest.plan_of(shard).to_owned(),
                record.plan.clone(),
            ),
            (
                "samples",
                shard.samples.to_string(),
                record.samples.len().to_string(),
            ),
            ("bytes", shard.bytes.to_string(), record.bytes.to_string()),
            ("crc32", shard.crc32.clone(), crc_text(record.crc32)),
            (
                "unpacked_bytes",
                format!("{:?}", shard.unpacked_bytes),
                format!("{:?}", record.unpacked_bytes),
            ),
            (
                "sha256",
                format!("{:?}", shard.sha256),
                format!("{:?}", record.sha256),
            ),
            ("split", split.to_owned(), record.split.clone()),
        ];
        for (what, said, is) in agree {
            if said != is {
                findings.push(
                    Finding::new(&shard.index, format!("its {what} is not the manifest's"))
                        .values(said, is),
                );
            }
        }
        Ok(Some(record))
    }

    /// Remembers the keys of a shard for [`Self::check_keys`].
    fn meet_keys(&self, shard: &ShardEntry, record: &ShardRecord, shared: &Shared<'_>) {
        let keys = record.samples.iter().map(|sample| key_hash(&sample.key));
        let number = crc32fast::hash(shard.name.as_bytes());
        lock(&shared.keys).extend(keys.map(|key| (key, number)));
    }

    /// No key may be in two places.
    fn check_keys(&self, manifest: &Manifest, shared: &Shared<'_>) {
        let mut keys = lock(&shared.keys);
        keys.sort_unstable();
        let name = |number: u32| {
            let is = |shard: &&ShardEntry| crc32fast::hash(shard.name.as_bytes()) == number;
            manifest
                .shards()
                .map(|(_, shard)| shard)
                .find(is)
                .map_or(String::new(), |shard| shard.name.clone())
        };
        let twice = keys.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let findings: Vec<_> = twice
            .map(|pair| {
                let (a, b) = (name(pair[0].1), name(pair[1].1));
                Finding::new(a, format!("a sample of this shard is also in {b}"))
                    .values("each key once", "one key twice")
            })
            .collect();
        lock(&shared.report).findings.extend(findings);
    }

    /// Every sample of the source is in a shard or among the skipped. What is in the shards that were not read, their indexes say.
    fn check_source(
        &self,
        manifest: &Manifest,
        shards: &[&ShardEntry],
        shared: &Shared<'_>,
    ) -> Result<()> {
        let Some(source) = &shared.source else {
            return Ok(());
        };
        let read = lock(&shared.remarks);
        let unread: Vec<&ShardEntry> = shards
            .iter()
            .copied()
            .filter(|shard| !read.contains_key(&shard.name))
            .collect();
        drop(read);
        let depth = self.jobs.max(self.sink.requests());
        let met = at_once(depth, &unread, |shard| {
            self.stop.check()?;
            let file = unless_damaged(published::read_index(shard, self.sink))?.flatten();
            let keys = file.map(|file| ShardRecord::decode_keys(&shard.index, &file));
            let Some(keys) = unless_damaged(keys.transpose())?.flatten() else {
                return Ok(false);
            };
            for key in keys {
                source.meet(&key);
            }
            Ok(true)
        })?;
        let unknown = met.iter().filter(|met| !**met).count();
        if unknown > 0 {
            lock(&shared.report).unchecked.push(format!(
                "whether every sample of the source is in the dataset: {unknown} indexes cannot be read"
            ));
            return Ok(());
        }
        for remark in &manifest.skipped {
            source.meet(&remark.key);
        }
        let scan = source.against.scan;
        let missing = scan.entries.iter().zip(&source.seen);
        let findings: Vec<_> = missing
            .filter(|(_, seen)| !seen.load(Ordering::Relaxed))
            .map(|(entry, _)| {
                let sample = scan.sample(entry);
                let path = sample
                    .image()
                    .map(|field| field.path.to_string())
                    .unwrap_or_default();
                Finding::new(path, "is in the source, not in the dataset").sample(sample.key)
            })
            .collect();
        lock(&shared.report).findings.extend(findings);
        Ok(())
    }
}

/// What of a manifest is not as its plan has it.
pub(crate) fn not_as_planned(
    manifest: &Manifest,
    stored: &Stored,
    plans: &HashMap<String, Stored>,
) -> Vec<Finding> {
    let plan = &stored.plan;
    let text = |ours: bool| if ours { "as planned" } else { "otherwise" };
    let names: Vec<&str> = manifest
        .splits
        .iter()
        .map(|split| split.name.as_str())
        .collect();
    let of = |stored: &Stored| -> HashMap<String, u64> {
        let shards = stored.plan.shards.iter();
        shards
            .map(|shard| (shard.name.to_string(), shard.samples))
            .collect()
    };
    let planned: HashMap<&str, _> = plans
        .iter()
        .map(|(digest, stored)| (digest.as_str(), of(stored)))
        .collect();
    let of_shard = |shard: &ShardEntry| {
        let of_plan = planned.get(manifest.plan_of(shard))?;
        of_plan.get(&shard.name).copied()
    };
    let named = plan.dataset();
    let as_named = manifest.splits.iter().all(|split| {
        let shards = split.shards.iter().map(|shard| shard.name.as_str());
        let none = Vec::new();
        let named = named.get(split.name.as_str()).unwrap_or(&none);
        named.iter().copied().eq(shards)
    });
    let samples: Option<u64> = manifest.shards().map(|(_, shard)| of_shard(shard)).sum();
    [
        ("recipe", plan.recipe == manifest.recipe),
        ("classes or fields", plan.names == manifest.names),
        ("splits", plan.splits == names),
        ("shards", as_named && samples.is_some()),
        (
            "samples and skipped",
            samples
                .is_none_or(|samples| samples == manifest.samples + manifest.skipped.len() as u64),
        ),
    ]
    .into_iter()
    .filter(|(_, same)| !same)
    .map(|(what, _)| {
        let what = format!("its {what} are not those of the stored plan");
        Finding::new(MANIFEST, what).values(text(true), text(false))
    })
    .collect()
}

/// What a shard, its index and files for readers that describe it alone have in common.
fn stem(name: &str) -> &str {
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    name[file..]
        .find('.')
        .map_or(name, |dot| &name[..file + dot])
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Compares what the manifest says of skipped and odd samples with the records, when all of them were read.
fn check_remarks(manifest: &Manifest, shards: &[&ShardEntry], shared: &Shared<'_>) {
    let remarks = lock(&shared.remarks);
    let said: Vec<_> = shards
        .iter()
        .filter_map(|shard| remarks.get(&shard.name))
        .collect();
    if said.len() != shards.len() {
        return;
    }
    for (what, listed, records) in [
        (
            "skipped",
            &manifest.skipped,
            said.iter().flat_map(|said| &said.0).collect::<Vec<_>>(),
        ),
        (
            "odd",
            &manifest.odd,
            said.iter().flat_map(|said| &said.1).collect(),
        ),
    ] {
        if !listed.iter().eq(records.iter().copied()) {
            let finding = Finding::new(
                MANIFEST,
                format!("its list of {what} samples is not that of the records"),
            );
            let counts = (records.len(), listed.len());
            lock(&shared.report).findings.push(finding.values(
                format!("{} samples", counts.0),
                format!("{} samples, or other words", counts.1),
            ));
        }
    }
}

fn failed(shard: &ShardEntry, error: std::io::Error) -> Error {
    Error::io(&shard.name, error)
}

/// Compares what is in a shard with its record; gives length and CRC-32 of the shard as it lies in the store.
fn check_content(
    manifest: &Manifest,
    shard: &ShardEntry,
    raw: Passing<'_>,
    watcher: &mut Watcher<'_>,
) -> Result<(u64, u32)> {
    let record = watcher.record;
    let layout = manifest.recipe.layout();
    let names = &manifest.names;
    let mut compare = |scanner: &mut Scanner<'_>| {
        check(layout.as_ref(), names, scanner, record, watcher)?;
        // Where the check ended early; and decompressors tell of a checksum at the very end.
        scanner.drain()
    };
    let compress = manifest.recipe.compress;
    if compress == Compression::None {
        return compare(&mut Scanner::new(raw)).map_err(|error| failed(shard, error));
    }
    let raw = Raw::new(raw);
    let mut scanner = Scanner::new(unpack(compress, raw.clone(), record.unpacked_bytes())?);
    let compared = compare(&mut scanner);
    match compared {
        Err(error) if raw.failed() => return Err(failed(shard, error)),
        Err(error) => {
            let at = scanner.position();
            let what = format!("cannot be unpacked beyond byte {at} of its content: {error}");
            watcher.findings.push(Finding::new(&shard.name, what));
        }
        Ok(_) => {}
    }
    raw.drain().map_err(|error| failed(shard, error))
}

/// A file that people complete is not as it was written.
fn completed(file: &IndexFile) -> Finding {
    let what =
        "completed by somebody: it is not compared; removed, `shardpack index` writes it again";
    Finding::new(&file.name, what)
}

/// Compares what a shard that somebody else made holds with its record; gives its length and CRC-32.
fn check_walk(
    manifest: &Manifest,
    shard: &ShardEntry,
    raw: Passing<'_>,
    record: &ShardRecord,
    findings: &mut Vec<Finding>,
) -> Result<(u64, u32)> {
    let kind = (manifest.recipe.format, manifest.recipe.compress);
    let most = record.unpacked_bytes();
    // Where the shard has no keys, those of the index stand.
    let first = record
        .samples
        .first()
        .and_then(|row| row.key.rsplit_once('/'));
    let keys = first.map_or("", |(keys, _)| keys);
    let walked = foreign::walk(&shard.name, keys, kind, raw, most)?;
    findings.extend(walked.found);
    for (there, said) in walked.rows.iter().zip(&record.samples) {
        let finding = |what: &str| Finding::new(&shard.name, what).sample(&said.key);
        if (&there.key, there.offset, there.length) != (&said.key, said.offset, said.length) {
            let text =
                |row: &SampleRecord| format!("`{}` at {}+{}", row.key, row.offset, row.length);
            findings.push(
                finding("another sample than the index says").values(text(said), text(there)),
            );
        }
        for (there, said) in there.fields.iter().zip(&said.fields) {
            if there.crc32 != said.crc32 {
                let finding = finding("content, by crc32").field(&said.name);
                let finding = finding.range(said.offset, said.offset + said.length);
                findings.push(finding.values(crc_text(said.crc32), crc_text(there.crc32)));
            } else if there != said {
                findings.push(finding("another field than the index says").field(&said.name));
            }
        }
        if there.fields.len() != said.fields.len() {
            findings.push(finding("fields").values(said.fields.len(), there.fields.len()));
        }
    }
    if walked.rows.len() != record.samples.len() {
        let finding = Finding::new(&shard.name, "samples in the shard");
        findings.push(finding.values(record.samples.len(), walked.rows.len()));
    }
    Ok(walked.bytes)
}

/// Counts what is read of a shard and ends the reading when the run is to stop.
struct Passing<'a> {
    inner: Box<dyn Read + Send>,
    counters: &'a Counters,
    stop: Stop,
}

impl Read for Passing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stop.check().map_err(std::io::Error::other)?;
        let n = self.inner.read(buffer)?;
        self.counters.read(n as u64);
        Ok(n)
    }
}

/// Watches the check of one shard: labels, and the source's files beside the shard's content.
struct Watcher<'a> {
    record: &'a ShardRecord,
    findings: Vec<Finding>,
    error: Option<Error>,
    source: Option<Beside<'a>>,
}

/// The source's samples in the order of the shard.
struct Beside<'a> {
    ahead: Lookahead<'a>,
    /// Sample of the shard that `files` belongs to.
    at: Option<usize>,
    present: Vec<bool>,
    files: Vec<File<'a>>,
    /// Files of samples before it whose content comes later in the shard, by sample.
    behind: Option<HashMap<usize, Vec<File<'a>>>>,
}

/// One file of the source, compared piece by piece.
struct File<'a> {
    name: String,
    size: u64,
    content: Reading<'a>,
    compared: u64,
    differs: Option<u64>,
    /// Whether the field's content was read to its end.
    done: bool,
}

enum Reading<'a> {
    Held(Buffer),
    Large(Large<'a>),
    Failed(String),
}

impl<'a> Watcher<'a> {
    fn new(
        verification: &'a Verification<'_>,
        record: &'a ShardRecord,
        manifest: &Manifest,
        shared: &'a Shared<'_>,
    ) -> Self {
        let mut watcher = Self {
            record,
            findings: Vec::new(),
            error: None,
            source: None,
        };
        for sample in &record.samples {
            let classes = manifest.names.classes.len();
            if sample.label as usize >= classes && sample.label != NO_LABEL {
                let finding = Finding::new(&record.shard, "label")
                    .sample(&sample.key)
                    .values(format!("below {classes}"), sample.label);
                watcher.findings.push(finding);
            }
        }
        let Some(set) = &shared.source else {
            return watcher;
        };
        let generated = manifest.recipe.layout().generated();
        let made = |field: &FieldRecord| {
            let filling = filling(&field.name);
            let filled = manifest.recipe.missing == Missing::Fill
                && manifest.names.sidecars.contains(&field.name)
                && (field.length, field.crc32) == (filling.len() as u64, crc32fast::hash(filling));
            filled || generated.contains(&field.name.as_str())
        };
        let mut present = Vec::with_capacity(record.samples.len());
        let mut samples = Vec::new();
        for row in &record.samples {
            let met = set.meet(&row.key);
            present.push(met.is_some());
            let finding = Finding::new(&record.shard, String::new()).sample(&row.key);
            match met {
                None => watcher.findings.push(Finding {
                    what: "is in the dataset, not in the source".to_owned(),
                    ..finding
                }),
                Some((sample, before)) => {
                    if before {
                        watcher.findings.push(Finding {
                            what: "is in the dataset twice".to_owned(),
                            ..finding
                        });
                    }
                    for field in &row.fields {
                        if !made(field) && !sample.fields.iter().any(|f| f.name == field.name) {
                            let finding =
                                Finding::new(&record.shard, "is in the dataset, not in the source")
                                    .sample(&row.key)
                                    .field(&field.name);
                            watcher.findings.push(finding);
                        }
                    }
                    for field in &sample.fields {
                        if !row.fields.iter().any(|f| f.name == field.name) {
                            let finding = Finding::new(
                                field.path.to_string(),
                                "is in the source, not in the dataset",
                            )
                            .sample(&row.key)
                            .field(&field.name);
                            watcher.findings.push(finding);
                        }
                    }
                    samples.push(Ok((0, sample)));
                }
            }
        }
        let window = verification.window_bytes;
        watcher.source = Some(Beside {
            ahead: Lookahead::new(set.against.source, samples.into_iter(), window),
            at: None,
            present,
            files: Vec::new(),
            behind: manifest.recipe.layout().defers().then(HashMap::new),
        });
        watcher
    }
}

impl<'a> Beside<'a> {
    /// Lets go of a sample that waited, once all of its files were compared.
    fn forget(&mut self, sample: usize) {
        if let Some(behind) = &mut self.behind
            && behind
                .get(&sample)
                .is_some_and(|files| files.iter().all(|file| file.done))
        {
            behind.remove(&sample);
        }
    }

    /// A file of the sample entered last, or of one before it that waits.
    fn file(&mut self, sample: usize, name: &str) -> Option<&mut File<'a>> {
        let files = match (&mut self.behind, self.at) {
            (Some(behind), Some(now)) if sample < now => behind.get_mut(&sample)?,
            _ => &mut self.files,
        };
        files.iter_mut().find(|file| file.name == name)
    }

    /// Moves on to the files of sample `at`.
    fn enter(&mut self, at: usize) -> Result<()> {
        if self.at.is_some_and(|now| now >= at) {
            return Ok(());
        }
        let next = self.at.map_or(0, |now| now + 1);
        if let (Some(behind), Some(now)) = (&mut self.behind, self.at) {
            // As little as what the packer let wait.
            let waiting: Vec<File<'_>> = self.files.drain(..).filter(|file| !file.done).collect();
            if !waiting.is_empty() {
                behind.insert(now, waiting);
            }
        }
        self.at = Some(at);
        self.files.clear();
        // Samples whose members were not reached are passed over.
        for sample in next..=at {
            if !self.present.get(sample).copied().unwrap_or(false) {
                continue;
            }
            let Some(fetched) = self.ahead.fetch() else {
                return Ok(());
            };
            let fetched = fetched?;
            if sample < at {
                continue;
            }
            for (field, content) in fetched.sample.fields.iter().zip(fetched.contents) {
                let content = match content {
                    Ok(Content::Held(bytes)) => Reading::Held(bytes),
                    Ok(Content::Large(large)) => Reading::Large(large),
                    Err(error) if error.kind() == Kind::Source => {
                        Reading::Failed(error.to_string())
                    }
                    Err(error) => return Err(error),
                };
                self.files.push(File {
                    name: field.name.clone(),
                    size: field.size,
                    content,
                    compared: 0,
                    differs: None,
                    done: false,
                });
            }
        }
        Ok(())
    }
}

impl File<'_> {
    fn compare(&mut self, piece: &[u8]) {
        let from = self.compared;
        self.compared += piece.len() as u64;
        if self.differs.is_some() {
            return;
        }
        let mut read = Vec::new();
        let theirs: &[u8] = match &mut self.content {
            Reading::Held(bytes) => {
                let start = (from as usize).min(bytes.len());
                &bytes[start..(start + piece.len()).min(bytes.len())]
            }
            Reading::Large(large) => match large.take(piece.len() as u64).read_to_end(&mut read) {
                Ok(_) => &read,
                Err(error) => {
                    self.content = Reading::Failed(error.to_string());
                    return;
                }
            },
            Reading::Failed(_) => return,
        };
        if theirs != piece {
            let same = theirs.iter().zip(piece).take_while(|(a, b)| a == b).count();
            self.differs = Some(from + same as u64);
        }
    }
}

impl Watch for Watcher<'_> {
    fn piece(&mut self, sample: usize, field: usize, piece: &[u8]) {
        let row = &self.record.samples[sample];
        let name = &row.fields[field].name;
        let Some(beside) = &mut self.source else {
            return;
        };
        if let Err(error) = beside.enter(sample) {
            self.error.get_or_insert(error);
            return;
        }
        if let Some(file) = beside.file(sample, name) {
            file.compare(piece);
        }
    }

    fn field_end(&mut self, sample: usize, field: usize) {
        let row = &self.record.samples[sample];
        let place = &row.fields[field];
        let finding = |what: &str| {
            Finding::new(&self.record.shard, what)
                .sample(&row.key)
                .field(&place.name)
                .range(place.offset, place.offset + place.length)
        };
        let Some(beside) = &mut self.source else {
            return;
        };
        // A content of no bytes came without a piece.
        if let Err(error) = beside.enter(sample) {
            self.error.get_or_insert(error);
            return;
        }
        let Some(file) = beside.file(sample, &place.name) else {
            return;
        };
        file.done = true;
        if let Reading::Failed(why) = &file.content {
            self.findings.push(finding(&format!(
                "cannot be compared with the source: {why}"
            )));
        } else if file.size != place.length {
            let finding = finding("has another length than the source's file");
            self.findings.push(finding.values(file.size, place.length));
        } else if let Some(at) = file.differs {
            let finding = finding("differs from the source's file")
                .range(place.offset + at, place.offset + place.length);
            self.findings.push(finding);
        }
        beside.forget(sample);
    }

    fn finding(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}
