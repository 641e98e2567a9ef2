//! Which samples a plan has and in which shards: those of shards that are made again, and new ones cut into new shards.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::base::error::Result;
use crate::format::RecipeLayout as _;
use crate::model::name::ObjectName;
use crate::model::recipe::{Cut, Recipe};
use crate::plan::cut::cut;
use crate::plan::value::{Base, ShardPlan};
use crate::source::samples::{Entry, Scan};

/// What a plan that goes on from a published dataset is to be.
#[derive(Debug, Default)]
pub(crate) struct NextPlan {
    /// [`Plan::generation`](crate::plan::value::Plan::generation).
    pub generation: u64,
    /// [`Plan::base`](crate::plan::value::Plan::base).
    pub base: Option<Base>,
    /// [`Plan::splits`](crate::plan::value::Plan::splits).
    pub splits: Vec<String>,
    /// [`Plan::stale`](crate::plan::value::Plan::stale).
    pub stale: u64,
    /// Numbers from which those of new shards go on, by split.
    pub numbers: BTreeMap<String, u64>,
    /// Shards that are made again, in the order of the manifest.
    pub rebuilt: Vec<RebuiltShard>,
    /// Samples that are in no shard that stays; all of them if there is nothing to go on from.
    pub fresh: Option<Vec<u32>>,
    /// How those of a split are cut, where that is not as the recipe says.
    pub cuts: BTreeMap<String, Cut>,
}

/// A shard that is made again, with its samples as they are now.
#[derive(Debug)]
pub(crate) struct RebuiltShard {
    /// Its new name.
    pub name: ObjectName,
    /// The shard whose place it takes.
    pub replaces: ObjectName,
    /// Its split.
    pub split: String,
    /// Its samples, in order.
    pub entries: Vec<u32>,
}

/// The samples of a plan in the order of its shards, cut into them.
pub(super) struct Selection {
    /// The shards that are to be made, split by split, without what their samples come to.
    pub(super) shards: Vec<ShardPlan>,
    /// For each of them, its entries in the scan.
    pub(super) ranges: Vec<Range<usize>>,
}

/// Where the entries of the shards of a plan are, while they are cut.
struct Cutter<'a> {
    scan: &'a Scan,
    recipe: &'a Recipe,
    /// Bytes of a shard besides its samples.
    overhead_bytes: u64,
    made: Vec<(ShardPlan, Range<usize>)>,
}

impl Cutter<'_> {
    fn push(
        &mut self,
        name: ObjectName,
        split: &str,
        replaces: Option<ObjectName>,
        range: Range<usize>,
    ) {
        let entries = &self.scan.entries[range.clone()];
        let plan = ShardPlan {
            name,
            split: split.to_owned(),
            replaces,
            samples: range.len() as u64,
            bytes: self.overhead_bytes + entries.iter().map(|entry| entry.bytes).sum::<u64>(),
            source_bytes: 0,
            listing: String::new(),
            listing_bytes: 0,
            unversioned: String::new(),
        };
        self.made.push((plan, range));
    }

    /// Cuts the entries of a split, of those from `first` on, into new shards; their numbers begin at `free`, which goes on with them.
    fn cut_split(&mut self, split: usize, first: usize, by: Cut, free: &mut u64) -> Result<()> {
        let scan = self.scan;
        let fresh = &scan.entries[first..];
        let begin = first + fresh.partition_point(|entry| usize::from(entry.split) < split);
        let end = first + fresh.partition_point(|entry| usize::from(entry.split) <= split);
        let (split, extension) = (&scan.splits[split], self.recipe.extension());
        let bytes = |entry: &Entry| entry.bytes;
        for range in cut(&scan.entries[begin..end], bytes, self.overhead_bytes, by) {
            let name = ObjectName::new(format!("data/{split}-{free:05}.{extension}"))?;
            self.push(name, split, None, begin + range.start..begin + range.end);
            *free += 1;
        }
        Ok(())
    }
}

/// Selects the samples of a plan, which are then all that the scan has, and cuts them into shards. Takes from `next` what it says of shards
/// and samples, and leaves in it the numbers that are free then.
pub(super) fn select(scan: &mut Scan, recipe: &Recipe, next: &mut NextPlan) -> Result<Selection> {
    if let Some(mut fresh) = next.fresh.take() {
        // In the order they have, which is that of their splits too.
        fresh.sort_unstable();
        let all = std::mem::take(&mut scan.entries);
        let rebuilt = next.rebuilt.iter().flat_map(|shard| &shard.entries);
        scan.entries = rebuilt.chain(&fresh).map(|&i| all[i as usize]).collect();
    }
    let mut cutter = Cutter {
        scan,
        recipe,
        overhead_bytes: recipe.layout().overhead_bytes(),
        made: Vec::new(),
    };
    let mut first_fresh = 0;
    for shard in std::mem::take(&mut next.rebuilt) {
        let range = first_fresh..first_fresh + shard.entries.len();
        first_fresh = range.end;
        cutter.push(shard.name, &shard.split, Some(shard.replaces), range);
    }
    for (number, split) in cutter.scan.splits.iter().enumerate() {
        let by = next.cuts.get(split).copied().unwrap_or(recipe.cut);
        let free = next.numbers.entry(split.clone()).or_default();
        cutter.cut_split(number, first_fresh, by, free)?;
    }
    let mut made = cutter.made;
    // Stable, so that those made again come first in each split.
    made.sort_by(|(a, _), (b, _)| a.split.cmp(&b.split));
    let (shards, ranges) = made.into_iter().unzip();
    Ok(Selection { shards, ranges })
}
