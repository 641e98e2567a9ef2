//! What is damaged or missing is made again, byte for byte, and nothing else is touched.

use std::fs;
use std::path::Path;

use crate::support::{
    Dataset, Digests, Output, Random, copy_tree, files, flip, number, padded_picture, picture, png,
    run, set_modified, shardpack, stamps,
};

fn varied() -> Dataset {
    let mut data = Dataset::new().file("train/cat/really.jpg", png(4));
    for (class, count) in [("train/cat", 20), ("train/dog", 12), ("val/cat", 6)] {
        for number in 0..count {
            let stem = format!("{class}/{number:03}");
            data = data
                .file(format!("{stem}.jpg"), picture(&stem))
                .file(format!("{stem}.txt"), format!("number {number}"));
        }
    }
    data.file("train/cat/really.txt", "a PNG")
}

const FORMATS: [&[&str]; 6] = [
    &["--add-json", "--index", "wids,dali"],
    &["--compress", "zstd", "--zstd-seekable"],
    &["--compress", "gzip", "--sha256"],
    &["--format", "tfrecord", "--index", "dali"],
    &[
        "--format",
        "tfrecord",
        "--schema",
        "tfds",
        "--compress",
        "zstd",
    ],
    &["--format", "parquet"],
];

/// Everything but stored plans, of which a repair may add one.
fn published(output: &Output) -> Digests {
    let mut all = output.digests();
    all.retain(|name, _| !name.starts_with("_shardpack/plan"));
    all
}

fn repair(output: &Output, source: Option<&Path>) -> crate::support::Run {
    let mut command = shardpack(&["repair"]);
    command.arg(&output.path);
    if let Some(source) = source {
        command.arg("--source").arg(source);
    }
    run(&mut command)
}

type Damage = (&'static str, fn(&Path));

/// Each way to lose something, with whether only the source can give it back.
const DAMAGES: [(bool, Damage); 12] = [
    (
        true,
        ("flipped bits in a shard", |root| {
            // Some of them in contents, in every format.
            for at in [700, 1700, 2700, 3700] {
                flip(&shard(root, 1), at);
            }
        }),
    ),
    (
        true,
        ("a shard cut short", |root| {
            let bytes = fs::read(shard(root, 0)).unwrap();
            fs::write(shard(root, 0), &bytes[..bytes.len() / 2]).unwrap();
        }),
    ),
    (
        true,
        ("a shard lost", |root| {
            fs::remove_file(shard(root, 2)).unwrap()
        }),
    ),
    (
        true,
        ("two shards swapped", |root| {
            let (a, b) = (shard(root, 0), shard(root, 1));
            fs::rename(&a, root.join("x")).unwrap();
            fs::rename(&b, &a).unwrap();
            fs::rename(root.join("x"), &b).unwrap();
        }),
    ),
    (
        true,
        ("all shards lost", |root| {
            for number in 0..4 {
                let _ = fs::remove_file(shard(root, number));
            }
        }),
    ),
    (
        true,
        ("a shard and its index lost", |root| {
            fs::remove_file(shard(root, 1)).unwrap();
            fs::remove_file(index(root, 1)).unwrap();
        }),
    ),
    (
        false,
        ("an index lost", |root| {
            fs::remove_file(index(root, 1)).unwrap()
        }),
    ),
    (
        false,
        ("a flipped bit in an index", |root| {
            flip(&index(root, 0), 99)
        }),
    ),
    (
        false,
        ("the manifest lost", |root| {
            fs::remove_file(root.join("manifest.json")).unwrap()
        }),
    ),
    (
        false,
        ("the manifest cut short", |root| {
            fs::write(root.join("manifest.json"), "{").unwrap()
        }),
    ),
    (
        false,
        ("the snapshot lost", |root| {
            fs::remove_file(root.join("_shardpack/snapshots/00000001.json")).unwrap();
        }),
    ),
    (
        false,
        ("manifest and snapshot lost", |root| {
            fs::remove_file(root.join("manifest.json")).unwrap();
            fs::write(
                root.join("_shardpack/snapshots/00000001.json"),
                "no manifest",
            )
            .unwrap();
        }),
    ),
];

fn named(root: &Path, dir: &str, number: usize) -> std::path::PathBuf {
    let file = format!("train-{number:05}.");
    let found = fs::read_dir(root.join(dir))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&file) && !name.ends_with("idx")
    };
    found
        .into_iter()
        .find(is)
        .unwrap_or_else(|| root.join("nothing"))
}

