//! Folders of images with tables beside them: HuggingFace's `metadata.csv` and `metadata.jsonl`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::model::recipe::Arrangement;
use crate::source::dirs::split_name;
use crate::source::layouts::splits::images;
use crate::source::layouts::{Recognised, TABLE_BYTES, Unknown};
use crate::source::metadata::{NAMES, Rows, Table, UNREAD_NAME, Wanted, names_files};

/// Recognises tables that name their images, wherever they lie.
pub(super) fn recognise(unknown: &mut Unknown<'_>) -> Result<Option<Recognised>> {
    let mut tables = Vec::new();
    for name in NAMES {
        for (dir, index) in unknown.files_named(name.as_bytes()) {
            tables.push(Table {
                name: dir.path_of(index).to_string(),
                dir: dir.path.clone(),
                text: unknown.read(dir, index, TABLE_BYTES)?,
            });
        }
    }
    if !unknown.is_wanted {
        tables.retain(names_files);
    }
    if tables.is_empty() {
        let unread = unknown.files_named(UNREAD_NAME.as_bytes()).next();
        let unread = unread.map(|(dir, index)| dir.path_of(index).to_string());
        return match (unknown.is_wanted, unread) {
            (true, Some(unread)) => Err(unknown.refusal(format!(
                "{unread} is a form of metadata that is not read: save it as metadata.csv or metadata.jsonl"
            ))),
            (true, None) => Err(unknown.refusal("no metadata.csv and no metadata.jsonl: add one, or drop `--layout metadata`")),
            (false, _) => Ok(None),
        };
    }
    let wanted = &unknown.rules.metadata_columns;
    let parsed = Rows::parse(
        &tables,
        &Wanted {
            label: wanted.label.as_deref(),
            caption: wanted.caption.as_deref(),
        },
    );
    let mut rows = parsed.map_err(|error| unknown.refusal(error))?;
    rows.skip_missing = wanted.skip_missing;
    refuse_classes(unknown, &rows)?;
    if unknown.rules.generated.contains(&"json") {
        return Err(Error::usage(
            "--json makes a `json` field, and what the metadata says of an image is one: drop `--json`",
        ));
    }
    for dir in &mut unknown.listing.dirs {
        dir.retain(|name| !NAMES.iter().any(|known| known.as_bytes() == name));
    }
    let said = format!(
        "metadata: {}{}: {}",
        tables[0].name,
        match tables.len() {
            1 => String::new(),
            more => format!(" and {} more", more - 1),
        },
        rows.said
    );
    unknown.rules.metadata = Some(Arc::new(rows));
    Ok(Some(Recognised {
        layout: Arrangement::Metadata,
        said,
    }))
}

/// Refuses tables without a class where directories may be classes: one of both was meant, and nothing says which.
fn refuse_classes(unknown: &Unknown<'_>, rows: &Rows) -> Result<()> {
    if rows.has_labels || unknown.is_wanted {
        return Ok(());
    }
    let mut classes = BTreeSet::new();
    for dir in unknown
        .listing
        .dirs
        .iter()
        .filter(|dir| images(dir).next().is_some())
    {
        let mut parts = dir
            .path
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty());
        let first = parts.next();
        let class = first
            .filter(|first| split_name(first).is_none())
            .or(parts.next());
        classes.extend(class);
    }
    match classes.len() {
        0 | 1 => Ok(()),
        count => Err(unknown.refusal(format!(
            "the metadata has no column for the class, and {count} directories may be classes, `{}` for example: give `--label-column`, \
             `--layout metadata` for images without labels, or `--layout imagefolder` to leave the metadata out",
            classes.first().map_or(String::new(), |class| show(class))
        ))),
    }
}
