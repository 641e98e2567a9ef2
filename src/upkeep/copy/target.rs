//! The shards that a copy is to have: each one of the source's as it is, or several neighbours joined.

use std::collections::BTreeMap;

use crate::base::checksum::{crc_from_text, crc_text, crc_without_zeros};
use crate::base::error::{Error, Kind, Result};
use crate::format::RecipeLayout as _;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::recipe::{Compression, Cut};
use crate::model::record::{ShardRecord, index_name};
use crate::plan::cut::cut;
use crate::state::published::require_record;
use crate::store::{Piece, Sink, at_once};
use crate::upkeep::copy::selection::Wanted;

/// Records that are read at once at most: those of a joined shard are held together anyway.
const RECORDS: usize = 16;

/// A shard that the copy is to have.
pub(super) struct Target<'a> {
    pub(super) split: &'a str,
    /// What the manifest is to say of it. Of a joined one the index is not known yet.
    pub(super) entry: ShardEntry,
    /// The source's shards that it is made of, in order.
    pub(super) parts: Vec<&'a ShardEntry>,
    /// Zeros at the end of each of them that all but the last go without.
    tail: u64,
}

impl Target<'_> {
    /// Whether it is made of several.
    pub(super) fn is_joined(&self) -> bool {
        // Of one alone too: its name and its plan are others.
        self.entry.index_crc32.is_empty()
    }

    /// How many bytes of a part go into it.
    pub(super) fn bytes_of(&self, part: usize) -> u64 {
        let bytes = self.parts[part].bytes;
        match part + 1 == self.parts.len() {
            true => bytes,
            false => bytes - self.tail,
        }
    }

    /// Its CRC-32.
    pub(super) fn crc32(&self) -> Result<u32> {
        sum_of(&self.entry)
    }

    /// Its parts, as a server can put them together.
    pub(super) fn pieces<'p>(&'p self, location: &'p str) -> Result<Vec<Piece<'p>>> {
        let piece = |(at, part): (usize, &&'p ShardEntry)| {
            Ok(Piece {
                location,
                name: &part.name,
                bytes: self.bytes_of(at),
                of_bytes: part.bytes,
                of_crc32: sum_of(part)?,
            })
        };
        self.parts.iter().enumerate().map(piece).collect()
    }

    /// What is known of it once it is joined, from the records of its parts.
    pub(super) fn joined_record(&self, from: &dyn Sink, plan: &str) -> Result<ShardRecord> {
        let mut joined = ShardRecord {
            split: self.split.to_owned(),
            plan: plan.to_owned(),
            bytes: self.entry.bytes,
            crc32: self.crc32()?,
            ..ShardRecord::empty(&self.entry.name)
        };
        let mut start = 0;
        let depth = from.requests().clamp(1, RECORDS);
        let records = at_once(depth, &self.parts, |part| require_record(part, from))?;
        for (at, record) in records.into_iter().enumerate() {
            joined
                .samples
                .extend(record.samples.into_iter().map(|mut sample| {
                    sample.offset += start;
                    for field in &mut sample.fields {
                        field.offset += start;
                    }
                    sample
                }));
            joined.skipped.extend(record.skipped);
            joined.odd.extend(record.odd);
            start += self.bytes_of(at);
        }
        Ok(joined)
    }
}

/// The CRC-32 that a manifest says of a shard.
fn sum_of(shard: &ShardEntry) -> Result<u32> {
    crc_from_text(&shard.crc32).ok_or_else(|| {
        let what = format!("{}: the manifest says crc32 `{}`", shard.name, shard.crc32);
        Error::new(Kind::Damage, what)
    })
}

/// The shards as they are.
pub(super) fn as_they_are<'a>(shards: &[Wanted<'a>]) -> Vec<Target<'a>> {
    let target = |&(split, shard): &Wanted<'a>| Target {
        split,
        entry: shard.clone(),
        parts: vec![shard],
        tail: 0,
    };
    shards.iter().map(target).collect()
}

/// Neighbours of each split joined to shards of about equal size, none of more than so many bytes unless a single one has more.
pub(super) fn joined<'a>(
    from: &dyn Sink,
    manifest: &Manifest,
    shards: &[Wanted<'a>],
    shard_bytes: u64,
) -> Result<Vec<Target<'a>>> {
    let recipe = &manifest.recipe;
    let layout = recipe.layout();
    if recipe.foreign || !layout.joins() || recipe.compress != Compression::None {
        return Err(Error::usage(format!(
            "--shard-size joins shards of tar or TFRecord that are not compressed, and {from} holds {}: drop `--shard-size`, or convert the \
             source again",
            match recipe.foreign {
                true => "shards that somebody else made".to_owned(),
                false => recipe.describe(),
            }
        )));
    }
    let tail = layout.overhead_bytes();
    let mut splits: BTreeMap<&str, Vec<&'a ShardEntry>> = BTreeMap::new();
    let mut order = Vec::new();
    for &(split, shard) in shards {
        if shard.bytes < tail {
            let what = format!("{from}/{}: {} bytes are no shard", shard.name, shard.bytes);
            return Err(Error::new(Kind::Damage, what));
        }
        let of_split = splits.entry(split).or_insert_with(|| {
            order.push(split);
            Vec::new()
        });
        of_split.push(shard);
    }
    let extension = recipe.extension();
    let mut targets = Vec::new();
    for split in order {
        let of_split = &splits[split];
        let size = |shard: &&ShardEntry| shard.bytes - tail;
        let groups = cut(of_split, size, tail, Cut::ShardBytes(shard_bytes));
        for (number, group) in groups.into_iter().enumerate() {
            let name = format!("data/{split}-{number:05}.{extension}");
            targets.push(join(name, split, of_split[group].to_vec(), tail)?);
        }
    }
    Ok(targets)
}

/// These shards joined to one of this name.
fn join<'a>(
    name: String,
    split: &'a str,
    parts: Vec<&'a ShardEntry>,
    tail: u64,
) -> Result<Target<'a>> {
    let mut target = Target {
        split,
        entry: ShardEntry {
            index: index_name(&name),
            name,
            samples: parts.iter().map(|part| part.samples).sum(),
            bytes: 0,
            unpacked_bytes: None,
            crc32: String::new(),
            sha256: None,
            index_bytes: 0,
            index_crc32: String::new(),
            plan: None,
        },
        parts,
        tail,
    };
    let mut sum = crc32fast::Hasher::new();
    for (at, part) in target.parts.iter().enumerate() {
        let bytes = target.bytes_of(at);
        let crc32 = crc_without_zeros(sum_of(part)?, part.bytes - bytes);
        sum.combine(&crc32fast::Hasher::new_with_initial_len(crc32, bytes));
    }
    target.entry.bytes = (0..target.parts.len()).map(|at| target.bytes_of(at)).sum();
    target.entry.crc32 = crc_text(sum.finalize());
    Ok(target)
}
