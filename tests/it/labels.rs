//! Splits, label files, sidecars, globs.

use serde_json::{Value, json};

use crate::support::{Dataset, Output, png, write};

/// Splits with their numbers of samples.
fn splits(output: &Output) -> Vec<(String, u64)> {
    let split = |split: &Value| {
        let name = split["name"].as_str().unwrap().to_owned();
        (name, split["samples"].as_u64().unwrap())
    };
    output.manifest()["splits"]
        .as_array()
        .unwrap()
        .iter()
        .map(split)
        .collect()
}

fn is(name: &str, samples: u64) -> (String, u64) {
    (name.to_owned(), samples)
}

#[test]
fn splits_are_found_by_their_names_and_share_one_class_list() {
    let data = Dataset::new()
        .class("train/cat", 5)
        .class("train/dog", 4)
        .class("val/dog", 2)
        .class("val/emu", 1);
    let output = data.convert(&["--shards", "2"]);
    assert_eq!(splits(&output), [is("train", 9), is("val", 3)]);
    assert_eq!(output.manifest()["classes"], json!(["cat", "dog", "emu"]));
    assert_eq!(output.member("val/dog/0001", "cls"), b"1");
    assert_eq!(output.member("val/emu/0000", "cls"), b"2");
    let names: Vec<_> = output.tars().into_keys().collect();
    assert_eq!(
        names,
        [
            "data/train-00000.tar",
            "data/train-00001.tar",
            "data/val-00000.tar",
            "data/val-00001.tar"
        ]
    );
}

#[test]
fn directories_are_classes_when_not_all_are_split_names() {
    let data = Dataset::new().class("train", 2).class("car", 1);
    let output = data.convert(&[]);
    assert_eq!(splits(&output), [is("train", 3)]);
    assert_eq!(output.manifest()["classes"], json!(["car", "train"]));
}

#[test]
fn splits_are_where_the_flag_says() {
    let data = Dataset::new()
        .class("images/a/cat", 3)
        .class("images/b/cat", 2)
        .class("junk", 4);
    let output = data.convert(&["--split", "train=images/a", "--split", "holdout=images/b/"]);
    assert_eq!(splits(&output), [is("holdout", 2), is("train", 3)]);
    let output = data.convert(&["--split", "train=images/a,holdout=images/b"]);
    assert_eq!(splits(&output), [is("holdout", 2), is("train", 3)]);
    data.refuses(
        &["--split", "train=nowhere"],
        3,
        &["no directory `nowhere`", "correct `--split train=…`"],
    );
}

#[test]
fn images_beside_found_splits_are_refused() {
    let data = Dataset::new()
        .class("train/cat", 2)
        .class("val/cat", 1)
        .pictures(&["stray.jpg"]);
    data.refuses(&[], 3, &["    stray.jpg", "move it into a class directory"]);
}

/// Four pictures in no class directory.
fn flat() -> Dataset {
    Dataset::new().pictures(&["1.JPEG", "2.JPEG", "3.JPEG", "4.JPEG"])
}

/// Writes a file beside the source; gives its path.
fn beside(data: &Dataset, name: &str, text: &str) -> String {
    let path = data.place(name);
    write(&path, text.as_bytes());
    path.to_str().unwrap().to_owned()
}

/// The labels that four flat pictures get from a label file.
fn labels_from(text: &str, synsets: Option<&str>) -> (Value, [String; 4]) {
    let data = flat();
    let file = beside(&data, "labels", text);
    let mut flags = vec!["--labels", &file];
    let names = synsets.map(|text| beside(&data, "synsets", text));
    if let Some(names) = &names {
        flags.extend(["--synsets", names]);
    }
    let output = data.convert(&flags);
    let source = data.source();
    output
        .verify(&["--level", "source", "--source", source.to_str().unwrap()])
        .exits(0);
    let label = |key| String::from_utf8(output.member(key, "cls")).unwrap();
    (
        output.manifest()["classes"].clone(),
        ["1", "2", "3", "4"].map(label),
    )
}