fn shard(root: &Path, number: usize) -> std::path::PathBuf {
    named(root, "data", number)
}

fn index(root: &Path, number: usize) -> std::path::PathBuf {
    named(root, "index", number)
}

#[test]
fn every_loss_is_made_good_byte_for_byte_in_every_format() {
    let data = varied();
    for flags in FORMATS {
        let flags = [flags, &["--shards", "4"]].concat();
        for (_, (what, damage)) in DAMAGES {
            let output = data.convert(&flags);
            let before = published(&output);
            let untouched = stamps(&output.path);
            damage(&output.path);
            let damaged = output.digests();
            repair(&output, Some(&data.source()))
                .exits(0)
                .says(&["repaired"]);
            assert_eq!(published(&output), before, "{what}, {flags:?}");
            // What was not damaged was not written again.
            let after = stamps(&output.path);
            for (path, stamp) in &untouched {
                let name = path.strip_prefix(&output.path).unwrap().to_str().unwrap();
                let shard = name.starts_with("data/") && !name.ends_with("idx");
                if shard && before.get(name) == damaged.get(name) {
                    assert_eq!(after.get(path), Some(stamp), "{what}: {name}");
                }
            }
            output.verify(&[]).exits(0);
            repair(&output, None).exits(0).says(&["nothing to repair"]);
        }
    }
}

#[test]
fn without_the_source_all_is_made_good_that_the_dataset_itself_has() {
    let data = varied();
    for flags in FORMATS {
        let flags = [flags, &["--shards", "4"]].concat();
        for (source, (what, damage)) in DAMAGES {
            let output = data.convert(&flags);
            let before = published(&output);
            damage(&output.path);
            let run = repair(&output, None);
            // Parquet does not tell enough of itself to make its index.
            if source || (flags.contains(&"parquet") && what.contains("index")) {
                run.exits(4).says(&["LOST", "add `--source SRC`"]);
            } else {
                run.exits(0);
                assert_eq!(published(&output), before, "{what}, {flags:?}");
            }
        }
    }
}

#[test]
fn a_copy_of_the_source_with_other_times_will_do() {
    let data = varied();
    let output = data.convert(&["--shards", "3"]);
    let before = published(&output);
    let copy = data.place("copy");
    copy_tree(&data.source(), &copy, 5000);
    fs::remove_file(shard(&output.path, 1)).unwrap();
    repair(&output, Some(&copy)).exits(0);
    assert_eq!(published(&output), before);
}

#[test]
fn a_source_that_is_not_the_one_is_refused_and_nothing_is_written() {
    let data = varied();
    let output = data.convert(&["--shards", "3"]);
    fs::remove_file(shard(&output.path, 1)).unwrap();
    let damaged = output.digests();
    let mut other = varied();
    for number in 0..20 {
        other = other.file(format!("train/dog/{number:03}.jpg"), picture("other"));
    }
    repair(&output, Some(&other.source())).exits(4).says(&[
        "LOST",
        "data/train-00001.tar: ",
        " lost: `train/dog/0",
        ".jpg has ",
    ]);
    assert_eq!(output.digests(), damaged);
    // The same size and another content: known only when it was packed.
    let path = data.source().join("train/dog/003.jpg");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    for number in [0, 2] {
        let _ = fs::remove_file(shard(&output.path, number));
    }
    repair(&output, Some(&data.source()))
        .exits(4)
        .says(&["`train/dog/003` (train/dog/003.jpg has another content than what was published)"]);
}

