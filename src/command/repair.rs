//! `repair`: make again what is damaged or missing, byte for byte as it was published.

use super::plan::planned_source;
use super::summary::Summary;
use crate::error::{Error, Kind, Result};
use crate::manifest::Manifest;
use crate::plan::Draft;
use crate::repair::{Mended, Origin, Repair};
use crate::resume::{self, Stored};
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
        None => match resume::claimed(sink) {
            Ok(Some(id)) => planned_source(sink, &id)?,
            _ => None,
        },
    };
    let opened = location.map(|location| store::source(&location, &running.access));
    let opened = opened.transpose()?;
    let mut origin = || match &opened {
        Some(source) => origin(sink, source.as_ref(), &manifest, running),
        None => Err(Error::usage(
            "only the source has what is lost: add `--source SRC`",
        )),
    };
    repair.mend(&manifest, &report, &mut origin, &mut mended)?;
    if !dry_run && !mended.repaired.is_empty() {
        for finding in repair.look(&manifest)?.findings {
            let what = finding.to_string();
            mended.lost.entry(finding.object).or_insert(what);
        }
    }
    Ok(summary(&mended, &manifest, sink, dry_run))
}

/// The source and the plan that made the dataset, with the versions that the files have now.
fn origin<'a>(
    sink: &dyn Sink,
    source: &'a dyn Source,
    manifest: &Manifest,
    running: &Running,
) -> Result<Origin<'a>> {
    let stored = match manifest.recipe.labels {
        // Labels came from a file that is in the stored plan only.
        true => resume::load(sink)?,
        false => replanned(sink, source, manifest)?,
    };
    let budget = running.budget(&stored.plan, source, sink)?;
    Ok(Origin {
        source,
        stored,
        budget,
    })
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
