//! Every format with every compression, sets that are awkward for one of them, reader indexes, and shards of others.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Dataset, Output, files, flip, picture, png, run, shardpack};

/// What readers can meet, each with the flags that make it.
const MATRIX: [&[&str]; 12] = [
    &[],
    &["--compress", "zstd"],
    &["--compress", "zstd:9", "--zstd-seekable"],
    &["--compress", "gzip"],
    &["--format", "tfrecord"],
    &["--format", "tfrecord", "--compress", "zstd:1"],
    &[
        "--format",
        "tfrecord",
        "--compress",
        "zstd",
        "--zstd-seekable",
    ],
    &["--format", "tfrecord", "--compress", "gzip:1"],
    &["--format", "tfrecord", "--schema", "tfds"],
    &[
        "--format",
        "tfrecord",
        "--schema",
        "tfds",
        "--compress",
        "zstd",
    ],
    &[
        "--format",
        "tfrecord",
        "--schema",
        "tfds",
        "--label-base",
        "1",
    ],
    &["--format", "parquet"],
];

/// Classes, splits, sidecars of every sample, and pictures of several formats.
fn varied() -> Dataset {
    let mut data = Dataset::new();
    for (split, class, count) in [
        ("train", "cat", 30),
        ("train", "dög x", 17),
        ("val", "cat", 9),
    ] {
        for number in 0..count {
            let stem = format!("{split}/{class}/{number:03}");
            data = match number % 7 {
                3 => data.file(format!("{stem}.png"), png(number as u8)),
                _ => data.file(format!("{stem}.JPEG"), picture(&stem)),
            };
            data = data
                .file(format!("{stem}.txt"), format!("number {number}, größer"))
                .file(format!("{stem}.json"), format!("{{\"number\": {number}}}"));
        }
    }
    data
}

fn with<'a>(flags: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [flags, more].concat()
}

#[track_caller]
fn holds(data: &Dataset, output: &Output) {
    let source = data.source();
    let source = source.to_str().unwrap();
    for level in [
        &["--level", "data"][..],
        &["--level", "source", "--source", source],
    ] {
        output.verify(level).exits(0).says(&["result   intact"]);
    }
}

#[test]
fn every_format_and_compression_gives_the_same_bytes_for_any_jobs_and_holds_the_source() {
    let data = varied();
    for flags in MATRIX {
        let one = data.convert(&with(
            flags,
            &["--shard-size", "30kB", "--jobs", "1", "--reads", "1"],
        ));
        let many = data.convert(&with(flags, &["--shard-size", "30kB", "--jobs", "7"]));
        assert_eq!(one.digests(), many.digests(), "{flags:?}");
        assert!(one.shards().len() > 3, "{flags:?}");
        holds(&data, &one);
    }
}

#[test]
fn every_sample_comes_out_of_every_format_and_compression_as_it_went_in() {
    let data = varied();
    for flags in MATRIX {
        let output = data.convert(&with(flags, &["--shards", "2"]));
        for (key, file) in [
            ("train/cat/000", "000.JPEG"),
            ("train/cat/003", "003.png"),
            ("val/cat/008", "008.JPEG"),
        ] {
            let dir = data.source().join(Path::new(key).parent().unwrap());
            let run = output.verb("cat", &[key]);
            run.exits(0);
            assert_eq!(
                run.bytes,
                fs::read(dir.join(file)).unwrap(),
                "{flags:?} {key}"
            );
            let run = output.verb("cat", &[key, "--field", "txt"]);
            assert!(
                run.out.starts_with("number "),
                "{flags:?} {key}: {}",
                run.out
            );
        }
    }
}

