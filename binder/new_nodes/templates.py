"""What a node would be like that an autoscaler adds: by the NodePools of Karpenter, else like the nodes that exist.

Cluster Autoscaler takes an existing node of a group as its template, without the pods on it and without the taints that
nodes have only at times (its FAQ, "How does scale-up work?"), so that is what is taken here. A template has a name that
no node can have, and labels as its hostname, so that volumes of one node never fit it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from binder.matching.rejection import Reason, Rejection
from binder.model.new_nodes import NewNodes
from binder.new_nodes.pools import (
    allocatable_of,
    fault_of,
    labels_of,
    regions_of,
    zone_aliases,
    zones_of,
)
from kube.objects.labels import Pairs
from kube.objects.model import CSINode, Node, NodeDriver, Pod, Taint
from kube.objects.node_pool import POOL_LABEL, NodePool
from kube.rules.topology import BETA_REGION_LABEL, HOSTNAME_LABEL, REGION_LABEL, ZONE_LABEL, zone_of
from kube.store.snapshot import Snapshot

MAX_TEMPLATES: Final = 200
"""Nodes that are imagined in one pass."""

_PREFIX: Final = "new node "
_PASSING: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/",
)
"""How the keys of taints begin that nodes have only at times (utils/taints of Cluster Autoscaler; Karpenter's own)."""


@dataclass(frozen=True, slots=True)
class Templates:
    """The nodes that could be added, with what their CSI drivers register, and what adds none and why."""

    nodes: tuple[Node, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    faults: tuple[Rejection, ...] = ()


def is_new(node_name: str) -> bool:
    """Whether the name is that of a template: no object has a name with a blank."""
    return node_name.startswith(_PREFIX)


def templates(snapshot: Snapshot, known: NewNodes, pods: Iterable[Pod]) -> Templates:
    """Return the nodes that could be added for these pods."""
    existing = [node for _, node in sorted(snapshot.nodes.items())]
    if known.pools:
        nodes = _of_pools(known.pools, existing, list(pods))
        faults = tuple(_faults(known.pools, existing))
    else:
        nodes, faults = _like_existing(existing), ()
    imagined = tuple(node for node, _ in zip(nodes, range(MAX_TEMPLATES), strict=False))
    drivers = _Drivers(snapshot, existing)
    return Templates(imagined, tuple(CSINode(node.name, "", 0, drivers.on(node)) for node in imagined), faults)


def _of_pools(pools: Iterable[NodePool], existing: Sequence[Node], pods: Sequence[Pod]) -> Iterator[Node]:
    aliases = zone_aliases(existing)
    for pool in pools:
        if fault_of(pool):
            continue
        like = next((node for node in existing if dict(node.labels).get(POOL_LABEL) == pool.name), None)
        variants = list(dict.fromkeys(tuple(sorted(labels_of(pool, pod).items())) for pod in pods))
        for zone in zones_of(pool, existing):
            for number, variant in enumerate(variants):
                name = f"{_PREFIX}in {zone} of NodePool {pool.name}" + (f" ({number + 1})" if number else "")
                region = regions_of(existing, zone, (REGION_LABEL, BETA_REGION_LABEL))
                place = {ZONE_LABEL: zone, HOSTNAME_LABEL: name} | dict.fromkeys(aliases, zone)
                yield _node(name, dict(region) | dict(variant) | place, pool.taints, allocatable_of(pool, like))


def _faults(pools: Iterable[NodePool], existing: Sequence[Node]) -> Iterator[Rejection]:
    for pool in pools:
        fault = fault_of(pool)
        if not fault and not zones_of(pool, existing):
            fault = f"it neither names zones ({ZONE_LABEL} In ...) nor has a node yet"
        if fault:
            yield Rejection(Reason.NODE_MISSING, f"NodePool {pool.name}", "a NodePool that adds nodes", fault)


def _like_existing(existing: Iterable[Node]) -> Iterator[Node]:
    """Yield one node for each kind of existing ones, as large as the largest of them."""
    largest: dict[tuple[Pairs, tuple[Taint, ...]], Node] = {}
    for node in existing:
        kind = (_shared_labels(node), _lasting_taints(node))
        if kind not in largest or _size(node) > _size(largest[kind]):
            largest[kind] = node
    for (labels, taints), node in largest.items():
        where = f"in {zone_of(node.labels)} " if zone_of(node.labels) else ""
        name = f"{_PREFIX}{where}like {node.name}"
        yield _node(name, dict(labels) | {HOSTNAME_LABEL: name}, taints, node.allocatable)


def _node(
    name: str, labels: dict[str, str], taints: tuple[Taint, ...], allocatable: tuple[tuple[str, int], ...]
) -> Node:
    return Node(name, "", 0, tuple(sorted(labels.items())), taints, allocatable=allocatable)


def _shared_labels(node: Node) -> Pairs:
    """Return the labels that another node may have too."""
    own = {node.name, dict(node.labels).get(HOSTNAME_LABEL, node.name)}
    return tuple((key, value) for key, value in node.labels if value not in own)


def _lasting_taints(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if not taint.key.startswith(_PASSING))


def _size(node: Node) -> tuple[int, int]:
    offered = dict(node.allocatable)
    return offered.get("cpu", 0), offered.get("memory", 0)


class _Drivers:
    """Which CSI drivers a new node has: those of a node of its pool or zone, or of any, or all that are known."""

    def __init__(self, snapshot: Snapshot, existing: Sequence[Node]) -> None:
        self._by_label: dict[tuple[str, str], tuple[NodeDriver, ...]] = {}
        for node in existing:
            csi_node = snapshot.csi_nodes.get(node.name)
            if csi_node is not None and csi_node.drivers:
                for key, value in (*node.labels, ("", "")):
                    self._by_label.setdefault((key, value), csi_node.drivers)
        self._all = tuple(NodeDriver(name) for name in sorted(snapshot.csi_drivers))

    def on(self, node: Node) -> tuple[NodeDriver, ...]:
        labels = dict(node.labels)
        for key in (POOL_LABEL, ZONE_LABEL, ""):
            drivers = self._by_label.get((key, labels.get(key, "")))
            if drivers is not None:
                return drivers
        return self._all
