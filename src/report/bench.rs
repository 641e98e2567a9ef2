//! A page about how fast a source is read as files and as shards: before and after side by side, rates over readers, and how long reads took.

use crate::base::units::{bytes_text, count_text, counted, seconds_text};
use crate::report::axis::{Decades, count_ticks, ends};
use crate::report::chart::{Bar, Frame, Line, Tick, draw_bars, draw_lines};
use crate::report::html::{lines, text};
use crate::report::page::Page;
use crate::report::sections::head::{Tile, close, open, tiles};
use crate::report::sections::usage::pre;
use crate::upkeep::bench::{
    Bench, Epoch, Feeding, Readers, Training, Waiting, best, fastest, rate_text, times,
};

/// Characters of what is said of the whole at most.
const SAID: usize = 1000;
/// Bars of a distribution of times at most.
const BARS: usize = 40;
/// Times are gathered in so many steps for each doubling.
const STEPS: f64 = 4.0;

/// The page.
pub(crate) fn page(bench: &Bench) -> String {
    let mut page = Page::default();
    open(&mut page, &bench.source);
    badges(&mut page, bench);
    page.out.put(format_args!(
        "<p class=\"soft\">{}, {} · target {} images/s</p></header><main>",
        counted(bench.images, "image"),
        bytes_text(bench.bytes),
        text(&rate_text(bench.target))
    ));
    tiles(&mut page, figures(bench));
    if let Some(verdict) = &bench.verdict {
        page.section("", "What it means");
        page.out
            .put(format_args!("<p>{}</p>", lines(&verdict.text, SAID)));
        page.out.raw("</section>");
    }
    before_and_after(&mut page, bench);
    rates(&mut page, bench);
    waits(&mut page, bench);
    all(&mut page, bench);
    how(&mut page, bench);
    page.out.raw("</main><footer><p>");
    page.out.put(format_args!(
        "{} read in {} · measured by shardpack {} · ",
        bytes_text(bench.read_bytes),
        text(&seconds_text(bench.seconds)),
        env!("CARGO_PKG_VERSION")
    ));
    close(&mut page);
    page.out.into_string()
}

fn badges(page: &mut Page, bench: &Bench) {
    let Some(verdict) = &bench.verdict else {
        return;
    };
    for (name, feeding) in [("files", verdict.files), ("shards", verdict.shards)] {
        let (class, word) = match feeding {
            Feeding::Starved => (" bad", "starve"),
            Feeding::Enough => ("", "feed"),
        };
        page.out.put(format_args!(
            "<span class=\"badge{class}\">{name} {word} the GPU</span>"
        ));
    }
}

fn figures(bench: &Bench) -> Vec<Tile> {
    let side = |rates: &[Readers]| {
        let (readers, rate) = best(rates);
        let note = format!("images/s with {}", counted(readers as u64, "reader"));
        (rate_text(rate), note)
    };
    let (files, files_note) = side(&bench.files);
    let (shards, shards_note) = side(&bench.shards);
    let mut all = vec![
        Tile::new("files", files, files_note),
        Tile::new("shards", shards, shards_note),
    ];
    if let Some(verdict) = &bench.verdict {
        let note = "shards to files, each at its best".to_owned();
        all.push(Tile::new("gain", times(verdict.gain), note));
    }
    if let Some(decode) = &bench.decode {
        let value = rate_text(decode.images_per_second_per_core);
        all.push(Tile::new("decoding", value, "images/s a core".to_owned()));
    }
    all
}

