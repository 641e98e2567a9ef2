"""Loaders of the torch world: each sample's picture and label is that of the source, whoever reads it with how many workers."""

import common  # noqa: I001 - first, it sets the environment

import collections
import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import conftest
import datasets
import pyarrow.dataset
import pytest
import torch
import webdataset as wds
from datasets.distributed import split_dataset_by_node
from common import IMAGES, expected, of_tar, shards, told
from PIL import Image
from programs import PROJECT
from torch.utils.data import DataLoader

@pytest.fixture(scope="module")
def tar(converted) -> Callable:
    """A tree converted into four tar shards a split, with every index that its readers know."""
    return lambda tree: converted(tree, "--shards", "4", "--index", "energon,openclip,timm,wids")


@pytest.fixture
def table(converted):
    return converted("splits", "--shards", "4", "--format", "parquet")


@pytest.fixture
def turned(tmp_path) -> Path:
    """A picture of 40 × 20 pixels that its EXIF orientation says to turn by a quarter."""
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "turned" / "cat").mkdir(parents=True)
    Image.new("RGB", (40, 20), "red").save(tmp_path / "turned" / "cat" / "1.jpg", exif=exif)
    return tmp_path / "turned"


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("tree", ["splits", "sidecars", "awkward"])
def test_webdatasets_loader_hands_out_every_sample_once_with_any_number_of_workers(tar, tree, workers):
    dataset = tar(tree)
    for split in {one.split for one in dataset.truth.values()}:
        samples = wds.WebDataset(shards(dataset, split), shardshuffle=False).map(of_tar)
        assert told(DataLoader(samples, batch_size=None, num_workers=workers)) == expected(dataset, split)


def test_webdataset_splits_the_shards_over_nodes(tar, monkeypatch):
    dataset, found = tar("splits"), collections.Counter()
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        samples = wds.WebDataset(shards(dataset, "train"), shardshuffle=False, nodesplitter=wds.split_by_node).map(of_tar)
        part = told(DataLoader(samples, batch_size=None, num_workers=2))
        # nobody gets all, and shards are not of the very same size
        assert 15 < part.total() < 25
        found += part
    assert found == expected(dataset, "train")


def wids_samples(found) -> list[tuple[bytes, int]]:
    return [(next(one[f".{name}"] for name in IMAGES if f".{name}" in one).read(), int(one[".cls"].read())) for one in found]


def test_wids_reads_every_sample_by_its_number_through_the_index(tar):
    import wids

    dataset = tar("splits")
    for split in ["train", "val"]:
        index = str(dataset.root / f"wids-{split}.json")
        # the local shards themselves, not copies in a cache
        found = wids.ShardListDataset(index, transformations=[], localname=lambda path: path)
        samples = [found[number] for number in reversed(range(len(found)))]
        assert told(wids_samples(samples)) == expected(dataset, split)


def test_wids_is_sampled_in_chunks_by_a_loader_with_workers(tar):
    import wids

    dataset = tar("splits")
    index = str(dataset.root / "wids-train.json")
    read = wids.ShardListDataset(index, transformations=[], localname=lambda path: path).add_transform(
        lambda one: wids_samples([one])[0]
    )
    loader = DataLoader(read, batch_size=None, num_workers=2, sampler=wids.ChunkedSampler(read, shuffle=True))
    assert told(loader) == expected(dataset, "train")


def test_wids_cache_by_path_returns_the_old_content_after_a_conversion_to_the_same_place(imagefolder, tmp_path):
    """What docs/readers.md warns of, and what it gives against it."""
    import wids

    root, cache, found = tmp_path / "dst", tmp_path / "cache", []
    for seed in ["1", "2"]:
        shutil.rmtree(root, ignore_errors=True)
        flags = ["--seed", seed, "--shard-samples", "10", "--index", "wids"]
        dataset = conftest.convert(imagefolder, {"train": "train", "val": "val"}, *flags, target=root)
        index = str(root / "wids-train.json")
        keys = [row["key"] for shard in dataset.shards if shard.split == "train" for row in shard.rows]
        cached = wids.ShardListDataset(index, transformations=[], cache_dir=str(cache))
        direct = wids.ShardListDataset(index, transformations=[], localname=lambda path: path)
        assert [one["__key__"] for one in map(direct.__getitem__, range(40))] == keys
        found.append([cached[number]["__key__"] for number in range(40)] == keys)
    assert found == [True, False]


