//! How fast files and shards are read, and what that means: figures that slow storage bounds, words that turn with them, nothing left behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use shardpack_fixtures::s3_server::Server;

use crate::s3::{at, tree, upload};
use crate::support::{Dataset, Run, compiled, files, finished, run, shardpack};

/// What each answer takes, or each open.
const LATENCY: Duration = Duration::from_millis(100);
/// Readers in most of these tests.
const READERS: usize = 8;
/// Reads a second that they can make at most, with a thousandth for the clock.
const MOST_READS: f64 = READERS as f64 * 10.01;

fn small() -> Dataset {
    Dataset::new().class("cat", 150).class("dog", 150)
}

/// So few seconds and readers that a test is short.
fn briefly(command: &mut Command) -> &mut Command {
    command.args(["--seconds", "0.6", "--concurrency", "8"])
}

/// Runs to its end, and gives what it says as JSON, which is as the schema in the documentation says.
#[track_caller]
fn figures(command: &mut Command) -> Value {
    let figures = run(command.arg("--json")).exits(0).json();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/bench.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(schema).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = schema
        .iter_errors(&figures)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert_eq!(wrong, [] as [&str; 0], "{figures}");
    figures
}

fn rate(figures: &Value, sort: &str) -> f64 {
    figures[sort][0]["images_per_second"].as_f64().unwrap()
}

/// Files come no faster than readers can ask for them, shards do, and the verdict is that of these figures.
#[track_caller]
fn is_slow(figures: &Value) {
    let (files, shards) = (rate(figures, "files"), rate(figures, "shards"));
    assert!(files > 0.0 && files <= MOST_READS, "{figures}");
    assert!(rate(figures, "random") <= MOST_READS, "{figures}");
    assert!(shards > MOST_READS, "{figures}");
    assert!(
        figures["files"][0]["first_byte_ms"]["p50"]
            .as_f64()
            .unwrap()
            >= 100.0
    );
    let verdict = &figures["verdict"];
    assert_eq!(verdict["files"], "starved");
    assert_eq!(verdict["shards"], "enough");
    assert_eq!(verdict["gain"].as_f64().unwrap(), shards / files);
}

#[test]
fn a_bucket_of_slow_answers_starves_a_gpu_of_files_and_not_of_shards() {
    let server = Server::start();
    upload(&server, &small().source(), "images");
    let before = tree_of(&server);
    server.set_latency(LATENCY);
    let bench = |target: &str| {
        let mut command = at(
            &server,
            &["bench", "s3://bucket/images", "--target", target],
        );
        figures(briefly(&mut command))
    };
    let figures = bench("100");
    is_slow(&figures);
    let each = |sort: &str| figures[sort][0]["requests_per_image"].as_f64().unwrap();
    assert!(each("files") >= 1.0 && each("shards") < 0.5, "{figures}");
    assert_eq!(figures["epoch"]["files"]["requests"], 300);
    // The verdict turns where files are enough.
    let verdict = &bench("1")["verdict"];
    assert_eq!(verdict["files"], "enough");
    assert!(verdict["text"].as_str().unwrap().contains("gain little"));
    assert_eq!(tree_of(&server), before, "the sample is gone again");
    assert_eq!(server.uploads(), []);
}

fn tree_of(server: &Server) -> Vec<String> {
    server.objects("").into_keys().collect()
}

#[test]
fn a_directory_of_slow_opens_starves_a_gpu_of_files_and_not_of_shards() {
    let data = small();
    // The sample that is packed lies beside the source, on the same slow storage.
    let storage = fs::canonicalize(data.source().parent().unwrap()).unwrap();
    let mut command = shardpack(&["bench", "--target", "100"]);
    command
        .arg(data.source())
        .env("LD_PRELOAD", compiled("benches/slow_open.c"))
        .env("SLOW_ROOT", storage)
        .env("SLOW_MS", "100");
    is_slow(&figures(briefly(&mut command)));
}

#[test]
fn no_more_is_under_way_or_read_than_was_allowed() {
    const MOST_BYTES: u64 = 1_000_000;
    let server = Server::start();
    let data = small();
    upload(&server, &data.source(), "images");
    let shards = data.convert(&["--shards", "3"]).path;
    for (name, bytes) in tree(&shards) {
        server.put(&format!("shards/{name}"), bytes);
    }
    server.set_latency(Duration::from_millis(5));
    let summary = data.place("summary.json");
    let args = [
        "bench",
        "s3://bucket/images",
        "--shards",
        "s3://bucket/shards",
    ];
    let mut command = at(&server, &args);
    let max = MOST_BYTES.to_string();
    command.args(["--max-bytes", &max]);
    let figures = figures(briefly(&mut command).arg("--summary").arg(&summary));
    assert!(figures["read_bytes"].as_u64().unwrap() <= MOST_BYTES);
    assert_eq!(figures["dataset_is_temporary"], false);
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    // A read that stands still may be asked for twice, as in every verb.
    let hedges = summary["hedges"].as_u64().unwrap() as usize;
    assert!(server.most_at_once() <= READERS + hedges);
}

