//! Sizes of the samples.

use crate::base::units::{bytes_text, counted};
use crate::report::axis::{count_ticks, spread};
use crate::report::chart::{Bar, Frame, draw_bars};
use crate::report::dataset::Dataset;
use crate::report::page::Page;
use crate::report::sections::distribution::{extremes, quantiles};

/// Writes how many bytes the samples have.
pub(in crate::report) fn write(page: &mut Page, dataset: &Dataset) {
    let figures = &dataset.figures;
    let bars = (figures.bytes.count() as f64).sqrt() * 2.0;
    let bars = figures.bytes.bars(bars.clamp(1.0, 48.0) as usize);
    if figures.bytes.count() == 0 {
        return;
    }
    page.section("", "Sample sizes");
    let most = bars.iter().map(|bar| bar.1).max().unwrap_or(0);
    let (top, y) = count_ticks(most);
    let last = (bars.last().map_or(0, |bar| bar.0), figures.bytes.max());
    let starts: Vec<u64> = bars.iter().map(|bar| bar.0).chain([last.1 + 1]).collect();
    let shapes: Vec<_> = (bars.iter().zip(&starts[1..]))
        .map(|(&(from, count), to)| {
            let label = format!(
                "{} to {}: {}",
                bytes_text(from),
                bytes_text(to.saturating_sub(1)),
                counted(count, "sample")
            );
            let high = count as f64 / top;
            Bar::of(label, high)
        })
        .collect();
    let frame = Frame {
        caption: "Samples by their bytes, all fields together, on a logarithmic scale",
        description: &format!(
            "{} from {} to {}, half of them have at most {}",
            counted(figures.bytes.count(), "sample"),
            bytes_text(figures.bytes.min()),
            bytes_text(figures.bytes.max()),
            bytes_text(figures.bytes.quantile(0.5))
        ),
        class: "low",
        y: &y,
        x: &spread(&starts, bytes_text),
    };
    let id = page.chart();
    draw_bars(&mut page.out, id, &frame, &shapes);
    quantiles(page, &[("bytes", &figures.bytes, bytes_text)]);
    extremes(
        page,
        &dataset.pictures,
        "Most bytes",
        &figures.by_bytes.largest,
        "Fewest bytes",
        &figures.by_bytes.smallest,
    );
    page.out.raw("</section>");
}
