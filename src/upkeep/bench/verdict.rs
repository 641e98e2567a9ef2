//! What the figures say in words: who starves, from how many readers on it is enough, and what limits then.

use serde::Serialize;

use super::queue::Waiting;
use super::{Bench, Decoding, Readers};
use crate::base::units::{count_text, counted};

/// Shards that are less than so many times as fast gain little.
const LITTLE: f64 = 1.5;

/// Whether a training loop gets what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Feeding {
    Starved,
    Enough,
}

/// What limits training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Reading files does, and shards are enough.
    Files,
    /// Reading files does, and shards are faster and not enough.
    Storage,
    /// Reading does, and shards are no remedy.
    Both,
    /// Reading does not.
    Nothing,
    /// Shards are slower than files, which are enough.
    Shards,
}

/// What is made of the figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) files: Feeding,
    pub(crate) shards: Feeding,
    /// Rate of shards as a multiple of that of files, both at their best.
    pub(crate) gain: f64,
    pub(crate) text: String,
    #[serde(skip)]
    pub(crate) limit: Limit,
}

/// The readers that were fastest, the fewest of those; none if none got anything.
pub(crate) fn fastest(rates: &[Readers]) -> Option<&Readers> {
    rates
        .iter()
        .filter(|at| at.rate.images_per_second > 0.0)
        .reduce(
            |best, at| match at.rate.images_per_second > best.rate.images_per_second {
                true => at,
                false => best,
            },
        )
}

/// Their number, and their images a second.
pub(crate) fn best(rates: &[Readers]) -> (usize, f64) {
    fastest(rates).map_or((0, 0.0), |at| (at.readers, at.rate.images_per_second))
}

/// From how many readers on it is enough, in words: between two numbers of readers that were measured in proportion; none if it never was.
fn enough(rates: &[Readers], target: f64) -> Option<String> {
    let mut before: Option<(usize, f64)> = None;
    for at in rates {
        let (readers, rate) = (at.readers, at.rate.images_per_second);
        if rate >= target {
            return Some(match before {
                Some((fewer, less)) => {
                    let part = (target - less) / (rate - less);
                    let from = fewer + ((readers - fewer) as f64 * part).ceil() as usize;
                    format!("enough from {} on", counted(from as u64, "reader"))
                }
                None => format!("enough with {}", counted(readers as u64, "reader")),
            });
        }
        before = Some((readers, rate));
    }
    None
}

/// A number of times, with a digit behind the point while it is small.
pub(crate) fn times(times: f64) -> String {
    match times {
        small if small < 9.95 => format!("{small:.1} ×"),
        large => format!("{} ×", count_text(large.round() as u64)),
    }
}

/// Images a second.
pub(crate) fn rate_text(rate: f64) -> String {
    match rate {
        small if small < 99.5 => format!("{small:.1}"),
        large => count_text(large.round() as u64),
    }
}

/// One side of it in words.
fn side(name: &str, rates: &[Readers], target: f64) -> (Feeding, String) {
    let (readers, rate) = best(rates);
    let reached = format!("{name}: {} images/s with {readers}", rate_text(rate));
    match enough(rates, target) {
        Some(enough) => (Feeding::Enough, format!("{reached}, {enough}")),
        None if rate > 0.0 => (
            Feeding::Starved,
            format!(
                "{reached}, {} too slow for {}/s",
                times(target / rate),
                rate_text(target)
            ),
        ),
        None => (Feeding::Starved, format!("{name}: nothing was read")),
    }
}

/// What decoding comes to.
fn decoding(decode: &Decoding, target: f64, cores: usize) -> String {
    if decode.images_per_second_per_core <= 0.0 {
        return "decoding: nothing could be decoded".to_owned();
    }
    let needed = (target / decode.images_per_second_per_core).ceil() as u64;
    let beyond = match needed > cores as u64 {
        true => format!(", and this machine has {cores}"),
        false => String::new(),
    };
    format!(
        "decoding: {}/s a core, so {} for {}/s{beyond}",
        rate_text(decode.images_per_second_per_core),
        counted(needed, "core"),
        rate_text(target)
    )
}

