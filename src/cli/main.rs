//! Parse, run, exit with the code the error maps to.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(shardpack::command_line())
}
