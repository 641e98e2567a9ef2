"""Reads the kustomize folders below deploy/: resources, components, and JSON patches. kubectl's own reader must agree."""

import copy
import json
import shutil
import subprocess
from pathlib import Path

import yaml


def render(folder: Path) -> list[dict]:
    """The objects of one folder, patched, in the order in which they are named."""
    return _with(folder, [])


def _with(folder: Path, objects: list[dict]) -> list[dict]:
    about = yaml.safe_load((folder / "kustomization.yaml").read_text())
    known = {"apiVersion", "kind", "resources", "components", "patches"}
    assert set(about) <= known, f"{folder}: {set(about) - known}: not read here, only by kubectl"
    for name in about.get("resources", []):
        path = folder / name
        objects += render(path) if path.is_dir() else [found for found in yaml.safe_load_all(path.read_text()) if found]
    for name in about.get("components", []):
        objects = _with(folder / name, objects)
    for patch in about.get("patches", []):
        target = patch["target"]
        hit = [one for one in objects if one["kind"] == target["kind"]]
        hit = [one for one in hit if target.get("name") in (None, one["metadata"]["name"])]
        assert hit, f"{folder}: no {target} to patch"
        for one in hit:
            for operation in yaml.safe_load(patch["patch"]):
                _apply(one, operation)
    return objects


def _apply(document: dict, operation: dict) -> None:
    """One operation of RFC 6902."""
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    place = document
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    last = int(last) if isinstance(place, list) and last != "-" else last
    match operation["op"]:
        case "test":
            assert place[last] == operation["value"], f"{operation}: found {place[last]!r}"
        case "replace":
            assert place[last] is not None, operation
            place[last] = copy.deepcopy(operation["value"])
        case "add" if isinstance(place, list):
            place.insert(len(place) if last == "-" else last, copy.deepcopy(operation["value"]))
        case "add":
            place[last] = copy.deepcopy(operation["value"])
        case other:
            raise AssertionError(f"{other}: not read here")


def by_kubectl(folder: Path) -> list[dict] | None:
    """The same by kubectl, or None where there is none."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return None
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, timeout=60, check=True)
    return list(yaml.safe_load_all(done.stdout))


def sorted_objects(objects: list[dict]) -> list[str]:
    return sorted(json.dumps(one, sort_keys=True) for one in objects)
