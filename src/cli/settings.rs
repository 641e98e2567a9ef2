//! Flags become one checked value; the only place where two flags meet. Errors here come before the first byte is read.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::base::error::{Error, Kind, Result};
use crate::base::image::Validate;
use crate::base::signal::Stop;
use crate::base::text::show;
use crate::base::units::{parse_percent, parse_share};
use crate::cli::flags as cli;
use crate::cli::scheduler::{self};
use crate::grow::generation::{Growth, OnChange};
use crate::grow::removals::Allowed;
use crate::model::counters::Counters;
use crate::model::history::Setup;
use crate::model::policy::Policy;
use crate::model::problems::Problems;
use crate::model::recipe::{Compression, Cut, Format, Missing, Order, Recipe, Schema};
use crate::model::sample::SourcePath;
use crate::plan::budget::{Budget, Overhead, balanced_jobs, default_memory, divide};
use crate::plan::draft::Plan;
use crate::plan::worker::Worker;
use crate::publish::layout::layout;
use crate::publish::readers as index;
use crate::source::labels::Labels;
use crate::source::scan::Rules;
use crate::store::{Access, S3Options, Sink, Source};
use crate::upkeep::gc::Rules as Removal;
use crate::upkeep::verify::Level;

/// Splits named by the user, with their directories below the source's root.
type Splits = Vec<(String, SourcePath)>;

/// What of a sample to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The image.
    Image,
    /// A field of this name.
    Field(String),
    /// The members as they lie in the shard.
    Whole,
}

/// Which part of a dataset to verify.
#[derive(Clone, Copy, Debug, Default)]
pub struct Partly {
    /// Percent of the shards, those that come next.
    pub sample: Option<f64>,
    /// Go on where the last run ended.
    pub resume: bool,
    /// Begin no shard after this.
    pub max_duration: Option<std::time::Duration>,
}

impl Partly {
    /// Whether anything but the whole is wanted.
    pub fn is_part(&self) -> bool {
        self.sample.is_some() || self.resume || self.max_duration.is_some()
    }
}

/// One worker of several that do a conversion together.
#[derive(Clone, Copy, Debug)]
pub struct FanOut {
    /// Which one.
    pub worker: Worker,
    /// Whether it publishes when it finds that all shards are packed.
    pub publish: bool,
}

/// Files that tell a scheduler what a plan comes to.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Workers that will have something to do, of how many there are at most.
    pub workers: Option<(PathBuf, usize)>,
    /// `true` if there is anything to do, `false` if not.
    pub changed: Option<PathBuf>,
}

/// How to run, for every verb.
#[derive(Clone)]
pub struct Running {
    /// Shards at once, if the user said how many.
    pub jobs: Option<usize>,
    /// Cores to keep busy: those there are, fewer when fewer shards at once were asked for.
    pub cores: usize,
    /// Memory to stay within.
    pub memory: u64,
    /// How to reach locations.
    pub access: Access,
    /// Counts what happens.
    pub counters: Arc<Counters>,
    /// Says when to stop.
    pub stop: Stop,
    /// Takes all that is at fault, however much it is.
    pub problems: Problems,
    /// Whether files of somebody else may be replaced that lie where reader indexes are to be.
    pub replace: bool,
}

impl Running {
    /// The same, with files of somebody else replaced or not.
    pub(crate) fn replacing(&self, args: &cli::ReplaceArgs) -> Self {
        Self {
            replace: args.replace,
            ..self.clone()
        }
    }

    /// Shards at once, for this many shards.
    pub fn jobs_for(&self, shards: usize) -> usize {
        self.jobs
            .unwrap_or_else(|| balanced_jobs(self.cores, shards))
    }

    /// What a summary says of this.
    pub fn setup(&self) -> Setup {
        Setup {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cores: self.cores,
            jobs: self.jobs,
            reads: self.access.reads,
            memory_bytes: self.memory,
            fsync: self.access.fsync,
        }
    }

