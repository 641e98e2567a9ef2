//! Random histories of a destination, and `gc` at any moment of them: what can be reached stays, what cannot goes.
//!
//! Objects are names with contents and times in a map, plans and manifests are real ones. `SHARDPACK_SEED=N` tries one history again,
//! `SHARDPACK_HISTORIES=N` so many.

use std::collections::{BTreeSet, HashSet};
use std::io::BufRead;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;
use crate::base::error::Kind;
use crate::model::manifest::{
    IndexFile, MANIFEST_KIND, Manifest, ShardEntry, SplitEntry, snapshot_name,
};
use crate::model::name::ObjectName;
use crate::model::record::index_name;
use crate::plan::value::{Base, PLAN_KIND, Plan, ShardPlan};
use crate::state::names::{Part, claim_name, plan_file};
use crate::state::plans::Stored;
use crate::store::{Leftover, ObjectMeta, ShardWriter, StoredChecksum};

/// Histories when nothing is said.
const HISTORIES: u64 = 10_000;
/// Things that happen in each.
const EVENTS: u64 = 30;
const HOUR: u64 = 3600;
/// No run stands still for as long as the youngest garbage is old.
const PATIENCE: u64 = 24 * HOUR;
const SPLIT: &str = "train";
/// Names like ours, and not ours.
const THEIRS: [&str; 7] = [
    "data/train-99999.tar",
    "data/train-00000.tar.bak",
    "data/notes.txt",
    "index/mine.parquet",
    "notes.md",
    "_shardpack/mine.json",
    "_shardpack/plan/readme.txt",
];

/// A plan and how far it got.
#[derive(Clone)]
struct Work {
    id: String,
    digest: String,
    plan: Plan,
    /// When somebody last began to work on it.
    since: u64,
    claimed: bool,
    /// Its parts are stored.
    stored: bool,
}

/// A destination and all that happened to it.
struct Destination {
    random: fastrand::Rng,
    now: u64,
    objects: BTreeMap<String, (u64, Bytes)>,
    work: Vec<Work>,
    /// Every manifest that was published, by number.
    published: BTreeMap<u64, Manifest>,
    /// A manifest that somebody is about to publish, since when.
    prepared: Vec<(u64, Manifest)>,
    theirs: Tree,
    drafts: u64,
}

/// The reader index beside a shard.
fn reader_index(shard: &str) -> String {
    shard.replace(".tar", ".idx")
}

/// All that a shard has.
fn files(shard: &str) -> [String; 3] {
    [shard.to_owned(), index_name(shard), reader_index(shard)]
}

/// What an object of this plan contains.
fn content(digest: &str, name: &str) -> Bytes {
    Bytes::from(format!("{digest} {name}"))
}

fn plan_part(id: &str, file: &str) -> String {
    format!("_shardpack/plan/{id}/{file}")
}

