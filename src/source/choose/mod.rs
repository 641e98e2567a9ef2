//! Which samples of a scan are taken, and what becomes of their labels and splits.
//!
//! In come a scan of any source and a selection; the scan goes out with the samples that were chosen, and a line for people for each step. What is
//! left to chance is a hash of the seed and the key: the same for ever, on every machine, and what is chosen as a tenth is in what is chosen as a
//! fifth.

pub(crate) mod keys;
mod sides;
mod splits;

use std::collections::BTreeMap;

use globset::Glob;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::base::error::{Error, Result};
use crate::base::signal::Stop;
use crate::base::units::{classes as classes_text, count_text, counted};
use crate::model::offenders::{NAMED, and_more};
use crate::model::problems::Problems;
use crate::model::record::NO_LABEL;
use crate::model::selection::{Selection, Share};
use crate::source::choose::keys::Keys;
use crate::source::samples::{Entry, Scan};
use crate::store::Source;

/// What is chosen among, and by what.
pub(crate) struct Choice<'c> {
    pub(crate) selection: &'c Selection,
    /// The keys that the selection lists. Without them, more is taken: for callers who compare what was taken before.
    pub(crate) keys: Option<&'c Keys>,
    pub(crate) seed: u64,
    /// Where images are looked at whose size nobody knows.
    pub(crate) source: &'c dyn Source,
    pub(crate) problems: &'c Problems,
    pub(crate) stop: &'c Stop,
}

/// What a hash decides. Each is drawn on its own, so that one choice says nothing of the other.
#[derive(Clone, Copy)]
enum Draw {
    /// Who is taken.
    Take,
    /// Which split it is of.
    Split,
}

/// The place of a key among all: the first 8 bytes of SHA-256 over the seed as 8 little-endian bytes, the name of the draw, a zero byte and the key.
fn draw(seed: u64, what: Draw, key: &str) -> u64 {
    let name: &[u8] = match what {
        Draw::Take => b"take\0",
        Draw::Split => b"split\0",
    };
    let digest = Sha256::new()
        .chain_update(seed.to_le_bytes())
        .chain_update(name)
        .chain_update(key)
        .finalize();
    u64::from_be_bytes(std::array::from_fn(|i| digest[i]))
}

/// Whether a place among all lies in the first so many billionths.
fn is_within(place: u64, billionths: u32) -> bool {
    u128::from(place) * u128::from(Share::WHOLE) < u128::from(billionths) << 64
}

/// Leaves the samples whose image has at least and at most so many bytes.
fn by_bytes(scan: &mut Scan, least: Option<u64>, most: Option<u64>) {
    let is_in = |bytes: u64| {
        least.is_none_or(|least| bytes >= least) && most.is_none_or(|most| bytes <= most)
    };
    scan.retain(|scan, entry| scan.image_bytes(entry).is_none_or(is_in));
}

