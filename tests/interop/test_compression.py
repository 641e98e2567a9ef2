"""Compressed shards, unpacked by the gzip and zstd tools, zstandard, tarfile and webdataset."""

import gzip
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib

import duckdb
import pytest
import webdataset as wds
import zstandard

SINGLE, SEEKABLE = ("--compress", "zstd"), ("--compress", "zstd", "--zstd-seekable")
GZIP = ("--compress", "gzip")
TREES = {
    "splits": ["--shard-size", "1MB"],
    "sidecars": ["--shard-size", "1MB"],
    "giants": ["--shards", "1", "--order", "listed", "--validate", "none"],
}


def pairs(*methods):
    """Every tree and layout with each of these methods."""
    return [
        pytest.param(tree, layout, method, id="-".join([tree, layout, *method[1:]]))
        for tree in TREES
        for layout in ["wds", "tfrecord"]
        # TFRecord's features need to know how large a picture is
        if (tree, layout) != ("giants", "tfrecord")
        for method in methods
    ]


@pytest.fixture
def both(converted, tree, layout, method):
    """The shards as they are and compressed, side by side."""
    flags = [*TREES[tree], "--format", layout]
    plain, packed = converted(tree, *flags), converted(tree, *flags, *method)
    assert len(plain.shards) == len(packed.shards)
    return list(zip(plain.shards, packed.shards, strict=True))


def tool(name: str, *words) -> bytes:
    """What a tool writes; it must complain about nothing. `zstd -lv` introduces itself there."""
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name}: install it")
    done = subprocess.run([name, *map(str, words)], capture_output=True)
    complaints = [line for line in done.stderr.splitlines() if not line.startswith(b"*** Zstandard CLI")]
    assert (done.returncode, complaints) == (0, []), done.stderr.decode()
    return done.stdout


def frames(data: bytes) -> list[tuple[int, bytes]]:
    """Where each data frame begins and what it unpacks to, found by libzstd one after the other."""
    found, offset = [], 0
    while offset < len(data) and not is_skippable(data[offset:]):
        one = zstandard.ZstdDecompressor().decompressobj()
        content = one.decompress(data[offset:])
        found.append((offset, content))
        offset = len(data) - len(one.unused_data)
    return found


def is_skippable(data: bytes) -> bool:
    return data[1:4] == b"\x2a\x4d\x18" and data[0] & 0xF0 == 0x50


@pytest.mark.parametrize("tree, layout, method", pairs(SINGLE, SEEKABLE))
def test_zstandard_streams_the_bytes_of_the_shard_that_is_not_compressed(both):
    for plain, packed in both:
        assert packed.path.name == plain.path.name + ".zst"
        with open(packed.path, "rb") as file:
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            assert reader.read() == plain.path.read_bytes()


@pytest.mark.parametrize("tree, layout, method", pairs(SINGLE, SEEKABLE))
def test_the_zstd_tool_finds_the_shard_intact_and_unpacks_it(both):
    for plain, packed in both:
        tool("zstd", "-tq", packed.path)
        assert tool("zstd", "-dcq", packed.path) == plain.path.read_bytes()


@pytest.mark.parametrize("tree, layout, method", pairs(SINGLE, SEEKABLE))
def test_the_zstd_tool_lists_as_many_frames_as_there_are(both, method):
    for _, packed in both:
        said = tool("zstd", "-lv", packed.path).decode()
        assert f"# Zstandard Frames: {len(frames(packed.path.read_bytes()))}\n" in said
        assert ("# Skippable Frames: 1\n" in said) == (method == SEEKABLE)
        assert f" ({packed.listed['unpacked_bytes']} B)" in said and "Check: XXH64" in said


@pytest.mark.parametrize("tree, layout, method", pairs(GZIP))
def test_gzip_unpacks_the_bytes_of_the_shard_that_is_not_compressed(both):
    for plain, packed in both:
        assert packed.path.name == plain.path.name + ".gz"
        assert gzip.decompress(packed.path.read_bytes()) == plain.path.read_bytes()
        assert tool("gzip", "-dc", packed.path) == plain.path.read_bytes()


@pytest.mark.parametrize("tree, layout, method", pairs(GZIP))
def test_a_gzip_shard_is_one_member_that_names_no_file_and_no_time(both):
    for _, packed in both:
        data = packed.path.read_bytes()
        assert data[:4] == b"\x1f\x8b\x08\0" and data[4:8] == bytes(4)
        one = zlib.decompressobj(wbits=31)
        one.decompress(data)
        assert one.eof and not one.unused_data, "Python's streaming tarfile reads the first member only"


@pytest.mark.parametrize("tree, layout, method", pairs(GZIP, SINGLE, SEEKABLE))
def test_the_manifest_knows_both_sizes_and_the_index_speaks_of_the_unpacked_shard(both):
    for plain, packed in both:
        assert packed.listed["bytes"] == packed.path.stat().st_size
        assert packed.listed["unpacked_bytes"] == plain.path.stat().st_size
        assert packed.listed["crc32"] == f"{zlib.crc32(packed.path.read_bytes()):08x}"
        for row, other in zip(plain.rows, packed.rows, strict=True):
            for name in ["key", "offset", "length", "fields", "label", "source_path"]:
                assert row[name] == other[name]


@pytest.mark.parametrize("tree, layout, method", pairs(SINGLE))
def test_a_single_frame_says_how_long_its_content_is_and_has_a_checksum(both):
    for plain, packed in both:
        data = packed.path.read_bytes()
        parameters = zstandard.get_frame_parameters(data)
        assert parameters.has_checksum and parameters.content_size == plain.path.stat().st_size
        assert len(frames(data)) == 1
        # this one-shot call silently ends after the first frame
        assert zstandard.ZstdDecompressor().decompress(data) == plain.path.read_bytes()


