//! What runs that were killed left half written: files with temporary names that no living writer holds.

use std::fs;
use std::io;
use std::path::Path;

use crate::base::error::{Error, Result};
use crate::store::Leftover;
use crate::store::local::destination::{Destination, age};
use crate::store::local::paths::{each_file, is_of_the_data};
use crate::store::local::temporary::{
    is_temporary, lock_of_the_dead, machine, made_on, name_to_get,
};

/// Removes those that runs of this machine left in the root and in `directories`; gives their number.
pub(super) fn sweep(destination: &Destination, directories: &[&str]) -> Result<u64> {
    let this_machine = Some(machine()).filter(|machine| !machine.is_empty());
    let mut removed = 0;
    let mut visit = |entry: &fs::DirEntry, path: &Path| {
        let name = entry.file_name().to_string_lossy().into_owned();
        if this_machine.is_none() || made_on(&name) != this_machine {
            return Ok(());
        }
        if let Some(_locked) = lock_of_the_dead(path) {
            let remove = || fs::remove_file(path);
            let swept = destination.steps.take("sweep", path, remove);
            removed += u64::from(swept.is_ok());
        }
        Ok(())
    };
    each_own_file(destination, directories, &mut visit)?;
    destination
        .settle(directories)
        .map_err(|error| Error::io(destination.to_string(), error))?;
    Ok(removed)
}

/// Those of any machine in the root and in `directories`, sorted by the name that they were to get.
pub(super) fn leftovers(destination: &Destination, directories: &[&str]) -> Result<Vec<Leftover>> {
    let now = destination.now();
    let mut found = Vec::new();
    each_own_file(destination, directories, &mut |entry, path| {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_temporary(&name) || lock_of_the_dead(path).is_none() {
            return Ok(());
        }
        let below = path.strip_prefix(&destination.root).unwrap_or(path);
        let below = below.to_string_lossy().into_owned();
        let meta = entry.metadata()?;
        found.push(Leftover {
            name: name_to_get(&below),
            what: "partial file",
            bytes: Some(meta.len()),
            age: age(&meta, now)?,
            id: below,
            ours: made_on(&name).is_some(),
        });
        Ok(())
    })?;
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Removes one of them, unless somebody writes to it after all; no error if it is gone already.
pub(super) fn discard(destination: &Destination, leftover: &Leftover) -> Result<()> {
    let path = destination.path(&leftover.id)?;
    let Some(_locked) = lock_of_the_dead(&path) else {
        return Ok(());
    };
    let remove = || fs::remove_file(&path);
    match destination.steps.take("discard", &path, remove) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(destination.label(&leftover.id), error))
        }
        _ => Ok(()),
    }
}

/// Visits the files in the root itself, and all below `directories`.
fn each_own_file(
    destination: &Destination,
    directories: &[&str],
    visit: &mut dyn FnMut(&fs::DirEntry, &Path) -> io::Result<()>,
) -> Result<()> {
    // The manifest and the card lie in the root itself; its other directories may be somebody else's.
    let mut in_root = || -> io::Result<()> {
        let entries = match fs::read_dir(&destination.root) {
            Err(error) if is_of_the_data(&error) => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                visit(&entry, &entry.path())?;
            }
        }
        Ok(())
    };
    in_root().map_err(|error| Error::io(destination.to_string(), error))?;
    for directory in directories {
        each_file(&destination.root.join(directory), visit)
            .map_err(|error| Error::io(destination.label(directory), error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Access;

    #[test]
    fn only_the_root_and_the_directories_that_were_named_are_looked_at() {
        let root = tempfile::tempdir().unwrap();
        let temporary = ".x.tar.0123456789ab-00112233445566778899aabbccddeeff.tmp";
        for directory in ["", "own", "own/deep", "other"] {
            let directory = root.path().join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(temporary), "").unwrap();
        }
        let location = root.path().to_str().unwrap();
        let destination = Destination::open(location, &Access::default()).unwrap();
        let found = leftovers(&destination, &["own", "absent"]).unwrap();
        let names: Vec<_> = found.iter().map(|left| left.name.as_str()).collect();
        assert_eq!(names, ["own/deep/x.tar", "own/x.tar", "x.tar"]);
    }
}
