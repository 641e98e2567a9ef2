//! `compact`: merge small shards, which many small additions leave behind, into large ones.

use super::origin::planned_source;
use super::summary::Summary;
use super::{convert, next};
use crate::base::error::{Error, Result};
use crate::cli::settings::{Files, Planning, Running};
use crate::grow::options::Growth;
use crate::grow::options::OnChange;
use crate::model::policy::Policy;
use crate::state::claims::claimed;
use crate::state::published;
use crate::store;

/// Publishes a snapshot whose small shards are merged; their samples are read from the source again.
///
/// What is new in the source goes in with them. Shards whose samples changed or went stay as they are.
pub(crate) fn run(
    destination: &str,
    source: Option<&str>,
    files: Files,
    policy: Policy,
    dry_run: bool,
    running: &Running,
) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    let sink = sink.as_ref();
    let manifest = published::load(sink)?.ok_or_else(|| {
        Error::usage(format!(
            "{sink}: nothing is published here: give the directory of a dataset"
        ))
    })?;
    if manifest.recipe.labels && files.labels.is_none() {
        return Err(Error::usage(format!(
            "{sink} was made with `--labels`: give the same file again"
        )));
    }
    let planned = match (source, claimed(sink)?) {
        (None, Some(id)) => planned_source(sink, &id)?,
        _ => None,
    };
    let Some(source) = source.or(planned.as_deref()) else {
        return Err(Error::usage(
            "the samples of merged shards are read from the source: add `--source SRC`",
        ));
    };
    let planning = Planning {
        keep_faulty: policy != Policy::Fail,
        growth: Growth {
            compact: true,
            on_change: OnChange::Keep,
            ..Growth::default()
        },
        files,
        ..Planning::new(source, destination, manifest.recipe)
    };
    let mut done = convert::on(sink, &planning, policy, None, dry_run, running)?;
    if done.changed == Some(true) {
        // Those that were merged stay until nobody wants the earlier snapshot.
        let words = ["--keep", "1"];
        done.next
            .push(next::command("gc", &sink.to_string(), &words, running));
    }
    Ok(done)
}
