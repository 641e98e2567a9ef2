//! Getting objects: processor time of each side, told apart, against the bare loops, the client library and other programs.

use std::cell::RefCell;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::measure::{self, Run};
use crate::s3::{Elsewhere, Serving};
use crate::{Bench, Goal, fresh, remove};

/// Reads at once of all contenders.
const AT_ONCE: usize = 128;
/// Where `GOBIN=… go install github.com/peak/s5cmd/v2@latest` puts it.
const S5CMD: &str = ".tools/s5cmd";

/// What one contender came to in each round: the program, and processor seconds of the server meanwhile.
struct Side {
    name: &'static str,
    runs: Vec<(Run, f64)>,
}

impl Side {
    fn median(&self, of: impl Fn(&(Run, f64)) -> f64) -> f64 {
        let mut values: Vec<f64> = self.runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// Processor seconds of the program.
    fn cpu(&self) -> f64 {
        self.median(|(run, _)| run.cpu_seconds)
    }

    fn seconds(&self) -> f64 {
        self.median(|(run, _)| run.seconds)
    }
}

type Prepare<'a> = Box<dyn Fn() -> io::Result<Command> + 'a>;

/// Runs each in turns against one server; those that fail are left out.
fn turns(
    server: &Elsewhere,
    rounds: usize,
    contenders: Vec<(&'static str, Prepare<'_>)>,
) -> io::Result<Vec<Side>> {
    let sides: RefCell<Vec<Side>> = RefCell::default();
    let mut failed = Vec::new();
    for _ in 0..rounds {
        for (name, prepare) in &contenders {
            if failed.contains(name) {
                continue;
            }
            let mut command = prepare()?;
            let before = server.cpu_seconds();
            match measure::run(&mut command) {
                Ok(run) => {
                    let served = server.cpu_seconds() - before;
                    let mut sides = sides.borrow_mut();
                    match sides.iter_mut().find(|side| side.name == *name) {
                        Some(side) => side.runs.push((run, served)),
                        None => sides.push(Side {
                            name,
                            runs: vec![(run, served)],
                        }),
                    }
                }
                Err(message) => {
                    println!("  {name}: not measured: {}", message.trim_end());
                    failed.push(name);
                }
            }
        }
    }
    let mut sides = sides.into_inner();
    sides.retain(|side| side.runs.len() == rounds);
    Ok(sides)
}

fn print(sides: &[Side], objects: usize, bytes: f64) {
    for side in sides {
        let each = |seconds: f64| seconds * 1e6 / objects as f64;
        let (name, wall) = (side.name, side.seconds());
        let (client, server) = (each(side.cpu()), each(side.median(|(_, served)| *served)));
        let rate = bytes / 1e6 / wall;
        let peak = side
            .runs
            .iter()
            .map(|(run, _)| run.peak_bytes)
            .max()
            .unwrap_or(0)
            >> 20;
        println!(
            "  {name:<12} {wall:>7.2} s, {rate:>6.0} MB/s; processor: client {client:>7.1} µs, server {server:>7.1} µs an object; peak {peak} MiB"
        );
    }
}

impl Bench {
    /// Objects of ImageNet's sizes from S3 to nowhere and to this disk, then shards in ranges.
    pub(crate) fn get(&self) -> io::Result<()> {
        let objects = self.files;
        for tls in [false, true] {
            let serving = Serving {
                pictures: objects,
                tls,
                keeps: true,
                ..Serving::default()
            };
            let server = Elsewhere::start(&serving)?;
            let over = if tls { "TLS" } else { "plain HTTP" };
            let title = format!("objects from S3 over {over}, {AT_ONCE} at once");
            self.heading(&title, &format!("{objects} objects"));
            self.objects(&server, objects)?;
            if !tls {
                self.shards(&server)?;
            }
        }
        Ok(())
    }

    fn own(&self, server: &Elsewhere, words: &[&str]) -> io::Result<Command> {
        let mut command = Command::new(env::current_exe()?);
        command.args(words);
        server.aim(&mut command);
        Ok(command)
    }

