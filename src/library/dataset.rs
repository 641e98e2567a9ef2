//! Reading a published dataset sample by sample.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::base::error::{Error, Result};
use crate::cli::settings::Running;
use crate::library::Options;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::record::{NO_LABEL, SampleRecord};
use crate::state::published::{require, require_record};
use crate::store::{self, Sink};
use crate::upkeep::content::{Content, pick};
use crate::upkeep::find::{Found, find};

/// A published dataset: what is in it, and its samples by number of shard, by key, or one after the other.
///
/// Reading a sample is one range of a shard, compared with the checksum in the index. Training reads whole shards: give
/// [`shards`](Dataset::shards) to its loader.
///
/// ```
/// use shardpack::Dataset;
///
/// # let dir = tempfile::tempdir()?;
/// # let (source, destination) = (dir.path().join("images"), dir.path().join("shards"));
/// # std::fs::create_dir_all(source.join("cat"))?;
/// # std::fs::write(source.join("cat/1.ppm"), b"P6 1 1 255\n\0\0\0")?;
/// # let (source, destination) = (source.display().to_string(), destination.display().to_string());
/// # shardpack::Conversion::new(&source, &destination).run()?;
/// let dataset = Dataset::open(&destination)?;
/// assert_eq!(dataset.len(), 1);
/// assert_eq!(dataset.classes(), ["cat"]);
/// assert_eq!(dataset.splits().collect::<Vec<_>>(), ["train"]);
///
/// for sample in dataset.samples() {
///     let sample = sample?;
///     println!("{} {:?} {}", sample.key(), sample.label(), sample.source_path().display());
/// }
/// let sample = dataset.get("cat/1")?;
/// assert_eq!(dataset.image(&sample)?, b"P6 1 1 255\n\0\0\0");
/// assert_eq!(dataset.read(&sample, "cls")?, b"0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Dataset {
    sink: Box<dyn Sink>,
    manifest: Manifest,
    running: Running,
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset")
            .field("location", &self.sink.to_string())
            .field("plan", &self.manifest.plan)
            .field("snapshot", &self.manifest.snapshot)
            .finish()
    }
}

impl Dataset {
    /// Opens the dataset at a path or `s3://bucket/prefix`: reads its manifest.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Damage`](crate::ErrorKind::Damage) for a manifest that cannot be read, [`Failed`](crate::ErrorKind::Failed) where
    /// nothing is published, [`Transient`](crate::ErrorKind::Transient) for an outage.
    pub fn open(location: &str) -> Result<Self> {
        Self::open_with(location, &Options::default())
    }