    /// What each packer of this plan may hold, from this source to this sink.
    pub fn budget(&self, plan: &Plan, source: &dyn Source, sink: &dyn Sink) -> Result<Budget> {
        let jobs = self.jobs_for(plan.shards.len());
        let overhead = Overhead {
            reads: source.reads(),
            bytes: source.overhead_bytes() + sink.writing_bytes(),
            window_bytes: source.window_bytes(),
            job_bytes: plan.recipe.compress.memory_bytes()
                + plan.recipe.layout().memory_bytes(&plan.names),
        };
        divide(self.memory, jobs, overhead, plan)
    }
}

/// What to plan, checked.
pub struct Planning {
    /// Where the images are.
    pub source: String,
    /// Where the dataset goes.
    pub destination: String,
    /// The options that can change a byte.
    pub recipe: Recipe,
    /// Images of no bytes, and files that are too large for the format, are left to be skipped when packed.
    pub keep_faulty: bool,
    /// How to go on from what is published.
    pub growth: Growth,
    /// Files that flags name.
    pub files: Files,
}

/// Files that say more of the images than their directories do.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// What class each image is of.
    pub labels: Option<OsString>,
    /// What class the numbers in `labels` are.
    pub synsets: Option<OsString>,
    /// What classes are called for people.
    pub class_names: Option<OsString>,
}

/// The content of a file that a flag names, and its name for messages.
fn read(path: &OsString) -> Result<(String, Vec<u8>)> {
    let name = show(path.as_bytes());
    let text = std::fs::read(path)
        .map_err(|error| Error::named(Kind::Usage, &name, error, "give a readable file"))?;
    Ok((name, text))
}

impl Planning {
    /// What a recipe alone says, without files that flags name.
    pub fn new(source: &str, destination: &str, recipe: Recipe) -> Self {
        Self {
            source: source.to_owned(),
            destination: destination.to_owned(),
            recipe,
            keep_faulty: false,
            growth: Growth::default(),
            files: Files::default(),
        }
    }

    /// What these classes are called for people; empty when nobody said.
    pub fn class_texts(&self, classes: &[String]) -> Result<Vec<String>> {
        match &self.files.class_names {
            None => Ok(Vec::new()),
            Some(path) => {
                let (name, text) = read(path)?;
                class_texts(&name, &text, classes)
            }
        }
    }

    /// The same where the first classes are called `before` already: one that the file does not name stays so.
    pub fn class_texts_after(&self, classes: &[String], before: &[String]) -> Result<Vec<String>> {
        let missing = match &self.files.class_names {
            None if before.is_empty() => return Ok(Vec::new()),
            None => &classes[before.len().min(classes.len())..],
            Some(path) => {
                let (name, text) = read(path)?;
                let known =
                    |class: &&String| class_texts(&name, &text, std::slice::from_ref(*class)).ok();
                let texts = classes.iter().enumerate().map(|(label, class)| {
                    let text = known(&class).and_then(|mut texts| texts.pop());
                    text.or_else(|| before.get(label).cloned())
                });
                // A class without a name was refused when all of the source's were looked up.
                return Ok(texts.map(Option::unwrap_or_default).collect());
            }
        };
        match missing.first() {
            None => Ok(before.to_vec()),
            Some(class) => Err(Error::usage(format!(
                "new class `{class}` has no name, and the others have: give `--class-names`"
            ))),
        }
    }

    /// The rules by which the source is scanned.
    pub fn rules(&self) -> Result<Rules> {
        let synsets = self.files.synsets.as_ref().map(read).transpose()?;
        let labels = match &self.files.labels {
            None => None,
            Some(path) => {
                let (name, text) = read(path)?;
                let synsets = synsets
                    .as_ref()
                    .map(|(name, text)| (name.as_str(), text.as_slice()));
                Some(Labels::parse(&name, &text, synsets).map_err(Error::source_data)?)
            }
        };
        Ok(Rules {
            labels,
            labels_unneeded: false,
            keep_faulty: self.keep_faulty,
            ..rules_of(&self.recipe)?
        })
    }
}

