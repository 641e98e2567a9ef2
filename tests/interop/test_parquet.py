"""Parquet shards, read with pyarrow, pandas and duckdb."""

import io
import json
from pathlib import Path

import duckdb
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

TREES = {"splits": ["--shard-size", "1MB"], "awkward": ["--shard-size", "1MB"], "sidecars": ["--shards", "3"]}


@pytest.fixture(params=TREES)
def dataset(request, converted):
    return converted(request.param, *TREES[request.param], "--format", "parquet")


def expected(dataset, shard) -> list[dict]:
    """The rows of a shard in the order of its index."""
    samples = [dataset.truth[row["source_path"]] for row in shard.rows]
    return [
        {
            "image": {"bytes": sample.picture, "path": Path(sample.path).name},
            "label": sample.label,
            **{name: body.decode() for name, body in sample.fields.items() if name not in ("cls", "jpg", "png")},
        }
        for sample in samples
    ]


def test_pyarrow_reads_every_sample_with_the_bytes_of_the_source(dataset):
    for shard in dataset.shards:
        assert pyarrow.parquet.read_table(shard.path).to_pylist() == expected(dataset, shard)


def test_the_shards_together_are_the_source(dataset):
    paths = [row["source_path"] for shard in dataset.shards for row in shard.rows]
    assert sorted(paths) == sorted(dataset.truth)
    assert sum(pyarrow.parquet.read_metadata(path).num_rows for path in dataset.paths) == len(paths)


def test_pandas_reads_every_sample_with_the_bytes_of_the_source(dataset):
    for shard in dataset.shards:
        assert pandas.read_parquet(shard.path).to_dict("records") == expected(dataset, shard)


def test_duckdb_reads_every_sample_with_the_bytes_of_the_source(dataset):
    for shard in dataset.shards:
        columns = list(expected(dataset, shard)[0])
        rows = duckdb.sql(f"select {', '.join(columns)} from read_parquet('{shard.path}')").fetchall()
        assert [dict(zip(columns, row, strict=True)) for row in rows] == expected(dataset, shard)


def test_duckdb_reads_all_shards_as_one_table(dataset):
    found = duckdb.sql(
        f"select label, count(*), sum(octet_length(image.bytes)) from read_parquet('{dataset.root}/data/*.parquet') group by label"
    ).fetchall()
    wanted = {}
    for sample in dataset.truth.values():
        count, size = wanted.get(sample.label, (0, 0))
        wanted[sample.label] = (count + 1, size + len(sample.picture))
    assert {label: (count, size) for label, count, size in found} == wanted


def test_columns_have_the_types_that_huggingface_takes_for_pictures_and_classes(dataset):
    for shard in dataset.shards:
        schema = pyarrow.parquet.read_schema(shard.path)
        image = schema.field("image").type
        assert [(image.field(i).name, image.field(i).type) for i in range(image.num_fields)] == [
            ("bytes", pyarrow.binary()),
            ("path", pyarrow.string()),
        ]
        assert schema.field("label").type == pyarrow.int64()
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        assert list(features) == schema.names
        assert features["image"] == {"_type": "Image"}
        assert features["label"] == {"names": dataset.manifest["classes"], "_type": "ClassLabel"}


def test_pictures_are_stored_plain_and_not_compressed(dataset):
    for shard in dataset.shards:
        metadata = pyarrow.parquet.read_metadata(shard.path)
        for group in range(metadata.num_row_groups):
            column = metadata.row_group(group).column(0)
            assert column.path_in_schema == "image.bytes" and column.compression == "UNCOMPRESSED"
            assert set(column.encodings) <= {"PLAIN", "RLE"} and not column.has_dictionary_page
            assert column.has_offset_index


def test_a_range_read_by_the_index_gives_the_picture_of_the_source(dataset):
    for shard in dataset.shards:
        with open(shard.path, "rb") as file:
            for row in shard.rows:
                field = next(field for field in row["fields"] if field["name"] in ("jpg", "png"))
                file.seek(field["offset"])
                assert file.read(field["length"]) == dataset.truth[row["source_path"]].picture


def test_one_row_group_can_be_read_without_the_others(converted):
    """More than a row group may hold, so that there are several."""
    dataset = converted("heavy", "--shards", "1", "--validate", "none", "--order", "listed", "--format", "parquet")
    (shard,) = dataset.shards
    file = pyarrow.parquet.ParquetFile(shard.path)
    wanted = expected(dataset, shard)
    assert file.num_row_groups > 1
    for group in range(file.num_row_groups):
        rows = file.read_row_group(group).to_pylist()
        assert sum(len(row["image"]["bytes"]) for row in rows) <= 100_000_000
        assert rows == wanted[: len(rows)]
        del wanted[: len(rows)]
    assert not wanted


def test_pictures_decode(dataset):
    for shard in dataset.shards:
        table = pyarrow.parquet.read_table(shard.path)
        for image, row in zip(table["image"].to_pylist(), shard.rows, strict=True):
            with Image.open(io.BytesIO(image["bytes"])) as picture:
                assert picture.size == (row["width"], row["height"])


def test_statistics_find_the_shards_of_a_label(dataset):
    """What a query engine skips by; a wrong bound would lose rows without a word."""
    for shard in dataset.shards:
        metadata = pyarrow.parquet.read_metadata(shard.path)
        labels = [row["label"] for row in shard.rows]
        done = 0
        for group in range(metadata.num_row_groups):
            part = metadata.row_group(group)
            of_group = labels[done : done + part.num_rows]
            done += part.num_rows
            position = next(i for i in range(part.num_columns) if part.column(i).path_in_schema == "label")
            statistics = part.column(position).statistics
            if statistics is not None and statistics.has_min_max:
                assert (statistics.min, statistics.max) == (min(of_group), max(of_group))
        for label in set(labels):
            found = pyarrow.parquet.read_table(shard.path, columns=["label"], filters=[("label", "==", label)])
            assert found.num_rows == labels.count(label)
