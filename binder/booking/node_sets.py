"""Which nodes a waiting pod may be placed on, as bits, whatever room they have; cached from pass to pass.

Only a cache: everything in it follows from a snapshot, and what it was computed from is compared by identity.
"""

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Final

from binder.matching.claim_shape import UserNeeds
from binder.model.waiting_pod import WaitingPod
from kube.objects.model import Node, Volume
from kube.persistent_map import Map
from kube.pod_topology.node_index import NodeIndex
from kube.store.node_view import UsedVolume, csi_volume, inline_volumes

_MAX_UNUSED: Final = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Booked:
    """A waiting pod, the volumes reserved for it, those it uses, and the nodes possible for it, as bits.

    `rank` orders pods: released ones first, then those to which a volume was committed, which it is too late to deny a
    place. Each by priority, as kube-scheduler takes them; then released ones with a single node, then the older ones.
    """

    waiting: WaitingPod
    volumes: tuple[Volume, ...]
    used: frozenset[UsedVolume]
    possible: int
    rank: tuple[object, ...]

    @property
    def key(self) -> str:
        return self.waiting.pod.key

    @property
    def is_movable(self) -> bool:
        """Whether several nodes are possible."""
        return bool(self.possible & (self.possible - 1))


class NodeSets:
    """The nodes of a snapshot, numbered by name, and which of them are possible for waiting pods."""

    def __init__(self) -> None:
        self.nodes: Sequence[Node] = ()
        self.numbers: dict[str, int] = {}
        self.index = NodeIndex()
        self._of: Map[str, Node] = Map()
        self._booked: dict[str, Booked] = {}

    def follow(self, nodes: Map[str, Node]) -> None:
        """Take the nodes of a snapshot. A heartbeat, or other room on a node, changes no set."""
        if nodes is self._of:
            return
        ordered = [node for _, node in sorted(nodes.items())]
        if not self._has_same(ordered):
            self.index = NodeIndex.of(ordered)
            self.numbers = {node.name: number for number, node in enumerate(ordered)}
            self._booked.clear()
        self.nodes, self._of = ordered, nodes

    def booked(self, waiting: WaitingPod, volumes: tuple[Volume, ...], also: Iterable[UsedVolume] = ()) -> Booked:
        """Return where the pod may be placed with these volumes. `also`: what else has to be attached for it."""
        key, known = waiting.pod.key, self._booked.get(waiting.pod.key)
        if known is not None and known.waiting is waiting and known.volumes == volumes and not also:
            return known
        booked = self._booked[key] = self.supposing(waiting, volumes, also)
        return booked

    def supposing(self, waiting: WaitingPod, volumes: tuple[Volume, ...], also: Iterable[UsedVolume] = ()) -> Booked:
        """Return the same for volumes that the pod does not have: it is not remembered."""
        chosen = (each for volume in volumes if (each := csi_volume(volume)) is not None)
        used = inline_volumes(waiting.pod).union(also, chosen)
        possible = self.possible(waiting, volumes)
        movable = bool(possible & (possible - 1))
        pod = waiting.pod
        created = pod.created.timestamp() if pod.created else float("inf")
        free = not (waiting.released or waiting.begun)
        rank = (not waiting.released, free, -pod.priority, waiting.released and movable, created, pod.key)
        return Booked(waiting, volumes, used, possible, rank)

    def possible(self, waiting: WaitingPod, volumes: Iterable[Volume]) -> int:
        """Return the nodes that the pod selects and tolerates, and from which these volumes are accessible."""
        pod = waiting.pod
        nodes = self.index.selected(pod.node_selector, pod.node_affinity) & self.index.tolerated(pod.tolerations)
        nodes &= self.reaching(volumes)
        return nodes if waiting.nodes is None else nodes & self.named(waiting.nodes)

    def left_to(self, needs: UserNeeds) -> int:
        """Return the nodes that such a pod selects and tolerates, and from which the volumes it has are accessible."""
        nodes = self.index.selected(needs.node_selector, needs.node_affinity) & self.index.tolerated(needs.tolerations)
        for affinity in needs.affinities:
            nodes &= self.index.reaching(affinity)
        return nodes

    def reaching(self, volumes: Iterable[Volume]) -> int:
        """Return the nodes from which all of these volumes are accessible, by their affinity."""
        nodes = self.index.everything
        for volume in volumes:
            nodes &= self.index.reaching(volume.node_affinity)
        return nodes

    def named(self, names: Iterable[str]) -> int:
        """Return the nodes of these names."""
        return sum(1 << self.numbers[name] for name in names if name in self.numbers)

    def prune(self, waiting: Sized) -> None:
        """Forget pods that do not wait any more, if there are many."""
        if len(self._booked) > 2 * len(waiting) + _MAX_UNUSED:
            self._booked.clear()

    def _has_same(self, ordered: Sequence[Node]) -> bool:
        return len(ordered) == len(self.nodes) and all(
            new is old or _sets_of(new) == _sets_of(old) for new, old in zip(ordered, self.nodes, strict=True)
        )


def _sets_of(node: Node) -> tuple[object, ...]:
    return node.name, node.labels, node.taints, node.unschedulable
