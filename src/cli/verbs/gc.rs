//! `gc`: remove what killed runs left behind.

use std::fmt::Write;

use super::next;
use super::summary::Summary;
use crate::base::error::Result;
use crate::base::units::{bytes_text, counted, seconds_text};
use crate::cli::settings::Running;
use crate::store::{self, Leftover};
use crate::upkeep::gc::{EARLIER_SNAPSHOT, RemovalOutcome, RemovalRules, collect};

/// Removes leftovers of `destination`, or says what it would remove.
pub(crate) fn run(destination: &str, rules: &RemovalRules, running: &Running) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    let found = collect(sink.as_ref(), rules)?;
    let place = sink.to_string();
    let command = |words: &[&str]| vec![next::command("gc", &place, words, running)];
    let next = match (found.removed.is_empty(), found.kept.is_empty()) {
        (false, _) => running.for_real.iter().cloned().collect(),
        (true, false) if found.kept_is_old => command(&["--keep", "1"]),
        (true, false) => command(&["--keep", "1", "--older-than", "0s"]),
        (true, true) if !found.young.is_empty() => match rules.keep {
            Some(keep) => command(&["--keep", &keep.to_string(), "--older-than", "0s"]),
            None => command(&["--older-than", "0s"]),
        },
        (true, true) => Vec::new(),
    };
    Ok(Summary {
        next,
        destination: Some(place),
        removed: found.removed.len() as u64,
        ..Summary::text(render(&found, rules))
    })
}

fn render(found: &RemovalOutcome, rules: &RemovalRules) -> String {
    let mut out = String::new();
    let verb = if rules.dry_run {
        "would remove"
    } else {
        "removed"
    };
    let groups: [(&str, &[Leftover]); 3] = [
        (verb, &found.removed),
        ("too young", &found.young),
        ("not ours", &found.foreign),
    ];
    for (what, leftovers) in groups {
        for leftover in leftovers {
            let age = seconds_text(leftover.age.as_secs_f64());
            let size = leftover
                .bytes
                .map(|bytes| format!(", {}", bytes_text(bytes)));
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{what:13} {}: {}{}, {age} old",
                leftover.name,
                leftover.what,
                size.unwrap_or_default()
            );
        }
    }
    let count = counted(found.removed.len() as u64, "leftover");
    let bytes: u64 = found.removed.iter().filter_map(|l| l.bytes).sum();
    let size = match bytes {
        0 => String::new(),
        bytes => format!(", {}", bytes_text(bytes)),
    };
    let _ = writeln!(out, "{verb} {count}{size}");
    if !found.young.is_empty() {
        let young = counted(found.young.len() as u64, "leftover");
        let _ = writeln!(
            out,
            "left {young} alone: younger than {}; if no run is at work, add `--older-than 0s`",
            seconds_text(rules.older_than.as_secs_f64())
        );
    }
    if found.removed.is_empty() {
        write_kept(&mut out, found, rules);
    }
    out
}

/// What stays although one might want it to go, why, and by which flag it would.
fn write_kept(out: &mut String, found: &RemovalOutcome, rules: &RemovalRules) {
    let snapshots = |list: &[Leftover]| {
        let is_one = |leftover: &&Leftover| leftover.what == EARLIER_SNAPSHOT;
        list.iter().filter(is_one).count() as u64
    };
    let text = match found.kept.is_empty() {
        false => {
            let bytes: u64 = found.kept.iter().filter_map(|kept| kept.bytes).sum();
            let earlier = snapshots(&found.kept);
            let needed = found.kept.len() as u64 - earlier;
            let also = match found.kept_is_old {
                true => String::new(),
                false => format!(
                    " and, since what took their place is younger than {}, `--older-than 0s`, if nobody reads them any more",
                    seconds_text(rules.older_than.as_secs_f64())
                ),
            };
            let (stay, need) = match earlier {
                1 => ("stays", "only it needs"),
                _ => ("stay", "only they need"),
            };
            format!(
                "{} {stay}, with {} that {need}, {}: all of that goes with `--keep 1`{also}",
                counted(earlier, EARLIER_SNAPSHOT),
                counted(needed, "file"),
                bytes_text(bytes)
            )
        }
        true if found.young.is_empty() => {
            "all that is there belongs to the newest snapshot, to one that `--keep` keeps, or to a plan that can still be published; files of others are \
             never touched"
                .to_owned()
        }
        true => return,
    };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}