#[test]
fn damage_anywhere_is_found_in_every_format_and_compression() {
    let data = varied();
    for flags in MATRIX {
        let output = data.convert(&with(flags, &["--shards", "1"]));
        let shard = &output.shards()[0];
        let good = fs::read(shard).unwrap();
        let name = shard.file_name().unwrap().to_str().unwrap();
        let length = good.len() as u64;
        for at in (0..40).map(|i| i * (length - 1) / 39) {
            flip(shard, at);
            output.verify(&[]).exits(4).says(&[name]);
            fs::write(shard, &good).unwrap();
        }
        for end in [0, 1, length / 3, length - 1] {
            fs::write(shard, &good[..end as usize]).unwrap();
            output.verify(&[]).exits(4).says(&[name]);
        }
        fs::write(shard, [&good[..], b"more"].concat()).unwrap();
        output.verify(&[]).exits(4).says(&[name]);
    }
}

#[test]
fn a_killed_run_of_every_format_and_compression_is_resumed_to_the_same_bytes() {
    let data = varied();
    for (number, flags) in MATRIX.iter().enumerate() {
        let flags = with(flags, &["--shard-samples", "3", "--jobs", "2"]);
        let whole = data.convert(&flags).digests();
        let place = data.fresh();
        let mut child = data.command(&place, &flags).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5 + 7 * number as u64));
        let _ = child.kill();
        let status = child.wait().unwrap();
        assert!(status.success() || status.signal() == Some(9));
        data.convert_to(&place, &flags).exits(0);
        assert_eq!(crate::support::digests(&place), whole, "{flags:?}");
    }
}

#[test]
fn a_skipped_sample_leaves_a_frame_that_says_its_true_length() {
    let cut = picture("cut");
    let data = Dataset::new()
        .class("cat", 12)
        .file("cat/cut.jpg", &cut[..cut.len() - 80]);
    for format in ["wds", "tfrecord"] {
        let flags = [
            "--format",
            format,
            "--compress",
            "zstd",
            "--on-error",
            "skip",
            "--shards",
            "2",
        ];
        let output = data.convert(&flags);
        let manifest = output.manifest();
        assert_eq!(manifest["skipped"].as_array().unwrap().len(), 1);
        assert_eq!(manifest["samples"], 12);
        for (shard, entry) in output
            .shards()
            .iter()
            .zip(manifest["splits"][0]["shards"].as_array().unwrap())
        {
            let packed = fs::read(shard).unwrap();
            let said = zstd::zstd_safe::get_frame_content_size(&packed).unwrap();
            let unpacked = zstd::stream::decode_all(&packed[..]).unwrap();
            assert_eq!(said, Some(unpacked.len() as u64));
            assert_eq!(entry["unpacked_bytes"], unpacked.len());
        }
        output.verify(&[]).exits(0);
    }
}

#[test]
fn a_bomb_in_place_of_a_shard_is_damage_and_takes_no_memory() {
    let data = Dataset::new().class("cat", 3);
    let zeros = vec![0; 64 << 20];
    for (method, bomb) in [
        ("zstd", zstd::stream::encode_all(&zeros[..], 3).unwrap()),
        ("gzip", {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
            std::io::Write::write_all(&mut encoder, &zeros).unwrap();
            encoder.finish().unwrap()
        }),
    ] {
        let output = data.convert(&["--compress", method]);
        fs::write(&output.shards()[0], bomb).unwrap();
        output.verify(&[]).exits(4).says(&["another size"]);
        output.verb("cat", &["cat/0000"]).exits(4);
    }
}

#[test]
fn one_sample_one_class_and_more_shards_than_samples_work_in_every_format() {
    for (data, shards) in [
        (Dataset::new().class("only", 1), "1"),
        (Dataset::new().class("only", 3), "8"),
    ] {
        for flags in MATRIX {
            let output = data.convert(&with(flags, &["--shards", shards]));
            assert_eq!(
                output.shards().len(),
                data.source().join("only").read_dir().unwrap().count()
            );
            holds(&data, &output);
        }
    }
}

