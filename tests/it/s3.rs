//! S3 on both ends, against a strict server in memory: the same bytes, whatever goes wrong on the way.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Dataset, Random, Run, files, finished, padded_picture, picture, run, shardpack,
};
use shardpack_fixtures::s3_server::{
    Checksums, Conditional, Fault, Kind, Options, SECRET_KEY, Server, StartAfter,
};

/// Every operation whose answer has no content of interest and may be made again.
const ALL: [&str; 8] = [
    "ListObjectsV2",
    "HeadObject",
    "GetObject",
    "PutObject",
    "CreateMultipartUpload",
    "UploadPart",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
];

/// The program, pointed at a server.
pub(crate) fn at(server: &Server, args: &[&str]) -> Command {
    let mut command = shardpack(args);
    command.envs(server.environment());
    command.env("SHARDPACK_PROGRESS", "none");
    command
}

pub(crate) fn shardpack_at(server: &Server, args: &[&str]) -> Run {
    run(&mut at(server, args))
}

/// Puts a source's files below a prefix.
pub(crate) fn upload(server: &Server, source: &Path, prefix: &str) {
    for file in files(source) {
        let name = file.strip_prefix(source).unwrap().to_str().unwrap();
        server.put(&format!("{prefix}/{name}"), std::fs::read(&file).unwrap());
    }
}

pub(crate) fn tree(root: &Path) -> BTreeMap<String, Bytes> {
    let read = |path: &std::path::PathBuf| {
        let name = path
            .strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        (name, Bytes::from(std::fs::read(path).unwrap()))
    };
    files(root).iter().map(read).collect()
}

/// What readers see: everything but the plan, whose samples have the versions of their files.
fn visible(mut tree: BTreeMap<String, Bytes>) -> BTreeMap<String, Bytes> {
    tree.retain(|name, _| {
        !name.starts_with("_shardpack/plan") && !name.starts_with("_shardpack/claims")
    });
    tree
}

#[track_caller]
pub(crate) fn assert_same(a: &BTreeMap<String, Bytes>, b: &BTreeMap<String, Bytes>) {
    let names = |tree: &BTreeMap<String, Bytes>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(a), names(b));
    for (name, bytes) in a {
        assert!(*bytes == b[name], "{name} differs");
    }
}

fn small() -> Dataset {
    Dataset::new().class("cat", 30).class("dog", 30)
}

/// Shards of more than one part: three of 8.8 MB.
pub(crate) fn large() -> Dataset {
    let data = Dataset::new();
    (0..12).fold(data, |data, i| {
        let name = format!("{}/{i:02}.jpg", ["a", "b"][i % 2]);
        let picture = padded_picture(&name, LARGE_BYTES);
        data.file(name, picture)
    })
}

/// Of each picture in it.
const LARGE_BYTES: usize = 2_200_000;
const LARGE: [&str; 2] = ["--shards", "3"];

/// A source in the bucket, what a local conversion makes of it, and the server.
struct Bucket {
    server: Server,
    data: Dataset,
    expected: BTreeMap<String, Bytes>,
    flags: Vec<&'static str>,
}