/// The rules by which a dataset's source was scanned, without its label file: for comparing files.
pub fn rules_of(recipe: &Recipe) -> Result<Rules> {
    Ok(Rules {
        splits: recipe.splits.clone(),
        labels: None,
        labels_unneeded: recipe.labels,
        allow_empty: recipe.allow_empty,
        keep_faulty: true,
        include: globs("--include", &recipe.include)?,
        exclude: globs("--exclude", &recipe.exclude)?,
        generated: recipe.layout().generated(),
        problems: Problems::default(),
        limits: recipe.layout().limits(),
    })
}

/// The names in a file of lines `class name`, in the order of `classes`; each class must have one.
fn class_texts(file: &str, text: &[u8], classes: &[String]) -> Result<Vec<String>> {
    let text = std::str::from_utf8(text)
        .map_err(|_| Error::usage(format!("{file}: not UTF-8: save it as UTF-8")))?;
    let named: std::collections::HashMap<&str, &str> = text
        .lines()
        .filter_map(|line| {
            let (class, name) = line.trim().split_once([' ', '\t', ','])?;
            Some((class, name.trim().trim_matches('"')))
        })
        .collect();
    let missing: Vec<_> = classes
        .iter()
        .filter(|class| !named.contains_key(class.as_str()))
        .map(String::as_str)
        .collect();
    if let Some(first) = missing.first() {
        return Err(Error::usage(format!(
            "{file}: no name for {} of {} classes, `{first}` for example: write lines of class and name",
            missing.len(),
            classes.len()
        )));
    }
    let texts = classes.iter().map(|class| named[class.as_str()].to_owned());
    Ok(texts.collect())
}

/// Reads `none`, `zstd[:LEVEL]` or `gzip[:LEVEL]`.
fn compression(text: &str, seekable: bool) -> Result<Compression> {
    let bad = |what: &str| {
        Error::usage(format!(
            "--compress `{text}`: {what}: write none, zstd, zstd:1 to zstd:19, gzip, or gzip:1 to gzip:9"
        ))
    };
    let (method, level) = match text.split_once(':') {
        Some((method, level)) => {
            let level = level.parse::<u32>();
            (
                method,
                Some(level.map_err(|_| bad("the level is no number"))?),
            )
        }
        None => (text, None),
    };
    let within = |default: u32, most: u32| match level.unwrap_or(default) {
        level if (1..=most).contains(&level) => Ok(level),
        _ => Err(bad("there is no such level")),
    };
    let compression = match method {
        "none" | "" if level.is_none() => Compression::None,
        "zstd" => Compression::Zstd {
            level: within(3, 19)? as i32,
            seekable,
        },
        "gzip" => Compression::Gzip {
            level: within(6, 9)?,
        },
        _ => return Err(bad("unknown")),
    };
    match compression {
        Compression::None | Compression::Gzip { .. } if seekable => Err(Error::usage(
            "--zstd-seekable is a form of zstd: add `--compress zstd`",
        )),
        compression => Ok(compression),
    }
}

/// What a format cannot do.
fn check_format(recipe: &Recipe) -> Result<()> {
    if recipe.format != Format::Parquet {
        return Ok(());
    }
    if recipe.compress != Compression::None {
        return Err(Error::usage(
            "--compress packs whole files, in which no reader finds Parquet's columns: drop it",
        ));
    }
    if recipe.missing == Missing::Keep {
        return Err(Error::usage(
            "--missing-fields keep leaves samples without a field, and rows of Parquet have all columns: use `fill`",
        ));
    }
    Ok(())
}

