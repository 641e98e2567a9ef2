//! megatron-energon: `.nv-meta/` at the root and one offset array a shard; the database for access by key is an index of its own.
//!
//! Source: megatron-energon 7.4.1 `flavors/webdataset/{prepare,indexing,itar,metadata}.py`.

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

#[cfg(not(feature = "energon-sqlite"))]
use crate::base::error::Error;
use crate::base::error::Result;
use crate::model::manifest::{Manifest, ShardEntry, SplitEntry};
use crate::model::recipe::Recipe;
use crate::model::record::ShardRecord;
use crate::publish::readers::exporter::{Exporter, NamedFile, Splits};
use crate::publish::readers::facts::{Common, Facts};
use crate::publish::readers::paths::{json, plain_tar};
#[cfg(feature = "energon-sqlite")]
use crate::publish::readers::sqlite;

/// Version of the layout that is written.
const VERSION: &str = "7.4.1";
const DIRECTORY: &str = ".nv-meta";
const INFO: &str = ".nv-meta/.info.json";
const SPLIT: &str = ".nv-meta/split.yaml";
/// What a sample is to a training: people say it otherwise.
const DATASET: &str = ".nv-meta/dataset.yaml";
const DATABASE: &str = ".nv-meta/index.sqlite";
const UUID: &str = ".nv-meta/index.uuid";
/// Memory of a row in the database while it is made: the row, its parts and their places in four indexes.
const ROW_BYTES: u64 = 900;

pub(super) struct Energon;

#[derive(Serialize)]
struct Info<'a> {
    energon_version: &'a str,
    shard_counts: Counts<'a>,
}

/// Samples by shard, in the order of the shards: it numbers them for the database.
struct Counts<'a>(&'a Manifest);

impl Serialize for Counts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0
                .shards()
                .map(|(_, shard)| (&shard.name, shard.samples)),
        )
    }
}

/// What energon's loaders ask for by name.
fn part(split: &str) -> &str {
    match split {
        "training" => "train",
        "validation" | "valid" | "dev" => "val",
        "testing" | "eval" | "evaluation" => "test",
        other => other,
    }
}

/// The shards of a split as a brace range where their numbers allow it.
fn shards(split: &SplitEntry) -> Vec<String> {
    let number =
        |shard: &ShardEntry, at: usize| shard.name == format!("data/{}-{at:05}.tar", split.name);
    let ranged = split
        .shards
        .iter()
        .enumerate()
        .all(|(at, shard)| number(shard, at));
    match split.shards.len() {
        n if ranged && n > 1 => vec![format!("data/{}-{{00000..{:05}}}.tar", split.name, n - 1)],
        _ => split
            .shards
            .iter()
            .map(|shard| shard.name.clone())
            .collect(),
    }
}

/// What energon makes of a sample: the most telling of its types whose fields every sample has.
fn sample_type(facts: &Facts) -> String {
    let images: Vec<&str> = facts.image_fields.iter().map(String::as_str).collect();
    let image = images.join(",");
    let typed = |class: &str, fields: &[(&str, &str)]| {
        let fields = fields.iter();
        let fields: String = fields.map(|(to, of)| format!("  {to}: {of}\n")).collect();
        format!(
            "sample_type:\n  __module__: megatron.energon\n  __class__: {class}\nfield_map:\n{fields}"
        )
    };
    let has = |all: &Common, field: &str| all.fields.contains(field);
    match &facts.all {
        // Its decoder takes `cls` for a number.
        Some(all) if all.image && all.number => typed(
            "ImageClassificationSample",
            &[("image", &image), ("label", "cls")],
        ),
        Some(all) if all.image && has(all, "txt") => {
            typed("CaptioningSample", &[("image", &image), ("caption", "txt")])
        }
        Some(all) if all.image => typed("ImageSample", &[("image", &image)]),
        _ => "__module__: megatron.energon\n__class__: CrudeWebdataset\n".to_owned(),
    }
}

impl Exporter for Energon {
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        plain_tar(recipe, "energon")
    }

    fn shard_file(&self, shard: &str) -> Option<String> {
        Some(format!("{shard}.idx"))
    }

    fn shard(&self, record: &ShardRecord) -> Vec<u8> {
        // What follows the last sample is as long as its writer liked: energon reads members up to here.
        let end = record.samples.last();
        let end = end.map_or(0, |row| row.offset + row.length);
        let offsets = record.samples.iter().map(|row| row.offset).chain([end]);
        offsets.flat_map(u64::to_le_bytes).collect()
    }

    fn directories(&self) -> &'static [&'static str] {
        &[DIRECTORY]
    }

    fn is_for_people(&self, file: &str) -> bool {
        file == DATASET
    }

    fn dataset_files(&self, _: &Recipe, _: &Splits<'_>) -> Vec<String> {
        [INFO, SPLIT, DATASET].map(str::to_owned).into()
    }

    fn dataset(&self, manifest: &Manifest, facts: &Facts) -> Result<Vec<NamedFile>> {
        let info = Info {
            energon_version: VERSION,
            shard_counts: Counts(manifest),
        };

        let mut split = String::from("split_parts:\n");
        let mut parts: Vec<(&str, Vec<String>)> =
            vec![("train", vec![]), ("val", vec![]), ("test", vec![])];
        for entry in &manifest.splits {
            let name = part(&entry.name);
            match parts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.extend(shards(entry)),
                None => parts.push((name, shards(entry))),
            }
        }
        for (name, all) in parts {
            match all.is_empty() {
                true => split.push_str(&format!("  {name}: []\n")),
                false => {
                    split.push_str(&format!("  {name}:\n"));
                    for shard in all {
                        split.push_str(&format!("  - {shard}\n"));
                    }
                }
            }
        }
        split.push_str("exclude: []\n");

        let dataset = sample_type(facts);
        Ok(vec![
            (INFO.to_owned(), json(&info)?),
            (SPLIT.to_owned(), split.into_bytes()),
            (DATASET.to_owned(), dataset.into_bytes()),
        ])
    }
}

