"""manifest.json: what readers and people open first."""

import re
import zlib


def test_the_manifest_says_what_it_is(dataset):
    manifest = dataset.manifest
    assert (manifest["kind"], manifest["version"], manifest["snapshot"]) == ("shardpack-manifest", 1, 1)
    assert re.fullmatch("[0-9a-f]{64}", manifest["plan"])
    assert isinstance(manifest["name"], str) and isinstance(manifest["recipe"], dict)


def test_the_manifest_names_every_file_of_data_and_index_and_no_other(dataset):
    for folder, field in [("data", "name"), ("index", "index")]:
        there = {path.relative_to(dataset.root).as_posix() for path in (dataset.root / folder).iterdir()}
        assert there == {shard.listed[field] for shard in dataset.shards}


def test_shards_have_the_size_and_checksum_that_the_manifest_says(dataset):
    for shard in dataset.shards:
        data = shard.path.read_bytes()
        assert shard.listed["bytes"] == len(data)
        assert shard.listed["crc32"] == f"{zlib.crc32(data):08x}"
        assert shard.listed["samples"] == len(shard.rows)


def test_splits_add_up_to_their_shards_and_to_the_source(dataset):
    assert {split["name"] for split in dataset.manifest["splits"]} == {s.split for s in dataset.truth.values()}
    for split in dataset.manifest["splits"]:
        assert split["samples"] == sum(shard["samples"] for shard in split["shards"])
        assert split["bytes"] == sum(shard["bytes"] for shard in split["shards"])
        assert split["samples"] == sum(sample.split == split["name"] for sample in dataset.truth.values())


def test_classes_stand_at_their_labels(dataset):
    labels = {sample.label: sample.class_name for sample in dataset.truth.values()}
    assert dataset.manifest["classes"] == [labels[label] for label in sorted(labels)]


def test_nothing_was_skipped(dataset):
    assert dataset.manifest["skipped"] == []
