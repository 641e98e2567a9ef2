"""The Indexed Job of deploy/k8s and the SLURM array of deploy/slurm, run: the result is that of one `convert`."""

import contextlib
import hashlib
import os
import random
import signal
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kustomize
import pytest
from conftest import pictures
from programs import PROJECT
from pods import GONE, Node, kill, nobody_kills
from store import dataset

OPTIONS = {"SHARDPACK_SHARD_SIZE": "60KB", "SHARDPACK_READS": "16"}
ARRAY = PROJECT / "deploy/slurm/array.sh"


class Kubernetes:
    """As much of the Job controller as Indexed Jobs with a podFailurePolicy need."""

    def __init__(self, node: Node, objects: list[dict]):
        self.node = node
        self.objects = {(one["kind"], one["metadata"]["name"]): one for one in objects}

    def run(self, spec: dict) -> tuple[bool, dict[int, list[int]], str]:
        """Whether it succeeded, the exit codes of every index, and all that was said."""
        assert spec["completionMode"] == "Indexed"
        pod = spec["template"]["spec"]
        container = pod["containers"][0]
        codes: dict[int, list[int]] = {index: [] for index in range(spec["completions"])}
        said = []
        given_up = []

        def one(index: int) -> bool:
            failures = 0
            while failures <= spec["backoffLimitPerIndex"] and not given_up:
                environment = {"JOB_COMPLETION_INDEX": str(index)}
                for source in container["envFrom"]:
                    if reference := source.get("configMapRef"):
                        environment |= self.objects["ConfigMap", reference["name"]]["data"]
                ended = self.node.run(
                    f"pod({index})", len(codes[index]), container, environment, pod["securityContext"]["runAsUser"]
                )
                codes[index].append(ended.code)
                said.append(ended.said)
                if ended.code == 0:
                    return True
                match self.action(spec["podFailurePolicy"]["rules"], ended):
                    case "FailJob":
                        given_up.append(index)
                    case "Count":
                        failures += 1
            return False

        with ThreadPoolExecutor(spec["parallelism"]) as pool:
            done = list(pool.map(one, codes))
        return all(done), codes, "".join(said)

    @staticmethod
    def action(rules: list[dict], ended) -> str:
        """That of the first rule that fits."""
        for rule in rules:
            if "onPodConditions" in rule and ended.killed is GONE:
                return rule["action"]
            if "onExitCodes" in rule and ended.code in rule["onExitCodes"]["values"]:
                return rule["action"]
        return "Count"


@pytest.fixture
def cluster(shardpack, store):
    def cluster(chaos=nobody_kills) -> Kubernetes:
        objects = kustomize.render(PROJECT / "deploy/k8s")
        options = next(one for one in objects if one["kind"] == "ConfigMap")
        options["data"] |= OPTIONS
        return Kubernetes(Node(shardpack, store.environment, chaos), objects)

    return cluster


def job(cluster: Kubernetes, workers: int) -> dict:
    spec = cluster.objects["Job", "shardpack-convert"]["spec"]
    args = spec["template"]["spec"]["containers"][0]["args"]
    args[args.index("--workers") + 1] = str(workers)
    return spec | {"completions": workers, "parallelism": workers}


@pytest.mark.parametrize("workers", [1, 3, 16])
def test_the_indexed_job_makes_what_one_convert_makes_although_pods_are_killed(cluster, store, run, workers):
    chance = random.Random(workers)
    hows = [chance.choice([signal.SIGKILL, signal.SIGTERM, GONE]) for _ in range(workers)]
    waits = [chance.uniform(0, 0.3) for _ in range(workers)]

    def chaos(name, attempt, process):
        index = int(name[4:-1])
        if attempt > 1:
            return None
        if attempt == 1:
            time.sleep(waits[index])
        return kill(process, hows[index]) if process.poll() is None else None

    store.fill("images", pictures(4, 60))
    kubernetes = cluster(chaos)
    succeeded, codes, said = kubernetes.run(job(kubernetes, workers))
    assert succeeded, f"{codes}\n{said}"
    assert kubernetes.node.kills >= workers
    run("convert", "s3://bucket/images", "s3://bucket/single", **OPTIONS)
    assert dataset(store, "shards") == dataset(store, "single")


def test_the_job_is_given_up_at_once_when_the_source_is_at_fault(cluster, store):
    store.fill("images", pictures(2, 10) | {"class-0/0003.jpg": b"<html>\n"})
    kubernetes = cluster()
    succeeded, codes, said = kubernetes.run(job(kubernetes, 1))
    assert not succeeded and codes == {0: [3]}, said


def test_the_cron_job_adds_what_is_new(cluster, store, run):
    spec = cluster().objects["CronJob", "shardpack-nightly-convert"]["spec"]["jobTemplate"]["spec"]
    store.fill("images", pictures(2, 10))
    for files in [pictures(2, 10), pictures(3, 12), pictures(3, 12)]:
        store.fill("images", files)
        succeeded, _codes, said = cluster().run(spec)
        assert succeeded, said
        run("verify", "s3://bucket/shards", "--level", "source", "--source", "s3://bucket/images")
    assert "up to date" in said


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


