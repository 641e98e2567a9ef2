"""The templates of deploy/argo, run: whatever the number of workers, whoever is killed, the result is that of one `convert`."""

import json
import random
import signal
import threading
import time

import kustomize
import pytest
from argo import FAILED, OMITTED, SKIPPED, SUCCEEDED, Argo
from conftest import picture, pictures
from programs import PROJECT
from pods import GONE, Node, isolates, kill, nobody_kills
from store import dataset

OVERLAYS = PROJECT / "deploy/argo/overlays"
OPTIONS = {"SHARDPACK_SHARD_SIZE": "60KB", "SHARDPACK_READS": "16"}


@pytest.fixture
def cluster(shardpack, store):
    """`cluster(chaos)`: an overlay, that for any server if none is named, with the store for its server and its keys in a Secret."""

    def cluster(chaos=nobody_kills, overlay: str = "static-keys") -> Argo:
        objects = kustomize.render(OVERLAYS / overlay)
        options = next(one for one in objects if one["kind"] == "ConfigMap")
        options["data"] |= OPTIONS | {"AWS_ENDPOINT_URL_S3": store.environment["AWS_ENDPOINT_URL_S3"]}
        keys = {name: value for name, value in store.environment.items() if "KEY" in name}
        elsewhere = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/nonexistent"}
        return Argo(objects, Node(shardpack, elsewhere, chaos), {"shardpack-keys": keys})

    return cluster


def killer(seed: int, share: float = 1.0):
    """Kills every pod's first attempt at once and its second one a moment later, a share of them, in every way there is."""
    chance = random.Random(seed)
    guard = threading.Lock()

    def chaos(_name, attempt, process):
        with guard:
            how = chance.choice([signal.SIGKILL, signal.SIGTERM, GONE])
            wait = chance.uniform(0, 0.2)
            if attempt > 1 or chance.random() > share:
                return None
        if attempt == 1:
            # Any moment will do, and a pod that ended before is none that was killed.
            time.sleep(wait)
        return kill(process, how) if process.poll() is None else None

    return chaos


def single(run, prefix: str, *flags: str) -> None:
    run("convert", "s3://bucket/images", f"s3://bucket/{prefix}", *flags, **OPTIONS)


@pytest.mark.parametrize("workers", [1, 3, 16])
def test_the_workflow_makes_what_one_convert_makes_although_pods_are_killed(cluster, store, run, workers):
    store.fill("images", pictures(4, 60))
    store.latency(5)
    argo = cluster(killer(workers))
    done = argo.submit("shardpack-convert", workers=str(workers))
    assert done.phase == SUCCEEDED, done.said()
    assert argo.node.kills > 2 + workers
    single(run, "single")
    assert dataset(store, "shards") == dataset(store, "single")
    assert sum(name.startswith("pack(") for name in done.steps) == workers
    assert len(done.outputs["manifest-digest"]) == 64
    assert done.outputs["manifest-digest"] == store.digests("shards")["manifest.json"]
    packed = [name for name in store.digests("shards") if name.startswith("data/")]
    assert len(packed) > 16, "some workers had nothing to do"


def test_a_container_can_write_into_its_volumes_and_nowhere_else(shardpack, store):
    if not isolates():
        pytest.skip("not tried: only root can give a process a view of its own")
    node = Node(shardpack, store.environment)
    container = {
        "command": ["/shardpack"],
        "args": ["plan", "s3://bucket/images", "/nowhere", "--out-workers", "/out/workers"],
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": [{"mountPath": "/out"}],
    }
    store.fill("images", pictures(1, 2))
    ended = node.run("plan", 0, container, {}, 65532)
    assert ended.code == 1 and "read-only file system" in ended.said
    container["args"][2] = "s3://bucket/shards"
    ended = node.run("plan", 0, container, {}, 65532)
    assert ended.code == 0 and ended.files == {"/out/workers": b"1"}, ended.said


def test_there_are_no_more_pods_than_shards(cluster, store):
    store.fill("images", pictures(1, 4))
    done = cluster().submit("shardpack-convert", workers="16")
    assert done.phase == SUCCEEDED, done.said()
    assert [name for name in done.steps if name.startswith("pack(")] == ["pack(0)"]


def test_nothing_is_packed_or_published_when_nothing_changed(cluster, store):
    store.fill("images", pictures(2, 10))
    argo = cluster()
    argo.submit("shardpack-convert")
    before = store.digests("shards")
    store.requests()
    done = argo.submit("shardpack-convert")
    assert {name: step.phase for name, step in done.steps.items()} == {
        "plan": SUCCEEDED,
        "pack": SKIPPED,
        "publish": OMITTED,
        "verify": OMITTED,
    }
    assert done.phase == SUCCEEDED and store.digests("shards") == before


