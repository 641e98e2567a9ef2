//! What a walk through a shard that nobody recorded tells of it.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use crate::base::error::{Error, Result};
use crate::format::RecipeLayout as _;
use crate::format::compress::{Raw, unpack};
use crate::format::{Finding, Visit};
use crate::model::recipe::{Compression, Cut, Format};
use crate::model::record::{NO_LABEL, SampleRecord};
use crate::upkeep::adopt::kind::{ForeignShard, foreign_recipe};

/// Labels beyond this are taken for damage, not for classes, and as many names for texts.
pub(super) const MAX_CLASSES: u32 = 1_000_000;
/// Longest name of a class in bytes; what is longer is a text.
const MAX_NAME: usize = 200;

/// What was seen in a shard.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// The samples, in shard order. Where shards say names instead of numbers, labels are places in `named`.
    pub rows: Vec<SampleRecord>,
    /// Class names by label, where shards say both.
    pub classes: BTreeMap<u32, String>,
    /// Names of the classes of samples that have a name and no number, sorted.
    pub named: Vec<String>,
    /// Damage.
    pub found: Vec<Finding>,
    /// What some readers cannot take.
    pub noted: Vec<Finding>,
    /// Length and CRC-32 of the shard as it lies in the store.
    pub bytes: (u64, u32),
    /// Length unpacked.
    pub unpacked_bytes: u64,
    /// Key of a sample that has a number, and of one that has a name instead.
    pub(super) examples: (Option<String>, Option<String>),
    /// Places of names in the order in which they came.
    places: HashMap<String, u32>,
}

impl ForeignShard {
    /// Walks it, however much it unpacks to. `keys` begins the keys of samples that have none of their own.
    pub(crate) fn walk(&self, keys: &str, reader: impl Read + Send) -> Result<Walked> {
        let kind = (self.format, self.compress);
        walk_foreign(&self.name, keys, kind, reader, u64::MAX - 1)
    }
}

impl Walked {
    fn place(&mut self, class: String) -> u32 {
        let next = self.places.len() as u32;
        if next == MAX_CLASSES && !self.places.contains_key(&class) {
            return NO_LABEL;
        }
        *self.places.entry(class).or_insert(next)
    }

    /// Numbers the names in their order.
    fn sort_names(&mut self) {
        if self.places.is_empty() {
            return;
        }
        let mut sorted: Vec<(String, u32)> = std::mem::take(&mut self.places).into_iter().collect();
        sorted.sort();
        let mut number = vec![NO_LABEL; sorted.len()];
        for (place, (_, came)) in sorted.iter().enumerate() {
            number[*came as usize] = place as u32;
        }
        for row in &mut self.rows {
            row.label = number.get(row.label as usize).copied().unwrap_or(NO_LABEL);
        }
        self.named = sorted.into_iter().map(|(name, _)| name).collect();
    }
}

impl Visit for Walked {
    fn sample(&mut self, mut row: SampleRecord, class: Option<String>) {
        let class = class.filter(|name| !name.is_empty() && name.len() <= MAX_NAME);
        match class {
            Some(class) if row.label == NO_LABEL => {
                self.examples.1.get_or_insert_with(|| row.key.clone());
                row.label = self.place(class);
            }
            class if row.label != NO_LABEL => {
                self.examples.0.get_or_insert_with(|| row.key.clone());
                if let Some(class) = class {
                    self.classes.entry(row.label).or_insert(class);
                }
            }
            _ => {}
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

/// Walks the shard `name` of this layout and compression. `keys` begins the keys of samples that have none of their own. `most`
/// bounds what it unpacks to; what it says of itself is not believed.
pub(crate) fn walk_foreign(
    name: &str,
    keys: &str,
    (format, compress): (Format, Compression),
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
    let layout = foreign_recipe(format, compress, Cut::Shards(1)).layout();
    let walk = layout
        .walk(name, keys, &mut unpacked, &mut walked)
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
    walked.sort_names();
    walked.bytes = raw.drain().map_err(failed)?;
    Ok(walked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_are_numbered_in_their_order_not_as_they_come() {
        let mut walked = Walked::default();
        for (key, class) in [("a", "dog"), ("b", "cat"), ("c", "dog"), ("d", "")] {
            let row = SampleRecord {
                key: key.to_owned(),
                label: NO_LABEL,
                ..SampleRecord::default()
            };
            walked.sample(row, Some(class.to_owned()));
        }
        walked.sort_names();
        assert_eq!(walked.named, ["cat", "dog"]);
        let labels: Vec<_> = walked.rows.iter().map(|row| row.label).collect();
        assert_eq!(labels, [1, 0, 1, NO_LABEL]);
    }
}
