"""The image: what the Dockerfile says fits the project, and the binary it builds runs where there is nothing else.

Without a container engine the second half stands in for it: the same command (`make static`), an empty root that nobody can write to, and
a user who is not root.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import threading
import tomllib
from pathlib import Path

import kustomize
import pytest
from conftest import pictures
from programs import PROJECT
from store import dataset
from test_templates import FOLDERS, containers

TRIPLE = "x86_64-unknown-linux-gnu"
RESOLVER = "127.0.0.53"


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (PROJECT / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def all_of(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def cargo() -> dict:
    return tomllib.loads((PROJECT / "Cargo.toml").read_text())


def test_everything_that_is_copied_is_there_and_not_ignored():
    stages = [match[1] for one in all_of("FROM") if (match := re.search(r" AS (\w+)$", one))]
    taken = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for one in all_of("COPY"):
        if stage := re.match(r"--from=(\w+) ", one):
            assert stage[1] in stages
            continue
        for name in one.split()[:-1]:
            assert (PROJECT / name).exists(), name
            copied.add(name)
    assert copied == taken


def test_every_file_that_cargo_looks_for_is_copied():
    manifest = cargo()
    copied = {name for one in all_of("COPY") if not one.startswith("--from") for name in one.split()[:-1]}
    paths = [
        one.get("path", f"benches/{one['name']}.rs")
        for kind in ("example", "bench", "test", "bin")
        for one in manifest.get(kind, [])
    ]
    assert paths and all(path.split("/")[0] in copied for path in paths)
    assert {"src", "Cargo.toml", "Cargo.lock"} <= copied
    source = PROJECT / "src"
    outside = [
        path
        for path in source.rglob("*.rs")
        # What tests include is not built there.
        for name in re.findall(r'include_\w+!\("([^"]+)"', path.read_text().split("#[cfg(test)]")[0])
        if not (path.parent / name).resolve().is_relative_to(source)
    ]
    assert outside == [], "compiled in from where the image has nothing"


def test_the_compiler_of_the_image_is_new_enough():
    asked = re.search(r"RUST=([\d.]+)", " ".join(all_of("ARG")))[1]
    assert tuple(map(int, asked.split("."))) >= tuple(map(int, cargo()["package"]["rust-version"].split(".")))


def test_the_image_is_empty_but_for_the_binary_its_manual_and_certificates_and_runs_as_the_user_of_the_templates():
    assert all_of("FROM")[-1] == "scratch"
    last = [index for index, (name, _) in enumerate(instructions()) if name == "FROM"][-1]
    names = [name for name, _ in instructions()[last:]]
    assert names == ["FROM", "COPY", "COPY", "COPY", "USER", "ENTRYPOINT"]
    (user,) = all_of("USER")
    (entry,) = all_of("ENTRYPOINT")
    users = set()
    for folder in FOLDERS:
        objects = kustomize.render(folder)
        assert all(container["command"] == [entry.strip('[]"')] for container in containers(objects))
        users |= {f"{number}:{number}" for number in re.findall(r"'runAsUser': (\d+)", str(objects))}
    assert users == {user}


def test_the_image_is_built_like_make_static():
    makefile = (PROJECT / "Makefile").read_text()
    recipe = " ".join(re.search(r"^static:.*\n((?:\t.*\n)+)", makefile, re.M)[1].replace("\\\n", " ").split())
    (build,) = [one for one in all_of("RUN") if "cargo build" in one]
    for words in [
        "-C target-feature=+crt-static -C strip=symbols",
        "cargo build --release --locked --bin shardpack --target",
    ]:
        assert words in recipe and words in " ".join(build.split())
    assert "SHARDPACK_COMMIT" in build and "SHARDPACK_COMMIT" in recipe


def test_the_version_has_no_time_in_it(run):
    version = re.escape(cargo()["package"]["version"])
    assert re.fullmatch(rf"shardpack {version}( \([0-9a-f]{{12}}\))?\n", run("--version"))


@pytest.fixture
def static() -> Path:
    path = PROJECT / os.environ.get("SHARDPACK_STATIC_BIN", f"target/static/{TRIPLE}/release/shardpack")
    if not path.exists():
        pytest.skip(f"the image's binary was not run: {path} is not there, `make static` builds it")
    return path


def test_the_binary_needs_no_library(static):
    head = subprocess.run(["readelf", "-d", "-l", static], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in head and "Requesting program interpreter" not in head


@contextlib.contextmanager
def resolver():
    """A name server that says of every name that it is this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        try:
            server.bind((RESOLVER, 53))
        except OSError as error:
            pytest.skip(f"the image's binary was not run: no name server at {RESOLVER}: {error}")

        def answer() -> None:
            while True:
                query, sender = server.recvfrom(512)
                if not query:
                    return
                question = query[12 : query.index(b"\0", 12) + 5]
                address = question[-4:-2] == b"\0\1"
                reply = query[:2] + b"\x81\x80\0\1" + (b"\0\1" if address else b"\0\0") + b"\0\0\0\0" + question
                if address:
                    reply += b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1"
                server.sendto(reply, sender)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield
        finally:
            server.sendto(b"", (RESOLVER, 53))
            thread.join()


def test_the_binary_runs_in_a_read_only_root_of_nothing_but_devices_as_somebody_else_and_finds_names(
    static, store, run, tmp_path
):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("the image's binary was not run: that takes root and unshare")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "out").mkdir()
    (root / "etc/resolv.conf").write_text(f"nameserver {RESOLVER}\n")
    shutil.copyfile(static, root / "shardpack")
    (root / "shardpack").chmod(0o755)
    # The devices that every container runtime makes.
    devices = [root / "dev" / name for name in ("null", "random", "urandom")]
    (root / "dev").mkdir()
    for device in devices:
        device.touch()
    binds = " && ".join(f'mount --bind /dev/{device.name} "$0/dev/{device.name}"' for device in devices)
    inside = f'mount --rbind "$0" "$0" && {binds} && mount -o remount,ro,bind "$0" && exec chroot --userspec=65532:65532 --groups= "$0" /shardpack "$@"'

    def contained(*words: str, code: int = 0) -> str:
        environment = {
            **store.environment,
            "AWS_ENDPOINT_URL_S3": store.environment["AWS_ENDPOINT_URL_S3"].replace("127.0.0.1", "store.test"),
        }
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", inside, root, *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={**environment, "PATH": os.environ["PATH"]},
        )
        said = f"{done.stdout}{done.stderr}"
        assert done.returncode == code, said
        return said

    store.fill("images", pictures(2, 10))
    with resolver():
        assert contained("--version").startswith("shardpack ")
        contained("convert", "s3://bucket/images", "s3://bucket/shards", "--addressing", "path")
        assert "intact" in contained("verify", "s3://bucket/shards", "--level", "head")
        assert "read-only file system" in contained("convert", "s3://bucket/images", "/shards", code=1)
    run("convert", "s3://bucket/images", "s3://bucket/single")
    assert dataset(store, "shards") == dataset(store, "single")