impl Bucket {
    fn new(data: Dataset, flags: &[&'static str], options: Options) -> Self {
        let server = Server::with(options);
        upload(&server, &data.source(), "images");
        let expected = visible(tree(&data.convert(flags).path));
        Self {
            server,
            data,
            expected,
            flags: flags.to_vec(),
        }
    }

    fn small() -> Self {
        Self::new(small(), &["--shard-size", "40KB"], Options::default())
    }

    fn large() -> Self {
        Self::new(large(), &LARGE, Options::default())
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = at(
            &self.server,
            &["convert", "s3://bucket/images", "s3://bucket/out"],
        );
        command.args(&self.flags).args(flags);
        command
    }

    fn convert(&self, flags: &[&str]) -> Run {
        run(&mut self.command(flags))
    }

    /// The destination is what it should be, and nothing else is left.
    #[track_caller]
    fn is_converted(&self) {
        assert_same(&visible(self.server.objects("out/")), &self.expected);
        assert_eq!(self.server.uploads(), []);
    }

    fn shard(&self) -> String {
        let shards = self.server.objects("out/data/");
        format!("out/data/{}", shards.keys().next().unwrap())
    }
}

#[test]
fn the_bytes_are_the_same_wherever_source_and_destination_lie() {
    for bucket in [Bucket::small(), Bucket::large()] {
        bucket.convert(&[]).exits(0).says(&["published"]);
        bucket.is_converted();

        let local = bucket.data.fresh();
        let mut down = at(&bucket.server, &["convert", "s3://bucket/images"]);
        run(down.arg(&local).args(&bucket.flags)).exits(0);
        assert_same(&visible(tree(&local)), &bucket.expected);

        let mut up = at(&bucket.server, &["convert"]);
        let source = bucket.data.source();
        run(up.arg(source).arg("s3://bucket/up").args(&bucket.flags)).exits(0);
        assert_same(&visible(bucket.server.objects("up/")), &bucket.expected);

        // Shards and indexes again, by the digests in their manifests.
        let verify = |args: &[&str]| {
            shardpack_at(&bucket.server, args)
                .exits(0)
                .says(&["intact"])
                .out
                .clone()
        };
        verify(&[
            "verify",
            "s3://bucket/out",
            "--level",
            "source",
            "--source",
            "s3://bucket/images",
        ]);
        verify(&["verify", "s3://bucket/up", "--level", "data"]);
        verify(&["verify", "s3://bucket/up", "--level", "list"]);
        bucket.convert(&[]).exits(0).says(&["up to date"]);
    }
}

#[test]
fn inspect_and_cat_read_only_what_they_need() {
    let bucket = Bucket::large();
    bucket.convert(&[]).exits(0);
    let inspect = shardpack_at(&bucket.server, &["inspect", "s3://bucket/out", "a/02"]);
    inspect.exits(0).says(&["sample  a/02"]);
    bucket.server.clear_requests();
    let cat = shardpack_at(&bucket.server, &["cat", "s3://bucket/out", "a/02"]);
    assert!(cat.exits(0).bytes == padded_picture("a/02.jpg", LARGE_BYTES));
    let of_shards = |r: &shardpack_fixtures::s3_server::Request| {
        r.operation == "GetObject" && r.key.contains("/data/")
    };
    let reads: Vec<_> = bucket
        .server
        .requests()
        .into_iter()
        .filter(of_shards)
        .collect();
    assert_eq!(reads.len(), 1);
    assert!(reads[0].headers["range"].starts_with("bytes="));
}

#[test]
fn every_format_and_compression_is_the_same_in_a_bucket() {
    let sets: [&[&str]; 5] = [
        &["--format", "tfrecord", "--index", "dali,tfds"],
        &["--format", "parquet"],
        &["--compress", "zstd", "--zstd-seekable"],
        &["--format", "tfrecord", "--compress", "gzip"],
        &["--index", "energon,wids"],
    ];
    for flags in sets {
        let flags: Vec<&str> = [flags, &["--shard-size", "60KB"]].concat();
        let bucket = Bucket::new(small(), &flags, Options::default());
        bucket.convert(&[]).exits(0);
        bucket.is_converted();
        for level in ["list", "head", "data"] {
            let verify = ["verify", "s3://bucket/out", "--level", level];
            shardpack_at(&bucket.server, &verify)
                .exits(0)
                .says(&["intact"]);
        }
        bucket.server.clear_requests();
        let cat = shardpack_at(&bucket.server, &["cat", "s3://bucket/out", "cat/0007"]);
        assert!(cat.exits(0).bytes == picture("cat/0007.jpg"), "{flags:?}");
        let shard = bucket.shard();
        let mut damaged = bucket.server.get(&shard).unwrap().to_vec();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        bucket.server.put(&shard, damaged);
        let verify = ["verify", "s3://bucket/out", "--level", "data"];
        shardpack_at(&bucket.server, &verify)
            .exits(4)
            .says(&[&shard["out/".len()..]]);
    }
}

#[test]
fn shards_of_somebody_else_in_a_bucket_get_a_manifest() {
    let bucket = Bucket::small();
    bucket.convert(&[]).exits(0);
    for (name, content) in bucket.server.objects("out/data/") {
        bucket
            .server
            .put(&format!("theirs/{name}"), content.to_vec());
    }
    let index = ["index", "s3://bucket/theirs", "--index", "dali"];
    shardpack_at(&bucket.server, &index)
        .exits(0)
        .says(&["indexed 60 samples"]);
    shardpack_at(&bucket.server, &["verify", "s3://bucket/theirs"])
        .exits(0)
        .says(&["intact"]);
}

#[test]
fn head_compares_the_servers_checksums_and_reads_nothing() {
    let bucket = Bucket::large();
    bucket.convert(&[]).exits(0);
    bucket.server.clear_requests();
    let head = ["verify", "s3://bucket/out", "--level", "head"];
    shardpack_at(&bucket.server, &head)
        .exits(0)
        .says(&["0 B read", "intact"]);
    let read = bucket.server.requests();
    assert!(!read.iter().any(|r| r.operation == "GetObject"
        && !r.key.contains("_shardpack")
        && !r.key.ends_with("manifest.json")));
    // Three shards, three indexes, and the list of samples of the plan.
    assert_eq!(bucket.server.count("HeadObject"), 7);

    // Another shard of the same length: its checksum is another.
    let shard = bucket.shard();
    let other: Bytes = bucket
        .server
        .get(&shard)
        .unwrap()
        .iter()
        .map(|b| b ^ 1)
        .collect();
    let server = &bucket.server;
    server.put_with_crc32(&shard, other);
    shardpack_at(server, &head)
        .exits(4)
        .says(&["by the crc32 that the store keeps"]);
    shardpack_at(server, &["verify", "s3://bucket/out"]).exits(4);

    // One without a checksum cannot be told about, which is no success.
    let bytes = server.get(&shard).unwrap();
    server.put(&shard, bytes.iter().map(|b| b ^ 1).collect::<Bytes>());
    shardpack_at(server, &head)
        .exits(1)
        .says(&["keeps no checksum", "--level data", "not known"]);
    shardpack_at(server, &["verify", "s3://bucket/out"]).exits(0);
}

#[test]
fn a_server_that_keeps_no_checksums_is_written_to_and_told_of() {
    for checksums in [Checksums::Ignored, Checksums::Refused, Checksums::Composite] {
        let options = Options {
            checksums,
            ..Options::default()
        };
        let bucket = Bucket::new(large(), &LARGE, options);
        bucket.convert(&[]).exits(0);
        bucket.is_converted();
        let head = shardpack_at(
            &bucket.server,
            &["verify", "s3://bucket/out", "--level", "head"],
        );
        head.exits(1).says(&["keeps no checksum", "--level data"]);
        shardpack_at(&bucket.server, &["verify", "s3://bucket/out"]).exits(0);
    }
}

#[test]
fn parts_carry_checksums_and_the_whole_is_compared_by_the_server() {
    let bucket = Bucket::large();
    bucket.convert(&[]).exits(0);
    let shard = bucket.server.object(&bucket.shard()).unwrap();
    let (sum, full) = shard.crc32.unwrap();
    assert!(full && !sum.contains('-'));
    assert!(shard.tag.ends_with("-2"), "{}: parts of 8 MiB", shard.tag);
    let requests = bucket.server.requests();
    let parts = requests.iter().filter(|r| r.operation == "UploadPart");
    for part in parts.clone() {
        assert!(part.headers.contains_key("x-amz-checksum-crc32"));
    }
    // Three shards of two parts and the probe's.
    assert_eq!(parts.count(), 7);
    assert_eq!(bucket.server.count("CreateMultipartUpload"), 4);
    assert_eq!(bucket.server.get("out/_shardpack/probe"), None);
}

/// Faults of every sort, each by chance; together about one reply in five.
fn faults(server: &Server, seed: u64) {
    let kinds = [
        Kind::SlowDown,
        Kind::Internal,
        Kind::ResetBefore,
        Kind::LostReply,
        Kind::StatusAfter(500, "InternalError"),
    ];
    for (i, kind) in kinds.into_iter().enumerate() {
        server.fault(Fault::new(kind).chance(0.03, seed * 100 + i as u64));
    }
    // That a body came too slowly is said of requests that have one.
    for (i, operation) in ["PutObject", "UploadPart"].into_iter().enumerate() {
        let fault = Fault::new(Kind::Status(400, "RequestTimeout")).on(operation);
        server.fault(fault.chance(0.03, seed * 100 + 40 + i as u64));
    }
    let bodies = [
        Kind::ResetMidBody(700),
        Kind::Truncated(500),
        Kind::FlippedByte(333),
        Kind::Stall(Duration::from_secs(60)),
    ];
    for (i, kind) in bodies.into_iter().enumerate() {
        let chance = if matches!(kind, Kind::Stall(_)) {
            0.002
        } else {
            0.03
        };
        let fault = Fault::new(kind).on("GetObject").key("images/");
        server.fault(fault.chance(chance, seed * 100 + 50 + i as u64));
    }
    for (i, kind) in [Kind::ErrorInBody, Kind::ErrorInBodyAfter]
        .into_iter()
        .enumerate()
    {
        let fault = Fault::new(kind).on("CompleteMultipartUpload");
        server.fault(fault.chance(0.2, seed * 100 + 80 + i as u64));
    }
}

#[test]
fn one_faulty_reply_in_five_changes_nothing() {
    for (seed, bucket) in [Bucket::small(), Bucket::large()].into_iter().enumerate() {
        // Checksums of the source, so that a flipped byte is seen.
        for (key, bytes) in bucket.server.objects("images/") {
            bucket
                .server
                .put_with_crc32(&format!("images/{key}"), bytes);
        }
        faults(&bucket.server, seed as u64 + 1);
        let run = bucket.convert(&["--request-timeout", "2"]);
        run.exits(0).says(&["requests made again"]);
        bucket.server.clear_faults();
        // Nobody knows of an upload that was begun when the reply was lost.
        let gc = ["gc", "s3://bucket/out", "--older-than", "0s"];
        shardpack_at(&bucket.server, &gc).exits(0);
        bucket.is_converted();
    }
}

#[test]
fn a_storm_of_push_backs_at_full_concurrency_fails_nothing() {
    let data = Dataset::new().class("cat", 400).class("dog", 400);
    let bucket = Bucket::new(data, &["--shard-size", "400KB"], Options::default());
    bucket.server.set_latency(Duration::from_millis(30));
    let storm = Fault::new(Kind::SlowDown)
        .on("GetObject")
        .on("PutObject")
        .key("images/");
    bucket.server.fault(storm.for_time(Duration::from_secs(3)));
    let run = bucket.convert(&["--reads", "512"]);
    run.exits(0).says(&["because the server asked for fewer"]);
    bucket.is_converted();
}

#[test]
fn a_stall_never_outlives_its_timeout() {
    let stall = Duration::from_secs(600);
    for operation in ALL {
        let bucket = Bucket::large();
        let kind = match operation {
            "GetObject" => Kind::Stall(stall),
            _ => Kind::StallBefore(stall),
        };
        bucket.server.fault(Fault::new(kind).on(operation).times(1));
        let begun = Instant::now();
        bucket.convert(&["--request-timeout", "1"]).exits(0);
        assert!(
            begun.elapsed() < Duration::from_secs(40),
            "{operation}: {:?}",
            begun.elapsed()
        );
        bucket.is_converted();
    }
}

#[test]
fn completing_an_upload_is_settled_by_looking_and_never_uploads_twice() {
    let kinds = [
        Kind::LostReply,
        Kind::ErrorInBody,
        Kind::ErrorInBodyAfter,
        Kind::StatusAfter(500, "InternalError"),
        Kind::ResetBefore,
        Kind::Internal,
    ];
    for kind in kinds {
        let bucket = Bucket::large();
        bucket.server.fault(
            Fault::new(kind)
                .on("CompleteMultipartUpload")
                .key("/data/")
                .times(3),
        );
        bucket.convert(&[]).exits(0);
        bucket.is_converted();
        assert_eq!(bucket.server.count("UploadPart"), 7, "{kind:?}");
        assert_eq!(
            bucket.server.count("AbortMultipartUpload"),
            1,
            "{kind:?}: the probe's"
        );
        assert_eq!(bucket.server.count("DeleteObject"), 0, "{kind:?}");
    }
}

#[test]
fn an_upload_whose_end_stays_unclear_is_left_alone_and_transient() {
    let bucket = Bucket::large();
    bucket.server.fault(
        Fault::new(Kind::Internal)
            .on("CompleteMultipartUpload")
            .key("/data/"),
    );
    bucket
        .convert(&["--jobs", "1", "--retry-for", "5"])
        .exits(75)
        .says(&["run again"]);
    assert_eq!(
        bucket.server.count("AbortMultipartUpload"),
        1,
        "the probe's"
    );
    assert_eq!(bucket.server.uploads().len(), 1);
    bucket.server.clear_faults();
    bucket.convert(&[]).exits(0);
    let gc = ["gc", "s3://bucket/out"];
    shardpack_at(&bucket.server, &gc)
        .exits(0)
        .says(&["too young", "--older-than 0s"]);
    shardpack_at(
        &bucket.server,
        &[&gc[..], &["--older-than", "0s", "--dry-run"]].concat(),
    )
    .exits(0);
    assert_eq!(bucket.server.uploads().len(), 1);
    shardpack_at(&bucket.server, &[&gc[..], &["--older-than", "0s"]].concat())
        .exits(0)
        .says(&["removed 1 leftover"]);
    bucket.is_converted();
}

#[test]
fn a_refused_upload_is_given_up_at_once() {
    let bucket = Bucket::large();
    let refused = Kind::Status(400, "BadDigest");
    bucket.server.fault(
        Fault::new(refused)
            .on("CompleteMultipartUpload")
            .key("/data/"),
    );
    bucket.convert(&[]).exits(1).says(&["BadDigest"]);
    assert_eq!(bucket.server.uploads(), []);
    bucket.server.clear_faults();
    bucket.server.fault(
        Fault::new(Kind::Status(403, "AccessDenied"))
            .on("UploadPart")
            .key("/data/")
            .after(1),
    );
    bucket.convert(&[]).exits(1).says(&["s3:PutObject"]);
    assert_eq!(bucket.server.uploads(), []);
}

#[test]
fn gc_touches_only_uploads_of_this_dataset() {
    let bucket = Bucket::small();
    bucket.convert(&[]).exits(0);
    let theirs = [
        "out/data/mine.tar",
        "out/other",
        "elsewhere/data/train-00000.tar",
        "output/data/train-00000.tar",
    ];
    for key in theirs {
        bucket.server.begin_upload(key);
    }
    bucket.server.begin_upload(&bucket.shard());
    bucket.server.begin_upload("out/_shardpack/probe-1");
    let gc = shardpack_at(
        &bucket.server,
        &["gc", "s3://bucket/out", "--older-than", "0s"],
    );
    gc.exits(0).says(&["removed 2 leftovers", "not ours"]);
    let left: Vec<_> = bucket
        .server
        .uploads()
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    let mut expected = theirs.to_vec();
    expected.sort_unstable();
    assert_eq!(left, expected);

    let lists_none = Options {
        lists_uploads: false,
        ..Options::default()
    };
    let other = Bucket::new(small(), &[], lists_none);
    other.convert(&[]).exits(0);
    let gc = shardpack_at(&other.server, &["gc", "s3://bucket/out"]);
    gc.exits(1).says(&["does not list multipart uploads"]);
}

#[test]
fn of_two_plans_one_wins_and_a_lost_reply_is_no_second_plan() {
    let bucket = Bucket::small();
    for kind in [
        Kind::LostReply,
        Kind::StatusAfter(500, "InternalError"),
        Kind::Status(409, "ConditionalRequestConflict"),
    ] {
        bucket.server.clear_faults();
        for part in ["/claims/", "/snapshots/"] {
            bucket
                .server
                .fault(Fault::new(kind).on("PutObject").key(part).times(1));
        }
        for key in bucket.server.objects("out/").keys() {
            bucket.server.remove(&format!("out/{key}"));
        }
        bucket.convert(&[]).exits(0);
        bucket.is_converted();
    }
    let before = bucket.server.objects("out/");
    bucket
        .convert(&["--seed", "9"])
        .exits(10)
        .says(&["was made with other options", "--seed: was"]);
    assert_same(&before, &bucket.server.objects("out/"));
}

#[test]
fn a_server_without_conditional_writes_is_refused_before_any_shard() {
    for conditional in [Conditional::Ignored, Conditional::Refused] {
        let options = Options {
            conditional,
            ..Options::default()
        };
        let bucket = Bucket::new(small(), &[], options);
        bucket
            .convert(&[])
            .exits(1)
            .says(&["If-None-Match", "--unsafe-no-conditional-put"]);
        assert!(bucket.server.objects("out/data/").is_empty());
        bucket.convert(&["--unsafe-no-conditional-put"]).exits(0);
        bucket.is_converted();
        // Even so another plan that is there is seen.
        bucket
            .convert(&["--unsafe-no-conditional-put", "--seed", "3"])
            .exits(10);
        bucket.is_converted();
    }
}

#[test]
fn an_object_that_changed_or_vanished_after_planning_is_named() {
    let bucket = Bucket::small();
    let plan = ["plan", "s3://bucket/images", "s3://bucket/out"];
    let planned =
        |bucket: &Bucket| shardpack_at(&bucket.server, &[&plan[..], &bucket.flags].concat());
    planned(&bucket).exits(0);
    let size = bucket.server.get("images/cat/0003.jpg").unwrap().len();
    let mut other = picture("other");
    other.resize(size, 0);
    bucket.server.put("images/cat/0003.jpg", other);
    let pack = ["pack", "s3://bucket/out"];
    let changed = shardpack_at(&bucket.server, &pack);
    changed.exits(3).says(&[
        "images/cat/0003.jpg",
        "was written to after planning",
        "make a new plan",
    ]);
    bucket.server.remove("images/cat/0003.jpg");
    shardpack_at(&bucket.server, &pack)
        .exits(3)
        .says(&["images/cat/0003.jpg", "vanished after planning"]);
    assert_eq!(bucket.server.uploads(), []);
}

#[test]
fn a_plan_of_local_files_is_not_packed_from_objects() {
    let bucket = Bucket::small();
    let mut plan = at(&bucket.server, &["plan"]);
    run(plan.arg(bucket.data.source()).arg("s3://bucket/out")).exits(0);
    let pack = ["pack", "s3://bucket/out", "--source", "s3://bucket/images"];
    shardpack_at(&bucket.server, &pack)
        .exits(3)
        .says(&["make a new plan"]);
}

#[test]
fn listing_goes_by_directories_at_once_and_knows_odd_keys() {
    let server = Server::with(Options {
        page: 7,
        ..Options::default()
    });
    let names = [
        "a b/1 2.jpg",
        "a b/ü+%25.jpg",
        "c&d/x<y>.jpg",
        "e/deep/er/1.jpg",
        "e/plain.jpg",
    ];
    for name in names {
        server.put(&format!("images/{name}"), picture(name));
    }
    for i in 0..40 {
        let name = format!("many/{i:03}.jpg");
        server.put(&format!("images/{name}"), picture(&name));
    }
    // What consoles make for a directory, and what is hidden.
    for marker in ["images/", "images/e/", "images/e/deep/"] {
        server.put(marker, "");
    }
    server.put("images/.hidden/1.jpg", "x");
    server.put("images/e/.hidden.jpg", "x");
    server.put("images2/other/1.jpg", "x");
    let data = Dataset::new();
    let out = data.fresh();
    let convert = run(at(&server, &["convert", "s3://bucket/images/"]).arg(&out));
    convert.exits(0).says(&["45 samples"]);
    let mut local = Dataset::new();
    for name in names {
        local = local.file(name, picture(name));
    }
    for i in 0..40 {
        let name = format!("many/{i:03}.jpg");
        let picture = picture(&name);
        local = local.file(name, picture);
    }
    assert_same(
        &visible(tree(&local.convert(&[]).path)),
        &visible(tree(&out)),
    );
    let dry = shardpack_at(
        &server,
        &[
            "convert",
            "s3://bucket/images",
            "s3://bucket/dry",
            "--dry-run",
        ],
    );
    dry.exits(0).says(&["2 hidden files"]);
    assert!(server.objects("dry/").is_empty());
}

#[test]
fn hundreds_of_reads_are_in_flight_and_never_more_than_allowed() {
    let data = Dataset::new().class("cat", 500).class("dog", 500);
    let bucket = Bucket::new(data, &[], Options::default());
    bucket.server.set_latency(Duration::from_secs(1));
    bucket.convert(&["--reads", "300"]).exits(0);
    let most = bucket.server.most_at_once();
    assert!((200..=300).contains(&most), "{most} at once");
    bucket.is_converted();
    bucket.server.set_latency(Duration::from_millis(5));
    bucket.server.clear_requests();
    let pack = [
        "convert",
        "s3://bucket/images",
        "s3://bucket/few",
        "--reads",
        "3",
    ];
    shardpack_at(&bucket.server, &pack).exits(0);
    let reads = bucket.server.most_at_once();
    // Listing has a number of its own.
    assert!(reads <= 64, "{reads} at once");
}

#[test]
fn a_straggler_is_asked_for_again() {
    let data = Dataset::new().class("cat", 600);
    let bucket = Bucket::new(data, &[], Options::default());
    bucket.server.set_latency(Duration::from_millis(10));
    let slow = Fault::new(Kind::Delay(Duration::from_secs(20)))
        .on("GetObject")
        .key("images/");
    bucket.server.fault(slow.after(500).times(3));
    let begun = Instant::now();
    bucket
        .convert(&["--reads", "32"])
        .exits(0)
        .says(&["slow reads asked for twice"]);
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    bucket.is_converted();
}

#[test]
fn what_is_written_has_the_class_tags_and_encryption_asked_for() {
    let bucket = Bucket::large();
    let flags = [
        "--storage-class",
        "GLACIER_IR",
        "--tagging",
        "team=vision&x=1",
        "--sse",
        "aws:kms",
        "--sse-kms-key-id",
        "k1",
        "--request-payer",
        "requester",
    ];
    bucket.convert(&flags).exits(0);
    let shard = bucket.server.object(&bucket.shard()).unwrap();
    assert_eq!(shard.storage_class.as_deref(), Some("GLACIER_IR"));
    let manifest = bucket.server.object("out/manifest.json").unwrap();
    assert_eq!(manifest.storage_class, None);
    for object in [shard, manifest] {
        assert_eq!(object.tagging.as_deref(), Some("team=vision&x=1"));
        assert_eq!(object.sse.as_deref(), Some("aws:kms"));
    }
    for request in bucket.server.requests() {
        let payer = request.headers.get("x-amz-request-payer");
        assert_eq!(
            payer.map(String::as_str),
            Some("requester"),
            "{}",
            request.operation
        );
        assert!(request.signed);
    }
}

#[test]
fn a_public_bucket_needs_no_credentials() {
    let server = Server::with(Options {
        anonymous: true,
        ..Options::default()
    });
    upload(&server, &small().source(), "images");
    let mut command = at(
        &server,
        &[
            "convert",
            "s3://bucket/images",
            "s3://bucket/out",
            "--no-sign-request",
        ],
    );
    run(command
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_SECRET_ACCESS_KEY"))
    .exits(0);
    assert!(server.requests().iter().all(|request| !request.signed));
}

#[test]
fn each_refusal_says_what_to_do() {
    let bucket = Bucket::large();
    let denied = Kind::Status(403, "AccessDenied");
    for (fault, words) in [
        (
            Fault::new(denied).on("ListObjectsV2"),
            ["s3:ListBucket", "s3://bucket/"],
        ),
        (
            Fault::new(denied).on("GetObject").key("images/"),
            ["s3:GetObject", "s3://bucket/images/"],
        ),
        (
            Fault::new(denied).on("PutObject"),
            ["s3:PutObject", "s3://bucket/out/"],
        ),
        (
            Fault::new(denied).on("CreateMultipartUpload"),
            ["s3:PutObject", "s3://bucket/out/"],
        ),
        (
            Fault::new(Kind::Status(400, "ExpiredToken")),
            ["has expired", "fetch new credentials"],
        ),
        (
            Fault::new(Kind::Status(403, "RequestTimeTooSkewed")),
            ["clock of this machine", "set it"],
        ),
        (
            Fault::new(Kind::Status(301, "PermanentRedirect")),
            ["in region eu-west-1", "--region eu-west-1"],
        ),
        (
            Fault::new(Kind::Status(403, "SignatureDoesNotMatch")),
            ["refuses the signature", "secret key"],
        ),
        (
            Fault::new(Kind::Status(403, "InvalidAccessKeyId")),
            ["does not know this access key", "--profile"],
        ),
        (
            Fault::new(Kind::Status(403, "InvalidObjectState"))
                .on("GetObject")
                .key("images/"),
            ["is archived", "restore it"],
        ),
    ] {
        bucket.server.clear_faults();
        bucket.server.fault(fault);
        bucket.convert(&[]).exits(1).says(&words);
    }
    bucket.server.clear_faults();
    let missing = shardpack_at(
        &bucket.server,
        &["convert", "s3://nobucket/images", "s3://bucket/x"],
    );
    missing.exits(1).says(&["no such bucket", "check the name"]);
    let mut wrong = bucket.command(&[]);
    run(wrong.env("AWS_SECRET_ACCESS_KEY", "wrong"))
        .exits(1)
        .says(&["refuses the signature"]);
    let mut none = bucket.command(&[]);
    run(none
        .env_remove("AWS_SECRET_ACCESS_KEY")
        .env_remove("AWS_ACCESS_KEY_ID"))
    .exits(1)
    .says(&["no usable credentials", "AWS_ACCESS_KEY_ID"]);
    // A port that was free a moment ago.
    let closed = Server::start().endpoint();
    bucket
        .convert(&["--endpoint-url", &closed])
        .exits(75)
        .says(&["cannot be reached", "--endpoint-url"]);
    let tls = bucket.server.endpoint().replace("http", "https");
    bucket
        .convert(&["--endpoint-url", &tls])
        .exits(2)
        .says(&["does not speak TLS"]);
    bucket
        .convert(&["--endpoint-url", "host:9000"])
        .exits(2)
        .says(&["http://"]);
    bucket
        .convert(&["--sse-kms-key-id", "k"])
        .exits(2)
        .says(&["--sse aws:kms"]);
}

#[test]
fn a_destination_inside_the_source_is_refused() {
    let bucket = Bucket::small();
    for inside in [
        "s3://bucket/images",
        "s3://bucket/images/x",
        "s3://bucket/images/cat/",
    ] {
        let convert = shardpack_at(&bucket.server, &["convert", "s3://bucket/images", inside]);
        convert.exits(2).says(&["lies in the source"]);
    }
    shardpack_at(
        &bucket.server,
        &["convert", "s3://bucket/images", "s3://bucket/images2"],
    )
    .exits(0);
}

#[test]
fn an_outage_is_transient_and_the_next_run_goes_on() {
    let bucket = Bucket::small();
    bucket.server.fault(
        Fault::new(Kind::ResetBefore)
            .on("GetObject")
            .key("images/dog/0007"),
    );
    bucket
        .convert(&["--jobs", "1", "--retry-for", "5"])
        .exits(75)
        .says(&["images/dog/0007", "cannot be reached"]);
    let done = bucket.server.objects("out/index/").len();
    bucket.server.clear_faults();
    let again = bucket.convert(&[]);
    again.exits(0);
    if done > 0 {
        again.says(&["already done"]);
    }
    bucket.is_converted();
}

#[test]
fn no_secret_is_in_any_output_at_any_level() {
    let bucket = Bucket::large();
    let token = "dG9rZW4tY2FuYXJ5";
    let summary = bucket.data.place("summary.json");
    for (fault, flags) in [
        (None, &["-v"][..]),
        (Some(Kind::Internal), &["-v", "--log", "json"]),
        (Some(Kind::Status(403, "SignatureDoesNotMatch")), &["-v"]),
        (
            Some(Kind::Status(400, "ExpiredToken")),
            &["-v", "--log", "json"],
        ),
    ] {
        bucket.server.clear_faults();
        if let Some(kind) = fault {
            bucket.server.fault(Fault::new(kind).chance(0.3, 5));
        }
        let mut command = bucket.command(flags);
        command
            .env("AWS_SESSION_TOKEN", token)
            .env("RUST_LOG", "trace")
            .env("SHARDPACK_PROGRESS", "log");
        let url = bucket
            .server
            .endpoint()
            .replace("http://", "http://user:urlcanary@");
        command.env("AWS_ENDPOINT_URL_S3", url);
        let run = run(command.arg("--summary").arg(&summary));
        let summary = std::fs::read_to_string(&summary).unwrap();
        for text in [&run.out, &run.err, &summary] {
            for secret in [SECRET_KEY, token, "Signature=", "urlcanary", "AWS4-HMAC"] {
                assert!(!text.contains(secret), "{secret} in {text}");
            }
        }
    }
}

fn start(bucket: &Bucket) -> Child {
    let mut command = bucket.command(&["--jobs", "2"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_run_that_is_told_to_stop_gives_up_its_uploads() {
    let bucket = Bucket::large();
    bucket.server.set_latency(Duration::from_millis(10));
    let begun = Instant::now();
    finished(start(&bucket).wait_with_output().unwrap()).exits(0);
    let whole = begun.elapsed().as_micros() as u64;
    bucket.is_converted();
    let mut random = Random::new(77);
    let mut stopped = 0;
    for _ in 0..6 {
        for key in bucket.server.objects("out/").keys() {
            bucket.server.remove(&format!("out/{key}"));
        }
        let child = start(&bucket);
        std::thread::sleep(Duration::from_micros(random.below(whole)));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let ended = finished(child.wait_with_output().unwrap());
        // Before it listens to signals it ends like any other program.
        if ended.code == 143 {
            assert_eq!(bucket.server.uploads(), [], "given up by the run itself");
        }
        stopped += i32::from(ended.code != 0);
        bucket.convert(&[]).exits(0);
        bucket.is_converted();
    }
    assert!(
        stopped > 2,
        "only {stopped} runs were stopped before their end"
    );
}

#[test]
fn large_objects_are_read_as_ranges_of_their_planned_state() {
    let data = Dataset::new()
        .file("a/big.jpg", padded_picture("big", 11 << 20))
        .class("b", 2);
    let bucket = Bucket::new(data, &[], Options::default());
    bucket.convert(&[]).exits(0);
    bucket.is_converted();
    let requests = bucket.server.requests();
    let ranges: Vec<_> = requests
        .iter()
        .filter(|r| r.key.ends_with("big.jpg") && r.headers.contains_key("range"))
        .collect();
    assert!(ranges.len() >= 3);
    assert!(ranges.iter().all(|r| r.headers.contains_key("if-match")));
}

#[test]
fn workers_share_a_plan_and_publish_sees_them_all() {
    let bucket = Bucket::small();
    let plan = [
        &["plan", "s3://bucket/images", "s3://bucket/out"],
        &bucket.flags[..],
    ]
    .concat();
    shardpack_at(&bucket.server, &plan).exits(0);
    for worker in ["0/3", "2/3"] {
        shardpack_at(
            &bucket.server,
            &["pack", "s3://bucket/out", "--worker", worker],
        )
        .exits(0);
    }
    shardpack_at(&bucket.server, &["publish", "s3://bucket/out"])
        .exits(1)
        .says(&["not packed yet"]);
    shardpack_at(
        &bucket.server,
        &["pack", "s3://bucket/out", "--worker", "1/3"],
    )
    .exits(0);
    shardpack_at(&bucket.server, &["publish", "s3://bucket/out"]).exits(0);
    bucket.is_converted();
}

#[test]
fn what_a_server_with_another_clock_says_was_begun_now_is_young() {
    const DAYS: i64 = 3 * 24 * 3600;
    for clock_ahead in [-DAYS, DAYS] {
        // A signature would be made by the server's clock, and refused by the one that checks it.
        let options = Options {
            clock_ahead,
            anonymous: true,
            ..Options::default()
        };
        let flags = ["--shard-size", "40KB", "--no-sign-request"];
        let bucket = Bucket::new(small(), &flags, options);
        bucket.convert(&[]).exits(0);
        bucket.server.begin_upload(&bucket.shard());
        let gc = shardpack_at(
            &bucket.server,
            &["gc", "s3://bucket/out", "--no-sign-request"],
        );
        gc.exits(0).says(&["removed 0 leftovers"]);
        assert_eq!(bucket.server.uploads().len(), 1, "{clock_ahead}");
        let mut all = at(
            &bucket.server,
            &["gc", "s3://bucket/out", "--no-sign-request"],
        );
        let gc = run(all.args(["--older-than", "0s", "--dry-run"]));
        assert!(!gc.exits(0).out.contains("d old"), "{}", gc.out);
    }
}

#[test]
fn a_repair_takes_from_a_shard_what_it_still_has_and_overwrites_nothing_it_cannot_replace() {
    let server = Server::with(Options::default());
    let data = Dataset::new().class("cat", 20);
    upload(&server, &data.source(), "images");
    let (source, out) = ("s3://bucket/images", "s3://bucket/out");
    shardpack_at(&server, &["convert", source, out, "--shards", "2"]).exits(0);
    let published = visible(server.objects("out/"));
    let place = |key: &str| {
        let run = shardpack_at(&server, &["inspect", out, key, "--json"]);
        let row = run.exits(0).json();
        let field = row["fields"].as_array().unwrap().iter();
        let image = field.into_iter().find(|field| field["name"] == "jpg");
        let offset = image.unwrap()["offset"].as_u64().unwrap() as usize;
        (format!("out/{}", row["shard"].as_str().unwrap()), offset)
    };
    let flip = |key: &str| {
        let (shard, offset) = place(key);
        let mut bytes = server.get(&shard).unwrap().to_vec();
        bytes[offset + 500] ^= 1;
        server.put_with_crc32(&shard, bytes);
    };
    let edit = |key: &str| {
        let mut bytes = picture(&format!("{key}.jpg"));
        bytes[500] ^= 1;
        server.put(&format!("images/{key}.jpg"), bytes);
    };
    let repair = || shardpack_at(&server, &["repair", out, "--source", source]);
    // One that the source still has, and all others of its shard gone from there.
    flip("cat/0003");
    for i in (0..20).filter(|&i| i != 3) {
        edit(&format!("cat/{i:04}"));
    }
    repair().exits(0);
    assert_same(&visible(server.objects("out/")), &published);
    // One that nobody has, and one that is given back together with it or not at all.
    flip("cat/0003");
    flip("cat/0005");
    let damaged = visible(server.objects("out/"));
    let said = repair();
    said.exits(4)
        .says(&["LOST", "`cat/0005` (cat/0005.jpg has another content"]);
    assert_same(&visible(server.objects("out/")), &{
        let mut expected = damaged;
        let (a, b) = (place("cat/0003").0, place("cat/0005").0);
        if a != b {
            let name = a.strip_prefix("out/").unwrap().to_owned();
            let key = expected
                .keys()
                .find(|key| key.ends_with(&name))
                .unwrap()
                .clone();
            let bytes = published[&key].clone();
            expected.insert(key, bytes);
        }
        expected
    });
    assert_eq!(server.uploads(), []);
}

#[test]
fn a_sample_is_looked_for_in_as_many_indexes_at_once_as_reads_were_asked_for() {
    let server = Server::with(Options::default());
    let data = Dataset::new().class("cat", 48);
    upload(&server, &data.source(), "images");
    let (source, out) = ("s3://bucket/images", "s3://bucket/out");
    shardpack_at(&server, &["convert", source, out, "--shards", "48"]).exits(0);
    server.set_latency(Duration::from_millis(50));
    for (reads, least, most) in [("1", 1, 2), ("40", 20, 41)] {
        server.clear_requests();
        shardpack_at(&server, &["inspect", out, "bird/0", "--reads", reads]).exits(1);
        let at_once = server.most_at_once();
        assert!((least..=most).contains(&at_once), "{reads}: {at_once}");
    }
}

#[test]
fn a_directory_of_many_keys_is_listed_in_ranges_if_the_server_can_begin_anywhere() {
    let data = Dataset::new();
    let content = picture("one");
    let mut expected = None;
    for start_after in [StartAfter::Known, StartAfter::Ignored, StartAfter::Refused] {
        let server = Server::with(Options {
            page: 10,
            start_after,
            ..Options::default()
        });
        for number in 0..900 {
            server.put(&format!("wide/cat/{number:05}.jpg"), content.clone());
            server.put(
                &format!("wide/dog/few/{number:x}/{number}.jpg"),
                content.clone(),
            );
        }
        server.set_latency(Duration::from_millis(20));
        let out = data.fresh();
        let flags = ["--dry-run", "--seed", "3"];
        let told = run(at(&server, &["convert", "s3://bucket/wide"])
            .arg(&out)
            .args(flags));
        told.exits(0).says(&["samples   1,800 in 2 classes"]);
        let requests = server.count("ListObjectsV2");
        // Two wide directories of 90 answers, and one for each directory below the second.
        let least = 180 + 900 + 2;
        assert!(
            requests * 10 <= least * 13,
            "{start_after:?}: {requests} requests"
        );
        if start_after == StartAfter::Known {
            assert!(requests > least, "nothing was split");
            assert!(server.most_at_once() > 8);
        }
        // The id of the plan, which covers every name and version.
        let plan = told.out.lines().next().unwrap().to_owned();
        assert_eq!(*expected.get_or_insert(plan.clone()), plan);
    }
}
