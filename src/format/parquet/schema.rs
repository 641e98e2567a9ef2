//! The columns of a shard, and what HuggingFace datasets is told of them.

use std::sync::Arc;

use parquet::basic::{ConvertedType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::format::About;
use crate::model::column::{Column, ColumnKind};
use crate::model::recipe::Names;

/// Sidecars that are text for readers, and must be UTF-8.
pub(super) const TEXTS: [&str; 10] = [
    "caption",
    "csv",
    "json",
    "jsonl",
    "text",
    "transcript",
    "tsv",
    "txt",
    "xml",
    "yaml",
];

/// The image's file name, as HuggingFace keeps it.
pub(super) fn base(about: &About<'_>) -> String {
    let path = about.path.text();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The columns of a shard.
///
/// Every column may be null, though none is: readers take the `huggingface` entry at its word only where it agrees to the letter
/// with the columns, and in it everything may be null.
pub(super) fn schema(names: &Names) -> Result<Type, ParquetError> {
    let mut schema = "message schema {
        optional group image { optional binary bytes; optional binary path (UTF8); }
        optional int64 label;\n"
        .to_owned();
    for sidecar in &names.sidecars {
        let text = if TEXTS.contains(&sidecar.as_str()) {
            " (UTF8)"
        } else {
            ""
        };
        schema.push_str(&format!("optional binary {sidecar}{text};\n"));
    }
    schema.push('}');
    let first = parse_message_type(&schema)?;
    let mut fields = first.get_fields().to_vec();
    // Their names may be any text, which the parser takes for its own.
    for column in &names.columns {
        fields.push(Arc::new(column_type(column)?));
    }
    Type::group_type_builder("schema")
        .with_fields(fields)
        .build()
}

/// The type of a column of metadata.
fn column_type(column: &Column) -> Result<Type, ParquetError> {
    let physical = match column.kind {
        ColumnKind::Bool => PhysicalType::BOOLEAN,
        ColumnKind::Int64 => PhysicalType::INT64,
        ColumnKind::Float64 => PhysicalType::DOUBLE,
        ColumnKind::String | ColumnKind::Json => PhysicalType::BYTE_ARRAY,
    };
    let converted = match physical {
        PhysicalType::BYTE_ARRAY => ConvertedType::UTF8,
        _ => ConvertedType::NONE,
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_converted_type(converted)
        .build()
}

/// Columns with what they are to HuggingFace, in their order.
struct Features<'a>(&'a Names);

impl Serialize for Features<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let value = |name: &str| match TEXTS.contains(&name) {
            true => json!({ "dtype": "string", "_type": "Value" }),
            false => json!({ "dtype": "binary", "_type": "Value" }),
        };
        let label = json!({ "names": self.0.classes, "_type": "ClassLabel" });
        let first: [(&str, Value); 2] = [("image", json!({ "_type": "Image" })), ("label", label)];
        let sidecars = self
            .0
            .sidecars
            .iter()
            .map(|name| (name.as_str(), value(name)));
        let columns = self.0.columns.iter().map(|column| {
            let value = json!({ "dtype": column.kind.dtype(), "_type": "Value" });
            (column.name.as_str(), value)
        });
        serializer.collect_map(first.into_iter().chain(sidecars).chain(columns))
    }
}

/// The `huggingface` entry of the footer: what each column is.
pub(super) fn huggingface(names: &Names) -> String {
    #[derive(Serialize)]
    struct Info<'a> {
        features: Features<'a>,
    }
    #[derive(Serialize)]
    struct Whole<'a> {
        info: Info<'a>,
    }
    let info = Info {
        features: Features(names),
    };
    // Strings always serialise.
    serde_json::to_string(&Whole { info }).unwrap_or_default()
}
