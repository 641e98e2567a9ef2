//! The recipe: every option that can change a byte of the output, and the names that are said once for a whole dataset.

use serde::{Deserialize, Serialize};

use crate::base::image::Validate;
use crate::model::column::Column;
use crate::model::sample::{Field, SourcePath};
use crate::model::selection::Selection;

/// The layouts there are, under the names of `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Format {
    /// WebDataset: plain ustar tar.
    #[default]
    #[serde(rename = "wds")]
    WebDataset,
    /// TFRecord files of `tf.train.Example`.
    #[serde(rename = "tfrecord")]
    TfRecord,
    /// Parquet files of HuggingFace datasets.
    #[serde(rename = "parquet")]
    Parquet,
}

/// Names of the features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Schema {
    /// `image/encoded`, `image/class/label` and the others of slim and the TPU models.
    #[default]
    Imagenet,
    /// `image`, `label` and `file_name`, as TFDS names them.
    Tfds,
}

impl Schema {
    /// First label when nothing else is asked for: 0 is background for readers of the ImageNet fields.
    pub(crate) fn label_base(self) -> u32 {
        match self {
            Schema::Imagenet => 1,
            Schema::Tfds => 0,
        }
    }

    /// Feature that holds the image, and the one that holds the label.
    pub(crate) fn features(self) -> (&'static str, &'static str) {
        match self {
            Schema::Imagenet => ("image/encoded", "image/class/label"),
            Schema::Tfds => ("image", "label"),
        }
    }
}

/// How the files of a source are arranged, under the names of `--layout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrangement {
    /// One directory a class, in splits or not; flat directories with a label file.
    #[default]
    ImageFolder,
    /// ImageNet as it is handed out, in its archives or unpacked.
    Imagenet,
    /// ImageNet as Kaggle hands it out.
    Kaggle,
    /// Images with tables that say more of them.
    Metadata,
    /// Images without classes.
    Flat,
    /// A published dataset, by its manifest and indexes.
    Dataset,
}

/// How tables of metadata are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MetadataColumns {
    /// The column that is the class, if the user says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The column that is the caption, if the user says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// Whether images without a row, and rows without an image, are left out.
    #[serde(skip_serializing_if = "is_default")]
    pub skip_missing: bool,
}

/// In which order samples are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By the first 8 bytes of SHA-256(seed as 8 little-endian bytes, key): random for training, the same for ever.
    #[default]
    Shuffled,
    /// By the bytes of the key.
    Listed,
}

/// Bytes of a shard where nobody says otherwise.
const SHARD_BYTES: u64 = 1_000_000_000;

/// How many shards a split is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// As few equal shards as keep each within this many bytes.
    ShardBytes(u64),
    /// This many shards for each split.
    Shards(u64),
    /// As few equal shards as keep each within this many samples.
    ShardSamples(u64),
}

impl Default for Cut {
    fn default() -> Self {
        Cut::ShardBytes(SHARD_BYTES)
    }
}

/// How shards are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// zstd, as one frame or as many that can be read on their own.
    Zstd {
        /// From 1 to 19.
        level: i32,
        /// Whether frames end with samples and a seek table lists them.
        seekable: bool,
    },
    /// gzip, as one member.
    Gzip {
        /// From 1 to 9.
        level: u32,
    },
}

impl Compression {
    /// What it adds to a shard's file name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Zstd { .. } => ".zst",
            Compression::Gzip { .. } => ".gz",
        }
    }

    /// Whether a shard's length unpacked must be known before its first byte is written.
    pub(crate) fn pledges(self) -> bool {
        matches!(
            self,
            Compression::Zstd {
                seekable: false,
                ..
            }
        )
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Zstd { level, .. } => write!(f, "zstd:{level}"),
            Compression::Gzip { level } => write!(f, "gzip:{level}"),
        }
    }
}

/// What happens when some samples have a sidecar file and others have not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Missing {
    /// The source is refused.
    #[default]
    Fail,
    /// They get the field with no content; `{}` where it is JSON.
    Fill,
    /// They stay without.
    Keep,
}

/// What a field is filled with that a sample does not have.
pub(crate) fn filling(field: &str) -> &'static [u8] {
    if field == "json" { b"{}" } else { b"" }
}

/// What is said once for all samples of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Names {
    /// Class names by label.
    pub classes: Vec<String>,
    /// What the classes are called for people, by label; empty when nobody said.
    #[serde(default, rename = "class_texts", skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// Fields besides the image that samples have, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sidecars: Vec<String>,
    /// Columns of tables of metadata that are columns of shards too, sorted by name; empty where shards have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The options that can change a byte of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recipe {
    /// Name of the dataset, in its card and reader indexes.
    pub name: String,
    /// Shard layout.
    pub format: Format,
    /// Whether somebody else made the shards: then all else here is unknown but how they are packed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub foreign: bool,
    /// Names of the features of TFRecords.
    #[serde(default, skip_serializing_if = "is_default")]
    pub schema: Schema,
    /// Label of the first class in TFRecords.
    #[serde(default, skip_serializing_if = "is_default")]
    pub label_base: u32,
    /// Compression of shards.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compress: Compression,
    /// Reader indexes, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<String>,
    /// What happens to samples without a field that others have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub missing: Missing,
    /// Order of samples.
    pub order: Order,
    /// Seed of the shuffled order.
    pub seed: u64,
    /// Shard sizes.
    pub cut: Cut,
    /// Whether each sample gets a `json` field.
    pub json: bool,
    /// Whether shards get SHA-256 digests.
    pub sha256: bool,
    /// How closely images are looked at; decides what the index knows of them.
    pub validate: Validate,
    /// How the source is arranged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub layout: Arrangement,
    /// How its tables of metadata are read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata: MetadataColumns,
    /// Splits named by the user, with their directories.
    pub splits: Vec<(String, SourcePath)>,
    /// Globs of what was taken.
    pub include: Vec<String>,
    /// Globs of what was left out.
    pub exclude: Vec<String>,
    /// Whether labels came from a file.
    pub labels: bool,
    /// Whether classes may be without images.
    pub allow_empty: bool,
    /// Which part of the source is taken.
    #[serde(default, skip_serializing_if = "is_default")]
    pub select: Selection,
}

impl Recipe {
    /// The fields that a sample is given because others have them.
    pub(crate) fn filled<'n>(&self, fields: &[Field], names: &'n Names) -> Vec<&'n str> {
        if self.missing != Missing::Fill {
            return Vec::new();
        }
        let lacks = |name: &&str| !fields.iter().any(|field| field.name == **name);
        names
            .sidecars
            .iter()
            .map(String::as_str)
            .filter(lacks)
            .collect()
    }
}
