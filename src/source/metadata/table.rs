//! The two forms of a table: CSV with a header, and JSON lines.

use serde_json::Value;

use crate::source::metadata::Values;

/// A row as it stands in the table.
pub(super) struct Record {
    /// Its line, from 1.
    pub(super) line: usize,
    /// Its cells by column.
    pub(super) values: Values,
}

/// Reads a table, whose name tells its form.
pub(super) fn read(name: &str, text: &[u8]) -> Result<Vec<Record>, String> {
    let text =
        std::str::from_utf8(text).map_err(|_| format!("{name} is not utf-8: save it as utf-8"))?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let records = match name.ends_with(".jsonl") {
        true => json_lines(name, text)?,
        false => csv_rows(name, text)?,
    };
    match records.is_empty() {
        true => Err(format!("{name} has no rows: expected one for every image")),
        false => Ok(records),
    }
}

fn json_lines(name: &str, text: &str) -> Result<Vec<Record>, String> {
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(line, text)| match serde_json::from_str(text) {
            Ok(values) => Ok(Record { line, values }),
            Err(error) => Err(format!(
                "{name}: line {line} is no JSON object: {error}: write one object a line"
            )),
        })
        .collect()
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

fn csv_rows(name: &str, text: &str) -> Result<Vec<Record>, String> {
    let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
    let failed = |error: csv::Error| format!("{name}: {error}: correct the table");
    let header: Vec<String> = reader
        .headers()
        .map_err(failed)?
        .iter()
        .map(str::to_owned)
        .collect();
    let mut rows = Vec::new();
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
        rows.push(record);
    }
    let value = |kind: Option<Kind>, cell: &str| match kind {
        _ if cell.is_empty() => Value::Null,
        Some(Kind::Integer) => cell.parse::<i64>().map_or(Value::Null, Value::from),
        Some(Kind::Number) => cell.parse::<f64>().map_or(Value::Null, Value::from),
        _ => Value::from(cell),
    };
    let row = |record: csv::StringRecord| {
        let cells = header.iter().zip(&kinds).zip(&record);
        Record {
            line: record.position().map_or(0, |at| at.line() as usize),
            values: cells
                .map(|((column, kind), cell)| (column.clone(), value(*kind, cell)))
                .collect(),
        }
    };
    Ok(rows.into_iter().map(row).collect())
}
