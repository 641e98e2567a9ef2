#![no_main]

#[path = "../run.rs"]
mod run;

libfuzzer_sys::fuzz_target!(init: run::begin(), |data: &[u8]| run::run("archive", data));
