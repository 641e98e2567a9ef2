//! Damage is found and named, at the level that promises it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::support::{
    Dataset, Output, Random, flip, members, picture, run, set_modified, shardpack,
};

const LEVELS: [&str; 3] = ["list", "head", "data"];

/// Two classes in four shards.
fn converted() -> (Dataset, Output) {
    let data = Dataset::new().class("cat", 12).class("dog", 12);
    let output = data.convert(&["--shards", "4", "--sha256"]);
    (data, output)
}

fn source_level(data: &Dataset, output: &Output) -> crate::support::Run {
    let source = data.source();
    output.verify(&["--level", "source", "--source", source.to_str().unwrap()])
}

/// Damages a dataset; every level from `promised` on must exit with 4 and say these words.
fn found(promised: &str, words: &[&str], damage: impl Fn(&Path)) {
    let (data, output) = converted();
    damage(&output.path);
    let first = LEVELS.iter().position(|level| *level == promised).unwrap();
    for level in &LEVELS[first..] {
        let run = output.verify(&["--level", level]);
        run.exits(4).says(words);
        assert!(run.out.contains("DAMAGE"), "{level}: {}", run.out);
    }
    source_level(&data, &output).exits(4).says(words);
}

#[test]
fn an_intact_dataset_is_intact_at_every_level() {
    let (data, output) = converted();
    for level in LEVELS {
        output
            .verify(&["--level", level])
            .exits(0)
            .says(&["4 shards, 24 samples", "intact"]);
    }
    output.verify(&[]).exits(0).says(&["level    data"]);
    source_level(&data, &output)
        .exits(0)
        .says(&["intact", "level    source"]);
    // The source may be given as the second argument as well.
    output
        .verify(&[data.source().to_str().unwrap(), "--level", "source"])
        .exits(0);
}

#[test]
fn a_flipped_byte_anywhere_in_a_shard_is_found_with_its_sample() {
    let (_data, output) = converted();
    let shard = &output.shards()[2];
    let starts: Vec<(u64, String)> = members(shard)
        .into_iter()
        .map(|member| (member.start, member.key))
        .collect();
    let length = fs::metadata(shard).unwrap().len();
    let mut random = Random::new(5);
    let mut offsets: Vec<u64> = (0..40).map(|_| random.below(length)).collect();
    offsets.extend([
        0,
        100,
        148,
        156,
        257,
        length - 1,
        length - 1024,
        length - 1025,
    ]);
    for offset in offsets {
        flip(shard, offset);
        output.verify(&["--level", "list"]).exits(0);
        output
            .verify(&["--level", "head"])
            .exits(4)
            .says(&["data/train-00002.tar"]);
        let run = output.verify(&["--json"]);
        run.exits(4);
        let report = run.json();
        let finding = &report["findings"][0];
        assert_eq!(
            finding["object"], "data/train-00002.tar",
            "offset {offset}: {report}"
        );
        if offset < length - 1024 {
            let key = &starts
                .iter()
                .rfind(|(start, _)| *start <= offset)
                .unwrap()
                .1;
            assert_eq!(finding["sample"], key.as_str(), "offset {offset}: {report}");
            let range = [0, 1].map(|end| finding["range"][end].as_u64().unwrap());
            assert!(
                range[0] <= offset && offset < range[1],
                "offset {offset}: {report}"
            );
        }
        flip(shard, offset);
    }
    output.verify(&[]).exits(0);
}

#[test]
fn a_flipped_byte_anywhere_in_an_index_is_found() {
    let (_data, output) = converted();
    let index = output.path.join("index/train-00001.parquet");
    let length = fs::metadata(&index).unwrap().len();
    let mut random = Random::new(6);
    for _ in 0..20 {
        let offset = random.below(length);
        flip(&index, offset);
        for level in ["head", "data"] {
            output
                .verify(&["--level", level])
                .exits(4)
                .says(&["index/train-00001.parquet", "crc32"]);
        }
        flip(&index, offset);
    }
    output.verify(&[]).exits(0);
}

#[test]
fn a_truncated_shard_is_found() {
    found(
        "list",
        &["data/train-00001.tar", "another size", "bytes, found"],
        |path| {
            let file = File::options()
                .write(true)
                .open(path.join("data/train-00001.tar"))
                .unwrap();
            file.set_len(file.metadata().unwrap().len() - 5000).unwrap();
        },
    );
}

#[test]
fn an_extended_shard_is_found() {
    found("list", &["data/train-00001.tar", "another size"], |path| {
        let shard = path.join("data/train-00001.tar");
        File::options()
            .append(true)
            .open(shard)
            .unwrap()
            .write_all(&[0; 512])
            .unwrap();
    });
}

