"""The tfrecord package of PyPI, with and without its index files.

It works in a process of its own: its messages have the names of TensorFlow's, and one process takes only one of them.
"""

import concurrent.futures
import multiprocessing
from pathlib import Path

import pytest

KINDS = {
    "imagenet": {"image/encoded": "byte", "image/class/label": "int", "image/filename": "byte", "image/width": "int"},
    "tfds": {"image": "byte", "label": "int", "file_name": "byte"},
}
NAMES = {
    "imagenet": ("image/encoded", "image/class/label", "image/filename"),
    "tfds": ("image", "label", "file_name"),
}


@pytest.fixture(params=KINDS)
def schema(request) -> str:
    return request.param


def load(schema: str, shard: str, index: str | None, part: tuple[int, int] | None, compression: str | None) -> list:
    """Picture, label and file name of each sample."""
    import tfrecord

    loader = tfrecord.tfrecord_loader(shard, index, KINDS[schema], part, compression_type=compression)
    image, label, name = NAMES[schema]
    return [(bytes(found[image]), int(found[label][0]), bytes(found[name])) for found in loader]


def make_index(shard: str, index: str) -> None:
    from tfrecord.tools import tfrecord2idx

    tfrecord2idx.create_index(shard, index)


@pytest.fixture(scope="module")
def elsewhere():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        yield lambda task, *words: pool.submit(task, *words).result(timeout=120)


def expected(shard, dataset, schema: str) -> list[tuple[bytes, int, bytes]]:
    samples = [dataset.truth[row["source_path"]] for row in shard.rows]
    base = {"imagenet": 1, "tfds": 0}[schema]
    return [(sample.picture, sample.label + base, Path(sample.path).name.encode()) for sample in samples]


@pytest.mark.parametrize("method", ["none", "gzip"])
@pytest.mark.parametrize("tree", ["splits", "awkward", "sidecars"])
def test_tfrecord_reads_every_sample_without_an_index(converted, elsewhere, tree, schema, method):
    flags = ["--shard-size", "1MB", "--format", "tfrecord", "--schema", schema, "--compress", method]
    dataset = converted(tree, *flags)
    for shard in dataset.shards:
        compression = None if method == "none" else method
        found = elsewhere(load, schema, str(shard.path), None, None, compression)
        assert found == expected(shard, dataset, schema)


@pytest.fixture
def indexed(converted, schema):
    return converted("splits", "--shards", "2", "--format", "tfrecord", "--schema", schema, "--index", "tfrecord")


def index_of(shard) -> str:
    return str(shard.path.with_suffix(".tfindex"))


def test_the_index_is_the_one_that_tfrecord_itself_makes(indexed, elsewhere, tmp_path):
    for shard in indexed.shards:
        elsewhere(make_index, str(shard.path), str(tmp_path / "reference"))
        assert Path(index_of(shard)).read_bytes() == (tmp_path / "reference").read_bytes()


def test_tfrecord_reads_every_sample_by_the_index(indexed, elsewhere, schema):
    for shard in indexed.shards:
        found = elsewhere(load, schema, str(shard.path), index_of(shard), None, None)
        wanted = expected(shard, indexed, schema)
        # with an index it begins anywhere, and goes round
        begin = wanted.index(found[0])
        assert found == wanted[begin:] + wanted[:begin]


def test_workers_that_share_a_shard_by_the_index_read_each_sample_once(indexed, elsewhere, schema):
    for shard in indexed.shards:
        parts = [elsewhere(load, schema, str(shard.path), index_of(shard), (n, 3), None) for n in range(3)]
        assert sum(parts, []) == expected(shard, indexed, schema)
