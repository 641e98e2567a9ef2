//! What nothing needs any more is found and removed: what killed runs left half written, and finished objects that no snapshot names and no
//! plan still can.
//!
//! Only names that this program gave are looked at: temporary files and uploads of its own, and what claimed plans, snapshots and claims
//! name. Everything is listed first and judged by what the destination says of itself afterwards, so that what begins meanwhile is in
//! neither list. Removed is in such an order that a run which ends in the middle leaves a dataset whose every snapshot is whole, and
//! knows the rest the next time. Claims stay: numbers are never given twice.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::version;
use crate::model::manifest::{
    MANIFEST, Manifest, SNAPSHOT_DIR, STATE, snapshot_name, snapshot_number,
};
use crate::model::record::index_name;
use crate::publish::companions::{CARD, SUMS};
use crate::publish::readers as index;
use crate::state::published;
use crate::state::stored::{self as resume, Part};
use crate::store::{Leftover, ObjectMeta, Sink, at_once};

/// What to remove.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Younger ones are left alone: no run may stand still for longer.
    pub older_than: Duration,
    /// So many snapshots stay, at least 1; all of them where nothing is said.
    pub keep: Option<usize>,
    /// Nothing is removed.
    pub dry_run: bool,
}

/// What was found, each list in the order in which it is removed.
#[derive(Debug, Default)]
pub struct Found {
    /// Removed, or to be removed.
    pub removed: Vec<Leftover>,
    /// Too young.
    pub young: Vec<Leftover>,
    /// Not of this dataset.
    pub foreign: Vec<Leftover>,
}

/// What a destination says of itself.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Numbers of the snapshots that go.
    pub dropped: BTreeSet<u64>,
    /// Shards that a snapshot which stays names.
    pub shards: HashSet<String>,
    /// Indexes of all kinds that it names.
    pub indexes: HashSet<String>,
    /// Digests of the plans those were made under.
    pub digests: HashSet<String>,
    /// Digest of the plan of the newest snapshot.
    pub published: Option<String>,
    /// How long ago another plan took the place of one that was published, by its digest; `None` is the empty destination.
    pub overtaken: HashMap<Option<String>, Duration>,
    /// Ids of the claimed plans, by generation.
    pub claims: BTreeMap<u64, String>,
    /// The stored plans, by id. One that cannot be read is not in it.
    pub plans: HashMap<String, KnownPlan>,
}

/// A stored plan.
#[derive(Clone, Debug)]
pub struct KnownPlan {
    /// Its digest.
    pub digest: String,
    /// Digest of the plan that it goes on from.
    pub base: Option<String>,
    /// Its shards.
    pub shards: Vec<String>,
}

/// Finished objects that nothing needs.
#[derive(Debug, Default)]
pub struct Garbage<'a> {
    /// Old enough, each with what it is, by stages: all of a stage go before the next begins.
    pub old: BTreeMap<Stage, Vec<(&'a ObjectMeta, &'static str)>>,
    /// Too young.
    pub young: Vec<(&'a ObjectMeta, &'static str)>,
}

/// When something is removed: nothing may name what is gone, and a plan names its shards until they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Snapshots.
    Snapshots,
    /// Indexes, and what readers have beside a shard: without its index no shard is taken for done.
    Indexes,
    /// Shards.
    Shards,
    /// Samples of plans.
    Samples,
    /// Plans.
    Plans,
}

/// Finds what nothing needs and removes what the rules allow.
pub fn collect(sink: &dyn Sink, rules: &Rules) -> Result<Found> {
    let leftovers = sink.leftovers()?;
    let objects = sink.list_with_ages("")?;
    if leftovers.is_empty() && objects.is_empty() {
        tracing::warn!("{sink} holds nothing: is it the right place?");
    }
    let mut found = Found::default();
    let known = known(sink, &objects, rules)?;
    discard(sink, leftovers, &known, rules, &mut found)?;
    let garbage = garbage(&objects, &known, rules.older_than);
    let leftover = |(object, what): &(&ObjectMeta, &'static str)| Leftover {
        name: object.name.clone(),
        what,
        bytes: Some(object.bytes),
        age: object.age,
        id: String::new(),
        ours: true,
    };
    for stage in garbage.old.values() {
        if !rules.dry_run {
            at_once(sink.requests(), stage, |(object, _)| {
                sink.remove(&object.name)
            })?;
        }
        found.removed.extend(stage.iter().map(leftover));
    }
    found.young.extend(garbage.young.iter().map(leftover));
    Ok(found)
}

