"""A published dataset: what its manifest says, and single samples through its indexes."""

from __future__ import annotations

import bisect
import itertools
import json
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from ._program import DamageError, Error

if TYPE_CHECKING:
    import pyarrow

_IMAGES = ("bmp", "gif", "jpeg", "jpg", "pbm", "pgm", "png", "ppm", "tif", "tiff", "webp")
_INDEXES_AT_ONCE = 16


class _Place:
    """Where a dataset lies: a directory, or what fsspec knows by a URL."""

    def __init__(self, location: str | os.PathLike[str], options: dict[str, Any]):
        self.url = os.fspath(location).rstrip("/") or "/"
        self.options = options
        self._files: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # Connections stay in the process that made them.
        return {**self.__dict__, "_files": None}

    def name(self, name: str) -> str:
        return f"{self.url}/{name}"

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """A file's bytes from `start` up to `end`."""
        if "://" not in self.url:
            with open(Path(self.url, name), "rb") as file:
                file.seek(start)
                return file.read() if end is None else file.read(end - start)
        content: bytes = self._remote().cat_file(self.name(name), start=start or None, end=end)
        return content

    def _remote(self) -> Any:
        if self._files is None:
            try:
                import fsspec
            except ImportError as error:
                raise ImportError(f"{self.url} needs fsspec, and for S3 s3fs: pip install 'shardpack[s3]'") from error
            self._files, _ = fsspec.core.url_to_fs(self.url, **self.options)
        return self._files


@dataclass(frozen=True)
class _Shard:
    """A file of samples, as the manifest has it."""

    name: str
    """Below the dataset: `data/train-00000.tar`."""
    url: str
    split: str
    samples: int
    bytes: int
    crc32: str
    index: str
    """The file that says where its samples are, below the dataset."""


@dataclass(frozen=True)
class Field:
    """A part of a sample: its image, its label, what lay beside the image."""

    name: str
    offset: int
    length: int
    crc32: int


@dataclass(frozen=True)
class Sample:
    """A sample as the index tells of it; its bytes are read when they are asked for."""

    key: str
    split: str
    shard: str
    label: int
    """Number of its class; -1 where it has none."""
    class_name: str | None
    source_path: str
    width: int | None
    height: int | None
    format: str | None
    fields: dict[str, Field]
    _dataset: Dataset = field(repr=False, compare=False)
    _frame: tuple[int, int, int] | None = field(repr=False, compare=False)

    @property
    def image(self) -> bytes:
        """The image's file, as it was in the source."""
        for name in self.fields:
            if name.rpartition(".")[2] in _IMAGES or name == "image":
                return self.read(name)
        raise Error(f"sample `{self.key}` has no image: it has {', '.join(self.fields)}")

    def read(self, name: str) -> bytes:
        """The bytes of a field, compared with the checksum in the index."""
        if name not in self.fields:
            raise KeyError(f"sample `{self.key}` has no field `{name}`: it has {', '.join(self.fields)}")
        part = self.fields[name]
        content = self._dataset._content(self, part)
        if len(content) != part.length or zlib.crc32(content) != part.crc32:
            remedy = f"run `shardpack verify {self._dataset.url}`"
            raise DamageError(f"{self.shard}: sample `{self.key}` field `{name}` is not what the index says: {remedy}")
        return content


