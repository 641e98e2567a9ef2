//! What a verb says at its end: what matters, and what comes next, ready to be pasted.

use std::path::Path;
use std::process::Command;

use crate::support::{Dataset, Output, Run, flip, picture, run, shardpack};

/// What follows a heading, of each line that has it.
fn after<'a>(run: &'a Run, heading: &str) -> Vec<&'a str> {
    let lines = run.out.lines();
    lines
        .filter_map(|line| line.strip_prefix(&format!("{heading:10}")))
        .collect()
}

/// Runs a line as it was printed, and gives its exit code.
fn paste(line: &str) -> i32 {
    let tools = Path::new(crate::support::BINARY).parent().unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    let status = shell
        .args(["-c", line])
        .env("PATH", path)
        .output()
        .unwrap()
        .status;
    status.code().unwrap()
}

#[test]
fn a_conversion_says_how_its_shards_are_read_and_how_they_are_verified() {
    let data = Dataset::new().class("cat", 6);
    let path = data.place("a place's \"shards\"");
    let converted = data.convert_to(&path, &["--shards", "3"]);
    converted.exits(0);
    assert_eq!(paste(after(&converted, "next")[0]), 0);
    let read = after(&converted, "read")[0];
    let program = format!(
        "import json\nclass wds: WebDataset = staticmethod(lambda shards, shardshuffle: print(*shards, sep='\\n'))\n{read}"
    );
    let python = Command::new("python3")
        .args(["-c", &program])
        .output()
        .unwrap();
    let output = Output {
        path,
        run: converted,
    };
    let shards: String = output
        .shards()
        .iter()
        .map(|shard| format!("{}\n", shard.display()))
        .collect();
    assert_eq!(
        String::from_utf8_lossy(&python.stdout),
        shards,
        "{python:?}"
    );
    let summary = run(shardpack(&["verify", "--summary", "-"]).arg(&output.path)).json();
    assert!(summary["next"].is_null(), "{summary}");
}

#[test]
fn a_dry_run_ends_with_the_command_that_does_it() {
    let data = Dataset::new().class("cat", 6);
    let path = data.fresh();
    let dry = data.convert_to(&path, &["--dry-run", "--shards", "2"]);
    assert!(!path.exists());
    assert_eq!(paste(after(dry.exits(0), "next")[0]), 0);
    assert_eq!(crate::support::files(&path.join("data")).len(), 2);
    assert!(after(&data.convert_to(&path, &["-n", "--shards", "2"]), "next").is_empty());
}

#[test]
fn planning_and_packing_end_with_what_is_left_to_do() {
    let data = Dataset::new().class("cat", 6);
    let path = data.fresh();
    let planned = run(shardpack(&["plan"])
        .arg(data.source())
        .arg(&path)
        .args(["--shards", "2"]));
    for line in after(planned.exits(0), "next") {
        assert_eq!(paste(line), 0, "{line}");
    }
    run(shardpack(&["verify"]).arg(&path)).exits(0);
    let packed = run(shardpack(&["pack"]).arg(&path));
    assert_eq!(paste(after(packed.exits(0), "next")[0]), 0);
    let part = run(shardpack(&["pack", "--worker", "0/2"]).arg(&path));
    assert!(after(part.exits(0), "next").is_empty());
}

#[test]
fn damage_is_told_with_the_command_that_mends_it() {
    let data = Dataset::new().class("a class's", 6);
    let output = data.convert(&["--shards", "2"]);
    let before = output.digests();
    flip(&output.shards()[1], 700);
    // Nobody knows where the source is.
    let found = output.verify(&[]);
    let lines = after(found.exits(4), "next");
    assert!(lines[0].ends_with(" --source SRC"), "{lines:?}");
    let source = data.source();
    let found = output.verify(&["--level", "source", "--source", source.to_str().unwrap()]);
    assert_eq!(paste(after(found.exits(4), "next")[0]), 0);
    assert_eq!(output.digests(), before);
    // A stored plan knows.
    let path = data.fresh();
    run(shardpack(&["plan"]).arg(data.source()).arg(&path)).exits(0);
    run(shardpack(&["pack", "--publish-when-complete"]).arg(&path)).exits(0);
    let planned = Output { path, run: found };
    flip(&planned.shards()[0], 700);
    let found = planned.verify(&[]);
    assert_eq!(paste(after(found.exits(4), "next")[0]), 0);
    planned.verify(&[]).exits(0);
}

#[test]
fn a_gc_that_removes_nothing_says_what_stays_and_by_which_flag_it_would_go() {
    let data = Dataset::new().class("cat", 6);
    let output = data.convert(&[]);
    let nothing = output.verb("gc", &[]);
    nothing
        .exits(0)
        .says(&["removed 0 leftovers", "belongs to the newest snapshot"]);
    assert!(after(&nothing, "next").is_empty());
    data.convert_to(&output.path, &["--shards", "2", "--full"])
        .exits(0);
    let kept = output.verb("gc", &[]);
    kept.exits(0).says(&[
        "removed 0 leftovers",
        "1 earlier snapshot stays",
        "`--keep 1`",
        "`--older-than 0s`",
    ]);
    assert!(output.path.join("data/train-00000.tar").exists());
    assert_eq!(paste(after(&kept, "next")[0]), 0);
    assert!(!output.path.join("data/train-00000.tar").exists());
    output.verify(&[]).exits(0);
    output
        .verb("gc", &[])
        .exits(0)
        .says(&["belongs to the newest snapshot"]);
}

#[test]
fn classes_that_lost_all_their_samples_are_in_the_summary() {
    let data = Dataset::new()
        .class("cat", 4)
        .file("dog/1.jpg", &picture("dog/1.jpg")[..300]);
    let output = data.convert(&["--on-error", "skip"]);
    output
        .run
        .says(&["emptied   class `dog`, label 1: its only sample was left out, none is left"]);
    output.run.says(&["dog/1.jpg: truncated"]);
    let summary = data.convert_to(&data.fresh(), &["--on-error", "skip", "--summary", "-"]);
    let summary = summary.exits(0).json();
    assert_eq!(summary["emptied"][0]["name"], "dog");
    assert_eq!(summary["emptied"][0]["samples"], 1);
}

#[test]
fn a_sample_that_was_found_is_a_command_away() {
    let data = Dataset::new().class("cat", 2);
    let output = data.convert(&[]);
    let found = output.verb("inspect", &["cat/0001"]);
    let line = after(found.exits(0), "next")[0].to_owned();
    let at = data.place("here");
    std::fs::create_dir(&at).unwrap();
    assert_eq!(
        paste(&format!("cd '{}' && {line}", at.display())),
        0,
        "{line}"
    );
    assert_eq!(
        std::fs::read(at.join("0001.jpg")).unwrap(),
        picture("cat/0001.jpg")
    );
}
