//! What a run did, phase by phase, and how fast it was.

use crate::base::units::{bytes_text, count_text, counted, seconds_text};
use crate::model::history::Point;
use crate::report::amounts::{amount_of, per_second};
use crate::report::axis::{count_ticks, ticks, time_ticks};
use crate::report::chart::{Bar, Frame, Tick, draw_area, draw_bars};
use crate::report::html::lines;
use crate::report::page::{LISTED, Page};
use crate::report::run::Run;

/// Bars of a chart at most.
const BARS: usize = 120;

/// Writes how fast the run was, its phases, and what else is known of it.
pub(in crate::report) fn write(page: &mut Page, run: &Run) {
    page.section("", "The run");
    if run.shards_reused > 0 {
        let reused = counted(run.shards_reused, "shard");
        page.says(&format!("{reused} had been finished by an earlier run."));
    }
    speed(page, run);
    if !run.history.phases.is_empty() {
        let columns = ["phase", "time", "samples", "bytes", "shards", "speed"];
        page.out.table(&columns);
        for phase in run.history.phases.iter().take(LISTED) {
            page.out.row(
                &phase.name,
                &[
                    seconds_text(phase.seconds),
                    amount_of(phase.samples, phase.of_samples, count_text),
                    amount_of(phase.bytes, phase.of_bytes, bytes_text),
                    amount_of(phase.shards, phase.of_shards, count_text),
                    per_second(phase.bytes, phase.seconds),
                ],
            );
        }
        page.out.end_table();
    }
    let facts = facts(run);
    if !facts.is_empty() {
        let facts = facts.join(" · ");
        page.out
            .put(format_args!("<p class=\"soft\">{}</p>", lines(&facts, 400)));
    }
    page.out.raw("</section>");
}

/// What is worth knowing of a run besides its phases.
fn facts(run: &Run) -> Vec<String> {
    let mut facts = Vec::new();
    if run.retries > 0 {
        let mut fact = format!("{} made again", counted(run.retries, "request"));
        if run.push_backs > 0 {
            let pushed = count_text(run.push_backs);
            fact.push_str(&format!(", {pushed} because the server asked for fewer"));
        }
        facts.push(fact);
    }
    if run.hedges > 0 {
        facts.push(format!(
            "{} asked for twice",
            counted(run.hedges, "slow read")
        ));
    }
    if let Some(peak) = run.peak_rss_bytes {
        let limit = run.setup.as_ref().map(|setup| setup.memory_bytes);
        facts.push(match limit {
            Some(limit) => format!(
                "at most {} of memory, {} allowed",
                bytes_text(peak),
                bytes_text(limit)
            ),
            None => format!("at most {} of memory", bytes_text(peak)),
        });
    }
    if let Some(setup) = &run.setup {
        facts.push(counted(setup.cores as u64, "core"));
        facts.extend(setup.jobs.map(|jobs| counted(jobs as u64, "job")));
        facts.extend(setup.reads.map(|n| format!("{n} reads at once")));
        if !setup.fsync {
            facts.push("without waiting for the disk".to_owned());
        }
    }
    facts
}

/// A stretch of a run.
struct Step {
    /// Its beginning and end, in seconds since the beginning of the run.
    from: f64,
    to: f64,
    /// Bytes or samples per second.
    speed: f64,
    /// Requests made again.
    retries: u64,
}

/// A run's timeline as steps of a chart.
fn steps(points: &[Point], by_bytes: bool) -> Vec<Step> {
    // Neighbours are drawn as one: short intervals show the clock's tick, not the run.
    let each = points.len().div_ceil(BARS).max(1);
    let mut steps = Vec::new();
    let mut before = Point::default();
    let ends = points.chunks(each).filter_map(|chunk| chunk.last());
    for point in ends {
        let seconds = point.seconds - before.seconds;
        if seconds > 0.0 {
            let amount = match by_bytes {
                true => point.bytes.saturating_sub(before.bytes),
                false => point.samples.saturating_sub(before.samples),
            };
            steps.push(Step {
                from: before.seconds,
                to: point.seconds,
                speed: amount as f64 / seconds,
                retries: point.retries.saturating_sub(before.retries),
            });
            before = *point;
        }
    }
    steps
}

/// Speed over time, and requests made again.
fn speed(page: &mut Page, run: &Run) {
    let points = &run.history.timeline;
    let Some(last) = points.last().filter(|last| last.seconds > 0.0) else {
        return;
    };
    let by_bytes = last.bytes > 0;
    if !by_bytes && last.samples == 0 {
        return;
    }
    let steps = steps(points, by_bytes);
    let whole = steps.last().map_or(0.0, |step| step.to);
    let whole = whole.max(f64::MIN_POSITIVE);
    let most = steps.iter().map(|step| step.speed).fold(0.0, f64::max);
    let (top, y) = ticks(most, |speed| match by_bytes {
        true => format!("{}/s", bytes_text(speed as u64)),
        false => format!("{}/s", count_text(speed as u64)),
    });
    let x = time_ticks(whole);
    let line: Vec<(f64, f64)> = steps
        .iter()
        .flat_map(|step| {
            let high = step.speed / top;
            [(step.from / whole, high), (step.to / whole, high)]
        })
        .collect();
    let phases = &run.history.phases;
    let marks: Vec<f64> = (phases.iter().skip(1).take(LISTED))
        .map(|phase| phase.began / whole)
        .filter(|at| *at < 1.0)
        .collect();
    let what = if by_bytes { "Bytes" } else { "Samples" };
    let fastest = y.last().map_or("", |tick| tick.1.as_str());
    let frame = Frame {
        caption: &format!("{what} per second over the time of the run"),
        description: &format!(
            "{} long; the fastest moment is below {fastest}; vertical lines are the beginnings of phases",
            seconds_text(whole)
        ),
        class: "",
        y: &y,
        x: &x,
    };
    let id = page.chart();
    draw_area(&mut page.out, id, &frame, &line, &marks);
    retries(page, &steps, &x, last.retries);
}

/// A chart of the requests made again, where there were some: so many in `all`.
fn retries(page: &mut Page, steps: &[Step], x: &[Tick], all: u64) {
    let most = steps.iter().map(|step| step.retries).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let (top, y) = count_ticks(most);
    let bars: Vec<_> = steps
        .iter()
        .map(|step| {
            let label = format!("{}: {}", seconds_text(step.from), step.retries);
            let high = step.retries as f64 / top;
            Bar::of(label, high)
        })
        .collect();
    let frame = Frame {
        caption: "Requests made again",
        description: &format!("{} in all", counted(all, "request")),
        class: "low",
        y: &y,
        x,
    };
    let id = page.chart();
    draw_bars(&mut page.out, id, &frame, &bars);
}