#[test]
fn a_missing_shard_is_found() {
    found("list", &["data/train-00003.tar", "missing"], |path| {
        fs::remove_file(path.join("data/train-00003.tar")).unwrap();
    });
}

#[test]
fn a_missing_index_is_found() {
    found("list", &["index/train-00000.parquet", "missing"], |path| {
        fs::remove_file(path.join("index/train-00000.parquet")).unwrap();
    });
}

#[test]
fn a_shard_that_nobody_recorded_is_found() {
    found(
        "list",
        &["data/train-00004.tar", "not in the manifest"],
        |path| {
            fs::copy(
                path.join("data/train-00000.tar"),
                path.join("data/train-00004.tar"),
            )
            .unwrap();
        },
    );
}

#[test]
fn swapped_shards_are_found() {
    found(
        "head",
        &["data/train-00000.tar", "data/train-00001.tar"],
        |path| {
            let [a, b, c] =
                ["train-00000.tar", "train-00001.tar", "c"].map(|n| path.join("data").join(n));
            fs::rename(&a, &c).unwrap();
            fs::rename(&b, &a).unwrap();
            fs::rename(&c, &b).unwrap();
        },
    );
}

#[test]
fn swapped_indexes_are_found() {
    found(
        "head",
        &["index/train-00000.parquet", "index/train-00001.parquet"],
        |path| {
            let [a, b, c] = ["train-00000.parquet", "train-00001.parquet", "c"]
                .map(|n| path.join("index").join(n));
            fs::rename(&a, &c).unwrap();
            fs::rename(&b, &a).unwrap();
            fs::rename(&c, &b).unwrap();
        },
    );
}

#[test]
fn an_edited_manifest_is_found() {
    found(
        "list",
        &[
            "manifest.json",
            "differs from _shardpack/snapshots/00000001.json",
        ],
        |path| {
            let manifest = path.join("manifest.json");
            let text = fs::read_to_string(&manifest).unwrap();
            let edited = text.replace("\"cat\"", "\"cow\"");
            assert_ne!(text, edited);
            fs::write(manifest, edited).unwrap();
        },
    );
}

#[test]
fn a_manifest_and_snapshot_that_leave_out_a_shard_are_found() {
    found(
        "list",
        &["data/train-00003.tar", "not in the manifest"],
        |path| {
            for name in ["manifest.json", "_shardpack/snapshots/00000001.json"] {
                let mut manifest: Value =
                    serde_json::from_slice(&fs::read(path.join(name)).unwrap()).unwrap();
                manifest["splits"][0]["shards"]
                    .as_array_mut()
                    .unwrap()
                    .pop();
                fs::write(
                    path.join(name),
                    serde_json::to_vec_pretty(&manifest).unwrap(),
                )
                .unwrap();
            }
        },
    );
}

#[test]
fn a_manifest_that_points_outside_is_refused() {
    for outside in ["../escape.tar", "/etc/passwd", "data/../../x.tar"] {
        let (_data, output) = converted();
        let path = output.path.join("manifest.json");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("data/train-00000.tar", outside)).unwrap();
        output
            .verify(&[])
            .exits(4)
            .says(&["manifest.json: not a manifest", "shardpack repair"]);
    }
}

#[test]
fn a_manifest_that_is_no_json_is_damage() {
    let (_data, output) = converted();
    fs::write(output.path.join("manifest.json"), b"{\"kind\": ").unwrap();
    for verb in ["verify", "inspect"] {
        output
            .verb(verb, &[])
            .exits(4)
            .says(&["manifest.json: not a manifest", "shardpack repair"]);
    }
}

#[test]
fn a_dataset_that_was_never_published_is_not_called_damaged() {
    let data = Dataset::new().class("cat", 2);
    let destination = data.fresh();
    run(shardpack(&["plan"]).arg(data.source()).arg(&destination)).exits(0);
    run(shardpack(&["verify"]).arg(&destination))
        .exits(1)
        .says(&["nothing is published there"]);
}

#[test]
fn the_report_is_json_with_every_detail() {
    let (_data, output) = converted();
    let intact = output.verify(&["--json"]);
    intact.exits(0);
    let report = intact.json();
    assert_eq!(report["intact"], true);
    assert_eq!(report["shards"], 4);
    assert_eq!(report["samples"], 24);
    assert_eq!(report["findings"], serde_json::json!([]));

    let shard = &output.shards()[0];
    let member = members(shard)
        .into_iter()
        .find(|member| member.field == "jpg")
        .unwrap();
    let content = member.start + 512;
    flip(shard, content + 700);
    let run = output.verify(&["--json"]);
    run.exits(4);
    let report = run.json();
    assert_eq!(report["intact"], false);
    assert_eq!(report["level"], "data");
    let finding = &report["findings"][0];
    assert_eq!(finding["object"], "data/train-00000.tar");
    assert_eq!(finding["sample"], member.key.as_str());
    assert_eq!(finding["field"], "jpg");
    let range = serde_json::json!([content, content + member.content.len() as u64]);
    assert_eq!(finding["range"], range);
    assert_eq!(
        finding["expected"],
        format!("{:08x}", crc32fast::hash(&member.content))
    );
    let mut damaged = member.content;
    damaged[700] ^= 0x10;
    assert_eq!(
        finding["actual"],
        format!("{:08x}", crc32fast::hash(&damaged))
    );
}

