//! Formats and sizes of the images.

use std::cmp::Reverse;

use crate::base::units::{count_text, counted};
use crate::report::amounts::{megapixels, percent};
use crate::report::axis::powers;
use crate::report::chart::{Frame, draw_cells};
use crate::report::dataset::Dataset;
use crate::report::page::Page;
use crate::report::sections::distribution::{extremes, quantiles};

/// Writes which formats and sizes the images have, where their headers were read.
pub(in crate::report) fn write(page: &mut Page, dataset: &Dataset) {
    let figures = &dataset.figures;
    let Some(cells) = figures.sides.cells(32) else {
        return;
    };
    page.section("", "Image sizes");
    let all = figures.widths.count();
    let mut formats: Vec<_> = figures.formats.iter().collect();
    formats.sort_by_key(|&(name, count)| (Reverse(count), name));
    let formats: Vec<_> = formats
        .iter()
        .map(|(name, count)| format!("{name} {} ({})", count_text(**count), percent(**count, all)))
        .collect();
    page.says(&format!(
        "{}: {}",
        counted(all, "image"),
        formats.join(", ")
    ));
    let pixels = |side: u64| count_text(side);
    let frame = Frame {
        caption: "Width (to the right) and height (upwards) in pixels, darker where there are more images",
        description: &format!(
            "widths from {} to {}, heights from {} to {}, half of the images have at most {}",
            figures.widths.min(),
            figures.widths.max(),
            figures.heights.min(),
            figures.heights.max(),
            megapixels(figures.pixels.quantile(0.5))
        ),
        class: "tall",
        y: &powers(&cells.heights, pixels),
        x: &powers(&cells.widths, pixels),
    };
    let id = page.chart();
    draw_cells(&mut page.out, id, &frame, &cells);
    quantiles(
        page,
        &[
            ("width", &figures.widths, |n| {
                format!("{} px", count_text(n))
            }),
            ("height", &figures.heights, |n| {
                format!("{} px", count_text(n))
            }),
            ("pixels", &figures.pixels, megapixels),
        ],
    );
    extremes(
        page,
        &dataset.pictures,
        "Most pixels",
        &figures.by_pixels.largest,
        "Fewest pixels",
        &figures.by_pixels.smallest,
    );
    page.out.raw("</section>");
}
