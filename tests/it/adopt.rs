//! Shards that somebody else made, as ShardWriter, GNU tar, img2dataset, TFDS and people leave them, and what readers find of them.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{Dataset, Output, Run, files, picture, run, shardpack, write};

/// A directory that holds the files of others.
fn place(data: &Dataset) -> Output {
    let path = data.fresh();
    fs::create_dir(&path).unwrap();
    let run = run(&mut shardpack(&["--version"]));
    Output { path, run }
}

/// A tar of these members as Python's and GNU's tools leave it, padded to 20 blocks.
fn padded_tar(path: &Path, members: &[(&str, &[u8])]) {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *content).unwrap();
    }
    let mut tar = builder.into_inner().unwrap();
    tar.resize(tar.len().next_multiple_of(10_240), 0);
    write(path, &tar);
}

/// Two pictures with another field each, under keys that begin so.
fn pair(path: &Path, keys: &str, field: &str, contents: [&str; 2]) {
    let jpg = picture(keys);
    let name = |number: usize, field: &str| format!("{keys}{number}.{field}");
    let names: Vec<_> = (0..2)
        .flat_map(|number| [name(number, "jpg"), name(number, field)])
        .collect();
    let content = |at: usize| match at % 2 {
        0 => jpg.as_slice(),
        _ => contents[at / 2].as_bytes(),
    };
    let members: Vec<(&str, &[u8])> = names
        .iter()
        .enumerate()
        .map(|(at, name)| (name.as_str(), content(at)))
        .collect();
    padded_tar(path, &members);
}

fn told(output: &Output, name: &str) -> Value {
    serde_json::from_slice(&fs::read(output.path.join(name)).unwrap()).unwrap()
}

fn labels(output: &Output, keys: &[&str]) -> Vec<Value> {
    let label = |key: &&str| output.row(key)["label"].clone();
    keys.iter().map(label).collect()
}

fn index(output: &Output, indexes: &str) -> Run {
    match indexes {
        "" => output.verb("index", &[]),
        indexes => output.verb("index", &["--index", indexes]),
    }
}

/// The TFRecord files of a small dataset.
fn tfrecords(data: &Dataset, shards: usize) -> Vec<Vec<u8>> {
    let shards = shards.to_string();
    let flags = ["--format", "tfrecord", "--schema", "tfds", "--shards"];
    let ours = data.convert(&[&flags[..], &[&shards]].concat());
    let read = |path| fs::read(path).unwrap();
    ours.shards().iter().map(read).collect()
}

#[test]
fn energons_offsets_of_a_padded_tar_end_with_its_last_sample() {
    let data = Dataset::new();
    let theirs = place(&data);
    let shard = theirs.path.join("00000.tar");
    pair(&shard, "x", "txt", ["a cat", "a dog"]);
    index(&theirs, "energon").exits(0);
    let bytes = fs::read(theirs.path.join("00000.tar.idx")).unwrap();
    let offsets: Vec<u64> = bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let padded = |bytes: usize| 512 + bytes.next_multiple_of(512) as u64;
    let sample = padded(picture("x").len()) + padded(5);
    assert_eq!(offsets, [0, sample, 2 * sample]);
    assert!(2 * sample + 1024 < fs::metadata(&shard).unwrap().len());
    let sample_type = fs::read_to_string(theirs.path.join(".nv-meta/dataset.yaml")).unwrap();
    assert!(sample_type.contains("CaptioningSample"), "{sample_type}");
    assert!(!sample_type.contains("cls"), "{sample_type}");
    theirs.verify(&[]).exits(0);
}

