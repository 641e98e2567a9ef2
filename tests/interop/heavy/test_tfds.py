"""TensorFlow Datasets, which reads a directory by the files that `--index tfds` puts into its root."""

import os
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

TREES = {"splits": "4", "awkward": "3", "sidecars": "2"}
NAMES = {
    "imagenet": ("image/encoded", "image/class/label", "image/filename"),
    "tfds": ("image", "label", "file_name"),
}


@pytest.fixture(params=NAMES)
def schema(request) -> str:
    return request.param


@pytest.fixture(params=TREES)
def dataset(request, converted, schema):
    flags = ["--format", "tfrecord", "--schema", schema, "--index", "tfds", "--name", "my pictures"]
    return converted(request.param, "--shards", TREES[request.param], *flags)


@pytest.fixture
def builder(dataset):
    return tfds.builder_from_directory(str(dataset.root))


def in_order(dataset, split: str) -> list:
    rows = [row for shard in dataset.shards if shard.split == split for row in shard.rows]
    return [dataset.truth[row["source_path"]] for row in rows]


def test_tfds_reads_every_sample_of_every_split_in_order(dataset, builder, schema):
    image, label, name = NAMES[schema]
    base = {"imagenet": 1, "tfds": 0}[schema]
    assert set(builder.info.splits) == {sample.split for sample in dataset.truth.values()}
    for split in builder.info.splits:
        samples = in_order(dataset, split)
        config = tfds.ReadConfig(interleave_cycle_length=1)
        read = builder.as_dataset(split=split, decoders={image: tfds.decode.SkipDecoding()}, read_config=config)
        found = [{key: value.numpy() for key, value in example.items()} for example in read]
        assert [(e[image], int(e[label]), e[name]) for e in found] == [
            (sample.picture, sample.label + base, Path(sample.path).name.encode()) for sample in samples
        ]
        for example, sample in zip(found, samples, strict=True):
            beside = {key: body for key, body in sample.fields.items() if key not in ("cls", "jpg", "png")}
            assert {key: example[key] for key in beside} == beside


def test_labels_have_the_names_of_the_classes(dataset, builder, schema):
    names = builder.info.features[NAMES[schema][1]].names
    classes = dataset.manifest["classes"]
    assert names[-len(classes) :] == classes
    # readers of ImageNet's features take 0 for background
    assert len(names) == len(classes) + {"imagenet": 1, "tfds": 0}[schema]
    image, label, _ = NAMES[schema]
    for split in builder.info.splits:
        config = tfds.ReadConfig(interleave_cycle_length=1)
        read = builder.as_dataset(split=split, decoders={image: tfds.decode.SkipDecoding()}, read_config=config)
        for example, sample in zip(read, in_order(dataset, split), strict=True):
            assert builder.info.features[label].int2str(int(example[label])) == sample.class_name


def test_splits_have_their_sizes(dataset, builder):
    for split, info in builder.info.splits.items():
        shards = [shard for shard in dataset.shards if shard.split == split]
        assert info.shard_lengths == [len(shard.rows) for shard in shards]
        assert info.num_examples == sum(info.shard_lengths)
        records = [record.numpy() for shard in shards for record in tf.data.TFRecordDataset(str(shard.path))]
        assert info.num_bytes == sum(map(len, records))
        assert [os.fspath(name) for name in info.filepaths] == [str(shard.path) for shard in shards]


def test_a_slice_of_a_split_is_read_from_the_shards_that_hold_it(dataset, builder, schema):
    image, _, name = NAMES[schema]
    samples = in_order(dataset, "train")
    config = tfds.ReadConfig(interleave_cycle_length=1)
    read = builder.as_dataset(
        split="train[20%:70%]", decoders={image: tfds.decode.SkipDecoding()}, read_config=config
    )
    found = [example[name].numpy() for example in read]
    begin, end = round(len(samples) * 0.2), round(len(samples) * 0.7)
    assert found == [Path(sample.path).name.encode() for sample in samples[begin:end]]


def test_supervised_pairs_are_a_decoded_picture_and_a_label(dataset, builder):
    pairs = list(builder.as_dataset(split="train", as_supervised=True).take(3))
    assert len(pairs) == 3
    for picture, label in pairs:
        assert picture.dtype == tf.uint8 and picture.shape[-1] == 3 and label.dtype == tf.int64
