//! The system refuses: no room, no file left to open, an error of the disk, a signal in between. Once at every point, and then it does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustix::io::Errno;

use super::*;
use crate::base::error::Kind;
use crate::store::at_once;

/// What the system says, what that makes of a run that does not get over it, and what the run says.
type Said = (Errno, Kind, &'static [&'static str]);

/// Each of these at every point.
const SAID: [Said; 5] = [
    (
        Errno::NOSPC,
        Kind::Failed,
        &["no space left on device", "free some space and run again"],
    ),
    (
        Errno::IO,
        Kind::Failed,
        &["input/output error", "log of the kernel"],
    ),
    (
        Errno::MFILE,
        Kind::Transient,
        &["too many open files", "raise the open-file limit"],
    ),
    (
        Errno::NFILE,
        Kind::Transient,
        &["too many open files in system", "raise the open-file limit"],
    ),
    (Errno::INTR, Kind::Failed, &[]),
];

/// One of these at every point, by turns: what a mount says that lost its server, and what is over when others are done.
const OUTAGES: [Said; 20] = [
    outage(Errno::NOTCONN),
    outage(Errno::HOSTUNREACH),
    outage(Errno::NETUNREACH),
    outage(Errno::CONNREFUSED),
    outage(Errno::CONNRESET),
    outage(Errno::SHUTDOWN),
    outage(Errno::CONNABORTED),
    outage(Errno::REMOTEIO),
    outage(Errno::NODEV),
    outage(Errno::TIME),
    outage(Errno::TIMEDOUT),
    outage(Errno::STALE),
    outage(Errno::HOSTDOWN),
    outage(Errno::NETDOWN),
    outage(Errno::NETRESET),
    outage(Errno::NOLINK),
    outage(Errno::COMM),
    outage(Errno::BUSY),
    outage(Errno::NOMEM),
    outage(Errno::AGAIN),
];

const fn outage(errno: Errno) -> Said {
    (errno, Kind::Transient, &["run again"])
}

/// Refuses each point once with each of them; whoever is told so starts the same again.
fn refuses(name: &str, new: New, earlier: &[Verb], verbs: &[Verb], level: Level) {
    let begun = Instant::now();
    let data = match earlier {
        [Verb::Early, ..] => Data::grown(),
        _ => Data::small(),
    };
    let before = undisturbed(new(&data), &Tree::new(), earlier);
    let world = new(&data);
    world.fill(&before);
    let count = Ending::errno(level, usize::MAX, Errno::IO);
    for &verb in verbs {
        world.run(verb, &count).unwrap();
    }
    let after = world.tree();
    let tries: Vec<_> = (0..count.points())
        .flat_map(|at| {
            let said = SAID.iter().chain([&OUTAGES[at % OUTAGES.len()]]);
            said.map(move |said| (at, said))
        })
        // Nothing that asks a store is ever told of a signal: the store asks again.
        .filter(|(_, (errno, ..))| level != Level::Operations || *errno != Errno::INTR)
        .collect();
    let tries = thinned(tries);
    assert!(!tries.is_empty());
    let told = AtomicUsize::new(0);
    at_once(4, &tries, |&(at, (errno, kind, words))| {
        let world = new(&data);
        world.fill(&before);
        let ending = Ending::errno(level, at, *errno);
        for &verb in verbs {
            let context = || format!("{name}, {level:?} {:?} {errno:?}, {verb:?}", ending.place());
            if let Err(error) = world.run(verb, &ending) {
                told.fetch_add(1, Ordering::Relaxed);
                let text = error.to_string();
                assert!(
                    error.kind() == *kind && !words.is_empty(),
                    "{}: {error}",
                    context()
                );
                for word in *words {
                    assert!(text.contains(word), "{}: {error}", context());
                }
                let (what, _) = text.split_once(": ").unwrap();
                assert!(!what.is_empty() && !text.contains("os error"), "{text}");
                // Nothing half done by one that lives is left to be swept.
                assert_whole(&world.tree(), &before, &after, &context());
                world
                    .run(verb, &Ending::good(Level::Operations))
                    .unwrap_or_else(|error| {
                        panic!("{}: and then: {error}", context());
                    });
            }
        }
        let context = format!("{name}, {level:?} {:?} {errno:?}", ending.place());
        let lost = world.disk.lost();
        assert!(lost.is_empty(), "{context}: not durable: {lost:?}");
        world.collects();
        assert_same(&world.tree(), &after, &context);
        Ok(())
    })
    .unwrap();
    println!(
        "{name}, {level:?}: {} points, {} runs, {} told, {:.1} s",
        count.points(),
        tries.len(),
        told.into_inner(),
        begun.elapsed().as_secs_f64()
    );
}

#[test]
fn a_conversion_to_disk_gets_over_what_the_system_refuses_once() {
    for level in [Level::Operations, Level::Steps, Level::Reads] {
        refuses("convert to disk", LOCAL, &[], CONVERT, level);
    }
}

#[test]
fn workers_on_disk_get_over_what_the_system_refuses_once() {
    for level in [Level::Operations, Level::Steps, Level::Reads] {
        refuses(
            "plan, 3 packers, publish on disk",
            LOCAL,
            &[],
            WORKERS,
            level,
        );
    }
}

#[test]
fn a_next_snapshot_on_disk_gets_over_what_the_system_refuses_once() {
    for level in [Level::Operations, Level::Steps, Level::Reads] {
        refuses("all anew on disk", LOCAL, EARLY, &[Verb::Anew], level);
    }
    for level in [Level::Operations, Level::Steps] {
        refuses("second snapshot on disk", LOCAL, CONVERT, INDEX, level);
    }
}

#[test]
fn a_repair_on_disk_gets_over_what_the_system_refuses_once() {
    for level in [Level::Operations, Level::Steps] {
        refuses("repair on disk", LOCAL, CONVERT, REPAIR, level);
    }
}

#[test]
fn a_gc_on_disk_gets_over_what_the_system_refuses_once() {
    for level in [Level::Operations, Level::Steps] {
        refuses("gc on disk", LOCAL, ANEW, COLLECT, level);
    }
}

#[test]
fn a_conversion_to_s3_gets_over_what_the_system_refuses_once() {
    for level in [Level::Operations, Level::Reads] {
        refuses("convert to S3", S3, &[], CONVERT, level);
    }
}
