"""What a terminal shows, which the tests in Rust have none of."""

import os
import pty
import re
import subprocess

import programs

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def at_terminal(*words, **environment) -> tuple[int, str]:
    """Exit code, and all that a terminal of 60 columns was sent."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", **environment}
    words = [str(word) for word in (programs.shardpack(), *words)]
    run = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return run.wait(timeout=60), shown.decode(errors="replace")


def test_the_bytes_of_a_picture_are_not_written_to_a_terminal(converted):
    dataset = converted("splits", "--shard-size", "1MB")
    key = dataset.shards[0].rows[0]["key"]
    code, shown = at_terminal("cat", dataset.root, key)
    assert code == 2 and "JFIF" not in shown and "-o" in shown
    code, shown = at_terminal("cat", dataset.root, f"{key}.cls")
    assert code == 0 and shown.isdigit()
    code, shown = at_terminal("ls", dataset.root, "--limit", 1)
    assert code == 0 and "\x1b" not in shown and len(shown.splitlines()) == 1


def test_a_terminal_has_colours_unless_it_is_told_to_have_none(tmp_path):
    missing = tmp_path / "none"
    code, coloured = at_terminal("verify", missing)
    assert code != 0 and COLOUR.search(coloured)
    code, plain = at_terminal("verify", missing, NO_COLOR="1")
    assert code != 0 and not COLOUR.search(plain) and "error: " in plain
