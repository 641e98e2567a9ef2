//! What is told of millions of samples, added up as they pass: of the same size whatever their number.

use std::collections::BTreeMap;

use crate::model::record::{NO_LABEL, SampleRecord};
use crate::upkeep::places::Place;

/// Outstanding samples kept of each sort.
const EXTREMES: usize = 3;

/// Counts of numbers, in 256 buckets an octave: quantiles are right to 0.5 %, smallest, largest and mean exactly.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: Vec::new(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

/// The bucket of a number, where each octave has `1 << bits` of them.
fn bucket(value: u64, bits: u32) -> usize {
    let octave = value.checked_ilog2().unwrap_or(0);
    match octave.checked_sub(bits) {
        None => value as usize,
        Some(above) => ((above as usize) << bits) + (value >> above) as usize,
    }
}

/// The smallest number in a bucket.
fn bucket_start(bucket: usize, bits: u32) -> u64 {
    match (bucket >> bits).checked_sub(1) {
        None => bucket as u64,
        Some(above) => {
            let within = (bucket - (above << bits)) as u64;
            let scale = 1u64.checked_shl(above as u32);
            scale.map_or(u64::MAX, |scale| within.saturating_mul(scale))
        }
    }
}

impl Histogram {
    const BITS: u32 = 8;

    /// Counts one.
    pub(crate) fn add(&mut self, value: u64) {
        let at = bucket(value, Self::BITS);
        if self.buckets.len() <= at {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds another's counts.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (ours, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *ours += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many were counted.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The smallest of all, 0 of none.
    pub(crate) fn min(&self) -> u64 {
        self.min.min(self.max)
    }

    /// The largest of all, 0 of none.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The mean, 0 of none.
    pub(crate) fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// A number that this part of all (0 to 1) are not larger than, about.
    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let rank = (self.count as f64 * part).ceil() as u64;
        let mut below = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank.max(1) {
                let start = bucket_start(at, Self::BITS);
                return start.clamp(self.min(), self.max);
            }
        }
        self.max
    }

    /// At most `bars` bars of equal width on a logarithmic scale, from the smallest number's to the largest's: the smallest number of
    /// each, and the count.
    pub(crate) fn bars(&self, bars: usize) -> Vec<(u64, u64)> {
        if self.count == 0 {
            return Vec::new();
        }
        let first = bucket(self.min, Self::BITS);
        let buckets = &self.buckets[first..];
        let each = buckets.len().div_ceil(bars.max(1));
        let chunks = buckets.chunks(each).enumerate();
        chunks
            .map(|(i, chunk)| {
                let start = bucket_start(first + i * each, Self::BITS);
                (start, chunk.iter().sum())
            })
            .collect()
    }
}

/// How many images are so wide and so high, in buckets of a quarter of an octave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Grid {
    cells: BTreeMap<(u16, u16), u64>,
}

/// A [`Grid`] made to fit a drawing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cells {
    /// Smallest widths of the columns, and where the last one ends.
    pub widths: Vec<u64>,
    /// Smallest heights of the rows, and where the last one ends.
    pub heights: Vec<u64>,
    /// Those that have images.
    pub cells: Vec<Cell>,
}

/// Images of about one width and height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Number of its column, 0-based.
    pub column: usize,
    /// Number of its row, 0-based.
    pub row: usize,
    /// Images in it.
    pub count: u64,
}

impl Grid {
    const BITS: u32 = 2;

    fn add(&mut self, width: u32, height: u32) {
        let side = |side: u32| bucket(u64::from(side), Self::BITS) as u16;
        *self.cells.entry((side(width), side(height))).or_default() += 1;
    }

    fn merge(&mut self, other: &Self) {
        for (cell, count) in &other.cells {
            *self.cells.entry(*cell).or_default() += count;
        }
    }

