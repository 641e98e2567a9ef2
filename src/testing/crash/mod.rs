//! Runs that end anywhere, go wrong anywhere, stand still anywhere, and meet each other: nothing is lost, nothing half seen.
//!
//! Each run is one process of its own as far as the library goes: stores opened anew, nothing shared but the destination.
//! `docs/reliability.md` lists what is tried here and what came of it.

// What went on is told with `--nocapture`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod anywhere;
mod asleep;
mod chaos;
mod errnos;
mod histories;
mod together;
mod vanish;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tempfile::TempDir;

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Result};
use crate::cli::settings::{FanOut, Planning, Running};
use crate::cli::verbs as command;
use crate::grow::options::OnChange;
use crate::model::manifest::{MANIFEST, Manifest, SNAPSHOT_DIR, snapshot_name, snapshot_number};
use crate::model::policy::Policy;
use crate::model::recipe::{Cut, Format, Recipe, Schema};
use crate::plan::worker::Worker;
use crate::publish::card::{CARD, render_card};
use crate::publish::companions::{SUMS, sha256_sums};
use crate::publish::layout::layout;
use crate::publish::readers::files_of_dataset;
use crate::store::{self, Access, S3Options, Sink};
use crate::testing::faulty_store::{Disk, Ending, Faulty, Level};
use crate::upkeep::gc::{RemovalRules, collect};
use shardpack_fixtures::s3_server::{Fault, Kind as Wrong, Options, Server};

/// Names with contents.
pub(crate) type Tree = BTreeMap<String, Bytes>;

/// Where the dataset lies in the server's bucket.
const PREFIX: &str = "out/";

/// A picture of about so many bytes that no other name has.
fn picture(name: &str, bytes: usize) -> Vec<u8> {
    let mut plain = Vec::new();
    let image = image::RgbImage::from_pixel(9, 7, image::Rgb([10, 200, 30]));
    let mut encoder = image::codecs::jpeg::JpegEncoder::new(&mut plain);
    encoder.encode_image(&image).unwrap();
    let mut picture = plain[..2].to_vec();
    let mut left = bytes;
    while left > 0 {
        // Comments, of 64 KiB at most.
        let length = left.min(60_000);
        left -= length;
        picture.extend([0xFF, 0xFE]);
        picture.extend((length as u16 + 2).to_be_bytes());
        let comment = name.repeat(length.div_ceil(name.len()));
        picture.extend_from_slice(&comment.as_bytes()[..length]);
    }
    picture.extend_from_slice(&plain[2..]);
    picture
}

/// In memory where there is such a place, because every run here waits for its disk.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => TempDir::with_prefix_in("shardpack-", memory),
        false => TempDir::with_prefix("shardpack-"),
    };
    made.unwrap()
}

/// A directory with these pictures, all of one time.
fn pictured(pictures: &[(&str, usize)]) -> TempDir {
    let dir = directory();
    for (name, bytes) in pictures {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, picture(name, *bytes)).unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_325_376_000))
            .unwrap();
    }
    dir
}

/// Reader indexes of tars: some describe one shard each, the others the whole dataset under names that every snapshot has.
const OF_TARS: &[&str] = &["dali", "energon", "wids"];
/// The same of TFRecords.
const OF_TFRECORDS: &[&str] = &["dali", "tfds"];

fn recipe(seed: u64, cut: Cut) -> Recipe {
    Recipe {
        name: "data".to_owned(),
        seed,
        cut,
        sha256: true,
        ..Recipe::default()
    }
}

/// What is converted.
struct Data {
    dir: TempDir,
    /// What it was like when [`Verb::Early`] was run.
    early: TempDir,
    /// What it was like in between.
    between: TempDir,
    cut: Cut,
    /// Reader indexes.
    readers: &'static [&'static str],
}

impl Data {
    fn new(pictures: &[(&str, usize)], cut: Cut) -> Arc<Self> {
        Arc::new(Self {
            dir: pictured(pictures),
            early: directory(),
            between: directory(),
            cut,
            readers: OF_TARS,
        })
    }

