"""OpenCLIP 3.3, which needs webdataset 0.2.86 or older, found on PYTHONPATH: see `make readers`."""

import hashlib
import io
from types import SimpleNamespace

import pytest
import torch
from common import shards
from open_clip_train.data import get_wds_dataset
from PIL import Image


@pytest.fixture(scope="module")
def captions(converted):
    return converted("sidecars", "--shards", "4", "--index", "openclip")


def openclip(dataset, batch: int, workers: int, world: int = 1):
    names = "::".join(shards(dataset, "train"))
    arguments = SimpleNamespace(
        train_data=names, train_num_samples=None, train_data_upsampling_factors=None, dataset_resampled=False,
        seed=0, batch_size=batch, workers=workers, world_size=world,
    )
    def picture(image):
        return torch.frombuffer(bytearray(hashlib.sha256(image.tobytes()).digest()), dtype=torch.uint8)
    def text(caption):
        return [torch.frombuffer(bytearray(hashlib.sha256(caption.encode()).digest()), dtype=torch.uint8)]
    return get_wds_dataset(arguments, picture, is_train=True, tokenizer=text)


def test_openclip_counts_by_the_index_and_trains_on_every_picture_with_its_caption(captions):
    info = openclip(captions, batch=4, workers=2)
    assert info.dataloader.num_samples == 40
    pairs = {}
    for one in captions.truth.values():
        pixels = Image.open(io.BytesIO(one.picture)).convert("RGB").tobytes()
        pairs[hashlib.sha256(pixels).digest()] = hashlib.sha256(one.fields["txt"]).digest()
    found = {bytes(p): bytes(t) for images, texts in info.dataloader for p, t in zip(images.numpy(), texts.numpy())}
    assert found == pairs


def test_openclip_wants_as_many_shards_as_workers_times_ranks(captions):
    with pytest.raises(AssertionError, match="number of shards must be >= total workers"):
        openclip(captions, batch=4, workers=4, world=2)


def test_openclip_leaves_samples_without_a_caption_out_without_a_word(converted):
    dataset = converted("splits", "--shards", "4")
    names = "::".join(shards(dataset, "val"))
    arguments = SimpleNamespace(val_data=names, val_num_samples=12, batch_size=4, workers=1, world_size=1)
    assert list(get_wds_dataset(arguments, torch.tensor, is_train=False, tokenizer=len).dataloader) == []
