"""What CSINodes report about the storage behind volumes: which nodes cannot use it, and which volumes are affected.
Pure.

KEP-1432 reports per node and driver (`status.storageHealth`). A node without access to the storage is unsuitable for a
pod with such volumes. A volume is as healthy as the best of the nodes from which it is accessible: the same report is
fatal for a local volume and irrelevant for one that is accessible from fifty other nodes.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from binder.matching.node_fit import reaches
from binder.matching.rejection import Reason, Rejection
from csi.health.health import HealthFinding
from csi.health.sources import STORAGE_STATES, STORAGE_UNREACHABLE, storage_finding
from csi.health.verdict import severity
from kube.objects.model import CSINode, Node, Volume
from kube.objects.reports import StorageCondition
from kube.persistent_map import Map
from kube.store.snapshot import Snapshot

_Kind = tuple[object, ...]
"""What volumes have in common for which nodes report the same."""

_Report = tuple[StorageCondition, str]
"""A condition, and the name of the CSINode that reports it."""

_NO_DRIVERS: Final[frozenset[str]] = frozenset()


class NodeStorage:
    """The health of volumes by the reports of nodes. Keep one for repeated use: of 10,000 volumes most are equal.

    Reports are cached as long as no Node and no CSINode changes, regardless of the time of the call.
    """

    def __init__(self) -> None:
        self._latest = _Reports(Map(), Map())

    def finding(self, volume: Volume, snapshot: Snapshot, now: datetime) -> HealthFinding | None:
        """Return the condition on the best of the nodes from which the volume is accessible; None if one has no
        condition.

        A report without a time is dated `now`.
        """
        unhealthy = snapshot.csi_nodes_by_unhealthy_driver.get(volume.driver) if volume.driver else None
        if not unhealthy:
            return None
        latest = self._latest
        if latest.nodes is not snapshot.nodes or latest.csi_nodes is not snapshot.csi_nodes:
            latest = self._latest = _Reports(snapshot.nodes, snapshot.csi_nodes)
        kind = (volume.driver, volume.node_affinity, volume.labels, volume.volume_mode, volume.access_modes)
        if kind not in latest.best:
            latest.best[kind] = _best(volume, snapshot, frozenset(unhealthy))
        report = latest.best[kind]
        return None if report is None else storage_finding(*report, now)


class _Reports:
    """The report that counts for each kind of volume, for these very nodes."""

    def __init__(self, nodes: Map[str, Node], csi_nodes: Map[str, CSINode]) -> None:
        self.nodes, self.csi_nodes = nodes, csi_nodes
        self.best: dict[_Kind, _Report | None] = {}


def reject_storage(drivers: Iterable[str], snapshot: Snapshot, node: str) -> Rejection | None:
    """Return which of the drivers cannot reach its storage from the node, or None."""
    if not snapshot.csi_nodes_by_unhealthy_driver:
        return None
    wanted = frozenset(drivers)
    for condition in _unreachable_from(snapshot.csi_nodes.get(node)):
        if condition.driver in wanted:
            offered = f"{condition.status}: {condition.reason} (status.storageHealth of CSINode {node})"
            return Rejection(
                Reason.STORAGE_UNREACHABLE,
                node,
                f"a node from which the storage of {condition.driver} is accessible",
                offered,
            )
    return None


def cut_off(snapshot: Snapshot, node: str) -> frozenset[str]:
    """Return the drivers that `reject_storage` rejects on the node."""
    if not snapshot.csi_nodes_by_unhealthy_driver:
        return _NO_DRIVERS
    return frozenset(condition.driver for condition in _unreachable_from(snapshot.csi_nodes.get(node)))


def conditions_on(csi_node: CSINode) -> tuple[StorageCondition, ...]:
    """Return what is reported about the storage of all drivers on a node."""
    return csi_node.storage.conditions if csi_node.storage is not None else ()


def _unreachable_from(csi_node: CSINode | None) -> Iterator[StorageCondition]:
    for condition in conditions_on(csi_node) if csi_node is not None else ():
        # A condition of one access or volume mode does not affect the whole node.
        if condition.status == STORAGE_UNREACHABLE and not condition.access_mode and not condition.volume_mode:
            yield condition


def _best(volume: Volume, snapshot: Snapshot, unhealthy: frozenset[str]) -> _Report | None:
    reports: list[_Report] = []
    for name in sorted(unhealthy):
        node = snapshot.nodes.get(name)
        if node is not None and reaches(volume, dict(node.labels)):
            worst = _worst_on(snapshot.csi_nodes[name], volume)
            if worst is None:
                return None
            reports.append((worst, name))
    if not reports:
        return None
    others = (node for name, node in snapshot.nodes.items() if name not in unhealthy)
    if any(reaches(volume, dict(node.labels)) for node in others):
        return None
    return min(reports, key=lambda report: _severity(report[0]))


def _worst_on(csi_node: CSINode, volume: Volume) -> StorageCondition | None:
    """Return the worst condition on the node that affects volumes of this driver, mode and access modes."""
    concerning = [
        condition
        for condition in conditions_on(csi_node)
        if condition.driver == volume.driver
        and condition.status in STORAGE_STATES
        and condition.volume_mode in ("", volume.volume_mode)
        and (not condition.access_mode or condition.access_mode in volume.access_modes)
    ]
    return max(concerning, key=_severity, default=None)


def _severity(condition: StorageCondition) -> int:
    return severity(STORAGE_STATES[condition.status])
