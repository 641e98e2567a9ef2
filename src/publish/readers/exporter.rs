//! What an index has to say: the trait that each of them implements.

use std::collections::BTreeMap;

use crate::base::error::Result;
use crate::model::manifest::Manifest;
use crate::model::recipe::Recipe;
use crate::model::record::ShardRecord;
use crate::publish::readers::facts::Facts;

/// A file to be written: its name below the destination, and its content.
pub(crate) type NamedFile = (String, Vec<u8>);

/// Names of the shards of a dataset in order, by split.
pub(crate) type Splits<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// The shards of a manifest.
pub(crate) fn splits_of(manifest: &Manifest) -> Splits<'_> {
    let mut splits = Splits::new();
    for (split, shard) in manifest.shards() {
        splits.entry(split).or_default().push(&shard.name);
    }
    splits
}

/// Describes finished shards to one reader.
pub(crate) trait Exporter: Send + Sync {
    /// Says why shards of this recipe cannot be described so, and what to do about it.
    fn check(&self, recipe: &Recipe) -> Result<(), String>;
    /// Says why shards of these names, all of a split in order, cannot be described so, and what to do about it.
    fn check_names(&self, _split: &str, _shards: &[&str]) -> Result<(), String> {
        Ok(())
    }
    /// Name of the file that describes the shard of this name alone; `None` for an index that has none such.
    fn shard_file(&self, _shard: &str) -> Option<String> {
        None
    }
    /// Content of that file.
    fn shard(&self, _record: &ShardRecord) -> Vec<u8> {
        Vec::new()
    }
    /// Directories below the root of a dataset that this index has for itself.
    fn directories(&self) -> &'static [&'static str] {
        &[]
    }
    /// Whether people complete this file of it, so that what they wrote stays.
    fn is_for_people(&self, _file: &str) -> bool {
        false
    }
    /// Names of the files that describe the whole dataset, those of [`Exporter::rows`] included.
    fn dataset_files(&self, _recipe: &Recipe, _splits: &Splits<'_>) -> Vec<String> {
        Vec::new()
    }
    /// Files that describe the whole dataset.
    fn dataset(&self, _manifest: &Manifest, _facts: &Facts) -> Result<Vec<NamedFile>> {
        Ok(Vec::new())
    }
    /// What the reader will not do with these samples, though it is described what it can be; `None` where it takes them all.
    fn warning(&self, _facts: &Facts) -> Option<String> {
        None
    }
    /// Files that take every row of every shard, which `records` gives in order; `None` for an index that does not.
    fn rows(
        &self,
        _manifest: &Manifest,
        _records: &mut dyn Iterator<Item = Result<ShardRecord>>,
    ) -> Option<Result<Vec<NamedFile>>> {
        None
    }
    /// Memory that [`Exporter::rows`] takes for this dataset.
    fn rows_bytes(&self, _manifest: &Manifest) -> u64 {
        0
    }
}

/// The published test vector of a tar of two samples, as a record.
#[cfg(test)]
pub(super) fn vector() -> (crate::model::manifest::ShardEntry, ShardRecord) {
    use crate::model::manifest::ShardEntry;
    use crate::model::record::{FieldRecord, SampleRecord};
    let field = |name: &str, offset, length| FieldRecord {
        name: name.to_owned(),
        offset,
        length,
        crc32: 0,
    };
    let sample = |key: &str, label, offset, length, size| SampleRecord {
        key: key.to_owned(),
        label,
        offset,
        length,
        fields: vec![
            field("cls", offset + 512, 1),
            field("jpg", offset + 1536, size),
        ],
        ..SampleRecord::default()
    };
    let record = ShardRecord {
        split: "train".to_owned(),
        bytes: 6144,
        samples: vec![
            sample("000000", 0, 0, 2560, 600),
            sample("000001", 1, 2560, 2560, 513),
        ],
        ..ShardRecord::empty("data/train-00000.tar")
    };
    let entry = ShardEntry {
        name: record.shard.clone(),
        samples: 2,
        bytes: 6144,
        unpacked_bytes: None,
        crc32: String::new(),
        sha256: None,
        index: String::new(),
        index_bytes: 0,
        index_crc32: String::new(),
        plan: None,
    };
    (entry, record)
}
