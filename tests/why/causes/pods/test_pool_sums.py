"""Volumes still to be made that fit one by one and not together: what fits, what is in flight, and what exists."""

from datetime import timedelta
from typing import Any

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import PROVISIONED_BY, SELECTED_NODE
from tests.why.documents import (
    DRIVER,
    SCHEDULED,
    Document,
    assert_problem,
    at,
    claim,
    csi_node,
    driver,
    event,
    metadata,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.facts.facts import Source

HOSTNAME = "kubernetes.io/hostname"
GATE = {"schedulingGates": [{"name": "scheduler.cloud.example/volumes"}]}
UNSEEN: Document = {"conditions": []}
BOTH = (claim("data", size="75Gi"), claim("log", size="75Gi"))
FULL = "failed to provision volume: rpc error: code = ResourceExhausted desc = no space in the pool"


def made_class(mode: str | None = "provision") -> Document:
    made = storage_class(provisioner=DRIVER)
    made["metadata"]["annotations"] = {"scheduler.cloud.example/mode": mode} if mode else {}
    return made


def report(where: str, free: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": metadata(f"room-{where}"),
        "storageClassName": "fast",
        "nodeTopology": {"matchLabels": {HOSTNAME: where}},
        "capacity": free,
    }


def gated(*claims: str) -> Document:
    return pod("db-0", *claims, spec=GATE, status=UNSEEN)


def pools(mode: str | None = "provision", **free: str) -> list[Document]:
    """Nodes with a pool of this size each, of a driver that counts capacity."""
    every = [made for name in free for made in (node(name), csi_node(name, DRIVER), report(name, free[name]))]
    return [made_class(mode), driver(storageCapacity=True), SCHEDULED, *every]


def in_flight(name: str, size: str, where: str, **how: Any) -> Document:
    return claim(name, size=size, metadata={"annotations": {SELECTED_NODE: where}}, **how)


def made(name: str, owner: str, size: str, where: str) -> Document:
    terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [where]}]}]
    about = {"annotations": {PROVISIONED_BY: DRIVER}, "creationTimestamp": at(timedelta(minutes=30))}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    return volume(name, size=size, claim=owner, metadata=about, spec=affinity)


def test_two_claims_that_fit_alone_and_not_together_are_named_with_the_sum() -> None:
    other = in_flight("db-1", "100Gi", "n3")
    item = why("pod/db-0", gated("data", "log"), *BOTH, other, *pools(n3="200Gi"))
    assert_problem(item, Reason.INSUFFICIENT_STORAGE)
    assert item.message == (
        "Each of the two claims fits on n3, both together do not: 150Gi wanted, 100Gi left of 200Gi, 100Gi in flight "
        "for web/db-1."
    )
    assert [(each.object, each.wanted) for each in item.evidence] == [
        ("csistoragecapacities for node n3", "150Gi for web/data, web/log together")
    ]


def test_a_claim_that_fits_nowhere_beside_what_is_in_flight_says_so() -> None:
    other = in_flight("db-1", "150Gi", "n3")
    item = why("pod/db-0", gated("data"), BOTH[0], other, *pools(n2="10Gi", n3="200Gi"))
    assert_problem(item, Reason.INSUFFICIENT_STORAGE)
    assert item.message == (
        "No node that could run the pod has room for a volume for claim data; on n3: 75Gi wanted, 50Gi left of 200Gi, "
        "150Gi in flight for web/db-1."
    )
    assert len(item.evidence) == 2


def test_a_node_that_takes_the_sum_is_no_problem() -> None:
    item = why("pod/db-0", gated("data", "log"), *BOTH, *pools(n2="100Gi", n3="150Gi"))
    assert item.code is Reason.POD_GATED


@pytest.mark.parametrize(
    ("tried", "code"), [(True, Reason.INSUFFICIENT_STORAGE), (False, Reason.PROGRESSING)], ids=["rejected", "new"]
)
def test_a_pod_without_the_gate_is_explained_so_only_once_a_scheduler_has_rejected_it(
    tried: bool, code: Reason
) -> None:
    """kube-scheduler alone compares each claim by itself: it would place a new pod."""
    waiting = pod("db-0", "data", "log", metadata={"creationTimestamp": at(timedelta(0))})
    if not tried:
        waiting["status"]["conditions"] = []
    assert why("pod/db-0", waiting, *BOTH, *pools(n3="100Gi")).code is code


def test_classes_in_another_mode_leave_a_gated_pod_to_kubernetes() -> None:
    assert why("pod/db-0", gated("data", "log"), *BOTH, *pools(None, n3="100Gi")).code is Reason.POD_GATED


def test_a_claim_that_is_not_counted_is_named_with_the_reason() -> None:
    forged = in_flight("forged", "100Gi", "n3", spec={"selector": {"matchLabels": {"disk": "ssd"}}})
    item = why("pod/db-0", gated("data", "log"), *BOTH, forged, *pools(n3="100Gi"))
    assert "in flight" not in item.message
    assert ("pvc/web/forged on node n3", "not counted as in flight: Selector") in [
        (each.object, each.found) for each in item.evidence
    ]


EXISTS = [claim("data", size="75Gi", volume="pv-1"), made("pv-1", "data", "75Gi", "n3")]


@pytest.mark.parametrize("spec", [GATE, {}], ids=["gated", "left to kube-scheduler"])
def test_a_partly_provisioned_pod_shows_its_state_and_a_safe_step(spec: Document) -> None:
    waiting = pod("db-0", "data", "log", spec=spec)
    item = why("pod/db-0", waiting, *EXISTS, BOTH[1], *pools(n2="900Gi", n3="50Gi"))
    assert_problem(item, Reason.PARTLY_PROVISIONED)
    assert item.message == (
        "Only a part of the pod's volumes exists (claim data: volume pv-1 in node n3), and "
        "there is no room beside them for claim log: 75Gi wanted, 50Gi left of 50Gi."
    )
    assert all(command.startswith("kubectl") and " get " in command for command in item.next)
    assert "only if the volumes that exist hold no data yet" in item.advice[1]


def test_a_volume_that_is_being_made_ties_its_pod_as_well() -> None:
    begun = in_flight("data", "75Gi", "n3")
    item = why("pod/db-0", gated("data", "log"), begun, BOTH[1], *pools(n2="900Gi", n3="100Gi"))
    assert_problem(item, Reason.PARTLY_PROVISIONED)
    assert "claim data: being made for node n3" in item.message
    assert "75Gi wanted, 25Gi left of 100Gi, 75Gi in flight for web/data" in item.message


def test_a_driver_that_rejects_what_it_reports_is_quoted() -> None:
    rejected = event("PersistentVolumeClaim", "log", "ProvisioningFailed", FULL, reporter=f"{DRIVER}_pod")
    item = why("pod/db-0", gated("data", "log"), *EXISTS, BOTH[1], rejected, *pools(n3="500Gi"))
    assert_problem(item, Reason.PARTLY_PROVISIONED)
    assert "its driver rejects them, whatever it reports" in item.message
    assert any("ResourceExhausted" in each.found for each in item.evidence)


def test_with_room_beside_the_volumes_that_exist_nothing_is_stuck() -> None:
    item = why("pod/db-0", gated("data", "log"), *EXISTS, BOTH[1], *pools(n3="80Gi"))
    assert item.code is Reason.POD_GATED


def test_without_the_reports_nothing_is_concluded_from_them() -> None:
    item = why("pod/db-0", gated("data", "log"), *BOTH, *pools(n3="100Gi"), without=[Source.CAPACITIES])
    assert item.code is not Reason.INSUFFICIENT_STORAGE
