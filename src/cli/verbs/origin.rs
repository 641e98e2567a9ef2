//! The source that a destination was or is to be made from.

use crate::base::error::{Error, Result};
use crate::cli::settings::{Planning, Running};
use crate::state::claims::generations;
use crate::state::names::source_name;
use crate::store::{self, Sink, Source};

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
    store::source(location, &running.access).map_err(|error| if_gone(error, sink, location))
}

/// The error of a source that cannot be opened or listed.
pub(super) fn if_gone(error: Error, sink: &dyn Sink, location: &str) -> Error {
    match generations(sink) {
        Ok(planned) if !planned.is_empty() => error.known_to_have_been_there(location),
        // What is wrong with the source comes first.
        _ => error,
    }
}