    /// Three shards; then one picture is another, one is gone, and two are new.
    fn grown() -> Arc<Self> {
        let before = [
            "a/1.jpg", "a/2.jpg", "a/3.jpg", "b/1.jpg", "b/2.jpg", "b/3.jpg",
        ];
        let after = [
            ("a/1.jpg", 500),
            ("a/2.jpg", 700),
            ("a/3.jpg", 500),
            ("b/2.jpg", 500),
            ("b/3.jpg", 500),
            ("b/4.jpg", 500),
            ("c/1.jpg", 500),
        ];
        Arc::new(Self {
            dir: pictured(&after),
            between: pictured(&after[..6]),
            early: pictured(&before.map(|name| (name, 500))),
            cut: Cut::ShardSamples(2),
            readers: OF_TARS,
        })
    }

    /// TFRecords of a source that only grows: TFDS finds no shard under another name than it expects.
    fn added() -> Arc<Self> {
        let all = ["a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg", "b/3.jpg"].map(|name| (name, 500));
        Arc::new(Self {
            dir: pictured(&all),
            between: pictured(&all[..4]),
            early: pictured(&all[..3]),
            cut: Cut::ShardSamples(2),
            readers: OF_TFRECORDS,
        })
    }

    /// Six pictures in three shards, without reader indexes.
    fn plain() -> Arc<Self> {
        let mut data = Self::small();
        if let Some(data) = Arc::get_mut(&mut data) {
            data.readers = &[];
        }
        data
    }

    /// Six pictures in three shards.
    fn small() -> Arc<Self> {
        let names = [
            "a/1.jpg", "a/2.jpg", "a/3.jpg", "b/1.jpg", "b/2.jpg", "b/3.jpg",
        ];
        Self::new(&names.map(|name| (name, 500)), Cut::ShardSamples(2))
    }

    /// A split in one shard of two parts, and one in a shard that goes in one request.
    fn large() -> Arc<Self> {
        let large = ["train/a/1.jpg", "train/a/2.jpg", "train/b/3.jpg"];
        let small = [("val/a/4.jpg", 500), ("val/b/5.jpg", 500)];
        let large = large.map(|name| (name, 3_000_000));
        Self::new(&[&large[..], &small[..]].concat(), Cut::Shards(1))
    }

    fn planning(&self, seed: u64) -> Planning {
        self.planning_of(&self.dir, seed)
    }

    fn planning_of(&self, dir: &TempDir, seed: u64) -> Planning {
        let source = dir.path().to_str().unwrap();
        let (format, schema) = match self.readers {
            OF_TFRECORDS => (Format::TfRecord, Schema::Tfds),
            _ => (Format::WebDataset, Schema::default()),
        };
        let recipe = Recipe {
            format,
            schema,
            indexes: self.readers.iter().map(|name| name.to_string()).collect(),
            ..recipe(seed, self.cut)
        };
        let mut planning = Planning::new(source, "unused", recipe);
        planning.growth.on_change = OnChange::Rebuild;
        planning
    }
}

/// One run of the program.
#[derive(Clone, Copy, Debug)]
enum Verb {
    /// Converts what the source was like before.
    Early,
    /// Plans that.
    PlanEarly,
    /// Converts what the source was like in between.
    Between,
    Convert,
    Plan,
    Pack(usize, usize),
    /// The same, which publishes when nothing is left to pack.
    PackLast(usize, usize),
    Publish,
    Index(&'static str),
    Repair,
    /// All of it made anew.
    Anew,
    /// Only the newest snapshot stays, and what it names.
    Collect,
}

const EARLY: &[Verb] = &[Verb::Early];
const CONVERT: &[Verb] = &[Verb::Convert];
const WORKERS: &[Verb] = &[
    Verb::Plan,
    Verb::Pack(0, 3),
    Verb::Pack(1, 3),
    Verb::Pack(2, 3),
    Verb::Publish,
];
const REPAIR: &[Verb] = &[Verb::Repair];
const ANEW: &[Verb] = &[Verb::Early, Verb::Index("timm"), Verb::Anew];
const COLLECT: &[Verb] = &[Verb::Collect];
const INDEX: &[Verb] = &[Verb::Index("timm")];

/// Makes an empty destination.
type New = fn(&Arc<Data>) -> World;
const LOCAL: New = World::local;
const S3: New = World::s3;

enum Place {
    Local(TempDir),
    S3(Server),
}

/// A destination.
struct World {
    place: Place,
    data: Arc<Data>,
    disk: Arc<Disk>,
}

impl World {
    fn local(data: &Arc<Data>) -> Self {
        Self {
            place: Place::Local(directory()),
            data: Arc::clone(data),
            disk: Arc::default(),
        }
    }

