//! A published dataset as a source, and a part of a source: the shards are those that the images themselves make.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::s3::{at, shardpack_at};
use crate::support::{
    Dataset, Digests, Output, Random, Run, digests, files, flip, manifest, padded_picture, picture,
    png, run, shardpack, write,
};
use shardpack_fixtures::s3_server::{Options, Server};

/// The flags of a conversion from a dataset: another layout in between.
const BETWEEN: [&[&str]; 5] = [
    &["--format", "tfrecord", "--schema", "tfds", "--shards", "3"],
    &["--format", "parquet", "--shards", "2", "--seed", "7"],
    &["--compress", "zstd", "--order", "listed"],
    &["--compress", "zstd:1", "--zstd-seekable", "--shards", "4"],
    &["--compress", "gzip:1", "--shard-samples", "5"],
];

/// What converting `source` comes to.
fn convert(data: &Dataset, source: &Path, flags: &[&str]) -> Output {
    let path = data.fresh();
    let run = convert_to(source, &path, flags);
    run.exits(0);
    Output { path, run }
}

fn convert_to(source: &Path, destination: &Path, flags: &[&str]) -> Run {
    run(command(source, destination).args(flags))
}

fn command(source: &Path, destination: &Path) -> Command {
    let mut command = shardpack(&["convert"]);
    command.arg(source).arg(destination);
    command
}

/// Splits, sidecars, odd names and images of several kinds.
fn varied() -> Dataset {
    let paths = [
        "train/a b/x.v1.jpg",
        "train/a b/__y.JPEG",
        "train/ñandú/deep/er/1.jpg",
        "train/cat/001.jpg",
        "val/cat/001.jpg",
        "val/ñandú/9.jpeg",
    ];
    let data = Dataset::new().pictures(&paths);
    let data = data.file("train/cat/red.PNG", png(9));
    let large = format!("train/cat/{}.jpg", "long".repeat(40));
    let data = data.file(&large, padded_picture("large", 5 << 20));
    let all = files(&data.source());
    all.iter().enumerate().for_each(|(number, image)| {
        write(
            &image.with_extension("txt"),
            format!("no. {number}").as_bytes(),
        );
        write(&image.with_extension("json"), b"{\"n\": 1}");
    });
    data
}

#[test]
fn through_any_layout_and_back_the_shards_are_the_same() {
    let data = varied();
    let flags = ["--shards", "2"];
    let first = data.convert(&flags);
    for between in BETWEEN {
        let there = convert(&data, &first.path, between);
        assert_eq!(there.tars(), data.convert(between).tars(), "{between:?}");
        let back = convert(&data, &there.path, &flags);
        assert_eq!(back.tars(), first.tars(), "{between:?}");
        back.verify(&["--level", "source", "--source"]).exits(2);
        let source = there.path.to_str().unwrap();
        back.verify(&["--level", "source", "--source", source])
            .exits(0)
            .says(&["result   intact"]);
        assert_eq!(
            back.row("train/cat/001")["source_path"],
            "train/cat/001.jpg"
        );
    }
}

#[test]
fn what_is_made_from_the_class_is_made_again_and_not_taken_for_a_sidecar() {
    let data = Dataset::new().class("cat", 5).class("dog", 4);
    let first = data.convert(&["--add-json"]);
    let plain = convert(&data, &first.path, &[]);
    assert_eq!(plain.tars(), data.convert(&[]).tars());
    let again = convert(&data, &plain.path, &["--add-json"]);
    assert_eq!(again.tars(), first.tars());
    let moved = convert(
        &data,
        &first.path,
        &[
            "--add-json",
            "--resplit",
            "train=0.5,val=0.5",
            "--seed",
            "3",
        ],
    );
    let json: Value = serde_json::from_slice(&moved.member(&moved.keys()[0], "json")).unwrap();
    let first_shard = moved.shards()[0].display().to_string();
    let split = json["split"].as_str().unwrap();
    assert!(first_shard.contains(&format!("/{split}-")), "{first_shard}");
    assert_eq!(
        json["filename"].as_str().unwrap().len(),
        "cat/0000.jpg".len()
    );
}

