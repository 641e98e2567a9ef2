//! Top and bottom of a page: what it is about, and the numbers that matter most.

use sha2::{Digest as _, Sha256};

use crate::base::units::{bytes_text, count_text, counted, seconds_text};
use crate::report::amounts::per_second;
use crate::report::dataset::Dataset;
use crate::report::html::{base64, lines, text};
use crate::report::page::Page;
use crate::report::run::Run;
use crate::report::sections::outcome::verdict;

const STYLE: &str = include_str!("../page.css");
/// Sorts and searches tables, and asks for nothing.
pub(in crate::report) const SCRIPT: &str = include_str!("../page.js");

/// What a browser lets the page do: its own style, script and pictures.
fn policy() -> String {
    let script = base64(&Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{script}'"
    )
}

/// One number of the first row of a page.
pub(in crate::report) struct Tile {
    name: &'static str,
    value: String,
    /// What is written small beside it; may be empty.
    note: String,
}

impl Tile {
    pub(in crate::report) fn new(name: &'static str, value: String, note: String) -> Self {
        Self { name, value, note }
    }
}

/// Begins a page of this name, up to its first heading.
pub(in crate::report) fn open(page: &mut Page, name: &str) {
    page.out.put(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\"><meta http-equiv=\"Content-Security-Policy\" content=\"{}\"><title>{} – shardpack report</title><style>{STYLE}</style></head><body><header><h1><bdi>{}</bdi></h1>",
        policy(),
        text(name),
        text(name)
    ));
}

/// Writes the numbers that matter most.
pub(in crate::report) fn tiles(page: &mut Page, tiles: Vec<Tile>) {
    if tiles.is_empty() {
        return;
    }
    page.out.raw("<dl class=\"tiles\">");
    for Tile { name, value, note } in tiles {
        page.out.put(format_args!(
            "<div><dt>{name}</dt><dd>{} <small>{}</small></dd></div>",
            text(&value),
            text(&note)
        ));
    }
    page.out.raw("</dl>");
}

/// Ends a page after what is said at its foot.
pub(in crate::report) fn close(page: &mut Page) {
    page.out
        .raw("this page stands alone and loads nothing</p></footer><script>");
    page.out.raw(SCRIPT);
    page.out.raw("</script></body></html>\n");
}

/// Begins the page: its title, and the tiles.
pub(in crate::report) fn begin(page: &mut Page, dataset: Option<&Dataset>, run: Option<&Run>) {
    let place = dataset
        .map(|dataset| dataset.destination.clone())
        .or_else(|| run.and_then(|run| run.destination.clone()))
        .unwrap_or_default();
    let name = dataset.map_or_else(|| place.clone(), |dataset| dataset.name.clone());
    let name = match (name.as_str(), run) {
        ("", Some(run)) => run.verb.clone(),
        _ => name,
    };
    open(page, &name);
    if let Some(run) = run {
        let (word, class) = verdict(run.exit_code);
        page.out.put(format_args!(
            "<span class=\"badge {class}\">{} {word}</span>",
            text(&run.verb)
        ));
    }
    if let Some(dataset) = dataset {
        page.out.put(format_args!(
            "<span class=\"badge\">published, snapshot {}</span>",
            dataset.snapshot
        ));
    }
    page.out.raw("<p class=\"soft\">");
    if !place.is_empty() && place != name {
        page.out.put(format_args!("<code>{}</code> ", text(&place)));
    }
    if let Some(run) = run.filter(|run| !run.started_at.is_empty()) {
        page.out
            .put(format_args!(" · run of {}", text(&run.started_at)));
    }
    page.out.raw("</p>");
    if let Some(source) = run.and_then(|run| run.source.as_ref()) {
        let said: Vec<String> = source
            .lines()
            .into_iter()
            .map(|(heading, text)| format!("{heading}: {text}"))
            .collect();
        page.out.put(format_args!(
            "<p class=\"soft\">{}</p>",
            lines(&said.join(" · "), 600)
        ));
    }
    page.out.raw("</header><main>");
    let mut all = Vec::new();
    if let Some(dataset) = dataset {
        all.extend(dataset_tiles(dataset));
    } else if let Some(run) = run.filter(|run| run.samples + run.shards > 0) {
        let (samples, shards) = (count_text(run.samples), count_text(run.shards));
        all.push(Tile::new("samples", samples, String::new()));
        all.push(Tile::new("shards", shards, bytes_text(run.bytes)));
    }
    all.extend(run.into_iter().flat_map(run_tiles));
    tiles(page, all);
}

fn dataset_tiles(dataset: &Dataset) -> [Tile; 4] {
    let splits = dataset.splits.len() as u64;
    let shards = dataset.shards();
    let mean = dataset.bytes as f64 / (shards as f64).max(1.0);
    let each = format!("{} each", bytes_text(mean as u64));
    let classes = count_text(dataset.classes.len() as u64);
    [
        Tile::new(
            "samples",
            count_text(dataset.samples),
            counted(splits, "split"),
        ),
        Tile::new("classes", classes, String::new()),
        Tile::new("size", bytes_text(dataset.bytes), dataset.format.clone()),
        Tile::new("shards", count_text(shards as u64), each),
    ]
}

fn run_tiles(run: &Run) -> Vec<Tile> {
    let bytes = run.history.timeline.last().map_or(0, |last| last.bytes);
    let read = match bytes {
        0 => String::new(),
        _ => format!("{} read", bytes_text(bytes)),
    };
    let mut tiles = vec![Tile::new("time", seconds_text(run.seconds), read)];
    if bytes > 0 {
        let busiest = run.history.phases.iter().max_by_key(|phase| phase.bytes);
        let (bytes, seconds) = busiest.map_or((0, 0.0), |phase| (phase.bytes, phase.seconds));
        let name = busiest.map_or("", |phase| phase.name.as_str());
        let speed = per_second(bytes, seconds);
        tiles.push(Tile::new("speed", speed, format!("during {name}")));
    }
    tiles
}

/// Ends the page.
pub(in crate::report) fn end(page: &mut Page, dataset: Option<&Dataset>, run: Option<&Run>) {
    page.out.raw("</main><footer><p>");
    if let Some(dataset) = dataset {
        page.out
            .put(format_args!("plan <code>{}</code> · ", text(&dataset.plan)));
    }
    let version = run.and_then(|run| run.setup.as_ref());
    if let Some(setup) = version {
        page.out
            .put(format_args!("run by shardpack {} · ", text(&setup.version)));
    }
    page.out.raw("quantiles are right to 0.5 % · ");
    close(page);
}
