//! `repair`: make again what is damaged or missing, byte for byte as it was published.

use std::collections::{HashMap, HashSet};

use super::plan::planned_source;
use super::summary::Summary;
use crate::error::{Error, Kind, Result, unless_damaged};
use crate::listing::Listing;
use crate::manifest::{Manifest, ShardEntry};
use crate::plan::Draft;
use crate::relist;
use crate::repair::{Mended, Origin, Repair};
use crate::resume::{self, Stored};
use crate::sample::{Field, FilePath};
use crate::scan::scan;
use crate::settings::{Running, rules_of};
use crate::store::{self, Sink, Source};
use crate::units::counted;

/// Repairs `destination`, with shards made again from `source`.
pub fn run(
    destination: &str,
    source: Option<&str>,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    on(sink.as_ref(), source, dry_run, running)
}

/// The same on an opened destination.
pub fn on(
    sink: &dyn Sink,
    source: Option<&str>,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    resume::refuse_later(sink)?;
    if !dry_run {
        sink.sweep()?;
    }
    let repair = Repair {
        sink,
        jobs: running.cores,
        cores: running.cores,
        memory: running.memory,
        dry_run,
        counters: &running.counters,
        stop: &running.stop,
    };
    let mut mended = Mended::default();
    let manifest = repair.manifest(&mut mended)?;
    let report = repair.look(&manifest)?;
    let location = match source {
        Some(location) => Some(location.to_owned()),
        None => match unless_damaged(resume::claimed(sink))?.flatten() {
            Some(id) => planned_source(sink, &id)?,
            None => None,
        },
    };
    let opened = location.map(|location| store::source(&location, &running.access));
    let opened = opened.transpose()?;
    let mut listing = None;
    let mut origin = |plan: &str, shards: &[&ShardEntry]| match &opened {
        Some(source) => {
            let source = source.as_ref();
            let stored = match resume::plans(sink, &HashSet::from([plan]))?.remove(plan) {
                Some(stored) => {
                    let listing = match &mut listing {
                        Some(listing) => listing,
                        listing => listing.insert(source.list()?),
                    };
                    revised(sink, stored, source, listing, shards)?
                }
                // Where nothing was added later, the images say what the plan was.
                None if plan == manifest.plan && !manifest.recipe.labels => {
                    replanned(sink, source, &manifest)?
                }
                None => {
                    let what = format!("{sink}: its plan {plan} is lost");
                    return Err(Error::new(Kind::Damage, what));
                }
            };
            let budget = running.budget(&stored.plan, source, sink)?;
            Ok(Origin {
                source,
                stored,
                budget,
            })
        }
        None => Err(Error::usage(
            "only the source has what is lost: add `--source SRC`",
        )),
    };
    let lists = relist::damaged(&report);
    if dry_run {
        mended
            .repaired
            .extend(lists.iter().map(|name| (*name).to_owned()));
    } else if !lists.is_empty() {
        let mut samples = || match &opened {
            Some(source) if !manifest.recipe.labels => {
                let rules = rules_of(&manifest.recipe)?;
                let mut scan = scan(source.list()?, &rules, &source.to_string())?;
                scan.number_like(&manifest.names.classes);
                Ok(scan)
            }
            Some(_) => Err(Error::usage(
                "labels came from a file, which nothing tells any more",
            )),
            None => Err(Error::usage(
                "only the source has what is lost: add `--source SRC`",
            )),
        };
        for (name, lost) in relist::relist(sink, &manifest, &lists, &mut samples)? {
            match lost {
                None => _ = mended.repaired.insert(name),
                Some(why) => _ = mended.lost.insert(name, why),
            }
        }
    }
    repair.mend(&manifest, &report, &mut origin, &mut mended)?;
    if !dry_run && !mended.repaired.is_empty() {
        for finding in repair.look(&manifest)?.findings {
            let what = finding.to_string();
            mended.lost.entry(finding.object).or_insert(what);
        }
    }
    Ok(summary(&mended, &manifest, sink, dry_run))
}

