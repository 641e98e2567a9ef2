//! `completions`: what a shell reads to complete verbs and flags, to stdout.

use crate::cli::flags::{CompletionsArgs, completions};
use crate::cli::verbs::summary::Summary;

/// Prints them.
pub(crate) fn run(args: &CompletionsArgs) -> Summary {
    Summary::text(String::from_utf8_lossy(&completions(args.shell)).into_owned())
}
