"""Calls of the program. What it says for programs, the file of `--summary`, is all that is read of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Union

Location = Union[str, "os.PathLike[str]"]
Value = Union[str, int, float, bool, None, "os.PathLike[str]", Iterable[Union[str, int, "os.PathLike[str]"]]]


class Error(Exception):
    """A run of the program that failed, or a dataset that cannot be read."""

    def __init__(self, message: str, exit_code: int = 1, summary: dict[str, Any] | None = None):
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        """That of the program, docs/exit-codes.md: 75 means that the same call may succeed later."""
        self.summary: dict[str, Any] = summary or {}
        """What the run did until then."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions come back from workers of a DataLoader.
        return type(self), (self.message, self.exit_code, self.summary)


class DamageError(Error):
    """Bytes are not those that were published. After `verify`, `summary["findings"]` says which."""

    def __init__(self, message: str, exit_code: int = 4, summary: dict[str, Any] | None = None):
        super().__init__(message, exit_code, summary)


def program() -> str:
    """Where the program is: the one that was installed with this package, or else the first on PATH."""
    user = "osx_framework_user" if "osx_framework_user" in sysconfig.get_scheme_names() else "posix_user"
    places = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable), sysconfig.get_path("scripts", user)]
    for place in places:
        path = Path(place, "shardpack")
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    if path_of_shell := shutil.which("shardpack"):
        return path_of_shell
    raise FileNotFoundError("the program `shardpack` is neither beside this Python nor on PATH: `pip install shardpack` brings it")


def convert(source: Location, destination: Location, **flags: Value) -> dict[str, Any]:
    """Turns a tree of images into shards, as `shardpack convert SOURCE DESTINATION` does, and gives its summary.

    A flag is a keyword: `shard_size="256MB"`, `index=["wids", "timm"]`, `sha256=True`. `progress="bar"` lets the program show what it
    does on stderr. A run that fails raises `Error` with the exit code; the same call goes on where it ended.
    """
    return _run("convert", [source, destination], flags)


def verify(destination: Location, source: Location | None = None, **flags: Value) -> dict[str, Any]:
    """Compares shards with what was published, as `shardpack verify` does, and gives its summary.

    `level` is one of `list`, `head`, `data` and `source`; with a source it is `source` unless said otherwise. Damage raises `DamageError`.
    """
    if source is not None:
        flags = {"level": "source", **flags, "source": os.fspath(source)}
    return _run("verify", [destination], flags)


def _words(flags: dict[str, Value]) -> list[str]:
    words = []
    for name, value in flags.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is None or value is False:
            continue
        elif isinstance(value, Iterable) and not isinstance(value, (str, os.PathLike)):
            words += [f"{flag}={one if isinstance(one, str) else os.fspath(one) if isinstance(one, os.PathLike) else one}" for one in value]
        else:
            words.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return words


def _run(verb: str, places: list[Location], flags: dict[str, Value]) -> dict[str, Any]:
    shown = flags.get("progress", "none") not in ("none", None)
    flags = {"progress": "none", **flags}
    with tempfile.TemporaryDirectory(prefix="shardpack-") as directory:
        summary = Path(directory, "summary.json")
        # A caller may want the file too.
        wanted = flags.pop("summary", None)
        command = [program(), verb, *_words(flags), f"--summary={summary}", "--", *(os.fspath(place) for place in places)]
        code, said = _call(command, shown)
        text = summary.read_text() if summary.exists() else ""
    if text and wanted is not None:
        Path(os.fspath(wanted)).write_text(text)  # type: ignore[arg-type]
    told: dict[str, Any] = json.loads(text) if text else {}
    if code == 0:
        return told
    lines = [line.removeprefix("error: ") for line in said.splitlines() if line.startswith("error: ")]
    message = told.get("error") or "; ".join(told.get("findings", [])) or "; ".join(lines) or said.strip()
    raise (DamageError if code == 4 else Error)(f"shardpack {verb}: {message or f'exit code {code}'}", code, told)


def _call(command: list[str], shown: bool) -> tuple[int, str]:
    """Runs the program; gives its exit code and what it said. One that is left in the middle is told to end and finishes what it must."""
    pipe = None if shown else subprocess.PIPE
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=pipe, text=True, errors="replace")
    try:
        _, said = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return process.returncode, said or ""
