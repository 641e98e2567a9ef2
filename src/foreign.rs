//! Shards that somebody else made get records and a manifest, so that every verb works on them.
//!
//! Nothing is written to a shard. What can be told of a sample is what its shard says: fields, labels where there are some, the
//! image's header. The manifest's recipe says `foreign`: such shards are checked by walking them again, not by packing.

use std::collections::BTreeMap;
use std::io::Read;

use sha2::{Digest as _, Sha256};

use crate::checksum::crc_text;
use crate::compress::{Raw, unpack};
use crate::error::{Error, Kind, Result};
use crate::format::{Finding, Visit};
use crate::manifest::{MANIFEST_KIND, Manifest, STATE, ShardEntry, SplitEntry};
use crate::progress::Counters;
use crate::recipe::{Compression, Cut, Format, Missing, Names, Order, Recipe};
use crate::record::{NO_LABEL, SampleRecord, ShardRecord};
use crate::sample::hex;
use crate::scan::{ONLY_SPLIT, SPLIT_NAMES};
use crate::signal::Stop;
use crate::store::{Sink, at_once};

/// Labels beyond this are taken for damage, not for classes.
const MAX_CLASSES: u32 = 1_000_000;

/// A shard of somebody else: its name, its length, and how it is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignShard {
    /// Name below the destination.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its layout, by its name.
    pub format: Format,
    /// Its compression, by its name.
    pub compress: Compression,
}

impl ForeignShard {
    /// Walks it, however much it unpacks to.
    pub fn walk(&self, reader: impl Read + Send) -> Result<Walked> {
        walk(&self.name, self.format, self.compress, reader, u64::MAX - 1)
    }
}

/// How a file of this name is to be read; `None` if it is no shard.
fn kind(name: &str) -> Option<(Format, Compression)> {
    let zstd = Compression::Zstd {
        level: 3,
        seekable: false,
    };
    let gzip = Compression::Gzip { level: 6 };
    let known = [
        (".tar", Format::WebDataset, Compression::None),
        (".tar.gz", Format::WebDataset, gzip),
        (".tgz", Format::WebDataset, gzip),
        (".tar.zst", Format::WebDataset, zstd),
        (".tfrecord", Format::TfRecord, Compression::None),
        (".tfrecords", Format::TfRecord, Compression::None),
        (".tfrecord.gz", Format::TfRecord, gzip),
        (".tfrecord.zst", Format::TfRecord, zstd),
    ];
    let by_suffix = known.iter().find(|(suffix, ..)| name.ends_with(suffix));
    if let Some((_, format, compress)) = by_suffix {
        return Some((*format, *compress));
    }
    // `train-00000-of-01024`, as TensorFlow's own tools name shards, with or without something before the numbers.
    let (stem, total) = name.rsplit_once("-of-")?;
    let digits = |text: &str| text.len() >= 5 && text.bytes().all(|b| b.is_ascii_digit());
    let (_, number) = stem.rsplit_once('-')?;
    let numbered = digits(total) && digits(number);
    numbered.then_some((Format::TfRecord, Compression::None))
}

/// Whether a file of this name is a shard, as far as names tell.
pub fn is_shard(name: &str) -> bool {
    kind(name).is_some()
}

/// The shards in a directory that has no manifest, sorted by name.
pub fn shards(sink: &dyn Sink) -> Result<Vec<ForeignShard>> {
    let shard = |(name, bytes): (String, u64)| {
        let (format, compress) = kind(&name)?;
        Some(ForeignShard {
            name,
            bytes,
            format,
            compress,
        })
    };
    Ok(sink.list("")?.into_iter().filter_map(shard).collect())
}

/// The split that a shard's name speaks of.
fn split(name: &str) -> &str {
    let words = name.split(|c: char| !c.is_ascii_alphabetic());
    let mut known = words.filter(|word| SPLIT_NAMES.contains(word));
    // The last one: a directory may be called anything.
    known.next_back().unwrap_or(ONLY_SPLIT)
}

