//! Samples, one a line.

use serde_json::Value;

use crate::support::{Dataset, run, shardpack};

#[test]
fn samples_are_listed_one_a_line_with_what_the_index_knows() {
    let data = Dataset::new()
        .class("train/cat", 5)
        .class("train/dog", 3)
        .class("val/cat", 2);
    let output = data.convert(&["--shard-samples", "3"]);
    let all = output.verb("ls", &[]);
    all.exits(0);
    let mut rows: Vec<Vec<&str>> = all
        .out
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(rows.len(), 10);
    // In the order of the shards.
    let keys: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let mut in_shards = output.keys();
    in_shards.sort();
    rows.sort();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, in_shards);
    let dog = rows.iter().find(|row| row[0] == "train/dog/0001").unwrap();
    let row = output.row("train/dog/0001");
    let bytes: u64 = row["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["length"].as_u64().unwrap())
        .sum();
    let expected = [
        "train/dog/0001",
        "train",
        "1",
        "dog",
        &bytes.to_string(),
        row["shard"].as_str().unwrap(),
        "train/dog/0001.jpg",
    ];
    assert_eq!(*dog, expected);
}

#[test]
fn a_glob_a_directory_and_a_limit_choose_among_them() {
    let data = Dataset::new().class("cat", 12).class("dog", 3);
    let output = data.convert(&["--shards", "4"]);
    let count = |words: &[&str]| output.verb("ls", words).exits(0).out.lines().count();
    assert_eq!(count(&["dog"]), 3);
    assert_eq!(count(&["dog/"]), 3);
    assert_eq!(count(&["cat/000*"]), 10);
    assert_eq!(count(&["**/*1.jpg"]), 3);
    assert_eq!(count(&["*"]), 15);
    assert_eq!(count(&["bird"]), 0);
    assert_eq!(count(&["--limit", "4"]), 4);
    assert_eq!(count(&["cat", "--limit", "0"]), 0);
    output
        .verb("ls", &["a[b"])
        .exits(2)
        .says(&["correct the glob"]);
}

#[test]
fn lines_of_json_say_of_each_sample_what_inspect_says() {
    let data = Dataset::new().class("cat", 4);
    let output = data.convert(&[]);
    let lines = output.verb("ls", &["--json", "cat/0002"]);
    let mut row: Value = lines.exits(0).json();
    assert_eq!(row["split"], "train");
    row.as_object_mut().unwrap().remove("split");
    assert_eq!(row, output.row("cat/0002"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let data = Dataset::new().class("cat", 3000);
    let output = data.convert(&["--shards", "3"]);
    let line = format!(
        "{} ls {} | head -1",
        crate::support::BINARY,
        output.path.display()
    );
    let shell = std::process::Command::new("bash")
        .args(["-o", "pipefail", "-c", &line])
        .output()
        .unwrap();
    assert!(shell.status.success(), "{shell:?}");
    assert_eq!(String::from_utf8_lossy(&shell.stdout).lines().count(), 1);
}

#[test]
fn an_index_that_is_damaged_is_told() {
    let data = Dataset::new().class("cat", 4);
    let output = data.convert(&[]);
    std::fs::write(output.path.join("index/train-00000.parquet"), "x").unwrap();
    output.verb("ls", &[]).exits(4).says(&["shardpack verify"]);
    run(&mut shardpack(&["ls", "/nowhere"])).exits(1);
}
