//! Shards re-read against their records, at four depths: list, head, data, source.
//!
//! A [`Verifier`] comes in with the manifest of a dataset, or with a directory that has none; a [`Report`] goes out. Nothing here
//! mends or writes. Every finding names its object, sample, byte range, and what was expected and found.

mod collected;
mod comparison;
mod content;
mod foreign;
mod keys;
mod list;
mod plan;
mod readers;
mod record;
mod shard;
mod source;
mod verification;
mod watcher;

use crate::base::error::Result;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::upkeep::verify::collected::Collected;

pub(crate) use crate::upkeep::verify::plan::not_as_planned;
pub use crate::upkeep::verify::verification::{Level, Report};
pub(crate) use crate::upkeep::verify::verification::{Portion, SourceToCompare, Verifier};

impl Verifier<'_> {
    /// Verifies a published dataset.
    ///
    /// Damage is a finding; an error says that the store could not be read, or that the run was stopped.
    pub(crate) fn run(&self, manifest: &Manifest) -> Result<Report> {
        let collected = Collected::new(self.against.as_ref());
        let shards: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
        let readable = list::check(self, manifest, &shards, &collected)?;
        plan::check(self, manifest, &collected)?;
        let mut unread = 0;
        if self.level > Level::List {
            let read = self.check_shards(manifest, &readable, &collected)?;
            unread = shards.len() - read;
            readers::check_content(self, manifest, &collected)?;
        }
        keys::check(manifest, &collected);
        record::check_remarks(manifest, &shards, &collected);
        source::check(self, manifest, &shards, &collected)?;
        let mut report = collected.into_report();
        report.shards = shards.len() as u64;
        if self.level < Level::Data {
            report.samples = manifest.samples;
        }
        report.left = unread as u64;
        if unread > 0 {
            report.unchecked.push(format!(
                "the content of {unread} of {} shards: they were not this run's to read",
                shards.len()
            ));
        }
        if report.unknown > 0 {
            report.unchecked.push(format!(
                "the content of {} shards and indexes: the store keeps no checksum of them, use `--level data`",
                report.unknown
            ));
        }
        Ok(report)
    }

    /// Reads the shards of the portion, those that are `readable`; gives how many of the portion were begun.
    fn check_shards(
        &self,
        manifest: &Manifest,
        readable: &[bool],
        collected: &Collected<'_>,
    ) -> Result<usize> {
        let shards: Vec<(&str, &ShardEntry)> = manifest.shards().collect();
        let count = self.portion.count.min(shards.len());
        let turn = |i: usize| (self.portion.from + i) % shards.len();
        let sum = |of: fn(&ShardEntry) -> u64| (0..count).map(|i| of(shards[turn(i)].1)).sum();
        let (samples, bytes) = (sum(|shard| shard.samples), sum(|shard| shard.bytes));
        self.counters.begin("verify", samples, bytes, count as u64);
        self.on_threads(count, &|i: usize| match readable[turn(i)] {
            true => {
                let (split, shard) = shards[turn(i)];
                shard::check(self, manifest, split, shard, collected)
            }
            false => Ok(()),
        })
    }

    /// Verifies a directory of tars or TFRecords that nobody recorded.
    pub(crate) fn run_foreign(&self) -> Result<Report> {
        foreign::check(self)
    }
}
