//! Processes that change what is published and stand still while others publish a later state, and what a late one leaves that is killed
//! before it looks again.

use std::time::Instant;

use super::together::writes;
use super::*;
use crate::base::error::Kind;

/// At each of its points `verb` stands still while others publish a later state. Whoever comes last, and whether it is killed as soon as it
/// has done what it was about to do: after one more run everything is that of the newest snapshot.
fn sleeps_over(name: &str, new: New, verb: Verb, earlier: &[Verb], damage: fn(&mut Tree)) {
    let begun = Instant::now();
    let data = Data::grown();
    let mut before = undisturbed(new(&data), &Tree::new(), earlier);
    let first = published(&before).snapshot;
    damage(&mut before);
    let levels: &[Level] = match new(&data).place {
        Place::Local(_) => &[Level::Operations, Level::Steps],
        Place::S3(_) => &[Level::Operations],
    };
    for &level in levels {
        let world = new(&data);
        world.fill(&before);
        let ending = Ending::good(level);
        let _ = world.run(verb, &ending);
        // Before steps that write nothing it is as if it slept before the next that does.
        let trace = ending.trace();
        let points =
            (0..trace.len()).filter(|&at| level == Level::Operations || writes(&trace[at]));
        let (mut asleep, mut killed) = (0, 0);
        for point in points {
            let like = new(&data);
            asleep += 1;
            let place = sleeps_at(&like, &before, verb, first, false, |work| {
                Ending::pause(level, point, work)
            });
            if place.is_some_and(|place| writes(&place)) {
                killed += 1;
                sleeps_at(&like, &before, verb, first, true, |work| {
                    Ending::last_act(level, point, work)
                });
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{name} sleeps over a publication, {level:?}: {asleep} points, killed at {killed}, {seconds:.1} s"
        );
        assert!(killed > 1);
    }
}

/// Where it stood still, if it came so far.
fn sleeps_at(
    like: &World,
    before: &Tree,
    verb: Verb,
    first: u64,
    dies: bool,
    ending: impl FnOnce(Box<dyn FnOnce() + Send>) -> Arc<Ending>,
) -> Option<String> {
    let world = Arc::new(like.empty());
    world.fill(before);
    let meanwhile = Arc::clone(&world);
    let ending = ending(Box::new(move || {
        // Nothing is published over what has no manifest.
        if !meanwhile.tree().contains_key(MANIFEST) {
            meanwhile.succeeds(&[Verb::Repair]);
        }
        meanwhile.succeeds(&[Verb::Between]);
    }));
    world.silence_the_dead(&ending);
    let ended = world.run(verb, &ending);
    let place = ending.place()?;
    let context = format!("{verb:?}, asleep at {place}, dies: {dies}");
    world.revive(&ending);
    if !dies {
        if let Err(error) = ended {
            let kinds = [Kind::Conflict, Kind::Failed];
            assert!(kinds.contains(&error.kind()), "{context}: {error}");
        }
        assert_newest(&world.tree(), &context);
    }
    // The next night.
    world.succeeds(&[Verb::Between]);
    let tree = world.tree();
    assert_newest(&tree, &context);
    let last = published(&tree).snapshot;
    assert!(last > first, "{context}: the later state was taken back");
    Some(place)
}

fn no_damage(_: &mut Tree) {}

fn without_manifest(tree: &mut Tree) {
    tree.insert("wids-train.json".to_owned(), "{}".into());
    tree.insert(".nv-meta/split.yaml".to_owned(), "x".into());
    tree.remove(MANIFEST);
}

#[test]
fn an_index_that_sleeps_over_a_publication_takes_nothing_back() {
    let index = Verb::Index("timm");
    sleeps_over("an index on disk", LOCAL, index, EARLY, no_damage);
    sleeps_over("an index on S3", S3, index, EARLY, no_damage);
}

#[test]
fn a_repair_that_sleeps_over_a_publication_takes_nothing_back() {
    let repair = Verb::Repair;
    sleeps_over("a repair on disk", LOCAL, repair, EARLY, without_manifest);
    sleeps_over("a repair on S3", S3, repair, EARLY, without_manifest);
}

#[test]
fn a_gc_that_sleeps_over_a_publication_takes_nothing_back() {
    sleeps_over("a gc on disk", LOCAL, Verb::Collect, ANEW, no_damage);
    sleeps_over("a gc on S3", S3, Verb::Collect, ANEW, no_damage);
}

#[test]
fn a_conversion_anew_that_sleeps_over_a_publication_takes_nothing_back() {
    sleeps_over("all anew on disk", LOCAL, Verb::Anew, EARLY, no_damage);
    sleeps_over("all anew on S3", S3, Verb::Anew, EARLY, no_damage);
}

#[test]
fn a_run_that_finds_everything_published_puts_right_what_lies_beside_the_manifest() {
    let of_tars: &[&str] = &[
        ".nv-meta/.info.json",
        ".nv-meta/dataset.yaml",
        ".nv-meta/split.yaml",
        "SHA256SUMS",
        "data/train-00000.tar.idx",
        "data/train-00001.idx",
        "wids-train.json",
    ];
    let of_tfrecords: &[&str] = &["dataset_info.json", "features.json", "label.labels.txt"];
    for new in [LOCAL, S3] {
        for (data, names) in [(Data::small(), of_tars), (Data::added(), of_tfrecords)] {
            let expected = undisturbed(new(&data), &Tree::new(), CONVERT);
            let verbs = [
                Verb::Convert,
                Verb::Plan,
                Verb::Publish,
                Verb::Index(data.readers[0]),
            ];
            let all = names
                .iter()
                .flat_map(|name| verbs.map(|verb| (*name, verb)));
            for (name, verb) in all {
                for content in [None, Some("stale")] {
                    let mut tree = expected.clone();
                    let edited = match content {
                        None => tree.remove(name),
                        Some(content) => tree.insert(name.to_owned(), content.into()),
                    };
                    assert!(edited.is_some(), "{name}");
                    // People may say what a sample is.
                    if name.ends_with("dataset.yaml") && content.is_some() {
                        continue;
                    }
                    let world = new(&data);
                    world.fill(&tree);
                    world.succeeds(&[verb]);
                    let context = format!("{verb:?} over {name}, {content:?}");
                    assert_same(&world.tree(), &expected, &context);
                }
            }
        }
    }
}

/// What people completed is no leftover of an earlier snapshot.
#[test]
fn a_card_and_a_sample_type_that_were_edited_stay_through_runs_and_publications() {
    let world = World::local(&Data::grown());
    world.succeeds(EARLY);
    let edited = [CARD, ".nv-meta/dataset.yaml"];
    world.fill(
        &edited
            .map(|name| (name.to_owned(), "by hand".into()))
            .into(),
    );
    world.succeeds(&[Verb::Early, Verb::Convert, Verb::Convert, Verb::Publish]);
    let tree = world.tree();
    for name in edited {
        assert_eq!(tree[name], "by hand");
    }
}
