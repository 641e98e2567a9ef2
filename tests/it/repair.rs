//! What is damaged or missing is made again, byte for byte, and nothing else is touched.

use std::fs;
use std::path::Path;

use crate::support::{
    Dataset, Digests, Output, copy_tree, flip, picture, png, run, shardpack, stamps,
};

fn varied() -> Dataset {
    let mut data = Dataset::new().file("train/cat/really.jpg", png(4));
    for (class, count) in [("train/cat", 20), ("train/dog", 12), ("val/cat", 6)] {
        for number in 0..count {
            let stem = format!("{class}/{number:03}");
            data = data
                .file(format!("{stem}.jpg"), picture(&stem))
                .file(format!("{stem}.txt"), format!("number {number}"));
        }
    }
    data.file("train/cat/really.txt", "a PNG")
}

const FORMATS: [&[&str]; 6] = [
    &["--json", "--index", "wids,dali"],
    &["--compress", "zstd", "--zstd-seekable"],
    &["--compress", "gzip", "--sha256"],
    &["--format", "tfrecord", "--index", "dali"],
    &[
        "--format",
        "tfrecord",
        "--schema",
        "tfds",
        "--compress",
        "zstd",
    ],
    &["--format", "parquet"],
];

/// Everything but stored plans, of which a repair may add one.
fn published(output: &Output) -> Digests {
    let mut all = output.digests();
    all.retain(|name, _| !name.starts_with("_shardpack/plan"));
    all
}

fn repair(output: &Output, source: Option<&Path>) -> crate::support::Run {
    let mut command = shardpack(&["repair"]);
    command.arg(&output.path);
    if let Some(source) = source {
        command.arg("--source").arg(source);
    }
    run(&mut command)
}

type Damage = (&'static str, fn(&Path));

/// Each way to lose something, with whether only the source can give it back.
const DAMAGES: [(bool, Damage); 12] = [
    (
        true,
        ("a flipped bit in a shard", |root| {
            flip(&shard(root, 1), 700)
        }),
    ),
    (
        true,
        ("a shard cut short", |root| {
            let bytes = fs::read(shard(root, 0)).unwrap();
            fs::write(shard(root, 0), &bytes[..bytes.len() / 2]).unwrap();
        }),
    ),
    (
        true,
        ("a shard lost", |root| {
            fs::remove_file(shard(root, 2)).unwrap()
        }),
    ),
    (
        true,
        ("two shards swapped", |root| {
            let (a, b) = (shard(root, 0), shard(root, 1));
            fs::rename(&a, root.join("x")).unwrap();
            fs::rename(&b, &a).unwrap();
            fs::rename(root.join("x"), &b).unwrap();
        }),
    ),
    (
        true,
        ("all shards lost", |root| {
            for number in 0..4 {
                let _ = fs::remove_file(shard(root, number));
            }
        }),
    ),
    (
        true,
        ("a shard and its index lost", |root| {
            fs::remove_file(shard(root, 1)).unwrap();
            fs::remove_file(index(root, 1)).unwrap();
        }),
    ),
    (
        false,
        ("an index lost", |root| {
            fs::remove_file(index(root, 1)).unwrap()
        }),
    ),
    (
        false,
        ("a flipped bit in an index", |root| {
            flip(&index(root, 0), 99)
        }),
    ),
    (
        false,
        ("the manifest lost", |root| {
            fs::remove_file(root.join("manifest.json")).unwrap()
        }),
    ),
    (
        false,
        ("the manifest cut short", |root| {
            fs::write(root.join("manifest.json"), "{").unwrap()
        }),
    ),
    (
        false,
        ("the snapshot lost", |root| {
            fs::remove_file(root.join("_shardpack/snapshots/00000001.json")).unwrap();
        }),
    ),
    (
        false,
        ("manifest and snapshot lost", |root| {
            fs::remove_file(root.join("manifest.json")).unwrap();
            fs::write(
                root.join("_shardpack/snapshots/00000001.json"),
                "no manifest",
            )
            .unwrap();
        }),
    ),
];

fn named(root: &Path, dir: &str, number: usize) -> std::path::PathBuf {
    let file = format!("train-{number:05}.");
    let found = fs::read_dir(root.join(dir))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&file) && !name.ends_with("idx")
    };
    found
        .into_iter()
        .find(is)
        .unwrap_or_else(|| root.join("nothing"))
}

fn shard(root: &Path, number: usize) -> std::path::PathBuf {
    named(root, "data", number)
}

fn index(root: &Path, number: usize) -> std::path::PathBuf {
    named(root, "index", number)
}

#[test]
fn every_loss_is_made_good_byte_for_byte_in_every_format() {
    let data = varied();
    for flags in FORMATS {
        let flags = [flags, &["--shards", "4"]].concat();
        for (_, (what, damage)) in DAMAGES {
            let output = data.convert(&flags);
            let before = published(&output);
            let untouched = stamps(&output.path);
            damage(&output.path);
            let damaged = output.digests();
            repair(&output, Some(&data.source()))
                .exits(0)
                .says(&["repaired"]);
            assert_eq!(published(&output), before, "{what}, {flags:?}");
            // What was not damaged was not written again.
            let after = stamps(&output.path);
            for (path, stamp) in &untouched {
                let name = path.strip_prefix(&output.path).unwrap().to_str().unwrap();
                let shard = name.starts_with("data/") && !name.ends_with("idx");
                // Parquet's index is made with the shard.
                let shard = shard && !(name.ends_with(".parquet") && what.contains("an index"));
                if shard && before.get(name) == damaged.get(name) {
                    assert_eq!(after.get(path), Some(stamp), "{what}: {name}");
                }
            }
            output.verify(&[]).exits(0);
            repair(&output, None).exits(0).says(&["nothing to repair"]);
        }
    }
}

