//! How fast a run is, how far, and how that is said: the same figures for a bar, a line in a log, and a program.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::base::units::{bytes_text, count_text, counted, seconds_text};
use crate::model::counters::Counters;

/// The last seconds, whose mean is the rate once a stage is older.
const WINDOW: Duration = Duration::from_secs(15);
/// Below this no rate is told.
const FIRST: Duration = Duration::from_millis(500);

/// What had been done by a moment of a stage.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    bytes: u64,
    samples: u64,
}

/// The rate of a stage: the mean since its start, and of the last seconds when it is older than those.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    stage: String,
    began: Option<Instant>,
    /// Files and directories that were listed before.
    listed: (u64, u64),
    moments: VecDeque<Moment>,
}

/// How far a stage is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Name of the stage.
    pub(crate) stage: String,
    /// Part that is done, from 0 to 1, where there is something to count.
    pub(crate) done: Option<f64>,
    /// Samples done, and of how many.
    pub(crate) samples: (u64, u64),
    /// Bytes done, and of how many.
    pub(crate) bytes: (u64, u64),
    /// Shards done, and of how many.
    pub(crate) shards: (u64, u64),
    /// Files listed, and the directories they are in.
    pub(crate) listed: (u64, u64),
    /// Per second.
    pub(crate) bytes_per_second: f64,
    /// Per second.
    pub(crate) samples_per_second: f64,
    /// Seconds of this stage.
    pub(crate) seconds: f64,
    /// Seconds that are left, if that can be said.
    pub(crate) left: Option<f64>,
    /// What there is of trouble, each with its name.
    pub(crate) trouble: Vec<(u64, &'static str)>,
}

impl Pace {
    /// How far a run is now.
    pub(crate) fn look(&mut self, counters: &Counters) -> Figures {
        self.look_at(counters, Instant::now())
    }

    fn look_at(&mut self, counters: &Counters, at: Instant) -> Figures {
        let (stage, counts) = (counters.stage(), counters.counts());
        let moment = Moment {
            at,
            bytes: counts.bytes,
            samples: counts.samples,
        };
        // Counts begin again with a stage, also with one of the same name.
        let is_new = |last: &Moment| last.bytes > moment.bytes || last.samples > moment.samples;
        if stage != self.stage || self.moments.back().is_some_and(is_new) {
            *self = Self {
                stage,
                began: Some(at),
                listed: match self.began {
                    Some(_) => (counts.listed, counts.directories),
                    None => (0, 0),
                },
                moments: VecDeque::new(),
            };
            let nothing = Moment {
                bytes: 0,
                samples: 0,
                ..moment
            };
            self.moments.push_back(nothing);
        }
        self.moments.push_back(moment);
        while self
            .moments
            .get(1)
            .is_some_and(|second| at - second.at >= WINDOW)
        {
            self.moments.pop_front();
        }
        let first = self.moments.front().copied().unwrap_or(moment);
        let passed = at - first.at;
        let rate = |done: u64| match passed < FIRST {
            true => 0.0,
            false => done as f64 / passed.as_secs_f64(),
        };
        let part = |done: u64, of: u64| (of > 0).then(|| (done as f64 / of as f64).min(1.0));
        // Where nothing is read, samples are counted, or only shards.
        let parts = [
            part(counts.bytes, counts.all_bytes),
            part(counts.samples, counts.all_samples),
            part(counts.shards, counts.all_shards),
        ];
        let done = parts.into_iter().flatten().reduce(f64::max);
        let (bytes_per_second, samples_per_second) = (
            rate(moment.bytes - first.bytes),
            rate(moment.samples - first.samples),
        );
        let left = |done: u64, of: u64, rate: f64| {
            (of > 0 && rate > 0.0).then(|| of.saturating_sub(done) as f64 / rate)
        };
        Figures {
            stage: self.stage.clone(),
            done,
            samples: (counts.samples, counts.all_samples),
            bytes: (counts.bytes, counts.all_bytes),
            shards: (counts.shards, counts.all_shards),
            listed: (
                counts.listed - self.listed.0,
                counts.directories - self.listed.1,
            ),
            bytes_per_second,
            samples_per_second,
            seconds: self.began.map_or(0.0, |began| (at - began).as_secs_f64()),
            left: left(counts.bytes, counts.all_bytes, bytes_per_second)
                .or_else(|| left(counts.samples, counts.all_samples, samples_per_second)),
            trouble: [
                (counts.retries, "retries"),
                (counts.skipped, "skipped"),
                (counts.refused, "bad"),
            ]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .collect(),
        }
    }
}

impl Figures {
    /// Percent done, where there is something to count.
    pub(crate) fn percent(&self) -> Option<u64> {
        self.done.map(|done| (done * 100.0) as u64)
    }

