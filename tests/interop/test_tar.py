"""Python's tarfile and GNU tar."""

import os
import subprocess
import tarfile

BLOCK = 512


def key_and_field(name: str) -> tuple[str, str]:
    """Everything up to the first dot of the last component, and the rest: webdataset's rule."""
    folder, slash, base = name.rpartition("/")
    stem, _, field = base.partition(".")
    return folder + slash + stem, field


def expected_members(dataset) -> dict[str, bytes]:
    return {
        f"{key}.{field}": body for key, sample in dataset.by_key.items() for field, body in sample.fields.items()
    }


def test_the_shards_together_are_the_source_with_each_member_once(dataset):
    found = [(member.name, body) for shard in dataset.shards for member, body in shard.members]
    assert len(found) == len(dict(found)), "a member is in the shards twice"
    assert dict(found) == expected_members(dataset)


def test_every_sample_of_the_source_has_a_key_of_its_own(dataset):
    paths = [row["source_path"] for shard in dataset.shards for row in shard.rows]
    assert sorted(paths) == sorted(dataset.truth)
    assert len(dataset.by_key) == len(dataset.truth)


def test_there_are_several_shards_to_speak_of(dataset):
    assert len(dataset.shards) > 2


def test_the_members_of_a_sample_stand_together_in_the_order_of_their_names(dataset):
    for shard in dataset.shards:
        names = [key_and_field(member.name) for member, _ in shard.members]
        keys = [key for key, _ in names]
        runs = [key for position, key in enumerate(keys) if position == 0 or keys[position - 1] != key]
        assert len(runs) == len(set(runs)), "the members of a sample are scattered"
        for key in runs:
            fields = [field for of, field in names if of == key]
            assert fields == sorted(fields)


def test_tarfile_streams_the_members_that_it_finds_with_seeking(dataset):
    for shard in dataset.shards:
        with open(shard.path, "rb") as file, tarfile.open(fileobj=file, mode="r|") as tar:
            streamed = [(member.name, tar.extractfile(member).read()) for member in tar]
        assert streamed == [(member.name, body) for member, body in shard.members]


def test_gnu_tar_lists_the_same_members_and_complains_about_nothing(dataset):
    for shard in dataset.shards:
        listed = subprocess.run(["tar", "tvf", shard.path], capture_output=True, text=True, check=True, env=c_locale())
        assert listed.stderr == ""
        lines = [line.split() for line in listed.stdout.splitlines()]
        assert [(words[0], int(words[2]), words[5]) for words in lines] == [
            ("-r--r--r--", member.size, member.name) for member, _ in shard.members
        ]


def test_gnu_tar_extracts_the_files_of_the_source(dataset, tmp_path):
    for shard in dataset.shards:
        done = subprocess.run(["tar", "xf", shard.path, "-C", tmp_path], capture_output=True, text=True, env=c_locale())
        assert (done.returncode, done.stderr) == (0, "")
    extracted = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    }
    assert extracted == expected_members(dataset)


def test_every_header_is_a_plain_ustar_one_that_says_nothing_of_time_and_place(dataset):
    for shard in dataset.shards:
        data = shard.path.read_bytes()
        offset = 0
        for member, _ in shard.members:
            assert member.offset == offset, "there is something between the members"
            header = data[offset : offset + BLOCK]
            assert header[257:265] == b"ustar\x0000"
            assert header[345:500] == bytes(155), "the prefix is in use: wids would not see it"
            assert header[156:157] == b"0" and not member.pax_headers
            assert (member.mode, member.uid, member.gid, member.mtime) == (0o444, 0, 0, 0)
            assert (member.uname, member.gname) == ("", "")
            assert len(member.name) <= 100 and member.name.isascii() and not set(member.name) & set(" \t\n\r")
            assert member.offset_data == offset + BLOCK
            offset += BLOCK + -(-member.size // BLOCK) * BLOCK
        assert len(data) - offset >= 2 * BLOCK and not any(data[offset:]), "a tar ends in two blocks of zeros"


def c_locale() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
