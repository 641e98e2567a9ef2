"""wids 0.1.11, which maps a shard into memory and parses the headers itself.

Only its tar reader is loaded: the package's own `__init__` needs torch.
"""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mmtar():
    package = importlib.util.find_spec("wids").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("wids_mmtar", Path(package, "wids_mmtar.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_wids_maps_the_members_that_tarfile_finds(dataset, mmtar):
    for shard in dataset.shards:
        mapped = mmtar.MMIndexedTar(str(shard.path))
        assert list(mapped) == [(member.name, body) for member, body in shard.members]
        assert [offset for _, offset, _ in mapped.by_index] == [member.offset for member, _ in shard.members]
        assert len(mapped.names()) == len(shard.members), "two members have one name"
        mapped.close()


def test_wids_finds_a_member_by_its_name(dataset, mmtar):
    shard = dataset.shards[-1]
    mapped = mmtar.MMIndexedTar(str(shard.path))
    for member, body in shard.members:
        assert mapped[member.name] == (member.name, body)
    mapped.close()