/// A stored plan, with the versions that the files of these shards have now: those of a copy are others.
fn revised(
    sink: &dyn Sink,
    mut stored: Stored,
    source: &dyn Source,
    listing: &Listing,
    shards: &[&ShardEntry],
) -> Result<Stored> {
    let names: HashSet<&str> = shards.iter().map(|shard| shard.name.as_str()).collect();
    let mut planned = Vec::new();
    for (number, shard) in stored.plan.shards.iter().enumerate() {
        if names.contains(shard.name.as_str()) {
            planned.push((number, resume::samples(sink, &stored, number)?));
        }
    }
    let mut fields: HashMap<FilePath, &mut Field> = planned
        .iter_mut()
        .flat_map(|(_, samples)| samples)
        .flat_map(|sample| &mut sample.fields)
        .map(|field| (field.path.clone(), field))
        .collect();
    for dir in &listing.dirs {
        for i in 0..dir.len() {
            if let Some(field) = fields.remove(&dir.path_of(i)) {
                let file = dir.file(i);
                if file.size != field.size {
                    let what = format!("{} bytes, not {}", file.size, field.size);
                    return Err(another(source, field, &what));
                }
                field.version = file.version();
            }
        }
    }
    if let Some(field) = fields.into_values().min_by(|a, b| a.path.cmp(&b.path)) {
        return Err(another(source, field, "it is gone"));
    }
    stored.revised = planned.into_iter().collect();
    Ok(stored)
}

fn another(source: &dyn Source, field: &Field, what: &str) -> Error {
    Error::new(
        Kind::Source,
        format!(
            "{source}/{}: {what}: it is not what the dataset was made from; \
             `shardpack verify --level source` names all files that changed",
            field.path
        ),
    )
}

/// The plan that the source's files make now, if it is that of the dataset.
fn replanned(sink: &dyn Sink, source: &dyn Source, manifest: &Manifest) -> Result<Stored> {
    let rules = rules_of(&manifest.recipe)?;
    let scan = scan(source.list()?, &rules, &source.to_string())?;
    let texts = manifest.names.texts.clone();
    let draft = Draft::new(scan, manifest.recipe.clone(), texts)?;
    if draft.digest != manifest.plan {
        return Err(Error::new(
            Kind::Source,
            format!(
                "{source} is not what the dataset was made from: files were added, removed, renamed or have other sizes; \
                 `shardpack verify {sink} --level source --source {source}` names them"
            ),
        ));
    }
    resume::store_beside(sink, &draft)
}

fn summary(mended: &Mended, manifest: &Manifest, sink: &dyn Sink, dry_run: bool) -> Summary {
    let mut text = String::new();
    let (did, done) = match dry_run {
        true => ("would repair", "nothing to repair"),
        false => ("repaired", "nothing to repair"),
    };
    for object in &mended.repaired {
        text.push_str(&format!("{did:13} {object}\n"));
    }
    for (object, why) in &mended.lost {
        text.push_str(&format!("{:13} {object}: {why}\n", "LOST"));
    }
    match (mended.repaired.len(), mended.lost.len()) {
        (0, 0) => text.push_str(&format!("{done}: {sink}\n")),
        (n, _) => text.push_str(&format!("{did} {}\n", counted(n as u64, "object"))),
    }
    let lost = mended.lost.len();
    let error =
        (lost > 0).then(|| format!("{} cannot be repaired", counted(lost as u64, "object")));
    Summary {
        exit_code: match lost {
            0 => 0,
            _ => Kind::Damage.exit_code(),
        },
        destination: Some(sink.to_string()),
        plan: Some(manifest.plan.clone()),
        samples: manifest.samples,
        shards: manifest.shards().count() as u64,
        bytes: manifest.bytes,
        repaired: mended.repaired.iter().cloned().collect(),
        error,
        ..Summary::text(text)
    }
}
