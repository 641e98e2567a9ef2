//! Several writers of one destination: of one plan, of different ones, and some that wake up when all is over.

use std::sync::Barrier;
use std::time::Instant;

use super::*;
use crate::base::error::Kind;
use crate::model::manifest::Manifest;
use crate::testing::faulty_store::When;

const WRITERS: u64 = 16;
/// Rounds of so many writers when nothing is said.
const ROUNDS: u64 = 100;

fn rounds() -> u64 {
    number("SHARDPACK_ROUNDS").unwrap_or(ROUNDS)
}

/// Converts at the same time, with a recipe seed each.
fn at_the_same_time(world: &World, seeds: &[u64]) -> Vec<Result<()>> {
    let start = Barrier::new(seeds.len());
    std::thread::scope(|scope| {
        let writer = |&seed: &u64| {
            let start = &start;
            scope.spawn(move || {
                let ending = Ending::good(Level::Operations);
                start.wait();
                world.run_seeded(Verb::Convert, seed, &ending)
            })
        };
        let writers: Vec<_> = seeds.iter().map(writer).collect();
        writers.into_iter().map(|w| w.join().unwrap()).collect()
    })
}

fn of_one_plan(name: &str, new: New, rounds: u64) {
    let begun = Instant::now();
    let data = Data::small();
    let expected = undisturbed(new(&data), &Tree::new(), CONVERT);
    for round in 0..rounds {
        let world = new(&data);
        for result in at_the_same_time(&world, &[1; WRITERS as usize]) {
            result.unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        assert_same(&world.tree(), &expected, &format!("round {round}"));
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{WRITERS} writers of one plan on {name}: {rounds} rounds, {seconds:.1} s");
}

fn of_different_plans(name: &str, new: New, rounds: u64) {
    let begun = Instant::now();
    let data = Data::small();
    let seeds: Vec<u64> = (0..WRITERS).collect();
    let convert = |seed| {
        let world = new(&data);
        let ending = Ending::good(Level::Operations);
        world.run_seeded(Verb::Convert, seed, &ending).unwrap();
        world.tree()
    };
    let expected: Vec<Tree> = seeds.iter().map(|&seed| convert(seed)).collect();
    let mut winners = std::collections::BTreeSet::new();
    for round in 0..rounds {
        let world = new(&data);
        let results = at_the_same_time(&world, &seeds);
        let won: Vec<usize> = (0..seeds.len()).filter(|&i| results[i].is_ok()).collect();
        let [winner] = won[..] else {
            panic!("round {round}: {won:?} won: {results:?}")
        };
        winners.insert(winner);
        for error in results.into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), Kind::Conflict, "round {round}: {error}");
        }
        // The plans of the others are left, each under its own id.
        let mut tree = world.tree();
        tree.retain(|name, _| {
            !name.starts_with("_shardpack/plan/") || expected[winner].contains_key(name)
        });
        assert_same(&tree, &expected[winner], &format!("round {round}"));
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{WRITERS} writers of different plans on {name}: {rounds} rounds, {} different winners, {seconds:.1} s",
        winners.len()
    );
}

#[test]
fn sixteen_writers_of_one_plan_on_disk_all_succeed_with_the_same_bytes() {
    of_one_plan("disk", LOCAL, rounds());
}

#[test]
fn of_sixteen_plans_on_disk_exactly_one_wins() {
    of_different_plans("disk", LOCAL, rounds());
}

#[test]
fn sixteen_writers_of_one_plan_on_s3_all_succeed_with_the_same_bytes() {
    of_one_plan("S3", S3, rounds().div_ceil(10));
}

#[test]
fn of_sixteen_plans_on_s3_exactly_one_wins() {
    of_different_plans("S3", S3, rounds().div_ceil(10));
}

/// Another plan than that of everybody else here.
const OTHER: u64 = 2;

/// At each of its points a process stands still, as if its machine slept, while others do everything there is to do. Then it
/// goes on.
fn sleeps(name: &str, new: New, level: Level, verb: Verb) {
    let others: &[Verb] = &[Verb::Convert, Verb::Index("timm")];
    sleeps_while(name, new, level, verb, &Data::small(), WORKERS, others);
}

/// The same while the source grows and changes, and that is published too.
fn sleeps_long(name: &str, new: New, level: Level, verb: Verb) {
    for data in [Data::grown(), Data::added()] {
        sleeps_long_over(name, new, level, verb, &data);
    }
}

fn sleeps_long_over(name: &str, new: New, level: Level, verb: Verb, data: &Arc<Data>) {
    let workers: Vec<Verb> = [Verb::PlanEarly]
        .iter()
        .chain(&WORKERS[1..])
        .copied()
        .collect();
    let others: &[Verb] = &[Verb::Early, Verb::Plan, Verb::Pack(0, 1), Verb::Publish];
    sleeps_while(name, new, level, verb, data, &workers, others);
}

