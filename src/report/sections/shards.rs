//! Splits, and how large their shards are.

use crate::base::units::{bytes_text, count_text, counted};
use crate::report::amounts::percent;
use crate::report::axis::{ends, ticks};
use crate::report::chart::{Bar, Frame, draw_bars};
use crate::report::dataset::{Dataset, Split};
use crate::report::page::Page;

/// Splits with a row at most.
const SPLITS_LISTED: usize = 30;
/// Splits with a chart of their own at most.
const SPLITS_DRAWN: usize = 4;
/// Bars of a chart at most.
const BARS: usize = 120;

/// Writes a row for each split, and a chart of the sizes of its shards for the first of them.
pub(in crate::report) fn write(page: &mut Page, dataset: &Dataset) {
    page.section("", "Splits and shards");
    if dataset.splits.is_empty() {
        page.says("There are none.");
    }
    let columns = [
        "split", "samples", "share", "size", "shards", "smallest", "largest",
    ];
    page.out.table(&columns);
    for split in dataset.splits.iter().take(SPLITS_LISTED) {
        let least = split.shards.iter().min().copied().unwrap_or(0);
        let most = split.shards.iter().max().copied().unwrap_or(0);
        page.out.row(
            &split.name,
            &[
                count_text(split.samples),
                percent(split.samples, dataset.samples),
                bytes_text(split.bytes),
                count_text(split.shards.len() as u64),
                bytes_text(least),
                bytes_text(most),
            ],
        );
    }
    page.out.end_table();
    let drawn = |split: &&Split| split.shards.len() > 1;
    for split in dataset.splits.iter().filter(drawn).take(SPLITS_DRAWN) {
        shard_sizes(page, split);
    }
    page.out.raw("</section>");
}

/// A chart of the sizes of a split's shards; neighbours are drawn as one where there are many.
fn shard_sizes(page: &mut Page, split: &Split) {
    let count = split.shards.len();
    let most = split.shards.iter().max().copied().unwrap_or(0);
    let least = split.shards.iter().min().copied().unwrap_or(0);
    let (top, y) = ticks(most as f64, |bytes| bytes_text(bytes as u64));
    let each = count.div_ceil(BARS);
    let bars: Vec<_> = (split.shards.chunks(each).enumerate())
        .map(|(i, chunk)| {
            let most = chunk.iter().max().copied().unwrap_or(0);
            let least = chunk.iter().min().copied().unwrap_or(0);
            let label = match each {
                1 => format!("shard {i}: {}", bytes_text(most)),
                _ => format!(
                    "shards {} to {}: {} to {}",
                    i * each,
                    i * each + chunk.len() - 1,
                    bytes_text(least),
                    bytes_text(most)
                ),
            };
            Bar {
                label,
                high: most as f64 / top,
                solid: least as f64 / top,
            }
        })
        .collect();
    let together = match each {
        1 => String::new(),
        _ => format!(", {each} shards a bar: the smallest of them, and paler the largest"),
    };
    let frame = Frame {
        caption: &format!("Sizes of the shards of {}{together}", split.name),
        description: &format!(
            "{} from {} to {}",
            counted(count as u64, "shard"),
            bytes_text(least),
            bytes_text(most)
        ),
        class: "low",
        y: &y,
        x: &ends("shard 0", &format!("shard {}", count - 1), true),
    };
    let id = page.chart();
    draw_bars(&mut page.out, id, &frame, &bars);
}
