//! Processes that are stopped (SIGSTOP) right before a named step on the disk, while others publish a later state, and then go on or are
//! killed as soon as that step is done.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Dataset, Digests, Run, compiled, digests, finished, picture, run, shardpack, write,
};

/// A process that stands still right before it gives a file its name, or removes it.
pub(crate) struct Held(Child);

impl Held {
    /// Runs until the first such step on a path that contains `named`.
    #[track_caller]
    pub(crate) fn before(command: &mut Command, named: &str) -> Self {
        command.env("LD_PRELOAD", library()).env("HOLD", named);
        command.env("HOLD_AFTER", "1");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut held = Self(command.spawn().unwrap());
        if !held.stops() {
            let ended = finished(held.0.wait_with_output().unwrap());
            panic!("it never came to {named}: {}{}", ended.out, ended.err);
        }
        held
    }

    /// Waits until it stands still; false when it ended.
    fn stops(&mut self) -> bool {
        let status = format!("/proc/{}/status", self.0.id());
        loop {
            let status = std::fs::read_to_string(&status).unwrap_or_default();
            if status.lines().any(|line| line.starts_with("State:\tT")) {
                return true;
            }
            if self.0.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn wakes(&self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).unwrap();
    }

    /// It takes that step, and stands still once more.
    fn takes_the_step(&mut self) {
        self.wakes();
        assert!(self.stops());
    }

    /// It goes on to its end.
    pub(crate) fn goes_on(mut self) -> Run {
        self.takes_the_step();
        self.wakes();
        finished(self.0.wait_with_output().unwrap())
    }

    /// It takes that one step and is killed.
    pub(crate) fn dies_after_it(mut self) {
        self.takes_the_step();
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// What makes a process stand still, compiled once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compiled("fixtures/hold.c"))
}

/// A source that grows, and a destination.
struct Site {
    data: Dataset,
    out: PathBuf,
    flags: &'static [&'static str],
}

/// Tars with reader indexes, and what lies beside their manifest.
const TARS: (&[&str], &[&str]) = (
    &["--shards", "2", "--sha256", "--index", "dali,energon,wids"],
    &[
        "/wids-",
        ".nv-meta/.info.json",
        ".nv-meta/dataset.yaml",
        ".nv-meta/split.yaml",
        "data/train-00000.idx",
        "SHA256SUMS",
        "README.md",
        "snapshots/00000001.json",
        "/manifest.json",
    ],
);
/// The same of TFRecords.
const TFRECORDS: (&[&str], &[&str]) = (
    &[
        "--shards",
        "2",
        "--format",
        "tfrecord",
        "--schema",
        "tfds",
        "--index",
        "dali,tfds",
    ],
    &[
        "/dataset_info.json",
        "/features.json",
        "/label.labels.txt",
        "/manifest.json",
    ],
);

impl Site {
    fn new(flags: &'static [&'static str]) -> Self {
        let data = Dataset::new().class("cat", 6).class("dog", 6);
        let out = data.fresh();
        Self { data, out, flags }
    }

    /// A verb on the destination; the source is given to those that want it.
    fn command(&self, verb: &str, more: &[&str]) -> Command {
        let mut command = shardpack(&[verb]);
        if ["convert", "plan"].contains(&verb) {
            command.arg(self.data.source()).args(self.flags);
        }
        command.arg(&self.out).args(more);
        command
    }

    #[track_caller]
    fn run(&self, verb: &str, more: &[&str]) -> Run {
        let run = run(&mut self.command(verb, more));
        run.exits(0);
        run
    }

    /// Others publish a later state; gives what is there then.
    #[track_caller]
    fn grows(&self) -> Digests {
        for name in ["cat/new.jpg", "dog/new.jpg"] {
            write(&self.data.source().join(name), &picture(name));
        }
        self.run("convert", &[]).says(&["published"]);
        self.published()
    }

    /// Everything but what a killed process began to write.
    fn published(&self) -> Digests {
        let mut files = digests(&self.out);
        files.retain(|name, _| !name.ends_with(".tmp"));
        files
    }

    /// It goes on, or is killed after one step; after the next night all is as others published it.
    #[track_caller]
    fn takes_nothing_back(&self, late: Held, killed: bool, expected: &Digests) {
        match killed {
            true => {
                late.dies_after_it();
                self.run("convert", &[]);
            }
            false => _ = late.goes_on().exits(0),
        }
        assert_eq!(self.published(), *expected);
        self.run("convert", &[]).says(&["up to date"]);
        assert_eq!(self.published(), *expected);
        self.run("verify", &[]);
    }
}

