//! `plan`: list the source, fix order and boundaries, store the plan; or only say what it would be.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::summary::Summary;
use super::way;
use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::base::units::{bytes_text, classes, count_text, counted, seconds_text};
use crate::cli::file::{self};
use crate::cli::settings::{Planning, Running, Told};
use crate::grow::generation::{Grown, OnChange, Published, grow, start_over, still_holds};
use crate::model::history::Changes;
use crate::model::manifest::{MANIFEST, Manifest};
use crate::model::problems::Problems;
use crate::model::recipe::{Compression, Format, Recipe};
use crate::plan::draft::{Draft, Ordered, Plan};
use crate::publish::commit::newest_snapshot;
use crate::publish::companions::restore_companions;
use crate::publish::readers::check_planned_names;
use crate::source::scan::{Rules, Scan, scan};
use crate::state::published;
use crate::state::stored::{self as resume, Stored};
use crate::store::{self, Sink, Source};

/// Odd files named in a dry run.
const NAMED: usize = 5;
/// Speeds that a dry run's estimate assumes: a local disk, and one request of an object store.
const ASSUMED_BYTES_PER_SECOND: f64 = 500e6;
const ASSUMED_LATENCY_SECONDS: f64 = 0.1;
/// Bytes of one part of a multipart upload, for the estimate of requests.
const ASSUMED_PART_BYTES: u64 = 16 << 20;

/// Samples and bytes of source files that are compressed to see what it saves.
const TRIED_SAMPLES: u64 = 64;
const TRIED_BYTES: u64 = 4 << 20;
/// Less than this is not worth the time that readers spend on unpacking.
const WORTH_SHARE: f64 = 0.05;

/// Plans; stores the plan unless this is a dry run.
pub fn run(planning: &Planning, told: &Told, dry_run: bool, running: &Running) -> Result<Summary> {
    let sink = store::sink(&planning.destination, &running.access)?;
    let summary = on(sink.as_ref(), planning, dry_run, running)?;
    if dry_run {
        return Ok(summary);
    }
    let changed = summary.changed.unwrap_or(true);
    if let Some((path, most)) = &told.workers {
        let workers = match changed {
            true => summary.shards.min(*most as u64),
            false => 0,
        };
        file::write("--out-workers", path, workers.to_string().as_bytes())?;
    }
    if let Some(path) = &told.changed {
        file::write("--out-changed", path, changed.to_string().as_bytes())?;
    }
    Ok(summary)
}

/// The same on an opened destination.
pub fn on(
    sink: &dyn Sink,
    planning: &Planning,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let source = open_source(planning, sink, running)?;
    let standing = standing(planning, source.as_ref(), sink, dry_run, running)?;
    if dry_run {
        return describe(&standing, source.as_ref());
    }
    sink.sweep()?;
    let (stored, changes) = match standing {
        Standing::UpToDate(manifest, changes) => {
            return up_to_date(sink, *manifest, changes, running);
        }
        Standing::Begun(stored, _) => (*stored, None),
        Standing::New(draft, changes) => {
            way::of_plan(sink, &draft.plan, |what| way::check(sink, what, running))?;
            tell_saving(&draft, source.as_ref())?;
            let changes = draft.plan.base.is_some().then_some(changes);
            (resume::store(sink, &draft)?, changes)
        }
    };
    let location = store::absolute(&planning.source);
    sink.put(&resume::source_name(&stored.id), location.as_bytes())?;
    Ok(Summary {
        done: "planned",
        changed: Some(true),
        changes,
        destination: Some(sink.to_string()),
        plan: Some(stored.digest),
        samples: stored.plan.samples(),
        shards: stored.plan.shards.len() as u64,
        bytes: stored.plan.bytes(),
        ..Summary::default()
    })
}

/// What a run says that has nothing to do but to put right what lies beside the manifest: a process that slept through the publication
/// of this snapshot and died may have left what belongs to an earlier one.
pub fn up_to_date(
    sink: &dyn Sink,
    manifest: Manifest,
    changes: Changes,
    running: &Running,
) -> Result<Summary> {
    let manifest = restore_companions(sink, manifest, Vec::new(), running.memory)?;
    let shards = manifest.shards().count() as u64;
    Ok(Summary {
        done: "up to date:",
        changed: Some(false),
        destination: Some(sink.to_string()),
        plan: Some(manifest.plan),
        samples: manifest.samples,
        shards,
        shards_reused: shards,
        bytes: manifest.bytes,
        changes: Some(changes),
        skipped: manifest.skipped,
        odd: manifest.odd,
        ..Summary::default()
    })
}