#[test]
fn samples_that_were_skipped_are_skipped_again() {
    let cut = picture("cut");
    for flags in [
        &["--format", "wds"][..],
        &["--compress", "zstd"],
        &["--format", "parquet"],
    ] {
        let data = Dataset::new()
            .class("cat", 20)
            .file("cat/cut.jpg", &cut[..cut.len() - 60]);
        let output = data.convert(&[flags, &["--on-error", "skip", "--shards", "1"]].concat());
        let before = published(&output);
        flip(&shard(&output.path, 0), 5000);
        repair(&output, Some(&data.source())).exits(0);
        assert_eq!(published(&output), before, "{flags:?}");
        fs::remove_file(index(&output.path, 0)).unwrap();
        repair(&output, Some(&data.source())).exits(0);
        assert_eq!(published(&output), before, "{flags:?}");
    }
}

#[test]
fn labels_of_a_file_come_from_the_stored_plan() {
    let data = Dataset::new().pictures(&["a.jpg", "b.jpg", "c.jpg"]);
    let labels = data.place("labels.csv");
    fs::write(&labels, "a.jpg,x\nb.jpg,y\nc.jpg,x\n").unwrap();
    let output = data.convert(&["--labels", labels.to_str().unwrap(), "--shards", "3"]);
    let before = output.digests();
    fs::remove_file(shard(&output.path, 1)).unwrap();
    repair(&output, Some(&data.source())).exits(0);
    assert_eq!(output.digests(), before);
}

#[test]
fn a_dry_run_names_what_would_be_done_and_does_nothing() {
    let data = varied();
    let output = data.convert(&["--shards", "3"]);
    flip(&shard(&output.path, 1), 900);
    fs::remove_file(index(&output.path, 0)).unwrap();
    let damaged = published(&output);
    let mut command = shardpack(&["repair", "--dry-run"]);
    command.arg(&output.path).arg("--source").arg(data.source());
    run(&mut command).exits(0).says(&[
        "would repair  data/train-00001.tar",
        "would repair  index/train-00000.parquet",
    ]);
    assert_eq!(published(&output), damaged);
}

#[test]
fn indexes_of_shards_of_somebody_else_are_made_again() {
    let data = varied();
    let ours = data.convert(&["--shards", "2"]);
    for dir in ["data", "some/where"] {
        let theirs = Output {
            path: data.fresh(),
            run: run(&mut shardpack(&["--version"])),
        };
        for shard in ours.shards() {
            crate::support::write(
                &theirs.path.join(dir).join(shard.file_name().unwrap()),
                &fs::read(&shard).unwrap(),
            );
        }
        theirs.verb("index", &[]).exits(0);
        let before = theirs.digests();
        fs::remove_file(index(&theirs.path, 1)).unwrap();
        repair(&theirs, None).exits(0);
        assert_eq!(theirs.digests(), before, "{dir}");
        flip(&named(&theirs.path, dir, 0), 600);
        repair(&theirs, Some(&data.source()))
            .exits(4)
            .says(&["LOST"]);
    }
}

/// Six pictures, each large enough for a frame of its own.
fn large() -> Dataset {
    (0..6).fold(Dataset::new(), |data, i| {
        let name = format!("cat/{i:03}.jpg");
        let picture = padded_picture(&name, 150_000);
        data.file(name, picture)
    })
}

/// Another content of the same length, at another time.
fn edit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
    set_modified(path, 77);
}

/// Shard and place of a sample's image.
fn place(output: &Output, key: &str) -> (std::path::PathBuf, u64, u64) {
    let row = output.row(key);
    let shard = output.path.join(row["shard"].as_str().unwrap());
    let fields = row["fields"].as_array().unwrap();
    let image = fields.iter().find(|field| field["name"] == "jpg").unwrap();
    let of = |value: &serde_json::Value, what: &str| value[what].as_u64().unwrap();
    match row["frame"].is_null() {
        true => (shard, of(image, "offset"), of(image, "length")),
        false => {
            let frame = &row["frame"];
            (shard, of(frame, "offset"), of(frame, "length"))
        }
    }
}

/// Formats in which a content can be read whatever became of those before it.
const SEPARATE: [&[&str]; 5] = [
    &["--add-json", "--index", "wids,dali"],
    &["--format", "tfrecord", "--index", "dali"],
    &["--format", "tfrecord", "--schema", "tfds", "--sha256"],
    &["--format", "parquet"],
    &["--compress", "zstd", "--zstd-seekable"],
];

