//! What flags give: texts that are repeated, and files that they name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::base::error::{Error, Kind, Result};
use crate::base::text::show;

/// What was said several times or with commas; an empty environment twin says nothing.
pub(super) fn given(texts: &[String]) -> Vec<String> {
    let texts = texts.iter().filter(|text| !text.is_empty());
    texts.cloned().collect()
}

/// The content of a file that a flag names, and its name for messages.
pub(super) fn read(path: &OsString) -> Result<(String, Vec<u8>)> {
    let name = show(path.as_bytes());
    let text = std::fs::read(path)
        .map_err(|error| Error::named(Kind::Source, &name, error, "give a readable file"))?;
    Ok((name, text))
}
