//! How libFuzzer runs a target.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook};

use shardpack::testing::fuzz::TARGETS;

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// libFuzzer's own hook ends the process at every panic; here one that the program catches, of a library that it does not trust, is none.
pub fn begin() {
    set_hook(Box::new(|panic| {
        LAST.set(format!(
            "{panic}\n{}",
            std::backtrace::Backtrace::force_capture()
        ))
    }));
}

/// Runs the target of this name.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("a target");
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(data))) {
        eprintln!("{}", LAST.take());
        resume_unwind(panic);
    }
}
