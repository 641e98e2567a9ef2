"""The Python module `shardpack`, from the source tree, against what the source holds."""

import pickle
import shutil
import sys

import boto3
import fsspec
import programs
import pyarrow.fs
import pytest
from fsspec.implementations.arrow import ArrowFSWrapper
from programs import PROJECT
from s3_server import REGION, Bucket, moto

sys.path.insert(0, str(PROJECT / "src/library/python"))
import shardpack  # noqa: E402

FLAGS = [
    (),
    ("--format", "tfrecord"),
    ("--format", "parquet"),
    ("--compress", "zstd", "--zstd-seekable"),
]


@pytest.fixture(autouse=True)
def of_this_tree(monkeypatch):
    """The program that is tested, not one that is installed."""
    monkeypatch.setattr("shardpack._program.program", lambda: str(programs.shardpack()))


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: "-".join(flags) or "tar")
def test_every_sample_is_found_by_number_and_by_key_and_is_what_the_source_has(converted, flags):
    data = converted("splits", "--shard-size", "1MB", *flags)
    dataset = shardpack.Dataset(data.root)
    assert len(dataset) == len(data.truth) == dataset.manifest["samples"]
    assert dataset.classes == sorted({sample.class_name for sample in data.truth.values()})
    assert dataset.shards() == data.paths
    for number, sample in enumerate(dataset):
        truth = data.truth[sample.source_path]
        assert (sample.split, sample.label, sample.class_name) == (truth.split, truth.label, truth.class_name)
        assert sample.image == truth.picture
        assert dataset[number] == sample == dataset[sample.key] and sample.key in dataset
    assert dataset[-1] == sample and "no/such" not in dataset


def test_a_split_is_a_dataset_of_its_own(converted):
    data = converted("splits", "--shard-size", "1MB")
    whole, val = shardpack.Dataset(data.root), shardpack.Dataset(data.root, split="val")
    assert len(val) == whole.splits["val"] == len(list(val))
    assert val.shards() == whole.shards("val") and {sample.split for sample in val} == {"val"}
    train = next(sample for sample in whole if sample.split == "train")
    assert train.key not in val
    with pytest.raises(KeyError, match="no split `test`: it has train, val"):
        shardpack.Dataset(data.root, split="test")
    with pytest.raises(IndexError):
        val[len(val)]


def test_sidecars_are_fields(converted):
    data = converted("sidecars", "--shard-size", "1MB")
    for sample in shardpack.Dataset(data.root):
        for name, content in data.truth[sample.source_path].fields.items():
            assert sample.read(name) == content
    with pytest.raises(KeyError, match="has no field `nose`: it has cls, "):
        sample.read("nose")


def test_it_goes_to_the_workers_of_a_loader(converted):
    dataset = shardpack.Dataset(converted("splits", "--shard-size", "1MB").root)
    first = dataset[0]
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy[0] == first and copy[0].image == first.image
    error = pickle.loads(pickle.dumps(shardpack.DamageError("x", summary={"findings": ["y"]})))
    assert (error.exit_code, error.summary) == (4, {"findings": ["y"]})


def test_damage_is_noticed_and_named(converted, tmp_path):
    root = tmp_path / "damaged"
    shutil.copytree(converted("splits", "--shard-size", "1MB").root, root)
    dataset = shardpack.Dataset(root)
    sample = dataset[0]
    content = bytearray((root / sample.shard).read_bytes())
    content[sample.fields["jpg"].offset + 9] ^= 1
    (root / sample.shard).write_bytes(content)
    with pytest.raises(shardpack.DamageError, match=f"{sample.shard}: sample `{sample.key}` field `jpg`"):
        sample.image
    with pytest.raises(shardpack.DamageError) as caught:
        shardpack.verify(root)
    assert caught.value.exit_code == 4 and sample.shard in caught.value.summary["findings"][0]


def test_shards_without_a_way_to_single_samples_say_so(converted):
    dataset = shardpack.Dataset(converted("splits", "--shard-size", "1MB", "--compress", "gzip").root)
    with pytest.raises(shardpack.Error, match="--zstd-seekable"):
        dataset[0].image


def test_an_error_has_the_exit_code_and_the_message_of_the_program(tmp_path):
    with pytest.raises(shardpack.Error, match="shardpack convert: .*nowhere") as caught:
        shardpack.convert(tmp_path / "nowhere", tmp_path / "shards")
    assert caught.value.exit_code == caught.value.summary["exit_code"] != 0
    with pytest.raises(shardpack.Error, match="--shard-sizes") as caught:
        shardpack.convert(tmp_path, tmp_path / "shards", shard_sizes="1GB")
    assert caught.value.exit_code == 2 and caught.value.summary == {}
    with pytest.raises(FileNotFoundError, match="nothing is published there"):
        shardpack.Dataset(tmp_path)


def test_the_summary_is_for_the_caller_and_for_a_file(imagefolder, tmp_path):
    told = shardpack.convert(imagefolder, tmp_path / "shards", shards=2, summary=tmp_path / "told.json", sha256=True, report=None)
    assert told["samples"] == 52 and (tmp_path / "told.json").exists()
    assert shardpack.verify(tmp_path / "shards", level="list")["exit_code"] == 0


def test_a_dataset_is_read_from_s3_and_from_whatever_fsspec_knows(converted, tmp_path, monkeypatch):
    data = converted("splits", "--shard-size", "1MB")
    memory = fsspec.filesystem("memory")
    memory.put(f"{data.root}/", "/pets/", recursive=True)
    assert [sample.image for sample in shardpack.Dataset("memory://pets")] == [sample.image for sample in shardpack.Dataset(data.root)]

    class Files(ArrowFSWrapper):
        """What s3fs is to fsspec, without its requirements on boto3, which the other tests have newer."""

        protocol = "s3"

        def __init__(self, **options):
            super().__init__(pyarrow.fs.S3FileSystem(region=REGION, scheme="http", **options))

    with moto(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        Bucket(server, "module").upload(data.root, "pets")
        fsspec.register_implementation("s3", Files, clobber=True)
        dataset = shardpack.Dataset("s3://module/pets", split="val", endpoint_override=server.endpoint.removeprefix("http://"))
        assert dataset.shards()[0].startswith("s3://module/pets/data/val-")
        assert [sample.image for sample in dataset] == [sample.image for sample in shardpack.Dataset(data.root, split="val")]
