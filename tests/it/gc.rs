use std::path::Path;

use crate::support::*;

/// Two days pass for everything below a directory.
fn ages(root: &Path) {
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(48 * 3600);
    for file in files(root) {
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.set_modified(then).unwrap();
    }
}

/// A dataset of four shards that was then made anew with one more picture, in the same place.
fn made_twice() -> (Dataset, Output, Digests) {
    let (data, output) = Dataset::new()
        .class("cat", 10)
        .class("dog", 10)
        .convert_kept(&["--shard-samples", "5"]);
    let first = output.digests();
    let data = data.file("dog/new.jpg", picture("dog/new.jpg"));
    let again = data.convert_to(&output.path, &["--shard-samples", "5", "--full"]);
    again.exits(0);
    (data, output, first)
}

#[test]
fn an_earlier_snapshot_goes_with_all_that_only_it_needs() {
    let (data, output, first) = made_twice();
    let theirs = [
        "data/train-99999.tar",
        "index/mine.parquet",
        "notes.txt",
        "_shardpack/mine",
    ];
    for name in theirs {
        std::fs::write(output.path.join(name), "mine").unwrap();
    }
    let before = output.digests();
    // What took its place is not a day old.
    output
        .verb("gc", &["--keep", "1"])
        .exits(0)
        .says(&["removed 0 leftovers"]);
    ages(&output.path);
    // Nobody said that earlier snapshots are not wanted.
    output
        .verb("gc", &[])
        .exits(0)
        .says(&["removed 0 leftovers"]);
    let dry = output.verb("gc", &["--keep", "1", "--dry-run"]);
    dry.exits(0).says(&[
        "would remove  _shardpack/snapshots/00000001.json: earlier snapshot, ",
        "would remove  data/train-00000.tar: unused shard, ",
        " kB, 48 h 00 min old",
        "would remove 10 leftovers, ",
    ]);
    assert_eq!(output.digests(), before);
    output
        .verb("gc", &["--keep", "1"])
        .exits(0)
        .says(&["removed 10 leftovers, "]);
    let after = output.digests();
    for name in first
        .keys()
        .filter(|name| name.starts_with("data/") || name.starts_with("index/"))
    {
        assert!(!after.contains_key(name), "{name}");
    }
    assert!(before.iter().all(|(name, digest)| match after.get(name) {
        Some(after) => after == digest,
        None => first.contains_key(name),
    }));
    for name in theirs {
        std::fs::remove_file(output.path.join(name)).unwrap();
    }
    output.verify(&[]).exits(0);
    output
        .verb("gc", &["--keep", "1", "--older-than", "0s"])
        .exits(0)
        .says(&["removed 0 leftovers"]);

    // The dataset is gone on with, and mended from its records, as ever.
    let flags = ["--shard-samples", "5"];
    data.convert_to(&output.path, &flags)
        .exits(0)
        .says(&["up to date"]);
    std::fs::remove_file(output.path.join("manifest.json")).unwrap();
    std::fs::remove_dir_all(output.path.join("_shardpack/snapshots")).unwrap();
    output.verb("repair", &[]).exits(0);
    assert_eq!(output.digests()["manifest.json"], before["manifest.json"]);
    let data = data.file("dog/newer.jpg", picture("dog/newer.jpg"));
    data.convert_to(&output.path, &flags).exits(0);
    output.verify(&[]).exits(0);
}

#[test]
fn what_readers_had_beside_a_shard_goes_with_it() {
    for (format, reader, ends) in [
        ("wds", "dali", ".idx"),
        ("wds", "energon", ".tar.idx"),
        ("tfrecord", "tfrecord", ".tfindex"),
    ] {
        let flags = [
            "--shards", "2", "--format", format, "--index", reader, "--full",
        ];
        let (data, output) = Dataset::new().class("cat", 10).convert_kept(&flags);
        let name = format!("data/train-00000{ends}");
        assert!(output.path.join(&name).is_file(), "{name}");
        let data = data.file("cat/new.jpg", picture("cat/new.jpg"));
        data.convert_to(&output.path, &flags).exits(0);
        ages(&output.path);
        // The snapshot, samples of its plan, and of two shards each, index and what readers had.
        output
            .verb("gc", &["--keep", "1"])
            .exits(0)
            .says(&["removed 8 leftovers, "]);
        assert!(!output.path.join(&name).exists(), "{name}");
        let kept = format!("data/train-00002{ends}");
        assert!(output.path.join(&kept).is_file(), "{kept}");
        output.verify(&[]).exits(0);
    }
}

#[test]
fn what_a_plan_that_can_still_be_published_made_stays_however_old_it_is() {
    let data = Dataset::new().class("cat", 10);
    let path = data.fresh();
    let out = path.to_str().unwrap();
    run(shardpack(&["plan"])
        .arg(data.source())
        .args([out, "--shards", "4"]))
    .exits(0);
    run(&mut shardpack(&["pack", out, "--worker", "0/2"])).exits(0);
    ages(&path);
    let before = digests(&path);
    run(&mut shardpack(&["gc", out, "--keep", "1"]))
        .exits(0)
        .says(&["removed 0 leftovers"]);
    assert_eq!(digests(&path), before);
    run(&mut shardpack(&["pack", out])).exits(0);
    run(&mut shardpack(&["publish", out])).exits(0);
}

#[test]
fn a_place_that_holds_nothing_is_told() {
    let nowhere = Dataset::new().fresh();
    run(&mut shardpack(&["gc", nowhere.to_str().unwrap()]))
        .exits(0)
        .says(&["holds nothing", "removed 0 leftovers"]);
}

#[test]
fn gc_removes_nothing_where_a_snapshot_cannot_be_read() {
    let (_data, output, _) = made_twice();
    let snapshot = output.path.join("_shardpack/snapshots/00000001.json");
    std::fs::write(&snapshot, "{").unwrap();
    ages(&output.path);
    let before = output.digests();
    let refused = output.verb("gc", &[]);
    refused
        .exits(4)
        .says(&["00000001.json", "nothing was removed", "shardpack repair"]);
    assert_eq!(output.digests(), before);
    // It is not one of those that stay.
    output
        .verb("gc", &["--keep", "1"])
        .exits(0)
        .says(&["removed 10 leftovers"]);
    output.verify(&[]).exits(0);
    output
        .verb("gc", &["--keep", "0"])
        .exits(2)
        .says(&["at least 1"]);
}
