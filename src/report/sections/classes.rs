//! How the samples are spread over the classes.

use std::cmp::Reverse;

use crate::base::units::{classes as classes_text, count_text, counted};
use crate::report::axis::{count_ticks, ends};
use crate::report::chart::{Frame, draw_area};
use crate::report::dataset::{Dataset, Split};
use crate::report::html::text;
use crate::report::page::Page;

/// With more classes than this, a table of the smallest and largest comes before that of all.
const CLASSES_NAMED: usize = 40;
/// So many of each are named then.
const CLASSES_OF_EACH: usize = 10;
/// Splits with a column of their own at most.
const SPLITS_SHOWN: usize = 4;
/// Bytes of the table of all classes at most.
const TABLE_BYTES: usize = 400_000;
/// Points of a curve at most.
const POINTS: usize = 300;

/// Writes how many samples each class has, and of which classes a split has none.
pub(in crate::report) fn write(page: &mut Page, dataset: &Dataset) {
    if dataset.classes.is_empty() {
        return;
    }
    page.section("", "Class balance");
    let labels = &dataset.figures.labels;
    let mut sorted: Vec<(u64, usize)> = labels.iter().copied().zip(0..).collect();
    sorted.sort_by_key(|&(count, label)| (Reverse(count), label));
    let most = sorted.first().map_or(0, |first| first.0);
    let least = sorted.last().map_or(0, |last| last.0);
    let middle = sorted.get(sorted.len() / 2).map_or(0, |middle| middle.0);
    let empty = sorted.iter().filter(|(count, _)| *count == 0).count();
    let classes = classes_text(labels.len());
    page.says(&match (most, least) {
        (0, _) => format!("{classes}, and no sample of any."),
        _ if labels.len() == 1 => "There is one class.".to_owned(),
        (_, 0) => format!(
            "{} of {classes} without a sample; the largest has {}.",
            count_text(empty as u64),
            count_text(most)
        ),
        _ if most as f64 <= least as f64 * 1.05 => {
            format!("{classes} of about the same number: {} each.", counted(middle, "sample"))
        }
        _ => format!(
            "{classes}. The largest has {:.1} times as many samples as the smallest; half of them have {} or more.",
            most as f64 / least as f64,
            count_text(middle)
        ),
    });
    if dataset.figures.unlabelled > 0 {
        let count = counted(dataset.figures.unlabelled, "sample");
        page.says(&format!("{count} without a label."));
    }
    if labels.len() > CLASSES_NAMED && most == least {
        // Nothing to see.
    } else if labels.len() <= CLASSES_NAMED {
        class_table(page, "", dataset, &sorted, most);
    } else {
        class_curve(page, &sorted, most);
        page.out.raw("<div class=\"two\">");
        let (first, last) = (
            &sorted[..CLASSES_OF_EACH],
            &sorted[sorted.len() - CLASSES_OF_EACH..],
        );
        class_table(page, "Largest", dataset, first, most);
        let last: Vec<_> = last.iter().rev().copied().collect();
        class_table(page, "Smallest", dataset, &last, most);
        page.out.raw("</div>");
    }
    if labels.len() > CLASSES_NAMED {
        all_classes(page, dataset);
    }
    missing(page, dataset);
    page.out.raw("</section>");
}

/// A table of these classes, each with its number of samples; `most` is that of the largest class.
fn class_table(page: &mut Page, title: &str, dataset: &Dataset, rows: &[(u64, usize)], most: u64) {
    page.out.raw("<div>");
    if !title.is_empty() {
        page.out.put(format_args!("<h3>{}</h3>", text(title)));
    }
    let several = dataset.splits.len() > 1 && rows.len() == dataset.classes.len();
    let splits = match several {
        true => &dataset.splits[..dataset.splits.len().min(SPLITS_SHOWN)],
        false => &[],
    };
    let mut columns = vec!["class", "samples"];
    columns.extend(splits.iter().map(|split| split.name.as_str()));
    columns.push("");
    match title.is_empty() {
        true => page.out.sortable_table(&columns),
        false => page.out.table(&columns),
    }
    for &(count, label) in rows {
        page.out.put(format_args!(
            "<tr><th scope=\"row\"><bdi>{}</bdi></th><td class=\"n\">{}</td>",
            text(&dataset.class(label)),
            count_text(count)
        ));
        for split in splits {
            let count = split.labels.get(label).copied().unwrap_or(0);
            page.out
                .put(format_args!("<td class=\"n\">{}</td>", count_text(count)));
        }
        let share = count as f64 / most.max(1) as f64 * 100.0;
        match count {
            0 => page.out.raw("<td></td></tr>"),
            _ => page.out.put(format_args!(
                "<td class=\"bar\"><i style=\"width:{share:.1}%\"></i></td></tr>"
            )),
        }
    }
    page.out.end_table();
    page.out.raw("</div>");
}

