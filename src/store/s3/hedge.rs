//! Which reads are stragglers, by how long others took, and how many of them may be asked for a second time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Reads after which stragglers are known, and after which old times count half.
const KNOWN: std::ops::Range<u32> = 200..4000;
/// A read among the slowest this-many-th is a straggler...
const SLOWEST: u32 = 50;
/// ...and one in so many reads may be asked for twice.
const HEDGED: u64 = 20;
/// Asking again sooner than this would only add load.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(100);

/// How long reads took lately, in a histogram of half powers of two; tells which of them are stragglers.
pub(super) struct Latencies {
    counts: [AtomicU32; 64],
    total: AtomicU32,
    reads: AtomicU64,
    hedges: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| AtomicU32::new(0)),
            total: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            hedges: AtomicU64::new(0),
        }
    }
}

impl Latencies {
    fn bucket(time: Duration) -> usize {
        let micros = time.as_micros().max(1) as f64;
        ((micros.log2() * 2.0) as usize).min(63)
    }

    /// A read took this long.
    pub(super) fn add(&self, time: Duration) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.counts[Self::bucket(time)].fetch_add(1, Ordering::Relaxed);
        if self.total.fetch_add(1, Ordering::Relaxed) + 1 >= KNOWN.end {
            let mut total = 0;
            for count in &self.counts {
                let half = count.load(Ordering::Relaxed) / 2;
                count.store(half, Ordering::Relaxed);
                total += half;
            }
            self.total.store(total, Ordering::Relaxed);
        }
    }

    /// How long to wait for a read before it is a straggler: twice what nearly all take. None while too little is known.
    pub(super) fn patience(&self) -> Option<Duration> {
        let total = self.total.load(Ordering::Relaxed);
        if total < KNOWN.start {
            return None;
        }
        let mut slower = total / SLOWEST;
        for (bucket, count) in self.counts.iter().enumerate().rev() {
            let count = count.load(Ordering::Relaxed);
            if count > slower {
                let upper = 2f64.powf((bucket + 1) as f64 / 2.0);
                let twice = Duration::from_micros(upper as u64 * 2);
                return Some(twice.max(SHORTEST_PATIENCE));
            }
            slower -= count;
        }
        None
    }

    /// Whether another read may be asked for twice; if so, it counts as one that was.
    pub(super) fn may_hedge(&self) -> bool {
        let allowed = self.reads.load(Ordering::Relaxed) / HEDGED;
        let hedged = self
            .hedges
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |hedges| {
                (hedges < allowed).then_some(hedges + 1)
            });
        hedged.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straggler_is_told_by_what_nearly_all_reads_take() {
        let latencies = Latencies::default();
        for _ in 0..KNOWN.start {
            assert_eq!(latencies.patience(), None);
            latencies.add(Duration::from_millis(150));
        }
        let patience = latencies.patience().unwrap();
        let expected = Duration::from_millis(290)..Duration::from_millis(460);
        assert!(expected.contains(&patience), "{patience:?}");
        // One slow read in a thousand does not change it, one in ten does.
        latencies.add(Duration::from_secs(5));
        assert_eq!(latencies.patience().unwrap(), patience);
        for _ in 0..30 {
            latencies.add(Duration::from_secs(2));
        }
        assert!(latencies.patience().unwrap() > Duration::from_secs(3));
    }

    #[test]
    fn few_reads_are_asked_for_twice() {
        let latencies = Latencies::default();
        for _ in 0..100 {
            latencies.add(Duration::from_millis(1));
        }
        let hedged = (0..50).filter(|_| latencies.may_hedge()).count();
        assert_eq!(hedged, 5);
    }

    #[test]
    fn old_times_are_forgotten() {
        let latencies = Latencies::default();
        for _ in 0..KNOWN.end {
            latencies.add(Duration::from_secs(1));
        }
        for _ in 0..KNOWN.end * 8 {
            latencies.add(Duration::from_millis(10));
        }
        assert_eq!(latencies.patience(), Some(SHORTEST_PATIENCE));
    }
}
