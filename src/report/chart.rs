//! Charts as inline SVG between HTML labels, so that shapes stretch with the page and letters do not. No script, no style of its own.

use std::fmt::Write;

use crate::report::figures::{Cell, Cells};
use crate::report::html::{Html, text};

/// Drawings are this wide, in units of their own.
const WIDTH: f64 = 1000.0;
/// And this high.
const HEIGHT: f64 = 300.0;
/// Steps of colour in a heat map.
const SHADES: u64 = 5;

/// A label on an axis: where, from 0 to 1, and what.
pub(super) type Tick = (f64, String);

/// What is said of a chart besides its shapes.
pub(super) struct Frame<'a> {
    /// What is shown, for everybody.
    pub(super) caption: &'a str,
    /// What can be seen in it, for those who do not see it.
    pub(super) description: &'a str,
    /// Height: `low`, `tall`, or nothing for the usual one.
    pub(super) class: &'a str,
    /// Labels from bottom to top.
    pub(super) y: &'a [Tick],
    /// Labels from left to right.
    pub(super) x: &'a [Tick],
}

/// A chart of these shapes. `id` is its number on the page.
fn figure(out: &mut Html, id: usize, frame: &Frame<'_>, shapes: &str) {
    out.put(format_args!(
        "<figure><figcaption>{}</figcaption><div class=\"plot {}\"><div class=\"y\" aria-hidden=\"true\">",
        text(frame.caption),
        frame.class
    ));
    for (at, label) in frame.y {
        let (class, at) = (edge(*at), at * 100.0);
        out.put(format_args!(
            "<span{class} style=\"bottom:{at:.1}%\">{}</span>",
            text(label)
        ));
    }
    out.put(format_args!(
        "</div><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"t{id} d{id}\"><title id=\"t{id}\">{}</title><desc id=\"d{id}\">{}</desc>",
        text(frame.caption),
        text(frame.description)
    ));
    for (at, _) in frame.y.iter().filter(|(at, _)| *at > 0.0) {
        let y = HEIGHT * (1.0 - at);
        out.put(format_args!(
            "<line class=\"g\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        ));
    }
    out.raw(shapes);
    out.raw("</svg><div class=\"x\" aria-hidden=\"true\">");
    for (at, label) in frame.x {
        let (class, at) = (edge(*at), at * 100.0);
        out.put(format_args!(
            "<span{class} style=\"left:{at:.1}%\">{}</span>",
            text(label)
        ));
    }
    out.raw("</div></div></figure>");
}

/// A label at an end of its axis stays within the chart.
fn edge(at: f64) -> &'static str {
    match at {
        at if at < 0.02 => " class=\"first\"",
        at if at > 0.98 => " class=\"last\"",
        _ => "",
    }
}

/// A bar of a chart.
pub(super) struct Bar {
    /// What it says when it is pointed at.
    pub(super) label: String,
    /// How high it is, from 0 to 1.
    pub(super) high: f64,
    /// Where a paler part of it begins, from 0 to 1.
    pub(super) solid: f64,
}

impl Bar {
    /// One without a paler part.
    pub(super) fn of(label: String, high: f64) -> Self {
        Self {
            label,
            high,
            solid: high,
        }
    }
}

/// Draws bars of one width side by side.
pub(super) fn draw_bars(out: &mut Html, id: usize, frame: &Frame<'_>, bars: &[Bar]) {
    let mut shapes = String::new();
    let each = WIDTH / bars.len().max(1) as f64;
    let gap = (each * 0.12).min(4.0);
    for (i, Bar { label, high, solid }) in bars.iter().enumerate() {
        let (x, width) = (i as f64 * each + gap / 2.0, each - gap);
        let (high, solid) = (
            high.clamp(0.0, 1.0) * HEIGHT,
            solid.clamp(0.0, 1.0) * HEIGHT,
        );
        // Writing to a string cannot fail.
        let _ = write!(shapes, "<g><title>{}</title>", text(label));
        for (class, from, to) in [("f", 0.0, solid.min(high)), ("p", solid, high)] {
            if to > from {
                let _ = write!(
                    shapes,
                    "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                    HEIGHT - to,
                    to - from
                );
            }
        }
        shapes.push_str("</g>");
    }
    figure(out, id, frame, &shapes);
}

/// Draws an area below points of (0 to 1, 0 to 1), with a line on top. Marks, from 0 to 1, are lines over the whole height.
pub(super) fn draw_area(
    out: &mut Html,
    id: usize,
    frame: &Frame<'_>,
    points: &[(f64, f64)],
    marks: &[f64],
) {
    let mut line = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let (x, y) = (x * WIDTH, (1.0 - y.clamp(0.0, 1.0)) * HEIGHT);
        let _ = write!(line, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
    }
    let mut shapes = String::new();
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let (first, last) = (first.0 * WIDTH, last.0 * WIDTH);
        let _ = write!(
            shapes,
            "<path class=\"p\" d=\"{line}L{last:.1} {HEIGHT}L{first:.1} {HEIGHT}Z\"/><path class=\"l\" d=\"{line}\"/>"
        );
    }
    for mark in marks {
        let x = mark * WIDTH;
        let _ = write!(
            shapes,
            "<line class=\"g\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{HEIGHT}\"/>"
        );
    }
    figure(out, id, frame, &shapes);
}

/// A line of a chart.
pub(super) struct Line {
    /// Its colour: `l`, `l two` or `l three`.
    pub(super) class: &'static str,
    /// From left to right, each from 0 to 1; at least one.
    pub(super) points: Vec<(f64, f64)>,
}

/// Draws lines, and a dashed one over the whole width at a level from 0 to 1.
pub(super) fn draw_lines(out: &mut Html, id: usize, frame: &Frame<'_>, lines: &[Line], level: f64) {
    let mut shapes = String::new();
    let high = |y: f64| (1.0 - y.clamp(0.0, 1.0)) * HEIGHT;
    for Line { class, points } in lines {
        let mut path = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let (x, y) = (x * WIDTH, high(*y));
            let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
        }
        if let [(_, y)] = points[..] {
            // One measurement is as wide as the chart.
            path = format!("M0 {0:.1}L{WIDTH} {0:.1}", high(y));
        }
        let _ = write!(shapes, "<path class=\"{class}\" d=\"{path}\"/>");
    }
    let y = high(level);
    let _ = write!(
        shapes,
        "<line class=\"t\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
    );
    figure(out, id, frame, &shapes);
}

/// Draws a field of cells, darker where there is more.
pub(super) fn draw_cells(out: &mut Html, id: usize, frame: &Frame<'_>, cells: &Cells) {
    let (columns, rows) = (
        cells.widths.len().saturating_sub(1).max(1) as f64,
        cells.heights.len().saturating_sub(1).max(1) as f64,
    );
    let most = cells.cells.iter().map(|cell| cell.count).max().unwrap_or(1);
    let mut shapes = String::new();
    for &Cell { column, row, count } in &cells.cells {
        // By the root: a few images beside a million are still seen.
        let shade = (count as f64 / most as f64).sqrt() * SHADES as f64;
        let shade = (shade.ceil() as u64).clamp(1, SHADES);
        let _ = write!(
            shapes,
            "<rect class=\"f h{shade}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            column as f64 / columns * WIDTH,
            HEIGHT - (row as f64 + 1.0) / rows * HEIGHT,
            WIDTH / columns,
            HEIGHT / rows
        );
    }
    figure(out, id, frame, &shapes);
}
