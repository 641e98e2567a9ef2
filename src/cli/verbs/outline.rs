//! What a source was taken for, as it is said: in the log before anything is written, and by dry runs and summaries.

use std::fmt::Write as _;

use crate::source::outline::Outline;

/// Where these log lines come from: they are shown where others are not.
pub(in crate::cli) const OUTLINE: &str = "shardpack::outline";

/// Says what a source was taken for, before anything is written.
pub(super) fn tell_outline(outline: &Outline) {
    for (heading, text) in outline.lines() {
        tracing::info!(target: OUTLINE, "{heading:10}{text}");
    }
}

/// The same as text.
pub(super) fn write_outline(out: &mut String, outline: &Outline) {
    for (heading, text) in outline.lines() {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{heading:10}{text}");
    }
}
