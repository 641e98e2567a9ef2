//! Numbers and names of classes in shards of others.
//!
//! A shard says numbers (`cls`, `label`), with or without names beside them, or names alone. Names alone are numbered in their order
//! over the whole dataset, or by the list of labels that TFDS keeps beside its shards. What contradicts itself is refused.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::model::recipe::Format;
use crate::model::record::{NO_LABEL, SampleRecord, ShardRecord};
use crate::store::Sink;
use crate::upkeep::adopt::kind::ForeignShard;
use crate::upkeep::adopt::walk::{MAX_CLASSES, Walked};

/// Lists of labels that TFDS keeps, for the features that are looked at.
const LISTS: [&str; 2] = ["label.labels.txt", "image.class.label.labels.txt"];

/// What a shard says of its classes. Shards of a shuffled dataset all say the same, and share it.
#[derive(Debug)]
pub(super) struct ShardLabels {
    /// Names by number.
    classes: Arc<BTreeMap<u32, String>>,
    /// Names of samples that have no number, sorted.
    pub(super) named: Arc<Vec<String>>,
    /// Keys of a sample that has a number, and of one that has a name instead.
    examples: (Option<String>, Option<String>),
    /// One more than its largest label.
    labels: u32,
    /// Samples in it, and those of them without a label.
    samples: (u64, u64),
}

/// How the labels of a dataset are named.
#[derive(Debug, Default)]
pub(super) struct DatasetLabels {
    /// A list of labels and its name, where one lies beside the shards.
    list: Option<(String, Vec<String>)>,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    classes: HashSet<Arc<BTreeMap<u32, String>>>,
    named: HashSet<Arc<Vec<String>>>,
}

impl DatasetLabels {
    /// Looks for a list of labels beside the first shard, and at the root.
    pub(super) fn read(sink: &dyn Sink, first: &ForeignShard) -> Result<Self> {
        let mut labels = Self::default();
        if first.format != Format::TfRecord {
            return Ok(labels);
        }
        let dir = first
            .name
            .rsplit_once('/')
            .map(|(dir, _)| format!("{dir}/"));
        for dir in dir.into_iter().chain([String::new()]) {
            for list in LISTS {
                let name = format!("{dir}{list}");
                if let Some(text) = sink.get(&name)? {
                    let names = text.strip_suffix(b"\n").unwrap_or(&text);
                    let names = names.split(|&byte| byte == b'\n').map(show).collect();
                    labels.list = Some((name, names));
                    return Ok(labels);
                }
            }
        }
        Ok(labels)
    }

    /// Names by label, where they are known before any shard is read.
    pub(super) fn known(&self) -> &[String] {
        self.list.as_ref().map_or(&[], |(_, names)| names)
    }

    /// Keeps what a walked shard says, whose record this is.
    pub(super) fn of_shard(&self, walked: Walked, record: &ShardRecord) -> ShardLabels {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        fn share<T: Eq + std::hash::Hash>(known: &mut HashSet<Arc<T>>, value: T) -> Arc<T> {
            if let Some(known) = known.get(&value) {
                return Arc::clone(known);
            }
            let value = Arc::new(value);
            known.insert(Arc::clone(&value));
            value
        }
        let rows = &record.samples;
        let labels = rows.iter().map(|row| row.label);
        let labelled = labels.filter(|&label| label != NO_LABEL);
        let number = labelled.clone().count();
        ShardLabels {
            classes: share(&mut shared.classes, walked.classes),
            named: share(&mut shared.named, walked.named),
            examples: walked.examples,
            labels: labelled.max().map_or(0, |label| label + 1),
            samples: (rows.len() as u64, (rows.len() - number) as u64),
        }
    }

