//! Processes that are killed at random moments, stand still, and meet each other, on disk and on S3.
//!
//! `SHARDPACK_KILLS=N` makes it more rounds, `SHARDPACK_SEED=N` other moments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};

use crate::s3::{assert_same, at, large, tree, upload};
use crate::support::{Dataset, Random, Run, files, finished, number, run};
use shardpack_fixtures::s3_server::{Options, Server};

/// Rounds when nothing is said.
const KILLS: u64 = 30;
/// Writers at the same time.
const WRITERS: usize = 16;

/// A source and a place for datasets.
struct Site {
    server: Server,
    data: Dataset,
    flags: &'static [&'static str],
    local: bool,
    source: String,
}

impl Site {
    fn disk() -> Self {
        let data = Dataset::new().class("cat", 60).class("dog", 60);
        Self {
            server: Server::start(),
            source: data.source().to_str().unwrap().to_owned(),
            data,
            flags: &["--shard-samples", "3"],
            local: true,
        }
    }

    /// Shards of several parts, and answers that take time.
    fn s3() -> Self {
        let data = large();
        let server = Server::with(Options {
            latency: Duration::from_millis(5),
            ..Options::default()
        });
        upload(&server, &data.source(), "images");
        Self {
            server,
            source: "s3://bucket/images".to_owned(),
            data,
            flags: &["--shards", "3"],
            local: false,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.data.place(name)
    }

    fn location(&self, name: &str) -> String {
        match self.local {
            true => self.path(name).to_str().unwrap().to_owned(),
            false => format!("s3://bucket/{name}"),
        }
    }

    /// A verb on a destination; kills and sleeps are tried on runs that wait for the disk, as real ones do.
    fn command(&self, verb: &str, name: &str, flags: &[&str]) -> Command {
        let mut command = at(&self.server, &[verb]);
        if ["convert", "plan"].contains(&verb) {
            command.arg(&self.source).args(self.flags);
        }
        command.arg(self.location(name)).args(flags);
        command.env_remove("SHARDPACK_NO_FSYNC");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, verb: &str, name: &str, flags: &[&str]) -> Run {
        run(&mut self.command(verb, name, flags))
    }

    /// Everything at a destination, leftovers too.
    fn tree(&self, name: &str) -> BTreeMap<String, Bytes> {
        if self.local {
            return tree(&self.path(name));
        }
        let mut tree = self.server.objects(&format!("{name}/"));
        for (key, id) in self.server.uploads() {
            if key.starts_with(&format!("{name}/")) {
                tree.insert(format!("upload {id} of {key}"), Bytes::new());
            }
        }
        tree
    }

    /// Shards at a destination.
    fn shards(&self, name: &str) -> usize {
        let below = format!("{name}/data/");
        // Temporary files come and go while one looks.
        let local = files(&self.path(&below));
        let named = |path: &&PathBuf| path.extension().is_some_and(|e| e == "tar");
        local.iter().filter(named).count() + self.server.objects(&below).len()
    }

    /// Makes room for the next round.
    fn remove(&self, name: &str) {
        if self.local {
            let _ = std::fs::remove_dir_all(self.path(name));
        }
        for key in self.server.objects(&format!("{name}/")).keys() {
            self.server.remove(&format!("{name}/{key}"));
        }
    }

    /// What processes do, by turns: each of a list when those before it have ended, those of one at the same time.
    fn story(&self, round: u64, name: &str) -> Vec<Vec<Command>> {
        let command = |verb, flags: &[&str]| self.command(verb, name, flags);
        let worker = |worker| command("pack", &["--worker", worker]);
        let mut story = match round % 2 {
            0 => vec![vec![command("convert", &["--jobs", "2"])]],
            _ => vec![
                vec![command("plan", &[])],
                vec![worker("0/3"), worker("1/3"), worker("2/3")],
                vec![command("publish", &[])],
            ],
        };
        story.push(vec![command("index", &["--index", "wids"])]);
        story
    }
}

/// Runs a story until a moment, when all its processes are killed; true if that came before its end.
fn killed(story: Vec<Vec<Command>>, moment: Option<Instant>) -> bool {
    for mut commands in story {
        let start = |command: &mut Command| command.spawn().unwrap();
        let mut children: Vec<Child> = commands.iter_mut().map(start).collect();
        let mut killed = false;
        while children.iter_mut().any(|c| c.try_wait().unwrap().is_none()) {
            if moment.is_some_and(|moment| Instant::now() >= moment) {
                killed = true;
                for child in &mut children {
                    child.kill().unwrap();
                }
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        for child in children {
            let ended = finished(child.wait_with_output().unwrap());
            if !killed {
                ended.exits(0);
            }
        }
        if killed {
            return true;
        }
    }
    false
}

fn survives_kills(site: &Site) {
    let begun = Instant::now();
    let rounds = number("SHARDPACK_KILLS").unwrap_or(KILLS);
    let mut random = Random::new(number("SHARDPACK_SEED").unwrap_or(2024));
    // Each story undisturbed: what it makes, and how long that takes.
    let mut undisturbed = [0, 1].map(|round| {
        let begun = Instant::now();
        assert!(!killed(site.story(round, "out"), None));
        let whole = begun.elapsed().as_micros() as u64;
        let tree = site.tree("out");
        site.remove("out");
        (tree, whole)
    });
    let (mut kills, mut leftovers) = (0, 0);
    for round in 0..rounds {
        let (expected, whole) = &mut undisturbed[(round % 2) as usize];
        // Some are killed twice, and three times.
        for _ in 0..=round % 3 {
            let moment = Instant::now() + Duration::from_micros(random.below(*whole));
            match killed(site.story(round, "out"), Some(moment)) {
                true => kills += 1,
                // The machine was busier when that was measured.
                false => *whole -= *whole / 4,
            }
            let tree = site.tree("out");
            leftovers += tree
                .keys()
                .filter(|&name| !expected.contains_key(name))
                .count();
            // A reader sees a whole dataset or none.
            if tree.contains_key("manifest.json") {
                site.run("verify", "out", &[]).exits(0);
            }
        }
        assert!(!killed(site.story(round, "out"), None));
        site.run("gc", "out", &["--older-than", "0s"]).exits(0);
        assert_same(&site.tree("out"), expected);
        site.remove("out");
    }
    println!(
        "{rounds} rounds, {kills} kills, {leftovers} leftovers, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    assert!(
        kills * 2 > rounds,
        "only {kills} processes were killed before their end"
    );
}

#[test]
fn runs_on_disk_that_are_killed_at_any_moment_are_gone_on_with() {
    survives_kills(&Site::disk());
}

#[test]
fn runs_on_s3_that_are_killed_at_any_moment_are_gone_on_with() {
    survives_kills(&Site::s3());
}

/// Runs them at the same time.
fn together(commands: impl Iterator<Item = Command>) -> Vec<Run> {
    let children: Vec<Child> = commands.map(|mut c| c.spawn().unwrap()).collect();
    let end = |child: Child| finished(child.wait_with_output().unwrap());
    children.into_iter().map(end).collect()
}

fn meets_others(site: &Site) {
    site.run("convert", "alone", &[]).exits(0);
    let expected = site.tree("alone");
    let one_job = ["--jobs", "1", "--memory", "256MiB"];
    for run in together((0..WRITERS).map(|_| site.command("convert", "one", &one_job))) {
        run.exits(0);
    }
    assert_same(&site.tree("one"), &expected);

    let seeds: Vec<String> = (0..WRITERS).map(|seed| seed.to_string()).collect();
    let writer = |seed: &String| {
        let flags = [&one_job[..], &["--seed", seed]].concat();
        site.command("convert", "many", &flags)
    };
    let runs = together(seeds.iter().map(writer));
    let winners: Vec<usize> = (0..WRITERS).filter(|&i| runs[i].code == 0).collect();
    let [winner] = winners[..] else {
        panic!("{winners:?} won")
    };
    for (_, run) in runs.iter().enumerate().filter(|&(i, _)| i != winner) {
        run.exits(10).says(&["belongs to another plan"]);
    }
    site.run("convert", "winner", &["--seed", &seeds[winner]])
        .exits(0);
    let expected = site.tree("winner");
    let mut made = site.tree("many");
    // The plans that lost stay, each under its own id.
    made.retain(|name, _| !name.starts_with("_shardpack/plan/") || expected.contains_key(name));
    assert_same(&made, &expected);
}

#[test]
fn of_sixteen_processes_on_disk_those_of_one_plan_succeed_and_of_different_plans_one_wins() {
    meets_others(&Site::disk());
}

#[test]
fn of_sixteen_processes_on_s3_those_of_one_plan_succeed_and_of_different_plans_one_wins() {
    meets_others(&Site::s3());
}

fn wakes_up(site: &Site) {
    site.run("convert", "whole", &[]).exits(0);
    site.run("index", "whole", &["--index", "wids"]).exits(0);
    let expected = site.tree("whole");
    let mut random = Random::new(number("SHARDPACK_SEED").unwrap_or(5));
    let mut asleep = 0;
    for _ in 0..5 {
        let mut child = site
            .command("convert", "out", &["--jobs", "2"])
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        // At any of its first shards.
        let shards = 1 + random.below(3) as usize;
        while site.shards("out") < shards && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        kill_process(pid, Signal::STOP).unwrap();
        asleep += usize::from(!site.tree("out").contains_key("manifest.json"));
        site.run("convert", "out", &[]).exits(0);
        site.run("index", "out", &["--index", "wids"]).exits(0);
        kill_process(pid, Signal::CONT).unwrap();
        finished(child.wait_with_output().unwrap()).exits(0);
        assert_same(&site.tree("out"), &expected);
        site.remove("out");
    }
    assert!(asleep > 0);
}

#[test]
fn a_process_on_disk_that_was_stopped_while_others_published_takes_nothing_back() {
    wakes_up(&Site::disk());
}

#[test]
fn a_process_on_s3_that_was_stopped_while_others_published_takes_nothing_back() {
    wakes_up(&Site::s3());
}
