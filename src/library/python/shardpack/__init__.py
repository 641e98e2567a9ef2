"""Shards that shardpack made, and the program that makes them.

`Dataset` opens what is published at a path or a URL: its splits, classes and shards, and single samples by number or key.
`convert` and `verify` call the program, which this package carries, and give its summary. Nothing here needs torch or numpy.
"""

from importlib import metadata as _metadata

from ._dataset import Dataset, Field, Sample
from ._program import DamageError, Error, convert, program, verify

__all__ = ["DamageError", "Dataset", "Error", "Field", "Sample", "convert", "program", "verify"]

try:
    __version__ = _metadata.version("shardpack")
except _metadata.PackageNotFoundError:
    # Imported from the source tree.
    __version__ = "0"
