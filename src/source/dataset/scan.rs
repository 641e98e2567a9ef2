//! The samples of a published dataset, with the splits and classes that it has.

use std::collections::BTreeMap;

use crate::base::error::{Error, Result};
use crate::model::recipe::Arrangement;
use crate::model::record::NO_LABEL;
use crate::source::dataset::{Belongs, Catalogue};
use crate::source::dirs::{Classes, Place, Split};
use crate::source::layouts::Recognised;
use crate::source::rules::Rules;
use crate::source::samples::Scan;
use crate::source::scan::finish;
use crate::source::scanner::Scanner;

/// What a class directory is called while samples are grouped: no path is that of a class here.
fn class_name(label: u32) -> Vec<u8> {
    label.to_le_bytes().to_vec()
}

/// The labels of a catalogue as those of class directories.
fn classes(names: &[String], belongs: &[Belongs]) -> Classes {
    let labels = belongs.iter().map(|belongs| belongs.label);
    Classes {
        names: names.to_vec(),
        by_dir: labels.map(|label| (class_name(label), label)).collect(),
        by_label: Vec::new(),
    }
}

/// Reads a catalogue by the rules, or refuses it with every offender named. Labels are the dataset's own.
pub(in crate::source) fn scan_dataset(
    catalogue: Catalogue,
    rules: &Rules,
    name: &str,
) -> Result<(Scan, Recognised)> {
    if rules.labels.is_some() || !rules.splits.is_empty() {
        return Err(Error::usage(format!(
            "{name} is a published dataset, which has its splits and labels: drop `--labels` and `--split NAME=SUBPATH`"
        )));
    }
    let Catalogue {
        listing,
        mut belongs,
        nameless,
        of,
    } = catalogue;
    let said = match nameless {
        0 => of.said(),
        count => format!(
            "{}; {count} fields left out whose names no file can have",
            of.said()
        ),
    };
    let derived_from = of.derivation();
    let manifest = of.manifest;
    let mut scanner = Scanner::new(rules, name, listing.problems, listing.hidden);
    let mut dirs = listing.dirs;
    // What is filtered is numbered by directory.
    let mut kept = Vec::with_capacity(dirs.len());
    let mut kept_belongs = Vec::with_capacity(belongs.len());
    for (dir, belongs) in dirs.drain(..).zip(belongs.drain(..)) {
        let mut one = vec![dir];
        scanner.filter(&mut one);
        kept_belongs.extend(one.iter().map(|_| belongs));
        kept.append(&mut one);
    }
    let labels_in_range = |belongs: &Belongs| {
        belongs.label == NO_LABEL || (belongs.label as usize) < manifest.names.classes.len()
    };
    if !kept_belongs.iter().all(labels_in_range) {
        return Err(Error::source_data(format!(
            "{name}: its indexes have labels that its manifest does not name: run `shardpack verify` there"
        )));
    }
    let classes = classes(&manifest.names.classes, &kept_belongs);
    let mut splits: Vec<Split> = Vec::new();
    for split in &manifest.splits {
        splits.push(Split {
            name: split.name.clone(),
            path: Vec::new(),
            flat: false,
        });
    }
    let texts = manifest.names.classes.iter().cloned();
    let texts: BTreeMap<String, String> = texts.zip(manifest.names.texts).collect();
    let mut scan = Scan {
        derived_from: Some(derived_from),
        texts,
        columns: manifest.names.columns,
        ..Scan::empty(
            kept,
            splits.iter().map(|split| split.name.clone()).collect(),
            manifest.names.classes,
        )
    };
    for (index, belongs) in kept_belongs.iter().enumerate() {
        let place = Place {
            split: belongs.split,
            class: Some(class_name(belongs.label)),
        };
        scanner.group(&mut scan, index, &place, &splits, &classes);
    }
    let recognised = Recognised {
        layout: Arrangement::Dataset,
        said,
    };
    Ok((finish(scanner, scan)?, recognised))
}