@pytest.mark.parametrize("tree, layout, method", pairs(SEEKABLE))
def test_the_seek_table_lists_every_frame(both):
    for plain, packed in both:
        data = packed.path.read_bytes()
        count, descriptor, magic = struct.unpack("<IBI", data[-9:])
        assert magic == 0x8F92EAB1
        width = 12 if descriptor & 0x80 else 8
        assert descriptor & 0x7C == 0
        table = len(data) - 9 - count * width - 8
        assert struct.unpack("<II", data[table : table + 8]) == (0x184D2A5E, count * width + 9)
        entries = [struct.unpack("<II", data[at : at + 8]) for at in range(table + 8, len(data) - 9, width)]
        found = frames(data)
        ends = [offset for offset, _ in found[1:]] + [table]
        assert entries == [(end - offset, len(content)) for (offset, content), end in zip(found, ends, strict=True)]
        assert b"".join(content for _, content in found) == plain.path.read_bytes()
        for offset, content in found:
            parameters = zstandard.get_frame_parameters(data[offset:])
            assert parameters.has_checksum and parameters.content_size == len(content)


@pytest.mark.parametrize("tree", TREES)
def test_large_shards_have_several_frames_and_frames_stay_small(converted, tree):
    dataset = converted(tree, *TREES[tree], "--format", "wds", *SEEKABLE)
    for shard in dataset.shards:
        found = frames(shard.path.read_bytes())
        assert len(found) > 1 or shard.listed["unpacked_bytes"] < 1 << 20
        assert max(len(content) for _, content in found) <= 8 << 20


@pytest.mark.parametrize("tree, layout, method", pairs(SEEKABLE))
def test_one_range_read_by_the_index_unpacks_to_each_field_of_the_source(converted, tree, layout, method):
    """As the documentation of the index tells a reader to do it, with duckdb for the lookup."""
    dataset = converted(tree, *TREES[tree], "--format", layout, *method)
    rows = duckdb.sql(
        f"""select shard, source_path, frame_offset, frame_length, frame_start, field.name, field.offset, field.length
            from (select *, unnest(fields) as field from read_parquet('{dataset.root}/index/*.parquet'))"""
    ).fetchall()
    found = {path: {} for path in dataset.truth}
    for shard, path, frame_offset, frame_length, frame_start, name, offset, length in rows:
        with open(dataset.root / shard, "rb") as file:
            file.seek(frame_offset)
            packed = file.read(frame_length)
        content = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read()
        found[path][name] = content[offset - frame_start : offset - frame_start + length]
    for path, sample in dataset.truth.items():
        # a TFRecord has the label as a feature, not as a field
        wanted = {name: body for name, body in sample.fields.items() if layout == "wds" or name != "cls"}
        assert found[path] == wanted, path


@pytest.mark.parametrize("tree, layout, method", pairs(GZIP, SINGLE))
def test_the_index_names_no_frames_where_there_are_none_to_seek(both):
    for plain, packed in both:
        for row in [*plain.rows, *packed.rows]:
            assert (row["frame_offset"], row["frame_length"], row["frame_start"]) == (None, None, None)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("mode", ["r:gz", "r|gz", "r|*"])
def test_tarfile_reads_a_gzip_shard_with_seeking_and_as_a_stream(converted, tree, mode):
    plain, packed = (converted(tree, *TREES[tree], "--format", "wds", *method) for method in [(), GZIP])
    for shard, other in zip(plain.shards, packed.shards, strict=True):
        with tarfile.open(other.path, mode) as tar:
            found = [(member.name, tar.extractfile(member).read()) for member in tar]
        assert found == [(member.name, body) for member, body in shard.members]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="tarfile reads zstd from Python 3.14 on")
@pytest.mark.parametrize("method, mode", [(SINGLE, "r:zst"), (SINGLE, "r|*"), (SEEKABLE, "r:zst")])
def test_tarfile_reads_a_zstd_shard(converted, method, mode):
    dataset = converted("splits", *TREES["splits"], "--format", "wds", *method)
    for shard in dataset.shards:
        with tarfile.open(shard.path, mode) as tar:
            found = {member.name: tar.extractfile(member).read() for member in tar}
        for row in shard.rows:
            for name, body in dataset.truth[row["source_path"]].fields.items():
                assert found[f"{row['key']}.{name}"] == body


def samples(urls) -> dict[str, dict[str, bytes]]:
    found = [
        (sample["__key__"], {name: body for name, body in sample.items() if not name.startswith("__")})
        for sample in wds.WebDataset(urls, shardshuffle=False)
    ]
    assert len(found) == len(dict(found)), "a key comes twice"
    return dict(found)


@pytest.mark.parametrize("tree", TREES)
def test_webdataset_opens_gzip_shards_by_itself(converted, tree):
    dataset = converted(tree, *TREES[tree], "--format", "wds", *GZIP)
    assert samples(dataset.paths) == {key: sample.fields for key, sample in dataset.by_key.items()}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("method", [SINGLE, SEEKABLE], ids=["single", "seekable"])
def test_webdataset_reads_zstd_shards_through_the_zstd_tool(converted, tree, method):
    dataset = converted(tree, *TREES[tree], "--format", "wds", *method)
    tool("zstd", "-tq", dataset.paths[0])
    urls = [f"pipe:zstd -dcq {path}" for path in dataset.paths]
    assert samples(urls) == {key: sample.fields for key, sample in dataset.by_key.items()}
