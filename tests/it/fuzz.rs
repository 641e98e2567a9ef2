//! What fuzzing kept: a few inputs of each sort, and those that once made the program fail.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::support::files;

#[path = "../fuzz/targets.rs"]
mod targets;

#[test]
fn every_input_that_fuzzing_kept_is_read_or_refused() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let mut failed = Vec::new();
    for (name, target) in targets::TARGETS {
        let inputs = files(&corpora.join(name));
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for input in inputs {
            let data = fs::read(&input).unwrap();
            if catch_unwind(AssertUnwindSafe(|| target(&data))).is_err() {
                failed.push(input);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz");
    let names = |below: &str| {
        let entries = fs::read_dir(place.join(below)).unwrap();
        let path = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path();
        let mut names: Vec<_> = entries
            .map(path)
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let known = targets::TARGETS.map(|(name, _)| name.to_owned());
    assert_eq!(names("corpus"), known);
    assert_eq!(names("fuzz_targets"), known);
}
