//! What a plan will cost: time, requests, dollars, and room.

use std::collections::HashMap;
use std::time::Instant;

use crate::base::error::Result;
use crate::base::units::{STREAM_ABOVE_BYTES, bytes_text, count_text, counted, seconds_text};
use crate::cli::settings::{Estimate, Price, Running};
use crate::model::recipe::Compression;
use crate::model::sample::Field;
use crate::plan::draft::Draft;
use crate::plan::value::Plan;
use crate::state::refusals::refuse_without_room;
use crate::store::{Sink, Source, at_once, in_pieces};

/// Speeds that an estimate assumes where none is measured: a local disk, and one request of an object store.
const ASSUMED_BYTES_PER_SECOND: f64 = 500e6;
const ASSUMED_LATENCY_SECONDS: f64 = 0.1;
/// Objects that a plan is stored and published by, besides those of each shard.
const STATE_OBJECTS: u64 = 6;

/// Requests by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    get: u64,
    put: u64,
    list: u64,
}

/// The time, the requests and the room that the work will take.
pub(super) fn cost(
    draft: &Draft,
    source: &dyn Source,
    sink: &dyn Sink,
    estimate: &Estimate,
    running: &Running,
) -> Result<String> {
    let plan = &draft.plan;
    let source_bytes: u64 = plan.shards.iter().map(|shard| shard.source_bytes).sum();
    let files = plan.samples() + draft.notes().sidecars.values().sum::<u64>();
    let mut out = format!(
        "time      about {} at 500 MB/s; {} if every open takes 100 ms ({} at once); `--probe 200` measures it\n",
        seconds_text((source_bytes + plan.bytes()) as f64 / ASSUMED_BYTES_PER_SECOND),
        seconds_text(files as f64 * ASSUMED_LATENCY_SECONDS / source.reads() as f64),
        counted(source.reads() as u64, "read"),
    );
    if let Some(wanted) = estimate.probe {
        out.push_str(&probe(draft, source, wanted, files, source_bytes, running)?);
    }
    let requests = requests(draft, source, sink);
    out.push_str(&match requests.get + requests.put + requests.list {
        0 => "requests  none: neither side is in an object store\n".to_owned(),
        _ => format!(
            "requests  {} GET, {} LIST, {} PUT\n",
            count_text(requests.get),
            count_text(requests.list),
            count_text(requests.put)
        ),
    });
    if let Some(price) = &estimate.price {
        out.push_str(&dollars(requests, price, plan.bytes()));
    }
    if let Some(free) = sink.free_bytes() {
        let (needed, free) = (bytes_text(plan.bytes()), bytes_text(free));
        out.push_str(&format!("space     {needed} to be written, {free} free\n"));
    }
    Ok(out)
}

/// The files of a plan, which are read one by one.
fn files(draft: &Draft) -> impl Iterator<Item = Field> + '_ {
    let samples = (0..draft.plan.shards.len()).flat_map(|shard| draft.samples(shard));
    samples.flat_map(|sample| {
        sample
            .fields
            .into_iter()
            .filter(|field| field.content.is_none())
    })
}

/// The requests of listing, reading and writing, on the sides that count them.
fn requests(draft: &Draft, source: &dyn Source, sink: &dyn Sink) -> Requests {
    let mut requests = Requests::default();
    if source.requests_to_read(1) > 0 {
        let mut directories: HashMap<Vec<u8>, u64> = HashMap::new();
        for field in files(draft) {
            requests.get += source.requests_to_read(field.size);
            let path = field.path.to_string().into_bytes();
            let end = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
            *directories.entry(path[..end].to_vec()).or_default() += 1;
        }
        let lists = directories
            .values()
            .map(|&files| source.requests_to_list(files));
        // The root, which holds directories only.
        requests.list = lists.sum::<u64>() + u64::from(!directories.contains_key(&b""[..]));
    }
    if sink.requests_to_write(1) > 0 {
        let shards = draft.plan.shards.iter();
        // Each has an index.
        let writes = shards.map(|shard| sink.requests_to_write(shard.bytes) + 1);
        requests.put = writes.sum::<u64>() + STATE_OBJECTS;
    }
    requests
}

fn dollars(requests: Requests, price: &Price, bytes: u64) -> String {
    let of = |count: u64, each: f64| count as f64 * each;
    let once =
        of(requests.get, price.get) + of(requests.put, price.put) + of(requests.list, price.list);
    let mut text = format!("price     ${once:.4} for the requests");
    if price.gigabyte > 0.0 {
        let month = bytes as f64 / 1e9 * price.gigabyte;
        text.push_str(&format!(", ${month:.4} a month for {}", bytes_text(bytes)));
    }
    text.push('\n');
    text
}

/// Reads some files, evenly spread, as many at once as a run does, and says how long all would take.
fn probe(
    draft: &Draft,
    source: &dyn Source,
    wanted: u64,
    all: u64,
    all_bytes: u64,
    running: &Running,
) -> Result<String> {
    let step = usize::try_from(all.div_ceil(wanted))
        .unwrap_or(usize::MAX)
        .max(1);
    let tried: Vec<Field> = files(draft).step_by(step).collect();
    let bytes: u64 = tried.iter().map(|field| field.size).sum();
    running
        .counters
        .begin("probe", tried.len() as u64, bytes, 0);
    let buffers = usize::try_from(running.memory / 4 / STREAM_ABOVE_BYTES).unwrap_or(usize::MAX);
    let started = Instant::now();
    at_once(source.reads().min(buffers).max(1), &tried, |field| {
        running.stop.check()?;
        in_pieces(source, field, &mut |_| ())?;
        running.counters.sample(field.size);
        Ok(())
    })?;
    let seconds = started.elapsed().as_secs_f64();
    // Whichever is the narrower: opening files, or their bytes.
    let share = |part: u64, of: u64| of as f64 / part.max(1) as f64;
    let whole = seconds * share(tried.len() as u64, all).max(share(bytes, all_bytes));
    Ok(format!(
        "probe     {}, {} in {}: to read all takes about {}\n",
        counted(tried.len() as u64, "file"),
        bytes_text(bytes),
        seconds_text(seconds),
        seconds_text(whole)
    ))
}

/// Refuses to write these shards of a plan where the destination says that it has no room for them.
pub(super) fn check_room(sink: &dyn Sink, plan: &Plan, shards: &[usize]) -> Result<()> {
    // What compression leaves of them nobody knows.
    if plan.recipe.compress != Compression::None {
        return Ok(());
    }
    let needed: u64 = shards.iter().map(|&shard| plan.shards[shard].bytes).sum();
    refuse_without_room(sink, needed)
}
