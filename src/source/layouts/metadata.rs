//! Folders of images with tables beside them: HuggingFace's `metadata.csv`, `metadata.jsonl` and `metadata.parquet`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::model::recipe::Arrangement;
use crate::source::dirs::split_name;
use crate::source::layouts::{Recognised, TABLE_BYTES, Unknown};
use crate::source::metadata::{NAMES, Refusal, Rows, Table, Wanted, names_files};
use crate::source::samples::images;

/// Recognises tables that name their images, wherever they lie.
pub(super) fn recognise(unknown: &mut Unknown<'_>) -> Result<Option<Recognised>> {
    let mut tables = read_tables(unknown)?;
    let refuse = |unknown: &Unknown<'_>, refusal| match refusal {
        Refusal::Data(what) => unknown.refusal(what),
        Refusal::Memory(what) => too_little(unknown, &what),
    };
    if !unknown.is_wanted {
        let mut named = Vec::new();
        for table in tables {
            if names_files(&table).map_err(|refusal| refuse(unknown, refusal))? {
                named.push(table);
            }
        }
        tables = named;
    }
    if tables.is_empty() {
        return match unknown.is_wanted {
            true => Err(unknown.refusal(format!(
                "no {}: add one, or drop `--layout metadata`",
                NAMES.join(", no ")
            ))),
            false => Ok(None),
        };
    }
    if let Some(other) = tables.iter().find(|table| table.form() != tables[0].form()) {
        return Err(unknown.refusal(format!(
            "{} and {} are tables of two kinds, and nothing says which is meant: leave one out with `--exclude`",
            tables[0].name, other.name
        )));
    }
    let wanted = &unknown.rules.metadata_columns;
    let parsed = Rows::parse(
        &tables,
        &Wanted {
            label: wanted.label.as_deref(),
            caption: wanted.caption.as_deref(),
        },
        unknown.rules.table_bytes,
    );
    let mut rows = parsed.map_err(|refusal| refuse(unknown, refusal))?;
    rows.skip_missing = wanted.skip_missing;
    refuse_classes(unknown, &rows)?;
    if unknown.rules.generated.contains(&"json") {
        return Err(Error::usage(
            "--add-json makes a `json` field, and what the metadata says of an image is one: drop `--add-json`",
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

/// Reads all files that are called as tables are.
fn read_tables(unknown: &Unknown<'_>) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    let mut left = unknown.rules.table_bytes;
    for name in NAMES {
        for (dir, index) in unknown.files_named(name.as_bytes()) {
            let (name, size) = (dir.path_of(index).to_string(), dir.file(index).size);
            left = left.checked_sub(size).ok_or_else(|| {
                let what = format!(
                    "{name} has {size} bytes: leave columns out, or leave it out with `--exclude`"
                );
                too_little(unknown, &what)
            })?;
            tables.push(Table {
                name,
                dir: dir.path.clone(),
                bytes: unknown.read(dir, index, TABLE_BYTES)?.into(),
            });
        }
    }
    Ok(tables)
}

/// What to say of tables that take more memory than there is for them.
fn too_little(unknown: &Unknown<'_>, what: &str) -> Error {
    Error::usage(format!(
        "{what}; or raise `--memory`, of which tables of metadata take at most {} MiB, half of what it leaves",
        unknown.rules.table_bytes >> 20
    ))
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