    fn s3(data: &Arc<Data>) -> Self {
        let options = Options {
            anonymous: true,
            ..Options::default()
        };
        Self {
            place: Place::S3(Server::with(options)),
            data: Arc::clone(data),
            disk: Arc::default(),
        }
    }

    /// Another destination of the same kind, with nothing in it.
    fn empty(&self) -> Self {
        match self.place {
            Place::Local(_) => Self::local(&self.data),
            Place::S3(_) => Self::s3(&self.data),
        }
    }

    fn server(&self) -> &Server {
        match &self.place {
            Place::S3(server) => server,
            Place::Local(_) => panic!("a server"),
        }
    }

    /// What a new process knows.
    fn running(&self, ending: &Arc<Ending>) -> Running {
        let mut access = Access {
            reads: Some(4),
            open_files: 64,
            memory: 256 << 20,
            fsync: true,
            layout: layout(),
            steps: ending.steps(&self.disk),
            ..Access::default()
        };
        if let Place::S3(server) = &self.place {
            access.s3 = S3Options {
                endpoint_url: Some(server.endpoint()),
                no_sign_request: true,
                region: Some("us-east-1".into()),
                ..S3Options::default()
            };
        }
        Running {
            replace: false,
            reach: String::new(),
            for_real: None,
            problems: Default::default(),
            jobs: Some(1),
            cores: 1,
            memory: access.memory,
            counters: Arc::default(),
            stop: access.stop.clone(),
            access,
        }
    }

    fn sink(&self, running: &Running, ending: &Arc<Ending>) -> Result<Faulty> {
        let location = match &self.place {
            Place::Local(dir) => dir.path().join("out").to_string_lossy().into_owned(),
            Place::S3(_) => "s3://bucket/out".to_owned(),
        };
        Ok(Faulty {
            inner: store::sink(&location, &running.access)?,
            ending: Arc::clone(ending),
        })
    }

    /// One process, to its end.
    fn run(&self, verb: Verb, ending: &Arc<Ending>) -> Result<()> {
        self.run_seeded(verb, 1, ending)
    }

    fn run_seeded(&self, verb: Verb, seed: u64, ending: &Arc<Ending>) -> Result<()> {
        let running = self.running(ending);
        let sink: &dyn Sink = &self.sink(&running, ending)?;
        let mut planning = self.data.planning(seed);
        let done = match verb {
            Verb::Collect => {
                let rules = RemovalRules {
                    older_than: Duration::ZERO,
                    keep: Some(1),
                    dry_run: false,
                };
                return collect(sink, &rules).map(|_| ());
            }
            Verb::Anew => {
                planning.growth.full = true;
                command::convert::on(sink, &planning, Policy::Fail, None, false, &running)
            }
            Verb::Early => {
                let planning = self.data.planning_of(&self.data.early, seed);
                command::convert::on(sink, &planning, Policy::Fail, None, false, &running)
            }
            Verb::Between => {
                let planning = self.data.planning_of(&self.data.between, seed);
                command::convert::on(sink, &planning, Policy::Fail, None, false, &running)
            }
            Verb::PlanEarly => {
                let planning = self.data.planning_of(&self.data.early, seed);
                command::plan::on(sink, &planning, false, &running)
            }
            Verb::Convert => {
                command::convert::on(sink, &planning, Policy::Fail, None, false, &running)
            }
            Verb::Plan => command::plan::on(sink, &planning, false, &running),
            Verb::Pack(number, of) | Verb::PackLast(number, of) => {
                let fan_out = FanOut {
                    worker: Worker { number, of },
                    publish: matches!(verb, Verb::PackLast(..)),
                };
                command::pack::on(sink, None, fan_out, Policy::Fail, &running)
            }
            Verb::Publish => command::publish::on(sink, &running),
            Verb::Repair => {
                let source = Some(planning.source.as_str());
                command::repair::on(sink, source, false, &running)
            }
            Verb::Index(name) => command::index::on(sink, &[name.to_owned()], &running),
        };
        match done?.error {
            None => Ok(()),
            Some(what) => Err(Error::failed(what)),
        }
    }