    fn objects(&self, server: &Elsewhere, objects: usize) -> io::Result<()> {
        let out = self.dir.join("out");
        let (number, reads) = (objects.to_string(), AT_ONCE.to_string());
        let endpoint = server.endpoint.as_str();
        let units = env::var_os("BENCH_UNITS");
        let convert = || {
            fresh(&out)?;
            let mut command = Command::new(&self.shardpack);
            command
                .args(["convert", "s3://bucket/images"])
                .arg(out.join("shards"));
            command.args(["--reads", &reads, "--no-fsync", "--progress", "none", "-q"]);
            server.aim(&mut command);
            Ok(command)
        };
        let s5cmd = || {
            fresh(&out)?;
            let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(S5CMD));
            command.args([
                "--numworkers",
                &reads,
                "--log",
                "error",
                "cp",
                "s3://bucket/images/*",
            ]);
            command.arg(format!("{}/", out.display()));
            server.aim(&mut command);
            command.env("S3_ENDPOINT_URL", endpoint);
            Ok(command)
        };
        let mut contenders: Vec<(&'static str, Prepare<'_>)> = vec![
            (
                "bare hyper",
                Box::new(|| self.own(server, &["s3-bare", endpoint, &number, &reads])),
            ),
            (
                "SDK",
                Box::new(|| self.own(server, &["s3-get", endpoint, &number, &reads])),
            ),
            ("convert", Box::new(convert)),
        ];
        if let Some(units) = &units {
            let reads = &reads;
            let gets = move || {
                let mut command = Command::new(units);
                let test = "testing::gets::what_getting_objects_costs";
                command.args(["--ignored", "--exact", test]);
                command.env("GETS_AT_ONCE", reads);
                server.aim(&mut command);
                Ok(command)
            };
            contenders.push(("gets", Box::new(gets)));
        }
        if Path::new(env!("CARGO_MANIFEST_DIR")).join(S5CMD).exists() {
            contenders.push(("s5cmd cp", Box::new(s5cmd)));
        } else {
            println!("  s5cmd: not measured: {S5CMD} is not there");
        }
        let sides = turns(server, self.rounds, contenders)?;
        remove(&out)?;
        print(&sides, objects, server.bytes as f64);
        let cpu = |name: &str| Some(sides.iter().find(|side| side.name == name)?.cpu());
        let ratio = |ours, other| Some(cpu(ours)? / cpu(other)?);
        let goal = Goal::AtMost(1.3);
        self.goal(
            "processor: gets / bare hyper",
            ratio("gets", "bare hyper"),
            goal,
        );
        let goal = Goal::AtMost(2.2);
        self.goal(
            "processor: convert / bare hyper",
            ratio("convert", "bare hyper"),
            goal,
        );
        self.goal(
            "processor: convert / SDK",
            ratio("convert", "SDK"),
            Goal::AtMost(1.0),
        );
        let goal = Goal::AtMost(0.7);
        self.goal(
            "processor: convert / s5cmd cp",
            ratio("convert", "s5cmd cp"),
            goal,
        );
        Ok(())
    }

    /// Verifies shards, against a loop that gets and checksums their ranges.
    fn shards(&self, server: &Elsewhere) -> io::Result<()> {
        let mut made = Command::new(&self.shardpack);
        made.args(["convert", "s3://bucket/images", "s3://bucket/shards", "-q"]);
        server.aim(&mut made);
        measure::run(&mut made).map_err(io::Error::other)?;
        self.heading(
            "shards in S3, `verify --level data`",
            "ranges of 8 MiB, 8 at once",
        );
        let verify = || {
            let mut command = Command::new(&self.shardpack);
            command.args(["verify", "--level", "data", "s3://bucket/shards", "-q"]);
            server.aim(&mut command);
            Ok(command)
        };
        let endpoint = server.endpoint.as_str();
        let contenders: Vec<(&'static str, Prepare<'_>)> = vec![
            (
                "bare ranges",
                Box::new(|| self.own(server, &["s3-ranges", endpoint, "shards/data/"])),
            ),
            ("verify", Box::new(verify)),
        ];
        let sides = turns(server, self.rounds, contenders)?;
        print(&sides, self.files, server.bytes as f64);
        let seconds = |name: &str| Some(sides.iter().find(|side| side.name == name)?.seconds());
        let speed = seconds("bare ranges").zip(seconds("verify"));
        let speed = speed.map(|(bare, verify)| bare / verify);
        self.goal("speed: verify / bare ranges", speed, Goal::AtLeast(0.8));
        Ok(())
    }
}

/// Where the certificate of a server of this run is.
pub(crate) fn certificate(port: u16) -> PathBuf {
    env::temp_dir().join(format!("shardpack-bench-{port}.pem"))
}
