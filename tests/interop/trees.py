"""Source trees that are hard to convert, made of real pictures."""

import itertools
import json
import random
import shutil
from pathlib import Path

CAFE_COMPOSED, CAFE_DECOMPOSED = "caf\u00e9", "cafe\u0301"

AWKWARD = {
    "n01440764": ["n01440764_1.JPEG", "n01440764_10.JPEG", "n01440764_2.JPEG"],
    "__background__": ["__wall__.jpg", "_floor.jpg"],
    "Zebra": ["UPPER.JPG", "upper.jpg", "mixed.JpEg"],
    "a": ["1.jpg", "sub/1.jpg"],
    "a-b": ["1.jpg"],
    "apple": ["red.png", "green.PNG", "x.jpg", "x.v1.jpg", "x.v2.jpg", "x.v2.1.jpeg", "dot..jpg"],
    "dogs and cats": ["good boy.jpg", " leading.jpg", "trailing .jpg", "two\nlines.jpg", "tab\there.jpg"],
    "v1.2": ["in a dotted directory.jpg"],
    "Käfer": ["grün.jpg", f"{CAFE_COMPOSED}.jpg", f"{CAFE_DECOMPOSED}.jpg"],
    "日本の魚": ["鯉.jpg", "鯉/金魚.jpg"],
    "signs": ["it's.jpg", 'a "quote".jpg', "100%.jpg", "a~b.jpg", "~2E.jpg", "back\\slash.jpg", "-rf.jpg", "@x.jpg"],
    "long": [f"{'far/' * 30}away.jpg", f"{'x' * 120}.jpg", f"{'x' * 119}y.jpg", f"{'ü' * 60}.jpg"],
}


def awkward(root: Path, pictures: list[Path]) -> None:
    """Names with spaces, dots, signs, other scripts and great lengths; links; one file that nobody asked for."""
    supply = itertools.cycle(pictures)
    for class_name, names in AWKWARD.items():
        for name in names:
            target = root / class_name / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(picture_for(target, supply), target)
    (root / "a" / "link.jpg").symlink_to("../apple/x.jpg")
    (root / "linked").symlink_to("a-b")
    (root / "a" / ".DS_Store").write_bytes(b"\0")


def picture_for(target: Path, supply) -> Path:
    """The next picture; a PNG only where the name says so, and the other way round."""
    png = target.suffix.lower() == ".png"
    return next(picture for picture in supply if (picture.read_bytes()[:4] == b"\x89PNG") == png)


def sidecars(root: Path, pictures: list[Path]) -> None:
    """Every picture has a caption and a JSON object beside it."""
    for number, picture in enumerate(pictures):
        folder = root / picture.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(picture, folder / picture.name)
        (folder / picture.name).with_suffix(".txt").write_text(f"picture number {number}, größer\n", encoding="utf-8")
        extension = ".json" if number % 2 else ".JSON"
        (folder / picture.name).with_suffix(extension).write_text(json.dumps({"number": number, "boxes": [1, 2]}))


def giants(root: Path, _: list[Path]) -> None:
    """Contents larger than a frame of zstd may be, with small ones before, between and after them; no pictures."""
    chance = random.Random(0)
    for name in ["a/1.jpg", "b/4.jpg"]:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(chance.randbytes(9_000_000))
    for name in ["a/0.jpg", "a/2.jpg", "b/3.jpg", "b/5.jpg"]:
        (root / name).write_bytes(chance.randbytes(300) * 20)


def heavy(root: Path, _: list[Path]) -> None:
    """More than a row group of Parquet may hold; no pictures."""
    chance = random.Random(0)
    for number in range(13):
        folder = root / "ab"[number % 2]
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(chance.randbytes(9_000_000))


def any_names_and_sizes(root: Path, seed: int) -> None:
    """Random names and sizes around the block boundaries of tar; the bytes are no pictures."""
    chance = random.Random(seed)
    alphabet = "abcABC019-_.~ %+'üß漢\U0001f41f"
    sizes = [1, 2, 511, 512, 513, 1023, 1024, 1025, 10239, 10240, 10241]

    def name(longest: int) -> str:
        return chance.choice("abcABC_~ü漢") + "".join(chance.choices(alphabet, k=chance.randrange(longest)))

    for _ in range(chance.randint(2, 6)):
        folder = root / name(20)
        for _ in range(chance.choice([0, 0, 1, 3])):
            folder /= name(30)
        folder.mkdir(parents=True, exist_ok=True)
        stems = {name(chance.choice([4, 30, 45])) for _ in range(chance.randint(1, 25))}
        for stem in sorted(stems):
            for extension in [chance.choice([".jpg", ".JPEG", ".png"]), *chance.sample([".txt", ".json"], chance.randrange(3))]:
                size = chance.choice([*sizes, chance.randrange(1, 30_000)])
                (folder / (stem + extension)).write_bytes(chance.randbytes(size))