/// Removes what was left half written.
fn discard(
    sink: &dyn Sink,
    mut leftovers: Vec<Leftover>,
    known: &Known,
    rules: &Rules,
    found: &mut Found,
) -> Result<()> {
    leftovers.sort_by(|a, b| a.name.cmp(&b.name));
    let plans = known.plans.values();
    let planned: HashSet<String> = plans
        .flat_map(|plan| plan.files().map(|(name, _)| name))
        .collect();
    for leftover in leftovers {
        let name = leftover.name.as_str();
        let named = [MANIFEST, CARD, SUMS].contains(&name)
            || planned.contains(name)
            || name.starts_with(&format!("{STATE}/"));
        if !leftover.ours && !named {
            found.foreign.push(leftover);
        } else if leftover.age < rules.older_than {
            found.young.push(leftover);
        } else {
            if !rules.dry_run {
                sink.discard(&leftover)?;
            }
            found.removed.push(leftover);
        }
    }
    Ok(())
}

/// Everything that is made for a shard, by name: when it is removed, and what it is.
fn files(shard: &str) -> impl Iterator<Item = (String, (Stage, &'static str))> {
    let reader = (Stage::Indexes, "reader index of an unused shard");
    let own = [
        (
            index_name(shard),
            (Stage::Indexes, "index of an unused shard"),
        ),
        (shard.to_owned(), (Stage::Shards, "unused shard")),
    ];
    index::shard_files(shard)
        .map(move |name| (name, reader))
        .chain(own)
}

impl KnownPlan {
    fn files(&self) -> impl Iterator<Item = (String, (Stage, &'static str))> {
        self.shards.iter().flat_map(|shard| files(shard))
    }
}

/// Reads what the destination says of itself; `objects` were listed before.
fn known(sink: &dyn Sink, objects: &[ObjectMeta], rules: &Rules) -> Result<Known> {
    let manifest = published::load(sink)?;
    // Listed once more, after the manifest: whatever was published and overtaken since then is among them.
    let numbers = snapshots(&sink.list_with_ages(SNAPSHOT_DIR)?);
    let mut known = Known {
        dropped: dropped(&numbers, manifest.as_ref().map(|m| m.snapshot), rules),
        ..Known::default()
    };
    if let Some(first) = numbers.get(&1) {
        known.overtaken.insert(None, *first);
    }
    let mut newest = 0;
    let mut hold = |manifest: Manifest| {
        if let Some((_, next)) = numbers.range(manifest.snapshot + 1..).next() {
            let plan = Some(manifest.plan.clone());
            let since = known.overtaken.entry(plan).or_insert(*next);
            *since = *next.min(since);
        }
        if manifest.snapshot >= newest {
            newest = manifest.snapshot;
            known.published = Some(manifest.plan.clone());
        }
        for (_, shard) in manifest.shards() {
            known.digests.insert(manifest.plan_of(shard).to_owned());
            known.shards.insert(shard.name.clone());
            known.indexes.insert(shard.index.clone());
        }
        let readers = manifest.indexes.into_iter().map(|file| file.name);
        known.indexes.extend(readers);
        known.digests.insert(manifest.plan);
    };
    manifest.into_iter().for_each(&mut hold);
    // One after the other: each may be as large as the dataset has shards.
    let staying: Vec<u64> = numbers
        .keys()
        .filter(|number| !known.dropped.contains(number))
        .copied()
        .collect();
    for number in staying {
        let name = snapshot_name(number);
        // Another `gc` may have been first.
        let Some(text) = sink.get(&name)? else {
            continue;
        };
        let manifest = Manifest::decode(&format!("{sink}/{name}"), &text);
        hold(manifest.map_err(|error| match error.kind() {
            Kind::Damage => Error::new(
                Kind::Damage,
                format!(
                    "{error}\n  nothing was removed, because it may name anything: run `shardpack repair {sink}`, or remove that snapshot"
                ),
            ),
            _ => error,
        })?);
    }
    // Of those that go only the version counts: an earlier program has no say about a later one's.
    for name in known.dropped.iter().copied().map(snapshot_name) {
        if let Some(text) = sink.get(&name)? {
            version::MANIFEST.check(&format!("{sink}/{name}"), &text)?;
        }
    }
    for generation in resume::generations_of(objects.iter().map(|object| object.name.as_str())) {
        if let Some(id) = resume::claim(sink, generation)? {
            known.claims.insert(generation, id);
        }
    }
    let ids: BTreeSet<&str> = objects
        .iter()
        .filter_map(|object| resume::plan_file(&object.name))
        .map(|(id, _)| id)
        .collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let plans = at_once(sink.requests(), &ids, |id| plan(sink, id))?;
    known.plans = plans.into_iter().flatten().collect();
    Ok(known)
}

/// A stored plan, if it can be read.
fn plan(sink: &dyn Sink, id: &str) -> Result<Option<(String, KnownPlan)>> {
    let Some(stored) = unless_damaged(resume::load_id(sink, id))? else {
        return Ok(None);
    };
    let shards = stored.plan.shards.into_iter();
    let plan = KnownPlan {
        digest: stored.digest,
        base: stored.plan.base.map(|base| base.plan),
        shards: shards.map(|shard| shard.name.into()).collect(),
    };
    Ok(Some((id.to_owned(), plan)))
}

/// The snapshots among these objects, by number, with their ages.
fn snapshots(objects: &[ObjectMeta]) -> BTreeMap<u64, Duration> {
    objects
        .iter()
        .filter_map(|object| Some((snapshot_number(&object.name)?, object.age)))
        .collect()
}

/// Which snapshots go: those before the last so many, once what took their place is old enough that nobody reads them any more.
/// `published` is the one that readers open.
fn dropped(
    snapshots: &BTreeMap<u64, Duration>,
    published: Option<u64>,
    rules: &Rules,
) -> BTreeSet<u64> {
    let Some(keep) = rules.keep else {
        return BTreeSet::new();
    };
    let numbers: Vec<u64> = snapshots.keys().copied().collect();
    let before = numbers.len().saturating_sub(keep.max(1));
    let old = |at: usize| snapshots[&numbers[at]] >= rules.older_than;
    (0..before)
        .filter(|&at| old(at) && old(at + 1))
        .map(|at| numbers[at])
        .filter(|&number| published.is_some_and(|published| number < published))
        .collect()
}

/// The finished objects that nothing needs.
///
/// Needed is what a snapshot that stays names, with the plans it was made under, and what belongs to a plan that can still be published: the
/// one claimed last, one claimed not long ago, and every one that goes on from what is published now or was until not long ago, because
/// its workers may still be at it. Of plans that those go on from, what a repair needs to tell the history stays. A plan that nobody
/// claimed is needed until somebody else has claimed its number.
pub fn garbage<'a>(objects: &'a [ObjectMeta], known: &Known, older_than: Duration) -> Garbage<'a> {
    let mut garbage = Garbage::default();
    let mut add =
        |stage: Stage, object: &'a ObjectMeta, what: &'static str| match object.age < older_than {
            true => garbage.young.push((object, what)),
            false => garbage.old.entry(stage).or_default().push((object, what)),
        };
    let ages: HashMap<&str, Duration> = objects
        .iter()
        .map(|object| (object.name.as_str(), object.age))
        .collect();
    let dropped: HashSet<String> = known.dropped.iter().copied().map(snapshot_name).collect();
    for object in objects.iter().filter(|o| dropped.contains(&o.name)) {
        add(Stage::Snapshots, object, "earlier snapshot");
    }
    let Some((&newest, _)) = known.claims.last_key_value() else {
        return garbage;
    };
    let claim_age = |generation: u64| {
        let age = ages.get(resume::claim_name(generation).as_str());
        age.copied().unwrap_or_default()
    };
    // Claimed, and nothing says that it can not be published any more, or that nobody works on it.
    let live: HashSet<&str> = known
        .claims
        .iter()
        .filter(|&(&generation, id)| {
            let open = known
                .plans
                .get(id)
                .is_none_or(|plan| plan.base == known.published);
            let was_open = known.plans.get(id).is_some_and(|plan| {
                let since = known.overtaken.get(&plan.base);
                since.is_some_and(|since| *since < older_than)
            });
            open || was_open || generation == newest || claim_age(generation) < older_than
        })
        .map(|(_, id)| id.as_str())
        .collect();
    let claimed: HashSet<&str> = known.claims.values().map(String::as_str).collect();
    let claimed_plans = || {
        let plans = known.plans.iter();
        plans.filter(|(id, _)| claimed.contains(id.as_str()))
    };
    let made: HashMap<String, (Stage, &'static str)> =
        claimed_plans().flat_map(|(_, plan)| plan.files()).collect();
    let wanted: HashSet<String> = claimed_plans()
        .filter(|(id, _)| live.contains(id.as_str()))
        .flat_map(|(_, plan)| plan.files())
        .chain(known.shards.iter().flat_map(|shard| files(shard)))
        .map(|(name, _)| name)
        .chain(known.indexes.iter().cloned())
        .collect();
    let useless = |name: &str| made.get(name).filter(|_| !wanted.contains(name));
    for object in objects {
        if let Some(&(stage, what)) = useless(&object.name) {
            add(stage, object, what);
        }
    }
    let history = history(known, &live);
    let mut plans: BTreeMap<&str, Vec<(&ObjectMeta, Part)>> = BTreeMap::new();
    for object in objects {
        if let Some((id, part)) = resume::plan_file(&object.name) {
            plans.entry(id).or_default().push((object, part));
        }
    }
    for (id, parts) in plans {
        let plan = known.plans.get(id);
        let published = plan.is_some_and(|plan| known.digests.contains(&plan.digest));
        // Whoever stored it before the last claim was made has lost that number, and the next plan has another id.
        let youngest = parts.iter().map(|(object, _)| object.age).min();
        let open = !claimed.contains(id) && youngest <= Some(claim_age(newest));
        if live.contains(id) || published || open {
            continue;
        }
        let told = plan.is_some_and(|plan| history.contains(plan.digest.as_str()));
        // What is left for its age has to be found the next time.
        let young = |name: &str| ages.get(name).is_some_and(|age| *age < older_than);
        let names_something = plan.is_some_and(|plan| {
            let mut files = plan.files();
            files.any(|(name, _)| useless(&name).is_some() && young(&name))
        });
        for (object, part) in parts {
            match part {
                Part::Plan if told || names_something => {}
                Part::Plan => add(Stage::Plans, object, "unused plan"),
                _ => add(Stage::Samples, object, "part of an unused plan"),
            }
        }
    }
    garbage
}

/// Digests of the plans that others which are needed go on from.
fn history<'a>(known: &'a Known, live: &HashSet<&str>) -> HashSet<&'a str> {
    let bases: HashMap<&str, &str> = known
        .plans
        .values()
        .filter_map(|plan| Some((plan.digest.as_str(), plan.base.as_deref()?)))
        .collect();
    let mut todo: Vec<&str> = known
        .plans
        .iter()
        .filter(|(id, _)| live.contains(id.as_str()))
        .map(|(_, plan)| plan.digest.as_str())
        .chain(known.digests.iter().map(String::as_str))
        .collect();
    let mut history = HashSet::new();
    while let Some(digest) = todo.pop() {
        if history.insert(digest) {
            todo.extend(bases.get(digest));
        }
    }
    history
}