    /// At most `most` columns and rows, around what there is; `None` of nothing.
    pub(crate) fn cells(&self, most: usize) -> Option<Cells> {
        let sides = |side: fn(&(u16, u16)) -> u16| {
            let sides = self.cells.keys().map(side);
            Some((sides.clone().min()? as usize, sides.max()? as usize))
        };
        let (columns, rows) = (sides(|cell| cell.0)?, sides(|cell| cell.1)?);
        let span = (columns.1 - columns.0).max(rows.1 - rows.0) + 1;
        let each = span.div_ceil(most.max(1));
        let starts = |(first, last): (usize, usize)| -> Vec<u64> {
            let count = (last - first) / each + 1;
            let start = |i| bucket_start(first + i * each, Self::BITS);
            (0..=count).map(start).collect()
        };
        let mut cells: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for (&(width, height), count) in &self.cells {
            let column = (width as usize - columns.0) / each;
            let row = (height as usize - rows.0) / each;
            *cells.entry((column, row)).or_default() += count;
        }
        Some(Cells {
            widths: starts(columns),
            heights: starts(rows),
            cells: cells
                .into_iter()
                .map(|((column, row), count)| Cell { column, row, count })
                .collect(),
        })
    }
}

/// A sample that stands out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extreme {
    /// By what: bytes or pixels.
    pub size: u64,
    /// Its key.
    pub key: String,
    /// Width and height of its image, if they are known.
    pub sides: Option<(u32, u32)>,
    /// Bytes of its fields.
    pub bytes: u64,
    /// Where it is.
    pub place: Place,
}

/// The few samples with the smallest or largest sizes; by key where they are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extremes {
    /// From the smallest.
    pub smallest: Vec<Extreme>,
    /// From the largest.
    pub largest: Vec<Extreme>,
}

impl Extremes {
    /// Takes a sample in if it stands out; its key is only copied then.
    fn add(&mut self, size: u64, sample: &SampleRecord, bytes: u64, place: Place) {
        let small = self.smallest.last().map(|last| last.size);
        let large = self.largest.last().map(|last| last.size);
        let full = self.smallest.len() == EXTREMES;
        if full && small.is_some_and(|last| size > last) && large.is_some_and(|last| size < last) {
            return;
        }
        let extreme = Extreme {
            size,
            key: sample.key.clone(),
            sides: sample.image.map(|image| (image.width, image.height)),
            bytes,
            place,
        };
        self.merge(&Self {
            smallest: vec![extreme.clone()],
            largest: vec![extreme],
        });
    }

    fn merge(&mut self, other: &Self) {
        self.smallest.extend_from_slice(&other.smallest);
        self.smallest.sort();
        self.smallest.truncate(EXTREMES);
        self.largest.extend_from_slice(&other.largest);
        self.largest
            .sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.key.cmp(&b.key)));
        self.largest.truncate(EXTREMES);
    }
}

/// Samples added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Samples of each class, by label.
    pub labels: Vec<u64>,
    /// Samples without a label.
    pub unlabelled: u64,
    /// Bytes of a sample's fields.
    pub bytes: Histogram,
    /// Widths of images.
    pub widths: Histogram,
    /// Heights of images.
    pub heights: Histogram,
    /// Pixels of images.
    pub pixels: Histogram,
    /// Widths and heights together.
    pub sides: Grid,
    /// Images of each format.
    pub formats: BTreeMap<&'static str, u64>,
    /// Samples of the fewest and the most bytes.
    pub by_bytes: Extremes,
    /// Images of the fewest and the most pixels.
    pub by_pixels: Extremes,
}