/// What only `--format tfrecord` knows: its feature names, and the label of the first class.
fn features(args: &cli::RecipeArgs) -> Result<(Schema, u32)> {
    let schema = match args.schema {
        Some(cli::Schema::Tfds) => Schema::Tfds,
        Some(cli::Schema::Imagenet) | None => Schema::Imagenet,
    };
    let refused = |flag: &str| {
        Err(Error::usage(format!(
            "{flag} is about TFRecords: add `--format tfrecord` or drop it"
        )))
    };
    if args.json && args.format != cli::Format::Wds {
        return Err(Error::usage(
            "--json adds a member to WebDataset samples; TFRecords have features and Parquet has columns: drop it",
        ));
    }
    if args.format != cli::Format::Tfrecord {
        return match (args.schema, args.label_base) {
            (Some(_), _) => refused("--schema"),
            (_, Some(_)) => refused("--label-base"),
            _ => Ok((Schema::default(), 0)),
        };
    }
    if schema == Schema::Imagenet && args.validate == cli::Validate::None {
        return Err(Error::usage(
            "--schema imagenet has the width and height of each image, which `--validate none` does not look at: drop that, or use `--schema tfds`",
        ));
    }
    match args.label_base {
        Some(base) if base > 1 => Err(Error::usage(format!(
            "--label-base {base}: labels begin with 0 or 1"
        ))),
        base => Ok((schema, base.unwrap_or(schema.label_base()))),
    }
}

/// What was said several times or with commas; an empty environment twin says nothing.
fn given(texts: &[String]) -> Vec<String> {
    let texts = texts.iter().filter(|text| !text.is_empty());
    texts.cloned().collect()
}

fn globs(flag: &str, patterns: &[String]) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        // `*` stays within a directory, as in a shell.
        let glob = GlobBuilder::new(pattern.trim_end_matches('/'))
            .literal_separator(true)
            .build()
            .map_err(|error| {
                Error::usage(format!(
                    "{flag} `{pattern}`: {}: correct the glob",
                    error.kind()
                ))
            })?;
        set.add(glob);
    }
    set.build()
        .map_err(|error| Error::usage(format!("{flag}: {}: use fewer globs", error.kind())))
}

/// Checks what is to be planned.
pub(crate) fn planning(
    source: &str,
    destination: &str,
    args: &cli::RecipeArgs,
    on_error: cli::OnError,
    growth: &cli::GrowthArgs,
) -> Result<Planning> {
    let positive = |flag: &str, value: u64| match value {
        0 => Err(Error::usage(format!("{flag} 0: give at least 1"))),
        value => Ok(value),
    };
    let cut = match (args.shard_size, args.shards, args.shard_samples) {
        (None, None, None) => Cut::default(),
        (Some(size), None, None) => Cut::ShardBytes(positive("--shard-size", size)?),
        (None, Some(shards), None) => Cut::Shards(positive("--shards", shards)?),
        (None, None, Some(samples)) => Cut::ShardSamples(positive("--shard-samples", samples)?),
        _ => {
            return Err(Error::usage(
                "--shard-size, --shards and --shard-samples contradict each other: give one of them",
            ));
        }
    };
    if args.name.is_empty() || args.name.contains(char::is_control) {
        return Err(Error::usage(
            "--name must be one line of text: choose another name",
        ));
    }
    let (schema, label_base) = features(args)?;
    let recipe = Recipe {
        name: args.name.clone(),
        format: match args.format {
            cli::Format::Wds => Format::WebDataset,
            cli::Format::Tfrecord => Format::TfRecord,
            cli::Format::Parquet => Format::Parquet,
        },
        foreign: false,
        schema,
        label_base,
        compress: compression(&args.compress, args.zstd_seekable)?,
        indexes: index_names(&args.index),
        missing: match args.missing_fields {
            cli::Missing::Fail => Missing::Fail,
            cli::Missing::Fill => Missing::Fill,
            cli::Missing::Keep => Missing::Keep,
        },
        order: match args.order {
            cli::Order::Shuffled => Order::Shuffled,
            cli::Order::Listed => Order::Listed,
        },
        seed: args.seed,
        cut,
        json: args.json,
        sha256: args.sha256,
        validate: match args.validate {
            cli::Validate::None => Validate::None,
            cli::Validate::Header => Validate::Header,
            cli::Validate::Decode => Validate::Decode,
        },
        splits: splits(&args.split)?,
        include: given(&args.include),
        exclude: given(&args.exclude),
        labels: args.labels.is_some(),
        allow_empty: args.allow_empty,
    };
    check_format(&recipe)?;
    rules_of(&recipe)?;
    for name in &recipe.indexes {
        index::check(name, &recipe)?;
    }
    Ok(Planning {
        keep_faulty: on_error == cli::OnError::Skip,
        growth: Growth {
            on_change: match growth.on_change {
                cli::OnChange::Refuse => OnChange::Refuse,
                cli::OnChange::Rebuild => OnChange::Rebuild,
                cli::OnChange::Keep => OnChange::Keep,
            },
            min_new_samples: growth.min_new_samples,
            full: growth.full,
            compact: false,
            frozen: growth.classes == cli::Classes::Frozen,
            gone: gone(growth)?,
        },
        files: Files {
            labels: args.labels.clone(),
            synsets: args.synsets.clone(),
            class_names: args.class_names.clone(),
        },
        ..Planning::new(source, destination, recipe)
    })
}