    /// Processes one after the other that nothing happens to.
    #[track_caller]
    fn succeeds(&self, verbs: &[Verb]) {
        for &verb in verbs {
            let ending = Ending::good(Level::Operations);
            if let Err(error) = self.run(verb, &ending) {
                panic!("{verb:?}: {error}: {:?}", self.tree().keys());
            }
        }
    }

    /// Removes leftovers of any age.
    #[track_caller]
    fn collects(&self) {
        let ending = Ending::good(Level::Operations);
        let running = self.running(&ending);
        let rules = RemovalRules {
            older_than: Duration::ZERO,
            keep: None,
            dry_run: false,
        };
        let found = collect(&self.sink(&running, &ending).unwrap(), &rules).unwrap();
        assert!(found.foreign.is_empty(), "{found:?}");
    }

    /// Everything there is, leftovers too.
    fn tree(&self) -> Tree {
        match &self.place {
            Place::Local(dir) => {
                let mut tree = Tree::new();
                read(&dir.path().join("out"), "", &mut tree);
                tree
            }
            Place::S3(server) => {
                let uploads = server.uploads().into_iter();
                let mut tree = server.objects(PREFIX);
                tree.extend(
                    uploads.map(|(key, id)| (format!("upload {id} of {key}"), Bytes::new())),
                );
                tree
            }
        }
    }

    /// Makes the destination this.
    fn fill(&self, tree: &Tree) {
        for (name, bytes) in tree {
            match &self.place {
                Place::Local(dir) => {
                    let path = dir.path().join("out").join(name);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, bytes).unwrap();
                }
                Place::S3(server) => {
                    server.put_with_crc32(&format!("{PREFIX}{name}"), bytes.clone())
                }
            }
        }
    }

    /// A killed process's uploads stay: nobody hears it giving them up.
    fn silence_the_dead(self: &Arc<Self>, ending: &Ending) {
        if matches!(self.place, Place::S3(_)) {
            let world = Arc::clone(self);
            ending.on_death(move || {
                world
                    .server()
                    .fault(Fault::new(Wrong::Status(403, "AccessDenied")));
            });
        }
    }

    fn revive(&self, ending: &Ending) {
        ending.revive();
        if let Place::S3(server) = &self.place {
            server.clear_faults();
        }
    }
}

fn read(dir: &Path, prefix: &str, tree: &mut Tree) {
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.file_type().unwrap().is_dir() {
            true => read(&entry.path(), &format!("{name}/"), tree),
            false => {
                tree.insert(name, std::fs::read(entry.path()).unwrap().into());
            }
        }
    }
}

/// Fails with the names that differ.
#[track_caller]
fn assert_same(actual: &Tree, expected: &Tree, context: &str) {
    let differs = |a: &Tree, b: &Tree| -> Vec<String> {
        let other = a.iter().filter(|(name, bytes)| b.get(*name) != Some(bytes));
        other.map(|(name, _)| name.clone()).collect()
    };
    let (there, wanted) = (differs(actual, expected), differs(expected, actual));
    assert!(
        there.is_empty() && wanted.is_empty(),
        "{context}: there is {there:?}, which should be {wanted:?}"
    );
    if actual.contains_key(MANIFEST) {
        assert_newest(actual, context);
    }
}