impl Figures {
    /// Nothing yet, of so many classes.
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            labels: vec![0; classes],
            ..Self::default()
        }
    }

    /// Counts a sample. A label without a class counts as none.
    pub(crate) fn add(&mut self, sample: &SampleRecord, place: Place) {
        match self.labels.get_mut(sample.label as usize) {
            Some(count) if sample.label != NO_LABEL => *count += 1,
            _ => self.unlabelled += 1,
        }
        let bytes = sample.fields.iter().map(|field| field.length).sum();
        self.bytes.add(bytes);
        self.by_bytes.add(bytes, sample, bytes, place);
        if let Some(image) = sample.image {
            let pixels = u64::from(image.width) * u64::from(image.height);
            self.widths.add(image.width.into());
            self.heights.add(image.height.into());
            self.pixels.add(pixels);
            self.sides.add(image.width, image.height);
            *self.formats.entry(image.format.name()).or_default() += 1;
            self.by_pixels.add(pixels, sample, bytes, place);
        }
    }

    /// Adds what others counted; in whatever order, the result is the same.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.labels.len() < other.labels.len() {
            self.labels.resize(other.labels.len(), 0);
        }
        for (ours, theirs) in self.labels.iter_mut().zip(&other.labels) {
            *ours += theirs;
        }
        self.unlabelled += other.unlabelled;
        for (ours, theirs) in [
            (&mut self.bytes, &other.bytes),
            (&mut self.widths, &other.widths),
            (&mut self.heights, &other.heights),
            (&mut self.pixels, &other.pixels),
        ] {
            ours.merge(theirs);
        }
        self.sides.merge(&other.sides);
        for (format, count) in &other.formats {
            *self.formats.entry(format).or_default() += count;
        }
        self.by_bytes.merge(&other.by_bytes);
        self.by_pixels.merge(&other.by_pixels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::image::{ImageFormat, ImageInfo};
    use crate::model::record::FieldRecord;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_lies_in_its_bucket(value in any::<u64>(), shift in 0..64u32, bits in 2..8u32) {
            let value = value >> shift;
            let at = bucket(value, bits);
            prop_assert!(bucket_start(at, bits) <= value);
            // The bucket after the last one would begin at 2^64.
            if at < bucket(u64::MAX, bits) {
                prop_assert!(value < bucket_start(at + 1, bits));
            }
        }

        #[test]
        fn quantiles_are_exact_for_small_numbers_and_right_to_half_a_percent_for_others(mut values in proptest::collection::vec(prop_oneof![0..600u64, 0..5_000_000u64], 1..300), part in 0.0..1.0f64) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(value));
            values.sort_unstable();
            let rank = ((values.len() as f64 * part).ceil() as usize).max(1);
            let (exact, about) = (values[rank - 1] as f64, histogram.quantile(part) as f64);
            prop_assert!((about - exact).abs() <= if exact < 512.0 { 0.0 } else { exact / 200.0 }, "{about} for {exact}");
            prop_assert_eq!(histogram.bars(10).iter().map(|bar| bar.1).sum::<u64>(), values.len() as u64);
            prop_assert!(histogram.bars(10).len() <= 10);
        }

        #[test]
        fn samples_add_up_the_same_in_any_division(
            samples in proptest::collection::vec((0..5u32, 1..3000u32, 1..3000u32, 0..100_000u64), 0..60), cut in any::<proptest::sample::Index>()
        ) {
            let record = |(i, &(label, width, height, length)): (usize, &(u32, u32, u32, u64))| SampleRecord {
                key: format!("k{i}"),
                label: if label == 4 { NO_LABEL } else { label },
                image: (length % 3 > 0).then_some(ImageInfo { format: ImageFormat::Png, width, height }),
                fields: vec![FieldRecord { length, ..FieldRecord::default() }],
                ..SampleRecord::default()
            };
            let records: Vec<_> = samples.iter().enumerate().map(record).collect();
            let add = |records: &[SampleRecord]| {
                let mut figures = Figures::new(4);
                records.iter().for_each(|record| figures.add(record, Place::default()));
                figures
            };
            let whole = add(&records);
            let (a, b) = records.split_at(cut.index(records.len() + 1));
            let (mut ab, mut ba) = (add(a), add(b));
            ab.merge(&add(b));
            ba.merge(&add(a));
            prop_assert_eq!(&ab, &whole);
            prop_assert_eq!(&ba, &whole);
            prop_assert_eq!(whole.labels.iter().sum::<u64>() + whole.unlabelled, records.len() as u64);
            let cells = whole.sides.cells(8);
            let counted = cells.iter().flat_map(|cells| &cells.cells).map(|cell| cell.count).sum::<u64>();
            prop_assert_eq!(counted, whole.widths.count());
            if let Some(cells) = cells {
                prop_assert!(cells.widths.len() <= 9 && cells.heights.len() <= 9);
                prop_assert!(cells.cells.iter().all(|cell| cell.column + 1 < cells.widths.len() && cell.row + 1 < cells.heights.len()));
            }
        }
    }
}