/// The two ways side by side, in what matters.
fn before_and_after(page: &mut Page, bench: &Bench) {
    page.section("", "Before and after");
    page.out.table(&["", "as files", "as shards"]);
    let both = [&bench.files, &bench.shards].map(|rates| fastest(rates));
    let mut row = |name: &str, of: &dyn Fn(&Readers) -> String| {
        let cells = both.map(|at| at.map_or("–".to_owned(), of));
        page.out.row(name, &cells);
    };
    row("images a second", &|at| {
        rate_text(at.rate.images_per_second)
    });
    row("MB a second", &|at| {
        format!("{:.1}", at.rate.megabytes_per_second)
    });
    row("readers", &|at| at.readers.to_string());
    row("an epoch takes", &|at| match at.rate.images_per_second {
        rate if rate > 0.0 => seconds_text(bench.images as f64 / rate),
        _ => "–".to_owned(),
    });
    row("processor time an image", &|at| {
        format!("{:.2} ms", at.rate.processor_ms_per_image)
    });
    if let Some(Training {
        files,
        shards,
        batch,
        images_per_second,
        ..
    }) = &bench.training
    {
        let name = format!(
            "a GPU at {}/s, batches of {}",
            rate_text(*images_per_second),
            count_text(*batch)
        );
        let busy = |waiting: &Waiting| format!("{:.0} % busy", waiting.busy * 100.0);
        page.out.row(&name, &[busy(files), busy(shards)]);
    }
    if let (Some(files), Some(shards)) = (&bench.epoch_files, &bench.epoch_shards) {
        let cell = |epoch: &Epoch| match epoch.dollars {
            Some(dollars) => format!("{} (${dollars:.4})", count_text(epoch.requests)),
            None => count_text(epoch.requests),
        };
        page.out
            .row("requests of an epoch", &[cell(files), cell(shards)]);
    }
    page.out.end_table();
    page.out.raw("</section>");
}

/// Images a second over the number of readers.
fn rates(page: &mut Page, bench: &Bench) {
    page.section("", "Images a second over readers");
    let series = [
        ("files", "l", "", &bench.files),
        ("shards", "l two", "two", &bench.shards),
        (
            "samples of shards, in random order",
            "l three",
            "three",
            &bench.random,
        ),
    ];
    let all = series.iter().flat_map(|(_, _, _, rates)| rates.iter());
    let numbers = all.map(|at| at.rate.images_per_second);
    let axis = Decades::of(numbers.chain([bench.target]));
    let count = bench.files.len();
    let place = |i: usize| i as f64 / count.saturating_sub(1).max(1) as f64;
    let line = |(_, class, _, rates): &(&str, &'static str, &str, &Vec<Readers>)| Line {
        class,
        points: (0..)
            .zip(rates.iter())
            .map(|(i, at)| (place(i), axis.place(at.rate.images_per_second)))
            .collect(),
    };
    let drawn: Vec<Line> = series
        .iter()
        .map(line)
        .filter(|line| !line.points.is_empty())
        .collect();
    let x: Vec<Tick> = (0..)
        .zip(&bench.files)
        .map(|(i, at)| (place(i), at.readers.to_string()))
        .collect();
    let y = axis.ticks(|number| match number < 1.0 {
        true => format!("{number}"),
        false => count_text(number as u64),
    });
    let frame = Frame {
        caption: "Images a second (upwards, each line ten times the one below) over the number of readers; dashed is the target",
        description: &format!(
            "files reach {}, shards {}, the target is {}",
            rate_text(best(&bench.files).1),
            rate_text(best(&bench.shards).1),
            rate_text(bench.target)
        ),
        class: "tall",
        y: &y,
        x: &x,
    };
    let id = page.chart();
    draw_lines(&mut page.out, id, &frame, &drawn, axis.place(bench.target));
    page.out.raw("<ul class=\"legend\">");
    for (name, _, class, rates) in &series {
        if !rates.is_empty() {
            page.out
                .put(format_args!("<li><i class=\"{class}\"></i>{name}</li>"));
        }
    }
    page.out
        .raw("<li><i class=\"t\"></i>target</li></ul></section>");
}

/// How long reads took.
fn waits(page: &mut Page, bench: &Bench) {
    page.section("", "How long a read took");
    page.says(
        "From asking until a file or sample is there, or the first byte of a shard; each bar to the right is 1.2 times the time.",
    );
    page.out.raw("<div class=\"two\">");
    for (name, rates) in [
        ("files", &bench.files),
        ("samples of shards", &bench.random),
        ("beginnings of shards", &bench.shards),
    ] {
        if let Some(at) = fastest(rates) {
            distribution(page, name, at);
        }
    }
    page.out.raw("</div></section>");
}

