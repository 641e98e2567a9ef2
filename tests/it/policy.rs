//! Damaged samples: all of them listed, nothing published, and left out only when asked for.

use std::fs;

use serde_json::Value;

use crate::support::{Dataset, digests, files, manifest, picture, png, run, shardpack, stamps};

/// Forty samples in eight shards, three of them damaged.
fn damaged() -> Dataset {
    let whole = picture("cut");
    Dataset::new()
        .class("cat", 20)
        .class("dog", 17)
        .file("dog/cut.jpg", &whole[..whole.len() - 300])
        .file("dog/text.jpg", "this is a text, whatever its name says")
        .file("dog/zeros.jpg", [0; 2000])
}

const EIGHT: [&str; 2] = ["--shard-samples", "5"];

#[test]
fn all_damaged_samples_are_listed_and_nothing_is_published() {
    let data = damaged();
    let destination = data.fresh();
    let run = data.convert_to(&destination, &EIGHT);
    run.exits(3).says(&[
        "3 samples cannot be packed, nothing was published",
        "dog/cut.jpg: ",
        "dog/text.jpg: ",
        "dog/zeros.jpg: ",
        "--on-error skip",
    ]);
    assert!(!destination.join("manifest.json").exists());
    assert!(!destination.join("README.md").exists());
    let records = files(&destination.join("index")).len();
    assert!((5..8).contains(&records), "{records} of 8 shards are kept");
    assert_eq!(files(&destination.join("data")).len(), records);
}

#[test]
fn intact_shards_are_kept_and_reused_when_damaged_samples_are_skipped() {
    let data = damaged();
    let destination = data.fresh();
    data.convert_to(&destination, &EIGHT).exits(3);
    let kept = stamps(&destination.join("data"));
    let flags = [&EIGHT[..], &["--on-error", "skip"]].concat();
    data.convert_to(&destination, &flags).exits(0).says(&[
        &format!("{} shards were already done", kept.len()),
        "3 skipped",
        "dog/cut.jpg",
    ]);
    let now = stamps(&destination.join("data"));
    assert_eq!(now.len(), 8);
    assert!(kept.iter().all(|(path, stamp)| now[path] == *stamp));

    let manifest = manifest(&destination);
    assert_eq!(manifest["samples"], 37);
    let skipped = remarks(&manifest["skipped"]);
    let names: Vec<_> = skipped.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["dog/cut.jpg", "dog/text.jpg", "dog/zeros.jpg"]);
    assert!(
        skipped.iter().all(|(_, reason)| !reason.is_empty()),
        "{skipped:?}"
    );
    assert!(
        skipped[0].1.contains("truncated") || skipped[0].1.contains("cut"),
        "{skipped:?}"
    );

    // The same as a run that skipped from the start.
    assert_eq!(digests(&destination), data.convert(&flags).digests());
}

#[test]
fn a_dataset_with_skipped_samples_verifies_against_its_source() {
    let data = damaged();
    let output = data.convert(&["--on-error", "skip"]);
    let source = data.source();
    let source = source.to_str().unwrap();
    output
        .verify(&["--level", "source", "--source", source])
        .exits(0);
    output.verb("inspect", &[]).exits(0).says(&["skipped   3"]);
}

#[test]
fn a_page_shows_what_can_be_seen_of_skipped_samples() {
    let data = damaged();
    let output = data.convert(&["--on-error", "skip"]);
    let page = data.fresh().with_extension("html");
    let skipped = |more: &[&str]| {
        output
            .verb("report", &[&["-o", page.to_str().unwrap()], more].concat())
            .exits(0);
        let page = fs::read_to_string(&page).unwrap();
        let from = page.find("Skipped: 3").unwrap();
        let end = page[from..].find("</section>").unwrap();
        page[from..from + end].to_owned()
    };
    let without = skipped(&[]);
    assert!(
        !without.contains("<img") && !without.contains("no picture"),
        "{without}"
    );
    let source = data.source();
    let with = skipped(&["--source", source.to_str().unwrap()]);
    assert!(
        with.contains("<span class=\"none\" title=\"dog/text\">no picture"),
        "{with}"
    );
    assert_eq!(with.matches("title=\"dog/").count(), 3, "{with}");
}

#[test]
fn no_more_samples_are_skipped_than_allowed() {
    let data = damaged();
    let skip = ["--on-error", "skip", "--max-skipped"];
    let destination = data.fresh();
    data.convert_to(&destination, &[&skip[..], &["2"]].concat())
        .exits(3)
        .says(&["`--max-skipped 2` is used up", "raise it"]);
    assert!(!destination.join("manifest.json").exists());
    data.convert_to(&destination, &[&skip[..], &["3"]].concat())
        .exits(0);
    data.convert_to(&data.fresh(), &[&skip[..], &["0"]].concat())
        .exits(3);
}

#[test]
fn the_limit_of_skipped_samples_counts_those_of_earlier_runs() {
    let data = damaged();
    let destination = data.fresh();
    let flags = |limit| {
        [
            "--shard-samples",
            "1",
            "--on-error",
            "skip",
            "--max-skipped",
            limit,
        ]
    };
    data.convert_to(&destination, &flags("2")).exits(3);
    data.convert_to(&destination, &flags("2"))
        .exits(3)
        .says(&["--max-skipped 2"]);
    data.convert_to(&destination, &flags("3")).exits(0);
    assert_eq!(manifest(&destination)["samples"], 37);
}