/// What the figures say; `cores` are this machine's.
pub(crate) fn verdict(bench: &Bench, cores: usize) -> Verdict {
    let target = bench.target;
    let (files, files_text) = side("files", &bench.files, target);
    let (shards, shards_text) = side("shards", &bench.shards, target);
    let gain = match best(&bench.files).1 {
        rate if rate > 0.0 => best(&bench.shards).1 / rate,
        _ => 0.0,
    };
    let limit = match (files, shards) {
        (Feeding::Starved, Feeding::Enough) => Limit::Files,
        (Feeding::Starved, Feeding::Starved) if gain >= LITTLE => Limit::Storage,
        (Feeding::Starved, Feeding::Starved) => Limit::Both,
        (Feeding::Enough, Feeding::Enough) => Limit::Nothing,
        (Feeding::Enough, Feeding::Starved) => Limit::Shards,
    };
    let end = match limit {
        Limit::Files => format!(
            "reading files is what limits you, and shards are {} as fast",
            times(gain)
        ),
        Limit::Storage => format!(
            "shards are {} as fast and still not enough: storage nearer to the GPU is needed too",
            times(gain)
        ),
        Limit::Both => format!(
            "shards gain little here ({}): the storage itself is too slow",
            times(gain)
        ),
        Limit::Nothing => {
            "files are enough already and shards gain little: storage is not what limits you"
                .to_owned()
        }
        Limit::Shards => "files are enough, and shards are slower here: stay with files".to_owned(),
    };
    let mut parts = vec![files_text, shards_text];
    if let Some(decode) = &bench.decode {
        parts.push(decoding(decode, target, cores));
    }
    Verdict {
        files,
        shards,
        gain,
        text: format!("{}: {end}", parts.join(" · ")),
        limit,
    }
}

/// A part of the time that a GPU would wait.
pub(crate) fn waiting_text(waiting: &Waiting) -> String {
    format!(
        "{:.0} % busy, {:.0} % waiting",
        waiting.busy * 100.0,
        waiting.waiting * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upkeep::bench::load::Rate;

    fn rates(all: &[(usize, f64)]) -> Vec<Readers> {
        let at = |&(readers, images_per_second): &(usize, f64)| Readers {
            readers,
            rate: Rate {
                images_per_second,
                ..Rate::default()
            },
        };
        all.iter().map(at).collect()
    }

    fn said(files: &[(usize, f64)], shards: &[(usize, f64)], target: f64) -> Verdict {
        let bench = Bench {
            target,
            files: rates(files),
            shards: rates(shards),
            ..Bench::default()
        };
        verdict(&bench, 2)
    }

    #[test]
    fn slow_files_starve_a_gpu_and_shards_feed_it_from_a_number_of_readers_on() {
        let verdict = said(&[(1, 9.3), (8, 73.0)], &[(1, 340.0), (8, 2380.0)], 2000.0);
        assert_eq!(
            (verdict.files, verdict.shards, verdict.limit),
            (Feeding::Starved, Feeding::Enough, Limit::Files)
        );
        assert_eq!(
            verdict.text,
            "files: 73.0 images/s with 8, 27 × too slow for 2,000/s · shards: 2,380 images/s with 8, enough from 7 readers on: \
             reading files is what limits you, and shards are 33 × as fast"
        );
    }

    #[test]
    fn the_verdict_turns_at_the_target() {
        let (files, shards) = ([(1, 50.0), (8, 80.0)], [(1, 400.0), (8, 900.0)]);
        let at = |target: f64| {
            let verdict = said(&files, &shards, target);
            (verdict.files, verdict.shards)
        };
        assert_eq!(at(80.0), (Feeding::Enough, Feeding::Enough));
        assert_eq!(at(80.1), (Feeding::Starved, Feeding::Enough));
        assert_eq!(at(900.0), (Feeding::Starved, Feeding::Enough));
        assert_eq!(at(900.1), (Feeding::Starved, Feeding::Starved));
        let from = |target: f64| enough(&rates(&files), target);
        assert_eq!(from(50.0).unwrap(), "enough with 1 reader");
        assert_eq!(from(65.0).unwrap(), "enough from 5 readers on");
        assert_eq!(from(81.0), None);
    }

    #[test]
    fn what_gains_little_is_said_to() {
        let both = |rate: f64| said(&[(8, 30_000.0)], &[(8, rate)], 2000.0);
        assert_eq!(both(90_000.0).limit, Limit::Nothing);
        assert!(both(90_000.0).text.contains("gain little"));
        assert_eq!(both(100.0).limit, Limit::Shards);
        assert_eq!(
            said(&[(8, 100.0)], &[(8, 110.0)], 2000.0).limit,
            Limit::Both
        );
        assert_eq!(
            said(&[(8, 100.0)], &[(8, 900.0)], 2000.0).limit,
            Limit::Storage
        );
        assert_eq!(said(&[], &[], 2000.0).limit, Limit::Both);
    }

    #[test]
    fn decoding_is_counted_in_cores() {
        let decode = Decoding {
            images_per_second_per_core: 410.0,
            ..Decoding::default()
        };
        assert_eq!(
            decoding(&decode, 2000.0, 8),
            "decoding: 410/s a core, so 5 cores for 2,000/s"
        );
        assert!(decoding(&decode, 2000.0, 2).ends_with("this machine has 2"));
    }
}
