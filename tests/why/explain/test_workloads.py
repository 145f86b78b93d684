"""Workloads stand for their pods: which those are, what is said of each, and what if there are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from prebinder.cli import main
from tests.prebinder.dump_file import write_dump
from tests.why.documents import (
    NAMESPACE,
    SCHEDULED,
    SYSTEM_POD,
    Document,
    claim,
    event,
    facts_of,
    node,
    pod,
    storage_class,
    volume,
)
from why.errors import WhyError
from why.explain.answering import report_on
from why.explain.targets import parse_target
from why.facts.facts import Source


def owned(name: str, kind: str, owner: str, *claims: str, **labels: str) -> Document:
    reference = {"kind": kind, "name": owner, "controller": True}
    return pod(name, *claims, metadata={"ownerReferences": [reference], "labels": {"app": "shop", **labels}})


DATABASE = [owned(f"db-{number}", "StatefulSet", "db", f"data-db-{number}") for number in range(3)]
HASHED = {"pod-template-hash": "5f6"}
DOCUMENTS = [
    node("a1", "a"),
    SYSTEM_POD,
    SCHEDULED,
    storage_class(),
    *DATABASE,
    *(claim(f"data-db-{number}") for number in range(3)),
    owned("web-5f6-a", "ReplicaSet", "web-5f6", "cache", **HASHED),
    owned("web-old-5f6-a", "ReplicaSet", "web-old-5f6", **HASHED),
    owned("web-b", "StatefulSet", "web"),
    owned("load-x", "Job", "load", "missing"),
    claim("cache"),
    volume("small", size="1Gi"),
    pod("alone"),
]
REJECTED = event(
    "StatefulSet",
    "new",
    "FailedCreate",
    'create Claim data-new-0 for Pod new-0 in StatefulSet new failed error: persistentvolumeclaims "data-new-0" is '
    "forbidden: exceeded quota: small, requested: requests.storage=10Gi, used: requests.storage=0, limited: "
    "requests.storage=1Gi",
)


def names(target: str, *documents: Document) -> list[str]:
    return [item.name for item in report_on(facts_of(*documents), (parse_target(target),), NAMESPACE).items]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("statefulset/db", ["db-0", "db-1", "db-2"]),
        ("sts/db", ["db-0", "db-1", "db-2"]),
        ("deployment/web", ["web-5f6-a"]),
        ("deploy/web-old", ["web-old-5f6-a"]),
        ("sts/web", ["web-b"]),
        ("job/load", ["load-x"]),
        ("sts/new", ["data-new-0"]),
    ],
)
def test_the_pods_of_a_workload_are_those_that_it_controls(target: str, expected: list[str]) -> None:
    assert names(target, *DOCUMENTS, REJECTED) == expected


@pytest.mark.parametrize("target", ["sts/none", "deploy/db", "job/web", "deploy/we"])
def test_a_workload_without_pods_is_an_error_that_says_where_to_look(target: str) -> None:
    kind = {"sts": "statefulset", "deploy": "deployment", "job": "job"}[target.partition("/")[0]]
    with pytest.raises(WhyError, match=f"kubectl -n web describe {kind} {target.partition('/')[2]}"):
        names(target, *DOCUMENTS)


def test_pods_that_may_not_be_listed_are_no_lack_of_pods() -> None:
    facts = facts_of(*DOCUMENTS[:4], without=[Source.PODS])
    with pytest.raises(WhyError, match="cannot tell the pods of statefulset/db: pods are forbidden"):
        report_on(facts, (parse_target("sts/db"),), NAMESPACE)


@pytest.mark.parametrize("arguments", [["sts/db", "-n", "web"], ["-l", "app=shop", "-n", "web"]])
def test_pods_with_an_equal_cause_are_explained_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["why", *arguments, "-f", write_dump(tmp_path, DOCUMENTS)]) == 3
    out = capsys.readouterr().out
    assert out.count("pod web/db-") == 1
    assert "The same holds for web/db-1, web/db-2" in out


def test_what_differs_is_explained_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_dump(tmp_path, [*DOCUMENTS, volume("pv-1", "fast", claim="data-db-1", phase="Available")])
    assert main(["why", "sts/db", "-n", "web", "-f", path]) == 3
    assert "The same holds for web/db-2" in capsys.readouterr().out


def test_json_has_each_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["why", "sts/db", "-n", "web", "-f", write_dump(tmp_path, DOCUMENTS), "-o", "json"])
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    assert [item["name"] for item in items] == ["db-0", "db-1", "db-2"]
