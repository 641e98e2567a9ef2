//! The same source and options give the same bytes, whatever else differs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::{
    BINARY, Dataset, Output, Random, copy_tree, digests, picture, run, set_modified, shardpack,
};

/// A few classes, splits of one, sidecars and awkward names.
fn varied() -> Dataset {
    Dataset::new()
        .class("cat", 40)
        .class("a-b", 25)
        .class("a", 25)
        .file("a/0001.txt", "the only sidecar")
        .pictures(&["a/ü x.v1.jpg", "cat/deep/er/1.JPEG"])
}

const SMALL: [&str; 3] = ["--shard-size", "30kB", "--json"];

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
fn shards_are_the_same_bytes_for_files_with_other_times() {
    let data = varied();
    let usual = convert(&data, &[]);
    let mut random = Random::new(12);
    for file in crate::support::files(&data.source()) {
        set_modified(&file, random.below(1_000_000));
    }
    let later = convert(&data, &[]);
    assert_eq!(usual.tars(), later.tars());
    assert_ne!(usual.manifest()["plan"], later.manifest()["plan"]);
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
    let output = data.convert(&["--json"]);
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
