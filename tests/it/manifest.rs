//! The manifest and its schema.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Dataset, picture, png};

pub(crate) fn schema() -> jsonschema::Validator {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/manifest.schema.json");
    let text = fs::read(path).unwrap();
    jsonschema::validator_for(&serde_json::from_slice(&text).unwrap()).unwrap()
}

/// Manifests with everything that one can hold.
fn manifests() -> Vec<Value> {
    let data = Dataset::new()
        .class("train/cat", 7)
        .class("train/dog", 5)
        .class("val/cat", 3)
        .file("val/cat/really.jpg", png(4))
        .file("train/dog/text.jpg", "no image")
        .file("val/cat/none.jpg", "")
        .class("other/train/x", 1);
    let cut = picture("cut");
    let data = data.file("train/dog/cut.jpg", &cut[..cut.len() - 99]);
    let skip = ["--on-error", "skip", "--exclude", "other"];
    let with = |flags: &[&str]| data.convert(&[&skip, flags].concat()).manifest();
    vec![
        with(&[]),
        with(&[
            "--shards",
            "2",
            "--add-json",
            "--sha256",
            "--name",
            "pets",
            "--seed",
            "7",
        ]),
        with(&[
            "--shard-samples",
            "3",
            "--order",
            "listed",
            "--validate",
            "decode",
        ]),
        with(&[
            "--split",
            "a=train",
            "--split",
            "b=val",
            "--include",
            "**/*.jpg",
            "--allow-empty",
        ]),
        Dataset::new()
            .class("cat", 1)
            .convert(&["--validate", "none"])
            .manifest(),
    ]
}

#[test]
fn every_manifest_is_as_its_schema_says() {
    let schema = schema();
    for manifest in manifests() {
        let errors: Vec<_> = schema
            .iter_errors(&manifest)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:#?}\n{manifest:#}");
    }
}

#[test]
fn the_schema_refuses_manifests_that_are_not() {
    let schema = schema();
    let manifest = &manifests()[1];
    assert!(schema.is_valid(manifest));
    let changes: [(&str, Option<Value>); 12] = [
        ("/kind", Some(json!("something else"))),
        ("/kind", None),
        ("/version", Some(json!("1"))),
        ("/samples", Some(json!(-1))),
        ("/samples", None),
        ("/plan", Some(json!("short"))),
        ("/classes", Some(json!("cat"))),
        ("/splits/0/name", None),
        ("/splits/0/shards/0/crc32", Some(json!("XYZ"))),
        ("/splits/0/shards/0/bytes", Some(json!("many"))),
        ("/splits/0/shards/0/index", None),
        ("/skipped/0/reason", None),
    ];
    for (place, value) in changes {
        let mut changed = manifest.clone();
        let (parent, name) = place.rsplit_once('/').unwrap();
        let parent = changed
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap();
        match value {
            Some(value) => parent.insert(name.to_owned(), value),
            None => parent.remove(name),
        };
        assert!(!schema.is_valid(&changed), "{place}: {changed:#}");
    }
}

#[test]
fn totals_are_the_sums_of_what_is_listed() {
    for manifest in manifests() {
        let (mut samples, mut bytes) = (0, 0);
        for split in manifest["splits"].as_array().unwrap() {
            let shards = split["shards"].as_array().unwrap();
            let sum = |what: &str| {
                shards
                    .iter()
                    .map(|s| s[what].as_u64().unwrap())
                    .sum::<u64>()
            };
            assert_eq!(split["samples"], sum("samples"));
            assert_eq!(split["bytes"], sum("bytes"));
            samples += sum("samples");
            bytes += sum("bytes");
        }
        assert_eq!(manifest["samples"], samples);
        assert_eq!(manifest["bytes"], bytes);
    }
}

#[test]
fn the_manifest_is_the_snapshot_and_tells_checksums_that_hold() {
    let data = Dataset::new().class("cat", 9);
    let output = data.convert(&["--shards", "2"]);
    assert_eq!(
        fs::read(output.path.join("manifest.json")).unwrap(),
        fs::read(output.path.join("_shardpack/snapshots/00000001.json")).unwrap()
    );
    for shard in output.manifest()["splits"][0]["shards"].as_array().unwrap() {
        for (name, crc32, bytes) in [
            ("name", "crc32", "bytes"),
            ("index", "index_crc32", "index_bytes"),
        ] {
            let file = fs::read(output.path.join(shard[name].as_str().unwrap())).unwrap();
            assert_eq!(shard[bytes], file.len());
            assert_eq!(shard[crc32], format!("{:08x}", crc32fast::hash(&file)));
        }
    }
}

#[test]
fn the_index_is_parquet_with_one_row_a_sample() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    let data = Dataset::new().class("cat", 9);
    let output = data.convert(&["--shards", "2"]);
    let mut keys = Vec::new();
    for shard in output.manifest()["splits"][0]["shards"].as_array().unwrap() {
        let file = fs::File::open(output.path.join(shard["index"].as_str().unwrap())).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(shard["samples"], rows.len());
        for (ordinal, row) in rows.iter().enumerate() {
            keys.push(row.get_string(0).unwrap().clone());
            assert_eq!(row.get_string(1).unwrap(), "train");
            assert_eq!(row.get_string(2).unwrap(), shard["name"].as_str().unwrap());
            assert_eq!(row.get_long(3).unwrap(), ordinal as i64);
            assert_eq!(row.get_string(5).unwrap(), "cat");
        }
    }
    assert_eq!(keys, output.keys());
}
