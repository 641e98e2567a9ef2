"""Shards that other tools wrote, adopted by `shardpack index`, held against what readers find in them."""

import json
import struct
import subprocess
import tarfile
from pathlib import Path

import datasets
import programs
import pyarrow.parquet
import pytest
import webdataset as wds
import yaml
from conftest import run

CAPTIONS = ["a cat", "a dog", "an emu"]


@pytest.fixture
def pictures(imagefolder) -> list[bytes]:
    return [path.read_bytes() for path in sorted(imagefolder.glob("train/*/*.JPEG"))[:3]]


def index(root: Path, *indexes: str) -> list[dict]:
    """Adopts what lies there; gives all rows of the index."""
    run(programs.shardpack(), "index", root, *(["--index", ",".join(indexes)] if indexes else []))
    run(programs.shardpack(), "verify", root)
    manifest = json.loads((root / "manifest.json").read_bytes())
    shards = [shard for split in manifest["splits"] for shard in split["shards"]]
    return [row for shard in shards for row in pyarrow.parquet.read_table(root / shard["index"]).to_pylist()]


def written_by_webdataset(path: Path, pictures: list[bytes], **fields: list) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wds.TarWriter(str(path)) as writer:
        for number, picture in enumerate(pictures):
            rest = {name: values[number] for name, values in fields.items()}
            writer.write({"__key__": f"{path.parent.name}{number}", "jpg": picture, **rest})


