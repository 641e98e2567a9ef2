"""The S3 server of the Rust tests as a process of its own: strict, checks signatures and checksums, remembers every request."""

import json
import subprocess
from pathlib import Path


class Store:
    """Objects in the one bucket there is, `s3://bucket`."""

    def __init__(self, program: Path):
        self._server = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.environment: dict[str, str] = json.loads(self._server.stdout.readline())

    def stop(self) -> None:
        self._server.stdin.close()
        self._server.wait(timeout=10)
        self._server.stdout.close()

    def _ask(self, line: str, body: bytes = b""):
        self._server.stdin.write(f"{line}\n".encode() + body)
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def put(self, key: str, body: bytes) -> None:
        self._ask(f"put {len(body)} {key}", body)

    def get(self, key: str) -> bytes | None:
        found = self._ask(f"get {key}")
        return None if found is None else bytes.fromhex(found)

    def delete(self, key: str) -> None:
        self._ask(f"delete {key}")

    def digests(self, prefix: str) -> dict[str, str]:
        return self._ask(f"list {prefix}/".replace("//", "/"))

    def requests(self) -> list[list]:
        """[operation, key, status] of those that came since this was asked last."""
        return self._ask("requests")

    def begin(self, key: str) -> None:
        """An upload that nobody will finish."""
        self._ask(f"begin {key}")

    def latency(self, milliseconds: int) -> None:
        self._ask(f"latency {milliseconds}")

    def outage(self) -> None:
        self._ask("outage")

    def normal(self) -> None:
        self._ask("normal")

    def fill(self, prefix: str, files: dict[str, bytes]) -> None:
        """Makes what is below a prefix these files and nothing else; what is there already is not touched."""
        there = self.digests(prefix)
        for name in there.keys() - files.keys():
            self.delete(f"{prefix}/{name}")
        for name, body in files.items():
            if self.get(f"{prefix}/{name}") != body:
                self.put(f"{prefix}/{name}", body)


def dataset(store: Store, prefix: str) -> dict[str, str]:
    """What makes a dataset: every object but the note of `plan` where the source was, and the place where `verify --sample` goes on."""
    return {
        name: digest
        for name, digest in store.digests(prefix).items()
        if not name.endswith("/source") and "verify" not in name
    }
