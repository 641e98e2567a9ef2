//! The options that can change a byte, checked against each other.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::choosing::{is_split_name, named_and_placed, selection};
use super::given::given;
use super::verbs::index_names;
use crate::base::error::{Error, Result};
use crate::base::image::Validate;
use crate::base::text::show;
use crate::cli::flags as cli;
use crate::format::RecipeLayout as _;
use crate::model::problems::Problems;
use crate::model::recipe::{
    Arrangement, Compression, Cut, Format, MetadataColumns, Missing, Order, Recipe, Schema,
};
use crate::model::sample::SourcePath;
use crate::plan::budget::table_bytes;
use crate::publish::readers::check_reader;
use crate::source::rules::{Rules, excluded};
use crate::store::LeftOut;

/// The label file's name that says that there are no labels.
pub(super) const NO_LABELS: &str = "none";

/// Splits named by the user, with their directories below the source's root.
type Splits = Vec<(String, SourcePath)>;

/// The rules by which a dataset's source was scanned, without its label file, in so much memory: for comparing files.
pub(crate) fn rules_of(recipe: &Recipe, memory: u64) -> Result<Rules> {
    Ok(Rules {
        splits: recipe.splits.clone(),
        labels: None,
        labels_unneeded: recipe.labels,
        flat: recipe.layout == Arrangement::Flat,
        metadata_columns: recipe.metadata.clone(),
        metadata: None,
        table_bytes: table_bytes(memory),
        left_out_before: 0,
        unlabelled: Vec::new(),
        doubt: false,
        allow_empty: recipe.allow_empty,
        keep_faulty: true,
        include: globs("--include", &recipe.include)?,
        exclude: globs("--exclude", &recipe.exclude)?,
        generated: recipe.layout().generated(),
        problems: Problems::default(),
        limits: recipe.layout().limits(),
    })
}

/// Which archives of the source need not be opened, by the same globs.
pub(crate) fn left_out(recipe: &Recipe) -> Result<LeftOut> {
    if recipe.exclude.is_empty() {
        return Ok(LeftOut::default());
    }
    let exclude = globs("--exclude", &recipe.exclude)?;
    let rule = recipe.exclude.join("\n");
    Ok(LeftOut::new(rule, move |path| excluded(&exclude, path)))
}

fn no_compression(text: &str, what: &str) -> Error {
    Error::usage(format!(
        "--compress `{text}`: {what}: write none, zstd, zstd:1 to zstd:19, gzip, or gzip:1 to gzip:9"
    ))
}

