"""What CSINodes report about the storage behind volumes: which nodes cannot use it, and which volumes suffer. Pure.

KEP-1432 reports per node and driver (`status.storageHealth`). A node whose way to the storage is cut is not for a pod
with such volumes. A volume is as well as the best of the nodes that reach it: the same report is the end of a local
volume and nothing to one that fifty other nodes reach.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from immutables import Map

from binder.node_fit import reaches
from binder.rejection import Reason, Rejection
from csi.health import Finding
from csi.sources import STORAGE_UNREACHABLE, storage_finding
from csi.verdict import badness
from kube.model import CSINode, Node, Volume
from kube.reports import StorageCondition
from kube.snapshot import Snapshot

_Key = tuple[object, ...]
_NO_DRIVERS: Final[frozenset[str]] = frozenset()


class _Cluster:
    """Findings by what volumes have in common, as long as no node changes: of 10,000 volumes most are alike."""

    def __init__(self, nodes: Map[str, Node], csi_nodes: Map[str, CSINode]) -> None:
        self.nodes, self.csi_nodes = nodes, csi_nodes
        self.findings: dict[_Key, Finding | None] = {}


_LATEST: Final[list[_Cluster]] = []
"""The last cluster that was looked at, or none."""


def node_storage(volume: Volume, snapshot: Snapshot, now: datetime) -> Finding | None:
    """Return what is the matter on the best of the nodes that reach the volume; None if one of them is well."""
    ailing = snapshot.csi_nodes_by_ailing_driver.get(volume.driver) if volume.driver else None
    if not ailing:
        return None
    latest = _LATEST[0] if _LATEST else None
    if latest is None or latest.nodes is not snapshot.nodes or latest.csi_nodes is not snapshot.csi_nodes:
        latest = _Cluster(snapshot.nodes, snapshot.csi_nodes)
        _LATEST[:] = [latest]
    key = (volume.driver, volume.node_affinity, volume.labels, volume.volume_mode, volume.access_modes)
    if key not in latest.findings:
        latest.findings[key] = _best(volume, snapshot, frozenset(ailing), now)
    return latest.findings[key]


def refuse_storage(drivers: Iterable[str], snapshot: Snapshot, node: str) -> Rejection | None:
    """Return which of the drivers cannot reach its storage from the node, or None."""
    if not snapshot.csi_nodes_by_ailing_driver:
        return None
    wanted = frozenset(drivers)
    for condition in _unreachable_from(snapshot.csi_nodes.get(node)):
        if condition.driver in wanted:
            offered = f"{condition.status}: {condition.reason} (status.storageHealth of CSINode {node})"
            return Rejection(Reason.STORAGE_UNREACHABLE, node, f"a node that reaches {condition.driver}", offered)
    return None


def cut_off(snapshot: Snapshot, node: str) -> frozenset[str]:
    """Return the drivers that `refuse_storage` refuses on the node."""
    if not snapshot.csi_nodes_by_ailing_driver:
        return _NO_DRIVERS
    return frozenset(condition.driver for condition in _unreachable_from(snapshot.csi_nodes.get(node)))


def conditions_on(csi_node: CSINode) -> tuple[StorageCondition, ...]:
    """Return what is reported of the storage of all drivers on a node."""
    return csi_node.storage.conditions if csi_node.storage is not None else ()


def _unreachable_from(csi_node: CSINode | None) -> Iterator[StorageCondition]:
    for condition in conditions_on(csi_node) if csi_node is not None else ():
        # A condition of one access or volume mode is no matter of the whole node.
        if condition.status == STORAGE_UNREACHABLE and not condition.access_mode and not condition.volume_mode:
            yield condition


def _best(volume: Volume, snapshot: Snapshot, ailing: frozenset[str], now: datetime) -> Finding | None:
    findings: list[Finding] = []
    for name in sorted(ailing):
        node = snapshot.nodes.get(name)
        if node is not None and reaches(volume, dict(node.labels)):
            found = _worst_on(snapshot.csi_nodes[name], volume, now)
            if found is None:
                return None
            findings.append(found)
    if not findings:
        return None
    others = (node for name, node in snapshot.nodes.items() if name not in ailing)
    if any(reaches(volume, dict(node.labels)) for node in others):
        return None
    return min(findings, key=lambda finding: badness(finding.state))


def _worst_on(csi_node: CSINode, volume: Volume, now: datetime) -> Finding | None:
    """Return the worst condition on the node that concerns volumes of this driver, mode and access modes."""
    concerning = [
        storage_finding(condition, csi_node.name, now)
        for condition in conditions_on(csi_node)
        if condition.driver == volume.driver
        and condition.volume_mode in ("", volume.volume_mode)
        and (not condition.access_mode or condition.access_mode in volume.access_modes)
    ]
    known = [finding for finding in concerning if finding is not None]
    return max(known, key=lambda finding: badness(finding.state), default=None)