#[test]
fn shards_of_one_name_in_two_directories_are_told_apart_by_every_reader() {
    let data = Dataset::new();
    let theirs = place(&data);
    for (split, count) in [("train", 2), ("val", 1)] {
        let jpg = picture(split);
        let names = [format!("{split}0.jpg"), format!("{split}1.jpg")];
        let members: Vec<(&str, &[u8])> = names[..count]
            .iter()
            .map(|name| (name.as_str(), jpg.as_slice()))
            .collect();
        padded_tar(&theirs.path.join(split).join("00000.tar"), &members);
    }
    index(&theirs, "openclip,timm,wids,dali").exits(0);
    assert_eq!(told(&theirs, "train/sizes.json"), json!({"00000.tar": 2}));
    assert_eq!(told(&theirs, "val/sizes.json"), json!({"00000.tar": 1}));
    let info = told(&theirs, "_info.json");
    let names = |split: &str| info["splits"][split]["filenames"].clone();
    assert_eq!(names("train"), json!(["train/00000.tar"]));
    assert_eq!(names("val"), json!(["val/00000.tar"]));
    assert_eq!(
        told(&theirs, "wids-val.json")["shardlist"][0]["url"],
        "val/00000.tar"
    );
    theirs.verify(&[]).exits(0);
}

#[test]
fn records_named_as_tensorflow_does_have_an_index_and_keys_of_their_own() {
    let data = Dataset::new().class("cat", 8);
    let theirs = place(&data);
    for (number, shard) in tfrecords(&data, 2).iter().enumerate() {
        let name = format!("pets.tfrecord-{number:05}-of-00002");
        write(&theirs.path.join(name), shard);
    }
    index(&theirs, "dali,tfrecord").exits(0);
    for end in ["idx", "tfindex"] {
        let index = |n| {
            fs::read(
                theirs
                    .path
                    .join(format!("pets.tfrecord-{n:05}-of-00002.{end}")),
            )
        };
        assert_ne!(index(0).unwrap(), index(1).unwrap());
    }
    theirs.row("pets-00000-of-00002/00000000");
    theirs.row("pets-00001-of-00002/00000000");
    theirs.verify(&[]).exits(0).says(&["result   intact"]);
    // An index that is gone comes back as it was.
    let lost = &files(&theirs.path.join("index"))[1];
    let before = fs::read(lost).unwrap();
    fs::remove_file(lost).unwrap();
    theirs.verb("repair", &[]).exits(0);
    assert_eq!(fs::read(lost).unwrap(), before);
}

#[test]
fn records_of_one_name_in_two_directories_have_keys_of_their_own() {
    let data = Dataset::new().class("cat", 8);
    let theirs = place(&data);
    for (dir, shard) in ["a", "b"].iter().zip(tfrecords(&data, 2)) {
        write(&theirs.path.join(dir).join("x.tfrecord"), &shard);
    }
    index(&theirs, "").exits(0);
    theirs.row("a/x/00000000");
    theirs.row("b/x/00000000");
    theirs.verify(&[]).exits(0);
}

#[test]
fn a_key_in_two_shards_is_named_with_both_and_there_is_no_manifest() {
    let data = Dataset::new();
    let theirs = place(&data);
    pair(&theirs.path.join("a.tar"), "x", "cls", ["0", "1"]);
    pair(&theirs.path.join("b.tar"), "y", "cls", ["0", "1"]);
    pair(&theirs.path.join("c.tar"), "x", "cls", ["0", "1"]);
    index(&theirs, "energon-sqlite")
        .exits(3)
        .says(&["`x0`: a.tar and c.tar", "`x1`: a.tar and c.tar"]);
    assert!(!theirs.path.join("manifest.json").exists());
    fs::remove_file(theirs.path.join("c.tar")).unwrap();
    index(&theirs, "energon-sqlite").exits(0);
}

#[test]
fn names_in_cls_become_classes_that_all_shards_number_alike() {
    let data = Dataset::new();
    let theirs = place(&data);
    pair(&theirs.path.join("a.tar"), "a", "cls", ["emu", "dog\n"]);
    pair(&theirs.path.join("b.tar"), "b", "cls", ["cat", "emu"]);
    index(&theirs, "energon").exits(0).says(&["3 classes"]);
    assert_eq!(theirs.manifest()["classes"], json!(["cat", "dog", "emu"]));
    assert_eq!(labels(&theirs, &["a0", "a1", "b0", "b1"]), [2, 1, 0, 2]);
    assert_eq!(theirs.row("a0")["class"], "emu");
    // energon takes `cls` for a number.
    let sample_type = fs::read_to_string(theirs.path.join(".nv-meta/dataset.yaml")).unwrap();
    assert!(!sample_type.contains("cls"), "{sample_type}");
    theirs.verify(&[]).exits(0);
    for lost in files(&theirs.path.join("index")) {
        let before = fs::read(&lost).unwrap();
        fs::remove_file(&lost).unwrap();
        theirs.verb("repair", &[]).exits(0);
        assert_eq!(fs::read(&lost).unwrap(), before);
    }
}

