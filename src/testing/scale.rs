//! `make scale`: what planning, packing and publishing cost where there are millions of samples and thousands of shards.
//!
//! Nothing is simulated but the images: the listing is made in memory, shards are files of the right length without content, and
//! their indexes are real. Each step is a process of its own, so that its memory is its own.
//!
//! | variable | meaning |
//! |---|---|
//! | `SCALE_SAMPLES` | samples (10000000) |
//! | `SCALE_SHARDS` | shards (10000) |
//! | `SCALE_WORKERS` | workers that share them (1000) |
//! | `SCALE_DIR` | where the dataset is made, and removed (`target/scale`); needs 2 GB |

use std::env;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::base::error::Result;
use crate::base::signal::Stop;
use crate::cli::settings::rules_of;
use crate::grow::generation::{NextGeneration, Published, Reading, grow};
use crate::grow::options::Growth;
use crate::model::counters::Counters;
use crate::model::listing::{Dir, Listing};
use crate::model::problems::Problems;
use crate::model::recipe::{Cut, Recipe};
use crate::model::record::{FieldRecord, NO_LABEL, SampleRecord, ShardRecord, index_name};
use crate::model::sample::Version;
use crate::plan::order::Ordered;
use crate::plan::worker::Worker;
use crate::publish::commit::publish;
use crate::source::samples::Scan;
use crate::source::scan::scan;
use crate::state::claims::load;
use crate::state::done::done;
use crate::state::published;
use crate::state::samples::samples;
use crate::state::storing::store as store_plan;
use crate::store::{self, Access, Sink};
use crate::upkeep::duplicates::duplicates;
use crate::upkeep::places::Shelf;

type Done = std::result::Result<(), Box<dyn Error>>;

const CLASSES: u64 = 1000;
const IMAGE_BYTES: u64 = 110_000;
const MEMORY: u64 = 1 << 30;
/// Says to a process which step is its.
const STEP: &str = "SCALE_STEP";

#[test]
#[ignore = "takes minutes and gigabytes: make scale"]
fn what_millions_of_samples_cost() {
    let done = match env::var(STEP).as_deref() {
        Ok("plan") => plan(),
        Ok("worker") => worker(),
        Ok("records") => records(),
        Ok("publish") => publish_all(),
        Ok("twice") => look_for_duplicates(),
        Ok("grow") => grow_by_some(),
        _ => all(),
    };
    done.unwrap();
}

fn number(name: &str, usual: u64) -> u64 {
    env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
}

fn sample_count() -> u64 {
    number("SCALE_SAMPLES", 10_000_000)
}

fn directory() -> PathBuf {
    env::var_os("SCALE_DIR").map_or_else(|| PathBuf::from("target/scale"), PathBuf::from)
}

fn all() -> Done {
    let _ = fs::remove_dir_all(directory());
    println!("samples                 {}", sample_count());
    for step in ["plan", "worker", "records", "publish", "twice", "grow"] {
        let status = Command::new(env::current_exe()?)
            .args(env::args_os().skip(1))
            .env(STEP, step)
            .status()?;
        if !status.success() {
            return Err(format!("{step}: {status}").into());
        }
    }
    Ok(fs::remove_dir_all(directory())?)
}

/// What a listing of so many images looks like, evenly over the classes.
fn listing(samples: u64) -> Result<Listing> {
    let mut dirs = vec![Dir::new("")];
    for class in 0..CLASSES {
        let mut dir = Dir::new(format!("n{:08}", 1_440_764 + class * 9973));
        for i in (class..samples).step_by(CLASSES as usize) {
            let name = format!("n{:08}_{}.JPEG", 1_440_764 + class * 9973, i / CLASSES);
            let version = Version::Mtime(1_325_376_000_000_000_000 + i as i64);
            let size = IMAGE_BYTES / 2 + i * 7919 % IMAGE_BYTES;
            assert!(dir.push(name.as_bytes(), size, &version));
        }
        dirs.push(dir);
    }
    Ok(Listing {
        dirs,
        ..Listing::default()
    })
}

fn recipe() -> Recipe {
    Recipe {
        name: "scale".to_owned(),
        cut: Cut::Shards(number("SCALE_SHARDS", 10_000)),
        ..Recipe::default()
    }
}

fn scanned(samples: u64) -> Result<Scan> {
    scan(listing(samples)?, &rules_of(&recipe(), 1 << 30)?, "scale")
}

fn sink() -> Result<Box<dyn Sink>> {
    let access = Access {
        reads: Some(16),
        open_files: 256,
        memory: MEMORY,
        ..Access::default()
    };
    store::sink(&directory().to_string_lossy(), &access)
}

fn tell(what: &str, value: impl fmt::Display) {
    println!("{what:23} {value}");
}

fn timed<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    let made = work()?;
    tell(what, format!("{:.2} s", begun.elapsed().as_secs_f64()));
    Ok(made)
}

/// The most memory that this process had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Bytes that this process asked to read from files.
fn bytes_read() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn size_of(name: &str) -> u64 {
    fs::metadata(directory().join(name)).map_or(0, |meta| meta.len())
}

fn plan() -> Done {
    let listing = timed("listing, made", || listing(sample_count()))?;
    let held = peak();
    let rules = rules_of(&recipe(), 1 << 30)?;
    let scan = timed("scan", || scan(listing, &rules, "scale"))?;
    let source = timed("fingerprint", || Ok(scan.fingerprint(&[])))?;
    let ordered = timed("order", || Ordered::new(scan, recipe(), Vec::new(), source))?;
    let draft = timed("cut", || ordered.cut())?;
    let stored = timed("store the plan", || store_plan(sink()?.as_ref(), &draft))?;
    let per_sample = |bytes: u64| format!("{:.0} B a sample", bytes as f64 / sample_count() as f64);
    tell("memory of the listing", per_sample(held));
    tell("memory at most", per_sample(peak()));
    for name in ["plan.json", "samples.jsonl.zst"] {
        let path = format!("_shardpack/plan/{}/{name}", stored.id);
        tell(name, format!("{} B", size_of(&path)));
    }
    Ok(())
}