fn distribution(page: &mut Page, name: &str, at: &Readers) {
    let waits = &at.rate.waits_ms;
    let step = |ms: f32| (f64::from(ms.max(0.001)).log2() * STEPS).floor() as i64;
    let (Some(&least), Some(&most)) = (waits.first(), waits.last()) else {
        return;
    };
    let first = step(least);
    let steps = ((step(most) - first) as usize + 1).min(BARS);
    let mut counts = vec![0u64; steps];
    for &wait in waits {
        let number = (step(wait) - first) as usize;
        counts[number.min(steps - 1)] += 1;
    }
    let begins = |i: usize| 2f64.powf((first + i as i64) as f64 / STEPS);
    let (top, y) = count_ticks(counts.iter().copied().max().unwrap_or(0));
    let bars: Vec<Bar> = (0..)
        .zip(&counts)
        .map(|(i, &count)| {
            let label = format!("from {:.3} ms: {}", begins(i), count_text(count));
            Bar::of(label, count as f64 / top)
        })
        .collect();
    let named = |ms: f64| match ms < 1.0 {
        true => format!("{:.0} µs", ms * 1e3),
        false => format!("{ms:.1} ms"),
    };
    let x = ends(&named(begins(0)), &named(begins(steps)), true);
    let times = &at.rate.first_byte_ms;
    let frame = Frame {
        caption: &format!("{name}, {}", counted(at.readers as u64, "reader")),
        description: &format!(
            "half took {:.2} ms at most, 95 in 100 {:.2} ms, 99 in 100 {:.2} ms",
            times.p50, times.p95, times.p99
        ),
        class: "low",
        y: &y,
        x: &x,
    };
    let id = page.chart();
    draw_bars(&mut page.out, id, &frame, &bars);
}

/// Every measurement.
fn all(page: &mut Page, bench: &Bench) {
    page.section("", "Every measurement");
    page.out.table(&[
        "",
        "readers",
        "images/s",
        "MB/s",
        "p50",
        "p95",
        "p99",
        "requests an image",
        "processor",
        "images read",
    ]);
    for (name, rates) in [
        ("files, random order", &bench.files),
        ("files, as listed", &bench.files_in_order),
        ("shards", &bench.shards),
        ("samples of shards", &bench.random),
        ("blocks of samples", &bench.blocks),
    ] {
        for at in rates {
            let rate = &at.rate;
            let ms = |ms: f64| format!("{ms:.1} ms");
            let requests = rate.requests_per_image;
            page.out.row(
                name,
                &[
                    at.readers.to_string(),
                    rate_text(rate.images_per_second),
                    format!("{:.1}", rate.megabytes_per_second),
                    ms(rate.first_byte_ms.p50),
                    ms(rate.first_byte_ms.p95),
                    ms(rate.first_byte_ms.p99),
                    requests.map_or("–".to_owned(), |each| format!("{each:.3}")),
                    format!("{:.2} ms", rate.processor_ms_per_image),
                    count_text(rate.images),
                ],
            );
        }
    }
    page.out.end_table();
    page.says(&format!(
        "Listing: {} in {}, {} a second.",
        counted(bench.listing.files, "file"),
        seconds_text(bench.listing.seconds),
        rate_text(bench.listing.files_per_second)
    ));
    page.out.raw("</section>");
}

/// What was compared, and how to do it again.
fn how(page: &mut Page, bench: &Bench) {
    page.section("", "How it was measured");
    page.says(&format!(
        "Files of {}; shards of {}, {} each. Each reader has one read under way.",
        bench.source,
        bench.dataset,
        bytes_text(bench.shard_bytes)
    ));
    let memory = match &bench.cold {
        _ if bench.has_requests => {
            "Nothing is kept on this machine; the server may keep what was read before.".to_owned()
        }
        None => "Files and shards may have been in this machine's memory, where a first epoch would not find them.".to_owned(),
        Some(cold) => format!(
            "{} of {} were forgotten by this machine before they were read.",
            count_text(cold.gone),
            counted(cold.gone + cold.still + cold.unknown + cold.not_cached, "file")
        ),
    };
    page.says(&memory);
    for line in &bench.left_out {
        page.says(&format!("Not measured: {line}."));
    }
    if !bench.command.is_empty() {
        pre(page, &bench.command);
    }
    page.out.raw("</section>");
}
