//! Datasets of later versions of the program: every verb refuses them, and leaves every byte as it was.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::*;

/// Options of every conversion here.
const FLAGS: &[&str] = &["--shards", "2"];
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A dataset with two snapshots, in which one thing is of the future.
struct Future {
    data: Dataset,
    output: Output,
}

/// A verb with its arguments, `DST` and `SRC` standing for the places.
type Command = &'static [&'static str];

const READ: [Command; 7] = [
    &["verify", "DST"],
    &["verify", "DST", "--level", "source", "--source", "SRC"],
    &["inspect", "DST"],
    &["inspect", "DST", "cat/0001"],
    &["cat", "DST", "cat/0001"],
    &["report", "DST", "--output", "-"],
    &["verify", "DST", "--sample", "50%"],
];
const WRITE: [Command; 10] = [
    &["pack", "DST", "--source", "SRC"],
    &["publish", "DST"],
    &["index", "DST", "--index", "wids"],
    &["gc", "DST", "--older-than", "0s", "--keep", "1"],
    &["gc", "DST", "--older-than", "0s"],
    &["repair", "DST", "--source", "SRC"],
    &["convert", "SRC", "DST", "--shards", "2"],
    &["convert", "SRC", "DST", "--shards", "3", "--full"],
    &[
        "plan",
        "SRC",
        "DST",
        "--shards",
        "2",
        "--on-change",
        "rebuild",
    ],
    &["compact", "DST", "--source", "SRC"],
];

impl Future {
    fn new() -> Self {
        let data = Dataset::new().class("cat", 3).class("dog", 3);
        let output = data.convert(FLAGS);
        write(&data.source().join("dog/new.jpg"), &picture("new"));
        data.convert_to(&output.path, FLAGS).exits(0);
        assert_eq!(output.manifest()["snapshot"], 2);
        output.verb("verify", &["--sample", "50%"]).exits(0);
        // Something to do for those who look at the source.
        write(&data.source().join("cat/newer.jpg"), &picture("newer"));
        // What an earlier program would take for garbage or for damage.
        write(&output.path.join("data/train-00007.tar"), b"of the future");
        write(&output.path.join("_shardpack/later/x.json"), b"{}");
        Self { data, output }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.output.path.join(name)
    }

    /// The file of the plan that a generation's claim names.
    fn plan(&self, generation: u64) -> PathBuf {
        let claim = self.path(&format!("_shardpack/claims/{generation:08}.json"));
        let claim: Value = serde_json::from_slice(&fs::read(claim).unwrap()).unwrap();
        let id = claim["plan_id"].as_str().unwrap();
        self.path(&format!("_shardpack/plan/{id}/plan.json"))
    }

    /// Each of these commands must end with this code and words, and change nothing.
    fn refuses(&self, commands: &[Command], words: &[&str]) {
        let before = digests(&self.output.path);
        for command in commands {
            let args: Vec<String> = command
                .iter()
                .map(|arg| match *arg {
                    "DST" => self.output.path.to_string_lossy().into_owned(),
                    "SRC" => self.data.source().to_string_lossy().into_owned(),
                    arg => arg.to_owned(),
                })
                .collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let run = run(&mut shardpack(&args));
            let told = format!("{command:?}\n{}\n{}", run.out, run.err);
            assert_eq!(run.code, 1, "{told}");
            for word in words {
                assert!(run.err.contains(word), "`{word}`: {told}");
            }
            assert!(!run.err.contains("shardpack repair"), "{told}");
            assert_eq!(digests(&self.output.path), before, "{told}");
        }
    }
}

/// Makes an object of JSON one of version 2.
fn make_later(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, serde_json::to_vec_pretty(&value).unwrap()).unwrap();
}

/// The words of every refusal of such a thing.
fn words(what: &str) -> [String; 2] {
    [
        format!("written by a later shardpack, this is {VERSION}"),
        format!("{what} version 2, this program knows 1"),
    ]
}

fn all() -> Vec<Command> {
    READ.into_iter().chain(WRITE).collect()
}

#[test]
fn a_manifest_and_its_snapshot_of_a_later_version_are_refused_by_every_verb() {
    let future = Future::new();
    for name in ["manifest.json", "_shardpack/snapshots/00000002.json"] {
        make_later(&future.path(name), |value| value["version"] = json!(2));
    }
    let [by, version] = words("manifest");
    future.refuses(&all(), &[&by, &version, "manifest.json"]);
    // The program that wrote it is named where it says so, and all else may be otherwise.
    for name in ["manifest.json", "_shardpack/snapshots/00000002.json"] {
        let text = r#"{"version": 2, "written_by": "7.1.0", "splits": {"train": []}, "kind": "shardpack"}"#;
        fs::write(future.path(name), text).unwrap();
    }
    let by = format!("written by shardpack 7.1.0, this is {VERSION}");
    future.refuses(&all(), &[&by, &version]);
}

#[test]
fn a_manifest_of_a_later_version_is_not_replaced_by_a_snapshot_of_this_one() {
    let future = Future::new();
    make_later(&future.path("manifest.json"), |value| {
        value["version"] = json!(2);
    });
    let [by, version] = words("manifest");
    future.refuses(&all(), &[&by, &version]);
}

