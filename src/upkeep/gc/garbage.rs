//! Which finished objects nothing needs, judged from a listing and from what the destination says of itself.
//!
//! Needed is what a snapshot that stays names, with the plans it was made under, and what belongs to a plan that can still be published:
//! the one claimed last, one claimed not long ago, and every one that goes on from what is published now or was until not long ago,
//! because its workers may still be at it. Of plans that those go on from, what a repair needs to tell the history stays. A plan that
//! nobody claimed is needed until somebody else has claimed its number.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use crate::model::manifest::snapshot_name;
use crate::state::names::Part;
use crate::state::names::claim_name;
use crate::state::names::plan_file;
use crate::store::ObjectMeta;
use crate::upkeep::gc::inventory::{Inventory, StoredPlan};
use crate::upkeep::gc::objects::{ShardFile, Stage, files_of};

/// What a snapshot is called after which others came.
pub(crate) const EARLIER_SNAPSHOT: &str = "earlier snapshot";

/// An object that nothing needs.
pub(super) struct UnusedObject<'a> {
    pub(super) object: &'a ObjectMeta,
    /// What it is.
    pub(super) what: &'static str,
}

/// Finished objects that nothing needs.
#[derive(Default)]
pub(super) struct Garbage<'a> {
    /// Old enough, by stages: all of a stage go before the next begins.
    pub(super) old: BTreeMap<Stage, Vec<UnusedObject<'a>>>,
    /// Too young.
    pub(super) young: Vec<UnusedObject<'a>>,
    older_than: Duration,
}

impl<'a> Garbage<'a> {
    fn add(&mut self, stage: Stage, object: &'a ObjectMeta, what: &'static str) {
        let group = match object.age < self.older_than {
            true => &mut self.young,
            false => self.old.entry(stage).or_default(),
        };
        group.push(UnusedObject { object, what });
    }
}

/// Finds the objects that nothing needs.
pub(super) fn find<'a>(
    objects: &'a [ObjectMeta],
    inventory: &Inventory,
    older_than: Duration,
) -> Garbage<'a> {
    let mut garbage = Garbage {
        older_than,
        ..Garbage::default()
    };
    let dropped = inventory.dropped.iter().copied();
    let dropped: HashSet<String> = dropped.map(snapshot_name).collect();
    for object in objects.iter().filter(|o| dropped.contains(&o.name)) {
        garbage.add(Stage::Snapshots, object, EARLIER_SNAPSHOT);
    }
    let Some((&newest, _)) = inventory.claims.last_key_value() else {
        return garbage;
    };
    let ages = Ages::new(objects);
    let plans = Plans {
        inventory,
        claimed: inventory.claims.values().map(String::as_str).collect(),
        live: live(inventory, newest, &ages, older_than),
    };
    let files = plans.unused_files();
    for object in objects {
        if let Some(file) = files.get(&object.name) {
            garbage.add(file.stage, object, file.what);
        }
    }
    let history = plans.history();
    for (id, parts) in parts_of_plans(objects) {
        // Whoever stored it before the last claim was made has lost that number, and the next plan has another id.
        let youngest = parts.iter().map(|(object, _)| object.age).min();
        let open = youngest <= Some(ages.of_claim(newest));
        if plans.is_needed(id, open) {
            continue;
        }
        let plan = inventory.plans.get(id);
        let is_history = plan.is_some_and(|plan| history.contains(plan.digest.as_str()));
        // What is left for its age has to be found the next time.
        let names_something = plan.is_some_and(|plan| {
            let mut names = plan.files().map(|file| file.name);
            names.any(|name| files.contains_key(&name) && ages.is_below(&name, older_than))
        });
        for (object, part) in parts {
            match part {
                Part::Plan if is_history || names_something => {}
                Part::Plan => garbage.add(Stage::Plans, object, "unused plan"),
                _ => garbage.add(Stage::Samples, object, "part of an unused plan"),
            }
        }
    }
    garbage
}

/// Ages of the objects that were listed.
struct Ages<'a>(HashMap<&'a str, Duration>);

impl<'a> Ages<'a> {
    fn new(objects: &'a [ObjectMeta]) -> Self {
        let ages = objects.iter();
        Self(
            ages.map(|object| (object.name.as_str(), object.age))
                .collect(),
        )
    }

