//! Tables of metadata beside the images: their kinds, the columns that name images, and what they may take.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Dataset, Output};

/// A table that another program wrote, by `fixtures/golden/make.py`.
fn golden(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden/metadata");
    std::fs::read(dir.join(name)).unwrap()
}

fn pictures() -> Dataset {
    Dataset::new().pictures(&["a.jpg", "b.jpg", "c.jpg"])
}

fn json_of(output: &Output, key: &str) -> Value {
    serde_json::from_slice(&output.member(key, "json")).unwrap()
}

#[test]
fn parquet_says_what_the_other_tables_say() {
    let expected = [
        json!({
            "text": "one", "n": 1, "unsigned": 1, "float": 0.1, "double": 0.25, "ok": true, "boxes": [[1, 2], [3]],
            "objects": { "bbox": [[1.0, 2.0]], "names": ["x"] }, "parts": [{ "p": 1, "q": "a" }, { "p": null, "q": "b" }],
            "map": { "k": 1, "j": null }, "day": "2024-02-29", "at": "2024-02-29T12:00:00.000005Z",
            "local": "2024-02-29T12:00:00", "price": "1.50", "none": null
        }),
        json!({
            "text": null, "n": null, "unsigned": u64::MAX, "float": null, "double": 1e300, "ok": null, "boxes": [],
            "objects": null, "parts": [], "map": {}, "day": null, "at": null, "local": null, "price": null, "none": null
        }),
        json!({
            "text": "three", "n": 3, "unsigned": 3, "float": null, "double": -1.0, "ok": false, "boxes": null,
            "objects": { "bbox": [], "names": null }, "parts": [null], "map": null, "day": "1969-12-31",
            "at": "1960-01-01T00:00:00Z", "local": "2024-02-29T12:00:00", "price": "-0.05", "none": null
        }),
    ];
    for name in ["pyarrow", "groups", "plain", "duckdb"] {
        let table = golden(&format!("{name}.parquet"));
        let data = pictures().file("metadata.parquet", table);
        let output = data.convert(&[]);
        output.run.says(&[
            "layout    metadata: metadata.parquet: class from column `label`, `txt` from column `text`, all others in `json`",
        ]);
        assert_eq!(output.manifest()["classes"], json!(["cat", "dog"]));
        for (key, expected) in ["a", "b", "c"].into_iter().zip(&expected) {
            assert_eq!(&json_of(&output, key), expected, "{name} {key}");
        }
        assert_eq!(output.member("b", "cls"), b"1");
        assert_eq!(output.member("c", "txt"), b"three");
        let source = data.source();
        let source = source.to_str().unwrap();
        output
            .verify(&["--level", "source", "--source", source])
            .exits(0);
        let (shard, before) = (output.shards().remove(0), output.digests());
        std::fs::remove_file(&shard).unwrap();
        output.verb("repair", &["--source", source]).exits(0);
        assert_eq!(output.digests(), before);
    }
}

#[test]
fn a_parquet_table_converts_to_the_same_bytes_as_the_json_lines_of_it() {
    let lines = "{\"file_name\":\"a.jpg\",\"label\":\"cat\",\"n\":1}\n{\"file_name\":\"b.jpg\",\"label\":\"dog\",\"n\":null}\n";
    let convert = |name: &str, table: &[u8]| {
        let data = Dataset::new()
            .pictures(&["a.jpg", "b.jpg"])
            .file(name, table);
        data.convert(&["--name", "x"]).tars()
    };
    let parquet = golden("small.parquet");
    assert_eq!(
        convert("metadata.jsonl", lines.as_bytes()),
        convert("metadata.parquet", &parquet)
    );
}

#[test]
fn parquet_that_is_damaged_or_of_another_kind_is_refused() {
    let refused = |table: &[u8], words: &[&str]| {
        let data = pictures().file("metadata.parquet", table);
        data.refuses(&[], 3, &[&["metadata.parquet is damaged"], words].concat());
        data.refuses(&["--layout", "metadata"], 3, words);
    };
    let whole = golden("pyarrow.parquet");
    refused(b"", &["too short"]);
    refused(&whole[..whole.len() - 9], &["does not end like one"]);
    refused(&golden("delta.parquet"), &["encoding 7"]);
    refused(&golden("gzip.parquet"), &["GZIP", "snappy or zstd"]);
    let mut cut = whole.clone();
    cut.drain(4..200);
    refused(&cut, &["--exclude"]);
    // Others call their tables so, too.
    let data = Dataset::new()
        .class("cat", 1)
        .class("dog", 1)
        .file("metadata.parquet", golden("other.parquet"));
    let output = data.convert(&[]);
    assert_eq!(output.manifest()["classes"], json!(["cat", "dog"]));
}

#[test]
fn tables_of_two_kinds_are_refused() {
    let data = pictures()
        .file("metadata.parquet", golden("pyarrow.parquet"))
        .file(
            "metadata.csv",
            "file_name,label\na.jpg,x\nb.jpg,x\nc.jpg,y\n",
        );
    data.refuses(&[], 3, &["metadata.csv and metadata.parquet", "--exclude"]);
    let output = data.convert(&["--exclude", "*.parquet"]);
    assert_eq!(output.manifest()["classes"], json!(["x", "y"]));
}

#[test]
fn a_table_that_names_images_and_cannot_be_read_is_not_passed_over() {
    let data = Dataset::new()
        .class("cat", 1)
        .class("dog", 1)
        .file("metadata.csv", "file_name,label\ncat/0000.jpg,x,1\n");
    data.refuses(&[], 3, &["metadata.csv", "correct the table"]);
}

