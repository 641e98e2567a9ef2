"""Files of `--index` that describe tar shards, held against what tarfile finds in the shards.

The readers themselves run where they are installed: wids and energon need torch, DALI a graphics card. timm and OpenCLIP
only look numbers up.
"""

import json
import shutil
import sqlite3
import struct
import sys
import uuid
from pathlib import Path

import programs
import pytest
import yaml
from conftest import run

TREES = {"splits": ["--shard-size", "1MB"], "awkward": ["--shard-size", "1MB"], "sidecars": ["--shards", "3"]}
ALL = ["dali", "energon", "energon-sqlite", "openclip", "timm", "wids"]


@pytest.fixture(params=TREES)
def tree(request) -> str:
    return request.param


@pytest.fixture
def indexed(converted, tree):
    return converted(tree, *TREES[tree], "--index", ",".join(ALL))


def told(path: Path):
    return json.loads(path.read_bytes())


def key_and_field(name: str) -> tuple[str, str]:
    folder, slash, base = name.rpartition("/")
    stem, _, field = base.partition(".")
    return folder + slash + stem, field


def samples(shard) -> dict[str, list]:
    """What tarfile finds: key → members, in the order of the shard."""
    found = {}
    for member, _ in shard.members:
        found.setdefault(key_and_field(member.name)[0], []).append(member)
    return found