#[test]
fn label_files_of_every_form_are_read() {
    let names = [
        "1.JPEG,dog\n2.JPEG,cat\n3.JPEG,dog\n4.JPEG,emu\n",
        "1.JPEG\tdog\n2.JPEG\tcat\n3.JPEG\tdog\n4.JPEG\temu",
        "1.JPEG dog\r\n2.JPEG cat\r\n3.JPEG dog\r\n4.JPEG emu\r\n",
        "ImageId,label\n1,dog\n2,cat\n3,dog\n4,emu\n",
        "# by hand\nval/4.JPEG emu\n\nval/3.JPEG dog\nval/2.JPEG cat\nval/1.JPEG dog\n",
    ];
    for text in names {
        let (classes, labels) = labels_from(text, None);
        assert_eq!(classes, json!(["cat", "dog", "emu"]), "{text}");
        assert_eq!(labels, ["1", "0", "1", "2"], "{text}");
    }
    let (classes, labels) = labels_from("1.JPEG 2\n2.JPEG 0\n3.JPEG 2\n4.JPEG 1\n", None);
    assert_eq!(classes, json!(["0", "1", "2"]));
    assert_eq!(labels, ["2", "0", "2", "1"]);
}

#[test]
fn a_ground_truth_list_counts_in_the_synset_file() {
    // Numbers from 1 in the synset file's own order; labels are by sorted name.
    let (classes, labels) = labels_from("3\n1\n2\n3\n", Some("n03\nn01\nn02\n"));
    assert_eq!(classes, json!(["n01", "n02", "n03"]));
    assert_eq!(labels, ["1", "2", "0", "1"]);
}

#[test]
fn a_ground_truth_list_without_its_synsets_or_of_another_length_is_refused() {
    let data = flat();
    let list = beside(&data, "list", "1\n1\n2\n");
    data.refuses(
        &["--labels", &list],
        3,
        &["list has class numbers only", "--synsets FILE"],
    );
    let synsets = beside(&data, "synsets", "n1\nn2\n");
    let flags = ["--labels", &list, "--synsets", &synsets];
    data.refuses(&flags, 3, &["4 images, 3 rows", "correct the label file"]);
}

#[test]
fn images_in_no_class_directory_without_labels_are_refused() {
    let data = flat();
    data.refuses(
        &[],
        3,
        &[
            "4 images lie directly in it",
            "one directory per class",
            "--labels FILE",
        ],
    );
    let data = Dataset::new()
        .class("train/cat", 2)
        .pictures(&["val/1.jpg"]);
    data.refuses(&[], 3, &["1 images lie directly in `val`", "--labels FILE"]);
}

#[test]
fn images_without_a_row_in_the_label_file_are_all_named() {
    let data = flat();
    let file = beside(&data, "labels", "1.JPEG,cat\n4.JPEG,cat\n9.JPEG,cat\n");
    data.refuses(
        &["--labels", &file],
        3,
        &[
            "    2.JPEG: no row",
            "    3.JPEG: no row",
            "correct the label file",
        ],
    );
    let flags = ["--labels", &file, "--exclude", "[23].JPEG", "--dry-run"];
    data.convert_to(&data.fresh(), &flags)
        .exits(0)
        .says(&["1 label that no image has"]);
}

#[test]
fn a_label_file_that_is_missing_or_contradicts_itself_is_refused() {
    let data = flat();
    data.refuses(
        &["--labels", "/no/such/file"],
        3,
        &["/no/such/file", "give a readable file"],
    );
    let file = beside(&data, "labels", "1.JPEG,cat\n1.JPEG,dog\n");
    data.refuses(
        &["--labels", &file],
        3,
        &["labels: line 2: `1.JPEG`", "keep one of them"],
    );
    let data = Dataset::new().class("cat", 2);
    data.refuses(&["--labels", &file], 3, &["labels: line 2"]);
    let file = beside(&data, "labels", "0000.jpg,cat\n");
    data.refuses(&["--labels", &file], 2, &["drop `--labels`"]);
}

