//! A report: one HTML page about a dataset, a run, or both, for people.
//!
//! Values in, text out. The page stands alone and asks for nothing: no script, no font, no image, no address, so that it opens from a
//! mail, offline, and under the strictest policy that artifact viewers set. Its size is bounded, whatever the dataset's.

mod chart;
pub mod figures;
mod html;
pub mod run;
pub mod survey;

use std::cmp::Reverse;

use self::chart::{Frame, Tick};
use self::figures::{Extreme, Figures, Histogram};
use self::html::{Html, lines, text};
use self::run::Run;
use crate::base::units::{bytes_text, classes as classes_text, count_text, counted, seconds_text};
use crate::model::record::Remark;

const STYLE: &str = include_str!("page.css");
/// With more classes than this, only the smallest and largest are named.
const CLASSES_NAMED: usize = 40;
/// And so many of each.
const CLASSES_OF_EACH: usize = 10;
/// Points of a curve at most.
const POINTS: usize = 300;
/// Bars of a chart at most.
const BARS: usize = 120;
/// Splits with a chart of their own at most, and with a row.
const SPLITS_DRAWN: usize = 4;
const SPLITS_LISTED: usize = 30;
/// Remarks, findings and the like of one sort at most.
const LISTED: usize = 40;
/// Characters of an error at most.
const ERROR_LENGTH: usize = 4000;

/// One split of a dataset.
#[derive(Clone, Debug, Default)]
pub struct Split {
    /// Its name.
    pub name: String,
    /// Its samples.
    pub samples: u64,
    /// Bytes of its shards.
    pub bytes: u64,
    /// Bytes of each shard.
    pub shards: Vec<u64>,
    /// Samples of each class, by label.
    pub labels: Vec<u64>,
}

/// What is told of a dataset.
#[derive(Clone, Debug, Default)]
pub struct Dataset {
    /// Where it lies.
    pub destination: String,
    /// Its name.
    pub name: String,
    /// Digest of its plan.
    pub plan: String,
    /// Number of the snapshot.
    pub snapshot: u64,
    /// Layout and compression.
    pub format: String,
    /// Its samples.
    pub samples: u64,
    /// Bytes of its shards.
    pub bytes: u64,
    /// Class names by label.
    pub classes: Vec<String>,
    /// What classes are called for people; empty when nobody said.
    pub texts: Vec<String>,
    /// Its splits.
    pub splits: Vec<Split>,
    /// All samples added up.
    pub figures: Figures,
    /// Samples of the source that are not in it.
    pub skipped: Vec<Remark>,
    /// Samples that are in it although something about them is odd.
    pub odd: Vec<Remark>,
    /// Indexes that could not be read, and why: their samples are in none of the figures.
    pub unread: Vec<String>,
}

impl Dataset {
    fn shards(&self) -> usize {
        self.splits.iter().map(|split| split.shards.len()).sum()
    }

    /// A class as people call it.
    fn class(&self, label: usize) -> String {
        let name = self.classes.get(label).map_or("", String::as_str);
        match self.texts.get(label).filter(|text| !text.is_empty()) {
            Some(text) if text != name => format!("{name} ({text})"),
            _ => name.to_owned(),
        }
    }
}

/// The page about a dataset, a run, or both.
pub fn page(dataset: Option<&Dataset>, run: Option<&Run>) -> String {
    let mut page = Page::default();
    page.head(dataset, run);
    if let Some(run) = run {
        page.trouble(run);
        page.findings(run);
    }
    if let Some(dataset) = dataset {
        page.unread(dataset);
    }
    if let Some(run) = run {
        page.changes(run);
        page.run(run);
    }
    if let Some(dataset) = dataset {
        page.shards(dataset);
        page.classes(dataset);
        page.images(&dataset.figures);
        page.samples(&dataset.figures);
    }
    let remarks = |of_dataset: fn(&Dataset) -> &Vec<Remark>, of_run: fn(&Run) -> &Vec<Remark>| {
        let own = run.map(of_run).filter(|remarks| !remarks.is_empty());
        own.or(dataset.map(of_dataset)).cloned().unwrap_or_default()
    };
    page.remarks(
        "Skipped",
        "Samples of the source that are not in the dataset.",
        &remarks(|dataset| &dataset.skipped, |run| &run.skipped),
    );
    page.remarks(
        "Odd",
        "Samples that are in the dataset although something about them is unusual.",
        &remarks(|dataset| &dataset.odd, |run| &run.odd),
    );
    page.foot(dataset, run);
    page.out.into_string()
}

/// A run in one word, and whether it is good, a warning or bad.
fn verdict(exit_code: u8) -> (&'static str, &'static str) {
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

/// A round step of an axis that is cut into about three, and the axis's end.
fn axis(most: f64) -> (f64, f64) {
    if !most.is_finite() || most <= 0.0 {
        return (1.0, 1.0);
    }
    let rough = most / 3.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|round| round * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * power);
    (step, (most / step).ceil() * step)
}

/// Labels of an axis from 0 to its end, at each step.
fn ticks(most: f64, name: impl Fn(f64) -> String) -> (f64, Vec<Tick>) {
    let (step, end) = axis(most);
    let count = (end / step).round() as usize;
    let tick = |i: usize| (i as f64 / count as f64, name(step * i as f64));
    (end, (0..=count).map(tick).collect())
}

