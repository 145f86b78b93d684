"""A dump without a kind, as `kubectl cluster-info dump` and hasty commands make them: never a cause that is not there.

From every dump of this folder each kind is left out in turn. The answer may become inconclusive; no absence may become
its cause, and no command that changes something may appear that the whole dump does not call for.
"""

import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from binder.matching.rejection import Reason
from tests.why.documents import (
    BOUND,
    NAMESPACE,
    NOW,
    Document,
    claim,
    event,
    node,
    pod,
    storage_class,
    volume,
)
from tests.why.dumps import (
    test_claims,
    test_claims_in_clusters,
    test_on_call,
    test_pods,
    test_pods_in_clusters,
    test_unusual,
)
from tests.why.dumps.dump import NODES, Dump
from why.errors import WhyError
from why.explain.answering import report_on, waiting
from why.explain.targets import Target
from why.facts.facts import Facts
from why.reading.dump import read_dump
from why.report.report import Item

MODULES: Final = (test_claims, test_claims_in_clusters, test_on_call, test_pods, test_pods_in_clusters, test_unusual)
DUMPS: Final[Mapping[str, Dump]] = {name: dump for module in MODULES for name, dump in module.DUMPS.items()}

CHANGES: Final = re.compile(r"^kubectl .*\b(?:annotate|delete|drain|patch|scale|taint|uncordon)\b")
HARMLESS: Final = re.compile(r"annotate storageclass|patch pvc \S+ --type merge -p '\{\"spec\":\{\"storageClassName\"")
"""They rest on the default classes that are there, and delete nothing."""

RESTING_ON_ABSENCE: Final[Mapping[str, frozenset[Reason]]] = {
    "CSIDriver": frozenset({Reason.PROVISIONER_MISSING}),
    "CSINode": frozenset({Reason.PROVISIONER_MISSING, Reason.DRIVER_NOT_ON_NODE}),
    "CSIStorageCapacity": frozenset({Reason.INSUFFICIENT_STORAGE}),
    "Lease": frozenset({Reason.PROVISIONER_MISSING, Reason.SCHEDULER_NOT_RUNNING}),
    "Node": frozenset({Reason.NO_NODE_FITS, Reason.SELECTED_NODE_STALE, Reason.TOPOLOGY_CONFLICT}),
    "PersistentVolume": frozenset(
        {Reason.CLAIM_LOST, Reason.REQUESTED_VOLUME_MISSING, Reason.NO_VOLUME_FITS, Reason.NO_STORAGE_CLASS}
    ),
    "PersistentVolumeClaim": frozenset({Reason.CLAIM_NOT_FOUND}),
    "Pod": frozenset({Reason.WAIT_FOR_FIRST_CONSUMER}),
    "StorageClass": frozenset(
        {Reason.CLASS_NOT_FOUND, Reason.NO_STORAGE_CLASS, Reason.NO_VOLUME_FITS, Reason.PREBOUND_INCOMPLETE}
    ),
}
"""Causes that consist in the lack of an object of the kind."""

CONFIRMED: Final[Mapping[tuple[str, str], str]] = {
    ("its volumes are too small", "PersistentVolume"): "an Event of the PV controller says that there is no such class",
    (
        "a volume without a class fits a claim without one, whatever the default is",
        "PersistentVolume",
    ): "the default class is there, and the claim names none",
}
"""What is known all the same."""


def test_of_nodes_alone_it_is_unknown_what_is_pending() -> None:
    """Such is `kubectl cluster-info dump` of a cluster whose pods are in other namespaces than it reads."""
    assert [each.resource for each in report_on(facts_in([node("a1")]), (), "").skipped] == ["pods"]


@pytest.mark.parametrize("document", [pod(node="a1"), claim(volume="pv-1")], ids=["pods", "claims"])
def test_a_dump_of_one_kind_suffices_for_that_kind(document: Document) -> None:
    assert report_on(facts_in([document]), (), "").complete


def facts_in(documents: list[Document]) -> Facts:
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    return read_dump(["-"], io.BytesIO(json.dumps(listed).encode()), NOW, "scheduler.cloud.example/").facts


def answer(documents: list[Document], target: Target) -> Item | None:
    try:
        return report_on(facts_in(documents), (target,), NAMESPACE).items[0]
    except WhyError:  # The object itself was left out.
        return None


def parts() -> Iterator[tuple[str, str]]:
    for name, dump in DUMPS.items():
        for kind in sorted({each["kind"] for each in flat(dump.documents)}):
            yield name, kind


def flat(documents: list[Document]) -> list[Document]:
    nested = (each["items"] if each["kind"].endswith("List") else [each] for each in documents)
    return [document for some in nested for document in some]


@pytest.mark.parametrize(("name", "kind"), [*parts()])
def test_no_absence_from_a_part_of_a_dump_is_its_cause(name: str, kind: str) -> None:
    documents = flat(DUMPS[name].documents)
    target = next(iter(waiting(facts_in(documents), NAMESPACE)), None)
    whole = None if target is None else answer(documents, target)
    if target is None or whole is None:
        return
    part = answer([each for each in documents if each["kind"] != kind or _is(each, target)], target)
    if part is None:
        return
    changing = {command for command in part.next if CHANGES.search(command) and not HARMLESS.search(command)}
    assert changing <= set(whole.next)
    if part.code is not whole.code and (name, kind) not in CONFIRMED:
        assert part.code not in RESTING_ON_ABSENCE.get(kind, ()), part.message


def _is(document: Document, target: Target) -> bool:
    return (document["kind"], document["metadata"]["name"]) == (target.kind, target.name)


CLASS_EVENT = event(
    "PersistentVolumeClaim", "data", "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found'
)
VERDICT = "0/2 nodes are available: 2 Insufficient cpu."
CLUSTER_INFO = [pod("db-0", "data"), event("Pod", "db-0", "FailedScheduling", VERDICT, reporter="default-scheduler")]


@pytest.mark.parametrize(
    ("target", "documents", "code"),
    [
        pytest.param(Target("Pod", "db-0"), [*CLUSTER_INFO, *NODES], Reason.NO_NODE_FITS, id="pods, nodes and Events"),
        pytest.param(Target("Pod", "db-0"), [pod("db-0", "data"), *NODES], Reason.INCONCLUSIVE, id="pods and nodes"),
        pytest.param(
            Target("PersistentVolumeClaim", "data"),
            [claim(volume="pv-1"), storage_class(), *NODES],
            Reason.BOUND,
            id="claims without volumes",
        ),
        pytest.param(
            Target("PersistentVolumeClaim", "data"),
            [claim(), volume("pv-9", "other"), *NODES],
            Reason.INCONCLUSIVE,
            id="claims without classes",
        ),
        pytest.param(
            Target("PersistentVolumeClaim", "data"),
            [claim(), volume("pv-9", "other"), *NODES, CLASS_EVENT],
            Reason.CLASS_NOT_FOUND,
            id="claims without classes, and the PV controller has found none",
        ),
        pytest.param(
            Target("PersistentVolumeClaim", "data"),
            [claim(), storage_class(), volume(), node("a1")],
            Reason.INCONCLUSIVE,
            id="claims without pods",
        ),
        pytest.param(
            Target("PersistentVolume", "pv-1"), [*BOUND[1:], *NODES], Reason.BOUND, id="volumes without claims"
        ),
    ],
)
def test_what_was_not_dumped_is_not_missing(target: Target, documents: list[Document], code: Reason) -> None:
    item = answer(documents, target)
    assert item is not None
    assert item.code is code
    assert not any(CHANGES.search(command) for command in item.next)
