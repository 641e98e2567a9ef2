//! The same source and options give the same bytes, whatever else differs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{
    BINARY, Dataset, Digests, Output, Random, copy_tree, digests, files, picture, run,
    set_modified, shardpack,
};

fn sha256(text: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A few classes, splits of one, sidecars and awkward names.
fn varied() -> Dataset {
    Dataset::new()
        .class("cat", 40)
        .class("a-b", 25)
        .class("a", 25)
        .file("a/0001.txt", "the only sidecar")
        .pictures(&["a/ü x.v1.jpg", "cat/deep/er/1.JPEG"])
}

const SMALL: [&str; 5] = [
    "--shard-size",
    "30kB",
    "--add-json",
    "--missing-fields",
    "keep",
];

fn with(flags: &[&str]) -> Vec<String> {
    [&SMALL, flags]
        .concat()
        .iter()
        .map(|s| (*s).to_owned())
        .collect()
}

fn convert(data: &Dataset, flags: &[&str]) -> Output {
    let flags = with(flags);
    data.convert(&flags.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn the_output_is_the_same_bytes_for_any_number_of_jobs_and_reads_and_any_memory() {
    let data = varied();
    let usual = convert(&data, &[]).digests();
    assert!(usual.len() > 15, "{usual:?}");
    for flags in [
        ["--jobs", "1", "--reads", "1", "--memory", "64MiB"],
        ["--jobs", "2", "--reads", "64", "--memory", "64MiB"],
        ["--jobs", "8", "--reads", "64", "--memory", "2GiB"],
        ["--jobs", "8", "--reads", "1", "--memory", "1GiB"],
    ] {
        assert_eq!(usual, convert(&data, &flags).digests(), "{flags:?}");
    }
}

#[test]
fn a_file_that_is_streamed_gives_the_same_bytes_as_one_that_is_held() {
    let data = Dataset::new().class("cat", 10).file(
        "cat/large.jpg",
        crate::support::padded_picture("large", 3 << 20),
    );
    let held = data.convert(&["--memory", "2GiB", "--sha256"]).digests();
    let little = [
        "--memory", "36MiB", "--jobs", "1", "--reads", "1", "--sha256",
    ];
    assert_eq!(held, data.convert(&little).digests());
}

#[test]
fn the_output_is_the_same_bytes_in_another_time_zone_language_and_umask() {
    let data = varied();
    let usual = convert(&data, &[]).digests();
    let destination = data.fresh();
    let mut elsewhere = Command::new("sh");
    elsewhere
        .args(["-c", "umask 077; exec \"$0\" \"$@\"", BINARY, "convert"])
        .arg(data.source())
        .arg(&destination)
        .args(with(&[]))
        .envs([
            ("TZ", "Pacific/Chatham"),
            ("LANG", "tr_TR.UTF-8"),
            ("LC_ALL", "tr_TR.UTF-8"),
        ])
        .env("HOME", "/nonexistent");
    run(&mut elsewhere).exits(0);
    assert_eq!(usual, digests(&destination));
}

#[test]
fn the_output_is_the_same_bytes_from_another_path_and_by_a_relative_one() {
    let data = varied();
    let usual = convert(&data, &[]).digests();
    let copy = data.place("a copy/of it");
    copy_tree(&data.source(), &copy, 0);
    let destination = data.fresh();
    let mut command = shardpack(&["convert", ".", "../../from-within"]);
    run(command.args(with(&[])).current_dir(&copy)).exits(0);
    assert_eq!(usual, digests(&data.place("from-within")));
    let mut command = shardpack(&["convert"]);
    run(command
        .arg(copy.join("./"))
        .arg(&destination)
        .args(with(&[])))
    .exits(0);
    assert_eq!(usual, digests(&destination));
}

#[test]
fn the_output_is_the_same_bytes_in_whatever_order_the_files_were_made() {
    let mut names: Vec<String> = (0..60).map(|i| format!("c{}/{i}.jpg", i % 3)).collect();
    let usual = convert(&Dataset::new().pictures(&names), &[]).digests();
    let mut random = Random::new(11);
    for i in (1..names.len()).rev() {
        names.swap(i, random.below(i as u64 + 1) as usize);
    }
    assert_eq!(
        usual,
        convert(&Dataset::new().pictures(&names), &[]).digests()
    );
}

#[test]
fn a_copy_of_the_source_with_other_times_gives_the_same_bytes_but_for_the_stored_plan() {
    let data = varied();
    let copy = data.place("copy");
    copy_tree(&data.source(), &copy, 0);
    let mut random = Random::new(12);
    for file in files(&copy) {
        set_modified(&file, random.below(1_000_000));
    }
    let usual = convert(&data, &["--sha256"]);
    let destination = data.fresh();
    let mut command = shardpack(&["convert"]);
    run(command
        .arg(&copy)
        .arg(&destination)
        .args(with(&["--sha256"])))
    .exits(0);
    let [mut one, mut other] = [usual.digests(), digests(&destination)];
    assert_ne!(one, other);
    for made in [&mut one, &mut other] {
        let plans = |name: &str| {
            ["_shardpack/plan/", "_shardpack/claims/"]
                .iter()
                .any(|dir| name.starts_with(dir))
        };
        made.retain(|name, _| !plans(name));
        for name in [
            "README.md",
            "SHA256SUMS",
            "_shardpack/snapshots/00000001.json",
            "data/train-00000.tar",
            "index/train-00000.parquet",
            "manifest.json",
        ] {
            assert!(made.contains_key(name), "{name} is not in {made:?}");
        }
    }
    assert_eq!(one, other);
}

#[test]
fn the_destination_of_a_source_takes_a_copy_with_other_times_once_something_is_published() {
    let data = varied();
    let usual = convert(&data, &[]);
    let copy = data.place("copy");
    copy_tree(&data.source(), &copy, 5);
    let ends = |before: Digests, destination: &Path, code: i32, word: &str| {
        let mut command = shardpack(&["convert"]);
        run(command.arg(&copy).arg(destination).args(with(&[])))
            .exits(code)
            .says(&[word]);
        assert_eq!(before, digests(destination));
    };
    ends(usual.digests(), &usual.path, 0, "touched only 92");
    // Before that nothing says what was packed, and they do not mix.
    let planned = data.fresh();
    let mut plan = shardpack(&["plan"]);
    run(plan.arg(data.source()).arg(&planned).args(with(&[]))).exits(0);
    run(shardpack(&["pack", "--worker", "0/2"]).arg(&planned)).exits(0);
    let word = "belongs to another plan";
    ends(digests(&planned), &planned, 10, word);
}

#[test]
fn a_file_that_was_only_touched_between_two_runs_is_no_change() {
    let data = varied();
    let output = convert(&data, &[]);
    let before = output.digests();
    let file = data.source().join("cat/0007.jpg");
    let flags = with(&[]);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    set_modified(&file, 1);
    // What a dry run shows is what the manifest has.
    let plan = output.manifest()["plan"].as_str().unwrap().to_owned();
    let dry = [&flags[..], &["--dry-run"]].concat();
    let said = ["up to date: ", "touched only 1"];
    data.convert_to(&output.path, &dry)
        .exits(0)
        .says(&said)
        .says(&[&plan]);
    data.convert_to(&output.path, &flags).exits(0).says(&said);
    assert_eq!(before, output.digests());
    // The same size and another content, that is a change.
    let mut content = fs::read(&file).unwrap();
    let last = content.len() - 3;
    content[last] ^= 1;
    fs::write(&file, content).unwrap();
    let words = ["1 sample changed", "changed cat/0007.jpg"];
    data.convert_to(&output.path, &flags).exits(3).says(&words);
    assert_eq!(before, output.digests());
}

#[test]
fn the_digest_of_samples_without_versions_is_that_of_the_stored_lines_without_them() {
    let (_data, output) = varied().convert_kept(&SMALL);
    let stored = files(&output.path.join("_shardpack/plan"));
    let [plan, samples] = stored.as_slice() else {
        panic!("{stored:?}")
    };
    let stored: serde_json::Value = serde_json::from_slice(&std::fs::read(plan).unwrap()).unwrap();
    let samples = std::fs::read(samples).unwrap();
    for (shard, frame) in stored["plan"]["shards"]
        .as_array()
        .unwrap()
        .iter()
        .zip(stored["frames"].as_array().unwrap())
    {
        let [at, length] = [0, 1].map(|i| frame[i].as_u64().unwrap() as usize);
        let lines = zstd::decode_all(&samples[at..at + length]).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        assert_eq!(shard["listing"], sha256(&lines));
        let mut parts = lines.split(",\"version\":\"mtime:");
        let mut cut = parts.next().unwrap().to_owned();
        cut.extend(parts.map(|part| part.split_once('"').unwrap().1));
        assert!(cut.len() < lines.len());
        assert_eq!(shard["unversioned"], sha256(&cut));
    }
}

#[test]
fn listed_order_is_by_the_bytes_of_the_keys() {
    let data = varied();
    let output = convert(&data, &["--order", "listed"]);
    let keys = output.keys();
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(keys, sorted);
    assert_eq!(keys.len(), 92);
    // A directory walk would have it the other way round.
    assert_eq!(keys[0], "a-b/0000");
}

#[test]
fn another_seed_is_another_order_of_the_same_samples() {
    let data = varied();
    let orders = ["0", "1", "18446744073709551615"].map(|seed| {
        let output = convert(&data, &["--seed", seed]);
        output.verify(&[]).exits(0);
        output.keys()
    });
    let set = |keys: &[String]| keys.iter().cloned().collect::<BTreeSet<_>>();
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert_ne!(orders[a], orders[b]);
        assert_eq!(set(&orders[a]), set(&orders[b]));
    }
}

#[test]
fn shuffled_shards_hold_a_mixture_of_the_classes() {
    let data = Dataset::new().class("cat", 60).class("dog", 60);
    let output = data.convert(&["--shards", "4"]);
    for shard in output.shards() {
        let members = crate::support::members(&shard);
        let cats = members
            .iter()
            .filter(|m| m.field == "cls" && m.content == b"0")
            .count();
        let all = members.len() / 2;
        assert!(cats * 5 > all && cats * 5 < all * 4, "{cats} cats of {all}");
    }
}

#[test]
fn plan_pack_and_publish_by_two_workers_make_what_convert_makes() {
    let data = varied();
    let flags = with(&[]);
    let converted = convert(&data, &[]);
    let destination = data.fresh();
    let verb = |args: &[&str]| run(shardpack(args).arg(&destination)).exits(0).out.clone();
    let mut plan = shardpack(&["plan"]);
    run(plan.arg(data.source()).arg(&destination).args(&flags)).exits(0);
    // Planned twice, it is one plan.
    run(&mut plan).exits(0);
    verb(&["pack", "--worker", "1/2"]);
    let publish = run(shardpack(&["publish"]).arg(&destination));
    publish
        .exits(1)
        .says(&["shards are not packed yet", "data/train-00000.tar"]);
    verb(&["pack", "--worker", "0/2", "--jobs", "1"]);
    verb(&["publish"]);
    let mut made = digests(&destination);
    let location = made.keys().find(|name| name.ends_with("/source")).cloned();
    let location = location.expect("the plan says where its source was");
    assert!(location.starts_with("_shardpack/plan/"), "{location}");
    made.remove(&location);
    assert_eq!(made, converted.digests());
    // Each of them done again changes nothing.
    let before = digests(&destination);
    verb(&["pack"]);
    verb(&["publish"]);
    assert_eq!(before, digests(&destination));
}

#[test]
fn two_runs_at_the_same_time_make_what_one_makes() {
    let data = varied();
    let usual = convert(&data, &[]).digests();
    let destination = data.fresh();
    let flags = with(&[]);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let start = || {
        let mut command = data.command(&destination, &flags);
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    for child in [start(), start(), start()] {
        crate::support::finished(child.wait_with_output().unwrap()).exits(0);
    }
    assert_eq!(usual, digests(&destination));
}

#[test]
fn of_two_plans_at_the_same_time_exactly_one_wins() {
    let data = Dataset::new().class("cat", 30);
    for round in 0..4 {
        let destination = data.fresh();
        let start = |seed| {
            let mut command = data.command(&destination, &["--seed", seed, "--shards", "5"]);
            command.stdout(std::process::Stdio::null());
            command.stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        };
        let children = [start("1"), start("2")];
        let runs = children.map(|c| crate::support::finished(c.wait_with_output().unwrap()));
        let mut codes = runs.each_ref().map(|run| run.code);
        codes.sort_unstable();
        assert_eq!(
            codes,
            [0, 10],
            "round {round}: {} {}",
            runs[0].err,
            runs[1].err
        );
        run(shardpack(&["verify"]).arg(&destination)).exits(0);
    }
}

#[test]
fn the_number_of_shards_is_as_asked_for() {
    let data = Dataset::new().class("train/cat", 31).class("val/cat", 5);
    let shards = |flags: &[&str]| {
        let manifest = data.convert(flags).manifest();
        let count = |split: usize| {
            manifest["splits"][split]["shards"]
                .as_array()
                .unwrap()
                .len()
        };
        [count(0), count(1)]
    };
    assert_eq!(shards(&["--shards", "3"]), [3, 3]);
    assert_eq!(shards(&["--shards", "7"]), [7, 5]);
    assert_eq!(shards(&["--shard-samples", "10"]), [4, 1]);
    assert_eq!(shards(&["--shard-samples", "1"]), [31, 5]);
    assert_eq!(shards(&[]), [1, 1]);
    let few = data.convert(&["--shards", "7"]);
    few.run.says(&["split `val`: 5 shards instead of 7"]);
}

#[test]
fn no_shard_is_over_its_size_and_there_is_no_runt() {
    let data = Dataset::new().class("cat", 120);
    let output = data.convert(&["--shard-size", "40KiB"]);
    let sizes: Vec<u64> = output
        .shards()
        .iter()
        .map(|shard| std::fs::metadata(shard).unwrap().len())
        .collect();
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(*most <= 40 << 10 && *least > 25_000, "{sizes:?}");
}

#[test]
fn the_json_field_tells_class_file_label_and_split() {
    let data = Dataset::new()
        .class("val/dog", 1)
        .pictures(&["train/cat/ü.jpg"]);
    let output = data.convert(&["--add-json"]);
    let text = output.member("train/cat/~C3~BC", "json");
    let about: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        about,
        serde_json::json!({"class": "cat", "filename": "train/cat/ü.jpg", "label": 0, "split": "train"})
    );
}

#[test]
fn images_go_in_as_they_are_under_normalised_extensions() {
    let data = Dataset::new()
        .pictures(&["cat/a.JPEG", "cat/b.jpg", "cat/c.jfif"])
        .file("cat/d.PNG", crate::support::png(4));
    let output = data.convert(&[]);
    for (key, name) in [("a", "a.JPEG"), ("b", "b.jpg"), ("c", "c.jfif")] {
        assert_eq!(
            output.member(&format!("cat/{key}"), "jpg"),
            picture(&format!("cat/{name}"))
        );
    }
    assert_eq!(output.member("cat/d", "png"), crate::support::png(4));
}

#[test]
fn checksum_files_agree_with_sha256sum() {
    let data = varied();
    let output = convert(&data, &["--sha256"]);
    let check = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&output.path)
        .output();
    match check {
        Ok(check) => assert!(check.status.success(), "{check:?}"),
        Err(error) => eprintln!("not tested: sha256sum: {error}"),
    }
    assert!(Path::new(&output.path).join("SHA256SUMS").exists());
}
