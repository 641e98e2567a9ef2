"""Runs Argo's WorkflowTemplates as they stand: parameters, `depends`, `when`, `withSequence`, retries and outputs, each container a process.

What these templates do not use is refused, not guessed. Waiting between attempts is left out.
"""

import copy
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lint import RESULTS, with_defaults
from pods import Ended, Node

EXECUTOR = "/var/run/argo"
"""Argo's own volume in every container."""
SUCCEEDED, FAILED, ERROR, SKIPPED, OMITTED = "Succeeded", "Failed", "Error", "Skipped", "Omitted"


@dataclass
class Step:
    """A task, or one item of a task that was fanned out."""

    phase: str
    outputs: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    attempts: list[Ended] = field(default_factory=list)

    @property
    def progress(self) -> str:
        """What the last attempt told Argo of it: `N/M`, or nothing."""
        return self.attempts[-1].files.get(f"{EXECUTOR}/progress", b"").decode().strip()

    @property
    def codes(self) -> list[int]:
        return [attempt.code for attempt in self.attempts]


@dataclass
class Workflow:
    """How one workflow ended."""

    phase: str
    steps: dict[str, Step]
    outputs: dict[str, str]
    """Global output parameters."""

    def said(self) -> str:
        parts = [
            f"--- {name} {step.phase} {step.codes}\n" + "".join(one.said for one in step.attempts)
            for name, step in self.steps.items()
        ]
        return "\n".join(parts)


def fill(node, values: dict[str, str]):
    """Replaces every {{variable}}; one that is not known is an error."""
    if isinstance(node, str):
        return re.sub(r"\{\{(.*?)\}\}", lambda hit: values[hit[1].strip()], node)
    if isinstance(node, dict):
        return {key: fill(value, values) for key, value in node.items()}
    return [fill(value, values) for value in node] if isinstance(node, list) else node


def condition(text: str, names: dict[str, object]) -> bool:
    """An expression of `depends`, `when` or `retryStrategy`, of as much of the language as is used here."""
    tokens = re.findall(r'\s*("[^"]*"|&&|\|\||==|!=|[!()\[\],]|-?[\w.-]+)', text)
    assert "".join(tokens) == re.sub(r"\s", "", text), f"`{text}` cannot be read"
    words = {"&&": " and ", "||": " or ", "!": " not ", "in": " in ", "true": "True", "false": "False"}

    def word(token: str) -> str:
        if token in words:
            return words[token]
        if token in names:
            return repr(names[token])
        if token == "asInt":
            return "int"
        plain = re.fullmatch(r'"[^"]*"|-?\d+|[()\[\],]|[=!]=', token)
        assert plain, f"`{text}`: `{token}` is not known"
        return token

    return bool(eval("".join(map(word, tokens)), {"__builtins__": {}, "int": int}))


class Argo:
    """The objects of a cluster, and the one node that its pods run on."""

    def __init__(self, objects: list[dict], node: Node, secrets: dict[str, dict[str, str]]):
        self.objects = {(one["kind"], one["metadata"]["name"]): one for one in objects}
        self.node = node
        self.secrets = secrets
        self._mutexes: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def cron(self, name: str, **parameters: str) -> Workflow:
        """One night of a CronWorkflow. Its arguments are the template's but for those given here."""
        spec = self.objects["CronWorkflow", name]["spec"]["workflowSpec"]
        given = {one["name"]: one["value"] for one in spec["arguments"]["parameters"]}
        return self.submit(spec["workflowTemplateRef"]["name"], **{**given, **parameters})

    def submit(self, name: str, **parameters: str) -> Workflow:
        spec = copy.deepcopy(self.objects["WorkflowTemplate", name]["spec"])
        parameters = {key.replace("_", "-"): value for key, value in parameters.items()}
        declared = {one["name"]: one for one in spec["arguments"]["parameters"]}
        assert parameters.keys() <= declared.keys(), parameters.keys() - declared.keys()
        values = {key: parameters.get(key, one["value"]) for key, one in declared.items()}
        for key, value in values.items():
            assert value in declared[key].get("enum", [value]), f"{key}: {value}"
        scope = {f"workflow.parameters.{key}": value for key, value in values.items()} | {
            "workflow.name": f"{name}-x7x2b"
        }
        mutexes = [fill(one["name"], scope) for one in spec.get("synchronization", {}).get("mutexes", [])]
        held = []
        for mutex in sorted(mutexes):
            with self._lock:
                lock = self._mutexes.setdefault(mutex, threading.Lock())
            lock.acquire()
            held.append(lock)
        try:
            return _Run(self, spec, scope).entry()
        finally:
            for lock in held:
                lock.release()


