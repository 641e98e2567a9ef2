"""The wheel in an environment where nothing else is: the command, its pages, and the module, which needs no other package for that."""

import glob
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import run
from programs import PROJECT

SHARE = ["share/man/man1/shardpack-convert.1", "share/bash-completion/completions/shardpack"]


@pytest.fixture(scope="module")
def wheel() -> Path:
    """`make interop` builds it of the binary that the other tests run."""
    pattern = os.environ.get("SHARDPACK_WHEEL", "target/wheels/dev/shardpack-*.whl")
    found = sorted((Path(path) for path in glob.glob(str(PROJECT / pattern))), key=os.path.getmtime)
    if not found:
        pytest.exit("there is no wheel: run `make wheel-dev`, or set SHARDPACK_WHEEL", returncode=2)
    return found[-1]


@pytest.fixture(scope="module")
def prefix(wheel, tmp_path_factory) -> Path:
    """An environment with the wheel alone."""
    root = tmp_path_factory.mktemp("wheel") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", root)
    run(sys.executable, "-m", "pip", "--python", root / "bin/python", "install", "-q", "--no-index", "--no-deps", wheel)
    return root


def python(prefix: Path, code: str, **environment: str) -> subprocess.CompletedProcess:
    # Neither the source tree nor a `shardpack` on PATH is found from here.
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment}
    command = [prefix / "bin/python", "-c", code]
    return subprocess.run(command, cwd=prefix, env=environment, capture_output=True, text=True, timeout=120)


def test_it_has_the_version_of_the_program_and_its_pages(wheel, prefix):
    version = run(prefix / "bin/shardpack", "--version").split()[1]
    assert wheel.name.startswith(f"shardpack-{version}-py3-none-")
    assert python(prefix, "import shardpack; print(shardpack.__version__)").stdout.strip() == version
    assert run(prefix / "bin/python", "-m", "shardpack", "--version").split()[1] == version
    for name in SHARE:
        assert (prefix / name).stat().st_size > 1000, name
    names = zipfile.ZipFile(wheel).namelist()
    assert "shardpack/py.typed" in names


def test_a_conversion_and_its_training_loop_need_nothing_but_the_wheel(prefix, imagefolder, tmp_path):
    done = python(
        prefix,
        f"""
import shardpack, sys, tarfile
summary = shardpack.convert({str(imagefolder)!r}, {str(tmp_path / "shards")!r}, shard_size="1MB", index=["wids", "timm"])
assert summary["samples"] == 52 and summary["exit_code"] == 0, summary
assert shardpack.verify({str(tmp_path / "shards")!r}, {str(imagefolder)!r})["samples"] == 52
dataset = shardpack.Dataset({str(tmp_path / "shards")!r}, split="train")
assert len(dataset) == 40 and len(dataset.classes) == 4 and dataset.splits == {{"train": 40, "val": 12}}
pictures = 0
for shard in dataset.shards():
    with tarfile.open(shard) as tar:
        pictures += sum(not name.endswith(".cls") for name in tar.getnames())
assert pictures == 40
assert not {{"torch", "numpy", "pyarrow", "fsspec"}} & set(sys.modules)
try:
    dataset[0]
except ImportError as error:
    assert "pip install 'shardpack[index]'" in str(error)
else:
    raise SystemExit("the index was read without pyarrow")
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


def test_without_the_program_it_is_said_how_to_get_it(prefix):
    done = python(prefix, "import os, shardpack; os.rename('bin/shardpack', 'bin/gone'); shardpack.verify('x')")
    os.rename(prefix / "bin/gone", prefix / "bin/shardpack")
    assert "FileNotFoundError" in done.stderr and "pip install shardpack" in done.stderr
