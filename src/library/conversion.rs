//! Converting a source.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::base::error::Result;
use crate::base::image::Validate;
use crate::cli::settings::{Files, Planning, check_recipe, default_recipe, named_splits};
use crate::cli::verbs::convert;
use crate::library::Options;
use crate::model::policy::Policy;
use crate::model::recipe::{Compression, Cut, Format, Order, Recipe};
use crate::model::record::Remark;

/// Turns an ImageFolder, on local disk or S3, into shards.
///
/// Everything that can change a byte is said here; how it is done, in [`Options`]. The same source and the same conversion give the same
/// bytes, however often a run was interrupted: the next one goes on.
///
/// ```
/// use shardpack::{Conversion, Cut, Format, Order};
///
/// # let dir = tempfile::tempdir()?;
/// # let (source, destination) = (dir.path().join("images"), dir.path().join("shards"));
/// # for (class, color) in [("cat", [0; 3]), ("dog", [255; 3])] {
/// #     std::fs::create_dir_all(source.join(class))?;
/// #     std::fs::write(source.join(class).join("1.ppm"), [b"P6 1 1 255\n", &color[..]].concat())?;
/// # }
/// # let (source, destination) = (source.display().to_string(), destination.display().to_string());
/// // source: one directory of images per class, a path or s3://bucket/prefix
/// let converted = Conversion::new(&source, &destination)
///     .format(Format::WebDataset)
///     .cut(Cut::ShardBytes(1_000_000_000))
///     .order(Order::Shuffled)
///     .seed(7)
///     .run()?;
/// assert_eq!((converted.samples, converted.shards), (2, 1));
///
/// // Once more: there is nothing to do.
/// assert!(!Conversion::new(&source, &destination).seed(7).run()?.changed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conversion {
    source: String,
    destination: String,
    recipe: Recipe,
    splits: Vec<OsString>,
    files: Files,
    policy: Policy,
    options: Options,
}

impl Conversion {
    /// A conversion of the images at `source` to a dataset at `destination`; both are paths or `s3://bucket/prefix`.
    pub fn new(source: impl Into<String>, destination: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            destination: destination.into(),
            recipe: default_recipe(),
            splits: Vec::new(),
            files: Files::default(),
            policy: Policy::Fail,
            options: Options::default(),
        }
    }

    /// The layout of shards: WebDataset where nothing is said.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.recipe.format = format;
        self.recipe.label_base = match format {
            Format::TfRecord => self.recipe.schema.label_base(),
            Format::WebDataset | Format::Parquet => 0,
        };
        self
    }

    /// Where one shard ends and the next begins: at 1 GB where nothing is said.
    #[must_use]
    pub fn cut(mut self, cut: Cut) -> Self {
        self.recipe.cut = cut;
        self
    }

    /// How shards are compressed: not at all where nothing is said.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.recipe.compress = compression;
        self
    }

    /// The order of samples: shuffled where nothing is said.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.recipe.order = order;
        self
    }

    /// The seed of the shuffled order: 0 where nothing is said.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.recipe.seed = seed;
        self
    }

    /// The name of the dataset, in its card and in indexes of readers.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.recipe.name = name.into();
        self
    }

    /// Gives each WebDataset sample a `json` field.
    #[must_use]
    pub fn json(mut self, json: bool) -> Self {
        self.recipe.json = json;
        self
    }

    /// How closely images are looked at: their headers where nothing is said.
    #[must_use]
    pub fn validate(mut self, validate: Validate) -> Self {
        self.recipe.validate = validate;
        self
    }

    /// A split and its directory below the source. Said once for each, instead of the directories being recognised by their names.
    #[must_use]
    pub fn split(mut self, name: &str, directory: impl AsRef<OsStr>) -> Self {
        let mut text = OsString::from(format!("{name}="));
        text.push(directory);
        self.splits.push(text);
        self
    }

    /// A local file that says which class each image is of, for images that lie in no class directory.
    #[must_use]
    pub fn labels(mut self, file: impl Into<PathBuf>) -> Self {
        self.recipe.labels = true;
        self.files.labels = Some(file.into().into_os_string());
        self
    }

    /// A local file that says which class the numbers in that are.
    #[must_use]
    pub fn synsets(mut self, file: impl Into<PathBuf>) -> Self {
        self.files.synsets = Some(file.into().into_os_string());
        self
    }

    /// A glob of what is taken; all where there is none.
    #[must_use]
    pub fn include(mut self, glob: impl Into<String>) -> Self {
        self.recipe.include.push(glob.into());
        self
    }

    /// A glob of what is left out.
    #[must_use]
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.recipe.exclude.push(glob.into());
        self
    }

    /// An index for a reader, by its name on the command line: `wids`, `dali`, `energon` …
    #[must_use]
    pub fn index(mut self, reader: impl Into<String>) -> Self {
        self.recipe.indexes.push(reader.into());
        self.recipe.indexes.sort();
        self.recipe.indexes.dedup();
        self
    }

    /// What happens to damaged images: one is enough to publish nothing where nothing is said.
    #[must_use]
    pub fn on_error(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How to run.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Plans, packs and publishes; goes on where an earlier run stopped, and does nothing where all is published.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) for options that contradict each other, [`Source`](crate::ErrorKind::Source) for a
    /// source that cannot be used as it is (nothing was published then), [`Conflict`](crate::ErrorKind::Conflict) for a destination that
    /// holds something else, [`Transient`](crate::ErrorKind::Transient) for an outage, after which another run goes on.
    pub fn run(&self) -> Result<Converted> {
        let recipe = Recipe {
            splits: named_splits(&self.splits)?,
            ..self.recipe.clone()
        };
        check_recipe(&recipe)?;
        let planning = Planning {
            keep_faulty: self.policy != Policy::Fail,
            files: self.files.clone(),
            // What the source is, is recognised as on the command line.
            layout: None,
            ..Planning::new(&self.source, &self.destination, recipe)
        };
        let running = self.options.running()?;
        let summary = convert::run(&planning, self.policy, None, false, &running)?;
        let notes = |remarks: Vec<Remark>| remarks.into_iter().map(SampleNote::from).collect();
        Ok(Converted {
            samples: summary.samples,
            shards: summary.shards,
            bytes: summary.bytes,
            shards_reused: summary.shards_reused,
            changed: summary.changed.unwrap_or(true),
            skipped: notes(summary.skipped),
            odd: notes(summary.odd),
        })
    }
}

/// What there is after a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// Samples in the dataset.
    pub samples: u64,
    /// Shards of it.
    pub shards: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Shards that an earlier run had finished.
    pub shards_reused: u64,
    /// Whether there was anything to do.
    pub changed: bool,
    /// Samples that were left out, with the reason.
    pub skipped: Vec<SampleNote>,
    /// Samples that are in it although something about them is odd.
    pub odd: Vec<SampleNote>,
}

/// A sample, and what there is to say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleNote {
    /// Its key.
    pub key: String,
    /// The file concerned, below the source.
    pub path: PathBuf,
    /// Why it was left out, or what is odd.
    pub reason: String,
}

impl From<Remark> for SampleNote {
    fn from(remark: Remark) -> Self {
        Self {
            key: remark.key,
            path: OsStr::from_bytes(remark.path.as_bytes()).into(),
            reason: remark.reason,
        }
    }
}