impl Destination {
    fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            now: 1_000_000,
            objects: BTreeMap::new(),
            work: Vec::new(),
            published: BTreeMap::new(),
            prepared: Vec::new(),
            theirs: Tree::new(),
            drafts: 0,
        }
    }

    fn put(&mut self, name: &str, content: Bytes) {
        self.objects.insert(name.to_owned(), (self.now, content));
    }

    fn age(&self, name: &str) -> Option<u64> {
        self.objects.get(name).map(|(time, _)| self.now - time)
    }

    /// The newest snapshot there is, which whoever publishes goes on to.
    fn newest(&self) -> Option<&Manifest> {
        self.published.values().next_back()
    }

    /// The plan that was claimed last.
    fn owner(&self) -> Option<&Work> {
        let claimed = self.work.iter().filter(|work| work.claimed);
        claimed.max_by_key(|work| work.plan.generation)
    }

    /// Whether it can still be published, or a run may just be at it.
    fn is_open(&self, work: &Work, older_than: u64) -> bool {
        let goes_on = work.plan.base.as_ref().map(|base| base.plan.as_str());
        let is_owner = self.owner().is_some_and(|owner| owner.id == work.id);
        let age = self.age(&claim_name(work.plan.generation));
        let is_young = |age: Option<u64>| age.is_some_and(|age| age < older_than);
        work.claimed
            && (goes_on == self.newest().map(|manifest| manifest.plan.as_str())
                || is_owner
                || is_young(age)
                || is_young(self.overtaken(goes_on)))
    }

    /// How long ago it was that what goes on from this plan could still be published.
    fn overtaken(&self, plan: Option<&str>) -> Option<u64> {
        let of = |manifest: &Manifest| Some(manifest.plan.as_str()) == plan;
        let last = self.published.values().rfind(|manifest| of(manifest));
        let next = match plan {
            None => 1,
            Some(_) => last?.snapshot + 1,
        };
        self.age(&snapshot_name(next))
    }

    /// Something happens; `quick` while `gc` is at work.
    fn happens(&mut self, quick: bool) {
        match self.random.u8(0..if quick { 16 } else { 22 }) {
            0..=1 => self.draft(),
            2..=4 => self.store(),
            5..=7 => self.pack(quick),
            8..=9 => self.prepare(),
            10..=11 => self.publish(),
            12..=13 => self.convert(),
            14 => self.index(),
            15 => self.adds_theirs(),
            16..=17 => self.now += self.random.u64(0..6) * HOUR,
            _ => self.now += self.random.u64(12..80) * HOUR,
        }
    }

    /// Somebody plans.
    fn draft(&mut self) {
        let generation = self.owner().map_or(0, |owner| owner.plan.generation) + 1;
        // Whoever runs again what ended before its claim has the same plan, and stores it anew.
        let published = self.newest().map(|newest| newest.plan.clone());
        let same = |work: &Work| {
            let base = work.plan.base.as_ref().map(|base| &base.plan);
            !work.claimed && work.plan.generation == generation && base == published.as_ref()
        };
        if let Some(at) = self.work.iter().position(same)
            && self.random.bool()
        {
            self.work[at].since = self.now;
            self.work[at].stored = false;
            return (0..2).for_each(|_| self.store_one(at));
        }
        let mut next: u64 = 0;
        let planned = self
            .owner()
            .into_iter()
            .flat_map(|owner| &owner.plan.shards);
        let mut names: Vec<String> = planned.map(|shard| shard.name.to_string()).collect();
        let start = self
            .owner()
            .and_then(|o| o.plan.numbers.get(SPLIT).copied());
        let newest = self.newest().cloned();
        let there: Vec<String> = newest
            .iter()
            .flat_map(|manifest| manifest.shards().map(|(_, shard)| shard.name.clone()))
            .collect();
        names.extend(there.iter().cloned());
        for name in names {
            next = next.max(name["data/train-".len()..][..5].parse::<u64>().unwrap() + 1);
        }
        next = next.max(start.unwrap_or(0));
        let full = self.random.u8(0..5) == 0;
        let mut shards = Vec::new();
        let mut stay = Vec::new();
        for name in there.iter().filter(|_| !full) {
            match self.random.u8(0..6) {
                0 => {
                    let number = &name["data/train-".len()..][..5];
                    let new = format!("data/train-{number}-g{generation}.tar");
                    shards.push((new, Some(name.clone())));
                    stay.push(object(name));
                }
                1 => {}
                _ => stay.push(object(name)),
            }
        }
        let numbers = [(SPLIT.to_owned(), next)].into();
        for number in 0..self.random.u64(1..4) {
            shards.push((format!("data/train-{:05}.tar", next + number), None));
        }
        self.drafts += 1;
        let shard = |(name, replaces): (String, Option<String>)| ShardPlan {
            name: object(&name),
            split: SPLIT.to_owned(),
            replaces: replaces.as_deref().map(object),
            samples: 1,
            bytes: 1,
            source_bytes: 1,
            listing: String::new(),
            listing_bytes: 0,
            unversioned: self.drafts.to_string(),
        };
        let plan = Plan {
            kind: PLAN_KIND.to_owned(),
            version: 1,
            generation,
            base: newest.map(|manifest| Base {
                plan: manifest.plan,
                shards: match stay.is_empty() {
                    true => BTreeMap::new(),
                    false => [(SPLIT.to_owned(), stay)].into(),
                },
            }),
            source: String::new(),
            derived_from: None,
            stale: 0,
            numbers,
            recipe: recipe(0, Cut::Shards(1)),
            names: Default::default(),
            splits: vec![SPLIT.to_owned()],
            shards: shards.into_iter().map(shard).collect(),
        };
        self.work.push(Work {
            id: plan.id(),
            digest: plan.digest(),
            plan,
            since: self.now,
            claimed: false,
            stored: false,
        });
    }

    /// Somebody stores a plan, or claims it, or is too late for that. Runs that stood still for too long are ended.
    fn store(&mut self) {
        let now = self.now;
        let open = |work: &Work| !work.claimed && now - work.since < PATIENCE;
        let some: Vec<usize> = (0..self.work.len())
            .filter(|&i| open(&self.work[i]))
            .collect();
        if let Some(&at) = self.random.choice(&some) {
            self.store_one(at);
        }
    }

    fn store_one(&mut self, at: usize) {
        let work = self.work[at].clone();
        if !work.stored {
            self.put(
                &plan_part(&work.id, "samples.jsonl.zst"),
                content(&work.id, "samples"),
            );
            if self.random.u8(0..8) == 0 {
                return;
            }
            let stored = Stored {
                id: work.id.clone(),
                digest: work.digest.clone(),
                frames: vec![[0, 0]; work.plan.shards.len()],
                samples_crc32: None,
                plan: work.plan,
                fresh: false,
                revised: Default::default(),
            };
            let text = serde_json::to_vec(&stored).unwrap();
            self.put(&plan_part(&work.id, "plan.json"), text.into());
            self.work[at].stored = true;
            return;
        }
        let claim = claim_name(work.plan.generation);
        if !self.objects.contains_key(&claim) {
            let text = format!(r#"{{"kind":"shardpack-claim","plan_id":"{}"}}"#, work.id);
            self.put(&claim, text.into());
            self.work[at].claimed = true;
            let source = plan_part(&work.id, "source");
            self.put(&source, content(&work.id, "source"));
        }
    }

    /// A worker packs some shards, perhaps of a plan that was given up.
    fn pack(&mut self, quick: bool) {
        let packable = |work: &Work| {
            let there = self.objects.contains_key(&plan_part(&work.id, "plan.json"));
            work.claimed && there && (!quick || self.is_open(work, PATIENCE))
        };
        let some: Vec<&Work> = self.work.iter().filter(|work| packable(work)).collect();
        let mut random = self.random.clone();
        let Some(work) = random.choice(some).cloned() else {
            return;
        };
        self.random = random;
        for shard in &work.plan.shards {
            if self.random.u8(0..8) == 0 {
                continue;
            }
            self.put(&shard.name, content(&work.digest, &shard.name));
            if self.random.u8(0..6) > 0 {
                let index = index_name(&shard.name);
                self.put(&index, content(&work.digest, &index));
            }
        }
    }

    /// Somebody does all of it without a pause.
    fn convert(&mut self) {
        self.draft();
        let at = self.work.len() - 1;
        (0..3).for_each(|_| self.store_one(at));
        let work = self.work[at].clone();
        if work.claimed {
            for shard in &work.plan.shards {
                for name in [shard.name.to_string(), index_name(&shard.name)] {
                    let content = content(&work.digest, &name);
                    self.put(&name, content);
                }
            }
            self.prepare();
            self.publish();
        }
    }

    /// Somebody looks whether all shards of a plan are there, to publish it.
    fn prepare(&mut self) {
        let there = |shard: &ShardPlan| {
            self.objects.contains_key(shard.name.as_str())
                && self.objects.contains_key(&index_name(&shard.name))
        };
        let base = self.newest();
        let publishable = |work: &&Work| {
            let goes_on = work.plan.base.as_ref().map(|base| &base.plan);
            work.claimed
                && goes_on == base.map(|base| &base.plan)
                && work.plan.shards.iter().all(there)
        };
        let Some(work) = self.work.iter().find(publishable) else {
            return;
        };
        let entries: BTreeMap<&str, ShardEntry> = base
            .iter()
            .flat_map(|base| {
                base.shards().map(|(_, shard)| {
                    let plan = Some(base.plan_of(shard).to_owned());
                    (
                        shard.name.as_str(),
                        ShardEntry {
                            plan,
                            ..shard.clone()
                        },
                    )
                })
            })
            .chain(work.plan.shards.iter().map(|shard| {
                let entry = ShardEntry {
                    name: shard.name.to_string(),
                    samples: 1,
                    bytes: 1,
                    unpacked_bytes: None,
                    crc32: String::new(),
                    sha256: None,
                    index: index_name(&shard.name),
                    index_bytes: 1,
                    index_crc32: String::new(),
                    plan: None,
                };
                (shard.name.as_str(), entry)
            }))
            .collect();
        let names = work.plan.dataset().into_values().flatten();
        let manifest = Manifest {
            kind: MANIFEST_KIND.to_owned(),
            version: 1,
            name: "data".to_owned(),
            snapshot: base.map_or(1, |base| base.snapshot + 1),
            plan: work.digest.clone(),
            recipe: work.plan.recipe.clone(),
            samples: 1,
            bytes: 1,
            derived_from: None,
            names: Default::default(),
            splits: vec![SplitEntry {
                name: SPLIT.to_owned(),
                samples: 1,
                bytes: 1,
                shards: names.map(|name| entries[name].clone()).collect(),
            }],
            indexes: Vec::new(),
            skipped: Vec::new(),
            odd: Vec::new(),
        };
        let since = self.now;
        self.prepared.push((since, manifest));
    }

    /// A prepared snapshot is put, unless another one is there; perhaps the run ends before it puts the manifest.
    fn publish(&mut self) {
        if self.prepared.is_empty() {
            return;
        }
        let at = self.random.usize(0..self.prepared.len());
        let (since, manifest) = self.prepared.swap_remove(at);
        if self.now - since < PATIENCE {
            self.commit(manifest);
        }
    }

    fn commit(&mut self, manifest: Manifest) {
        let name = snapshot_name(manifest.snapshot);
        if self.objects.contains_key(&name) {
            return;
        }
        let text: Bytes = manifest.encode().unwrap().into();
        self.put(&name, text.clone());
        self.published.insert(manifest.snapshot, manifest);
        if self.random.u8(0..6) > 0 {
            self.put(MANIFEST, text);
        }
    }

    /// A reader index is added: the same shards in the next snapshot. Perhaps the run ends before that.
    fn index(&mut self) {
        let Some(manifest) = self.newest().cloned() else {
            return;
        };
        let mut indexes = Vec::new();
        for (_, shard) in manifest.shards() {
            let name = reader_index(&shard.name);
            let content = content(manifest.plan_of(shard), &name);
            indexes.push(IndexFile {
                reader: "dali".to_owned(),
                name: name.clone(),
                bytes: content.len() as u64,
                crc32: String::new(),
            });
            self.put(&name, content);
        }
        if self.random.u8(0..4) > 0 {
            self.commit(Manifest {
                snapshot: manifest.snapshot + 1,
                indexes,
                ..manifest
            });
        }
    }

    fn adds_theirs(&mut self) {
        let name = THEIRS[self.random.usize(0..THEIRS.len())];
        let content = Bytes::from("theirs");
        self.put(name, content.clone());
        self.theirs.insert(name.to_owned(), content);
    }

    /// Everything that somebody may want is there.
    fn assert_whole(&self, context: &str) {
        let has = |name: &str, content: &Bytes, why: &str| {
            let there = self.objects.get(name).map(|(_, content)| content);
            assert!(there == Some(content), "{context}: {name} is gone, {why}");
        };
        for manifest in self.published.values() {
            let snapshot = snapshot_name(manifest.snapshot);
            let text = Bytes::from(manifest.encode().unwrap());
            let current = self.objects.get(MANIFEST).map(|(_, text)| text) == Some(&text);
            if !self.objects.contains_key(&snapshot) && !current {
                continue;
            }
            for (_, shard) in manifest.shards() {
                let digest = manifest.plan_of(shard);
                has(&shard.name, &content(digest, &shard.name), &snapshot);
                has(&shard.index, &content(digest, &shard.index), &snapshot);
                let reader = reader_index(&shard.name);
                if manifest.indexes.iter().any(|file| file.name == reader) {
                    has(&reader, &content(digest, &reader), &snapshot);
                }
                let is_it = |work: &&Work| work.digest == digest && work.claimed;
                let work = self.work.iter().find(is_it).unwrap();
                self.has_plan(work, context, &snapshot);
            }
        }
        if let Some(newest) = self.newest() {
            let text = newest.encode().unwrap().into();
            has(&snapshot_name(newest.snapshot), &text, "the newest");
            // What tells a repair the history.
            let mut digest = Some(newest.plan.clone());
            while let Some(of) = digest {
                let work = self.work.iter().find(|work| work.digest == of).unwrap();
                let name = plan_part(&work.id, "plan.json");
                assert!(
                    self.objects.contains_key(&name),
                    "{context}: {name} is gone"
                );
                digest = work.plan.base.as_ref().map(|base| base.plan.clone());
            }
        }
        // Readers may still have it open.
        for (number, next) in self.published.keys().zip(self.published.keys().skip(1)) {
            let replaced = self.age(&snapshot_name(*next));
            if replaced.is_some_and(|age| age < PATIENCE) {
                let text = self.published[number].encode().unwrap().into();
                has(
                    &snapshot_name(*number),
                    &text,
                    "it was replaced not long ago",
                );
            }
        }
        for work in self.work.iter().filter(|work| work.claimed) {
            let claim = claim_name(work.plan.generation);
            assert!(self.objects.contains_key(&claim), "{context}: {claim}");
            if self.is_open(work, PATIENCE) {
                self.has_plan(work, context, "it can be published");
            }
        }
        for (name, content) in &self.theirs {
            has(name, content, "which is not ours");
        }
        let manifests = self.prepared.iter();
        for (_, manifest) in manifests.filter(|(since, manifest)| {
            let snapshot = snapshot_name(manifest.snapshot);
            self.now - since < PATIENCE && !self.objects.contains_key(&snapshot)
        }) {
            for (_, shard) in manifest.shards() {
                let digest = manifest.plan_of(shard);
                has(
                    &shard.name,
                    &content(digest, &shard.name),
                    "to be published",
                );
            }
        }
    }

    fn has_plan(&self, work: &Work, context: &str, why: &str) {
        for file in ["plan.json", "samples.jsonl.zst"] {
            let name = plan_part(&work.id, file);
            assert!(
                self.objects.contains_key(&name),
                "{context}: {name} is gone, {why}"
            );
        }
    }

    /// Nothing of ours is left that is old and that nobody can want. Said here in another way than there.
    fn assert_clean(&self, rules: &RemovalRules, context: &str) {
        let older_than = rules.older_than.as_secs();
        let (mut names, mut digests) = (HashSet::new(), HashSet::new());
        let there: Vec<u64> = self
            .published
            .keys()
            .copied()
            .filter(|number| self.objects.contains_key(&snapshot_name(*number)))
            .collect();
        let current = self.objects.get(MANIFEST);
        let current = current.map(|(_, text)| Manifest::decode("", text).unwrap());
        for manifest in there
            .iter()
            .map(|number| &self.published[number])
            .chain(&current)
        {
            digests.insert(manifest.plan.clone());
            for (_, shard) in manifest.shards() {
                digests.insert(manifest.plan_of(shard).to_owned());
                names.extend(files(&shard.name));
            }
        }
        for work in self
            .work
            .iter()
            .filter(|work| self.is_open(work, older_than))
        {
            let shards = work.plan.shards.iter();
            names.extend(shards.flat_map(|shard| files(&shard.name)));
            digests.insert(work.digest.clone());
        }
        let ours: HashSet<String> = self
            .work
            .iter()
            .filter(|work| work.claimed)
            .flat_map(|work| &work.plan.shards)
            .flat_map(|shard| files(&shard.name))
            .collect();
        let last_claim = self.owner().map(|owner| claim_name(owner.plan.generation));
        let last_claim = last_claim
            .and_then(|claim| self.age(&claim))
            .unwrap_or(u64::MAX);
        for name in self.objects.keys() {
            let age = self.age(name).unwrap_or(0);
            if age < older_than {
                continue;
            }
            let is_ours = ours.contains(name) && !self.theirs.contains_key(name);
            assert!(
                !is_ours || names.contains(name),
                "{context}: {name} is left"
            );
            let Some((id, part)) = plan_file(name) else {
                continue;
            };
            let work = self.work.iter().find(|work| work.id == id).unwrap();
            let is_unclaimed = !work.claimed && age <= last_claim;
            // The rest of it may have been written later, and a plan stays until its shards are gone.
            let youngest = self.objects.keys().filter(|name| name.contains(id));
            let youngest = youngest
                .filter_map(|name| self.age(name))
                .min()
                .unwrap_or(0);
            let shards = work.plan.shards.iter();
            let has_young = shards
                .flat_map(|shard| files(&shard.name))
                .filter_map(|name| self.age(&name));
            let has_young = has_young.min().is_some_and(|age| age < older_than);
            let waits =
                (!work.claimed && youngest <= last_claim) || (has_young && part == Part::Plan);
            let tells = part == Part::Plan && work.claimed;
            assert!(
                digests.contains(&work.digest) || is_unclaimed || waits || tells,
                "{context}: {name} is left, {age} s old, claimed: {}, generation {}",
                work.claimed,
                work.plan.generation
            );
        }
        if let (Some(keep), Some(current)) = (rules.keep, current) {
            for (at, number) in there.iter().enumerate() {
                let stays = at + keep >= there.len() || *number >= current.snapshot;
                let next = there
                    .get(at + 1)
                    .and_then(|next| self.age(&snapshot_name(*next)));
                assert!(
                    stays || next.is_some_and(|age| age < older_than),
                    "{context}: snapshot {number} of {there:?} is left"
                );
            }
        }
    }
}

