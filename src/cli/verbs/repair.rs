//! `repair`: make again what is damaged or missing, byte for byte as it was published.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::next;
use super::origin::{list_again, open_for, planned_source, rescan};
use super::summary::Summary;
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::text::quoted;
use crate::base::units::counted;
use crate::cli::settings::Running;
use crate::model::listing::Listing;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::recipe::{Arrangement, Recipe};
use crate::model::sample::{Field, FilePath};
use crate::plan::draft::Draft;
use crate::state::claims::claimed;
use crate::state::claims::plans;
use crate::state::plans::Stored;
use crate::state::refusals::refuse_later;
use crate::state::samples::samples;
use crate::state::storing::store_beside;
use crate::store::{self, Sink, Source};
use crate::upkeep::relist::{damaged_lists, relist};
use crate::upkeep::repair::{Origin, RepairOutcome, Repairer, SourceFiles};
use crate::upkeep::verify::Report;

/// Repairs `destination`, with shards made again from `source`.
pub(crate) fn run(
    destination: &str,
    source: Option<&str>,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    on(sink.as_ref(), source, dry_run, running)
}

/// The same on an opened destination.
pub(crate) fn on(
    sink: &dyn Sink,
    source: Option<&str>,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let (manifest, outcome) = repair(sink, source, dry_run, running)?;
    let place = sink.to_string();
    let next = match (
        outcome.lost.is_empty(),
        dry_run,
        outcome.repaired.is_empty(),
    ) {
        // Only the source has it.
        (false, _, _) if source.is_none() => {
            let words = ["--source", next::SOURCE];
            vec![next::command("repair", &place, &words, running)]
        }
        (_, true, false) => running.for_real.iter().cloned().collect(),
        (_, false, _) => vec![next::command("verify", &place, &[], running)],
        (_, true, true) => Vec::new(),
    };
    Ok(Summary {
        next,
        ..summary(&outcome, &manifest, sink, dry_run)
    })
}

/// The same without a word: what is published now, and what was done for it.
pub(crate) fn repair(
    sink: &dyn Sink,
    source: Option<&str>,
    dry_run: bool,
    running: &Running,
) -> Result<(Manifest, RepairOutcome)> {
    refuse_later(sink)?;
    if !dry_run {
        sink.sweep()?;
    }
    let repair = Repairer {
        sink,
        jobs: running.cores,
        cores: running.cores,
        memory: running.memory,
        dry_run,
        counters: &running.counters,
        stop: &running.stop,
    };
    let mut outcome = RepairOutcome::default();
    let manifest = repair.manifest(&mut outcome)?;
    let report = repair.look(&manifest)?;
    let files = SourceFiles::new(
        || {
            let source = open_source(sink, source, &manifest.recipe, running)?;
            let listing = list_again(sink, source.as_ref(), &manifest.recipe)?.into_listing();
            Ok((source, listing))
        },
        |source| in_tables(source, &manifest, running.memory),
    );
    if source.is_some() && !report.findings.is_empty() {
        // A source that was named and cannot be opened is a mistake, not a loss.
        files.get()?;
    }
    running.counters.begin("repair", 0, 0, 0);
    repair_lists(
        sink,
        &manifest,
        &report,
        &files,
        dry_run,
        running.memory,
        &mut outcome,
    )?;
    let mut origin = |plan: &str, shards: &[&ShardEntry]| {
        origin_of(sink, &manifest, &files, plan, shards, running)
    };
    repair.mend(&manifest, &report, &files, &mut origin, &mut outcome)?;
    if !dry_run && !outcome.repaired.is_empty() {
        for finding in repair.look(&manifest)?.findings {
            let what = finding.to_string();
            outcome.lost.entry(finding.object).or_insert(what);
        }
    }
    drop(files);
    Ok((manifest, outcome))
}

/// Opens the source at `location`, or where it was when the plan was made.
fn open_source(
    sink: &dyn Sink,
    location: Option<&str>,
    recipe: &Recipe,
    running: &Running,
) -> Result<Box<dyn Source>> {
    let planned = || match unless_damaged(claimed(sink))?.flatten() {
        Some(id) => planned_source(sink, &id),
        None => Ok(None),
    };
    let location = match location {
        Some(location) => Some(location.to_owned()),
        None => planned()?,
    };
    match location {
        Some(location) => open_for(&location, recipe, running),
        None => Err(Error::usage(
            "only the source has what is lost: add `--source SRC`",
        )),
    }
}

/// Makes the damaged lists of samples again that belong to stored plans.
fn repair_lists(
    sink: &dyn Sink,
    manifest: &Manifest,
    report: &Report,
    files: &SourceFiles<'_>,
    dry_run: bool,
    memory: u64,
    outcome: &mut RepairOutcome,
) -> Result<()> {
    let lists = damaged_lists(report);
    if dry_run {
        let lists = lists.iter().map(|name| (*name).to_owned());
        outcome.repaired.extend(lists);
        return Ok(());
    }
    if lists.is_empty() {
        return Ok(());
    }
    let mut samples = || {
        if manifest.recipe.labels {
            return Err(Error::usage(
                "labels came from a file, which nothing tells any more",
            ));
        }
        let (source, _) = files.get()?;
        let mut scan = rescan(&manifest.recipe, source, memory)?;
        scan.number_like(&manifest.names.classes);
        Ok(scan)
    };
    for (name, lost) in relist(sink, manifest, &lists, &mut samples)? {
        match lost {
            None => _ = outcome.repaired.insert(name),
            Some(why) => _ = outcome.lost.insert(name, why),
        }
    }
    Ok(())
}

