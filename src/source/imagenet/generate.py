#!/usr/bin/env python3
"""Makes synsets.tsv and validation.bin from the files of ImageNet's own development kit.

    ./generate.py SYNSETS VALIDATION

SYNSETS     the 1,000 synsets in the order of the development kit, a line `id wnid train_images words` each with tabs between and a header
            line: fields of `meta.mat` in ILSVRC2012_devkit_t12.tar.gz (ILSVRC2012_ID, WNID, num_train_images, words)
VALIDATION  `ILSVRC2012_validation_ground_truth.txt` of the same archive: line n is the ILSVRC2012_ID of ILSVRC2012_val_<n>.JPEG

validation.bin holds ILSVRC2012_ID - 1 of the 50,000 images in the order of their numbers, 10 bits each, the least significant bit of a
number first, in the least significant bit of a byte that is free. Numbers and names only: no picture is needed, and none is kept.
"""

import collections
import pathlib
import sys


def main(synsets_file, validation_file):
    here = pathlib.Path(__file__).parent
    synsets = pathlib.Path(synsets_file).read_text(encoding="utf-8")
    header, *rows = synsets.splitlines()
    assert header.split("\t") == ["id", "wnid", "train_images", "words"], header
    rows = [row.split("\t") for row in rows]
    assert [int(row[0]) for row in rows] == list(range(1, 1001)), "ids are 1 to 1000 in order"
    assert len({row[1] for row in rows}) == 1000, "each synset once"
    assert sum(int(row[2]) for row in rows) == 1_281_167, "the training images are all counted"

    ids = [int(line) for line in pathlib.Path(validation_file).read_text().split()]
    assert len(ids) == 50_000, "an id for each validation image"
    counts = collections.Counter(ids)
    assert set(counts) == set(range(1, 1001)) and set(counts.values()) == {50}, "50 images a class"

    bits = 0
    for place, number in enumerate(ids):
        bits |= (number - 1) << (10 * place)
    (here / "synsets.tsv").write_text(synsets, encoding="utf-8")
    (here / "validation.bin").write_bytes(bits.to_bytes(len(ids) * 10 // 8, "little"))


if __name__ == "__main__":
    main(*sys.argv[1:])
