//! `verify`: re-read a dataset and say what is wrong with it, as a table or as JSON.

use std::fmt::Write;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::next;
use super::origin::{list_again, open_for, planned_source, scan_again};
use super::summary::Summary;
use crate::base::error::{Error, Kind, Result};
use crate::base::units::{bytes_text, count_text, counted};
use crate::cli::settings::{Running, VerifyScope};
use crate::format::RecipeLayout as _;
use crate::format::compress::CompressionCost as _;
use crate::model::manifest::{Manifest, STATE};
use crate::model::version;
use crate::plan::budget::{Budget, Overhead, divide_verification};
use crate::state::claims::claimed;
use crate::state::published::{load, require};
use crate::store::{self, Sink, Source};
use crate::upkeep::verify::{Level, Portion, Report, SourceToCompare, Verifier};

/// What `--json` prints.
#[derive(Serialize)]
struct Json<'a> {
    destination: String,
    level: Level,
    intact: bool,
    #[serde(flatten)]
    report: &'a Report,
}

/// Where a run that looks at a part of the shards left off.
#[derive(Serialize, Deserialize)]
struct Cursor {
    kind: String,
    plan: String,
    snapshot: u64,
    /// Number of the shard to go on with.
    next: usize,
}

/// Findings in a summary at most; `--json` has them all.
const FINDINGS: usize = 1000;
const CURSOR_KIND: &str = "shardpack-verify-cursor";
const CURSOR: &str = "_shardpack/verify/cursor.json";

/// Where the last run left off, if it can be read.
fn cursor(sink: &dyn Sink) -> Result<Option<Cursor>> {
    let Some(text) = sink.get(CURSOR)? else {
        return Ok(None);
    };
    version::CURSOR.check(&format!("{sink}/{CURSOR}"), &text)?;
    let cursor = serde_json::from_slice::<Cursor>(&text).ok();
    Ok(cursor.filter(|cursor| cursor.kind == CURSOR_KIND))
}

/// The shards to look at, going on where the cursor stands if it is of this manifest.
fn portion(sink: &dyn Sink, manifest: &Manifest, part: &VerifyScope) -> Result<Portion> {
    let shards = manifest.shards().count();
    let until = part.max_duration.map(|time| Instant::now() + time);
    let stands = match part.is_part() {
        // Looked at all the same: it is written anew.
        true if !(part.sample.is_some() || part.resume) => cursor(sink).map(|_| 0)?,
        false => 0,
        true => cursor(sink)?
            .filter(|at| at.plan == manifest.plan && at.snapshot == manifest.snapshot)
            .map_or(0, |at| at.next % shards.max(1)),
    };
    let count = match part.sample {
        Some(percent) => (shards as f64 * percent / 100.0).ceil() as usize,
        None => shards - stands,
    };
    Ok(Portion {
        from: stands,
        count,
        until,
    })
}

/// Remembers where the next run goes on.
fn store_cursor(sink: &dyn Sink, manifest: &Manifest, portion: Portion, left: u64) -> Result<()> {
    let shards = manifest.shards().count();
    let done = shards - left as usize;
    let cursor = Cursor {
        kind: CURSOR_KIND.to_owned(),
        plan: manifest.plan.clone(),
        snapshot: manifest.snapshot,
        next: (portion.from + done) % shards.max(1),
    };
    let text = serde_json::to_vec_pretty(&cursor);
    sink.put(
        CURSOR,
        &text.map_err(|error| Error::failed(error.to_string()))?,
    )
}

/// A dataset that was looked at.
pub(crate) struct Verified {
    /// Where it is.
    pub(crate) destination: String,
    /// Its manifest; none for shards of somebody else.
    pub(crate) manifest: Option<Manifest>,
    /// What was seen and found.
    pub(crate) report: Report,
}

/// Verifies `destination`, against `source` at the level of that name, and renders the report.
pub(crate) fn run(
    destination: &str,
    level: Level,
    source: Option<&str>,
    part: &VerifyScope,
    json: bool,
    running: &Running,
) -> Result<Summary> {
    let verified = verify(destination, level, source, part, running)?;
    let next = next_of(&verified, level, source, part, running);
    let Verified {
        destination,
        manifest,
        report,
    } = verified;
    let text = match json {
        true => render_json(&report, &destination, level)?,
        false => render(&report, &destination, manifest.as_ref(), level),
    };
    Ok(Summary {
        is_json: json,
        next,
        ..summary(&report, destination, text)
    })
}