/// The same for things that are counted: no step is less than one.
fn count_ticks(most: u64) -> (f64, Vec<Tick>) {
    match most {
        0..=3 => {
            let end = most.max(1);
            let tick = |n: u64| (n as f64 / end as f64, count_text(n));
            (end as f64, (0..=end).map(tick).collect())
        }
        _ => ticks(most as f64, |count| count_text(count as u64)),
    }
}

/// Labels of an axis of time from 0 to `most` seconds, at steps that clocks have.
fn time_ticks(most: f64) -> Vec<Tick> {
    const STEPS: [f64; 15] = [
        0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0,
    ];
    let hours = (0..30).map(|power| 3600.0 * f64::from(1 << power));
    let mut steps = STEPS.into_iter().chain(hours);
    let step = steps.find(|step| most / step <= 5.0).unwrap_or(most);
    let count = (most / step).floor() as u32;
    let at = |i: u32| f64::from(i) * step;
    (0..=count)
        .map(|i| (at(i) / most, seconds_text(at(i))))
        .collect()
}

/// Labels of an axis of buckets that begin at these numbers: powers of two, six at most.
fn powers(starts: &[u64], name: impl Fn(u64) -> String) -> Vec<Tick> {
    let (Some(&first), Some(&last)) = (starts.first(), starts.last()) else {
        return Vec::new();
    };
    let found = (0..63).map(|power| 1u64 << power);
    let found: Vec<u64> = found.filter(|n| (first..=last).contains(n)).collect();
    if found.len() < 2 {
        return vec![(0.0, name(first)), (1.0, name(last))];
    }
    let place = |number: u64| {
        let above = starts.partition_point(|&start| start <= number);
        let (from, to) = (
            starts[above - 1],
            starts.get(above).copied().unwrap_or(last),
        );
        let part = (number - from) as f64 / (to - from).max(1) as f64;
        ((above - 1) as f64 + part) / (starts.len() - 1).max(1) as f64
    };
    let each = found.len().div_ceil(6);
    let found = found.into_iter().step_by(each);
    found.map(|number| (place(number), name(number))).collect()
}

/// Names of the two ends of something numbered.
fn ends(first: &str, last: &str, many: bool) -> Vec<Tick> {
    match many {
        true => vec![(0.0, first.to_owned()), (1.0, last.to_owned())],
        false => vec![(0.0, first.to_owned())],
    }
}

/// So many, of how many if that is known; a phase that counts something else has nothing of it.
fn of(done: u64, all: u64, name: impl Fn(u64) -> String) -> String {
    match (done, all) {
        (0, _) => "–".to_owned(),
        (done, all) if all <= done => name(done),
        (done, all) => format!("{} of {}", name(done), name(all)),
    }
}

fn per_second(amount: u64, seconds: f64) -> String {
    match amount {
        0 => "–".to_owned(),
        _ if seconds < 0.001 => "–".to_owned(),
        _ => format!("{}/s", bytes_text((amount as f64 / seconds) as u64)),
    }
}

fn percent(part: u64, whole: u64) -> String {
    match part as f64 / whole.max(1) as f64 * 100.0 {
        share if part > 0 && share < 0.05 => "< 0.1 %".to_owned(),
        share => format!("{share:.1} %"),
    }
}

fn megapixels(pixels: u64) -> String {
    match pixels as f64 / 1e6 {
        _ if pixels < 1000 => format!("{pixels} px"),
        small if small < 0.0995 => format!("{small:.3} MP"),
        small if small < 9.95 => format!("{small:.2} MP"),
        large => format!("{large:.1} MP"),
    }
}

/// What was measured, how often what was met, and how it is written.
type Measured<'a> = (&'a str, &'a Histogram, fn(u64) -> String);

/// A page and the number of its next chart.
#[derive(Default)]
struct Page {
    out: Html,
    charts: usize,
}

impl Page {
    fn chart(&mut self) -> usize {
        self.charts += 1;
        self.charts
    }

    fn section(&mut self, class: &str, title: &str) {
        self.out.put(format_args!(
            "<section class=\"{class}\"><h2>{}</h2>",
            text(title)
        ));
    }

    fn says(&mut self, sentence: &str) {
        self.out
            .put(format_args!("<p class=\"soft\">{}</p>", text(sentence)));
    }