impl Choice<'_> {
    /// Leaves in the scan what is chosen; says what was.
    ///
    /// # Errors
    ///
    /// [`Kind::Source`](crate::base::error::Kind::Source) for classes, keys and splits that are not there, each of them named, and when nothing
    /// is left.
    pub(crate) fn make(&self, scan: &mut Scan) -> Result<Vec<String>> {
        let selection = self.selection;
        if *selection == Selection::default() {
            return Ok(Vec::new());
        }
        let mut said = Vec::new();
        let mut left = scan.entries.len();
        let mut step = |scan: &Scan, what: String| -> Result<()> {
            let before = std::mem::replace(&mut left, scan.entries.len());
            match left {
                0 => Err(Error::source_data(format!(
                    "{}: {what} leaves none of {}: say less, or something else",
                    self.source,
                    counted(before as u64, "sample")
                ))),
                left => {
                    let (left, before) = (count_text(left as u64), count_text(before as u64));
                    said.push(format!("{what}: {left} of {before} samples"));
                    Ok(())
                }
            }
        };
        let words = |flag: &str| {
            let flags = selection.flags().into_iter();
            let said = flags.filter(|(name, said)| *name == flag && !said.is_empty());
            said.map(|(name, said)| format!("{name} {said}"))
                .collect::<String>()
        };
        if !selection.classes.is_empty() {
            self.by_class(scan)?;
            step(scan, words("--class"))?;
        }
        if let (Some(_), Some(keys)) = (&selection.keys, self.keys) {
            keys.choose(scan, self.source, self.problems)?;
            step(scan, words("--keys"))?;
        }
        if !selection.splits.is_empty() {
            self.by_split(scan)?;
            step(scan, words("--split"))?;
        }
        for (flag, least, most) in [
            ("--min-bytes", selection.min_bytes, None),
            ("--max-bytes", None, selection.max_bytes),
        ] {
            if least.or(most).is_some() {
                by_bytes(scan, least, most);
                step(scan, words(flag))?;
            }
        }
        if selection.asks_sides() {
            let unknown = sides::choose(scan, self)?;
            let mut what = [words("--min-side"), words("--max-side")]
                .join(" ")
                .trim()
                .to_owned();
            if unknown > 0 {
                what = format!("{what} ({} of unknown size stay)", count_text(unknown));
            }
            step(scan, what)?;
        }
        if let Some(fraction) = selection.fraction {
            self.by_fraction(scan, fraction);
            step(scan, words("--fraction"))?;
        }
        // Without the keys it would be others.
        let is_known = selection.keys.is_none() || self.keys.is_some();
        if let (Some(most), true) = (selection.per_class, is_known) {
            let short = self.per_class(scan, most);
            step(scan, words("--per-class") + &short)?;
        }
        self.end(scan, &mut said);
        Ok(said)
    }

    /// What becomes of the labels and splits of what was chosen.
    fn end(&self, scan: &mut Scan, said: &mut Vec<String>) {
        scan.count_classes();
        let all = scan.classes.len();
        let classes = count_text(all as u64);
        let empty = scan.class_sizes.iter().filter(|size| **size == 0).count();
        match self.selection.relabel {
            true => {
                scan.relabel();
                let left = classes_text(scan.classes.len());
                said.push(format!("--relabel: {left} of {classes}, numbered from 0"));
            }
            false if empty > 0 => {
                let left = classes_text(all - empty);
                said.push(format!(
                    "{left} of {classes} have samples, and keep their numbers; `--relabel` numbers them from 0"
                ));
            }
            false => {}
        }
        match self.selection.resplit.is_empty() {
            false => said.push(splits::divide(scan, self)),
            true => scan.drop_splits(),
        }
        scan.count_sidecars();
    }

    /// The places of all samples in a draw, in their order.
    fn places(&self, scan: &Scan, what: Draw) -> Vec<u64> {
        let place = |entry: &Entry| draw(self.seed, what, &scan.key(entry));
        scan.entries.par_iter().map(place).collect()
    }

    fn by_class(&self, scan: &mut Scan) -> Result<()> {
        let mut is_chosen = vec![false; scan.classes.len()];
        let mut unknown: Vec<&str> = Vec::new();
        for wanted in &self.selection.classes {
            let named = scan.classes.iter().position(|class| class == wanted);
            let mut found = named.into_iter().collect::<Vec<_>>();
            // What is the name of a class is no glob.
            if let (None, Ok(glob)) = (named, Glob::new(wanted)) {
                let glob = glob.compile_matcher();
                let classes = scan.classes.iter().enumerate();
                found.extend(classes.filter_map(|(at, c)| glob.is_match(c).then_some(at)));
            }
            found.iter().for_each(|&label| is_chosen[label] = true);
            if found.is_empty() {
                unknown.push(wanted);
            }
        }
        self.refuse_unknown("--class", "class", &unknown, &scan.classes)?;
        let is_in = |entry: &Entry| is_chosen.get(entry.label as usize) == Some(&true);
        scan.entries.retain(is_in);
        Ok(())
    }

    fn by_split(&self, scan: &mut Scan) -> Result<()> {
        let wanted = &self.selection.splits;
        let unknown: Vec<&str> = wanted
            .iter()
            .filter(|wanted| !scan.splits.contains(wanted))
            .map(String::as_str)
            .collect();
        self.refuse_unknown("--split", "split", &unknown, &scan.splits)?;
        let splits = &scan.splits;
        let is_in = |entry: &Entry| wanted.contains(&splits[usize::from(entry.split)]);
        scan.entries.retain(is_in);
        Ok(())
    }

    /// Refuses what was named and is not there.
    fn refuse_unknown(
        &self,
        flag: &str,
        what: &str,
        unknown: &[&str],
        known: &[String],
    ) -> Result<()> {
        if unknown.is_empty() {
            return Ok(());
        }
        let list = |names: &mut dyn Iterator<Item = &str>| -> String {
            names.map(|name| format!("\n    {name}")).collect()
        };
        let there = known.iter().map(String::as_str);
        Err(Error::source_data(format!(
            "{}: {flag}: {}, nothing was written{}\n  there {}:{}{}",
            self.source,
            match unknown.len() {
                1 => format!("no {what} is called so"),
                count => format!("nothing is called as {count} of them say"),
            },
            list(&mut unknown.iter().copied()),
            match known.len() {
                1 => "is".to_owned(),
                count => format!("are {}", count_text(count as u64)),
            },
            list(&mut there.take(NAMED)),
            and_more("    ", known.len() as u64, NAMED),
        )))
    }

    fn by_fraction(&self, scan: &mut Scan, fraction: Share) {
        let places = self.places(scan, Draw::Take);
        let mut places = places.into_iter();
        let is_in = |place| is_within(place, fraction.billionths());
        scan.entries.retain(|_| places.next().is_some_and(is_in));
    }

    /// Leaves so many samples of each class; says which classes have fewer.
    fn per_class(&self, scan: &mut Scan, most: u64) -> String {
        let places = self.places(scan, Draw::Take);
        let mut of_class: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
        for (at, (entry, place)) in scan.entries.iter().zip(places).enumerate() {
            of_class.entry(entry.label).or_default().push((place, at));
        }
        let mut is_chosen = vec![false; scan.entries.len()];
        let mut short = Vec::new();
        for (label, mut places) in of_class {
            if (places.len() as u64) < most {
                short.push((label, places.len()));
            }
            places.sort_unstable();
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            for (_, at) in places.into_iter().take(most) {
                is_chosen[at] = true;
            }
        }
        let mut chosen = is_chosen.into_iter();
        scan.entries.retain(|_| chosen.next() == Some(true));
        let Some((label, count)) = short.first() else {
            return String::new();
        };
        let name = match *label {
            NO_LABEL => "none",
            label => scan.classes.get(label as usize).map_or("", String::as_str),
        };
        let classes = classes_text(short.len());
        format!(" ({classes} with fewer, `{name}` has {count})")
    }
}