/// JPEGs in one channel and in four, and a PNG of 16 bits.
fn odd_pictures() -> Dataset {
    use image::codecs::jpeg::JpegEncoder;
    let mut grey = Vec::new();
    let image = image::GrayImage::from_fn(20, 10, |x, y| image::Luma([(x * y) as u8]));
    image
        .write_with_encoder(JpegEncoder::new(&mut grey))
        .unwrap();
    let mut deep = std::io::Cursor::new(Vec::new());
    let image = image::ImageBuffer::from_fn(20, 10, |x, y| image::Luma([(x * y * 300) as u16]));
    image.write_to(&mut deep, image::ImageFormat::Png).unwrap();
    let mut webp = std::io::Cursor::new(Vec::new());
    let image = image::RgbImage::from_fn(20, 10, |x, _| image::Rgb([x as u8, 0, 0]));
    image.write_to(&mut webp, image::ImageFormat::WebP).unwrap();
    Dataset::new()
        .file("a/grey.jpg", grey)
        .file("a/deep.png", deep.into_inner())
        .file("b/small.webp", webp.into_inner())
        .file("b/cmyk.jpg", cmyk())
        .file("b/usual.png", png(3))
}

/// A JPEG with four components: the usual one with its frame header changed, which is all that a header says of it.
fn cmyk() -> Vec<u8> {
    let mut jpeg = picture("cmyk");
    let frame = jpeg
        .windows(2)
        .position(|pair| pair == [0xFF, 0xC0])
        .unwrap();
    let length = u16::from_be_bytes([jpeg[frame + 2], jpeg[frame + 3]]);
    assert_eq!(jpeg[frame + 9], 3, "components");
    jpeg[frame + 9] = 4;
    jpeg[frame + 2..frame + 4].copy_from_slice(&(length + 3).to_be_bytes());
    jpeg.splice(
        frame + 2 + usize::from(length)..frame + 2 + usize::from(length),
        [4, 0x11, 0],
    );
    jpeg
}

#[test]
fn pictures_of_every_kind_are_packed_as_they_are() {
    let data = odd_pictures();
    for flags in MATRIX {
        let output = data.convert(flags);
        holds(&data, &output);
        for (key, file) in [
            ("a/deep", "a/deep.png"),
            ("b/cmyk", "b/cmyk.jpg"),
            ("b/small", "b/small.webp"),
        ] {
            assert_eq!(
                output.verb("cat", &[key]).bytes,
                fs::read(data.source().join(file)).unwrap()
            );
        }
    }
}

#[test]
fn ten_thousand_classes_with_names_of_every_script_work_in_every_format() {
    let mut data = Dataset::new();
    for class in 0..10_000 {
        data = data.file(
            format!("κλάση {class:04} 猫/x.png"),
            png((class % 250) as u8),
        );
    }
    for flags in [&MATRIX[0], &MATRIX[4], &MATRIX[11]] {
        let output = data.convert(&with(
            flags,
            &["--index", if flags.is_empty() { "wids" } else { "" }],
        ));
        assert_eq!(
            output.manifest()["classes"].as_array().unwrap().len(),
            10_000
        );
        holds(&data, &output);
    }
}

