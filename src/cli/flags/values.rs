//! Words that flags take.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Addressing {
    Auto,
    Path,
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// WebDataset tar
    #[value(aliases = ["webdataset", "tar"])]
    Wds,
    /// TFRecord files of tf.train.Example
    Tfrecord,
    /// Parquet files of HuggingFace datasets
    Parquet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Schema {
    /// image/encoded, image/class/label and the others of slim and the TPU models
    Imagenet,
    /// image, label, file_name
    Tfds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// What is recognised, said in one line; ImageFolder if nothing else is
    Auto,
    /// One directory a class, whatever the directories are called
    Imagefolder,
    /// ImageNet's official archives, or what is unpacked of them; labels of the validation images are built in
    Imagenet,
    /// ImageNet as Kaggle hands it out, from any level of its tree
    Kaggle,
    /// Images with metadata.csv, metadata.jsonl or metadata.parquet beside them
    Metadata,
    /// Images without classes
    Flat,
    /// A published dataset: its manifest and indexes say what is in it
    Dataset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MissingRows {
    /// Refuse the source, and list them
    Fail,
    /// Leave them out
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Missing {
    /// Refuse the source
    Fail,
    /// Give them an empty one, `{}` where it is JSON
    Fill,
    /// Leave them without
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    Shuffled,
    Listed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Validate {
    None,
    Header,
    Decode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    Fail,
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnChange {
    /// Publish nothing, and list them
    Refuse,
    /// Make the shards that hold them again, under new names
    Rebuild,
    /// Leave those shards as they are
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Classes {
    Append,
    Frozen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Names and sizes, nothing missing or extra
    List,
    /// Checksums of whole shards
    Head,
    /// Every header, field, end marker and index row
    Data,
    /// Every file of the source, byte for byte
    Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    Auto,
    Bar,
    Log,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    Text,
    Json,
}
