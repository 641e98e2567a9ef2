//! Destinations that are refused before anything in them is changed: of a later version of this program, or of somebody else.

use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::text::show;
use crate::base::units::bytes_text;
use crate::model::manifest::{STATE, snapshot_name};
use crate::model::version;
use crate::state::claims::stored;
use crate::state::published::load;
use crate::store::Sink;

/// What a copy that is not finished is to be; gone when it is.
pub(crate) const COPY: &str = "_shardpack/copy.json";

/// Refuses to write so many bytes where the destination says that it has no room for them.
pub(crate) fn refuse_without_room(sink: &dyn Sink, needed: u64) -> Result<()> {
    match sink.free_bytes() {
        Some(free) if needed > free => Err(Error::failed(format!(
            "{sink}: {} are to be written, and {} are free, nothing was written: free some space, or choose another destination",
            bytes_text(needed),
            bytes_text(free)
        ))),
        _ => Ok(()),
    }
}

/// Refuses a destination that a later version of this program wrote to, before anything in it is changed: by its manifest, by the snapshot
/// after that, and by the plan that was claimed last, published or not. What is damaged there is left to whoever needs it.
pub(crate) fn refuse_later(sink: &dyn Sink) -> Result<()> {
    let manifest = unless_damaged(load(sink))?.flatten();
    refuse_later_snapshot(sink, manifest.map_or(0, |manifest| manifest.snapshot))?;
    unless_damaged(stored(sink))?;
    Ok(())
}

/// Refuses a snapshot of a later version right after the one that is published, 0 if none is: whoever put it has not got to the manifest yet.
pub(crate) fn refuse_later_snapshot(sink: &dyn Sink, published: u64) -> Result<()> {
    let name = snapshot_name(published + 1);
    match sink.get(&name)? {
        Some(text) => version::MANIFEST.check(&format!("{sink}/{name}"), &text),
        None => Ok(()),
    }
}

/// Refuses a destination without plans that holds something else than a dataset of ours or nothing: a copy that is not finished, too, and a
/// copy of a part, which only the next copy may change.
pub(crate) fn check_ours(sink: &dyn Sink) -> Result<()> {
    let state = sink.list(STATE)?;
    let published = match state.is_empty() {
        true => None,
        false => unless_damaged(load(sink))?.flatten(),
    };
    let is_begun = state.iter().any(|(name, _)| name == COPY);
    let what = match published.map(|manifest| manifest.derived_from) {
        Some(Some(derived)) if derived.copied => {
            let selection = show(derived.selection.as_bytes());
            format!("a part of another dataset ({selection}): let that grow and copy it again")
        }
        None if is_begun => {
            "a copy that is not finished: run that `shardpack copy` again".to_owned()
        }
        _ => String::new(),
    };
    if !what.is_empty() {
        let what = format!("{sink} holds {what}, or choose another destination");
        return Err(Error::new(Kind::Conflict, what));
    }
    if !state.is_empty() {
        return Ok(());
    }
    let found = sink.list("")?;
    // Another run may have begun in between.
    if found
        .iter()
        .any(|(name, _)| name.split('/').next() == Some(STATE))
    {
        return Ok(());
    }
    match found.first() {
        Some((name, _)) => Err(Error::usage(format!(
            "{sink} is not empty and not a dataset of shardpack (it holds `{name}`{}): choose an empty or new destination",
            match found.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            }
        ))),
        None => Ok(()),
    }
}
