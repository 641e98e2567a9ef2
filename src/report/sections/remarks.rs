//! Samples that were skipped, or are odd.

use crate::base::units::count_text;
use crate::model::record::Remark;
use crate::report::html::text;
use crate::report::page::{LISTED, Page};
use crate::report::pictures::Pictures;
use crate::report::sections::gallery::strip;

/// Writes remarks of one sort, the first of them by name.
pub(in crate::report) fn write(
    page: &mut Page,
    title: &str,
    meaning: &str,
    remarks: &[Remark],
    pictures: Option<&Pictures>,
) {
    if remarks.is_empty() {
        return;
    }
    let count = count_text(remarks.len() as u64);
    page.section("", &format!("{title}: {count}"));
    page.says(meaning);
    page.out.raw("<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">file</th><th scope=\"col\">reason</th></tr></thead><tbody>");
    for remark in remarks.iter().take(LISTED) {
        page.out.put(format_args!(
            "<tr><th scope=\"row\"><bdi>{}</bdi></th><td>{}</td></tr>",
            text(&remark.path.to_string()),
            text(&remark.reason)
        ));
    }
    page.out.end_table();
    page.rest(remarks.len(), "the manifest and the summary list them all");
    if let Some(pictures) = pictures {
        let keys = remarks
            .iter()
            .take(LISTED)
            .map(|remark| remark.key.as_str());
        strip(page, pictures, keys);
    }
    page.out.raw("</section>");
}
