//! How the source differed from what was published of it.

use crate::base::units::count_text;
use crate::report::html::lines;
use crate::report::page::{LISTED, Page};
use crate::report::run::Run;

/// Writes what was new, changed or gone.
pub(in crate::report) fn write(page: &mut Page, run: &Run) {
    let Some(changes) = &run.changes else { return };
    page.section("", "What changed in the source");
    let mut counts = changes.counts().peekable();
    if counts.peek().is_none() {
        page.says("Nothing.");
    } else {
        page.out.table(&["", "number"]);
        for (what, count) in counts {
            page.out.row(what, &[count_text(count)]);
        }
        page.out.end_table();
    }
    if !changes.new_classes.is_empty() {
        let named: Vec<_> = changes.new_classes.iter().take(LISTED).cloned().collect();
        let more = changes.new_classes.len() > named.len();
        page.out.put(format_args!(
            "<p class=\"soft\">new: {}{}</p>",
            lines(&named.join(", "), 1000),
            if more { ", …" } else { "" }
        ));
    }
    page.out.raw("</section>");
}
