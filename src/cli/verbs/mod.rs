//! One verb a file: open the stores, call the stage, say what was done.

pub mod cat;
pub mod compact;
pub mod convert;
pub mod find;
pub mod gc;
pub mod index;
pub mod inspect;
pub mod pack;
pub mod plan;
pub mod publish;
pub mod repair;
pub mod report;
pub mod summary;
pub mod verify;
mod way;

use std::io::Write;

/// Writes to stdout; a reader that went away is no error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
