"""TensorFlow, as a training job uses it: TFRecordDataset and parse_single_example."""

import io
from pathlib import Path

import pytest
import tensorflow as tf
from PIL import Image

TREES = {"splits": ["--shard-size", "1MB"], "awkward": ["--shard-size", "1MB"], "sidecars": ["--shards", "3"]}
SCHEMAS = {
    "imagenet": {
        "image/channels": tf.int64,
        "image/class/label": tf.int64,
        "image/class/synset": tf.string,
        "image/colorspace": tf.string,
        "image/encoded": tf.string,
        "image/filename": tf.string,
        "image/format": tf.string,
        "image/height": tf.int64,
        "image/width": tf.int64,
    },
    "tfds": {"file_name": tf.string, "image": tf.string, "label": tf.int64},
}
COMPRESSION = {"none": "", "gzip": "GZIP"}


@pytest.fixture(params=SCHEMAS)
def schema(request) -> str:
    return request.param


@pytest.fixture(params=TREES)
def tree(request) -> str:
    return request.param


def records(shard, method: str = "none") -> list[bytes]:
    """TensorFlow compares both checksums of every record that it reads."""
    found = tf.data.TFRecordDataset(str(shard.path), compression_type=COMPRESSION[method])
    return [record.numpy() for record in found]


def parsed(record: bytes, features: dict) -> dict:
    """Every feature has exactly one value, or this raises."""
    parsing = {name: tf.io.FixedLenFeature([], kind) for name, kind in features.items()}
    return {name: value.numpy() for name, value in tf.io.parse_single_example(record, parsing).items()}


def sidecars(sample) -> dict[str, bytes]:
    return {name: body for name, body in sample.fields.items() if name not in ("cls", "jpg", "png")}


def expected(sample, schema: str, base: int) -> dict:
    """What the source has to say for each feature; the picture's format and size are asked of Pillow."""
    name = Path(sample.path).name.encode()
    if schema == "tfds":
        return {"file_name": name, "image": sample.picture, "label": sample.label + base, **sidecars(sample)}
    with Image.open(io.BytesIO(sample.picture)) as picture:
        width, height = picture.size
        kind = picture.format.encode()
    return {
        "image/channels": 3,
        "image/class/label": sample.label + base,
        "image/class/synset": sample.class_name.encode(),
        "image/colorspace": b"RGB",
        "image/encoded": sample.picture,
        "image/filename": name,
        "image/format": kind,
        "image/height": height,
        "image/width": width,
        **sidecars(sample),
    }


@pytest.mark.parametrize("method", COMPRESSION)
@pytest.mark.parametrize("base", [None, 0, 1])
def test_every_feature_of_every_sample_is_that_of_the_source(converted, tree, schema, base, method):
    flags = [] if base is None else ["--label-base", str(base)]
    dataset = converted(tree, *TREES[tree], "--format", "tfrecord", "--schema", schema, "--compress", method, *flags)
    first_label = {"imagenet": 1, "tfds": 0}[schema] if base is None else base
    left = dict(dataset.truth)
    for shard in dataset.shards:
        found = records(shard, method)
        assert len(found) == len(shard.rows) == shard.listed["samples"]
        for record, row in zip(found, shard.rows, strict=True):
            sample = left.pop(row["source_path"])
            features = SCHEMAS[schema] | {name: tf.string for name in sidecars(sample)}
            assert parsed(record, features) == expected(sample, schema, first_label)
            assert set(tf.train.Example.FromString(record).features.feature) == set(features)
    assert not left, "samples that are in no shard"


def test_protobuf_writes_the_same_bytes_again(converted, tree, schema):
    """Entries sorted by name, no field out of order, no superfluous byte: what a deterministic writer gives."""
    dataset = converted(tree, *TREES[tree], "--format", "tfrecord", "--schema", schema)
    for shard in dataset.shards:
        for record in records(shard):
            assert tf.train.Example.FromString(record).SerializeToString(deterministic=True) == record