#[test]
fn labels_that_are_numbers_here_and_names_there_are_refused() {
    let data = Dataset::new();
    let theirs = place(&data);
    pair(&theirs.path.join("a.tar"), "a", "cls", ["3", "0"]);
    pair(&theirs.path.join("b.tar"), "b", "cls", ["cat", "dog"]);
    index(&theirs, "")
        .exits(3)
        .says(&["`a0` in a.tar", "`b0` in b.tar"]);
    assert!(!theirs.path.join("manifest.json").exists());
}

#[test]
fn samples_without_a_label_are_counted_aloud() {
    let data = Dataset::new();
    let theirs = place(&data);
    pair(&theirs.path.join("a.tar"), "a", "cls", ["3", "-1"]);
    index(&theirs, "")
        .exits(0)
        .says(&["1 of 2 samples have no label"]);
    assert_eq!(labels(&theirs, &["a0", "a1"]), [3, -1]);
}

#[test]
fn classes_are_called_as_the_list_beside_the_records_says() {
    let data = Dataset::new().class("cat", 3).class("dog", 3);
    let theirs = place(&data);
    write(
        &theirs.path.join("pets/1.0.0/x.tfrecord"),
        &tfrecords(&data, 1)[0],
    );
    let list = theirs.path.join("pets/1.0.0/label.labels.txt");
    write(&list, b"tomcat\n");
    index(&theirs, "")
        .exits(3)
        .says(&["label.labels.txt", "label 0"]);
    write(&list, b"tomcat\nhound\nunused\n");
    index(&theirs, "").exits(0).says(&["label.labels.txt"]);
    assert_eq!(
        theirs.manifest()["classes"],
        json!(["tomcat", "hound", "unused"])
    );
    let row = theirs.row("x/00000000");
    let class = ["tomcat", "hound"][row["label"].as_u64().unwrap() as usize];
    assert_eq!(row["class"], class);
    let lost = &files(&theirs.path.join("index"))[0];
    let before = fs::read(lost).unwrap();
    fs::remove_file(lost).unwrap();
    theirs.verb("repair", &[]).exits(0);
    assert_eq!(fs::read(lost).unwrap(), before);
}

#[test]
fn records_are_found_under_every_name_they_go_by_and_packed_ones_are_read() {
    let data = Dataset::new().class("cat", 6);
    let shards = tfrecords(&data, 2);
    for name in ["x.tfrec", "x.record", "x.tfrecords", "x-00000-of-00001"] {
        let theirs = place(&data);
        write(&theirs.path.join(name), &shards[0]);
        theirs.verify(&[]).exits(0).says(&["1 shard, 3 samples"]);
        index(&theirs, "").exits(0);
        theirs.verify(&[]).exits(0);
    }
    for name in ["x.tfrecord", "x.tfrecords.gz", "x-00000-of-00001.gz"] {
        let theirs = place(&data);
        // Two members, as parallel packers write.
        let mut packed = Vec::new();
        for shard in &shards {
            let mut member = GzEncoder::new(Vec::new(), Compression::fast());
            member.write_all(shard).unwrap();
            packed.extend(member.finish().unwrap());
        }
        write(&theirs.path.join(name), &packed);
        theirs.verify(&[]).exits(0).says(&["1 shard, 6 samples"]);
        index(&theirs, "").exits(0);
        theirs.verify(&[]).exits(0).says(&["result   intact"]);
    }
}

