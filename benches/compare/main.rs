//! `make bench`: ratios that hold on any machine, because both sides of each are measured in the same minutes.
//!
//! Everything is a process of its own, timed from start to end, warm, in turns (A B A B …); medians are compared.
//! The trees are made once and kept in `target/bench`.
//!
//! | variable | meaning |
//! |---|---|
//! | `BENCH_ROUNDS` | runs of each contender (5) |
//! | `BENCH_FILES` | files in the tree (20000, 100 KB each); planning is measured with a hundred times as many |
//! | `BENCH_ONLY` | comma-separated: `warm`, `fsync`, `verify`, `slow`, `plan`, `get`, `s3`, `tfrecord`, `zstd`, and `shardpack`, `tar`, `shardwriter`, `floor` |
//! | `BENCH_PYTHON` | a Python with webdataset and TensorFlow (`.venv/bin/python`) |
//! | `BENCH_UNITS` | the unit tests' binary, which gets objects and does nothing with them: `cargo test --release --lib --no-run` says where it is |
//! | `SHARDPACK_BIN` | the program to measure |

mod bare;
mod floor;
mod measure;
mod plane;
mod s3;

use std::collections::HashSet;
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;

use measure::{Contender, Series, in_turns};
use s3::Serving;

const SECTIONS: [&str; 9] = [
    "warm", "fsync", "verify", "slow", "plan", "get", "s3", "tfrecord", "zstd",
];
/// Texts of the tree that compression is measured with, and bytes of each.
const TEXTS: usize = 4000;
const TEXT_BYTES: usize = 250_000;
const CONTENDERS: [&str; 4] = ["shardpack", "tar", "shardwriter", "floor"];
const MEMORY: &str = "512MiB";
const MEMORY_BYTES: f64 = 512.0 * 1024.0 * 1024.0;
const SLOW_SECONDS: f64 = 0.1;
/// Reads at once of S3 objects, shardpack's default, and the memory that lets it have so many.
const S3_READS: usize = 512;
const S3_MEMORY: &str = "1GiB";
const S3_MEMORY_BYTES: f64 = 1024.0 * 1024.0 * 1024.0;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["floor", tree, out] => floor::copy(Path::new(tree), Path::new(out), false).map(drop),
        ["floor", tree, out, "--fsync"] => {
            floor::copy(Path::new(tree), Path::new(out), true).map(drop)
        }
        ["s3-serve", ref numbers @ ..] => {
            Serving::read(numbers).and_then(|serving| s3::serve(&serving))
        }
        ["s3-bare", endpoint, pictures, at_once] => {
            number(pictures).and_then(|pictures| s3::bare(endpoint, pictures, number(at_once)?))
        }
        ["s3-ranges", endpoint, prefix] => s3::ranges(endpoint, prefix),
        ["s3-get", endpoint, pictures, at_once] => {
            number(pictures).and_then(|pictures| s3::get(endpoint, pictures, number(at_once)?))
        }
        ["s3-put", endpoint, objects, bytes] => {
            number(objects).and_then(|objects| s3::put(endpoint, objects, number(bytes)? as u64))
        }
        ["read", tree] => floor::read(Path::new(tree)).map(drop),
        // `cargo test --all-targets` starts this too, and has no hours to give
        _ if !words.contains(&"--bench") => {
            println!("run `make bench`");
            Ok(())
        }
        _ => Bench::from_env().and_then(|bench| bench.run()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> io::Result<usize> {
    text.parse()
        .map_err(|_| io::Error::other(format!("{text} is not a number")))
}

struct Bench {
    shardpack: PathBuf,
    python: PathBuf,
    dir: PathBuf,
    rounds: usize,
    files: usize,
    only: HashSet<String>,
}

impl Bench {
    fn from_env() -> io::Result<Self> {
        let number = |name: &str, default: usize| match env::var(name) {
            Ok(text) => text
                .parse()
                .map_err(|_| io::Error::other(format!("{name}={text} is not a number"))),
            Err(_) => Ok(default),
        };
        let only: HashSet<String> = env::var("BENCH_ONLY")
            .unwrap_or_default()
            .split(',')
            .filter(|w| !w.is_empty())
            .map(String::from)
            .collect();
        if let Some(word) = only.iter().find(|word| {
            !SECTIONS
                .iter()
                .chain(&CONTENDERS)
                .any(|known| known == word)
        }) {
            return Err(io::Error::other(format!(
                "BENCH_ONLY: `{word}` is none of {SECTIONS:?}, {CONTENDERS:?}"
            )));
        }
        // beside the folder that cargo keeps for benches, which is target/tmp
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
        fs::create_dir_all(&dir)?;
        Ok(Self {
            shardpack: env::var_os("SHARDPACK_BIN")
                .unwrap_or_else(|| env!("CARGO_BIN_EXE_shardpack").into())
                .into(),
            python: env::var_os("BENCH_PYTHON")
                .unwrap_or_else(|| ".venv/bin/python".into())
                .into(),
            dir: dir.canonicalize()?,
            rounds: number("BENCH_ROUNDS", 5)?.max(1),
            files: number("BENCH_FILES", 20_000)?.max(100),
            only,
        })
    }

    fn run(&self) -> io::Result<()> {
        let sections: [fn(&Self) -> io::Result<()>; 9] = [
            Self::warm,
            Self::fsync,
            Self::verify,
            Self::slow,
            Self::plan,
            Self::get,
            Self::s3,
            Self::tfrecord,
            Self::zstd,
        ];
        for (name, section) in SECTIONS.iter().zip(sections) {
            if self.wanted(name, &SECTIONS) {
                section(self)?;
            }
        }
        remove(&self.dir.join("out"))
    }

    /// Whether `name` is asked for, or nothing of its kind is.
    fn wanted(&self, name: &str, kind: &[&str]) -> bool {
        self.only.contains(name) || !kind.iter().any(|other| self.only.contains(*other))
    }

    fn warm(&self) -> io::Result<()> {
        self.convert("warm cache, no fsync", false)
    }

    fn fsync(&self) -> io::Result<()> {
        self.convert("warm cache, everything fsynced", true)
    }

    /// Reads a tree and writes shards, as three others do.
    fn convert(&self, title: &str, fsync: bool) -> io::Result<()> {
        let tree = self.tree(self.files)?;
        let bytes = floor::bytes(&tree)? as f64;
        self.heading(
            title,
            &format!("{} files, {:.2} GB", self.files, bytes / 1e9),
        );
        floor::read(&tree)?;
        let out = self.dir.join("out");
        let contenders = CONTENDERS
            .into_iter()
            .filter(|name| self.wanted(name, &CONTENDERS))
            .map(|name| {
                let (tree, out) = (&tree, &out);
                Contender {
                    name,
                    prepare: Box::new(move || self.converter(name, tree, out, fsync)),
                }
            });
        let series = in_turns(self.rounds, contenders.collect());
        remove(&out)?;

        for series in &series {
            print_series(
                series,
                &format!("{:6.0} files/s", self.files as f64 / series.median()),
            );
        }
        let ratio = |slower, faster| Some(median(&series, slower)? / median(&series, faster)?);
        self.goal(
            "tar / shardpack",
            ratio("tar", "shardpack"),
            Goal::AtLeast(2.0),
        );
        self.goal(
            "shardwriter / shardpack",
            ratio("shardwriter", "shardpack"),
            Goal::AtLeast(6.0),
        );
        self.goal(
            "shardpack / floor",
            ratio("shardpack", "floor"),
            Goal::AtMost(1.15),
        );
        // what the first two could be at the very most, on this disk
        self.goal("tar / floor", ratio("tar", "floor"), Goal::None);
        self.goal(
            "shardwriter / floor",
            ratio("shardwriter", "floor"),
            Goal::None,
        );
        self.memory_goal(find(&series, "shardpack"));
        Ok(())
    }

    fn converter(&self, name: &str, tree: &Path, out: &Path, fsync: bool) -> io::Result<Command> {
        fresh(out)?;
        let images = tree.join("train");
        let mut command = match name {
            "shardpack" => {
                let mut command = self.shardpack_convert(tree, out);
                command.args((!fsync).then_some("--no-fsync"));
                return Ok(command);
            }
            "tar" => {
                let mut command = Command::new("sh");
                command.args(["-c", r#"tar cf "$2/all.tar" -C "$1" . && if [ -n "$3" ]; then sync "$2/all.tar"; fi"#, "sh"]);
                command
            }
            "shardwriter" => {
                let mut command = Command::new(&self.python);
                command.arg("benches/shard_writer.py");
                command
            }
            _ => {
                let mut command = Command::new(env::current_exe()?);
                command.arg("floor");
                command
            }
        };
        command
            .arg(&images)
            .arg(out)
            .args(fsync.then_some("--fsync"));
        Ok(command)
    }

    /// Writes TFRecords, against TensorFlow's own writer and a loop that only copies.
    fn tfrecord(&self) -> io::Result<()> {
        let (tree, out) = (self.tree(self.files)?, self.dir.join("out"));
        let bytes = floor::bytes(&tree)? as f64;
        self.heading(
            "TFRecord, warm cache, no fsync",
            &format!("{} files, {:.2} GB", self.files, bytes / 1e9),
        );
        floor::read(&tree)?;
        let prepare = |name: &'static str| {
            let (tree, out) = (&tree, &out);
            move || {
                if name == "floor" {
                    return self.converter("floor", tree, out, false);
                }
                fresh(out)?;
                if name == "shardpack" {
                    let mut command = self.shardpack_convert(tree, out);
                    command.args(["--no-fsync", "--format", "tfrecord", "--schema", "tfds"]);
                    return Ok(command);
                }
                let mut command = Command::new(&self.python);
                command
                    .arg("benches/tfrecord_writer.py")
                    .arg(tree.join("train"))
                    .arg(out);
                Ok(command)
            }
        };
        let contenders = ["shardpack", "tensorflow", "floor"].map(|name| Contender {
            name,
            prepare: Box::new(prepare(name)),
        });
        let series = in_turns(self.rounds, contenders.into());
        remove(&out)?;
        for series in &series {
            print_series(
                series,
                &format!("{:6.0} files/s", self.files as f64 / series.median()),
            );
        }
        let ratio = |slower, faster| Some(median(&series, slower)? / median(&series, faster)?);
        self.goal(
            "tensorflow / shardpack",
            ratio("tensorflow", "shardpack"),
            Goal::AtLeast(10.0),
        );
        self.goal(
            "shardpack / floor",
            ratio("shardpack", "floor"),
            Goal::AtMost(1.15),
        );
        self.memory_goal(find(&series, "shardpack"));
        Ok(())
    }

    /// Compresses texts, against the zstd tool on one core.
    fn zstd(&self) -> io::Result<()> {
        let out = self.dir.join("out");
        let tree = self.text_tree()?;
        let plain = self.dir.join("texts-plain");
        fresh(&plain)?;
        let convert = |out: &Path| {
            let mut command = self.shardpack_convert(&tree, out);
            command.args(["--no-fsync", "--shards", "16"]);
            command
        };
        if let Err(message) = measure::run(&mut convert(&plain)) {
            println!("\nzstd: not measured: {message}");
            return Ok(());
        }
        let shards = plain.join("shards/data");
        let bytes = floor::bytes(&shards)? as f64;
        self.heading("zstd:3 over texts", &format!("{:.2} GB", bytes / 1e9));
        let ours = || {
            fresh(&out)?;
            let mut command = convert(&out);
            command.args(["--compress", "zstd:3"]);
            Ok(command)
        };
        let zstd = || {
            fresh(&out)?;
            let mut command = Command::new("sh");
            command
                .args([
                    "-c",
                    "cat \"$1\"/*.tar | zstd -3 --single-thread -q -o \"$2/all.zst\"",
                    "sh",
                ])
                .arg(&shards)
                .arg(&out);
            Ok(command)
        };
        let series = in_turns(
            self.rounds,
            vec![
                Contender {
                    name: "shardpack",
                    prepare: Box::new(ours),
                },
                Contender {
                    name: "zstd",
                    prepare: Box::new(zstd),
                },
            ],
        );
        remove(&out)?;
        remove(&plain)?;
        for series in &series {
            print_series(
                series,
                &format!("{:6.0} MB/s", bytes / 1e6 / series.median()),
            );
        }
        let ratio = median(&series, "zstd")
            .zip(median(&series, "shardpack"))
            .map(|(zstd, ours)| zstd / ours);
        self.goal("zstd -3 / shardpack", ratio, Goal::AtLeast(1.8));
        self.memory_goal(find(&series, "shardpack"));
        Ok(())
    }

    /// Small pictures, each with a text that compresses about as English does.
    fn text_tree(&self) -> io::Result<PathBuf> {
        self.made_once(&format!("texts-{TEXTS}"), |dir| {
            let class = dir.join("train/n00000001");
            fs::create_dir_all(&class)?;
            let picture = {
                let mut bytes = io::Cursor::new(Vec::new());
                let image = image::RgbImage::new(8, 8);
                image
                    .write_to(&mut bytes, image::ImageFormat::Png)
                    .map_err(io::Error::other)?;
                bytes.into_inner()
            };
            for number in 0..TEXTS {
                let mut state = number as u64 * 2 + 1;
                let mut text = String::with_capacity(TEXT_BYTES + 16);
                while text.len() < TEXT_BYTES {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    // Few words often and many words seldom.
                    let word = ((state >> 33) % 4000) * ((state >> 45) % 4000) / 4000;
                    text.push_str(&format!("w{word:x} "));
                }
                fs::write(class.join(format!("{number:05}.png")), &picture)?;
                fs::write(class.join(format!("{number:05}.txt")), text)?;
            }
            Ok(())
        })
    }

    /// Reads shards and checks every byte of them, against a loop that does no more than that.
    fn verify(&self) -> io::Result<()> {
        let (tree, out) = (self.tree(self.files)?, self.dir.join("out"));
        fresh(&out)?;
        if let Err(message) = measure::run(self.shardpack_convert(&tree, &out).arg("--no-fsync")) {
            println!("\nverify: not measured: {message}");
            return Ok(());
        }
        let shards = out.join("shards/data");
        let bytes = floor::bytes(&shards)? as f64;
        self.heading(
            "verify --level data, warm cache",
            &format!("{:.2} GB", bytes / 1e9),
        );
        let verify = || {
            let mut command = Command::new(&self.shardpack);
            command.arg("verify").arg(out.join("shards")).args([
                "--level",
                "data",
                "--progress",
                "none",
            ]);
            Ok(command)
        };
        let read = || {
            let mut command = Command::new(env::current_exe()?);
            command.arg("read").arg(&shards);
            Ok(command)
        };
        let series = in_turns(
            self.rounds,
            vec![
                Contender {
                    name: "shardpack",
                    prepare: Box::new(verify),
                },
                Contender {
                    name: "read",
                    prepare: Box::new(read),
                },
            ],
        );
        remove(&out)?;
        for series in &series {
            print_series(
                series,
                &format!("{:6.2} GB/s", bytes / 1e9 / series.median()),
            );
        }
        let part = median(&series, "read")
            .zip(median(&series, "shardpack"))
            .map(|(read, verify)| read / verify);
        self.goal("speed of verify / bare loop", part, Goal::AtLeast(0.8));
        Ok(())
    }

    /// Reads a tree where every open takes a tenth of a second.
    fn slow(&self) -> io::Result<()> {
        let shim = self.dir.join("slow_open.so");
        let built = Command::new("gcc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([&shim, Path::new("benches/slow_open.c")])
            .status()?;
        if !built.success() {
            return Err(io::Error::other("gcc cannot build benches/slow_open.c"));
        }
        self.heading("every open takes 100 ms", "--no-fsync");
        let few = (self.files * 3 / 20).max(100);
        let runs = [
            ("--reads 64", Some(64), few),
            ("--reads 256", Some(256), self.files),
            ("default", None, self.files),
        ];
        for (name, reads, files) in runs {
            let (tree, out) = (self.tree(files)?, self.dir.join("out"));
            let counted = self.dir.join("slow_open.count");
            let prepare = || {
                fresh(&out)?;
                let mut command = self.shardpack_convert(&tree, &out);
                command
                    .arg("--no-fsync")
                    .env("LD_PRELOAD", &shim)
                    .env("SLOW_ROOT", &tree)
                    .env("SLOW_COUNT", &counted);
                if let Some(reads) = reads {
                    command.arg("--reads").arg(reads.to_string());
                }
                Ok(command)
            };
            // the wait outweighs every noise, and the runs are long
            let contenders = vec![Contender {
                name,
                prepare: Box::new(prepare),
            }];
            let Some(series) = in_turns(self.rounds.min(3), contenders).pop() else {
                continue;
            };
            remove(&out)?;
            let slowed: usize = fs::read_to_string(&counted)?.trim().parse().unwrap_or(0);
            if slowed < files {
                println!(
                    "  {name}: not measured: {slowed} of {files} opens went through the C library and were slowed"
                );
                continue;
            }
            let speed = files as f64 / series.median();
            print_series(&series, &format!("{speed:6.0} files/s, {files} files"));
            match reads {
                Some(reads) => {
                    let possible = f64::from(reads) / SLOW_SECONDS;
                    self.goal(
                        &format!("{name}: speed / possible"),
                        Some(speed / possible),
                        Goal::AtLeast(0.9),
                    );
                }
                None => self.goal("default: files/s", Some(speed), Goal::AtLeast(2000.0)),
            }
            self.memory_goal(Some(&series));
        }
        Ok(())
    }

    /// Plans very many files: what a sample costs in memory, and the time beside that of a walk.
    fn plan(&self) -> io::Result<()> {
        let files = self.files * 100;
        let tree = self.sparse_tree(files)?;
        self.heading(
            "planning (--dry-run --validate none)",
            &format!("{files} files"),
        );
        let plan = || {
            let mut command = self.shardpack_convert(&tree, &self.dir.join("out"));
            command.args(["--dry-run", "--validate", "none"]);
            Ok(command)
        };
        let walk = || {
            let mut command = Command::new("find");
            command
                .arg(&tree)
                .args(["-type", "f", "-printf", "%s %p\n"]);
            Ok(command)
        };
        let series = in_turns(
            self.rounds.min(3),
            vec![
                Contender {
                    name: "find",
                    prepare: Box::new(walk),
                },
                Contender {
                    name: "shardpack",
                    prepare: Box::new(plan),
                },
            ],
        );
        for series in &series {
            print_series(
                series,
                &format!("{:6.0} files/s", files as f64 / series.median()),
            );
        }
        let each =
            find(&series, "shardpack").map(|series| series.peak_bytes() as f64 / files as f64);
        self.goal("peak memory / sample, bytes", each, Goal::AtMost(150.0));
        let ratio = median(&series, "shardpack")
            .zip(median(&series, "find"))
            .map(|(plan, walk)| plan / walk);
        self.goal("shardpack / find", ratio, Goal::None);
        Ok(())
    }

    /// Objects behind 100 ms, against loops of bare requests; and against copying with the usual tool.
    fn s3(&self) -> io::Result<()> {
        let current = std::cell::RefCell::new(None);
        // A fresh server for each run: what runs before wrote is gone.
        let start_with = |latency: u64, part: u64, pictures: usize| -> io::Result<String> {
            current.replace(None);
            let server = s3::Elsewhere::start(&Serving {
                latency_ms: latency,
                part_ms: part,
                pictures,
                ..Serving::default()
            })?;
            let endpoint = server.endpoint.clone();
            current.replace(Some(server));
            Ok(endpoint)
        };
        let start = |latency: u64, pictures: usize| start_with(latency, 0, pictures);
        let aim = |command: &mut Command| {
            if let Some(server) = &*current.borrow() {
                server.aim(command);
            }
        };
        let convert = |source: &Path, flags: &[&str]| {
            let mut command = Command::new(&self.shardpack);
            command.arg("convert").arg(source).arg("s3://bucket/out");
            command.args(["--memory", S3_MEMORY, "--progress", "none", "-q"]);
            command.args(flags);
            aim(&mut command);
            command
        };
        let rounds = self.rounds.min(3);

        let files = self.files;
        self.heading(
            "S3 to S3, every answer 100 ms later",
            &format!("{files} objects"),
        );
        for at_once in [S3_READS, S3_READS / 4] {
            let reads = at_once.to_string();
            let pack = || {
                start(100, files)?;
                let source = Path::new("s3://bucket/images");
                Ok(convert(source, &["--reads", &reads]))
            };
            let get = || {
                let endpoint = start(100, files)?;
                let mut command = Command::new(env::current_exe()?);
                command.args(["s3-get", &endpoint, &files.to_string(), &reads]);
                Ok(command)
            };
            let contenders = vec![
                contender("shardpack", Box::new(pack)),
                contender("bare gets", Box::new(get)),
            ];
            let series = in_turns(rounds, contenders);
            println!("  {reads} reads at once");
            for series in &series {
                let rate = files as f64 / series.median();
                let cpu = series.cpu_seconds();
                print_series(
                    series,
                    &format!("{rate:6.0} objects/s, {cpu:.1} s of processor"),
                );
            }
            let of = |name| find(&series, name);
            if let (Some(pack), Some(get)) = (of("shardpack"), of("bare gets")) {
                let least = (files as f64 * SLOW_SECONDS / at_once as f64).max(get.median());
                let part = Some(least / pack.median());
                self.goal("speed / possible", part, Goal::AtLeast(0.9));
                let cpu = pack.cpu_seconds() / get.cpu_seconds();
                self.goal("processor / bare gets", Some(cpu), Goal::AtMost(1.3));
                let memory = Some(pack.peak_bytes() as f64 / S3_MEMORY_BYTES);
                let what = format!("peak memory / --memory {S3_MEMORY}");
                self.goal(&what, memory, Goal::AtMost(1.15));
            }
        }

        let tree = self.tree(files)?;
        let bytes = floor::bytes(&tree)?;
        floor::read(&tree)?;
        let shards = bytes.div_ceil(1_000_000_000).max(1);
        self.heading(
            "a warm tree to S3",
            &format!("{:.2} GB in {shards} shards", bytes as f64 / 1e9),
        );
        // As fast as this machine can, and at the 20 MB/s that S3 gives one connection: 0.4 s for a part.
        for part_ms in [0, 400] {
            let pack = || {
                start_with(0, part_ms, 0)?;
                Ok(convert(&tree, &["--shards", &shards.to_string()]))
            };
            let put = || {
                let endpoint = start_with(0, part_ms, 0)?;
                let mut command = Command::new(env::current_exe()?);
                let each = bytes / shards;
                command.args(["s3-put", &endpoint, &shards.to_string(), &each.to_string()]);
                Ok(command)
            };
            let contenders = vec![
                contender("shardpack", Box::new(pack)),
                contender("bare puts", Box::new(put)),
            ];
            let series = in_turns(rounds, contenders);
            println!("  {part_ms} ms a part of 8 MiB");
            for series in &series {
                let rate = bytes as f64 / 1e6 / series.median();
                let cpu = series.cpu_seconds();
                print_series(series, &format!("{rate:6.0} MB/s, {cpu:.1} s of processor"));
            }
            let ratio = |a, b| Some(median(&series, a)? / median(&series, b)?);
            self.goal(
                "speed / bare puts",
                ratio("bare puts", "shardpack"),
                Goal::AtLeast(0.9),
            );
            let memory =
                find(&series, "shardpack").map(|pack| pack.peak_bytes() as f64 / S3_MEMORY_BYTES);
            let what = format!("peak memory / --memory {S3_MEMORY}");
            self.goal(&what, memory, Goal::AtMost(1.15));
        }

        let few = files / 5;
        let aws = self.python.with_file_name("aws");
        if !aws.exists() {
            println!("  aws: not measured: {} is not there", aws.display());
            return Ok(());
        }
        self.heading(
            "S3 to S3, against aws s3 cp, tar, aws s3 cp",
            &format!("{few} objects, 100 ms"),
        );
        let out = self.dir.join("out");
        let copy = || {
            start(100, few)?;
            fresh(&out)?;
            let mut command = Command::new("sh");
            let script = r#""$1" s3 cp --quiet --recursive s3://bucket/images "$2/images" &&
                tar cf "$2/all.tar" -C "$2/images" . && "$1" s3 cp --quiet "$2/all.tar" s3://bucket/out/all.tar"#;
            command.args(["-c", script, "sh"]).arg(&aws).arg(&out);
            aim(&mut command);
            Ok(command)
        };
        let pack = || {
            start(100, few)?;
            Ok(convert(Path::new("s3://bucket/images"), &[]))
        };
        let series = in_turns(
            rounds.min(2),
            vec![
                contender("shardpack", Box::new(pack)),
                contender("aws", Box::new(copy)),
            ],
        );
        for series in &series {
            let rate = few as f64 / series.median();
            print_series(series, &format!("{rate:6.0} objects/s"));
        }
        let ratio = |a, b| Some(median(&series, a)? / median(&series, b)?);
        self.goal(
            "aws / shardpack",
            ratio("aws", "shardpack"),
            Goal::AtLeast(10.0),
        );
        Ok(())
    }

    fn shardpack_convert(&self, tree: &Path, out: &Path) -> Command {
        let mut command = Command::new(&self.shardpack);
        command.arg("convert").arg(tree).arg(out.join("shards"));
        command.args(["--memory", MEMORY, "--progress", "none", "-q"]);
        command
    }

    /// An ImageFolder of so many files, made if it is not there yet.
    fn tree(&self, files: usize) -> io::Result<PathBuf> {
        self.made_once(&format!("tree-{files}"), |dir| {
            let maker = Path::new(env!("CARGO_BIN_EXE_shardpack")).with_file_name("imagefolder");
            let (files, bytes) = (files.to_string(), (files * 100_000).to_string());
            let mut command = Command::new(&maker);
            command
                .arg(dir)
                .args(["--raw", "--files", &files, "--bytes", &bytes]);
            measure::run(&mut command)
                .map(drop)
                .map_err(|message| io::Error::other(message + ": run `make bench`"))
        })
    }

    /// So many files of 1,000 bytes that take no room, in 1,000 classes with names like ImageNet's.
    fn sparse_tree(&self, files: usize) -> io::Result<PathBuf> {
        const CLASSES: usize = 1000;
        self.made_once(&format!("many-{files}"), |dir| {
            let (cores, files_each) = (floor::cores(), files.div_ceil(CLASSES));
            thread::scope(|scope| {
                let threads: Vec<_> = (0..cores)
                    .map(|thread| {
                        scope.spawn(move || {
                            for class in (thread..CLASSES).step_by(cores) {
                                let name = format!("n{:08}", 1_440_764 + class * 13_007);
                                let class_dir = dir.join("train").join(&name);
                                fs::create_dir_all(&class_dir)?;
                                for file in
                                    0..files_each.min(files.saturating_sub(class * files_each))
                                {
                                    File::create(class_dir.join(format!("{name}_{file}.JPEG")))?
                                        .set_len(1000)?;
                                }
                            }
                            Ok(())
                        })
                    })
                    .collect();
                threads
                    .into_iter()
                    .try_for_each(|thread| thread.join().expect("no thread panics"))
            })
        })
    }

    /// Makes a folder under another name and renames it, so that an interrupted bench leaves no half of it.
    fn made_once(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<PathBuf> {
        let dir = self.dir.join(name);
        if !dir.exists() {
            println!("making {}", dir.display());
            let part = self.dir.join(format!("{name}.part"));
            fresh(&part)?;
            make(&part)?;
            fs::rename(&part, &dir)?;
        }
        Ok(dir)
    }

    fn heading(&self, title: &str, size: &str) {
        println!(
            "\n{title}: {size}, {} cores, up to {} rounds",
            floor::cores(),
            self.rounds
        );
    }

    fn memory_goal(&self, shardpack: Option<&Series>) {
        let part = shardpack.map(|series| series.peak_bytes() as f64 / MEMORY_BYTES);
        self.goal(
            &format!("peak memory / --memory {MEMORY}"),
            part,
            Goal::AtMost(1.15),
        );
    }

    fn goal(&self, what: &str, value: Option<f64>, goal: Goal) {
        let Some(value) = value else { return };
        let (goal, verdict) = match goal {
            Goal::AtLeast(least) => (
                format!("≥ {least}"),
                if value >= least { "met" } else { "MISSED" },
            ),
            Goal::AtMost(most) => (
                format!("≤ {most}"),
                if value <= most { "met" } else { "MISSED" },
            ),
            Goal::None => (String::new(), ""),
        };
        println!("    {what:<34} {value:>9.2}   {goal:<8} {verdict}");
    }
}

fn contender<'a>(
    name: &'static str,
    prepare: Box<dyn Fn() -> io::Result<Command> + 'a>,
) -> Contender<'a> {
    Contender { name, prepare }
}

enum Goal {
    AtLeast(f64),
    AtMost(f64),
    None,
}

fn print_series(series: &Series, note: &str) {
    let (name, median, peak) = (series.name, series.median(), series.peak_bytes() >> 20);
    let spread = format!("({:.2}–{:.2})", series.min(), series.max());
    println!("  {name:<12} {median:>8.2} s {spread:>15}  {note}, peak {peak} MiB");
}

fn find<'a>(series: &'a [Series], name: &str) -> Option<&'a Series> {
    series.iter().find(|series| series.name == name)
}

fn median(series: &[Series], name: &str) -> Option<f64> {
    find(series, name).map(Series::median)
}

/// An empty folder.
fn fresh(dir: &Path) -> io::Result<()> {
    remove(dir)?;
    fs::create_dir_all(dir)
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
