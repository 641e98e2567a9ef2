//! `report`: a page for people about a dataset, and about a run; `--report` of other verbs writes the same page at their end.

use std::path::Path;

use super::origin::open_for;
use super::summary::Summary;
use crate::base::error::{Error, Kind, Result};
use crate::base::text::quoted;
use crate::cli::file;
use crate::cli::flags::Page;
use crate::cli::settings::Running;
use crate::report::run::Run;
use crate::report::survey::survey;
use crate::report::{Dataset, page};
use crate::state::published::load;
use crate::store;

/// Writes the page about `destination` to `output` (`-` is stdout), with the run of the summary at `run`, and with pictures of what was
/// skipped of `source`.
pub(crate) fn run(
    destination: &str,
    output: &Path,
    run: Option<&Path>,
    source: Option<&str>,
    running: &Running,
) -> Result<Summary> {
    let run = run.map(read_run).transpose()?;
    let dataset = dataset(destination, source, running)?.ok_or_else(|| {
        Error::failed(format!(
            "{destination} has no manifest: nothing is published there that a report could be about"
        ))
    })?;
    let page = page(Some(&dataset), run.as_ref());
    let text = match output == Path::new("-") {
        true => page,
        false => {
            file::write("--output", output, page.as_bytes())?;
            format!("report of {}, {}\n", dataset.destination, output.display())
        }
    };
    // The page tells what it could not look at; a script is to see that too.
    let damage = dataset.unread.first().map(|first| {
        let count = dataset.unread.len();
        format!(
            "{count} indexes could not be read, {first}: run `shardpack verify {destination_word}`",
            destination_word = quoted(destination)
        )
    });
    if let Some(damage) = &damage {
        tracing::error!("{damage}");
    }
    Ok(Summary {
        exit_code: damage.as_ref().map_or(0, |_| Kind::Damage.exit_code()),
        error: damage,
        destination: Some(dataset.destination.clone()),
        plan: Some(dataset.plan.clone()),
        samples: dataset.samples,
        bytes: dataset.bytes,
        ..Summary::text(text)
    })
}

fn read_run(path: &Path) -> Result<Run> {
    let name = path.display();
    let text = file::read(path).map_err(|error| {
        let remedy = "give a file that `--summary` wrote";
        Error::named(Kind::Usage, format!("--run {name}"), error, remedy)
    })?;
    Run::decode(&format!("--run {name}"), &text)
}

/// What is published at a destination, if anything is.
fn dataset(destination: &str, source: Option<&str>, running: &Running) -> Result<Option<Dataset>> {
    let sink = store::sink(destination, &running.access)?;
    let Some(manifest) = load(sink.as_ref())? else {
        return Ok(None);
    };
    let source = source
        .filter(|_| !manifest.skipped.is_empty())
        .map(|source| open_for(source, &manifest.recipe, running))
        .transpose()?;
    survey(
        sink.as_ref(),
        &manifest,
        source.as_deref(),
        running.cores,
        running.memory,
        &running.stop,
    )
    .map(Some)
}

/// Writes the page of a run that has ended, with what is published at its destination: `running` is `None` when there is no time to look
/// or nothing to look with.
pub(crate) fn write(page_of: &Page, summary: &Summary, running: Option<&Running>) -> Result<()> {
    let text = serde_json::to_vec(summary).map_err(|error| Error::failed(error.to_string()))?;
    let run = Run::decode("summary", &text)?;
    let (destination, source) = (&page_of.destination, page_of.source.as_deref());
    let dataset = match running.map(|running| dataset(destination, source, running)) {
        None => None,
        Some(Ok(dataset)) => dataset,
        Some(Err(error)) => {
            // A page without that part is better than none, above all when the run failed for the same reason.
            tracing::warn!("--report: {error}; the page is about the run alone");
            None
        }
    };
    file::write(
        "--report",
        &page_of.path,
        page(dataset.as_ref(), Some(&run)).as_bytes(),
    )
}
