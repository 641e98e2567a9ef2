//! `SHA256SUMS` and the lists of samples of the stored plans.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Dataset, Output, files, flip, picture, run, set_modified, shardpack, write};

const FLAGS: [&str; 3] = ["--shards", "3", "--sha256"];

fn pictures() -> Dataset {
    Dataset::new().class("cat", 8).class("dog", 8)
}

/// The lists of samples at a destination.
fn lists(root: &Path) -> Vec<PathBuf> {
    let mut files = files(&root.join("_shardpack/plan"));
    files.retain(|file| file.ends_with("samples.jsonl.zst"));
    files
}

/// Some bytes of a file: the first, the last, and twelve between.
fn places(file: &Path) -> impl Iterator<Item = u64> {
    let last = fs::metadata(file).unwrap().len() - 1;
    (0..=13).map(move |part| last * part / 13)
}

/// Verifies at the first level that promises to find it and at the default one; at the levels below nothing is wrong.
#[track_caller]
fn is_found(output: &Output, levels: &[(&str, i32)], name: &str) {
    for (level, code) in levels {
        let run = output.verify(&["--level", level]);
        run.exits(*code);
        if *code == 4 {
            run.says(&[name]);
        }
    }
}

#[test]
fn a_flipped_bit_of_the_sums_is_found_at_every_level_and_mended_without_the_source() {
    let (_data, output) = pictures().convert_kept(&FLAGS);
    let before = output.digests();
    let sums = output.path.join("SHA256SUMS");
    for place in places(&sums) {
        flip(&sums, place);
        is_found(&output, &[("list", 4), ("data", 4)], "SHA256SUMS");
        output.verb("repair", &[]).exits(0).says(&["SHA256SUMS"]);
        assert_eq!(output.digests(), before);
    }
    fs::remove_file(&sums).unwrap();
    is_found(&output, &[("list", 4), ("data", 4)], "SHA256SUMS");
    output.verb("repair", &["--dry-run"]).exits(0);
    output.verb("repair", &[]).exits(0);
    assert_eq!(output.digests(), before);
}

#[test]
fn a_flipped_bit_of_the_list_of_samples_is_found_and_mended_from_the_source() {
    let (data, output) = pictures().convert_kept(&FLAGS);
    let before = output.digests();
    let [list] = &lists(&output.path)[..] else {
        panic!("one plan")
    };
    for place in places(list) {
        flip(list, place);
        let levels = [("list", 0), ("head", 4), ("data", 4)];
        is_found(&output, &levels, "samples.jsonl.zst");
        output
            .verb("repair", &["--source", data.source().to_str().unwrap()])
            .exits(0);
        assert_eq!(output.digests(), before);
    }
}

#[test]
fn a_list_of_samples_that_is_cut_or_gone_is_found_by_names_and_sizes() {
    let (data, output) = pictures().convert_kept(&FLAGS);
    let source = data.source();
    let source = ["--source", source.to_str().unwrap()];
    // A second plan, that goes on from the first.
    write(&data.source().join("cat/new.jpg"), &picture("new"));
    data.convert_to(&output.path, &FLAGS).exits(0);
    let before = output.digests();
    let lists = lists(&output.path);
    assert_eq!(lists.len(), 2);
    for list in lists {
        let whole = fs::read(&list).unwrap();
        for content in [
            None,
            Some(&whole[..whole.len() / 2]),
            Some(&[&whole[..], b"x"].concat()),
        ] {
            match content {
                None => fs::remove_file(&list).unwrap(),
                Some(content) => fs::write(&list, content).unwrap(),
            }
            is_found(
                &output,
                &[("list", 4), ("head", 4), ("data", 4)],
                "samples.jsonl.zst",
            );
            output.verb("repair", &source).exits(0);
            assert_eq!(output.digests(), before);
        }
    }
}

#[test]
fn a_list_of_samples_that_nothing_gives_back_is_told_with_what_to_do() {
    let (data, output) = pictures().convert_kept(&FLAGS);
    let [list] = &lists(&output.path)[..] else {
        panic!("one plan")
    };
    fs::remove_file(list).unwrap();
    output
        .verb("repair", &[])
        .exits(4)
        .says(&["LOST", "samples.jsonl.zst", "add `--source SRC`"]);
    let source = data.source();
    set_modified(&source.join("cat/0000.jpg"), 7);
    output
        .verb("repair", &["--source", source.to_str().unwrap()])
        .exits(4)
        .says(&["LOST", "samples.jsonl.zst", "start over with `--full`"]);
    assert!(!list.exists());
    let full = [&FLAGS[..], &["--full"]].concat();
    data.convert_to(&output.path, &full).exits(0);
    output.verify(&[]).exits(0);
}

#[test]
fn a_plan_of_an_earlier_version_has_its_samples_compared() {
    let (_data, output) = pictures().convert_kept(&FLAGS);
    let [list] = &lists(&output.path)[..] else {
        panic!("one plan")
    };
    let plan = list.with_file_name("plan.json");
    let text = fs::read_to_string(&plan).unwrap();
    let without: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("samples_crc32"))
        .collect();
    assert_eq!(without.len() + 1, text.lines().count());
    // It was the last but for the closing brace.
    let without = without.join("\n").replace("],\n}", "]\n}");
    fs::write(&plan, without).unwrap();
    is_found(&output, &[("list", 0), ("head", 0), ("data", 0)], "");
    flip(list, fs::metadata(list).unwrap().len() / 2);
    is_found(
        &output,
        &[("list", 0), ("head", 0), ("data", 4)],
        "the samples of data/train-",
    );
}

#[test]
fn what_has_no_list_of_samples_and_no_sums_lacks_none() {
    let data = pictures();
    // Its plan was removed, as somebody may who copies what readers need.
    let output = data.convert(&["--shards", "2"]);
    for part in ["plan", "claims"] {
        fs::remove_dir_all(output.path.join("_shardpack").join(part)).unwrap();
    }
    output.verify(&[]).exits(0);
    // Shards of others.
    let others = data.fresh();
    fs::create_dir(&others).unwrap();
    fs::copy(&output.shards()[0], others.join("pets.tar")).unwrap();
    run(shardpack(&["index"]).arg(&others).args(["--index", "wids"])).exits(0);
    run(shardpack(&["verify"]).arg(&others)).exits(0);
    // The plan of what a later one made anew is removed.
    let anew = data.convert(&FLAGS);
    let full = [&FLAGS[..], &["--full", "--seed", "9"]].concat();
    data.convert_to(&anew.path, &full).exits(0);
    anew.verb("gc", &["--keep", "1", "--older-than", "0s"])
        .exits(0);
    assert_eq!(lists(&anew.path).len(), 1);
    anew.verify(&[]).exits(0);
}
