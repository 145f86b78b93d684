"""A node as the scheduler sees it: what is free on it, and what is attached to it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kube.objects.model import Claim, Node, Pod, Taint, Volume
from kube.rules.csi_migration import counted_driver_of_provisioner, driver_of_source, inline_volume
from kube.rules.resource_fit import free_resources
from kube.rules.taints import UNSCHEDULABLE
from kube.store.snapshot import Snapshot

UsedVolume = tuple[str, str]
"""Driver and volume handle, of in-tree volumes the name instead. A claim without a volume counts as a volume of its
class's provisioner.
"""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and what its pods leave free.

    `free` is in nano-units by resource, `pods` included. `attached` are the distinct CSI volumes used by pods there or
    attached, `attach_used` their number per driver, `attach_limit` the limits that the drivers state (a driver without
    a limit is absent).
    """

    node: Node
    free: Mapping[str, int]
    attached: frozenset[UsedVolume]
    attach_used: Mapping[str, int]
    attach_limit: Mapping[str, int]


def node_view(snapshot: Snapshot, name: str) -> NodeView:
    """Return the view of a node, at a cost that grows with the pods on it. Raises KeyError for an unknown node."""
    node = snapshot.nodes[name]
    pods = [snapshot.pods[key] for key in snapshot.pods_by_node.get(name, ())]
    claim_keys = sorted({key for pod in pods for key in pod.claim_keys})
    inline = (used for pod in pods for used in inline_volumes(pod))
    attached = frozenset((*_used_volumes(snapshot, claim_keys), *inline, *_attachments(snapshot, name)))
    csi_node = snapshot.csi_nodes.get(name)
    drivers = csi_node.drivers if csi_node is not None else ()
    return NodeView(
        node=node,
        free=free_resources(node, pods),
        attached=attached,
        attach_used=_count(driver for driver, _ in attached),
        attach_limit={driver.name: driver.attach_limit for driver in drivers if driver.attach_limit is not None},
    )


def missing_drivers(snapshot: Snapshot, node_name: str) -> frozenset[str]:
    """Return the drivers that are not registered on a node and allow none of their volumes where they are not.

    Source: checkCSIDriverOnNode in pkg/scheduler/framework/plugins/nodevolumelimits/csi.go of Kubernetes 1.37.
    """
    demanding = (name for name, driver in snapshot.csi_drivers.items() if driver.prevent_pod_scheduling_if_missing)
    csi_node = snapshot.csi_nodes.get(node_name)
    registered = {driver.name for driver in csi_node.drivers} if csi_node is not None else set()
    return frozenset(demanding) - registered


def used_volume(snapshot: Snapshot, claim: Claim) -> UsedVolume | None:
    """Return what a claim counts as towards attach limits (NodeVolumeLimits plugin); None if it does not count."""
    volume = snapshot.volumes.get(claim.volume_name)
    if volume is not None:
        return csi_volume(volume)
    storage_class = snapshot.classes.get(claim.storage_class or "")
    if storage_class is None or not storage_class.provisioner:
        return None
    driver = counted_driver_of_provisioner(storage_class.provisioner)
    return (driver, f"claim {claim.key}") if driver else None


def inline_volumes(pod: Pod) -> frozenset[UsedVolume]:
    """Return the disks in a pod's own spec that count towards attach limits (checkAttachableInlineVolume)."""
    disks = pod.constraints.disks if pod.constraints is not None else ()
    return frozenset(used for disk in disks if (used := inline_volume(disk)) is not None)


def _used_volumes(snapshot: Snapshot, claim_keys: Iterable[str]) -> Iterator[UsedVolume]:
    for key in claim_keys:
        claim = snapshot.claims.get(key)
        used = used_volume(snapshot, claim) if claim is not None else None
        if used is not None:
            yield used


def _attachments(snapshot: Snapshot, node_name: str) -> Iterator[UsedVolume]:
    for name in snapshot.attachments_by_node.get(node_name, ()):
        volume = snapshot.volumes.get(snapshot.attachments[name].volume_name)
        if volume is not None and volume.driver and volume.handle:
            yield volume.driver, volume.handle


def csi_volume(volume: Volume) -> UsedVolume | None:
    """Return what a volume counts as towards attach limits; None if no CSI driver attaches it."""
    if volume.driver:
        return (volume.driver, volume.handle) if volume.handle else None
    driver = driver_of_source(volume.source)
    return (driver, f"volume {volume.name}") if driver else None


def effective_taints(node: Node) -> tuple[Taint, ...]:
    """Return the node's taints, with that of a cordon whether or not the node controller has set it yet."""
    if not node.unschedulable or UNSCHEDULABLE.key in {taint.key for taint in node.taints}:
        return node.taints
    return (*node.taints, UNSCHEDULABLE)


def _count(drivers: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for driver in drivers:
        counts[driver] = counts.get(driver, 0) + 1
    return counts
