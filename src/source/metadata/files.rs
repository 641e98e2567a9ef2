//! Which image a row is about: `file_name` and columns that end in `_file_name` name one, `file_names` and those that end in `_file_names` a list.
//!
//! A sample has one image. HuggingFace makes a feature of every such column; here a row that names several is refused.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::base::text::show;
use crate::source::metadata::{Values, text_of};

/// Images named in a message.
const NAMED: usize = 3;

fn is_single(column: &str) -> bool {
    column == "file_name" || column.ends_with("_file_name")
}

fn is_list(column: &str) -> bool {
    column == "file_names" || column.ends_with("_file_names")
}

/// Whether a column of this name names images.
pub(super) fn is_file_column(column: &str) -> bool {
    is_single(column) || is_list(column)
}

/// Takes the columns that name images out of a row, and gives the one that they name.
pub(super) fn image(values: &mut Values) -> Result<String, String> {
    let columns: Vec<String> = values
        .keys()
        .filter(|column| is_file_column(column))
        .cloned()
        .collect();
    let mut named = BTreeSet::new();
    for column in &columns {
        let shown = || show(column.as_bytes());
        match values.remove(column) {
            None | Some(Value::Null) => {}
            Some(Value::Array(names)) if is_list(column) => {
                for name in names {
                    match text_of(Some(&name)) {
                        Some(name) => _ = named.insert(name),
                        None => {
                            return Err(format!(
                                "`{}` is no list of names: write paths of images",
                                shown()
                            ));
                        }
                    }
                }
            }
            Some(name) => match text_of(Some(&name)) {
                Some(name) if is_single(column) => _ = named.insert(name),
                Some(_) => {
                    return Err(format!(
                        "`{}` is no list of names: write one, or call the column `file_name`",
                        shown()
                    ));
                }
                None => {
                    return Err(format!(
                        "`{}` is no name: write the path of an image",
                        shown()
                    ));
                }
            },
        }
    }
    let mut names = named.into_iter();
    match (names.next(), names.len()) {
        (Some(name), 0) => Ok(name),
        (None, _) => Err("no `file_name`: name the image".to_owned()),
        (Some(first), more) => {
            let shown: Vec<String> = std::iter::once(first)
                .chain(names.take(NAMED - 1))
                .map(|name| format!("`{}`", show(name.as_bytes())))
                .collect();
            Err(format!(
                "{} images are named, {}{}, and a sample has one: write a row for each, or leave the other columns out",
                more + 1,
                shown.join(", "),
                if more + 1 > NAMED { " …" } else { "" }
            ))
        }
    }
}
