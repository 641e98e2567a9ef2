"""S3 on servers that others wrote: what is read and written there, and what boto3, aws and webdataset make of it."""

import contextlib
import functools
import hashlib
import io
import itertools
import json
import os
import random
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import programs
import pyarrow.parquet
import pytest
import s3_server
import trees
import truth
import webdataset as wds
from programs import PROJECT
from s3_server import Bucket, Server

MIB = 1 << 20


@pytest.fixture(scope="module", params=s3_server.NAMES)
def server(request, tmp_path_factory) -> Iterator[Server]:
    """Each server in turn. What it takes to find it is all that the environment says about AWS meanwhile."""
    scratch = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        for name in list(os.environ):
            if name.startswith(("AWS_", "SHARDPACK_")) and name != "SHARDPACK_BIN" or name.lower().endswith("_proxy"):
                patch.delenv(name)
        for name in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"]:
            patch.setenv(name, os.devnull)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        # aws, for those who call it by its name
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        server = stack.enter_context(s3_server.run(request.param, scratch))
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


_numbers = itertools.count(1)


def new_bucket(server: Server) -> Bucket:
    return Bucket(server, f"bucket-{next(_numbers)}")


@pytest.fixture
def bucket(server) -> Bucket:
    return new_bucket(server)


def start(*words) -> subprocess.Popen:
    shardpack = programs.shardpack()
    command = [shardpack, *words, "--progress", "none"]
    return subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def shardpack(*words, code: int = 0) -> str:
    """Runs shardpack, which must end with that exit code; gives all that it says."""
    run = start(*words)
    said = run.communicate(timeout=120)[0]
    if run.returncode != code:
        command = " ".join(str(word) for word in words)
        pytest.fail(f"shardpack {command}\nexit code {run.returncode} instead of {code}\n{said}", pytrace=False)
    return said


