"""The Parquet index, read with pyarrow and duckdb and held against what tarfile finds in the shards."""

import io
import zlib

import duckdb
import pyarrow.parquet
import pytest
from PIL import Image

BLOCK = 512
COLUMNS = "key split shard ordinal label class source_path offset length width height format fields".split()
EVERY_FIELD = """
    select shard, key, unnest(fields, recursive := true)
    from read_parquet('{}/index/*.parquet')
"""


def padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def check_offsets(dataset) -> None:
    """Every field of every row is where the index says, and the rows together are all there is."""
    for shard in dataset.shards:
        members = {member.name: (member, body) for member, body in shard.members}
        end = 0
        for row in shard.rows:
            assert row["offset"] == end, f"{row['key']} does not begin where the sample before it ends"
            for field in row["fields"]:
                member, body = members.pop(f"{row['key']}.{field['name']}")
                assert (field["offset"], field["length"]) == (member.offset_data, member.size)
                assert int(field["crc32"]) == zlib.crc32(body)
                end = member.offset_data + padded(member.size)
            assert row["offset"] + row["length"] == end, f"{row['key']} does not end with its last block"
        assert not members, "members that no row of the index names"


def test_the_index_has_its_documented_columns(dataset):
    for shard in dataset.shards:
        schema = pyarrow.parquet.read_schema(shard.index)
        assert [name for name in schema.names if name in COLUMNS] == COLUMNS
        fields = schema.field("fields").type.value_type
        assert [fields.field(i).name for i in range(fields.num_fields)] == ["name", "offset", "length", "crc32"]


def test_offsets_lengths_and_checksums_are_those_of_the_members(dataset):
    check_offsets(dataset)


def test_offsets_hold_for_any_set_of_names_and_sizes(any_dataset):
    check_offsets(any_dataset)
    found = {
        row["source_path"]: {field["name"] for field in row["fields"]}
        for shard in any_dataset.shards
        for row in shard.rows
    }
    assert found == {path: set(sample.fields) for path, sample in any_dataset.truth.items()}


def test_a_range_read_by_the_index_gives_the_picture_of_the_source(dataset):
    for shard in dataset.shards:
        with open(shard.path, "rb") as file:
            for row in shard.rows:
                field = next(field for field in row["fields"] if field["name"] in ("jpg", "png"))
                file.seek(field["offset"])
                assert file.read(field["length"]) == dataset.truth[row["source_path"]].picture


def test_rows_say_what_the_sample_is_and_where_it_came_from(dataset):
    for shard in dataset.shards:
        for row in shard.rows:
            sample = dataset.truth[row["source_path"]]
            assert (row["label"], row["class"], row["split"]) == (sample.label, sample.class_name, sample.split)
            assert dataset.root / row["shard"] == shard.path
            assert row["split"] == shard.split


def test_width_height_and_format_are_those_of_the_picture(dataset):
    for shard in dataset.shards:
        for row in shard.rows:
            with Image.open(io.BytesIO(dataset.truth[row["source_path"]].picture)) as picture:
                assert (row["width"], row["height"]) == picture.size, row["source_path"]
                assert row["format"].lower().replace("jpg", "jpeg") == picture.format.lower(), row["source_path"]


def test_duckdb_reads_the_index_files_together_as_one_table(dataset):
    table = duckdb.sql(f"select * from read_parquet('{dataset.root}/index/*.parquet') order by key")
    assert [name for name in table.columns if name in COLUMNS] == COLUMNS
    rows = sorted((row for shard in dataset.shards for row in shard.rows), key=lambda row: row["key"].encode())
    plain = [position for position, name in enumerate(table.columns) if name != "fields"]
    names = [table.columns[position] for position in plain]
    assert [[row[position] for position in plain] for row in table.fetchall()] == [
        [row[name] for name in names] for row in rows
    ]


def test_duckdb_opens_the_nested_fields(dataset):
    found = set(duckdb.sql(EVERY_FIELD.format(dataset.root)).fetchall())
    expected = {
        (row["shard"], row["key"], *(field[name] for name in ("name", "offset", "length", "crc32")))
        for shard in dataset.shards
        for row in shard.rows
        for field in row["fields"]
    }
    assert found == expected


@pytest.mark.parametrize("seek_by", ["key", "class"])
def test_duckdb_finds_samples_by_a_condition(dataset, seek_by):
    wanted = dataset.shards[-1].rows[-1]
    found = duckdb.execute(
        f"""select source_path from read_parquet('{dataset.root}/index/*.parquet') where "{seek_by}" = ?""",
        [wanted[seek_by]],
    ).fetchall()
    assert (wanted["source_path"],) in found
