"""For how many pods volumes may be committed ahead of their nodes: a pin cannot be undone, and no node may ever come.

One pod for each class and zone at first, and one more for each pod that got its node: one, two, four. Once a pod has
waited for longer than an autoscaler needs, nothing more is committed there until it has its node.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from binder.model.new_nodes import Place
from binder.model.waiting_pod import WaitingPod, waiting_pod
from binder.reservation.contract import Annotations
from kube.objects.model import Pod, StorageClass, Volume
from kube.persistent_map import Map
from kube.rules.topology import volume_zone
from kube.store.snapshot import Snapshot

DEFAULT_WITHIN: Final = timedelta(minutes=10)
"""How long a node may take. Clouds need one to three minutes, and autoscalers give up on one after 15."""
MAX_AHEAD: Final = 128


@dataclass(frozen=True, slots=True)
class PodAhead:
    """A pod whose volumes were committed at `since` ahead of its node, and that has none yet. It is late from `due` on.

    `places` are the classes and zones of its volumes.
    """

    pod: Pod
    volumes: tuple[Volume, ...]
    places: frozenset[Place]
    since: datetime
    due: datetime


def pods_ahead_in(snapshot: Snapshot, annotations: Annotations) -> Iterator[PodAhead]:
    """Yield the pods of a cluster that wait for a node that does not exist; none if no class joins new nodes."""
    if any(map(annotations.joins_new_nodes, snapshot.classes.values())):
        pods = (pod for pod in snapshot.pods.values() if pod.claims and not pod.node_name)
        waiting = (waiting_pod(snapshot, annotations, pod) for pod in pods)
        yield from pods_ahead((each for each in waiting if each is not None), snapshot.classes, annotations)


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
