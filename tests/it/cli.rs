//! Flags, their environment twins, summaries, logs, help.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Dataset, digests, files, run, shardpack, stamps};

const VERBS: [&str; 7] = [
    "convert", "plan", "pack", "publish", "verify", "inspect", "cat",
];

#[test]
fn flags_that_mean_nothing_are_refused_with_a_remedy() {
    let data = Dataset::new().class("cat", 4);
    let rows: [(&[&str], &[&str]); 21] = [
        (&["--shard-size", "0"], &["--shard-size 0", "at least 1"]),
        (&["--shard-size", "big"], &["`big`", "for example 1GB"]),
        (&["--shards", "0"], &["--shards 0", "at least 1"]),
        (
            &["--shard-samples", "0"],
            &["--shard-samples 0", "at least 1"],
        ),
        (&["--jobs", "0"], &["--jobs 0", "at least 1"]),
        (&["--reads", "0"], &["--reads 0", "at least 1"]),
        (
            &["--shards", "3", "--shard-size", "1MB"],
            &["contradict each other", "give one of them"],
        ),
        (
            &["--shards", "3", "--shard-samples", "5"],
            &["contradict each other"],
        ),
        (
            &["--max-skipped", "3"],
            &["--max-skipped", "add `--on-error skip`"],
        ),
        (&["--split", "a/b"], &["--split `a/b`", "NAME=SUBPATH"]),
        (
            &["--split", "a-b=x"],
            &["--split `a-b=x`", "letters, digits"],
        ),
        (&["--split", "a=../x"], &["must lie below SRC"]),
        (&["--split", "a=/x"], &["must lie below SRC"]),
        (
            &["--split", "a=x", "--split", "b=x/y"],
            &["overlaps that of split `a`"],
        ),
        (&["--split", "a=x", "--split", "a=y"], &["given twice"]),
        (
            &["--include", "a[b"],
            &["--include `a[b`", "correct the glob"],
        ),
        (
            &["--exclude", "{a"],
            &["--exclude `{a`", "correct the glob"],
        ),
        (&["--synsets", "x"], &["--labels"]),
        (&["--name", "two\nlines"], &["--name", "one line"]),
        (&["--validate", "twice"], &["twice", "header"]),
        (&["-q", "-v"], &["--quiet", "--verbose"]),
    ];
    for (flags, words) in rows {
        data.refuses(flags, 2, words);
    }
    data.refuses(
        &["--memory", "1MiB"],
        2,
        &["`--memory` of 1 MiB is too little", "raise it to"],
    );
}

#[test]
fn flags_of_other_verbs_that_mean_nothing_are_refused() {
    let data = Dataset::new().class("cat", 4);
    let output = data.convert(&[]);
    let before = output.digests();
    let source = data.source();
    let source = source.to_str().unwrap();
    let rows: [(&str, &[&str], &str); 8] = [
        ("verify", &["--level", "source"], "add `--source SRC`"),
        (
            "verify",
            &["--level", "data", "--source", source],
            "`--level source` only",
        ),
        ("pack", &["--worker", "2/2"], "--worker `2/2`: write K/N"),
        ("pack", &["--worker", "1"], "--worker `1`: write K/N"),
        ("pack", &["--worker", "0/0"], "--worker `0/0`: write K/N"),
        ("pack", &["--max-skipped", "1"], "--on-error skip"),
        ("cat", &["cat/0000", "--whole", "--field", "jpg"], "--field"),
        ("publish", &["--jobs", "0"], "--jobs 0"),
    ];
    for (verb, flags, word) in rows {
        output.verb(verb, flags).exits(2).says(&[word]);
    }
    assert_eq!(before, output.digests());
    run(&mut shardpack(&[])).exits(2);
    run(&mut shardpack(&["pakc"])).exits(2).says(&["pack"]);
}

