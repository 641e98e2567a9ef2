//! Reader indexes: finished shards described to one reader each, from their records alone.
//!
//! A new index is one new file and one line in [`EXPORTERS`]. Nothing here reads a shard.

mod dali;
mod energon;
mod free;
mod openclip;
mod tfds;
mod tfrecord;
mod timm;
mod wids;

use std::collections::{BTreeSet, HashSet};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::base::image::{ImageFormat, image_field};
use crate::model::manifest::{IndexFile, Manifest, ShardEntry};
use crate::model::recipe::{Compression, Format, Recipe};
use crate::model::record::{FieldRecord, NO_LABEL, SampleRecord, ShardRecord};
use crate::plan::draft::Plan;
use crate::state::published;
use crate::store::{Sink, at_once};

pub use free::{Described, Splits, in_the_way, refuse, splits};

/// The indexes there are, under the names of `--index`.
const EXPORTERS: [(&str, &dyn Exporter); 8] = [
    ("dali", &dali::Dali),
    ("energon", &energon::Energon),
    ("energon-sqlite", &energon::Sqlite),
    ("openclip", &openclip::OpenClip),
    ("tfds", &tfds::Tfds),
    ("tfrecord", &tfrecord::TfIndex),
    ("timm", &timm::Timm),
    ("wids", &wids::Wids),
];

/// Shards whose records are held at once at most.
const SHARDS: usize = 4;

/// A file to be written: its name below the destination, and its content.
pub type File = (String, Vec<u8>);

/// What the records of all shards have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Names of the fields that hold images.
    pub image_fields: BTreeSet<String>,
    /// Formats of the images, where they were looked at.
    pub image_formats: BTreeSet<&'static str>,
    /// What every sample has; `None` where there are no samples.
    pub all: Option<Common>,
}

/// What every sample has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// Names of fields.
    pub fields: BTreeSet<String>,
    /// Whether each has an image.
    pub image: bool,
    /// Whether the `cls` of each is its label as a decimal number.
    pub number: bool,
}

impl Common {
    fn of(row: &SampleRecord) -> Self {
        let field = |row: &FieldRecord| row.name.clone();
        Self {
            fields: row.fields.iter().map(field).collect(),
            image: row.fields.iter().any(is_image),
            number: has_number(row),
        }
    }

    fn narrow(&mut self, row: &SampleRecord) {
        let has = |name: &String| row.fields.iter().any(|field| field.name == *name);
        self.fields.retain(has);
        self.image &= row.fields.iter().any(is_image);
        self.number &= has_number(row);
    }

    fn join(&mut self, other: &Common) {
        self.fields.retain(|name| other.fields.contains(name));
        self.image &= other.image;
        self.number &= other.number;
    }
}

fn is_image(field: &FieldRecord) -> bool {
    image_field(field.name.as_bytes()).is_some()
}

/// Whether `cls` holds the label as a number: what it holds is known by its checksum.
fn has_number(row: &SampleRecord) -> bool {
    let number = row.label.to_string();
    let is = |field: &&FieldRecord| {
        let bytes = number.as_bytes();
        field.crc32 == crc32fast::hash(bytes)
            || field.crc32 == crc32fast::hash(&[bytes, b"\n"].concat())
    };
    let cls = row.fields.iter().find(|field| field.name == "cls");
    row.label != NO_LABEL && cls.as_ref().is_some_and(is)
}

impl Facts {
    fn of(record: &ShardRecord) -> Self {
        let mut facts = Facts::default();
        for row in &record.samples {
            match &mut facts.all {
                Some(all) => all.narrow(row),
                all => *all = Some(Common::of(row)),
            }
            facts
                .image_formats
                .extend(row.image.map(|image| ImageFormat::name(image.format)));
            let image = row.fields.iter().find(|field| is_image(field));
            if let Some(field) = image
                && !facts.image_fields.contains(&field.name)
            {
                facts.image_fields.insert(field.name.clone());
            }
        }
        facts
    }

    fn join(&mut self, other: Facts) {
        self.image_fields.extend(other.image_fields);
        self.image_formats.extend(other.image_formats);
        match (&mut self.all, other.all) {
            (Some(all), Some(other)) => all.join(&other),
            (Some(_), None) => {}
            (all, other) => *all = other,
        }
    }
}