def test_tensorflow_writes_the_same_file_from_the_same_records(converted, tree, schema, tmp_path):
    dataset = converted(tree, *TREES[tree], "--format", "tfrecord", "--schema", schema)
    for number, shard in enumerate(dataset.shards):
        with tf.io.TFRecordWriter(str(tmp_path / str(number))) as writer:
            for record in records(shard):
                writer.write(record)
        assert (tmp_path / str(number)).read_bytes() == shard.path.read_bytes()


def test_the_index_says_where_records_and_contents_lie(converted, tree, schema):
    dataset = converted(tree, *TREES[tree], "--format", "tfrecord", "--schema", schema)
    for shard in dataset.shards:
        data = shard.path.read_bytes()
        end = 0
        for row, record in zip(shard.rows, records(shard), strict=True):
            assert row["offset"] == end
            end += row["length"]
            # a length and its checksum before the record, the record's checksum after it
            assert data[row["offset"] + 12 : end - 4] == record
            sample = dataset.truth[row["source_path"]]
            assert {field["name"] for field in row["fields"]} == set(sample.fields) - {"cls"}
            for field in row["fields"]:
                content = data[field["offset"] : field["offset"] + field["length"]]
                assert content == sample.fields[field["name"]]
        assert end == len(data)


def test_pictures_decode_to_those_of_the_source(converted, schema):
    dataset = converted("splits", *TREES["splits"], "--format", "tfrecord", "--schema", schema)
    image = {"imagenet": "image/encoded", "tfds": "image"}[schema]
    for shard in dataset.shards:
        for record, row in zip(records(shard), shard.rows, strict=True):
            encoded = parsed(record, {image: tf.string})[image]
            decode = tf.io.decode_jpeg if row["format"] == "jpeg" else tf.io.decode_png
            pixels = decode(encoded, channels=3).numpy()
            assert pixels.shape == (row["height"], row["width"], 3)
            with Image.open(io.BytesIO(dataset.truth[row["source_path"]].picture)) as picture:
                original = picture.convert("RGB").resize((8, 8), Image.Resampling.BOX)
            thumbnail = Image.fromarray(pixels).resize((8, 8), Image.Resampling.BOX)
            # two decoders may round differently
            assert max(abs(a - b) for a, b in zip(original.tobytes(), thumbnail.tobytes(), strict=True)) <= 4


def test_class_names_become_a_feature_and_do_not_change_the_others(converted, tmp_path):
    plain = converted("splits", *TREES["splits"], "--format", "tfrecord")
    names = {name: f"{name} in words, größer" for name in plain.manifest["classes"]}
    file = tmp_path / "names.txt"
    file.write_text("".join(f"{name} {words}\n" for name, words in names.items()), encoding="utf-8")
    named = converted("splits", *TREES["splits"], "--format", "tfrecord", "--class-names", str(file))
    features = SCHEMAS["imagenet"] | {"image/class/text": tf.string}
    seen = 0
    for shard in named.shards:
        for record, row in zip(records(shard), shard.rows, strict=True):
            sample = named.truth[row["source_path"]]
            text = names[sample.class_name].encode()
            assert parsed(record, features) == {**expected(sample, "imagenet", 1), "image/class/text": text}
            seen += 1
    assert seen == len(named.truth)


def test_a_changed_byte_is_found_by_tensorflow(converted, tmp_path):
    """The checksums are those that TensorFlow compares, not just any."""
    shard = converted("splits", *TREES["splits"], "--format", "tfrecord").shards[0]
    data = shard.path.read_bytes()
    for place in [0, 8, 100, len(data) - 1]:
        damaged = tmp_path / "damaged"
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises((tf.errors.DataLossError, tf.errors.OutOfRangeError)):
            for _ in tf.data.TFRecordDataset(str(damaged)):
                pass
