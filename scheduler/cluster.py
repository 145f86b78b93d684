"""The cluster as a scheduling cycle sees it: immutable, and cheap to renew by one pod or one node."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct

from binder.view import View
from kube.model import Node, Pod, Taint
from kube.node_view import UsedVolume

HostPort = tuple[str, str, int]
"""IP (empty: all), protocol, port."""


class NodeState(Struct, frozen=True, gc=False):
    """A node with everything on it, pods that are only assumed to be there included.

    `number` is its place in `ClusterView.nodes` and its bit in sets of nodes; both change when nodes come and go.
    `free` and `requested` are in nano-units by resource, `pods` included. `scored` is (cpu, memory) requested where
    containers that request nothing count with upstream's defaults: scores go by it, fit does not. `taints` include
    that of a cordon. `attached` are the distinct CSI volumes used or attached there, `attach_limit` by driver.
    """

    number: int
    node: Node
    labels: Mapping[str, str]
    zone: str
    taints: tuple[Taint, ...]
    pods: tuple[Pod, ...]
    free: Mapping[str, int]
    requested: Mapping[str, int]
    scored: tuple[int, int]
    ports: frozenset[HostPort]
    attached: frozenset[UsedVolume]
    attach_limit: Mapping[str, int]

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One look at everything. `storage` has the snapshot, the index of free volumes, promises and health verdicts.

    Made by `view_of(storage, now)`; `with_pod(pod, node)`, `without_pod(pod)` and `with_nodes(nodes)` return a new one.
    """

    storage: View
    now: datetime
    nodes: tuple[NodeState, ...]
    numbers: Mapping[str, int]

    def node(self, name: str) -> NodeState | None:
        """Return a node by name, None when it is unknown."""
        number = self.numbers.get(name)
        return None if number is None else self.nodes[number]
