//! Every point of a small run, one after the other: the process dies there, or that one operation fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::*;
use crate::store::at_once;
use crate::testing::faulty_store::When;

/// Worlds tried at once.
const DEPTH: usize = 4;

/// Where a run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Points {
    Counted(Level),
    /// Requests that reach the server.
    Requests,
}

const OPERATIONS: Points = Points::Counted(Level::Operations);
const STEPS: Points = Points::Counted(Level::Steps);

struct Scenario {
    name: &'static str,
    world: New,
    data: Arc<Data>,
    /// What was done before.
    earlier: &'static [Verb],
    verbs: &'static [Verb],
    /// What happened to it then.
    damage: fn(&mut Tree),
}

fn none(_: &mut Tree) {}

/// A shard with a wrong byte, and another without its index.
fn damage(tree: &mut Tree) {
    let mut shard = tree["data/train-00000.tar"].to_vec();
    shard[700] ^= 1;
    tree.insert("data/train-00000.tar".to_owned(), shard.into());
    tree.remove("index/train-00001.parquet");
}

impl Points {
    /// What can happen at a point.
    fn ways(self) -> &'static [When] {
        match self {
            OPERATIONS => &[
                When::Before,
                When::After,
                When::Lost,
                When::RefusedSamples,
                When::Unanswered,
            ],
            // A step is asked for before and after.
            Points::Counted(_) => &[When::Before, When::RefusedSamples],
            // To die after a request is to die before the next.
            Points::Requests => &[
                When::Before,
                When::Lost,
                When::RefusedSamples,
                When::Unanswered,
            ],
        }
    }
}

/// Makes the server's request of this number go wrong, and all after it when the process dies. The error is one that is not
/// tried again, and tells the process that its request was not carried out.
fn fault(server: &Server, at: u64, when: When) {
    let once = match when {
        When::Before | When::RefusedSamples => Wrong::Status(403, "AccessDenied"),
        _ => Wrong::StatusAfter(403, "AccessDenied"),
    };
    server.fault(Fault::new(once).after(at).times(1));
    if matches!(when, When::Before | When::Lost) {
        server.fault(Fault::new(Wrong::Status(403, "AccessDenied")).after(at));
    }
}

