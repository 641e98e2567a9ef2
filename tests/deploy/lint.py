"""What is wrong with Argo's and Kubernetes' objects: fields by a strict schema where there is one, and names that refer to nothing.

Argo's schema (api/jsonschema/schema.json of argo-workflows) is found as $ARGO_SCHEMA or as .schemas/argo.json.
"""

import copy
import functools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import kubernetes.client

PROJECT = Path(__file__).parents[2]
ARGO_KINDS = {"WorkflowTemplate", "CronWorkflow"}
TYPE = "io.argoproj.workflow.v1alpha1."

RESULTS = {"Succeeded", "Failed", "Errored", "Skipped", "Omitted", "Daemoned", "AnySucceeded", "AllFailed"}
ENUMS = {
    "retryPolicy": {"Always", "OnFailure", "OnError", "OnTransientError"},
    "concurrencyPolicy": {"Allow", "Forbid", "Replace"},
    "strategy": {"OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess"},
}
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
DURATION = re.compile(r"([0-9]+(ms|s|m|h))+")
CRON = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
OF_WORKFLOW = {"workflow.name", "workflow.namespace", "workflow.uid", "workflow.status", "workflow.duration"}
OF_METRICS = {"status", "duration", "exitCode", "retries"}


def argo_schema() -> Path | None:
    places = [os.environ.get("ARGO_SCHEMA"), PROJECT / ".schemas/argo.json"]
    return next((Path(place) for place in places if place and Path(place).exists()), None)


@functools.cache
def _strict(path: Path) -> dict:
    """No field that it does not know, and numbers where text is as good."""
    schema = json.loads(path.read_text())
    schema.pop("oneOf", None)

    def walk(node) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("properties"), dict):
                node.setdefault("additionalProperties", False)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(schema)
    for name, definition in schema["definitions"].items():
        if name.endswith("IntOrString"):
            definition["type"] = ["string", "integer"]
    return schema


def by_argo_schema(document: dict, path: Path) -> list[str]:
    schema = {**_strict(path), "$ref": f"#/definitions/{TYPE}{document['kind']}"}
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def by_kubernetes(document: dict) -> list[str]:
    """Fields, types and required fields by the models of Kubernetes' own client."""
    group, _, version = document["apiVersion"].rpartition("/")
    group = group.split(".")[0] if group != "rbac.authorization.k8s.io" else ""
    name = f"{version.capitalize()}{document['kind']}"
    return list(_model(document, name, document["kind"]))


def _model(value, kind: str, where: str) -> Iterator[str]:
    if many := re.fullmatch(r"list\[(.*)\]", kind):
        if not isinstance(value, list):
            yield f"{where}: {value!r} is no list"
            return
        for number, one in enumerate(value):
            yield from _model(one, many[1], f"{where}/{number}")
    elif pairs := re.fullmatch(r"dict\[str, (.*)\]", kind):
        for key, one in value.items():
            yield from _model(one, pairs[1], f"{where}/{key}")
    elif kind in ("str", "int", "bool"):
        if type(value).__name__ != kind:
            yield f"{where}: {value!r} is no {kind}"
    elif kind not in ("object", "datetime", "IntOrString"):
        model = getattr(kubernetes.client, kind)
        names = {json_name: name for name, json_name in model.attribute_map.items()}
        for key, one in value.items():
            if key not in names:
                yield f"{where}: unknown field `{key}`"
            else:
                yield from _model(one, model.openapi_types[names[key]], f"{where}/{key}")
        filled = {names[key]: one for key, one in value.items() if key in names}
        try:
            # It refuses what is required and missing.
            model(**filled)
        except ValueError as error:
            yield f"{where}: {error}"


def problems(documents: list[dict]) -> list[str]:
    """Names that refer to nothing, and values that no schema here knows to be wrong."""
    return [problem for document in documents for problem in _of(document, documents)]


def _of(document: dict, documents: list[dict]) -> Iterator[str]:
    me = f"{document['kind']} {document['metadata']['name']}"
    for problem in _values(document):
        yield f"{me}: {problem}"
    if document["kind"] == "CronWorkflow":
        for problem in _cron(document["spec"], documents):
            yield f"{me}: {problem}"
    if document["kind"] == "WorkflowTemplate":
        for problem in _workflow(document["spec"], documents):
            yield f"{me}: {problem}"


