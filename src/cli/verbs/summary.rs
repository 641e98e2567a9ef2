//! What a run did, for people on stdout and for programs in `--summary FILE`, on success and on failure.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::copied::CopyReport;
use super::outline::write_outline;
use super::print;
use crate::base::error::{Error, Result};
use crate::base::units::{bytes_text, count_text, counted, seconds_text};
use crate::cli::file;
use crate::model::counters::Counters;
use crate::model::history::{Changes, History, Setup};
use crate::model::manifest::Manifest;
use crate::model::record::Remark;
use crate::source::outline::Outline;
use crate::store::Sink;

/// Skipped or odd samples shown to people; programs get them all.
const SHOWN: usize = 10;

/// A class that has no sample left.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EmptiedClass {
    pub(crate) name: String,
    pub(crate) label: u64,
    /// How many it had.
    pub(crate) samples: u64,
}

/// What a run did.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    /// The verb.
    pub verb: String,
    /// The exit code.
    pub exit_code: u8,
    /// What went wrong, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Digest of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Samples in the dataset or in this run's part of it.
    pub samples: u64,
    /// Shards in the dataset or in this run's part of it.
    pub shards: u64,
    /// Those that an earlier run had finished.
    pub shards_reused: u64,
    /// Bytes of all those shards.
    pub bytes: u64,
    /// Bytes of source files read by this run.
    pub bytes_read: u64,
    /// Whether there was anything to do, where a source is compared with what is published of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// How the source differs from what is published of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// What the source was taken for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<Outline>,
    /// Leftovers that `gc` removed, or would remove.
    pub removed: u64,
    /// Objects that `repair` made again, or would.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repaired: Vec<String>,
    /// How a copy came about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) copy: Option<CopyReport>,
    /// Requests to an object store that were made again.
    pub retries: u64,
    /// Those of them that it answered by asking for fewer.
    pub push_backs: u64,
    /// Slow reads that were asked for a second time.
    pub hedges: u64,
    /// Damage that `verify` found, the first of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Samples left out, with the reason.
    pub skipped: Vec<Remark>,
    /// Samples packed although something about them is odd.
    pub odd: Vec<Remark>,
    /// Classes that lost all their samples because those were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) emptied: Vec<EmptiedClass>,
    /// Python that reads the dataset through its manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read: Option<String>,
    /// Command lines that come next, for a shell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) next: Vec<String>,
    /// When the run began, RFC 3339 in UTC.
    pub started_at: String,
    /// Wall-clock time.
    pub seconds: f64,
    /// Largest resident memory of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// How it was set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// The run over time.
    #[serde(flatten)]
    pub history: History,
    /// What to print instead of the usual lines.
    #[serde(skip)]
    pub text: Option<String>,
    /// That is JSON already, of a form of its own.
    #[serde(skip)]
    pub is_json: bool,
    /// First word of the usual lines.
    #[serde(skip)]
    pub done: &'static str,
}

impl Summary {
    /// A run whose output is this text.
    pub(crate) fn text(text: String) -> Self {
        Self {
            text: Some(text),
            ..Self::default()
        }
    }

    /// A run about a dataset that is published.
    pub(crate) fn of_dataset(sink: &dyn Sink, manifest: &Manifest) -> Self {
        Self {
            destination: Some(sink.to_string()),
            plan: Some(manifest.plan.clone()),
            samples: manifest.samples,
            shards: manifest.shards().count() as u64,
            bytes: manifest.bytes,
            ..Self::default()
        }
    }

    /// A run that failed.
    pub(crate) fn failed(error: &Error) -> Self {
        Self {
            error: Some(error.to_string()),
            ..Self::text(String::new())
        }
    }

    /// Adds what is known only at the end.
    pub(crate) fn end(&mut self, verb: &str, elapsed: Duration, counters: &Counters) {
        (self.retries, self.push_backs, self.hedges) = counters.again();
        self.history = counters.history();
        verb.clone_into(&mut self.verb);
        self.seconds = elapsed.as_secs_f64();
        self.peak_rss_bytes = peak_rss_bytes();
    }

