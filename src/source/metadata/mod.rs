//! Tables beside the images, as HuggingFace's `imagefolder` has them: a row says of which class an image is, and whatever else is known of it.
//!
//! In come the bytes of the tables; out go rows by the path of their image. No file is opened here.

mod table;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::base::text::show;
use crate::model::record::NO_LABEL;
use crate::model::sample::SourcePath;
use crate::source::metadata::table::Record;

/// Names of tables, without their extensions.
pub(crate) const NAMES: [&str; 2] = ["metadata.csv", "metadata.jsonl"];
/// A table of a form that is not read.
pub(crate) const UNREAD_NAME: &str = "metadata.parquet";
/// The column that names the image.
const FILE: &str = "file_name";
/// Columns that are the class, where nobody says.
const LABELS: [&str; 3] = ["label", "labels", "class"];
/// Columns that are a caption, where nobody says.
const CAPTIONS: [&str; 2] = ["text", "caption"];
/// Columns named in a message.
const NAMED: usize = 20;
/// Numbers that are labels themselves stay below this; more is a mistake, not a class count.
const MOST_NUMBERED_CLASSES: u64 = 1_000_000;
/// Most bytes of what is known of an image.
const MOST_BYTES: usize = 4 << 20;

/// Which columns are meant, if the user says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) label: Option<&'a str>,
    pub(crate) caption: Option<&'a str>,
}

/// A table as it lies below the source.
pub(crate) struct Table {
    /// Where it is opened, for messages.
    pub(crate) name: String,
    /// The path of its directory, by which its images are found.
    pub(crate) dir: Vec<u8>,
    pub(crate) text: Vec<u8>,
}

/// What is known of one image.
#[derive(Debug)]
pub(crate) struct Row {
    /// The image's path.
    pub(crate) path: Vec<u8>,
    /// Its class, or [`NO_LABEL`].
    pub(crate) label: u32,
    /// All other columns as JSON; empty if there are none.
    pub(crate) json: Box<str>,
    /// Its caption, if there is such a column.
    pub(crate) caption: Option<Box<str>>,
}

impl Row {
    /// The fields that the image's sample gets, with their contents.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let json = Some(&*self.json).filter(|json| !json.is_empty());
        let json = json.map(|json| ("json", json));
        json.into_iter()
            .chain(self.caption.as_deref().map(|caption| ("txt", caption)))
    }
}

/// The rows of all tables.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Sorted by path.
    rows: Vec<Row>,
    /// Class names by label; empty if no column is the class.
    pub(crate) classes: Vec<String>,
    /// Which columns became what, for people.
    pub(crate) said: String,
    /// Whether a column is the class.
    pub(crate) has_labels: bool,
    /// Whether images without a row, and rows without an image, are left out.
    pub(crate) skip_missing: bool,
}

/// Which columns of a table are what.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Columns {
    label: Option<String>,
    caption: Option<String>,
}

impl Rows {
    /// Reads tables, all of which have the same columns.
    pub(crate) fn parse(tables: &[Table], wanted: &Wanted<'_>) -> Result<Self, String> {
        let mut found: Option<Columns> = None;
        let mut records = Vec::new();
        for table in tables {
            let read = table::read(&table.name, &table.text)?;
            let columns = columns_of(table, &read, wanted)?;
            if let Some(before) = found.replace(columns.clone())
                && before != columns
            {
                return Err(format!(
                    "{} and {} have other columns for class or caption: say which with `--label-column` and `--caption-column`",
                    tables[0].name, table.name
                ));
            }
            for record in read {
                records.push((table, record));
            }
        }
        let columns = found.ok_or("no table of metadata")?;
        let (classes, labels) = match &columns.label {
            Some(column) => classes_of(&records, column)?,
            None => (Vec::new(), BTreeMap::new()),
        };
        let mut rows = Vec::with_capacity(records.len());
        for (table, record) in records {
            rows.push(row(table, record, &columns, &labels)?);
        }
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        if let Some([_, again]) = rows.array_windows().find(|[a, b]| a.path == b.path) {
            return Err(format!(
                "two rows of metadata name `{}`: keep one of them",
                SourcePath::new(again.path.clone())
            ));
        }
        Ok(Self {
            rows,
            classes,
            said: columns.said(),
            has_labels: columns.label.is_some(),
            skip_missing: false,
        })
    }

    /// The number of the row of the image with this path.
    pub(crate) fn number(&self, path: &[u8]) -> Option<usize> {
        let found = self
            .rows
            .binary_search_by(|row| row.path.as_slice().cmp(path));
        found.ok()
    }

    /// What is known of the image with this path.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&Row> {
        self.number(path).map(|number| &self.rows[number])
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// All rows, sorted by path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }
}

impl Columns {
    fn said(&self) -> String {
        let mut said = match &self.label {
            Some(column) => format!("class from column `{column}`"),
            None => "no labels".to_owned(),
        };
        if let Some(column) = &self.caption {
            said.push_str(&format!(", `txt` from column `{column}`"));
        }
        said.push_str(", all others in `json`");
        said
    }
}

/// Whether a table names images; other programs call their tables so too.
pub(crate) fn names_files(table: &Table) -> bool {
    table::read(&table.name, &table.text).is_ok_and(|records| {
        records
            .iter()
            .any(|record| record.values.contains_key(FILE))
    })
}