    /// The same with options.
    ///
    /// # Errors
    ///
    /// As [`open`](Dataset::open), and [`ErrorKind::Usage`](crate::ErrorKind::Usage) for options that cannot be.
    pub fn open_with(location: &str, options: &Options) -> Result<Self> {
        let running = options.running()?;
        let sink = store::sink(location, &running.access)?;
        Ok(Self {
            manifest: require(sink.as_ref())?,
            sink,
            running,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.manifest.samples
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all shards.
    pub fn bytes(&self) -> u64 {
        self.manifest.bytes
    }

    /// Class names by label.
    pub fn classes(&self) -> &[String] {
        &self.manifest.names.classes
    }

    /// Names of its splits.
    pub fn splits(&self) -> impl Iterator<Item = &str> {
        self.manifest.splits.iter().map(|split| split.name.as_str())
    }

    /// Where the shards of a split are, in order; none for a split that it does not have.
    pub fn shards(&self, split: &str) -> Vec<String> {
        let named = self.manifest.splits.iter();
        let shards = named.filter(|known| known.name == split);
        let shards = shards.flat_map(|split| &split.shards);
        shards
            .map(|shard| format!("{}/{}", self.sink, shard.name))
            .collect()
    }

    /// All samples, shard by shard in the order of the manifest. Their indexes are read as they are reached.
    pub fn samples(&self) -> Samples<'_> {
        Samples {
            dataset: self,
            shards: self.manifest.shards().collect::<Vec<_>>().into_iter(),
            rows: Vec::new().into_iter(),
            of: None,
        }
    }

    /// The sample that is named: by its key, or by the path of one of its files below the source.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed) where there is no such sample, [`Damage`](crate::ErrorKind::Damage) where an index
    /// that may name it cannot be read.
    pub fn get(&self, name: &str) -> Result<Sample<'_>> {
        let effort = self.running.effort();
        let found = find(self.sink.as_ref(), &self.manifest, name, &effort)?;
        let Found { shard, row, .. } = found;
        let mut shards = self.manifest.shards();
        let split = shards.find(|(_, known)| std::ptr::eq(*known, shard));
        Ok(Sample {
            split: split.map_or("", |(split, _)| split),
            shard,
            class: self.class(&row),
            row,
        })
    }

    /// The bytes of a field of a sample, as long as the index says and with its checksum.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed) for a field that the sample does not have,
    /// [`Damage`](crate::ErrorKind::Damage) for bytes that are not what was published.
    pub fn read(&self, sample: &Sample<'_>, field: &str) -> Result<Vec<u8>> {
        self.content(sample, Some(field))
    }

    /// The bytes of a sample's image.
    ///
    /// # Errors
    ///
    /// As [`read`](Dataset::read).
    pub fn image(&self, sample: &Sample<'_>) -> Result<Vec<u8>> {
        self.content(sample, None)
    }

    fn content(&self, sample: &Sample<'_>, field: Option<&str>) -> Result<Vec<u8>> {
        let field = pick(&sample.row, field)?;
        let content = Content {
            sink: self.sink.as_ref(),
            compress: self.manifest.recipe.compress,
            shard: sample.shard,
            row: &sample.row,
        };
        let mut bytes = Vec::new();
        content.field(field, &mut |piece| {
            let room = bytes.try_reserve(piece.len());
            room.map_err(|error| Error::failed(format!("{}: {error}", sample.key())))?;
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    fn class(&self, row: &SampleRecord) -> Option<&str> {
        let class = self.classes().get(row.label as usize);
        class.map(String::as_str)
    }
}

/// A sample of a [`Dataset`], as its index has it.
#[derive(Clone, Debug)]
pub struct Sample<'d> {
    split: &'d str,
    shard: &'d ShardEntry,
    class: Option<&'d str>,
    row: SampleRecord,
}

impl Sample<'_> {
    /// Its key, unique over the dataset.
    pub fn key(&self) -> &str {
        &self.row.key
    }

    /// The split it is in.
    pub fn split(&self) -> &str {
        self.split
    }

    /// Its shard, below the destination.
    pub fn shard(&self) -> &str {
        &self.shard.name
    }

    /// The number of its class, from 0; none where it has no label.
    pub fn label(&self) -> Option<u32> {
        (self.row.label != NO_LABEL).then_some(self.row.label)
    }

    /// The name of its class.
    pub fn class(&self) -> Option<&str> {
        self.class
    }

    /// The path of its image below the source.
    pub fn source_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.row.source_path.as_bytes()))
    }

    /// Names of its fields, with their length in bytes.
    pub fn fields(&self) -> impl Iterator<Item = (&str, u64)> {
        let fields = self.row.fields.iter();
        fields.map(|field| (field.name.as_str(), field.length))
    }
}

/// The samples of a [`Dataset`], one after the other.
///
/// An index that cannot be read is one error in the place of its shard's samples; the next shard follows.
pub struct Samples<'d> {
    dataset: &'d Dataset,
    shards: std::vec::IntoIter<(&'d str, &'d ShardEntry)>,
    rows: std::vec::IntoIter<SampleRecord>,
    /// The split and shard of those rows.
    of: Option<(&'d str, &'d ShardEntry)>,
}

impl fmt::Debug for Samples<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples")
            .field("dataset", self.dataset)
            .field("shards_left", &self.shards.len())
            .finish_non_exhaustive()
    }
}

impl<'d> Iterator for Samples<'d> {
    type Item = Result<Sample<'d>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let (Some((split, shard)), Some(row)) = (self.of, self.rows.next()) {
                return Some(Ok(Sample {
                    split,
                    shard,
                    class: self.dataset.class(&row),
                    row,
                }));
            }
            let (split, shard) = self.shards.next()?;
            match require_record(shard, self.dataset.sink.as_ref()) {
                Ok(record) => {
                    self.rows = record.samples.into_iter();
                    self.of = Some((split, shard));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