/// Where the source was when this plan was stored by `plan`.
pub fn planned_source(sink: &dyn Sink, id: &str) -> Result<Option<String>> {
    let text = sink.get(&resume::source_name(id))?;
    Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Opens the source that a destination is to be made from. One that is not there is gone, if anything was planned here before.
pub fn open_source(
    planning: &Planning,
    sink: &dyn Sink,
    running: &Running,
) -> Result<Box<dyn Source>> {
    let location = &planning.source;
    store::source(location, &running.access).map_err(|error| if_gone(error, sink, location))
}

/// The error of a source that cannot be opened or listed.
fn if_gone(error: Error, sink: &dyn Sink, location: &str) -> Error {
    match resume::generations(sink) {
        Ok(planned) if !planned.is_empty() => error.known_to_have_been_there(location),
        // What is wrong with the source comes first.
        _ => error,
    }
}

/// What came into a source after a plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Nothing: the plan is of the source as it is.
    Nothing,
    /// Something.
    More,
}

/// What there is to do for a source and a destination.
pub enum Standing {
    /// Nothing: everything is published.
    UpToDate(Box<Manifest>, Changes),
    /// A plan that was stored and not published, all of whose samples are as they were. What came into the source since is the
    /// next plan's, if there is such.
    Begun(Box<Stored>, Since),
    /// A plan that is not stored yet, or at least not published.
    New(Box<Draft>, Changes),
}

impl Standing {
    /// A new plan, whose warnings are told.
    fn new(draft: Draft, changes: Changes) -> Self {
        for warning in draft.warnings() {
            tracing::warn!("{warning}");
        }
        Standing::New(Box::new(draft), changes)
    }
}

/// Lists the source and compares it with what the destination holds.
pub fn standing(
    planning: &Planning,
    source: &dyn Source,
    sink: &dyn Sink,
    dry_run: bool,
    running: &Running,
) -> Result<Standing> {
    sink.check_apart(&planning.source)?;
    let rules = Rules {
        problems: running.problems.clone(),
        ..planning.rules()?
    };
    running.counters.begin("scan", 0, 0, 0);
    // Before the source is listed: who claims the next generation has seen it later than the one before.
    let there = There::look(sink)?;
    let listing = source.list();
    let listing = listing.map_err(|error| if_gone(error, sink, &planning.source))?;
    running.stop.check()?;
    running.counters.begin("plan", listing.files(), 0, 0);
    let scan = scan(listing, &rules, &planning.source)?;
    let texts = planning.class_texts(&scan.classes)?;
    let now = Now {
        planning,
        sink,
        memory: running.memory,
        stop: &running.stop,
        problems: &running.problems,
        // Before the classes are numbered as they were.
        fingerprint: scan.fingerprint(&texts),
        scan,
        texts,
    };
    let published = there.manifest.as_ref().map_or(0, |m| m.snapshot);
    let standing = match (there.newest, there.manifest) {
        (None, manifest) => now.without_plan(manifest.as_ref()),
        (Some(newest), None) => now.unpublished(newest),
        (Some(newest), Some(manifest)) => now.published(newest, manifest, dry_run),
    }?;
    if !matches!(standing, Standing::UpToDate(..)) {
        resume::refuse_later_snapshot(sink, published)?;
    }
    Ok(standing)
}

/// The source as it is, to be compared with what the destination holds.
struct Now<'p> {
    planning: &'p Planning,
    sink: &'p dyn Sink,
    /// What the whole run is to stay within, in bytes.
    memory: u64,
    stop: &'p Stop,
    problems: &'p Problems,
    scan: Scan,
    /// What the classes are called for people.
    texts: Vec<String>,
    fingerprint: String,
}

