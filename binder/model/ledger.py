"""Reservations that are not visible yet: made in passes whose writes the watch has not shown.

A hold does two things. It withholds the volume from other claims until the watch shows our write; from then on the
volume's own annotations do. And it books the pod's node, resources and attachments, until the pod is seen assigned or
gone: the last CPU must not be booked for two pods. The ledger is a persistent value; every operation returns a new one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kube.objects.model import Volume
from kube.persistent_map import Map

_Names = Map[str, None]


@dataclass(frozen=True, slots=True)
class Hold:
    """A volume held for a claim, for a pod on a node.

    `requests` are the pod's. `resource_version` is the one that our write of the volume returned, None before. `seen`:
    the watch has shown the write. `settled`: the pod is assigned, ended or gone, so its node is not booked.
    """

    volume: str
    claim_key: str
    claim_uid: str
    pod_key: str
    node: str
    requests: tuple[tuple[str, int], ...]
    resource_version: int | None = None
    seen: bool = False
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """Holds by volume, and indexes by claim, pod and node."""

    holds: Map[str, Hold] = Map()
    by_claim: Map[str, _Names] = Map()
    by_pod: Map[str, _Names] = Map()
    by_node: Map[str, _Names] = Map()

    def with_holds(self, holds: Iterable[Hold]) -> "Ledger":
        """Add holds; an existing one for the same volume is replaced."""
        ledger = self
        for hold in holds:
            ledger = ledger.without(hold.volume)._added(hold)
        return ledger

    def without(self, *volumes: str) -> "Ledger":
        """Drop the holds of these volumes, as when a write failed or a reservation was released."""
        ledger = self
        for name in volumes:
            hold = ledger.holds.get(name)
            if hold is not None:
                ledger = Ledger(
                    ledger.holds.delete(name),
                    _removed(ledger.by_claim, hold.claim_key, name),
                    _removed(ledger.by_pod, hold.pod_key, name),
                    _removed(ledger.by_node, hold.node, name),
                )
        return ledger

    def written(self, volume: str, resource_version: int) -> "Ledger":
        """Record the version that our write of the volume returned, so that `seen` can tell when the watch shows it."""
        hold = self.holds.get(volume)
        return self if hold is None else self._replaced(replace(hold, resource_version=resource_version))

    def seen(self, volume: Volume) -> "Ledger":
        """Apply a volume that the watch shows; from the version of our write on its own annotations count again."""
        hold = self.holds.get(volume.name)
        if hold is None or hold.resource_version is None or volume.resource_version < hold.resource_version:
            return self
        return self.without(volume.name) if hold.settled else self._replaced(replace(hold, seen=True))

    def settled(self, pod_key: str) -> "Ledger":
        """The pod is assigned to a node, has ended or is gone: its node needs no booking any more."""
        ledger = self
        for name in self.by_pod.get(pod_key, Map()):
            hold = ledger.holds[name]
            ledger = ledger.without(name) if hold.seen else ledger._replaced(replace(hold, settled=True))
        return ledger

    def keeps(self, volume: str) -> Hold | None:
        """Return the hold that withholds this volume from other claims, if there is one."""
        hold = self.holds.get(volume)
        return None if hold is None or hold.seen else hold

    def of_claim(self, claim_key: str) -> Iterator[Hold]:
        return (self.holds[name] for name in self.by_claim.get(claim_key, Map()))

    def of_pod(self, pod_key: str) -> Iterator[Hold]:
        return (self.holds[name] for name in self.by_pod.get(pod_key, Map()))

    def on_node(self, node: str) -> Iterator[Hold]:
        """Yield the holds that book a node."""
        holds = (self.holds[name] for name in self.by_node.get(node, Map()))
        return (hold for hold in holds if not hold.settled)

    def _replaced(self, hold: Hold) -> "Ledger":
        return replace(self, holds=self.holds.set(hold.volume, hold))

    def _added(self, hold: Hold) -> "Ledger":
        return Ledger(
            self.holds.set(hold.volume, hold),
            _put(self.by_claim, hold.claim_key, hold.volume),
            _put(self.by_pod, hold.pod_key, hold.volume),
            _put(self.by_node, hold.node, hold.volume),
        )


def _put(index: Map[str, _Names], key: str, name: str) -> Map[str, _Names]:
    return index.set(key, index.get(key, Map()).set(name, None))


def _removed(index: Map[str, _Names], key: str, name: str) -> Map[str, _Names]:
    rest = index[key].delete(name)
    return index.set(key, rest) if rest else index.delete(key)
