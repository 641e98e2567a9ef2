//! The tool inside a pod: pages for people, progress and deadlines for a scheduler, limits of a control group, a root that cannot be
//! written to.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::s3::{at, upload};
use crate::support::{BINARY, Dataset, files, finished, flip, is_root, run, shardpack};
use shardpack_fixtures::s3_server::Server;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A page, which must be one that the strictest viewers show.
fn page(path: &Path) -> String {
    let page = fs::read_to_string(path).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    // It forbids itself everything but its own script and pictures.
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-"));
    for (word, own, times) in [
        ("<script", "<script>", 1),
        ("src=", "src=\"data:image/jpeg;base64,", usize::MAX),
    ] {
        assert_eq!(
            page.matches(word).count(),
            page.matches(own).count(),
            "{word}"
        );
        assert!(page.matches(own).count() <= times, "{own}");
    }
    for word in ["href=", "url(", "@import", "javascript:"] {
        assert!(!page.contains(word), "{word}");
    }
    page
}

#[test]
fn a_report_tells_what_is_in_a_dataset_and_is_the_same_every_time() {
    let data = Dataset::new().class("<cat> & co", 30).class("dog", 10);
    let summary = data.place("summary.json");
    let flags = ["--shards", "3", "--summary", summary.to_str().unwrap()];
    let output = data.convert(&flags);
    let (one, two) = (data.place("a/b/one.html"), data.place("two.html"));
    for path in [&one, &two] {
        output
            .verb("report", &["--output", path.to_str().unwrap()])
            .exits(0)
            .says(&["report of"]);
    }
    assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
    let text = page(&one);
    for part in [
        "&lt;cat&gt; &amp; co",
        "The largest has 3.0 times as many samples as the smallest",
        "40 images: jpeg 40 (100.0 %)",
        "Sizes of the shards of train",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("The run"));

    let args = ["--output", "-", "--run", summary.to_str().unwrap()];
    let both = output.verb("report", &args);
    both.exits(0);
    assert!(both.out.contains("convert done") && both.out.contains("The run"));
    assert!(both.out.starts_with("<!DOCTYPE html>"));
    let other = ["--output", "-", "--run", one.to_str().unwrap()];
    output
        .verb("report", &other)
        .exits(2)
        .says(&["not a summary"]);
    let nothing = data.fresh();
    run(shardpack(&["report", "--output", "-"]).arg(&nothing))
        .exits(1)
        .says(&["has no manifest"]);
}

#[test]
fn a_report_shows_pictures_the_command_and_how_the_dataset_is_read() {
    let data = Dataset::new().class("cat", 6).class("dog", 2);
    let report = data.place("report.html");
    let flags = [
        "--report",
        report.to_str().unwrap(),
        "--shards",
        "2",
        "--name",
        "it's",
    ];
    let output = data.convert(&flags);
    let page = page(&report);
    // Four of the cats and both dogs.
    assert!(page.matches("<img alt=\"").count() >= 6, "{page}");
    assert!(
        page.contains("shardpack convert ")
            && page.contains("--shards 2 --name &#39;it&#39;\\&#39;&#39;s&#39;")
    );
    // Through the manifest.
    assert!(page.contains("samples = wds.WebDataset([") && !page.contains("{00000.."));
    assert!(page.contains("[&quot;splits&quot;][0][&quot;shards&quot;]"));
    let manifest = fs::read(output.path.join("manifest.json")).unwrap();
    let digest = Sha256::digest(&manifest);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(page.contains(&digest), "{digest}");
}