#[test]
fn a_flat_split_is_labelled_by_the_class_directories_of_another() {
    let data = Dataset::new()
        .class("train/n01", 2)
        .class("train/n02", 2)
        .pictures(&["val/1.JPEG", "val/2.JPEG"]);
    for text in ["1.JPEG n02\n2.JPEG n01\n", "1.JPEG 1\n2.JPEG 0\n"] {
        let file = beside(&data, "labels", text);
        let output = data.convert(&["--labels", &file]);
        assert_eq!(
            output.manifest()["classes"],
            json!(["n01", "n02"]),
            "{text}"
        );
        assert_eq!(output.member("val/1", "cls"), b"1");
        assert_eq!(output.member("val/2", "cls"), b"0");
        assert_eq!(output.member("train/n02/0000", "cls"), b"1");
    }
}

#[test]
fn files_that_share_an_images_stem_are_its_fields() {
    let data = Dataset::new()
        .class("cat", 2)
        .file("cat/0000.txt", "a cat")
        .file("cat/0001.txt", "another cat")
        .file("cat/0000.JSON", "{\"boxes\": []}")
        .file("cat/0001.empty", "");
    data.refuses(
        &[],
        3,
        &[
            "1 of 2 samples have no `json` file",
            "cat/0001.jpg",
            "--missing-fields fill",
        ],
    );
    let output = data.convert(&["--missing-fields", "keep"]);
    assert_eq!(output.member("cat/0001", "txt"), b"another cat");
    assert_eq!(output.member("cat/0000", "json"), b"{\"boxes\": []}");
    assert_eq!(output.member("cat/0001", "empty"), b"");
    output.run.says(&["only 1 of 2 samples have a `json` file"]);
    let source = data.source();
    output
        .verify(&["--level", "source", "--source", source.to_str().unwrap()])
        .exits(0);
}

#[test]
fn two_sidecars_of_one_field_are_refused() {
    let data = Dataset::new()
        .class("cat", 1)
        .file("cat/0000.txt", "a")
        .file("cat/0000.TXT", "b");
    data.refuses(
        &[],
        3,
        &["cat/0000.TXT, cat/0000.txt", "rename all but one"],
    );
}

#[test]
fn hidden_and_odd_files_are_counted() {
    let data = Dataset::new()
        .class("cat", 2)
        .file(".DS_Store", "x")
        .file("cat/._0000.jpg", "x")
        .file(".git/config", "x")
        .file("cat/Thumbs.db", "x")
        .file("cat/notes.db", "x");
    data.convert_to(&data.fresh(), &["--dry-run"])
        .exits(0)
        .says(&[
            "4 hidden files and directories",
            "1 file, neither",
            "cat/notes.db",
        ]);
    assert_eq!(data.convert(&[]).manifest()["samples"], 2);
}

#[test]
fn an_excluded_class_is_no_class() {
    let data = Dataset::new()
        .class("cat", 2)
        .class("dog", 3)
        .class("emu", 1);
    for glob in ["dog", "dog/", "d*", "dog/*", "{*/000*.jpg,nothing}"] {
        let run = data.convert_to(&data.fresh(), &["--exclude", glob]);
        if glob.starts_with("{*") {
            run.exits(3);
            continue;
        }
        run.exits(0);
        let output = data.convert(&["--exclude", glob]);
        assert_eq!(
            output.manifest()["classes"],
            json!(["cat", "emu"]),
            "{glob}"
        );
        assert_eq!(output.manifest()["samples"], 3, "{glob}");
        assert_eq!(output.member("emu/0000", "cls"), b"1");
    }
}

