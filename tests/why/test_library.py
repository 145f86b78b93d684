"""`why` as a library: the example of docs/why.md runs, and what a caller says of completeness decides."""

import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.why.documents import NOW, SYSTEM_POD, Document, claim, node, pod, storage_class
from why.library import WhyError, explain

PAGE = (Path(__file__).parents[2] / "docs/why.md").read_text()
EXAMPLE = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "why.library" in block)
LOST: list[Document] = [pod("db-0", "data"), claim("other"), storage_class(), node("a1"), SYSTEM_POD]


def test_the_example_of_the_page_is_an_analyzer_of_fifteen_lines() -> None:
    run = subprocess.run(
        [sys.executable, "-c", EXAMPLE],
        input=json.dumps({"kind": "List", "items": LOST}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (pod_result, *_) = json.loads(run.stdout)
    assert pod_result["kind"] == "Pod"
    assert pod_result["name"] == "web/db-0"
    assert pod_result["error"][0]["text"].startswith("ClaimNotFound: ")
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 15


def test_targets_are_those_of_the_command_line() -> None:
    report = explain(LOST, ["pod/db-0"], namespace="web", now=NOW)
    assert [(item.name, item.code) for item in report.items] == [("db-0", "ClaimNotFound")]


def test_what_is_missing_is_a_cause_only_if_the_caller_knows_that_it_is_missing() -> None:
    objects = [each for each in LOST if each["kind"] != "PersistentVolumeClaim"]
    (item,) = explain(objects, ["pod/db-0"], namespace="web", now=NOW).items
    assert item.code == "Inconclusive"
    (item,) = explain(objects, ["pod/db-0"], namespace="web", now=NOW, complete=["persistentvolumeclaims"]).items
    assert item.code == "ClaimNotFound"


def test_the_report_is_that_of_the_command_as_json() -> None:
    report = json.loads(msgspec.json.encode(explain(LOST, now=NOW)))
    assert (report["apiVersion"], report["kind"]) == ("pvc-prebinder/v1alpha1", "WhyReport")


def test_what_cannot_be_read_may_be_pending() -> None:
    assert not explain([{"apiVersion": "v1", "kind": "Pod"}], now=NOW).complete


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"targets": ["pod/none"], "namespace": "web"}, WhyError),
        ({"targets": ["node/a1"]}, ValueError),
        ({"complete": ["secrets"]}, ValueError),
    ],
    ids=["no such pod", "no such kind", "no such resource"],
)
def test_an_invalid_target_is_an_error(arguments: dict[str, list[str]], error: type[Exception]) -> None:
    with pytest.raises(error):
        explain(LOST, **arguments)  # type: ignore[arg-type]
