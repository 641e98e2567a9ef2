"""The project, and the programs that are tested: SHARDPACK_BIN, IMAGEFOLDER_BIN and S3_SERVER_BIN name others than those below
target/debug."""

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


def _program(variable: str, default: str) -> Path:
    path = PROJECT / os.environ.get(variable, default)
    if not path.exists():
        pytest.exit(f"{path} is not there: run `make programs`, or set {variable}", returncode=2)
    return path


def shardpack() -> Path:
    return _program("SHARDPACK_BIN", "target/debug/shardpack")


def imagefolder() -> Path:
    """The maker of test pictures."""
    return _program("IMAGEFOLDER_BIN", "target/debug/imagefolder")


def s3_server() -> Path:
    return _program("S3_SERVER_BIN", "target/debug/s3_server")
