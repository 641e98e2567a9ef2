//! Small pictures: a few of the first classes, and strips of samples that a table names.

use crate::base::units::{classes as classes_text, count_text};
use crate::report::dataset::Dataset;
use crate::report::html::{base64, text};
use crate::report::page::Page;
use crate::report::pictures::Pictures;

/// Writes a few pictures of the first classes.
pub(in crate::report) fn write(page: &mut Page, dataset: &Dataset) {
    let pictures = &dataset.pictures;
    if let Some(reason) = &pictures.missing {
        if dataset.samples > 0 {
            page.section("", "Pictures");
            page.says(&format!("There are none: {reason}."));
            page.out.raw("</section>");
        }
        return;
    }
    let shown = |keys: &[String]| keys.iter().any(|key| pictures.jpegs.contains_key(key));
    let of_classes: Vec<_> = (pictures.of_classes.iter())
        .filter(|(_, keys)| shown(keys))
        .collect();
    if of_classes.is_empty() {
        return;
    }
    page.section("", "Pictures");
    let (some, all) = (of_classes.len(), dataset.classes.len());
    page.says(&match some == all {
        true => format!("A few of each of {}.", classes_text(all)),
        false => format!(
            "A few of the first {} of {}.",
            count_text(some as u64),
            classes_text(all)
        ),
    });
    page.out.raw("<div class=\"classes\">");
    for (label, keys) in of_classes {
        let name = dataset.class(*label);
        page.out
            .put(format_args!("<div><h3><bdi>{}</bdi></h3>", text(&name)));
        strip(page, pictures, keys.iter().map(String::as_str));
        page.out.raw("</div>");
    }
    page.out.raw("</div></section>");
}

/// Writes the pictures of those of these samples that have one, each with its key for whoever points at it.
pub(in crate::report) fn strip<'a>(
    page: &mut Page,
    pictures: &Pictures,
    keys: impl Iterator<Item = &'a str>,
) {
    let known = |key: &'a str| Some((key, pictures.jpegs.get(key)?));
    let known: Vec<_> = keys.filter_map(known).collect();
    if known.is_empty() {
        return;
    }
    page.out.raw("<div class=\"strip\">");
    for (key, jpeg) in known {
        let key = text(key);
        match jpeg {
            Some(jpeg) => page.out.put(format_args!(
                "<img alt=\"{key}\" title=\"{key}\" src=\"data:image/jpeg;base64,{}\">",
                base64(jpeg)
            )),
            None => page.out.put(format_args!(
                "<span class=\"none\" title=\"{key}\">no picture</span>"
            )),
        }
    }
    page.out.raw("</div>");
}