    fn head(&mut self, dataset: Option<&Dataset>, run: Option<&Run>) {
        let place = dataset
            .map(|dataset| dataset.destination.clone())
            .or_else(|| run.and_then(|run| run.destination.clone()))
            .unwrap_or_default();
        let name = dataset.map_or_else(|| place.clone(), |dataset| dataset.name.clone());
        let name = match (name.as_str(), run) {
            ("", Some(run)) => run.verb.clone(),
            _ => name,
        };
        self.out.put(format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\"><title>{} – shardpack report</title><style>{STYLE}</style></head><body><header><h1><bdi>{}</bdi></h1>",
            text(&name),
            text(&name)
        ));
        if let Some(run) = run {
            let (word, class) = verdict(run.exit_code);
            self.out.put(format_args!(
                "<span class=\"badge {class}\">{} {word}</span>",
                text(&run.verb)
            ));
        }
        if let Some(dataset) = dataset {
            self.out.put(format_args!(
                "<span class=\"badge\">published, snapshot {}</span>",
                dataset.snapshot
            ));
        }
        self.out.raw("<p class=\"soft\">");
        if !place.is_empty() && place != name {
            self.out.put(format_args!("<code>{}</code> ", text(&place)));
        }
        if let Some(run) = run.filter(|run| !run.started_at.is_empty()) {
            self.out
                .put(format_args!(" · run of {}", text(&run.started_at)));
        }
        self.out.raw("</p></header><main>");
        let mut tiles: Vec<(&str, String, String)> = Vec::new();
        if let Some(dataset) = dataset {
            let splits = dataset.splits.len() as u64;
            let mean = dataset.bytes as f64 / (dataset.shards() as f64).max(1.0);
            tiles.push((
                "samples",
                count_text(dataset.samples),
                counted(splits, "split"),
            ));
            tiles.push((
                "classes",
                count_text(dataset.classes.len() as u64),
                String::new(),
            ));
            tiles.push(("size", bytes_text(dataset.bytes), dataset.format.clone()));
            tiles.push((
                "shards",
                count_text(dataset.shards() as u64),
                format!("{} each", bytes_text(mean as u64)),
            ));
        } else if let Some(run) = run.filter(|run| run.samples + run.shards > 0) {
            tiles.push(("samples", count_text(run.samples), String::new()));
            tiles.push(("shards", count_text(run.shards), bytes_text(run.bytes)));
        }
        if let Some(run) = run {
            let bytes = run.history.timeline.last().map_or(0, |last| last.bytes);
            tiles.push((
                "time",
                seconds_text(run.seconds),
                match bytes {
                    0 => String::new(),
                    _ => format!("{} read", bytes_text(bytes)),
                },
            ));
            if bytes > 0 {
                let busiest = run.history.phases.iter().max_by_key(|phase| phase.bytes);
                let (bytes, seconds) =
                    busiest.map_or((0, 0.0), |phase| (phase.bytes, phase.seconds));
                let name = busiest.map_or("", |phase| phase.name.as_str());
                tiles.push((
                    "speed",
                    per_second(bytes, seconds),
                    format!("during {name}"),
                ));
            }
        }
        if !tiles.is_empty() {
            self.out.raw("<dl class=\"tiles\">");
            for (name, value, note) in tiles {
                self.out.put(format_args!(
                    "<div><dt>{name}</dt><dd>{} <small>{}</small></dd></div>",
                    text(&value),
                    text(&note)
                ));
            }
            self.out.raw("</dl>");
        }
    }

    /// What went wrong and how far it came.
    fn trouble(&mut self, run: &Run) {
        let Some(error) = run.error.as_ref().filter(|_| run.exit_code != 0) else {
            return;
        };
        let (word, class) = verdict(run.exit_code);
        let class = if class == "warn" { "warn" } else { "alert" };
        let title = format!("{} {word}: exit code {}", run.verb, run.exit_code);
        self.section(class, &title);
        self.out.put(format_args!(
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
                came.push(of(phase.bytes, phase.of_bytes, bytes_text));
            }
            let came = match came.is_empty() {
                true => String::new(),
                false => format!(": {}", came.join(", ")),
            };
            self.out.put(format_args!(
                "<p>It ended during <b>{}</b>{}.</p>",
                text(&phase.name),
                text(&came)
            ));
        }
        self.out.raw("</section>");
    }

    fn findings(&mut self, run: &Run) {
        if run.findings.is_empty() {
            return;
        }
        self.section("alert", "What is damaged");
        self.out.raw("<ul>");
        for finding in run.findings.iter().take(LISTED) {
            self.out.put(format_args!(
                "<li><code>{}</code></li>",
                lines(finding, 400)
            ));
        }
        self.out.raw("</ul>");
        self.rest(run.findings.len(), "verify prints them all");
        self.out.raw("</section>");
    }

    /// Says how many are not listed.
    fn rest(&mut self, all: usize, place: &str) {
        if all > LISTED {
            let more = count_text((all - LISTED) as u64);
            self.says(&format!("… and {more} more: {place}."));
        }
    }

    fn unread(&mut self, dataset: &Dataset) {
        if dataset.unread.is_empty() {
            return;
        }
        let count = counted(dataset.unread.len() as u64, "index file");
        self.section("warn", &format!("{count} could not be read"));
        self.says("Their samples are in none of the figures below; the command verify says what is wrong.");
        self.out.raw("<ul>");
        for what in dataset.unread.iter().take(LISTED) {
            self.out
                .put(format_args!("<li><code>{}</code></li>", lines(what, 400)));
        }
        self.out.raw("</ul>");
        self.rest(dataset.unread.len(), "verify prints them all");
        self.out.raw("</section>");
    }

    fn changes(&mut self, run: &Run) {
        let Some(changes) = &run.changes else { return };
        self.section("", "What changed in the source");
        let mut counts = changes.counts().peekable();
        if counts.peek().is_none() {
            self.says("Nothing.");
        } else {
            self.out.table(&["", "number"]);
            for (what, count) in counts {
                self.out.row(what, &[count_text(count)]);
            }
            self.out.end_table();
        }
        if !changes.new_classes.is_empty() {
            let named: Vec<_> = changes.new_classes.iter().take(LISTED).cloned().collect();
            let more = changes.new_classes.len() > named.len();
            self.out.put(format_args!(
                "<p class=\"soft\">new: {}{}</p>",
                lines(&named.join(", "), 1000),
                if more { ", …" } else { "" }
            ));
        }
        self.out.raw("</section>");
    }

    fn run(&mut self, run: &Run) {
        self.section("", "The run");
        if run.shards_reused > 0 {
            let reused = counted(run.shards_reused, "shard");
            self.says(&format!("{reused} had been finished by an earlier run."));
        }
        self.speed(run);
        if !run.history.phases.is_empty() {
            let columns = ["phase", "time", "samples", "bytes", "shards", "speed"];
            self.out.table(&columns);
            for phase in run.history.phases.iter().take(LISTED) {
                self.out.row(
                    &phase.name,
                    &[
                        seconds_text(phase.seconds),
                        of(phase.samples, phase.of_samples, count_text),
                        of(phase.bytes, phase.of_bytes, bytes_text),
                        of(phase.shards, phase.of_shards, count_text),
                        per_second(phase.bytes, phase.seconds),
                    ],
                );
            }
            self.out.end_table();
        }
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
        if !facts.is_empty() {
            let facts = facts.join(" · ");
            self.out
                .put(format_args!("<p class=\"soft\">{}</p>", lines(&facts, 400)));
        }
        self.out.raw("</section>");
    }

    /// Speed over time, and requests made again.
    fn speed(&mut self, run: &Run) {
        let points = &run.history.timeline;
        let Some(last) = points.last().filter(|last| last.seconds > 0.0) else {
            return;
        };
        let by_bytes = last.bytes > 0;
        if !by_bytes && last.samples == 0 {
            return;
        }
        // Neighbours are drawn as one: short intervals show the clock's tick, not the run.
        let each = points.len().div_ceil(BARS).max(1);
        let mut steps = Vec::new();
        let mut before = crate::model::history::Point::default();
        let ends = points.chunks(each).filter_map(|chunk| chunk.last());
        for point in ends {
            let seconds = point.seconds - before.seconds;
            if seconds > 0.0 {
                let amount = match by_bytes {
                    true => point.bytes.saturating_sub(before.bytes),
                    false => point.samples.saturating_sub(before.samples),
                };
                let again = point.retries.saturating_sub(before.retries);
                steps.push((
                    before.seconds,
                    point.seconds,
                    amount as f64 / seconds,
                    again,
                ));
                before = *point;
            }
        }
        let whole = before.seconds.max(f64::MIN_POSITIVE);
        let most = steps.iter().map(|step| step.2).fold(0.0, f64::max);
        let (top, y) = ticks(most, |speed| match by_bytes {
            true => format!("{}/s", bytes_text(speed as u64)),
            false => format!("{}/s", count_text(speed as u64)),
        });
        let x = time_ticks(whole);
        let line: Vec<(f64, f64)> = steps
            .iter()
            .flat_map(|&(from, to, speed, _)| {
                [(from / whole, speed / top), (to / whole, speed / top)]
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
        let id = self.chart();
        chart::area(&mut self.out, id, &frame, &line, &marks);
        let most = steps.iter().map(|step| step.3).max().unwrap_or(0);
        if most > 0 {
            let (top, y) = count_ticks(most);
            let bars: Vec<_> = steps
                .iter()
                .map(|&(from, _, _, again)| {
                    let label = format!("{}: {again}", seconds_text(from));
                    let high = again as f64 / top;
                    (label, high, high)
                })
                .collect();
            let frame = Frame {
                caption: "Requests made again",
                description: &format!("{} in all", counted(last.retries, "request")),
                class: "low",
                y: &y,
                x: &x,
            };
            let id = self.chart();
            chart::bars(&mut self.out, id, &frame, &bars);
        }
    }

    fn shards(&mut self, dataset: &Dataset) {
        self.section("", "Splits and shards");
        if dataset.splits.is_empty() {
            self.says("There are none.");
        }
        let columns = [
            "split", "samples", "share", "size", "shards", "smallest", "largest",
        ];
        self.out.table(&columns);
        for split in dataset.splits.iter().take(SPLITS_LISTED) {
            let least = split.shards.iter().min().copied().unwrap_or(0);
            let most = split.shards.iter().max().copied().unwrap_or(0);
            self.out.row(
                &split.name,
                &[
                    count_text(split.samples),
                    percent(split.samples, dataset.samples),
                    bytes_text(split.bytes),
                    count_text(split.shards.len() as u64),
                    bytes_text(least),
                    bytes_text(most),
                ],
            );
        }
        self.out.end_table();
        let drawn = |split: &&Split| split.shards.len() > 1;
        for split in dataset.splits.iter().filter(drawn).take(SPLITS_DRAWN) {
            self.shard_sizes(split);
        }
        self.out.raw("</section>");
    }

    fn shard_sizes(&mut self, split: &Split) {
        let count = split.shards.len();
        let most = split.shards.iter().max().copied().unwrap_or(0);
        let least = split.shards.iter().min().copied().unwrap_or(0);
        let (top, y) = ticks(most as f64, |bytes| bytes_text(bytes as u64));
        let each = count.div_ceil(BARS);
        let bars: Vec<_> = (split.shards.chunks(each).enumerate())
            .map(|(i, chunk)| {
                let most = chunk.iter().max().copied().unwrap_or(0);
                let least = chunk.iter().min().copied().unwrap_or(0);
                let label = match each {
                    1 => format!("shard {i}: {}", bytes_text(most)),
                    _ => format!(
                        "shards {} to {}: {} to {}",
                        i * each,
                        i * each + chunk.len() - 1,
                        bytes_text(least),
                        bytes_text(most)
                    ),
                };
                (label, most as f64 / top, least as f64 / top)
            })
            .collect();
        let together = match each {
            1 => String::new(),
            _ => format!(", {each} shards a bar: the smallest of them, and paler the largest"),
        };
        let frame = Frame {
            caption: &format!("Sizes of the shards of {}{together}", split.name),
            description: &format!(
                "{} from {} to {}",
                counted(count as u64, "shard"),
                bytes_text(least),
                bytes_text(most)
            ),
            class: "low",
            y: &y,
            x: &ends("shard 0", &format!("shard {}", count - 1), true),
        };
        let id = self.chart();
        chart::bars(&mut self.out, id, &frame, &bars);
    }

    fn classes(&mut self, dataset: &Dataset) {
        if dataset.classes.is_empty() {
            return;
        }
        self.section("", "Class balance");
        let labels = &dataset.figures.labels;
        let mut sorted: Vec<(u64, usize)> = labels.iter().copied().zip(0..).collect();
        sorted.sort_by_key(|&(count, label)| (Reverse(count), label));
        let most = sorted.first().map_or(0, |first| first.0);
        let least = sorted.last().map_or(0, |last| last.0);
        let middle = sorted.get(sorted.len() / 2).map_or(0, |middle| middle.0);
        let empty = sorted.iter().filter(|(count, _)| *count == 0).count();
        let classes = classes_text(labels.len());
        self.says(&match (most, least) {
            (0, _) => format!("{classes}, and no sample of any."),
            _ if labels.len() == 1 => "There is one class.".to_owned(),
            (_, 0) => format!(
                "{} of {classes} without a sample; the largest has {}.",
                count_text(empty as u64),
                count_text(most)
            ),
            _ if most as f64 <= least as f64 * 1.05 => {
                format!("{classes} of about the same number: {} each.", counted(middle, "sample"))
            }
            _ => format!(
                "{classes}. The largest has {:.1} times as many samples as the smallest; half of them have {} or more.",
                most as f64 / least as f64,
                count_text(middle)
            ),
        });
        if dataset.figures.unlabelled > 0 {
            let count = counted(dataset.figures.unlabelled, "sample");
            self.says(&format!("{count} without a label."));
        }
        if labels.len() > CLASSES_NAMED && most == least {
            // Nothing to see.
        } else if labels.len() <= CLASSES_NAMED {
            self.class_table("", dataset, &sorted, most);
        } else {
            self.class_curve(&sorted, most);
            self.out.raw("<div class=\"two\">");
            let (first, last) = (
                &sorted[..CLASSES_OF_EACH],
                &sorted[sorted.len() - CLASSES_OF_EACH..],
            );
            self.class_table("Largest", dataset, first, most);
            let last: Vec<_> = last.iter().rev().copied().collect();
            self.class_table("Smallest", dataset, &last, most);
            self.out.raw("</div>");
        }
        self.missing(dataset);
        self.out.raw("</section>");
    }

    fn class_table(&mut self, title: &str, dataset: &Dataset, rows: &[(u64, usize)], most: u64) {
        self.out.raw("<div>");
        if !title.is_empty() {
            self.out.put(format_args!("<h3>{}</h3>", text(title)));
        }
        let several = dataset.splits.len() > 1 && rows.len() == dataset.classes.len();
        let splits = match several {
            true => &dataset.splits[..dataset.splits.len().min(SPLITS_DRAWN)],
            false => &[],
        };
        let mut columns = vec!["class", "samples"];
        columns.extend(splits.iter().map(|split| split.name.as_str()));
        columns.push("");
        self.out.table(&columns);
        for &(count, label) in rows {
            self.out.put(format_args!(
                "<tr><th scope=\"row\"><bdi>{}</bdi></th><td class=\"n\">{}</td>",
                text(&dataset.class(label)),
                count_text(count)
            ));
            for split in splits {
                let count = split.labels.get(label).copied().unwrap_or(0);
                self.out
                    .put(format_args!("<td class=\"n\">{}</td>", count_text(count)));
            }
            let share = count as f64 / most.max(1) as f64 * 100.0;
            match count {
                0 => self.out.raw("<td></td></tr>"),
                _ => self.out.put(format_args!(
                    "<td class=\"bar\"><i style=\"width:{share:.1}%\"></i></td></tr>"
                )),
            }
        }
        self.out.end_table();
        self.out.raw("</div>");
    }

    fn class_curve(&mut self, sorted: &[(u64, usize)], most: u64) {
        let (top, y) = count_ticks(most);
        let each = sorted.len().div_ceil(POINTS);
        let last = sorted.len() as f64;
        let points: Vec<(f64, f64)> = (sorted.chunks(each).enumerate())
            .flat_map(|(i, chunk)| {
                let high = chunk[0].0 as f64 / top;
                let from = i * each;
                let to = from + chunk.len();
                [(from as f64 / last, high), (to as f64 / last, high)]
            })
            .collect();
        let frame = Frame {
            caption: "Samples of each class, the largest first",
            description: &format!(
                "{}, from {} samples to {}",
                classes_text(sorted.len()),
                count_text(most),
                count_text(sorted.last().map_or(0, |last| last.0))
            ),
            class: "",
            y: &y,
            x: &ends("largest class", "smallest class", true),
        };
        let id = self.chart();
        chart::area(&mut self.out, id, &frame, &points, &[]);
    }

    /// Classes of which a split has nothing.
    fn missing(&mut self, dataset: &Dataset) {
        if dataset.splits.len() < 2 {
            return;
        }
        for split in dataset.splits.iter().take(SPLITS_DRAWN) {
            let all = &dataset.figures.labels;
            let missing: Vec<usize> = (0..all.len())
                .filter(|&label| all[label] > 0 && split.labels.get(label).is_none_or(|&n| n == 0))
                .collect();
            if missing.is_empty() {
                continue;
            }
            let named = missing.iter().take(5);
            let named: Vec<_> = named.map(|&label| dataset.class(label)).collect();
            let more = if missing.len() > named.len() {
                ", …"
            } else {
                ""
            };
            self.out.put(format_args!(
                "<p><b><bdi>{}</bdi></b> has no sample of {}: {}{more}</p>",
                text(&split.name),
                classes_text(missing.len()),
                text(&named.join(", "))
            ));
        }
    }

    fn images(&mut self, figures: &Figures) {
        let Some(cells) = figures.sides.cells(32) else {
            return;
        };
        self.section("", "Image sizes");
        let all = figures.widths.count();
        let mut formats: Vec<_> = figures.formats.iter().collect();
        formats.sort_by_key(|&(name, count)| (Reverse(count), name));
        let formats: Vec<_> = formats
            .iter()
            .map(|(name, count)| {
                format!("{name} {} ({})", count_text(**count), percent(**count, all))
            })
            .collect();
        self.says(&format!(
            "{}: {}",
            counted(all, "image"),
            formats.join(", ")
        ));
        let pixels = |side: u64| count_text(side);
        let frame = Frame {
            caption: "Width (to the right) and height (upwards) in pixels, darker where there are more images",
            description: &format!(
                "widths from {} to {}, heights from {} to {}, half of the images have at most {}",
                figures.widths.min(),
                figures.widths.max(),
                figures.heights.min(),
                figures.heights.max(),
                megapixels(figures.pixels.quantile(0.5))
            ),
            class: "tall",
            y: &powers(&cells.heights, pixels),
            x: &powers(&cells.widths, pixels),
        };
        let id = self.chart();
        chart::heat(&mut self.out, id, &frame, &cells);
        self.quantiles(&[
            ("width", &figures.widths, |n| {
                format!("{} px", count_text(n))
            }),
            ("height", &figures.heights, |n| {
                format!("{} px", count_text(n))
            }),
            ("pixels", &figures.pixels, megapixels),
        ]);
        self.extremes(
            "Most pixels",
            &figures.by_pixels.largest,
            "Fewest pixels",
            &figures.by_pixels.smallest,
        );
        self.out.raw("</section>");
    }

    /// A row for each: smallest, quantiles and largest.
    fn quantiles(&mut self, rows: &[Measured<'_>]) {
        let columns = ["", "smallest", "5 %", "median", "95 %", "largest", "mean"];
        self.out.table(&columns);
        for (name, histogram, show) in rows {
            let about = |part| match histogram.min() == histogram.max() {
                true => show(histogram.min()),
                false => show(histogram.quantile(part)),
            };
            self.out.row(
                name,
                &[
                    show(histogram.min()),
                    about(0.05),
                    about(0.5),
                    about(0.95),
                    show(histogram.max()),
                    show(histogram.mean().round() as u64),
                ],
            );
        }
        self.out.end_table();
    }

    fn extremes(&mut self, most: &str, largest: &[Extreme], least: &str, smallest: &[Extreme]) {
        self.out
            .raw("<details><summary>Samples that stand out</summary><div class=\"two\">");
        for (title, extremes) in [(most, largest), (least, smallest)] {
            self.out.put(format_args!("<div><h3>{}</h3>", text(title)));
            self.out.table(&["sample", "image", "bytes"]);
            for extreme in extremes {
                let sides = extreme.sides.map_or_else(
                    || "–".to_owned(),
                    |(width, height)| format!("{width} × {height}"),
                );
                self.out
                    .row(&extreme.key, &[sides, bytes_text(extreme.bytes)]);
            }
            self.out.end_table();
            self.out.raw("</div>");
        }
        self.out.raw("</div></details>");
    }

    fn samples(&mut self, figures: &Figures) {
        let bars = (figures.bytes.count() as f64).sqrt() * 2.0;
        let bars = figures.bytes.bars(bars.clamp(1.0, 48.0) as usize);
        if figures.bytes.count() == 0 {
            return;
        }
        self.section("", "Sample sizes");
        let most = bars.iter().map(|bar| bar.1).max().unwrap_or(0);
        let (top, y) = count_ticks(most);
        let last = (bars.last().map_or(0, |bar| bar.0), figures.bytes.max());
        let starts: Vec<u64> = bars.iter().map(|bar| bar.0).chain([last.1 + 1]).collect();
        let shapes: Vec<_> = (bars.iter().zip(&starts[1..]))
            .map(|(&(from, count), to)| {
                let label = format!(
                    "{} to {}: {}",
                    bytes_text(from),
                    bytes_text(to.saturating_sub(1)),
                    counted(count, "sample")
                );
                let high = count as f64 / top;
                (label, high, high)
            })
            .collect();
        let frame = Frame {
            caption: "Samples by their bytes, all fields together, on a logarithmic scale",
            description: &format!(
                "{} from {} to {}, half of them have at most {}",
                counted(figures.bytes.count(), "sample"),
                bytes_text(figures.bytes.min()),
                bytes_text(figures.bytes.max()),
                bytes_text(figures.bytes.quantile(0.5))
            ),
            class: "low",
            y: &y,
            x: &spread(&starts, bytes_text),
        };
        let id = self.chart();
        chart::bars(&mut self.out, id, &frame, &shapes);
        self.quantiles(&[("bytes", &figures.bytes, bytes_text)]);
        self.extremes(
            "Most bytes",
            &figures.by_bytes.largest,
            "Fewest bytes",
            &figures.by_bytes.smallest,
        );
        self.out.raw("</section>");
    }

    fn remarks(&mut self, title: &str, meaning: &str, remarks: &[Remark]) {
        if remarks.is_empty() {
            return;
        }
        let count = count_text(remarks.len() as u64);
        self.section("", &format!("{title}: {count}"));
        self.says(meaning);
        self.out.raw("<div class=\"wide\"><table><thead><tr><th scope=\"col\">file</th><th scope=\"col\">reason</th></tr></thead><tbody>");
        for remark in remarks.iter().take(LISTED) {
            self.out.put(format_args!(
                "<tr><th scope=\"row\"><bdi>{}</bdi></th><td>{}</td></tr>",
                text(&remark.path.to_string()),
                text(&remark.reason)
            ));
        }
        self.out.end_table();
        self.rest(remarks.len(), "the manifest and the summary list them all");
        self.out.raw("</section>");
    }

    fn foot(&mut self, dataset: Option<&Dataset>, run: Option<&Run>) {
        self.out.raw("</main><footer><p>");
        if let Some(dataset) = dataset {
            self.out
                .put(format_args!("plan <code>{}</code> · ", text(&dataset.plan)));
        }
        let version = run.and_then(|run| run.setup.as_ref());
        if let Some(setup) = version {
            self.out
                .put(format_args!("run by shardpack {} · ", text(&setup.version)));
        }
        self.out.raw(
            "quantiles are right to 0.5 % · this page stands alone and loads nothing</p></footer></body></html>\n",
        );
    }
}

/// Five labels at equal distances along buckets that begin at these numbers.
fn spread(starts: &[u64], name: impl Fn(u64) -> String) -> Vec<Tick> {
    let last = starts.len().saturating_sub(1);
    let labels = last.clamp(1, 4);
    (0..=labels)
        .map(|i| {
            let at = i * last / labels;
            (
                at as f64 / last.max(1) as f64,
                name(starts.get(at).copied().unwrap_or(0)),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::image::{ImageFormat, ImageInfo};
    use crate::model::history::{Changes, History, Phase, Point, Setup};
    use crate::model::record::{FieldRecord, SampleRecord};
    use crate::model::sample::SourcePath;
    use proptest::prelude::*;

    const HOSTILE: &str = "</title><script>alert(1)</script>\"' onload=x &amp; \u{202e}\0 data:text/html,x url(http://x)";

    /// Refuses a page that is not well formed, or that asks for anything.
    fn check(page: &str) {
        assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
        let (before, rest) = page.split_once("<style>").unwrap();
        let (style, after) = rest.split_once("</style>").unwrap();
        assert!(!style.contains('<') && !style.contains("@import") && !style.contains("url("));
        let page = format!("{}{after}", before.trim_start_matches("<!DOCTYPE html>\n"));
        let (mut open, mut ids): (Vec<&str>, Vec<&str>) = Default::default();
        for part in page.split('<').skip(1) {
            let (tag, text) = part.split_once('>').expect("a tag that does not end");
            assert!(
                !text.contains('>') && !text.contains(['\0', '\u{202e}']),
                "{part}"
            );
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{part}");
                continue;
            }
            let name = tag.split([' ', '/']).next().unwrap();
            let known = "html head meta title body header h1 h2 h3 bdi p code pre b span main dl dt dd div small section figure figcaption \
                svg desc line path rect g table thead tbody tr th td i ul li details summary footer";
            assert!(known.split(' ').any(|known| known == name), "{tag}");
            for word in ["href", "src", "http", "data:", "url(", "script", " on"] {
                assert!(!tag.contains(word), "{tag}");
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            assert!(!tag.contains("NaN") && !tag.contains("inf"), "{tag}");
            if let Some((_, id)) = tag.split_once(" id=\"") {
                ids.push(id.split('"').next().unwrap());
            }
            if name != "meta" && !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert_eq!(open, [] as [&str; 0]);
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "two things have one id");
    }

    fn sample(i: u64, label: u32) -> SampleRecord {
        SampleRecord {
            key: format!("{HOSTILE}{i}"),
            label,
            image: Some(ImageInfo {
                format: ImageFormat::Jpeg,
                width: (1 + i * 37 % 9000) as u32,
                height: (1 + i * 91 % 7000) as u32,
            }),
            fields: vec![FieldRecord {
                length: 1000 + i * i % 3_000_000,
                ..FieldRecord::default()
            }],
            ..SampleRecord::default()
        }
    }

    fn remark(reason: &str) -> Remark {
        Remark {
            key: String::new(),
            path: SourcePath::new(HOSTILE.repeat(9)),
            reason: reason.to_owned(),
        }
    }

    fn dataset(classes: usize, shards: usize, splits: usize) -> Dataset {
        let mut figures = Figures::new(classes);
        for i in 0..(classes as u64 * 3).min(70_000) {
            figures.add(&sample(i, (i * i % classes.max(1) as u64) as u32));
        }
        let split = |i: usize| Split {
            name: format!("{HOSTILE}{i}"),
            samples: figures.labels.iter().sum(),
            bytes: 1_000_000 * shards as u64,
            shards: (0..shards as u64)
                .map(|n| 900_000 + n * n % 100_000)
                .collect(),
            labels: figures
                .labels
                .iter()
                .map(|count| count * (i as u64 % 2))
                .collect(),
        };
        Dataset {
            destination: HOSTILE.to_owned(),
            name: HOSTILE.to_owned(),
            classes: (0..classes)
                .map(|i| format!("{i} {}", HOSTILE.repeat(3)))
                .collect(),
            splits: (0..splits).map(split).collect(),
            figures,
            skipped: vec![remark(&HOSTILE.repeat(20)); 3000],
            odd: vec![remark("grey\nand small"); 50],
            unread: vec![HOSTILE.repeat(30); 100],
            ..Dataset::default()
        }
    }

    fn run(exit_code: u8, points: usize) -> Run {
        let point = |i: usize| Point {
            seconds: i as f64 * 2.5,
            samples: (i * 50) as u64,
            bytes: (i * i * 10_000) as u64,
            retries: (i / 20) as u64,
        };
        Run {
            verb: "convert".to_owned(),
            exit_code,
            error: Some(HOSTILE.repeat(200)),
            findings: vec![HOSTILE.repeat(50); 100],
            seconds: points as f64 * 2.5,
            retries: 7,
            setup: Some(Setup::default()),
            changes: Some(Changes {
                new: points as u64,
                new_classes: vec![HOSTILE.repeat(9); 2000],
                ..Changes::default()
            }),
            history: History {
                phases: ["scan", "pack"]
                    .map(|name| Phase {
                        name: name.to_owned(),
                        seconds: 3.0,
                        of_shards: 9,
                        ..Phase::default()
                    })
                    .to_vec(),
                timeline: (0..points).map(point).collect(),
            },
            ..Run::default()
        }
    }

    #[test]
    fn a_page_is_small_and_sound_however_large_the_dataset_and_hostile_its_names() {
        let whole = page(Some(&dataset(21_841, 10_000, 50)), Some(&run(4, 241)));
        check(&whole);
        assert!(whole.len() < 500_000, "{} bytes", whole.len());
        assert!(whole.contains("21,841 classes") && whole.contains("10,000"));
        assert!(whole.contains("exit code 4"));
        // As many classes and shards as are shown one by one.
        let whole = page(Some(&dataset(40, 120, 4)), Some(&run(75, 2)));
        check(&whole);
        assert!(whole.len() < 500_000, "{} bytes", whole.len());
    }

    #[test]
    fn there_is_a_page_about_next_to_nothing() {
        for (dataset, run) in [
            (None, None),
            (None, Some(Run::default())),
            (Some(Dataset::default()), None),
            (Some(dataset(0, 0, 1)), Some(run(1, 0))),
            (Some(dataset(1, 1, 1)), Some(run(0, 1))),
            (Some(dataset(2, 2, 2)), Some(run(143, 3))),
        ] {
            check(&page(dataset.as_ref(), run.as_ref()));
        }
    }

    #[test]
    fn what_a_page_says_is_what_it_was_given() {
        let mut figures = Figures::new(3);
        for (label, count) in [(0, 30), (1, 10), (2, 0)] {
            (0..count).for_each(|i| figures.add(&sample(i, label)));
        }
        let splits = [("train", [25, 10, 0]), ("val", [5, 0, 0])].map(|(name, labels)| Split {
            name: name.to_owned(),
            samples: labels.iter().sum(),
            bytes: 5_000_000,
            shards: vec![2_500_000; 2],
            labels: labels.to_vec(),
        });
        let dataset = Dataset {
            name: "pets".to_owned(),
            samples: 40,
            classes: ["n1", "n2", "n3"].map(str::to_owned).to_vec(),
            texts: ["cat", "dog", "emu"].map(str::to_owned).to_vec(),
            splits: splits.to_vec(),
            figures,
            ..Dataset::default()
        };
        let page = page(Some(&dataset), None);
        for part in [
            "<h1><bdi>pets</bdi></h1>",
            "1 of 3 classes without a sample; the largest has 30.",
            "<bdi>n1 (cat)</bdi></th><td class=\"n\">30</td><td class=\"n\">25</td><td class=\"n\">5</td>",
            "<b><bdi>val</bdi></b> has no sample of 1 class: n2 (dog)</p>",
            "<td class=\"n\">87.5 %</td>",
            "40 images: jpeg 40 (100.0 %)",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        check(&page);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_page_of_any_numbers_is_sound(
            classes in 0..60usize, shards in 0..300usize, splits in 0..6usize, code in any::<u8>(),
            points in proptest::collection::vec((0.0..1e9f64, any::<u64>(), any::<u64>(), any::<u64>()), 0..241), error in any::<String>(),
        ) {
            let dataset = dataset(classes, shards, splits);
            let point = |&(seconds, samples, bytes, retries): &(f64, u64, u64, u64)| Point { seconds, samples, bytes, retries };
            let history = History { timeline: points.iter().map(point).collect(), ..run(0, 0).history };
            let run = Run { error: Some(error), history, ..run(code, 0) };
            check(&page(Some(&dataset), Some(&run)));
        }
    }
}