def test_what_no_second_attempt_mends_is_not_tried_again(cluster, store):
    store.fill("images", pictures(2, 10) | {"class-0/0003.jpg": b"<html>\n"})
    done = cluster().submit("shardpack-convert")
    assert done.phase == FAILED
    assert sorted(step.codes for name, step in done.steps.items() if name.startswith("pack(")) == [[0], [3]], (
        done.said()
    )
    assert done.steps["publish"].phase == OMITTED and "manifest.json" not in store.digests("shards")


def test_a_pod_that_is_always_killed_ends_the_workflow_after_six_attempts(cluster, store):
    store.fill("images", pictures(1, 4))
    done = cluster(lambda name, _attempt, process: kill(process, signal.SIGKILL) if name == "publish" else None).submit(
        "shardpack-convert"
    )
    assert done.phase == FAILED and done.steps["publish"].codes == [137] * 6
    assert done.steps["verify"].phase == OMITTED


def test_the_verify_workflow_finds_damage_once_and_does_not_try_again(cluster, store):
    store.fill("images", pictures(2, 10))
    argo = cluster()
    argo.submit("shardpack-convert")
    for level in ["list", "head", "data", "source"]:
        source = {"src": "s3://bucket/images"} if level == "source" else {}
        done = argo.submit("shardpack-verify", level=level, **source)
        assert done.phase == SUCCEEDED, done.said()
        assert json.loads(done.steps["verify"].outputs["summary"])["exit_code"] == 0
    shard = next(name for name in store.digests("shards") if name.startswith("data/"))
    body = bytearray(store.get(f"shards/{shard}"))
    body[1000] ^= 1
    store.put(f"shards/{shard}", bytes(body))
    done = argo.submit("shardpack-verify", level="data")
    assert done.phase == FAILED and done.steps["verify"].codes == [4]
    assert json.loads(done.steps["verify"].outputs["summary"])["exit_code"] == 4


def test_publishing_and_verifying_leave_a_page_that_argo_can_show_also_when_they_fail(cluster, store):
    store.fill("images", pictures(2, 10))
    argo = cluster(overlay="aws")
    published = argo.submit("shardpack-convert")
    assert published.phase == SUCCEEDED, published.said()
    store.delete("shards/data/train-00000.tar")
    verified = argo.submit("shardpack-verify", level="list")
    assert verified.steps["verify"].codes == [4]
    for page in [published.steps["publish"].artifacts["report"], verified.steps["verify"].artifacts["report"]]:
        # Argo's user interface runs no script and fetches nothing: the page needs neither, and asks for nothing but its own pictures.
        assert page.startswith(b"<!") and b"default-src 'none'" in page and b"href=" not in page
        assert page.count(b"<script") == 1 and page.count(b"src=") == page.count(b'src="data:image/jpeg;base64,')
    assert b"train-00000.tar" in verified.steps["verify"].artifacts["report"]


def test_a_packing_pod_tells_argo_how_far_it_is(cluster, store):
    store.fill("images", pictures(2, 10))
    done = cluster().submit("shardpack-convert", workers="1")
    so_far, _, of = done.steps["pack(0)"].progress.partition("/")
    assert so_far == of and int(of) > 0, done.said()


def test_the_nightly_verification_comes_round_to_every_shard(cluster, store):
    store.fill("images", pictures(2, 100))
    argo = cluster()
    argo.submit("shardpack-convert", workers="2")
    shards = {name for name in store.digests("shards") if name.startswith("data/")}
    read = set()
    for _night in range(25):
        store.requests()
        done = argo.cron("shardpack-nightly-verify")
        assert done.phase == SUCCEEDED, done.said()
        tonight = {key.removeprefix("shards/") for operation, key, _ in store.requests() if operation == "GetObject"}
        read |= tonight & shards
    assert len(shards) > 5 and read == shards


class Pictures:
    """A bucket of pictures that somebody works on by day."""

    def __init__(self, store):
        self.store = store
        self.files = pictures(3, 40)
        self.days = 0

    def day(self, change) -> set[str]:
        """Returns the files that were changed or removed."""
        self.days += 1
        before = dict(self.files)
        change(self.files, random.Random(self.days))
        self.store.fill("images", self.files)
        return {name for name, body in before.items() if self.files.get(name) != body}