    /// The age of a claim; nothing where it was not listed.
    fn of_claim(&self, generation: u64) -> Duration {
        let age = self.0.get(claim_name(generation).as_str());
        age.copied().unwrap_or_default()
    }

    /// Whether an object was listed and is younger than this.
    fn is_below(&self, name: &str, limit: Duration) -> bool {
        self.0.get(name).is_some_and(|age| *age < limit)
    }
}

/// Ids of the claimed plans of which nothing says that they can not be published any more, or that nobody works on them.
fn live<'i>(
    inventory: &'i Inventory,
    newest: u64,
    ages: &Ages<'_>,
    older_than: Duration,
) -> HashSet<&'i str> {
    let is_live = |&(&generation, id): &(&u64, &'i String)| {
        let plan = inventory.plans.get(id);
        let goes_on = plan.is_none_or(|plan| plan.base == inventory.published);
        let went_on = plan.is_some_and(|plan| {
            let overtaken = inventory.overtaken.get(&plan.base);
            overtaken.is_some_and(|age| *age < older_than)
        });
        goes_on || went_on || generation == newest || ages.of_claim(generation) < older_than
    };
    let claims = inventory.claims.iter();
    claims.filter(is_live).map(|(_, id)| id.as_str()).collect()
}

/// The stored plans, and which of them may still be published.
struct Plans<'i> {
    inventory: &'i Inventory,
    /// Ids of the claimed ones.
    claimed: HashSet<&'i str>,
    /// Ids of those that may still be published.
    live: HashSet<&'i str>,
}

impl<'i> Plans<'i> {
    fn claimed_plans(&self) -> impl Iterator<Item = (&'i str, &'i StoredPlan)> {
        let plans = self.inventory.plans.iter();
        plans
            .map(|(id, plan)| (id.as_str(), plan))
            .filter(|(id, _)| self.claimed.contains(id))
    }

    /// The files of shards of claimed plans that neither a snapshot names nor a plan which may still be published, by name.
    fn unused_files(&self) -> HashMap<String, ShardFile> {
        let mut files: HashMap<String, ShardFile> = self
            .claimed_plans()
            .flat_map(|(_, plan)| plan.files())
            .map(|file| (file.name.clone(), file))
            .collect();
        let shards = self.inventory.shards.iter();
        let wanted = self
            .claimed_plans()
            .filter(|(id, _)| self.live.contains(id))
            .flat_map(|(_, plan)| plan.files())
            .chain(shards.flat_map(|shard| files_of(shard)));
        for file in wanted {
            files.remove(&file.name);
        }
        for name in &self.inventory.indexes {
            files.remove(name);
        }
        files
    }

    /// Whether all of a plan is needed. `open` says that it may still be claimed, if it was not.
    fn is_needed(&self, id: &str, open: bool) -> bool {
        let plan = self.inventory.plans.get(id);
        let published = plan.is_some_and(|plan| self.inventory.digests.contains(&plan.digest));
        self.live.contains(id) || published || (open && !self.claimed.contains(id))
    }

    /// Digests of the plans that are needed, and of all that those go on from.
    fn history(&self) -> HashSet<&'i str> {
        let plans = &self.inventory.plans;
        let bases: HashMap<&str, &str> = plans
            .values()
            .filter_map(|plan| Some((plan.digest.as_str(), plan.base.as_deref()?)))
            .collect();
        let mut todo: Vec<&str> = plans
            .iter()
            .filter(|(id, _)| self.live.contains(id.as_str()))
            .map(|(_, plan)| plan.digest.as_str())
            .chain(self.inventory.digests.iter().map(String::as_str))
            .collect();
        let mut history = HashSet::new();
        while let Some(digest) = todo.pop() {
            if history.insert(digest) {
                todo.extend(bases.get(digest));
            }
        }
        history
    }
}

/// The parts of stored plans among these objects, by the id of their plan.
fn parts_of_plans(objects: &[ObjectMeta]) -> BTreeMap<&str, Vec<(&ObjectMeta, Part)>> {
    let mut plans: BTreeMap<&str, Vec<(&ObjectMeta, Part)>> = BTreeMap::new();
    for object in objects {
        if let Some((id, part)) = plan_file(&object.name) {
            plans.entry(id).or_default().push((object, part));
        }
    }
    plans
}