#[test]
fn all_damage_is_found_in_one_go() {
    let (_data, output) = converted();
    for shard in output.shards() {
        let length = fs::metadata(&shard).unwrap().len();
        flip(&shard, 600);
        flip(&shard, length / 2);
    }
    let run = output.verify(&["--json"]);
    run.exits(4);
    let report = run.json();
    let objects: std::collections::BTreeSet<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["object"].to_string())
        .collect();
    assert_eq!(objects.len(), 4, "{report}");
    assert!(
        report["findings"].as_array().unwrap().len() >= 8,
        "{report}"
    );
}

#[test]
fn a_changed_byte_of_the_source_is_found_even_with_size_and_time_unchanged() {
    let (data, output) = converted();
    flip(&data.source().join("cat/0007.jpg"), 500);
    output.verify(&["--level", "data"]).exits(0);
    source_level(&data, &output).exits(4).says(&[
        "sample `cat/0007` field `jpg`",
        "differs from the source's file",
    ]);
}

#[test]
fn a_source_file_of_another_length_is_found() {
    let (data, output) = converted();
    let path = data.source().join("cat/0007.jpg");
    File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"more")
        .unwrap();
    set_modified(&path, 0);
    source_level(&data, &output)
        .exits(4)
        .says(&["cat/0007", "length"]);
}

#[test]
fn a_removed_source_file_is_found() {
    let (data, output) = converted();
    fs::remove_file(data.source().join("dog/0003.jpg")).unwrap();
    source_level(&data, &output)
        .exits(4)
        .says(&["sample `dog/0003`", "is in the dataset, not in the source"]);
}

#[test]
fn an_added_source_file_is_found() {
    let (data, output) = converted();
    let data = data
        .pictures(&["dog/new.jpg"])
        .file("cat/0001.txt", "sidecar");
    source_level(&data, &output).exits(4).says(&[
        "dog/new.jpg",
        "cat/0001.txt",
        "is in the source, not in the dataset",
    ]);
}

#[test]
fn a_source_that_was_only_touched_or_copied_is_the_same() {
    let (data, output) = converted();
    let copy = data.place("copy");
    crate::support::copy_tree(&data.source(), &copy, 77);
    output
        .verify(&["--level", "source", "--source", copy.to_str().unwrap()])
        .exits(0);
}

#[test]
fn a_source_of_flat_labelled_images_is_compared_without_its_label_file() {
    let data = Dataset::new().pictures(&["a.jpg", "b.jpg"]);
    let labels = data.place("labels.csv");
    fs::write(&labels, "a.jpg,x\nb.jpg,y\n").unwrap();
    let output = data.convert(&["--labels", labels.to_str().unwrap()]);
    source_level(&data, &output).exits(0);
    flip(&data.source().join("b.jpg"), 300);
    source_level(&data, &output).exits(4).says(&["sample `b`"]);
}

/// A tar as others write them.
fn foreign(path: &Path, samples: usize) {
    let mut builder = tar::Builder::new(File::create(path).unwrap());
    for i in 0..samples {
        for (field, content) in [
            ("jpg", picture(&format!("foreign {i}"))),
            ("cls", b"3".to_vec()),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(1_700_000_000);
            builder
                .append_data(&mut header, format!("{i:06}.{field}"), content.as_slice())
                .unwrap();
        }
    }
    builder.finish().unwrap();
}

#[test]
fn tars_of_others_are_checked_as_far_as_they_can_be() {
    let data = Dataset::new();
    let place = data.place("theirs");
    fs::create_dir(&place).unwrap();
    for i in 0..2 {
        foreign(&place.join(format!("shard-{i}.tar")), 8);
    }
    let verify = |flags: &[&str]| run(shardpack(&["verify"]).arg(&place).args(flags));
    verify(&[]).exits(0).says(&[
        "2 shards, 16 samples",
        "unknown  contents",
        "unknown  completeness",
        "no damage found",
    ]);
    let report = verify(&["--json"]);
    report.exits(0);
    assert_eq!(report.json()["unchecked"].as_array().unwrap().len(), 3);

    let shard = place.join("shard-1.tar");
    let whole = fs::read(&shard).unwrap();
    for cut in [whole.len() / 2, whole.len() - 1024, 512, 100] {
        fs::write(&shard, &whole[..cut]).unwrap();
        verify(&[]).exits(4).says(&["DAMAGE", "shard-1.tar"]);
    }
    // A header whose own checksum is wrong.
    fs::write(&shard, &whole).unwrap();
    flip(&shard, 3);
    verify(&[]).exits(4).says(&["DAMAGE", "shard-1.tar"]);
}