#[test]
fn a_file_of_another_format_is_called_by_its_name_and_not_damaged() {
    let data = Dataset::new().class("cat", 2);
    let theirs = place(&data);
    // What array_record 0.8 writes first into every file.
    let mut riegeli = vec![0; 65_536];
    riegeli[..8].copy_from_slice(&[0x83, 0xAF, 0x70, 0xD1, 0x0D, 0x88, 0x4A, 0x3F]);
    write(&theirs.path.join("x.array_record-00000-of-00001"), &riegeli);
    for verb in ["index", "verify"] {
        theirs.verb(verb, &[]).exits(3).says(&["ArrayRecord"]);
    }
}

#[test]
fn members_that_readers_skip_are_no_samples() {
    let data = Dataset::new();
    let theirs = place(&data);
    let jpg = picture("x");
    let members: [(&str, &[u8]); 2] = [("__meta__/notes.txt", b"by hand"), ("a.jpg", &jpg)];
    padded_tar(&theirs.path.join("x.tar"), &members);
    index(&theirs, "")
        .exits(0)
        .says(&["indexed 1 sample", "__…__"]);
    theirs.verify(&[]).exits(0);
}

#[test]
fn a_tar_of_gnu_is_noted_only_where_wids_cannot_read_it() {
    let data = Dataset::new();
    let theirs = place(&data);
    let jpg = picture("x");
    let tar = theirs.path.join("x.tar");
    padded_tar(&tar, &[("a.jpg", &jpg)]);
    let quiet = theirs.verify(&[]);
    quiet.exits(0);
    assert!(!quiet.out.contains("wids"), "{}", quiet.out);
    let long = format!("{}.jpg", "n".repeat(120));
    padded_tar(&tar, &[(&long, &jpg)]);
    theirs.verify(&[]).exits(0).says(&["wids cannot read it"]);
}

#[test]
fn the_card_of_every_format_names_the_shards_for_huggingface() {
    let data = Dataset::new().class("cat", 4);
    for (flags, name) in [
        (&["--format", "tfrecord"][..], "data/train-*.tfrecord\n"),
        (&["--compress", "zstd"], "data/train-*.tar.zst\n"),
        (&["--format", "parquet"], "data/train-*.parquet\n"),
        (&[], "data/train-*.tar\n"),
    ] {
        let output = data.convert(flags);
        let card = fs::read_to_string(output.path.join("README.md")).unwrap();
        let (head, _) = card[4..].split_once("---\n").unwrap();
        assert!(head.contains(name), "{head}");
        assert!(!head.contains("index/"), "{head}");
    }
    let theirs = place(&data);
    write(&theirs.path.join("x.tfrec"), &tfrecords(&data, 1)[0]);
    index(&theirs, "").exits(0);
    let card = fs::read_to_string(theirs.path.join("README.md")).unwrap();
    assert!(
        card.starts_with("---\nconfigs:") && card.contains("- x.tfrec\n"),
        "{card}"
    );
}

#[test]
fn reader_files_of_somebody_else_are_named_and_stay_unless_they_are_to_be_replaced() {
    let data = Dataset::new();
    let theirs = place(&data);
    pair(&theirs.path.join("a.tar"), "a", "cls", ["0", "1"]);
    let by_hand = theirs.path.join(".nv-meta/dataset.yaml");
    write(&by_hand, b"# mine\n");
    write(&theirs.path.join("_info.json"), b"{}");
    write(&theirs.path.join("a.tar.idx"), b"mine");
    let before = theirs.digests();
    index(&theirs, "energon,timm").exits(2).says(&[
        ".nv-meta/dataset.yaml",
        "_info.json",
        "a.tar.idx",
        "--replace",
    ]);
    assert_eq!(theirs.digests(), before);
    // So it is for a dataset that has a manifest by now.
    index(&theirs, "").exits(0);
    index(&theirs, "timm").exits(2).says(&["_info.json"]);
    index(&theirs, "wids").exits(0);
    theirs
        .verb("index", &["--index", "energon,timm", "--replace"])
        .exits(0);
    assert!(fs::read_to_string(&by_hand).unwrap().contains("energon"));
    theirs.verify(&[]).exits(0);
    // What is ours is written again without a word.
    index(&theirs, "energon,timm").exits(0);
}

