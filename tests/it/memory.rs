//! `--memory` is kept whatever the files are: tiny ones by the ten thousand, ones larger than the window, and datasets that grow.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::s3::{assert_same, at, tree, upload};
use crate::support::{Dataset, Run, padded_picture, run, shardpack};
use shardpack_fixtures::s3_server::{Fault, Kind, Options, Server};

const MIB: u64 = 1 << 20;
/// What the arithmetic of `--memory` takes for the program itself, which is more in a debug build.
const PROGRAM_BYTES: u64 = 24 * MIB;

/// So many images of some 70 bytes each.
fn tiny(count: usize) -> Dataset {
    let mut png = Vec::new();
    let encoder = image::codecs::png::PngEncoder::new(&mut png);
    let image = image::RgbImage::new(1, 1);
    image.write_with_encoder(encoder).unwrap();
    let data = Dataset::new().file("c0/0.png", &png);
    let first = data.source().join("c0/0.png");
    for number in 1..count {
        let class = data.source().join(format!("c{}", number / 1000));
        if number % 1000 == 0 {
            fs::create_dir(&class).unwrap();
        }
        fs::hard_link(&first, class.join(format!("{number}.png"))).unwrap();
    }
    data
}

/// A valid JPEG of more than so many bytes, whose end marker is its end.
fn large(name: &str, bytes: usize) -> Vec<u8> {
    let small = padded_picture(name, 100);
    let comment = [&[0xFF, 0xFE, 0xFF, 0xFF][..], &[b'x'; 65_533]].concat();
    let comments = comment.repeat(bytes.div_ceil(comment.len()));
    [&small[..2], &comments, &small[2..]].concat()
}

/// The most memory that a run took, which must end well.
fn peak(data: &Dataset, command: &mut Command) -> u64 {
    let summary = data.place("summary.json");
    run(command.arg("--summary").arg(&summary)).exits(0);
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    summary["peak_rss_bytes"].as_u64().unwrap()
}

#[test]
fn what_is_read_ahead_of_tiny_files_is_counted_with_their_names_and_tasks() {
    let memory = 40 * MIB;
    let of = |count| {
        let data = tiny(count);
        let out = data.fresh();
        let plan = ["--shards", "24"];
        run(shardpack(&["plan"]).arg(data.source()).arg(&out).args(plan)).exits(0);
        let flags = [
            "--memory",
            "40MiB",
            "--reads",
            "16",
            "--jobs",
            "1",
            "--no-fsync",
        ];
        peak(&data, shardpack(&["pack"]).arg(&out).args(flags))
    };
    let more = of(24_000).saturating_sub(of(24));
    assert!(
        more <= memory - PROGRAM_BYTES,
        "{more} bytes more for 24,000 files than for 24"
    );
}

#[test]
fn a_night_on_s3_holds_few_lists_of_samples_at_once() {
    let of = |count| {
        let data = tiny(count);
        let server = Server::with(Options::default());
        let night = |memory| {
            let mut command = at(&server, &["convert"]);
            command.arg(data.source()).arg("s3://bucket/out");
            command.args(["--shards", "24", "--reads", "16", "--memory", memory]);
            peak(&data, &mut command)
        };
        night("1GiB");
        fs::copy(
            data.source().join("c0/0.png"),
            data.source().join("c0/new.png"),
        )
        .unwrap();
        night("56MiB")
    };
    let more = of(24_000).saturating_sub(of(24));
    // The listing, 150 bytes a sample, and half of what it leaves.
    let listing = 24_000 * 150;
    let most = listing + (56 * MIB - PROGRAM_BYTES - listing) / 2;
    assert!(
        more <= most.min(12 * MIB),
        "{more} bytes more for 24,000 files than for 24"
    );
}

/// A source of large files in a bucket.
fn bucket(data: &Dataset) -> Server {
    let server = Server::with(Options::default());
    upload(&server, &data.source(), "images");
    server
}

fn convert(server: &Server, out: &str, flags: &[&str]) -> Run {
    let mut command = at(server, &["convert", "s3://bucket/images"]);
    run(command.arg(format!("s3://bucket/{out}")).args(flags))
}

/// The shards of a dataset in a bucket.
fn shards(server: &Server, out: &str) -> std::collections::BTreeMap<String, bytes::Bytes> {
    let prefix = format!("{out}/data/");
    let shards = server.objects(&prefix).into_iter();
    shards
        .map(|(name, bytes)| (format!("data/{name}"), bytes))
        .collect()
}

