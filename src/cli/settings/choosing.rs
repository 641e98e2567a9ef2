//! Which part of a source is taken, checked.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use globset::Glob;

use super::given::{given, read};
use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::cli::flags as cli;
use crate::model::selection::{Selection, Share, SplitShare};
use crate::plan::budget::table_bytes;
use crate::source::choose::keys::Keys;

/// Which part is taken, as far as flags alone say it; files that they name are read later. `splits` are those of which parts are named.
pub(super) fn selection(args: &cli::SelectArgs, splits: Vec<String>) -> Result<Selection> {
    let classes = given(&args.class);
    check_globs("--class", &classes)?;
    if args.per_class == Some(0) {
        return Err(Error::usage("--per-class 0: give at least 1"));
    }
    for (least, most, what) in [
        (args.min_bytes, args.max_bytes, "bytes"),
        (
            args.min_side.map(u64::from),
            args.max_side.map(u64::from),
            "side",
        ),
    ] {
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            return Err(Error::usage(format!(
                "--min-{what} {least} and --max-{what} {most}: no image is both: exchange them"
            )));
        }
    }
    let resplit = resplit(&given(&args.resplit))?;
    if args.stratify && resplit.is_empty() {
        return Err(Error::usage(
            "--stratify is about --resplit: add `--resplit train=0.9,val=0.1`, or drop it",
        ));
    }
    Ok(Selection {
        classes,
        keys: None,
        splits,
        min_bytes: args.min_bytes,
        max_bytes: args.max_bytes,
        min_side: args.min_side,
        max_side: args.max_side,
        fraction: args
            .fraction
            .as_deref()
            .filter(|text| !text.is_empty())
            .map(fraction)
            .transpose()?,
        per_class: args.per_class,
        relabel: args.relabel,
        resplit,
        stratify: args.stratify,
    })
}

/// What the files that flags name add to a selection: classes, and keys.
pub(super) fn read_files(
    args: &cli::SelectArgs,
    selection: &mut Selection,
    memory: u64,
) -> Result<Option<Keys>> {
    let named = |file: &Option<OsString>| file.clone().filter(|file| !file.is_empty());
    if let Some(file) = named(&args.classes_file) {
        let (name, text) = read(&file)?;
        let text = String::from_utf8(text)
            .map_err(|_| Error::usage(format!("{name}: not UTF-8: write one class a line")))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let classes: Vec<String> = lines.map(str::to_owned).collect();
        if classes.is_empty() {
            return Err(Error::usage(format!(
                "{name}: no class in it: write one a line"
            )));
        }
        check_globs(&name, &classes)?;
        selection.classes.extend(classes);
    }
    let keys = named(&args.keys).map(|file| {
        let (name, text) = read(&file)?;
        Keys::parse(&name, text.into(), table_bytes(memory))
    });
    let keys = keys.transpose()?;
    selection.keys = keys.as_ref().map(Keys::listed);
    Ok(keys)
}

fn check_globs(flag: &str, globs: &[String]) -> Result<()> {
    // One that is no glob may be the name of a class all the same.
    let bad = globs
        .iter()
        .find(|glob| glob.contains('*') && Glob::new(glob).is_err());
    match bad {
        Some(glob) => Err(Error::usage(format!(
            "{flag} `{}`: no glob: correct it",
            show(glob.as_bytes())
        ))),
        None => Ok(()),
    }
}

fn fraction(text: &str) -> Result<Share> {
    Share::parse(text).ok_or_else(|| {
        Error::usage(format!(
            "--fraction `{}`: write a part over 0 and up to 1, for example 0.1 or 10%",
            show(text.as_bytes())
        ))
    })
}

/// The parts of `NAME=PART`, which come to all.
fn resplit(given: &[String]) -> Result<Vec<SplitShare>> {
    let mut parts: Vec<SplitShare> = Vec::new();
    for text in given {
        let bad = |what: &str| {
            Error::usage(format!(
                "--resplit `{}`: {what}: write NAME=PART, for example train=0.9,val=0.1",
                show(text.as_bytes())
            ))
        };
        let (name, share) = text.split_once('=').ok_or_else(|| bad("no `=`"))?;
        if !is_split_name(name.as_bytes()) {
            return Err(bad("the name must be letters, digits and `_`"));
        }
        if parts.iter().any(|part| part.name == name) {
            return Err(bad("the split is given twice"));
        }
        parts.push(SplitShare {
            name: name.to_owned(),
            share: Share::parse(share).ok_or_else(|| bad("no part over 0 and up to 1"))?,
        });
    }
    let sum: u64 = parts
        .iter()
        .map(|part| u64::from(part.share.billionths()))
        .sum();
    match parts.is_empty() || sum == u64::from(Share::WHOLE) {
        true => Ok(parts),
        false => Err(Error::usage(format!(
            "--resplit {}: the parts come to {}, expected 1: correct them, or take less with `--fraction`",
            given.join(","),
            sum as f64 / f64::from(Share::WHOLE)
        ))),
    }
}

/// Whether a split may be called so.
pub(super) fn is_split_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// The names among what `--split` says, and what it says of places.
pub(super) fn named_and_placed(given: &[OsString]) -> Result<(Vec<String>, Vec<OsString>)> {
    let (placed, named): (Vec<&OsString>, Vec<&OsString>) = given
        .iter()
        .filter(|text| !text.is_empty())
        .partition(|text| text.as_bytes().contains(&b'='));
    let name = |text: &OsString| match is_split_name(text.as_bytes()) {
        true => Ok(text.to_string_lossy().into_owned()),
        false => Err(Error::usage(format!(
            "--split `{}`: neither NAME of a split that is there, of letters, digits and `_`, nor NAME=SUBPATH, for example val=images/val",
            show(text.as_bytes())
        ))),
    };
    let mut names = named.into_iter().map(name).collect::<Result<Vec<_>>>()?;
    names.sort();
    names.dedup();
    Ok((names, placed.into_iter().cloned().collect()))
}