/// What may be gone of what is published; an empty environment twin says nothing.
fn gone(args: &cli::GrowthArgs) -> Result<Allowed> {
    let share = |text: &str| {
        parse_share(text).ok_or_else(|| {
            Error::usage(format!(
                "--max-gone `{text}`: write a number of samples or a part of them, for example 500 or 1%"
            ))
        })
    };
    let samples = args.max_gone.as_deref().filter(|text| !text.is_empty());
    Ok(Allowed {
        samples: samples.map(share).transpose()?.unwrap_or_default(),
        splits: given(&args.allow_gone_split),
    })
}

fn splits(given: &[OsString]) -> Result<Splits> {
    let mut splits: Splits = Vec::new();
    for text in given {
        let shown = show(text.as_bytes());
        let bad = |what: &str| {
            Error::usage(format!(
                "--split `{shown}`: {what}: write NAME=SUBPATH, for example val=images/val"
            ))
        };
        let equals = text
            .as_bytes()
            .iter()
            .position(|&b| b == b'=')
            .ok_or_else(|| bad("no `=`"))?;
        let (name, path) = text.as_bytes().split_at(equals);
        let name = std::str::from_utf8(name).unwrap_or_default().to_owned();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(bad("the name must be letters, digits and `_`"));
        }
        let parts: Vec<&[u8]> = path[1..]
            .split(|&b| b == b'/')
            .filter(|part| !part.is_empty() && *part != b".")
            .collect();
        if parts.contains(&b"..".as_slice()) || path.get(1) == Some(&b'/') {
            return Err(bad("the path must lie below SRC"));
        }
        let path = SourcePath::new(parts.join(&b'/'));
        for (other, there) in &splits {
            let (a, b) = (path.as_bytes(), there.as_bytes());
            let within = |a: &[u8], b: &[u8]| {
                b.is_empty()
                    || a.strip_prefix(b)
                        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            };
            if *other == name {
                return Err(bad("the split is given twice"));
            }
            if within(a, b) || within(b, a) {
                return Err(bad(&format!(
                    "its directory overlaps that of split `{other}`"
                )));
            }
        }
        splits.push((name, path));
    }
    splits.sort();
    Ok(splits)
}

/// Checks what happens to damaged samples.
pub(crate) fn policy(args: &cli::PolicyArgs) -> Result<Policy> {
    match (args.on_error, args.max_skipped) {
        (cli::OnError::Fail, None) => Ok(Policy::Fail),
        (cli::OnError::Fail, Some(_)) => Err(Error::usage(
            "--max-skipped says how many samples --on-error skip may leave out: add `--on-error skip` or drop it",
        )),
        (cli::OnError::Skip, limit) => Ok(Policy::Skip {
            at_most: limit.unwrap_or(u64::MAX),
        }),
    }
}

