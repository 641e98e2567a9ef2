//! Reader indexes: finished shards described to one reader each, from their records alone.
//!
//! A new index is one new file and one line in `EXPORTERS`. Records and a manifest come in, files with names and contents go out;
//! nothing here reads a shard.

mod export;
mod exporter;
mod facts;
mod free;
mod paths;

mod dali;
mod energon;
mod openclip;
#[cfg(feature = "energon-sqlite")]
mod sqlite;
mod tfds;
mod tfrecord;
mod timm;
mod wids;

use std::collections::{BTreeSet, HashSet};

use crate::base::error::{Error, Result};
use crate::model::manifest::{IndexFile, Manifest};
use crate::model::recipe::Recipe;
use crate::plan::value::Plan;

pub(crate) use crate::publish::readers::export::{
    ExportedFiles, export_files_again, export_readers,
};
pub(crate) use crate::publish::readers::exporter::{Exporter, NamedFile, Splits, splits_of};
pub(crate) use crate::publish::readers::free::{Described, files_in_the_way, refuse_to_replace};

/// The indexes there are, under the names of `--index`.
const EXPORTERS: [(&str, &dyn Exporter); 8] = [
    ("dali", &dali::Dali),
    ("energon", &energon::Energon),
    ("energon-sqlite", &energon::Sqlite),
    ("openclip", &openclip::OpenClip),
    ("tfds", &tfds::Tfds),
    ("tfrecord", &tfrecord::TfIndex),
    ("timm", &timm::Timm),
    ("wids", &wids::Wids),
];

/// The names of `--index`.
pub(crate) fn reader_names() -> impl Iterator<Item = &'static str> {
    EXPORTERS.iter().map(|(name, _)| *name)
}

/// Names of all files that can describe the shard of this name alone.
pub(crate) fn reader_files_of_shard(shard: &str) -> impl Iterator<Item = String> {
    EXPORTERS
        .iter()
        .filter_map(move |(_, exporter)| exporter.shard_file(shard))
}

/// The index of this name; an error that names all others where there is none.
fn exporter_of(name: &str) -> Result<&'static dyn Exporter> {
    let known = EXPORTERS.iter().find(|(known, _)| *known == name);
    known.map(|(_, exporter)| *exporter).ok_or_else(|| {
        let names: Vec<_> = reader_names().collect();
        Error::usage(format!(
            "--index `{name}`: unknown: choose from {}",
            names.join(", ")
        ))
    })
}

/// Refuses, before any work, an index that cannot describe shards of this recipe.
pub(crate) fn check_reader(name: &str, recipe: &Recipe) -> Result<()> {
    exporter_of(name)?
        .check(recipe)
        .map_err(|why| Error::usage(format!("--index {name}: {why}")))
}

/// Refuses, before any work, an index that cannot describe shards of these names, all of a split in order.
pub(crate) fn check_shard_names(name: &str, split: &str, shards: &[&str]) -> Result<()> {
    exporter_of(name)?
        .check_names(split, shards)
        .map_err(|why| Error::usage(format!("--index {name}: {why}")))
}

/// Refuses, before any work, names that a reader index which the dataset has cannot describe.
pub(crate) fn check_planned_names(manifest: &Manifest, plan: &Plan) -> Result<()> {
    let names = plan.dataset();
    for reader in manifest.readers() {
        for (split, names) in &names {
            check_shard_names(&reader, split, names)?;
        }
    }
    Ok(())
}

/// Reader indexes of a manifest that describe one shard each, and have names that nothing else ever has.
pub(crate) fn files_of_shards(manifest: &Manifest) -> Vec<&IndexFile> {
    let names = names_of_shards(manifest);
    let files = manifest.indexes.iter();
    files.filter(|file| names.contains(&file.name)).collect()
}

/// Reader indexes of a manifest that describe the whole dataset, of kinds that this version knows.
pub(crate) fn files_of_dataset(manifest: &Manifest) -> Vec<&IndexFile> {
    let names = names_of_shards(manifest);
    let known =
        |file: &&IndexFile| exporter_of(&file.reader).is_ok() && !names.contains(&file.name);
    manifest.indexes.iter().filter(known).collect()
}

fn names_of_shards(manifest: &Manifest) -> HashSet<String> {
    let readers: BTreeSet<&str> = manifest
        .indexes
        .iter()
        .map(|file| file.reader.as_str())
        .collect();
    let exporters: Vec<_> = readers.into_iter().flat_map(exporter_of).collect();
    let shards = manifest.shards();
    shards
        .flat_map(|(_, shard)| exporters.iter().filter_map(|e| e.shard_file(&shard.name)))
        .collect()
}

/// Directories that indexes have for themselves, each once.
pub(crate) fn directories() -> Vec<&'static str> {
    let mut found = Vec::new();
    for (_, exporter) in EXPORTERS {
        for directory in exporter.directories() {
            if !found.contains(directory) {
                found.push(*directory);
            }
        }
    }
    found
}

/// Whether people complete this file, so that what they wrote stays.
pub(crate) fn is_for_people(file: &IndexFile) -> bool {
    exporter_of(&file.reader).is_ok_and(|exporter| exporter.is_for_people(&file.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        for name in reader_names() {
            exporter_of(name).unwrap();
        }
        let Err(error) = exporter_of("litdata") else {
            panic!("found")
        };
        assert!(
            error.to_string().contains("choose from dali, energon"),
            "{error}"
        );
    }
}
