"""HuggingFace datasets 5.2.0, without any network: tar and Parquet shards, with the side files of other readers beside them."""

import json
import shutil
from pathlib import Path

import conftest
import datasets
import duckdb
import programs
import pytest

PICTURES = ("jpg", "png")
# everything that puts a file beside the shards or into the root
TAR_INDEXES = ["--index", "dali,energon,energon-sqlite,openclip,timm,wids"]
PARQUET = ["--format", "parquet"]


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """A cache of its own, so that nothing of another dataset is taken for this one."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets.disable_progress_bars()


def load(root: Path, streaming: bool):
    return datasets.load_dataset(str(root), streaming=streaming)


def undecoded(split, column: str):
    """The picture as its bytes, not as pixels."""
    return split.cast_column(column, datasets.Image(decode=False))


def picture_column(split) -> str:
    return next(name for name in PICTURES if name in split.features)


def check_tar(dataset, streaming: bool) -> None:
    found = load(dataset.root, streaming)
    assert set(found) == {shard.split for shard in dataset.shards}
    for name, split in found.items():
        rows = [row for shard in dataset.shards if shard.split == name for row in shard.rows]
        column = picture_column(split if not streaming else split._resolve_features())
        examples = list(undecoded(split, column))
        assert [example["__key__"] for example in examples] == [row["key"] for row in rows]
        for example in examples:
            sample = dataset.by_key[example["__key__"]]
            assert example[column]["bytes"] == sample.picture
            assert example["cls"] == sample.label
            assert ("txt" in example) == ("txt" in sample.fields)
            if "txt" in sample.fields:
                assert example["txt"] == sample.fields["txt"].decode()
                assert example["json"] == json.loads(sample.fields["json"])


@pytest.mark.parametrize("streaming", [False, True], ids=["stored", "streaming"])
@pytest.mark.parametrize("index", [[], TAR_INDEXES], ids=["bare", "indexed"])
@pytest.mark.parametrize("tree", ["splits", "sidecars"])
def test_tar_shards_are_the_samples_of_the_source_whatever_lies_beside_them(converted, tree, index, streaming):
    check_tar(converted(tree, "--shards", "2", *index), streaming)


@pytest.mark.parametrize("streaming", [False, True], ids=["stored", "streaming"])
def test_gzip_shards_are_the_samples_of_the_source(converted, streaming):
    check_tar(converted("splits", "--shards", "2", "--compress", "gzip"), streaming)


@pytest.mark.parametrize("tree", ["splits", "sidecars"])
def test_pictures_in_tar_shards_are_decoded(converted, tree):
    dataset = converted(tree, "--shards", "2", *TAR_INDEXES)
    for split in load(dataset.root, streaming=False).values():
        assert isinstance(split.features[picture_column(split)], datasets.Image)
        rows = {row["key"]: row for shard in dataset.shards for row in shard.rows}
        for example in split:
            row = rows[example["__key__"]]
            assert example[picture_column(split)].size == (row["width"], row["height"])


@pytest.mark.parametrize("streaming", [False, True], ids=["stored", "streaming"])
@pytest.mark.parametrize("tree", ["splits", "awkward", "sidecars"])
def test_parquet_shards_are_the_samples_of_the_source(converted, tree, streaming):
    dataset = converted(tree, "--shards", "2", *PARQUET)
    found = load(dataset.root, streaming)
    assert set(found) == {shard.split for shard in dataset.shards}
    for name, split in found.items():
        rows = [row for shard in dataset.shards if shard.split == name for row in shard.rows]
        assert isinstance(split.features["image"], datasets.Image)
        assert split.features["label"] == datasets.ClassLabel(names=dataset.manifest["classes"])
        for example, row in zip(undecoded(split, "image"), rows, strict=True):
            sample = dataset.truth[row["source_path"]]
            assert example.pop("image") == {"bytes": sample.picture, "path": Path(sample.path).name}
            assert split.features["label"].int2str(example.pop("label")) == sample.class_name
            beside = {name: body for name, body in sample.fields.items() if name not in ("cls", *PICTURES)}
            assert example == {name: body.decode() for name, body in beside.items()}


@pytest.mark.parametrize("tree", ["splits", "awkward"])
def test_pictures_in_parquet_shards_are_decoded(converted, tree):
    dataset = converted(tree, "--shards", "2", *PARQUET)
    for name, split in load(dataset.root, streaming=False).items():
        rows = [row for shard in dataset.shards if shard.split == name for row in shard.rows]
        for example, row in zip(split, rows, strict=True):
            assert example["image"].size == (row["width"], row["height"])


def test_the_parquet_files_alone_say_what_their_columns_are(converted):
    """Without the card, as from a plain list of URLs."""
    dataset = converted("splits", "--shards", "2", *PARQUET)
    files = [str(shard.path) for shard in dataset.shards if shard.split == "train"]
    split = datasets.load_dataset("parquet", data_files=files, split="train")
    assert isinstance(split.features["image"], datasets.Image)
    assert split.features["label"].names == dataset.manifest["classes"]
    assert len(split) == sum(sample.split == "train" for sample in dataset.truth.values())


def test_filters_reach_the_columns_without_the_pictures(converted):
    dataset = converted("splits", "--shards", "2", *PARQUET)
    files = [str(shard.path) for shard in dataset.shards]
    wanted = max(sample.label for sample in dataset.truth.values())
    filters = [("label", "==", wanted)]
    split = datasets.load_dataset("parquet", data_files=files, split="train", columns=["label"], filters=filters)
    assert split["label"] == [wanted] * sum(sample.label == wanted for sample in dataset.truth.values())


TOLD = [
    {"boxes": [[1, 2], []], "height": 0.5, "ok": True, "two words": "\u00fcber", "year": 2024},
    {"boxes": None, "height": 3, "ok": None, "two words": None, "year": -(2**62)},
    {},
]
TYPES = {"boxes": "string", "height": "float64", "ok": "bool", "two words": "string", "year": "int64"}


@pytest.fixture
def told(imagefolder, tmp_path) -> Path:
    """Parquet shards of pictures that a table says something of."""
    source = tmp_path / "told"
    source.mkdir()
    pictures = sorted(imagefolder.glob("train/*/*"))[: len(TOLD)]
    with open(source / "metadata.jsonl", "w", encoding="utf-8") as table:
        for number, (picture, row) in enumerate(zip(pictures, TOLD, strict=True)):
            name = f"{number}{picture.suffix}"
            shutil.copy2(picture, source / name)
            table.write(json.dumps({"file_name": name, "label": number % 2, **row}) + "\n")
    shards = tmp_path / "shards"
    conftest.run(programs.shardpack(), "convert", source, shards, "--progress", "none", "--order", "listed", *PARQUET)
    return shards


@pytest.mark.parametrize("streaming", [False, True], ids=["stored", "streaming"])
def test_columns_of_metadata_are_columns_with_their_types(told, streaming):
    split = load(told, streaming)["train"]
    features = split.features if not streaming else split._resolve_features().features
    assert {name: features[name].dtype for name in TYPES} == TYPES
    for example, row in zip(undecoded(split, "image"), TOLD, strict=True):
        wanted = {name: row.get(name) for name in TYPES}
        if wanted["boxes"] is not None:
            wanted["boxes"] = json.dumps(wanted["boxes"], separators=(",", ":"))
        assert {name: example[name] for name in TYPES} == wanted
        assert json.loads(example["json"]) == row


def test_a_query_finds_pictures_by_what_the_table_says(told):
    found = duckdb.sql(f"select json from read_parquet('{told}/data/*.parquet') where ok and year > 2000").fetchall()
    assert [json.loads(row[0]) for row in found] == TOLD[:1]
