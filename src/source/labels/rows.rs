//! The rows of a label file: cells separated by commas, tabs or blanks, without a header.

use crate::source::labels::words::{is_number, is_synset, lines, two_words, utf8};

/// First cells that make a first row a header, in lower case.
const HEADERS: [&str; 12] = [
    "file",
    "file_name",
    "file_path",
    "filename",
    "filepath",
    "id",
    "image",
    "image_id",
    "image_path",
    "imageid",
    "name",
    "path",
];

/// Cells of a header that mark the class where a table has more than two columns, in lower case.
const CLASS_HEADERS: [&str; 7] = [
    "class",
    "class_name",
    "classname",
    "label",
    "predictionstring",
    "synset",
    "wnid",
];

/// Rows looked at to tell commas, tabs and blanks apart.
const SAMPLED_ROWS: usize = 100;

/// One row as it stands in the file.
pub(super) struct Cells {
    /// Its line, from 1.
    pub(super) line: usize,
    /// Its first cell: the file's name, or a number where that is all.
    pub(super) first: String,
    /// The class, if the row has one.
    pub(super) class: Option<String>,
}

/// The rows of a label file, without its header.
pub(super) fn read_rows(name: &str, text: &[u8]) -> Result<Vec<Cells>, String> {
    let text = utf8(name, text)?;
    let mut rows = match delimiter(text) {
        Some(delimiter) => table(name, text, delimiter)?,
        None => list(text),
    };
    if rows.len() > 1 && is_one_of(&HEADERS, &rows[0].first) {
        rows.remove(0);
    }
    if rows.is_empty() {
        return Err(format!("{name} is empty: expected a row for every image"));
    }
    if u32::try_from(rows.len()).is_err() {
        return Err(format!(
            "{name} has {} rows, expected at most {}",
            rows.len(),
            u32::MAX
        ));
    }
    Ok(rows)
}

/// What separates the cells: the one of tab, comma and blanks that most of the first rows have.
fn delimiter(text: &str) -> Option<u8> {
    let rows_with = |delimiter: u8| {
        let records = reader(text, delimiter).into_records().take(SAMPLED_ROWS);
        records.flatten().filter(|record| record.len() > 1).count()
    };
    let (tabs, commas) = (rows_with(b'\t'), rows_with(b','));
    let blanks = lines(text)
        .take(SAMPLED_ROWS)
        .filter(|(_, line)| two_words(line).is_some());
    match blanks.count().max(commas) {
        most if tabs > 0 && tabs >= most => Some(b'\t'),
        most if commas > 0 && commas >= most => Some(b','),
        _ => None,
    }
}

/// A reader of a table with this delimiter.
fn reader(text: &str, delimiter: u8) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .delimiter(delimiter)
        .from_reader(text.as_bytes())
}

/// Rows of a table with commas or tabs.
fn table(name: &str, text: &str, delimiter: u8) -> Result<Vec<Cells>, String> {
    let mut rows = Vec::new();
    let mut class_column = 1;
    for record in reader(text, delimiter).into_records() {
        let record = record.map_err(|error| format!("{name}: {error}"))?;
        if record.iter().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        if rows.is_empty() && record.len() > 2 && is_one_of(&HEADERS, &record[0]) {
            class_column = record
                .iter()
                .position(|cell| is_one_of(&CLASS_HEADERS, cell))
                .unwrap_or(1);
        }
        let class = record
            .get(class_column)
            .map(class_of_cell)
            .filter(|class| !class.is_empty());
        let line = record.position().map_or(0, |start| line_of(text, start));
        rows.push(Cells {
            line,
            first: record[0].into(),
            class: class.map(String::from),
        });
    }
    Ok(rows)
}

/// The line a record is on; the reader's own count stops before empty lines and comments.
fn line_of(text: &str, start: &csv::Position) -> usize {
    let rest = usize::try_from(start.byte())
        .ok()
        .and_then(|byte| text.get(byte..));
    let passed = |line: &&str| line.starts_with('#') || line.trim_end().is_empty();
    let skipped = rest.unwrap_or_default().lines().take_while(passed).count();
    start.line() as usize + skipped
}

/// Rows of a list with blanks, where a class may be several words.
fn list(text: &str) -> Vec<Cells> {
    let row = |(line, text)| match two_words(text) {
        Some((first, rest)) => Cells {
            line,
            first: first.into(),
            class: Some(class_of_cell(rest).into()),
        },
        None => Cells {
            line,
            first: text.into(),
            class: None,
        },
    };
    lines(text).map(row).collect()
}

/// A class cell without what Kaggle's solution file puts behind the class: boxes, as
/// `n03995372 85 1 499 272` once or more.
fn class_of_cell(cell: &str) -> &str {
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

/// Whether a cell is one of these names, in any case.
fn is_one_of(names: &[&str], cell: &str) -> bool {
    names
        .iter()
        .any(|name| cell.trim().eq_ignore_ascii_case(name))
}
