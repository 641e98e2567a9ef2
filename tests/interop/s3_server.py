"""Servers that speak S3, each a process on a free port of this machine, for as long as the tests need it.

They differ in what they promise; the tests ask `Server` what to expect instead of leaving tests out.
"""

import base64
import contextlib
import hashlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from programs import PROJECT

REGION = "us-east-1"
NAMES = [
    "moto",
    pytest.param("garage", marks=pytest.mark.garage),
    pytest.param("minio", marks=pytest.mark.minio),
    pytest.param("minio-tls", marks=pytest.mark.minio),
]
"""Servers; those that are built first by a target of their own are marked."""
STARTS_WITHIN = 30.0
"""Seconds; importing moto takes two of them on a busy machine."""


@dataclass(frozen=True)
class Server:
    name: str
    endpoint: str
    access_key: str
    secret_key: str
    honours_conditions: bool
    """`If-None-Match: *` refuses to overwrite."""
    keeps_checksums: bool
    """A wrong CRC-32 is refused, and HEAD tells that of a whole object, multipart ones included."""
    checks_signatures: bool
    tells_age: bool
    """An upload's time in ListMultipartUploads is that of its beginning."""
    storage_class: str | None
    """One besides the standard class that is kept and told, as are tags and SSE-S3; without one they are taken and ignored."""
    tells_uploads_of_a_prefix: bool
    """ListMultipartUploads tells those below a prefix, not those of one key alone."""
    keeps_versions: bool
    """A bucket can be told to keep what is written over or removed."""
    takes_line_breaks: bool
    """A key may have a line break in it."""
    authority: Path | None = None
    """The certificate that signs the server's own, if it speaks TLS."""

    @property
    def writing(self) -> list[str]:
        """Flags without which nothing can be published here."""
        return [] if self.honours_conditions else ["--unsafe-no-conditional-put"]

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to find it."""
        found = {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
        }
        return found if self.authority is None else {**found, "AWS_CA_BUNDLE": str(self.authority)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def process(command: list, port: int, log: Path, **environment: str) -> Iterator[None]:
    """Runs a server until the block is left; it is there when its port answers."""
    with open(log, "wb") as output:
        server = subprocess.Popen(
            [str(word) for word in command], stdout=output, stderr=output, env={**os.environ, **environment}
        )
    try:
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{command[0]} does not start:\n{log.read_text(errors='replace')}", pytrace=False)
            time.sleep(0.05)
        yield
    finally:
        # nothing that it holds is wanted any more
        server.kill()
        server.wait()


@contextlib.contextmanager
def moto(scratch: Path) -> Iterator[Server]:
    """moto: the widest API, but it checks neither signatures nor checksums."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    with process(command, port, scratch / "moto.log"):
        yield Server(
            name="moto",
            endpoint=f"http://127.0.0.1:{port}",
            access_key="test",
            secret_key="test",
            honours_conditions=True,
            keeps_checksums=False,
            checks_signatures=False,
            tells_age=False,
            storage_class="STANDARD_IA",
            tells_uploads_of_a_prefix=True,
            keeps_versions=True,
            takes_line_breaks=False,
        )