#[test]
fn included_files_are_the_only_ones() {
    let data = Dataset::new()
        .class("cat", 12)
        .file("cat/x.png", png(1))
        .class("dog", 12);
    let output = data.convert(&["--include", "cat/000[0-4].jpg", "--include", "dog/0011.*"]);
    assert_eq!(output.manifest()["samples"], 6);
    let output = data.convert(&["--include", "**/*.png"]);
    assert_eq!(output.keys(), ["cat/x"]);
    assert_eq!(output.manifest()["classes"], json!(["cat"]));
    let source = data.source();
    output
        .verify(&["--level", "source", "--source", source.to_str().unwrap()])
        .exits(0);
}

/// Pictures in two splits, and tables that say what they are.
fn with_metadata() -> Dataset {
    Dataset::new()
        .pictures(&["train/1.jpg", "train/deep/2.jpg", "val/1.jpg"])
        .file(
            "train/metadata.csv",
            "file_name,label,caption,width,007\n1.jpg,dog,a dog,5,07\ndeep/2.jpg,cat,\"a cat, asleep\",,08\n",
        )
        .file(
            "val/metadata.csv",
            "file_name,label,caption,width,007\n1.jpg,dog,,7,09\n",
        )
}

#[test]
fn metadata_says_classes_captions_and_all_else() {
    let data = with_metadata();
    let output = data.convert(&["--missing-fields", "fail"]);
    output.run.says(&[
        "layout    metadata: train/metadata.csv and 1 more: class from column `label`, `txt` from column `caption`, all others in `json`",
        "classes   2: cat … dog",
    ]);
    let manifest = output.manifest();
    assert_eq!(manifest["classes"], json!(["cat", "dog"]));
    assert_eq!(manifest["recipe"]["layout"], "metadata");
    assert!(manifest["recipe"].get("metadata").is_none());
    assert_eq!(splits(&output), [is("train", 2), is("val", 1)]);
    assert_eq!(output.member("train/1", "cls"), b"1");
    assert_eq!(output.member("train/deep/2", "cls"), b"0");
    assert_eq!(output.member("train/deep/2", "txt"), b"a cat, asleep");
    assert_eq!(output.member("val/1", "txt"), b"");
    let json = |key| -> Value { serde_json::from_slice(&output.member(key, "json")).unwrap() };
    let expected = json!({ "007": "07", "caption": "a dog", "width": 5 });
    assert_eq!(json("train/1"), expected);
    assert_eq!(json("train/deep/2")["width"], json!(null));
    let source = data.source();
    let level = ["--level", "source", "--source", source.to_str().unwrap()];
    output.verify(&level).exits(0);
    data.convert_to(&output.path, &[])
        .exits(0)
        .says(&["up to date"]);
    for format in ["tfrecord", "parquet"] {
        data.convert(&["--format", format]).verify(&level).exits(0);
    }
    // What is lost is made again from the tables.
    let shard = output.shards().remove(0);
    let before = output.digests();
    std::fs::remove_file(&shard).unwrap();
    output
        .verb("repair", &["--source", source.to_str().unwrap()])
        .exits(0);
    assert_eq!(output.digests(), before);
    // A plan that another process packs has what the tables say in it.
    let planned = data.fresh();
    crate::support::run(
        crate::support::shardpack(&["plan"])
            .arg(&source)
            .arg(&planned),
    )
    .exits(0);
    std::fs::remove_file(source.join("train/metadata.csv")).unwrap();
    for verb in ["pack", "publish"] {
        crate::support::run(crate::support::shardpack(&[verb]).arg(&planned)).exits(0);
    }
    assert_eq!(crate::support::digests(&planned.join("data")), {
        let mut tars = output.tars();
        tars = tars
            .into_iter()
            .map(|(name, sum)| (name["data/".len()..].to_owned(), sum))
            .collect();
        tars
    });
}

