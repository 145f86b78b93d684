"""Topologies: groups of nodes from which exactly the same volumes are accessible.

From two nodes that agree in every label that some Available volume's affinity names, the same volumes are accessible,
so a topology is tried once, not once per node: three zones of 5,000 nodes are three topologies. With local volumes each
node is its own. For pods whose volumes are to be made the nodes of a topology have the same pools as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from binder.matching.index import VolumeIndex
from binder.model.decision import Mode
from binder.model.demand import Demand
from kube.objects.labels import NodeSelector
from kube.objects.model import Node, Volume
from kube.persistent_map import Map
from kube.rules.selectors import label_keys, node_matches
from kube.rules.topology import ZONE_LABELS, NodeKind, kind_of_node, labels_of_kind, zone_of

_LABELS_OF_VOLUMES: Final = frozenset(ZONE_LABELS)
"""Labels that rule 19 (VolumeZone) compares whatever the affinities are."""


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Nodes, sorted by name, with equal `labels`: those that determine which volumes are accessible."""

    number: int
    labels: Mapping[str, str]
    nodes: tuple[Node, ...]

    @property
    def zone(self) -> str:
        return zone_of(self.labels)


class Topologies:
    """The topologies of a pass, and from which of them the volumes of an affinity are accessible. `finer` are those of
    pods whose volumes are to be made, where pools make a difference.
    """

    def __init__(self, topologies: tuple[Topology, ...], finer: "Topologies | None" = None) -> None:
        self.all = topologies
        self._finer = finer
        self._reaching: dict[NodeSelector | None, tuple[Topology, ...]] = {None: topologies}
        self._by_value: dict[str, dict[str, list[Topology]]] = {}
        self._of_node: dict[str, Topology] = {}

    def of(self, demand: Demand) -> "Topologies":
        """Return the topologies in which the pod is to be placed."""
        return self._finer if self._finer is not None and demand.mode is Mode.PROVISION else self

    def around(self, finer: Topology) -> Topology:
        """Return the topology that a finer one is a part of, or is."""
        return self._by_node()[finer.nodes[0].name]

    def open_to(self, demand: Demand) -> tuple[Topology, ...]:
        """Return the topologies with a node where the pod may run and from which its existing volumes are
        accessible.
        """
        topologies = self.all
        if demand.nodes is not None:
            topologies = self._holding(demand.nodes)
        for anchor in demand.anchors:
            reaching = set(self.reaching(anchor.node_affinity))
            topologies = tuple(topology for topology in topologies if topology in reaching)
        return topologies

    def _holding(self, nodes: frozenset[str]) -> tuple[Topology, ...]:
        by_node = self._by_node()
        topologies = {by_node[name] for name in nodes if name in by_node}
        return tuple(sorted(topologies, key=lambda topology: topology.number))

    def _by_node(self) -> Mapping[str, Topology]:
        if not self._of_node:
            self._of_node = {node.name: topology for topology in self.all for node in topology.nodes}
        return self._of_node

    def reaching(self, affinity: NodeSelector | None) -> tuple[Topology, ...]:
        """Return the topologies from which volumes of this affinity are accessible."""
        topologies = self._reaching.get(affinity)
        if topologies is None:
            likely = self._likely(affinity)
            topologies = tuple(topology for topology in likely if node_matches(affinity, topology.labels))
            self._reaching[affinity] = topologies
        return topologies

    def _likely(self, affinity: NodeSelector | None) -> Iterable[Topology]:
        """Narrow down by the first `key In [values]` of a single term, as a local volume has."""
        if affinity is None or len(affinity.terms) != 1 or len(self.all) < 16:
            return self.all
        for requirement in affinity.terms[0].match_expressions:
            if requirement.operator == "In":
                by_value = self._by_value.get(requirement.key)
                if by_value is None:
                    by_value = self._by_value.setdefault(requirement.key, self._filed(requirement.key))
                return [topology for value in dict.fromkeys(requirement.values) for topology in by_value.get(value, ())]
        return self.all

    def _filed(self, key: str) -> dict[str, list[Topology]]:
        filed: dict[str, list[Topology]] = {}
        for topology in self.all:
            value = topology.labels.get(key)
            if value is not None:
                filed.setdefault(value, []).append(topology)
        return filed


