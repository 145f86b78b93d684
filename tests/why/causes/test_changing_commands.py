"""Every command of `why` that changes something, and the object that it rests on: one that is there, never one that is
missing. Without that object there is no such command.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

import why as package
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE
from tests.builders import ZONE
from tests.why.documents import (
    BOUND,
    DRIVER,
    DYNAMIC,
    INSTALLED,
    SCHEDULED,
    SYSTEM_POD,
    Document,
    at,
    claim,
    csi_node,
    default_class,
    driver,
    event,
    node,
    of_deployment,
    pod,
    storage_class,
    volume,
)
from tests.why.dumps.dump import OLD, attachment, placed
from tests.why.dumps.test_partial_dumps import CHANGES, answer
from tests.why.page_examples import LARGE_SELECTOR
from why.explain.targets import Target, parse_target

CAUSES: Final = Path(package.__file__).parent / "causes"
VERBS: Final = re.compile(r"(?:^kubectl| )(?:annotate|delete|drain|patch|scale|taint|uncordon) (?!it\b)")

_CHOSEN: Final = {"annotations": {SELECTED_NODE: "n1"}}
_CLUSTER: Final = [node("a1", "a"), node("b1", "b"), SYSTEM_POD, SCHEDULED]
_ALLOWED: Final = {
    **storage_class(provisioner=DRIVER),
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "example.com/rack", "values": ["1"]}]}],
}
_OUTSIDE: Final = event(
    "PersistentVolumeClaim",
    "data",
    "ProvisioningFailed",
    "selected node '\"n1\"' topology is not in allowed topologies",
    reporter=DRIVER,
)


@dataclass(frozen=True)
class Change:
    """Where a change is called for, and the kind and name of the object that shows it: `kind/name`."""

    target: str
    documents: list[Document]
    shows: str


def _claim(*documents: Document, shows: str) -> Change:
    return Change("pvc/data", [*documents, *_CLUSTER], shows)


def _pod(*documents: Document, shows: str) -> Change:
    return Change("pod/db-0", [*documents, *_CLUSTER], shows)


CHANGING: Final[Mapping[str, Change]] = {
    "claims.allowed_topologies._choose_again": _claim(
        claim(metadata=_CHOSEN),
        {**_ALLOWED, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]},
        *INSTALLED,
        node("n1", "a"),
        pod("db-0", "data"),
        _OUTSIDE,
        shows="Event/data.ProvisioningFailed",
    ),
    "claims.allowed_topologies._other_keys": _claim(
        claim(metadata=_CHOSEN),
        _ALLOWED,
        *INSTALLED,
        {**node("n1"), "metadata": {"name": "n1", "labels": {"example.com/rack": "1"}}},
        pod("db-0", "data"),
        _OUTSIDE,
        shows="Event/data.ProvisioningFailed",
    ),
    "claims.claim_and_class._bound_to_nothing": _claim(
        claim(metadata={"annotations": {BIND_COMPLETED: "yes"}}), storage_class(), volume(), shows=""
    ),
    "claims.claim_and_class._choose_default": _claim(
        claim(storage_class=None), storage_class(), volume(), shows="StorageClass/fast"
    ),
    "claims.claim_and_class._give_class": _claim(
        claim(storage_class=None), storage_class(), volume(), shows="StorageClass/fast"
    ),
    "claims.claim_and_class.selector_on_dynamic_class": _claim(
        claim(spec={"selector": {"matchLabels": {"tier": "gold"}}}), DYNAMIC, driver(), shows="StorageClass/fast"
    ),
    "claims.claim_and_class.selector_too_large": _claim(
        claim(spec=LARGE_SELECTOR), storage_class(mode="Immediate"), volume(), shows=""
    ),
    "claims.claim_and_class.ambiguous_default_class": _claim(
        claim(storage_class=None),
        default_class("fast", provisioner=DRIVER, mode="Immediate"),
        default_class("slow", provisioner=DRIVER, mode="Immediate"),
        *INSTALLED,
        shows="StorageClass/slow",
    ),
    "claims.lifecycle._held_by": _claim(
        claim(metadata={"deletionTimestamp": at(timedelta(hours=1)), "finalizers": ["kubernetes.io/pvc-protection"]}),
        storage_class(),
        pod("job", "data", node="a1", status={"phase": "Succeeded"}),
        shows="Pod/job",
    ),
    "claims.provisioning._choose_again": _claim(
        claim(metadata={"annotations": {SELECTED_NODE: "a1"}}),
        storage_class(provisioner=DRIVER),
        *INSTALLED,
        csi_node("a1"),
        pod("db-0", "data"),
        shows="CSINode/*",
    ),
    "claims.provisioning.selected_node_stale": _claim(
        claim(metadata={"annotations": {SELECTED_NODE: "gone"}}),
        storage_class(provisioner=DRIVER),
        *INSTALLED,
        pod("db-0", "data"),
        shows="Node/*",
    ),
    "claims.unread_class.reported_mismatch": _claim(
        claim(spec={"volumeName": "pv-1"}),
        storage_class(),
        event("PersistentVolumeClaim", "data", "VolumeMismatch", "requested PV is too small"),
        shows="Event/data.VolumeMismatch",
    ),
    "claims.volumes.still_claimed": _claim(
        claim(spec={"volumeName": "pv-1"}),
        storage_class(mode="Immediate"),
        volume(claim="other"),
        shows="PersistentVolume/pv-1",
    ),
    "claims.volumes.requested_mismatch": _claim(
        claim(size="20Gi", spec={"volumeName": "pv-1"}), storage_class(), volume(), shows="PersistentVolume/pv-1"
    ),
    "released_volume.given_to": _claim(
        claim(), storage_class(mode="Immediate"), volume(**OLD), shows="PersistentVolume/pv-1"
    ),
    "pods.missing_volumes._stale": _pod(
        pod("db-0", "data", cpu="3"),
        claim(metadata={"annotations": {SELECTED_NODE: "a1"}}),
        storage_class(provisioner=DRIVER),
        driver(),
        csi_node("a1", DRIVER),
        csi_node("b1", DRIVER),
        pod("full", node="a1", cpu="3"),
        shows="Node/b1",
    ),
    "pods.other_users._of_same_deployment": _pod(
        of_deployment(placed("db-0", "data"), "db", "7c9"),
        of_deployment(pod("old", "data", node="b1"), "db", "5d8"),
        *BOUND,
        attachment("b1"),
        shows="Pod/old",
    ),
    "pods.remedy.remedy": Change(
        "pod/db-0",
        [pod("db-0", "data"), *BOUND, node("a1", cordoned=True), node("b1", "b"), SYSTEM_POD, SCHEDULED],
        "Node/a1",
    ),
    "pods.scheduling.claim_not_owned": _pod(
        pod("db-0", spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}),
        claim("db-0-scratch"),
        storage_class(),
        volume(),
        shows="PersistentVolumeClaim/db-0-scratch",
    ),
    "pods.scheduling._bypassed": _claim(
        claim(), storage_class(), volume(), pod("db-0", "data", spec={"nodeName": "a1"}), shows="Pod/db-0"
    ),
    "pods.topology.assigned_out_of_reach": _pod(
        pod("db-0", "data", node="b1", status={"phase": "Pending"}), *BOUND, shows="PersistentVolume/pv-1"
    ),
    "released_volume.given_back": Change(
        "pv/pv-1", [volume(claim="old", phase="Released"), claim("other"), storage_class(), *_CLUSTER], ""
    ),
}
"""By the function that prints it. Without `shows` the object of the answer shows it itself."""


def _changing() -> Iterator[str]:
    """Yield the functions in whose commands something is changed."""
    for module in sorted(CAUSES.rglob("*.py")):
        room = ".".join(module.relative_to(CAUSES).with_suffix("").parts)
        functions = (each for each in ast.walk(ast.parse(module.read_text())) if isinstance(each, ast.FunctionDef))
        for function in functions:
            # Not what is said about a command: that is an argument behind it.
            steps = (each for each in ast.walk(function) if isinstance(each, ast.Call) and _name(each) == "Step")
            if any(_changes(part) for step in steps if step.args for part in ast.walk(step.args[0])):
                yield f"{room}.{function.name}"


def _changes(part: ast.AST) -> bool:
    """Whether this part of a command is one that changes something, or a call that returns such a command."""
    if isinstance(part, ast.Call) and _name(part) in {"on_claim", "on_pod"}:
        return VERBS.search(f"kubectl {ast.literal_eval(part.args[0])} NAME") is not None
    if isinstance(part, ast.Call):
        return _name(part) == "unannotate"
    return isinstance(part, ast.Constant) and isinstance(part.value, str) and VERBS.search(part.value) is not None


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def test_the_table_has_every_command_that_changes_something() -> None:
    assert set(_changing()) == set(CHANGING)


@pytest.mark.parametrize("change", CHANGING.values(), ids=CHANGING)
def test_a_command_that_changes_something_rests_on_an_object_that_is_there(change: Change) -> None:
    target = parse_target(change.target)
    assert _commands(change.documents, target)
    if change.shows:
        kind, _, name = change.shows.partition("/")
        without = [
            each for each in change.documents if each["kind"] != kind or name not in {"*", each["metadata"]["name"]}
        ]
        assert len(without) < len(change.documents)
        assert not set(_commands(without, target)) & set(_commands(change.documents, target))


def _commands(documents: list[Document], target: Target) -> list[str]:
    item = answer(documents, target)
    return [] if item is None else [command for command in item.next if CHANGES.search(command)]


def test_nothing_is_deleted_whose_kind_was_not_dumped() -> None:
    """Nor tainted: whatever is printed about a node that does not respond, it is to be looked at first."""
    commands = [
        command for change in CHANGING.values() for command in _commands(change.documents, parse_target(change.target))
    ]
    assert not any(re.search(r"out-of-service|--force|finalizers|drain|delete (?:node|pv) ", each) for each in commands)