#[test]
fn an_image_that_is_named_as_another_format_is_packed_and_told() {
    let data = Dataset::new()
        .class("cat", 3)
        .file("cat/really.JPEG", png(200));
    let output = data.convert(&[]);
    output
        .run
        .says(&["1 odd", "cat/really.JPEG: is png, named as jpeg"]);
    assert_eq!(output.member("cat/really", "jpg"), png(200));
    let odd = remarks(&output.manifest()["odd"]);
    assert_eq!(
        odd,
        [(
            "cat/really.JPEG".to_owned(),
            "is png, named as jpeg".to_owned()
        )]
    );
    assert_eq!(output.row("cat/really")["format"], "png");
    assert_eq!(output.row("cat/really")["width"], 9);
}

#[test]
fn without_validation_anything_is_packed() {
    let data = damaged();
    let output = data.convert(&["--validate", "none"]);
    assert_eq!(output.manifest()["samples"], 40);
    assert_eq!(output.member("dog/zeros", "jpg"), [0; 2000]);
    assert_eq!(output.row("cat/0000")["width"], Value::Null);
    output.verify(&[]).exits(0);
}

#[test]
fn only_decoding_finds_damage_between_the_ends() {
    let mut bytes = png(77);
    // A byte of the compressed pixels: the chunk's CRC and the pixels are wrong, both ends are whole.
    let at = bytes.windows(4).position(|name| name == b"IDAT").unwrap() + 8;
    bytes[at] ^= 0xFF;
    let data = Dataset::new().class("cat", 3).file("cat/scan.png", &bytes);
    data.convert(&["--validate", "header"]);
    let destination = data.fresh();
    data.convert_to(&destination, &["--validate", "decode"])
        .exits(3)
        .says(&["1 sample cannot be packed", "cat/scan.png"]);
    let output = data.convert(&["--validate", "decode", "--on-error", "skip"]);
    assert_eq!(output.manifest()["samples"], 3);
}

#[test]
fn decoding_finds_a_jpeg_whose_tables_are_destroyed() {
    let mut bytes = picture("tables");
    let scan = bytes
        .windows(2)
        .rposition(|marker| marker == [0xFF, 0xDA])
        .unwrap();
    let tables = bytes[..scan]
        .windows(2)
        .rposition(|marker| marker == [0xFF, 0xC4])
        .unwrap();
    // Code lengths that no Huffman table can have.
    bytes[tables + 5..tables + 21].fill(0xFF);
    let data = Dataset::new()
        .class("cat", 3)
        .file("cat/tables.jpg", &bytes);
    data.convert_to(&data.fresh(), &["--validate", "decode"])
        .exits(3)
        .says(&["cat/tables.jpg"]);
}

#[test]
fn a_run_that_decodes_everything_packs_the_same_shards() {
    let data = Dataset::new().class("cat", 5).file("cat/x.png", png(3));
    let decoded = data.convert(&["--validate", "decode"]);
    assert_eq!(decoded.tars(), data.convert(&[]).tars());
    assert_eq!(decoded.tars(), data.convert(&["--validate", "none"]).tars());
}

fn remarks(list: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let remark = |remark: &Value| (text(&remark["path"]), text(&remark["reason"]));
    // They come in the order of the shards.
    let mut remarks: Vec<_> = list.as_array().unwrap().iter().map(remark).collect();
    remarks.sort();
    remarks
}

/// A file of so many bytes that takes no room.
fn hollow(path: &std::path::Path, bytes: u64) {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    crate::support::set_modified(path, 0);
}

#[test]
fn files_that_a_format_cannot_take_are_refused_at_planning_and_skipped_when_asked() {
    const MIB: u64 = 1 << 20;
    // Format, sidecars that are too large, together or each, and what is said of that.
    let cases: [(&str, &[u64], &str); 5] = [
        (
            "parquet",
            &[5 * MIB],
            "a column beside the image takes 4 MiB",
        ),
        (
            "parquet",
            &[3000 * MIB],
            "a column beside the image takes 4 MiB",
        ),
        ("tfrecord", &[2048 * MIB], "protobuf messages end at 2 GiB"),
        (
            "tfrecord",
            &[1200 * MIB, 1200 * MIB],
            "in all files of the sample; protobuf",
        ),
        ("wds", &[8192 * MIB], "ends at 8 GiB"),
    ];
    for (format, sizes, why) in cases {
        let names = &["npy", "bin"][..sizes.len()];
        let mut data = Dataset::new().class("cat", 4);
        for i in 0..4 {
            for name in names {
                data = data.file(format!("cat/{i:04}.{name}"), "small");
            }
        }
        for i in [1, 3] {
            for (name, size) in names.iter().zip(sizes) {
                hollow(&data.source().join(format!("cat/{i:04}.{name}")), *size);
            }
        }
        let flags = ["--format", format];
        let mut plan = shardpack(&["plan"]);
        let place = data.fresh();
        plan.arg(data.source()).arg(&place).args(flags);
        run(&mut plan).exits(3).says(&[
            "2 problems, nothing was written",
            "too large for this format (2)",
            "cat/0001.",
            "cat/0003.",
            why,
            "--on-error skip",
        ]);
        assert!(!place.exists());
        let output = data.convert(&[&flags[..], &["--on-error", "skip"]].concat());
        let skipped = output.manifest()["skipped"].clone();
        let mut keys: Vec<_> = skipped
            .as_array()
            .unwrap()
            .iter()
            .map(|sample| sample["key"].as_str().unwrap())
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, ["cat/0001", "cat/0003"], "{format}");
        assert!(
            skipped[0]["reason"].as_str().unwrap().contains(why),
            "{skipped}"
        );
        output
            .verify(&[
                "--level",
                "source",
                "--source",
                data.source().to_str().unwrap(),
            ])
            .exits(0);
    }
}

#[test]
fn an_image_over_four_mebibytes_is_no_sidecar() {
    let data = Dataset::new().class("cat", 2).file(
        "cat/large.jpg",
        crate::support::padded_picture("large", 5 << 20),
    );
    data.convert(&["--format", "parquet"]);
}