#[test]
fn flags_have_environment_twins_and_win_over_them() {
    let data = Dataset::new().class("cat", 30);
    let with_env = |name: &str, value: &str, flags: &[&str]| {
        let destination = data.fresh();
        let run = run(data.command(&destination, flags).env(name, value));
        (run, destination)
    };
    let (refused, destination) = with_env("SHARDPACK_JOBS", "0", &[]);
    refused.exits(2).says(&["--jobs 0"]);
    assert!(!destination.exists());
    with_env("SHARDPACK_JOBS", "0", &["--jobs", "1"]).0.exits(0);
    with_env("SHARDPACK_SHARD_SIZE", "nonsense", &[]).0.exits(2);

    let by_flag = data.convert(&["--shard-size", "20kB"]).digests();
    let (run, destination) = with_env("SHARDPACK_SHARD_SIZE", "20kB", &[]);
    run.exits(0);
    assert_eq!(by_flag, digests(&destination));
    let (run, destination) = with_env("SHARDPACK_EXCLUDE", "cat/{000,001}*", &[]);
    run.exits(0);
    assert_eq!(crate::support::manifest(&destination)["samples"], 10);
    let (run, destination) = with_env("SHARDPACK_DRY_RUN", "true", &[]);
    run.exits(0);
    assert!(!destination.exists());
}

#[test]
fn source_and_destination_come_from_the_environment_too() {
    let data = Dataset::new().class("cat", 3);
    let destination = data.fresh();
    let mut command = shardpack(&["convert"]);
    command
        .env("SHARDPACK_SRC", data.source())
        .env("SHARDPACK_DST", &destination);
    run(&mut command).exits(0);
    run(shardpack(&["verify"]).env("SHARDPACK_DST", &destination)).exits(0);
}

