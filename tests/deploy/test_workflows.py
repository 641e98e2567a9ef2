"""The workflows of .github: they cannot run here, so what they name must be there and every job must end."""

import re

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


def test_there_is_one_that_tests_and_one_that_releases():
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]
    assert ".ci/run" in WORKFLOWS[0].read_text()
