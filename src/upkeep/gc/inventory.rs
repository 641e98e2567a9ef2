//! What a destination says of itself: its snapshots, its claims and its stored plans.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::model::manifest::{Manifest, SNAPSHOT_DIR, snapshot_name, snapshot_number};
use crate::model::version;
use crate::state::claims::claim;
use crate::state::names::generations_of;
use crate::state::names::plan_file;
use crate::state::plans::load_id;
use crate::state::published::load;
use crate::store::{ObjectMeta, Sink, at_once};
use crate::upkeep::gc::RemovalRules;
use crate::upkeep::gc::objects::{ShardFile, files_of};

/// What a destination says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Inventory {
    /// Numbers of the snapshots that go.
    pub(super) dropped: BTreeSet<u64>,
    /// Shards that a snapshot which stays names.
    pub(super) shards: HashSet<String>,
    /// Indexes of all kinds that it names.
    pub(super) indexes: HashSet<String>,
    /// Digests of the plans those were made under.
    pub(super) digests: HashSet<String>,
    /// Number of the newest snapshot.
    newest: u64,
    /// Digest of its plan.
    pub(super) published: Option<String>,
    /// How long ago another plan took the place of one that was published, by its digest; `None` is the empty destination.
    pub(super) overtaken: HashMap<Option<String>, Duration>,
    /// Ids of the claimed plans, by generation.
    pub(super) claims: BTreeMap<u64, String>,
    /// The stored plans, by id. One that cannot be read is not in it.
    pub(super) plans: HashMap<String, StoredPlan>,
}

/// What counts of a stored plan.
#[derive(Clone, Debug)]
pub(super) struct StoredPlan {
    /// Its digest.
    pub(super) digest: String,
    /// Digest of the plan that it goes on from.
    pub(super) base: Option<String>,
    /// Its shards.
    shards: Vec<String>,
}

impl StoredPlan {
    /// Everything that is made for its shards.
    pub(super) fn files(&self) -> impl Iterator<Item = ShardFile> {
        self.shards.iter().flat_map(|shard| files_of(shard))
    }
}

/// Ages of snapshots, by number.
type SnapshotAges = BTreeMap<u64, Duration>;

/// Reads what the destination says of itself; `objects` were listed before.
pub(super) fn take(
    sink: &dyn Sink,
    objects: &[ObjectMeta],
    rules: &RemovalRules,
) -> Result<Inventory> {
    let manifest = load(sink)?;
    // Listed once more, after the manifest: whatever was published and overtaken since then is among them.
    let ages = snapshot_ages(&sink.list_with_ages(SNAPSHOT_DIR)?);
    let mut inventory = Inventory {
        dropped: dropped(&ages, manifest.as_ref().map(|m| m.snapshot), rules),
        ..Inventory::default()
    };
    if let Some(first) = ages.get(&1) {
        inventory.overtaken.insert(None, *first);
    }
    if let Some(manifest) = manifest {
        inventory.add_snapshot(manifest, &ages);
    }
    // One after the other: each may be as large as the dataset has shards.
    for &number in ages.keys() {
        if !inventory.dropped.contains(&number)
            && let Some(manifest) = snapshot(sink, number)?
        {
            inventory.add_snapshot(manifest, &ages);
        }
    }
    check_versions(sink, &inventory.dropped)?;
    for generation in generations_of(objects.iter().map(|object| object.name.as_str())) {
        if let Some(id) = claim(sink, generation)? {
            inventory.claims.insert(generation, id);
        }
    }
    inventory.plans = stored_plans(sink, objects)?;
    Ok(inventory)
}

impl Inventory {
    /// Adds a snapshot that stays.
    fn add_snapshot(&mut self, manifest: Manifest, ages: &SnapshotAges) {
        if let Some((_, next)) = ages.range(manifest.snapshot + 1..).next() {
            let plan = Some(manifest.plan.clone());
            let overtaken = self.overtaken.entry(plan).or_insert(*next);
            *overtaken = (*overtaken).min(*next);
        }
        if manifest.snapshot >= self.newest {
            self.newest = manifest.snapshot;
            self.published = Some(manifest.plan.clone());
        }
        for (_, shard) in manifest.shards() {
            self.digests.insert(manifest.plan_of(shard).to_owned());
            self.shards.insert(shard.name.clone());
            self.indexes.insert(shard.index.clone());
        }
        let readers = manifest.indexes.into_iter().map(|file| file.name);
        self.indexes.extend(readers);
        self.digests.insert(manifest.plan);
    }
}

/// Ages of the snapshots among these objects, by number.
fn snapshot_ages(objects: &[ObjectMeta]) -> SnapshotAges {
    objects
        .iter()
        .filter_map(|object| Some((snapshot_number(&object.name)?, object.age)))
        .collect()
}

/// Which snapshots go: those before the last so many, once what took their place is old enough that nobody reads them any more.
/// `published` is the one that readers open.
fn dropped(ages: &SnapshotAges, published: Option<u64>, rules: &RemovalRules) -> BTreeSet<u64> {
    let Some(keep) = rules.keep else {
        return BTreeSet::new();
    };
    let numbers: Vec<u64> = ages.keys().copied().collect();
    let before = numbers.len().saturating_sub(keep.max(1));
    let old = |at: usize| ages[&numbers[at]] >= rules.older_than;
    (0..before)
        .filter(|&at| old(at) && old(at + 1))
        .map(|at| numbers[at])
        .filter(|&number| published.is_some_and(|published| number < published))
        .collect()
}

/// A snapshot that stays; `None` where another `gc` was first. One that is damaged may name anything, and ends the run.
fn snapshot(sink: &dyn Sink, number: u64) -> Result<Option<Manifest>> {
    let name = snapshot_name(number);
    let Some(text) = sink.get(&name)? else {
        return Ok(None);
    };
    let manifest = Manifest::decode(&format!("{sink}/{name}"), &text);
    manifest.map(Some).map_err(|error| match error.kind() {
        Kind::Damage => Error::new(
            Kind::Damage,
            format!(
                "{error}\n  nothing was removed, because it may name anything: run `shardpack repair {sink_word}`, or remove that snapshot", sink_word = sink.word()),
        ),
        _ => error,
    })
}

/// Refuses snapshots that a later version wrote, also where they go: an earlier program has no say about a later one's.
fn check_versions(sink: &dyn Sink, dropped: &BTreeSet<u64>) -> Result<()> {
    for name in dropped.iter().copied().map(snapshot_name) {
        if let Some(text) = sink.get(&name)? {
            version::MANIFEST.check(&format!("{sink}/{name}"), &text)?;
        }
    }
    Ok(())
}

/// The stored plans of which a part is among these objects, by id; without those that cannot be read.
fn stored_plans(sink: &dyn Sink, objects: &[ObjectMeta]) -> Result<HashMap<String, StoredPlan>> {
    let ids: BTreeSet<&str> = objects
        .iter()
        .filter_map(|object| plan_file(&object.name))
        .map(|(id, _)| id)
        .collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let plans = at_once(sink.requests(), &ids, |id| {
        let Some(stored) = unless_damaged(load_id(sink, id))? else {
            return Ok(None);
        };
        let shards = stored.plan.shards.into_iter();
        let plan = StoredPlan {
            digest: stored.digest,
            base: stored.plan.base.map(|base| base.plan),
            shards: shards.map(|shard| shard.name.into()).collect(),
        };
        Ok(Some(((*id).to_owned(), plan)))
    })?;
    Ok(plans.into_iter().flatten().collect())
}
