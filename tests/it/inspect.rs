//! One sample's whereabouts, and its bytes.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Dataset, Output, flip, members, picture};

fn converted() -> (Dataset, Output) {
    let data = Dataset::new()
        .class("cat", 6)
        .class("dog", 6)
        .file("cat/0002.txt", "a cat");
    let output = data.convert(&[
        "--shards",
        "3",
        "--name",
        "pets",
        "--missing-fields",
        "keep",
    ]);
    (data, output)
}

#[test]
fn the_image_comes_out_as_it_went_in() {
    let (_data, output) = converted();
    for key in ["cat/0000", "dog/0005"] {
        let run = output.verb("cat", &[key]);
        run.exits(0);
        assert_eq!(run.bytes, picture(&format!("{key}.jpg")));
        assert_eq!(run.err, "");
    }
}

#[test]
fn one_field_comes_out_by_name() {
    let (_data, output) = converted();
    let cat = |args: &[&str]| output.verb("cat", args).exits(0).out.clone();
    assert_eq!(cat(&["dog/0001.cls"]), "1");
    assert_eq!(cat(&["dog/0001", "--field", "cls"]), "1");
    assert_eq!(cat(&["cat/0002.txt"]), "a cat");
    let image = output.verb("cat", &["dog/0001.jpg"]);
    assert_eq!(image.exits(0).bytes, picture("dog/0001.jpg"));
    output
        .verb("cat", &["dog/0001.txt"])
        .exits(1)
        .says(&["sample `dog/0001` has no such field", "cls, jpg"]);
}

#[test]
fn a_whole_sample_is_taken_apart_by_tar() {
    let (data, output) = converted();
    let whole = output.verb("cat", &["cat/0002", "--whole"]);
    whole.exits(0);
    let place = data.place("unpacked");
    fs::create_dir(&place).unwrap();
    let tar = Command::new("tar")
        .arg("x")
        .current_dir(&place)
        .stdin(Stdio::piped())
        .spawn();
    let mut tar = match tar {
        Ok(tar) => tar,
        Err(error) => return eprintln!("not tested: tar: {error}"),
    };
    tar.stdin.take().unwrap().write_all(&whole.bytes).unwrap();
    assert!(tar.wait().unwrap().success());
    assert_eq!(fs::read(place.join("cat/0002.txt")).unwrap(), b"a cat");
    assert_eq!(
        fs::read(place.join("cat/0002.jpg")).unwrap(),
        picture("cat/0002.jpg")
    );
    assert_eq!(fs::read(place.join("cat/0002.cls")).unwrap(), b"0");
}

#[test]
fn an_unknown_key_names_one_that_is_there() {
    let (_data, output) = converted();
    let known = output.keys();
    for verb in ["cat", "inspect"] {
        let run = output.verb(verb, &["bird/0000"]);
        run.exits(1)
            .says(&["no sample `bird/0000`", "keys look like `"]);
        assert!(
            known
                .iter()
                .any(|key| run.err.contains(&format!("`{key}`"))),
            "{}",
            run.err
        );
    }
}

#[test]
fn a_damaged_field_is_told_after_it_was_written() {
    let (_data, output) = converted();
    let shard = output
        .path
        .join(output.row("cat/0003")["shard"].as_str().unwrap());
    let member = members(&shard)
        .into_iter()
        .find(|member| member.key == "cat/0003" && member.field == "jpg")
        .unwrap();
    flip(&shard, member.start + 512 + 99);
    let run = output.verb("cat", &["cat/0003"]);
    run.exits(4)
        .says(&["sample `cat/0003` field `jpg`", "crc32", "shardpack verify"]);
    // Others are none the worse for it.
    output.verb("cat", &["cat/0003.cls"]).exits(0);
    output.verb("cat", &["cat/0004"]).exits(0);
    output
        .verb("cat", &["cat/0003", "--whole"])
        .exits(4)
        .says(&["cat/0003"]);
}

