"""Pods that wait for a node to come, and for how many of them volumes may be committed ahead of it: a pin cannot be
undone, and no node may ever come.

One pod for each class and zone at first, and one more for each pod that got its node: one, two, four. Once a pod has
waited for longer than an autoscaler needs, nothing more is committed there until it has its node. In mode provision
nothing is committed ahead of a node (binder.new_nodes.letting_go): such pods are only followed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from binder.matching.matching import class_of
from binder.model.new_nodes import Place
from binder.model.waiting_pod import WaitingPod, waiting_pod
from binder.planning.pod_claims import open_claims
from binder.reservation.contract import Annotations
from kube.objects.model import SELECTED_NODE, Claim, Pod, StorageClass, Volume, value_of
from kube.persistent_map import Map
from kube.rules.topology import volume_zone
from kube.store.snapshot import Snapshot

DEFAULT_WITHIN: Final = timedelta(minutes=10)
"""How long a node may take. Clouds need one to three minutes, and autoscalers give up on one after 15."""
MAX_AHEAD: Final = 128


@dataclass(frozen=True, slots=True)
class PodAhead:
    """A pod that waits since `since` for a node to come, and has none yet. It is late from `due` on.

    `volumes` were committed to it ahead of that node, or `claims` are to get theirs there; `places` are the classes and
    zones of these, without a zone for a volume that is still to be made.
    """

    pod: Pod
    volumes: tuple[Volume, ...]
    places: frozenset[Place]
    since: datetime
    due: datetime
    claims: tuple[Claim, ...] = ()


def pods_ahead_in(snapshot: Snapshot, annotations: Annotations) -> Iterator[PodAhead]:
    """Yield the pods of a cluster that wait for a node that does not exist; none if no class joins new nodes."""
    if any(map(annotations.joins_new_nodes, snapshot.classes.values())):
        pods = [pod for pod in snapshot.pods.values() if pod.claims and not pod.node_name]
        waiting = (waiting_pod(snapshot, annotations, pod) for pod in pods)
        yield from pods_ahead((each for each in waiting if each is not None), snapshot.classes, annotations)
        yield from (each for pod in pods if (each := left_for_node(pod, snapshot, annotations)) is not None)


def left_for_node(pod: Pod, snapshot: Snapshot, annotations: Annotations) -> PodAhead | None:
    """Return the wait of a pod that mode provision left to kube-scheduler for a node to come; None if it has no such.

    It ends when kube-scheduler has selected a node for its volumes, and lasts only while that reports that none fits.
    """
    if annotations.carries_gate(pod) or not pod.unschedulable or pod.deleting or pod.finished:
        return None
    waits = {
        claim: since
        for claim in open_claims(pod, snapshot)
        if not value_of(claim.annotations, SELECTED_NODE)
        if (since := annotations.awaits_node_since(claim, pod)) is not None
    }
    if not waits:
        return None
    since, names = min(waits.values()), frozenset(map(class_of, waits))
    due = since + max(_within(snapshot.classes.get(name), annotations) for name in names)
    return PodAhead(pod, (), frozenset((name, "") for name in names), since, due, tuple(waits))


def pods_ahead(
    waiting: Iterable[WaitingPod], classes: Mapping[str, StorageClass], annotations: Annotations
) -> Iterator[PodAhead]:
    """Yield the pods that wait for a node that does not exist, as the objects show them."""
    for each in waiting:
        if each.ahead is not None:
            places = places_of(each.volumes)
            within = max((_within(classes.get(name), annotations) for name, _ in places), default=DEFAULT_WITHIN)
            yield PodAhead(each.pod, each.volumes, places, each.ahead, each.ahead + within)


def places_of(volumes: Iterable[Volume]) -> frozenset[Place]:
    """Return the classes and zones of volumes; the zone is empty for one that belongs to none."""
    return frozenset((volume.storage_class or "", volume_zone(volume)) for volume in volumes)


def stepped_up(limits: Map[Place, int], places: Iterable[Place]) -> Map[Place, int]:
    """Return the limits after a pod with volumes in these places got its node."""
    for place in places:
        limits = limits.set(place, min(limits.get(place, 1) + 1, MAX_AHEAD))
    return limits


def _within(storage_class: StorageClass | None, annotations: Annotations) -> timedelta:
    return (storage_class and annotations.new_node_within_of(storage_class)) or DEFAULT_WITHIN