def end_of_members(shard) -> int:
    last = shard.members[-1][0]
    return last.offset_data + -(-last.size // 512) * 512


def files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_an_index_changes_no_shard(converted, indexed, tree):
    bare = converted(tree, *TREES[tree])
    for folder in ["data", "index"]:
        for path in (bare.root / folder).iterdir():
            if folder == "data":
                assert (indexed.root / folder / path.name).read_bytes() == path.read_bytes()
            else:
                assert (indexed.root / folder / path.name).exists()


def test_the_manifest_lists_every_index_file(indexed):
    listed = {entry["name"]: entry for entry in indexed.manifest["indexes"]}
    assert {entry["reader"] for entry in listed.values()} == set(ALL)
    beside = {path.relative_to(indexed.root).as_posix() for path in (indexed.root / "data").iterdir()}
    assert beside - {shard.listed["name"] for shard in indexed.shards} == {n for n in listed if n.startswith("data/")}
    for name, entry in listed.items():
        assert (indexed.root / name).stat().st_size == entry["bytes"]


def test_indexes_made_afterwards_are_the_same_files(converted, indexed, tree, tmp_path):
    later = tmp_path / "later"
    shutil.copytree(converted(tree, *TREES[tree]).root, later)
    run(programs.shardpack(), "index", later, "--index", ",".join(ALL))
    before, after = files(indexed.root), files(later)
    for entry in indexed.manifest["indexes"]:
        if entry["name"] == ".nv-meta/index.uuid":
            continue
        assert after[entry["name"]] == before[entry["name"]], entry["name"]


def test_wids_lists_the_shards_of_a_split(indexed):
    for split in {shard.split for shard in indexed.shards}:
        index = told(indexed.root / f"wids-{split}.json")
        assert (index["__kind__"], index["wids_version"]) == ("wids-shard-index-v1", 1)
        assert index["shardlist"] == [
            {"url": shard.listed["name"], "nsamples": len(samples(shard)), "filesize": shard.path.stat().st_size}
            for shard in indexed.shards
            if shard.split == split
        ]


def test_wids_gives_each_sample_by_its_number(indexed):
    pytest.importorskip("torch", reason="wids needs torch, which is not installed for the tests")
    wids = pytest.importorskip("wids")
    for split in {shard.split for shard in indexed.shards}:
        reader = wids.ShardListDataset(str(indexed.root / f"wids-{split}.json"), transformations=[])
        rows = [row for shard in indexed.shards if shard.split == split for row in shard.rows]
        assert len(reader) == len(rows)
        for number, row in enumerate(rows):
            sample = reader[number]
            assert sample["__key__"] == row["key"]
            fields = indexed.truth[row["source_path"]].fields
            assert {name: sample[f".{name}"].read() for name in fields} == fields


def test_dali_has_a_line_for_each_sample_with_offset_size_and_name_of_each_member(indexed):
    for shard in indexed.shards:
        first, *lines = (shard.path.with_suffix(".idx")).read_text(encoding="ascii").splitlines()
        assert first == f"v1.2 {len(samples(shard))}"
        expected = [
            [(key_and_field(m.name)[1], str(m.offset_data), str(m.size), m.name) for m in members]
            for members in samples(shard).values()
        ]
        words = [line.split() for line in lines]
        assert [[tuple(line[at : at + 4]) for at in range(0, len(line), 4)] for line in words] == expected


def test_energon_has_the_first_header_of_each_sample_and_the_end(indexed):
    for shard in indexed.shards:
        data = Path(f"{shard.path}.idx").read_bytes()
        offsets = list(struct.unpack(f"<{len(data) // 8}Q", data))
        assert offsets == [members[0].offset for members in samples(shard).values()] + [end_of_members(shard)]


def test_energon_counts_the_samples_of_each_shard(indexed):
    info = told(indexed.root / ".nv-meta" / ".info.json")
    assert list(info["shard_counts"].items()) == [(s.listed["name"], len(samples(s))) for s in indexed.shards]


def test_energon_maps_the_fields_that_there_are(indexed):
    dataset = yaml.safe_load((indexed.root / ".nv-meta" / "dataset.yaml").read_text())
    pictures = {name for sample in indexed.truth.values() for name in sample.fields if name in ("jpg", "png")}
    assert dataset["field_map"]["label"] == "cls"
    assert set(dataset["field_map"]["image"].split(",")) == pictures


def test_energon_finds_every_sample_and_part_in_its_database(indexed):
    uuid.UUID((indexed.root / ".nv-meta" / "index.uuid").read_text())
    database = sqlite3.connect(f"file:{indexed.root}/.nv-meta/index.sqlite?mode=ro", uri=True)
    assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
    rows, parts = [], []
    for number, shard in enumerate(indexed.shards):
        starts = [members[0].offset for members in samples(shard).values()] + [end_of_members(shard)]
        for index, (key, members) in enumerate(samples(shard).items()):
            rows.append((number, key, index, starts[index], starts[index + 1] - starts[index]))
            parts += [(number, index, key_and_field(m.name)[1], m.offset_data, m.size) for m in members]
    assert database.execute("select * from samples order by tar_file_id, sample_index").fetchall() == rows
    order = "tar_file_id, sample_index, content_byte_offset"
    assert database.execute(f"select * from sample_parts order by {order}").fetchall() == parts
    database.close()


def test_energon_gives_every_part_by_its_name(indexed):
    energon = pytest.importorskip("megatron.energon", reason="energon needs torch, which is not installed for the tests")
    store = energon.cache.file_store.WebdatasetFileStore(energon.epathlib.EPath(indexed.root))
    for key, sample in indexed.by_key.items():
        for name, body in sample.fields.items():
            content, _ = store[f"{key}.{name}"]
            assert content == body


@pytest.mark.parametrize("tree", ["splits", "sidecars"], indirect=True)
def test_energon_reads_every_sample_of_a_split_once(indexed):
    energon = pytest.importorskip("megatron.energon", reason="energon needs torch, which is not installed for the tests")

    class AsItIs(energon.TaskEncoder):
        decoder = None

    for split in {shard.split for shard in indexed.shards}:
        config = energon.WorkerConfig(rank=0, world_size=1, num_workers=0)
        reader = energon.get_val_dataset(
            indexed.root, split_part=split, worker_config=config, batch_size=1, task_encoder=AsItIs()
        )
        found = {}
        for batch in energon.get_loader(reader):
            (key,) = batch.__key__
            assert key not in found
            found[key] = (batch.image[0], int(batch.label[0]))
        wanted = {key: sample for key, sample in indexed.by_key.items() if sample.split == split}
        assert found == {key: (sample.picture, sample.label) for key, sample in wanted.items()}


def test_energons_own_checks_find_nothing(indexed):
    pytest.importorskip("megatron.energon", reason="energon needs torch, which is not installed for the tests")
    run(Path(sys.executable).with_name("energon"), "lint", indexed.root)


def test_timm_finds_names_and_lengths_of_the_shards_of_a_split(indexed):
    splits = told(indexed.root / "data" / "_info.json")["splits"]
    assert set(splits) == {shard.split for shard in indexed.shards}
    for name, split in splits.items():
        shards = [shard for shard in indexed.shards if shard.split == name]
        assert split == {
            "name": name,
            "num_samples": sum(len(samples(shard)) for shard in shards),
            "filenames": [shard.path.name for shard in shards],
            "shard_lengths": [len(samples(shard)) for shard in shards],
        }


def test_openclip_finds_the_number_of_samples_of_each_shard(indexed):
    sizes = told(indexed.root / "data" / "sizes.json")
    assert sizes == {shard.path.name: len(samples(shard)) for shard in indexed.shards}
