//! Tables beside the images, as HuggingFace's `imagefolder` has them: a row says of which class an image is, and whatever else is known of it.
//!
//! In come the bytes of the tables; out go rows by the path of their image. No file is opened here, and no more is held than is told.

mod columns;
mod files;
mod parquet;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::base::text::show;
use crate::model::column::Column;
use crate::model::record::NO_LABEL;
use crate::model::sample::{FilePath, SourcePath};
use crate::source::labels::MOST_NUMBERED_CLASSES;
use crate::source::metadata::columns::Seen;
use crate::source::metadata::table::Record;

/// Names of tables.
pub(crate) const NAMES: [&str; 3] = ["metadata.csv", "metadata.jsonl", "metadata.parquet"];
/// Columns that are the class, where nobody says.
const LABELS: [&str; 3] = ["label", "labels", "class"];
/// Columns that are a caption, where nobody says.
const CAPTIONS: [&str; 2] = ["text", "caption"];
/// Columns named in a message.
const NAMED: usize = 20;
/// Most bytes of what is known of an image.
const MOST_BYTES: usize = 4 << 20;

/// Which columns are meant, if the user says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) label: Option<&'a str>,
    pub(crate) caption: Option<&'a str>,
}

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Csv,
    JsonLines,
    Parquet,
}

/// A table as it lies below the source.
pub(crate) struct Table {
    /// Where it is opened, for messages; its end tells its form.
    pub(crate) name: String,
    /// The path of its directory, by which its images are found.
    pub(crate) dir: Vec<u8>,
    pub(crate) bytes: Bytes,
}

impl Table {
    /// How it is written.
    pub(crate) fn form(&self) -> Form {
        match self.name.rsplit('.').next() {
            Some("jsonl") => Form::JsonLines,
            Some("parquet") => Form::Parquet,
            _ => Form::Csv,
        }
    }

    /// A place in it, for messages.
    fn place(&self, line: usize) -> String {
        let what = match self.form() {
            Form::Parquet => "row",
            Form::Csv | Form::JsonLines => "line",
        };
        format!("{}: {what} {line}", self.name)
    }
}

/// Why tables are not read.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// They are not as they should be.
    Data(String),
    /// They take more memory than there is for them.
    Memory(String),
}

