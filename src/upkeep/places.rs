//! Samples by where they are: the shard's number in the manifest and the sample's in the shard.

use std::collections::BTreeMap;

use crate::base::error::{Result, unless_damaged};
use crate::base::signal::Stop;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::record::SampleRecord;
use crate::state::published::require_record;
use crate::store::{Sink, at_once};
use crate::upkeep::content::{Content, pick};

/// Where a sample is, in eight bytes: millions of them are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Number of its shard among all that the manifest names, from 0.
    pub shard: u32,
    /// Its number in the shard, from 0.
    pub ordinal: u32,
}

/// A dataset that samples are picked from.
pub(crate) struct Shelf<'a> {
    /// Where it lies.
    pub sink: &'a dyn Sink,
    /// Its manifest.
    pub manifest: &'a Manifest,
    /// Indexes or samples read at once.
    pub depth: usize,
    /// Says when to stop.
    pub stop: &'a Stop,
}

impl<'a> Shelf<'a> {
    /// Its shards, each with its split, in the order in which places number them.
    pub(crate) fn shards(&self) -> Vec<(&'a str, &'a ShardEntry)> {
        self.manifest.shards().collect()
    }

    /// What the indexes say of samples at these places.
    ///
    /// # Errors
    ///
    /// An index that is missing or damaged, or has no such sample.
    pub(crate) fn rows(
        &self,
        places: impl IntoIterator<Item = Place>,
    ) -> Result<BTreeMap<Place, SampleRecord>> {
        let mut wanted: BTreeMap<u32, Vec<Place>> = BTreeMap::new();
        for place in places {
            wanted.entry(place.shard).or_default().push(place);
        }
        let shards = self.shards();
        let wanted: Vec<(u32, Vec<Place>)> = wanted.into_iter().collect();
        let rows = at_once(self.depth, &wanted, |(shard, places)| {
            self.stop.check()?;
            let Some((_, entry)) = shards.get(*shard as usize) else {
                return Ok(Vec::new());
            };
            let mut samples = require_record(entry, self.sink)?.samples;
            let row = |place: &Place| {
                let sample = samples.get_mut(place.ordinal as usize).map(std::mem::take);
                sample.map(|sample| (*place, sample))
            };
            let mut places = places.clone();
            places.sort_unstable();
            places.dedup();
            Ok(places.iter().filter_map(row).collect())
        })?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// Hands the image of a sample over piece by piece; `false` if the sample is not what its index says.
    ///
    /// # Errors
    ///
    /// A shard that cannot be read.
    pub(crate) fn image(
        &self,
        place: Place,
        row: &SampleRecord,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let Some((_, shard)) = self.manifest.shards().nth(place.shard as usize) else {
            return Ok(false);
        };
        let content = Content {
            sink: self.sink,
            compress: self.manifest.recipe.compress,
            shard,
            row,
        };
        let read = content.field(pick(row, None)?, &mut |piece| {
            take(piece);
            Ok(())
        });
        Ok(unless_damaged(read)?.is_some())
    }
}
