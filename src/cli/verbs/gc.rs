//! `gc`: remove what killed runs left behind.

use std::fmt::Write;

use super::summary::Summary;
use crate::base::error::Result;
use crate::base::units::{bytes_text, counted, seconds_text};
use crate::cli::settings::Running;
use crate::store::{self, Leftover};
use crate::upkeep::gc::{RemovalOutcome, RemovalRules, collect};

/// Removes leftovers of `destination`, or says what it would remove.
pub(crate) fn run(destination: &str, rules: &RemovalRules, running: &Running) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    let found = collect(sink.as_ref(), rules)?;
    Ok(Summary {
        destination: Some(sink.to_string()),
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
    out
}