#[test]
fn without_the_source_all_is_made_good_that_the_dataset_itself_has() {
    let data = varied();
    for flags in FORMATS {
        let flags = [flags, &["--shards", "4"]].concat();
        for (source, (what, damage)) in DAMAGES {
            let output = data.convert(&flags);
            let before = published(&output);
            damage(&output.path);
            let run = repair(&output, None);
            // Parquet does not tell enough of itself to make its index.
            if source || (flags.contains(&"parquet") && what.contains("index")) {
                run.exits(4).says(&["LOST", "add `--source SRC`"]);
            } else {
                run.exits(0);
                assert_eq!(published(&output), before, "{what}, {flags:?}");
            }
        }
    }
}

#[test]
fn a_copy_of_the_source_with_other_times_will_do() {
    let data = varied();
    let output = data.convert(&["--shards", "3"]);
    let before = published(&output);
    let copy = data.place("copy");
    copy_tree(&data.source(), &copy, 5000);
    fs::remove_file(shard(&output.path, 1)).unwrap();
    repair(&output, Some(&copy)).exits(0);
    assert_eq!(published(&output), before);
}

#[test]
fn a_source_that_is_not_the_one_is_refused_and_nothing_is_written() {
    let data = varied();
    let output = data.convert(&["--shards", "3"]);
    fs::remove_file(shard(&output.path, 1)).unwrap();
    let damaged = output.digests();
    let mut other = varied();
    for number in 0..20 {
        other = other.file(format!("train/dog/{number:03}.jpg"), picture("other"));
    }
    repair(&output, Some(&other.source())).exits(4).says(&[
        "LOST",
        "data/train-00001.tar",
        "is not what the dataset was made from",
    ]);
    assert_eq!(output.digests(), damaged);
    // The same size and another content: known only when it was packed.
    let path = data.source().join("train/dog/003.jpg");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    for number in [0, 2] {
        let _ = fs::remove_file(shard(&output.path, number));
    }
    repair(&output, Some(&data.source()))
        .exits(4)
        .says(&["packed again it is not what was published"]);
}

#[test]
fn samples_that_were_skipped_are_skipped_again() {
    let cut = picture("cut");
    for flags in [
        &["--format", "wds"][..],
        &["--compress", "zstd"],
        &["--format", "parquet"],
    ] {
        let data = Dataset::new()
            .class("cat", 20)
            .file("cat/cut.jpg", &cut[..cut.len() - 60]);
        let output = data.convert(&[flags, &["--on-error", "skip", "--shards", "1"]].concat());
        let before = published(&output);
        flip(&shard(&output.path, 0), 5000);
        repair(&output, Some(&data.source())).exits(0);
        assert_eq!(published(&output), before, "{flags:?}");
        fs::remove_file(index(&output.path, 0)).unwrap();
        repair(&output, Some(&data.source())).exits(0);
        assert_eq!(published(&output), before, "{flags:?}");
    }
}

#[test]
fn labels_of_a_file_come_from_the_stored_plan() {
    let data = Dataset::new().pictures(&["a.jpg", "b.jpg", "c.jpg"]);
    let labels = data.place("labels.csv");
    fs::write(&labels, "a.jpg,x\nb.jpg,y\nc.jpg,x\n").unwrap();
    let output = data.convert(&["--labels", labels.to_str().unwrap(), "--shards", "3"]);
    let before = output.digests();
    fs::remove_file(shard(&output.path, 1)).unwrap();
    repair(&output, Some(&data.source())).exits(0);
    assert_eq!(output.digests(), before);
}

#[test]
fn a_dry_run_names_what_would_be_done_and_does_nothing() {
    let data = varied();
    let output = data.convert(&["--shards", "3"]);
    flip(&shard(&output.path, 1), 900);
    fs::remove_file(index(&output.path, 0)).unwrap();
    let damaged = published(&output);
    let mut command = shardpack(&["repair", "--dry-run"]);
    command.arg(&output.path).arg("--source").arg(data.source());
    run(&mut command).exits(0).says(&[
        "would repair  data/train-00001.tar",
        "would repair  index/train-00000.parquet",
    ]);
    assert_eq!(published(&output), damaged);
}

#[test]
fn indexes_of_shards_of_somebody_else_are_made_again() {
    let data = varied();
    let ours = data.convert(&["--shards", "2"]);
    for dir in ["data", "some/where"] {
        let theirs = Output {
            path: data.fresh(),
            run: run(&mut shardpack(&["--version"])),
        };
        for shard in ours.shards() {
            crate::support::write(
                &theirs.path.join(dir).join(shard.file_name().unwrap()),
                &fs::read(&shard).unwrap(),
            );
        }
        theirs.verb("index", &[]).exits(0);
        let before = theirs.digests();
        fs::remove_file(index(&theirs.path, 1)).unwrap();
        repair(&theirs, None).exits(0);
        assert_eq!(theirs.digests(), before, "{dir}");
        flip(&named(&theirs.path, dir, 0), 600);
        repair(&theirs, Some(&data.source()))
            .exits(4)
            .says(&["LOST"]);
    }
}
