//! Numbers in the names of shards: a name that was ever planned is not used a second time.

use std::collections::BTreeMap;

use crate::model::manifest::Manifest;
use crate::plan::value::Plan;

/// The number in `data/train-00012-g3.tar`, if this is a name that we give.
pub(super) fn number_of(name: &str, split: &str) -> Option<u64> {
    let rest = name.strip_prefix("data/")?.strip_prefix(split)?;
    let rest = rest.strip_prefix('-')?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..end].parse().ok()
}

/// The first number of each split that neither a published shard has nor one that was ever planned.
pub(super) fn free_numbers(manifest: &Manifest, newest: &Plan) -> BTreeMap<String, u64> {
    let mut numbers = planned_numbers(newest);
    for (split, shard) in manifest.shards() {
        count(&mut numbers, split, &shard.name);
    }
    numbers
}

/// The first number of each split that no shard has that was ever planned.
pub(super) fn planned_numbers(newest: &Plan) -> BTreeMap<String, u64> {
    let mut numbers = newest.numbers.clone();
    for shard in &newest.shards {
        count(&mut numbers, &shard.split, &shard.name);
    }
    numbers
}

/// Takes the number in a shard's name, and all before it, as used.
fn count(numbers: &mut BTreeMap<String, u64>, split: &str, name: &str) {
    if let Some(number) = number_of(name, split) {
        let free = numbers.entry(split.to_owned()).or_default();
        *free = (*free).max(number.saturating_add(1));
    }
}
