"""docs/afternoon.md without a node: its commands exist, and what is printed there is what the code prints.

`make e2e` types it again (tests/e2e/afternoon).
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Mode, Placement, Reject, Reserve
from binder.reporting.rejection_note import rejection_note
from prebinder import cli, plugin
from prebinder.controller.dry_run_report import summary, would_reserve
from prebinder.preflight.installation_checks import (
    Installation,
    InstalledPod,
    InUse,
    Policies,
    installation_checks,
)
from prebinder.preflight.requirements import CONTROLLER
from tests.builders import claim, pod, volume
from tests.e2e.afternoon.transcript import INTRODUCTION, PAGE, ROOT, STEPS, Shell, Step, answers, form
from tests.fakes.objects import node_object
from why.facts.details import LeaseDetails

TEXT: Final = PAGE.read_text(encoding="utf-8")
ALL: Final = [step for steps in STEPS.values() for step in steps]
ANSWERS: Final = dict(zip(ALL, answers(TEXT), strict=True))
OURS: Final = ("pvc-prebinder ", "kubectl pvc-why ")
CREATED: Final = {"creationTimestamp": "2026-01-01T00:00:00Z"}
Object = dict[str, Any]


def first(words: str) -> Step:
    """Return the first step whose command begins with these words."""
    return next(step for step in ALL if step.command.startswith(words))


def test_the_page_has_each_step_with_the_answer_that_it_must_have() -> None:
    assert TEXT.startswith(INTRODUCTION)
    for step, answer in zip(ALL, answers(TEXT), strict=True):
        assert re.search(step.answer, answer), step.command


def test_a_command_is_typed_in_a_terminal_and_a_wrong_answer_is_a_problem(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"PATH": os.environ["PATH"]})
    assert shell.type(Step("test -t 1 && printf '\\033[1mbold\\033[0m \\n'", "bold")) == "bold"
    assert shell.problems == []
    shell.type(Step("false"))
    assert [problem.splitlines()[-1] for problem in shell.problems] == ["exit code 1, expected 0: "]
    shell.close()


def test_the_commands_are_those_of_the_readme() -> None:
    readme, typed = (ROOT / "README.md").read_text(encoding="utf-8"), "\n".join(step.command for step in ALL)
    for words in (
        "pip install",
        "kubectl pvc-why -A",
        "kubectl pvc-why explain",
        "pvc-prebinder doctor",
        "pvc-prebinder controller --dry-run --once",
        "helm install pvc-prebinder manifests/chart --namespace pvc-prebinder-system --create-namespace",
        "pvc-prebinder doctor --wait 2m",
        "pvc-prebinder uninstall",
    ):
        assert words in readme
        assert words in typed


def test_the_page_shows_no_path_of_the_machine_it_was_typed_on() -> None:
    assert not re.search(r"/tmp/|/root/|/home/|127\.0\.0\.1:(?!6443)", TEXT)


@pytest.mark.parametrize("command", [step.command for step in ALL if step.command.startswith(OURS)])
def test_each_command_and_flag_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command.partition("|")[0])
    name = next(place for place, word in enumerate(words) if word in {"pvc-prebinder", "pvc-why"})
    arguments = words[name + 1 :]
    run: Callable[[Sequence[str]], int] = cli.main if words[name] == "pvc-prebinder" else plugin.main
    named = [word for word in arguments if not word.startswith("-")]
    assert run([*named[: words[name] == "pvc-prebinder" or "explain" in named], "--help"]) == 0
    shown = capsys.readouterr().out
    assert [flag for flag in arguments if flag.startswith("-") and not re.search(rf"{flag}\b", shown)] == []


def test_each_value_of_the_chart_exists() -> None:
    values: Any = yaml.safe_load((ROOT / "manifests" / "chart" / "values.yaml").read_text(encoding="utf-8"))
    chosen = re.findall(r"--set (\w+)\.(\w+)=", first("helm install").command)
    assert chosen
    assert all(key in values[part] for part, key in chosen)


def test_the_page_of_the_code_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin.main(["explain", "SchedulingGated"]) == 0
    printed = capsys.readouterr().out.splitlines()[:8]
    assert ANSWERS[first("kubectl pvc-why explain")] == "\n".join(printed).rstrip()


def test_the_notes_are_those_of_the_chart() -> None:
    template = (ROOT / "manifests" / "chart" / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    lines = [re.split(r"\{\{.*?\}\}", line.strip()) for line in template.splitlines()]
    patterns = [".*".join(map(re.escape, parts)) for parts in lines if "".join(parts).strip()]
    notes = ANSWERS[first("helm install")].partition("NOTES:\n")[2].split("\n")
    assert [note for note in notes if note and not any(re.fullmatch(each, note.strip()) for each in patterns)] == []


def test_the_dry_run_says_of_the_example_what_the_page_says() -> None:
    pairs = [("data-db-0", "quickstart-b-data"), ("log-db-0", "quickstart-b-log")]
    placements = tuple(Placement(claim(name), volume(chosen)) for name, chosen in pairs)
    waiting = pod("db-0", namespace="quickstart", claims=[name for name, _ in pairs])
    lines = [would_reserve(Reserve(waiting, Mode.COMPLETE, "zone-b", "node-1", (), placements, ()))]
    printed = ANSWERS[first("pvc-prebinder controller")].splitlines()
    assert [line for line in printed if not re.match(r"\d{4}-", line)] == [*lines, *summary(1, [], [], {})]


def cells(table: str) -> dict[str, str]:
    """Return the rows of a table by their first cell, each as one line without what varies."""
    head, _, *lines = table.splitlines()
    starts = [head.index(title) for title in ("CHECK", "STATE", "FOUND", "WHAT IT MEANS")]
    rows: list[list[str]] = []
    for line in lines:
        parts = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if parts[1]:
            rows.append(parts)
        else:
            rows[-1] = [f"{cell} {more}".strip() for cell, more in zip(rows[-1], parts, strict=True)]
    return {form(row[0]): form(" | ".join(row[1:])) for row in rows}


def test_doctor_says_of_that_installation_what_the_page_says() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    pods = [
        InstalledPod(f"pvc-prebinder-676bc9474-{end}", "controller", "0.1.0", "pvc-prebinder", True) for end in "ab"
    ]
    namespace = "pvc-prebinder-system"
    nothing, twelve = frozenset[str](), frozenset(map(str, range(12)))
    installation = Installation(
        namespace=namespace,
        pods=pods,
        lease=LeaseDetails(namespace, "pvc-prebinder", "pvc-prebinder-676bc9474-kp7fc_1", now, duration=15.0),
        lease_name="pvc-prebinder",
        rights={need: not need.part for need in CONTROLLER.rights},
        gate=Policies(nothing, nothing),
        limits=Policies(twelve, twelve),
        alerts=None,
    )
    shown = cells(ANSWERS[first("pvc-prebinder doctor --wait")])
    for check in installation_checks(installation, InUse(frozenset({Mode.COMPLETE})), "0.1.0", now):
        expected = form(f"{check.state} | {check.found} | {check.meaning or '-'}")
        assert shown[check.subject] == expected.replace("renewed 0s ago", "renewed AGE ago")
    before = cells(ANSWERS[first("pvc-prebinder doctor")])
    nothing_there = Installation(namespace, [], None, "pvc-prebinder", {}, None, None, None)
    (check,) = installation_checks(nothing_there, InUse(), "0.1.0", now)
    assert before[check.subject] == form(f"{check.state} | {check.found} | {check.meaning}")
    assert set(before) - {check.subject} <= set(shown)


def of_example(replica: int, *, bound: bool) -> list[Object]:
    """Return a pod of docs/examples/quickstart.yaml and its claims, as the StatefulSet makes them."""
    name, namespace = f"db-{replica}", "quickstart"
    (kind,) = [each for each in documents() if each["kind"] == "StatefulSet"]
    template = kind["spec"]["template"]
    names = [claim["metadata"]["name"] for claim in kind["spec"]["volumeClaimTemplates"]]
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in names]
    gates = [] if bound else template["spec"]["schedulingGates"]
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": True}
    spec = template["spec"] | {"volumes": volumes, "schedulingGates": gates, "schedulerName": "default-scheduler"}
    status: Object = {"phase": "Running" if bound else "Pending"}
    if bound:
        spec |= {"nodeName": "node-1"}
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    meta = CREATED | {"name": name, "namespace": namespace, "uid": name, "ownerReferences": [owner]}
    made: list[Object] = [{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}]
    for each in kind["spec"]["volumeClaimTemplates"]:
        claimed = each["metadata"]["name"]
        made.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": CREATED | {"name": f"{claimed}-{name}", "namespace": namespace, "uid": claimed + name},
                "spec": each["spec"] | ({"volumeName": f"quickstart-b-{claimed}"} if bound else {}),
                "status": {"phase": "Bound" if bound else "Pending"},
            }
        )
    return made


def documents() -> list[Object]:
    text = (ROOT / "docs" / "examples" / "quickstart.yaml").read_text(encoding="utf-8")
    return [each | {"metadata": CREATED | each["metadata"]} for each in yaml.safe_load_all(text)]


def dump(directory: Path, *more: Object) -> str:
    objects = [
        each | ({"status": {"phase": "Available"}} if each["kind"] == "PersistentVolume" else {})
        for each in documents()
    ]
    path = directory / "dump.json"
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, node_object("node-1", "zone-b"), *more]}),
        encoding="utf-8",
    )
    return str(path)


def test_why_says_of_the_gated_pod_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = first("kubectl pvc-why -A")
    file = dump(tmp_path, *of_example(0, bound=False))
    assert plugin.main(["-A", "-f", file]) == step.exit_code
    assert form(capsys.readouterr().out) == form(ANSWERS[step])


def test_why_says_of_both_replicas_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = first("kubectl pvc-why sts/db")
    reason, claims = Reason.NO_JOINT_ASSIGNMENT, "none for quickstart/data-db-1, quickstart/log-db-1"
    rejected = Rejection(reason, "zone zone-b, node node-1", "2 volumes at once", claims)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": CREATED | {"name": "db-1.1", "namespace": "quickstart"},
        "involvedObject": {"kind": "Pod", "name": "db-1", "namespace": "quickstart", "uid": "db-1"},
        "type": "Warning",
        "reason": "NoJointAssignment",
        "message": rejection_note(Reject(pod("db-1"), reason, (rejected,))),
        "reportingComponent": "scheduler.cloud.example/pvc-prebinder",
        "lastTimestamp": datetime.now(UTC).isoformat(),
    }
    file = dump(tmp_path, *of_example(0, bound=True), *of_example(1, bound=False), event)
    assert plugin.main(["sts/db", "-n", "quickstart", "-f", file]) == step.exit_code
    assert form(capsys.readouterr().out) == form(ANSWERS[step])
