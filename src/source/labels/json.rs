//! Label files of JSON lines: an object for each image.

use serde_json::{Map, Value};

use crate::source::labels::cells::{Cells, Table, class_of_cell};
use crate::source::labels::columns::{Columns, Taken, named_in_header};
use crate::source::labels::words::lines;

/// Whether a text is JSON by its first character.
pub(super) fn is_json(text: &str) -> bool {
    lines(text)
        .next()
        .is_some_and(|(_, line)| line.starts_with('{') || line == "[" || line.starts_with("[{"))
}

/// Rows of JSON lines. Their keys are the columns, which the first object names.
pub(super) fn rows(name: &str, text: &str, columns: &Columns) -> Result<Table, String> {
    let mut rows = Vec::new();
    let mut taken: Option<(String, String)> = None;
    for (line, text) in lines(text) {
        let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            format!("{name}: line {line} is no JSON object ({error}): write one object a line, `{{\"file\": …, \"label\": …}}`")
        })?;
        let (file, class) = match &taken {
            Some(taken) => taken,
            None => {
                let keys: Vec<&str> = object.keys().map(String::as_str).collect();
                let Taken { file, class } = columns.take(name, &keys, true)?;
                taken.insert((keys[file].to_owned(), keys[class].to_owned()))
            }
        };
        let cell = |key: &str| match object.get(key) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            None | Some(Value::Null) => Ok(String::new()),
            Some(_) => Err(format!(
                "{name}: line {line}: `{key}` is neither text nor a number: give another column with `--file-column` or `--label-column`"
            )),
        };
        let class = cell(class)?;
        let class = Some(class_of_cell(&class)).filter(|class| !class.is_empty());
        rows.push(Cells {
            line,
            first: cell(file)?,
            class: class.map(str::to_owned),
        });
    }
    let taken = taken.map(|(file, class)| named_in_header(&file, &class));
    Ok(Table {
        rows,
        taken: taken.unwrap_or_default(),
    })
}
