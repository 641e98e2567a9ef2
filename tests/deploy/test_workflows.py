"""The workflows of .github: they cannot run here, so what they name must be there and every job must end."""

import re
import tomllib

import pytest
import yaml

from programs import PROJECT

WORKFLOWS = sorted((PROJECT / ".github/workflows").glob("*.yml"))


def targets() -> set[str]:
    makefile = (PROJECT / "Makefile").read_text()
    return set(re.findall(r"^([a-z-]+):", makefile, re.M))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_jobs_that_end_and_steps_that_do_one_thing(path):
    workflow = yaml.safe_load(path.read_text())
    # YAML reads the key `on` as true.
    assert set(workflow) == {"name", True, "permissions", "jobs"}
    for name, job in workflow["jobs"].items():
        assert 0 < job["timeout-minutes"] <= 180, name
        assert job["runs-on"], name
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            assert set(step) <= {"uses", "run", "with", "env", "name"}, step
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v1")), step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_runs_is_there(path):
    text = path.read_text()
    for target in re.findall(r"\bmake ([a-z-]+)", text):
        assert target in targets(), target
    for script in re.findall(r"run: (\.\S+)", text):
        assert (PROJECT / script).stat().st_mode & 0o100, script
    rust = re.search(r'^rust-version = "(.+)"', (PROJECT / "Cargo.toml").read_text(), re.M)[1]
    assert set(re.findall(r"toolchain install (\S+)", text)) <= {rust}


def test_a_release_has_what_the_readme_and_binstall_ask_for():
    cargo = tomllib.loads((PROJECT / "Cargo.toml").read_text())["package"]
    release = yaml.safe_load((PROJECT / ".github/workflows/release.yml").read_text())
    job = release["jobs"]["binaries"]
    steps = [step.get("run", "") for step in job["steps"]]
    (archive,) = [match[1] for step in steps if (match := re.match(r"tar -czf (.*?\.tar\.gz) ", step))]
    (upload,) = [step for step in steps if "release upload" in step]
    assert "target/wheels/shardpack-*.whl" in upload and any(step.startswith("make wheel ") for step in steps)
    targets = [one["target"] for one in job["strategy"]["matrix"]["include"]]
    asked = cargo["metadata"]["binstall"]["pkg-url"].rpartition("/")[2]
    for target in targets:
        made = archive.replace("${{ github.ref_name }}", f"v{cargo['version']}").replace("${{ matrix.target }}", target)
        values = {"{ version }": cargo["version"], "{ target }": target, "{ archive-suffix }": ".tar.gz"}
        wanted = asked
        for name, value in values.items():
            wanted = wanted.replace(name, value)
        assert made == wanted


def test_the_wheel_has_the_binary_of_make_static():
    makefile = (PROJECT / "Makefile").read_text()
    recipes = [re.search(rf"^{name}:.*\n((?:\t.*\n)+)", makefile, re.M)[1] for name in ("static", "wheel")]
    for flags in ["-C target-feature=+crt-static -C strip=symbols", "--release --locked", "$(TARGET)/static", "SHARDPACK_COMMIT="]:
        assert all(flags in recipe for recipe in recipes), flags


def test_there_is_one_that_tests_and_one_that_releases():
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]
    assert ".ci/run" in WORKFLOWS[0].read_text()
