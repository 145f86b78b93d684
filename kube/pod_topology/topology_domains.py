"""The topology domains of one key: nodes with the same value of a label, as sets of nodes."""

from collections.abc import Mapping
from typing import Final

from kube.persistent_map import Map
from kube.pod_topology.node_index import NodeIndex

NODE_ITSELF: Final = ""
"""Used as a key: every node is its own domain, as for host ports."""

_NO_DOMAINS: Final[Mapping[str, int]] = Map()


class TopologyDomains:
    """The topology domains of one key, as sets of nodes. `single`: every domain is a single node."""

    def __init__(self, index: NodeIndex, key: str) -> None:
        self._domains = tuple(index.values.get(key, _NO_DOMAINS).values())
        self._keyed = index.with_key(key)
        if key == NODE_ITSELF:
            self._keyed, self._domains = index.everything, tuple(index.names.values())
        self._single = len(self._domains) == self._keyed.bit_count()

    def around(self, nodes: int) -> int:
        """Return all nodes that share a domain with any of these."""
        if self._single:
            return nodes & self._keyed
        return sum(bits for bits in self._domains if bits & nodes)

    def loss(self, possible: int, fit: int) -> int:
        """Return how many of the nodes in `fit` are lost at most when a pod is placed on one of the nodes in
        `possible`.
        """
        if self._single:
            return int(bool(possible & fit & self._keyed))
        return max(((bits & fit).bit_count() for bits in self._domains if bits & possible), default=0)

    def is_certain(self, possible: int) -> bool:
        """Whether all these nodes are in one domain."""
        if self._single:
            return possible.bit_count() == 1 and bool(possible & self._keyed)
        return any(not possible & ~bits for bits in self._domains if bits & possible)
