"""Which of a pod's claims lacks a volume on the nodes that could take it, and what is said to do about it."""

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE
from tests.builders import ZONE
from tests.why.documents import (
    DRIVER,
    NAMESPACE,
    Document,
    claim,
    csi_node,
    driver,
    facts_of,
    metadata,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.explain.answering import report_on
from why.report.report import Item

NODES = [node("a1", "a"), node("b1", "b")]
STATIC = storage_class()
MADE = [storage_class("made", provisioner=DRIVER), csi_node("a1", DRIVER), csi_node("b1", DRIVER)]
ONLY_A = {"nodeSelector": {ZONE: "a"}}


def of_zone(documents: Document, zone: str) -> Document:
    return {**documents, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}]}


def capacity(free: str, zone: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": metadata(f"room-{zone}", "storage"),
        "storageClassName": "made",
        "nodeTopology": {"matchLabels": {ZONE: zone}},
        "capacity": free,
    }


def blamed(item: Item) -> str:
    return [link.name for link in item.causes if link.kind == "PersistentVolumeClaim"][-1].removeprefix("web/")


CASES = [
    pytest.param(
        Reason.TOPOLOGY_CONFLICT,
        "logs",
        "for claim logs, accessible from node a1",
        [
            pod("db-0", "data", "logs", spec=ONLY_A),
            claim(size="5Gi"),
            claim("logs"),
            volume("pv-1", size="5Gi", zone="a"),
            volume("pv-2", zone="b"),
            STATIC,
        ],
        id="the second claim has a volume elsewhere",
    ),
    pytest.param(
        Reason.TOPOLOGY_CONFLICT,
        "logs",
        "for claim logs, accessible from node a1",
        [
            pod("db-0", "data", "logs"),
            claim(volume="pv-1"),
            volume("pv-1", claim="data", zone="a"),
            claim("logs"),
            volume("pv-2", zone="b"),
            STATIC,
        ],
        id="the claim that is bound is not to blame",
    ),
    pytest.param(
        Reason.TOPOLOGY_CONFLICT,
        "logs",
        "that lets the claim have another volume",
        [
            pod("db-0", "data", "logs", spec=ONLY_A),
            claim(),
            volume("pv-1", zone="a"),
            claim("logs"),
            volume("pv-2", claim="logs", zone="b", phase="Available"),
            STATIC,
        ],
        id="the claim is tied to a volume elsewhere",
    ),
    pytest.param(
        Reason.TOPOLOGY_CONFLICT,
        "logs",
        "for claim logs, accessible from node a1",
        [
            pod("db-0", "data", "logs"),
            claim(),
            volume("pv-1", claim="data", zone="a", phase="Available"),
            claim("logs"),
            volume("pv-2", zone="b"),
            STATIC,
        ],
        id="the claim that is tied to a volume is not to be moved",
    ),
    pytest.param(
        Reason.NO_VOLUME_FITS,
        "logs",
        "add a volume of at least 10Gi for claim logs",
        [pod("db-0", "data", "logs"), claim(size="5Gi"), claim("logs"), volume("pv-1"), STATIC],
        id="two claims fit one volume",
    ),
    pytest.param(
        Reason.NO_VOLUME_FITS,
        "data",
        "let one volume of the pod name the claim",
        [pod("db-0", "data", "data"), claim(), volume("pv-1"), STATIC],
        id="the pod names a claim twice",
    ),
    pytest.param(
        Reason.INSUFFICIENT_STORAGE,
        "logs",
        "add capacity, or request less",
        [
            pod("db-0", "data", "logs", spec=ONLY_A),
            claim(size="1Gi"),
            volume("pv-1", zone="a"),
            claim("logs", storage_class="made"),
            STATIC,
            *MADE,
            driver(storageCapacity=True),
            capacity("5Gi", "a"),
            capacity("50Gi", "b"),
        ],
        id="no room for the second claim where the pod can be",
    ),
    pytest.param(
        Reason.TOPOLOGY_NOT_ALLOWED,
        "data",
        "add a node in",
        [
            pod("db-0", "data", spec=ONLY_A),
            claim(storage_class="made"),
            of_zone(MADE[0], "b"),
            *MADE[1:],
            driver(),
        ],
        id="the class makes volumes only where the pod may not be",
    ),
    pytest.param(
        Reason.SELECTED_NODE_STALE,
        "data",
        "lets the scheduler choose a node again",
        [
            pod("db-0", "data", spec=ONLY_A),
            claim(storage_class="made", metadata={"annotations": {SELECTED_NODE: "b1"}}),
            *MADE,
            driver(),
        ],
        id="the node that was chosen is not for the pod",
    ),
]


@pytest.mark.parametrize(("code", "name", "advice", "documents"), CASES)
def test_the_claim_to_blame(code: Reason, name: str, advice: str, documents: list[Document]) -> None:
    item = why("pod/db-0", *documents, *NODES)
    assert (item.code, item.problem, blamed(item)) == (code, True, name), item
    assert advice in item.advice[0]


def test_pods_of_a_kind_differ_if_a_volume_names_the_claim_of_one() -> None:
    """`db-0` may go anywhere, and the volume of `db-1` is where it may not."""
    documents = [
        *(pod(name, f"data-{name}", spec=ONLY_A) for name in ("db-0", "db-1")),
        *(claim(f"data-{name}") for name in ("db-0", "db-1")),
        volume("pv-0", zone="a"),
        volume("pv-1", claim="data-db-1", zone="b", phase="Available"),
        STATIC,
        *NODES,
    ]
    items = {item.name: item.code for item in report_on(facts_of(*documents), (), NAMESPACE).items}
    assert items == {"db-0": Reason.PROGRESSING, "db-1": Reason.TOPOLOGY_CONFLICT}