    /// The names of all classes by label, from what all shards say. What was made of it is said.
    pub(super) fn classes(
        &self,
        sink: &dyn Sink,
        shards: &[&str],
        said: &[&ShardLabels],
    ) -> Result<Vec<String>> {
        fn first<'a>(
            shards: &[&'a str],
            said: &[&'a ShardLabels],
            of: fn(&ShardLabels) -> Option<&String>,
        ) -> Option<(&'a str, &'a String)> {
            let mut found = shards.iter().zip(said);
            found.find_map(|(shard, said)| Some((*shard, of(said)?)))
        }
        let number = first(shards, said, |said| said.examples.0.as_ref());
        let name = first(shards, said, |said| said.examples.1.as_ref());
        if let (Some((a, number)), Some((b, name))) = (number, name) {
            return Err(Error::source_data(format!(
                "{sink}: the label of sample `{number}` in {a} is a number, that of `{name}` in {b} is a name: make all of them one or the other"
            )));
        }
        let unlabelled: u64 = said.iter().map(|said| said.samples.1).sum();
        if unlabelled > 0 {
            let samples: u64 = said.iter().map(|said| said.samples.0).sum();
            tracing::warn!("{unlabelled} of {samples} samples have no label: -1 in the index");
        }
        let count = said.iter().map(|said| said.labels).max().unwrap_or(0);
        let named: BTreeSet<&String> = said.iter().flat_map(|said| said.named.iter()).collect();
        if let Some((list, names)) = &self.list {
            let known: HashSet<&String> = names.iter().collect();
            let unknown = named.into_iter().find(|name| !known.contains(name));
            let what = match unknown {
                Some(name) => format!("has no `{name}`, which a sample has"),
                None if known.len() < names.len() => "names a class twice".to_owned(),
                None if count as usize > names.len() => {
                    format!(
                        "ends at label {}, and a sample has {}",
                        names.len() - 1,
                        count - 1
                    )
                }
                None => {
                    tracing::warn!("classes are those of {list}");
                    return Ok(names.clone());
                }
            };
            return Err(Error::source_data(format!(
                "{sink}/{list}: {what}: put the list right, or move it elsewhere"
            )));
        }
        if !named.is_empty() {
            let count = named.len();
            tracing::warn!("labels are names: {count} classes, numbered from 0 in their order");
            return Ok(named.into_iter().cloned().collect());
        }
        Ok(by_number(said, count))
    }
}

/// The names of labels up to this: those that shards say, and the number where they say none.
fn by_number(said: &[&ShardLabels], count: u32) -> Vec<String> {
    let mut names: BTreeMap<u32, &String> = BTreeMap::new();
    for (label, class) in said.iter().flat_map(|said| said.classes.iter()) {
        names.entry(*label).or_insert(class);
    }
    let name = |label: u32| {
        names
            .get(&label)
            .map_or_else(|| label.to_string(), |class| (*class).clone())
    };
    let names: Vec<String> = (0..count).map(name).collect();
    // Two labels of one name cannot be told apart by it.
    let unique: HashSet<&String> = names.iter().collect();
    match unique.len() == names.len() {
        true => names,
        false => (0..count).map(|label| label.to_string()).collect(),
    }
}

/// Takes labels that are none away, and names the others: as `known` says, as the shard says, or by the number.
pub(super) fn numbered(
    rows: &mut [SampleRecord],
    classes: &BTreeMap<u32, String>,
    known: &[String],
) -> Vec<String> {
    let mut labels = 0;
    for row in rows {
        if row.label < MAX_CLASSES {
            labels = labels.max(row.label + 1);
        } else {
            row.label = NO_LABEL;
        }
    }
    let name = |label: u32| {
        let known = known.get(label as usize).or_else(|| classes.get(&label));
        known.cloned().unwrap_or_else(|| label.to_string())
    };
    (0..labels).map(name).collect()
}

/// Makes labels that are places in one list of names places in another.
pub(super) fn renumber(rows: &mut [SampleRecord], from: &[String], to: &[String]) {
    let places: BTreeMap<&String, u32> = to.iter().zip(0..).collect();
    let place = |name| places.get(name).copied().unwrap_or(NO_LABEL);
    let places: Vec<u32> = from.iter().map(place).collect();
    for row in rows {
        row.label = places.get(row.label as usize).copied().unwrap_or(NO_LABEL);
    }
}
