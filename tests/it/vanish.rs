//! Sources that vanish at any time, as a file system does that is unmounted: an outage, told shortly; and lists of offenders that have an end.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::s3::{at, upload};
use crate::support::*;
use shardpack_fixtures::s3_server::{Fault, Kind, Server};

/// A source of three classes, planned.
fn planned() -> (Dataset, Output) {
    let data = Dataset::new()
        .class("cat", 40)
        .class("dog", 40)
        .class("eel", 1);
    let path = data.fresh();
    let mut plan = shardpack(&["plan"]);
    let run = run(plan.arg(data.source()).arg(&path).args(["--shards", "3"]));
    run.exits(0);
    (data, Output { path, run })
}

/// A run that was told of an outage in a few words, wherever it tells of it.
#[track_caller]
fn is_short(run: &Run, words: &[&str]) {
    run.exits(75).says(words);
    assert!(
        run.err.len() < 1000 && run.err.lines().count() < 5,
        "{}",
        run.err
    );
}

#[test]
fn a_source_that_vanished_after_planning_is_an_outage_and_packing_goes_on_when_it_is_back() {
    let (data, output) = planned();
    let (source, away) = (data.source(), data.place("away"));
    let summary = data.place("summary.json");
    let summary = ["--summary", summary.to_str().unwrap()];
    fs::rename(&source, &away).unwrap();
    let words = ["the source is gone", "bring it back"];
    is_short(&output.verb("pack", &summary), &words);
    // A name that was never tried is more likely a wrong one.
    output
        .verb("pack", &["--source", "nowhere"])
        .exits(3)
        .says(&["give the directory that holds the images"]);
    // The place is there, and nothing is mounted.
    fs::create_dir(&source).unwrap();
    fs::write(source.join(".keep"), "").unwrap();
    let gone = ["the source's directory is gone or empty", "run again"];
    for flags in [&[][..], &["--on-error", "skip"]] {
        let run = output.verb("pack", &[flags, &summary].concat());
        is_short(&run, &gone);
        let text = fs::read(summary[1]).unwrap();
        assert!(text.len() < 20_000);
        let told: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(told["exit_code"], 75);
        assert_eq!(told["skipped"], serde_json::json!([]));
    }
    fs::remove_file(source.join(".keep")).unwrap();
    fs::remove_dir(&source).unwrap();
    fs::rename(&away, &source).unwrap();
    // Only one directory of it, or what was in that.
    let (cat, away) = (source.join("cat"), data.place("cat-away"));
    fs::rename(&cat, &away).unwrap();
    is_short(&output.verb("pack", &[]), &[gone[0], "cat:"]);
    fs::create_dir(&cat).unwrap();
    is_short(&output.verb("pack", &[]), &gone);
    fs::remove_dir(&cat).unwrap();
    fs::rename(&away, &cat).unwrap();
    output.verb("pack", &[]).exits(0);
    output.verb("publish", &[]).exits(0);
    let source = source.to_str().unwrap();
    output
        .verify(&["--level", "source", "--source", source])
        .exits(0);
}

#[test]
fn a_source_that_is_not_there_is_an_outage_only_where_it_was_before() {
    let data = Dataset::new().class("cat", 3);
    let output = data.convert(&[]);
    let before = output.digests();
    fs::rename(data.source(), data.place("away")).unwrap();
    for flags in [
        &[][..],
        &["--full"],
        &["--on-change", "rebuild"],
        &["--dry-run"],
    ] {
        let run = data.convert_to(&output.path, flags);
        is_short(&run, &["the source is gone"]);
    }
    let mut plan = shardpack(&["plan"]);
    let planned = run(plan.arg(data.source()).arg(&output.path));
    is_short(&planned, &["the source is gone"]);
    assert_eq!(before, output.digests());
    data.convert_to(&data.fresh(), &[])
        .exits(3)
        .says(&["give the directory that holds the images"]);
    // A place without anything in it never empties a dataset.
    fs::create_dir(data.source()).unwrap();
    for flags in [&["--on-change", "rebuild"][..], &["--full"]] {
        data.convert_to(&output.path, flags)
            .exits(3)
            .says(&["no images"]);
    }
    assert_eq!(before, output.digests());
}

/// Lines of a message that name a file, and those of a file of problems.
fn named(run: &Run, file: &Path) -> (usize, usize) {
    let message = run.err.lines().filter(|line| line.contains(".jpg"));
    let lines = fs::read_to_string(file).unwrap();
    (message.count(), lines.lines().count())
}

