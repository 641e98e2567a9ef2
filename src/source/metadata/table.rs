//! The forms of a table: CSV with a header, JSON lines, and Parquet. Each is read row by row, so that no more than one row is held.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::source::metadata::{Form, Refusal, Table, Values, files, parquet};

/// A row as it stands in the table.
pub(super) struct Record {
    /// Its line, or its row where there are no lines, from 1.
    pub(super) line: usize,
    /// Its cells by column.
    pub(super) values: Values,
}

/// What takes the rows of a table.
type Take<'t> = &'t mut dyn FnMut(Record) -> Result<(), Refusal>;

/// The columns of a table.
pub(super) fn columns(table: &Table) -> Result<BTreeSet<String>, Refusal> {
    match table.form() {
        Form::Csv => {
            let mut reader = csv_reader(text_of(table)?);
            let header = reader
                .headers()
                .map_err(|error| csv_failed(table, &error))?;
            Ok(header.iter().map(str::to_owned).collect())
        }
        Form::JsonLines => {
            let mut columns = BTreeSet::new();
            each_line(table, &mut |record| {
                for column in record.values.into_iter().map(|(column, _)| column) {
                    if !columns.contains(&column) {
                        columns.insert(column);
                    }
                }
                Ok(())
            })?;
            Ok(columns)
        }
        Form::Parquet => parquet::columns(table),
    }
}

/// The columns of a table that name images, with others perhaps, even if not all of it can be read; a damaged Parquet file shows none.
pub(super) fn file_columns(table: &Table) -> Result<BTreeSet<String>, Refusal> {
    match table.form() {
        Form::Parquet => parquet::columns(table),
        Form::Csv => {
            let mut reader = csv_reader(&table.bytes);
            let header = reader.byte_headers().cloned().unwrap_or_default();
            let column = |cell: &[u8]| {
                let cell = cell.strip_prefix(BYTE_ORDER_MARK).unwrap_or(cell);
                String::from_utf8_lossy(cell).into_owned()
            };
            Ok(header.iter().map(column).collect())
        }
        Form::JsonLines => {
            let lines = table.bytes.split(|&byte| byte == b'\n');
            let columns = |line: &[u8]| {
                let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
                let values = serde_json::from_slice::<Values>(line).unwrap_or_default();
                let columns = values.into_iter().map(|(column, _)| column);
                columns.collect::<BTreeSet<String>>()
            };
            let names_files = |columns: &BTreeSet<String>| {
                columns.iter().any(|column| files::is_file_column(column))
            };
            Ok(lines.map(columns).find(names_files).unwrap_or_default())
        }
    }
}

/// Hands each row on. What is held for it besides the table takes at most `most_bytes`.
pub(super) fn each(table: &Table, most_bytes: u64, take: Take<'_>) -> Result<(), Refusal> {
    let mut count = 0_u64;
    let mut counted = |record| {
        count += 1;
        take(record)
    };
    match table.form() {
        Form::Csv => each_csv(table, &mut counted)?,
        Form::JsonLines => each_line(table, &mut counted)?,
        Form::Parquet => parquet::each(table, most_bytes, &mut counted)?,
    }
    match count {
        0 => Err(format!("{} has no rows: expected one for every image", table.name).into()),
        _ => Ok(()),
    }
}

const BYTE_ORDER_MARK: &[u8] = "\u{FEFF}".as_bytes();

/// What a table of text says.
fn text_of(table: &Table) -> Result<&[u8], String> {
    let text = std::str::from_utf8(&table.bytes)
        .map_err(|_| format!("{} is not utf-8: save it as utf-8", table.name))?;
    Ok(text.strip_prefix('\u{FEFF}').unwrap_or(text).as_bytes())
}

fn each_line(table: &Table, take: Take<'_>) -> Result<(), Refusal> {
    let lines = text_of(table)?.split(|&byte| byte == b'\n');
    let lines = (1..)
        .zip(lines)
        .filter(|(_, line)| !line.trim_ascii().is_empty());
    for (line, text) in lines {
        let values = serde_json::from_slice(text).map_err(|error| {
            format!(
                "{}: line {line} is no JSON object: {error}: write one object a line",
                table.name
            )
        })?;
        take(Record { line, values })?;
    }
    Ok(())
}

/// What the cells of a CSV column are, all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Number,
    Text,
}

impl Kind {
    /// The narrowest that a cell is of; one that would be written otherwise as a number is text, `007` for example.
    fn of(cell: &str) -> Self {
        let integer = cell.parse::<i64>();
        if integer.is_ok_and(|value| value.to_string() == cell) {
            return Kind::Integer;
        }
        let digits = cell.trim_start_matches('-').as_bytes();
        if digits.starts_with(b"0") && digits.get(1).is_some_and(u8::is_ascii_digit) {
            return Kind::Text;
        }
        let plain = cell.bytes().all(|byte| b"0123456789+-.eE".contains(&byte));
        match cell.parse::<f64>() {
            Ok(value) if plain && value.is_finite() && !cell.starts_with(['+', '.']) => {
                Kind::Number
            }
            _ => Kind::Text,
        }
    }
}

fn csv_reader(text: &[u8]) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new().from_reader(text)
}

fn csv_failed(table: &Table, error: &csv::Error) -> String {
    format!("{}: {error}: correct the table", table.name)
}

fn each_csv(table: &Table, take: Take<'_>) -> Result<(), Refusal> {
    let text = text_of(table)?;
    let failed = |error: csv::Error| csv_failed(table, &error);
    let mut reader = csv_reader(text);
    let header = reader.headers().map_err(failed)?.clone();
    // All of a column is of one kind, which its last row may decide.
    let mut kinds: Vec<Option<Kind>> = vec![None; header.len()];
    for record in reader.records() {
        let record = record.map_err(failed)?;
        for (kind, cell) in kinds.iter_mut().zip(&record) {
            if cell.is_empty() {
                continue;
            }
            let other = Kind::of(cell);
            *kind = Some(match (*kind, other) {
                (None, other) => other,
                (Some(kind), other) if kind == other => kind,
                (Some(Kind::Text), _) | (_, Kind::Text) => Kind::Text,
                _ => Kind::Number,
            });
        }
    }
    let value = |kind: Option<Kind>, cell: &str| match kind {
        _ if cell.is_empty() => Value::Null,
        Some(Kind::Integer) => cell.parse::<i64>().map_or(Value::Null, Value::from),
        Some(Kind::Number) => cell.parse::<f64>().map_or(Value::Null, Value::from),
        _ => Value::from(cell),
    };
    for record in csv_reader(text).records() {
        let record = record.map_err(failed)?;
        let cells = header.iter().zip(&kinds).zip(&record);
        take(Record {
            line: record.position().map_or(0, |at| at.line() as usize),
            values: cells
                .map(|((column, kind), cell)| (column.to_owned(), value(*kind, cell)))
                .collect(),
        })?;
    }
    Ok(())
}
