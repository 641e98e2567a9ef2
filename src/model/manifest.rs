//! The manifest: what streaming readers and people open, and every committed snapshot of it.
//!
//! `docs/manifest.schema.json` is its JSON Schema. No time, host or path of the machine is in it: the same source and recipe give
//! the same bytes.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Kind, Result};
use crate::base::units::{MOST_BYTES, MOST_SAMPLES, are_sane};
use crate::model::name::check_name;
use crate::model::recipe::{Names, Recipe};
use crate::model::record::Remark;
use crate::model::selection::Derivation;
use crate::model::version;

/// Where everything lies that readers of the dataset do not need.
pub(crate) const STATE: &str = "_shardpack";
/// Where the snapshots lie: every manifest there was.
pub(crate) const SNAPSHOT_DIR: &str = "_shardpack/snapshots";
/// Name of the manifest below the destination.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Numbers that a snapshot can have: adding to them does not overflow.
const SNAPSHOTS: std::ops::RangeInclusive<u64> = 1..=u64::MAX / 2;
/// Value of [`Manifest::kind`].
pub(crate) const MANIFEST_KIND: &str = "shardpack-manifest";

/// One published shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardEntry {
    /// Name below the destination.
    pub name: String,
    /// Samples in it.
    pub samples: u64,
    /// Its length.
    pub bytes: u64,
    /// Length of what is packed in it, when it is compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked_bytes: Option<u64>,
    /// Its CRC-32, eight hexadecimal digits (Python: `zlib.crc32`).
    pub crc32: String,
    /// Its SHA-256, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Name of its index below the destination.
    pub index: String,
    /// Length of the index.
    pub index_bytes: u64,
    /// CRC-32 of the index.
    pub index_crc32: String,
    /// Digest of the plan it was packed under, if that is an earlier one than the manifest's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

impl ShardEntry {}

/// One file that describes shards to a reader of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct IndexFile {
    /// Name of the index, as `--index` takes it.
    pub reader: String,
    /// Name of the file below the destination.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its CRC-32, eight hexadecimal digits.
    pub crc32: String,
}

/// One split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SplitEntry {
    /// Its name.
    pub name: String,
    /// Samples in all its shards.
    pub samples: u64,
    /// Bytes of all its shards.
    pub bytes: u64,
    /// Its shards in order.
    pub shards: Vec<ShardEntry>,
}

/// A published dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Always `shardpack-manifest`.
    pub kind: String,
    /// Version of this form, 1.
    pub version: u32,
    /// Name of the dataset.
    pub name: String,
    /// Number of this snapshot, from 1.
    pub snapshot: u64,
    /// Digest of the plan it was made under.
    pub plan: String,
    /// The options.
    pub recipe: Recipe,
    /// Samples in all shards.
    pub samples: u64,
    /// Bytes of all shards.
    pub bytes: u64,
    /// The dataset that it was made from or is a part of, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived_from: Option<Derivation>,
    /// What labels and fields are called.
    #[serde(flatten)]
    pub names: Names,
    /// The splits.
    pub splits: Vec<SplitEntry>,
    /// Files for readers that want to find the shards described in their own way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexFile>,
    /// Samples of the source that are not in it, with the reason.
    pub skipped: Vec<Remark>,
    /// Samples that are in it although something about them is odd.
    pub odd: Vec<Remark>,
}

impl Manifest {
    /// All shards with their split's name.
    pub(crate) fn shards(&self) -> impl Iterator<Item = (&str, &ShardEntry)> {
        self.splits.iter().flat_map(|split| {
            split
                .shards
                .iter()
                .map(|shard| (split.name.as_str(), shard))
        })
    }

    /// Digest of the plan that a shard was packed under.
    pub(crate) fn plan_of<'a>(&'a self, shard: &'a ShardEntry) -> &'a str {
        shard.plan.as_deref().unwrap_or(&self.plan)
    }

    /// Digests of the plans that anything of it was made under, its own among them.
    pub(crate) fn plan_digests(&self) -> HashSet<&str> {
        let of_shards = self.shards().map(|(_, shard)| self.plan_of(shard));
        of_shards.chain([self.plan.as_str()]).collect()
    }

    /// Whether its numbers can be, and be reckoned with.
    fn is_sane(&self) -> bool {
        let samples = self.shards().map(|(_, shard)| shard.samples);
        let bytes = self.shards().flat_map(|(_, shard)| {
            let unpacked = shard.unpacked_bytes.unwrap_or(0);
            [shard.bytes, unpacked, shard.index_bytes]
        });
        let files = self.indexes.iter().map(|file| file.bytes);
        let splits = self.splits.iter();
        let sums = splits.flat_map(|split| [split.samples, split.bytes]);
        SNAPSHOTS.contains(&self.snapshot)
            && are_sane(samples, MOST_SAMPLES)
            && are_sane(bytes.chain(files), MOST_BYTES)
            && are_sane(sums.chain([self.samples, self.bytes]), MOST_BYTES * 16)
    }