#[test]
fn an_index_of_the_shards_is_not_written_over_a_table_of_somebody_else() {
    let data = Dataset::new();
    let theirs = place(&data);
    pair(&theirs.path.join("a.tar"), "a", "cls", ["0", "1"]);
    let table = theirs.path.join("index/a.parquet");
    write(&table, b"PAR1 mine PAR1");
    index(&theirs, "")
        .exits(2)
        .says(&["index/a.parquet", "--replace"]);
    assert_eq!(fs::read(&table).unwrap(), b"PAR1 mine PAR1");
    theirs.verb("index", &["--replace"]).exits(0);
    theirs.verify(&[]).exits(0);
}

#[test]
fn what_a_killed_run_left_of_an_index_is_in_nobodys_way() {
    let data = Dataset::new().class("cat", 4);
    let whole = data.convert(&["--index", "dali"]);
    let killed = data.convert(&[]);
    let name = "data/train-00000.idx";
    fs::copy(whole.path.join(name), killed.path.join(name)).unwrap();
    index(&killed, "dali").exits(0);
    assert_eq!(killed.manifest()["indexes"], whole.manifest()["indexes"]);
}

#[test]
fn a_conversion_writes_over_no_reader_file_of_somebody_else() {
    let data = Dataset::new().class("cat", 4);
    let there = data.fresh();
    write(&there.join("data/_info.json"), b"{}");
    let flags = ["--index", "timm,dali"];
    data.convert_to(&there, &flags)
        .exits(2)
        .says(&["data/_info.json"]);
    assert_eq!(files(&there).len(), 1, "something was written");

    // A dataset that grows has shards, and files beside them, that it had not before.
    let grows = data.convert(&flags);
    let theirs = grows.path.join("data/train-00001.idx");
    write(&theirs, b"mine");
    let more = data.pictures(&["cat/more.jpg"]);
    let grow = |flags: &[&str]| {
        let flags = [&["--index", "timm,dali"], flags].concat();
        more.convert_to(&grows.path, &flags)
    };
    let before = grows.digests();
    grow(&[])
        .exits(2)
        .says(&["data/train-00001.idx", "--replace"]);
    assert_eq!(grows.digests(), before);
    grow(&["--replace"]).exits(0);
    grows.verify(&[]).exits(0);
    let data = more;

    // Put there after planning: publishing finds it.
    let later = data.fresh();
    run(shardpack(&["plan"])
        .arg(data.source())
        .arg(&later)
        .args(flags))
    .exits(0);
    run(shardpack(&["pack"]).arg(&later)).exits(0);
    let info = later.join("data/_info.json");
    write(&info, b"{}");
    run(shardpack(&["publish"]).arg(&later))
        .exits(2)
        .says(&["data/_info.json"]);
    assert_eq!(fs::read(&info).unwrap(), b"{}");
    run(shardpack(&["publish", "--replace"]).arg(&later)).exits(0);
    run(shardpack(&["verify"]).arg(&later)).exits(0);
}

#[test]
fn a_sample_type_that_somebody_completed_stays_and_is_no_damage() {
    let data = Dataset::new().class("cat", 4);
    let output = data.convert(&["--index", "energon"]);
    let sample_type = output.path.join(".nv-meta/dataset.yaml");
    fs::write(&sample_type, "__module__: mine\n__class__: Mine\n").unwrap();
    for level in ["list", "head", "data"] {
        output.verify(&["--level", level]).exits(0);
    }
    index(&output, "energon").exits(0);
    index(&output, "wids").exits(0);
    assert!(fs::read_to_string(&sample_type).unwrap().contains("Mine"));
    output.verify(&[]).exits(0);
}

#[test]
fn a_card_of_an_earlier_version_gets_the_names_of_the_shards() {
    let data = Dataset::new().class("cat", 4);
    let flags = ["--format", "tfrecord"];
    let output = data.convert(&flags);
    let path = output.path.join("README.md");
    let card = fs::read_to_string(&path).unwrap();
    let (_, earlier) = card[4..].split_once("---\n\n").unwrap();
    fs::write(&path, earlier).unwrap();
    data.convert_to(&output.path, &flags).exits(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), card);
    fs::write(&path, "# mine\n").unwrap();
    data.convert_to(&output.path, &flags).exits(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\n");
}
