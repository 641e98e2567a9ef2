//! How something that was measured of every sample is spread: quantiles, and the samples that stand out.

use crate::base::units::bytes_text;
use crate::report::figures::{Extreme, Histogram};
use crate::report::html::text;
use crate::report::page::Page;
use crate::report::pictures::Pictures;
use crate::report::sections::gallery::strip;

/// What was measured, how often what was met, and how it is written.
pub(in crate::report) type Measured<'a> = (&'a str, &'a Histogram, fn(u64) -> String);

/// A row for each: smallest, quantiles and largest.
pub(in crate::report) fn quantiles(page: &mut Page, rows: &[Measured<'_>]) {
    let columns = ["", "smallest", "5 %", "median", "95 %", "largest", "mean"];
    page.out.table(&columns);
    for (name, histogram, show) in rows {
        let about = |part| match histogram.min() == histogram.max() {
            true => show(histogram.min()),
            false => show(histogram.quantile(part)),
        };
        page.out.row(
            name,
            &[
                show(histogram.min()),
                about(0.05),
                about(0.5),
                about(0.95),
                show(histogram.max()),
                show(histogram.mean().round() as u64),
            ],
        );
    }
    page.out.end_table();
}

/// Tables of the samples that have the most and the least of something.
pub(in crate::report) fn extremes(
    page: &mut Page,
    pictures: &Pictures,
    most: &str,
    largest: &[Extreme],
    least: &str,
    smallest: &[Extreme],
) {
    page.out
        .raw("<details><summary>Samples that stand out</summary><div class=\"two\">");
    for (title, extremes) in [(most, largest), (least, smallest)] {
        page.out.put(format_args!("<div><h3>{}</h3>", text(title)));
        page.out.table(&["sample", "image", "bytes"]);
        for extreme in extremes {
            let sides = extreme.sides.map_or_else(
                || "–".to_owned(),
                |(width, height)| format!("{width} × {height}"),
            );
            page.out
                .row(&extreme.key, &[sides, bytes_text(extreme.bytes)]);
        }
        page.out.end_table();
        let keys = extremes.iter().map(|extreme| extreme.key.as_str());
        strip(page, pictures, keys);
        page.out.raw("</div>");
    }
    page.out.raw("</div></details>");
}