#[test]
fn files_that_vanished_after_planning_are_counted_and_the_first_of_them_named() {
    let (data, output) = planned();
    for number in 0..35 {
        fs::remove_file(data.source().join(format!("cat/{number:04}.jpg"))).unwrap();
        fs::write(data.source().join(format!("dog/{number:04}.jpg")), "x").unwrap();
    }
    let file = data.place("problems.tsv");
    let page = data.place("page.html");
    let summary = data.place("summary.json");
    let run = output.verb(
        "pack",
        &[
            "--problems",
            file.to_str().unwrap(),
            "--report",
            page.to_str().unwrap(),
            "--summary",
            summary.to_str().unwrap(),
        ],
    );
    run.exits(3).says(&[
        "70 samples cannot be packed",
        "cat/0019.jpg vanished after planning",
        "… and 50 more: `--problems FILE` writes all of them to a file",
    ]);
    assert_eq!(named(&run, &file), (20, 70));
    let text = fs::read_to_string(file).unwrap();
    let line = "changed or gone after planning\tcat/0034.jpg\t";
    assert!(
        text.lines().any(|line_is| line_is.starts_with(line)),
        "{text}"
    );
    let told: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert!(told["error"].as_str().unwrap().len() < 4000);
    assert!(!fs::read_to_string(page).unwrap().contains("cat/0030.jpg"));
}

#[test]
fn what_a_scan_refuses_is_counted_by_kind_and_the_first_of_each_named() {
    let mut data = Dataset::new().class("cat", 3);
    for number in 0..45 {
        data = data
            .file(format!("cat/empty{number:02}.jpg"), "")
            .file(format!("loose{number:02}.jpg"), "x");
    }
    let file = data.place("problems.tsv");
    let run = data.convert_to(&data.fresh(), &["--problems", file.to_str().unwrap()]);
    run.exits(3).says(&[
        "90 problems",
        "image of zero length (45)",
        "image beside class directories (45)",
        "cat/empty19.jpg",
        "… and 25 more: `--problems FILE`",
    ]);
    assert_eq!(named(&run, &file), (40, 90));
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("image of zero length\tcat/empty44.jpg\t\n"),
        "{text}"
    );
    // Nothing at fault, nothing in it.
    let good = Dataset::new().class("cat", 1);
    good.convert(&["--problems", file.to_str().unwrap()]);
    assert_eq!(fs::read(&file).unwrap(), b"");
    let nowhere = good.place("no/such/place");
    good.convert_to(&good.fresh(), &["--problems", nowhere.to_str().unwrap()])
        .exits(1)
        .says(&["--problems", "no such file or directory"]);
}

#[test]
fn a_bucket_that_vanished_is_an_outage_and_the_run_goes_on_when_it_is_back() {
    let data = Dataset::new().class("cat", 30).class("dog", 30);
    let server = Server::start();
    upload(&server, &data.source(), "images");
    let args = ["s3://bucket/images", "s3://bucket/out", "--shards", "3"];
    let gone = || Fault::new(Kind::Status(404, "NoSuchBucket")).key("images/");
    for after in [0, 1, 20] {
        server.fault(gone().on("GetObject").after(after));
        let run = run(at(&server, &["convert"]).args(args));
        is_short(&run, &["s3://bucket/images: the source is gone"]);
        server.clear_faults();
    }
    run(at(&server, &["convert"]).args(args)).exits(0);
    // A bucket that never was is a wrong name, until something was planned from it.
    let wrong = ["convert", "s3://nobucket/images", "s3://bucket/other"];
    run(&mut at(&server, &wrong))
        .exits(1)
        .says(&["no such bucket"]);
    let args = ["convert", "s3://nobucket/images", "s3://bucket/out"];
    is_short(
        &run(&mut at(&server, &args)),
        &["the source is gone", "say where it is now"],
    );
}

#[test]
fn a_prefix_typed_wrong_takes_nothing_from_a_dataset() {
    let data = Dataset::new().class("train/cat", 5).class("val/cat", 5);
    let server = Server::start();
    upload(&server, &data.source(), "images");
    let convert = |source: &str, flags: &[&str]| {
        let mut command = at(&server, &["convert", source, "s3://bucket/out"]);
        run(command.args(["--shards", "1"]).args(flags))
    };
    convert("s3://bucket/images", &[]).exits(0);
    let before = server.objects("out/");
    for flags in [&["--on-change", "rebuild"][..], &["--full"]] {
        convert("s3://bucket/imags", flags)
            .exits(3)
            .says(&["no objects below this prefix"]);
        let below = convert("s3://bucket/images/train", flags);
        assert!([3, 10].contains(&below.code), "{}", below.err);
        assert_eq!(before, server.objects("out/"));
    }
    for number in 0..5 {
        server.remove(&format!("images/val/cat/{number:04}.jpg"));
    }
    convert("s3://bucket/images", &["--on-change", "rebuild"])
        .exits(3)
        .says(&["`--allow-gone-split val`", "split   val: all 5"]);
    assert_eq!(before, server.objects("out/"));
}
