//! What a dry run prints of a plan, and what compression saves.

use std::fmt::Write;

use super::cost::cost;
use super::decide::{Decided, Decision, SourceSince};
use super::outline::write_outline;
use super::summary::Summary;
use crate::base::error::Result;
use crate::base::units::{bytes_text, classes, count_text, counted};
use crate::cli::settings::{Estimate, Running};
use crate::format::compress::CompressionCost as _;
use crate::model::history::Changes;
use crate::model::recipe::{Compression, Format};
use crate::plan::draft::Draft;
use crate::source::outline::Outline;
use crate::source::samples::Notes;
use crate::store::{Sink, Source};

/// Samples and bytes of source files that are compressed to see what it saves.
const TRIED_SAMPLES: u64 = 64;

const TRIED_BYTES: u64 = 4 << 20;

/// Less than this is not worth the time that readers spend on unpacking.
const WORTH_SHARE: f64 = 0.05;

/// Odd files named in a dry run.
const NAMED: usize = 5;

/// What a dry run prints.
pub(super) fn describe(
    decided: &Decided,
    source: &dyn Source,
    sink: &dyn Sink,
    estimate: &Estimate,
    running: &Running,
) -> Result<Summary> {
    let Decided { decision, outline } = decided;
    let mut out = String::new();
    // Writing to a string cannot fail.
    match decision {
        Decision::UpToDate(manifest, changes) => {
            let _ = writeln!(
                out,
                "plan      {}\nup to date: {} in {}",
                manifest.plan,
                counted(manifest.samples, "sample"),
                counted(manifest.shards().count() as u64, "shard"),
            );
            write_outline(&mut out, outline);
            if *changes != Changes::default() {
                let _ = writeln!(out, "changes   {}", changes.text());
            }
        }
        Decision::GoOn(stored, since) => {
            let plan = &stored.plan;
            let _ = writeln!(
                out,
                "plan      {}\nbegun     {} in {}, {}: the next run goes on with it{}",
                stored.digest,
                counted(plan.samples(), "sample"),
                counted(plan.shards.len() as u64, "shard"),
                bytes_text(plan.bytes()),
                match since {
                    SourceSince::Unchanged => "",
                    SourceSince::Changed => ", and then with what came since",
                }
            );
            write_outline(&mut out, outline);
        }
        Decision::New(draft, changes) => {
            let _ = write_description(&mut out, draft, outline, source);
            out.push_str(&cost(draft, source, sink, estimate, running)?);
            if draft.plan.base.is_some() {
                let _ = writeln!(out, "changes   {}", changes.text());
            }
            // A format whose shards are not compressed has nothing to tell.
            if draft.plan.recipe.format != Format::Parquet {
                out.push_str(&format!("compress  {}\n", saving(draft, source)?));
            }
        }
    }
    let is_done = matches!(decision, Decision::UpToDate(..));
    Ok(Summary {
        next: running
            .for_real
            .iter()
            .filter(|_| !is_done)
            .cloned()
            .collect(),
        ..Summary::text(out)
    })
}

/// Says what the compression that was asked for saves, and what cannot read it.
pub(super) fn tell_saving(draft: &Draft, source: &dyn Source) -> Result<()> {
    let recipe = &draft.plan.recipe;
    if recipe.compress == Compression::None {
        return Ok(());
    }
    tracing::info!("{}", saving(draft, source)?);
    if recipe.format == Format::TfRecord && matches!(recipe.compress, Compression::Zstd { .. }) {
        tracing::warn!(
            "TensorFlow cannot read zstd: use `--compress gzip` for tf.data, or unpack the shards first"
        );
    }
    Ok(())
}

