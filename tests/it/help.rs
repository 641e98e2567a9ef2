//! What help shows, the words that people type, and where a value came from.

use std::collections::BTreeMap;

use serde_json::json;
use shardpack_fixtures::s3_server::Server;

use crate::s3::{shardpack_at, upload};
use crate::support::{Dataset, Output, digests, manifest, run, shardpack};

const VERBS: [&str; 15] = [
    "convert", "plan", "pack", "publish", "verify", "repair", "compact", "copy", "gc", "index",
    "report", "inspect", "ls", "cat", "bench",
];

/// The most lines that `-h` has, on a terminal of 80 columns.
const LINES: usize = 35;

fn help(words: &[&str]) -> String {
    let help = run(shardpack(words).env("COLUMNS", "80"));
    help.exits(0);
    help.out
}

/// The flags that a text of help shows.
fn flags(help: &str) -> Vec<&str> {
    let lines = help.lines().map(str::trim_start);
    let words = lines.filter(|line| line.starts_with('-'));
    words
        .filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--")))
        .filter(|flag| !["--help", "--version"].contains(flag))
        .collect()
}

#[test]
fn short_help_is_one_screen_with_the_flags_that_people_use() {
    for verb in VERBS {
        let short = help(&[verb, "-h"]);
        let lines = short.lines().count();
        assert!(lines <= LINES, "{verb} -h has {lines} lines:\n{short}");
        assert!(
            short.lines().all(|line| line.chars().count() <= 80),
            "{short}"
        );
        assert!(flags(&short).len() <= 10, "{verb}: {:?}", flags(&short));
        let examples = short
            .lines()
            .filter(|line| line.starts_with(&format!("  shardpack {verb} ")));
        assert!(examples.count() >= 2, "{short}");
        let long = help(&["help", verb]);
        for flag in flags(&short) {
            assert!(
                flags(&long).contains(&flag),
                "{verb}: {flag} is not in\n{long}"
            );
        }
    }
    let all = help(&["-h"]);
    // A line for each verb, and what is around them.
    assert!(all.lines().count() <= VERBS.len() + 22, "{all}");
    for verb in VERBS {
        assert!(all.contains(&format!("\n  {verb} ")), "{verb}: {all}");
    }
}

#[test]
fn a_flag_is_shown_by_the_verbs_in_which_it_does_something() {
    let server = Server::start();
    let data = Dataset::new().class("cat", 6);
    upload(&server, &data.source(), "images");
    let page = data.place("page.html");
    let bucket = |name: &str| format!("s3://bucket/{name}");
    let (images, shards, parts) = (bucket("images"), bucket("shards"), bucket("parts"));
    let copy = bucket("copy");
    let runs: [&[&str]; 13] = [
        &["convert", &images, &shards, "--shards", "2"],
        &["plan", &images, &parts, "--shards", "3"],
        &["pack", &parts],
        &["publish", &parts],
        &["verify", &shards, "--sample", "50%"],
        &["repair", &shards, "--source", &images],
        &["compact", &parts, "--source", &images],
        &["copy", &shards, &copy],
        &["index", &shards, "--index", "wids"],
        &["gc", &shards],
        &["inspect", &shards],
        &["ls", &shards],
        &["report", &shards, "-o", page.to_str().unwrap()],
    ];
    let mut sent = BTreeMap::new();
    for words in runs {
        let verb = words[0];
        if verb == "repair" {
            server.remove("shards/data/train-00001.tar");
        }
        server.clear_requests();
        let flags = ["--tagging", "a=b", "--storage-class", "GLACIER_IR"];
        shardpack_at(&server, &[words, &flags[..]].concat()).exits(0);
        let has = |header: &str| {
            server
                .requests()
                .iter()
                .any(|request| request.headers.contains_key(header))
        };
        sent.insert(verb, (has("x-amz-tagging"), has("x-amz-storage-class")));
    }
    for (verb, (tagging, class)) in sent {
        let help = help(&[verb, "--help"]);
        for (flag, is_used) in [("--tagging", tagging), ("--storage-class", class)] {
            // `compact` finds nothing to merge here.
            if verb == "compact" && !is_used {
                continue;
            }
            assert_eq!(flags(&help).contains(&flag), is_used, "{verb} {flag}");
        }
    }
    let cat = help(&["cat", "--help"]);
    for flag in ["--sse", "--no-fsync", "--jobs", "--progress", "--problems"] {
        assert!(!flags(&cat).contains(&flag), "cat {flag}");
    }
    // One environment does for all verbs all the same.
    let output = data.convert(&[]);
    output
        .verb("cat", &["cat/0000.cls", "--no-fsync", "--jobs", "2"])
        .exits(0);
}