/// What was seen in a shard.
#[derive(Debug, Default)]
pub struct Walked {
    /// The samples, in shard order.
    pub rows: Vec<SampleRecord>,
    /// Class names by label, where shards say them.
    pub classes: BTreeMap<u32, String>,
    /// Damage.
    pub found: Vec<Finding>,
    /// What some readers cannot take.
    pub noted: Vec<Finding>,
    /// Length and CRC-32 of the shard as it lies in the store.
    pub bytes: (u64, u32),
    /// Length unpacked.
    pub unpacked_bytes: u64,
}

impl Visit for Walked {
    fn sample(&mut self, row: SampleRecord, class: Option<String>) {
        if let Some(class) = class
            && row.label != NO_LABEL
        {
            self.classes.entry(row.label).or_insert(class);
        }
        self.rows.push(row);
    }

    fn found(&mut self, finding: Finding) {
        self.found.push(finding);
    }

    fn noted(&mut self, finding: Finding) {
        // One deviation of a kind is enough to know of it.
        if !self.noted.iter().any(|known| known.what == finding.what) {
            self.noted.push(finding);
        }
    }
}

/// Counts what a decompressor gives.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.bytes += n as u64;
        Ok(n)
    }
}

/// Walks the shard `name` of this layout and compression. `most` bounds what it unpacks to; what it says of itself is not believed.
pub fn walk(
    name: &str,
    format: Format,
    compress: Compression,
    reader: impl Read + Send,
    most: u64,
) -> Result<Walked> {
    let failed = |error: std::io::Error| Error::io(name, error);
    let raw = Raw::new(reader);
    let mut walked = Walked::default();
    let mut unpacked = Counted {
        inner: unpack(compress, raw.clone(), most)?,
        bytes: 0,
    };
    let layout = recipe(format, compress, Cut::Shards(1)).layout();
    let walk = layout
        .walk(name, &mut unpacked, &mut walked)
        .and_then(|()| std::io::copy(&mut unpacked, &mut std::io::sink()));
    walked.unpacked_bytes = unpacked.bytes;
    drop(unpacked.inner);
    match walk {
        Err(error) if raw.failed() || compress == Compression::None => {
            return Err(failed(error));
        }
        Err(error) => {
            let what = format!(
                "cannot be unpacked beyond byte {} of its content: {error}",
                walked.unpacked_bytes
            );
            walked.found.push(Finding::new(name, what));
        }
        Ok(_) => {}
    }
    if walked.unpacked_bytes > most {
        let what = format!("unpacks to more than {most} bytes");
        walked.found.push(Finding::new(name, what));
    }
    walked.bytes = raw.drain().map_err(failed)?;
    Ok(walked)
}

/// What is known of how shards were made: their layout, and nothing else.
fn recipe(format: Format, compress: Compression, cut: Cut) -> Recipe {
    Recipe {
        name: "dataset".to_owned(),
        format,
        foreign: true,
        compress,
        missing: Missing::Keep,
        order: Order::Listed,
        cut,
        allow_empty: true,
        ..Recipe::default()
    }
}

/// Index names by shard: after the file alone where that is enough, after the whole path where two files have one name.
fn index_names(shards: &[ForeignShard]) -> Vec<String> {
    let plain: Vec<String> = shards
        .iter()
        .map(|shard| crate::record::index_name(&shard.name))
        .collect();
    let unique: std::collections::HashSet<&String> = plain.iter().collect();
    if unique.len() == plain.len() {
        return plain;
    }
    let whole = |shard: &ForeignShard| format!("index/{}.parquet", shard.name.replace('/', "--"));
    shards.iter().map(whole).collect()
}

/// What the manifest needs to know of a shard whose index is written.
struct Adopted {
    entry: ShardEntry,
    classes: BTreeMap<u32, String>,
    /// One more than its largest label.
    labels: u32,
    found: Vec<Finding>,
    noted: Vec<Finding>,
}

