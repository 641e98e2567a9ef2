//! Images that are there several times, within a split and across them.

use crate::base::units::{bytes_text, count_text, counted};
use crate::report::dataset::Dataset;
use crate::report::html::text;
use crate::report::page::{LISTED, Page};
use crate::report::sections::gallery::strip;

/// Samples of a group that are named.
const NAMED: usize = 6;

/// Writes which images are there several times; those in several splits are a warning.
pub(in crate::report) fn write(page: &mut Page, dataset: &Dataset) {
    if let Some(reason) = &dataset.uncompared {
        page.section("", "Duplicates");
        page.says(&format!(
            "Nobody looked for images that are there twice: {reason}."
        ));
        page.out.raw("</section>");
        return;
    }
    let found = &dataset.duplicates;
    if found.images == 0 {
        return;
    }
    let images = counted(found.images, "image");
    match found.across {
        0 => page.section("", &format!("Duplicates: {images}")),
        across => page.section(
            "warn",
            &format!("{} in several splits", counted(across, "image")),
        ),
    }
    if found.across > 0 {
        page.says("What is tested with an image that was trained with says too much good of a model. Remove it from one of the splits.");
    }
    page.says(&format!(
        "{images} in {}: the same bytes, not merely the same picture.",
        counted(found.samples, "sample")
    ));
    page.out.raw("<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">image</th><th scope=\"col\">samples</th><th scope=\"col\" class=\"n\">times</th><th scope=\"col\" class=\"n\">bytes</th></tr></thead><tbody>");
    for group in found.groups.iter().take(LISTED) {
        page.out.raw("<tr><td>");
        let first = group.named.first().map(|(_, _, row)| row.key.as_str());
        strip(page, &dataset.pictures, first.into_iter());
        page.out.raw("</td><td>");
        for (split, _, row) in group.named.iter().take(NAMED) {
            page.out.put(format_args!(
                "<div>{}: <bdi>{}</bdi></div>",
                text(split),
                text(&row.key)
            ));
        }
        if group.samples > NAMED {
            page.out.raw("<div>…</div>");
        }
        page.out.put(format_args!(
            "</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            count_text(group.samples as u64),
            bytes_text(group.length)
        ));
    }
    page.out.end_table();
    page.rest(
        found.images as usize,
        "shardpack inspect --duplicates lists them all",
    );
    page.out.raw("</section>");
}
