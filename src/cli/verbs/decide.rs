//! What there is to do for a source and a destination: nothing, a plan that was begun, or a new plan.

use super::origin::if_gone;
use super::outline::tell_outline;
use crate::base::error::{Error, Kind, Result};
use crate::base::signal::Stop;
use crate::cli::settings::{Planning, Running, differences};
use crate::grow::generation::{NextGeneration, Published, Reading, grow, start_over, still_holds};
use crate::grow::options::OnChange;
use crate::model::history::Changes;
use crate::model::manifest::{MANIFEST, Manifest};
use crate::model::problems::Problems;
use crate::model::recipe::Recipe;
use crate::plan::columns;
use crate::plan::draft::Draft;
use crate::plan::order::Ordered;
use crate::plan::value::Plan;
use crate::publish::commit::newest_snapshot;
use crate::publish::readers::check_planned_names;
use crate::source::choose::Choice;
use crate::source::layouts::{Recognised, scan_as};
use crate::source::outline::Outline;
use crate::source::rules::Rules;
use crate::source::samples::Scan;
use crate::state::claims::generations;
use crate::state::claims::of_generation;
use crate::state::plans::Stored;
use crate::state::published;
use crate::state::refusals::check_ours;
use crate::state::refusals::refuse_later_snapshot;
use crate::state::walks;
use crate::store::{Sink, Source};

/// What came into a source after a plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceSince {
    /// Nothing: the plan is of the source as it is.
    Unchanged,
    /// Something.
    Changed,
}

/// What there is to do for a source and a destination.
pub(super) enum Decision {
    /// Nothing: everything is published.
    UpToDate(Box<Manifest>, Changes),
    /// A plan that was stored and not published, all of whose samples are as they were. What came into the source since is the
    /// next plan's, if there is such.
    GoOn(Box<Stored>, SourceSince),
    /// A plan that is not stored yet, or at least not published.
    New(Box<Draft>, Changes),
}

impl Decision {
    /// A new plan, whose warnings are told.
    fn new(draft: Draft, changes: Changes) -> Self {
        for warning in draft.warnings() {
            tracing::warn!("{warning}");
        }
        Decision::New(Box::new(draft), changes)
    }
}

/// What there is to do, and what the source was taken for.
pub(super) struct Decided {
    pub(super) decision: Decision,
    pub(super) outline: Outline,
}

/// Lists the source and compares it with what the destination holds.
pub(super) fn decide(
    planning: &Planning,
    source: &dyn Source,
    sink: &dyn Sink,
    dry_run: bool,
    running: &Running,
) -> Result<Decided> {
    sink.check_apart(&planning.source)?;
    let rules = Rules {
        problems: running.problems.clone(),
        ..planning.rules(running.memory)?
    };
    running.counters.begin("scan", 0, 0, 0);
    // Before the source is listed: who claims the next generation has seen it later than the one before.
    let destination = Destination::look(sink)?;
    let newest = destination.newest.as_ref().map(|newest| newest.id.clone());
    let listed = walks::list_again(sink, newest.as_deref(), source, planning.layout);
    let listed = listed.map_err(|error| if_gone(error, sink, &planning.source))?;
    running.stop.check()?;
    running.counters.begin("plan", 0, 0, 0);
    let labels = rules.labels.as_ref().map(|labels| labels.taken_text());
    let (mut scan, Recognised { layout, said }) =
        scan_as(listed, rules, planning.layout, source, &planning.source)?;
    if planning.recipe.select.keys.is_some() && planning.keys.is_none() {
        return Err(Error::usage(format!(
            "{sink} was made with `--keys FILE`, and only that says which samples it may have: use `convert` with the same file"
        )));
    }
    let choice = Choice {
        selection: &planning.recipe.select,
        keys: planning.keys.as_ref(),
        seed: planning.recipe.seed,
        source,
        problems: &running.problems,
        stop: &running.stop,
    };
    let chosen = choice.make(&mut scan)?;
    let outline = Outline {
        columns: columns::said(&scan, &planning.recipe),
        chosen,
        ..Outline::of(&scan, said, labels.unwrap_or_default())
    };
    if !dry_run && planning.is_told {
        tell_outline(&outline);
    }
    let planning = &planning.arranged(layout);
    let texts = planning.class_texts(&scan)?;
    let comparison = Comparison {
        planning,
        sink,
        reading: Reading {
            source,
            counters: &running.counters,
        },
        memory: running.memory,
        stop: &running.stop,
        problems: &running.problems,
        // Before the classes are numbered as they were.
        fingerprint: scan.fingerprint(&texts),
        scan,
        texts,
    };
    let published = destination.manifest.as_ref().map_or(0, |m| m.snapshot);
    let decision = match (destination.newest, destination.manifest) {
        (None, manifest) => comparison.without_plan(manifest.as_ref()),
        (Some(newest), None) => comparison.unpublished(newest),
        (Some(newest), Some(manifest)) => comparison.published(newest, manifest, dry_run),
    }?;
    if !matches!(decision, Decision::UpToDate(..)) {
        refuse_later_snapshot(sink, published)?;
    }
    if let (Some(id), false, Decision::UpToDate(..) | Decision::GoOn(..)) =
        (&newest, dry_run, &decision)
    {
        walks::keep(sink, id, source);
    }
    Ok(Decided { decision, outline })
}

