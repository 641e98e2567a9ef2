//! Images that a dataset has several times: the same length and CRC-32 in the indexes, confirmed by reading them.
//!
//! One that is in train and in val is a leak: a model is tested with what it was taught. Twenty-four bytes are kept for each image.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::base::error::{Error, Result};
use crate::base::units::bytes_text;
use crate::model::record::{FieldRecord, SampleRecord, ShardRecord};
use crate::state::published::require_index;
use crate::store::at_once;
use crate::upkeep::places::{Place, Shelf};

/// Samples of a group that are read and named at most; of each split there is one among them.
const NAMED: usize = 16;

/// What is compared of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Print {
    length: u64,
    crc32: u32,
    place: Place,
}

/// The images of a dataset as far as they are compared; in whatever order they are added, the same is found.
#[derive(Debug, Default)]
pub(crate) struct Prints(Vec<Print>);

/// Samples with the same image.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// How many they are.
    pub samples: usize,
    /// Bytes of the image.
    pub length: u64,
    /// Names of the splits that they are in, in the manifest's order.
    pub splits: Vec<String>,
    /// Those that were read and are the same, each with its split; 16 at most.
    pub named: Vec<(String, Place, SampleRecord)>,
}

/// What is there several times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Duplicates {
    /// Different images that are there more than once.
    pub images: u64,
    /// Samples that have one of these.
    pub samples: u64,
    /// Those of the images that are in several splits.
    pub across: u64,
    /// The first of them, those in several splits before the others: as many as were asked for.
    pub groups: Vec<Group>,
}

impl Prints {
    /// Bytes that it takes to keep so many.
    pub(crate) fn memory_bytes(samples: u64) -> u64 {
        samples.saturating_mul(size_of::<Print>() as u64)
    }

    /// Adds the sample with these fields; one without an image is passed over.
    pub(crate) fn add(&mut self, fields: &[FieldRecord], place: Place) {
        if let Some(image) = fields.iter().find(|field| field.holds_image()) {
            self.0.push(Print {
                length: image.length,
                crc32: image.crc32,
                place,
            });
        }
    }

    /// Adds what others have.
    pub(crate) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// What is there several times. The first `most` groups are read and confirmed; an image that has length and checksum of another by
    /// chance, which one in some billion has, is none of them.
    ///
    /// # Errors
    ///
    /// An index or a shard that cannot be read. A sample that is damaged is taken for no duplicate.
    pub(crate) fn judge(mut self, shelf: &Shelf<'_>, most: usize) -> Result<Duplicates> {
        let split_of: Vec<&str> = shelf.shards().iter().map(|(split, _)| *split).collect();
        let split = |place: &Place| split_of.get(place.shard as usize).copied();
        self.0.sort_unstable();
        let same = |a: &Print, b: &Print| (a.length, a.crc32) == (b.length, b.crc32);
        let mut found = Duplicates::default();
        let mut groups: Vec<(bool, &[Print])> = Vec::new();
        for group in self.0.chunk_by(same).filter(|group| group.len() > 1) {
            let across = group
                .iter()
                .any(|one| split(&one.place) != split(&group[0].place));
            found.images += 1;
            found.samples += group.len() as u64;
            found.across += u64::from(across);
            groups.push((across, group));
        }
        groups.sort_by_key(|(across, group)| (!across, group[0].place));
        groups.truncate(most);
        let named: Vec<Vec<Place>> = (groups.iter())
            .map(|(_, group)| named(group, split))
            .collect();
        let rows = shelf.rows(named.iter().flatten().copied())?;
        let digests = digests(shelf, &rows)?;
        for ((across, group), places) in groups.iter().zip(&named) {
            let first = places.iter().find_map(|place| digests.get(place));
            let (equal, others): (Vec<Place>, Vec<Place>) = places
                .iter()
                .partition(|place| first.is_some() && digests.get(place) == first);
            let samples = group.len() - others.len();
            let splits: BTreeSet<u32> = equal.iter().map(|place| place.shard).collect();
            let mut splits: Vec<&str> = splits.iter().map(|&at| split_of[at as usize]).collect();
            splits.dedup();
            if equal.len() < 2 {
                found.images -= 1;
                found.samples -= group.len() as u64;
                found.across -= u64::from(*across);
                continue;
            }
            found.samples -= others.len() as u64;
            found.across -= u64::from(*across && splits.len() < 2);
            let row = |place: Place| {
                let row = rows.get(&place)?;
                Some((split(&place)?.to_owned(), place, row.clone()))
            };
            found.groups.push(Group {
                samples,
                length: group[0].length,
                splits: splits.into_iter().map(str::to_owned).collect(),
                named: equal.into_iter().filter_map(row).collect(),
            });
        }
        Ok(found)
    }
}

/// Those of a group that are read: its first, and the first of each further split.
fn named<'a>(group: &[Print], split: impl Fn(&Place) -> Option<&'a str>) -> Vec<Place> {
    let mut seen = BTreeSet::new();
    let of_splits = group.iter().filter(|one| seen.insert(split(&one.place)));
    let mut named: Vec<Place> = of_splits.map(|one| one.place).take(NAMED).collect();
    for one in group {
        if named.len() >= NAMED {
            break;
        }
        if !named.contains(&one.place) {
            named.push(one.place);
        }
    }
    named.sort_unstable();
    named
}

/// SHA-256 of the images of these samples; a sample that is not what its index says has none.
fn digests(
    shelf: &Shelf<'_>,
    rows: &BTreeMap<Place, SampleRecord>,
) -> Result<BTreeMap<Place, [u8; 32]>> {
    let rows: Vec<(&Place, &SampleRecord)> = rows.iter().collect();
    let digests = at_once(shelf.depth, &rows, |(place, row)| {
        shelf.stop.check()?;
        let mut digest = Sha256::new();
        let is_sound = shelf.image(**place, row, &mut |piece| digest.update(piece))?;
        Ok(is_sound.then(|| (**place, digest.finalize().into())))
    })?;
    Ok(digests.into_iter().flatten().collect())
}

/// Looks for images that a dataset has several times; `memory` bytes may be used.
///
/// # Errors
///
/// [`Kind::Usage`](crate::base::error::Kind::Usage) where `memory` is too little, and what [`Prints::judge`] gives.
pub(crate) fn duplicates(shelf: &Shelf<'_>, memory: u64, most: usize) -> Result<Duplicates> {
    let needed = Prints::memory_bytes(shelf.manifest.samples);
    if needed > memory / 2 {
        return Err(Error::usage(format!(
            "comparing {} images takes {} of memory, half of --memory is {}: give more",
            shelf.manifest.samples,
            bytes_text(needed),
            bytes_text(memory / 2)
        )));
    }
    let prints = Mutex::new(Prints::default());
    let shards: Vec<_> = (0..).zip(shelf.shards()).collect();
    at_once(shelf.depth, &shards, |(number, (_, entry))| {
        shelf.stop.check()?;
        let file = require_index(entry, shelf.sink)?;
        let mut own = Prints::default();
        for (ordinal, fields) in (0..).zip(ShardRecord::decode_fields(&entry.index, &file)?) {
            let shard = *number;
            own.add(&fields, Place { shard, ordinal });
        }
        prints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .merge(own);
        Ok(())
    })?;
    let prints = prints.into_inner().unwrap_or_else(PoisonError::into_inner);
    prints.judge(shelf, most)
}
