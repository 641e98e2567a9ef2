//! Slow links: a request is given up for standing still, never for taking long, and nothing is sent twice.

use std::process::Command;
use std::time::Duration;

use crate::s3::{at, upload};
use crate::support::{Dataset, Run, padded_picture, run};
use shardpack_fixtures::limited_link::LimitedLink;
use shardpack_fixtures::s3_server::{Fault, Kind, Server};

/// 5 Mbit/s.
const LINK: u64 = 625_000;

/// A server behind a slow link, and a source whose transfer takes several times as long as a request may stand still.
struct Far {
    server: Server,
    link: LimitedLink,
    data: Dataset,
}

/// Of a picture, and how many there are.
const PICTURE_BYTES: usize = 270_000;
const PICTURES: usize = 24;
const DATA_BYTES: u64 = (PICTURE_BYTES * PICTURES) as u64;

impl Far {
    fn new() -> Self {
        let server = Server::start();
        let link = LimitedLink::to(server.port(), LINK);
        let picture = |i: usize| format!("{}/{i:02}.jpg", ["a", "b"][i % 2]);
        let data = (0..PICTURES).fold(Dataset::new(), |data, i| {
            let name = picture(i);
            let content = padded_picture(&name, PICTURE_BYTES);
            data.file(name, content)
        });
        Self { server, link, data }
    }

    /// The program at the far end of the link; three seconds without any progress are too much.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = at(&self.server, args);
        let endpoint = format!("http://127.0.0.1:{}", self.link.port());
        command.env("AWS_ENDPOINT_URL_S3", endpoint);
        command.args(["--request-timeout", "3", "-v"]);
        command
    }

    /// Must have ended well, without a request made again or asked twice.
    #[track_caller]
    fn ends_well(&self, command: &mut Command) -> Run {
        let summary = self.data.place("summary.json");
        let run = run(command.arg("--summary").arg(&summary));
        run.exits(0);
        let text = std::fs::read_to_string(summary).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(summary["retries"], 0, "{}", run.err);
        assert_eq!(summary["hedges"], 0, "{}", run.err);
        run
    }
}

/// At most a tenth more than the data.
#[track_caller]
fn assert_once(moved: u64, data: u64) {
    assert!(
        moved >= data && moved * 10 <= data * 11,
        "{moved} of {data}"
    );
}

#[test]
fn uploads_over_5_mbit_a_second_are_sent_once() {
    let far = Far::new();
    let source = far.data.source();
    let mut command = far.command(&["convert", source.to_str().unwrap(), "s3://bucket/out"]);
    far.ends_well(command.args(["--shards", "3", "--jobs", "3"]));
    assert_once(far.link.sent(), DATA_BYTES);
}

#[test]
fn reads_over_5_mbit_a_second_are_made_once() {
    let far = Far::new();
    upload(&far.server, &far.data.source(), "images");
    let out = far.data.fresh();
    let mut command = far.command(&["convert", "s3://bucket/images", out.to_str().unwrap()]);
    far.ends_well(command.args(["--shards", "3", "--jobs", "3"]));
    assert_once(far.link.received(), DATA_BYTES);
}

#[test]
fn verify_and_cat_over_5_mbit_a_second_read_once() {
    let far = Far::new();
    let source = far.data.source();
    let args = [
        "convert",
        source.to_str().unwrap(),
        "s3://bucket/out",
        "--shards",
        "3",
    ];
    run(&mut at(&far.server, &args)).exits(0);
    let verify = ["verify", "s3://bucket/out", "--level", "data"];
    far.ends_well(&mut far.command(&verify));
    assert_once(far.link.received(), DATA_BYTES);
    let read = far.link.received();
    let cat = run(&mut far.command(&["cat", "s3://bucket/out", "a/00"]));
    assert!(cat.exits(0).bytes.len() >= PICTURE_BYTES);
    assert!(far.link.received() - read < 2 * PICTURE_BYTES as u64);
}

#[test]
fn a_server_that_says_it_is_still_at_it_is_waited_for() {
    let server = Server::start();
    let data = crate::s3::large();
    // Twelve seconds of blanks, where eight without anything are the limit.
    let blanks = Kind::Blanks(24, Duration::from_millis(500));
    server.fault(
        Fault::new(blanks)
            .on("CompleteMultipartUpload")
            .key("out/data"),
    );
    let source = data.source();
    let args = ["convert", source.to_str().unwrap(), "s3://bucket/out"];
    let run = run(at(&server, &args).args(["--shards", "3", "--request-timeout", "2"]));
    run.exits(0);
    assert!(!run.err.contains("made again"), "{}", run.err);
    let completed = server.requests().into_iter();
    let completed = completed.filter(|request| {
        request.operation == "CompleteMultipartUpload" && request.key.starts_with("out/data")
    });
    assert_eq!(completed.count(), 3);
}