/// The source as it is, to be compared with what the destination holds.
struct Comparison<'p> {
    planning: &'p Planning,
    sink: &'p dyn Sink,
    reading: Reading<'p>,
    /// What the whole run is to stay within, in bytes.
    memory: u64,
    stop: &'p Stop,
    problems: &'p Problems,
    scan: Scan,
    /// What the classes are called for people.
    texts: Vec<String>,
    fingerprint: String,
}

impl Comparison<'_> {
    /// What there is to do where no plan is.
    fn without_plan(self, manifest: Option<&Manifest>) -> Result<Decision> {
        if manifest.is_some_and(|manifest| manifest.recipe.foreign) {
            return Err(Error::new(
                Kind::Conflict,
                format!(
                    "{} holds shards of others, with an index of ours: choose another destination",
                    self.sink
                ),
            ));
        }
        let all = self.all();
        Ok(Decision::new(self.ordered()?.cut()?, all))
    }

    /// What there is to do where a plan is that nothing was published of.
    fn unpublished(mut self, newest: Stored) -> Result<Decision> {
        let (sink, memory, stop, reading) = (self.sink, self.memory, self.stop, self.reading);
        let recipe = &self.planning.recipe;
        if newest.plan.base.is_some() {
            return Err(Error::new(
                Kind::Damage,
                format!(
                    "{sink}/{MANIFEST}: missing, and the stored plan goes on from it: run `shardpack repair {sink_word}`",
                    sink_word = sink.word()
                ),
            ));
        }
        let unchanged = self.is_as_in(&newest.plan);
        if unchanged && newest.plan.generation > 1 {
            return Ok(Decision::GoOn(Box::new(newest), SourceSince::Unchanged));
        }
        let all = self.all();
        if self.planning.growth.full && !unchanged {
            return Ok(Decision::new(
                start_over(&newest.plan, self.ordered()?)?,
                all,
            ));
        }
        let goes_on = !unchanged && newest.plan.recipe == *recipe;
        if goes_on {
            self.scan.number_like(&newest.plan.names.classes);
            self.texts = self.planning.class_texts(&self.scan)?;
        }
        let ordered = self.ordered()?;
        if goes_on && still_holds(sink, &newest, &ordered, memory, reading, stop)? {
            return Ok(Decision::GoOn(Box::new(newest), SourceSince::Changed));
        }
        Ok(Decision::new(ordered.cut()?, all))
    }

    /// What there is to do where something is published.
    fn published(
        mut self,
        newest: Stored,
        mut manifest: Manifest,
        dry_run: bool,
    ) -> Result<Decision> {
        let (planning, sink, problems) = (self.planning, self.sink, self.problems);
        let (memory, stop, reading) = (self.memory, self.stop, self.reading);
        let (recipe, growth) = (&planning.recipe, &planning.growth);
        let all_anew = newest
            .plan
            .base
            .as_ref()
            .is_none_or(|base| base.shards.is_empty());
        if self.is_as_in(&newest.plan) && (all_anew || !growth.full) {
            if newest.digest == manifest.plan && !growth.compact {
                return Ok(Decision::UpToDate(Box::new(manifest), Changes::default()));
            }
            if newest.plan.goes_on_from(&manifest.plan) {
                return Ok(Decision::GoOn(Box::new(newest), SourceSince::Unchanged));
            }
        }
        if manifest.recipe.foreign || (manifest.recipe != *recipe && !growth.full) {
            return Err(other_options(sink, &manifest.recipe, recipe));
        }
        if !dry_run {
            // A run that ended between a snapshot and its manifest published all the same.
            manifest = newest_snapshot(sink, self.memory)?.unwrap_or(manifest);
        }
        let new_classes = self.scan.number_like(&manifest.names.classes);
        self.texts = planning.class_texts_after(&self.scan, &manifest.names.texts)?;
        let ordered = self.ordered()?;
        let plan = &newest.plan;
        let goes_on = plan.goes_on_from(&manifest.plan) && plan.recipe == *recipe;
        if goes_on
            && !growth.full
            && !growth.compact
            && still_holds(sink, &newest, &ordered, memory, reading, stop)?
        {
            return Ok(Decision::GoOn(Box::new(newest), SourceSince::Changed));
        }
        let published = Published {
            sink,
            reading,
            manifest: &manifest,
            newest: plan,
        };
        let grown = grow(
            published,
            ordered,
            new_classes,
            growth,
            problems,
            memory,
            stop,
        )?;
        Ok(match grown {
            NextGeneration::Unchanged(changes) => Decision::UpToDate(Box::new(manifest), changes),
            NextGeneration::Draft(draft, changes) => {
                check_planned_names(&manifest, &draft.plan)?;
                Decision::new(*draft, changes)
            }
        })
    }

    /// Whether a plan is of this source and these options, with nothing left as it was.
    fn is_as_in(&self, plan: &Plan) -> bool {
        let stale = plan.stale > 0 && self.planning.growth.on_change != OnChange::Keep;
        plan.source == self.fingerprint && plan.recipe == self.planning.recipe && !stale
    }

    /// All samples as new ones.
    fn all(&self) -> Changes {
        Changes {
            new: self.scan.entries.len() as u64,
            ..Changes::default()
        }
    }

    fn ordered(self) -> Result<Ordered> {
        let recipe = self.planning.recipe.clone();
        Ordered::new(self.scan, recipe, self.texts, self.fingerprint)
    }
}

/// The error of options that are not those that the destination was made with.
fn other_options(sink: &dyn Sink, before: &Recipe, now: &Recipe) -> Error {
    let mut text = format!("{sink} was made with other options, nothing was written");
    // Its shards are of somebody else where nothing differs.
    for line in differences(before, now) {
        text.push_str(&format!("\n  {line}"));
    }
    text.push_str(
        "\n  give the same ones to go on, choose another destination, or `--full` makes all anew in this one",
    );
    Error::new(Kind::Conflict, text)
}

/// What a destination holds.
struct Destination {
    /// The plan that was claimed last.
    newest: Option<Stored>,
    manifest: Option<Manifest>,
}

impl Destination {
    fn look(sink: &dyn Sink) -> Result<Self> {
        let newest = match generations(sink)?.last() {
            None => {
                check_ours(sink)?;
                None
            }
            Some(&generation) => match of_generation(sink, generation) {
                // A first plan that is lost is made again from the source.
                Err(error) if error.kind() == Kind::Damage && generation == 1 => None,
                stored => stored?,
            },
        };
        Ok(Self {
            newest,
            manifest: published::load(sink)?,
        })
    }
}