    /// Prints it for people, or as JSON.
    pub(crate) fn print(&self, json: bool) -> Result<()> {
        match &self.text {
            _ if json && !self.is_json => return self.print_json(),
            Some(text) if self.is_json => print(text),
            Some(text) => print(&format!("{text}{}", self.next_text())),
            None => print(&format!("{}{}", self.render(), self.next_text())),
        }
        Ok(())
    }

    /// How to read the dataset, and what to run next.
    fn next_text(&self) -> String {
        let read = self.read.iter().map(|line| ("read", line));
        let lines = read.chain(self.next.iter().map(|line| ("next", line)));
        lines
            .map(|(heading, line)| format!("{heading:10}{line}\n"))
            .collect()
    }

    /// Prints it for programs.
    pub(crate) fn print_json(&self) -> Result<()> {
        print(&String::from_utf8_lossy(&self.encode()?));
        Ok(())
    }

    fn render(&self) -> String {
        format!(
            "{}{}{}",
            self.dataset_text(),
            self.remarks_text(),
            self.effort_text()
        )
    }

    /// What there is now, and what changed.
    fn dataset_text(&self) -> String {
        let mut out = format!(
            "{} {} in {}, {}",
            self.done,
            counted(self.samples, "sample"),
            counted(self.shards, "shard"),
            bytes_text(self.bytes),
        );
        if let Some(destination) = &self.destination {
            out.push_str(&format!(", {destination}"));
        }
        out.push('\n');
        if let Some(source) = &self.source {
            write_outline(&mut out, source);
        }
        if let Some(copy) = &self.copy {
            out.push_str(&copy.text());
        }
        if let Some(changes) = &self.changes
            && *changes != Changes::default()
        {
            out.push_str(&format!("changes   {}\n", changes.text()));
        }
        out
    }

    /// The samples that are worth a line, the first of them.
    fn remarks_text(&self) -> String {
        let mut out = String::new();
        let remarks = [("skipped", &self.skipped), ("odd", &self.odd)];
        for class in &self.emptied {
            out.push_str(&format!(
                "emptied   class `{}`, label {}: {} left out, none is left\n",
                class.name,
                class.label,
                match class.samples {
                    1 => "its only sample was".to_owned(),
                    samples => format!("all {} samples were", count_text(samples)),
                }
            ));
        }
        for (what, remarks) in remarks {
            if remarks.is_empty() {
                continue;
            }
            out.push_str(&format!("{} {what}:\n", count_text(remarks.len() as u64)));
            for remark in remarks.iter().take(SHOWN) {
                out.push_str(&format!("  {}: {}\n", remark.path, remark.reason));
            }
            if remarks.len() > SHOWN {
                out.push_str("  … the rest is in manifest.json\n");
            }
        }
        out
    }

    /// How long it took, how fast it was, and what had to be done twice.
    fn effort_text(&self) -> String {
        let rate = if self.seconds > 0.0 {
            self.bytes_read as f64 / self.seconds
        } else {
            0.0
        };
        let mut out = seconds_text(self.seconds);
        if self.bytes_read > 0 {
            out.push_str(&format!(", {}/s", bytes_text(rate as u64)));
        }
        if self.shards_reused > 0 {
            out.push_str(&format!(
                ", {} {} already done",
                counted(self.shards_reused, "shard"),
                if self.shards_reused == 1 {
                    "was"
                } else {
                    "were"
                }
            ));
        }
        if self.retries > 0 {
            let again = count_text(self.retries);
            out.push_str(&format!(", {again} requests made again"));
            if self.push_backs > 0 {
                let pushed = count_text(self.push_backs);
                out.push_str(&format!(" ({pushed} because the server asked for fewer)"));
            }
        }
        if self.hedges > 0 {
            let hedges = count_text(self.hedges);
            out.push_str(&format!(", {hedges} slow reads asked for twice"));
        }
        out.push('\n');
        out
    }

    /// Writes it for programs.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        file::write("--summary", path, &self.encode()?)
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_vec_pretty(self);
        let mut text = text.map_err(|error| Error::failed(error.to_string()))?;
        text.push(b'\n');
        Ok(text)
    }
}

/// The kernel's own account of this process.
fn peak_rss_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}
