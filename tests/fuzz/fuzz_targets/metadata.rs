#![no_main]

use shardpack_fuzz::{begin, run};

libfuzzer_sys::fuzz_target!(init: begin(), |data: &[u8]| run("metadata", data));