@pytest.mark.parametrize("world", [1, 2, 4])
def test_huggingface_streams_a_part_to_each_node(tar, world):
    dataset, found = tar("sidecars"), collections.Counter()
    stream = datasets.load_dataset(str(dataset.root), split="train", streaming=True)
    column = next(name for name in IMAGES if name in stream.features)
    stream = stream.cast_column(column, datasets.Image(decode=False))
    for rank in range(world):
        part = split_dataset_by_node(stream, rank=rank, world_size=world)
        found += told((one[column]["bytes"], one["cls"]) for one in DataLoader(part, batch_size=None, num_workers=2))
    assert found == expected(dataset, "train")


@pytest.mark.parametrize("workers", [0, 2])
def test_timm_reads_data_as_the_root_of_its_wds_reader(tar, workers):
    """It hands out decoded pictures, which are compared as pixels; the PNG that is called .JPEG is one `jpg` does not name."""
    from timm.data import create_dataset

    dataset = tar("sidecars")
    read = create_dataset("wds/", root=str(dataset.root / "data"), split="train", is_training=False, batch_size=8)
    assert len(read) == len(dataset.truth)
    loader = DataLoader(read, batch_size=None, num_workers=workers)
    found = collections.Counter((picture.tobytes(), int(label)) for picture, label in loader)
    decoded = [(Image.open(io.BytesIO(one.picture)).convert("RGB").tobytes(), one.label) for one in dataset.truth.values()]
    # what has no `jpg` is left out, with a warning
    assert found == collections.Counter(decoded)


def test_a_map_style_dataset_of_ours_feeds_torch_and_grain(tar, monkeypatch):
    monkeypatch.syspath_prepend(PROJECT / "src/library/python")
    sys.modules.pop("shardpack", None)
    import grain
    import shardpack

    dataset = tar("splits")
    samples = shardpack.Dataset(dataset.root, split="train")
    assert told((one.image, one.label) for one in (samples[n] for n in torch.randperm(len(samples)).tolist())) == (
        expected(dataset, "train")
    )
    read = grain.MapDataset.source(samples).shuffle(seed=1).map(lambda one: (one.image, one.label))
    assert told(read) == expected(dataset, "train")


def cook(sample: dict):
    import megatron.energon as energon

    image = next(sample[name] for name in IMAGES if name in sample)
    return energon.CaptioningSample(**energon.basic_sample_keys(sample), image=image, caption=sample["txt"].decode())


def energon_reads(dataset, split: str, workers: int = 0, rank: int = 0, world: int = 1, **flags):
    import megatron.energon as energon

    config = energon.WorkerConfig(rank=rank, world_size=world, num_workers=workers)
    read = energon.get_val_dataset(dataset.root, split_part=split, worker_config=config, batch_size=1, **flags)
    return energon.get_loader(read)


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("workers", [0, 2])
def test_energon_reads_every_sample_of_every_split_on_every_rank(tar, workers, world):
    dataset = tar("splits")
    for split in ["train", "val"]:
        found = [
            (batch.__key__[0], int(batch.label[0]), tuple(batch.image.shape[-2:]))
            for rank in range(world)
            for batch in energon_reads(dataset, split, workers, rank, world)
        ]
        rows = {row["key"]: row for shard in dataset.shards for row in shard.rows if shard.split == split}
        keys = sorted((key, dataset.by_key[key].label, (row["height"], row["width"])) for key, row in rows.items())
        assert sorted((key.rpartition(":")[2] if key not in rows else key, label, size) for key, label, size in found) == keys


def test_ray_reads_tar_shards_as_bytes_without_a_decoder_and_parquet_as_it_is(tar, table):
    import ray

    dataset = tar("sidecars")
    ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR", object_store_memory=80_000_000)
    try:
        rows = ray.data.read_webdataset(shards(dataset, "train"), decoder=None).take_all()
        assert told(map(of_tar, rows)) == expected(dataset, "train")
        rows = ray.data.read_parquet(shards(table, "train")).take_all()
        assert told((one["image"]["bytes"], one["label"]) for one in rows) == expected(table, "train")
    finally:
        ray.shutdown()


def content(file) -> bytes:
    with file.open() as opened:
        return opened.read()


def test_daft_reads_a_shard_a_call_and_parquet_at_once(tar, table):
    """Given several shards in one call, 0.7.26 stood still until it was ended after minutes."""
    import daft

    dataset, found = tar("sidecars"), collections.Counter()
    for name in shards(dataset, "train"):
        rows = daft.read_webdataset(name).to_pylist()
        found += told((content(of_tar(row)[0]), row["cls"]) for row in rows)
    assert found == expected(dataset, "train")
    rows = daft.read_parquet(shards(table, "train")).to_pylist()
    assert told((one["image"]["bytes"], one["label"]) for one in rows) == expected(table, "train")


