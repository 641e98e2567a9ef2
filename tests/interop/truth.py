"""What a converted tree must contain, by torchvision's rule and without any help from shardpack.

Classes are the sorted names of the root's directories, labels their positions; pictures are found at any depth.
What stands beside a picture under the same stem belongs to its sample.
"""

import os
from dataclasses import dataclass
from pathlib import Path

PICTURES = (".jpg", ".jpeg", ".png")
FIELD_OF = {".jpg": "jpg", ".jpeg": "jpg", ".png": "png"}


@dataclass(frozen=True)
class Sample:
    split: str
    label: int
    class_name: str
    path: str
    """The picture, relative to the source's root."""
    fields: dict[str, bytes]
    """What webdataset must hand out: name of the field → bytes."""

    @property
    def picture(self) -> bytes:
        return next(self.fields[name] for name in FIELD_OF.values() if name in self.fields)


def read(root: Path, splits: dict[str, str]) -> dict[str, Sample]:
    """The samples of every split (name → directory below the root), by the path of their picture."""
    samples = {}
    for split, directory in splits.items():
        top = root / directory
        classes = sorted(entry.name for entry in os.scandir(top) if entry.is_dir())
        for label, class_name in enumerate(classes):
            for folder, _, names in sorted(os.walk(top / class_name, followlinks=True)):
                for name in sorted(names):
                    if name.lower().endswith(PICTURES):
                        path = Path(folder, name)
                        relative = path.relative_to(root).as_posix()
                        samples[relative] = Sample(split, label, class_name, relative, fields(path, names, label))
    return samples


def fields(picture: Path, names: list[str], label: int) -> dict[str, bytes]:
    """The fields of one sample: label, picture and whatever shares its stem."""
    found = {"cls": str(label).encode()}
    for name in names:
        stem, extension = os.path.splitext(name)
        if stem == picture.stem:
            extension = extension.lower()
            found[FIELD_OF.get(extension, extension[1:])] = picture.with_name(name).read_bytes()
    return found
