"""What autoscalers report is quoted and explained beside the cause, and contradictions to the volumes are named."""

from typing import Any

import pytest

from tests.why.documents import (
    BOUND,
    SCHEDULED,
    Document,
    claim,
    event,
    metadata,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.facts.facts import Source

STATIC = [claim(), volume("pv-b", zone="zone-b"), storage_class()]
SOMEWHERE_ELSE = [node("d1", "zone-d")]


def karpenter(reason: str, note: str) -> Document:
    return event("Pod", "db-0", reason, note, reporter="karpenter", type="Normal")


def conditioned(kind: str, name: str, type_: str, status: str, message: str) -> Document:
    conditions = [{"type": type_, "status": status, "reason": "x", "message": message}]
    about = metadata(name, None)
    return {"apiVersion": "karpenter.sh/v1", "kind": kind, "metadata": about, "status": {"conditions": conditions}}


def words(item: Any) -> str:
    return " ".join((item.message, *(each.found for each in item.evidence), *item.next, *item.advice))


NOMINATED = karpenter("Nominated", "Pod should schedule on: node/d1")


def test_a_node_nominated_where_the_only_volume_is_not() -> None:
    item = why("pod/db-0", pod("db-0", "data"), *STATIC, *SOMEWHERE_ELSE, NOMINATED, SCHEDULED)
    assert item.problem
    assert (
        "Karpenter nominated node d1 in zone zone-d for the pod; the only volume for its claim data, pv-b, is in zone "
        "zone-b." in item.message
    )
    assert item.next[-1] == "kubectl describe node d1"
    assert "adds no other" in item.advice[-1]


def test_a_node_nominated_where_the_bound_volume_is_not() -> None:
    documents = [claim(volume="pv-1"), volume(claim="data", zone="zone-b"), storage_class()]
    item = why("pod/db-0", pod("db-0", "data"), *documents, *SOMEWHERE_ELSE, NOMINATED, SCHEDULED)
    assert "its volume pv-1 is in zone zone-b" in item.message


def test_a_nominated_node_that_has_the_volume_is_no_conflict() -> None:
    nominated = karpenter("Nominated", "Pod should schedule on: node/b1")
    documents = [*STATIC, node("b1", "zone-b", cpu="0"), *SOMEWHERE_ELSE]
    item = why("pod/db-0", pod("db-0", "data"), *documents, nominated, SCHEDULED)
    assert "nominated node" not in item.message


def test_of_volumes_in_several_zones_one_that_the_node_reaches_will_do() -> None:
    documents = [*STATIC, volume("pv-d", zone="zone-d"), node("d1", "zone-d", cpu="0"), NOMINATED]
    assert "nominated node" not in why("pod/db-0", pod("db-0", "data"), *documents, SCHEDULED).message


FAILED = 'Failed to schedule pod, incompatible with nodepool "default", daemonset overhead={"cpu":"1"}, '
TEXTS = {
    "no zone is left": (
        karpenter(
            "FailedScheduling",
            f"{FAILED}incompatible requirements, key topology.kubernetes.io/zone, "
            "topology.kubernetes.io/zone DoesNotExist not in topology.kubernetes.io/zone In [a b]",
        ),
        "leaves no zone",
        "kubectl describe nodepool default",
    ),
    "no NodePool has the zone": (
        karpenter(
            "FailedScheduling",
            f"{FAILED}incompatible requirements, key topology.kubernetes.io/zone, "
            "topology.kubernetes.io/zone In [d] not in topology.kubernetes.io/zone In [a b]",
        ),
        "allow that zone",
        "kubectl describe nodepool default",
    ),
    "a limit is reached": (
        karpenter(
            "FailedScheduling", "Failed to schedule pod, all available instance types exceed limits for nodepool"
        ),
        "has reached its limit",
        "kubectl get nodepools -o yaml",
    ),
    "no group has the volume's zone": (
        event(
            "Pod",
            "db-0",
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 2 node(s) had volume node affinity "
            "conflict, 1 max node group size reached".replace(", 1 max node group size reached", ""),
            reporter="cluster-autoscaler",
            type="Normal",
        ),
        "judged by its template",
        "kubectl -n kube-system get configmap cluster-autoscaler-status -o yaml",
    ),
    "the group is at its maximum": (
        event(
            "Pod",
            "db-0",
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 max node group size reached",
            reporter="cluster-autoscaler",
            type="Normal",
        ),
        "has reached its limit",
        "kubectl -n kube-system get configmap cluster-autoscaler-status -o yaml",
    ),
}


@pytest.mark.parametrize(("reported", "meaning", "command"), TEXTS.values(), ids=TEXTS)
def test_why_no_node_is_added(reported: Document, meaning: str, command: str) -> None:
    item = why("pod/db-0", pod("db-0", "data", cpu="9"), *BOUND, node("a1"), reported, SCHEDULED)
    assert item.code == "NoNodeFits"
    assert meaning in item.advice[-1]
    assert item.next[-1] == command
    assert any(reported["message"][:40] in each.found for each in item.evidence)


def test_karpenters_words_are_not_those_of_the_scheduler() -> None:
    """Its FailedScheduling neither shows that a scheduler runs, nor why it rejects the pod."""
    (reported, *_), *_ = TEXTS.values()
    item = why("pod/db-0", pod("db-0", status={"conditions": []}), node("a1"), reported)
    assert item.code == "SchedulerNotRunning"


def test_a_nominated_node_name_hides_the_pod() -> None:
    labelled = node("a1")
    labelled["metadata"]["labels"]["karpenter.sh/nodepool"] = "default"
    waits = pod("db-0", "data", cpu="9", status={"nominatedNodeName": "gone"})
    item = why("pod/db-0", waits, *BOUND, labelled, SCHEDULED)
    assert "gone: while it is set, autoscalers pass over the pod" in words(item)
    plain = why("pod/db-0", waits, *BOUND, node("a1"), SCHEDULED)
    assert "autoscalers" not in words(plain)


def test_the_conditions_of_karpenters_objects_are_evidence() -> None:
    coming = karpenter("Nominated", "Pod should schedule on: nodeclaim/default-x7")
    launched = conditioned("NodeClaim", "default-x7", "Launched", "False", "insufficient capacity in zone-b")
    item = why("pod/db-0", pod("db-0", "data", cpu="9"), *BOUND, node("a1"), coming, launched, SCHEDULED)
    assert "insufficient capacity in zone-b" in words(item)
    assert item.next[-1] == "kubectl describe nodeclaim default-x7"
    (reported, *_), *_ = TEXTS.values()
    pool = conditioned("NodePool", "default", "Ready", "False", "NodeClass not found")
    item = why("pod/db-0", pod("db-0", "data", cpu="9"), *BOUND, node("a1"), reported, pool, SCHEDULED)
    assert "NodeClass not found" in words(item)


def test_without_karpenters_kinds_there_is_no_error() -> None:
    documents = [pod("db-0", "data", cpu="9"), *BOUND, node("a1"), SCHEDULED]
    without = (Source.NODE_POOLS, Source.NODE_CLAIMS)
    assert why("pod/db-0", *documents, without=without).skipped == ()
    (reported, *_), *_ = TEXTS.values()
    item = why("pod/db-0", *documents, reported, without=without)
    assert item.code == "NoNodeFits"
    assert [each.resource for each in item.skipped] == ["nodepools"]


def test_a_node_that_is_coming_adds_no_step() -> None:
    coming = event("Pod", "db-0", "TriggeredScaleUp", "pod triggered scale-up: [{ng 1->2 (max: 3)}]", type="Normal")
    documents = [pod("db-0", "data", cpu="9"), *BOUND, node("a1"), SCHEDULED]
    item = why("pod/db-0", *documents, coming)
    assert len(item.next) == 1
    assert "pod triggered scale-up" in words(item)