#[test]
fn a_summary_is_written_on_success_and_on_failure() {
    let data = Dataset::new().class("cat", 30);
    let file = data.place("summary.json");
    let flags = ["--shards", "3", "--summary", file.to_str().unwrap()];
    let summary = || -> Value { serde_json::from_slice(&fs::read(&file).unwrap()).unwrap() };
    let output = data.convert(&flags);
    let said = summary();
    for (what, value) in [
        ("verb", json!("convert")),
        ("exit_code", json!(0)),
        ("samples", json!(30)),
        ("shards", json!(3)),
        ("shards_reused", json!(0)),
        ("skipped", json!([])),
        ("plan", output.manifest()["plan"].clone()),
        ("bytes", output.manifest()["bytes"].clone()),
    ] {
        assert_eq!(said[what], value, "{said}");
    }
    assert!(said["seconds"].as_f64().unwrap() > 0.0);
    assert!(said["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);

    data.convert_to(&output.path, &[&flags[..], &["--seed", "4"]].concat())
        .exits(10);
    assert_eq!(summary()["exit_code"], 10);
    assert!(
        summary()["error"]
            .as_str()
            .unwrap()
            .contains("--seed: was 0, now 4")
    );
    data.convert_to(&output.path, &[&flags[..], &["--jobs", "0"]].concat())
        .exits(2);
    assert_eq!(summary()["exit_code"], 2);

    crate::support::flip(&output.shards()[0], 700);
    output
        .verify(&["--summary", file.to_str().unwrap()])
        .exits(4);
    assert_eq!(summary()["exit_code"], 4);
    assert_eq!(summary()["verb"], "verify");
    // Directories above it are made; this one cannot be.
    let below = file.join("x");
    let below = below.to_str().unwrap();
    data.convert_to(&data.fresh(), &["--summary", below])
        .exits(1)
        .says(&[&format!("--summary {below}")]);
}

#[test]
fn log_lines_are_json_when_asked_for() {
    let data = Dataset::new().class("cat", 30);
    let lines = |flags: &[&str], code| -> Vec<Value> {
        let run = data.convert_to(&data.fresh(), &[&["--log", "json"], flags].concat());
        run.exits(code);
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        run.err.lines().map(parse).collect()
    };
    let said = lines(&["--shards", "3", "-v", "--progress", "log"], 0);
    assert!(
        said.iter()
            .any(|line| line["shard"] == "data/train-00001.tar"),
        "{said:?}"
    );
    let warned = lines(&["--shards", "99"], 0);
    assert!(
        warned.iter().any(|line| line["level"] == "WARN"),
        "{warned:?}"
    );
    let failed = lines(&["--shards", "0"], 2);
    assert_eq!(failed.last().unwrap()["level"], "ERROR");
    assert_eq!(failed.last().unwrap()["exit_code"], 2);
}

#[test]
fn a_dry_run_writes_nothing_and_tells_the_plan() {
    let data = Dataset::new().class("cat", 7).class("dog", 3);
    for verb in ["convert", "plan"] {
        let destination = data.fresh();
        let mut command = shardpack(&[verb, "--dry-run", "--shards", "2"]);
        let run = run(command.arg(data.source()).arg(&destination));
        run.exits(0).says(&[
            "plan      ",
            "samples   10 in 2 classes",
            "in 2 shards",
            "split     train: 10 samples, 2 shards",
            "smallest `dog` 3, largest `cat` 7",
        ]);
        assert!(!destination.exists());
    }
    let output = data.convert(&["--shards", "2"]);
    let digest = output.manifest()["plan"].as_str().unwrap().to_owned();
    let before = stamps(&output.path);
    data.convert_to(&output.path, &["--shards", "2", "--dry-run"])
        .exits(0)
        .says(&[&digest]);
    assert_eq!(before, stamps(&output.path));
}

#[test]
fn a_quiet_run_that_succeeds_says_nothing() {
    let data = Dataset::new().class("cat", 3);
    let destination = data.fresh();
    let run_quiet = data.convert_to(&destination, &["-q", "--shards", "99"]);
    run_quiet.exits(0);
    assert_eq!((run_quiet.out.as_str(), run_quiet.err.as_str()), ("", ""));
    let failed = data.convert_to(&destination, &["-q", "--seed", "3"]);
    failed.exits(10).says(&["error: "]);
    assert!(failed.err.starts_with("error: "), "{}", failed.err);
    let cat = run(shardpack(&["cat", "-q"])
        .arg(&destination)
        .arg("cat/0000.cls"));
    assert_eq!(cat.exits(0).out, "0");
}

#[test]
fn a_conversion_that_is_done_already_writes_nothing() {
    let data = Dataset::new().class("cat", 20);
    let output = data.convert(&["--shards", "4", "--sha256"]);
    output.run.says(&["published 20 samples in 4 shards"]);
    let before = stamps(&output.path);
    data.convert_to(&output.path, &["--shards", "4", "--sha256"])
        .exits(0)
        .says(&[
            "up to date: 20 samples in 4 shards",
            "4 shards were already done",
        ]);
    assert_eq!(before, stamps(&output.path));
}

#[test]
fn a_card_completed_by_hand_stays() {
    let data = Dataset::new().class("cat", 3);
    let output = data.convert(&[]);
    let card = output.path.join("README.md");
    fs::write(&card, "mine").unwrap();
    data.convert_to(&output.path, &[]).exits(0);
    assert_eq!(fs::read_to_string(card).unwrap(), "mine");
    output.verify(&[]).exits(0);
}

#[test]
fn the_card_says_what_is_in_the_dataset_and_how_to_read_it() {
    let data = Dataset::new()
        .class("train/cat", 9)
        .class("val/cat", 2)
        .class("train/a|b", 1);
    let output = data.convert(&["--name", "pets", "--shards", "2"]);
    let card = fs::read_to_string(output.path.join("README.md")).unwrap();
    for line in [
        "configs:",
        "  - split: train",
        "    path: data/train-*.tar",
        "  - split: val",
        "    path: data/val-*.tar",
        "# pets",
        "12 samples in 2 classes",
        "data/train-{00000..00001}.tar",
        "| 0 | `a\\|b` |",
        "| 1 | `cat` |",
        "shardpack verify . --level data",
    ] {
        assert!(card.contains(line), "`{line}` is not in\n{card}");
    }
    assert!(card.starts_with("---\n"));
}

#[test]
fn the_destination_holds_what_was_promised_and_nothing_else() {
    let (_data, output) = Dataset::new().class("cat", 3).convert_kept(&["--sha256"]);
    let claim = fs::read(output.path.join("_shardpack/claims/00000001.json")).unwrap();
    let claim: Value = serde_json::from_slice(&claim).unwrap();
    let plan = claim["plan_id"].as_str().unwrap();
    let names: Vec<String> = output.digests().into_keys().collect();
    let mut expected = vec![
        "README.md".to_owned(),
        "SHA256SUMS".to_owned(),
        "_shardpack/claims/00000001.json".to_owned(),
        format!("_shardpack/plan/{plan}/plan.json"),
        format!("_shardpack/plan/{plan}/samples.jsonl.zst"),
        "_shardpack/snapshots/00000001.json".to_owned(),
        "data/train-00000.tar".to_owned(),
        "index/train-00000.parquet".to_owned(),
        "manifest.json".to_owned(),
    ];
    expected.sort();
    assert_eq!(names, expected);
    assert_eq!(files(&output.path).len(), expected.len());
}

#[test]
fn help_tells_exit_codes_and_every_verbs_options() {
    let help = run(&mut shardpack(&["--help"]));
    help.exits(0).says(&[
        "Exit codes:",
        " 0  done",
        "75  transient",
        "143 terminated",
        "SHARDPACK_SOME_NAME",
    ]);
    help.says(&VERBS);
    for verb in VERBS {
        let help = run(&mut shardpack(&[verb, "--help"]));
        help.exits(0)
            .says(&["--summary <FILE>", "--memory <SIZE>", "DST"]);
    }
    run(&mut shardpack(&["convert", "--help"])).exits(0).says(&[
        "--shard-size",
        "--shards",
        "--shard-samples",
        "--order",
        "--seed",
        "--split",
        "--labels",
        "--include",
        "--exclude",
        "--add-json",
        "--validate",
        "--on-error",
        "--max-skipped",
        "--allow-empty",
        "--name",
        "--dry-run",
        "[env: SHARDPACK_SHARD_SIZE",
    ]);
    run(&mut shardpack(&["--version"]))
        .exits(0)
        .says(&[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn help_of_every_verb_tells_the_exit_codes() {
    for verb in VERBS {
        run(&mut shardpack(&[verb, "--help"]))
            .exits(0)
            .says(&["Exit codes:", "75  transient"]);
    }
}

#[test]
fn shells_and_man_learn_every_verb_and_flag_from_the_program_itself() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("share/man1");
    assert_eq!(run(shardpack(&["man"]).arg(&pages)).code, 0);
    let page = |verb: &str| fs::read_to_string(pages.join(format!("shardpack-{verb}.1"))).unwrap();
    assert!(pages.join("shardpack.1").exists());
    for verb in VERBS {
        assert!(
            page(verb).contains(&format!("shardpack\\-{verb}")),
            "{verb}"
        );
    }
    assert!(page("convert").contains("\\-\\-shard\\-size"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let words = run(&mut shardpack(&["completions", shell]));
        for word in VERBS.iter().chain(&["shard-size"]) {
            assert!(words.out.contains(word), "{shell} does not know {word}");
        }
    }
}

#[test]
fn a_location_with_one_slash_is_no_directory_called_s3() {
    let data = Dataset::new().class("cat", 2);
    let source = data.source();
    let source = source.to_str().unwrap();
    let here = data.place("here");
    fs::create_dir(&here).unwrap();
    for (words, meant) in [
        (["convert", source, "s3:/bucket/out"], "s3://bucket/out"),
        (["convert", source, "s3:bucket/out"], "s3://bucket/out"),
        (["convert", "s3:/bucket/in", "out"], "s3://bucket/in"),
    ] {
        let mut command = shardpack(&words);
        run(command.current_dir(&here)).exits(2).says(&[meant]);
    }
    assert!(files(&here).is_empty());
}

#[test]
fn what_is_missing_ends_alike_whichever_it_is() {
    let data = Dataset::new().class("cat", 2);
    let gone = data.place("gone");
    let gone = gone.to_str().unwrap();
    run(&mut shardpack(&[
        "convert",
        gone,
        data.fresh().to_str().unwrap(),
    ]))
    .exits(3);
    data.convert_to(&data.fresh(), &["--labels", gone]).exits(3);
}

#[test]
fn what_systems_leave_in_directories_is_no_data() {
    let plain = Dataset::new().class("cat", 3);
    let other = Dataset::new()
        .class("cat", 3)
        .file("__MACOSX/cat/._0000.jpg", "x")
        .file("cat/Thumbs.db", "x")
        .file("cat/.DS_Store", "x");
    let (plain, other) = (plain.convert(&[]), other.convert(&["-n"]).run);
    assert_eq!(plain.manifest()["samples"], 3);
    other.says(&["samples   3 in 1 class", "3 hidden files and directories"]);
}

#[test]
fn log_lines_for_people_begin_with_the_time_and_say_one_of_one() {
    let data = Dataset::new().class("cat", 1);
    let logged = data.convert_to(&data.fresh(), &["--progress", "log"]);
    let line = logged.exits(0).err.lines().next().unwrap().to_owned();
    let (time, rest) = line.split_once(' ').unwrap();
    assert!(
        time.len() == 20 && time.ends_with('Z') && time.contains('T'),
        "{line}"
    );
    assert!(rest.trim_start().starts_with("INFO layout"), "{line}");
    let dry = data.convert_to(&data.fresh(), &["-n"]);
    dry.exits(0).says(&[": 1 file, ", "1 sample"]);
    assert!(!dry.out.contains("1 files"), "{}", dry.out);
}
