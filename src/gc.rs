//! What killed runs left half written is found and removed: partial files, unfinished multipart uploads.
//!
//! Only what was to become an object of this dataset is touched, and only when it is old enough that no run can still be at it.
//! A finished object is never removed here.

use std::collections::HashSet;
use std::time::Duration;

use crate::error::Result;
use crate::manifest::{MANIFEST, STATE};
use crate::resume::stored_names;
use crate::store::{Leftover, Sink};

/// What to remove.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Younger ones are left alone.
    pub older_than: Duration,
    /// Nothing is removed.
    pub dry_run: bool,
}

/// What was found, each list sorted by name.
#[derive(Debug, Default)]
pub struct Found {
    /// Removed, or to be removed.
    pub removed: Vec<Leftover>,
    /// Too young.
    pub young: Vec<Leftover>,
    /// Not of this dataset.
    pub foreign: Vec<Leftover>,
}

/// Finds leftovers and removes those that the rules allow.
pub fn collect(sink: &dyn Sink, rules: &Rules) -> Result<Found> {
    let mut leftovers = sink.leftovers()?;
    leftovers.sort_by(|a, b| a.name.cmp(&b.name));
    let mut found = Found::default();
    if leftovers.is_empty() {
        return Ok(found);
    }
    let mut ours: HashSet<String> = [MANIFEST, "README.md", "SHA256SUMS"]
        .map(str::to_owned)
        .into();
    ours.extend(stored_names(sink)?);
    for leftover in leftovers {
        let name = &leftover.name;
        let named = ours.contains(name) || name.starts_with(&format!("{STATE}/"));
        if !leftover.ours && !named {
            found.foreign.push(leftover);
        } else if leftover.age < rules.older_than {
            found.young.push(leftover);
        } else {
            if !rules.dry_run {
                sink.discard(&leftover)?;
            }
            found.removed.push(leftover);
        }
    }
    Ok(found)
}
