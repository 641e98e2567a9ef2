//! Images that are there several times, and those that only look so by length and checksum.

use std::fs;

use serde_json::Value;

use crate::support::Dataset;

/// Two classes in two splits: one image of train is in val too, and another is twice in train.
fn leaky() -> Dataset {
    let data = ["train/cat", "train/dog", "val/cat", "val/dog"]
        .iter()
        .fold(Dataset::new(), |data, class| data.class(class, 5));
    let (leak, twice) = (
        fs::read(data.source().join("train/cat/0001.jpg")).unwrap(),
        fs::read(data.source().join("train/dog/0002.jpg")).unwrap(),
    );
    data.file("val/cat/leak.jpg", leak)
        .file("train/cat/twice.jpg", twice)
}

fn list(output: &crate::support::Output) -> Value {
    let run = output.verb("inspect", &["--duplicates", "--json"]);
    run.exits(0);
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn an_image_in_train_and_val_is_a_warning_and_named_and_so_is_one_that_is_twice_in_train() {
    let data = leaky();
    for flags in [
        &["--shards", "2"][..],
        &["--format", "tfrecord"],
        &["--format", "parquet"],
        &["--compress", "zstd"],
    ] {
        let report = data.place("report.html");
        let flags = [flags, &["--report", report.to_str().unwrap()]].concat();
        let output = data.convert(&flags);
        output.run.says(&[
            "WARN 1 image is in several splits, as `train/cat/0001` and `val/cat/leak`: see `shardpack inspect ",
            " --duplicates`",
        ]);
        let found = list(&output);
        assert_eq!(
            (
                &found["images"],
                &found["samples"],
                &found["in_several_splits"]
            ),
            (&2.into(), &4.into(), &1.into())
        );
        let keys = |group: usize| {
            let samples = found["groups"][group]["samples"].as_array().unwrap();
            let keys = samples
                .iter()
                .map(|sample| sample["key"].as_str().unwrap().to_owned());
            let mut keys: Vec<String> = keys.collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(0), ["train/cat/0001", "val/cat/leak"]);
        assert_eq!(keys(1), ["train/cat/twice", "train/dog/0002"]);
        let text = output.verb("inspect", &["--duplicates"]);
        text.exits(0)
            .says(&["2 images in 4 samples, 1 in several splits", "val/cat/leak"]);
        let page = fs::read_to_string(&report).unwrap();
        assert!(
            page.contains("<h2>1 image in several splits</h2>") && page.contains("val/cat/leak")
        );
    }
}

#[test]
fn a_dataset_without_duplicates_says_so_and_is_not_warned_of() {
    let data = Dataset::new().class("train/cat", 5).class("val/cat", 2);
    let output = data.convert(&[]);
    assert!(
        !output.run.err.contains("several splits"),
        "{}",
        output.run.err
    );
    output
        .verb("inspect", &["--duplicates"])
        .exits(0)
        .says(&["duplicates  none"]);
}

/// The four bytes that give `data` this CRC-32 when they follow it.
fn bytes_for(data: &[u8], crc32: u32) -> [u8; 4] {
    let table: Vec<u32> = (0..256)
        .map(|byte| {
            (0..8).fold(byte, |c, _| {
                if c & 1 == 1 {
                    c >> 1 ^ 0xedb8_8320
                } else {
                    c >> 1
                }
            })
        })
        .collect();
    let mut state = !crc32;
    for _ in 0..4 {
        let at = table
            .iter()
            .position(|entry| entry >> 24 == state >> 24)
            .unwrap();
        state = (state ^ table[at]) << 8 | at as u32;
    }
    (state ^ !crc32fast::hash(data)).to_le_bytes()
}

#[test]
fn images_that_only_have_length_and_checksum_in_common_are_no_duplicates() {
    let data = Dataset::new().class("train/cat", 3).class("val/cat", 3);
    let read = |name: &str| fs::read(data.source().join(name)).unwrap();
    let (mut one, mut other) = (read("train/cat/0000.jpg"), read("val/cat/0000.jpg"));
    let length = one.len().max(other.len()) + 4;
    // What follows the end of a JPEG is no part of the picture.
    one.resize(length, 0);
    other.resize(length - 4, 0);
    let patch = bytes_for(&other, crc32fast::hash(&one));
    other.extend(patch);
    assert!(one != other && crc32fast::hash(&one) == crc32fast::hash(&other));
    let data = data
        .file("train/cat/0000.jpg", one)
        .file("val/cat/0000.jpg", other);
    let output = data.convert(&[]);
    assert!(
        !output.run.err.contains("several splits"),
        "{}",
        output.run.err
    );
    let found = list(&output);
    assert_eq!(
        (&found["images"], &found["samples"]),
        (&0.into(), &0.into()),
        "{found}"
    );
}
