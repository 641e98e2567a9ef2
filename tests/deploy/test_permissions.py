"""The permissions and figures of docs/batch.md are those of the requests that are really made."""

import collections
import json
import random
import re

import pytest
from conftest import picture, pictures
from programs import PROJECT

PAGE = (PROJECT / "docs/batch.md").read_text()
ACTIONS = {
    "ListObjectsV2": "s3:ListBucket",
    "HeadBucket": "s3:ListBucket",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "UploadPartCopy": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "DeleteObject": "s3:DeleteObject",
}
MIB = 1 << 20


def needed(requests: list[list]) -> set[str]:
    found = {ACTIONS[operation] for operation, _key, _status in requests}
    # Without it S3 says "access denied" of what is not there.
    return found | {"s3:ListBucket" for *_, status in requests if status == 404}


def table(head: str) -> list[list[str]]:
    """Cells of a table in the page that begins with this row."""
    rows = PAGE.split(f"\n{head}\n")[1].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def written(cell: str) -> set[str]:
    return set(re.findall(r"`(s3:\w+)`", cell))


@pytest.fixture
def images(store, tmp_path):
    """The same pictures in the bucket and on disk; two shards, one of them large enough to be uploaded in parts."""
    files = pictures(2, 10) | {
        f"class-1/large-{number}.jpg": random.Random(number).randbytes(2 * MIB) for number in range(6)
    }
    store.fill("images", files)
    for name, body in files.items():
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_bytes(body)
    return tmp_path / "images"


def test_the_permissions_of_each_verb_are_those_that_the_page_says(run, store, images, tmp_path):
    shards, local = "s3://bucket/shards", str(tmp_path / "shards")
    recipe = ["--validate", "none", "--shards", "1"]

    def asked(*words: str, code: int = 0) -> set[str]:
        store.requests()
        run(*words, code=code)
        return needed(store.requests())

    on_dst = collections.defaultdict(set)
    on_src = collections.defaultdict(set)
    on_dst["plan"] |= asked("plan", str(images), shards, *recipe)
    on_dst["pack"] |= asked("pack", shards)
    on_dst["publish"] |= asked("publish", shards)
    for level in ["list", "head", "data"]:
        on_dst["verify"] |= asked("verify", shards, "--level", level)
    on_dst["verify"] |= asked("verify", shards, "--level", "source", "--source", str(images))
    on_dst["verify --sample"] |= asked("verify", shards, "--sample", "50%")
    on_dst["inspect, cat"] |= asked("inspect", shards) | asked("inspect", shards, "class-0/0001")
    on_dst["inspect, cat"] |= asked("cat", shards, "class-0/0001.cls")
    on_dst["index"] |= asked("index", shards, "--index", "wids")
    shard = next(name for name in store.digests("shards") if name.startswith("data/"))
    body = bytearray(store.get(f"shards/{shard}"))
    body[5000] ^= 1
    store.put(f"shards/{shard}", bytes(body))
    on_dst["repair"] |= asked("repair", shards, "--source", str(images))
    store.begin(f"shards/{shard}")
    on_dst["gc"] |= asked("gc", shards, "--older-than", "0s")
    # Grown, so that everything that is read of a published dataset is.
    (images / "class-0/one-more.jpg").write_bytes(picture("one more"))
    on_dst["plan"] |= asked("plan", str(images), shards, *recipe)
    on_dst["pack"] |= asked("pack", shards)
    on_dst["publish"] |= asked("publish", shards)
    (images / "class-0/and-another.jpg").write_bytes(picture("and another"))
    on_dst["convert"] |= asked("convert", str(images), shards, *recipe)
    # Earlier snapshots, which are finished objects.
    on_dst["gc"] |= asked("gc", shards, "--older-than", "0s", "--keep", "1")
    on_dst["convert"] |= asked("convert", str(images), "s3://bucket/others", *recipe)

    on_src["plan"] |= asked("plan", "s3://bucket/images", local, *recipe)
    on_src["pack"] |= asked("pack", local)
    run("publish", local)
    on_dst["copy"] |= asked("copy", local, "s3://bucket/copied")
    on_src["copy"] |= asked("copy", "s3://bucket/copied", str(tmp_path / "copied"))
    on_src["verify"] |= asked("verify", local, "--level", "source", "--source", "s3://bucket/images")
    (tmp_path / "shards" / shard).write_bytes(b"")
    on_src["repair"] |= asked("repair", local, "--source", "s3://bucket/images")
    on_src["convert"] |= asked("convert", "s3://bucket/images", str(tmp_path / "others"), *recipe)

    rows = {
        verb.replace("`", ""): (written(src), written(dst)) for verb, src, dst in table("| verb | on SRC | on DST |")
    }
    assert rows == {verb: (on_src[verb], on_dst[verb]) for verb in on_dst}
    policy = json.loads(re.search(r"```json\n(\{.*?Statement.*?)```", PAGE, re.S)[1])
    granted = collections.defaultdict(set)
    for statement in policy["Statement"]:
        actions, resources = (
            [one] if isinstance(one, str) else one for one in (statement["Action"], statement["Resource"])
        )
        assert statement["Effect"] == "Allow" and not any("*" in action for action in actions)
        for resource in resources:
            granted[resource] |= set(actions)
    nightly = ["plan", "pack", "publish", "convert", "verify", "verify --sample", "gc"]
    src = set().union(*(on_src[verb] for verb in nightly))
    dst = set().union(*(on_dst[verb] for verb in nightly))
    of_objects = lambda actions: {action for action in actions if "ListBucket" not in action}  # noqa: E731
    assert granted == {
        "arn:aws:s3:::bucket": (src | dst) - of_objects(src | dst),
        "arn:aws:s3:::bucket/images/*": of_objects(src),
        "arn:aws:s3:::bucket/shards/*": of_objects(dst),
    }


def test_requests_are_counted_as_the_cost_table_counts_them(run, store):
    """One GET a picture, one LIST a directory, and a PUT for each part of 8 MiB and six more for each shard at most."""
    classes, each, shards = 10, 30, 3
    large = {f"class-0/large-{number}.jpg": random.Random(number).randbytes(3 * MIB) for number in range(20)}
    files = pictures(classes, each) | large
    store.fill("images", files)
    store.requests()
    run("convert", "s3://bucket/images", "s3://bucket/shards", "--validate", "none", "--shards", str(shards))
    counted = collections.Counter(operation for operation, *_ in store.requests())
    size = sum(map(len, files.values()))
    puts = (
        counted["PutObject"]
        + counted["CreateMultipartUpload"]
        + counted["UploadPart"]
        + counted["CompleteMultipartUpload"]
    )
    gets = counted["GetObject"] + counted["HeadObject"]
    parts = size / (8 * MIB)
    assert len(files) <= gets <= len(files) + 3 * shards + 20, counted
    assert classes + 1 <= counted["ListObjectsV2"] <= classes + 12, counted
    assert parts <= puts <= parts + 6 * shards + 15, counted