/// What a build says that cannot write the database.
const NO_SQLITE: &str =
    "this program was built without SQLite: build it with the feature `energon-sqlite`";

/// The database, which only access by key, mounting and auxiliary data need.
pub(super) struct Sqlite;

impl Exporter for Sqlite {
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        if !cfg!(feature = "energon-sqlite") {
            return Err(NO_SQLITE.to_owned());
        }
        plain_tar(recipe, "energon")
    }

    fn directories(&self) -> &'static [&'static str] {
        &[DIRECTORY]
    }

    fn dataset_files(&self, _: &Recipe, _: &Splits<'_>) -> Vec<String> {
        [DATABASE, UUID].map(str::to_owned).into()
    }

    fn rows(
        &self,
        manifest: &Manifest,
        records: &mut dyn Iterator<Item = Result<ShardRecord>>,
    ) -> Option<Result<Vec<NamedFile>>> {
        #[cfg(feature = "energon-sqlite")]
        let database = sqlite::database(records);
        // Shards that another build described are published again.
        #[cfg(not(feature = "energon-sqlite"))]
        let database: Result<Vec<u8>> = {
            let _ = records;
            Err(Error::usage(format!("{DATABASE}: {NO_SQLITE}")))
        };
        let files = |database| {
            let uuid = uuid(&manifest.plan).into_bytes();
            vec![(DATABASE.to_owned(), database), (UUID.to_owned(), uuid)]
        };
        Some(database.map(files))
    }

    fn rows_bytes(&self, manifest: &Manifest) -> u64 {
        manifest.samples * ROW_BYTES
    }
}

/// A UUID that the same dataset always has, in the form of a random one (RFC 9562, version 8).
fn uuid(plan: &str) -> String {
    let mut bytes: [u8; 16] = std::array::from_fn(|i| Sha256::digest(plan.as_bytes())[i]);
    bytes[6] = bytes[6] & 0x0F | 0x80;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let hex = crate::base::text::hex(&bytes);
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::readers::exporter::vector;

    #[test]
    fn the_published_offsets_come_out_byte_for_byte() {
        let (entry, record) = vector();
        let expected: Vec<u8> = [0u64, 2560, 5120]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        let name = Energon.shard_file(&entry.name);
        assert_eq!(name.as_deref(), Some("data/train-00000.tar.idx"));
        assert_eq!(Energon.shard(&record), expected);
    }

    #[test]
    fn the_offsets_end_with_the_last_sample_however_the_tar_is_padded() {
        let (_, mut record) = vector();
        let plain = Energon.shard(&record);
        record.bytes = 10_240;
        assert_eq!(Energon.shard(&record), plain);
        record.samples.clear();
        assert_eq!(Energon.shard(&record), 0u64.to_le_bytes());
    }

    #[test]
    fn a_sample_type_has_the_fields_that_every_sample_has() {
        let facts = |fields: &[&str], number| Facts {
            image_fields: ["jpg", "png"].map(str::to_owned).into(),
            all: Some(Common {
                fields: fields.iter().map(|name| (*name).to_owned()).collect(),
                image: true,
                number,
            }),
            ..Facts::default()
        };
        let class = |facts: &Facts| {
            let text = sample_type(facts);
            let class = text.split("__class__: ").nth(1).unwrap();
            class.split('\n').next().unwrap().to_owned()
        };
        assert_eq!(
            sample_type(&facts(&["cls", "txt"], true)),
            "sample_type:\n  __module__: megatron.energon\n  __class__: ImageClassificationSample\nfield_map:\n  image: jpg,png\n  label: cls\n"
        );
        assert_eq!(class(&facts(&["txt"], false)), "CaptioningSample");
        assert_eq!(class(&facts(&["cls"], false)), "ImageSample");
        assert_eq!(class(&Facts::default()), "CrudeWebdataset");
    }

    #[test]
    fn a_dataset_has_one_uuid_for_ever() {
        let text = uuid("plan");
        assert_eq!(text, uuid("plan"));
        assert_ne!(text, uuid("other"));
        assert_eq!((text.len(), text.matches('-').count()), (36, 4));
    }
}
