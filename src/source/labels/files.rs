//! The labelled files, found by name.

use std::collections::HashMap;

/// The labelled files.
#[derive(Debug)]
pub(super) enum Rows {
    /// By name.
    Named {
        /// In the order of the file, without repetitions.
        rows: Vec<Row>,
        /// Indices of `rows` in the order of their names.
        sorted: Vec<u32>,
        /// Bytes of the directory that all names start with, its slash included.
        common: usize,
    },
    /// Labels by position.
    Listed(Vec<u32>),
    /// Labels by the numbers in the names of ImageNet's validation images.
    Imagenet,
}

/// A file with its label.
#[derive(Debug)]
pub(super) struct Row {
    /// Its line in the label file, from 1.
    pub(super) line: usize,
    /// Its name there.
    pub(super) name: String,
    /// Its label.
    pub(super) label: u32,
}

/// Drops rows that repeat another, refuses those that contradict one, and indexes the rest.
pub(super) fn named_rows(
    name: &str,
    mut rows: Vec<Row>,
    classes: &[String],
) -> Result<Rows, String> {
    let mut seen: HashMap<&str, &Row> = HashMap::with_capacity(rows.len());
    let mut is_new = Vec::with_capacity(rows.len());
    for row in &rows {
        let first = *seen.entry(&row.name).or_insert(row);
        if first.label != row.label {
            return Err(contradiction(name, first, row, classes));
        }
        is_new.push(std::ptr::eq(first, row));
    }
    let mut is_new = is_new.into_iter();
    rows.retain(|_| is_new.next().unwrap_or(true));
    let mut sorted: Vec<u32> = (0..).take(rows.len()).collect();
    sorted.sort_unstable_by(|a, b| rows[*a as usize].name.cmp(&rows[*b as usize].name));
    let common = common_directory(&rows, &sorted);
    Ok(Rows::Named {
        rows,
        sorted,
        common,
    })
}

/// What to say of two rows that give one file two classes.
fn contradiction(name: &str, first: &Row, again: &Row, classes: &[String]) -> String {
    let class = |row: &Row| &classes[row.label as usize];
    let (one, other, before) = (class(first), class(again), first.line);
    let Row {
        line, name: file, ..
    } = again;
    format!(
        "{name}: line {line}: `{file}` has class `{other}`, on line {before} it has `{one}`: \
         keep one of them"
    )
}

/// Bytes of the directory that all names start with, its slash included; 0 if there is none.
fn common_directory(rows: &[Row], sorted: &[u32]) -> usize {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
        return 0;
    };
    // what the first and the last share in byte order, all between them share
    let (first, last) = (&rows[*first as usize].name, &rows[*last as usize].name);
    let same = first
        .bytes()
        .zip(last.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    first.as_bytes()[..same]
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1)
}

/// The part of a path after its last slash.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    path.iter()
        .rposition(|byte| *byte == b'/')
        .map_or(path, |slash| &path[slash + 1..])
}

/// The path up to the last dot of its base name; a leading dot is part of a name.
pub(super) fn without_extension(path: &[u8]) -> &[u8] {
    let base_at = path.len() - base_name(path).len();
    match path[base_at..].iter().rposition(|byte| *byte == b'.') {
        None | Some(0) => path,
        Some(dot) => &path[..base_at + dot],
    }
}
