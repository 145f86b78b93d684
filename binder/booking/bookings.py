"""Where waiting pods are booked: each once, on a node that would take it, so that as many as possible have a place.

Pods that kube-scheduler may place at any moment come first, the most urgent first, of these those with a single node
before those that can move; then those that only our gate holds back. What finds no place even so takes no room: others
took it. A pod that its scheduler has nominated for a node counts there in any case, because kube-scheduler keeps the
room for it.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Final

from binder.booking.node_sets import Booked, NodeSets
from binder.booking.room import Room
from binder.booking.seats import Seats
from binder.matching.node_fit import reject_missing_driver, reject_reach
from binder.model.view import View
from binder.model.waiting_pod import WaitingPod
from kube.objects.model import READ_WRITE_ONCE_POD, Claim, Pod, Volume
from kube.pod_topology.node_conflicts import conflicting_port, disk_in_use, disks_of, host_ports, keep_apart
from kube.rules.topology import ZONE_LABELS
from kube.store.node_view import NodeView, UsedVolume, inline_volumes, missing_drivers, node_view, used_volume

_NOWHERE: Final[Mapping[str, Booked]] = {}


class Bookings:
    """The bookings of a view, computed as far as they are asked for: of many local volumes few nodes matter."""

    def __init__(self, view: View, waiting: Iterable[WaitingPod], sets: NodeSets, now: datetime) -> None:
        sets.follow(view.snapshot.nodes)
        self._view = view
        self._sets = sets
        self._views: dict[str, NodeView] = {}
        self._suiting: dict[tuple[str, str], bool] = {}
        self._exclusive: set[str] = set()
        self._seats = self.seats(self.opened)
        self._booked = {booked.key: booked for booked in self._all(waiting, now)}
        self._fixed: dict[str, list[Booked]] = {}
        self._movable: list[Booked] = []
        self._reach = 0
        for booked in self._booked.values():
            if booked.is_movable:
                self._movable.append(booked)
                self._reach |= booked.possible
            elif booked.possible:
                self._fixed.setdefault(self._only_node(booked), []).append(booked)
        self._settled: set[str] = set()
        self._movable_settled = False

    def at(self, name: str) -> Mapping[str, Booked]:
        """Return the pods booked on a node, by key."""
        self._settle(name)
        return self._seats.at.get(name, _NOWHERE)

    @property
    def any_movable(self) -> bool:
        """Whether there are pods that several nodes can take."""
        return bool(self._movable)

    def of(self, pod_key: str) -> Booked | None:
        """Return the pod as one that waits for a place, whether it has one or not."""
        return self._booked.get(pod_key)

    def placed(self) -> Iterator[tuple[Booked, str]]:
        """Yield every pod that has a place, and the node."""
        for booked in self._booked.values():
            place = self.place_of(booked)
            if place:
                yield booked, place

    def place_of(self, booked: Booked) -> str:
        """Return the node on which the pod is booked, empty if it is not."""
        if booked.is_movable:
            self._settle_movable()
        elif booked.possible:
            self._settle(self._only_node(booked))
        return self._seats.node_of.get(booked.key, "")

    def place_alone(self, booked: Booked) -> str:
        """Return a node that would take the pod if no other one were booked, empty if none would."""
        alone = self.seats(self.opened)
        return alone.node_of[booked.key] if self._may_use(booked) and alone.seat(booked) else ""

    def with_volumes(self, pod: Pod, volumes: tuple[Volume, ...]) -> Booked | None:
        """Return a pod as one that waits for a place with these volumes; None if it is booked already."""
        if pod.key in self._booked:
            return None
        return self._sets.supposing(WaitingPod(pod, released=False, volumes=volumes), volumes)

    def seats(self, opened: Callable[[str], Room]) -> Seats:
        """Return empty seats in rooms of nodes that `opened` returns."""
        return Seats(self._sets, opened, self._suits, _beside)

    def opened(self, name: str, planned: Collection[str] = ()) -> Room:
        """Return a node's room beside the pods on it and those nominated for it, the `planned` ones left out."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = node_view(self._view.snapshot, name)
        room, snapshot = Room(view), self._view.snapshot
        for key in snapshot.pods_by_nominated_node.get(name, ()):
            if key not in planned:
                pod = snapshot.pods[key]
                room.take(pod.requests, inline_volumes(pod).union(self._used(map(snapshot.claims.get, pod.claim_keys))))
        return room

    def _all(self, waiting: Iterable[WaitingPod], now: datetime) -> list[Booked]:
        annotations, everything = self._view.settings.annotations, list[Booked]()
        for pod in waiting:
            volumes = pod.volumes if not pod.hints else pod.reserved(annotations, now)
            if (volumes or pod.nodes is not None) and not self._is_nominated(pod.pod):
                everything.append(self._sets.booked(pod, volumes, tuple(self._used((*pod.made, *pod.open)))))
        everything.sort(key=lambda booked: booked.rank)
        return everything

    def _is_nominated(self, pod: Pod) -> bool:
        return bool(pod.nominated_node) and pod.nominated_node in self._view.snapshot.nodes

    def _used(self, claims: Iterable[Claim | None]) -> Iterator[UsedVolume]:
        for claim in claims:
            used = None if claim is None else used_volume(self._view.snapshot, claim)
            if used is not None:
                yield used

    def _only_node(self, booked: Booked) -> str:
        return self._sets.nodes[booked.possible.bit_length() - 1].name

    def _settle(self, name: str) -> None:
        """Book the pods that can be on the node."""
        if self._reach >> self._sets.numbers[name] & 1:
            self._settle_movable()
        elif name not in self._settled:
            self._settled.add(name)
            for booked in self._fixed.get(name, ()):
                self._book(booked)

    def _settle_movable(self) -> None:
        """Book all pods that several nodes can take, and beside them the pods of these nodes."""
        if self._movable_settled:
            return
        self._movable_settled = True
        within = [there for name, there in self._fixed.items() if self._reach >> self._sets.numbers[name] & 1]
        for booked in sorted(chain(self._movable, *within), key=lambda booked: booked.rank):
            self._book(booked)

    def _book(self, booked: Booked) -> None:
        if self._may_use(booked) and self._seats.seat(booked):
            self._exclusive.update(filter(self._is_exclusive, booked.waiting.pod.claim_keys))

    def _may_use(self, booked: Booked) -> bool:
        """Whether no other pod, on a node or booked, uses a claim that only one may use (VolumeRestrictions)."""
        snapshot = self._view.snapshot
        for key in filter(self._is_exclusive, booked.waiting.pod.claim_keys):
            users = (snapshot.pods[user] for user in snapshot.pods_by_claim.get(key, ()) if user != booked.key)
            if key in self._exclusive or any(user.node_name for user in users):
                return False
        return True

    def _is_exclusive(self, claim_key: str) -> bool:
        return READ_WRITE_ONCE_POD in self._view.snapshot.claims[claim_key].access_modes

    def _suits(self, booked: Booked, name: str) -> bool:
        place = booked.key, name
        known = self._suiting.get(place)
        if known is None:
            known = self._suiting[place] = self._has_all(booked, name)
        return known

    def _has_all(self, booked: Booked, name: str) -> bool:
        """Whether the node would take the pod if it had room, as far as sets of nodes do not say so already."""
        snapshot, pod = self._view.snapshot, booked.waiting.pod
        if any(map(_has_zone_labels, booked.volumes)) and reject_reach(booked.volumes, snapshot.nodes[name]):
            return False
        drivers = {driver for driver, _ in booked.used}
        if drivers and reject_missing_driver(name, drivers, missing_drivers(snapshot, name)) is not None:
            return False
        limiting: Container[str] = snapshot.constraining_pods if pod.constraints is None else snapshot.pods
        there = [snapshot.pods[key] for key in snapshot.pods_by_node.get(name, ()) if key in limiting]
        if not _beside_pods(pod, [other for other in there if not other.finished]):
            return False
        return all(self._servable(claim, name) for claim in booked.waiting.open)

    def _servable(self, claim: Claim, name: str) -> bool:
        """Whether a claim that may still get any volume can get one on the node."""
        if self._view.snapshot.classes[claim.storage_class or ""].provisions:
            return True
        labels = dict(self._view.snapshot.nodes[name].labels)
        return next(iter(self._view.index.candidates(claim, labels)), None) is not None


def _beside(booked: Booked, there: Collection[Booked]) -> bool:
    return not there or _beside_pods(booked.waiting.pod, [other.waiting.pod for other in there])


def _beside_pods(pod: Pod, there: Collection[Pod]) -> bool:
    """Whether the pod may be on a node together with these: by host ports, disks, and anti-affinity by node."""
    if pod.constraints is None:
        there = [other for other in there if other.constraints is not None]
    if any(keep_apart(pod, other) for other in there):
        return False
    ports = (port for other in there for port in host_ports(other))
    return conflicting_port(host_ports(pod), ports) is None and disk_in_use(disks_of(pod), there) is None


def _has_zone_labels(volume: Volume) -> bool:
    """Whether VolumeZone evaluates the volume's labels, which the sets of nodes leave out."""
    return any(key in ZONE_LABELS for key, _ in volume.labels)
