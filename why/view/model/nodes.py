"""Nodes as rows, and the free capacity of each class in each zone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from binder.matching.evidence import quantity_text
from kube.objects.model import CSINode, CSIStorageCapacity, Node
from kube.rules.quantity import NANO
from kube.rules.taints import REJECTING_EFFECTS
from kube.rules.topology import zone_of
from kube.store.snapshot import Snapshot
from why.view.model.view import ClassRow, NodeRow, VolumeRow, VolumeState

READY: Final = "Ready"
CORDONED: Final = "Cordoned"
_CONDITIONS: Final[Mapping[str, str]] = {
    "node.kubernetes.io/unreachable": "Unreachable",
    "node.kubernetes.io/not-ready": "NotReady",
    "node.kubernetes.io/out-of-service": "OutOfService",
    "node.kubernetes.io/memory-pressure": "MemoryPressure",
    "node.kubernetes.io/disk-pressure": "DiskPressure",
    "node.kubernetes.io/pid-pressure": "PIDPressure",
    "node.kubernetes.io/network-unavailable": "NetworkUnavailable",
}
"""Taints that the node controller sets for conditions (pkg/controller/nodelifecycle), the most serious first."""
_NONE: Final[Mapping[str, int]] = {}


def node_rows(snapshot: Snapshot) -> dict[str, NodeRow]:
    """Return the nodes by name."""
    attached: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for attachment in snapshot.attachments.values():
        attached[attachment.node_name][attachment.attacher] += 1
    return {
        name: _node_row(
            node, snapshot.csi_nodes.get(name), attached.get(name, _NONE), len(snapshot.pods_by_node.get(name, ()))
        )
        for name, node in snapshot.nodes.items()
    }


def _node_row(node: Node, csi_node: CSINode | None, attached: Mapping[str, int], pods: int) -> NodeRow:
    """The driver with the least room left is the one that is shown; without a limit all drivers together are."""
    limits = [
        (driver.attach_limit - attached.get(driver.name, 0), driver.name, driver.attach_limit)
        for driver in (csi_node.drivers if csi_node is not None else ())
        if driver.attach_limit is not None
    ]
    zone, state = zone_of(node.labels), _state(node)
    if not limits:
        return NodeRow(node.name, zone, state, attached=sum(attached.values()), pods=pods)
    _, driver, limit = min(limits)
    return NodeRow(node.name, zone, state, attached.get(driver, 0), limit, driver, pods)


def _state(node: Node) -> str:
    keys = {taint.key for taint in node.taints if taint.effect in REJECTING_EFFECTS}
    condition = next((word for key, word in _CONDITIONS.items() if key in keys), "")
    return condition or (CORDONED if node.unschedulable else READY)


def class_rows(snapshot: Snapshot, volumes: Iterable[VolumeRow]) -> dict[str, ClassRow]:
    """Return for each zone and class what is free there; unhealthy volumes are not."""
    free: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row in volumes:
        if row.state is VolumeState.AVAILABLE and not row.unhealthy:
            free[row.zone, row.storage_class].append(row.bytes)
    makeable = _makeable(snapshot)
    rows = (
        _class_row(zone, name, free.get((zone, name), []), makeable.get((zone, name)))
        for zone, name in sorted(free.keys() | makeable.keys())
    )
    return {row.key: row for row in rows}


def _class_row(zone: str, name: str, sizes: list[int], makeable: int | None) -> ClassRow:
    return ClassRow(
        zone=zone,
        storage_class=name,
        volumes=len(sizes),
        bytes=sum(sizes),
        size=size_text(sum(sizes)),
        largest=size_text(max(sizes, default=0)),
        driver_bytes=makeable,
        driver_size=size_text(makeable) if makeable is not None else "",
    )


def size_text(amount: int) -> str:
    """Return an amount of bytes as people read it: at most one decimal, in binary units."""
    for place, unit in ((2**50, "Pi"), (2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if amount >= place:
            return f"{amount / place:.1f}".removesuffix(".0") + unit
    return quantity_text(amount * NANO)


def _makeable(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """Return the capacity that drivers report they can still provision, by zone and class; a capacity of several nodes
    counts once.
    """
    capacities: defaultdict[tuple[str, str], dict[str, CSIStorageCapacity]] = defaultdict(dict)
    if not snapshot.capacities:
        return {}
    for node in snapshot.nodes.values():
        labels = dict(node.labels)
        for name in snapshot.capacities_by_class.by_class:
            for capacity in snapshot.capacities_by_class.of_node(name, labels):
                capacities[zone_of(labels), name][capacity.key] = capacity
    return {
        place: sum(known.capacity // NANO for known in reported.values() if known.capacity is not None)
        for place, reported in capacities.items()
        if any(known.capacity is not None for known in reported.values())
    }
