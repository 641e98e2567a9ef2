"""Builds source trees, converts them once with the release binary, and hands them to the tests.

SHARDPACK_BIN and IMAGEFOLDER_BIN name other binaries than those below target/release.
"""

import os
import subprocess
from pathlib import Path

import pytest
import trees
import truth
from dataset import Dataset

PROJECT = Path(__file__).parents[2]


def binary(variable: str, default: str) -> Path:
    path = PROJECT / os.environ.get(variable, default)
    if not path.exists():
        pytest.exit(f"{path} is not there: run `make build`, or set {variable}", returncode=2)
    return path


def run(*words) -> str:
    """Runs a program that must succeed; its whole output is the message if it does not."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        command = " ".join(str(word) for word in words)
        pytest.fail(f"{command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout


def convert(source: Path, target: Path, splits: dict[str, str], *flags: str) -> Dataset:
    shardpack = binary("SHARDPACK_BIN", "target/release/shardpack")
    run(shardpack, "convert", source, target, "--progress", "none", *flags)
    return Dataset(source, target, truth.read(source, splits))


@pytest.fixture(scope="session")
def imagefolder(tmp_path_factory) -> Path:
    """A train and val tree of real pictures; one of them is greyscale, one a PNG that is called .JPEG."""
    root = tmp_path_factory.mktemp("imagefolder")
    maker = binary("IMAGEFOLDER_BIN", "target/release/examples/imagefolder")
    run(maker, root, "--classes", "4", "--per-class", "10", "--val-per-class", "3")
    return root


@pytest.fixture(scope="session", params=["splits", "awkward", "sidecars"])
def dataset(request, imagefolder, tmp_path_factory) -> Dataset:
    """Each of the trees in turn, converted into several shards."""
    target = tmp_path_factory.mktemp(f"{request.param}-shards") / "dst"
    if request.param == "splits":
        return convert(imagefolder, target, {"train": "train", "val": "val"}, "--shard-size", "1MB")
    source = tmp_path_factory.mktemp(request.param)
    make = {"awkward": trees.awkward, "sidecars": trees.sidecars}[request.param]
    make(source, sorted(imagefolder.glob("train/*/*")))
    return convert(source, target, {"train": "."}, "--shard-size", "1MB")


@pytest.fixture(params=range(8))
def any_dataset(request, tmp_path) -> Dataset:
    """A tree of random names and sizes, converted into as many shards as come."""
    source = tmp_path / "source"
    trees.any_names_and_sizes(source, request.param)
    flags = ["--validate", "none", "--shard-size", f"{20 * (request.param + 1)}KB"]
    return convert(source, tmp_path / "dst", {"train": "."}, *flags)
