//! What the cells of each column are, over all rows of all tables.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::column::{Column, ColumnKind};
use crate::source::metadata::Values;

/// Whole numbers up to this are the same as floating-point numbers.
const MOST_EXACT: u64 = 1 << 53;

/// What was seen in a column.
#[derive(Clone, Copy, Debug, Default)]
struct Cells {
    has_bool: bool,
    has_integer: bool,
    /// A whole number that no floating-point number is.
    has_large: bool,
    has_number: bool,
    has_text: bool,
    has_other: bool,
}

impl Cells {
    fn add(&mut self, cell: &Value) {
        match cell {
            Value::Null => (),
            Value::Bool(_) => self.has_bool = true,
            Value::Number(number) => match (number.as_i64(), number.is_u64()) {
                (Some(integer), _) => {
                    self.has_integer = true;
                    self.has_large |= integer.unsigned_abs() > MOST_EXACT;
                }
                (None, true) => self.has_other = true,
                (None, false) => self.has_number = true,
            },
            Value::String(_) => self.has_text = true,
            Value::Array(_) | Value::Object(_) => self.has_other = true,
        }
    }

    fn kind(self) -> ColumnKind {
        let has_numbers = self.has_integer || self.has_number;
        match (self.has_bool, has_numbers, self.has_text, self.has_other) {
            (true, false, false, false) => ColumnKind::Bool,
            (false, true, false, false) if !self.has_number => ColumnKind::Int64,
            (false, true, false, false) if !self.has_large => ColumnKind::Float64,
            // Where nothing is said, readers take text best.
            (false, false, _, false) => ColumnKind::String,
            _ => ColumnKind::Json,
        }
    }
}

/// The columns seen so far.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<String, Cells>);

impl Seen {
    /// Adds the cells of a row.
    pub(super) fn add(&mut self, row: &Values) {
        for (name, cell) in row {
            match self.0.get_mut(name) {
                Some(cells) => cells.add(cell),
                None => self.0.entry(name.clone()).or_default().add(cell),
            }
        }
    }

    /// All columns, sorted by name.
    pub(super) fn columns(self) -> Vec<Column> {
        let columns = self.0.into_iter().map(|(name, cells)| Column {
            name,
            kind: cells.kind(),
        });
        columns.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(cells: &[Value]) -> ColumnKind {
        let mut seen = Seen::default();
        for cell in cells {
            let Value::Object(row) = json!({ "a": cell }) else {
                panic!("no object")
            };
            seen.add(&row);
        }
        seen.columns()[0].kind
    }

    #[test]
    fn a_column_is_of_the_narrowest_kind_that_holds_all_its_cells() {
        let large = (1_u64 << 53) + 1;
        for (cells, expected) in [
            (vec![json!(true), json!(null)], ColumnKind::Bool),
            (vec![json!(1), json!(-7)], ColumnKind::Int64),
            (vec![json!(1), json!(0.5)], ColumnKind::Float64),
            (vec![json!(large)], ColumnKind::Int64),
            (vec![json!(large), json!(0.5)], ColumnKind::Json),
            (vec![json!(u64::MAX)], ColumnKind::Json),
            (vec![json!("a"), json!("")], ColumnKind::String),
            (vec![json!(null)], ColumnKind::String),
            (vec![json!("a"), json!(1)], ColumnKind::Json),
            (vec![json!(true), json!(1)], ColumnKind::Json),
            (vec![json!([1, 2])], ColumnKind::Json),
            (vec![json!({ "x": 1 }), json!(null)], ColumnKind::Json),
        ] {
            assert_eq!(kind(&cells), expected, "{cells:?}");
        }
    }
}
