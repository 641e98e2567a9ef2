"""Builds source trees, converts them once with the release binary, and hands them to the tests."""

import functools
import subprocess
from collections.abc import Callable
from pathlib import Path

import programs
import pytest
import trees
import truth
from dataset import Dataset


def run(*words) -> str:
    """Runs a program that must succeed; its whole output is the message if it does not."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        command = " ".join(str(word) for word in words)
        pytest.fail(f"{command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout


def convert(source: Path, splits: dict[str, str], *flags: str, target: Path) -> Dataset:
    run(programs.shardpack(), "convert", source, target, "--progress", "none", *flags)
    return Dataset(source, target, truth.read(source, splits))


@pytest.fixture(scope="session")
def imagefolder(tmp_path_factory) -> Path:
    """A train and val tree of real pictures; one of them is greyscale, one a PNG that is called .JPEG."""
    root = tmp_path_factory.mktemp("imagefolder")
    run(programs.imagefolder(), root, "--classes", "4", "--per-class", "10", "--val-per-class", "3")
    return root


@pytest.fixture(scope="session")
def converted(imagefolder, tmp_path_factory) -> Callable[..., Dataset]:
    """`converted(tree, *flags)`: one of the trees converted with these flags, once for all tests that ask for it."""

    @functools.cache
    def tree(name: str) -> tuple[Path, dict[str, str]]:
        if name == "splits":
            return imagefolder, {"train": "train", "val": "val"}
        root = tmp_path_factory.mktemp(name)
        getattr(trees, name)(root, sorted(imagefolder.glob("train/*/*")))
        return root, {"train": "."}

    @functools.cache
    def dataset(name: str, *flags: str) -> Dataset:
        return convert(*tree(name), *flags, target=tmp_path_factory.mktemp(f"{name}-shards") / "dst")

    return dataset


@pytest.fixture(scope="session", params=["splits", "awkward", "sidecars"])
def dataset(request, converted) -> Dataset:
    """Each of the trees in turn, converted into several shards."""
    return converted(request.param, "--shard-size", "1MB")


@pytest.fixture(params=range(8))
def any_dataset(request, tmp_path) -> Dataset:
    """A tree of random names and sizes, converted into as many shards as come."""
    source = tmp_path / "source"
    trees.any_names_and_sizes(source, request.param)
    flags = ["--validate", "none", "--missing-fields", "keep", "--shard-size", f"{20 * (request.param + 1)}KB"]
    return convert(source, {"train": "."}, *flags, target=tmp_path / "dst")
