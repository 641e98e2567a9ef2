"""The templates are sound: fields, names, references; and what checks them catches what is wrong."""

import copy
import re
import shutil
import subprocess

import kustomize
import lint
import pytest
import yaml
from programs import PROJECT

DEPLOY = PROJECT / "deploy"
FOLDERS = [DEPLOY / "argo/base", *sorted((DEPLOY / "argo/overlays").iterdir()), DEPLOY / "k8s"]
FOLDER_NAMES = [str(folder.relative_to(DEPLOY)) for folder in FOLDERS]
RETRIED = [-1, 75, 137, 143]


@pytest.fixture(params=FOLDERS, ids=FOLDER_NAMES)
def objects(request) -> list[dict]:
    return kustomize.render(request.param)


@pytest.fixture
def aws() -> list[dict]:
    """Base and every component but the keys."""
    return kustomize.render(DEPLOY / "argo/overlays/aws")


@pytest.fixture
def schema():
    found = lint.argo_schema()
    if found is None:
        pytest.skip(
            "fields were not checked, names were: Argo's schema is not there; set ARGO_SCHEMA to its api/jsonschema/schema.json"
        )
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=FOLDER_NAMES)
def test_kubectl_renders_the_same_objects(folder):
    by_kubectl = kustomize.by_kubectl(folder)
    if by_kubectl is None:
        pytest.skip("not compared: kubectl is not there")
    assert kustomize.sorted_objects(kustomize.render(folder)) == kustomize.sorted_objects(by_kubectl)


def test_every_component_is_in_some_overlay():
    components = {path.name for path in (DEPLOY / "argo/components").iterdir()}
    used = "".join((folder / "kustomization.yaml").read_text() for folder in FOLDERS)
    assert components == set(re.findall(r"components/([\w-]+)", used))


def test_all_names_refer_to_something(objects):
    assert lint.problems(objects) == []


def test_every_field_is_known_to_argo(objects, schema):
    found = {
        one["metadata"]["name"]: lint.by_argo_schema(one, schema) for one in objects if one["kind"] in lint.ARGO_KINDS
    }
    assert not any(found.values()), found


def test_every_field_is_known_to_kubernetes(objects):
    found = [problem for one in objects if one["kind"] not in lint.ARGO_KINDS for problem in lint.by_kubernetes(one)]
    assert found == []


@pytest.mark.parametrize(
    "mistake",
    ["completion: 3", "completions: many", "parallelism: '3'", "podFailurePolicy: {rules: [{onPodConditions: []}]}"],
)
def test_a_mistake_in_the_indexed_job_is_caught(mistake):
    job = next(one for one in kustomize.render(DEPLOY / "k8s") if one["kind"] == "Job")
    job["spec"] |= yaml.safe_load(mistake)
    assert lint.by_kubernetes(job) != []


def templates(document: dict) -> dict[str, dict]:
    return {template["name"]: template for template in document["spec"]["templates"]}


def mistake(change) -> object:
    return pytest.param(change, id=change.__name__)


def misspelt_field(convert, _cron):
    convert["spec"]["activeDeadlineSecond"] = convert["spec"].pop("activeDeadlineSeconds")


def old_mutex(convert, _cron):
    convert["spec"]["synchronization"] = {"mutex": convert["spec"]["synchronization"]["mutexes"][0]}


def old_schedule(_convert, cron):
    cron["spec"]["schedule"] = cron["spec"].pop("schedules")[0]


def memoize_without_age(convert, _cron):
    templates(convert)["plan"]["memoize"] = {"key": "plan", "cache": {"configMap": {"name": "plans"}}}


def unknown_retry_policy(convert, _cron):
    convert["spec"]["templateDefaults"]["retryStrategy"]["retryPolicy"] = "OnFail"


def unknown_concurrency_policy(_convert, cron):
    cron["spec"]["concurrencyPolicy"] = "Never"


def wrong_quantity(convert, _cron):
    convert["spec"]["templateDefaults"]["container"]["resources"]["limits"]["memory"] = "2GB"


def unknown_template(convert, _cron):
    templates(convert)["convert"]["dag"]["tasks"][1]["template"] = "packs"


def unknown_task(convert, _cron):
    templates(convert)["convert"]["dag"]["tasks"][2]["depends"] = "packs.Succeeded"


def minute_99(_convert, cron):
    cron["spec"]["schedules"] = ["99 1 * * *"]


BY_SCHEMA = [misspelt_field, old_mutex, old_schedule, memoize_without_age]
BY_NAMES = [unknown_retry_policy, unknown_concurrency_policy, wrong_quantity, unknown_template, unknown_task, minute_99]


def with_mistake(objects: list[dict], change) -> list[dict]:
    objects = copy.deepcopy(objects)
    of = {one["metadata"]["name"]: one for one in objects}
    change(of["shardpack-convert"], of["shardpack-nightly-convert"])
    return objects


@pytest.mark.parametrize("change", [mistake(change) for change in BY_NAMES])
def test_a_seeded_mistake_is_caught_by_its_names(aws, change):
    assert lint.problems(with_mistake(aws, change)) != []


@pytest.mark.parametrize("change", [mistake(change) for change in BY_SCHEMA])
def test_a_seeded_mistake_is_caught_by_the_schema(aws, change, schema):
    wrong = [one for one in with_mistake(aws, change) if one["kind"] in lint.ARGO_KINDS]
    assert [problem for one in wrong for problem in lint.by_argo_schema(one, schema)] != []