#[test]
fn a_report_tells_what_changed_since_the_last_run() {
    let data = Dataset::new().class("cat", 9);
    let report = data.place("report.html");
    let flags = ["--report", report.to_str().unwrap()];
    let (data, output) = data.convert_kept(&flags);
    assert!(!page(&report).contains("What changed"));
    let data = data.class("dog", 3);
    data.convert_to(&output.path, &flags).exits(0);
    let text = page(&report);
    for part in [
        "What changed in the source",
        ">new</bdi></th><td class=\"n\">3</td>",
        "new: dog",
        "published, snapshot 2",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_report_of_a_dataset_on_s3_is_that_of_the_same_on_disk() {
    let data = Dataset::new().class("cat", 12).class("dog", 5);
    let server = Server::start();
    upload(&server, &data.source(), "images");
    let flags = ["--shards", "3"];
    let mut convert = at(
        &server,
        &["convert", "s3://bucket/images", "s3://bucket/out"],
    );
    run(convert.args(flags)).exits(0);
    let there = run(&mut at(&server, &["report", "s3://bucket/out", "-o", "-"]));
    let output = data.convert(&flags);
    let here = output.verb("report", &["-o", "-"]);
    let place = output.path.display().to_string();
    // Shards of a bucket are read another way.
    let parts = |page: &str| {
        let (before, rest) = page.split_once("<pre>import ").unwrap();
        let (reading, after) = rest.split_once("</pre>").unwrap();
        [before, reading, after].map(str::to_owned)
    };
    let [there_before, there_read, there_after] = parts(&there.out);
    let [before, read, after] = parts(&here.out.replace(&place, "s3://bucket/out"));
    assert_eq!((there_before, there_after), (before, after));
    assert!(there_read.contains("aws s3 cp") && !read.contains("aws s3 cp"));
    there.exits(0);
}

#[test]
fn a_report_says_which_indexes_it_could_not_read() {
    let data = Dataset::new().class("cat", 30);
    let output = data.convert(&["--shards", "3"]);
    let indexes = files(&output.path.join("index"));
    flip(&indexes[0], 100);
    fs::remove_file(&indexes[1]).unwrap();
    let path = data.place("report.html");
    output
        .verb("report", &["-o", path.to_str().unwrap()])
        .exits(4)
        .says(&["2 indexes could not be read", "shardpack verify"]);
    let text = page(&path);
    assert!(text.contains("2 index files could not be read"));
    assert!(text.contains("10 images"));
}

#[test]
fn a_page_is_written_at_the_end_of_every_verb_that_makes_or_checks_a_dataset() {
    let data = Dataset::new().class("cat", 20).class("dog", 20);
    let destination = data.fresh();
    let place = data.place("out/report.html");
    let flag = ["--report", place.to_str().unwrap()];
    let written = |words: &[&str]| {
        let text = page(&place);
        for word in words {
            assert!(text.contains(word), "{word} is not in {text}");
        }
        let beside = fs::read_dir(place.parent().unwrap()).unwrap();
        assert_eq!(beside.count(), 1, "something else was left there");
        fs::remove_file(&place).unwrap();
    };
    let verb = |verb: &str, code| {
        run(shardpack(&[verb]).arg(&destination).args(flag)).exits(code);
    };
    let mut plan = shardpack(&["plan", "--shards", "4"]);
    run(plan.arg(data.source()).arg(&destination)).exits(0);
    verb("publish", 1);
    written(&["publish failed", "4 of 4 shards are not packed yet"]);
    verb("pack", 0);
    written(&["pack done", "Bytes per second over the time of the run"]);
    verb("publish", 0);
    written(&["publish done", "published, snapshot 1", "Class balance"]);
    verb("verify", 0);
    written(&["verify done", "Class balance"]);
    flip(&files(&destination.join("data"))[0], 700);
    verb("verify", 4);
    written(&[
        "verify damage found: exit code 4",
        "What is damaged",
        "expected",
    ]);
    let converted = data.convert_to(&destination, &[&flag[..], &["--shards", "4"]].concat());
    converted.exits(0);
    written(&["convert done", "published, snapshot 1"]);
    data.convert_to(&destination, &[&flag[..], &["--jobs", "0"]].concat())
        .exits(2);
    written(&["convert refused: exit code 2", "--jobs 0"]);
}

#[test]
fn a_page_that_cannot_be_written_fails_the_run_but_not_its_error() {
    let data = Dataset::new().class("cat", 5);
    let flag = ["--report", "/dev/null/report.html"];
    data.convert_to(&data.fresh(), &flag)
        .exits(1)
        .says(&["published 5 samples", "--report /dev/null/report.html"]);
    data.convert_to(&data.fresh(), &[&flag[..], &["--shards", "0"]].concat())
        .exits(2);
}

#[test]
fn a_summary_tells_what_was_done_when() {
    let data = Dataset::new().class("cat", 30).class("dog", 30);
    let summary = data.place("summary.json");
    data.convert(&["--summary", summary.to_str().unwrap(), "--jobs", "1"]);
    let said = json(&summary);
    let phases = said["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| &phase["name"]).collect();
    assert_eq!(names, ["scan", "plan", "pack", "publish"]);
    assert_eq!(phases[2]["samples"], 60);
    assert_eq!(phases[2]["bytes"], phases[2]["of_bytes"]);
    let last = said["timeline"].as_array().unwrap().last().unwrap();
    assert_eq!(last["samples"], 60);
    assert_eq!(last["bytes"], said["bytes_read"]);
    assert_eq!(said["setup"]["jobs"], 1);
    assert_eq!(said["setup"]["cores"], 1);
    let started = said["started_at"].as_str().unwrap();
    assert!(started.len() == 20 && started.ends_with('Z'), "{started}");
}

#[test]
fn a_scheduler_reads_how_far_a_run_is() {
    let data = Dataset::new().class("cat", 30);
    let file = data.place("progress");
    let output = data.fresh();
    let tell = |command: &mut Command| {
        let ended = run(command.env("ARGO_PROGRESS_FILE", &file));
        let text = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(&file);
        (ended.code, text)
    };
    let bytes: u64 = files(&data.source())
        .iter()
        .map(|file| file.metadata().unwrap().len())
        .sum();
    let (code, text) = tell(&mut data.command(&output, &[]));
    assert_eq!((code, text), (0, format!("{bytes}/{bytes}\n")));
    // Nothing is left to do: that is all of it.
    let (code, text) = tell(&mut data.command(&output, &[]));
    assert_eq!((code, text.as_str()), (0, "1/1\n"));
    let (code, text) = tell(shardpack(&["verify"]).arg(&output));
    let (done, all) = text.trim_end().split_once('/').unwrap();
    assert_eq!((code, done), (0, all));
    let (code, text) = tell(&mut data.command(&data.fresh(), &["--shards", "0"]));
    assert_eq!((code, text.as_str()), (2, ""));
    // A file that cannot be written is no reason to fail.
    let lost = data.place("no/such/progress");
    run(data
        .command(&data.fresh(), &["--progress", "log"])
        .env("ARGO_PROGRESS_FILE", lost))
    .exits(0)
    .says(&["progress file"]);
}

/// A time so many seconds from now, as Argo writes it.
fn in_seconds(seconds: u64) -> String {
    let date = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let at = format!("@{}", date.as_secs() + seconds);
    let date = Command::new("date")
        .args(["-u", "-d", &at, "+%Y-%m-%dT%H:%M:%SZ"])
        .output();
    String::from_utf8(date.unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn a_deadline_that_is_past_is_refused_at_once_and_none_is_no_deadline() {
    let data = Dataset::new().class("cat", 5);
    let report = data.place("report.html");
    let with = |deadline: &str| {
        let flags = ["--report", report.to_str().unwrap()];
        let destination = data.fresh();
        let ended = run(data
            .command(&destination, &flags)
            .env("ARGO_DEADLINE", deadline));
        (ended, destination)
    };
    for past in ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.5+09:00"] {
        let (ended, destination) = with(past);
        ended.exits(75).says(&["ARGO_DEADLINE", "nothing was done"]);
        assert!(!destination.exists());
        assert!(page(&report).contains("exit code 75"));
    }
    // The zero time is how Argo says that there is none.
    for none in ["0001-01-01T00:00:00Z", "", "2999-12-31T23:59:59Z"] {
        with(none).0.exits(0);
    }
    with("tomorrow").0.exits(0).says(&["RFC 3339"]);
}

/// A file that never answers: whoever opens it waits for somebody to write.
const STUCK: &str = "dog/0003.jpg";

/// A planned destination of six shards, of which some are packed, and the command that packs the others but for one, where it hangs.
fn hanging(data: &Dataset) -> (PathBuf, Command) {
    let destination = data.fresh();
    let mut plan = shardpack(&["plan", "--order", "listed", "--shard-samples", "2"]);
    run(plan.arg(data.source()).arg(&destination)).exits(0);
    run(shardpack(&["pack", "--worker", "0/3"]).arg(&destination)).exits(0);
    let file = data.source().join(STUCK);
    fs::remove_file(&file).unwrap();
    let made = Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    let mut command = shardpack(&["pack", "--progress", "none"]);
    command.arg(&destination);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    (destination, command)
}

#[test]
fn a_run_that_hangs_ends_within_five_seconds_of_sigterm_and_still_tells_how_far_it_came() {
    let data = Dataset::new().class("cat", 6).class("dog", 6);
    let (summary, report) = (data.place("summary.json"), data.place("report.html"));
    let (destination, mut command) = hanging(&data);
    command.arg("--summary").arg(&summary);
    let child = command.arg("--report").arg(&report).spawn().unwrap();
    let begun = Instant::now();
    while files(&destination.join("index")).len() < 4 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no shards come");
        std::thread::sleep(Duration::from_millis(5));
    }
    let began = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = finished(child.wait_with_output().unwrap());
    let took = began.elapsed();
    ended.exits(143).says(&["interrupted"]);
    assert!(took < Duration::from_secs(5), "{took:?}");
    let said = json(&summary);
    assert_eq!(said["exit_code"], 143);
    assert!(said["error"].as_str().unwrap().starts_with("interrupted"));
    let pack = &said["phases"].as_array().unwrap().last().unwrap();
    assert_eq!(pack["of_shards"], 4);
    assert!((1..4).contains(&pack["shards"].as_u64().unwrap()), "{pack}");
    let text = page(&report);
    assert!(text.contains("pack terminated: exit code 143") && text.contains("of 4 shards"));
}

#[test]
fn a_run_that_meets_its_deadline_stops_in_time_with_finished_shards_kept() {
    let data = Dataset::new().class("cat", 6).class("dog", 6);
    let (destination, mut command) = hanging(&data);
    let deadline = SystemTime::now() + Duration::from_secs(15);
    let ended = run(command.env("ARGO_DEADLINE", in_seconds(15)));
    assert!(SystemTime::now() < deadline);
    ended
        .exits(75)
        .says(&["before the deadline", "finished shards are kept"]);
    // The file answers again, as it was.
    fs::remove_file(data.source().join(STUCK)).unwrap();
    let data = data.pictures(&[STUCK]);
    run(shardpack(&["pack"]).arg(&destination))
        .exits(0)
        .says(&["were already done"]);
    assert!(data.source().exists());
}

#[test]
fn a_log_of_json_has_one_line_for_each_shard_on_failure_too() {
    let data = Dataset::new()
        .class("cat", 9)
        .file("dog/0000.jpg", "no picture");
    let flags = ["--log", "json", "--order", "listed", "--shard-samples", "3"];
    let ended = data.convert_to(&data.fresh(), &flags);
    ended.exits(3);
    let lines = ended.err.lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut shards: Vec<_> = lines
        .iter()
        .filter(|line| line["message"] == "shard done")
        .map(|line| line["shard"].as_str().unwrap())
        .collect();
    shards.sort_unstable();
    // The fourth holds the bad one.
    let expected = [0, 1, 2].map(|i| format!("data/train-0000{i}.tar"));
    assert_eq!(shards, expected);
    assert_eq!(lines.last().unwrap()["exit_code"], 3);
}

/// Control groups with these limits, gone when dropped.
struct Group(Vec<PathBuf>);

impl Group {
    /// One with a memory limit and a core, in the hierarchies of this machine.
    fn new(memory: u64) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let memory = memory.to_string();
        let limits = match root.join("cgroup.controllers").exists() {
            true => [
                ("", "memory.max", memory.as_str()),
                ("", "cpu.max", "100000 100000"),
            ],
            false => [
                ("memory", "memory.limit_in_bytes", memory.as_str()),
                ("cpu", "cpu.cfs_quota_us", "100000"),
            ],
        };
        let mut group = Self(Vec::new());
        for (hierarchy, file, limit) in limits {
            let path = root.join(hierarchy);
            let path = path.join(format!("shardpack-{}", std::process::id()));
            let made = path.exists() || fs::create_dir(&path).is_ok();
            if made && !group.0.contains(&path) {
                group.0.push(path.clone());
            }
            if !made || fs::write(path.join(file), limit).is_err() {
                eprintln!("not tested: no control group with `{file}` can be made here");
                return None;
            }
        }
        Some(group)
    }

    /// Runs the program within it.
    fn run(&self, args: &[&str]) -> crate::support::Run {
        let enter = |path: &PathBuf| format!("echo $$ > {}/cgroup.procs && ", path.display());
        let enter: String = self.0.iter().map(enter).collect();
        let script = format!("{enter}exec {BINARY} \"$@\"");
        let mut command = Command::new("sh");
        for (name, value) in shardpack(&[]).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        run(command.args(["-c", &script, "sh"]).args(args))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_dir(path);
        }
    }
}

#[test]
fn a_run_takes_no_more_than_its_control_group_has() {
    let Some(group) = Group::new(1 << 30) else {
        return;
    };
    let data = Dataset::new().class("cat", 20);
    let summary = data.place("summary.json");
    let (source, destination) = (data.source(), data.fresh());
    let run = group.run(&[
        "convert",
        source.to_str().unwrap(),
        destination.to_str().unwrap(),
        "--summary",
        summary.to_str().unwrap(),
    ]);
    run.exits(0);
    let setup = &json(&summary)["setup"];
    assert_eq!(setup["memory_bytes"], 268_435_456);
    assert_eq!(setup["cores"], 1);
}

#[test]
fn nothing_is_written_but_the_destination_and_the_files_that_flags_name() {
    let unshared = Command::new("unshare").args(["-m", "true"]).status();
    if !is_root() || !unshared.is_ok_and(|status| status.success()) {
        eprintln!("not tested: no mounts of one's own can be made here");
        return;
    }
    let data = Dataset::new().class("cat", 20).class("dog", 20);
    let out = data.open_place("out");
    let open = out.to_str().unwrap();
    let source = data.source();
    let source = source.to_str().unwrap();
    // A root where nothing can be written, TMPDIR included, and one directory where it can.
    let script = format!(
        "mount --bind {open} {open} && mount -o remount,ro,bind / && mount --bind {open} {open} && mount -o remount,rw,bind {open} && \
         ! touch /probe 2>/dev/null && exec \"$@\""
    );
    let within = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["-m", "sh", "-c", &script, "sh", BINARY])
            .args(args);
        command
            .current_dir("/")
            .env("TMPDIR", "/no/such/place")
            .env("HOME", "/no/such/home");
        run(&mut command)
    };
    let place = |name: &str| format!("{open}/{name}");
    for format in ["wds", "tfrecord", "parquet"] {
        let (data, summary, report) = (place(format), place("s.json"), place("r.html"));
        let flags = [
            "--format",
            format,
            "--summary",
            &summary,
            "--report",
            &report,
        ];
        within(&[&["convert", source, &data][..], &flags].concat()).exits(0);
        let index = match format {
            "wds" => "wids,dali,energon,energon-sqlite",
            "tfrecord" => "tfrecord",
            _ => continue,
        };
        within(&["index", &data, "--index", index]).exits(0);
        within(&["verify", &data]).exits(0);
        within(&["report", &data, "--output", &report]).exits(0);
    }
    let mut page = String::new();
    fs::File::open(place("r.html"))
        .unwrap()
        .read_to_string(&mut page)
        .unwrap();
    assert!(page.contains("Class balance"));
}