#[test]
fn a_shard_gives_what_it_still_has_and_the_source_only_what_is_lost() {
    for flags in SEPARATE {
        let data = large();
        let output = data.convert(&[flags, &["--shards", "1"]].concat());
        let before = published(&output);
        let (shard, offset, length) = place(&output, "cat/002");
        flip(&shard, offset + length / 2);
        // Of all other samples the shard has the last copy.
        for i in [0, 1, 3, 4, 5] {
            edit(&data.source().join(format!("cat/{i:03}.jpg")));
        }
        repair(&output, Some(&data.source())).exits(0);
        assert_eq!(published(&output), before, "{flags:?}");
        output.verify(&[]).exits(0);
    }
}

#[test]
fn a_sample_that_nobody_has_any_more_is_named_and_its_shard_stays_as_it_is() {
    for flags in SEPARATE {
        let data = large();
        let output = data.convert(&[flags, &["--shards", "1"]].concat());
        let before = published(&output);
        for key in ["cat/001", "cat/004"] {
            let (shard, offset, length) = place(&output, key);
            flip(&shard, offset + length / 2);
        }
        let damaged = published(&output);
        for i in [0, 4, 5] {
            edit(&data.source().join(format!("cat/{i:03}.jpg")));
        }
        for dry in [&["--dry-run"][..], &[]] {
            let mut command = shardpack(&["repair"]);
            command.arg(&output.path).args(dry);
            let said = run(command.arg("--source").arg(data.source()));
            said.exits(4).says(&[
                "LOST",
                "1 of 6 samples lost: `cat/004` (cat/004.jpg has another content than what was published); it stays as it is",
            ]);
            assert!(!said.out.contains("cat/001"), "{}", said.out);
            assert_eq!(published(&output), damaged, "{flags:?}");
        }
        fs::remove_file(data.source().join("cat/004.jpg")).unwrap();
        repair(&output, Some(&data.source()))
            .exits(4)
            .says(&["`cat/004` (cat/004.jpg is gone)"]);
        assert_eq!(published(&output), damaged, "{flags:?}");
        crate::support::write(
            &data.source().join("cat/004.jpg"),
            &padded_picture("cat/004.jpg", 150_000),
        );
        repair(&output, Some(&data.source())).exits(0);
        assert_eq!(published(&output), before, "{flags:?}");
    }
}

#[test]
fn lost_samples_are_named_up_to_a_bound() {
    let data = Dataset::new().class("cat", 50);
    let output = data.convert(&["--shards", "1"]);
    for i in 0..50 {
        let key = format!("cat/{i:04}");
        let (shard, offset, _) = place(&output, &key);
        flip(&shard, offset + 500);
    }
    let said = repair(&output, None);
    said.exits(4).says(&[
        "50 of 50 samples lost, only the source has",
        ", and 30 more",
    ]);
    assert!(said.out.lines().count() < 5, "{}", said.out);
}

#[test]
fn what_lies_around_contents_is_made_again_without_the_source() {
    for flags in SEPARATE {
        let data = large();
        let output = data.convert(&[flags, &["--shards", "1"]].concat());
        let before = published(&output);
        let shard = shard(&output.path, 0);
        let end = fs::metadata(&shard).unwrap().len();
        let compressed = flags.contains(&"zstd");
        let row = output.row("cat/003");
        let starts = match compressed {
            // Its seek table.
            true => vec![end - 12],
            false => vec![row["offset"].as_u64().unwrap() + 2, end - 3],
        };
        for at in starts {
            flip(&shard, at);
            output.verify(&[]).exits(4);
            repair(&output, None).exits(0).says(&["repaired"]);
            assert_eq!(published(&output), before, "{flags:?}, byte {at}");
        }
        if !compressed && !flags.contains(&"tfrecord") {
            let bytes = fs::read(&shard).unwrap();
            fs::write(&shard, &bytes[..bytes.len() - 7]).unwrap();
            repair(&output, None).exits(0);
            assert_eq!(published(&output), before, "{flags:?}, cut short");
        }
    }
}

