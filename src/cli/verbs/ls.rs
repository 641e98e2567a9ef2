//! `ls`: the samples of a dataset, one a line, by its indexes.

use std::ffi::OsStr;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt as _;

use super::inspect::{class, row_json};
use super::summary::Summary;
use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::cli::settings::{Listing, Running};
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::record::{SampleRecord, known_label};
use crate::state::published::{require, require_record};
use crate::store::{self, at_once};
use crate::upkeep::find::depth;

/// Lists samples in the order of the shards, as many shards at once as fit into memory.
pub(crate) fn run(listing: &Listing, running: &Running) -> Result<Summary> {
    let sink = store::sink(&listing.destination, &running.access)?;
    let sink = sink.as_ref();
    let manifest = require(sink)?;
    let shards: Vec<(&str, &ShardEntry)> = manifest.shards().collect();
    let entries: Vec<&ShardEntry> = shards.iter().map(|(_, shard)| *shard).collect();
    let depth = depth(sink, &entries, &running.effort());
    let mut lines = Lines {
        listing,
        manifest: &manifest,
        out: BufWriter::new(io::stdout().lock()),
        left: listing.limit,
        listed: 0,
    };
    // The first one alone: a few lines need no more.
    let (first, rest) = shards.split_at(shards.len().min(1));
    for some in std::iter::once(first).chain(rest.chunks(depth)) {
        if lines.left == 0 {
            break;
        }
        running.stop.check()?;
        let records = at_once(depth, some, |(_, shard)| require_record(shard, sink))?;
        let written = some
            .iter()
            .zip(&records)
            .try_for_each(|((split, shard), record)| {
                let mut rows = record.samples.iter();
                rows.try_for_each(|row| lines.line(split, shard, row))
            });
        match written.and_then(|()| lines.out.flush()) {
            // Whoever read has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written.map_err(|error| Error::io("stdout", error))?,
        }
    }
    Ok(Summary {
        destination: Some(sink.to_string()),
        plan: Some(manifest.plan.clone()),
        samples: lines.listed,
        ..Summary::text(String::new())
    })
}

struct Lines<'a, W> {
    listing: &'a Listing,
    manifest: &'a Manifest,
    out: W,
    left: u64,
    listed: u64,
}

impl<W: Write> Lines<'_, W> {
    fn line(&mut self, split: &str, shard: &ShardEntry, row: &SampleRecord) -> io::Result<()> {
        let is_wanted = self.listing.only.as_ref().is_none_or(|globs| {
            globs.is_match(&row.key)
                || globs.is_match(OsStr::from_bytes(row.source_path.as_bytes()))
        });
        if self.left == 0 || !is_wanted {
            return Ok(());
        }
        self.left -= 1;
        self.listed += 1;
        if self.listing.json {
            let mut value = row_json(shard, row, self.manifest);
            value["split"] = split.into();
            return writeln!(self.out, "{value}");
        }
        let bytes: u64 = row.fields.iter().map(|field| field.length).sum();
        let label =
            known_label(row.label).map_or_else(|| "-".to_owned(), |label| label.to_string());
        let class = show(class(row, self.manifest).as_bytes());
        let key = show(row.key.as_bytes());
        let path = show(row.source_path.as_bytes());
        let shard = &shard.name;
        writeln!(
            self.out,
            "{key}\t{split}\t{label}\t{class}\t{bytes}\t{shard}\t{path}"
        )
    }
}