/// Describes finished shards to one reader.
pub trait Exporter: Send + Sync {
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
    fn dataset(&self, _manifest: &Manifest, _facts: &Facts) -> Result<Vec<File>> {
        Ok(Vec::new())
    }
    /// Files that take every row of every shard, which `records` gives in order; `None` for an index that does not.
    fn rows(
        &self,
        _manifest: &Manifest,
        _records: &mut dyn Iterator<Item = Result<ShardRecord>>,
    ) -> Option<Result<Vec<File>>> {
        None
    }
    /// Memory that [`Exporter::rows`] takes for this dataset.
    fn rows_bytes(&self, _manifest: &Manifest) -> u64 {
        0
    }
}

/// The names of `--index`.
pub fn names() -> impl Iterator<Item = &'static str> {
    EXPORTERS.iter().map(|(name, _)| *name)
}

/// Names of all files that can describe the shard of this name alone.
pub fn shard_files(shard: &str) -> impl Iterator<Item = String> {
    EXPORTERS
        .iter()
        .filter_map(move |(_, exporter)| exporter.shard_file(shard))
}

/// Directories that indexes have for themselves, each once.
pub fn directories() -> Vec<&'static str> {
    let mut found = Vec::new();
    for (_, exporter) in EXPORTERS {
        for directory in exporter.directories() {
            if !found.contains(directory) {
                found.push(*directory);
            }
        }
    }
    found
}

fn exporter(name: &str) -> Result<&'static dyn Exporter> {
    let known = EXPORTERS.iter().find(|(known, _)| *known == name);
    known.map(|(_, exporter)| *exporter).ok_or_else(|| {
        let names: Vec<_> = names().collect();
        Error::usage(format!(
            "--index `{name}`: unknown: choose from {}",
            names.join(", ")
        ))
    })
}

/// Refuses, before any work, an index that cannot describe shards of this recipe.
pub fn check(name: &str, recipe: &Recipe) -> Result<()> {
    exporter(name)?
        .check(recipe)
        .map_err(|why| Error::usage(format!("--index {name}: {why}")))
}

/// Refuses, before any work, an index that cannot describe shards of these names, all of a split in order.
pub fn check_names(name: &str, split: &str, shards: &[&str]) -> Result<()> {
    exporter(name)?
        .check_names(split, shards)
        .map_err(|why| Error::usage(format!("--index {name}: {why}")))
}

/// Refuses, before any work, names that a reader index which the dataset has cannot describe.
pub fn check_plan(manifest: &Manifest, plan: &Plan) -> Result<()> {
    let names = plan.dataset();
    for reader in manifest.readers() {
        for (split, names) in &names {
            check_names(&reader, split, names)?;
        }
    }
    Ok(())
}

/// Plain tar, which these readers map into memory or seek in.
fn plain_tar(recipe: &Recipe, reader: &str) -> Result<(), String> {
    match (recipe.format, recipe.compress) {
        (Format::WebDataset, Compression::None) => Ok(()),
        (Format::WebDataset, _) => Err(format!(
            "{reader} reads plain tar only: drop `--compress` or drop this index"
        )),
        _ => Err(format!(
            "{reader} reads WebDataset tar: use `--format wds` or drop this index"
        )),
    }
}

/// The last part of a name.
fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The directory of a name, with its slash; nothing for a name at the root.
fn directory(name: &str) -> &str {
    name.rsplit_once('/')
        .map_or("", |(dir, _)| &name[..dir.len() + 1])
}

/// The deepest directory that all these shards lie in or below, with its slash; nothing for the root.
fn common_directory<'a>(splits: &Splits<'a>) -> &'a str {
    let mut names = splits.values().flatten().copied();
    let first = names.next().map_or("", directory);
    names.fold(first, |mut common, name| {
        while !name.starts_with(common) {
            common = directory(common.trim_end_matches('/'));
        }
        common
    })
}

/// A shard's name without the extension that its readers replace by their own. Of a name that ends otherwise, as
/// `x.tfrecord-00000-of-00002`, all of it: the shards of a dataset would else share one file.
fn stem(shard: &str) -> &str {
    let extension = |known| shard.strip_suffix(known);
    extension(".tar")
        .or_else(|| extension(".tfrecord"))
        .unwrap_or(shard)
}