/// Reads `none`, `zstd[:LEVEL]` or `gzip[:LEVEL]`.
fn compression(text: &str, seekable: bool) -> Result<Compression> {
    let bad = |what| no_compression(text, what);
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
    let compression = match method {
        "none" | "" if level.is_none() => Compression::None,
        "zstd" => Compression::Zstd {
            level: level.map_or(3, |level| i32::try_from(level).unwrap_or(i32::MAX)),
            seekable,
        },
        "gzip" => Compression::Gzip {
            level: level.unwrap_or(6),
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
    if recipe.json && recipe.format != Format::WebDataset {
        return Err(Error::usage(
            "--add-json adds a member to WebDataset samples; TFRecords have features and Parquet has columns: drop it",
        ));
    }
    if recipe.format == Format::TfRecord
        && recipe.schema == Schema::Imagenet
        && recipe.validate == Validate::None
    {
        return Err(Error::usage(
            "--schema imagenet has the width and height of each image, which `--validate none` does not look at: drop that, or use `--schema tfds`",
        ));
    }
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
    if args.format != cli::Format::Tfrecord {
        return match (args.schema, args.label_base) {
            (Some(_), _) => refused("--schema"),
            (_, Some(_)) => refused("--label-base"),
            _ => Ok((Schema::default(), 0)),
        };
    }
    match args.label_base {
        Some(base) if base > 1 => Err(Error::usage(format!(
            "--label-base {base}: labels begin with 0 or 1"
        ))),
        base => Ok((schema, base.unwrap_or(schema.label_base()))),
    }
}

pub(super) fn globs(flag: &str, patterns: &[String]) -> Result<GlobSet> {
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

/// Splits that were said as `NAME=SUBPATH`.
pub(crate) fn named_splits(given: &[OsString]) -> Result<Splits> {
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
        if !is_split_name(name.as_bytes()) {
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

/// How tables of metadata are read; an empty environment twin says nothing.
fn metadata_columns(args: &cli::RecipeArgs) -> MetadataColumns {
    let given = |column: &Option<String>| column.clone().filter(|column| !column.is_empty());
    MetadataColumns {
        // Beside a label file it is that file's column.
        label: given(&args.label_column).filter(|_| args.labels.is_none()),
        caption: given(&args.caption_column),
        skip_missing: args.missing_rows == cli::MissingRows::Skip,
    }
}

/// How the source is arranged, as far as the flags say it.
fn arrangement(args: &cli::RecipeArgs) -> Result<Arrangement> {
    let no_labels = args
        .labels
        .as_ref()
        .is_some_and(|labels| labels == NO_LABELS);
    let has_labels = args.labels.is_some() && !no_labels;
    if args.file_column.is_some() && !has_labels {
        return Err(Error::usage(
            "--file-column is a column of the label file: add `--labels FILE` or drop it",
        ));
    }
    let (name, arrangement) = match args.layout {
        cli::Layout::Auto if no_labels => ("flat", Arrangement::Flat),
        cli::Layout::Auto => ("auto", Arrangement::ImageFolder),
        cli::Layout::Imagefolder => ("imagefolder", Arrangement::ImageFolder),
        cli::Layout::Imagenet => ("imagenet", Arrangement::Imagenet),
        cli::Layout::Kaggle => ("kaggle", Arrangement::Kaggle),
        cli::Layout::Metadata => ("metadata", Arrangement::Metadata),
        cli::Layout::Flat => ("flat", Arrangement::Flat),
        cli::Layout::Dataset => ("dataset", Arrangement::Dataset),
    };
    let refused = |flag: &str, why: &str| {
        Err(Error::usage(format!(
            "--layout {name} and {flag} contradict each other, {why}: drop one of them"
        )))
    };
    match arrangement {
        Arrangement::Flat if has_labels => refused("--labels", "because its images have no labels"),
        Arrangement::Flat if args.synsets.is_some() => {
            refused("--synsets", "because its images have no labels")
        }
        Arrangement::Flat if args.class_names.is_some() => {
            refused("--class-names", "because its images have no classes")
        }
        Arrangement::ImageFolder
        | Arrangement::Imagenet
        | Arrangement::Kaggle
        | Arrangement::Metadata
            if no_labels =>
        {
            refused("--labels none", "because it may have labels")
        }
        Arrangement::Dataset if args.labels.is_some() => {
            refused("--labels", "because a published dataset has its labels")
        }
        Arrangement::Metadata if has_labels => {
            refused("--labels", "because its tables have the labels")
        }
        Arrangement::Imagenet | Arrangement::Kaggle if has_labels => {
            refused("--labels", "because its labels are built in")
        }
        Arrangement::Imagenet | Arrangement::Kaggle if !given_paths(&args.split).is_empty() => {
            refused("--split", "because its splits are known")
        }
        arrangement => Ok(arrangement),
    }
}

/// What was said several times or with commas; an empty environment twin says nothing.
fn given_paths(paths: &[OsString]) -> Vec<&OsString> {
    paths.iter().filter(|path| !path.is_empty()).collect()
}

/// How large shards are: one flag of three says it.
fn cut(args: &cli::RecipeArgs) -> Result<Cut> {
    match (args.shard_size, args.shards, args.shard_samples) {
        (None, None, None) => Ok(Cut::default()),
        (Some(size), None, None) => Ok(Cut::ShardBytes(size)),
        (None, Some(shards), None) => Ok(Cut::Shards(shards)),
        (None, None, Some(samples)) => Ok(Cut::ShardSamples(samples)),
        _ => Err(Error::usage(
            "--shard-size, --shards and --shard-samples contradict each other: give one of them",
        )),
    }
}

/// Checks the options that can change a byte, each and against each other.
pub(crate) fn check_recipe(recipe: &Recipe) -> Result<()> {
    if recipe.name.is_empty() || recipe.name.contains(char::is_control) {
        return Err(Error::usage(
            "--name must be one line of text: choose another name",
        ));
    }
    let nothing = match recipe.cut {
        Cut::ShardBytes(0) => Some("--shard-size"),
        Cut::Shards(0) => Some("--shards"),
        Cut::ShardSamples(0) => Some("--shard-samples"),
        _ => None,
    };
    if let Some(flag) = nothing {
        return Err(Error::usage(format!("{flag} 0: give at least 1")));
    }
    let known = match recipe.compress {
        Compression::None => true,
        Compression::Zstd { level, .. } => (1..=19).contains(&level),
        Compression::Gzip { level } => (1..=9).contains(&level),
    };
    if !known {
        return Err(no_compression(
            &recipe.compress.to_string(),
            "there is no such level",
        ));
    }
    check_build(recipe)?;
    check_format(recipe)?;
    rules_of(recipe, 0)?;
    let mut readers = recipe.indexes.iter();
    readers.try_for_each(|name| check_reader(name, recipe))
}

/// Refuses what this program was built without. Plans may be of one that was built with it.
pub(crate) fn check_build(recipe: &Recipe) -> Result<()> {
    match recipe.validate {
        Validate::Decode if !cfg!(feature = "decode") => Err(Error::usage(
            "--validate decode: this program was built without decoders: build it with the feature `decode`, or give `--validate header`",
        )),
        _ => Ok(()),
    }
}

/// The options of whoever says none.
pub(crate) fn default_recipe() -> Recipe {
    Recipe {
        name: cli::DEFAULT_NAME.to_owned(),
        ..Recipe::default()
    }
}

/// The options that can change a byte, checked.
pub(super) fn recipe(args: &cli::RecipeArgs) -> Result<Recipe> {
    if args.called_json {
        tracing::warn!(
            "--json adds a `json` field to every sample, as it did before, and prints the result as JSON: say `--add-json` for the \
             field, and `--summary -` for the result alone"
        );
    }
    let (schema, label_base) = features(args)?;
    let (named, placed) = named_and_placed(&args.split)?;
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
        cut: cut(args)?,
        json: args.add_json,
        sha256: args.sha256,
        validate: match args.validate {
            cli::Validate::None => Validate::None,
            cli::Validate::Header => Validate::Header,
            cli::Validate::Decode => Validate::Decode,
        },
        layout: arrangement(args)?,
        metadata: metadata_columns(args),
        splits: named_splits(&placed)?,
        include: given(&args.include),
        exclude: given(&args.exclude),
        labels: args
            .labels
            .as_ref()
            .is_some_and(|labels| labels != NO_LABELS),
        allow_empty: args.allow_empty,
        select: selection(&args.select, named)?,
    };
    check_recipe(&recipe)?;
    Ok(recipe)
}