/// The manifest of a tree.
fn published(tree: &Tree) -> Manifest {
    Manifest::decode(MANIFEST, &tree[MANIFEST]).unwrap()
}

/// The manifest is that of the newest snapshot, and everything that it names is there as it says, reader indexes too.
#[track_caller]
fn assert_newest(tree: &Tree, context: &str) {
    let snapshots = tree.keys().filter(|name| name.starts_with(SNAPSHOT_DIR));
    let newest = snapshots.filter_map(|name| snapshot_number(name)).max();
    let newest = snapshot_name(newest.unwrap());
    assert!(
        tree[MANIFEST] == tree[&newest],
        "{context}: the manifest is not {newest}"
    );
    let manifest = published(tree);
    let shards = manifest.shards().flat_map(|(_, shard)| {
        [
            (&shard.name, &shard.crc32),
            (&shard.index, &shard.index_crc32),
        ]
    });
    let readers = manifest.indexes.iter();
    let readers = readers.map(|file| (&file.name, &file.crc32));
    for (name, crc32) in shards.chain(readers) {
        let there = tree.get(name).map(|there| crc_text(crc32fast::hash(there)));
        assert_eq!(there.as_ref(), Some(crc32), "{context}: {name} of {newest}");
    }
    let sums = sha256_sums(&manifest).unwrap();
    assert!(tree[SUMS] == sums, "{context}: sums of {newest}");
    let card = render_card(&manifest);
    assert!(tree[CARD] == card, "{context}: card of {newest}");
}

/// A reader sees the old dataset or the new one: whichever the manifest is of, all of it is there.
#[track_caller]
fn assert_whole(actual: &Tree, before: &Tree, after: &Tree, context: &str) {
    let manifest = actual.get(MANIFEST);
    let (name, dataset) = match manifest {
        None => ("no", &Tree::new()),
        Some(_) if manifest == before.get(MANIFEST) => ("the old", before),
        Some(_) if manifest == after.get(MANIFEST) => ("the new", after),
        Some(_) => panic!("{context}: {MANIFEST} is neither the old nor the new one"),
    };
    assert!(
        manifest.is_some() || !before.contains_key(MANIFEST),
        "{context}: the old dataset is gone"
    );
    let mended =
        |file| before.get(MANIFEST) == after.get(MANIFEST) && actual.get(file) == after.get(file);
    // What lies beside a manifest is written between its snapshot and itself, and names no file that is not there.
    let next = published(after);
    let is_next = actual.contains_key(&snapshot_name(next.snapshot));
    let wide = files_of_dataset(&next).into_iter();
    let names = wide.map(|file| file.name.as_str());
    let beside: Vec<&str> = names.chain([CARD, SUMS]).collect();
    let ahead = |file: &String| {
        is_next && beside.contains(&file.as_str()) && actual.get(file) == after.get(file)
    };
    for (file, bytes) in dataset {
        assert!(
            actual.get(file) == Some(bytes) || mended(file) || ahead(file),
            "{context}: {name} manifest is there and {file} is not"
        );
    }
}

/// One case of how many is tried, unless `SHARDPACK_EVERY` says it: 1 tries all of them, as `make exhaustive` does.
const EVERY: u64 = 20;

fn every() -> usize {
    number("SHARDPACK_EVERY").unwrap_or(EVERY).max(1) as usize
}

/// The cases that are tried of all there are, spread over points and what happens at them.
fn thinned<T>(cases: Vec<T>) -> Vec<T> {
    let every = every();
    let is_tried = |at: usize| (at + at / every).is_multiple_of(every);
    let cases = cases.into_iter().enumerate();
    cases
        .filter(|(at, _)| is_tried(*at))
        .map(|(_, case)| case)
        .collect()
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What undisturbed processes make of what was there.
fn undisturbed(world: World, before: &Tree, verbs: &[Verb]) -> Tree {
    world.fill(before);
    world.succeeds(verbs);
    world.tree()
}