def undeclared_parameter(convert, _cron):
    templates(convert)["plan"]["container"]["args"][1] = "{{workflow.parameters.source}}"


def output_of_a_later_task(convert, _cron):
    templates(convert)["convert"]["dag"]["tasks"][0]["when"] = "{{tasks.pack.outputs.parameters.changed}} == true"


def output_that_is_none(convert, _cron):
    templates(convert)["convert"]["dag"]["tasks"][1]["withSequence"]["count"] = "{{tasks.plan.outputs.parameters.pods}}"


def missing_argument(convert, _cron):
    del templates(convert)["convert"]["dag"]["tasks"][1]["arguments"]


def argument_of_cron_that_is_none(_convert, cron):
    cron["spec"]["workflowSpec"]["arguments"]["parameters"].append({"name": "onchange", "value": "keep"})


def value_that_is_not_offered(_convert, cron):
    cron["spec"]["workflowSpec"]["arguments"]["parameters"][2]["value"] = "overwrite"


def output_outside_of_volumes(convert, _cron):
    templates(convert)["publish"]["outputs"]["parameters"][0]["valueFrom"]["path"] = "/tmp/digest"


def cycle(convert, _cron):
    templates(convert)["convert"]["dag"]["tasks"][0]["depends"] = "verify.Succeeded"


REFERENCES = [
    undeclared_parameter,
    output_of_a_later_task,
    output_that_is_none,
    missing_argument,
    argument_of_cron_that_is_none,
    value_that_is_not_offered,
    output_outside_of_volumes,
    cycle,
]


@pytest.mark.parametrize("change", [mistake(change) for change in REFERENCES])
def test_a_reference_to_nothing_is_caught(aws, change):
    assert lint.problems(with_mistake(aws, change)) != []


def test_every_flag_in_the_templates_is_one_of_the_verb(objects, run):
    for container in containers(objects):
        verb, *words = container["args"]
        help_text = run(verb, "--help")
        for word in words:
            assert not word.startswith("--") or f"{word} " in help_text or f"{word}\n" in help_text, f"{verb}: {word}"


def test_every_option_in_a_config_map_is_a_twin_of_some_flag(objects, run):
    help_text = "".join(run(verb, "--help") for verb in ["convert", "plan", "pack", "publish", "verify"])
    for one in objects:
        for name in one.get("data", {}) if one["kind"] == "ConfigMap" else {}:
            assert name.startswith("AWS_") or f"[env: {name}=" in help_text, name


def containers(objects: list[dict]) -> list[dict]:
    found = []
    for one in objects:
        match one["kind"]:
            case "WorkflowTemplate":
                found += [t["container"] for t in lint.with_defaults(one["spec"]) if "container" in t]
            case "Job":
                found += one["spec"]["template"]["spec"]["containers"]
            case "CronJob":
                found += one["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert found
    return found


def test_no_container_may_do_what_it_need_not(objects):
    for container in containers(objects):
        may = container["securityContext"]
        assert (
            may["readOnlyRootFilesystem"]
            and not may["allowPrivilegeEscalation"]
            and may["capabilities"] == {"drop": ["ALL"]}
        )
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]
    for one in objects:
        match one["kind"]:
            case "WorkflowTemplate":
                pod = one["spec"]
            case "Job":
                pod = one["spec"]["template"]["spec"]
            case "CronJob":
                pod = one["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            case _:
                continue
        assert pod["automountServiceAccountToken"] is False
        context = pod["securityContext"]
        assert (
            context["runAsNonRoot"]
            and context["runAsUser"] > 0
            and context["seccompProfile"] == {"type": "RuntimeDefault"}
        )


def test_what_is_tried_again_is_what_the_exit_codes_page_says(aws):
    page = (PROJECT / "docs/exit-codes.md").read_text()
    rows = re.findall(r"^\| (\d+) \|[^|]*\| ([^|]*) \|", page, re.M)
    assert len(rows) == 10
    retried = [int(code) for code, advice in rows if advice.startswith("retry")]
    assert sorted(retried) == [75, 137, 143]
    strategies = [
        template["retryStrategy"]
        for one in aws
        if one["kind"] == "WorkflowTemplate"
        for template in lint.with_defaults(one["spec"])
        if "container" in template
    ]
    assert len(strategies) == 5
    for strategy in strategies:
        codes = re.search(r"\[(.*)\]", strategy["expression"])[1]
        assert sorted(map(int, codes.split(","))) == RETRIED
    job = next(one for one in kustomize.render(DEPLOY / "k8s") if one["kind"] == "Job")
    given_up = job["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"]
    assert given_up == [int(code) for code, advice in rows if 0 < int(code) < 75]


def test_the_number_of_workers_of_the_indexed_jobs_is_their_completions():
    for one in kustomize.render(DEPLOY / "k8s"):
        spec = {"Job": lambda job: job["spec"], "CronJob": lambda job: job["spec"]["jobTemplate"]["spec"]}.get(
            one["kind"]
        )
        if spec is None:
            continue
        args = spec(one)["template"]["spec"]["containers"][0]["args"]
        assert int(args[args.index("--workers") + 1]) == spec(one)["completions"]


def test_the_slurm_script_passes_shellcheck():
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("not checked: shellcheck is not there")
    done = subprocess.run([shellcheck, DEPLOY / "slurm/array.sh"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
