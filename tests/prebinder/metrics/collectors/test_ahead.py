"""Pods that wait for a node of an autoscaler, as gauges by class and zone."""

from datetime import timedelta

from binder.reservation.contract import Annotations, format_time
from kube.objects.model import SELECTED_NODE, ClaimReference, Pod, Record
from kube.store.store import snapshot_of
from prebinder.metrics.collectors.ahead import ahead_gauges
from tests.builders import EPOCH, claim, node, pod, storage_class, volume

OURS = Annotations()
JOINS = {OURS.new_nodes: "join-volumes"}


def since(pod: Pod, minutes: int) -> dict[str, str]:
    return {OURS.awaits_node: f"{pod.uid} {format_time(EPOCH - timedelta(minutes=minutes))}"}


def values(*objects: Record) -> dict[str, float]:
    """Name and labels of each gauge -> its value."""
    snapshot = snapshot_of([storage_class("fast", annotations=JOINS), node("n1", zone="zone-b"), *objects])
    return {
        f"{sample.name[len('pvc_prebinder_') :]} {sample.labels['storage_class']} {sample.labels['zone']}": sample.value
        for metric in ahead_gauges(snapshot, OURS, EPOCH)
        for sample in metric.samples
    }


def test_a_pod_is_counted_by_the_zone_of_its_volume() -> None:
    db = pod("db", claims=["db"])
    bound = claim("db", volume_name="pv-1", annotations={"pv.kubernetes.io/bind-completed": "yes"}, phase="Bound")
    given = volume(
        "pv-1", claim=ClaimReference(bound.namespace, bound.name, bound.uid), zone="zone-b", annotations=since(db, 3)
    )
    assert values(db, bound, given) == {"pods_ahead_of_nodes fast zone-b": 1, "late_nodes fast zone-b": 0}


def test_a_pod_whose_volume_is_still_to_be_made_has_no_zone() -> None:
    late, early = (pod(name, claims=[name], unschedulable=True) for name in ("late", "early"))
    claims = claim("late", annotations=since(late, 11)), claim("early", annotations=since(early, 9))
    assert values(late, early, *claims) == {"pods_ahead_of_nodes fast ": 2, "late_nodes fast ": 1}


def test_a_pod_for_whose_volume_a_node_is_selected_is_not_counted() -> None:
    db = pod("db", claims=["db"], unschedulable=True)
    selected = claim("db", annotations={**since(db, 11), SELECTED_NODE: "n1"})
    assert values(db, selected) == {}
