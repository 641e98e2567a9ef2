//! Which columns of a label file hold the file and the class: by their names in a header, or as the user says.

use crate::base::text::{first_of, quoted, show};

/// Cells of a header that mark the file, in lower case.
const FILES: [&str; 12] = [
    "file",
    "file_name",
    "file_path",
    "filename",
    "filepath",
    "id",
    "image",
    "image_id",
    "image_path",
    "imageid",
    "name",
    "path",
];

/// Cells of a header that mark the class, in lower case.
const CLASSES: [&str; 8] = [
    "class",
    "class_name",
    "classname",
    "label",
    "labels",
    "predictionstring",
    "synset",
    "wnid",
];

/// Columns named in a message.
const NAMED: usize = 20;
/// Characters shown of each.
const MOST_SHOWN: usize = 60;

/// Which columns of a label file are meant, by their names or their numbers from 1; where nobody says, their names tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// That of the files.
    pub(crate) file: Option<String>,
    /// That of the classes.
    pub(crate) label: Option<String>,
}

/// The columns that are taken, counted from 0.
pub(super) struct Taken {
    pub(super) file: usize,
    pub(super) class: usize,
}

/// Whether a cell is the name of a column.
pub(super) fn is_header(cell: &str) -> bool {
    is_one_of(&FILES, cell) || is_one_of(&CLASSES, cell)
}

/// What is told of the columns that were taken.
pub(super) fn named_in_header(file: &str, class: &str) -> String {
    let (file, class) = (short(file), short(class));
    format!("file from column `{file}`, class from column `{class}`")
}

impl Columns {
    /// Whether the user named any.
    pub(super) fn are_given(&self) -> bool {
        self.file.is_some() || self.label.is_some()
    }

    /// Whether a first row names its columns: it begins with the name of one, has the name of a class and begins with what is no file, or
    /// has a name that the user gave.
    pub(super) fn are_named_in(&self, first: &[&str]) -> bool {
        let Some(begin) = first.first() else {
            return false;
        };
        let given = [&self.file, &self.label].into_iter().flatten();
        is_header(begin)
            || (!begin.contains('.') && first.iter().any(|cell| is_one_of(&CLASSES, cell)))
            || given.into_iter().any(|name| named(name, first).is_some())
    }

    /// The columns of a table with this first row, which names them or is a row as all others.
    pub(super) fn take(
        &self,
        name: &str,
        first: &[&str],
        has_header: bool,
    ) -> Result<Taken, String> {
        let find = |flag: &str, wanted: &Option<String>| match wanted {
            None => Ok(None),
            Some(wanted) => place(name, flag, wanted, first).map(Some),
        };
        let file = find("--file-column", &self.file)?;
        let class = find("--label-column", &self.label)?;
        let all = || (0..first.len()).collect::<Vec<_>>();
        let known = |names: &[&str]| -> Vec<usize> {
            let is_known = |at: &usize| has_header && is_one_of(names, first[*at]);
            all().into_iter().filter(is_known).collect()
        };
        let class = match (class, known(&CLASSES).as_slice(), &file) {
            (Some(at), ..) => at,
            (None, [one], _) => *one,
            (None, [], Some(file)) if first.len() == 2 => 1 - file,
            (None, [], _) if first.len() == 2 && !has_header => 1,
            (None, ..) => return Err(unclear(name, first, has_header)),
        };
        let others = known(&FILES).into_iter().find(|at| *at != class);
        let file = match (file, others) {
            (Some(at), _) => at,
            (None, Some(other)) => other,
            (None, None) if first.len() == 2 && (!has_header || self.label.is_some()) => 1 - class,
            (None, None) => {
                let example = first.iter().enumerate().find(|(at, _)| *at != class);
                return Err(format!(
                    "{name}: no column is known to name the files ({}): say which with `--file-column {}`",
                    listed(first),
                    quoted(short(example.map_or("", |(_, cell)| cell))),
                ));
            }
        };
        if file == class {
            return Err(format!(
                "{name}: column `{}` cannot be both the file and the class: give different ones as `--file-column` and `--label-column`",
                short(first[file])
            ));
        }
        Ok(Taken { file, class })
    }
}

/// Where a column of this name is.
fn named(wanted: &str, first: &[&str]) -> Option<usize> {
    let exact = first.iter().position(|cell| *cell == wanted);
    exact.or_else(|| {
        first
            .iter()
            .position(|cell| cell.eq_ignore_ascii_case(wanted))
    })
}

/// The column that the user named, by its name in the first row, or by its number from 1.
fn place(name: &str, flag: &str, wanted: &str, first: &[&str]) -> Result<usize, String> {
    let numbered = || {
        let number: usize = wanted.parse().ok()?;
        number.checked_sub(1).filter(|at| *at < first.len())
    };
    named(wanted, first).or_else(numbered).ok_or_else(|| {
        format!(
            "{name}: no column `{wanted}`, the first row has {}: correct `{flag}`",
            listed(first)
        )
    })
}

/// What to say where it is not clear which column is the class.
fn unclear(name: &str, first: &[&str], has_header: bool) -> String {
    let known: Vec<&str> = first
        .iter()
        .copied()
        .filter(|cell| is_one_of(&CLASSES, cell))
        .collect();
    let what = match (has_header, known.len()) {
        (false, _) => format!("{} columns and no header", first.len()),
        (true, 0) => format!("no column is known to be the class ({})", listed(first)),
        (true, _) => format!("several columns may be the class ({})", listed(&known)),
    };
    let example = match (has_header, first) {
        (false, _) => "2".to_owned(),
        (true, [.., last]) if known.is_empty() => {
            let other = first.iter().rev().find(|cell| !is_one_of(&FILES, cell));
            quoted(short(other.unwrap_or(last)))
        }
        _ => quoted(short(known.first().copied().unwrap_or_default())),
    };
    let file = if has_header { "" } else { "--file-column 1 " };
    format!("{name}: {what}: say which with `{file}--label-column {example}`")
}

/// Cells for a message: some of them, and not more of each than a name needs.
fn listed(cells: &[&str]) -> String {
    first_of(cells.iter().map(|cell| format!("`{}`", short(cell))), NAMED)
}

/// The beginning of a cell, as a message shows it.
fn short(cell: &str) -> String {
    let more = if cell.chars().nth(MOST_SHOWN).is_some() {
        "…"
    } else {
        ""
    };
    let begin: String = cell.chars().take(MOST_SHOWN).collect();
    format!("{}{more}", show(begin.as_bytes()))
}

/// Whether a cell is one of these names, in any case.
fn is_one_of(names: &[&str], cell: &str) -> bool {
    names
        .iter()
        .any(|name| cell.trim().eq_ignore_ascii_case(name))
}