    /// What is said of it, in order; what is dropped first where there is no room has the highest number.
    fn parts(&self) -> Vec<(u8, String)> {
        let mut parts = Vec::new();
        let mut say = |rank: u8, is_said: bool, text: String| {
            if is_said {
                parts.push((rank, text));
            }
        };
        let ((samples, of_samples), (bytes, of_bytes)) = (self.samples, self.bytes);
        let (files, directories) = self.listed;
        let listing = self.done.is_none() && files > 0 && samples == 0;
        say(0, listing, counted(files, "file"));
        let several = |count: u64, one: &str, many: &str| {
            format!(
                "{} {}",
                count_text(count),
                if count == 1 { one } else { many }
            )
        };
        say(
            2,
            listing && directories > 0,
            several(directories, "directory", "directories"),
        );
        let of = |done: u64, of: u64| match of {
            0 => count_text(done),
            of => format!("{}/{}", count_text(done), count_text(of)),
        };
        say(
            4,
            samples + of_samples > 0,
            format!("{} samples", of(samples, of_samples)),
        );
        say(5, bytes + of_bytes > 0, bytes_text(bytes));
        let rate = self.bytes_per_second as u64;
        say(1, rate > 0, format!("{}/s", bytes_text(rate)));
        let images = self.samples_per_second.round() as u64;
        say(2, images > 0, format!("{} images/s", count_text(images)));
        let (shards, of_shards) = self.shards;
        say(
            6,
            of_shards > 0,
            format!("{} shards", of(shards, of_shards)),
        );
        for (count, what) in &self.trouble {
            say(3, true, format!("{} {what}", count_text(*count)));
        }
        say(
            if self.left.is_some() { 7 } else { 1 },
            true,
            seconds_text(self.seconds),
        );
        if let Some(left) = self.left {
            say(0, true, format!("ETA {}", seconds_text(left)));
        }
        parts
    }

    /// As much of it as fits into so many columns.
    pub(crate) fn within(&self, columns: usize) -> String {
        let mut parts = self.parts();
        loop {
            let text = joined(&parts);
            if text.chars().count() <= columns {
                return text;
            }
            let last = (0..parts.len()).max_by_key(|&at| parts[at].0);
            match last {
                Some(at) if parts.len() > 1 => _ = parts.remove(at),
                _ => return text.chars().take(columns).collect(),
            }
        }
    }

    /// A line of a log.
    pub(crate) fn line(&self) -> String {
        let percent = self.percent().map(|percent| format!("{percent}%  "));
        format!(
            "{}  {}{}",
            self.stage,
            percent.unwrap_or_default(),
            joined(&self.parts())
        )
    }
}

fn joined(parts: &[(u8, String)]) -> String {
    let texts: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
    texts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pace: &mut Pace, counters: &Counters, start: Instant, seconds: f64) -> Figures {
        pace.look_at(counters, start + Duration::from_secs_f64(seconds))
    }

    #[test]
    fn the_rate_is_the_mean_since_the_start_until_there_is_a_window() {
        let (counters, mut pace, start) = (Counters::default(), Pace::default(), Instant::now());
        counters.begin("pack", 1000, 1_000_000, 4);
        after(&mut pace, &counters, start, 0.0);
        // What was ready at once is not the rate of the first moment.
        for _ in 0..40 {
            counters.sample(1000);
        }
        let early = after(&mut pace, &counters, start, 0.1);
        assert_eq!((early.bytes_per_second, early.left), (0.0, None));
        let soon = after(&mut pace, &counters, start, 2.0);
        assert_eq!(soon.bytes_per_second, 20_000.0);
        assert_eq!(soon.samples_per_second, 20.0);
        assert_eq!(soon.left, Some(48.0));
        assert_eq!(soon.percent(), Some(4));
        // Later only the last seconds count.
        for second in 3..60 {
            counters.sample(1000);
            after(&mut pace, &counters, start, f64::from(second));
        }
        let late = after(&mut pace, &counters, start, 60.0);
        assert!((900.0..1100.0).contains(&late.bytes_per_second), "{late:?}");
        assert_eq!(late.seconds, 60.0);
        // The next stage begins at nothing.
        counters.begin("verify", 10, 100, 1);
        let next = after(&mut pace, &counters, start, 61.0);
        assert_eq!((next.bytes_per_second, next.seconds), (0.0, 0.0));
    }

    #[test]
    fn a_listing_says_files_directories_and_time() {
        let (counters, mut pace, start) = (Counters::default(), Pace::default(), Instant::now());
        counters.begin("scan", 0, 0, 0);
        after(&mut pace, &counters, start, 0.0);
        counters.listed(412_000);
        for _ in 0..731 {
            counters.directory();
        }
        let figures = after(&mut pace, &counters, start, 18.0);
        assert_eq!(figures.line(), "scan  412,000 files  731 directories  18 s");
        assert_eq!(figures.within(24), "412,000 files  18 s");
    }

    #[test]
    fn where_there_is_little_room_what_matters_most_stays() {
        let (counters, mut pace, start) = (Counters::default(), Pace::default(), Instant::now());
        counters.begin("pack", 900, 100_000_000, 8);
        after(&mut pace, &counters, start, 0.0);
        for _ in 0..391 {
            counters.sample(110_000);
        }
        let figures = after(&mut pace, &counters, start, 10.0);
        assert_eq!(
            figures.line(),
            "pack  43%  391/900 samples  43.0 MB  4.30 MB/s  39 images/s  0/8 shards  10 s  ETA 13 s"
        );
        assert_eq!(figures.within(40), "4.30 MB/s  39 images/s  ETA 13 s");
        assert_eq!(figures.within(20), "4.30 MB/s  ETA 13 s");
        for columns in 0..120 {
            assert!(figures.within(columns).chars().count() <= columns);
        }
    }

    #[test]
    fn where_nothing_is_read_shards_and_samples_say_how_far_it_is() {
        let (counters, mut pace) = (Counters::default(), Pace::default());
        counters.begin("verify", 100, 1_000_000, 4);
        counters.shard("x", 250_000, 25);
        assert_eq!(pace.look(&counters).percent(), Some(25));
    }
}