/// A training loop so slow that a run is in the middle of it for long.
const ENDLESS: [&str; 10] = [
    "--seconds",
    "20",
    "--max-bytes",
    "20MB",
    "--concurrency",
    "2",
    "--gpu-batch",
    "1",
    "--gpu-images-per-second",
    "1",
];

/// Interrupts a run once this says that its sample is packed.
#[track_caller]
fn interrupted(command: &mut Command, is_packed: impl Fn() -> bool) -> Run {
    command.args(ENDLESS);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while !is_packed() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    finished(child.wait_with_output().unwrap())
}

#[test]
fn an_interrupted_run_leaves_nothing_in_a_directory() {
    let data = small();
    let above = data.source().parent().unwrap().to_owned();
    let before = files(&above);
    let has_manifest = |path: &Path| path.ends_with("manifest.json");
    let ended = interrupted(shardpack(&["bench"]).arg(data.source()), || {
        // A temporary file may be gone before it is looked at.
        std::panic::catch_unwind(|| files(&above))
            .is_ok_and(|found| found.iter().any(|path| has_manifest(path)))
    });
    ended
        .exits(130)
        .says(&["interrupted: nothing of it was left behind"]);
    assert_eq!(files(&above), before);
    assert!(fs::read_dir(&above).unwrap().count() <= 2);
}

#[test]
fn an_interrupted_run_leaves_nothing_in_a_bucket() {
    let server = Server::start();
    upload(&server, &small().source(), "images");
    let before = tree_of(&server);
    let mut command = at(&server, &["bench", "s3://bucket/images"]);
    let ended = interrupted(&mut command, || {
        tree_of(&server)
            .iter()
            .any(|key| key.ends_with("/manifest.json"))
    });
    ended.exits(130);
    assert_eq!(tree_of(&server), before);
    assert_eq!(server.uploads(), []);
}

#[test]
fn warm_files_are_said_to_be_enough_and_the_page_has_what_was_measured() {
    let data = small();
    let page = data.place("pages/bench.html");
    let mut command = shardpack(&["bench", "--seconds", "0.2", "--max-bytes", "40MB"]);
    command.args([
        "--concurrency",
        "4,1",
        "--target",
        "1",
        "--cold",
        "--probe-latency",
    ]);
    command.args(["--gpu-batch", "4", "--decode"]);
    let ran = run(command.arg(data.source()).arg("--report").arg(&page));
    ran.exits(0).says(&[
        "files, random order          1",
        "files, random order          4",
        "blocks of samples            4",
        "gain little: storage is not what limits you",
        "latency   first byte of a file, alone: ",
        "decode    ",
        "gpu       batches of 4 at 1.0/s: ",
    ]);
    // How many were forgotten is the file system's matter; that it was asked is not.
    assert!(ran.out.contains("memory    ") && !ran.out.contains("`--cold`"));
    assert!(!ran.out.contains("epoch"), "a disk counts no requests");
    let page = fs::read_to_string(page).unwrap();
    for part in ["Before and after", "Images a second over readers", "% busy"] {
        assert!(page.contains(part), "{part}");
    }
    let (page, _) = page.split_once("<script>").unwrap();
    assert!(!page.contains("NaN"));
}

#[test]
fn samples_of_packed_shards_cannot_be_read_alone_and_that_is_said() {
    let (data, out) = small().convert_kept(&["--compress", "gzip", "--shards", "2"]);
    let mut command = shardpack(&["bench", "--seconds", "0.1", "--max-bytes", "5MB"]);
    command.args(["--concurrency", "2"]).arg(data.source());
    let figures = figures(command.arg("--shards").arg(&out.path));
    assert!(rate(&figures, "shards") > 0.0);
    assert_eq!(figures["random"], Value::Array(Vec::new()));
    let said = figures["left_out"][0].as_str().unwrap();
    assert!(said.contains("compressed"), "{said}");
}

#[test]
fn what_cannot_be_measured_is_refused_and_leaves_nothing() {
    let data = small();
    let source = data.source();
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let mut command = shardpack(&["bench", "--seconds", "0.1", "--max-bytes", "1MB"]);
        run(command.arg(&source).args(args)).exits(code).says(words);
    };
    let inside = source.join("scratch");
    let before = files(&source);
    refused(
        &["--scratch", inside.to_str().unwrap()],
        2,
        &["lies in the source"],
    );
    assert_eq!(files(&source), before);
    assert!(!inside.exists());
    refused(&["--concurrency", "0"], 2, &["from 1 to 4096"]);
    refused(
        &["--target", "0"],
        2,
        &["--target 0: give a number above 0"],
    );
    refused(&["--shards", "/nowhere"], 1, &["no manifest"]);
    refused(&["--gpu-images-per-second", "100"], 2, &["--gpu-batch"]);
    let empty = Dataset::new().file("notes.txt", "no image");
    let mut command = shardpack(&["bench"]);
    run(command.arg(empty.source()))
        .exits(3)
        .says(&["no images in 1 files"]);
}