#[test]
fn missing_sidecars_are_refused_or_filled_or_left() {
    let data = Dataset::new()
        .class("cat", 5)
        .file("cat/0001.txt", "a cat")
        .file("cat/0002.json", "{\"n\": 1}");
    for flags in [&MATRIX[0], &MATRIX[4], &MATRIX[11]] {
        data.refuses(
            flags,
            3,
            &[
                "4 of 5 samples have no `txt` file",
                "cat/0000.jpg",
                "4 of 5 samples have no `json`",
            ],
        );
        let output = data.convert(&with(flags, &["--missing-fields", "fill"]));
        holds(&data, &output);
        let cat = |key: &str| output.verb("cat", &[key]).out;
        let got = [
            "cat/0001.txt",
            "cat/0000.txt",
            "cat/0002.json",
            "cat/0003.json",
        ]
        .map(cat);
        assert_eq!(got, ["a cat", "", "{\"n\": 1}", "{}"]);
    }
    let kept = data.convert(&["--missing-fields", "keep"]);
    kept.run.says(&["only 1 of 5 samples have a `txt` file"]);
    kept.verb("cat", &["cat/0000", "--field", "txt"]).exits(1);
    data.refuses(
        &["--format", "parquet", "--missing-fields", "keep"],
        2,
        &["use `fill`"],
    );
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let data = Dataset::new()
        .class("cat", 2)
        .file("cat/0000.txt", b"\xff")
        .file("cat/0001.txt", "x");
    for (flags, words) in [
        (&["--compress", "lz4"][..], "write none, zstd"),
        (&["--compress", "zstd:20"], "no such level"),
        (
            &["--compress", "gzip", "--zstd-seekable"],
            "add `--compress zstd`",
        ),
        (&["--schema", "tfds"], "add `--format tfrecord`"),
        (&["--label-base", "1"], "add `--format tfrecord`"),
        (
            &["--format", "tfrecord", "--label-base", "2"],
            "begin with 0 or 1",
        ),
        (&["--format", "tfrecord", "--add-json"], "drop it"),
        (
            &["--format", "tfrecord", "--validate", "none"],
            "--schema tfds",
        ),
        (&["--format", "parquet", "--compress", "zstd"], "drop it"),
        (
            &["--index", "dali", "--compress", "zstd"],
            "a DALI index points into the shard itself: drop `--compress`",
        ),
        (
            &["--index", "wids", "--format", "tfrecord"],
            "use `--format wds`",
        ),
        (&["--index", "tfds"], "use `--format tfrecord`"),
        (&["--index", "litdata"], "choose from dali"),
    ] {
        data.refuses(flags, 2, &[words]);
    }
    let text = data.convert_to(&data.fresh(), &["--format", "parquet"]);
    text.exits(3).says(&["cat/0000.txt: not UTF-8"]);
}

#[test]
fn a_dry_run_says_what_compression_would_save() {
    let mut pictures = Dataset::new();
    for number in 0..9 {
        let large = crate::support::padded_picture(&format!("large {number}"), 90_000);
        pictures = pictures.file(format!("cat/{number}.jpg"), large);
    }
    let dry = |data: &Dataset, flags: &[&str]| {
        data.convert_to(&data.fresh(), &with(flags, &["--dry-run"]))
    };
    dry(&pictures, &[])
        .exits(0)
        .says(&["compress  zstd:3 would save ", "not worth it"]);
    let mut texts = Dataset::new().class("cat", 30);
    for number in 0..30 {
        texts = texts.file(
            format!("cat/{number:04}.txt"),
            "the same words again and again. ".repeat(900),
        );
    }
    let run = dry(&texts, &["--compress", "gzip:9"]);
    run.exits(0).says(&["compress  gzip:9 saves "]);
    assert!(!run.out.contains("not worth it"), "{}", run.out);
    let warned = pictures.convert(&["--format", "tfrecord", "--compress", "zstd"]);
    warned.run.says(&["TensorFlow cannot read zstd"]);
}

#[test]
fn reader_indexes_are_written_named_and_verified() {
    let data = varied();
    let all = "wids,dali,energon,energon-sqlite,timm,openclip";
    let output = data.convert(&["--shards", "2", "--index", all]);
    let manifest = output.manifest();
    let indexes = manifest["indexes"].as_array().unwrap();
    for file in indexes {
        let content = fs::read(output.path.join(file["name"].as_str().unwrap())).unwrap();
        assert_eq!(content.len() as u64, file["bytes"].as_u64().unwrap());
        assert_eq!(format!("{:08x}", crc32fast::hash(&content)), file["crc32"]);
    }
    let again = data.convert(&["--shards", "2", "--index", all]);
    assert_eq!(output.digests(), again.digests());
    output.verify(&["--level", "list"]).exits(0);
    output.verify(&[]).exits(0);
    for file in [
        "data/sizes.json",
        ".nv-meta/index.sqlite",
        "wids-train.json",
    ] {
        flip(&output.path.join(file), 3);
        output.verify(&["--level", "head"]).exits(4).says(&[file]);
        flip(&output.path.join(file), 3);
        fs::rename(output.path.join(file), output.path.join("away")).unwrap();
        output.verify(&["--level", "list"]).exits(4).says(&[file]);
        fs::rename(output.path.join("away"), output.path.join(file)).unwrap();
    }
}