#[test]
fn where_compression_ends_the_reading_that_is_said() {
    for flags in [&["--compress", "zstd"][..], &["--compress", "gzip"]] {
        let data = large();
        let output = data.convert(&[flags, &["--shards", "1"]].concat());
        let before = published(&output);
        let shard = shard(&output.path, 0);
        let bytes = fs::read(&shard).unwrap();
        fs::write(&shard, &bytes[..bytes.len() / 2]).unwrap();
        let damaged = published(&output);
        repair(&output, None)
            .exits(4)
            .says(&["of 6 samples lost", "nothing can be unpacked any more"]);
        assert_eq!(published(&output), damaged);
        // What lies before the damage is taken from the shard itself.
        let key = (0..6).map(|i| format!("cat/{i:03}"));
        let key = key.min_by_key(|key| output.row(key)["offset"].as_u64().unwrap());
        edit(&data.source().join(format!("{}.jpg", key.unwrap())));
        repair(&output, Some(&data.source())).exits(0);
        assert_eq!(published(&output), before, "{flags:?}");
    }
}

#[test]
fn of_manifest_and_snapshot_that_differ_the_one_stays_that_the_indexes_know() {
    let data = Dataset::new().class("cat", 20);
    let output = data.convert(&["--shards", "3", "--index", "wids"]);
    let before = published(&output);
    let manifest = output.manifest();
    let shard = &manifest["splits"][0]["shards"][1];
    let edits = [
        shard["crc32"].as_str().unwrap().to_owned(),
        shard["bytes"].to_string(),
        shard["index_crc32"].as_str().unwrap().to_owned(),
        manifest["indexes"][0]["crc32"].as_str().unwrap().to_owned(),
        manifest["plan"].as_str().unwrap().to_owned(),
        "\"cat\"".to_owned(),
    ];
    let snapshot = output.path.join("_shardpack/snapshots/00000001.json");
    for edit in edits {
        for file in [output.path.join("manifest.json"), snapshot.clone()] {
            let text = fs::read_to_string(&file).unwrap();
            let last = edit.trim_end_matches('"').chars().last().unwrap();
            let other = if last == '1' { '2' } else { '1' };
            let other = edit.replace(last, &other.to_string());
            fs::write(&file, text.replacen(&edit, &other, 1)).unwrap();
            repair(&output, None).exits(0);
            assert_eq!(published(&output), before, "{edit} in {}", file.display());
        }
    }
}

#[test]
fn a_manifest_that_its_indexes_contradict_replaces_nothing() {
    let data = Dataset::new().class("cat", 20);
    for lost in ["manifest.json", "_shardpack/snapshots/00000001.json"] {
        let output = data.convert(&["--shards", "3"]);
        let crc32 = output.manifest()["splits"][0]["shards"][1]["crc32"].clone();
        let crc32 = crc32.as_str().unwrap();
        let other = match lost {
            "manifest.json" => "_shardpack/snapshots/00000001.json",
            _ => "manifest.json",
        };
        fs::remove_file(output.path.join(lost)).unwrap();
        let text = fs::read_to_string(output.path.join(other)).unwrap();
        fs::write(output.path.join(other), text.replace(crc32, "00000000")).unwrap();
        let damaged = published(&output);
        repair(&output, Some(&data.source())).exits(4).says(&[
            "LOST",
            lost,
            "is not what was published",
        ]);
        assert_eq!(published(&output), damaged, "{lost}");
    }
}

#[test]
fn a_newest_snapshot_that_cannot_be_read_is_not_replaced_by_an_older_one() {
    let data = Dataset::new().class("cat", 20);
    let output = data.convert(&["--shards", "3"]);
    output.verb("index", &["--index", "wids"]).exits(0);
    for name in ["manifest.json", "_shardpack/snapshots/00000002.json"] {
        let path = output.path.join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen('{', "<", 1)).unwrap();
    }
    let damaged = published(&output);
    let said = repair(&output, Some(&data.source()));
    assert_ne!(said.code, 0);
    assert_eq!(published(&output), damaged, "{}", said.err);
}

