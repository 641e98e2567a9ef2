//! How a run ended: what went wrong, what is damaged, what could not be read.

use crate::base::units::{bytes_text, count_text, counted};
use crate::report::amounts::amount_of;
use crate::report::dataset::Dataset;
use crate::report::html::{lines, text};
use crate::report::page::{LISTED, Page};
use crate::report::run::Run;
use crate::report::sections::usage::repair;

/// Characters of an error at most.
const ERROR_LENGTH: usize = 4000;

/// A run in one word, and whether it is good, a warning or bad.
pub(in crate::report) fn verdict(exit_code: u8) -> (&'static str, &'static str) {
    match exit_code {
        0 => ("done", ""),
        2 => ("refused", "bad"),
        3 => ("source problems", "bad"),
        4 => ("damage found", "bad"),
        10 => ("another writer won", "bad"),
        75 => ("stopped, run again", "warn"),
        130 => ("interrupted", "warn"),
        143 => ("terminated", "warn"),
        _ => ("failed", "bad"),
    }
}

/// What an exit code means for the data, and what to do.
fn advice(exit_code: u8) -> &'static str {
    match exit_code {
        2 => "The command line does not fit: nothing was done.",
        3 => {
            "The source cannot be used as it is, so nothing was published. Shards that were finished are kept and used again by the next run."
        }
        4 => {
            "Something stored is not what its checksum says. Keep it as evidence; the command repair makes it again from the source, byte for byte."
        }
        10 => "The destination belongs to another plan. Nothing of it was touched.",
        75 | 130 | 143 => {
            "Nothing is lost: finished shards are kept, and the same command goes on from there."
        }
        _ => "A person has to look at this. Finished shards are kept.",
    }
}

/// What went wrong and how far it came.
pub(in crate::report) fn trouble(page: &mut Page, run: &Run) {
    let Some(error) = run.error.as_ref().filter(|_| run.exit_code != 0) else {
        return;
    };
    let (word, class) = verdict(run.exit_code);
    let class = if class == "warn" { "warn" } else { "alert" };
    let title = format!("{} {word}: exit code {}", run.verb, run.exit_code);
    page.section(class, &title);
    page.out.put(format_args!(
        "<pre>{}</pre><p>{}</p>",
        lines(error, ERROR_LENGTH),
        advice(run.exit_code)
    ));
    if let Some(phase) = run.history.phases.last() {
        let amounts = [
            (phase.shards, phase.of_shards, "shards"),
            (phase.samples, phase.of_samples, "samples"),
        ];
        let mut came = amounts
            .iter()
            .filter(|(done, all, _)| *all > 0 && (*done > 0 || phase.bytes == 0))
            .map(|(done, all, what)| {
                format!("{} of {} {what}", count_text(*done), count_text(*all))
            })
            .collect::<Vec<_>>();
        if phase.of_bytes > 0 {
            came.push(amount_of(phase.bytes, phase.of_bytes, bytes_text));
        }
        let came = match came.is_empty() {
            true => String::new(),
            false => format!(": {}", came.join(", ")),
        };
        page.out.put(format_args!(
            "<p>It ended during <b>{}</b>{}.</p>",
            text(&phase.name),
            text(&came)
        ));
    }
    page.out.raw("</section>");
}

/// The source that a run was told of.
fn source(run: &Run) -> Option<&str> {
    run.setup.as_ref()?.source.as_deref()
}

/// What is damaged.
pub(in crate::report) fn findings(page: &mut Page, run: &Run, dataset: Option<&Dataset>) {
    if run.findings.is_empty() {
        return;
    }
    page.section("alert", "What is damaged");
    page.out.raw("<ul>");
    for finding in run.findings.iter().take(LISTED) {
        page.out.put(format_args!(
            "<li><code>{}</code></li>",
            lines(finding, 400)
        ));
    }
    page.out.raw("</ul>");
    page.rest(run.findings.len(), "verify prints them all");
    let destination = dataset.map(|dataset| dataset.destination.as_str());
    if let Some(destination) = destination.or(run.destination.as_deref()) {
        repair(page, destination, source(run));
    }
    page.out.raw("</section>");
}

/// The indexes that are in none of the figures.
pub(in crate::report) fn unread(page: &mut Page, dataset: &Dataset, run: Option<&Run>) {
    if dataset.unread.is_empty() {
        return;
    }
    let count = counted(dataset.unread.len() as u64, "index file");
    page.section("warn", &format!("{count} could not be read"));
    page.says(
        "Their samples are in none of the figures below; the command verify says what is wrong.",
    );
    page.out.raw("<ul>");
    for what in dataset.unread.iter().take(LISTED) {
        page.out
            .put(format_args!("<li><code>{}</code></li>", lines(what, 400)));
    }
    page.out.raw("</ul>");
    page.rest(dataset.unread.len(), "verify prints them all");
    if run.is_none_or(|run| run.findings.is_empty()) {
        repair(page, &dataset.destination, run.and_then(source));
    }
    page.out.raw("</section>");
}
