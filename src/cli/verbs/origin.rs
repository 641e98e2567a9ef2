//! The source that a destination was or is to be made from.

use crate::base::error::{Error, Result, unless_damaged};
use crate::base::signal::Stop;
use crate::cli::settings::{Planning, Running, left_out, rules_of};
use crate::model::problems::Problems;
use crate::model::recipe::Recipe;
use crate::source::choose::Choice;
use crate::source::dataset::{Listed, list};
use crate::source::layouts::scan_as;
use crate::source::samples::Scan;
use crate::state::claims::{claimed, generations};
use crate::state::names::source_name;
use crate::state::walks;
use crate::store::{self, Access, Sink, Source};

/// Where the source was when this plan was stored by `plan`.
pub(super) fn planned_source(sink: &dyn Sink, id: &str) -> Result<Option<String>> {
    let text = sink.get(&source_name(id))?;
    Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Opens the source that a destination is to be made from. One that is not there is gone, if anything was planned here before.
pub(super) fn open_source(
    planning: &Planning,
    sink: &dyn Sink,
    running: &Running,
) -> Result<Box<dyn Source>> {
    let location = &planning.source;
    open_for(location, &planning.recipe, running).map_err(|error| if_gone(error, sink, location))
}

/// Opens a source that is to be listed by the rules of this recipe.
pub(super) fn open_for(
    location: &str,
    recipe: &Recipe,
    running: &Running,
) -> Result<Box<dyn Source>> {
    let access = Access {
        left_out: left_out(recipe)?,
        ..running.access.clone()
    };
    store::source(location, &access)
}

/// Lists a source that the destination was made from.
pub(super) fn list_again(sink: &dyn Sink, source: &dyn Source, recipe: &Recipe) -> Result<Listed> {
    let id = unless_damaged(claimed(sink))?.flatten();
    walks::list_again(sink, id.as_deref(), source, Some(recipe.layout))
}

/// The samples of a source by this recipe, listed once more.
pub(super) fn rescan(recipe: &Recipe, source: &dyn Source, memory: u64) -> Result<Scan> {
    let listed = list(source, Some(recipe.layout), || source.list())?;
    scan_again(listed, recipe, source, memory)
}

/// The samples of a source that a dataset was made from by this recipe: for comparing files.
pub(super) fn scan_again(
    listed: Listed,
    recipe: &Recipe,
    source: &dyn Source,
    memory: u64,
) -> Result<Scan> {
    let rules = rules_of(recipe, memory)?;
    let (layout, name) = (Some(recipe.layout), source.to_string());
    let (mut scan, _) = scan_as(listed, rules, layout, source, &name)?;
    let choice = Choice {
        selection: &recipe.select,
        keys: None,
        seed: recipe.seed,
        source,
        problems: &Problems::default(),
        stop: &Stop::default(),
    };
    choice.make(&mut scan)?;
    Ok(scan)
}

/// The error of a source that cannot be opened or listed.
pub(super) fn if_gone(error: Error, sink: &dyn Sink, location: &str) -> Error {
    match generations(sink) {
        Ok(planned) if !planned.is_empty() => error.known_to_have_been_there(location),
        // What is wrong with the source comes first.
        _ => error,
    }
}