#[test]
fn a_source_that_is_not_there_is_no_loss() {
    let data = varied();
    let output = data.convert(&["--shards", "3"]);
    flip(&shard(&output.path, 1), 900);
    let nowhere = data.place("nowhere");
    let said = repair(&output, Some(&nowhere));
    assert!(
        [2, 3, 75].contains(&said.code),
        "{} {}",
        said.code,
        said.err
    );
    assert!(!said.out.contains("LOST"), "{}", said.out);
}

/// What lies in a destination, but for plans: a repair may add one.
fn contents(root: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let named = files(root).into_iter().map(|path| {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap();
        (name.to_owned(), fs::read(&path).unwrap())
    });
    named
        .filter(|(name, _)| !name.starts_with("_shardpack/plan"))
        .collect()
}

/// Damages something that is published.
fn damage(root: &Path, random: &mut Random) -> String {
    let published: Vec<_> = files(root)
        .into_iter()
        .filter(|path| {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            let state = name.starts_with("_shardpack/") && !name.contains("snapshots");
            !(state || name == "README.md" || name == "SHA256SUMS")
        })
        .collect();
    let one =
        |random: &mut Random| published[random.below(published.len() as u64) as usize].clone();
    let path = one(random);
    let mut bytes = fs::read(&path).unwrap();
    let at = random.below(bytes.len().max(1) as u64) as usize;
    let what = match random.below(12) {
        0 => {
            fs::remove_file(&path).unwrap();
            return format!("{} lost", path.display());
        }
        1 => {
            bytes.truncate(at);
            "cut short"
        }
        2 => {
            bytes.extend_from_slice(b"more");
            "lengthened"
        }
        3 => {
            let end = (at + 700).min(bytes.len());
            bytes[at..end].fill(0);
            "zeros"
        }
        4 => {
            bytes.insert(at, b'x');
            "a byte more"
        }
        5 => {
            let other = one(random);
            let theirs = fs::read(&other).unwrap();
            fs::write(&other, &bytes).unwrap();
            bytes = theirs;
            "swapped"
        }
        6 | 7 => {
            // Still a manifest, with another number in it.
            let manifest =
                root.join(["manifest.json", "_shardpack/snapshots/00000001.json"][at % 2]);
            if let Ok(mut text) = fs::read(&manifest) {
                let digits: Vec<usize> = (0..text.len())
                    .filter(|&i| text[i].is_ascii_digit())
                    .collect();
                if let Some(&digit) = digits.get(random.below(digits.len().max(1) as u64) as usize)
                {
                    text[digit] = b'0' + (text[digit] - b'0' + 1) % 10;
                    fs::write(&manifest, text).unwrap();
                }
            }
            return "a digit of a manifest".to_owned();
        }
        _ if bytes.is_empty() => "nothing",
        _ => {
            bytes[at] ^= 1 << random.below(8);
            "a bit"
        }
    };
    fs::write(&path, bytes).unwrap();
    format!("{what}: {} at {at}", path.display())
}

/// Changes something in a source.
fn change(source: &Path, random: &mut Random) -> String {
    let all = files(source);
    let path = &all[random.below(all.len() as u64) as usize];
    let what = match random.below(5) {
        0 => {
            fs::remove_file(path).unwrap();
            "gone"
        }
        1 => {
            let mut bytes = fs::read(path).unwrap();
            bytes.push(b'x');
            crate::support::write(path, &bytes);
            "longer"
        }
        2 => {
            let modified = fs::metadata(path).unwrap().modified().unwrap();
            edit(path);
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(modified).unwrap();
            "edited without a trace"
        }
        _ => {
            edit(path);
            "edited"
        }
    };
    format!("{what}: {}", path.display())
}