/// The fields of a dataset that are rows of tables of its source; none where it has no such tables.
fn in_tables(source: &dyn Source, manifest: &Manifest, memory: u64) -> Result<Vec<Field>> {
    if manifest.recipe.layout != Arrangement::Metadata {
        return Ok(Vec::new());
    }
    let scan = rescan(&manifest.recipe, source, memory)?;
    let samples = scan.entries.iter().map(|entry| scan.sample(entry));
    let fields = samples.flat_map(|sample| sample.fields);
    Ok(fields.filter(|field| field.content.is_some()).collect())
}

/// Where the images of these shards are, and the plan of this digest by which they were packed.
fn origin_of<'f>(
    sink: &dyn Sink,
    manifest: &Manifest,
    files: &'f SourceFiles<'_>,
    plan: &str,
    shards: &[&ShardEntry],
    running: &Running,
) -> Result<Origin<'f>> {
    let (source, listing) = files.get()?;
    let (stored, refused) = match plans(sink, &HashSet::from([plan]))?.remove(plan) {
        Some(stored) => revised(sink, stored, source, listing, shards)?,
        // Where nothing was added later, the images say what the plan was.
        None if plan == manifest.plan && !manifest.recipe.labels => (
            replanned(sink, source, manifest, running.memory)?,
            BTreeMap::new(),
        ),
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
        refused,
    })
}

/// A stored plan, with the versions that the files of these shards have now: those of a copy are others. And the shards whose files are
/// not there any more as they were, each with the reason.
fn revised(
    sink: &dyn Sink,
    mut stored: Stored,
    source: &dyn Source,
    listing: &Listing,
    shards: &[&ShardEntry],
) -> Result<(Stored, BTreeMap<String, String>)> {
    let names: HashSet<&str> = shards.iter().map(|shard| shard.name.as_str()).collect();
    let mut planned = Vec::new();
    for (number, shard) in stored.plan.shards.iter().enumerate() {
        if names.contains(shard.name.as_str()) {
            planned.push((number, samples(sink, &stored, number)?));
        }
    }
    let mut refused = BTreeMap::new();
    let mut refuse = |number: usize, field: &Field, what: &str| {
        let name = stored.plan.shards[number].name.to_string();
        let why = another(source, field, what).to_string();
        refused.entry(name).or_insert(why);
    };
    let mut fields: HashMap<FilePath, (usize, &mut Field)> = planned
        .iter_mut()
        .flat_map(|(number, samples)| samples.iter_mut().map(|sample| (*number, sample)))
        .flat_map(|(number, sample)| sample.fields.iter_mut().map(move |field| (number, field)))
        // What is in the plan itself is there as it was.
        .filter(|(_, field)| field.content.is_none())
        .map(|(number, field)| (field.path.clone(), (number, field)))
        .collect();
    for dir in &listing.dirs {
        for i in 0..dir.len() {
            if let Some((number, field)) = fields.remove(&dir.path_of(i)) {
                let file = dir.file(i);
                if file.size != field.size {
                    let what = format!("{} bytes, not {}", file.size, field.size);
                    refuse(number, field, &what);
                }
                field.version = file.version();
            }
        }
    }
    let mut gone: Vec<(usize, &mut Field)> = fields.into_values().collect();
    gone.sort_by(|(_, a), (_, b)| a.path.cmp(&b.path));
    for (number, field) in gone {
        refuse(number, field, "it is gone");
    }
    stored.revised = planned.into_iter().collect();
    Ok((stored, refused))
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
fn replanned(
    sink: &dyn Sink,
    source: &dyn Source,
    manifest: &Manifest,
    memory: u64,
) -> Result<Stored> {
    let scan = rescan(&manifest.recipe, source, memory)?;
    let texts = manifest.names.texts.clone();
    let draft = Draft::new(scan, manifest.recipe.clone(), texts)?;
    if draft.digest != manifest.plan {
        return Err(Error::new(
            Kind::Source,
            format!(
                "{source} is not what the dataset was made from: files were added, removed, renamed or have other sizes; \
                 `shardpack verify {sink_word} --level source --source {source_word}` names them",
                sink_word = sink.word(),
                source_word = quoted(source.to_string())
            ),
        ));
    }
    store_beside(sink, &draft)
}

fn summary(
    outcome: &RepairOutcome,
    manifest: &Manifest,
    sink: &dyn Sink,
    dry_run: bool,
) -> Summary {
    let mut text = String::new();
    let (did, done) = match dry_run {
        true => ("would repair", "nothing to repair"),
        false => ("repaired", "nothing to repair"),
    };
    for object in &outcome.repaired {
        text.push_str(&format!("{did:13} {object}\n"));
    }
    for (object, why) in &outcome.lost {
        text.push_str(&format!("{:13} {object}: {why}\n", "LOST"));
    }
    match (outcome.repaired.len(), outcome.lost.len()) {
        (0, 0) => text.push_str(&format!("{done}: {sink}\n")),
        (n, _) => text.push_str(&format!("{did} {}\n", counted(n as u64, "object"))),
    }
    let lost = outcome.lost.len();
    let error =
        (lost > 0).then(|| format!("{} cannot be repaired", counted(lost as u64, "object")));
    Summary {
        exit_code: match lost {
            0 => 0,
            _ => Kind::Damage.exit_code(),
        },
        repaired: outcome.repaired.iter().cloned().collect(),
        error,
        text: Some(text),
        ..Summary::of_dataset(sink, manifest)
    }
}