#[test]
fn an_image_is_named_by_any_column_that_names_images() {
    let lines = [
        r#"{"image_file_name": "a.jpg", "label": "x", "n": 1}"#,
        r#"{"file_names": ["b.jpg"], "label": "y", "n": 2}"#,
        r#"{"file_name": null, "left_file_names": [], "right_file_name": "c.jpg", "label": "x", "n": 3}"#,
    ];
    let data = pictures().file("metadata.jsonl", lines.join("\n"));
    let output = data.convert(&[]);
    for (key, n) in [("a", 1), ("b", 2), ("c", 3)] {
        assert_eq!(json_of(&output, key), json!({ "n": n }));
    }
    assert_eq!(output.member("b", "cls"), b"1");
    let refused = |line: &str, words: &[&str]| {
        let data = pictures().file("metadata.jsonl", line);
        data.refuses(&[], 3, words);
    };
    refused(
        r#"{"file_name": "a.jpg", "mask_file_name": "b.jpg"}"#,
        &["line 1: 2 images are named, `a.jpg`, `b.jpg`, and a sample has one"],
    );
    refused(
        r#"{"file_names": ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]}"#,
        &["4 images are named, `a.jpg`, `b.jpg`, `c.jpg` …"],
    );
    refused(
        r#"{"file_names": "a.jpg"}"#,
        &["`file_names` is no list of names"],
    );
    refused(r#"{"file_name": 1.5}"#, &["`file_name` is no name"]);
    refused(r#"{"file_names": []}"#, &["no `file_name`"]);
}

#[test]
fn tables_that_are_too_large_for_the_memory_are_refused_with_what_to_do() {
    let mut table = "file_name,text\n".to_owned();
    for i in 0..20_000 {
        table.push_str(&format!("{i}.jpg,{}\n", "x".repeat(1_000)));
    }
    let data = Dataset::new()
        .pictures(&["a.jpg"])
        .file("metadata.csv", table);
    let words = ["metadata.csv", "raise `--memory`", "leave columns out"];
    data.refuses(&["--memory", "64MiB"], 2, &words);
    data.refuses(
        &["--memory", "100MiB"],
        2,
        &[&words[..], &["no more than"]].concat(),
    );
    data.refuses(&["--memory", "1GiB"], 3, &["in the metadata, and no image"]);
}

#[test]
fn columns_of_a_table_are_columns_of_parquet_shards_that_are_verified_and_made_again() {
    let data = pictures().file("metadata.parquet", golden("pyarrow.parquet"));
    let output = data.convert(&["--format", "parquet"]);
    output.run.says(&[
        "columns   at string, boxes string, day string, double float64,",
        " n int64, none string, objects string, ok bool,",
    ]);
    let columns = output.manifest()["columns"].clone();
    assert!(
        columns
            .as_array()
            .unwrap()
            .contains(&json!({ "name": "ok", "kind": "bool" }))
    );
    output.verify(&["--level", "data"]).exits(0);
    let source = data.source();
    let source = ["--source", source.to_str().unwrap()];
    let (shard, before) = (output.shards().remove(0), output.digests());
    let row = output.row("c");
    let json_field = row["fields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|field| field["name"] == "json")
        .unwrap();
    let at = json_field["offset"].as_u64().unwrap() + 3;
    crate::support::flip(&shard, at);
    let found = output.verify(&["--level", "data", "--json"]);
    assert_eq!(
        found.exits(4).json()["findings"].as_array().unwrap().len(),
        1
    );
    output.verb("repair", &source).exits(0);
    assert_eq!(output.digests(), before);
}

#[test]
fn a_column_whose_name_is_taken_stays_in_the_json_and_is_said() {
    let table = "file_name,class,label,txt\na.jpg,cat,1,x\nb.jpg,dog,2,y\n";
    let data = Dataset::new()
        .pictures(&["a.jpg", "b.jpg"])
        .file("metadata.csv", table);
    let output = data.convert(&["--format", "parquet", "--label-column", "class"]);
    output
        .run
        .says(&["columns   txt string, label in `json` only, because its name is taken"]);
    assert_eq!(
        output.manifest()["columns"],
        json!([{ "name": "txt", "kind": "string" }])
    );
    let told = output.verb("cat", &["a.json"]);
    told.exits(0).says(&[r#"{"label":1,"txt":"x"}"#]);
}

#[test]
fn a_dataset_that_grows_refuses_columns_that_its_shards_do_not_have() {
    let table = |year: &str| format!("file_name,label,year\na.jpg,cat,2024\nb.jpg,dog,{year}\n");
    let data = Dataset::new()
        .pictures(&["a.jpg", "b.jpg"])
        .file("metadata.csv", table("2025"));
    let (data, output) = data.convert_kept(&["--format", "parquet"]);
    let data = data.file("metadata.csv", table("about"));
    data.convert_to(&output.path, &["--format", "parquet"])
        .exits(3)
        .says(&["before year int64, now year string", "--full"]);
    data.convert_to(&output.path, &["--format", "parquet", "--full"])
        .exits(0);
}

#[test]
fn more_columns_than_a_parquet_shard_has_room_for_are_refused() {
    let header: Vec<String> = (0..1001).map(|n| format!("c{n}")).collect();
    let table = format!(
        "file_name,{}\na.jpg{}\n",
        header.join(","),
        ",".repeat(1001)
    );
    let data = Dataset::new()
        .pictures(&["a.jpg"])
        .file("metadata.csv", table);
    let flags = ["--layout", "metadata", "--format", "parquet"];
    data.refuses(&flags, 3, &["1001 columns", "at most 1000"]);
}