/// Compresses some samples of the whole set, and says what was saved.
fn saving(draft: &Draft, source: &dyn Source) -> Result<String> {
    let recipe = &draft.plan.recipe;
    let (compress, would) = match recipe.compress {
        Compression::None => {
            let usual = Compression::Zstd {
                level: 3,
                seekable: false,
            };
            (usual, "would save")
        }
        asked => (asked, "saves"),
    };
    let mut tried = Vec::new();
    let samples = draft.plan.samples();
    let step = samples.div_ceil(TRIED_SAMPLES).max(1);
    let mut number = 0;
    'shards: for shard in 0..draft.plan.shards.len() {
        let first = number;
        number += draft.plan.shards[shard].samples;
        // Every so many samples over all shards.
        let skip = (step - first % step) % step;
        for sample in draft
            .samples(shard)
            .skip(skip as usize)
            .step_by(step as usize)
        {
            for field in sample
                .fields
                .iter()
                .filter(|field| field.size <= TRIED_BYTES)
            {
                if tried.len() as u64 + field.size > TRIED_BYTES {
                    break 'shards;
                }
                tried.extend_from_slice(&source.start(field).wait()?);
            }
        }
    }
    let packed = compress.try_on(&tried)?;
    let share = 1.0 - packed as f64 / tried.len().max(1) as f64;
    let verdict = match share < WORTH_SHARE {
        true => ": not worth it for these files",
        false => "",
    };
    let (percent, of) = (share * 100.0, bytes_text(tried.len() as u64));
    Ok(format!(
        "{compress} {would} {percent:.1} % (of {of} tried){verdict}"
    ))
}

fn write_description(
    out: &mut String,
    draft: &Draft,
    outline: &Outline,
    source: &dyn Source,
) -> std::fmt::Result {
    let plan = &draft.plan;
    let notes = draft.notes();
    let source_bytes: u64 = plan.shards.iter().map(|shard| shard.source_bytes).sum();
    let sidecars: u64 = notes.sidecars.values().sum();
    let files = plan.samples() + sidecars;
    writeln!(out, "plan      {}", draft.digest)?;
    writeln!(
        out,
        "source    {source}: {}, {}",
        counted(files, "file"),
        bytes_text(source_bytes)
    )?;
    writeln!(
        out,
        "samples   {} in {}",
        count_text(plan.samples()),
        classes(plan.names.classes.len())
    )?;
    writeln!(
        out,
        "output    {} in {}",
        bytes_text(plan.bytes()),
        counted(plan.shards.len() as u64, "shard")
    )?;
    for split in &plan.splits {
        let shards: Vec<_> = plan
            .shards
            .iter()
            .filter(|shard| shard.split == *split)
            .collect();
        let samples = shards.iter().map(|shard| shard.samples).sum();
        let sizes = || shards.iter().map(|shard| shard.bytes);
        writeln!(
            out,
            "split     {split}: {}, {} of {} to {}",
            counted(samples, "sample"),
            counted(shards.len() as u64, "shard"),
            bytes_text(sizes().min().unwrap_or(0)),
            bytes_text(sizes().max().unwrap_or(0)),
        )?;
    }
    write_outline(out, outline);
    write_fields(out, draft)?;
    write_left_out(out, draft.notes())
}

/// The fields besides the image.
fn write_fields(out: &mut String, draft: &Draft) -> std::fmt::Result {
    let notes = draft.notes();
    for (name, count) in &notes.sidecars {
        writeln!(
            out,
            "field     `{name}`: {} {} one",
            counted(*count, "sample"),
            if *count == 1 { "has" } else { "have" }
        )?;
    }
    Ok(())
}

/// What of the source is in no sample.
fn write_left_out(out: &mut String, notes: &Notes) -> std::fmt::Result {
    for (count, one, what) in [
        (notes.hidden, "hidden file or directory", ""),
        (
            notes.left_out,
            "file",
            " by --include, --exclude or --split",
        ),
        (notes.unused_labels, "label", " that no image has"),
    ] {
        let counted = match (count, one) {
            (1, _) | (_, "file" | "label") => counted(count, one),
            _ => format!("{} hidden files and directories", count_text(count)),
        };
        if count > 0 {
            writeln!(out, "left out  {counted}{what}")?;
        }
    }
    if notes.odd > 0 {
        let named = notes
            .odd_examples
            .iter()
            .take(NAMED)
            .cloned()
            .collect::<Vec<_>>();
        let more = if notes.odd > named.len() as u64 {
            ", …"
        } else {
            ""
        };
        writeln!(
            out,
            "odd       {}, neither images nor named like one: {}{more}",
            counted(notes.odd, "file"),
            named.join(", ")
        )?;
    }
    Ok(())
}
