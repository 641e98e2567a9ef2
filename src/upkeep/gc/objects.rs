//! What is made for a shard, under which names, and when each of it may be removed.

use crate::model::record::index_name;
use crate::publish::readers::reader_files_of_shard;

/// When something is removed: nothing may name what is gone, and a plan names its shards until they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Snapshots.
    Snapshots,
    /// Indexes, and what readers have beside a shard: without its index no shard is taken for done.
    Indexes,
    /// Shards.
    Shards,
    /// Samples of plans.
    Samples,
    /// Plans.
    Plans,
}

/// A file that is made for a shard.
pub(super) struct ShardFile {
    /// Its name below the destination.
    pub(super) name: String,
    /// When it is removed.
    pub(super) stage: Stage,
    /// What it is, once no snapshot needs it.
    pub(super) what: &'static str,
}

/// Everything that is made for the shard of this name.
pub(super) fn files_of(shard: &str) -> impl Iterator<Item = ShardFile> {
    let file = |name: String, stage: Stage, what: &'static str| ShardFile { name, stage, what };
    let own = [
        file(
            index_name(shard),
            Stage::Indexes,
            "index of an unused shard",
        ),
        file(shard.to_owned(), Stage::Shards, "unused shard"),
    ];
    reader_files_of_shard(shard)
        .map(move |name| file(name, Stage::Indexes, "reader index of an unused shard"))
        .chain(own)
}