/// The indexes asked for, each once.
pub(crate) fn index_names(given: &[String]) -> Vec<String> {
    let mut names: Vec<String> = given
        .iter()
        .filter(|name| !name.is_empty())
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Which worker of how many this is; a variable that is set to nothing counts as not set.
pub(crate) fn worker(args: &cli::WorkerArgs) -> Result<Worker> {
    let variable = |name: &str| std::env::var(name).ok();
    scheduler::worker(given_worker(args), args.workers, variable)
}

/// An empty environment twin says nothing.
fn given_worker(args: &cli::WorkerArgs) -> Option<&str> {
    args.worker.as_deref().filter(|text| !text.is_empty())
}

/// The part of a conversion that this process does: all of it, unless a flag says that there are other workers. A scheduler's variables
/// alone say nothing here: each task of an array may well convert a dataset of its own.
pub(crate) fn fan_out(args: &cli::WorkerArgs) -> Result<Option<FanOut>> {
    let asked =
        given_worker(args).is_some() || args.workers.is_some() || args.publish_when_complete;
    match asked {
        false => Ok(None),
        true => Ok(Some(FanOut {
            worker: worker(args)?,
            publish: args.publish_when_complete,
        })),
    }
}

/// What to tell a scheduler of a plan.
pub(crate) fn told(args: &cli::ConvertPlanArgs) -> Result<Told> {
    if args.workers == Some(0) {
        return Err(Error::usage("--workers 0: give at least 1"));
    }
    let path = |given: &Option<OsString>| given.as_ref().map(PathBuf::from);
    Ok(Told {
        workers: path(&args.out_workers).map(|path| (path, args.workers.unwrap_or(usize::MAX))),
        changed: path(&args.out_changed),
    })
}

/// How deep to verify.
pub(crate) fn level(level: cli::Level, source: Option<&str>) -> Result<Level> {
    match (level, source) {
        (cli::Level::Source, None) => Err(Error::usage(
            "--level source compares with the source: add `--source SRC`",
        )),
        (cli::Level::Source, Some(_)) => Ok(Level::Source),
        (_, Some(_)) => Err(Error::usage(
            "a source is compared at `--level source` only: add that, or drop the source",
        )),
        (cli::Level::List, None) => Ok(Level::List),
        (cli::Level::Head, None) => Ok(Level::Head),
        (cli::Level::Data, None) => Ok(Level::Data),
    }
}

/// Which shards to verify.
pub(crate) fn partly(args: &cli::VerifyArgs, level: Level) -> Result<Partly> {
    let sample = args.sample.as_deref().filter(|text| !text.is_empty());
    let percent = |text: &str| {
        let percent = parse_percent(text).filter(|percent| *percent > 0.0);
        percent.ok_or_else(|| {
            Error::usage(format!(
                "--sample `{text}`: write a part of the shards, for example 1%"
            ))
        })
    };
    let part = Partly {
        sample: sample.map(percent).transpose()?,
        resume: args.resume,
        max_duration: args.max_duration,
    };
    match level {
        _ if !part.is_part() => Ok(part),
        Level::Head | Level::Data | Level::Source => Ok(part),
        Level::List => Err(Error::usage(
            "--level list reads no shards that --sample, --resume and --max-duration could choose from: drop them, or use `--level data`",
        )),
    }
}

/// What of a sample to write.
pub(crate) fn part(field: Option<&str>, whole: bool) -> Part {
    match (field, whole) {
        (_, true) => Part::Whole,
        (Some(field), _) => Part::Field(field.to_owned()),
        (None, _) => Part::Image,
    }
}

/// What to remove.
pub(crate) fn gc(args: &cli::GcArgs) -> Result<Removal> {
    Ok(Removal {
        older_than: args.older_than,
        keep: match args.keep {
            Some(0) => {
                return Err(Error::usage(
                    "--keep 0: the newest snapshot always stays, give at least 1",
                ));
            }
            keep => keep,
        },
        dry_run: args.dry_run,
    })
}

/// When the workflow that this run is a step of will end it; `variable` gives the environment.
pub fn deadline(variable: impl Fn(&str) -> Option<String>) -> Option<SystemTime> {
    let text = variable("ARGO_DEADLINE").filter(|text| !text.is_empty())?;
    match OffsetDateTime::parse(&text, &Rfc3339) {
        // Argo's way of saying that there is none: the year 1.
        Ok(time) if time < OffsetDateTime::UNIX_EPOCH => None,
        Ok(time) => Some(time.into()),
        Err(error) => {
            tracing::warn!(
                "`ARGO_DEADLINE` is `{text}`, no time as of RFC 3339: {error}; going on without"
            );
            None
        }
    }
}

/// This moment as of RFC 3339, in UTC and whole seconds; empty if the clock is beyond such times.
pub(crate) fn now() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0);
    now.ok()
        .and_then(|now| now.format(&Rfc3339).ok())
        .unwrap_or_default()
}