class Dataset:
    """What is published at a path or URL, or one split of it.

    `len(dataset)` and `dataset[number]` make it what PyTorch calls a map-style dataset; numbers are in the order of the shards. Training
    that reads everything is fastest over `shards(split)`.
    """

    def __init__(self, path_or_url: str | os.PathLike[str], split: str | None = None, **storage_options: Any):
        """Reads the manifest. `storage_options` go to fsspec, for a URL."""
        self._place = _Place(path_or_url, storage_options)
        try:
            text = self._place.read("manifest.json")
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.url} has no manifest.json: nothing is published there") from None
        self.manifest: dict[str, Any] = json.loads(text)
        """The manifest, as docs/manifest.md has it."""
        known = (self.manifest.get("kind"), self.manifest.get("version"))
        if known != ("shardpack-manifest", 1):
            raise Error(f"{self.url}/manifest.json is {known[0]} version {known[1]}: this package reads shardpack-manifest version 1")
        self.split = split
        """The split that this is limited to, if it is."""
        if split is not None and split not in self.splits:
            raise KeyError(f"{self.url} has no split `{split}`: it has {', '.join(self.splits)}")
        self._shards = [shard for name in ([split] if split else self.splits) for shard in self._shards_of(name)]
        self._ends = list(itertools.accumulate(shard.samples for shard in self._shards))
        self._rows: dict[str, pyarrow.Table] = {}

    @property
    def url(self) -> str:
        """Where it lies."""
        return self._place.url

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.manifest["name"])

    @property
    def classes(self) -> list[str]:
        """Names of the classes; the position is the label."""
        return list(self.manifest["classes"])

    @property
    def splits(self) -> dict[str, int]:
        """Samples of each split."""
        return {split["name"]: split["samples"] for split in self.manifest["splits"]}

    def shards(self, split: str | None = None) -> list[str]:
        """Paths or URLs of a split's shards, in order, as the manifest has them; of all splits where none is named."""
        if split is not None and split not in self.splits:
            raise KeyError(f"{self.url} has no split `{split}`: it has {', '.join(self.splits)}")
        return [shard.url for shard in self._shards if split in (None, shard.split)]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, which: int | str) -> Sample:
        """A sample by its number or its key."""
        if isinstance(which, str):
            return self._by_key(which)
        number = which + len(self) if which < 0 else which
        if not 0 <= number < len(self):
            raise IndexError(f"sample {which} of {len(self)}")
        at = bisect.bisect_right(self._ends, number)
        shard = self._shards[at]
        return self._sample(shard, number - (self._ends[at] - shard.samples))

    def __iter__(self) -> Iterator[Sample]:
        for shard in self._shards:
            for ordinal in range(shard.samples):
                yield self._sample(shard, ordinal)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def __repr__(self) -> str:
        of = f", split={self.split!r}" if self.split else ""
        return f"Dataset({self.url!r}{of}): {len(self)} samples in {len(self._shards)} shards, {len(self.classes)} classes"

    def _shards_of(self, split: str) -> Iterator[_Shard]:
        for one in self.manifest["splits"]:
            if one["name"] == split:
                for shard in one["shards"]:
                    counted = (shard["samples"], shard["bytes"], shard["crc32"], shard["index"])
                    yield _Shard(shard["name"], self._place.name(shard["name"]), split, *counted)

    def _table(self, shard: _Shard) -> pyarrow.Table:
        """A shard's index. It stays in memory: some 150 bytes a sample."""
        if shard.index not in self._rows:
            try:
                import pyarrow
                import pyarrow.parquet
            except ImportError as error:
                raise ImportError("single samples are found through the index, which is Parquet: pip install 'shardpack[index]'") from error
            content = pyarrow.BufferReader(self._place.read(shard.index))
            self._rows[shard.index] = pyarrow.parquet.read_table(content)
        return self._rows[shard.index]

    def _find(self, key: str) -> tuple[_Shard, int] | None:
        missing = [shard for shard in self._shards if shard.index not in self._rows]
        # The first by itself: whether pyarrow is there is told once.
        for shard in missing[:1]:
            self._table(shard)
        if missing[1:]:
            with ThreadPoolExecutor(_INDEXES_AT_ONCE) as readers:
                list(readers.map(self._table, missing[1:]))
        for shard in self._shards:
            import pyarrow.compute

            at = pyarrow.compute.index(self._table(shard)["key"], key).as_py()
            if at >= 0:
                return shard, at
        return None

    def _by_key(self, key: str) -> Sample:
        found = self._find(key)
        if found is None:
            raise KeyError(f"{self.url} has no sample `{key}`" + (f" in split `{self.split}`" if self.split else ""))
        return self._sample(*found)

    def _sample(self, shard: _Shard, ordinal: int) -> Sample:
        row = self._table(shard).slice(ordinal, 1).to_pylist()[0]
        frame = None
        if row["frame_offset"] is not None:
            frame = (row["frame_offset"], row["frame_length"], row["frame_start"])
        return Sample(
            key=row["key"],
            split=row["split"],
            shard=shard.name,
            label=row["label"],
            class_name=row["class"],
            source_path=row["source_path"],
            width=row["width"],
            height=row["height"],
            format=row["format"],
            fields={part["name"]: Field(**part) for part in row["fields"]},
            _dataset=self,
            _frame=frame,
        )

    def _content(self, sample: Sample, part: Field) -> bytes:
        if sample._frame is None:
            if self.manifest["recipe"].get("compress", "none") != "none":
                remedy = "read the shard from its beginning, or convert with `--zstd-seekable`"
                raise Error(f"{self.url}: a compressed shard has no way to single samples: {remedy}")
            return self._place.read(sample.shard, part.offset, part.offset + part.length)
        offset, length, start = sample._frame
        unpacked = _unzstd(self._place.read(sample.shard, offset, offset + length))
        return unpacked[part.offset - start : part.offset - start + part.length]


def _unzstd(content: bytes) -> bytes:
    """Several zstd frames, unpacked."""
    try:
        from compression import zstd  # Python 3.14

        return bytes(zstd.decompress(content))
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError as error:
        raise ImportError("the shards are compressed: pip install zstandard") from error
    unpacked: bytes = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True).read()
    return unpacked