#[test]
fn labels_tables_and_archives_leave_nothing_to_be_told_again() {
    let data = Dataset::new().pictures(&["1.jpg", "2.jpg", "3.jpg"]);
    let labels = data.place("labels.csv");
    write(&labels, b"file,class\n1.jpg,cat\n2.jpg,dog\n3.jpg,cat\n");
    let first = data.convert(&["--labels", labels.to_str().unwrap(), "--format", "parquet"]);
    let back = convert(&data, &first.path, &["--format", "parquet"]);
    assert_eq!(back.tars(), first.tars());
    assert_eq!(back.manifest()["classes"], first.manifest()["classes"]);

    let table =
        b"file_name,label,caption,year\n1.jpg,cat,one,1\n2.jpg,dog,two,2\n3.jpg,cat,three,3\n";
    let data = data.file("metadata.csv", table);
    let first = data.convert(&["--format", "parquet"]);
    let back = convert(&data, &first.path, &["--format", "parquet"]);
    assert_eq!(back.tars(), first.tars(), "columns and all");
    let tar = convert(&data, &first.path, &[]);
    assert_eq!(tar.tars(), data.convert(&[]).tars());

    let none = Dataset::new().pictures(&["x/1.jpg", "2.jpg"]);
    let first = none.convert(&["--labels", "none"]);
    let between = convert(&none, &first.path, &["--format", "tfrecord"]);
    assert_eq!(convert(&none, &between.path, &[]).tars(), first.tars());
}

#[test]
fn a_part_is_what_converting_those_images_makes_whatever_the_source() {
    let mut data = Dataset::new();
    for class in ["ant", "bee", "cat", "cow", "dog"] {
        data = data.class(class, 7);
    }
    let whole = data.convert(&["--shards", "3", "--format", "tfrecord"]);
    let small = Dataset::new()
        .class("bee", 7)
        .class("cat", 7)
        .class("cow", 7);
    let wanted = ["--class", "c*", "--class", "bee", "--relabel"];
    let expected = small.convert(&[]);
    for source in [&data.source(), &whole.path] {
        let part = convert(&data, source, &wanted);
        assert_eq!(part.tars(), expected.tars());
        assert_eq!(part.manifest()["classes"], expected.manifest()["classes"]);
        part.run.says(&["3 classes of 5"]);
        let said = part.manifest()["recipe"]["select"]["classes"].clone();
        assert_eq!(said, serde_json::json!(["c*", "bee"]));
    }
    let list = data.place("classes.txt");
    write(&list, b"bee\ncat\r\n\ncow\n");
    let list = ["--classes-file", list.to_str().unwrap(), "--relabel"];
    assert_eq!(convert(&data, &whole.path, &list).tars(), expected.tars());
    let kept = convert(&data, &whole.path, &["--class", "dog"]);
    kept.run
        .says(&["1 class of 5", "keep their numbers", "--relabel"]);
    assert_eq!(kept.row("dog/0000")["label"], 4);
    let schema = crate::manifest::schema();
    let all = [
        &[
            "--keys",
            list[1],
            "--min-side",
            "1",
            "--max-side",
            "9999",
            "--min-bytes",
            "1",
        ][..],
        &[
            "--split",
            "train",
            "--max-bytes",
            "1MB",
            "--fraction",
            "99%",
            "--per-class",
            "6",
        ],
        &[
            "--resplit",
            "a=0.5,b=0.5",
            "--stratify",
            "--relabel",
            "--class",
            "*o*",
        ],
    ];
    write(&data.place("classes.txt"), b"bee/0001\ncat/0002\n");
    for flags in all {
        let manifest = convert(&data, &whole.path, flags).manifest();
        let errors: Vec<_> = schema
            .iter_errors(&manifest)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(errors, [""; 0], "{flags:?}");
    }
    let derived = kept.manifest()["derived_from"].clone();
    assert_eq!(derived["selection"], "--class dog");
    assert_eq!(
        derived["manifest"],
        digests(&whole.path)["manifest.json"].as_str()
    );
    kept.verb("inspect", &[])
        .says(&["from      dataset", "--class dog"]);
}

/// The keys of a dataset.
fn keys(output: &Output) -> BTreeSet<String> {
    let run = output.verb("ls", &["--json"]);
    let key = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        row["key"].as_str().unwrap().to_owned()
    };
    run.exits(0).out.lines().map(key).collect()
}

