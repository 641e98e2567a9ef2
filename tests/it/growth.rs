//! Datasets that go on from what is published: sources that grow, change and shrink between runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::s3::{at, upload};
use crate::support::{
    Dataset, Digests, Output, Random, Run, digests, manifest, members, padded_picture, picture,
    run, set_modified, shardpack, stamps, write,
};
use shardpack_fixtures::s3_server::{Fault, Kind, Server};

/// Four shards of two classes.
const FLAGS: &[&str] = &["--shards", "4", "--missing-fields", "keep"];

/// A source, and a dataset that was made of it.
struct Grown {
    data: Dataset,
    output: Output,
    flags: Vec<String>,
}

impl Grown {
    fn of(data: Dataset, flags: &[&str]) -> Self {
        let output = data.convert(flags);
        Self {
            data,
            output,
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        }
    }

    fn new() -> Self {
        Self::of(Dataset::new().class("cat", 12).class("dog", 12), FLAGS)
    }

    /// Adds pictures, or changes them, each with content of its own.
    fn add(&self, names: &[&str]) -> &Self {
        for name in names {
            write(&self.data.source().join(name), &picture(name));
        }
        self
    }

    fn remove(&self, names: &[&str]) -> &Self {
        for name in names {
            fs::remove_file(self.data.source().join(name)).unwrap();
        }
        self
    }

    /// Makes a picture another one of another size.
    fn edit(&self, name: &str) -> &Self {
        let path = self.data.source().join(name);
        write(&path, &padded_picture("edited", 500));
        set_modified(&path, 60);
        self
    }

    /// Converts again.
    fn again(&self, flags: &[&str]) -> Run {
        let all: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        self.data
            .convert_to(&self.output.path, &[&all, flags].concat())
    }

    /// Converts again, which must publish; what was there must stay as it was, and the dataset hold every file of the source.
    fn publishes(&self, flags: &[&str]) -> Run {
        let shards = self.shards();
        let before = stamps(&self.output.path);
        let run = self.again(flags);
        run.exits(0).says(&["published "]);
        let after = stamps(&self.output.path);
        for shard in shards {
            let path = self.output.path.join(&shard);
            assert_eq!(after[&path], before[&path], "{shard} was written again");
        }
        self.holds();
        run
    }

    fn refuses(&self, flags: &[&str], code: i32, words: &[&str]) {
        let before = self.output.digests();
        self.again(flags).exits(code).says(words);
        assert_eq!(before, self.output.digests());
    }

    #[track_caller]
    fn holds(&self) {
        holds(&self.data.source(), &self.output.path);
    }

    fn shards(&self) -> Vec<String> {
        shards(&self.output.manifest())
    }

    /// Keys, labels and images of every published sample.
    fn samples(&self) -> BTreeMap<String, (String, Vec<u8>)> {
        samples(&self.output.path)
    }
}

#[track_caller]
fn holds(source: &Path, output: &Path) {
    run(shardpack(&["verify", "--level", "source", "--source"])
        .arg(source)
        .arg(output))
    .exits(0)
    .says(&["intact"]);
}

fn shards(manifest: &Value) -> Vec<String> {
    let splits = manifest["splits"].as_array().unwrap();
    let names = splits.iter().flat_map(|split| {
        let shards = split["shards"].as_array().unwrap();
        shards.iter().map(|shard| shard["name"].as_str().unwrap())
    });
    names.map(str::to_owned).collect()
}