fn sleeps_while(
    name: &str,
    new: New,
    level: Level,
    verb: Verb,
    data: &Arc<Data>,
    workers: &[Verb],
    others: &'static [Verb],
) {
    let begun = Instant::now();
    let before = match verb {
        Verb::Convert => Tree::new(),
        // A publisher begins when the shards are there, a worker when the plan is.
        Verb::Publish | Verb::PackLast(..) => undisturbed(new(data), &Tree::new(), &workers[..4]),
        _ => undisturbed(new(data), &Tree::new(), &workers[..1]),
    };
    let expected = undisturbed(new(data), &before, others);
    // Other points for each of these, where not all are tried.
    let (step, mut points) = (every(), 0);
    let first = name.len() % step;
    loop {
        let at = first + points * step;
        let world = Arc::new(new(data));
        world.fill(&before);
        let meanwhile = Arc::clone(&world);
        let ending = Ending::pause(level, at, move || meanwhile.succeeds(others));
        let ended = world.run(verb, &ending);
        let Some(place) = ending.place() else {
            break;
        };
        points += 1;
        let context = format!("{name}, asleep at {place}");
        ended.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_same(&world.tree(), &expected, &context);
        if writes(&place) {
            let ending = |work| Ending::last_act(level, at, work);
            is_killed_late(&world, &before, verb, others, &expected, ending);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{name} sleeps, {level:?}: {points} points, {seconds:.1} s");
    assert!(points * step > 10);
}

/// Whether something gets its name, or loses it, at this point.
pub(super) fn writes(place: &str) -> bool {
    ["rename", "link", "put", "commit", "remove"]
        .iter()
        .any(|step| place.contains(step))
}

/// It is killed as soon as it has done what it was about to do when it fell asleep: what it leaves is put right by the next run, which finds
/// everything published.
fn is_killed_late(
    like: &World,
    before: &Tree,
    verb: Verb,
    others: &'static [Verb],
    expected: &Tree,
    ending: impl FnOnce(Box<dyn FnOnce() + Send>) -> Arc<Ending>,
) {
    let world = Arc::new(like.empty());
    world.fill(before);
    let meanwhile = Arc::clone(&world);
    let ending = ending(Box::new(move || meanwhile.succeeds(others)));
    world.silence_the_dead(&ending);
    let _ = world.run(verb, &ending);
    world.revive(&ending);
    world.succeeds(&[Verb::Convert]);
    let mut tree = world.tree();
    // What it began to write is nobody's.
    tree.retain(|name, _| expected.contains_key(name));
    assert_same(
        &tree,
        expected,
        &format!("killed after {:?}", ending.place()),
    );
}

#[test]
fn a_process_that_wakes_up_after_others_published_its_plan_takes_nothing_back() {
    for level in [Level::Operations, Level::Steps] {
        sleeps("a conversion to disk", LOCAL, level, Verb::Convert);
        sleeps("a worker on disk", LOCAL, level, Verb::Pack(0, 2));
        sleeps("a publisher on disk", LOCAL, level, Verb::Publish);
        let last = Verb::PackLast(0, 2);
        sleeps("a worker on disk that publishes", LOCAL, level, last);
    }
    let operations = Level::Operations;
    sleeps("a publisher on S3", S3, operations, Verb::Publish);
    sleeps("a worker on S3", S3, operations, Verb::Pack(0, 2));
}

#[test]
fn a_worker_that_wakes_up_after_the_next_generation_was_published_harms_nothing() {
    for level in [Level::Operations, Level::Steps] {
        sleeps_long("an old worker on disk", LOCAL, level, Verb::Pack(0, 2));
        sleeps_long("an old publisher on disk", LOCAL, level, Verb::Publish);
        let last = Verb::PackLast(0, 2);
        sleeps_long("an old worker on disk that publishes", LOCAL, level, last);
    }
    let operations = Level::Operations;
    sleeps_long("an old publisher on S3", S3, operations, Verb::Publish);
    let last = Verb::PackLast(0, 2);
    sleeps_long("an old worker on S3 that publishes", S3, operations, last);
}
/// A conversion that saw the source before others did claims nothing after them.
#[test]
fn a_conversion_that_saw_an_earlier_source_and_slept_publishes_nothing_over_a_later_one() {
    let data = Data::grown();
    let before = undisturbed(World::local(&data), &Tree::new(), EARLY);
    let (mut asleep, mut lost) = (0, 0);
    loop {
        let world = Arc::new(World::local(&data));
        world.fill(&before);
        let meanwhile = Arc::clone(&world);
        let theirs = Arc::new(std::sync::Mutex::new(Tree::new()));
        let made = Arc::clone(&theirs);
        let ending = Ending::pause(Level::Operations, asleep, move || {
            meanwhile.succeeds(CONVERT);
            *made.lock().unwrap() = meanwhile.tree();
        });
        let ended = world.run(Verb::Between, &ending);
        let Some(place) = ending.place() else {
            break;
        };
        asleep += 1;
        if let Err(error) = ended {
            lost += 1;
            assert_eq!(error.kind(), Kind::Conflict, "{place}: {error}");
            let mut theirs = theirs.lock().unwrap();
            theirs.retain(|name, _| !name.ends_with(".tmp"));
            let mut tree = world.tree();
            tree.retain(|name, _| theirs.contains_key(name));
            assert_same(&tree, &theirs, &place);
        }
    }
    println!("an old listing: {asleep} points, lost at {lost}");
    assert!(lost > 3);
}

/// The same with another plan: whoever claimed the destination first has it, and the other one ends without a trace in it.
fn sleeps_with_another_plan(name: &str, new: New) {
    let begun = Instant::now();
    let data = Data::small();
    let ours = undisturbed(new(&data), &Tree::new(), CONVERT);
    let world = new(&data);
    let ending = Ending::good(Level::Operations);
    world.run_seeded(Verb::Convert, OTHER, &ending).unwrap();
    let theirs = world.tree();
    let (mut points, mut lost) = (0, 0);
    loop {
        let world = Arc::new(new(&data));
        let meanwhile = Arc::clone(&world);
        let awake = Arc::new(std::sync::Mutex::new(Ok(())));
        let result = Arc::clone(&awake);
        let work = move || {
            let ending = Ending::good(Level::Operations);
            *result.lock().unwrap() = meanwhile.run(Verb::Convert, &ending);
        };
        let ending = Ending::pause(Level::Operations, points, work);
        let asleep = world.run_seeded(Verb::Convert, OTHER, &ending);
        let Some(place) = ending.place() else {
            break;
        };
        points += 1;
        let context = format!("{name}, asleep at {place}");
        let awake = std::mem::replace(&mut *awake.lock().unwrap(), Ok(()));
        let (expected, loser) = match (asleep, awake) {
            (Ok(()), Err(error)) => (&theirs, error),
            (Err(error), Ok(())) => {
                lost += 1;
                (&ours, error)
            }
            both => panic!("{context}: {both:?}"),
        };
        assert_eq!(loser.kind(), Kind::Conflict, "{context}: {loser}");
        let mut tree = world.tree();
        // The plan that lost.
        tree.retain(|name, _| !name.starts_with("_shardpack/plan/") || expected.contains_key(name));
        assert_same(&tree, expected, &context);
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{name} with another plan sleeps: {points} points, lost at {lost}, {seconds:.1} s");
    assert!(lost > 5 && lost < points);
}

#[test]
fn a_process_that_wakes_up_after_another_plan_was_published_touches_nothing() {
    sleeps_with_another_plan("a conversion to disk", LOCAL);
    sleeps_with_another_plan("a conversion to S3", S3);
}

/// Reader indexes that do not depend on each other.
const INDEXES: [&str; 4] = ["dali", "openclip", "timm", "wids"];

/// What the manifest lists, and the number of its snapshot.
fn indexes(world: &World) -> (Vec<String>, u64) {
    let manifest = Manifest::decode(MANIFEST, &world.tree()[MANIFEST]).unwrap();
    let mut readers: Vec<_> = manifest
        .indexes
        .into_iter()
        .map(|file| file.reader)
        .collect();
    readers.dedup();
    (readers, manifest.snapshot)
}

#[test]
fn indexes_that_are_added_at_the_same_time_are_all_there_at_the_end() {
    let data = Data::plain();
    let before = undisturbed(World::local(&data), &Tree::new(), CONVERT);
    for (new, rounds) in [(LOCAL, rounds()), (S3, rounds().div_ceil(10))] {
        for round in 0..rounds {
            let world = new(&data);
            world.fill(&before);
            std::thread::scope(|scope| {
                for name in INDEXES {
                    let world = &world;
                    scope.spawn(move || world.succeeds(&[Verb::Index(name)]));
                }
            });
            let there = (INDEXES.map(str::to_owned).to_vec(), 5);
            assert_eq!(indexes(&world), there, "round {round}");
        }
    }
}

#[test]
fn an_index_is_added_although_the_making_of_another_one_ended_anywhere() {
    let data = Data::plain();
    let before = undisturbed(World::local(&data), &Tree::new(), CONVERT);
    for point in 0.. {
        let world = World::local(&data);
        world.fill(&before);
        let ending = Ending::at(Level::Operations, point, When::Before);
        let ended = world.run(Verb::Index("wids"), &ending);
        if ended.is_ok() {
            assert!(point > 5);
            break;
        }
        world.succeeds(&[Verb::Index("dali"), Verb::Index("wids")]);
        let there = (vec!["dali".to_owned(), "wids".to_owned()], 3);
        assert_eq!(indexes(&world), there, "{:?}", ending.place());
    }
}
