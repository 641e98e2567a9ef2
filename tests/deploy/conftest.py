"""The binary, a store, and pictures."""

import io
import os
import random
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import programs
import pytest
from PIL import Image
from store import Store

@pytest.fixture(scope="session")
def shardpack() -> Iterator[Path]:
    """The binary, where every user may run it."""
    found = programs.shardpack()
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        copy = Path(made, "shardpack")
        shutil.copyfile(found, copy)
        copy.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        yield copy


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store(programs.s3_server())
    yield store
    store.stop()


@pytest.fixture
def run(shardpack, store):
    """Runs shardpack against the store; it must end with `code`."""

    def run(*words: str, code: int = 0, **environment: str) -> str:
        done = subprocess.run(
            [shardpack, *words], capture_output=True, text=True, timeout=120, env={**store.environment, **environment}
        )
        said = f"{done.stdout}{done.stderr}"
        assert done.returncode == code, f"shardpack {' '.join(words)}: exit code {done.returncode}\n{said}"
        return said

    return run


def picture(seed: object) -> bytes:
    """A small JPEG; the same seed, the same bytes."""
    chance = random.Random(str(seed))
    size = (chance.randrange(24, 64), chance.randrange(24, 64))
    body = io.BytesIO()
    Image.frombytes("RGB", size, chance.randbytes(3 * size[0] * size[1])).save(body, "JPEG")
    return body.getvalue()


def pictures(classes: int, each: int, seed: int = 0) -> dict[str, bytes]:
    return {
        f"class-{number}/{picture_number:04d}.jpg": picture((seed, number, picture_number))
        for number in range(classes)
        for picture_number in range(each)
    }