/// Walks all shards of a directory and writes their indexes; gives the manifest that names them, not yet committed.
///
/// Damage is an error that names it all, and there is no manifest then.
pub fn adopt(
    sink: &dyn Sink,
    shards: &[ForeignShard],
    jobs: usize,
    counters: &Counters,
    stop: &Stop,
) -> Result<Manifest> {
    let Some(first) = shards.first() else {
        return Err(Error::failed(format!(
            "{sink}: no tars and no TFRecords: give a directory that holds some"
        )));
    };
    let other =
        |shard: &&ForeignShard| (shard.format, shard.compress) != (first.format, first.compress);
    if let Some(other) = shards.iter().find(other) {
        return Err(Error::usage(format!(
            "{sink} holds shards of two kinds, {} and {}: move one kind elsewhere",
            first.name, other.name
        )));
    }
    let recipe = recipe(
        first.format,
        first.compress,
        Cut::Shards(shards.len() as u64),
    );
    let listing: Vec<_> = shards
        .iter()
        .map(|shard| (&shard.name, shard.bytes))
        .collect();
    // Strings and numbers always serialise.
    let plan = hex(&Sha256::digest(
        serde_json::to_vec(&listing).unwrap_or_default(),
    ));
    let indexes = index_names(shards);
    let sum = shards.iter().map(|shard| shard.bytes).sum();
    counters.begin("index", 0, sum, shards.len() as u64);
    let work: Vec<(&ForeignShard, &String)> = shards.iter().zip(&indexes).collect();
    let adopted = at_once(jobs, &work, |(shard, index)| {
        stop.check()?;
        let walked = shard.walk(sink.open(&shard.name)?)?;
        counters.read(walked.bytes.0);
        counters.shard(&shard.name, shard.bytes, walked.rows.len() as u64);
        adopt_one(sink, shard, index, &plan, walked)
    })?;
    let found: Vec<String> = adopted
        .iter()
        .flat_map(|adopted| &adopted.found)
        .map(|finding| format!("\n  {finding}"))
        .collect();
    if !found.is_empty() {
        let found = found.concat();
        let what = format!("{sink}: shards are damaged, there is no manifest of them{found}");
        return Err(Error::new(Kind::Damage, what));
    }
    for note in adopted.iter().flat_map(|adopted| &adopted.noted) {
        tracing::warn!("{note}");
    }
    let classes = classes(&adopted);
    let mut splits: BTreeMap<&str, SplitEntry> = BTreeMap::new();
    for (shard, Adopted { entry, .. }) in shards.iter().zip(adopted) {
        let name = split(&shard.name);
        let split = splits.entry(name).or_insert_with(|| SplitEntry {
            name: name.to_owned(),
            samples: 0,
            bytes: 0,
            shards: Vec::new(),
        });
        split.samples += entry.samples;
        split.bytes += entry.bytes;
        split.shards.push(entry);
    }
    let splits: Vec<SplitEntry> = splits.into_values().collect();
    Ok(Manifest {
        kind: MANIFEST_KIND.to_owned(),
        version: 1,
        name: recipe.name.clone(),
        snapshot: 1,
        plan,
        recipe,
        samples: splits.iter().map(|split| split.samples).sum(),
        bytes: splits.iter().map(|split| split.bytes).sum(),
        names: Names {
            classes,
            ..Names::default()
        },
        splits,
        indexes: Vec::new(),
        skipped: Vec::new(),
        odd: Vec::new(),
    })
}

/// The record of a walked shard, class names for it, and one more than its largest label.
fn record_of(
    shard: &str,
    compress: Compression,
    plan: &str,
    walked: &mut Walked,
) -> (ShardRecord, Vec<String>, u32) {
    let mut labels = 0;
    for row in &mut walked.rows {
        if row.label < MAX_CLASSES {
            labels = labels.max(row.label + 1);
        } else {
            row.label = NO_LABEL;
        }
    }
    let name = |label: u32| {
        let said = walked.classes.get(&label).cloned();
        said.unwrap_or_else(|| label.to_string())
    };
    let names = (0..labels).map(name).collect();
    let record = ShardRecord {
        split: split(shard).to_owned(),
        plan: plan.to_owned(),
        bytes: walked.bytes.0,
        crc32: walked.bytes.1,
        unpacked_bytes: (compress != Compression::None).then_some(walked.unpacked_bytes),
        samples: std::mem::take(&mut walked.rows),
        ..ShardRecord::empty(shard)
    };
    (record, names, labels)
}