class _Run:
    def __init__(self, argo: Argo, spec: dict, scope: dict[str, str]):
        self.argo = argo
        self.spec = spec
        self.scope = scope
        self.templates = {template["name"]: template for template in with_defaults(spec)}
        self.steps: dict[str, Step] = {}
        self.outputs: dict[str, str] = {}
        self.slots = threading.Semaphore(spec.get("parallelism", 1))

    def entry(self) -> Workflow:
        template = self.templates[self.spec["entrypoint"]]
        if "dag" in template:
            assert condition(template["retryStrategy"]["expression"], {}) is False, "the whole would be tried again"
            phase = self.dag(template["dag"]["tasks"])
        else:
            step = self.steps[template["name"]] = self.leaf(template["name"], template, {})
            phase = step.phase
        return Workflow(phase, self.steps, self.outputs)

    def dag(self, tasks: list[dict]) -> str:
        todo = {task["name"]: task for task in tasks}
        done: dict[str, Step] = {}
        while todo:
            ready = [task for task in todo.values() if self.needs(task) <= done.keys()]
            assert ready, f"{list(todo)} wait for each other"
            for task in ready:
                done[task["name"]] = self.steps[task["name"]] = self.task(task, done)
                del todo[task["name"]]
        bad = [step.phase for step in done.values() if step.phase in (FAILED, ERROR)]
        return bad[0] if bad else SUCCEEDED

    @staticmethod
    def needs(task: dict) -> set[str]:
        return {word.partition(".")[0] for word in re.findall(r"[\w.-]+", task.get("depends", ""))}

    def task(self, task: dict, done: dict[str, Step]) -> Step:
        known = {"name", "template", "depends", "when", "withSequence", "arguments"}
        assert task.keys() <= known, f"{task.keys() - known}: not run here"
        names: dict[str, object] = {}
        for name, step in done.items():
            result = "Errored" if step.phase == ERROR else step.phase
            names[name] = step.phase in (SUCCEEDED, SKIPPED)
            names |= {f"{name}.{one}": one == result for one in RESULTS}
        if task.get("depends") and not condition(task["depends"], names):
            return Step(OMITTED)
        scope = dict(self.scope)
        for name, step in done.items():
            scope |= {f"tasks.{name}.outputs.parameters.{key}": value for key, value in step.outputs.items()}
        if "when" in task and not condition(fill(task["when"], scope), {}):
            return Step(SKIPPED)
        template = self.templates[task["template"]]
        if "withSequence" not in task:
            return self.leaf(task["name"], template, self.inputs(task, scope))
        count = int(fill(task["withSequence"]["count"], scope))
        items = [str(item) for item in range(count)]

        def one(item: str) -> Step:
            with self.slots:
                name = f"{task['name']}({item})"
                self.steps[name] = self.leaf(name, template, self.inputs(task, {**scope, "item": item}))
                return self.steps[name]

        with ThreadPoolExecutor(max(count, 1)) as pool:
            steps = list(pool.map(one, items))
        bad = [step.phase for step in steps if step.phase != SUCCEEDED]
        return Step(bad[0] if bad else SUCCEEDED if steps else SKIPPED)

    @staticmethod
    def inputs(task: dict, scope: dict[str, str]) -> dict[str, str]:
        given = task.get("arguments", {}).get("parameters", [])
        return {f"inputs.parameters.{one['name']}": fill(one["value"], scope) for one in given}

    def leaf(self, name: str, template: dict, inputs: dict[str, str]) -> Step:
        """One container, tried again as the template says."""
        scope = {**self.scope, **inputs}
        strategy = template["retryStrategy"]
        assert strategy["retryPolicy"] == "Always"
        plain = {key: value for key, value in template.items() if key != "metrics"}
        template = {**fill(plain, scope), "metrics": template.get("metrics")}
        mounts = [*template["container"].get("volumeMounts", []), {"mountPath": EXECUTOR}]
        container = {**template["container"], "volumeMounts": mounts}
        attempts: list[Ended] = []
        while True:
            ended = self.argo.node.run(name, len(attempts), container, self.environment(template), self.user())
            attempts.append(ended)
            outputs, artifacts, lacking = self.collect(template.get("outputs", {}), ended)
            status = SUCCEEDED if ended.code == 0 else ERROR if ended.code == -1 else FAILED
            if status == SUCCEEDED and lacking:
                status = ERROR
            if status != SUCCEEDED:
                last = {"lastRetry.status": status, "lastRetry.exitCode": str(ended.code)}
                if len(attempts) <= int(strategy["limit"]) and condition(strategy["expression"], last):
                    continue
            self.count(template["metrics"], scope, ended, status)
            return Step(status, outputs, artifacts, attempts)

    def user(self) -> int:
        assert self.spec["securityContext"]["runAsNonRoot"]
        return self.spec["securityContext"]["runAsUser"]

    def environment(self, template: dict) -> dict[str, str]:
        ends = datetime.now(UTC) + timedelta(seconds=self.spec["activeDeadlineSeconds"])
        found = {
            "ARGO_NODE_ID": "node",
            "ARGO_WORKFLOW_NAME": self.scope["workflow.name"],
            "ARGO_DEADLINE": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "ARGO_PROGRESS_FILE": f"{EXECUTOR}/progress",
        }
        for source in template["container"].get("envFrom", []):
            if reference := source.get("configMapRef"):
                found |= self.argo.objects["ConfigMap", reference["name"]]["data"]
            if reference := source.get("secretRef"):
                secret = self.argo.secrets.get(reference["name"])
                assert secret is not None or reference.get("optional"), f"no Secret {reference['name']}"
                found |= secret or {}
        return found

    def collect(self, outputs: dict, ended: Ended) -> tuple[dict, dict, bool]:
        """Also of a step that failed, as Argo does."""
        values, lacking = {}, False
        for one in outputs.get("parameters", []):
            written = ended.files.get(one["valueFrom"]["path"])
            value = one["valueFrom"].get("default") if written is None else written.decode()
            lacking |= value is None
            if value is not None:
                values[one["name"]] = value
                if "globalName" in one:
                    self.outputs[one["globalName"]] = value
        artifacts = {}
        for one in outputs.get("artifacts", []):
            lacking |= one["path"] not in ended.files and not one.get("optional")
            if one["path"] in ended.files:
                artifacts[one["name"]] = ended.files[one["path"]]
        return values, artifacts, lacking

    @staticmethod
    def count(metrics: dict | None, scope: dict[str, str], ended: Ended, status: str) -> None:
        """That every metric can be filled in."""
        known = {**scope, "status": status, "exitCode": str(ended.code), "duration": "1.5"}
        for one in (metrics or {}).get("prometheus", []):
            filled = json.loads(json.dumps(fill(one, known)))
            if "when" in filled:
                condition(filled["when"], {})
