//! What a row of a label file comes to, whatever its form.

use crate::source::labels::words::{is_number, is_synset};

/// One row as it stands in the file.
pub(super) struct Cells {
    /// Its line, from 1.
    pub(super) line: usize,
    /// The file's name, or a number or class where that is all.
    pub(super) first: String,
    /// The class, if the row has one.
    pub(super) class: Option<String>,
}

/// The rows of a label file.
pub(super) struct Table {
    /// Without the header.
    pub(super) rows: Vec<Cells>,
    /// Which columns they were taken from, for people; empty where there are only two and no header.
    pub(super) taken: String,
}

/// A class cell without what Kaggle's solution file puts behind the class: boxes, as
/// `n03995372 85 1 499 272` once or more.
pub(super) fn class_of_cell(cell: &str) -> &str {
    let cell = cell.trim();
    let words: Vec<&str> = cell.split_whitespace().collect();
    let is_box = |group: &[&str]| {
        is_synset(group[0]) && group.len() == 5 && group[1..].iter().all(|word| is_number(word))
    };
    if words.chunks(5).all(is_box) {
        words.first().unwrap_or(&cell)
    } else {
        cell
    }
}