/// What mends what was found, or goes on.
fn next_of(
    verified: &Verified,
    level: Level,
    source: Option<&str>,
    part: &VerifyScope,
    running: &Running,
) -> Vec<String> {
    let (place, report) = (&verified.destination, &verified.report);
    let command = |verb: &str, words: &[&str]| vec![next::command(verb, place, words, running)];
    let is_ours = |manifest: &Manifest| !manifest.recipe.foreign;
    if !report.findings.is_empty() {
        let known = || {
            let sink = store::sink(place, &running.access).ok()?;
            planned_source(sink.as_ref(), &claimed(sink.as_ref()).ok()??).ok()?
        };
        return match (source, &verified.manifest) {
            (_, manifest) if !manifest.as_ref().is_some_and(is_ours) => Vec::new(),
            (Some(source), _) => command("repair", &["--source", source]),
            (None, _) if known().is_some() => command("repair", &[]),
            (None, _) => command("repair", &["--source", next::SOURCE]),
        };
    }
    match &verified.manifest {
        None => command("index", &[]),
        Some(_) if report.unknown > 0 => command("verify", &["--level", "data"]),
        Some(_) if report.left > 0 => {
            let words = match (part.sample, level) {
                (Some(percent), _) => vec!["--sample".to_owned(), format!("{percent}%")],
                (None, Level::Head) => vec![
                    "--resume".to_owned(),
                    "--level".to_owned(),
                    "head".to_owned(),
                ],
                (None, _) => vec!["--resume".to_owned()],
            };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let words = match source {
                Some(source) => [&words[..], &["--level", "source", "--source", source]].concat(),
                None => words,
            };
            command("verify", &words)
        }
        Some(_) => Vec::new(),
    }
}

/// The same without a word.
pub(crate) fn verify(
    destination: &str,
    level: Level,
    source: Option<&str>,
    part: &VerifyScope,
    running: &Running,
) -> Result<Verified> {
    running.counters.begin("list", 0, 0, 0);
    let sink = store::sink(destination, &running.access)?;
    let manifest = load(sink.as_ref())?;
    if manifest.is_none() && !sink.list(STATE)?.is_empty() {
        require(sink.as_ref())?;
    }
    let source = source
        .map(|location| match &manifest {
            Some(manifest) => open_for(location, &manifest.recipe, running),
            None => store::source(location, &running.access),
        })
        .transpose()?;
    let scan = match (&source, &manifest) {
        (Some(source), Some(manifest)) => {
            running.counters.begin("scan", 0, 0, 0);
            let (recipe, source) = (&manifest.recipe, source.as_ref());
            let listing = list_again(sink.as_ref(), source, recipe)?;
            Some(scan_again(listing, recipe, source, running.memory)?)
        }
        _ => None,
    };
    let against = match (&source, &scan) {
        (Some(source), Some(scan)) => Some(SourceToCompare {
            source: source.as_ref(),
            scan,
        }),
        _ => None,
    };
    let budget = budget(
        sink.as_ref(),
        manifest.as_ref(),
        source.as_deref(),
        level,
        running,
    )?;
    let portion = match &manifest {
        Some(manifest) => portion(sink.as_ref(), manifest, part)?,
        None => Portion::ALL,
    };
    let verification = Verifier {
        sink: sink.as_ref(),
        level,
        against,
        portion,
        jobs: budget.jobs,
        window_bytes: budget.window_bytes,
        counters: &running.counters,
        stop: &running.stop,
    };
    let report = match &manifest {
        Some(manifest) => verification.run(manifest)?,
        None => verification.run_foreign()?,
    };
    if let Some(manifest) = manifest.as_ref().filter(|_| part.is_part()) {
        store_cursor(sink.as_ref(), manifest, portion, report.left)?;
    }
    Ok(Verified {
        destination: sink.to_string(),
        manifest,
        report,
    })
}