def test_lance_takes_the_parquet_shards_over(table, tmp_path):
    import lance

    rows = pyarrow.dataset.dataset(shards(table, "train"))
    written = lance.write_dataset(rows.to_batches(), str(tmp_path / "train.lance"), schema=rows.schema)
    found = written.take(list(reversed(range(written.count_rows())))).to_pylist()
    assert told((one["image"]["bytes"], one["label"]) for one in found) == expected(table, "train")


def test_only_huggingface_turns_a_picture_as_its_exif_says(turned, tmp_path):
    from timm.data import create_dataset

    dataset = conftest.convert(turned, {"train": "."}, "--index", "timm", target=tmp_path / "dst")
    (shard,) = shards(dataset, "train")
    pictures = {
        "webdataset": next(iter(wds.WebDataset(shard, shardshuffle=False).decode("pil")))["jpg"],
        "timm": next(iter(create_dataset("wds/", root=str(dataset.root / "data"), split="train")))[0],
        "datasets": next(iter(datasets.load_dataset(str(dataset.root), split="train")))["jpg"],
    }
    assert {name: picture.size for name, picture in pictures.items()} == {
        "webdataset": (40, 20), "timm": (40, 20), "datasets": (20, 40),
    }
    row = dataset.shards[0].rows[0]
    assert (row["width"], row["height"]) == (40, 20)


def test_timms_folder_reader_numbers_classes_in_natural_order_and_ours_are_torchvisions(tmp_path):
    import torchvision
    from timm.data.readers import create_reader

    source = tmp_path / "source"
    for number in [1, 2, 10]:
        (source / f"class{number}").mkdir(parents=True)
        Image.new("RGB", (20, 20), (number, 0, 0)).save(source / f"class{number}" / "1.jpg")
    dataset = conftest.convert(source, {"train": "."}, target=tmp_path / "dst")
    ours = dataset.manifest["classes"]
    assert ours == torchvision.datasets.ImageFolder(str(source)).classes == ["class1", "class10", "class2"]
    assert list(create_reader("", root=str(source)).class_to_idx) == ["class1", "class2", "class10"]


def test_energon_reads_labels_and_captions_of_one_dataset_by_a_description_of_ones_own(tar):
    """`dataset.yaml` says labels, as every sample has one; `crude.yaml` beside it hands out the fields as they are."""
    import megatron.energon as energon

    dataset = tar("sidecars")
    assert sorted(int(batch.label[0]) for batch in energon_reads(dataset, "train")) == sorted(
        one.label for one in dataset.truth.values()
    )
    (dataset.root / ".nv-meta" / "crude.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")

    class Encoder(energon.DefaultTaskEncoder):
        cookers = [energon.Cooker(energon.stateless(cook))]
        decoder = None

    read = energon_reads(dataset, "train", dataset_config="crude.yaml", task_encoder=Encoder())
    found = [(batch.__key__[0], batch.image[0], batch.caption[0]) for batch in read]
    assert len(found) == len(dataset.truth)
    assert {(image, caption) for _, image, caption in found} == {
        (one.picture, one.fields["txt"].decode()) for one in dataset.truth.values()
    }
    conftest.run(conftest.programs.shardpack(), "verify", dataset.root, "--level", "data")


@pytest.mark.parametrize("ours", [True, False], ids=["by-our-index", "by-none"])
def test_dali_reads_every_sample_in_order_on_the_processor(converted, ours):
    from nvidia.dali import fn, pipeline_def

    dataset = converted("splits", "--shards", "4", "--index", "dali")
    paths = shards(dataset, "train")
    indexes = [f"{path.removesuffix('.tar')}.idx" for path in paths] if ours else None

    @pipeline_def(batch_size=5, num_threads=1, device_id=None)
    def pipeline():
        return tuple(fn.readers.webdataset(paths=paths, index_paths=indexes, ext=["jpg;png", "cls"], pad_last_batch=False))

    read, found = pipeline(), []
    for _ in range(8):
        pictures, labels = read.run()
        found += [(bytes(pictures.at(n)), int(bytes(labels.at(n)))) for n in range(5)]
    rows = [row for shard in dataset.shards if shard.split == "train" for row in shard.rows]
    samples = [dataset.by_key[row["key"]] for row in rows]
    assert found == [(one.picture, one.label) for one in samples]
