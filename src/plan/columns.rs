//! Which columns of tables of metadata become columns of shards.

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::format::RecipeLayout as _;
use crate::model::column::Column;
use crate::model::recipe::Recipe;
use crate::source::samples::Scan;

/// As many at most: readers look at each, in every shard.
const MOST_COLUMNS: usize = 1000;

/// Those whose name is not taken, sorted by name; none where the layout has no columns.
///
/// # Errors
///
/// When there are more than a layout has room for.
pub(super) fn own(scan: &Scan, recipe: &Recipe) -> Result<Vec<Column>> {
    let (own, taken) = divide(scan, recipe);
    let count = own.len() + taken.len();
    if count > MOST_COLUMNS {
        return Err(Error::source_data(format!(
            "the metadata has {count} columns, expected at most {MOST_COLUMNS} where each becomes one of a shard; nothing was written: \
             leave some out of the table, or use another `--format`"
        )));
    }
    Ok(own.into_iter().cloned().collect())
}

/// What becomes of each, for people; empty where nothing does.
pub(crate) fn said(scan: &Scan, recipe: &Recipe) -> String {
    let (own, taken) = divide(scan, recipe);
    let own = own
        .iter()
        .map(|column| format!("{} {}", show(column.name.as_bytes()), column.kind.dtype()));
    let taken = taken.iter().map(|column| {
        let name = show(column.name.as_bytes());
        format!("{name} in `json` only, because its name is taken")
    });
    own.chain(taken).collect::<Vec<_>>().join(", ")
}

/// Those that shards get, and those whose name another column has.
fn divide<'s>(scan: &'s Scan, recipe: &Recipe) -> (Vec<&'s Column>, Vec<&'s Column>) {
    let layout = recipe.layout();
    if !layout.has_columns() {
        return (Vec::new(), Vec::new());
    }
    let generated = layout.generated();
    let is_free = |column: &&Column| {
        let name = &column.name;
        !generated.contains(&name.as_str()) && !scan.notes.sidecars.contains_key(name)
    };
    scan.columns.iter().partition(is_free)
}
