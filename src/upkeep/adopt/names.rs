//! Names that follow from those of shards: of their splits and indexes, and what begins keys of samples that have none of their own.
//! The last two are the shortest that tell all shards of a dataset apart.

use std::collections::HashSet;

use crate::model::record::index_name;
use crate::publish::readers::Splits;
use crate::source::dirs::ONLY_SPLIT;
use crate::source::dirs::SPLIT_NAMES;
use crate::upkeep::adopt::kind::{ForeignShard, without_kind};

/// The shards of a directory by their splits, in order.
pub(crate) fn foreign_splits(shards: &[ForeignShard]) -> Splits<'_> {
    let mut splits = Splits::new();
    for shard in shards {
        splits
            .entry(split_of(&shard.name))
            .or_default()
            .push(&shard.name);
    }
    splits
}

/// The split that a shard's name speaks of.
pub(super) fn split_of(name: &str) -> &str {
    let words = name.split(|c: char| !c.is_ascii_alphabetic());
    let mut known = words.filter(|word| SPLIT_NAMES.contains(word));
    // The last one: a directory may be called anything.
    known.next_back().unwrap_or(ONLY_SPLIT)
}

/// The first of these lists that has no name twice, or else the last.
fn first_unique<const N: usize>(lists: [Vec<String>; N]) -> Vec<String> {
    let unique = |list: &Vec<String>| list.iter().collect::<HashSet<_>>().len() == list.len();
    let mut lists = lists.into_iter();
    let mut list = lists.next().unwrap_or_default();
    while !unique(&list)
        && let Some(next) = lists.next()
    {
        list = next;
    }
    list
}

/// Index names by shard: after the file alone where that is enough, after the whole path where two files have one name.
pub(super) fn index_names(shards: &[&str]) -> Vec<String> {
    let plain = |shard: &&str| index_name(shard);
    let whole = |shard: &&str| format!("index/{}.parquet", shard.replace('/', "--"));
    let numbered = |number: usize| format!("index/{number:06}.parquet");
    first_unique([
        shards.iter().map(plain).collect(),
        shards.iter().map(whole).collect(),
        (0..shards.len()).map(numbered).collect(),
    ])
}

/// What begins the keys of each shard's samples where the shard has no keys, as TFRecords have none: the file's name up to its first
/// dot, with the directories or all of it where files would share that.
pub(crate) fn key_beginnings(shards: &[&str]) -> Vec<String> {
    fn up_to_dot(base: &str) -> &str {
        base.split('.').next().unwrap_or(base)
    }
    let base = |shard: &&str| {
        let base = shard.rsplit('/').next().unwrap_or(shard);
        up_to_dot(base).to_owned()
    };
    let path = |shard: &&str| match shard.rsplit_once('/') {
        Some((dir, base)) => format!("{dir}/{}", up_to_dot(base)),
        None => up_to_dot(shard).to_owned(),
    };
    first_unique([
        shards.iter().map(base).collect(),
        shards.iter().map(path).collect(),
        shards.iter().map(|shard| without_kind(shard)).collect(),
        shards.iter().map(|shard| (*shard).to_owned()).collect(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_names_differ_where_shards_do() {
        let names = index_names(&["a/0.tar", "b/1.tar"]);
        assert_eq!(names, ["index/0.parquet", "index/1.parquet"]);
        let names = index_names(&["a/0.tar", "b/0.tar"]);
        assert_eq!(names, ["index/a--0.tar.parquet", "index/b--0.tar.parquet"]);
        let names = index_names(&["a--b/0.tar", "a/b--0.tar", "c/0.tar"]);
        assert_eq!(names[0], "index/000000.parquet");
        assert_eq!(names[2], "index/000002.parquet");
    }

    #[test]
    fn keys_begin_with_as_much_of_a_name_as_tells_shards_apart() {
        assert_eq!(
            key_beginnings(&["a/x.tfrecord", "b/y.tfrecord"]),
            ["x", "y"]
        );
        assert_eq!(
            key_beginnings(&["a/x.tfrecord", "b/x.tfrecord"]),
            ["a/x", "b/x"]
        );
        assert_eq!(
            key_beginnings(&["x.tfrecord-00000-of-00002", "x.tfrecord-00001-of-00002"]),
            ["x-00000-of-00002", "x-00001-of-00002"]
        );
        assert_eq!(
            key_beginnings(&["x.tfrecord", "x.record"]),
            ["x.tfrecord", "x.record"]
        );
    }

    #[test]
    fn splits_are_known_by_their_names() {
        assert_eq!(split_of("data/train-000000.tar"), "train");
        assert_eq!(split_of("train/x-val-0.tar"), "val");
        assert_eq!(split_of("00000.tar"), ONLY_SPLIT);
    }
}
