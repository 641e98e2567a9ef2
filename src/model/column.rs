//! A column of a table of metadata: what all its cells are.

use serde::{Deserialize, Serialize};

/// What the cells of a column are, those that are empty aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColumnKind {
    /// True or false.
    Bool,
    /// A whole number of 64 bits.
    Int64,
    /// A floating-point number of 64 bits.
    Float64,
    /// Text.
    String,
    /// Text too, in which lists, objects and what is not of one kind are written as JSON.
    Json,
}

impl ColumnKind {
    /// The type that readers know it by, in the words of Arrow.
    pub(crate) fn dtype(self) -> &'static str {
        match self {
            ColumnKind::Bool => "bool",
            ColumnKind::Int64 => "int64",
            ColumnKind::Float64 => "float64",
            ColumnKind::String | ColumnKind::Json => "string",
        }
    }
}

/// A column besides class and image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Column {
    /// Its name, also in the `json` of a sample.
    pub(crate) name: String,
    /// What its cells are.
    pub(crate) kind: ColumnKind,
}