#[test]
fn a_row_that_changed_changes_its_sample_only() {
    let data = with_metadata();
    let output = data.convert(&[]);
    let data = data.file(
        "val/metadata.csv",
        "file_name,label,caption,width,007\n1.jpg,dog,changed,7,09\n",
    );
    data.convert_to(&output.path, &[]).exits(3).says(&["val/1"]);
    data.convert_to(&output.path, &["--on-change", "rebuild"])
        .exits(0);
    assert_eq!(output.row("val/1")["label"], 1);
    output.verify(&[]).exits(0);
}

#[test]
fn images_without_rows_and_rows_without_images_are_refused_or_left_out() {
    let data = Dataset::new()
        .pictures(&["1.jpg", "2.jpg"])
        .file("metadata.jsonl", "{\"file_name\": \"1.jpg\", \"text\": \"one\"}\n{\"file_name\": \"3.jpg\", \"text\": \"three\"}\n");
    let words = [
        "2.jpg: no row in the metadata",
        "3.jpg: in the metadata, and no image",
        "--missing-rows skip",
    ];
    data.refuses(&[], 3, &words);
    let output = data.convert(&["--missing-rows", "skip"]);
    assert_eq!(output.keys(), ["1"]);
    assert_eq!(output.member("1", "txt"), b"one");
    assert_eq!(output.row("1")["label"], -1);
    data.refuses(
        &["--missing-rows", "skip", "--labels", "none"],
        2,
        &["there is neither"],
    );
}

#[test]
fn metadata_that_is_not_clear_is_refused() {
    let left_out = Dataset::new()
        .class("cat", 1)
        .class("dog", 1)
        .file("metadata.csv", "file_name,width\ncat/0000.jpg,1\n");
    let output = left_out.convert(&["--exclude", "metadata.csv"]);
    assert_eq!(output.manifest()["classes"], json!(["cat", "dog"]));
    let refused = |table: &str, flags: &[&str], words: &[&str]| {
        let data = Dataset::new()
            .pictures(&["1.jpg"])
            .file("metadata.csv", table);
        data.refuses(flags, 3, words);
    };
    refused(
        "file_name,label,class\n1.jpg,a,b\n",
        &[],
        &["`label` and `class`", "--label-column label"],
    );
    refused(
        "file_name,kind\n1.jpg,a\n",
        &["--label-column", "x"],
        &["no column `x`", "`kind`"],
    );
    refused(
        "file_name,label\n../1.jpg,a\n",
        &[],
        &["`../1.jpg` is no path"],
    );
    refused("file_name,label\nhttp://x/1.jpg,a\n", &[], &["is no path"]);
    refused(
        "file_name,label\n1.jpg,a\n1.jpg,b\n",
        &[],
        &["two rows of metadata name `1.jpg`"],
    );
    refused(
        "file_name,label\n1.jpg,\n",
        &[],
        &["line 2: `label` is no class"],
    );
    refused(
        "file_name,label\n1.jpg,1.5\n",
        &[],
        &["line 2: `label` is no class"],
    );
    refused(
        "name,label\n1.jpg,a\n",
        &["--layout", "metadata"],
        &["no column `file_name`"],
    );
    let classes = Dataset::new().class("cat", 1).class("dog", 1).file(
        "metadata.csv",
        "file_name,width\ncat/0000.jpg,1\ndog/0000.jpg,2\n",
    );
    classes.refuses(
        &[],
        3,
        &[
            "2 directories may be classes",
            "--layout metadata",
            "--layout imagefolder",
        ],
    );
    assert_eq!(
        classes.convert(&["--layout", "imagefolder"]).manifest()["classes"],
        json!(["cat", "dog"])
    );
    assert_eq!(
        classes.convert(&["--layout", "metadata"]).manifest()["classes"],
        json!([])
    );
    let data = Dataset::new()
        .pictures(&["1.jpg"])
        .file("1.json", "{}")
        .file("metadata.csv", "file_name,x\n1.jpg,a\n");
    data.refuses(
        &[],
        3,
        &["1.json: the field `json` is made from the metadata"],
    );
    data.refuses(&["--add-json"], 2, &["drop `--add-json`"]);
}