def _values(node, key: str = "") -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ENUMS and isinstance(value, str) and value not in ENUMS[name]:
                yield f"{name}: {value}: none of {sorted(ENUMS[name])}"
            if name in ("requests", "limits"):
                for what, amount in value.items():
                    if not QUANTITY.fullmatch(str(amount)):
                        yield f"{name}: {what}: {amount} is no quantity"
            if name == "sizeLimit" and not QUANTITY.fullmatch(str(value)):
                yield f"{name}: {value} is no quantity"
            if name == "backoff":
                for what in ("duration", "cap", "maxDuration"):
                    if what in value and not DURATION.fullmatch(value[what]):
                        yield f"backoff: {what}: {value[what]} is no duration"
            yield from _values(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _values(value, key)


def cron_problem(schedule: str) -> str | None:
    fields = schedule.split()
    if len(fields) != 5:
        return f"schedule `{schedule}`: {len(fields)} fields instead of 5"
    for text, (low, high) in zip(fields, CRON, strict=True):
        for part in text.split(","):
            part = part.partition("/")[0]
            numbers = [] if part == "*" else part.split("-")
            if not all(number.isdecimal() and low <= int(number) <= high for number in numbers):
                return f"schedule `{schedule}`: `{text}` is not within {low} to {high}"
    return None


def _cron(spec: dict, documents: list[dict]) -> Iterator[str]:
    yield from filter(None, map(cron_problem, spec.get("schedules", [])))
    inner = spec["workflowSpec"]
    name = inner["workflowTemplateRef"]["name"]
    found = [one for one in documents if (one["kind"], one["metadata"]["name"]) == ("WorkflowTemplate", name)]
    if not found:
        yield f"workflowTemplateRef: no WorkflowTemplate `{name}`"
        return
    yield from _arguments(inner.get("arguments", {}), found[0]["spec"]["arguments"]["parameters"], "arguments")


def _arguments(given: dict, declared: list[dict], where: str) -> Iterator[str]:
    names = {parameter["name"]: parameter for parameter in declared}
    given = {parameter["name"]: parameter.get("value") for parameter in given.get("parameters", [])}
    for name, value in given.items():
        if name not in names:
            yield f"{where}: no parameter `{name}`"
        elif "{{" not in str(value) and value not in names[name].get("enum", [value]):
            yield f"{where}: {name}: {value} is none of {names[name]['enum']}"
    for name, parameter in names.items():
        if name not in given and "value" not in parameter:
            yield f"{where}: parameter `{name}` is missing"


def variables(node) -> set[str]:
    return {name.strip() for name in re.findall(r"\{\{(.*?)\}\}", json.dumps(node))}


def with_defaults(spec: dict) -> list[dict]:
    """The templates with templateDefaults in them, as Argo merges them: what a template says wins, and its kind stays."""

    def merged(under, over):
        if not (isinstance(under, dict) and isinstance(over, dict)):
            return copy.deepcopy(over)
        return {
            key: merged(under[key], over[key])
            if key in under and key in over
            else copy.deepcopy({**under, **over}[key])
            for key in {**under, **over}
        }

    defaults = spec.get("templateDefaults", {})
    templates = [merged(defaults, template) for template in spec["templates"]]
    for before, after in zip(spec["templates"], templates, strict=True):
        if "container" not in before:
            after.pop("container", None)
    return templates


def _workflow(spec: dict, documents: list[dict]) -> Iterator[str]:
    templates = {template["name"]: template for template in with_defaults(spec)}
    if len(templates) != len(spec["templates"]):
        yield "two templates of one name"
    if spec.get("entrypoint") not in templates:
        yield f"entrypoint: no template `{spec.get('entrypoint')}`"
    if "onExit" in spec and spec["onExit"] not in templates:
        yield f"onExit: no template `{spec['onExit']}`"
    declared = {f"workflow.parameters.{parameter['name']}": parameter for parameter in spec["arguments"]["parameters"]}
    for parameter in declared.values():
        if parameter["value"] not in parameter.get("enum", [parameter["value"]]):
            yield f"parameter {parameter['name']}: {parameter['value']} is none of {parameter['enum']}"
    of_workflow = OF_WORKFLOW | set(declared)
    around = {key: value for key, value in spec.items() if key not in ("templates", "templateDefaults")}
    for name in variables(around) - of_workflow:
        yield f"no variable `{name}`"
    used = set()
    for template in templates.values():
        me = f"template {template['name']}"
        inputs = {
            f"inputs.parameters.{parameter['name']}" for parameter in template.get("inputs", {}).get("parameters", [])
        }
        used |= variables(template)
        if "dag" in template:
            for problem in _dag(template["dag"]["tasks"], templates, of_workflow | inputs):
                yield f"{me}: {problem}"
        else:
            of_metrics = {key: value for key, value in template.items() if key == "metrics"}
            rest = {key: value for key, value in template.items() if key != "metrics"}
            for name in variables(rest) - of_workflow - inputs:
                yield f"{me}: no variable `{name}`"
            for name in variables(of_metrics) - of_workflow - inputs - OF_METRICS:
                yield f"{me}: no variable `{name}`"
            for problem in _container(template, spec, declared, documents):
                yield f"{me}: {problem}"
    for name in set(declared) - used - variables(around):
        yield f"`{name}` is used nowhere"
    accounts = {one["metadata"]["name"] for one in documents if one["kind"] == "ServiceAccount"}
    executor = spec.get("executor", {}).get("serviceAccountName")
    for name in [spec.get("serviceAccountName"), executor]:
        if name not in accounts:
            yield f"no ServiceAccount `{name}`"


def _dag(tasks: list[dict], templates: dict, known: set[str]) -> Iterator[str]:
    by_name = {task["name"]: task for task in tasks}
    needs = {}
    for task in tasks:
        me = f"task {task['name']}"
        words = re.findall(r"[A-Za-z0-9_.-]+", task.get("depends", ""))
        needs[task["name"]] = {word.partition(".")[0] for word in words}
        for word in words:
            name, _, result = word.partition(".")
            if name not in by_name:
                yield f"{me}: depends on `{name}`, which is no task"
            if result and result not in RESULTS:
                yield f"{me}: depends on `{word}`: none of {sorted(RESULTS)}"
        if task["template"] not in templates:
            yield f"{me}: no template `{task['template']}`"
            continue
        yield from _arguments(
            task.get("arguments", {}), templates[task["template"]].get("inputs", {}).get("parameters", []), me
        )

    def upstream(name: str, seen: frozenset = frozenset()) -> set[str]:
        before = needs.get(name, set()) - seen
        return before.union(*(upstream(one, seen | before) for one in before))

    for task in tasks:
        if task["name"] in upstream(task["name"]):
            yield f"task {task['name']} depends on itself"
        there = set(known)
        for name in upstream(task["name"]) & set(by_name):
            outputs = templates.get(by_name[name]["template"], {}).get("outputs", {}).get("parameters", [])
            there |= {f"tasks.{name}.outputs.parameters.{output['name']}" for output in outputs}
        if task.keys() & {"withSequence", "withItems", "withParam"}:
            there.add("item")
        for name in variables(task) - there:
            yield f"task {task['name']}: no variable `{name}` there"


def _container(template: dict, spec: dict, declared: dict, documents: list[dict]) -> Iterator[str]:
    container = template["container"]
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    mounts = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in volumes:
            yield f"no volume `{mount['name']}`"
    outputs = template.get("outputs", {})
    paths = [output["valueFrom"]["path"] for output in outputs.get("parameters", [])]
    for path in paths + [artifact["path"] for artifact in outputs.get("artifacts", [])]:
        if not any(path.startswith(f"{mount}/") for mount in mounts):
            yield f"output {path} is in no volume, and the root is read-only"
    for path in paths:
        if path not in container["args"]:
            yield f"nothing writes output {path}"
    for source in container.get("envFrom", []):
        for kind, reference in (("ConfigMap", source.get("configMapRef")), ("Secret", source.get("secretRef"))):
            if reference is None or reference.get("optional"):
                continue
            name = re.sub(
                r"\{\{(.*?)\}\}", lambda hit: declared.get(hit[1], {}).get("value", hit[0]), reference["name"]
            )
            if kind == "ConfigMap" and (kind, name) not in {
                (one["kind"], one["metadata"]["name"]) for one in documents
            }:
                yield f"no {kind} `{name}`"