/// How many shards are read at once, and what each may hold of the source.
fn budget(
    sink: &dyn Sink,
    manifest: Option<&Manifest>,
    source: Option<&dyn Source>,
    level: Level,
    running: &Running,
) -> Result<Budget> {
    let shards = || manifest.iter().flat_map(|manifest| manifest.shards());
    let unpacking = manifest.map_or(0, |manifest| {
        manifest.recipe.compress.memory_bytes()
            + manifest.recipe.layout().memory_bytes(&manifest.names)
    });
    let overhead = Overhead {
        reads: source.map_or(0, |source| source.reads()),
        bytes: source.map_or(0, |source| source.overhead_bytes()),
        window_bytes: source.map_or(0, |source| source.window_bytes()),
        job_bytes: sink.reading_bytes() + unpacking,
    };
    divide_verification(
        running.memory,
        running.jobs_for(shards().count()),
        overhead,
        manifest.map_or(0, |manifest| manifest.samples),
        shards().map(|(_, shard)| shard.samples).max().unwrap_or(0),
        level == Level::Source,
    )
}

/// What the run comes to. What was asked for and could not be done is no success.
fn summary(report: &Report, destination: String, text: String) -> Summary {
    let (exit_code, error) = match (report.findings.len(), report.unknown) {
        (0, 0) => (0, None),
        (0, unknown) => (
            Kind::Failed.exit_code(),
            Some(format!(
                "{unknown} shards and indexes without a checksum in the store"
            )),
        ),
        (n, _) => (Kind::Damage.exit_code(), Some(counted(n as u64, "finding"))),
    };
    let findings = report.findings.iter().take(FINDINGS);
    Summary {
        exit_code,
        destination: Some(destination),
        samples: report.samples,
        shards: report.shards,
        bytes: report.bytes,
        bytes_read: report.bytes,
        findings: findings.map(ToString::to_string).collect(),
        error,
        ..Summary::text(text)
    }
}

fn render_json(report: &Report, destination: &str, level: Level) -> Result<String> {
    let whole = Json {
        destination: destination.to_owned(),
        level,
        intact: report.is_intact(),
        report,
    };
    let text = serde_json::to_string_pretty(&whole);
    let text = text.map_err(|error| Error::failed(error.to_string()))?;
    Ok(format!("{text}\n"))
}

fn render(report: &Report, destination: &str, manifest: Option<&Manifest>, level: Level) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_report(&mut out, report, destination, manifest, level);
    out
}

fn write_report(
    out: &mut String,
    report: &Report,
    destination: &str,
    manifest: Option<&Manifest>,
    level: Level,
) -> std::fmt::Result {
    let level = match level {
        Level::List => "list: names and sizes",
        Level::Head => "head: checksums of whole shards",
        Level::Data => "data: every header, field and index row",
        Level::Source => "source: every file of the source",
    };
    writeln!(out, "dataset  {destination}")?;
    match manifest {
        Some(manifest) => writeln!(out, "plan     {}", manifest.plan)?,
        None => writeln!(
            out,
            "plan     none: shards of somebody else, checked for structure only"
        )?,
    }
    if manifest.is_some() {
        writeln!(out, "level    {level}")?;
    }
    writeln!(
        out,
        "checked  {}, {}, {} read",
        counted(report.shards, "shard"),
        counted(report.samples, "sample"),
        bytes_text(report.bytes)
    )?;
    for note in &report.notes {
        writeln!(out, "note     {note}")?;
    }
    for what in &report.unchecked {
        writeln!(out, "unknown  {what}")?;
    }
    for finding in &report.findings {
        writeln!(out, "DAMAGE   {finding}")?;
    }
    match report.findings.len() {
        0 if report.unknown > 0 => writeln!(out, "result   not known"),
        0 if report.left > 0 => writeln!(out, "result   intact as far as it was read"),
        0 if manifest.is_some() => writeln!(out, "result   intact"),
        0 => writeln!(out, "result   no damage found"),
        1 => writeln!(out, "result   1 finding"),
        n => writeln!(out, "result   {} findings", count_text(n as u64)),
    }
}
