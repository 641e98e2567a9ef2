"""Pods as processes of this machine: a directory of its own, its own environment and nothing of ours, and somebody who kills it."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

GONE = "gone"
"""Not a signal: the node is gone, and nobody knows how the pod ended."""
GIVES_UP_AFTER = 120.0
"""Seconds after which a pod counts as hung."""

Chaos = Callable[[str, int, subprocess.Popen], object]
"""(what runs, which attempt from 0, its process) → None, a signal that it sent, or GONE."""


def nobody_kills(_name: str, _attempt: int, _process: subprocess.Popen) -> None:
    return None


@dataclass
class Ended:
    """How a pod ended."""

    code: int
    """128 + N for signal N; -1 when nobody knows."""
    said: str
    files: dict[str, bytes] = field(default_factory=dict)
    """What it left in its volumes, by the path in the container."""
    killed: object = None


READ_ONLY = """
for volume; do [ "$volume" = -- ] && break; mount --bind "$volume" "$volume" || exit 96; done
mount -o remount,ro,bind / || exit 96
while [ "$1" != -- ]; do shift; done; shift
exec setpriv --reuid "$0" --regid "$0" --clear-groups "$@"
"""
"""What stands before a container's command: everything but its volumes is read-only, and it is nobody who could change that."""


def isolates() -> bool:
    """Whether containers can be given a view of their own; only root can."""
    return os.geteuid() == 0 and all(map(shutil.which, ["unshare", "mount", "setpriv"]))


class Node:
    """Runs containers. As root they run as the user that the pod asks for, who may write into the pod's volumes only."""

    def __init__(self, shardpack: Path, environment: dict[str, str], chaos: Chaos = nobody_kills):
        self.shardpack = shardpack
        self.environment = environment
        self.chaos = chaos
        self.kills = 0
        self.attempts = 0
        self._lock = threading.Lock()

    def run(self, name: str, attempt: int, container: dict, environment: dict[str, str], user: int) -> Ended:
        """`name` and `attempt` are for whoever kills."""
        assert container["command"] == ["/shardpack"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        mounts = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        with tempfile.TemporaryDirectory() as made, tempfile.TemporaryFile() as log:
            root = Path(made)
            root.chmod(0o755)
            for mount in mounts:
                place = Path(f"{root}{mount}")
                place.mkdir(parents=True)
                if isolates():
                    os.chown(place, user, user)
            root.chmod(0o555)
            inside = re.compile("|".join(f"^{mount}/" for mount in mounts) or "$^")
            words = [inside.sub(lambda hit: f"{root}{hit[0]}", word) for word in container["args"]]
            values = {key: inside.sub(lambda hit: f"{root}{hit[0]}", value) for key, value in environment.items()}
            command = [self.shardpack, *words]
            if isolates():
                volumes = [f"{root}{mount}" for mount in mounts]
                command = [
                    shutil.which("unshare"),
                    "--mount",
                    "sh",
                    "-c",
                    READ_ONLY,
                    str(user),
                    *volumes,
                    "--",
                    *command,
                ]
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=root,
                env={"PATH": os.defpath, **values, **self.environment},
            )
            killed = self.chaos(name, attempt, process)
            try:
                code = process.wait(GIVES_UP_AFTER)
            finally:
                process.kill()
                process.wait()
            with self._lock:
                self.attempts += 1
                self.kills += killed is not None and code != 0
            left = [path for path in root.rglob("*") if path.is_file()]
            files = {f"/{path.relative_to(root)}": path.read_bytes() for path in left}
            log.seek(0)
            said = log.read().decode(errors="replace")
            root.chmod(0o755)
        if killed is GONE:
            return Ended(-1, said, {}, killed)
        return Ended(128 - code if code < 0 else code, said, files, killed)


def kill(process: subprocess.Popen, how) -> object:
    process.send_signal(signal.SIGKILL if how is GONE else how)
    return how