def energon_reads(path: Path) -> list[list[str]]:
    """Names of the members of each sample: every header from its offset to the next one's, as energon's `itar_reader.py` goes."""
    data = Path(f"{path}.idx").read_bytes()
    offsets = struct.unpack(f"<{len(data) // 8}Q", data)
    found = []
    with open(path, "rb") as shard:
        for at, end in zip(offsets, offsets[1:]):
            names = []
            while at < end:
                shard.seek(at)
                # an EOFHeaderError is its "Unexpected end of tar file"
                member = tarfile.TarInfo.frombuf(shard.read(512), "utf-8", "surrogateescape")
                if member.type != tarfile.XHDTYPE:
                    names.append(member.name)
                at += 512 + -(-member.size // 512) * 512
            found.append(names)
    return found


def test_energon_finds_the_samples_of_a_tar_that_webdataset_wrote(pictures, tmp_path):
    shard = tmp_path / "set" / "000000.tar"
    written_by_webdataset(shard, pictures, txt=CAPTIONS)
    assert shard.stat().st_size % 10240 == 0
    index(tmp_path, "energon")
    assert energon_reads(shard) == [[f"set{n}.jpg", f"set{n}.txt"] for n in range(3)]
    told = yaml.safe_load((tmp_path / ".nv-meta" / "dataset.yaml").read_text())
    assert told["sample_type"] == {"__module__": "megatron.energon", "__class__": "CaptioningSample"}
    assert told["field_map"] == {"image": "jpg", "caption": "txt"}


@pytest.mark.parametrize("form", ["gnu", "ustar", "posix"])
def test_energon_finds_the_samples_of_a_tar_that_gnu_tar_wrote(pictures, tmp_path, form):
    source = tmp_path / "source" / "cat"
    source.mkdir(parents=True)
    for number, picture in enumerate(pictures):
        (source / f"{number}.jpg").write_bytes(picture)
    root = tmp_path / "dst"
    root.mkdir()
    shard = root / "cats.tar"
    flags = ["--sort=name", f"--format={form}"]
    subprocess.run(["tar", "cf", shard, *flags, "-C", source.parent, "cat"], check=True)
    rows = index(root, "energon")
    assert [row["key"] for row in rows] == [f"cat/{n}" for n in range(3)]
    pictures_of = [[name for name in names if name.endswith(".jpg")] for names in energon_reads(shard)]
    assert pictures_of == [[f"cat/{n}.jpg"] for n in range(3)]


def test_energon_itself_reads_adopted_captions(pictures, tmp_path):
    energon = pytest.importorskip("megatron.energon", reason="energon needs torch, which is not installed for the tests")
    written_by_webdataset(tmp_path / "set" / "000000.tar", pictures, txt=CAPTIONS)
    index(tmp_path, "energon")
    config = energon.WorkerConfig(rank=0, world_size=1, num_workers=0)
    reader = energon.get_val_dataset(tmp_path, split_part="train", worker_config=config, batch_size=1)
    assert sorted(batch.caption[0] for batch in energon.get_loader(reader)) == CAPTIONS


def test_every_reader_index_tells_shards_of_one_name_apart(pictures, tmp_path):
    for split in ["train", "val"]:
        count = 3 if split == "train" else 1
        written_by_webdataset(tmp_path / split / "00000.tar", pictures[:count], cls=[0, 1, 2])
    index(tmp_path, "timm", "openclip", "wids")
    told = json.loads((tmp_path / "_info.json").read_bytes())["splits"]
    for split, count in [("train", 3), ("val", 1)]:
        # timm joins its root and these names; OpenCLIP looks beside the shards
        (name,) = told[split]["filenames"]
        keys = [sample["__key__"] for sample in wds.WebDataset(str(tmp_path / name), shardshuffle=False)]
        assert keys == [f"{split}{n}" for n in range(count)] and told[split]["shard_lengths"] == [count]
        assert json.loads((tmp_path / split / "sizes.json").read_bytes()) == {"00000.tar": count}


def test_class_names_get_the_numbers_that_imagefolder_would_give_them(pictures, tmp_path):
    names = ["emu", "cat", "emu"]
    written_by_webdataset(tmp_path / "a" / "0.tar", pictures, cls=[name.encode() for name in names])
    rows = index(tmp_path)
    assert [(row["class"], row["label"]) for row in rows] == [("emu", 1), ("cat", 0), ("emu", 1)]


def test_members_that_webdataset_skips_are_not_in_the_index(pictures, tmp_path):
    shard = tmp_path / "x.tar"
    source = tmp_path / "source"
    (source / "__meta__").mkdir(parents=True)
    (source / "__meta__" / "notes.txt").write_text("by hand")
    (source / "a.jpg").write_bytes(pictures[0])
    subprocess.run(["tar", "cf", shard, "-C", source, "__meta__", "a.jpg"], check=True)
    for path in [source / "__meta__" / "notes.txt", source / "a.jpg"]:
        path.unlink()
    rows = index(tmp_path)
    assert [row["key"] for row in rows] == [sample["__key__"] for sample in wds.WebDataset(str(shard), shardshuffle=False)]


@pytest.fixture
def alone(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets.disable_progress_bars()


@pytest.mark.parametrize("streaming", [False, True], ids=["stored", "streaming"])
@pytest.mark.parametrize(
    "flags",
    [["--format", "tfrecord"], ["--format", "tfrecord", "--compress", "gzip"], ["--compress", "zstd"]],
    ids=" ".join,
)
def test_huggingface_never_takes_the_index_for_the_data(converted, alone, flags, streaming):
    dataset = converted("splits", "--shards", "2", *flags)
    try:
        found = datasets.load_dataset(str(dataset.root), streaming=streaming)
    except (datasets.exceptions.DatasetsError, tarfile.ReadError):
        return
    # with zstd from Python 3.14 on
    for split in found.values():
        split = split if not streaming else split._resolve_features()
        assert {"jpg", "cls"} <= set(split.features)


@pytest.mark.parametrize("streaming", [False, True], ids=["stored", "streaming"])
def test_huggingface_never_takes_the_index_of_adopted_records_for_the_data(converted, alone, tmp_path, streaming):
    ours = converted("splits", "--shards", "2", "--format", "tfrecord")
    root = tmp_path / "dst"
    root.mkdir()
    for shard in ours.shards:
        (root / f"{shard.path.stem}.tfrec").write_bytes(shard.path.read_bytes())
    index(root)
    with pytest.raises((datasets.exceptions.DatasetsError, FileNotFoundError), match="tfrec|data files"):
        datasets.load_dataset(str(root), streaming=streaming)


def test_the_tfrecord_package_finds_records_that_are_numbered_as_tensorflow_does(converted, tmp_path):
    reader = pytest.importorskip("tfrecord.reader")
    ours = converted("splits", "--shards", "2", "--format", "tfrecord")
    shards = [shard for shard in ours.shards if shard.split == "train"]
    for number, shard in enumerate(shards):
        (tmp_path / f"x-train.tfrecord-{number:05}-of-00002").write_bytes(shard.path.read_bytes())
    rows = index(tmp_path, "tfrecord", "dali")
    assert len({row["key"] for row in rows}) == len(rows) == sum(len(shard.rows) for shard in shards)
    for number, shard in enumerate(shards):
        path = tmp_path / f"x-train.tfrecord-{number:05}-of-00002"
        found = list(reader.tfrecord_loader(str(path), f"{path}.tfindex", {"image/class/label": "int"}))
        # it begins at any record
        assert sorted(int(sample["image/class/label"][0]) for sample in found) == sorted(row["label"] + 1 for row in shard.rows)