fn worker() -> Done {
    let sink = sink()?;
    let sink = sink.as_ref();
    let before = bytes_read();
    let of = number("SCALE_WORKERS", 1000) as usize;
    let (shards, listed) = timed("one worker's part", || {
        let stored = load(sink)?;
        let part = stored.plan.part(Worker { number: of / 2, of });
        done(sink, &stored, &part)?;
        let mut listed = 0;
        for &shard in &part {
            listed += samples(sink, &stored, shard)?.len();
        }
        Ok((part.len(), listed))
    })?;
    tell("its shards, samples", format!("{shards}, {listed}"));
    tell("bytes of plan it reads", bytes_read() - before);
    tell("its memory at most", format!("{} MiB", peak() >> 20));
    Ok(())
}

/// Makes shards without content, and the indexes that they would have.
fn records() -> Done {
    let sink = sink()?;
    let stored = load(sink.as_ref())?;
    fs::create_dir_all(directory().join("data"))?;
    fs::create_dir_all(directory().join("index"))?;
    let shards: Vec<usize> = (0..stored.plan.shards.len()).collect();
    timed("indexes, made", || {
        store::at_once(2, &shards, |&shard| {
            let planned = &stored.plan.shards[shard];
            let mut record = ShardRecord {
                split: planned.split.clone(),
                plan: stored.digest.clone(),
                bytes: planned.bytes,
                ..ShardRecord::empty(&planned.name)
            };
            let mut offset = 0;
            for sample in samples(sink.as_ref(), &stored, shard)? {
                let mut row = SampleRecord {
                    source_path: sample.path(),
                    key: sample.key,
                    label: sample.label.unwrap_or(NO_LABEL),
                    offset,
                    ..SampleRecord::default()
                };
                for field in sample.fields {
                    offset += 512;
                    row.fields.push(FieldRecord {
                        name: field.name.to_string(),
                        offset,
                        length: field.size,
                        // As of images that are all different.
                        crc32: crc32fast::hash(row.key.as_bytes()),
                    });
                    offset += field.size.div_ceil(512) * 512;
                }
                row.length = offset - row.offset;
                record.samples.push(row);
            }
            let written = |name: &str| {
                let path = directory().join(name);
                File::create(path).map_err(|error| crate::base::error::Error::io(name, error))
            };
            let length = |error| crate::base::error::Error::io(&planned.name, error);
            written(&planned.name)?
                .set_len(planned.bytes)
                .map_err(length)?;
            let index = record.encode(&stored.plan.names.classes)?;
            let name = index_name(&planned.name);
            written(&name)?;
            fs::write(directory().join(&name), index)
                .map_err(|error| crate::base::error::Error::io(&name, error))
        })
    })?;
    Ok(())
}

fn publish_all() -> Done {
    let sink = sink()?;
    let stored = load(sink.as_ref())?;
    timed("publish", || publish(sink.as_ref(), &stored, MEMORY))?;
    tell("manifest.json", format!("{} B", size_of("manifest.json")));
    tell("memory at most", format!("{} MiB", peak() >> 20));
    Ok(())
}

/// What it takes to find that no image is there twice.
fn look_for_duplicates() -> Done {
    let sink = sink()?;
    let manifest = published::load(sink.as_ref())?.ok_or("no manifest")?;
    let shelf = Shelf {
        sink: sink.as_ref(),
        manifest: &manifest,
        depth: std::thread::available_parallelism()?.get(),
        stop: &Stop::default(),
    };
    let found = timed("duplicates", || duplicates(&shelf, 4 << 30, 40))?;
    tell("images there twice", found.images);
    tell("memory at most", format!("{} MiB", peak() >> 20));
    Ok(())
}

/// What a night costs on which a thousandth is new.
fn grow_by_some() -> Done {
    let sink = sink()?;
    let sink = sink.as_ref();
    let manifest = published::load(sink)?.ok_or("no manifest")?;
    let newest = load(sink)?;
    let more = sample_count() + sample_count() / 1000;
    let begun = Instant::now();
    let mut scan = scanned(more)?;
    let source = scan.fingerprint(&[]);
    let new_classes = scan.number_like(&manifest.names.classes);
    let ordered = Ordered::new(scan, recipe(), Vec::new(), source)?;
    tell(
        "a night: list to order",
        format!("{:.2} s", begun.elapsed().as_secs_f64()),
    );
    // No file is there: none looks touched.
    let there = directory().display().to_string();
    let (source, counters) = (
        crate::store::source(&there, &Access::default())?,
        Counters::default(),
    );
    let grown = timed("a night: compare, cut", || {
        let growth = Growth::default();
        let published = Published {
            sink,
            reading: Reading {
                source: source.as_ref(),
                counters: &counters,
            },
            manifest: &manifest,
            newest: &newest.plan,
        };
        let (problems, stop) = (Problems::default(), Stop::default());
        grow(
            published,
            ordered,
            new_classes,
            &growth,
            &problems,
            4 << 30,
            &stop,
        )
    })?;
    let NextGeneration::Draft(draft, changes) = grown else {
        return Err("nothing is new".into());
    };
    timed("a night: store", || store_plan(sink, &draft))?;
    tell("changes", changes.text());
    tell(
        "memory at most",
        format!("{:.0} B a sample", peak() as f64 / more as f64),
    );
    Ok(())
}