/// Of tars: what the published shards hold, with the names of the classes that the labels stand for.
fn samples(output: &Path) -> BTreeMap<String, (String, Vec<u8>)> {
    let manifest = manifest(output);
    let mut found = BTreeMap::new();
    for shard in shards(&manifest) {
        let mut label = None;
        for member in members(&output.join(shard)) {
            match member.field.as_str() {
                "cls" => label = String::from_utf8(member.content).unwrap().parse().ok(),
                "jpg" => {
                    let number: usize = label.unwrap();
                    let class = manifest["classes"][number].as_str().unwrap();
                    let before =
                        found.insert(member.key.clone(), (class.to_owned(), member.content));
                    assert!(before.is_none(), "{} is published twice", member.key);
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn a_source_that_is_as_it_was_is_up_to_date_and_nothing_is_read_or_written() {
    let grown = Grown::new();
    let before = stamps(&grown.output.path);
    let file = grown.data.place("summary.json");
    grown
        .again(&["--summary", file.to_str().unwrap()])
        .exits(0)
        .says(&["up to date: 24 samples in 4 shards"]);
    assert_eq!(before, stamps(&grown.output.path));
    let summary: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(summary["changed"], false);
    assert_eq!(summary["bytes_read"], 0);
    let changed = grown.data.place("told/changed");
    let workers = grown.data.place("told/workers");
    let mut plan = shardpack(&["plan"]);
    run(plan
        .arg(grown.data.source())
        .arg(&grown.output.path)
        .args(FLAGS)
        .arg("--out-changed")
        .arg(&changed)
        .arg("--out-workers")
        .arg(&workers)
        .args(["--workers", "3"]))
    .exits(0)
    .says(&["up to date"]);
    assert_eq!(before, stamps(&grown.output.path));
    assert_eq!(fs::read_to_string(changed).unwrap(), "false");
    assert_eq!(fs::read_to_string(workers).unwrap(), "0");
}

#[test]
fn new_samples_go_into_new_shards_that_are_numbered_on() {
    let grown = Grown::new();
    grown.add(&["cat/new0.jpg", "dog/new1.jpg", "dog/new2.jpg"]);
    grown.publishes(&[]).says(&["new 3", "shards kept 4"]);
    let manifest = grown.output.manifest();
    assert_eq!(manifest["samples"], 27);
    assert_eq!(manifest["snapshot"], 2);
    let names = grown.shards();
    assert_eq!(names.len(), 5);
    assert_eq!(names[4], "data/train-00004.tar");
    // The snapshot before is still there, and nothing else.
    let first: Value = serde_json::from_slice(
        &fs::read(grown.output.path.join("_shardpack/snapshots/00000001.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(shards(&first), names[..4]);
    grown.again(&[]).says(&["up to date: 27 samples"]);
    // And on.
    grown.add(&["cat/new3.jpg"]).publishes(&[]);
    assert_eq!(grown.shards()[5], "data/train-00005.tar");
    assert_eq!(grown.samples().len(), 28);
}

#[test]
fn a_sample_that_changed_or_went_is_refused_and_named() {
    let grown = Grown::new();
    grown
        .edit("cat/0003.jpg")
        .remove(&["dog/0004.jpg"])
        .add(&["dog/new.jpg"]);
    let words = [
        "1 sample changed and 1 are gone",
        "changed cat/0003.jpg",
        "gone    dog/0004.jpg",
        "--on-change rebuild",
        "--on-change keep",
    ];
    grown.refuses(&[], 3, &words);
    grown.refuses(&["--dry-run"], 3, &words);
}

#[test]
fn shards_of_samples_that_changed_or_went_are_made_again_under_other_names_and_no_others() {
    let grown = Grown::new();
    let before = grown.shards();
    let holding = |key: &str| grown.output.row(key)["shard"].as_str().unwrap().to_owned();
    let (edited, gone) = (holding("cat/0003"), holding("dog/0004"));
    grown.edit("cat/0003.jpg").remove(&["dog/0004.jpg"]);
    grown.publishes(&["--on-change", "rebuild"]);
    let after = grown.shards();
    assert_eq!(after.len(), 4);
    for (before, after) in before.iter().zip(&after) {
        let again = before.replace(".tar", "-g2.tar");
        match *before == edited || *before == gone {
            true => assert_eq!(*after, again),
            false => assert_eq!(after, before),
        }
    }
    let samples = grown.samples();
    assert_eq!(samples.len(), 23);
    assert_eq!(samples["cat/0003"].1, padded_picture("edited", 500));
    // The place of the others in the shard is as it was.
    let keys = |name: &str| -> Vec<String> {
        let members = members(&grown.output.path.join(name));
        let keys = members.into_iter().filter(|member| member.field == "jpg");
        keys.map(|member| member.key).collect()
    };
    let mut expected = keys(&gone);
    expected.retain(|key| key != "dog/0004");
    assert_eq!(keys(&gone.replace(".tar", "-g2.tar")), expected);
    grown.again(&[]).says(&["up to date: 23 samples"]);
    // The one that was made again is made again.
    grown.remove(&["cat/0002.jpg"]);
    let path = grown.data.source().join("cat/0003.jpg");
    write(&path, &padded_picture("edited twice", 500));
    set_modified(&path, 99);
    grown.publishes(&["--on-change", "rebuild"]);
    let again = edited.replace(".tar", "-g3.tar");
    assert!(grown.shards().contains(&again), "{:?}", grown.shards());
}

#[test]
fn a_shard_all_of_whose_samples_went_is_left_out() {
    let grown = Grown::of(
        Dataset::new().class("cat", 6),
        &["--shard-samples", "2", "--order", "listed"],
    );
    grown.remove(&["cat/0002.jpg", "cat/0003.jpg"]);
    grown.publishes(&["--on-change", "rebuild", "--max-gone", "2"]);
    let names = ["data/train-00000.tar", "data/train-00002.tar"];
    assert_eq!(grown.shards(), names);
    // Its number is not given away.
    grown.add(&["cat/0002.jpg"]).publishes(&[]);
    assert_eq!(grown.shards()[2], "data/train-00003.tar");
}

#[test]
fn shards_of_samples_that_changed_stay_when_that_is_asked_for() {
    let grown = Grown::new();
    let keep = ["--on-change", "keep"];
    grown.edit("cat/0003.jpg").remove(&["dog/0004.jpg"]);
    let before = grown.output.digests();
    grown
        .again(&keep)
        .exits(0)
        .says(&["up to date: 24 samples", "changed 1", "gone 1"]);
    assert_eq!(before, grown.output.digests());
    grown.add(&["dog/new.jpg"]);
    grown
        .again(&keep)
        .exits(0)
        .says(&["published 25 samples in"]);
    let stay = before.iter().filter(|(name, _)| name.starts_with("data/"));
    let after = grown.output.digests();
    for (name, digest) in stay {
        assert_eq!(after.get(name), Some(digest));
    }
    grown.output.verify(&[]).exits(0);
    // What was kept is not forgotten.
    grown.again(&keep).exits(0).says(&["up to date"]);
    grown.refuses(&[], 3, &["changed cat/0003.jpg", "gone    dog/0004.jpg"]);
    grown.publishes(&["--on-change", "rebuild"]);
    assert_eq!(grown.samples().len(), 24);
}

#[test]
fn a_renamed_sample_went_and_is_new() {
    let grown = Grown::new();
    let source = grown.data.source();
    fs::rename(source.join("cat/0001.jpg"), source.join("dog/moved.jpg")).unwrap();
    grown.refuses(&[], 3, &["gone    cat/0001.jpg"]);
    grown
        .publishes(&["--on-change", "rebuild"])
        .says(&["new 1", "gone 1"]);
    let samples = grown.samples();
    assert_eq!(samples.len(), 24);
    assert_eq!(samples["dog/moved"].0, "dog");
    assert!(!samples.contains_key("cat/0001"));
}

#[test]
fn classes_keep_their_numbers_and_new_ones_get_those_after() {
    let grown = Grown::new();
    // Before, between and after the others by name.
    let new = ["ape/0.jpg", "cow/0.jpg", "eel/0.jpg"];
    grown.add(&new);
    grown.refuses(
        &["--classes", "frozen"],
        3,
        &["3 new classes", "ape, cow, eel"],
    );
    grown.publishes(&[]).says(&["new classes 3"]);
    let classes = grown.output.manifest()["classes"].clone();
    assert_eq!(
        classes,
        serde_json::json!(["cat", "dog", "ape", "cow", "eel"])
    );
    let samples = grown.samples();
    for (name, class) in [("ape/0", "ape"), ("cow/0", "cow"), ("cat/0000", "cat")] {
        assert_eq!(samples[name].0, class);
    }
    // A class whose images all went keeps its number.
    grown.remove(&["cow/0.jpg"]);
    fs::remove_dir(grown.data.source().join("cow")).unwrap();
    grown.publishes(&["--on-change", "rebuild"]);
    assert_eq!(grown.output.manifest()["classes"], classes);
    grown.add(&["fox/0.jpg", "cow/1.jpg"]).publishes(&[]);
    let classes = &grown.output.manifest()["classes"];
    assert_eq!(classes[3], "cow");
    assert_eq!(classes[5], "fox");
    assert_eq!(grown.samples()["cow/1"].0, "cow");
}

#[test]
fn few_new_samples_wait_for_more() {
    let grown = Grown::new();
    grown.add(&["cat/a.jpg", "cat/b.jpg"]);
    let before = stamps(&grown.output.path);
    let least = ["--min-new-samples", "3"];
    grown
        .again(&least)
        .exits(0)
        .says(&["up to date", "waiting for more 2"]);
    assert_eq!(before, stamps(&grown.output.path));
    grown.add(&["cat/c.jpg"]).publishes(&least);
    assert_eq!(grown.samples().len(), 27);
}

#[test]
fn a_new_split_is_added_and_others_stay() {
    let grown = Grown::of(
        Dataset::new().class("train/cat", 6).class("train/dog", 6),
        &["--shards", "2"],
    );
    grown
        .add(&["val/cat/0.jpg", "val/dog/1.jpg"])
        .publishes(&[]);
    assert_eq!(grown.shards()[2], "data/val-00000.tar");
    let splits = grown.output.manifest()["splits"].clone();
    assert_eq!(splits[0]["samples"], 12);
    assert_eq!(splits[1]["samples"], 2);
}

#[test]
fn other_options_are_refused_unless_all_is_made_anew() {
    let grown = Grown::new();
    let other = ["--add-json"];
    grown.refuses(
        &other,
        10,
        &["other options", "--add-json: was off, now on", "--full"],
    );
    let before = grown.shards();
    grown.add(&["ape/0.jpg"]);
    let flags = ["--add-json", "--full"];
    grown.publishes(&flags);
    let after = grown.shards();
    assert_eq!(after.len(), 4);
    assert!(after.iter().all(|name| !before.contains(name)), "{after:?}");
    // Models that were trained go on to mean the same.
    let classes = grown.output.manifest()["classes"].clone();
    assert_eq!(classes, serde_json::json!(["cat", "dog", "ape"]));
    assert_eq!(grown.samples().len(), 25);
    let before = stamps(&grown.output.path);
    grown.again(&flags).exits(0).says(&["up to date"]);
    grown.again(&other).exits(0).says(&["up to date"]);
    assert_eq!(before, stamps(&grown.output.path));
}

#[test]
fn a_source_that_has_none_of_the_samples_is_another_one() {
    let grown = Grown::new();
    fs::remove_dir_all(grown.data.source()).unwrap();
    grown.add(&["cat/x.jpg", "dog/x.jpg", "eel/x.jpg"]);
    let words = ["not one of its 24 samples is in the source", "--full"];
    grown.refuses(&[], 10, &words);
    grown.refuses(&["--on-change", "rebuild"], 10, &words);
}

/// Eight pictures for training and four to validate with.
fn two_splits() -> Grown {
    let data = Dataset::new()
        .class("train/cat", 4)
        .class("train/dog", 4)
        .class("val/cat", 2)
        .class("val/dog", 2);
    Grown::of(data, &["--shards", "2"])
}

#[test]
fn a_split_that_is_gone_needs_its_name_to_be_said() {
    let words = [
        "4 of 12 samples that are published are gone from the source, nothing was written",
        "`--allow-gone-split val`",
        "split   val: all 4",
    ];
    let named = [
        "class   cat: 2 of 6",
        "class   dog: 2 of 6",
        "gone    val/cat/0000.jpg",
    ];
    for emptied in [true, false] {
        let grown = two_splits();
        // What is mounted there is not mounted; or the whole directory is not there.
        let (val, away) = (grown.data.source().join("val"), grown.data.place("away"));
        fs::rename(&val, &away).unwrap();
        if emptied {
            fs::create_dir(&val).unwrap();
        }
        for flags in [
            &["--on-change", "rebuild"][..],
            &["--on-change", "rebuild", "--dry-run"],
            &["--on-change", "rebuild", "--max-gone", "100%"],
            &["--on-change", "rebuild", "--allow-gone-split", "train"],
            &["--full"],
            &["--full", "--max-gone", "100%", "--seed", "7"],
        ] {
            grown.refuses(flags, 3, &words);
            if !flags.contains(&"--full") {
                grown.refuses(flags, 3, &named);
            }
        }
        let mut plan = shardpack(&["plan"]);
        plan.arg(grown.data.source()).arg(&grown.output.path);
        plan.args(["--shards", "2"]);
        plan.env("SHARDPACK_ON_CHANGE", "rebuild");
        plan.env("SHARDPACK_ALLOW_GONE_SPLIT", "");
        plan.env("SHARDPACK_MAX_GONE", "");
        let before = grown.output.digests();
        run(&mut plan).exits(3).says(&words).says(&named);
        assert_eq!(before, grown.output.digests());
        // What is kept is not lost.
        grown
            .again(&["--on-change", "keep"])
            .exits(0)
            .says(&["up to date: 12 samples", "gone 4"]);
        // When it is back, nothing has happened.
        if emptied {
            fs::remove_dir(&val).unwrap();
        }
        fs::rename(&away, &val).unwrap();
        grown
            .again(&["--on-change", "rebuild"])
            .exits(0)
            .says(&["up to date: 12 samples"]);
        fs::rename(&val, &away).unwrap();
        if emptied {
            fs::create_dir(&val).unwrap();
        }
        grown.publishes(&["--on-change", "rebuild", "--allow-gone-split", "test,val"]);
        assert_eq!(grown.samples().len(), 8);
        grown.again(&[]).exits(0).says(&["up to date: 8 samples"]);
    }
}

#[test]
fn starting_over_without_a_split_needs_its_name_too() {
    let grown = two_splits();
    fs::remove_dir_all(grown.data.source().join("val")).unwrap();
    grown.refuses(&["--full"], 3, &["split   val: all 4"]);
    grown.publishes(&["--full", "--allow-gone-split", "val"]);
    assert_eq!(grown.samples().len(), 8);
    // Fewer of another.
    for number in 0..3 {
        grown.remove(&[&format!("train/cat/{number:04}.jpg")]);
    }
    let words = ["3 of 8 samples", "`--max-gone 3`", "split   train: 3 of 8"];
    grown.refuses(&["--full"], 3, &words);
    grown.publishes(&["--full", "--max-gone", "38%"]);
}

#[test]
fn more_than_some_gone_samples_need_their_number_to_be_said() {
    let data = Dataset::new().class("cat", 150).class("dog", 50);
    let grown = Grown::of(data, &["--shards", "2"]);
    grown.remove(&["cat/0007.jpg", "dog/0007.jpg"]);
    grown
        .publishes(&["--on-change", "rebuild"])
        .says(&["gone 2"]);
    grown.remove(&["cat/0001.jpg", "cat/0002.jpg", "dog/0003.jpg"]);
    let words = [
        "3 of 198 samples that are published are gone",
        "they may go: `--max-gone 3`\n",
        "class   cat: 2 of 149",
        "class   dog: 1 of 49",
        "gone    dog/0003.jpg",
    ];
    let rebuild = ["--on-change", "rebuild"];
    for flags in [&[][..], &["--max-gone", "2"], &["--max-gone", "0%"]] {
        grown.refuses(&[&rebuild, flags].concat(), 3, &words);
    }
    for wrong in ["-1", "1.5", "101%", "many"] {
        let wrong = format!("--max-gone={wrong}");
        let flags = [&rebuild[..], &[&wrong]].concat();
        grown.refuses(&flags, 2, &["--max-gone"]);
    }
    grown.publishes(&[&rebuild[..], &["--max-gone", "3"]].concat());
    // A class has no say of its own, but it is told.
    for number in 0..50 {
        let name = format!("dog/{number:04}.jpg");
        let _ = fs::remove_file(grown.data.source().join(name));
    }
    let empty = [&rebuild[..], &["--max-gone", "30%"]].concat();
    grown.refuses(&empty, 3, &["class directory without images", "dog/"]);
    fs::remove_dir(grown.data.source().join("dog")).unwrap();
    grown.refuses(&rebuild, 3, &["class   dog: all 48", "`--max-gone 48`"]);
    grown
        .publishes(&empty)
        .says(&["class `dog`: all of its 48 published samples are gone"]);
    assert_eq!(grown.output.manifest()["classes"][1], "dog");
}

#[test]
fn a_long_list_of_changes_is_cut_and_written_to_a_file_when_asked() {
    let grown = Grown::of(Dataset::new().class("cat", 120), &["--shards", "2"]);
    for number in 0..60 {
        grown.edit(&format!("cat/{number:04}.jpg"));
        grown.remove(&[&format!("cat/{:04}.jpg", number + 60)]);
    }
    let file = grown.data.place("problems.tsv");
    let run = grown.again(&["--problems", file.to_str().unwrap()]);
    run.exits(3).says(&[
        "60 samples changed and 60 are gone",
        "changed cat/0019.jpg",
        "gone    cat/0079.jpg",
        "… and 40 more: `--problems FILE`",
    ]);
    assert!(!run.err.contains("cat/0020.jpg") && !run.err.contains("cat/0080.jpg"));
    let text = fs::read_to_string(file).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 120);
    assert_eq!(lines[59], "changed\tcat/0059.jpg\ttrain");
    assert_eq!(lines[119], "gone\tcat/0119.jpg\ttrain");
}

#[test]
fn small_shards_of_many_nights_are_merged() {
    let grown = Grown::of(
        Dataset::new().class("cat", 16),
        &["--shard-samples", "8", "--order", "listed"],
    );
    for name in ["cat/a.jpg", "cat/b.jpg", "cat/c.jpg", "cat/d.jpg"] {
        grown.add(&[name]).publishes(&[]);
    }
    assert_eq!(grown.shards().len(), 6);
    let before = grown.samples();
    let source = grown.data.source();
    let compact = |flags: &[&str]| {
        let mut command = shardpack(&["compact", "--source"]);
        run(command.arg(&source).arg(&grown.output.path).args(flags))
    };
    compact(&["--dry-run"]).exits(0).says(&["merged 4"]);
    let stamped = stamps(&grown.output.path.join("data"));
    compact(&[]).exits(0).says(&["published 20 samples"]);
    for (path, stamp) in stamped {
        let now = stamps(&grown.output.path.join("data"));
        assert_eq!(now.get(&path), Some(&stamp), "{path:?}");
    }
    let names = [
        "data/train-00000.tar",
        "data/train-00001.tar",
        "data/train-00006.tar",
    ];
    assert_eq!(grown.shards(), names);
    assert_eq!(grown.samples(), before);
    grown.holds();
    let stamped = stamps(&grown.output.path);
    compact(&[]).exits(0).says(&["up to date"]);
    grown.again(&[]).exits(0).says(&["up to date"]);
    assert_eq!(stamped, stamps(&grown.output.path));
    // Without a source there is nothing to read from.
    grown
        .output
        .verb("compact", &[])
        .exits(2)
        .says(&["add `--source SRC`"]);
}

/// What every format and its reader indexes make of a growing source.
const FORMATS: [&[&str]; 7] = [
    &["--add-json", "--sha256", "--index", "wids,openclip"],
    &["--compress", "zstd", "--zstd-seekable"],
    &["--compress", "gzip", "--index", "timm"],
    &["--format", "tfrecord", "--index", "dali,tfrecord"],
    &[
        "--format",
        "tfrecord",
        "--schema",
        "tfds",
        "--compress",
        "gzip",
    ],
    &["--format", "parquet"],
    &["--on-error", "skip"],
];

#[test]
fn every_format_goes_on_and_its_reader_indexes_with_it() {
    for flags in FORMATS {
        let flags = [flags, &["--shards", "2"]].concat();
        let grown = Grown::of(Dataset::new().class("cat", 8).class("dog", 8), &flags);
        grown.add(&["cat/new.jpg", "dog/new.jpg"]).publishes(&[]);
        grown.edit("cat/0003.jpg");
        grown.publishes(&["--on-change", "rebuild"]);
        assert_eq!(grown.output.manifest()["samples"], 18, "{flags:?}");
        grown.again(&[]).exits(0).says(&["up to date"]);
        grown.output.verb("cat", &["cat/new"]).exits(0);
        grown.output.verb("gc", &["--older-than", "0s"]).exits(0);
        grown.holds();
    }
}

#[test]
fn the_manifests_of_later_snapshots_are_as_the_schema_says() {
    let grown = Grown::new();
    grown.add(&["cat/a.jpg"]).publishes(&[]);
    grown.edit("cat/0003.jpg").remove(&["dog/0004.jpg"]);
    grown.publishes(&["--on-change", "rebuild"]);
    let manifest = grown.output.manifest();
    let errors: Vec<_> = crate::manifest::schema()
        .iter_errors(&manifest)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_reader_index_that_was_added_is_made_of_the_next_snapshot_too() {
    let grown = Grown::new();
    grown.output.verb("index", &["--index", "wids"]).exits(0);
    grown.add(&["cat/new.jpg"]).publishes(&[]);
    let manifest = grown.output.manifest();
    assert_eq!(manifest["snapshot"], 3);
    assert_eq!(manifest["indexes"][0]["reader"], "wids");
    let wids = fs::read_to_string(grown.output.path.join("train.json"))
        .or_else(|_| fs::read_to_string(grown.output.path.join("index/train.json")));
    if let Ok(wids) = wids {
        assert!(wids.contains("train-00004.tar"), "{wids}");
    }
}

#[test]
fn a_format_that_lists_classes_in_every_shard_takes_no_new_ones() {
    let data = Dataset::new().class("cat", 4).class("dog", 4);
    let grown = Grown::of(data, &["--format", "parquet"]);
    grown.add(&["eel/0.jpg"]);
    grown.refuses(&[], 3, &["new classes (eel)", "--full"]);
    grown.publishes(&["--full"]);
}

#[test]
fn new_fields_are_refused_where_shards_have_no_place_for_them() {
    let data = Dataset::new().class("cat", 4);
    let grown = Grown::of(data, &["--missing-fields", "fill"]);
    write(&grown.data.source().join("cat/0001.txt"), b"a text");
    grown.refuses(&[], 3, &["other fields", "before none, now txt", "--full"]);
    // Where they may be missing they may come later.
    let grown = Grown::new();
    write(&grown.data.source().join("cat/new.txt"), b"a text");
    grown.add(&["cat/new.jpg"]).publishes(&[]);
    let text = grown.output.verb("cat", &["cat/new", "--field", "txt"]).out;
    assert_eq!(text, "a text");
}

#[test]
fn workers_make_the_same_of_it_as_one_run() {
    let grown = Grown::new();
    let begun = grown.data.fresh();
    crate::support::copy_tree(&grown.output.path, &begun, 0);
    grown
        .edit("cat/0003.jpg")
        .add(&["ape/0.jpg", "cat/new.jpg", "dog/new.jpg"]);
    grown.publishes(&["--on-change", "rebuild"]);
    let step = |args: &[&str]| run(shardpack(args).arg(&begun)).exits(0).out.clone();
    let source = grown.data.source();
    let mut plan = shardpack(&["plan"]);
    run(plan
        .arg(&source)
        .arg(&begun)
        .args(FLAGS)
        .args(["--on-change", "rebuild"]))
    .exits(0);
    for worker in ["0/3", "1/3", "2/3"] {
        step(&["pack", "--worker", worker]);
    }
    step(&["publish"]);
    let mut made = digests(&begun);
    made.retain(|name, _| !name.ends_with("/source"));
    assert_eq!(made, grown.output.digests());
}

impl Grown {
    /// `plan` or `pack` or `publish` alone.
    fn step(&self, verb: &str) -> Run {
        let mut command = shardpack(&[verb]);
        if verb == "plan" {
            command.arg(self.data.source()).args(&self.flags);
        }
        run(command.arg(&self.output.path))
    }

    fn claims(&self) -> usize {
        let claims = self.output.path.join("_shardpack/claims");
        fs::read_dir(claims).unwrap().count()
    }
}

#[test]
fn an_unfinished_plan_is_finished_first_and_what_came_since_is_the_next_ones() {
    let grown = Grown::new();
    grown.add(&["cat/a.jpg"]);
    grown.step("plan").exits(0);
    grown.step("pack").exits(0);
    // It was packed and not published; the source went on.
    let packed = stamps(&grown.output.path.join("data"));
    grown.add(&["cat/b.jpg"]);
    grown.again(&["--dry-run"]).says(&["what came since"]);
    grown.publishes(&[]).says(&["published 26 samples"]);
    let after = stamps(&grown.output.path.join("data"));
    for (path, stamp) in packed {
        assert_eq!(after.get(&path), Some(&stamp), "{path:?}");
    }
    let ends = ["data/train-00004.tar", "data/train-00005.tar"];
    assert_eq!(grown.shards()[4..], ends);
    assert_eq!(grown.output.manifest()["snapshot"], 3);
    // Planned, and gone on with.
    grown.add(&["cat/c.jpg", "dog/d.jpg"]);
    let planned = grown.step("plan");
    planned.exits(0).says(&["planned 2 samples", "new 2"]);
    let before = grown.claims();
    grown.publishes(&[]);
    assert_eq!(before, grown.claims());
}

#[test]
fn a_first_plan_that_was_interrupted_is_finished_although_the_source_grew() {
    let data = Dataset::new().class("cat", 12).class("dog", 12);
    let path = data.fresh();
    let mut plan = shardpack(&["plan"]);
    run(plan.arg(data.source()).arg(&path).args(FLAGS)).exits(0);
    run(shardpack(&["pack", "--worker", "0/2"]).arg(&path)).exits(0);
    let data = data.pictures(&["ant/0.jpg", "dog/new.jpg"]);
    data.convert_to(&path, FLAGS)
        .exits(0)
        .says(&["published 26 samples"]);
    holds(&data.source(), &path);
    assert_eq!(manifest(&path)["snapshot"], 2);
    assert_eq!(
        manifest(&path)["classes"],
        serde_json::json!(["cat", "dog", "ant"])
    );
}

#[test]
fn an_unfinished_plan_of_samples_that_changed_gives_way_to_one_of_the_source_as_it_is() {
    let grown = Grown::new();
    grown.add(&["cat/a.jpg"]);
    grown.step("plan").exits(0);
    grown.step("pack").exits(0);
    grown.edit("cat/a.jpg").publishes(&[]);
    assert_eq!(grown.samples().len(), 25);
    // No name is given twice: a late worker of the first writes beside the others.
    assert_eq!(grown.shards()[4], "data/train-00005.tar");
    grown
        .output
        .verify(&[])
        .exits(0)
        .says(&["of an earlier snapshot"]);
    // One that was planned and is gone.
    grown.add(&["cat/b.jpg"]);
    grown.step("plan").exits(0);
    grown.remove(&["cat/b.jpg"]).add(&["cat/c.jpg"]);
    grown.publishes(&[]);
    assert_eq!(grown.samples().len(), 26);
}

#[test]
fn workers_that_list_a_source_while_it_grows_lose_nothing_of_it() {
    let grown = Grown::new();
    for round in 0..3 {
        grown.add(&[&format!("cat/{round}.jpg"), &format!("dog/{round}.jpg")]);
        for worker in 0..3 {
            // Each sees a source that has more; what was planned before is finished first.
            grown.add(&[&format!("cat/{round}-{worker}.jpg")]);
            let worker = format!("{worker}/3");
            let flags = ["--worker", &worker, "--publish-when-complete"];
            grown.again(&flags).exits(0);
        }
    }
    grown.again(&[]).exits(0);
    grown.holds();
    assert_eq!(grown.samples().len(), 24 + 3 * 5);
}

#[test]
fn a_dataset_of_many_generations_is_repaired_byte_for_byte() {
    let grown = Grown::new();
    grown.add(&["cat/a.jpg", "dog/b.jpg"]).publishes(&[]);
    grown.edit("cat/0003.jpg").remove(&["dog/0004.jpg"]);
    grown.publishes(&["--on-change", "rebuild"]);
    grown.add(&["eel/c.jpg"]).publishes(&[]);
    let named = |digests: Digests| -> Digests {
        let names = grown.shards();
        let mut digests = digests;
        digests.retain(|name, _| !name.starts_with("data/") || names.contains(name));
        digests
    };
    let before = named(grown.output.digests());
    let source = grown.data.source();
    let repair = || {
        let mut command = shardpack(&["repair", "--source"]);
        run(command.arg(&source).arg(&grown.output.path)).exits(0);
        assert_eq!(before, named(grown.output.digests()));
        grown.holds();
    };
    for name in grown.shards() {
        fs::remove_file(grown.output.path.join(name)).unwrap();
    }
    repair();
    fs::remove_file(grown.output.path.join("manifest.json")).unwrap();
    repair();
    for name in grown.shards() {
        let index = name.replace("data/", "index/").replace(".tar", ".parquet");
        fs::remove_file(grown.output.path.join(index)).unwrap();
    }
    repair();
}

#[test]
fn nights_of_any_changes_leave_what_a_conversion_of_the_last_state_would() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let grown = Grown::of(
            Dataset::new().class("cat", 9).class("dog", 7),
            &["--shard-samples", "5", "--seed", &seed.to_string()],
        );
        let mut there: Vec<String> = (0..9).map(|i| format!("cat/{i:04}.jpg")).collect();
        there.extend((0..7).map(|i| format!("dog/{i:04}.jpg")));
        for night in 1..=8 {
            for _ in 0..random.below(4) {
                let class = ["ant", "cat", "dog", "yak"][random.below(4) as usize];
                let name = format!("{class}/n{night}-{}.jpg", random.next());
                grown.add(&[&name]);
                there.push(name);
            }
            for _ in 0..random.below(3) {
                let at = random.below(there.len() as u64) as usize;
                let path = grown.data.source().join(&there[at]);
                write(&path, &picture(&format!("{night} {at}")));
                set_modified(&path, night);
            }
            for _ in 0..random.below(2) {
                let at = random.below(there.len() as u64) as usize;
                let name = there.swap_remove(at);
                grown.remove(&[&name]);
            }
            // An empty class directory is refused.
            for class in fs::read_dir(grown.data.source()).unwrap() {
                let _ = fs::remove_dir(class.unwrap().path());
            }
            let before = stamps(&grown.output.path.join("data"));
            let run = grown.again(&["--on-change", "rebuild"]);
            run.exits(0);
            let after = stamps(&grown.output.path.join("data"));
            let again = before
                .iter()
                .find(|(path, stamp)| after.get(*path) != Some(stamp));
            assert_eq!(again, None, "seed {seed}, night {night}");
            grown.holds();
            if random.below(4) == 0 {
                let mut command = shardpack(&["compact", "--source"]);
                let source = grown.data.source();
                crate::support::run(command.arg(source).arg(&grown.output.path)).exits(0);
                grown.holds();
            }
        }
        let fresh = grown.data.convert(&["--shard-samples", "5"]);
        assert_eq!(grown.samples(), samples(&fresh.path), "seed {seed}");
    }
}

/// A bucket with images and a dataset of them.
struct Bucket {
    server: Server,
}

impl Bucket {
    fn new() -> Self {
        let server = Server::start();
        let data = Dataset::new().class("cat", 8).class("dog", 8);
        upload(&server, &data.source(), "in");
        let bucket = Self { server };
        bucket.convert(&[]).exits(0);
        bucket
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        at(&self.server, args)
    }

    fn convert(&self, flags: &[&str]) -> Run {
        let args = ["convert", "s3://bucket/in", "s3://bucket/out"];
        let all = [&args, &["--shards", "2"][..], flags].concat();
        run(&mut self.command(&all))
    }

    fn add(&self, name: &str) {
        self.server.put(&format!("in/{name}"), picture(name));
    }

    fn holds(&self) {
        let args = ["verify", "--level", "source", "--source", "s3://bucket/in"];
        run(self.command(&args).arg("s3://bucket/out")).exits(0);
    }
}

#[test]
fn on_s3_a_run_that_has_nothing_to_do_lists_once_and_reads_no_data() {
    let bucket = Bucket::new();
    let before = bucket.server.requests().len();
    bucket.convert(&[]).exits(0).says(&["up to date"]);
    let all = bucket.server.requests();
    let of = |operation: &str, part: &str| {
        all[before..]
            .iter()
            .filter(|request| request.operation == operation && request.key.contains(part))
            .count()
    };
    assert_eq!(of("PutObject", ""), 0);
    assert_eq!(of("GetObject", "in/"), 0);
    assert_eq!(of("GetObject", "data/"), 0);
    // The claim, the plan, the manifest, and that once more when all was compared.
    assert_eq!(of("GetObject", ""), 4);
    // What lies beside the manifest.
    assert_eq!(of("HeadObject", "out/README.md"), 1);
    let lists = of("ListObjectsV2", "");
    assert_eq!(all.len() - before, 5 + lists, "{:?}", &all[before..]);
    // Once over the source, over the state of the destination, and over its snapshots.
    let before = bucket.server.count("ListObjectsV2");
    let flags = ["plan", "--dry-run", "s3://bucket/in", "s3://bucket/new"];
    run(&mut bucket.command(&flags)).exits(0);
    let once = bucket.server.count("ListObjectsV2") - before;
    assert!(
        lists <= once + 1,
        "{lists} listings, {once} of a first plan"
    );
}

#[test]
fn on_s3_new_samples_go_into_new_objects_and_others_are_not_written_again() {
    let bucket = Bucket::new();
    let before = bucket.server.objects("out/data/");
    bucket.add("cat/new.jpg");
    bucket.add("ape/new.jpg");
    bucket.convert(&[]).exits(0).says(&["published 18 samples"]);
    bucket.holds();
    // An edit.
    bucket.server.put("in/cat/0001.jpg", picture("another"));
    bucket.convert(&[]).exits(3).says(&["changed cat/0001.jpg"]);
    let written = bucket.server.requests().len();
    bucket
        .convert(&["--on-change", "rebuild"])
        .exits(0)
        .says(&["published 18 samples"]);
    bucket.holds();
    let puts = bucket.server.requests()[written..]
        .iter()
        .filter(|r| r.operation == "PutObject" && r.key.contains("/data/"))
        .count();
    assert_eq!(puts, 1);
    for (name, content) in before {
        let there = bucket.server.objects("out/data/");
        assert_eq!(there.get(&name), Some(&content), "{name}");
    }
}

#[test]
fn runs_that_overlap_after_the_source_grew_publish_once() {
    for round in 0..4 {
        let bucket = Bucket::new();
        bucket.add("cat/new.jpg");
        let spawn = || {
            let args = [
                "convert",
                "s3://bucket/in",
                "s3://bucket/out",
                "--shards",
                "2",
            ];
            let mut command = bucket.command(&args);
            command.stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        };
        let children: Vec<_> = (0..4)
            .map(|number| {
                // Some of them see one more.
                if number == 2 && round % 2 == 1 {
                    bucket.add("cat/newer.jpg");
                }
                spawn()
            })
            .collect();
        let codes: Vec<i32> = children
            .into_iter()
            .map(|child| {
                let run = crate::support::finished(child.wait_with_output().unwrap());
                assert!([0, 10].contains(&run.code), "{}", run.err);
                run.code
            })
            .collect();
        assert!(codes.contains(&0), "{codes:?}");
        bucket.convert(&[]).exits(0);
        bucket.holds();
    }
}

#[test]
fn an_outage_between_two_nights_loses_nothing() {
    let bucket = Bucket::new();
    bucket.add("cat/new.jpg");
    let manifest = bucket.server.get("out/manifest.json");
    let fault = Fault::new(Kind::ResetBefore);
    bucket.server.fault(fault.on("PutObject").key("/data/"));
    bucket.convert(&[]).exits(75);
    bucket.server.clear_faults();
    assert_eq!(bucket.server.get("out/manifest.json"), manifest);
    bucket.convert(&[]).exits(0).says(&["published 17 samples"]);
    bucket.holds();
}

/// Gives every file of a source another time.
fn touch_all(data: &Dataset) {
    for file in crate::support::files(&data.source()) {
        set_modified(&file, 60);
    }
}

#[test]
fn a_source_that_was_copied_again_is_the_same_in_every_format() {
    for flags in [
        &["--format", "wds", "--compress", "zstd"][..],
        &["--format", "tfrecord"],
        &["--format", "tfrecord", "--schema", "tfds"],
        &["--format", "parquet"],
    ] {
        // Headers are looked for in the first megabyte, where features need one.
        let size = if flags == ["--format", "tfrecord"] {
            1 << 16
        } else {
            9 << 20
        };
        let data = Dataset::new()
            .class("cat", 5)
            .class("dog", 4)
            .file("cat/large.jpg", padded_picture("cat/large.jpg", size));
        let flags = [flags, &["--shards", "2"]].concat();
        let output = data.convert(&flags);
        let before = output.digests();
        touch_all(&data);
        let again = data.convert_to(&output.path, &flags);
        again
            .exits(0)
            .says(&["up to date: 10 samples", "touched only 10"]);
        assert_eq!(output.digests(), before, "{flags:?}");
        // What is new and what did change is told apart from what was touched.
        let path = data.source().join("dog/0001.jpg");
        let mut content = std::fs::read(&path).unwrap();
        let last = content.len() - 3;
        content[last] ^= 1;
        std::fs::write(&path, content).unwrap();
        let data = data.file("dog/new.jpg", picture("dog/new.jpg"));
        data.convert_to(&output.path, &flags)
            .exits(3)
            .says(&["1 sample changed and 0 are gone", "changed dog/0001.jpg"]);
        let rebuilt = [&flags[..], &["--on-change", "rebuild"]].concat();
        data.convert_to(&output.path, &rebuilt)
            .exits(0)
            .says(&["new 1, changed 1, touched only 9, shards kept 1, made again 1"]);
        let source = data.source();
        output
            .verify(&["--level", "source", "--source", source.to_str().unwrap()])
            .exits(0);
    }
}

#[test]
fn where_nothing_says_what_was_packed_a_touched_file_counts_as_changed() {
    let data = Dataset::new().class("cat", 4);
    let output = data.convert(&[]);
    touch_all(&data);
    std::fs::remove_file(output.path.join("index/train-00000.parquet")).unwrap();
    data.convert_to(&output.path, &[])
        .exits(3)
        .says(&["4 samples changed"]);
}
