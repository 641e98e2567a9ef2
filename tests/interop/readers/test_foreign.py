"""Shards of the tools that people use today, adopted by `shardpack index`: what is in them is found, or it is said why not."""

import json
import os
import subprocess

import common  # noqa: F401 - first, it sets the environment
import conftest
import programs
import pyarrow.parquet
import pytest
import webdataset as wds
from programs import PROJECT

# img2dataset wants an older webdataset: it lives in an environment of its own
PEERS = PROJECT / os.environ.get("PEERS", ".venv-peers")


@pytest.fixture
def pictures(imagefolder) -> list[bytes]:
    return [path.read_bytes() for path in sorted(imagefolder.glob("train/*/*.JPEG"))]


def adopted(root) -> list[dict]:
    conftest.run(programs.shardpack(), "index", root)
    assert "intact" in conftest.run(programs.shardpack(), "verify", root, "--level", "data")
    manifest = json.loads((root / "manifest.json").read_bytes())
    shards = [shard for split in manifest["splits"] for shard in split["shards"]]
    return [row for shard in shards for row in pyarrow.parquet.read_table(root / shard["index"]).to_pylist()]


def cat(root, key: str) -> bytes:
    return subprocess.run([programs.shardpack(), "cat", root, key], check=True, capture_output=True).stdout


def test_shards_of_webdatasets_shardwriter_are_adopted_with_their_labels(pictures, tmp_path):
    with wds.ShardWriter(str(tmp_path / "train-%06d.tar"), maxcount=7, verbose=0) as writer:
        for number, picture in enumerate(pictures):
            writer.write({"__key__": f"{number:06d}", "jpg": picture, "cls": number % 3})
    found = {(row["key"], row["label"]): cat(tmp_path, row["key"]) for row in adopted(tmp_path)}
    assert found == {(f"{number:06d}", number % 3): picture for number, picture in enumerate(pictures)}


def test_shards_of_img2dataset_are_adopted_with_their_captions(imagefolder, tmp_path):
    paths = sorted(imagefolder.glob("train/*/*.JPEG"))
    lines = ["url,caption", *(f"file://{path},a picture of {path.stem}" for path in paths)]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    flags = "--input_format csv --url_col url --caption_col caption --output_format webdataset --processes_count 1 "
    flags += "--thread_count 4 --resize_mode no --disable_all_reencoding True --number_sample_per_shard 16"
    out = tmp_path / "out"
    program = PEERS / "bin" / "img2dataset"
    conftest.run(program, "--url_list", tmp_path / "list.csv", "--output_folder", out, *flags.split())
    rows = adopted(out)
    found = {(cat(out, row["key"]), cat(out, f"{row['key']}.txt").decode()) for row in rows}
    assert len(rows) == len(paths)
    assert found == {(path.read_bytes(), f"a picture of {path.stem}") for path in paths}