def additions(files, chance):
    files |= {
        f"class-{number % 3}/new-{chance.randrange(10**9)}.jpg": picture((number, chance.random()))
        for number in range(15)
    }


def deletions(files, chance):
    for name in chance.sample(sorted(files), 3):
        del files[name]


def edits(files, chance):
    for name in chance.sample(sorted(files), 3):
        files[name] = picture(("edited", chance.random()))


def renames(files, chance):
    for name in chance.sample(sorted(files), 3):
        files[name.replace(".jpg", "-renamed.jpg")] = files.pop(name)


def new_class(files, _chance):
    # Sorts before the others, and is numbered after them.
    files |= {f"a-new-class/{number}.jpg": picture(("new", number)) for number in range(12)}


def nothing(_files, _chance):
    pass


def everything(files, chance):
    for change in [additions, deletions, edits, renames]:
        change(files, chance)


def shards_of(store) -> dict[str, str]:
    return {name: digest for name, digest in store.digests("shards").items() if name.startswith("data/")}


def named(store) -> set[str]:
    manifest = json.loads(store.get("shards/manifest.json"))
    return {shard["name"] for split in manifest["splits"] for shard in split["shards"]}


def samples_of(store, shard: str) -> set[str]:
    """Paths of the source files in a shard, from its index."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    name = shard.replace("data/", "shards/index/").replace(".tar", ".parquet")
    table = parquet.read_table(pyarrow.BufferReader(store.get(name)))
    return {str(path) for path in table.column("source_path").to_pylist()}


NIGHTS = [nothing, additions, nothing, deletions, edits, renames, new_class, additions, everything, everything]
OUTAGE, OVERLAP, KILLS = 7, 8, 9


def test_ten_nights_add_what_is_new_and_write_nothing_twice(cluster, store, run):
    bucket = Pictures(store)
    night = 0
    outages = []

    def chaos(name, attempt, process):
        if night == OUTAGE and attempt == 1:
            outages.append(name)
            store.normal()
        return kills(name, attempt, process) if night == KILLS else None

    kills = killer(9)
    argo = cluster(chaos)
    for night, change in enumerate(NIGHTS):
        touched = bucket.day(change)
        published = named(store) if night else set()
        before = shards_of(store)
        keep = {shard for shard in published if not samples_of(store, shard) & touched}
        store.requests()
        if night == OUTAGE:
            store.outage()
        if night == OVERLAP:
            # Another cluster, which knows nothing of this one's lock, at the same moment.
            with_other = []
            other = threading.Thread(
                target=lambda: with_other.append(cluster().cron("shardpack-nightly-convert", workers="2", max_gone="10%"))
            )
            other.start()
        # A night takes 3 of some 130 away: more than the 1 % that goes without a word.
        done = argo.cron("shardpack-nightly-convert", workers="3", max_gone="10%")
        if night == OVERLAP:
            other.join()
            both = [done, with_other[0]]
            lost = [step for one in both for step in one.steps.values() if step.attempts and step.phase != SUCCEEDED]
            assert all(step.codes == [10] for step in lost), "".join(one.said() for one in both)
            done = next((one for one in both if one.phase == SUCCEEDED), done)
        assert done.phase == SUCCEEDED, f"night {night}, {change.__name__}\n{done.said()}"
        if night == OUTAGE:
            assert done.steps["plan"].codes == [75, 0] and outages == ["plan"]
        if change is nothing and night:
            assert done.steps["pack"].phase == SKIPPED and shards_of(store) == before
        after = shards_of(store)
        assert {name: after[name] for name in before} == before, "a published shard was written again"
        written = {
            key.removeprefix("shards/")
            for operation, key, status in store.requests()
            if operation in ("PutObject", "CompleteMultipartUpload") and status == 200
        }
        assert not written & before.keys(), "a published shard was written again"
        assert keep <= named(store), f"night {night}: {keep - named(store)} was replaced although nothing in it changed"
        verified = argo.submit("shardpack-verify", level="source", src="s3://bucket/images")
        assert verified.phase == SUCCEEDED, f"night {night}, {change.__name__}\n{verified.said()}"
        in_shards = [path for shard in named(store) for path in sorted(samples_of(store, shard))]
        assert sorted(in_shards) == sorted(bucket.files), f"night {night}"
    classes = json.loads(store.get("shards/manifest.json"))["classes"]
    assert (
        argo.node.kills > 5 and [one["name"] if isinstance(one, dict) else one for one in classes][-1] == "a-new-class"
    )