def topologies_of(
    nodes: Map[str, Node],
    index: VolumeIndex,
    demands: Sequence[Demand],
    groupings: "Groupings",
    beside: Iterable[Volume] = (),
    of_pools: Iterable[str] = (),
) -> Topologies:
    """Return the topologies that matter to these demands, which may also get the volumes `beside` the index, and
    volumes from pools that these labels tell apart.
    """
    keys = _deciding_labels(index, demands, beside)
    finer = keys.union(of_pools)
    apart = Topologies(groupings.topologies(nodes, finer, first=_FINER)) if finer != keys else None
    return Topologies(groupings.topologies(nodes, keys), apart)


def _deciding_labels(index: VolumeIndex, demands: Sequence[Demand], beside: Iterable[Volume]) -> frozenset[str]:
    """Return the label keys that determine, for demands like these, which volumes are accessible from nodes."""
    affinities = {volume.node_affinity for volume in beside}
    affinities |= {anchor.node_affinity for demand in demands for anchor in demand.anchors}
    affinities |= index.affinities(claim for demand in demands for claim in (*demand.required, *demand.optional))
    return _LABELS_OF_VOLUMES.union(*map(label_keys, affinities))


@dataclass(frozen=True, slots=True)
class _Grouping:
    """The topologies that these nodes were grouped into."""

    nodes: Map[str, Node]
    topologies: tuple[Topology, ...]

    def carried_over(self, nodes: Map[str, Node]) -> tuple[Topology, ...] | None:
        """Return the same topologies with the present nodes, as after a heartbeat; None if labels or names changed."""
        if nodes is self.nodes:
            return self.topologies
        if len(nodes) != len(self.nodes):
            return None
        changed: dict[str, Node] = {}
        for name, node in nodes.items():
            before = self.nodes.get(name)
            if before is not node:
                if before is None or before.labels != node.labels:
                    return None
                changed[name] = node
        return tuple(_with_nodes(topology, changed) for topology in self.topologies)


def _with_nodes(topology: Topology, changed: Mapping[str, Node]) -> Topology:
    if not any(node.name in changed for node in topology.nodes):
        return topology
    return replace(topology, nodes=tuple([changed.get(node.name, node) for node in topology.nodes]))


class Groupings:
    """The latest grouping for each of the last few sets of label keys.

    Nodes send heartbeats every few seconds, and grouping 5,000 of them again each time would take as long as the rest
    of a pass. A caller that plans pass after pass keeps one.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[frozenset[str], int], _Grouping] = {}

    def topologies(self, nodes: Map[str, Node], keys: frozenset[str], first: int = 0) -> tuple[Topology, ...]:
        """Return the topologies by these labels, numbered from `first` on."""
        known = self._latest.pop((keys, first), None)
        carried = known.carried_over(nodes) if known is not None else None
        topologies = _grouped(nodes, keys, first) if carried is None else carried
        if len(self._latest) >= _MAX_GROUPINGS:
            del self._latest[next(iter(self._latest))]
        self._latest[keys, first] = _Grouping(nodes, topologies)
        return topologies


_MAX_GROUPINGS: Final = 4
_FINER: Final = 1 << 24
"""The number of the first finer topology: there are not that many nodes."""


def _grouped(nodes: Map[str, Node], keys: frozenset[str], first: int) -> tuple[Topology, ...]:
    ordered = tuple(sorted(keys))
    groups: dict[NodeKind, list[Node]] = {}
    for _, node in sorted(nodes.items()):
        groups.setdefault(kind_of_node(dict(node.labels), ordered), []).append(node)
    by_kind = sorted(groups.items(), key=lambda item: tuple(value or "" for value in item[0]))
    return tuple(
        Topology(number, labels_of_kind(kind, ordered), tuple(alike))
        for number, (kind, alike) in enumerate(by_kind, first)
    )