def digests(root: Path) -> dict[str, str]:
    """Every file below a directory: name → SHA-256."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def published(files: dict[str, str]) -> dict[str, str]:
    """Without the plan, which names the versions of files and objects."""
    return {name: digest for name, digest in files.items() if not name.startswith("_shardpack/")}


def shards_in(bucket: Bucket, prefix: str) -> list[str]:
    """Keys of the shards that the manifest names."""
    manifest = json.loads(bucket.get(f"{prefix}/manifest.json"))
    return [f"{prefix}/{shard['name']}" for split in manifest["splits"] for shard in split["shards"]]


def noise(root: Path, sizes: list[int]) -> None:
    """Files called pictures in two classes, of random bytes."""
    chance = random.Random(1)
    for number, size in enumerate(sizes):
        path = root / f"class-{number % 2}" / f"{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(size))


@dataclass
class Story:
    """One tree converted every way between a directory and a bucket."""

    source: Path
    splits: dict[str, str]
    flags: list[str]
    bucket: Bucket
    local: Path
    """Holds `from-local` and `from-s3`; the bucket has the same prefixes, and `source`."""

    @functools.cached_property
    def by_key(self) -> dict[str, truth.Sample]:
        """Key → what the source has under the path that an index in the bucket names for it."""
        there = truth.read(self.source, self.splits)
        indexes = [key for key in self.bucket.keys("from-s3") if "/index/" in key]
        tables = [pyarrow.parquet.read_table(io.BytesIO(self.bucket.get(key))) for key in indexes]
        return {row["key"]: there[row["source_path"]] for table in tables for row in table.to_pylist()}

    @property
    def members(self) -> dict[str, bytes]:
        """What all shards together must hold: name of the member → bytes."""
        return {
            f"{key}.{field}": body for key, sample in self.by_key.items() for field, body in sample.fields.items()
        }


def convert_every_way(server: Server, source: Path, local: Path, splits: dict[str, str], flags: list[str]) -> Story:
    bucket = Bucket(server, f"bucket-{next(_numbers)}")
    bucket.upload(source, "source")
    shardpack("convert", source, local / "from-local", *flags)
    shardpack("convert", source, bucket.url("from-local"), *flags, *server.writing)
    shardpack("convert", bucket.url("source"), local / "from-s3", *flags)
    shardpack("convert", bucket.url("source"), bucket.url("from-s3"), *flags, *server.writing)
    return Story(source, flags, splits, bucket, local)


# Each makes a tree, and says its splits and what to convert it with.


def pictures(_root: Path, imagefolder: Path) -> tuple[Path, dict[str, str], list[str]]:
    return imagefolder, {"train": "train", "val": "val"}, ["--shard-size", "1MB"]


def awkward(root: Path, imagefolder: Path) -> tuple[Path, dict[str, str], list[str]]:
    trees.awkward(root, sorted(imagefolder.glob("train/*/*")))
    return root, {"train": "."}, ["--shards", "3"]


def large(root: Path, _imagefolder: Path) -> tuple[Path, dict[str, str], list[str]]:
    """Objects that are read in ranges, shards that are written in parts."""
    noise(root, [17 * MIB, 9 * MIB + 1, 4 * MIB + 1, 4 * MIB, *[200_000] * 40])
    return root, {"train": "."}, ["--validate", "none", "--shards", "2"]


def small(root: Path, _imagefolder: Path) -> tuple[Path, dict[str, str], list[str]]:
    """Quick to do again and again."""
    noise(root, [3_000] * 40)
    return root, {"train": "."}, ["--validate", "none", "--shards", "4"]


@pytest.fixture(scope="module")
def stories(server, imagefolder, tmp_path_factory):
    """A function that tells a story, each only once."""

    @functools.cache
    def tell(make) -> Story:
        source, splits, flags = make(tmp_path_factory.mktemp(f"{make.__name__}-source"), imagefolder)
        if not server.takes_line_breaks:
            for path in source.rglob("*\n*"):
                path.unlink()
        local = tmp_path_factory.mktemp(make.__name__)
        bucket = new_bucket(server)
        bucket.upload(source, "source")
        shardpack("convert", source, local / "from-local", *flags)
        shardpack("convert", source, bucket.url("from-local"), *flags, *server.writing)
        shardpack("convert", bucket.url("source"), local / "from-s3", *flags)
        shardpack("convert", bucket.url("source"), bucket.url("from-s3"), *flags, *server.writing)
        return Story(source, splits, flags, bucket, local)

    return tell


@pytest.fixture(params=[pictures, awkward, large])
def story(request, stories) -> Story:
    return stories(request.param)


@pytest.fixture
def small_story(stories) -> Story:
    return stories(small)


@pytest.fixture
def large_story(stories) -> Story:
    return stories(large)


def test_what_is_published_is_the_same_bytes_wherever_it_comes_from_and_goes(story):
    expected = published(digests(story.local / "from-local"))
    assert len([name for name in expected if name.startswith("data/")]) > 1
    assert published(digests(story.local / "from-s3")) == expected
    for prefix in ["from-local", "from-s3"]:
        assert published(story.bucket.digests(prefix)) == expected


def test_the_stored_plan_is_the_same_too_where_the_source_is(story):
    for prefix in ["from-local", "from-s3"]:
        assert story.bucket.digests(prefix) == digests(story.local / prefix)


@pytest.mark.parametrize("level", ["list", "data"])
def test_verify_finds_them_intact(story, level):
    for prefix in ["from-local", "from-s3"]:
        assert "intact" in shardpack("verify", story.bucket.url(prefix), "--level", level)


def test_verify_compares_with_either_source(story):
    for prefix, source in itertools.product(["from-local", "from-s3"], [story.source, story.bucket.url("source")]):
        url = story.bucket.url(prefix)
        assert "intact" in shardpack("verify", url, "--level", "source", "--source", source)


def test_nothing_is_left_behind_by_runs_that_end(story):
    assert story.bucket.uploads() == []
    said = shardpack("gc", story.bucket.url("from-s3"), "--older-than", "0s")
    assert "removed 0 leftovers" in said


def test_tarfile_reads_what_boto3_gets_and_finds_the_source(story):
    found = {}
    for key in shards_in(story.bucket, "from-s3"):
        with tarfile.open(fileobj=io.BytesIO(story.bucket.get(key))) as tar:
            found |= {member.name: tar.extractfile(member).read() for member in tar}
    assert found == story.members


def test_cat_reads_one_sample_of_a_shard_in_the_bucket(story):
    key, sample = min(story.by_key.items())
    command = [programs.shardpack(), "cat", story.bucket.url("from-s3"), key]
    assert subprocess.run(command, check=True, capture_output=True).stdout == sample.picture


def test_aws_s3_cp_copies_a_shard_as_it_is(small_story, tmp_path):
    key = shards_in(small_story.bucket, "from-local")[0]
    command = ["aws", "s3", "cp", "--only-show-errors", small_story.bucket.url(key), tmp_path / "shard.tar"]
    subprocess.run(command, check=True, timeout=60)
    assert (tmp_path / "shard.tar").read_bytes() == small_story.bucket.get(key)


def test_webdataset_streams_shards_out_of_the_bucket_through_aws_s3_cp(small_story):
    url = f"pipe:aws s3 cp --only-show-errors {small_story.bucket.url('from-local/data/train-{00002..00003}.tar')} -"
    found = {}
    for sample in wds.WebDataset(url, shardshuffle=False):
        found |= {f"{sample['__key__']}.{name}": body for name, body in sample.items() if not name.startswith("__")}
    assert len(found) == 2 * 20 and found.items() <= small_story.members.items()


def test_a_second_run_finds_everything_up_to_date(small_story, server):
    for source, prefix in [(small_story.source, "from-local"), (small_story.bucket.url("source"), "from-s3")]:
        before = small_story.bucket.digests(prefix)
        url = small_story.bucket.url(prefix)
        assert "up to date" in shardpack("convert", source, url, *small_story.flags, *server.writing)
        assert small_story.bucket.digests(prefix) == before


def test_another_plan_for_the_same_place_is_refused_and_changes_nothing(small_story, server):
    before = small_story.bucket.versions("from-local")
    # times of objects are in whole seconds
    time.sleep(1)
    url = small_story.bucket.url("from-local")
    said = shardpack("convert", small_story.source, url, *small_story.flags, "--seed", "1", *server.writing, code=10)
    assert url in said
    assert small_story.bucket.versions("from-local") == before


def test_workers_share_a_plan_in_the_bucket(small_story, bucket, server):
    url = bucket.url("shards")
    shardpack("plan", small_story.source, url, *small_story.flags, *server.writing)
    workers = [start("pack", url, "--worker", f"{number}/2", *server.writing) for number in range(2)]
    for worker in workers:
        said = worker.communicate(timeout=60)[0]
        assert worker.returncode == 0, said
    shardpack("publish", url, *server.writing)
    assert published(bucket.digests("shards")) == published(digests(small_story.local / "from-local"))


def test_whole_shards_are_checked_without_reading_them_where_the_server_keeps_their_checksums(server, story):
    url = story.bucket.url("from-s3")
    if server.keeps_checksums:
        said = shardpack("verify", url, "--level", "head")
        assert "intact" in said and " 0 B read" in said
    else:
        said = shardpack("verify", url, "--level", "head", code=1)
        assert "--level data" in said and "intact" not in said


def flip(body: bytes, position: int) -> bytes:
    return body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]


CHANGES = {"cut": lambda body: body[:-1024], "flipped": lambda body: flip(body, len(body) // 2)}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_shard_that_somebody_else_wrote_to_is_damage(small_story, bucket, server, change):
    url = bucket.url("shards")
    shardpack("convert", small_story.source, url, *small_story.flags, *server.writing)
    key = shards_in(bucket, "shards")[1]
    bucket.put(key, change(bucket.get(key)))
    # boto3 sends a CRC-32 of its own: of this one object moto, too, keeps one
    for level in ["head", "data"]:
        said = shardpack("verify", url, "--level", level, code=4)
        assert f"DAMAGE   {key.removeprefix('shards/')}" in said


def test_a_missing_and_a_foreign_shard_are_damage(small_story, bucket, server):
    url = bucket.url("shards")
    shardpack("convert", small_story.source, url, *small_story.flags, *server.writing)
    bucket.client.delete_object(Bucket=bucket.name, Key="shards/data/train-00001.tar")
    bucket.put("shards/data/train-00099.tar", b"")
    said = shardpack("verify", url, "--level", "list", code=4)
    assert "data/train-00001.tar: missing" in said and "data/train-00099.tar" in said


@pytest.mark.parametrize("size", [3_000, 5 * MIB], ids=["in-one-read", "in-ranges"])
def test_an_object_written_to_after_planning_is_refused(bucket, server, tmp_path, size):
    noise(tmp_path, [3_000, 3_000, size])
    bucket.upload(tmp_path, "source")
    url = bucket.url("shards")
    shardpack("plan", bucket.url("source"), url, "--validate", "none", *server.writing)
    key = "source/class-0/0002.jpg"
    bucket.put(key, flip(bucket.get(key), size // 2))
    said = shardpack("pack", url, *server.writing, code=3)
    assert bucket.url(key) in said and "make a new plan" in said
    assert bucket.uploads() == []


def kill_as_soon_as(condition, run: subprocess.Popen) -> bool:
    """False if the run ended before."""
    while run.poll() is None:
        if condition():
            run.kill()
            break
        time.sleep(0.002)
    run.communicate()
    return run.returncode == -9


@pytest.mark.parametrize("make", [small, large])
def test_a_run_killed_at_any_moment_resumes_to_the_same_objects(stories, bucket, server, make):
    story = stories(make)

    def convert(prefix: str) -> list:
        flags = [*story.flags, *server.writing, "--jobs", "1"]
        return ["convert", story.bucket.url("source"), bucket.url(prefix), *flags]

    begun = time.monotonic()
    shardpack(*convert("never-killed"))
    takes = time.monotonic() - begun
    chance = random.Random(make.__name__)
    kills = 0
    for prefix in ["first", "second", "third", "fourth"]:
        for _ in range(2):
            end = time.monotonic() + chance.uniform(0.1, 0.9) * takes
            kills += kill_as_soon_as(lambda: time.monotonic() > end, start(*convert(prefix)))
        shardpack(*convert(prefix))
        # A kill may come between a probe of the bucket and its removal; `gc` takes what it leaves.
        found = bucket.digests(prefix)
        found = {name: digest for name, digest in found.items() if not name.startswith("_shardpack/probe-")}
        assert found == story.bucket.digests("from-s3")
        shardpack("gc", bucket.url(prefix), "--older-than", "0s")
    assert kills > 1, "runs ended before they were killed"
    if server.tells_uploads_of_a_prefix:
        assert bucket.uploads() == []


def test_a_run_that_is_told_to_stop_gives_its_uploads_up(large_story, bucket, server):
    codes = []
    chance = random.Random(1)
    for prefix in ["first", "second", "third", "fourth", "fifth"]:
        run = start("convert", large_story.source, bucket.url(prefix), *large_story.flags, *server.writing)
        while run.poll() is None and not any(f"{prefix}/data/" in key for key in bucket.uploads()):
            pass
        time.sleep(chance.uniform(0, 0.2))
        run.terminate()
        said = run.communicate(timeout=30)[0]
        codes.append(run.returncode)
        assert run.returncode in (0, 143), said
        assert bucket.uploads() == []
    assert 143 in codes, "runs ended before they were stopped"


def test_gc_removes_the_uploads_of_a_killed_run(large_story, bucket, server):
    convert = ["convert", large_story.source, bucket.url("shards"), *large_story.flags, *server.writing]
    assert kill_as_soon_as(lambda: any("/data/" in key for key in bucket.uploads()), start(*convert))
    left = [key.removeprefix("shards/") for key in bucket.uploads()]
    said = shardpack("gc", bucket.url("shards"), "--older-than", "0s")
    if not server.tells_uploads_of_a_prefix:
        # what the page says of it: they are not seen, do no harm, and the server gives them up by itself
        assert "removed 0 leftovers" in said and [key.removeprefix("shards/") for key in bucket.uploads()] == left
        shardpack(*convert)
        assert bucket.digests("shards") == digests(large_story.local / "from-local")
        return
    assert all(f"removed       {name}: unfinished multipart upload" in said for name in left)
    assert bucket.uploads() == []
    shardpack(*convert)
    assert bucket.digests("shards") == digests(large_story.local / "from-local")


def test_gc_leaves_alone_what_is_young_and_what_no_plan_names(small_story, bucket, server):
    url = bucket.url("shards")
    shardpack("convert", small_story.source, url, *small_story.flags, *server.writing)
    ours, foreign = "shards/data/train-00000.tar", "shards/data/somebody-elses.tar"
    beside = "shards-of-others/data/train-00000.tar"
    for key in [ours, foreign, beside]:
        bucket.begin(key)

    if not server.tells_uploads_of_a_prefix:
        assert "removed 0 leftovers" in shardpack("gc", url, "--older-than", "0s")
        assert bucket.uploads() == sorted([ours, foreign, beside])
        return
    said = shardpack("gc", url, "--older-than", "36500d")
    assert "too young     data/train-00000.tar" in said and "not ours      data/somebody-elses.tar" in said
    assert "removed 0 leftovers" in said
    said = shardpack("gc", url, "--dry-run")
    assert ("too young     data/train-00000.tar" in said) == server.tells_age
    assert bucket.uploads() == sorted([ours, foreign, beside])

    said = shardpack("gc", url, "--older-than", "0s")
    assert "removed       data/train-00000.tar" in said and "not ours      data/somebody-elses.tar" in said
    assert bucket.uploads() == sorted([foreign, beside])


@pytest.mark.parametrize("make", [small, large])
def test_class_tags_and_encryption_arrive_at_shards_and_no_class_at_what_readers_open(stories, bucket, server, make):
    story = stories(make)
    # one that no server refuses, where none is kept
    storage_class = server.storage_class or "STANDARD_IA"
    asked = ["--storage-class", storage_class, "--tagging", "team=vision&cost%20centre=7", "--sse", "AES256"]
    shardpack("convert", story.source, bucket.url("shards"), *story.flags, *asked, *server.writing)
    assert bucket.digests("shards") == digests(story.local / "from-local")
    for key in shards_in(bucket, "shards"):
        head = bucket.head(key)
        if server.storage_class is None:
            assert "StorageClass" not in head and "ServerSideEncryption" not in head
            continue
        assert (head["StorageClass"], head["ServerSideEncryption"]) == (storage_class, "AES256")
        assert bucket.tags(key) == {"team": "vision", "cost centre": "7"}
    for name in bucket.names("shards"):
        if not name.startswith("data/"):
            assert "StorageClass" not in bucket.head(f"shards/{name}"), name


def test_a_server_without_conditional_writes_is_refused_before_any_shard_is_written(small_story, bucket, server):
    convert = ["convert", small_story.source, bucket.url("shards"), *small_story.flags]
    if server.honours_conditions:
        shardpack(*convert)
    else:
        assert "--unsafe-no-conditional-put" in shardpack(*convert, code=1)
        assert published(bucket.digests("shards")) == {}
        shardpack(*convert, "--unsafe-no-conditional-put")
    assert bucket.digests("shards") == digests(small_story.local / "from-local")


def test_a_refused_server_is_refused_again_and_belongs_to_nobody(small_story, bucket, server):
    convert = ["convert", small_story.source, bucket.url("shards"), *small_story.flags]
    if not server.honours_conditions:
        for _ in range(2):
            assert "--unsafe-no-conditional-put" in shardpack(*convert, code=1)
            assert published(bucket.digests("shards")) == {}
    shardpack(*convert, "--seed", "1", *server.writing)


def test_a_wrong_secret_is_told_as_such_where_the_server_looks_at_it(small_story, server, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "0" * 64)
    if server.checks_signatures:
        said = shardpack("verify", small_story.bucket.url("from-s3"), code=1)
        assert "refuses the signature" in said and "0" * 64 not in said
    else:
        shardpack("verify", small_story.bucket.url("from-s3"))


def test_an_unknown_access_key_is_told_as_such_where_the_server_looks_at_it(small_story, server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"GK{0:024x}")
    if server.checks_signatures:
        assert "does not know this access key" in shardpack("verify", small_story.bucket.url("from-s3"), code=1)
    else:
        shardpack("verify", small_story.bucket.url("from-s3"))


def test_a_wrong_region_is_told_beside_the_right_one_where_the_server_looks_at_it(small_story, server):
    url = small_story.bucket.url("from-s3")
    if server.checks_signatures:
        said = shardpack("verify", url, "--region", "eu-west-1", code=1)
        assert f"the bucket is in region {s3_server.REGION}: add `--region {s3_server.REGION}`" in said
    else:
        shardpack("verify", url, "--region", "eu-west-1")


def test_a_bucket_that_is_not_there_is_told_as_such(small_story, bucket, server):
    missing = "s3://no-such-bucket-here/somewhere"
    for command in [
        ["convert", missing, bucket.url("shards"), *server.writing],
        ["convert", small_story.source, missing, *small_story.flags, *server.writing],
        ["verify", missing],
    ]:
        said = shardpack(*command, code=1)
        assert "no-such-bucket-here" in said and "there is no such bucket" in said


def test_of_several_plans_at_once_exactly_one_wins(small_story, bucket, server):
    if not server.honours_conditions:
        return  # nobody promises anything there, and only who asks for it may write: the test above
    url = bucket.url("shards")
    runs = [start("convert", small_story.source, url, *small_story.flags, "--seed", str(seed)) for seed in range(4)]
    said = [run.communicate(timeout=120)[0] for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 10, 10, 10], "\n".join(said)
    assert "intact" in shardpack("verify", url, "--level", "data")


def test_a_bucket_that_keeps_versions_gets_one_of_what_is_published_and_is_mended_behind_a_deletion(
    small_story, bucket, server
):
    if not server.keeps_versions:
        return  # there is no such bucket on this server
    bucket.client.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
    url = bucket.url("shards")
    convert = ["convert", small_story.source, url, *small_story.flags]
    shardpack(*convert)
    assert "up to date" in shardpack(*convert)
    there = bucket.client.list_object_versions(Bucket=bucket.name, Prefix="shards/")["Versions"]
    for name in bucket.names("shards"):
        assert len([found for found in there if found["Key"] == f"shards/{name}"]) == 1, name

    # what is removed lies below a marker, and is not there
    bucket.client.delete_object(Bucket=bucket.name, Key="shards/data/train-00001.tar")
    assert "data/train-00001.tar: missing" in shardpack("verify", url, "--level", "list", code=4)
    shardpack("repair", url, "--source", small_story.source)
    assert "intact" in shardpack("verify", url, "--level", "data")
    assert "intact" in shardpack("verify", url, "--level", "source", "--source", small_story.source)