#[test]
fn flags_and_verbs_have_the_short_names_that_people_type() {
    let data = Dataset::new().class("cat", 4);
    let source = data.source();
    let there = data.fresh();
    let by = |words: &[&str]| run(shardpack(words).arg(&source).arg("-o").arg(&there));
    by(&["convert", "-n", "-j", "1"]).exits(0);
    assert!(!there.exists());
    by(&["convert", "-j", "1", "--format", "webdataset"]).exits(0);
    let other = data.convert(&["--format", "tar"]);
    assert_eq!(digests(&there), digests(&other.path));
    other.verb("check", &[]).exits(0).says(&["result   intact"]);
    other
        .verb("info", &[])
        .exits(0)
        .says(&["samples   4 in 1 class"]);
    run(shardpack(&["convert"])
        .arg(&source)
        .arg(&there)
        .arg("-o")
        .arg(&there))
    .exits(2)
    .says(&["given twice"]);
    // What is typed wins.
    let env = data.fresh();
    let mut command = shardpack(&["convert"]);
    command
        .arg(&source)
        .arg("-o")
        .arg(&env)
        .env("SHARDPACK_DST", &there);
    run(&mut command).exits(0).says(&[env.to_str().unwrap()]);
}

#[test]
fn flags_of_other_tools_are_answered_with_ours() {
    for (typed, ours) in [
        ("--threads", "--jobs"),
        ("--threads=4", "--jobs"),
        ("--force", "--full"),
        ("--overwrite", "--full"),
        ("--resume", "the same command again"),
        ("--resize", "byte for byte"),
        ("--maxsize", "--shard-size"),
        ("--maxcount", "--shard-samples"),
        ("--no-shuffle", "--order listed"),
    ] {
        let refused = run(&mut shardpack(&["convert", "a", "b", typed]));
        refused.exits(2).says(&["tip: ", ours]);
        assert!(!refused.err.contains("similar argument"), "{}", refused.err);
    }
    // Only flags that the verb has.
    for (verb, typed, ours, not) in [
        ("bench", "--threads", "--concurrency", "--jobs"),
        ("copy", "--output", "without a flag", "-o DST"),
        ("publish", "--force", "--force", "--full"),
    ] {
        let refused = run(&mut shardpack(&[verb, "a", typed]));
        refused.exits(2).says(&[typed, ours]);
        assert!(!refused.err.contains(not), "{}", refused.err);
    }
    run(&mut shardpack(&["list", "b"])).exits(2).says(&["'ls'"]);
    run(&mut shardpack(&["convert", "a", "b", "--ordr", "listed"]))
        .exits(2)
        .says(&["'--order'"]);
}

#[test]
fn what_the_environment_says_wrongly_is_named_after_its_variable() {
    let data = Dataset::new().class("cat", 3);
    for (name, value, words) in [
        (
            "SHARDPACK_SHARD_SIZE",
            "big",
            &["SHARDPACK_SHARD_SIZE", "`big` is no size"][..],
        ),
        ("SHARDPACK_FORMAT", "zip", &["SHARDPACK_FORMAT", "tfrecord"]),
        (
            "SHARDPACK_DRY_RUN",
            "maybe",
            &["SHARDPACK_DRY_RUN", "1, yes or true"],
        ),
        (
            "SHARDPACK_JOBS",
            "0",
            &["--jobs 0", "environment: SHARDPACK_JOBS"],
        ),
        ("SHARDPACK_SEED", "x", &["SHARDPACK_SEED"]),
    ] {
        let refused = run(data.command(&data.fresh(), &[]).env(name, value));
        refused.exits(2).says(words);
    }
    let typed = run(data
        .command(&data.fresh(), &["--shard-size", "huge"])
        .env("SHARDPACK_SHARD_SIZE", "1GB"));
    typed.exits(2).says(&["--shard-size"]);
    assert!(!typed.err.contains("SHARDPACK"), "{}", typed.err);
    for (value, writes) in [
        ("1", false),
        ("yes", false),
        ("TRUE", false),
        ("0", true),
        ("no", true),
        ("", true),
    ] {
        let destination = data.fresh();
        run(data
            .command(&destination, &[])
            .env("SHARDPACK_DRY_RUN", value))
        .exits(0);
        assert_eq!(destination.exists(), writes, "{value}");
    }
}