/// The store that `gc` sees, in which other things happen at one of its calls, and which ends at another.
struct Shop<'a> {
    destination: &'a Mutex<Destination>,
    calls: AtomicUsize,
    happens: Option<usize>,
    removals: AtomicUsize,
    ends: Option<usize>,
}

impl Shop<'_> {
    fn quiet(destination: &Mutex<Destination>) -> Shop<'_> {
        Shop {
            destination,
            calls: AtomicUsize::new(0),
            happens: None,
            removals: AtomicUsize::new(0),
            ends: None,
        }
    }

    fn call<T>(&self, work: impl FnOnce(&mut Destination) -> T) -> T {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if self.happens == Some(call) {
            let other_gc = self.destination.lock().unwrap().random.u8(0..5) == 0;
            match other_gc {
                true => {
                    let rules = rules(&mut self.destination.lock().unwrap().random);
                    collect(&Shop::quiet(self.destination), &rules).unwrap();
                }
                false => (0..8).for_each(|_| self.destination.lock().unwrap().happens(true)),
            }
        }
        work(&mut self.destination.lock().unwrap())
    }
}

impl std::fmt::Display for Shop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("memory")
    }
}

fn not_asked<T>() -> Result<T> {
    Err(Error::failed("gc does not ask for that"))
}