@contextlib.contextmanager
def garage(scratch: Path, binary: Path) -> Iterator[Server]:
    """Garage: a server for production, which checks every checksum but knows no conditional writes."""
    api, rpc, admin = free_port(), free_port(), free_port()
    config = scratch / "garage.toml"
    config.write_text(
        f"""
        metadata_dir = "{scratch}/meta"
        data_dir = "{scratch}/data"
        db_engine = "lmdb"
        metadata_fsync = false
        data_fsync = false
        compression_level = "none"
        replication_factor = 1
        rpc_bind_addr = "127.0.0.1:{rpc}"
        rpc_public_addr = "127.0.0.1:{rpc}"
        rpc_secret = "{secrets.token_hex(32)}"
        [s3_api]
        s3_region = "{REGION}"
        api_bind_addr = "127.0.0.1:{api}"
        [admin]
        api_bind_addr = "127.0.0.1:{admin}"
        """
    )
    config.chmod(0o600)
    access_key, secret_key = f"GK{secrets.token_hex(12)}", secrets.token_hex(32)
    keys = {
        "GARAGE_DEFAULT_ACCESS_KEY": access_key,
        "GARAGE_DEFAULT_SECRET_KEY": secret_key,
        "GARAGE_DEFAULT_BUCKET": "default",
    }
    call = [binary, "-c", config]
    command = [*call, "server", "--single-node", "--default-bucket"]
    with process(command, api, scratch / "garage.log", **keys):
        subprocess.run([*call, "key", "allow", "--create-bucket", access_key], check=True, capture_output=True)
        yield Server(
            name="garage",
            endpoint=f"http://127.0.0.1:{api}",
            access_key=access_key,
            secret_key=secret_key,
            honours_conditions=False,
            keeps_checksums=True,
            checks_signatures=True,
            tells_age=True,
            storage_class=None,
            tells_uploads_of_a_prefix=True,
            keeps_versions=False,
            takes_line_breaks=True,
        )


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of this machine, good for a day, which is its own authority, and its key."""
    signed, key = folder / "public.crt", folder / "private.key"
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    leaf = ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*request, *names, *leaf, "-out", signed, "-keyout", key], check=True, capture_output=True)
    return signed, key


@contextlib.contextmanager
def minio(scratch: Path, binary: Path, tls: bool = False) -> Iterator[Server]:
    """MinIO: a server for production, with conditional writes, whole checksums, versions, and SSE-S3 with a key of its own."""
    port, console = free_port(), free_port()
    folder = scratch / "certificates"
    folder.mkdir()
    authority = certificate(folder)[0] if tls else None
    access_key, secret_key = f"test{secrets.token_hex(6)}", secrets.token_hex(20)
    settings = {
        "MINIO_ROOT_USER": access_key,
        "MINIO_ROOT_PASSWORD": secret_key,
        "MINIO_SITE_REGION": REGION,
        "MINIO_KMS_SECRET_KEY": f"test:{base64.b64encode(secrets.token_bytes(32)).decode()}",
        # nothing asks the internet for a newer version
        "MINIO_UPDATE": "off",
        "MINIO_BROWSER": "off",
    }
    place = ["--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{console}", "--certs-dir", folder]
    with process([binary, "server", *place, scratch / "data"], port, scratch / "minio.log", **settings):
        yield Server(
            name="minio-tls" if tls else "minio",
            endpoint=f"http{'s' if tls else ''}://127.0.0.1:{port}",
            access_key=access_key,
            secret_key=secret_key,
            honours_conditions=True,
            keeps_checksums=True,
            checks_signatures=True,
            tells_age=True,
            storage_class="REDUCED_REDUNDANCY",
            tells_uploads_of_a_prefix=False,
            keeps_versions=True,
            takes_line_breaks=True,
            authority=authority,
        )


@contextlib.contextmanager
def own(program: Path) -> Iterator[Server]:
    """The strict server of the Rust tests, which has one bucket, `bucket`."""
    running = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        place = json.loads(running.stdout.readline())
        yield Server(
            name="tests",
            endpoint=place["AWS_ENDPOINT_URL_S3"],
            access_key=place["AWS_ACCESS_KEY_ID"],
            secret_key=place["AWS_SECRET_ACCESS_KEY"],
            honours_conditions=True,
            keeps_checksums=True,
            checks_signatures=True,
            tells_age=True,
            storage_class=None,
            tells_uploads_of_a_prefix=True,
            keeps_versions=False,
            takes_line_breaks=True,
        )
    finally:
        running.stdin.close()
        running.wait(timeout=10)
        running.stdout.close()


def _built(variable: str, default: str, target: str) -> Path:
    program = PROJECT / os.environ.get(variable, default)
    if not program.exists():
        pytest.skip(f"{program} is not there: run `make {target}`, or set {variable}")
    return program


def run(name: str, scratch: Path) -> contextlib.AbstractContextManager[Server]:
    """The server of this name, one of `NAMES`."""
    if name == "moto":
        return moto(scratch)
    if name == "garage":
        return garage(scratch, _built("GARAGE_BIN", ".garage/bin/garage", "interop-all"))
    return minio(scratch, _built("MINIO_BIN", ".go/bin/minio", "minio"), tls=name == "minio-tls")


class Bucket:
    """A bucket of its own for whoever asks, unless it is `there` already, seen through boto3."""

    def __init__(self, server: Server, name: str, there: bool = False):
        session = boto3.Session(server.access_key, server.secret_key, region_name=REGION)
        verify = str(server.authority) if server.authority else None
        self.client = session.client("s3", endpoint_url=server.endpoint, config=Config(proxies={}), verify=verify)
        self.name = name
        if not there:
            self.client.create_bucket(Bucket=name)

    def url(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def get(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=body)

    def head(self, key: str) -> dict:
        return self.client.head_object(Bucket=self.name, Key=key)

    def tags(self, key: str) -> dict[str, str]:
        found = self.client.get_object_tagging(Bucket=self.name, Key=key)["TagSet"]
        return {tag["Key"]: tag["Value"] for tag in found}

    def upload(self, root: Path, prefix: str) -> None:
        """Everything below a directory, links followed; what is large in parts, as `aws s3 cp` does it."""
        for folder, _, names in os.walk(root, followlinks=True):
            for name in names:
                path = Path(folder, name)
                self.client.upload_file(str(path), self.name, f"{prefix}/{path.relative_to(root).as_posix()}")

    def listed(self, prefix: str) -> list[dict]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=f"{prefix}/")
        return [found for page in pages for found in page.get("Contents", [])]

    def keys(self, prefix: str) -> list[str]:
        return [found["Key"] for found in self.listed(prefix)]

    def names(self, prefix: str) -> list[str]:
        return [key.removeprefix(f"{prefix}/") for key in self.keys(prefix)]

    def digests(self, prefix: str) -> dict[str, str]:
        """Every object below a prefix: name → SHA-256."""
        return {name: hashlib.sha256(self.get(f"{prefix}/{name}")).hexdigest() for name in self.names(prefix)}

    def versions(self, prefix: str) -> dict[str, tuple]:
        """Every object below a prefix: name → what changes when it is written to."""
        return {found["Key"]: (found["ETag"], found["LastModified"]) for found in self.listed(prefix)}

    def begin(self, key: str) -> str:
        """Begins a multipart upload that nobody completes."""
        return self.client.create_multipart_upload(Bucket=self.name, Key=key)["UploadId"]

    def uploads(self) -> list[str]:
        """Keys of the multipart uploads that nobody has completed."""
        found = self.client.list_multipart_uploads(Bucket=self.name)
        return sorted(upload["Key"] for upload in found.get("Uploads", []))