#[test]
fn smaller_parts_are_in_larger_ones_and_each_is_of_every_source_the_same() {
    let data = Dataset::new().class("cat", 60).class("dog", 40);
    let whole = data.convert(&["--format", "parquet"]);
    let mut before = BTreeSet::new();
    for fraction in ["5%", "0.2", "50%", "1"] {
        let flags = ["--fraction", fraction];
        let of_files = data.convert(&flags);
        assert_eq!(convert(&data, &whole.path, &flags).tars(), of_files.tars());
        let keys = keys(&of_files);
        assert!(before.is_subset(&keys), "{fraction}");
        before = keys;
    }
    assert_eq!(before.len(), 100);
    // As the documentation says which, so that anybody can.
    let place = |key: &String| {
        let digest = Sha256::new()
            .chain_update(7u64.to_le_bytes())
            .chain_update(b"take\0");
        let digest = digest.chain_update(key).finalize();
        u64::from_be_bytes(std::array::from_fn(|i| digest[i]))
    };
    let quarter = keys(&data.convert(&["--fraction", "0.25", "--seed", "7"]));
    before.retain(|key| place(key) < 1 << 62);
    assert_eq!(quarter, before);
    let few = keys(&convert(&data, &whole.path, &["--per-class", "5"]));
    let more = data.convert(&["--per-class", "50"]);
    more.run.says(&["1 class with fewer, `dog` has 40"]);
    assert!(few.is_subset(&keys(&more)));
    assert_eq!((few.len(), keys(&more).len()), (10, 90));
    let other = keys(&data.convert(&["--per-class", "5", "--seed", "1"]));
    assert_ne!(few, other);
}

#[test]
fn splits_are_taken_divided_anew_and_balanced() {
    let data = Dataset::new();
    let paths: Vec<String> = (0..200)
        .map(|i| {
            format!(
                "{}/{}/{i}.jpg",
                ["train", "val"][i % 2],
                ["a", "b"][i / 100]
            )
        })
        .collect();
    let data = data.pictures(&paths);
    let whole = data.convert(&[]);
    let samples = |output: &Output| -> BTreeMap<String, u64> {
        let manifest = output.manifest();
        let splits = manifest["splits"].as_array().unwrap().iter();
        let split = |split: &Value| {
            let name = split["name"].as_str().unwrap().to_owned();
            (name, split["samples"].as_u64().unwrap())
        };
        splits.map(split).collect()
    };
    let of = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
        pairs
            .iter()
            .map(|(name, n)| ((*name).to_owned(), *n))
            .collect()
    };
    for source in [&data.source(), &whole.path] {
        let val = convert(&data, source, &["--split", "val"]);
        assert_eq!(samples(&val), of(&[("val", 100)]));
        assert!(
            val.tars()
                .iter()
                .all(|(name, digest)| whole.tars()[name] == *digest)
        );
        let even = ["--resplit", "x=0.7,a=0.1,m=20%", "--stratify"];
        let even = convert(&data, source, &even);
        assert_eq!(samples(&even), of(&[("a", 20), ("m", 40), ("x", 140)]));
        let any = convert(&data, source, &["--resplit", "train=0.9,val=0.1"]);
        let any = samples(&any);
        assert_eq!(any.values().sum::<u64>(), 200);
        assert!((160..=199).contains(&any["train"]), "{any:?}");
    }
}

#[test]
fn sizes_come_from_the_index_or_from_the_headers_of_the_images() {
    let sized = |width: u32, height: u32| {
        let mut ppm = format!("P6 {width} {height} 255\n").into_bytes();
        ppm.resize(ppm.len() + (width * height * 3) as usize, 7);
        ppm
    };
    let data = Dataset::new()
        .file("c/wide.ppm", sized(40, 10))
        .file("c/even.ppm", sized(20, 20))
        .file("c/tiny.ppm", sized(4, 4));
    let whole = data.convert(&[]);
    // An index that says no sizes.
    let silent = data.convert(&["--validate", "none"]);
    for source in [&data.source(), &whole.path, &silent.path] {
        for (flags, expected) in [
            (&["--min-side", "10"][..], &["c/even", "c/wide"][..]),
            (&["--max-side", "20"], &["c/even", "c/tiny"]),
            (&["--min-side", "5", "--max-side", "39"], &["c/even"]),
            (&["--min-bytes", "100"], &["c/even", "c/wide"]),
            (&["--max-bytes", "1200"], &["c/tiny"]),
        ] {
            let part = keys(&convert(&data, source, flags));
            let expected: BTreeSet<String> = expected.iter().map(|k| (*k).to_owned()).collect();
            assert_eq!(part, expected, "{flags:?} of {}", source.display());
        }
    }
}

