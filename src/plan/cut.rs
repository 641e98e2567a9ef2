//! Cutting samples into shards of nearly equal size.

use std::ops::Range;

use crate::model::recipe::Cut;

/// Cuts items of these `bytes` into shards of nearly equal size; every shard has at least one item.
pub(crate) fn cut<T>(
    items: &[T],
    bytes: impl Fn(&T) -> u64 + Copy,
    overhead: u64,
    by: Cut,
) -> Vec<Range<usize>> {
    let count = items.len() as u64;
    if count == 0 {
        return Vec::new();
    }
    let total: u64 = items.iter().map(bytes).sum();
    match by {
        Cut::Shards(shards) => spread(items, bytes, total, shards.clamp(1, count)),
        Cut::ShardSamples(limit) => {
            let shards = count.div_ceil(limit.max(1));
            (0..shards)
                .map(|i| (count * i / shards) as usize..(count * (i + 1) / shards) as usize)
                .collect()
        }
        Cut::ShardBytes(limit) => {
            let room = limit.saturating_sub(overhead).max(1);
            let mut shards = total.div_ceil(room).clamp(1, count);
            loop {
                let cuts = spread(items, bytes, total, shards);
                // A sample that is too large alone stays so with any number of shards.
                let over = |range: &Range<usize>| {
                    range.len() > 1 && items[range.clone()].iter().map(bytes).sum::<u64>() > room
                };
                let over = cuts.iter().filter(|range| over(range)).count() as u64;
                if over == 0 || shards == count {
                    return cuts;
                }
                // Growing by a part of what is over ends soon even when a few huge samples dominate.
                shards = (shards + (over / 4).max(1)).min(count);
            }
        }
    }
}

/// Cuts where the running total comes nearest to equal parts.
fn spread<T>(items: &[T], bytes: impl Fn(&T) -> u64, total: u64, shards: u64) -> Vec<Range<usize>> {
    let mut cuts = Vec::with_capacity(shards as usize);
    let mut start = 0;
    let mut at = 0;
    let mut sum = 0u64;
    for shard in 1..=shards {
        let left = (shards - shard) as usize;
        let ideal = (u128::from(total) * u128::from(shard) / u128::from(shards)) as u64;
        // At least one sample here and one for every shard to come.
        while at < items.len() - left
            && (at == start || sum + bytes(&items[at]) / 2 < ideal || left == 0)
        {
            sum += bytes(&items[at]);
            at += 1;
        }
        cuts.push(start..at);
        start = at;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shards_are_even_and_there_is_no_runt() {
        let cuts = cut(&[1024; 1000], |b| *b, 1024, Cut::ShardBytes(100 * 1024));
        assert_eq!(cuts.len(), 11);
        assert!(
            cuts.iter().all(|c| (90..=91).contains(&c.len())),
            "{cuts:?}"
        );
    }

    #[test]
    fn a_sample_over_the_shard_size_gets_a_shard_of_its_own() {
        let mut sizes = vec![100; 20];
        sizes[7] = 5000;
        let cuts = cut(&sizes, |b| *b, 0, Cut::ShardBytes(1000));
        for range in cuts {
            let sum: u64 = sizes[range.clone()].iter().sum();
            assert!(sum <= 1000 || range.len() == 1, "{range:?}");
        }
    }

    #[test]
    fn more_shards_than_samples_gives_one_sample_each() {
        assert_eq!(
            cut(&[5, 5, 5], |b| *b, 0, Cut::Shards(8)),
            [0..1, 1..2, 2..3]
        );
        assert!(cut(&[], |b| *b, 0, Cut::Shards(8)).is_empty());
    }

    proptest! {
        #[test]
        fn every_sample_is_in_exactly_one_shard(
            sizes in proptest::collection::vec(1u64..10_000, 1..300),
            by in prop_oneof![(1u64..20).prop_map(Cut::Shards), (1u64..50).prop_map(Cut::ShardSamples), (1u64..50_000).prop_map(Cut::ShardBytes)],
        ) {
            let cuts = cut(&sizes, |b| *b, 1024, by);
            let mut next = 0;
            for range in &cuts {
                prop_assert_eq!(range.start, next);
                prop_assert!(range.end > range.start);
                next = range.end;
            }
            prop_assert_eq!(next, sizes.len());
            match by {
                Cut::Shards(n) => prop_assert_eq!(cuts.len() as u64, n.min(sizes.len() as u64)),
                Cut::ShardSamples(n) => prop_assert!(cuts.iter().all(|c| c.len() as u64 <= n)),
                Cut::ShardBytes(limit) => {
                    let fits = |c: &Range<usize>| sizes[c.clone()].iter().sum::<u64>() + 1024 <= limit;
                    prop_assert!(cuts.iter().all(|c| c.len() == 1 || fits(c)));
                }
            }
        }
    }
}