/// The index file of a published shard, made again from the shard; `None` if that is damaged.
pub fn index_of(
    sink: &dyn Sink,
    manifest: &Manifest,
    shard: &ShardEntry,
) -> Result<Option<Vec<u8>>> {
    let (format, compress) = (manifest.recipe.format, manifest.recipe.compress);
    let most = shard.unpacked_bytes.unwrap_or(shard.bytes);
    let reader = sink.open(&shard.name)?;
    let mut walked = walk(&shard.name, format, compress, reader, most)?;
    if !walked.found.is_empty() {
        return Ok(None);
    }
    let (record, names, _) = record_of(&shard.name, compress, &manifest.plan, &mut walked);
    record.encode(&names).map(Some)
}

/// Writes the index of one shard, unless the shard is damaged.
fn adopt_one(
    sink: &dyn Sink,
    shard: &ForeignShard,
    index: &str,
    plan: &str,
    mut walked: Walked,
) -> Result<Adopted> {
    let (record, names, labels) = record_of(&shard.name, shard.compress, plan, &mut walked);
    let file = record.encode(&names)?;
    if walked.found.is_empty() {
        sink.put(index, &file)?;
    }
    Ok(Adopted {
        entry: ShardEntry {
            name: shard.name.clone(),
            samples: record.samples.len() as u64,
            bytes: record.bytes,
            unpacked_bytes: record.unpacked_bytes,
            crc32: crc_text(record.crc32),
            sha256: None,
            index: index.to_owned(),
            index_bytes: file.len() as u64,
            index_crc32: crc_text(crc32fast::hash(&file)),
            plan: None,
        },
        classes: walked.classes,
        labels,
        found: walked.found,
        noted: walked.noted,
    })
}

/// The names of all labels there are: those that shards say, and the number where they say none.
fn classes(adopted: &[Adopted]) -> Vec<String> {
    let count = adopted
        .iter()
        .map(|adopted| adopted.labels)
        .max()
        .unwrap_or(0);
    let mut said = BTreeMap::new();
    for (label, class) in adopted.iter().flat_map(|adopted| &adopted.classes) {
        said.entry(*label).or_insert(class);
    }
    let name = |label: u32| {
        said.get(&label)
            .map_or_else(|| label.to_string(), |class| (*class).clone())
    };
    let names: Vec<String> = (0..count).map(name).collect();
    // Two labels of one name cannot be told apart by it.
    let unique: std::collections::HashSet<&String> = names.iter().collect();
    match unique.len() == names.len() {
        true => names,
        false => (0..count).map(|label| label.to_string()).collect(),
    }
}

/// Refuses a directory that a run of ours began to fill.
pub fn check_foreign(sink: &dyn Sink) -> Result<()> {
    match sink.list(STATE)?.is_empty() {
        true => Ok(()),
        false => Manifest::require(sink).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_known_by_their_names() {
        let plain = Compression::None;
        assert_eq!(
            kind("a/train-000000.tar"),
            Some((Format::WebDataset, plain))
        );
        assert_eq!(
            kind("train-00000-of-01024"),
            Some((Format::TfRecord, plain))
        );
        assert_eq!(
            kind("x-train.tfrecord-00000-of-00016"),
            Some((Format::TfRecord, plain))
        );
        assert!(matches!(
            kind("x.tar.gz"),
            Some((_, Compression::Gzip { .. }))
        ));
        for name in ["x.json", "one-of-01024", "train-1-of-2", "x.tar.idx"] {
            assert_eq!(kind(name), None, "{name}");
        }
    }

    #[test]
    fn splits_are_known_by_their_names() {
        assert_eq!(split("data/train-000000.tar"), "train");
        assert_eq!(split("train/x-val-0.tar"), "val");
        assert_eq!(split("00000.tar"), ONLY_SPLIT);
    }

    #[test]
    fn index_names_differ_where_shards_do() {
        let shard = |name: &str| ForeignShard {
            name: name.to_owned(),
            bytes: 0,
            format: Format::WebDataset,
            compress: Compression::None,
        };
        let names = index_names(&[shard("a/0.tar"), shard("b/1.tar")]);
        assert_eq!(names, ["index/0.parquet", "index/1.parquet"]);
        let names = index_names(&[shard("a/0.tar"), shard("b/0.tar")]);
        assert_eq!(names, ["index/a--0.tar.parquet", "index/b--0.tar.parquet"]);
    }
}
