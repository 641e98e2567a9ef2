//! The rows of a label file: cells separated by commas, semicolons, tabs or blanks, or JSON objects, without a header.
//!
//! Which column is the class is never guessed: a header says it, or the user does. A wrong file column is found out, because its cells name no
//! image; a wrong class column is not.

use crate::source::labels::cells::{Cells, Table, class_of_cell};
use crate::source::labels::columns::{Columns, Taken, is_header, named_in_header};
use crate::source::labels::json;
use crate::source::labels::words::{lines, two_words, utf8};

/// Rows looked at to tell commas, semicolons, tabs and blanks apart.
const SAMPLED_ROWS: usize = 100;

/// The rows of a label file, without its header.
pub(super) fn read_rows(name: &str, text: &[u8], columns: &Columns) -> Result<Table, String> {
    let text = utf8(name, text)?;
    let table = if json::is_json(text) {
        json::rows(name, text, columns)?
    } else if let Some(delimiter) = delimiter(text) {
        table(name, text, delimiter, columns)?
    } else if columns.are_given() {
        return Err(format!(
            "{name}: `--file-column` and `--label-column` are for files whose cells are separated by commas, semicolons or tabs, and JSON lines: drop them"
        ));
    } else {
        list(name, text)?
    };
    if table.rows.is_empty() {
        return Err(format!("{name} is empty: expected a row for every image"));
    }
    if u32::try_from(table.rows.len()).is_err() {
        return Err(format!(
            "{name} has {} rows, expected at most {}",
            table.rows.len(),
            u32::MAX
        ));
    }
    Ok(table)
}

/// What separates the cells: the one of tab, comma, semicolon and blanks that most of the first rows have.
fn delimiter(text: &str) -> Option<u8> {
    let rows_with = |delimiter: u8| {
        let records = reader(text, delimiter).into_records().take(SAMPLED_ROWS);
        records.flatten().filter(|record| record.len() > 1).count()
    };
    let (tabs, commas, semicolons) = (rows_with(b'\t'), rows_with(b','), rows_with(b';'));
    let blanks = lines(text)
        .take(SAMPLED_ROWS)
        .filter(|(_, line)| two_words(line).is_some());
    match blanks.count().max(commas).max(semicolons) {
        most if tabs > 0 && tabs >= most => Some(b'\t'),
        most if commas > 0 && commas >= most => Some(b','),
        most if semicolons > 0 && semicolons >= most => Some(b';'),
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

/// Rows of a table with commas, semicolons or tabs.
fn table(name: &str, text: &str, delimiter: u8, columns: &Columns) -> Result<Table, String> {
    let mut records = Vec::new();
    for record in reader(text, delimiter).into_records() {
        let record = record.map_err(|error| format!("{name}: {error}"))?;
        if !record.iter().all(|cell| cell.trim().is_empty()) {
            records.push(record);
        }
    }
    let Some(first) = records.first() else {
        return Ok(Table {
            rows: Vec::new(),
            taken: String::new(),
        });
    };
    let header: Vec<&str> = first.iter().map(str::trim).collect();
    // A header alone, without a row, is a row.
    let has_header = records.len() > 1 && columns.are_named_in(&header);
    let Taken { file, class } = match header.len() {
        // The first row lacks its class, which is told of any row.
        1 => Taken { file: 0, class: 1 },
        _ => columns.take(name, &header, has_header)?,
    };
    let taken = match has_header {
        true if header.len() > 1 => named_in_header(header[file], header[class]),
        false if header.len() > 2 => {
            named_in_header(&(file + 1).to_string(), &(class + 1).to_string())
        }
        _ => String::new(),
    };
    let width = header.len().max(2);
    let mut rows = Vec::with_capacity(records.len());
    for record in &records[usize::from(has_header)..] {
        let line = record.position().map_or(0, |start| line_of(text, start));
        if record
            .iter()
            .skip(width)
            .any(|cell| !cell.trim().is_empty())
        {
            return Err(format!(
                "{name}: line {line} has {} cells, expected {width} as in the first row: put cells with a `{}` in them in quotes",
                record.len(),
                char::from(delimiter)
            ));
        }
        let class = record
            .get(class)
            .map(class_of_cell)
            .filter(|class| !class.is_empty());
        rows.push(Cells {
            line,
            first: record.get(file).unwrap_or_default().into(),
            class: class.map(String::from),
        });
    }
    Ok(Table { rows, taken })
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
fn list(name: &str, text: &str) -> Result<Table, String> {
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
    let mut rows: Vec<Cells> = lines(text).map(row).collect();
    let mut taken = String::new();
    if rows.len() > 1 && is_header(&rows[0].first) {
        let Cells { first, class, .. } = rows.remove(0);
        if let Some(class) = class {
            // Refuses a second word that is no name of a class column.
            Columns::default().take(name, &[&first, &class], true)?;
            taken = named_in_header(&first, &class);
        }
    }
    Ok(Table { rows, taken })
}