class Slurm:
    """Runs an array script as SLURM does; `scontrol requeue` has it run again."""

    def __init__(self, scratch: Path, shardpack: Path):
        self.bin = scratch / "bin"
        self.bin.mkdir()
        self.requeued = scratch / "requeued"
        self.requeued.mkdir()
        (self.bin / "shardpack").symlink_to(shardpack)
        scontrol = self.bin / "scontrol"
        scontrol.write_text(f'#!/bin/sh\n[ "$1" = requeue ] && touch "{self.requeued}/$2"\n')
        scontrol.chmod(scontrol.stat().st_mode | stat.S_IXUSR)

    def run(
        self, workers: int, words: list, chaos=nobody_kills, **environment: str
    ) -> tuple[dict[int, list[int]], str]:
        said = []

        # An array that counts from 1, by 2.
        def task(number: int) -> list[int]:
            index = 1 + 2 * number
            codes: list[int] = []
            while True:
                variables = {
                    "SLURM_JOB_ID": str(1000 + number),
                    "SLURM_ARRAY_JOB_ID": "1000",
                    "SLURM_ARRAY_TASK_ID": str(index),
                    "SLURM_ARRAY_TASK_COUNT": str(workers),
                    "SLURM_ARRAY_TASK_MIN": "1",
                    "SLURM_ARRAY_TASK_MAX": str(2 * workers - 1),
                    "SLURM_ARRAY_TASK_STEP": "2",
                    "SLURM_RESTART_COUNT": str(len(codes)),
                    "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
                }
                process = subprocess.Popen(
                    [ARRAY, *words],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env={**variables, **environment},
                    start_new_session=True,
                )
                chaos(f"task({number})", len(codes), process)
                said.append(process.communicate(timeout=120)[0])
                codes.append(process.returncode)
                if process.returncode == -signal.SIGKILL:
                    # A node that failed: --requeue is enough.
                    continue
                try:
                    (self.requeued / f"1000_{index}").unlink()
                except FileNotFoundError:
                    return codes

        with ThreadPoolExecutor(workers) as pool:
            return dict(enumerate(pool.map(task, range(workers)))), "".join(said)


@pytest.fixture
def tree(tmp_path) -> Path:
    root = tmp_path / "images"
    for name, body in pictures(3, 80).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(body)
    return root


@pytest.mark.parametrize("workers", [1, 4])
def test_the_slurm_array_makes_what_one_convert_makes_although_nodes_fail(shardpack, tree, tmp_path, workers):
    chance = random.Random(workers)

    def chaos(_name, attempt, process):
        if attempt < 2:
            time.sleep(attempt * chance.uniform(0, 0.3))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    flags = ["--shard-size", "60KB"]
    codes, said = Slurm(tmp_path, shardpack).run(workers, [tree, tmp_path / "shards", *flags], chaos)
    assert all(ended[-1] == 0 and ended[0] == -signal.SIGKILL for ended in codes.values()), f"{codes}\n{said}"
    subprocess.run([shardpack, "convert", tree, tmp_path / "single", *flags], check=True, capture_output=True)
    assert files(tmp_path / "shards") == files(tmp_path / "single")


def test_a_slurm_task_that_is_stopped_hands_the_signal_on_and_is_requeued(store, shardpack, tmp_path):
    store.fill("images", pictures(2, 40))
    store.latency(200)

    def chaos(_name, attempt, process):
        if attempt == 0:
            # As soon as shardpack has asked the store for anything.
            while not store.requests():
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            store.latency(0)

    words = ["s3://bucket/images", "s3://bucket/shards", "--shard-size", "60KB", "--reads", "1"]
    codes, said = Slurm(tmp_path, shardpack).run(1, words, chaos, **store.environment, ATTEMPTS="2")
    assert codes == {0: [143, 0]}, said


def test_a_slurm_task_is_not_requeued_for_what_comes_again_nor_for_ever(shardpack, tree, tmp_path):
    (tree / "class-0/0003.jpg").write_bytes(b"<html>\n")
    slurm = Slurm(tmp_path, shardpack)
    codes, said = slurm.run(1, [tree, tmp_path / "shards"])
    assert codes == {0: [3]}, said
    nowhere = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    codes, said = slurm.run(1, ["s3://bucket/images", tmp_path / "other"], ATTEMPTS="2", **nowhere)
    assert codes == {0: [75, 75]}, said


def test_a_slurm_task_without_source_and_destination_says_so(shardpack, tmp_path):
    codes, said = Slurm(tmp_path, shardpack).run(1, [])
    assert codes == {0: [2]} and "give SRC and DST" in said