/// Every class by its label, with as many as a page has room for.
fn all_classes(page: &mut Page, dataset: &Dataset) {
    let splits = match dataset.splits.len() {
        0 | 1 => &[],
        several => &dataset.splits[..several.min(SPLITS_SHOWN)],
    };
    let all = dataset.figures.labels.len();
    page.out.put(format_args!(
        "<details><summary>All {}</summary>",
        classes_text(all)
    ));
    let mut columns = vec!["class", "label", "samples"];
    columns.extend(splits.iter().map(|split| split.name.as_str()));
    page.out.sortable_table(&columns);
    let before = page.out.len();
    let mut shown = 0;
    for (label, count) in dataset.figures.labels.iter().enumerate() {
        if page.out.len() - before > TABLE_BYTES {
            break;
        }
        let of = |split: &Split| split.labels.get(label).copied().unwrap_or(0);
        let mut cells = vec![count_text(label as u64), count_text(*count)];
        cells.extend(splits.iter().map(|split| count_text(of(split))));
        page.out.row(&dataset.class(label), &cells);
        shown += 1;
    }
    page.out.end_table();
    if shown < all {
        let more = classes_text(all - shown);
        page.says(&format!("… and {more} more: the manifest lists them all."));
    }
    page.out.raw("</details>");
}

/// A curve over all classes, the largest first.
fn class_curve(page: &mut Page, sorted: &[(u64, usize)], most: u64) {
    let (top, y) = count_ticks(most);
    let each = sorted.len().div_ceil(POINTS);
    let last = sorted.len() as f64;
    let points: Vec<(f64, f64)> = (sorted.chunks(each).enumerate())
        .flat_map(|(i, chunk)| {
            let high = chunk[0].0 as f64 / top;
            let from = i * each;
            let to = from + chunk.len();
            [(from as f64 / last, high), (to as f64 / last, high)]
        })
        .collect();
    let frame = Frame {
        caption: "Samples of each class, the largest first",
        description: &format!(
            "{}, from {} samples to {}",
            classes_text(sorted.len()),
            count_text(most),
            count_text(sorted.last().map_or(0, |last| last.0))
        ),
        class: "",
        y: &y,
        x: &ends("largest class", "smallest class", true),
    };
    let id = page.chart();
    draw_area(&mut page.out, id, &frame, &points, &[]);
}

/// Classes of which a split has nothing.
fn missing(page: &mut Page, dataset: &Dataset) {
    if dataset.splits.len() < 2 {
        return;
    }
    for split in dataset.splits.iter().take(SPLITS_SHOWN) {
        let all = &dataset.figures.labels;
        let missing: Vec<usize> = (0..all.len())
            .filter(|&label| all[label] > 0 && split.labels.get(label).is_none_or(|&n| n == 0))
            .collect();
        if missing.is_empty() {
            continue;
        }
        let named = missing.iter().take(5);
        let named: Vec<_> = named.map(|&label| dataset.class(label)).collect();
        let more = if missing.len() > named.len() {
            ", …"
        } else {
            ""
        };
        page.out.put(format_args!(
            "<p><b><bdi>{}</bdi></b> has no sample of {}: {}{more}</p>",
            text(&split.name),
            classes_text(missing.len()),
            text(&named.join(", "))
        ));
    }
}