/// Which columns of a table are what.
fn columns_of(table: &Table, records: &[Record], wanted: &Wanted<'_>) -> Result<Columns, String> {
    let name = &table.name;
    let keys: BTreeSet<&str> = records
        .iter()
        .flat_map(|record| record.values.keys())
        .map(String::as_str)
        .collect();
    let listed = || {
        let named = keys.iter().take(NAMED);
        let named: Vec<String> = named
            .map(|key| format!("`{}`", show(key.as_bytes())))
            .collect();
        named.join(", ")
    };
    if !keys.contains(FILE) {
        return Err(format!(
            "{name}: no column `{FILE}` among {}: it names one image a row, and is the only form of it that is read",
            listed()
        ));
    }
    let choose = |flag: &str, wanted: Option<&str>, known: &[&str]| match wanted {
        Some(wanted) if keys.contains(wanted) => Ok(Some(wanted.to_owned())),
        Some(wanted) => Err(format!(
            "{name}: no column `{wanted}`, there are {}: correct `{flag}`",
            listed()
        )),
        None => {
            let there: Vec<&&str> = known
                .iter()
                .filter(|known| keys.contains(**known))
                .collect();
            match there[..] {
                [] => Ok(None),
                [one] => Ok(Some((*one).to_owned())),
                _ => Err(format!(
                    "{name}: columns {} may all be meant: say which with `{flag} {}`",
                    there
                        .iter()
                        .map(|key| format!("`{key}`"))
                        .collect::<Vec<_>>()
                        .join(" and "),
                    there[0]
                )),
            }
        }
    };
    Ok(Columns {
        label: choose("--label-column", wanted.label, &LABELS)?,
        caption: choose("--caption-column", wanted.caption, &CAPTIONS)?,
    })
}

/// What a cell says as text; `None` if it is neither text nor a whole number.
fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

/// The classes, and the label of each cell: numbers are labels themselves, names are sorted; -1 is none.
fn classes_of(
    records: &[(&Table, Record)],
    column: &str,
) -> Result<(Vec<String>, BTreeMap<String, u32>), String> {
    let mut cells = BTreeSet::new();
    for (table, record) in records {
        match text_of(record.values.get(column)).filter(|text| !text.is_empty()) {
            Some(text) => _ = cells.insert(text),
            None => {
                return Err(format!(
                    "{}: line {}: `{column}` is no class, expected a name, a number from 0, or -1 for none: correct it, or give another column \
                     with `--label-column`",
                    table.name, record.line
                ));
            }
        }
    }
    let has_none = cells.remove("-1");
    let numbers: Option<Vec<u64>> = cells.iter().map(|cell| cell.parse().ok()).collect();
    let (classes, mut labels): (Vec<String>, BTreeMap<String, u32>) = match numbers {
        Some(numbers) if !cells.is_empty() => {
            let largest = numbers.iter().copied().max().unwrap_or(0);
            if largest >= MOST_NUMBERED_CLASSES {
                return Err(format!(
                    "class {largest} in column `{column}` is too large for a label, expected less than {MOST_NUMBERED_CLASSES}: is it the class?"
                ));
            }
            let labels = cells
                .iter()
                .zip(&numbers)
                .map(|(cell, number)| (cell.clone(), *number as u32));
            (
                (0..=largest).map(|label| label.to_string()).collect(),
                labels.collect(),
            )
        }
        _ => (
            cells.iter().cloned().collect(),
            cells.into_iter().zip(0..).collect(),
        ),
    };
    if has_none {
        labels.insert("-1".to_owned(), NO_LABEL);
    }
    Ok((classes, labels))
}

/// What a record says of its image.
fn row(
    table: &Table,
    record: Record,
    columns: &Columns,
    labels: &BTreeMap<String, u32>,
) -> Result<Row, String> {
    let (name, Record { line, mut values }) = (&table.name, record);
    let bad = |what: &str| Err(format!("{name}: line {line}: {what}"));
    let Some(file) = text_of(values.remove(FILE).as_ref()) else {
        return bad("no `file_name`: name the image");
    };
    let leads_out = |part: &str| part.is_empty() || part == "." || part == "..";
    if file.contains("://") || file.split('/').any(leads_out) {
        return bad(&format!(
            "`{file}` is no path of an image below this file's directory: write it as `dir/image.jpg`"
        ));
    }
    let label = columns
        .label
        .as_ref()
        .and_then(|column| text_of(values.remove(column).as_ref()));
    let label = label
        .and_then(|label| labels.get(&label).copied())
        .unwrap_or(NO_LABEL);
    let caption = match &columns.caption {
        None => None,
        Some(column) => match values.get(column) {
            Some(Value::String(text)) => Some(text.as_str().into()),
            None | Some(Value::Null) => Some("".into()),
            Some(_) => {
                return bad(&format!(
                    "the caption `{column}` is no text: give another with `--caption-column`"
                ));
            }
        },
    };
    let json = match values.is_empty() {
        true => String::new(),
        // Values that were parsed serialise.
        false => serde_json::to_string(&values).unwrap_or_default(),
    };
    if json.len() > MOST_BYTES {
        return bad(&format!(
            "{} bytes are known of one image, expected at most {MOST_BYTES}: leave columns out",
            json.len()
        ));
    }
    Ok(Row {
        path: SourcePath::join(&table.dir, file.as_bytes())
            .as_bytes()
            .to_vec(),
        label,
        json: json.into(),
        caption,
    })
}

/// Columns by name, sorted, so that equal rows are equal bytes.
type Values = Map<String, Value>;
