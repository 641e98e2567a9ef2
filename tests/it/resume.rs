//! Runs that are interrupted, and the runs after them; `kill.rs` has those that are killed at random moments.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Dataset, Run, digests, files, finished, run, shardpack, stamps};

const MANY: [&str; 2] = ["--shard-samples", "3"];

fn many() -> Dataset {
    Dataset::new().class("cat", 150).class("dog", 150)
}

/// Starts a conversion that waits for the disk, as real ones do.
fn start(data: &Dataset, destination: &Path) -> Child {
    let mut command = data.command(destination, &MANY);
    command.env_remove("SHARDPACK_NO_FSYNC");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn temporaries(destination: &Path) -> Vec<std::path::PathBuf> {
    let mut found = files(destination);
    found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with('.'));
    found
}

/// Waits until this many shards are there.
fn wait_for_shards(destination: &Path, shards: usize) {
    let data = destination.join("data");
    let begin = Instant::now();
    let there = || {
        files(&data)
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "tar"))
            .count()
    };
    while there() < shards {
        assert!(begin.elapsed() < Duration::from_secs(60), "no shards come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn finished_shards_are_not_written_again() {
    let data = many();
    let destination = data.fresh();
    let mut child = start(&data, &destination);
    wait_for_shards(&destination, 5);
    child.kill().unwrap();
    child.wait().unwrap();
    let records: BTreeSet<_> = files(&destination.join("index"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "parquet"))
        .collect();
    let before = stamps(&destination.join("index"));
    data.convert_to(&destination, &MANY)
        .exits(0)
        .says(&[&format!("{} shards were already done", records.len())]);
    let after = stamps(&destination.join("index"));
    // The last of the shards may not have had their records yet.
    assert!(records.len() >= 3, "{records:?}");
    assert!(records.iter().all(|path| before[path] == after[path]));
}

/// Signals a run in its middle; gives how it ended, and resumes it.
fn signalled(signal: Signal) -> Run {
    let data = many();
    let destination = data.fresh();
    let child = start(&data, &destination);
    wait_for_shards(&destination, 5);
    kill_process(Pid::from_child(&child), signal).unwrap();
    let begin = Instant::now();
    let run = finished(child.wait_with_output().unwrap());
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(temporaries(&destination), [] as [&Path; 0]);
    assert!(!destination.join("manifest.json").exists());
    let summary = data.place("summary.json");
    let flags = [&MANY[..], &["--summary", summary.to_str().unwrap()]].concat();
    data.convert_to(&destination, &flags)
        .exits(0)
        .says(&["shards were already done"]);
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(summary).unwrap()).unwrap();
    let reused = summary["shards_reused"].as_u64().unwrap();
    assert!((3..100).contains(&reused), "{summary}");
    assert_eq!(digests(&destination), data.convert(&MANY).digests());
    run
}

#[test]
fn an_interrupted_run_ends_with_130_and_leaves_nothing_half_named() {
    signalled(Signal::INT)
        .exits(130)
        .says(&["interrupted: finished shards are kept, run the same command again"]);
}

#[test]
fn a_terminated_run_ends_with_143_and_leaves_nothing_half_named() {
    signalled(Signal::TERM)
        .exits(143)
        .says(&["interrupted: finished shards are kept, run the same command again"]);
}

#[test]
fn a_shard_or_record_that_was_lost_before_publishing_is_packed_again() {
    let data = Dataset::new().class("cat", 12);
    let expected = data.convert(&["--shards", "4"]).digests();
    for lost in ["data/train-00001.tar", "index/train-00001.parquet"] {
        let destination = data.fresh();
        run(shardpack(&["plan", "--shards", "4"])
            .arg(data.source())
            .arg(&destination))
        .exits(0);
        run(shardpack(&["pack"]).arg(&destination)).exits(0);
        std::fs::remove_file(destination.join(lost)).unwrap();
        run(shardpack(&["publish"]).arg(&destination))
            .exits(1)
            .says(&["1 of 4 shards are not packed yet", "data/train-00001.tar"]);
        data.convert_to(&destination, &["--shards", "4"])
            .exits(0)
            .says(&["3 shards were already done"]);
        let mut made = digests(&destination);
        made.retain(|name, _| !name.ends_with("/source"));
        assert_eq!(expected, made);
    }
}

#[test]
fn temporary_files_of_dead_runs_are_removed_and_those_of_living_ones_are_not() {
    let data = Dataset::new().class("cat", 4);
    let output = data.convert(&[]);
    let name = output.path.join("data");
    // As a run that was killed leaves it: named by this machine, not locked by anybody.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let machine: String = boot
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(12)
        .collect();
    let dead = name.join(format!(".train-00000.tar.{machine}-1-0.tmp"));
    let dead_manifest = output
        .path
        .join(format!(".manifest.json.{machine}-1-1.tmp"));
    let living = name.join(format!(".train-00001.tar.{machine}-2-0.tmp"));
    std::fs::write(&dead, b"half").unwrap();
    std::fs::write(&dead_manifest, b"half").unwrap();
    let held = std::fs::File::create(&living).unwrap();
    held.lock().unwrap();
    data.convert_to(&output.path, &[]).exits(0);
    assert!(!dead.exists());
    assert!(!dead_manifest.exists());
    assert!(living.exists());
}

#[test]
fn gc_removes_old_partial_files_of_any_machine_and_nothing_else() {
    let data = many();
    let output = data.convert(&MANY);
    let expected = output.digests();
    let place = |name: &str| output.path.join(name);
    let shard = output.shards()[0]
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let (dead, living) = (
        format!("data/.{shard}.0123456789ab-77-0.tmp"),
        format!("data/.{shard}.0123456789ab-77-1.tmp"),
    );
    let ours = [
        &dead,
        "_shardpack/snapshots/.00000001.json.0123456789ab-77-2.tmp",
        ".manifest.json.0123456789ab-7-3.tmp",
        // Of reader indexes, whose names nothing says before they are made.
        ".wids-train.json.0123456789ab-7-4.tmp",
        ".nv-meta/..info.json.0123456789ab-7-5.tmp",
    ];
    std::fs::create_dir(place(".nv-meta")).unwrap();
    for name in ours
        .iter()
        .copied()
        .chain([living.as_str(), "data/.notes.txt.tmp", "index/.x.swp"])
    {
        std::fs::write(place(name), "half").unwrap();
    }
    let lock = std::fs::File::options()
        .write(true)
        .open(place(&living))
        .unwrap();
    lock.lock().unwrap();

    output
        .verb("gc", &[])
        .exits(0)
        .says(&["too young", "left 5 leftovers alone", "not ours"]);
    output
        .verb("gc", &["--older-than", "0s", "--dry-run"])
        .exits(0)
        .says(&["would remove 5 leftovers"]);
    assert!(ours.iter().all(|name| place(name).exists()));
    output
        .verb("gc", &["--older-than", "0s"])
        .exits(0)
        .says(&["removed 5 leftovers"]);
    assert!(ours.iter().all(|name| !place(name).exists()));
    // What a living writer holds, and what somebody else put there.
    for name in [living.as_str(), "data/.notes.txt.tmp", "index/.x.swp"] {
        assert!(place(name).exists(), "{name}");
        std::fs::remove_file(place(name)).unwrap();
    }
    assert_eq!(expected, output.digests());
    output
        .verb("gc", &["--older-than", "a week"])
        .exits(2)
        .says(&["7d"]);
}