#[test]
fn a_publisher_held_before_any_name_beside_the_manifest_puts_nothing_old_back() {
    for (flags, names) in [TARS, TFRECORDS] {
        for (number, name) in names.iter().enumerate() {
            let killed = number % 2 == 1;
            let site = Site::new(flags);
            site.run("plan", &[]);
            site.run("pack", &[]);
            let late = Held::before(&mut site.command("publish", &[]), name);
            site.run("publish", &[]);
            let expected = site.grows();
            site.takes_nothing_back(late, killed, &expected);
        }
    }
}

#[test]
fn a_worker_that_publishes_and_is_held_before_any_name_puts_nothing_old_back() {
    let (flags, _) = TARS;
    for (name, killed) in [
        ("/wids-", false),
        (".info.json", true),
        ("SHA256SUMS", false),
    ] {
        let site = Site::new(flags);
        site.run("plan", &[]);
        let worker = ["--worker", "0/1", "--publish-when-complete"];
        let late = Held::before(&mut site.command("pack", &worker), name);
        site.run("pack", &worker);
        let expected = site.grows();
        site.takes_nothing_back(late, killed, &expected);
    }
}

#[test]
fn a_conversion_held_before_the_names_of_its_second_snapshot_puts_nothing_old_back() {
    let (flags, names) = TARS;
    // The card and the sample type are as they were where nothing but the number of samples is another.
    let others = ["snapshots/", "dataset.yaml", "train-00000"];
    let names = names
        .iter()
        .filter(|name| !others.iter().any(|other| name.contains(other)));
    for (name, killed) in names.flat_map(|name| [(name, false), (name, true)]) {
        let site = Site::new(flags);
        site.run("convert", &[]);
        write(
            &site.data.source().join("cat/second.jpg"),
            &picture("second"),
        );
        let late = Held::before(&mut site.command("convert", &[]), name);
        let expected = site.grows();
        site.takes_nothing_back(late, killed, &expected);
    }
}

#[test]
fn an_index_held_before_its_file_or_the_manifest_puts_nothing_old_back() {
    for name in ["data/_info.json", "/manifest.json", "README.md"] {
        for killed in [false, true] {
            let site = Site::new(TARS.0);
            site.run("convert", &[]);
            std::fs::remove_file(site.out.join("README.md")).unwrap();
            let late = Held::before(&mut site.command("index", &["--index", "timm"]), name);
            let expected = site.grows();
            site.takes_nothing_back(late, killed, &expected);
        }
    }
}

#[test]
fn a_repair_held_before_the_manifest_or_a_reader_index_puts_nothing_old_back() {
    for name in ["/manifest.json", "/wids-"] {
        for killed in [false, true] {
            let site = Site::new(TARS.0);
            site.run("convert", &[]);
            std::fs::remove_file(site.out.join("manifest.json")).unwrap();
            std::fs::write(site.out.join("wids-train.json"), "{}").unwrap();
            let late = Held::before(&mut site.command("repair", &[]), name);
            site.run("repair", &[]);
            let expected = site.grows();
            site.takes_nothing_back(late, killed, &expected);
        }
    }
}

#[test]
fn a_gc_held_before_it_removes_anything_takes_nothing_of_a_later_state() {
    for name in [
        "snapshots/00000001.json",
        "index/train-",
        "data/train-",
        "_shardpack/plan/",
    ] {
        for killed in [false, true] {
            let site = Site::new(TARS.0);
            site.run("convert", &[]);
            site.run("convert", &["--full", "--seed", "7"]);
            let rules = ["--keep", "1", "--older-than", "0s"];
            let late = Held::before(&mut site.command("gc", &rules), name);
            write(&site.data.source().join("cat/new.jpg"), &picture("new"));
            site.run("convert", &["--seed", "7"]).says(&["published"]);
            match killed {
                true => late.dies_after_it(),
                false => _ = late.goes_on().exits(0),
            }
            site.run("verify", &[]);
            site.run("convert", &["--seed", "7"]).says(&["up to date"]);
            site.run("gc", &rules);
            site.run("verify", &[]);
        }
    }
}

#[test]
fn a_compaction_held_before_its_names_puts_nothing_old_back() {
    for name in ["/wids-", "/manifest.json"] {
        for killed in [false, true] {
            let site = Site::new(&["--shard-size", "60kB", "--index", "wids,dali,energon"]);
            site.run("convert", &[]);
            for number in 0..3 {
                let name = format!("cat/more{number}.jpg");
                write(&site.data.source().join(&name), &picture(&name));
                site.run("convert", &[]);
            }
            let source = site.data.source();
            let source = ["--source", source.to_str().unwrap()];
            let late = Held::before(&mut site.command("compact", &source), name);
            let expected = site.grows();
            site.takes_nothing_back(late, killed, &expected);
        }
    }
}
