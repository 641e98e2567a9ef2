"""A converted dataset, seen through the public parts of its layout: manifest, index files and shards."""

import json
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow.parquet
import truth


@dataclass
class Shard:
    split: str
    path: Path
    listed: dict
    """What the manifest says about it."""
    index: Path

    @cached_property
    def rows(self) -> list[dict]:
        """The index, a dict for every sample."""
        return pyarrow.parquet.read_table(self.index).to_pylist()

    @cached_property
    def members(self) -> list[tuple[tarfile.TarInfo, bytes]]:
        """What Python's tarfile finds in it, with seeking."""
        with tarfile.open(self.path, "r:") as tar:
            return [(member, tar.extractfile(member).read()) for member in tar]


@dataclass
class Dataset:
    source: Path
    root: Path
    truth: dict[str, truth.Sample]

    @cached_property
    def manifest(self) -> dict:
        return json.loads((self.root / "manifest.json").read_bytes())

    @cached_property
    def shards(self) -> list[Shard]:
        return [
            Shard(split["name"], self.root / listed["name"], listed, self.root / listed["index"])
            for split in self.manifest["splits"]
            for listed in split["shards"]
        ]

    @cached_property
    def by_key(self) -> dict[str, truth.Sample]:
        """Key → what the source has under the path that the index names for it."""
        return {row["key"]: self.truth[row["source_path"]] for shard in self.shards for row in shard.rows}

    @property
    def paths(self) -> list[str]:
        return [str(shard.path) for shard in self.shards]