impl From<String> for Refusal {
    fn from(what: String) -> Self {
        Self::Data(what)
    }
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
    /// What it takes of memory.
    fn held_bytes(&self) -> u64 {
        let caption = self.caption.as_ref().map_or(0, |caption| caption.len());
        let bytes = size_of::<Self>() + self.path.len() + self.json.len() + caption;
        // What an allocator adds to each of them; a list that grows has room for twice as many.
        (bytes + 3 * 16 + size_of::<Self>()) as u64
    }

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
    /// All columns besides class and image, sorted by name.
    pub(crate) columns: Vec<Column>,
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
    /// Reads tables, all of which have the same columns. They and what comes of them take no more than `most_bytes`.
    pub(crate) fn parse(
        tables: &[Table],
        wanted: &Wanted<'_>,
        most_bytes: u64,
    ) -> Result<Self, Refusal> {
        let mut found: Option<Columns> = None;
        for table in tables {
            let columns = columns_of(table, &table::columns(table)?, wanted)?;
            if let Some(before) = found.replace(columns.clone())
                && before != columns
            {
                return Err(Refusal::Data(format!(
                    "{} and {} have other columns for class or caption: say which with `--label-column` and `--caption-column`",
                    tables[0].name, table.name
                )));
            }
        }
        let columns = found.ok_or_else(|| "no table of metadata".to_owned())?;
        let mut cells = Cells::default();
        let mut rows = Vec::new();
        let of_tables: u64 = tables.iter().map(|table| table.bytes.len() as u64).sum();
        let mut held = of_tables;
        let mut seen = Seen::default();
        for table in tables {
            let left = most_bytes.saturating_sub(held);
            table::each(table, left, &mut |record| {
                let row = row(table, record, &columns, &mut cells, &mut seen)?;
                held += row.held_bytes();
                rows.push(row);
                match held > most_bytes {
                    true => Err(Refusal::Memory(format!(
                        "{}: the memory for tables holds no more than {} rows: leave columns out",
                        table.name,
                        rows.len() - 1
                    ))),
                    false => Ok(()),
                }
            })?;
        }
        let (classes, labels) = cells.classes(columns.label.as_deref())?;
        for row in &mut rows {
            row.label = labels.get(row.label as usize).copied().unwrap_or(NO_LABEL);
        }
        if rows.iter().any(|row| !row.json.is_empty()) {
            // Of these nothing else is known, and all samples have the same fields.
            for row in rows.iter_mut().filter(|row| row.json.is_empty()) {
                row.json = "{}".into();
            }
        }
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        if let Some([_, again]) = rows.array_windows().find(|[a, b]| a.path == b.path) {
            return Err(Refusal::Data(format!(
                "two rows of metadata name `{}`: keep one of them",
                SourcePath::new(again.path.clone())
            )));
        }
        Ok(Self {
            rows,
            classes,
            columns: seen.columns(),
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
pub(crate) fn names_files(table: &Table) -> Result<bool, Refusal> {
    let columns = table::file_columns(table)?;
    Ok(columns.iter().any(|column| files::is_file_column(column)))
}

/// What the rows of a table say in the column of this name, as text. What is held of it takes no more than `most_bytes` at once.
pub(super) fn texts_in(
    table: &Table,
    column: &str,
    most_bytes: u64,
) -> Result<Vec<String>, Refusal> {
    if !table::columns(table)?.contains(column) {
        return Err(Refusal::Data(format!(
            "{}: no column `{column}`: name it so, or write one a line into a text file",
            table.name
        )));
    }
    let mut texts = Vec::new();
    table::each(table, most_bytes, &mut |record| {
        let text = text_of(record.values.get(column))
            .ok_or_else(|| format!("{}: `{column}` is no text", table.place(record.line)))?;
        texts.push(text);
        Ok(())
    })?;
    Ok(texts)
}

/// Which columns of a table are what.
fn columns_of(
    table: &Table,
    keys: &BTreeSet<String>,
    wanted: &Wanted<'_>,
) -> Result<Columns, String> {
    let name = &table.name;
    let listed = || {
        let named = keys.iter().take(NAMED);
        let named: Vec<String> = named
            .map(|key| format!("`{}`", show(key.as_bytes())))
            .collect();
        named.join(", ")
    };
    if !keys.iter().any(|key| files::is_file_column(key)) {
        return Err(format!(
            "{name}: no column `file_name` among {}: it names the image of a row, as one whose name ends in `_file_name` does",
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

/// What the rows say in the column that is the class, each once.
#[derive(Default)]
struct Cells(BTreeMap<String, u32>);

impl Cells {
    /// The number of a cell, in the order in which they were first seen.
    fn number(&mut self, cell: String) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(cell).or_insert(next)
    }

    /// The classes, and the label of each cell by its number: numbers are labels themselves, names are sorted; -1 is none.
    fn classes(self, column: Option<&str>) -> Result<(Vec<String>, Vec<u32>), String> {
        let Some(column) = column else {
            return Ok((Vec::new(), Vec::new()));
        };
        let mut labels = vec![NO_LABEL; self.0.len()];
        let cells: Vec<(String, u32)> = self
            .0
            .into_iter()
            .filter(|(cell, _)| cell != "-1")
            .collect();
        let numbers = cells.iter().map(|(cell, _)| cell.parse().ok());
        match numbers.collect::<Option<Vec<u64>>>() {
            Some(numbers) if !cells.is_empty() => {
                let largest = numbers.iter().copied().max().unwrap_or(0);
                if largest >= MOST_NUMBERED_CLASSES {
                    return Err(format!(
                        "class {largest} in column `{column}` is too large for a label, expected less than {MOST_NUMBERED_CLASSES}: is it the class?"
                    ));
                }
                for ((_, cell), number) in cells.iter().zip(&numbers) {
                    labels[*cell as usize] = *number as u32;
                }
                let classes = (0..=largest).map(|label| label.to_string());
                Ok((classes.collect(), labels))
            }
            _ => {
                for ((_, cell), label) in cells.iter().zip(0..) {
                    labels[*cell as usize] = label;
                }
                let classes = cells.into_iter().map(|(cell, _)| cell);
                Ok((classes.collect(), labels))
            }
        }
    }
}

/// What a record says of its image; its label is the number of its cell still.
fn row(
    table: &Table,
    record: Record,
    columns: &Columns,
    cells: &mut Cells,
    seen: &mut Seen,
) -> Result<Row, String> {
    let Record { line, mut values } = record;
    let bad = |what: &str| format!("{}: {what}", table.place(line));
    let file = files::image(&mut values).map_err(|what| bad(&what))?;
    if file.contains("://") || FilePath::try_from(SourcePath::new(file.as_str())).is_err() {
        return Err(bad(&format!(
            "`{file}` is no path of an image below this file's directory: write it as `dir/image.jpg`"
        )));
    }
    let label = match &columns.label {
        None => NO_LABEL,
        Some(column) => {
            let cell = text_of(values.remove(column).as_ref()).filter(|cell| !cell.is_empty());
            cells.number(cell.ok_or_else(|| {
                bad(&format!(
                    "`{column}` is no class, expected a name, a number from 0, or -1 for none: correct it, or give another column \
                     with `--label-column`"
                ))
            })?)
        }
    };
    let caption = match &columns.caption {
        None => None,
        Some(column) => match values.get(column) {
            Some(Value::String(text)) => Some(text.as_str().into()),
            None | Some(Value::Null) => Some("".into()),
            Some(_) => {
                return Err(bad(&format!(
                    "the caption `{column}` is no text: give another with `--caption-column`"
                )));
            }
        },
    };
    seen.add(&values);
    let json = match values.is_empty() {
        true => String::new(),
        // Values that were parsed serialise.
        false => serde_json::to_string(&values).unwrap_or_default(),
    };
    if json.len() > MOST_BYTES {
        return Err(bad(&format!(
            "{} bytes are known of one image, expected at most {MOST_BYTES}: leave columns out",
            json.len()
        )));
    }
    Ok(Row {
        path: SourcePath::join(&table.dir, file.as_bytes()).into_bytes(),
        label,
        json: json.into(),
        caption,
    })
}

/// Columns by name, sorted, so that equal rows are equal bytes.
type Values = Map<String, Value>;