    /// Names of its reader indexes: those of the recipe and those that were added.
    pub(crate) fn readers(&self) -> Vec<String> {
        let added = self.indexes.iter().map(|file| &file.reader);
        let mut names: Vec<String> = self.recipe.indexes.iter().chain(added).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// The file's bytes.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| Error::failed(error.to_string()))?;
        text.push(b'\n');
        Ok(text)
    }

    /// Reads a manifest; `name` is for messages. Names that leave the destination, or a terminal would act on, are refused, and so is what
    /// a later version wrote: the latter is no damage.
    pub(crate) fn decode(name: &str, text: &[u8]) -> Result<Self> {
        version::MANIFEST.check(name, text)?;
        let bad =
            |what: String| Error::new(Kind::Damage, format!("{name}: not a manifest: {what}"));
        let manifest: Self =
            serde_json::from_slice(text).map_err(|error| bad(error.to_string()))?;
        if manifest.kind != MANIFEST_KIND || manifest.version != 1 {
            return Err(bad(format!(
                "`{}` version {}, this program knows `{MANIFEST_KIND}` version 1",
                manifest.kind, manifest.version
            )));
        }
        if !manifest.is_sane() {
            return Err(bad("it has impossible sizes or counts".to_owned()));
        }
        for split in &manifest.splits {
            check_name(&split.name).map_err(|error| bad(error.to_string()))?;
        }
        for (_, shard) in manifest.shards() {
            check_name(&shard.name).map_err(|error| bad(error.to_string()))?;
            check_name(&shard.index).map_err(|error| bad(error.to_string()))?;
        }
        for file in &manifest.indexes {
            check_name(&file.name).map_err(|error| bad(error.to_string()))?;
        }
        Ok(manifest)
    }
}

/// Name of a snapshot below the destination.
pub(crate) fn snapshot_name(number: u64) -> String {
    format!("{SNAPSHOT_DIR}/{number:08}.json")
}

/// The number of the snapshot of this name, if it is the name of one.
pub(crate) fn snapshot_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".json")?.rsplit('/').next()?;
    let number = number.parse().ok()?;
    (snapshot_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: &str = r#"{"kind":"shardpack-manifest","version":1,"name":"x","snapshot":1,"plan":"0","recipe":{"name":"x","format":"wds",
        "order":"listed","seed":0,"cut":{"shards":1},"json":false,"sha256":false,"validate":"header","splits":[],"include":[],"exclude":[],
        "labels":false,"allow_empty":false},"samples":1,"bytes":2,"classes":["a"],"splits":[{"name":"train","samples":1,"bytes":2,"shards":[
        {"name":"data/train-00000.tar","samples":1,"bytes":2,"crc32":"00000000","index":"index/train-00000.parquet","index_bytes":1,
        "index_crc32":"00000000"}]}],"skipped":[],"odd":[]}"#;

    #[test]
    fn names_that_leave_the_dataset_are_refused() {
        Manifest::decode("m", PLAIN.as_bytes()).unwrap();
        for name in ["../x.tar", "/etc/passwd", "data//x", "data/./x", ""] {
            let text = PLAIN.replace("data/train-00000.tar", name);
            assert_eq!(
                Manifest::decode("m", text.as_bytes()).unwrap_err().kind(),
                Kind::Damage,
                "{name}"
            );
            let text = PLAIN.replace("\"skipped\"", &format!(r#""indexes":[{{"reader":"wids","name":"{name}","bytes":0,"crc32":"0"}}],"skipped""#));
            assert_eq!(
                Manifest::decode("m", text.as_bytes()).unwrap_err().kind(),
                Kind::Damage,
                "{name}"
            );
        }
    }

    #[test]
    fn a_later_version_is_no_damage() {
        let text = PLAIN.replace(r#""version":1"#, r#""version":2"#);
        let error = Manifest::decode("m", text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), Kind::Failed);
    }

    #[test]
    fn json_that_is_nested_without_end_is_damage() {
        let deep = "[".repeat(100_000);
        assert_eq!(
            Manifest::decode("m", deep.as_bytes()).unwrap_err().kind(),
            Kind::Damage
        );
        let deep = PLAIN.replace(
            "\"seed\":0",
            &format!("\"seed\":{}", "{\"a\":".repeat(100_000)),
        );
        assert_eq!(
            Manifest::decode("m", deep.as_bytes()).unwrap_err().kind(),
            Kind::Damage
        );
    }

    proptest! {
        #[test]
        fn a_changed_manifest_is_damage_or_a_manifest_or_a_later_one(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut text = PLAIN.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(text.len());
                text[at] = byte;
            }
            for text in [&text, &bytes] {
                // One that says it is of a later version is no damage.
                let later = version::MANIFEST.check("m", text).err();
                let expected = later.map_or(Kind::Damage, |later| later.kind());
                if let Err(error) = Manifest::decode("m", text) {
                    prop_assert_eq!(error.kind(), expected);
                }
            }
        }
    }
}