#[test]
fn a_shard_cut_short_is_told() {
    let (_data, output) = converted();
    let shard = output
        .path
        .join(output.row("cat/0003")["shard"].as_str().unwrap());
    fs::File::options()
        .write(true)
        .open(shard)
        .unwrap()
        .set_len(100)
        .unwrap();
    output
        .verb("cat", &["cat/0003"])
        .exits(4)
        .says(&["cut short"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_crash() {
    let data = Dataset::new().file(
        "cat/large.jpg",
        crate::support::padded_picture("large", 1 << 20),
    );
    let output = data.convert(&[]);
    let mut command = crate::support::shardpack(&["cat"]);
    command
        .arg(&output.path)
        .arg("cat/large")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let run = crate::support::finished(child.wait_with_output().unwrap());
    assert!(!run.err.contains("panicked"), "{}", run.err);
    run.exits(1);
}

#[test]
fn a_dataset_is_described() {
    let (_data, output) = converted();
    output.verb("inspect", &[]).exits(0).says(&[
        "dataset   pets",
        "samples   12 in 2 classes",
        "classes   cat, dog",
        "split train: 12 samples, 3 shards",
        "data/train-00002.tar",
    ]);
    let run = output.verb("inspect", &["--json"]);
    assert_eq!(run.exits(0).json(), output.manifest());
}

#[test]
fn a_sample_is_described_with_its_place() {
    let (_data, output) = converted();
    output.verb("inspect", &["dog/0003"]).exits(0).says(&[
        "sample  dog/0003",
        "shard   data/train-0000",
        "label   1 (dog)",
        "source  dog/0003.jpg",
        "image   jpeg 24 x 16",
        "field   cls: 1 bytes",
    ]);
    let row = output.row("dog/0003");
    let shard = fs::read(output.path.join(row["shard"].as_str().unwrap())).unwrap();
    let field = |name: &str| {
        let fields = row["fields"].as_array().unwrap();
        let field = fields.iter().find(|field| field["name"] == name).unwrap();
        let number = |what: &str| field[what].as_u64().unwrap() as usize;
        let content = &shard[number("offset")..number("offset") + number("length")];
        assert_eq!(field["crc32"], format!("{:08x}", crc32fast::hash(content)));
        content.to_vec()
    };
    assert_eq!(field("jpg"), picture("dog/0003.jpg"));
    assert_eq!(field("cls"), b"1");
}

#[test]
fn a_damaged_index_is_told_and_never_a_crash() {
    let data = Dataset::new().class("cat", 6);
    let output = data.convert(&[]);
    let index = output.path.join("index/train-00000.parquet");
    let length = fs::metadata(&index).unwrap().len();
    // What a reader goes by is near the end; the lowest bit of its numbers is their sign.
    for offset in (length - 2200..length)
        .step_by(7)
        .chain(length - 2200..length - 2000)
    {
        flip_sign(&index, offset);
        let run = output.verb("inspect", &["cat/0003"]);
        run.exits(4)
            .says(&["index/train-00000.parquet", "shardpack verify"]);
        flip_sign(&index, offset);
    }
    flip_sign(&index, length / 2);
    output
        .verb("cat", &["cat/0003"])
        .exits(4)
        .says(&["shardpack verify"]);
}

#[test]
fn a_conversion_that_meets_a_damaged_index_of_its_own_says_so() {
    let data = Dataset::new().class("cat", 6);
    let output = data.convert(&[]);
    flip(&output.path.join("index/train-00000.parquet"), 100);
    // It reads none of a dataset that is up to date.
    data.convert_to(&output.path, &[]).exits(0);
    fs::remove_file(output.path.join("manifest.json")).unwrap();
    let before = output.digests();
    data.convert_to(&output.path, &[])
        .exits(4)
        .says(&["shardpack verify"]);
    assert_eq!(before, output.digests());
}

/// Changes the lowest bit of a byte.
fn flip_sign(path: &std::path::Path, offset: u64) {
    let mut content = fs::read(path).unwrap();
    content[offset as usize] ^= 1;
    fs::write(path, content).unwrap();
}

#[test]
fn a_sample_is_found_although_another_index_is_damaged_and_always_the_same_is_said() {
    let data = Dataset::new().class("cat", 20);
    let output = data.convert(&["--shards", "8"]);
    let shard = output.row("cat/0003")["shard"].clone();
    let of = |name: &str| {
        name.rsplit('/')
            .next()
            .unwrap()
            .split('.')
            .next()
            .unwrap()
            .to_owned()
    };
    let home = of(shard.as_str().unwrap());
    let mut said = std::collections::BTreeSet::new();
    for index in crate::support::files(&output.path.join("index")) {
        let name = of(index.to_str().unwrap());
        let whole = fs::read(&index).unwrap();
        for damage in ["cut", "lost"] {
            match damage {
                "cut" => fs::write(&index, &whole[..whole.len() - 9]).unwrap(),
                _ => fs::remove_file(&index).unwrap(),
            }
            for reads in ["1", "3", "64", "64", "64"] {
                let found = output.verb("cat", &["cat/0003", "--reads", reads]);
                let nowhere = output.verb("inspect", &["bird/1", "--reads", reads]);
                nowhere.exits(4).says(&[
                    "no sample `bird/1` in the indexes that can be read, and 1 of 8 cannot",
                    &name,
                    "shardpack verify",
                ]);
                match name == home {
                    true => _ = found.exits(4).says(&["no sample `cat/0003`", &name]),
                    false => assert_eq!(found.exits(0).bytes, picture("cat/0003.jpg")),
                }
                if name == home {
                    said.insert(format!("{damage} {}", found.err));
                }
            }
        }
        fs::write(&index, &whole).unwrap();
    }
    assert_eq!(said.len(), 2, "{said:#?}");
}

#[test]
fn a_sample_is_found_by_the_path_of_one_of_its_files() {
    let data = Dataset::new()
        .pictures(&["a.v2/x.png.jpg", "a.v2/x y.JPEG", "b/c/d.jpg"])
        .file("a.v2/x y.txt", "words");
    let output = data.convert(&["--missing-fields", "keep"]);
    for path in ["a.v2/x.png.jpg", "a.v2/x y.JPEG", "b/c/d.jpg"] {
        let run = output.verb("cat", &[path]);
        assert_eq!(run.exits(0).bytes, picture(path), "{path}");
        output
            .verb("inspect", &[path])
            .exits(0)
            .says(&[&format!("source  {path}\n")]);
    }
    assert_eq!(output.verb("cat", &["a.v2/x y.txt"]).exits(0).out, "words");
    let cls = output.verb("cat", &["a.v2/x y.JPEG", "--field", "cls"]);
    assert_eq!(cls.exits(0).out, "0");
    output
        .verb("cat", &["b/c/d.txt"])
        .exits(1)
        .says(&["has no such field"]);
}