fn fields(output: &Output) -> bool {
    let row = output.row("cat/0000");
    let fields = row["fields"].as_array().unwrap();
    fields.iter().any(|field| field["name"] == "json")
}

#[test]
fn json_is_a_form_of_results_and_add_json_a_field_of_samples() {
    let data = Dataset::new().class("cat", 4);
    let with = data.convert(&["--add-json"]);
    assert!(fields(&with));
    assert_eq!(with.manifest()["recipe"]["json"], json!(true));
    assert!(!with.run.err.contains("--add-json"), "{}", with.run.err);
    // The old name, for those who typed it before.
    let old = data.convert(&["--json"]);
    old.run.says(&["say `--add-json`"]);
    assert_eq!(digests(&old.path), digests(&with.path));
    // In the environment it is the form of results only.
    let destination = data.fresh();
    let converted = run(data.command(&destination, &[]).env("SHARDPACK_JSON", "1"));
    converted.exits(0);
    assert_eq!(converted.json()["samples"], 4);
    assert_eq!(manifest(&destination)["recipe"]["json"], json!(false));
    let destination = data.fresh();
    run(data
        .command(&destination, &[])
        .env("SHARDPACK_ADD_JSON", "yes"))
    .exits(0);
    assert_eq!(digests(&destination), digests(&with.path));
}

#[test]
fn every_verb_prints_its_result_as_json() {
    let data = Dataset::new().class("cat", 4);
    let source = data.source();
    let source = source.to_str().unwrap();
    let output = data.convert(&["--shards", "2"]);
    let parts = data.fresh();
    let parts = parts.to_str().unwrap();
    for (verb, words) in [
        ("plan", &[source, parts, "--shards", "2"][..]),
        ("pack", &[parts]),
        ("publish", &[parts]),
        ("repair", &[parts]),
        ("compact", &[parts, "--source", source]),
        ("index", &[parts, "--index", "wids"]),
        ("gc", &[parts]),
    ] {
        let result = run(shardpack(&[verb]).args(words).env("SHARDPACK_JSON", "true"));
        result.exits(0);
        let result = result.json();
        assert_eq!(
            (&result["verb"], &result["exit_code"]),
            (&json!(verb), &json!(0)),
            "{result}"
        );
    }
    let page = data.place("page.html");
    output
        .verb("report", &["--json", "-o", page.to_str().unwrap()])
        .exits(0)
        .json();
    let stdout = output.verb("report", &["--json", "-o", "-"]);
    assert!(stdout.exits(0).out.starts_with("<!"), "{}", stdout.out);
    let bytes = output.verb("cat", &["cat/0000.cls", "--json"]);
    assert_eq!(bytes.exits(0).out, "0");
    // Failures are results too.
    let failed = output.verb("inspect", &["nothing", "--json"]);
    assert_eq!(failed.exits(1).json()["exit_code"], 1);
    let summary = data.convert_to(&data.fresh(), &["--summary", "-"]);
    assert_eq!(summary.exits(0).json()["samples"], 4);
    output
        .verb("cat", &["cat/0000", "--summary", "-"])
        .exits(2)
        .says(&["name a file"]);
}

#[test]
fn a_number_that_is_none_is_answered_with_what_one_is() {
    for flags in [["--jobs", "x"], ["--shards", "1.5"]] {
        let mut command = shardpack(&["convert", "a", "b"]);
        run(command.args(flags))
            .exits(2)
            .says(&[flags[0], "a whole number"]);
    }
}
