//! Sources that were once packed with wrong labels and exit code 0: each is refused with what was probably meant, or said plainly.

use serde_json::{Value, json};

use crate::support::{Dataset, picture, run, shardpack, write};

/// Writes a file beside the source; gives its path.
fn beside(data: &Dataset, name: &str, text: &str) -> String {
    let path = data.place(name);
    write(&path, text.as_bytes());
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_source_that_is_a_level_too_high_is_refused_with_the_one_that_was_meant() {
    for (data, meant) in [
        (
            Dataset::new().class("images/cat", 2).class("images/dog", 2),
            "source/images`",
        ),
        (
            Dataset::new()
                .class("Data/CLS-LOC/train/cat", 2)
                .class("Data/CLS-LOC/val/cat", 2),
            "source/Data/CLS-LOC`",
        ),
        (
            Dataset::new()
                .class("nested/dataset/train/cat", 2)
                .class("nested/dataset/train/dog", 2),
            "source/nested/dataset`",
        ),
        (
            Dataset::new().class("nested/dataset/train/cat", 2),
            "source/nested/dataset`",
        ),
    ] {
        let words = [
            "all images would be of one class",
            meant,
            "--layout imagefolder",
        ];
        let run = data.refuses(&[], 3, &words);
        // The command line that is told does what was meant.
        let place = run
            .err
            .split('`')
            .find(|part| part.contains("source/"))
            .unwrap();
        let destination = data.fresh();
        crate::support::run(shardpack(&["convert", place]).arg(&destination)).exits(0);
        let output = data.convert(&["--layout", "imagefolder"]);
        assert_eq!(output.manifest()["classes"].as_array().unwrap().len(), 1);
    }
    let data = Dataset::new()
        .class("train/images/cat", 2)
        .class("train/images/dog", 2)
        .class("val/images/cat", 1);
    let flags = ["--split", "train=train/images", "--split", "val=val/images"];
    data.refuses(&[], 3, &[&flags.join(" ")]);
    assert_eq!(
        data.convert(&flags).manifest()["classes"],
        json!(["cat", "dog"])
    );
}

#[test]
fn classes_that_hold_splits_are_refused() {
    let data = Dataset::new()
        .class("pets/train/cat", 2)
        .class("pets/val/cat", 2)
        .class("birds/train/emu", 2);
    data.refuses(
        &[],
        3,
        &[
            "`birds/`, `pets/` hold directories that are called as splits",
            "source/birds",
        ],
    );
    assert_eq!(
        data.convert(&["--layout", "imagefolder"]).manifest()["classes"],
        json!(["birds", "pets"])
    );
}

#[test]
fn a_class_of_one_directory_of_images_is_a_class() {
    let data = Dataset::new().class("cat/raw", 2);
    assert_eq!(data.convert(&[]).manifest()["classes"], json!(["cat"]));
}

#[test]
fn splits_are_found_in_any_case() {
    let data = Dataset::new()
        .class("Train/cat", 2)
        .class("Train/dog", 2)
        .class("VAL/dog", 1);
    let output = data.convert(&["--order", "listed"]);
    let names: Vec<_> = output.manifest()["splits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|split| split["name"].clone())
        .collect();
    assert_eq!(names, ["train", "val"]);
    assert_eq!(output.manifest()["classes"], json!(["cat", "dog"]));
    assert_eq!(output.member("VAL/dog/0000", "cls"), b"1");
}

#[test]
fn directories_that_are_called_as_splits_only_in_part_are_refused_with_a_split_line() {
    let data = Dataset::new().class("train/cat", 2).class("val2017/cat", 2);
    let flags = ["--split", "train=train", "--split", "val=val2017"];
    data.refuses(
        &[],
        3,
        &["not all of them", &flags.join(" "), "--layout imagefolder"],
    );
    assert_eq!(data.convert(&flags).manifest()["classes"], json!(["cat"]));

    let data = Dataset::new()
        .class("train/cat", 2)
        .class("val/cat", 2)
        .class("extra/cat", 2);
    data.refuses(
        &[],
        3,
        &[
            "`--split train=train --split val=val`",
            "leaves `extra/` out",
        ],
    );
    // Flat ones are no classes either.
    let data = Dataset::new().class("train2017", 2).class("val2017", 2);
    data.refuses(&[], 3, &["--split train=train2017 --split val=val2017"]);
    let data = Dataset::new().class("train", 2).class("test tube", 2);
    data.convert(&[]);
    let data = Dataset::new().class("Train/cat", 2).class("train/cat", 2);
    data.refuses(&[], 3, &["--split train=Train --split train_=train"]);
}

/// ImageNet's first three validation images, and what their labels are.
fn validation() -> Dataset {
    Dataset::new().pictures(&[
        "ILSVRC2012_val_00000001.JPEG",
        "ILSVRC2012_val_00000002.JPEG",
        "ILSVRC2012_val_00000003.JPEG",
    ])
}

/// The synsets of the program's own table: in the order of the ids, and sorted.
fn synsets() -> (Vec<String>, Vec<String>) {
    let table = include_str!("../../src/source/imagenet/synsets.tsv");
    let wnid = |line: &str| line.split('\t').nth(1).unwrap().to_owned();
    let own: Vec<String> = table.lines().skip(1).map(wnid).collect();
    let mut sorted = own.clone();
    sorted.sort();
    (own, sorted)
}

#[test]
fn imagenets_numbers_with_sorted_synsets_are_refused() {
    let data = validation();
    let (own, sorted) = synsets();
    let truth = beside(&data, "truth.txt", "490\n361\n171\n");
    let sorted_file = beside(&data, "sorted.txt", &sorted.join("\n"));
    data.refuses(
        &["--labels", &truth, "--synsets", &sorted_file],
        3,
        &[
            "sorted.txt is sorted by name",
            "order of the ids",
            "n02119789",
        ],
    );
    let own = beside(&data, "own.txt", &own.join("\n"));
    let output = data.convert(&["--labels", &truth, "--synsets", &own]);
    assert_eq!(output.member("ILSVRC2012_val_00000001", "cls"), b"65");
}

#[test]
fn labels_that_imagenets_own_images_cannot_have_are_refused() {
    let data = validation();
    let (_, sorted) = synsets();
    let list = |class: &dyn Fn(usize) -> String| -> String {
        let row = |n: usize| format!("ILSVRC2012_val_{n:08}.JPEG {}\n", class(n));
        (1..=3).map(row).collect()
    };
    let ids = [490, 361, 171];
    let labels = [65, 970, 230];
    // Ids with a sorted synset file, ids without any, and the classes that these would be.
    let synsets = beside(&data, "sorted.txt", &sorted.join("\n"));
    let wrong = beside(&data, "ids.txt", &list(&|n| ids[n - 1].to_string()));
    data.refuses(
        &["--labels", &wrong, "--synsets", &synsets],
        3,
        &["wrong label", "n01751748"],
    );
    data.refuses(
        &["--labels", &wrong],
        3,
        &["ImageNet's own ids", "label 65"],
    );
    let wrong = beside(
        &data,
        "names.txt",
        &list(&|n| sorted[ids[n - 1] - 1].clone()),
    );
    data.refuses(
        &["--labels", &wrong],
        3,
        &["would be n03000134", "is n01751748"],
    );
    for right in [
        list(&|n| labels[n - 1].to_string()),
        list(&|n| sorted[labels[n - 1]].clone()),
        // Labels of somebody's own.
        list(&|n| ["zebra", "apple", "zebra"][n - 1].to_owned()),
        list(&|n| (n % 2).to_string()),
    ] {
        let file = beside(&data, "right.txt", &right);
        data.convert(&["--labels", &file]);
    }
}

/// Four pictures in no class directory.
fn flat() -> Dataset {
    Dataset::new().pictures(&["1.jpg", "2.jpg", "3.jpg", "4.jpg"])
}

#[test]
fn a_label_column_is_named_by_the_header_or_the_user_and_never_guessed() {
    let data = flat();
    let wide = beside(
        &data,
        "wide.csv",
        "id,width,height,target\n1,500,375,cat\n2,500,375,dog\n3,375,500,cat\n4,10,10,cat\n",
    );
    data.refuses(
        &["--labels", &wide],
        3,
        &[
            "`id`, `width`, `height`, `target`",
            "`--label-column target`",
        ],
    );
    let output = data.convert(&["--labels", &wide, "--label-column", "target"]);
    assert_eq!(output.manifest()["classes"], json!(["cat", "dog"]));
    output
        .run
        .says(&["file from column `id`, class from column `target`"]);

    let captions = beside(
        &data,
        "captions.csv",
        "image,caption\n1.jpg,a cat\n2.jpg,a dog\n3.jpg,x\n4.jpg,y\n",
    );
    data.refuses(&["--labels", &captions], 3, &["`--label-column caption`"]);
    // A header of words that nobody knows is no image either.
    let strange = beside(
        &data,
        "strange.csv",
        "photo,breed\n1,cat\n2,dog\n3,cat\n4,dog\n",
    );
    data.refuses(
        &["--labels", &strange],
        3,
        &["names no image", "--file-column photo --label-column breed"],
    );
    let flags = [
        "--labels",
        &strange,
        "--file-column",
        "photo",
        "--label-column",
        "breed",
    ];
    assert_eq!(
        data.convert(&flags).manifest()["classes"],
        json!(["cat", "dog"])
    );
    data.refuses(&["--label-column", "target"], 2, &["add `--labels FILE`"]);
}

#[test]
fn label_files_of_other_forms_are_read_or_refused_once() {
    let data = flat();
    let json = "{\"file_name\": \"1.jpg\", \"label\": \"cat\"}\n{\"file_name\": \"2.jpg\", \"label\": \"dog\"}\n\
                {\"file_name\": \"3.jpg\", \"label\": \"cat\"}\n{\"file_name\": \"4.jpg\", \"label\": \"emu\"}\n";
    for text in [json, "1.jpg;cat\n2.jpg;dog\n3.jpg;cat\n4.jpg;emu\n"] {
        let file = beside(&data, "labels", text);
        let output = data.convert(&["--labels", &file]);
        assert_eq!(
            output.manifest()["classes"],
            json!(["cat", "dog", "emu"]),
            "{text}"
        );
        assert_eq!(output.member("2", "cls"), b"1");
    }
    let file = beside(&data, "labels", "n02\nn01\n");
    data.refuses(&["--labels", &file], 3, &["`n02` has no class"]);
    let file = beside(
        &data,
        "wnids",
        "n02124075\nn01440764\nn02124075\nn02124075\n",
    );
    let output = data.convert(&["--labels", &file]);
    assert_eq!(
        output.manifest()["classes"],
        json!(["n01440764", "n02124075"])
    );
    assert_eq!(output.member("2", "cls"), b"0");
    let file = beside(&data, "broken", "{\"file\": \"1.jpg\", \"label\": \n");
    data.refuses(&["--labels", &file], 3, &["line 1 is no JSON object"]);
}

#[test]
fn images_of_kinds_that_are_not_read_are_said_and_refused_when_they_are_many() {
    let few = Dataset::new()
        .class("cat", 3)
        .file("cat/a.avif", "x")
        .file("cat/b.HEIC", "x")
        .file("cat/c.svg", "x");
    let words = [
        "image of a kind that is not read (3)",
        "    cat/a.avif",
        "left out 3: 1 avif, 1 heic, 1 svg",
        "--exclude",
    ];
    few.refuses(&[], 3, &words);
    let output = few.convert(&["--exclude", "**/*.{avif,HEIC,svg}"]);
    assert_eq!(output.manifest()["samples"], 3);
    // All of a class, even one that may be empty.
    let emptied = Dataset::new().class("cat", 300).file("dog/a.avif", "x");
    emptied.refuses(
        &["--allow-empty"],
        3,
        &["dog/: all of its 1 image", "left out 1: 1 avif"],
    );
    // Three of three hundred.
    let many = Dataset::new()
        .class("cat", 300)
        .file("cat/a.avif", "x")
        .file("cat/b.heic", "x")
        .file("cat/c.svg", "x");
    many.convert(&[])
        .run
        .says(&["left out  3: 1 avif, 1 heic, 1 svg"]);
}

#[test]
fn a_class_that_loses_all_images_to_skipping_is_named() {
    let data = Dataset::new()
        .class("cat", 3)
        .file("dog/a.jpg", "")
        .file("dog/b.jpg", "no picture")
        .file("emu/a.jpg", picture("emu"))
        .file("emu/b.jpg", "");
    let output = data.convert(&["--on-error", "skip"]);
    output
        .run
        .says(&["class `dog` has no samples left: all 2 are damaged"]);
    assert!(
        !output.run.err.contains("class `emu`"),
        "{}",
        output.run.err
    );
}

#[test]
fn every_run_that_plans_says_classes_and_splits() {
    let data = Dataset::new()
        .class("train/cat", 5)
        .class("train/dog", 3)
        .class("train/emu", 4)
        .class("val/dog", 2);
    let words = [
        "layout    ImageFolder: a directory a class",
        "classes   3: cat … emu, smallest `emu` 4, largest `cat` 5",
        "splits    train 12, val 2",
    ];
    data.convert_to(&data.fresh(), &["--dry-run"])
        .exits(0)
        .says(&words);
    let output = data.convert(&[]);
    output.run.says(&words);
    for word in words {
        assert!(
            output.run.err.contains(word),
            "before anything is written: {}",
            output.run.err
        );
    }
    data.convert_to(&output.path, &[]).exits(0).says(&words);
    let planned = data.fresh();
    run(shardpack(&["plan"]).arg(data.source()).arg(&planned))
        .exits(0)
        .says(&words);

    let summary = data.place("summary.json");
    data.convert(&["--summary", summary.to_str().unwrap()]);
    let summary: Value = serde_json::from_slice(&std::fs::read(summary).unwrap()).unwrap();
    let source = &summary["source"];
    assert_eq!(source["classes"], 3);
    assert_eq!(source["first_and_last"], json!(["cat", "emu"]));
    assert_eq!(source["smallest"], json!({ "name": "emu", "samples": 4 }));
    assert_eq!(source["splits"][1], json!({ "name": "val", "samples": 2 }));
}
