"""webdataset 1.0.2, as a training job uses it."""

import io
import json

import webdataset as wds
from PIL import Image


def samples(urls) -> list[dict]:
    return list(wds.WebDataset(urls, shardshuffle=False))


def fields(sample: dict) -> dict[str, bytes]:
    return {name: body for name, body in sample.items() if not name.startswith("__")}


def test_webdataset_reads_each_sample_of_the_source_once_with_the_same_bytes(dataset):
    found = [(sample["__key__"], fields(sample)) for sample in samples(dataset.paths)]
    assert len(found) == len(dict(found)), "a key comes twice"
    assert dict(found) == {key: sample.fields for key, sample in dataset.by_key.items()}


def test_webdataset_reads_the_samples_in_the_order_of_the_index(dataset):
    for shard in dataset.shards:
        keys = [sample["__key__"] for sample in samples([str(shard.path)])]
        assert keys == [row["key"] for row in shard.rows]
        assert [row["ordinal"] for row in shard.rows] == list(range(len(keys)))


def test_labels_are_the_ones_that_torchvision_gives(dataset):
    for sample in wds.WebDataset(dataset.paths, shardshuffle=False).decode():
        assert sample["cls"] == dataset.by_key[sample["__key__"]].label


def test_pictures_decode_to_those_of_the_source(dataset):
    for sample in wds.WebDataset(dataset.paths, shardshuffle=False).decode("pil"):
        picture = sample.get("jpg") or sample["png"]
        original = Image.open(io.BytesIO(dataset.by_key[sample["__key__"]].picture)).convert("RGB")
        assert picture.size == original.size and picture.tobytes() == original.tobytes()


def test_a_brace_range_names_all_shards_of_a_split(dataset):
    names = [shard["name"] for split in dataset.manifest["splits"] if split["name"] == "train" for shard in split["shards"]]
    assert names == [f"data/train-{number:05d}.tar" for number in range(len(names))]
    found = samples(f"{dataset.root}/data/train-{{00000..{len(names) - 1:05d}}}.tar")
    expected = {sample.path for sample in dataset.truth.values() if sample.split == "train"}
    assert {dataset.by_key[sample["__key__"]].path for sample in found} == expected
    assert len(found) == len(expected)


def test_webdataset_reads_a_shard_through_a_pipe(dataset):
    path = dataset.paths[0]
    keys = [sample["__key__"] for sample in samples([f"pipe:cat {path}"])]
    assert keys == [row["key"] for row in dataset.shards[0].rows]


def test_captions_and_json_come_decoded_beside_their_picture(dataset):
    found = {
        sample["__key__"]: (sample.get("txt"), sample.get("json"))
        for sample in wds.WebDataset(dataset.paths, shardshuffle=False).decode()
    }
    assert found == {
        key: (
            sample.fields["txt"].decode() if "txt" in sample.fields else None,
            json.loads(sample.fields["json"]) if "json" in sample.fields else None,
        )
        for key, sample in dataset.by_key.items()
    }