impl Scenario {
    /// Counts the points and tries each in every way.
    fn holds(&self, points: Points) {
        let begun = Instant::now();
        let mut before = undisturbed((self.world)(&self.data), &Tree::new(), self.earlier);
        (self.damage)(&mut before);
        let world = (self.world)(&self.data);
        world.fill(&before);
        let ending = match points {
            Points::Counted(level) => Ending::good(level),
            Points::Requests => Ending::good(Level::Operations),
        };
        for &verb in self.verbs {
            world.run(verb, &ending).unwrap();
        }
        let after = world.tree();
        let count = match points {
            Points::Counted(_) => ending.points(),
            Points::Requests => world.server().requests().len(),
        };
        let all = (0..count).flat_map(|at| points.ways().iter().map(move |&when| (at, when)));
        let tries = thinned(all.collect());
        let (disturbed, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let places = Mutex::new(std::collections::BTreeSet::new());
        at_once(DEPTH, &tries, |&(at, when)| {
            let (place, leftovers) = self.survives(points, at, when, &before, &after);
            if let Some(place) = place {
                disturbed.fetch_add(1, Ordering::Relaxed);
                let place = place.split(": ").nth(1).unwrap_or_default().to_owned();
                places.lock().unwrap().insert(place);
            }
            left.fetch_add(leftovers, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        let (disturbed, left) = (disturbed.into_inner(), left.into_inner());
        println!(
            "{}, {points:?}: {count} points, {} runs, {disturbed} disturbed, {} sorts of points, {left} leftovers, {:.1} s",
            self.name,
            tries.len(),
            places.into_inner().unwrap().len(),
            begun.elapsed().as_secs_f64()
        );
        // Threads overtake each other, so that a few runs end before their point.
        assert!(disturbed * 10 >= tries.len() * 9, "{disturbed} disturbed");
    }

    /// Where something happened, and how many leftovers there were.
    fn survives(
        &self,
        points: Points,
        at: usize,
        when: When,
        before: &Tree,
        after: &Tree,
    ) -> (Option<String>, usize) {
        let context = format!("{}, {points:?} {at} {when:?}", self.name);
        let world = Arc::new((self.world)(&self.data));
        world.fill(before);
        let ending = match points {
            Points::Counted(level) => Ending::at(level, at, when),
            Points::Requests => {
                fault(world.server(), at as u64, when);
                Ending::good(Level::Operations)
            }
        };
        world.silence_the_dead(&ending);
        let mut happened = None;
        for &verb in self.verbs {
            let ended = world.run(verb, &ending);
            if happened.is_none() {
                happened = match points {
                    Points::Counted(_) => ending.place(),
                    Points::Requests => {
                        let requests = world.server().requests();
                        let request = requests.get(at);
                        request.map(|r| format!("{at}: {} {}", r.operation, r.key))
                    }
                };
                // The others of its kind go on after it.
                if happened.is_some() {
                    world.revive(&ending);
                } else if let Err(error) = ended {
                    panic!("{context}: {verb:?} failed of itself: {error}");
                }
            }
            let context = format!("{context} ({happened:?}), {verb:?}");
            assert_whole(&world.tree(), before, after, &context);
        }
        let context = format!("{context} ({happened:?})");
        let tree = world.tree();
        let leftovers = tree
            .keys()
            .filter(|name| !after.contains_key(*name))
            .count();
        for &verb in self.verbs {
            if let Err(error) = world.run(verb, &Ending::good(Level::Operations)) {
                panic!("{context}: then {verb:?}: {error}\n{:#?}", tree.keys());
            }
            assert_whole(&world.tree(), before, after, &context);
        }
        // What is said to be done outlives a power cut, whoever did it.
        let lost: Vec<_> = world.disk.lost();
        assert!(lost.is_empty(), "{context}: not durable: {lost:?}");
        world.collects();
        assert_same(&world.tree(), after, &context);
        (happened, leftovers)
    }
}

#[test]
fn a_conversion_to_disk_that_ends_at_any_operation_or_step_is_gone_on_with() {
    let scenario = Scenario {
        name: "convert to disk",
        world: LOCAL,
        data: Data::small(),
        earlier: &[],
        verbs: CONVERT,
        damage: none,
    };
    scenario.holds(OPERATIONS);
    scenario.holds(STEPS);
}

#[test]
fn workers_on_disk_that_end_at_any_operation_or_step_are_gone_on_with() {
    let scenario = Scenario {
        name: "plan, 3 packers, publish on disk",
        world: LOCAL,
        data: Data::small(),
        earlier: &[],
        verbs: WORKERS,
        damage: none,
    };
    scenario.holds(OPERATIONS);
    scenario.holds(STEPS);
}

#[test]
fn a_second_snapshot_on_disk_that_ends_at_any_operation_or_step_is_gone_on_with() {
    let scenario = Scenario {
        name: "second snapshot on disk",
        world: LOCAL,
        data: Data::small(),
        earlier: CONVERT,
        verbs: INDEX,
        damage: none,
    };
    scenario.holds(OPERATIONS);
    scenario.holds(STEPS);
}

#[test]
fn a_dataset_on_disk_that_grew_and_changed_is_gone_on_with_from_any_operation_or_step() {
    let scenario = Scenario {
        name: "a later conversion on disk",
        world: LOCAL,
        data: Data::grown(),
        earlier: EARLY,
        verbs: CONVERT,
        damage: none,
    };
    scenario.holds(OPERATIONS);
    scenario.holds(STEPS);
}

#[test]
fn a_dataset_on_s3_that_grew_and_changed_is_gone_on_with_by_workers_from_any_request() {
    let scenario = Scenario {
        name: "later plan, 3 packers, publish on S3",
        world: S3,
        data: Data::grown(),
        earlier: EARLY,
        verbs: WORKERS,
        damage: none,
    };
    scenario.holds(Points::Requests);
}

#[test]
fn a_conversion_to_s3_that_ends_at_any_operation_is_gone_on_with() {
    let scenario = Scenario {
        name: "convert to S3",
        world: S3,
        data: Data::small(),
        earlier: &[],
        verbs: CONVERT,
        damage: none,
    };
    scenario.holds(OPERATIONS);
}

#[test]
fn a_conversion_to_s3_in_parts_that_ends_at_any_request_is_gone_on_with() {
    let scenario = Scenario {
        name: "convert to S3 in parts",
        world: S3,
        data: Data::large(),
        earlier: &[],
        verbs: CONVERT,
        damage: none,
    };
    scenario.holds(Points::Requests);
}

#[test]
fn workers_on_s3_that_end_at_any_request_are_gone_on_with() {
    let scenario = Scenario {
        name: "plan, 3 packers, publish on S3",
        world: S3,
        data: Data::small(),
        earlier: &[],
        verbs: WORKERS,
        damage: none,
    };
    scenario.holds(Points::Requests);
}

#[test]
fn a_second_snapshot_on_s3_that_ends_at_any_operation_or_request_is_gone_on_with() {
    let scenario = Scenario {
        name: "second snapshot on S3",
        world: S3,
        data: Data::small(),
        earlier: CONVERT,
        verbs: INDEX,
        damage: none,
    };
    scenario.holds(OPERATIONS);
    scenario.holds(Points::Requests);
}

#[test]
fn a_repair_on_disk_that_ends_at_any_operation_or_step_is_gone_on_with() {
    let scenario = Scenario {
        name: "repair on disk",
        world: LOCAL,
        data: Data::small(),
        earlier: CONVERT,
        verbs: REPAIR,
        damage,
    };
    scenario.holds(OPERATIONS);
    scenario.holds(STEPS);
}

#[test]
fn a_gc_on_disk_that_ends_at_any_operation_or_step_is_gone_on_with() {
    let scenario = Scenario {
        name: "gc on disk",
        world: LOCAL,
        data: Data::grown(),
        earlier: ANEW,
        verbs: COLLECT,
        damage: none,
    };
    scenario.holds(OPERATIONS);
    scenario.holds(STEPS);
}

#[test]
fn a_gc_on_s3_that_ends_at_any_request_is_gone_on_with() {
    let scenario = Scenario {
        name: "gc on S3",
        world: S3,
        data: Data::grown(),
        earlier: ANEW,
        verbs: COLLECT,
        damage: none,
    };
    scenario.holds(Points::Requests);
}