impl Sink for Shop<'_> {
    fn create(&self, _: &str, _: u64) -> Result<Box<dyn ShardWriter>> {
        not_asked()
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let content = |there: &mut Destination| there.objects.get(name).map(|(_, c)| c.clone());
        Ok(self.call(content))
    }

    fn range(&self, _: &str, _: u64, _: usize) -> Result<Bytes> {
        not_asked()
    }

    fn open(&self, _: &str) -> Result<Box<dyn BufRead + Send>> {
        not_asked()
    }

    fn put(&self, _: &str, _: &[u8]) -> Result<()> {
        not_asked()
    }

    fn put_if_absent(&self, _: &str, _: &[u8]) -> Result<bool> {
        not_asked()
    }

    fn check_exclusive(&self, _: &str, _: &[u8]) -> Result<()> {
        not_asked()
    }

    fn list_with_ages(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        Ok(self.call(|there| {
            let now = there.now;
            let aged = |(name, (time, content)): (&String, &(u64, Bytes))| ObjectMeta {
                name: name.clone(),
                bytes: content.len() as u64,
                age: Duration::from_secs(now - time),
            };
            let below = |(name, _): &(&String, _)| name.starts_with(prefix);
            there.objects.iter().filter(below).map(aged).collect()
        }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let removal = self.removals.fetch_add(1, Ordering::SeqCst);
        if self.ends.is_some_and(|ends| removal >= ends) {
            return Err(Error::new(Kind::Transient, "as asked for"));
        }
        self.call(|there| there.objects.remove(name));
        Ok(())
    }

    fn sweep(&self) -> Result<u64> {
        not_asked()
    }

    fn leftovers(&self) -> Result<Vec<Leftover>> {
        Ok(Vec::new())
    }

    fn discard(&self, _: &Leftover) -> Result<()> {
        not_asked()
    }

    fn stored_checksum(&self, _: &str) -> Result<StoredChecksum> {
        not_asked()
    }

    fn requests(&self) -> usize {
        1
    }

    fn writing_bytes(&self) -> u64 {
        0
    }

    fn reading_bytes(&self) -> u64 {
        0
    }

    fn check_apart(&self, _: &str) -> Result<()> {
        not_asked()
    }
}

fn object(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

fn rules(random: &mut fastrand::Rng) -> RemovalRules {
    RemovalRules {
        older_than: Duration::from_secs(random.u64(1..4) * PATIENCE),
        keep: random.bool().then(|| random.usize(1..4)),
        dry_run: false,
    }
}

/// Gives how many snapshots there were, how often `gc` ran, was ended, or something happened meanwhile, and how much it removed.
fn lives(seed: u64) -> [u64; 5] {
    let destination = Mutex::new(Destination::new(seed));
    let [mut runs, mut ended, mut disturbed, mut removed] = [0; 4];
    for event in 0..EVENTS {
        let context = format!("seed {seed}, event {event}");
        let mut there = destination.lock().unwrap();
        if there.random.u8(0..5) > 0 {
            there.happens(false);
            continue;
        }
        let rules = rules(&mut there.random);
        let random = &mut there.random;
        let (ends, happens) = match random.u8(0..3) {
            0 => (Some(random.usize(0..4)), None),
            1 => (None, Some(random.usize(0..30))),
            _ => (None, None),
        };
        drop(there);
        let shop = Shop {
            happens,
            ends,
            ..Shop::quiet(&destination)
        };
        let before: BTreeSet<String> = destination
            .lock()
            .unwrap()
            .objects
            .keys()
            .cloned()
            .collect();
        let result = collect(&shop, &rules);
        let there = destination.lock().unwrap();
        runs += 1;
        removed += before
            .iter()
            .filter(|name| !there.objects.contains_key(*name))
            .count() as u64;
        disturbed += u64::from(happens.is_some_and(|at| at < shop.calls.into_inner()));
        there.assert_whole(&context);
        match result {
            Ok(_) if happens.is_none() => there.assert_clean(&rules, &context),
            Ok(_) => {}
            Err(error) => {
                assert!(ends.is_some(), "{context}: {error}");
                ended += 1;
            }
        }
    }
    let snapshots = destination.into_inner().unwrap().published.len() as u64;
    [snapshots, runs, ended, disturbed, removed]
}

#[test]
fn in_ten_thousand_histories_gc_removes_what_nothing_can_reach_and_nothing_else() {
    let begun = Instant::now();
    let first = number("SHARDPACK_SEED");
    let count = number("SHARDPACK_HISTORIES").unwrap_or(match first {
        Some(_) => 1,
        None => HISTORIES,
    });
    let first = first.unwrap_or(1);
    let seeds: Vec<u64> = (first..first + count).collect();
    let sums = store::at_once(2, &seeds, |&seed| Ok(lives(seed))).unwrap();
    let [snapshots, runs, ended, disturbed, removed] =
        std::array::from_fn(|i| sums.iter().map(|of| of[i]).sum::<u64>());
    println!(
        "{count} histories: {snapshots} snapshots, {runs} runs of gc, {ended} ended in the middle, {disturbed} with others at work, {removed} objects removed, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    assert!(removed > count || count < 100, "gc does next to nothing");
}