/// JSON as these files have it: indented, with a newline at the end.
fn json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|error| Error::failed(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

/// The record of a published shard.
fn record(sink: &dyn Sink, shard: &ShardEntry) -> Result<ShardRecord> {
    let file = published::read_index(shard, sink)?.ok_or_else(|| {
        Error::new(
            Kind::Damage,
            format!(
                "{sink}/{}: missing: run `shardpack verify {sink}`",
                shard.index
            ),
        )
    })?;
    ShardRecord::decode(&shard.index, &file)
}

/// Reader indexes of a manifest.
#[derive(Debug, Default)]
pub struct Exported {
    /// What the manifest is to say of them, sorted.
    pub entries: Vec<IndexFile>,
    /// Those that describe the whole dataset, which are not written yet: every snapshot has its own under the same names.
    pub of_dataset: Vec<File>,
}

/// Makes the indexes of these names for the shards of a manifest, and writes those that describe one shard: what lies under such a
/// name is always the same.
///
/// An index that holds every row in memory is refused when that is more than `memory`.
pub fn export(
    sink: &dyn Sink,
    manifest: &Manifest,
    names: &[String],
    memory: u64,
) -> Result<Exported> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let exporters = exporters(manifest, &names, memory)?;
    let (entries, facts) = of_records(sink, manifest, &exporters, |reader, file| {
        sink.put(&file.0, &file.1)?;
        Ok(entry(reader, &file))
    })?;
    let mut exported = Exported {
        entries,
        of_dataset: Vec::new(),
    };
    for (reader, exporter) in &exporters {
        for file in whole(sink, manifest, *exporter, &facts)? {
            exported.entries.push(entry(reader, &file));
            exported.of_dataset.push(file);
        }
    }
    exported.entries.sort();
    Ok(exported)
}

/// Makes these files of a manifest's indexes again, and writes none. What cannot be made is not among them.
///
/// An index that holds every row in memory is refused when that is more than `memory`.
pub fn export_again(
    sink: &dyn Sink,
    manifest: &Manifest,
    files: &[&IndexFile],
    memory: u64,
) -> Result<Vec<File>> {
    let wanted: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let readers: BTreeSet<&str> = files.iter().map(|file| file.reader.as_str()).collect();
    let readers: Vec<&str> = readers.into_iter().collect();
    let exporters = exporters(manifest, &readers, memory)?;
    let (of_shards, facts) = of_records(sink, manifest, &exporters, |_, file| {
        Ok(wanted.contains(file.0.as_str()).then_some(file))
    })?;
    let mut made: Vec<File> = of_shards.into_iter().flatten().collect();
    for (_, exporter) in &exporters {
        made.extend(whole(sink, manifest, *exporter, &facts)?);
    }
    made.retain(|(name, _)| wanted.contains(name.as_str()));
    Ok(made)
}

type Named<'n> = (&'n str, &'static dyn Exporter);

/// The exporters of these names, if they can describe this and have the memory for it.
fn exporters<'n>(manifest: &Manifest, names: &[&'n str], memory: u64) -> Result<Vec<Named<'n>>> {
    let named = |name: &&'n str| {
        check(name, &manifest.recipe)?;
        let exporter = exporter(name)?;
        let needed = exporter.rows_bytes(manifest);
        if needed > memory {
            return Err(Error::usage(format!(
                "--index {name} takes {} MiB for {} samples: raise `--memory` to that, or drop it",
                needed.div_ceil(1 << 20),
                manifest.samples
            )));
        }
        Ok((*name, exporter))
    };
    names.iter().map(named).collect()
}

fn entry(reader: &str, (name, content): &File) -> IndexFile {
    IndexFile {
        reader: reader.to_owned(),
        name: name.clone(),
        bytes: content.len() as u64,
        crc32: crc_text(crc32fast::hash(content)),
    }
}

