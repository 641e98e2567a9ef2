use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::s3::{assert_same, at, shardpack_at, tree};
use crate::support::*;
use shardpack_fixtures::s3_server::{Checksums, Fault, Kind, Options, Server};

/// Kills when nothing is said.
const KILLS: u64 = 4;

/// Two splits of two classes, in nine shards with two reader indexes.
fn dataset() -> (Dataset, Output) {
    let data = Dataset::new()
        .class("train/cat", 20)
        .class("train/dog", 15)
        .class("val/cat", 5)
        .class("val/dog", 5);
    data.convert_kept(&["--shard-samples", "5", "--index", "wids,dali"])
}

/// The files of its shards, in order.
fn shard_files(output: &Output) -> Vec<PathBuf> {
    let mut files = output.shards();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "tar"));
    files
}

fn copy_to(from: &Path, to: &Path, flags: &[&str]) -> Run {
    run(shardpack(&["copy"]).arg(from).arg(to).args(flags))
}

fn verified(place: &Path) {
    run(shardpack(&["verify"]).arg(place)).exits(0);
}

/// Names of all shards of a manifest.
fn shards(manifest: &Value) -> Vec<String> {
    let splits = manifest["splits"].as_array().unwrap();
    let shards = splits
        .iter()
        .flat_map(|split| split["shards"].as_array().unwrap());
    shards
        .map(|shard| shard["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Contents of all samples, by member.
fn contents(place: &Path) -> BTreeMap<String, Vec<u8>> {
    let shards = shards(&manifest(place));
    let members = shards.iter().flat_map(|shard| members(&place.join(shard)));
    members
        .map(|member| (format!("{}.{}", member.key, member.field), member.content))
        .collect()
}

#[test]
fn a_copy_of_all_is_the_same_files_and_a_second_one_writes_nothing() {
    let (data, output) = dataset();
    let copy = data.fresh();
    copy_to(&output.path, &copy, &[]).exits(0).says(&[
        "copied 45 samples in 9 shards, ",
        "9 shards passed through this machine",
        "next      shardpack verify ",
    ]);
    assert_eq!(digests(&copy), output.digests());
    verified(&copy);
    let before = stamps(&copy);
    copy_to(&output.path, &copy, &[]).exits(0).says(&[
        "up to date: 45 samples in 9 shards, ",
        "9 shards were already done",
    ]);
    assert_eq!(stamps(&copy), before);
    // It is gone on with like the original.
    let data = data.file("train/dog/new.jpg", picture("dog/new.jpg"));
    data.convert_to(&copy, &["--shard-samples", "5", "--index", "wids,dali"])
        .exits(0);
    verified(&copy);
}

#[test]
fn a_copy_follows_a_source_that_grew_and_what_it_has_is_not_copied_again() {
    let (data, output) = dataset();
    let (whole, part) = (data.fresh(), data.fresh());
    copy_to(&output.path, &whole, &[]).exits(0);
    copy_to(&output.path, &part, &["--split", "train"]).exits(0);
    let data = data.file("train/dog/new.jpg", picture("dog/new.jpg"));
    data.convert_to(
        &output.path,
        &["--shard-samples", "5", "--index", "wids,dali"],
    )
    .exits(0);
    copy_to(&output.path, &whole, &[])
        .exits(0)
        .says(&["9 shards were already done"]);
    assert_eq!(manifest(&whole), manifest(&output.path));
    verified(&whole);
    copy_to(&output.path, &part, &["--split", "train"])
        .exits(0)
        .says(&["7 shards were already done"]);
    verified(&part);
    // What a part does not name any more goes when the manifest is there.
    let changed = picture("another cat");
    let data = data.file("train/cat/0003.jpg", changed);
    data.convert_to(
        &output.path,
        &[
            "--shard-samples",
            "5",
            "--index",
            "wids,dali",
            "--on-change",
            "rebuild",
        ],
    )
    .exits(0);
    copy_to(&output.path, &part, &["--split", "train"])
        .exits(0)
        .says(&["1 shard of the earlier copy removed"]);
    verified(&part);
    // The other way round.
    let older = data.fresh();
    copy_to(&whole, &older, &[]).exits(0);
    let data = data.file("train/dog/newer.jpg", picture("dog/newer.jpg"));
    data.convert_to(
        &whole,
        &[
            "--shard-samples",
            "5",
            "--index",
            "wids,dali",
            "--on-change",
            "rebuild",
        ],
    )
    .exits(0);
    let before = digests(&whole);
    copy_to(&older, &whole, &[])
        .exits(10)
        .says(&["the copy is newer than what it is to be a copy of"]);
    assert_eq!(digests(&whole), before);
}

#[test]
fn a_part_is_a_dataset_that_says_what_it_is_a_part_of() {
    let (data, output) = dataset();
    let text = std::fs::read(output.path.join("manifest.json")).unwrap();
    let digest: String = Sha256::digest(&text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let all = contents(&output.path);
    let mut met = BTreeMap::new();
    for worker in 0..3 {
        let part = data.fresh();
        copy_to(&output.path, &part, &["--shards", &format!("{worker}/3")]).exits(0);
        verified(&part);
        let manifest = manifest(&part);
        let derived = &manifest["derived_from"];
        assert_eq!(derived["manifest"], digest);
        assert_eq!(
            derived["selection"],
            format!("part {worker}/3 of the shards")
        );
        // Files for readers are made of what is there.
        let wids = std::fs::read(part.join("wids-train.json")).unwrap();
        let wids: Value = serde_json::from_slice(&wids).unwrap();
        let of_train = &manifest["splits"][0];
        assert_eq!(
            wids["shardlist"].as_array().unwrap().len(),
            of_train["shards"].as_array().unwrap().len()
        );
        for shard in shards(&manifest) {
            let copied = std::fs::read(part.join(&shard)).unwrap();
            assert_eq!(copied, std::fs::read(output.path.join(&shard)).unwrap());
        }
        met.extend(contents(&part));
    }
    assert_eq!(met, all);
    // A conversion would make the shards of the whole there.
    let part = data.fresh();
    copy_to(&output.path, &part, &["--shards", "0/3"]).exits(0);
    let before = digests(&part);
    data.convert_to(&part, &["--shard-samples", "5", "--index", "wids,dali"])
        .exits(10)
        .says(&["holds a part of another dataset (part 0/3 of the shards)"]);
    assert_eq!(digests(&part), before);
    let val = data.fresh();
    copy_to(&output.path, &val, &["--split", "val"])
        .exits(0)
        .says(&["split val of "]);
    assert_eq!(manifest(&val)["splits"].as_array().unwrap().len(), 1);
    // Of a part the same goes.
    let again = data.fresh();
    copy_to(&val, &again, &[]).exits(0);
    assert_eq!(digests(&again), digests(&val));
    verified(&again);
}

#[test]
fn shards_of_a_class_come_whole() {
    let data = Dataset::new()
        .class("cat", 9)
        .class("dog", 9)
        .class("emu", 9);
    let output = data.convert(&["--order", "listed", "--shard-samples", "6"]);
    let copy = data.fresh();
    let run = copy_to(&output.path, &copy, &["--class", "emu"]);
    run.exits(0)
        .says(&["9 samples are of the classes that were named"]);
    let emus = contents(&copy);
    assert_eq!(
        emus.keys()
            .filter(|key| key.starts_with("emu/") && key.ends_with("jpg"))
            .count(),
        9
    );
    assert!(emus.len() < contents(&output.path).len());
    verified(&copy);
}

#[test]
fn a_part_lists_what_was_skipped_in_its_shards() {
    let data = Dataset::new()
        .class("cat", 20)
        .file("cat/0007.jpg", b"no picture");
    let output = data.convert(&[
        "--on-error",
        "skip",
        "--shard-samples",
        "5",
        "--max-skipped",
        "3",
    ]);
    let listed = |place: &Path| manifest(place)["skipped"].as_array().unwrap().len();
    let counts: Vec<usize> = (0..4)
        .map(|part| {
            let copy = data.fresh();
            copy_to(&output.path, &copy, &["--shards", &format!("{part}/4")]).exits(0);
            verified(&copy);
            listed(&copy)
        })
        .collect();
    assert_eq!((listed(&output.path), counts.iter().sum::<usize>()), (1, 1));
}

#[test]
fn what_cannot_be_copied_is_refused_and_nothing_is_written() {
    let (data, output) = dataset();
    let (_other, other) = Dataset::new().class("ant", 3).convert_kept(&[]);
    let copy = data.fresh();
    copy_to(&output.path, &copy, &["--split", "val"]).exits(0);
    let mine = data.place("mine");
    write(&mine.join("notes.txt"), b"mine");
    let place = |path: &Path| path.to_str().unwrap().to_owned();
    let cases: &[(&Path, &Path, &[&str], i32, &str)] = &[
        (
            &output.path,
            &output.path,
            &[],
            2,
            "choose a destination outside it",
        ),
        (
            &output.path,
            &output.path.join("copy"),
            &[],
            2,
            "choose a destination outside it",
        ),
        (
            &other.path,
            &copy,
            &[],
            10,
            "holds another dataset, `dataset` with 10 samples in 2 shards",
        ),
        (
            &output.path,
            &copy,
            &[],
            10,
            "holds `split val` of this dataset, not all",
        ),
        (
            &output.path,
            &copy,
            &["--shards", "0/2"],
            10,
            "give the flags that it was made with",
        ),
        (&output.path, &mine, &[], 2, "not a dataset of shardpack"),
        (
            &data.source(),
            &data.place("x"),
            &[],
            1,
            "nothing is published there",
        ),
        (
            &data.place("absent"),
            &data.place("x"),
            &[],
            1,
            "holds nothing",
        ),
        (
            &output.path,
            &data.place("x"),
            &["--split", "test"],
            2,
            "it has train, val",
        ),
        (
            &output.path,
            &data.place("x"),
            &["--class", "cow"],
            2,
            "it has cat, dog",
        ),
        (
            &output.path,
            &data.place("x"),
            &["--shards", "8"],
            2,
            "--shards `8`: write K/N",
        ),
        (
            &output.path,
            &data.place("x"),
            &["--shards", "8/9"],
            2,
            "make fewer parts",
        ),
    ];
    for (from, to, flags, code, words) in cases {
        let before = digests(to);
        copy_to(from, to, flags).exits(*code).says(&[words]);
        assert_eq!(digests(to), before, "{}", place(to));
    }
    let parquet = data.convert(&["--format", "parquet"]);
    let joined = copy_to(&parquet.path, &data.place("x"), &["--shard-size", "1MB"]);
    joined
        .exits(2)
        .says(&["--shard-size joins shards of tar or TFRecord"]);
    assert!(!data.place("x").exists());
}

#[test]
fn a_dry_run_says_what_would_be_copied_and_writes_nothing() {
    let (data, output) = dataset();
    let copy = data.fresh();
    let dry = copy_to(&output.path, &copy, &["--split", "train", "-n"]);
    dry.exits(0).says(&[
        "would copy 35 samples in 7 shards, ",
        "to copy   7 shards, ",
        "next      shardpack copy ",
    ]);
    assert!(!copy.exists());
}

#[test]
fn a_flipped_bit_is_found_on_its_way_and_named() {
    let (data, output) = dataset();
    let copy = data.fresh();
    let shard = shard_files(&output).remove(3);
    let member = members(&shard).remove(1);
    flip(&shard, member.start + 512 + 40);
    let run = copy_to(&output.path, &copy, &[]);
    run.exits(4).says(&[
        "1 shard damaged",
        "data/train-00003.tar",
        &member.key,
        "nothing was published",
    ]);
    assert!(!copy.join("manifest.json").exists());
    // What was copied stays for the next time.
    flip(&shard, member.start + 512 + 40);
    copy_to(&output.path, &copy, &[])
        .exits(0)
        .says(&["8 shards were already done"]);
    assert_eq!(digests(&copy), output.digests());
    std::fs::remove_file(&shard).unwrap();
    let run = copy_to(&output.path, &data.fresh(), &[]);
    run.exits(4).says(&["data/train-00003.tar: missing"]);
}

#[test]
fn a_copy_that_is_not_finished_belongs_to_nobody_else() {
    let (data, output) = dataset();
    let copy = data.fresh();
    let shard = shard_files(&output).remove(0);
    flip(&shard, 600);
    copy_to(&output.path, &copy, &["--split", "train"]).exits(4);
    flip(&shard, 600);
    copy_to(&output.path, &copy, &[])
        .exits(10)
        .says(&["holds a copy that is not finished", "split train"]);
    data.convert_to(&copy, &[])
        .exits(10)
        .says(&["holds a copy that is not finished"]);
    copy_to(&output.path, &copy, &["--split", "train"])
        .exits(0)
        .says(&["6 shards were already done"]);
    verified(&copy);
    assert!(!copy.join("_shardpack/copy.json").exists());
}

#[test]
fn a_copy_finds_no_room_before_it_begins() {
    let data = Dataset::new().file("cat/a.jpg", padded_picture("a", 3 << 20));
    let output = data.convert(&[]);
    let Some(small) = Memory::mount(data.place("small"), "size=1m") else {
        return;
    };
    let to = data.place("small").join("copy");
    copy_to(&output.path, &to, &[])
        .exits(1)
        .says(&["are to be written, and", "nothing was written"]);
    assert!(!to.exists());
    drop(small);
}

/// A dataset of larger shards: six of 6 MB.
fn large() -> (Dataset, Output) {
    let data = (0..6).fold(Dataset::new(), |data, i| {
        let name = format!("{}/{i:02}.jpg", ["a", "b"][i % 2]);
        let picture = padded_picture(&name, 6 << 20);
        data.file(name, picture)
    });
    let output = data.convert(&["--shards", "6"]);
    (data, output)
}

/// Puts a dataset below a prefix as a client does that sends checksums.
fn publish(server: &Server, place: &Path, prefix: &str) {
    for (name, content) in tree(place) {
        server.put_with_crc32(&format!("{prefix}/{name}"), content);
    }
}

#[test]
fn a_copy_to_s3_and_back_is_the_same_files() {
    let (data, output) = dataset();
    let server = Server::start();
    let place = output.path.to_str().unwrap();
    shardpack_at(&server, &["copy", place, "s3://bucket/shards"]).exits(0);
    assert_same(&server.objects("shards/"), &tree(&output.path));
    assert_eq!(server.uploads(), []);
    let back = data.fresh();
    let run = shardpack_at(
        &server,
        &[
            "copy",
            "s3://bucket/shards",
            back.to_str().unwrap(),
            "--json",
        ],
    );
    assert_eq!(run.exits(0).json()["copy"]["shards_passed"], 9);
    assert_eq!(digests(&back), output.digests());
}

#[test]
fn inside_one_s3_no_byte_of_a_shard_is_read_or_sent() {
    let (_data, output) = large();
    let server = Server::start();
    publish(&server, &output.path, "small");
    server.clear_requests();
    let run = shardpack_at(&server, &["copy", "s3://bucket/small", "s3://bucket/copy"]);
    run.exits(0).says(&[
        "6 shards put together by the store",
        "verify s3://bucket/copy --level head",
    ]);
    assert_same(&server.objects("copy/"), &tree(&output.path));
    let is_data = |key: &str| key.contains("/data/");
    let moved = |operation: &str| {
        let requests = server.requests();
        let moved = requests
            .iter()
            .filter(|r| r.operation == operation && is_data(&r.key));
        moved.count()
    };
    assert_eq!(
        (moved("GetObject"), moved("PutObject"), moved("UploadPart")),
        (0, 0, 0)
    );
    assert_eq!(moved("UploadPartCopy"), 6);
    shardpack_at(&server, &["verify", "s3://bucket/copy", "--level", "head"]).exits(0);
    assert_eq!(server.uploads(), []);
}

#[test]
fn shards_joined_inside_s3_are_those_joined_on_a_disk() {
    let (data, output) = large();
    let server = Server::start();
    publish(&server, &output.path, "small");
    server.clear_requests();
    let flags = ["--shard-size", "20MB"];
    let args = ["copy", "s3://bucket/small", "s3://bucket/joined"];
    shardpack_at(&server, &[&args[..], &flags].concat())
        .exits(0)
        .says(&["2 shards put together by the store"]);
    let requests = server.requests();
    let read = requests
        .iter()
        .filter(|r| r.operation == "GetObject" && r.key.contains("/data/"));
    assert_eq!(read.count(), 0);
    let local = data.fresh();
    copy_to(&output.path, &local, &flags)
        .exits(0)
        .says(&["2 shards passed through this machine"]);
    assert_same(&server.objects("joined/"), &tree(&local));
    verified(&local);
    shardpack_at(&server, &["verify", "s3://bucket/joined"]).exits(0);
    assert_eq!(contents(&local), contents(&output.path));
    // What a conversion with this size makes of the same order.
    let converted = data.convert(&["--shards", "2"]);
    let made = |place: &Path| {
        shards(&manifest(place))
            .iter()
            .map(|s| std::fs::read(place.join(s)).unwrap())
            .collect::<Vec<_>>()
    };
    assert!(made(&converted.path) == made(&local));
    let run = copy_to(&output.path, &local, &flags);
    run.exits(0)
        .says(&["up to date: ", "2 shards were already done"]);
}

#[test]
fn shards_of_tfrecords_are_joined_too() {
    let data = Dataset::new().class("cat", 20).class("dog", 10);
    let output = data.convert(&["--format", "tfrecord", "--shards", "6"]);
    let copy = data.fresh();
    copy_to(&output.path, &copy, &["--shard-size", "40kB"]).exits(0);
    assert!(shards(&manifest(&copy)).len() < 6);
    verified(&copy);
}

/// A copy inside a server, which must pass through this machine for this reason.
fn passes_through(server: &Server, place: &Path, flags: &[&str], why: &str) {
    publish(server, place, "from");
    let args = [&["copy", "s3://bucket/from", "s3://bucket/to"], flags].concat();
    shardpack_at(server, &args)
        .exits(0)
        .says(&["through   this machine, because of this: ", why]);
    shardpack_at(server, &["verify", "s3://bucket/to"]).exits(0);
    assert_eq!(server.uploads(), []);
}

#[test]
fn what_a_server_cannot_put_together_passes_through_and_that_is_said() {
    let (_data, output) = large();
    let server = Server::start();
    server.fault(Fault::new(Kind::Status(501, "NotImplemented")).on("UploadPartCopy"));
    passes_through(&server, &output.path, &[], "NotImplemented");
    let (_data, small) = dataset();
    let joined = ["--shard-size", "1MB"];
    let why = "S3 joins no part of less than";
    passes_through(&Server::start(), &small.path, &joined, why);
    let composite = Server::with(Options {
        checksums: Checksums::Composite,
        ..Options::default()
    });
    let why = "does not compare what it puts together";
    passes_through(&composite, &small.path, &[], why);
}

#[test]
fn damage_is_found_where_the_server_copies() {
    let (_data, output) = large();
    let server = Server::start();
    publish(&server, &output.path, "from");
    let key = "from/data/train-00002.tar";
    let mut damaged = server.get(key).unwrap().to_vec();
    damaged[3000] ^= 1;
    // With a checksum that shows it, and without one.
    for keeps in [true, false] {
        match keeps {
            true => server.put_with_crc32(key, damaged.clone()),
            false => server.put(key, damaged.clone()),
        }
        let run = shardpack_at(&server, &["copy", "s3://bucket/from", "s3://bucket/to"]);
        run.exits(4).says(&["data/train-00002.tar", "sample `"]);
        assert!(server.get("to/manifest.json").is_none());
        assert!(server.get("to/data/train-00002.tar").is_none());
        assert_eq!(server.uploads(), []);
    }
}

#[test]
fn answers_that_are_lost_or_wrong_do_not_harm_a_copy_inside_s3() {
    let (_data, output) = large();
    let expected = tree(&output.path);
    for kind in [Kind::LostReply, Kind::ErrorInBody, Kind::SlowDown] {
        let server = Server::start();
        publish(&server, &output.path, "from");
        for operation in [
            "UploadPartCopy",
            "CompleteMultipartUpload",
            "CreateMultipartUpload",
        ] {
            server.fault(Fault::new(kind).on(operation).times(2));
        }
        shardpack_at(&server, &["copy", "s3://bucket/from", "s3://bucket/to"]).exits(0);
        assert_same(&server.objects("to/"), &expected);
    }
}

#[test]
fn a_source_that_is_tidied_up_meanwhile_is_no_damage() {
    let (data, output) = large();
    let server = Server::with(Options {
        latency: Duration::from_millis(30),
        ..Options::default()
    });
    publish(&server, &output.path, "from");
    let copy = data.fresh();
    let mut command = at(
        &server,
        &[
            "copy",
            "s3://bucket/from",
            copy.to_str().unwrap(),
            "--jobs",
            "1",
        ],
    );
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let begun = Instant::now();
    while files(&copy.join("index")).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    // Another snapshot, whose shards have other names, and the earlier ones are gone.
    let text = String::from_utf8(server.get("from/manifest.json").unwrap().to_vec()).unwrap();
    let later = text
        .replace("train-0000", "train-0010")
        .replace("\"snapshot\": 1", "\"snapshot\": 2");
    server.put_with_crc32("from/manifest.json", later);
    for name in shards(&manifest(&output.path)) {
        server.remove(&format!("from/{name}"));
    }
    let run = finished(child.wait_with_output().unwrap());
    run.exits(75)
        .says(&["is at snapshot 2 by now", "run again"]);
    assert!(!copy.join("manifest.json").exists());
}

/// Copies that are killed at random moments are gone on with, and nobody ever sees half of one.
fn survives_kills(
    start: &dyn Fn() -> Command,
    tree: &dyn Fn() -> BTreeMap<String, Bytes>,
    check: &dyn Fn(),
) {
    let rounds = number("SHARDPACK_KILLS").unwrap_or(KILLS);
    let mut random = Random::new(number("SHARDPACK_SEED").unwrap_or(7));
    let begun = Instant::now();
    finished(start().output().unwrap()).exits(0);
    let mut whole = begun.elapsed().as_micros() as u64;
    let expected = tree();
    let mut kills = 0;
    for _ in 0..rounds {
        check();
        for _ in 0..2 {
            let mut command = start();
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            std::thread::sleep(Duration::from_micros(random.below(whole)));
            match child.try_wait().unwrap() {
                None => kills += 1,
                Some(_) => whole -= whole / 8,
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let there = tree();
            if there.contains_key("manifest.json") {
                let named = |name: &String| there.contains_key(name);
                assert!(expected.keys().all(named));
            }
        }
        finished(start().output().unwrap()).exits(0);
        let mut there = tree();
        there.retain(|name, _| !name.starts_with("upload "));
        assert_same(&there, &expected);
    }
    println!("{rounds} rounds, {kills} kills");
    assert!(kills > 0);
}

#[test]
fn a_copy_to_a_disk_that_is_killed_at_any_moment_is_gone_on_with() {
    let (data, output) = dataset();
    let copy = data.place("copy");
    let start = || {
        let mut command = shardpack(&["copy"]);
        command
            .arg(&output.path)
            .arg(&copy)
            .env_remove("SHARDPACK_NO_FSYNC");
        command
    };
    survives_kills(&start, &|| tree(&copy), &|| {
        let _ = std::fs::remove_dir_all(&copy);
    });
}

#[test]
fn a_copy_inside_s3_that_is_killed_at_any_moment_is_gone_on_with() {
    let (_data, output) = large();
    let server = Server::with(Options {
        latency: Duration::from_millis(5),
        ..Options::default()
    });
    publish(&server, &output.path, "from");
    let start = || {
        at(
            &server,
            &[
                "copy",
                "s3://bucket/from",
                "s3://bucket/to",
                "--shard-size",
                "13MB",
            ],
        )
    };
    survives_kills(&start, &|| server.objects("to/"), &|| {
        for key in server.objects("to/").keys() {
            server.remove(&format!("to/{key}"));
        }
    });
}

#[test]
fn a_card_that_people_completed_comes_along() {
    let (data, output) = dataset();
    let card: PathBuf = output.path.join("README.md");
    let completed = [
        &std::fs::read(&card).unwrap()[..],
        b"\n## License\n\nOurs.\n",
    ]
    .concat();
    std::fs::write(&card, &completed).unwrap();
    let copy = data.fresh();
    copy_to(&output.path, &copy, &[]).exits(0);
    assert!(std::fs::read(copy.join("README.md")).unwrap() == completed);
}
