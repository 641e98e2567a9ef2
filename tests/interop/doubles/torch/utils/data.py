"""Loaders that hand their dataset over as a worker's process would get it, and make batches as torch does."""

import pickle
import random

import numpy


class Dataset:
    pass


class IterableDataset(Dataset):
    pass


def get_worker_info():
    return None


def collate(samples):
    first = samples[0]
    if isinstance(first, (tuple, list)):
        return [collate(part) for part in zip(*samples, strict=True)]
    # As torch does it: pictures of several sizes are no batch.
    return numpy.stack(samples) if isinstance(first, numpy.ndarray) else numpy.asarray(samples)


class DataLoader:
    def __init__(self, dataset, batch_size=1, shuffle=False, num_workers=0, collate_fn=collate):
        self.dataset, self.batch_size, self.shuffle, self.collate = dataset, batch_size, shuffle, collate_fn
        assert num_workers >= 0

    def samples(self):
        dataset = self.dataset
        if isinstance(dataset, IterableDataset):
            return iter(dataset)
        dataset = pickle.loads(pickle.dumps(dataset))
        numbers = list(range(len(dataset)))
        if self.shuffle:
            random.shuffle(numbers)
        return (dataset[number] for number in numbers)

    def __iter__(self):
        batch = []
        for sample in self.samples():
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate(batch)
                batch = []
        if batch:
            yield self.collate(batch)