impl Now<'_> {
    /// What there is to do where no plan is.
    fn without_plan(self, manifest: Option<&Manifest>) -> Result<Standing> {
        if manifest.is_some_and(|manifest| manifest.recipe.foreign) {
            return Err(Error::new(
                Kind::Conflict,
                format!(
                    "{} holds shards of others, with an index of ours: choose another destination",
                    self.sink
                ),
            ));
        }
        let all = self.all();
        Ok(Standing::new(self.ordered()?.cut()?, all))
    }

    /// What there is to do where a plan is that nothing was published of.
    fn unpublished(mut self, newest: Stored) -> Result<Standing> {
        let (sink, memory, stop) = (self.sink, self.memory, self.stop);
        let recipe = &self.planning.recipe;
        if newest.plan.base.is_some() {
            return Err(Error::new(
                Kind::Damage,
                format!(
                    "{sink}/{MANIFEST}: missing, and the stored plan goes on from it: run `shardpack repair {sink}`"
                ),
            ));
        }
        let unchanged = self.is_as_in(&newest.plan);
        if unchanged && newest.plan.generation > 1 {
            return Ok(Standing::Begun(Box::new(newest), Since::Nothing));
        }
        let all = self.all();
        if self.planning.growth.full && !unchanged {
            return Ok(Standing::new(
                start_over(&newest.plan, self.ordered()?)?,
                all,
            ));
        }
        let goes_on = !unchanged && newest.plan.recipe == *recipe;
        if goes_on {
            self.scan.number_like(&newest.plan.names.classes);
            self.texts = self.planning.class_texts(&self.scan.classes)?;
        }
        let ordered = self.ordered()?;
        if goes_on && still_holds(sink, &newest, &ordered, memory, stop)? {
            return Ok(Standing::Begun(Box::new(newest), Since::More));
        }
        Ok(Standing::new(ordered.cut()?, all))
    }

    /// What there is to do where something is published.
    fn published(
        mut self,
        newest: Stored,
        mut manifest: Manifest,
        dry_run: bool,
    ) -> Result<Standing> {
        let (planning, sink, problems) = (self.planning, self.sink, self.problems);
        let (memory, stop) = (self.memory, self.stop);
        let (recipe, growth) = (&planning.recipe, &planning.growth);
        let all_anew = newest
            .plan
            .base
            .as_ref()
            .is_none_or(|base| base.shards.is_empty());
        if self.is_as_in(&newest.plan) && (all_anew || !growth.full) {
            if newest.digest == manifest.plan && !growth.compact {
                return Ok(Standing::UpToDate(Box::new(manifest), Changes::default()));
            }
            if newest.plan.goes_on_from(&manifest.plan) {
                return Ok(Standing::Begun(Box::new(newest), Since::Nothing));
            }
        }
        if manifest.recipe.foreign || (manifest.recipe != *recipe && !growth.full) {
            return Err(Error::new(
                Kind::Conflict,
                format!(
                    "{sink} was made with other options{}: give the same ones to go on, choose another destination, or start over in \
                     this one with `--full`",
                    differing(&manifest.recipe, recipe)
                ),
            ));
        }
        if !dry_run {
            // A run that ended between a snapshot and its manifest published all the same.
            manifest = newest_snapshot(sink, self.memory)?.unwrap_or(manifest);
        }
        let new_classes = self.scan.number_like(&manifest.names.classes);
        self.texts = planning.class_texts_after(&self.scan.classes, &manifest.names.texts)?;
        let ordered = self.ordered()?;
        let plan = &newest.plan;
        let goes_on = plan.goes_on_from(&manifest.plan) && plan.recipe == *recipe;
        if goes_on
            && !growth.full
            && !growth.compact
            && still_holds(sink, &newest, &ordered, memory, stop)?
        {
            return Ok(Standing::Begun(Box::new(newest), Since::More));
        }
        let published = Published {
            sink,
            manifest: &manifest,
            newest: plan,
        };
        let grown = grow(
            published,
            ordered,
            new_classes,
            growth,
            problems,
            memory,
            stop,
        )?;
        Ok(match grown {
            Grown::Same(changes) => Standing::UpToDate(Box::new(manifest), changes),
            Grown::Draft(draft, changes) => {
                check_planned_names(&manifest, &draft.plan)?;
                Standing::new(*draft, changes)
            }
        })
    }

    /// Whether a plan is of this source and these options, with nothing left as it was.
    fn is_as_in(&self, plan: &Plan) -> bool {
        let stale = plan.stale > 0 && self.planning.growth.on_change != OnChange::Keep;
        plan.source == self.fingerprint && plan.recipe == self.planning.recipe && !stale
    }

    /// All samples as new ones.
    fn all(&self) -> Changes {
        Changes {
            new: self.scan.entries.len() as u64,
            ..Changes::default()
        }
    }

    fn ordered(self) -> Result<Ordered> {
        let recipe = self.planning.recipe.clone();
        Ordered::new(self.scan, recipe, self.texts, self.fingerprint)
    }
}

/// The options that differ, for a message.
fn differing(before: &Recipe, now: &Recipe) -> String {
    let value = |recipe: &Recipe| serde_json::to_value(recipe).unwrap_or_default();
    let (before, now) = (value(before), value(now));
    let keys: BTreeSet<&String> = [&before, &now]
        .into_iter()
        .filter_map(|value| value.as_object())
        .flat_map(|object| object.keys())
        .collect();
    let differ: Vec<&str> = keys
        .into_iter()
        .filter(|key| before.get(*key) != now.get(*key))
        .map(String::as_str)
        .collect();
    match differ.is_empty() {
        true => String::new(),
        false => format!(" ({})", differ.join(", ")),
    }
}