/// Where a scheduler wants to read how far this run is.
pub(crate) fn progress_file() -> Option<PathBuf> {
    let path = std::env::var_os("ARGO_PROGRESS_FILE").filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// Checks how to run.
pub(crate) fn running(
    args: &cli::CommonArgs,
    counters: &Arc<Counters>,
    stop: &Stop,
) -> Result<Running> {
    let positive = |flag: &str, value: usize| match value {
        0 => Err(Error::usage(format!("{flag} 0: give at least 1"))),
        value => Ok(value),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Half of the open files are left to everything else.
    let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let memory = args.memory.unwrap_or_else(default_memory);
    Ok(Running {
        jobs: args.jobs,
        cores: cores.min(positive("--jobs", args.jobs.unwrap_or(cores))?),
        replace: false,
        memory,
        access: Access {
            reads: args.reads.map(|n| positive("--reads", n)).transpose()?,
            open_files: open_files.map_or(usize::MAX, |limit| (limit / 2).max(1) as usize),
            memory,
            fsync: !args.no_fsync,
            s3: s3(&args.s3)?,
            layout: layout(),
            counters: Arc::clone(counters),
            stop: stop.clone(),
            ..Access::default()
        },
        counters: Arc::clone(counters),
        stop: stop.clone(),
        problems: match args.problems.as_ref().filter(|path| !path.is_empty()) {
            Some(path) => Problems::create(Path::new(path))?,
            None => Problems::default(),
        },
    })
}

/// Checks what is said about S3.
fn s3(args: &cli::S3Args) -> Result<S3Options> {
    // An empty environment twin says nothing.
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if args.sse_kms_key_id.is_some()
        && !args
            .sse
            .as_deref()
            .is_some_and(|sse| sse.starts_with("aws:kms"))
    {
        return Err(Error::usage(
            "--sse-kms-key-id names the key of `--sse aws:kms`: add that",
        ));
    }
    let timeout = args.request_timeout;
    if timeout == 0 {
        return Err(Error::usage("--request-timeout 0: give at least 1 second"));
    }
    Ok(S3Options {
        endpoint_url: given(&args.endpoint_url),
        region: given(&args.region),
        profile: given(&args.profile),
        no_sign_request: args.no_sign_request,
        request_payer: args.request_payer.is_some(),
        storage_class: given(&args.storage_class),
        sse: given(&args.sse),
        sse_kms_key_id: given(&args.sse_kms_key_id),
        tagging: given(&args.tagging),
        path_style: match args.addressing {
            cli::Addressing::Auto => None,
            cli::Addressing::Path => Some(true),
            cli::Addressing::Host => Some(false),
        },
        no_conditional_put: args.unsafe_no_conditional_put,
        request_timeout: std::time::Duration::from_secs(timeout),
        retry_for: std::time::Duration::from_secs(args.retry_for),
    })
}