#[test]
fn indexes_added_later_are_those_that_are_made_at_once() {
    let data = varied();
    let at_once = data.convert(&["--shards", "2", "--index", "wids,dali"]);
    let later = data.convert(&["--shards", "2"]);
    later
        .verb("index", &["--index", "dali"])
        .exits(0)
        .says(&["indexed"]);
    later.verb("index", &["--index", "wids"]).exits(0);
    assert_eq!(later.manifest()["snapshot"], 3);
    assert_eq!(later.manifest()["indexes"], at_once.manifest()["indexes"]);
    for file in later.manifest()["indexes"].as_array().unwrap() {
        let name = file["name"].as_str().unwrap();
        let read = |output: &Output| fs::read(output.path.join(name)).unwrap();
        assert_eq!(read(&at_once), read(&later), "{name}");
    }
    let before = later.digests();
    later
        .verb("index", &["--index", "wids"])
        .exits(0)
        .says(&["up to date"]);
    // The conversion that made it finds it done, and takes nothing back.
    data.convert_to(&later.path, &["--shards", "2"]).exits(0);
    assert_eq!(later.digests(), before);
    later.verify(&[]).exits(0);
}

/// The shards of an output alone, as somebody else might have them.
fn bare(data: &Dataset, output: &Output, rename: fn(&str) -> String) -> Output {
    let path = data.fresh();
    for shard in output
        .shards()
        .iter()
        .filter(|path| !path.to_string_lossy().ends_with(".json"))
    {
        let name = rename(shard.file_name().unwrap().to_str().unwrap());
        crate::support::write(&path.join(name), &fs::read(shard).unwrap());
    }
    let run = run(shardpack(&["verify"]).arg(&path));
    run.exits(0)
        .says(&["result   no damage found", "shardpack index"]);
    Output { path, run }
}