/// What `take` makes of the files that describe one shard each, and what all records have in common.
fn of_records<T: Send>(
    sink: &dyn Sink,
    manifest: &Manifest,
    exporters: &[Named<'_>],
    take: impl Fn(&str, File) -> Result<T> + Sync,
) -> Result<(Vec<T>, Facts)> {
    let mut facts = Facts::default();
    if exporters.is_empty() {
        return Ok((Vec::new(), facts));
    }
    let shards: Vec<&ShardEntry> = manifest.shards().map(|(_, shard)| shard).collect();
    let described = at_once(SHARDS, &shards, |shard| {
        let record = record(sink, shard)?;
        let mut taken = Vec::new();
        for (reader, exporter) in exporters {
            if let Some(name) = exporter.shard_file(&shard.name) {
                taken.push(take(reader, (name, exporter.shard(&record)))?);
            }
        }
        Ok((taken, Facts::of(&record)))
    })?;
    let mut all = Vec::new();
    for (taken, seen) in described {
        all.extend(taken);
        facts.join(seen);
    }
    Ok((all, facts))
}

/// The files of an index that describe the whole dataset.
fn whole(
    sink: &dyn Sink,
    manifest: &Manifest,
    exporter: &dyn Exporter,
    facts: &Facts,
) -> Result<Vec<File>> {
    let mut records = manifest.shards().map(|(_, shard)| record(sink, shard));
    let rows = exporter.rows(manifest, &mut records).transpose()?;
    let mut files = rows.unwrap_or_default();
    files.extend(exporter.dataset(manifest, facts)?);
    Ok(files)
}

/// Reader indexes of a manifest that describe one shard each, and have names that nothing else ever has.
pub fn of_shards(manifest: &Manifest) -> Vec<&IndexFile> {
    let names = names_of_shards(manifest);
    let files = manifest.indexes.iter();
    files.filter(|file| names.contains(&file.name)).collect()
}

/// Those that describe the whole dataset, of kinds that this version knows.
pub fn of_dataset(manifest: &Manifest) -> Vec<&IndexFile> {
    let names = names_of_shards(manifest);
    let known = |file: &&IndexFile| exporter(&file.reader).is_ok() && !names.contains(&file.name);
    manifest.indexes.iter().filter(known).collect()
}

fn names_of_shards(manifest: &Manifest) -> HashSet<String> {
    let readers: BTreeSet<&str> = manifest
        .indexes
        .iter()
        .map(|file| file.reader.as_str())
        .collect();
    let exporters: Vec<_> = readers.into_iter().flat_map(exporter).collect();
    let shards = manifest.shards();
    shards
        .flat_map(|(_, shard)| exporters.iter().filter_map(|e| e.shard_file(&shard.name)))
        .collect()
}

/// Whether people complete this file, so that what they wrote stays.
pub fn is_for_people(file: &IndexFile) -> bool {
    exporter(&file.reader).is_ok_and(|exporter| exporter.is_for_people(&file.name))
}

/// The published test vector of a tar of two samples, as a record.
#[cfg(test)]
fn vector() -> (ShardEntry, ShardRecord) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let text = r#"{"kind":"shardpack-manifest","version":1,"name":"x","snapshot":1,"plan":"0","recipe":{"name":"x","format":"wds",
            "order":"listed","seed":0,"cut":{"shards":1},"json":false,"sha256":false,"validate":"header","splits":[],"include":[],
            "exclude":[],"labels":false,"allow_empty":false},"samples":0,"bytes":0,"classes":[],"splits":[{"name":"train","samples":0,
            "bytes":0,"shards":[]}],"skipped":[],"odd":[]}"#;
        Manifest::decode("m", text.as_bytes()).unwrap()
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        for name in names() {
            exporter(name).unwrap();
        }
        let Err(error) = exporter("litdata") else {
            panic!("found")
        };
        assert!(
            error.to_string().contains("choose from dali, energon"),
            "{error}"
        );
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(base("data/train-00000.tar"), "train-00000.tar");
        assert_eq!(directory("data/train-00000.tar"), "data/");
        assert_eq!(directory("train-00000.tar"), "");
        assert_eq!(stem("data/train-00000.tar"), "data/train-00000");
        let numbered = "x.tfrecord-00000-of-00002";
        assert_eq!(stem(numbered), numbered);
        assert_eq!(stem("x.tfrecords"), "x.tfrecords");
    }

    #[test]
    fn the_directory_of_all_shards_is_the_deepest_that_they_share() {
        let of = |names: &[&str]| {
            let mut manifest = manifest();
            let (entry, _) = vector();
            let named = |name: &&str| ShardEntry {
                name: (*name).to_owned(),
                ..entry.clone()
            };
            manifest.splits[0].shards = names.iter().map(named).collect();
            common_directory(&splits(&manifest)).to_owned()
        };
        assert_eq!(of(&["data/a.tar", "data/b.tar"]), "data/");
        assert_eq!(of(&["a/train/0.tar", "a/val/0.tar"]), "a/");
        assert_eq!(of(&["train/0.tar", "val/0.tar"]), "");
        assert_eq!(of(&["ab/0.tar", "a/0.tar"]), "");
        assert_eq!(of(&["0.tar", "a/0.tar"]), "");
    }
}