#[test]
fn keys_come_from_lines_and_tables_and_those_that_are_not_there_are_all_named() {
    let data = Dataset::new().class("cat", 4).class("dog", 4);
    let whole = data.convert(&["--format", "tfrecord"]);
    let lines = data.place("keys.txt");
    write(&lines, b"cat/0001\ndog/0003\n");
    let table = data.place("keys.csv");
    write(&table, b"width,key\n1,dog/0003\n2,cat/0001\n3,cat/0001\n");
    let (_kept, expected) = Dataset::new()
        .pictures(&["cat/0001.jpg", "dog/0003.jpg"])
        .convert_kept(&[]);
    for file in [&lines, &table] {
        let part = convert(&data, &whole.path, &["--keys", file.to_str().unwrap()]);
        assert_eq!(part.tars(), expected.tars());
        let source = [
            "--level",
            "source",
            "--source",
            whole.path.to_str().unwrap(),
        ];
        part.verify(&source)
            .exits(0)
            .says(&["chosen by the file of `--keys`"]);
        let again = convert_to(
            &whole.path,
            &part.path,
            &["--keys", lines.to_str().unwrap()],
        );
        again.exits(0).says(&["up to date"]);
        part.verb("compact", &["--source", whole.path.to_str().unwrap()])
            .exits(2)
            .says(&["--keys FILE"]);
    }
    // The index is such a table: all of a shard's keys.
    let index = files(&whole.path.join("index"))[0].clone();
    let all = convert(&data, &data.source(), &["--keys", index.to_str().unwrap()]);
    assert_eq!(all.tars(), data.convert(&[]).tars());
    let index = index.to_str().unwrap();
    for (content, words) in [
        (
            "cat/0001\ncow/1\ncow/2\n",
            &["2 of 3 keys", "cow/1", "cow/2"][..],
        ),
        ("\n", &["no keys"]),
    ] {
        write(&lines, content.as_bytes());
        data.refuses(&["--keys", lines.to_str().unwrap()], 3, words);
    }
    assert!(Path::new(index).exists());
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_is_there() {
    let data = Dataset::new().class("cat", 3).class("dog", 3);
    for (flags, code, words) in [
        (
            &["--class", "cow", "--class", "cat"][..],
            3,
            &["cow", "cat", "dog"][..],
        ),
        (&["--class", "x*"], 3, &["x*"]),
        (&["--split", "val"], 3, &["no split", "val", "train"]),
        (&["--min-bytes", "1GB"], 3, &["leaves none of 6 samples"]),
        (&["--fraction", "0"], 2, &["--fraction `0`"]),
        (&["--fraction", "110%"], 2, &["--fraction `110%`"]),
        (&["--per-class", "0"], 2, &["at least 1"]),
        (
            &["--min-side", "9", "--max-side", "8"],
            2,
            &["no image is both"],
        ),
        (&["--resplit", "train=0.5,val=0.4"], 2, &["come to 0.9"]),
        (&["--resplit", "train=0.5,train=0.5"], 2, &["given twice"]),
        (&["--resplit", "tr/ain=1"], 2, &["letters, digits"]),
        (&["--stratify"], 2, &["--resplit"]),
        (&["--keys", "/nowhere/keys.txt"], 3, &["/nowhere/keys.txt"]),
        (&["--layout", "dataset"], 3, &["no manifest.json"]),
    ] {
        data.refuses(flags, code, words);
    }
    let whole = data.convert(&[]);
    let same = convert_to(&whole.path, &whole.path, &["--class", "cat"]);
    same.exits(2).says(&["lies in the source"]);
    let labels = data.place("labels.csv");
    write(&labels, b"file,class\n0000.jpg,cat\n");
    let flags = ["--labels", labels.to_str().unwrap()];
    convert_to(&whole.path, &data.fresh(), &flags)
        .exits(2)
        .says(&["published dataset"]);
    let placed = ["--split", "x=cat"];
    convert_to(&whole.path, &data.fresh(), &placed)
        .exits(2)
        .says(&["published dataset"]);
    let part = convert(&data, &whole.path, &["--class", "cat"]);
    convert_to(&whole.path, &part.path, &["--class", "dog"])
        .exits(10)
        .says(&["--class: was cat, now dog"]);
    // Another's manifest makes no dataset of a directory.
    let theirs = Dataset::new().class("cat", 2).file("manifest.json", "[]");
    theirs.convert(&[]).run.says(&["ImageFolder"]);
}

/// Flips a byte of a picture in a tar.
fn damage(dataset: &Output, key: &str) -> String {
    let row = dataset.row(key);
    let shard = row["shard"].as_str().unwrap().to_owned();
    let mut fields = row["fields"].as_array().unwrap().iter();
    let jpg = fields.find(|field| field["name"] == "jpg").unwrap();
    let offset = jpg["offset"].as_u64().unwrap() + 40;
    flip(&dataset.path.join(&shard), offset);
    shard
}

#[test]
fn damage_of_the_source_is_named_and_never_passed_on() {
    let data = Dataset::new().class("cat", 6).class("dog", 6);
    let data = data.file("cat/large.jpg", padded_picture("large", 9 << 20));
    for key in ["dog/0003", "cat/large"] {
        let whole = data.convert(&["--shards", "2"]);
        let shard = damage(&whole, key);
        let path = data.fresh();
        for flags in [&[][..], &["--on-error", "skip"]] {
            let failed = convert_to(&whole.path, &path, flags);
            failed
                .exits(4)
                .says(&[&shard, &format!("{key}.jpg"), "crc32"]);
            assert!(!path.join("manifest.json").exists());
        }
        // What does not want it is not stopped by it.
        let class = if key == "cat/large" { "dog" } else { "cat" };
        convert(&data, &whole.path, &["--class", class]);
    }
    let whole = data.convert(&[]);
    let index = &files(&whole.path.join("index"))[0];
    flip(index, 100);
    convert_to(&whole.path, &data.fresh(), &[])
        .exits(4)
        .says(&["index/train-00000.parquet", "crc32"]);
    fs::remove_file(&whole.shards()[0]).unwrap();
    convert_to(&whole.path, &data.fresh(), &[])
        .exits(4)
        .says(&["data/train-00000.tar: missing"]);
}

#[test]
fn a_source_that_changes_underneath_is_an_error_and_no_other_shard() {
    let data = Dataset::new().class("cat", 6).class("dog", 6);
    let whole = data.convert(&["--shards", "2"]);
    let path = data.fresh();
    let plan = run(shardpack(&["plan"]).arg(&whole.path).arg(&path));
    plan.exits(0);
    let shard = &whole.shards()[0];
    let pack = || run(shardpack(&["pack"]).arg(&path));
    let bytes = fs::read(shard).unwrap();
    fs::remove_file(shard).unwrap();
    pack().exits(3).says(&["data/train-00000.tar"]);
    // The same content at another time is another state.
    write(shard, &bytes);
    crate::support::set_modified(shard, 1_400_000_000);
    pack().exits(3).says(&["data/train-00000.tar", "changed"]);
    assert!(!path.join("manifest.json").exists());
}

#[test]
fn a_dataset_grows_with_the_dataset_that_it_is_made_from() {
    let data = Dataset::new().class("cat", 20).class("dog", 20);
    let whole = data.convert(&["--shards", "2"]);
    let flags = [
        "--class",
        "cat",
        "--shard-samples",
        "10",
        "--format",
        "tfrecord",
    ];
    let part = convert(&data, &whole.path, &flags);
    let before = part.tars();
    convert_to(&whole.path, &part.path, &flags)
        .exits(0)
        .says(&["up to date"]);
    let data = data
        .class("ant", 3)
        .pictures(&["cat/new1.jpg", "cat/new2.jpg"]);
    data.convert_to(&whole.path, &["--shards", "2"]).exits(0);
    convert_to(&whole.path, &part.path, &flags)
        .exits(0)
        .says(&["22 samples"]);
    let after = part.tars();
    assert!(before.iter().all(|(name, digest)| after[name] == *digest));
    assert_eq!(after.len(), before.len() + 1);
    let new: BTreeSet<String> = keys(&part)
        .into_iter()
        .filter(|k| k.contains("new"))
        .collect();
    assert_eq!(new.len(), 2);
    part.verify(&[
        "--level",
        "source",
        "--source",
        whole.path.to_str().unwrap(),
    ])
    .exits(0);
}

#[test]
fn lost_shards_are_made_again_from_the_dataset() {
    let data = Dataset::new().class("cat", 12).class("dog", 12);
    let whole = data.convert(&["--format", "tfrecord"]);
    let flags = ["--shards", "3", "--relabel", "--class", "dog"];
    let part = convert(&data, &whole.path, &flags);
    let before = part.digests();
    for lost in [&part.shards()[1], &files(&part.path.join("index"))[0]] {
        fs::remove_file(lost).unwrap();
    }
    let source = ["--source", whole.path.to_str().unwrap()];
    part.verb("repair", &source).exits(0);
    let published = |mut digests: Digests| {
        digests.retain(|name, _| !name.starts_with("_shardpack/plan"));
        digests
    };
    assert_eq!(published(part.digests()), published(before));
}

#[test]
fn shards_of_others_are_a_source_once_they_are_indexed() {
    let data = Dataset::new().class("cat", 5).class("dog", 5);
    let ours = data.convert(&[]);
    let place = |name: &str, shards: Vec<PathBuf>| {
        let theirs = data.fresh();
        fs::create_dir(&theirs).unwrap();
        shards.iter().enumerate().for_each(|(number, shard)| {
            fs::copy(shard, theirs.join(format!("x-{number:05}.{name}"))).unwrap();
        });
        run(shardpack(&["index"]).arg(&theirs)).exits(0);
        theirs
    };
    let tars = place("tar", ours.shards());
    let again = convert(&data, &tars, &[]);
    let contents = |output: &Output| -> BTreeSet<Vec<u8>> {
        let members = output
            .shards()
            .iter()
            .flat_map(|s| crate::support::members(s))
            .collect::<Vec<_>>();
        members
            .into_iter()
            .map(|member| {
                [
                    member.key.as_bytes(),
                    member.field.as_bytes(),
                    &member.content,
                ]
                .concat()
            })
            .collect()
    };
    assert_eq!(contents(&again), contents(&ours));
    let records = data.convert(&["--format", "tfrecord", "--schema", "tfds"]);
    let records = place("tfrecord", records.shards());
    let again = convert(&data, &records, &[]);
    let pictures: BTreeSet<Vec<u8>> = (0..5)
        .flat_map(|i| ["cat", "dog"].map(|class| picture(&format!("{class}/{i:04}.jpg"))))
        .collect();
    let members = again
        .shards()
        .iter()
        .flat_map(|s| crate::support::members(s))
        .collect::<Vec<_>>();
    let theirs: BTreeSet<Vec<u8>> = members
        .iter()
        .filter(|m| m.field == "jpg")
        .map(|m| m.content.clone())
        .collect();
    assert_eq!(theirs, pictures);
    assert_eq!(members.iter().filter(|m| m.field == "cls").count(), 10);
}

/// The tars and the manifest of a prefix.
fn shards_in(server: &Server, prefix: &str) -> BTreeMap<String, Bytes> {
    server.objects(&format!("{prefix}/data/"))
}

/// Bytes that were sent of objects below a prefix.
fn sent(server: &Server, prefix: &str) -> u64 {
    let requests = server.requests();
    let gets = requests
        .iter()
        .filter(|r| r.operation == "GetObject" && r.key.starts_with(prefix) && r.status < 300);
    let bytes = |request: &shardpack_fixtures::s3_server::Request| {
        let Some(range) = request.headers.get("range") else {
            return server
                .get(&request.key)
                .map_or(0, |object| object.len() as u64);
        };
        let (begin, end) = range.trim_start_matches("bytes=").split_once('-').unwrap();
        end.parse::<u64>().unwrap() - begin.parse::<u64>().unwrap() + 1
    };
    gets.map(bytes).sum()
}

#[test]
fn in_a_bucket_only_what_is_wanted_is_read_by_workers_that_are_killed() {
    let mut data = Dataset::new();
    for class in 0..40 {
        for number in 0..3 {
            let name = format!("c{class:02}/{number}.jpg");
            let picture = padded_picture(&name, 40 << 10);
            data = data.file(name, picture);
        }
    }
    let server = Server::with(Options {
        latency: Duration::from_millis(100),
        ..Options::default()
    });
    let whole = data.convert(&["--shards", "4"]);
    crate::s3::upload(&server, &whole.path, "whole");
    let wanted = ["--class", "c1?", "--relabel", "--shards", "4"];
    let filtered = data.convert(&[&["--include", "c1?/**"], &wanted[3..]].concat());
    let plan = [
        &["plan", "s3://bucket/whole", "s3://bucket/part"],
        &wanted[..],
    ]
    .concat();
    shardpack_at(&server, &plan).exits(0);
    // One is killed as it reads, before anything of it is there.
    let mut killed = at(&server, &["pack", "s3://bucket/part", "--worker", "0/4"])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    killed.kill().unwrap();
    killed.wait().unwrap();
    server.clear_requests();
    for worker in ["0/4", "1/4", "2/4", "3/4"] {
        shardpack_at(&server, &["pack", "s3://bucket/part", "--worker", worker]).exits(0);
    }
    let read = sent(&server, "whole/data/");
    shardpack_at(&server, &["publish", "s3://bucket/part"]).exits(0);
    let tars = |output: &Output| -> BTreeMap<String, Bytes> {
        let shards = output.shards();
        let read = |path: &PathBuf| {
            let name = format!("{}", path.file_name().unwrap().display());
            (name, Bytes::from(fs::read(path).unwrap()))
        };
        shards.iter().map(read).collect()
    };
    assert_eq!(shards_in(&server, "part"), tars(&filtered));
    let images: u64 = files(&data.source())
        .iter()
        .filter(|path| path.display().to_string().contains("/c1"))
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    assert!(
        read >= images && read <= images * 11 / 10,
        "{read} bytes for {images}"
    );
    // From bucket to bucket through other layouts, and back.
    server.set_latency(Duration::ZERO);
    for format in ["tfrecord", "parquet"] {
        let there = format!("s3://bucket/{format}");
        shardpack_at(
            &server,
            &["convert", "s3://bucket/whole", &there, "--format", format],
        )
        .exits(0);
        let back = format!("s3://bucket/from-{format}");
        shardpack_at(&server, &["convert", &there, &back, "--shards", "4"]).exits(0);
        assert_eq!(shards_in(&server, &format!("from-{format}")), tars(&whole));
    }
}

#[test]
fn in_the_order_of_the_source_neighbours_are_read_together() {
    let mut data = Dataset::new();
    for number in 0..60 {
        let name = format!("c/{number:02}.jpg");
        data = data.file(&name, padded_picture(&name, 30 << 10));
    }
    let server = Server::start();
    let flags = ["--order", "listed", "--shards", "2"];
    let whole = data.convert(&flags);
    crate::s3::upload(&server, &whole.path, "whole");
    let args = [
        &["convert", "s3://bucket/whole", "s3://bucket/out"],
        &flags[..],
    ]
    .concat();
    shardpack_at(&server, &args).exits(0);
    let requests = server.requests();
    let gets = requests
        .iter()
        .filter(|r| r.operation == "GetObject" && r.key.starts_with("whole/data/"));
    let gets = gets.count();
    assert!(gets < 30, "{gets} requests for 60 samples");
    let written = manifest(&whole.path);
    let bytes = server.get("out/manifest.json").unwrap();
    let theirs: Value = serde_json::from_slice(&bytes).unwrap();
    let crcs = |manifest: &Value| {
        manifest["splits"][0]["shards"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["crc32"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(crcs(&theirs), crcs(&written));
}

#[test]
fn shards_that_are_packed_and_too_large_to_hold_are_unpacked_forwards() {
    // Pictures of 1 MB each that are black but for their beginning: 140 MB that pack to little.
    let mut data = Dataset::new();
    for number in 0..140u32 {
        let mut ppm = format!("P6 {} 600 255\n", 600 + number).into_bytes();
        let end = ppm.len() + ((600 + number) * 600 * 3) as usize;
        let mut random = Random::new(u64::from(number));
        ppm.extend((0..9000).map(|_| (random.next() >> 40) as u8));
        ppm.resize(end, 0);
        data = data.file(format!("c/{number:03}.ppm"), ppm);
    }
    let expected = data.convert(&["--shards", "1"]);
    let packed = ["gzip:1", "zstd:1"].map(|compress| {
        let whole = data.convert(&["--shards", "1", "--compress", compress]);
        let back = convert(&data, &whole.path, &["--shards", "1"]);
        assert_eq!(back.tars(), expected.tars(), "{compress}");
        whole
    });
    let whole = &packed[1];
    // Far into it, where only who reads on finds out; in more than a header, which nobody takes anything from.
    let shard = &whole.shards()[0];
    let bytes = fs::metadata(shard).unwrap().len();
    for offset in (bytes * 3 / 4..bytes).step_by(501) {
        flip(shard, offset);
    }
    convert_to(&whole.path, &data.fresh(), &[])
        .exits(4)
        .says(&["data/train-00000.tar.zst"]);
}
