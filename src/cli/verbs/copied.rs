//! What is said of a copy at its end.

use serde::Serialize;

use crate::base::units::{bytes_text, count_text, counted};

/// How a copy came about, for people and programs.
#[derive(Debug, Serialize)]
pub(crate) struct CopyReport {
    /// What of the source it is; all of it where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) selection: Option<String>,
    /// How many of the samples are of the classes that were named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) samples_of_classes: Option<u64>,
    /// Shards that passed through this machine, or would; checked on their way.
    pub(super) shards_passed: usize,
    /// Shards that the store put together, without a byte passing through here.
    pub(super) shards_in_store: usize,
    /// Why the store did not do that where it holds both ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_in_store: Option<String>,
    /// Shards of an earlier copy that were removed.
    pub(super) shards_removed: usize,
    /// The snapshot that the source had by the end, where it is a later one than the copy's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source_snapshot: Option<u64>,
    /// Bytes that a dry run would copy.
    #[serde(skip)]
    pub(super) would_copy: Option<u64>,
}

impl CopyReport {
    /// Lines for people.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |heading: &str, text: String| {
            out.push_str(&format!("{heading:10}{text}\n"));
        };
        if let Some(selection) = &self.selection {
            line("part", selection.clone());
        }
        if let Some(samples) = self.samples_of_classes {
            let what = "samples are of the classes that were named: whole shards are copied";
            line("classes", format!("{} {what}", count_text(samples)));
        }
        let shards = |count: usize| counted(count as u64, "shard");
        if let Some(bytes) = self.would_copy {
            let (what, bytes) = (shards(self.shards_passed), bytes_text(bytes));
            line("to copy", format!("{what}, {bytes}"));
        } else if self.shards_passed > 0 {
            let what = "passed through this machine, checked on their way";
            line("copied", format!("{} {what}", shards(self.shards_passed)));
        }
        if self.shards_in_store > 0 {
            let what = "put together by the store and compared there: no byte of them came through this machine";
            line(
                "in store",
                format!("{} {what}", shards(self.shards_in_store)),
            );
        }
        if let Some(why) = &self.not_in_store {
            line("through", format!("this machine, because of this: {why}"));
        }
        if self.shards_removed > 0 {
            let what = "of the earlier copy removed";
            line("removed", format!("{} {what}", shards(self.shards_removed)));
        }
        if let Some(snapshot) = self.source_snapshot {
            line(
                "source",
                format!(
                    "is at snapshot {snapshot} by now: the same command again brings the copy there"
                ),
            );
        }
        out
    }
}
