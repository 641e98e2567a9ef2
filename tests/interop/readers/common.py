"""What the tests of loaders compare: pictures and labels, however they are handed out."""

import os

# before anybody looks: no network, no graphics card, no counting of users
os.environ.update(
    {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "DAFT_ANALYTICS_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
)

import collections
import hashlib

IMAGES = ("jpg", "png")


def told(samples) -> collections.Counter:
    """(SHA-256 of the picture, label) → how often."""
    return collections.Counter((hashlib.sha256(bytes(picture)).hexdigest(), int(label)) for picture, label in samples)


def expected(dataset, split: str) -> collections.Counter:
    return told((one.picture, one.label) for one in dataset.truth.values() if one.split == split)


def of_tar(sample: dict) -> tuple[bytes, int]:
    return next(sample[name] for name in IMAGES if name in sample), int(sample["cls"])


def shards(dataset, split: str) -> list[str]:
    return [str(shard.path) for shard in dataset.shards if shard.split == split]
