"""shard_writer.py TREE OUT [--fsync]: an ImageFolder to shards the way most people do it, with webdataset's ShardWriter."""

import os
import sys

import webdataset as wds


def fsync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


tree, out = sys.argv[1:3]
post = fsync if "--fsync" in sys.argv else None
classes = sorted(entry.name for entry in os.scandir(tree) if entry.is_dir())
with wds.ShardWriter(os.path.join(out, "train-%05d.tar"), maxsize=1e9, verbose=0, post=post) as shards:
    for label, class_name in enumerate(classes):
        for folder, _, names in sorted(os.walk(os.path.join(tree, class_name))):
            for name in sorted(names):
                with open(os.path.join(folder, name), "rb") as file:
                    picture = file.read()
                key = os.path.join(class_name, os.path.splitext(name)[0])
                shards.write({"__key__": key, "jpg": picture, "cls": label})