/// The same of a local one.
fn local_shards(out: &Path) -> std::collections::BTreeMap<String, bytes::Bytes> {
    let mut all = tree(out);
    all.retain(|name, _| name.starts_with("data/"));
    all
}

#[test]
fn large_files_are_in_flight_together_like_small_ones() {
    let data = (0..12).fold(Dataset::new(), |data, number| {
        let name = format!("a/{number:02}.jpg");
        data.file(&name, large(&name, 5_000_000))
    });
    let server = bucket(&data);
    server.set_latency(Duration::from_millis(500));
    convert(
        &server,
        "out",
        &["--reads", "64", "--jobs", "1", "--shards", "1"],
    )
    .exits(0);
    let most = server.most_at_once();
    // One file after the other, they were no more than four.
    assert!((12..=64).contains(&most), "{most} at once");
    let mut reads: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.operation == "GetObject" && request.key.starts_with("images/"))
        .collect();
    assert!(
        reads
            .iter()
            .all(|read| read.headers.contains_key("if-match"))
    );
    let asked = |read: &shardpack_fixtures::s3_server::Request| {
        (read.key.clone(), read.headers.get("range").cloned())
    };
    reads.sort_by_key(asked);
    reads.dedup_by_key(|read| asked(read));
    assert_eq!(reads.len(), 12 * 3, "two pieces and the end of each");
    let local = data.convert(&["--shards", "1"]);
    assert_same(&local_shards(&local.path), &shards(&server, "out"));
}

#[test]
fn a_large_image_is_looked_at_and_packed_the_same_through_any_window() {
    let film: Vec<u8> = [large("with a film", 6 << 20), vec![7; 30 << 20]].concat();
    let mut cut = large("cut off", 20 << 20);
    cut.truncate(18 << 20);
    let data = Dataset::new()
        .file("a/film.jpg", film)
        .file("a/huge.jpg", large("huge", 40 << 20))
        .file("a/huge.txt", vec![b'x'; 9 << 20])
        .file("a/small.jpg", padded_picture("small", 1000))
        .file("b/cut.jpg", cut)
        .file("b/small.jpg", padded_picture("another", 1000));
    let flags = [
        "--missing-fields",
        "keep",
        "--on-error",
        "skip",
        "--shards",
        "2",
    ];
    let flags = [&flags[..], &["--jobs", "1", "--reads", "4"]].concat();
    let wide = data.convert(&[&flags[..], &["--memory", "1GiB"]].concat());
    let out = data.fresh();
    let narrow = [&flags[..], &["--memory", "44MiB"]].concat();
    let took = peak(&data, &mut data.command(&out, &narrow));
    assert_same(&local_shards(&wide.path), &local_shards(&out));
    for path in [&wide.path, &out] {
        let skipped = &crate::support::manifest(path)["skipped"];
        assert_eq!(skipped.as_array().unwrap().len(), 1, "{skipped}");
        assert_eq!(skipped[0]["key"], "b/cut");
    }
    let small = Dataset::new().class("a", 3);
    let base = peak(&small, &mut small.command(&small.fresh(), &narrow));
    let more = took.saturating_sub(base);
    // With what an allocator keeps of pieces that it was given back.
    let most = 44 * MIB * 115 / 100 - PROGRAM_BYTES;
    assert!(more <= most, "{more} bytes more");
}

#[test]
fn a_file_that_changes_while_its_pieces_are_read_is_refused() {
    let mut picture = large("big", 60 << 20);
    let data = Dataset::new().file("a/big.jpg", &picture);
    // Of one length, and with the same beginning and end.
    picture[30 << 20] ^= 1;
    let server = bucket(&data);
    let later = Fault::new(Kind::Delay(Duration::from_millis(500)));
    server.fault(later.on("GetObject").key("images/"));
    let flags = ["--reads", "4", "--jobs", "1", "--memory", "96MiB"];
    std::thread::scope(|scope| {
        let run = scope.spawn(|| convert(&server, "out", &flags));
        let is_read =
            |request: &shardpack_fixtures::s3_server::Request| request.key == "images/a/big.jpg";
        while !server.requests().iter().any(is_read) {
            assert!(!run.is_finished(), "it was not read");
            std::thread::yield_now();
        }
        server.put("images/a/big.jpg", picture);
        run.join().unwrap().exits(3).says(&[
            "a/big.jpg",
            "written to after planning",
            "make a new plan",
        ]);
    });
    assert!(server.get("out/manifest.json").is_none());
}