#[test]
fn shards_of_somebody_else_get_a_manifest_and_every_verb_works_on_them() {
    let data = varied();
    for (flags, image, index) in [
        (MATRIX[0], "jpg", "wids,dali,energon"),
        (MATRIX[1], "jpg", ""),
        (MATRIX[3], "jpg", "timm"),
        (MATRIX[4], "image/encoded", "dali,tfrecord"),
        (MATRIX[7], "image/encoded", ""),
        (MATRIX[8], "image", ""),
    ] {
        let ours = data.convert(&with(flags, &["--shards", "2"]));
        let theirs = bare(&data, &ours, |name| format!("some/{name}"));
        theirs
            .verb("index", &["--index", index])
            .exits(0)
            .says(&["indexed 56 samples in 4 shards"]);
        theirs.verify(&["--level", "list"]).exits(0);
        theirs.verify(&[]).exits(0).says(&["result   intact"]);
        let manifest = theirs.manifest();
        let names: Vec<_> = manifest["splits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|split| split["name"].clone())
            .collect();
        assert_eq!(names, ["train", "val"]);
        theirs.verb("inspect", &[]).exits(0).says(&["56"]);
        let index = files(&theirs.path.join("index"));
        assert_eq!(index.len(), 4);
        // Of a sample that both know by its content.
        let key = example(&theirs);
        let content = theirs.verb("cat", &[&key, "--field", image]);
        if content.code == 0 {
            assert!(
                content.bytes.starts_with(&[0xFF, 0xD8]) || content.bytes.starts_with(b"\x89PNG"),
                "{key}"
            );
        }
        let shard = files(&theirs.path.join("some"))
            .into_iter()
            .find(|path| !path.to_string_lossy().contains("idx"))
            .unwrap();
        flip(&shard, fs::metadata(&shard).unwrap().len() / 2);
        theirs.verify(&[]).exits(4);
    }
}

/// A key that `inspect` names when asked for one that is not there.
fn example(output: &Output) -> String {
    let run = output.verb("inspect", &["no such key"]);
    run.exits(1);
    let (_, key) = run.err.rsplit_once("keys look like `").unwrap();
    key.split('`').next().unwrap().to_owned()
}

#[test]
fn damaged_or_mixed_shards_of_somebody_else_get_no_manifest() {
    let data = Dataset::new().class("cat", 9);
    let ours = data.convert(&["--shards", "3"]);
    let theirs = bare(&data, &ours, str::to_owned);
    let shard = &files(&theirs.path)[1];
    let good = fs::read(shard).unwrap();
    fs::write(shard, &good[..good.len() - 700]).unwrap();
    theirs
        .verb("index", &[])
        .exits(4)
        .says(&["train-00001.tar", "there is no manifest"]);
    assert!(!theirs.path.join("manifest.json").exists());
    fs::write(shard, &good).unwrap();
    fs::write(theirs.path.join("x.tfrecord"), b"").unwrap();
    theirs.verb("index", &[]).exits(2).says(&["two kinds"]);
    let empty = data.fresh();
    fs::create_dir(&empty).unwrap();
    run(shardpack(&["index"]).arg(&empty))
        .exits(1)
        .says(&["no tars and no TFRecords"]);
}

#[test]
fn names_for_people_are_features_and_in_the_card() {
    let data = Dataset::new().class("n01", 2).class("n02", 2);
    let file = data.place("names.txt");
    fs::write(&file, "n01 tench, Tinca tinca\nn02 goldfish\nn03 unused\n").unwrap();
    let file = file.to_str().unwrap();
    let output = data.convert(&["--format", "tfrecord", "--class-names", file]);
    assert_eq!(
        output.manifest()["class_texts"],
        serde_json::json!(["tench, Tinca tinca", "goldfish"])
    );
    let shard = fs::read(&output.shards()[0]).unwrap();
    assert!(
        shard
            .windows(20)
            .any(|bytes| bytes == b"\n\x12tench, Tinca tinca")
    );
    holds(&data, &output);
    fs::write(data.place("names.txt"), "n01 tench\n").unwrap();
    data.refuses(
        &["--class-names", file],
        2,
        &["no name for 1 of 2 classes, `n02` for example"],
    );
}

#[test]
fn rows_of_seekable_shards_point_at_frames_that_hold_the_sample() {
    let data = varied();
    let output = data.convert(&["--compress", "zstd", "--zstd-seekable", "--shards", "1"]);
    let row: Value = output.row("train/cat/000");
    assert!(row["frame"]["length"].as_u64().unwrap() > 0, "{row}");
    assert!(output.row("val/cat/000")["frame"].is_object());
    let plain = data.convert(&["--shards", "1"]);
    assert!(plain.row("train/cat/000")["frame"].is_null());
}

#[test]
fn a_conversion_never_writes_over_shards_of_others() {
    let (_other, output) = Dataset::new().class("other", 3).convert_kept(&[]);
    let data = Dataset::new().class("cat", 3);
    let place = data.fresh();
    let shard = place.join("data/train-00000.tar");
    fs::create_dir_all(shard.parent().unwrap()).unwrap();
    fs::copy(&output.shards()[0], &shard).unwrap();
    run(shardpack(&["index", "--index", "wids"]).arg(&place)).exits(0);
    for flags in [&[][..], &["--full"]] {
        data.convert_to(&place, flags)
            .exits(10)
            .says(&["shards of others"]);
        assert_eq!(
            fs::read(&shard).unwrap(),
            fs::read(&output.shards()[0]).unwrap()
        );
    }
}