#[test]
fn a_snapshot_of_a_later_version_is_left_alone_whichever_it_is() {
    for number in 1..=3 {
        let future = Future::new();
        let name = format!("_shardpack/snapshots/{number:08}.json");
        if number == 3 {
            fs::copy(future.path("manifest.json"), future.path(&name)).unwrap();
        }
        make_later(&future.path(&name), |value| {
            value["version"] = json!(2);
            value["snapshot"] = json!(number);
        });
        let [by, version] = words("manifest");
        // The others do not look at it, and do nothing about it.
        let who: Vec<Command> = match number {
            1 => WRITE[3..5].to_vec(),
            2 => [&READ[..2], &WRITE[3..6]].concat(),
            _ => WRITE.to_vec(),
        };
        future.refuses(&who, &[&by, &version, &name]);
        // With nothing else to go by.
        fs::write(future.path("manifest.json"), "{").unwrap();
        if number == 3 {
            future.refuses(&[WRITE[5]], &[&by, &version, &name]);
        }
        fs::remove_file(future.path("manifest.json")).unwrap();
        if number > 1 {
            fs::remove_file(future.path("_shardpack/snapshots/00000001.json")).unwrap();
        }
        if number == 3 {
            fs::remove_file(future.path("_shardpack/snapshots/00000002.json")).unwrap();
        }
        future.refuses(&WRITE[3..6], &[&by, &version, &name]);
    }
}

#[test]
fn a_plan_or_claim_of_a_later_version_is_refused_by_every_verb_that_goes_by_plans() {
    // `inspect`, `cat` and `report` need no plan: the snapshot that is published is of this version.
    let who: Vec<Command> = READ[..2].iter().chain(&WRITE).copied().collect();
    for nested in [true, false] {
        let future = Future::new();
        make_later(&future.plan(2), |value| match nested {
            true => value["plan"]["version"] = json!(2),
            false => value["version"] = json!(2),
        });
        let [by, version] = words("plan");
        future.refuses(&who, &[&by, &version, "plan.json"]);
    }
    let future = Future::new();
    let claim = future.path("_shardpack/claims/00000002.json");
    make_later(&claim, |value| {
        *value = json!({"kind": "shardpack-claim", "version": 2, "plans": []});
    });
    let [by, version] = words("claim");
    future.refuses(&who, &[&by, &version, "00000002.json"]);
}

#[test]
fn nothing_is_done_beside_a_plan_of_a_later_version_that_is_not_published_yet() {
    let future = Future::new();
    let plan = future.plan(2);
    let id = "ab".repeat(32);
    let there = future.path(&format!("_shardpack/plan/{id}"));
    fs::create_dir(&there).unwrap();
    fs::copy(plan, there.join("plan.json")).unwrap();
    make_later(&there.join("plan.json"), |value| {
        value["plan"] = json!({"version": 2, "parts": []});
    });
    fs::write(
        future.path("_shardpack/claims/00000003.json"),
        json!({"kind": "shardpack-claim", "plan_id": id}).to_string(),
    )
    .unwrap();
    let [by, version] = words("plan");
    future.refuses(&WRITE, &[&by, &version]);
}

#[test]
fn a_record_of_a_later_version_is_not_packed_over() {
    let future = Future::new();
    let index = future.path("index/train-00000.parquet");
    let later = later_record(&fs::read(&index).unwrap());
    fs::write(&index, &later).unwrap();
    // As published: the manifest says the same of it.
    let crc32 = format!("{:08x}", crc32fast::hash(&later));
    for name in ["manifest.json", "_shardpack/snapshots/00000002.json"] {
        make_later(&future.path(name), |value| {
            let shards = value["splits"][0]["shards"].as_array_mut().unwrap();
            shards[0]["index_crc32"] = json!(crc32);
            shards[0]["index_bytes"] = json!(later.len());
        });
    }
    let [by, version] = words("record");
    let words = [by.as_str(), &version, "train-00000.parquet"];
    future.refuses(&[READ[0], READ[1], WRITE[5]], &words);
    // And where it is not published yet.
    let data = Dataset::new().class("cat", 3).class("dog", 3);
    let path = data.fresh();
    let mut plan = shardpack(&["plan"]);
    run(plan.arg(data.source()).arg(&path).args(FLAGS)).exits(0);
    run(shardpack(&["pack"]).arg(&path)).exits(0);
    let index = path.join("index/train-00000.parquet");
    fs::write(&index, later_record(&fs::read(&index).unwrap())).unwrap();
    let future = Future {
        output: Output {
            run: data.convert_to(&path, &["--dry-run", "--shards", "2"]),
            path,
        },
        data,
    };
    future.refuses(&[WRITE[0], WRITE[1], WRITE[5], WRITE[6]], &words);
}

/// An index file whose entry says version 2, with its seal.
fn later_record(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let (old, new) = (br#""version":1,"#, br#""version":2,"#);
    let at = file.windows(old.len()).rposition(|w| w == old).unwrap();
    file[at..at + new.len()].copy_from_slice(new);
    let end = file.len() - 8;
    let length = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    let footer = end - length;
    let seal = crc32fast::hash(&file[footer..]).to_le_bytes();
    file[footer - 4..footer].copy_from_slice(&seal);
    file
}

#[test]
fn where_a_later_version_left_off_verifying_is_not_forgotten() {
    let future = Future::new();
    let cursor = future.path("_shardpack/verify/cursor.json");
    make_later(&cursor, |value| value["version"] = json!(2));
    let [by, version] = words("cursor");
    let commands: [Command; 3] = [
        &["verify", "DST", "--resume"],
        &["verify", "DST", "--sample", "50%"],
        &["verify", "DST", "--max-duration", "1h"],
    ];
    future.refuses(&commands, &[&by, &version, "cursor.json"]);
}
