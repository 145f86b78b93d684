"""What one node has left: resources, and attachments by driver."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from binder.matching.node_fit import reject_attachments
from kube.objects.model import Volume
from kube.rules.quantity import NANO
from kube.rules.resource_fit import PODS, has_room
from kube.store.node_view import NodeView, UsedVolume, csi_volume, node_view
from kube.store.snapshot import Snapshot

Attach = tuple[tuple[str, int], ...]
"""The number of additional volumes by driver."""

_NOTHING: Final[frozenset[UsedVolume]] = frozenset()


def room_left(snapshot: Snapshot, name: str, beside: Iterable[str]) -> "Room":
    """Return what resources a node has left beside the pods on it, and beside those of these that wait for a node."""
    room = Room(node_view(snapshot, name))
    for pod in (snapshot.pods.get(key) for key in beside):
        if pod is not None and not (pod.node_name or pod.finished or pod.deleting):
            room.take(pod.requests)
    return room


class Room:
    """What a node has left, modified in place as pods are booked on it."""

    __slots__ = ("_used", "attached", "free", "view")

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.free = dict(view.free)
        self.attached = dict(view.attach_used)
        self._used: Counter[UsedVolume] = Counter()

    def has(
        self, requests: Iterable[tuple[str, int]], used: Collection[UsedVolume] = _NOTHING, attach: Attach = ()
    ) -> bool:
        """Whether a pod fits that requests this, uses these volumes and needs so many further ones."""
        if not has_room(self.free, requests):
            return False
        if not used and not attach:
            return True
        more = self.beside(used, attach)
        return reject_attachments(self.view.node.name, more, self.attached, self.view.attach_limit) is None

    def beside(self, used: Collection[UsedVolume], attach: Attach) -> Attach:
        """Return what has to be attached in addition: a volume that another pod uses here is attached already."""
        new = Counter(driver for driver, handle in used if not self.uses((driver, handle)))
        if not new:
            return attach
        new.update(dict(attach))
        return tuple(sorted(new.items()))

    def uses(self, volume: UsedVolume) -> bool:
        """Whether the volume is attached here, or a pod that is booked here uses it."""
        return volume in self.view.attached or volume in self._used

    def take(
        self, requests: Iterable[tuple[str, int]] | None, used: Iterable[UsedVolume] = (), attach: Attach = ()
    ) -> None:
        """Book a pod; without requests if it is on the node and counted already."""
        self._move(requests, 1)
        for volume in used:
            if not self.uses(volume):
                self.attached[volume[0]] = self.attached.get(volume[0], 0) + 1
            if volume not in self.view.attached:
                self._used[volume] += 1
        self._attach(attach, 1)

    def give_back(
        self, requests: Iterable[tuple[str, int]] | None, used: Iterable[UsedVolume] = (), attach: Attach = ()
    ) -> None:
        """Undo `take`."""
        self._move(requests, -1)
        for volume in used:
            if volume in self._used:
                self._used[volume] -= 1
                if not self._used[volume]:
                    del self._used[volume]
                    self.attached[volume[0]] -= 1
        self._attach(attach, -1)

    def _move(self, requests: Iterable[tuple[str, int]] | None, sign: int) -> None:
        if requests is None:
            return
        self.free[PODS] = self.free.get(PODS, 0) - sign * NANO
        for name, amount in requests:
            self.free[name] = self.free.get(name, 0) - sign * amount

    def _attach(self, attach: Attach, sign: int) -> None:
        for driver, count in attach:
            self.attached[driver] = self.attached.get(driver, 0) + sign * count


def attach_of(volumes: Iterable[Volume], drivers: Iterable[str] = ()) -> Attach:
    """Return how many volumes of which driver these are, and those to be provisioned by `drivers`; Kubernetes counts
    only CSI volumes.
    """
    counts = Counter(drivers)
    counts.update(used[0] for volume in volumes if (used := csi_volume(volume)) is not None)
    return tuple(sorted(counts.items()))
