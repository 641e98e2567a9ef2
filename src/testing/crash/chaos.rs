//! Everything goes wrong by chance, decided by a seed, until the weather clears.
//!
//! `SHARDPACK_SEED=N` tries one seed again, `SHARDPACK_SEEDS=N` so many from there on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::*;
use crate::base::error::Kind;
use crate::store::at_once;

/// Seeds tried when nothing is said.
const SEEDS: u64 = 200;
/// Of a hundred operations so many fail, and so many succeed without a reply, at first.
const FAIL: f64 = 0.20;
const LOSE: f64 = 0.05;
/// What is left of that after every run: with one operation in four going wrong no run of a hundred would ever end.
const CLEARING: f64 = 0.93;
/// Runs of one verb after which something is wrong besides the weather.
const RUNS: u32 = 200;

/// What each seed does, by turns; the last verb finds everything done and a later snapshot there.
const STORIES: [&[Verb]; 3] = [
    &[
        Verb::Early,
        Verb::Convert,
        Verb::Index("timm"),
        Verb::Convert,
    ],
    &[Verb::Convert, Verb::Index("timm"), Verb::Convert],
    &[
        Verb::Plan,
        Verb::Pack(1, 3),
        Verb::Pack(0, 3),
        Verb::Pack(2, 3),
        Verb::Publish,
        Verb::Index("timm"),
        Verb::Publish,
    ],
];

/// Gives the number of runs it took.
fn weathers(world: &World, seed: u64, verbs: &[Verb], expected: &Tree) -> u64 {
    let mut runs = 0;
    for (number, &verb) in verbs.iter().enumerate() {
        let mut weather = 1.0;
        for run in 0.. {
            assert!(run < RUNS, "seed {seed}: {verb:?} never ends");
            let of_run = seed << 32 | (number as u64) << 16 | u64::from(run);
            let ending = Ending::chance(of_run, FAIL * weather, LOSE * weather);
            weather *= CLEARING;
            runs += 1;
            let Err(error) = world.run(verb, &ending) else {
                break;
            };
            // All that goes wrong here may pass, and a scheduler has to learn that.
            assert_eq!(
                error.kind(),
                Kind::Transient,
                "seed {seed}: {verb:?}: {error}"
            );
        }
    }
    world.collects();
    assert_same(&world.tree(), expected, &format!("seed {seed}"));
    runs
}

fn weathers_seeds(name: &str, new: New, seeds: u64) {
    let begun = Instant::now();
    let first = number("SHARDPACK_SEED").unwrap_or(1);
    let seeds: Vec<u64> = (first..first + seeds).collect();
    let (grown, small) = (Data::grown(), Data::small());
    let of_story = |story: usize| match story {
        0 => &grown,
        _ => &small,
    };
    let expected: Vec<Tree> = (0..STORIES.len())
        .map(|story| undisturbed(new(of_story(story)), &Tree::new(), STORIES[story]))
        .collect();
    let runs = AtomicU64::new(0);
    at_once(4, &seeds, |&seed| {
        let story = (seed % STORIES.len() as u64) as usize;
        let ran = weathers(
            &new(of_story(story)),
            seed,
            STORIES[story],
            &expected[story],
        );
        runs.fetch_add(ran, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    println!(
        "chaos on {name}: {} seeds, {} runs, {:.1} s",
        seeds.len(),
        runs.into_inner(),
        begun.elapsed().as_secs_f64()
    );
}

fn seeds() -> u64 {
    let one = number("SHARDPACK_SEED").map(|_| 1);
    number("SHARDPACK_SEEDS").or(one).unwrap_or(SEEDS)
}

#[test]
fn one_operation_in_four_that_goes_wrong_on_disk_changes_nothing() {
    weathers_seeds("disk", LOCAL, seeds());
}

#[test]
fn one_operation_in_four_that_goes_wrong_on_s3_changes_nothing() {
    weathers_seeds("S3", S3, seeds().div_ceil(10));
}
