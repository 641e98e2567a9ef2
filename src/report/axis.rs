//! Axes of charts: where their labels stand and what they say. Places go from 0, the beginning, to 1, the end.

use crate::base::units::{count_text, seconds_text};
use crate::report::chart::Tick;

/// A round step of an axis that is cut into about three, and the axis's end.
fn axis(most: f64) -> (f64, f64) {
    if !most.is_finite() || most <= 0.0 {
        return (1.0, 1.0);
    }
    let rough = most / 3.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|round| round * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * power);
    (step, (most / step).ceil() * step)
}

/// Labels of an axis from 0 to its end, at each step.
pub(super) fn ticks(most: f64, name: impl Fn(f64) -> String) -> (f64, Vec<Tick>) {
    let (step, end) = axis(most);
    let count = (end / step).round() as usize;
    let tick = |i: usize| (i as f64 / count as f64, name(step * i as f64));
    (end, (0..=count).map(tick).collect())
}

/// The same for things that are counted: no step is less than one.
pub(super) fn count_ticks(most: u64) -> (f64, Vec<Tick>) {
    match most {
        0..=3 => {
            let end = most.max(1);
            let tick = |n: u64| (n as f64 / end as f64, count_text(n));
            (end as f64, (0..=end).map(tick).collect())
        }
        _ => ticks(most as f64, |count| count_text(count as u64)),
    }
}

/// An axis of powers of ten: where a number above 0 stands on it.
pub(super) struct Decades {
    first: f64,
    count: f64,
}

impl Decades {
    /// One that all these numbers stand on.
    pub(super) fn of(numbers: impl Iterator<Item = f64>) -> Self {
        let logs = numbers
            .filter(|number| number.is_finite() && *number > 0.0)
            .map(f64::log10);
        let (least, most) = logs.fold((f64::MAX, f64::MIN), |(least, most), log| {
            (least.min(log), most.max(log))
        });
        match least <= most {
            true => Self {
                first: least.floor(),
                count: (most.ceil() - least.floor()).max(1.0),
            },
            false => Self {
                first: 0.0,
                count: 1.0,
            },
        }
    }

    pub(super) fn place(&self, number: f64) -> f64 {
        match number > 0.0 {
            true => ((number.log10() - self.first) / self.count).clamp(0.0, 1.0),
            false => 0.0,
        }
    }

    pub(super) fn ticks(&self, name: impl Fn(f64) -> String) -> Vec<Tick> {
        let count = self.count as i32;
        (0..=count)
            .map(|i| {
                let number = 10f64.powi(self.first as i32 + i);
                (f64::from(i) / self.count, name(number))
            })
            .collect()
    }
}

/// Labels of an axis of time from 0 to `most` seconds, at steps that clocks have.
pub(super) fn time_ticks(most: f64) -> Vec<Tick> {
    const STEPS: [f64; 15] = [
        0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0,
    ];
    let hours = (0..30).map(|power| 3600.0 * f64::from(1 << power));
    let mut steps = STEPS.into_iter().chain(hours);
    let step = steps.find(|step| most / step <= 5.0).unwrap_or(most);
    let count = (most / step).floor() as u32;
    let at = |i: u32| f64::from(i) * step;
    (0..=count)
        .map(|i| (at(i) / most, seconds_text(at(i))))
        .collect()
}

/// Labels of an axis of buckets that begin at these numbers: powers of two, six at most.
pub(super) fn powers(starts: &[u64], name: impl Fn(u64) -> String) -> Vec<Tick> {
    let (Some(&first), Some(&last)) = (starts.first(), starts.last()) else {
        return Vec::new();
    };
    let found = (0..63).map(|power| 1u64 << power);
    let found: Vec<u64> = found.filter(|n| (first..=last).contains(n)).collect();
    if found.len() < 2 {
        return vec![(0.0, name(first)), (1.0, name(last))];
    }
    let place = |number: u64| {
        let above = starts.partition_point(|&start| start <= number);
        let (from, to) = (
            starts[above - 1],
            starts.get(above).copied().unwrap_or(last),
        );
        let part = (number - from) as f64 / (to - from).max(1) as f64;
        ((above - 1) as f64 + part) / (starts.len() - 1).max(1) as f64
    };
    let each = found.len().div_ceil(6);
    let found = found.into_iter().step_by(each);
    found.map(|number| (place(number), name(number))).collect()
}

/// Five labels at equal distances along buckets that begin at these numbers.
pub(super) fn spread(starts: &[u64], name: impl Fn(u64) -> String) -> Vec<Tick> {
    let last = starts.len().saturating_sub(1);
    let labels = last.clamp(1, 4);
    (0..=labels)
        .map(|i| {
            let at = i * last / labels;
            (
                at as f64 / last.max(1) as f64,
                name(starts.get(at).copied().unwrap_or(0)),
            )
        })
        .collect()
}

/// Names of the two ends of something numbered.
pub(super) fn ends(first: &str, last: &str, many: bool) -> Vec<Tick> {
    match many {
        true => vec![(0.0, first.to_owned()), (1.0, last.to_owned())],
        false => vec![(0.0, first.to_owned())],
    }
}
