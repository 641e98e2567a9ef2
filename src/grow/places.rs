//! Whether shards that stay have a place for the classes and fields that the source has now.

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::format::RecipeLayout as _;
use crate::grow::options::Growth;
use crate::model::column::Column;
use crate::model::manifest::Manifest;
use crate::model::offenders::NAMED;
use crate::model::recipe::Missing;
use crate::plan::order::Ordered;
use crate::store::Sink;

/// Refuses a source with fields or classes that the shards that stay have no place for.
pub(super) fn check_fields(
    sink: &dyn Sink,
    manifest: &Manifest,
    ordered: &Ordered,
    new_classes: &[String],
    growth: &Growth,
) -> Result<()> {
    if growth.frozen && !new_classes.is_empty() {
        return Err(Error::source_data(format!(
            "{} new classes, nothing was written: {}\n  remove them, or drop `--classes frozen`",
            new_classes.len(),
            first_names(new_classes)
        )));
    }
    if growth.full {
        return Ok(());
    }
    let refused = |what: String| {
        Err(Error::source_data(format!(
            "{sink}: {what}, and shards that stay have no place for that; nothing was written: start over with `--full`"
        )))
    };
    let (before, now) = (&manifest.names, ordered.names());
    if before.sidecars != now.sidecars && manifest.recipe.missing != Missing::Keep {
        let text = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        return refused(format!(
            "samples have other fields than those that are published (before {}, now {})",
            text(&before.sidecars),
            text(&now.sidecars)
        ));
    }
    if before.columns != now.columns {
        let text = |columns: &[Column]| {
            let named = columns
                .iter()
                .map(|column| format!("{} {}", show(column.name.as_bytes()), column.kind.dtype()));
            match columns {
                [] => "none".to_owned(),
                _ => named.collect::<Vec<_>>().join(", "),
            }
        };
        return refused(format!(
            "the metadata has other columns than what is published (before {}, now {})",
            text(&before.columns),
            text(&now.columns)
        ));
    }
    if !new_classes.is_empty() && manifest.recipe.layout().lists_classes() {
        return refused(format!("new classes ({})", first_names(new_classes)));
    }
    if before.texts.is_empty() != now.texts.is_empty() {
        return Err(Error::usage(format!(
            "{sink} was made {} `--class-names`: give the same, or start over with `--full`",
            if now.texts.is_empty() {
                "with"
            } else {
                "without"
            }
        )));
    }
    if now.texts.get(..before.texts.len()) != Some(&before.texts[..]) {
        return refused("classes are called otherwise".to_owned());
    }
    Ok(())
}

/// The first of these names, for a message.
fn first_names(names: &[String]) -> String {
    let first = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