#[test]
fn verifying_writes_nothing() {
    let (data, output) = converted();
    let before = crate::support::stamps(&output.path);
    flip(&output.shards()[0], 900);
    let damaged = crate::support::stamps(&output.path);
    for level in LEVELS {
        output.verify(&["--level", level]);
    }
    source_level(&data, &output).exits(4);
    assert_eq!(damaged, crate::support::stamps(&output.path));
    assert_eq!(before.len(), damaged.len());
}

#[test]
fn a_hundredth_at_a_time_covers_everything_in_a_hundred_runs() {
    let data = Dataset::new().class("cat", 13);
    let output = data.convert(&["--shards", "13"]);
    let last = output.shards()[12].clone();
    flip(&last, 700);
    let mut found = 0;
    // Eight percent of 13 shards are two, rounded up.
    for run in 0..7 {
        let run_of = output.verify(&["--sample", "8%"]);
        found += i32::from(run_of.code == 4);
        assert!(
            run_of.out.contains("the content of 11 of 13 shards"),
            "{run}: {}",
            run_of.out
        );
    }
    assert_eq!(found, 1, "the damaged shard is met once in a round");
    flip(&last, 700);
    output
        .verify(&["--sample", "100%"])
        .exits(0)
        .says(&["result   intact\n"]);
    output
        .verify(&["--sample", "0%"])
        .exits(2)
        .says(&["for example 1%"]);
    output
        .verify(&["--level", "list", "--sample", "1%"])
        .exits(2);
}

#[test]
fn a_run_that_ends_at_its_time_is_resumed_where_it_ended() {
    let data = Dataset::new().class("cat", 9);
    let output = data.convert(&["--shards", "9"]);
    flip(&output.shards()[8], 700);
    output.verify(&["--max-duration", "0s"]).exits(0).says(&[
        "the content of 9 of 9 shards",
        "result   intact as far as it was read",
    ]);
    output
        .verify(&["--resume"])
        .exits(4)
        .says(&["train-00008.tar"]);
    let json = output
        .verify(&["--resume", "--max-duration", "0s", "--json"])
        .json();
    assert_eq!(json["left"], 9);
}

#[test]
fn a_part_of_the_shards_is_compared_with_the_source_and_all_of_its_samples_are_accounted_for() {
    let data = Dataset::new().class("cat", 20);
    let output = data.convert(&["--shards", "4"]);
    let source = data.source();
    let verify = |more: &[&str]| {
        let flags = ["--level", "source", "--source", source.to_str().unwrap()];
        output.verify(&[&flags[..], more].concat())
    };
    verify(&["--sample", "25%"]).exits(0).says(&[
        "the content of 3 of 4 shards",
        "result   intact as far as it was read",
    ]);
    verify(&["--max-duration", "0s"])
        .exits(0)
        .says(&["the content of 4 of 4 shards"]);
    verify(&["--resume"]).exits(0);
    // A sample that is in no shard is missed whichever shards are read.
    crate::support::write(&source.join("cat/new.jpg"), &picture("new"));
    for _ in 0..4 {
        let run = verify(&["--sample", "25%"]);
        run.exits(4)
            .says(&["cat/new.jpg: sample `cat/new`: is in the source, not in the dataset"]);
        assert_eq!(run.out.matches("DAMAGE").count(), 1, "{}", run.out);
    }
    fs::remove_file(source.join("cat/new.jpg")).unwrap();
    // A file that differs is met once in a round.
    let mut bytes = picture("cat/0007.jpg");
    bytes[700] ^= 1;
    crate::support::write(&source.join("cat/0007.jpg"), &bytes);
    let codes: Vec<i32> = (0..4).map(|_| verify(&["--sample", "25%"]).code).collect();
    assert_eq!(
        codes.iter().filter(|&&code| code == 4).count(),
        1,
        "{codes:?}"
    );
    // Where an index cannot be read, that is not known.
    fs::write(output.path.join("index/train-00002.parquet"), "").unwrap();
    let said: Vec<String> = (0..4)
        .map(|_| verify(&["--sample", "25%"]).out.clone())
        .collect();
    assert!(
        said.iter()
            .any(|out| out.contains("unknown  whether every sample of the source")),
        "{said:#?}"
    );
    assert!(
        !said.concat().contains("is in the source, not"),
        "{said:#?}"
    );
}
