//! What a dry run says of time, requests, dollars and room, and runs that there is no room for.

use std::fs::File;

use shardpack_fixtures::s3_server::Server;

use crate::s3::{shardpack_at, upload};
use crate::support::{Dataset, picture, run, shardpack};

/// A source of so many bytes that no disk has room for, none of which takes any.
fn huge() -> Dataset {
    let data = Dataset::new().class("cat", 3);
    let first = data.source().join("cat/huge.jpg");
    File::create(&first)
        .unwrap()
        .set_len(8_000_000_000)
        .unwrap();
    for number in 1..5000 {
        let other = data.source().join(format!("cat/huge-{number}.jpg"));
        std::fs::hard_link(&first, other).unwrap();
    }
    data
}

#[test]
fn a_destination_without_room_is_refused_before_the_first_byte() {
    let data = huge();
    let words = [
        "40.0 TB are to be written",
        "are free",
        "nothing was written",
    ];
    data.refuses(&["--validate", "none"], 1, &words);
    // A plan may be packed somewhere else.
    let planned = data.fresh();
    run(shardpack(&["plan", "--validate", "none"])
        .arg(data.source())
        .arg(&planned))
    .exits(0);
    run(shardpack(&["pack"]).arg(&planned))
        .exits(1)
        .says(&words);
    let dry = data.convert_to(&data.fresh(), &["-n", "--validate", "none"]);
    dry.exits(0)
        .says(&["space     40.0 TB to be written, ", " free\n"]);
    // What compression leaves is not known.
    data.convert_to(&data.fresh(), &["-n", "--compress", "zstd"])
        .exits(0);
}

#[test]
fn requests_are_counted_by_kind_as_they_are_made() {
    let server = Server::start();
    let data = Dataset::new().class("cat", 30).class("dog", 4);
    upload(&server, &data.source(), "images");
    server.clear_requests();
    let (images, out) = ("s3://bucket/images", "s3://bucket/out");
    let flags = [
        "--shards",
        "3",
        "--price",
        "get=1/10,put=0.01,list=2,gb=1000",
    ];
    let dry = shardpack_at(
        &server,
        &[&["convert", images, out, "-n"], &flags[..]].concat(),
    );
    // Three indexes, three shards, and what a plan is stored and published by.
    dry.exits(0).says(&[
        "requests  34 GET, 3 LIST, 12 PUT\n",
        "price     $9.5200 for the requests, $",
    ]);
    server.clear_requests();
    shardpack_at(&server, &["convert", images, out, "--shards", "3"]).exits(0);
    let read = |request: &&shardpack_fixtures::s3_server::Request| {
        request.operation == "GetObject" && request.key.starts_with("images/")
    };
    assert_eq!(server.requests().iter().filter(read).count(), 34);
    let written = |request: &&shardpack_fixtures::s3_server::Request| {
        request.operation == "PutObject" && request.key.starts_with("out/")
    };
    let written = server.requests().iter().filter(written).count();
    assert!((12..=14).contains(&written), "{written}");
    let local = data.convert_to(&data.fresh(), &["-n"]);
    local.exits(0).says(&["requests  none"]);
}

#[test]
fn a_probe_reads_files_and_writes_nothing() {
    let data = Dataset::new().class("cat", 40).file(
        "cat/large.jpg",
        [picture("large"), vec![0; 6 << 20]].concat(),
    );
    let path = data.fresh();
    let probed = data.convert_to(&path, &["-n", "--probe", "21"]);
    probed
        .exits(0)
        .says(&["probe     21 files, ", ": to read all takes about "]);
    assert!(!path.exists());
    let all = data.convert_to(&path, &["-n", "--probe", "5000"]);
    all.exits(0).says(&["probe     41 files, "]);
    data.refuses(&["--probe", "5"], 2, &["--probe", "add `--dry-run`"]);
    data.refuses(
        &["-n", "--price", "gold=1"],
        2,
        &["--price `gold=1`", "get="],
    );
}