/// What a destination holds.
struct There {
    /// The plan that was claimed last.
    newest: Option<Stored>,
    manifest: Option<Manifest>,
}

impl There {
    fn look(sink: &dyn Sink) -> Result<Self> {
        let newest = match resume::generations(sink)?.last() {
            None => {
                resume::check_ours(sink)?;
                None
            }
            Some(&generation) => match resume::of_generation(sink, generation) {
                // A first plan that is lost is made again from the source.
                Err(error) if error.kind() == Kind::Damage && generation == 1 => None,
                stored => stored?,
            },
        };
        Ok(Self {
            newest,
            manifest: published::load(sink)?,
        })
    }
}

/// What a dry run prints.
pub fn describe(standing: &Standing, source: &dyn Source) -> Result<Summary> {
    let mut out = String::new();
    // Writing to a string cannot fail.
    match standing {
        Standing::UpToDate(manifest, changes) => {
            let _ = writeln!(
                out,
                "plan      {}\nup to date: {} in {}",
                manifest.plan,
                counted(manifest.samples, "sample"),
                counted(manifest.shards().count() as u64, "shard"),
            );
            if *changes != Changes::default() {
                let _ = writeln!(out, "changes   {}", changes.text());
            }
        }
        Standing::Begun(stored, since) => {
            let plan = &stored.plan;
            let _ = writeln!(
                out,
                "plan      {}\nbegun     {} in {}, {}: the next run goes on with it{}",
                stored.digest,
                counted(plan.samples(), "sample"),
                counted(plan.shards.len() as u64, "shard"),
                bytes_text(plan.bytes()),
                match since {
                    Since::Nothing => "",
                    Since::More => ", and then with what came since",
                }
            );
        }
        Standing::New(draft, changes) => {
            let _ = write_description(&mut out, draft, source);
            if draft.plan.base.is_some() {
                let _ = writeln!(out, "changes   {}", changes.text());
            }
            // A format whose shards are not compressed has nothing to tell.
            if draft.plan.recipe.format != Format::Parquet {
                out.push_str(&format!("compress  {}\n", saving(draft, source)?));
            }
        }
    }
    Ok(Summary::text(out))
}

/// Says what the compression that was asked for saves, and what cannot read it.
pub fn tell_saving(draft: &Draft, source: &dyn Source) -> Result<()> {
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

fn write_description(out: &mut String, draft: &Draft, source: &dyn Source) -> std::fmt::Result {
    let plan = &draft.plan;
    let notes = draft.notes();
    let source_bytes: u64 = plan.shards.iter().map(|shard| shard.source_bytes).sum();
    let sidecars: u64 = notes.sidecars.values().sum();
    let files = plan.samples() + sidecars;
    writeln!(out, "plan      {}", draft.digest)?;
    writeln!(
        out,
        "source    {source}: {} files, {}",
        count_text(files),
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
    let class = |label: Option<usize>| {
        label.map_or(String::new(), |label| {
            format!(
                "`{}` {}",
                plan.names.classes[label],
                count_text(draft.class_sizes()[label])
            )
        })
    };
    let sizes = draft.class_sizes();
    let smallest = (0..sizes.len()).min_by_key(|&label| sizes[label]);
    let largest = (0..sizes.len()).rev().max_by_key(|&label| sizes[label]);
    writeln!(
        out,
        "classes   smallest {}, largest {}",
        class(smallest),
        class(largest)
    )?;
    for (name, count) in &notes.sidecars {
        writeln!(
            out,
            "field     `{name}`: {} samples have one",
            count_text(*count)
        )?;
    }
    for (count, what) in [
        (notes.hidden, "hidden files and directories"),
        (notes.left_out, "files by --include, --exclude or --split"),
        (notes.unused_labels, "labels that no image has"),
    ] {
        if count > 0 {
            writeln!(out, "left out  {} {what}", count_text(count))?;
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
    let parts: u64 = plan
        .shards
        .iter()
        .map(|shard| shard.bytes.div_ceil(ASSUMED_PART_BYTES) + 2)
        .sum();
    writeln!(
        out,
        "time      about {} at 500 MB/s; {} if every open takes 100 ms ({} reads at once)",
        seconds_text((source_bytes + plan.bytes()) as f64 / ASSUMED_BYTES_PER_SECOND),
        seconds_text(files as f64 * ASSUMED_LATENCY_SECONDS / source.reads() as f64),
        source.reads()
    )?;
    writeln!(
        out,
        "requests  {} reads; as an object store counts: {} GET, {} PUT in 16 MiB parts",
        count_text(files),
        count_text(files),
        count_text(parts + plan.shards.len() as u64 + 5)
    )
}
