"""What shardpack writes for fixtures/golden/source, held against what the reference tools made of it.

fixtures/golden/README.md says with which command each was made. Bytes are compared where a format has but one form of them;
of JSON and YAML what it says.
"""

import hashlib
import importlib.util
import json
import uuid

import braceexpand
import pyarrow.parquet
import pytest
import yaml
from conftest import convert
from programs import PROJECT

GOLDEN = PROJECT / "fixtures" / "golden"
_spec = importlib.util.spec_from_file_location("make_golden", GOLDEN / "make.py")
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)

INDEXES = {
    "wds": "dali,energon,energon-sqlite,wids",
    "tfrecord": "dali,tfds,tfrecord",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """`written(format, *flags)`: the golden source with all indexes that go with this format."""
    done = {}

    def written(layout: str, *flags: str):
        if (layout, *flags) not in done:
            index = ["--index", INDEXES[layout]] if layout in INDEXES else []
            splits = {split: split for split in make.SPLITS}
            target = tmp_path_factory.mktemp("golden") / "dst"
            done[layout, *flags] = convert(
                make.SOURCE, splits, *make.FLAGS, "--format", layout, *index, *flags, target=target
            )
        return done[layout, *flags]

    return written


def check_bytes(reference: str, written, suffix: str) -> None:
    """The files of a directory of ours with this suffix, and no others, are those of the reference tool."""
    expected = {path.name: path.read_bytes() for path in (GOLDEN / reference).iterdir() if path.name.endswith(suffix)}
    found = {path.name: path.read_bytes() for path in (written.root / "data").iterdir() if path.name.endswith(suffix)}
    # energon's x.tar.idx is not DALI's x.idx
    if suffix == ".idx":
        found = {name: body for name, body in found.items() if not name.endswith(".tar.idx")}
    assert expected and found == expected


def told(path):
    return json.loads(path.read_bytes())


def test_wids_describes_the_shards_so(written):
    dataset = written("wds")
    for split in make.SPLITS:
        expected = told(GOLDEN / "wids" / f"{split}.json")
        for shard in expected["shardlist"]:
            # the digest is left out on purpose: the manifest has better; here it says that these are the shards
            assert hashlib.md5((dataset.root / shard["url"]).read_bytes()).hexdigest() == shard.pop("md5sum")
        assert told(dataset.root / f"wids-{split}.json") == expected


def test_dali_indexes_tar_shards_so(written):
    check_bytes("dali/wds", written("wds"), ".idx")


def test_dali_indexes_tfrecords_so(written):
    check_bytes("dali/tfrecord", written("tfrecord"), ".idx")


def test_tfrecord_indexes_tfrecords_so(written):
    check_bytes("tfrecord", written("tfrecord"), ".tfindex")


def test_energon_indexes_tar_shards_so(written):
    check_bytes("energon", written("wds"), ".tar.idx")


def test_energon_counts_the_samples_of_shards_in_the_same_order(written):
    expected = told(GOLDEN / "energon" / "info.json")
    found = told(written("wds").root / ".nv-meta" / ".info.json")
    assert found == expected
    # their order numbers them for the database
    assert list(found["shard_counts"]) == list(expected["shard_counts"])


def test_energon_finds_the_shards_of_a_split_and_the_fields_of_a_sample(written):
    meta = written("wds").root / ".nv-meta"
    expected, found = (yaml.safe_load(path.read_text()) for path in [GOLDEN / "energon" / "split.yaml", meta / "split.yaml"])

    def parts(split: dict) -> dict[str, list[str]]:
        return {name: [x for given in all for x in braceexpand.braceexpand(given)] for name, all in split.items() if all}

    assert parts(found["split_parts"]) == parts(expected["split_parts"])
    assert found["exclude"] == expected["exclude"]
    assert yaml.safe_load((meta / "dataset.yaml").read_text()) == yaml.safe_load(
        (GOLDEN / "energon" / "dataset.yaml").read_text()
    )


def test_energon_has_the_same_tables_indexes_and_rows_in_its_database(written):
    meta = written("wds").root / ".nv-meta"
    assert make.dump(meta / "index.sqlite") == (GOLDEN / "energon" / "index.sql").read_text()
    text = (meta / "index.uuid").read_text()
    assert str(uuid.UUID(text)) == text


@pytest.mark.parametrize("schema", ["imagenet", "tfds"])
def test_tensorflow_writes_the_same_bytes(written, schema):
    check_bytes(f"tensorflow/{schema}", written("tfrecord", "--schema", schema), ".tfrecord")


@pytest.mark.parametrize("schema", ["imagenet", "tfds"])
def test_tfds_writes_the_same_about_splits_features_and_labels(written, schema):
    dataset = written("tfrecord", "--schema", schema)
    expected = {path.name: path for path in (GOLDEN / "tfds" / schema).iterdir()}
    assert len(expected) == 3
    for name, path in expected.items():
        found = dataset.root / name
        if path.suffix == ".txt":
            assert found.read_bytes() == path.read_bytes()
            continue
        about = told(path)
        # its writer looks for shards beside its files only; its reader also finds them below
        for split in about.get("splits", []):
            split["filepathTemplate"] = f"data/{split['filepathTemplate']}"
        assert told(found) == about


def test_huggingface_says_the_same_about_the_columns(written):
    dataset = written("parquet")
    for shard in dataset.shards:
        expected = told(GOLDEN / "huggingface" / f"{shard.path.stem}.json")
        schema = pyarrow.parquet.read_schema(shard.path)
        assert json.loads(schema.metadata[b"huggingface"]) == expected["huggingface"]
        assert {field.name: str(field.type) for field in schema} == expected["columns"]
        assert len(shard.rows) == expected["rows"]
