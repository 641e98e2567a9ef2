"""The Python snippets of the pages for readers, those that need packages included, where the packages are."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import programs
import pytest
from conftest import run
from PIL import Image
from programs import PROJECT

PAGES = [PROJECT / name for name in ("README.md", "docs/library.md", "docs/readers.md")]


def snippets() -> list:
    found = []
    for page in PAGES:
        for number, code in enumerate(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S), 1):
            lines = re.findall(r"^(?:import (.+)|from (\w+))", code, re.M)
            packages = {word.split()[0].split(".")[0] for names, name in lines for word in (names or name).split(",")}
            # The double of torch has what webdataset asks for; wids asks for more.
            needed = packages | {"torch"} if "wids" in packages else packages - {"torch"}
            missing = [name for name in sorted(needed) if name != "shardpack" and importlib.util.find_spec(name) is None]
            needs = [*missing, *(["a bucket"] if "s3://" in code else [])]
            mark = pytest.mark.skipif(bool(needs), reason=f"needs {', '.join(needs)}")
            found.append(pytest.param(code, marks=mark, id=f"{page.stem}-{number}-{'-'.join(sorted(packages))}"))
    return found


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """`shards/`, as the README's tour makes it: two classes of twelve pictures in four shards."""
    root = tmp_path_factory.mktemp("docs")
    for class_number, class_name in enumerate(["cat", "dog"]):
        (root / "images" / class_name).mkdir(parents=True)
        for number in range(1, 13):
            picture = Image.effect_noise((160, 120), 30 + class_number).convert("RGB")
            picture.save(root / "images" / class_name / f"{number:03d}.jpg", quality=75)
    shardpack = programs.shardpack()
    # As the pages do it, so that their own conversion finds nothing to do.
    run(shardpack, "convert", root / "images", root / "shards", "--shard-size", "60KB", "--progress", "none")
    run(shardpack, "index", root / "shards", "--index", "energon,timm,wids", "--progress", "none")
    return root


def test_there_are_snippets_for_every_way_to_read_and_none_guesses_the_names_of_shards():
    code = "".join(parameter.values[0] for parameter in snippets())
    for package in ["webdataset", "torch.utils.data", "datasets", "duckdb", "s3fs"]:
        assert re.search(rf"^(import|from) .*\b{package}\b", code, re.M), package
    demo = (PROJECT / "Makefile").read_text()
    assert not re.search(r"\{0+\.\.|\{\$\$", code + demo), "a brace pattern reads shards of earlier snapshots"


@pytest.mark.parametrize("code", snippets())
def test_the_snippet_runs_as_it_stands(code, directory, tmp_path):
    path = os.pathsep.join([str(programs.shardpack().resolve().parent), os.environ["PATH"]])
    modules = [PROJECT / "src/library/python"]
    if "torch" in code and importlib.util.find_spec("torch") is None:
        modules.append(PROJECT / "tests/interop/doubles")
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "PATH": path}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, modules))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, f"{code}\n{done.stderr}"
