//! The page being written.

use crate::base::units::count_text;
use crate::report::html::{Html, text};

/// Remarks, findings and the like of one sort at most.
pub(super) const LISTED: usize = 40;

/// A page and the number of its charts so far.
#[derive(Default)]
pub(super) struct Page {
    pub(super) out: Html,
    charts: usize,
}

impl Page {
    /// A number for one more chart.
    pub(super) fn chart(&mut self) -> usize {
        self.charts += 1;
        self.charts
    }

    /// Begins a section.
    pub(super) fn section(&mut self, class: &str, title: &str) {
        self.out.put(format_args!(
            "<section class=\"{class}\"><h2>{}</h2>",
            text(title)
        ));
    }

    /// Writes a sentence that explains.
    pub(super) fn says(&mut self, sentence: &str) {
        self.out
            .put(format_args!("<p class=\"soft\">{}</p>", text(sentence)));
    }

    /// Says how many are not listed.
    pub(super) fn rest(&mut self, all: usize, place: &str) {
        if all > LISTED {
            let more = count_text((all - LISTED) as u64);
            self.says(&format!("… and {more} more: {place}."));
        }
    }
}