#[test]
fn a_repair_never_makes_anything_worse() {
    let rounds = number("SHARDPACK_REPAIRS").unwrap_or(30);
    let first = number("SHARDPACK_SEED").unwrap_or(0);
    let data = varied();
    let outputs: Vec<Output> = FORMATS
        .iter()
        .map(|flags| data.convert(&[flags, &["--shards", "2"][..]].concat()))
        .collect();
    for seed in first..first + rounds {
        let mut random = Random::new(seed * 7919 + 1);
        let output = &outputs[seed as usize % outputs.len()];
        let published = contents(&output.path);
        let (out, source) = (
            data.place(&format!("out-{seed}")),
            data.place(&format!("source-{seed}")),
        );
        copy_tree(&output.path, &out, 0);
        copy_tree(&data.source(), &source, 0);
        let mut story: Vec<String> = (0..1 + random.below(4))
            .map(|_| damage(&out, &mut random))
            .collect();
        for _ in 0..random.below(12) {
            if random.below(3) > 0 {
                story.push(change(&source, &mut random));
            }
        }
        let mut worst = 0;
        for source in [Some(&source), Some(&data.source()), None] {
            let before = contents(&out);
            let mut command = shardpack(&["repair"]);
            command.arg(&out);
            if let Some(source) = source {
                command.arg("--source").arg(source);
            }
            let said = run(&mut command);
            let after = contents(&out);
            let context = format!("seed {seed}: {story:#?}\n{}{}", said.out, said.err);
            assert!([0, 1, 3, 4].contains(&said.code), "{context}");
            for (name, bytes) in &published {
                let none = Vec::new();
                let was = before.get(name).unwrap_or(&none);
                let is = after.get(name).unwrap_or(&none);
                let intact = |at: usize| was.get(at) == Some(&bytes[at]);
                let worse =
                    (0..bytes.len()).find(|&at| intact(at) && is.get(at) != Some(&bytes[at]));
                assert_eq!(worse, None, "{name} lost what it had: {context}");
            }
            let whole = published
                .iter()
                .all(|(name, bytes)| after.get(name) == Some(bytes));
            assert_eq!(said.code == 0, whole, "{context}");
            if worst == 0 {
                worst = said.code;
            }
        }
        let _ = (fs::remove_dir_all(&out), fs::remove_dir_all(&source));
    }
}

/// A valid JPEG with about so many bytes of comments that compress well.
fn wordy(name: &str, bytes: usize) -> Vec<u8> {
    let mut picture = picture(name);
    let text: Vec<u8> = (0..bytes / 8)
        .flat_map(|i| format!("{:07} ", i % 5000 * 7).into_bytes())
        .collect();
    for part in text.chunks(60_000) {
        let mut comment = vec![0xFF, 0xFE];
        comment.extend((part.len() as u16 + 2).to_be_bytes());
        comment.extend(part);
        picture.splice(2..2, comment);
    }
    picture
}

#[test]
fn contents_of_any_size_come_out_of_a_damaged_shard_as_they_went_in() {
    const MIB: usize = 1 << 20;
    let whole: [&[&str]; 2] = [&["--compress", "zstd"], &["--compress", "gzip"]];
    let separate = [SEPARATE[0], SEPARATE[2], SEPARATE[3], SEPARATE[4]];
    for flags in separate.into_iter().chain(whole) {
        let mut data = Dataset::new();
        let sizes = [300_000, MIB, 3 * MIB, 5 * MIB, 9 * MIB];
        for (i, bytes) in sizes.into_iter().enumerate() {
            let text = wordy(&format!("{i}.npy"), bytes / 3);
            data = data
                .file(format!("cat/{i}.jpg"), wordy(&format!("{i}"), bytes))
                .file(format!("cat/{i}.npy"), text);
        }
        let output = data.convert(&[flags, &["--shards", "1"]].concat());
        let before = published(&output);
        let shard = shard(&output.path, 0);
        let bytes = fs::read(&shard).unwrap();
        // All of it comes from the source, and then as much as can be from itself.
        fs::remove_file(&shard).unwrap();
        repair(&output, Some(&data.source())).exits(0);
        assert_eq!(published(&output), before, "{flags:?}");
        fs::write(&shard, &bytes[..bytes.len() - 3]).unwrap();
        repair(&output, Some(&data.source())).exits(0);
        assert_eq!(published(&output), before, "{flags:?}");
        if !whole.contains(&flags) {
            let (shard, offset, length) = place(&output, "cat/2");
            flip(&shard, offset + length / 2);
            for i in [0, 1, 3, 4] {
                edit(&data.source().join(format!("cat/{i}.jpg")));
            }
            repair(&output, Some(&data.source())).exits(0);
            assert_eq!(published(&output), before, "{flags:?}");
        }
    }
}
