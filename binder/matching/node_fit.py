"""Whether a node fits a pod, so that volumes are not reserved where the pod can never run.

The rules are those of kube-scheduler's default plugins, in their order of cost: NodeUnschedulable, TaintToleration,
NodeAffinity, VolumeBinding (rule 15) and VolumeZone (rule 19) for volumes the pod already has, NodeResourcesFit,
NodeVolumeLimits.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from binder.matching.evidence import affinity_text
from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Node, Pod, StorageClass, Volume
from kube.rules.quantity import format_quantity
from kube.rules.resource_fit import fits
from kube.rules.selectors import node_matches, pod_node_affinity_matches
from kube.rules.taints import tolerates_unschedulable, untolerated_taint
from kube.rules.topology import place_text, volume_zone_matches, within

NOT_ALLOCATABLE: Final = (
    "none on the node; if a DeviceClass provides it, which is not counted here, leave the pod to kube-scheduler "
    "without the scheduling gate"
)
"""Of an extended resource. One of a DeviceClass looks like one that no node has (pkg/scheduler, dynamicresources)."""


def reject_node(pod: Pod, node: Node) -> Rejection | None:
    """Return why the node, whatever is free on it, does not fit this pod; None if it does.

    Readiness is not checked: node lifecycle taints nodes that are not ready, and pods may tolerate that.
    """
    return reject_taints(pod, node) or reject_labels(pod, node)


def reject_taints(pod: Pod, node: Node) -> Rejection | None:
    """Return the cordon or the first taint that the pod does not tolerate, or None."""
    if node.unschedulable and not tolerates_unschedulable(pod.tolerations):
        return Rejection(Reason.NODE_UNSCHEDULABLE, node.name, "a schedulable node", "cordoned")
    taint = untolerated_taint(node.taints, pod.tolerations)
    if taint is None:
        return None
    text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
    return Rejection(Reason.TAINT_NOT_TOLERATED, node.name, "no untolerated taints", f"taint {text}")


def reject_reach(volumes: Iterable[Volume], node: Node) -> Rejection | None:
    """Return which of the pod's existing or reserved volumes is not accessible from the node, or None."""
    labels = dict(node.labels)
    for volume in volumes:
        if not reaches(volume, labels):
            wanted = f"a node from which volume {volume.name} is accessible"
            return Rejection(Reason.VOLUME_UNREACHABLE, node.name, wanted, f"the volume is accessible {_where(volume)}")
    return None


def _where(volume: Volume) -> str:
    if volume.node_affinity is None:
        return "where its zone labels match"
    place = place_text(volume.node_affinity)
    return within(place) if place else f"where {affinity_text(volume.node_affinity)}"


def reaches(volume: Volume, labels: Mapping[str, str]) -> bool:
    """Whether the volume, once bound, is accessible from a node with these labels: by its affinity and by its zone
    labels.
    """
    return node_matches(volume.node_affinity, labels) and volume_zone_matches(volume.labels, labels)


def reject_resources(pod: Pod, name: str, free: Mapping[str, int]) -> Rejection | None:
    """Return the resource of which the node has too little, or None."""
    lacking = fits(free, pod.requests)
    if not lacking:
        return None
    resource, wanted, left = lacking[0]
    offered = f"{format_quantity(max(left, 0), binary=resource != 'cpu')} free"
    if "/" in resource and resource not in free:
        offered = NOT_ALLOCATABLE
    wanted_text = f"{resource} {format_quantity(wanted, binary=resource != 'cpu')}"
    return Rejection(Reason.INSUFFICIENT_RESOURCES, name, wanted_text, offered)


def reject_attachments(
    name: str, attach: Iterable[tuple[str, int]], used: Mapping[str, int], limit: Mapping[str, int]
) -> Rejection | None:
    """Return which driver could not attach that many more volumes on the node, or None. An unstated limit is no
    limit.
    """
    for driver, more in attach:
        most = limit.get(driver)
        if most is not None and used.get(driver, 0) + more > most:
            offered = f"{used.get(driver, 0)} of at most {most} attached"
            return Rejection(
                Reason.ATTACH_LIMIT_REACHED, name, f"{more} more volume{'' if more == 1 else 's'} of {driver}", offered
            )
    return None


def reject_missing_driver(name: str, drivers: Iterable[str], missing: Collection[str]) -> Rejection | None:
    """Return which of the drivers the node lacks although it must have it, or None. `missing` is from
    `kube.store.node_view.missing_drivers`.
    """
    for driver in drivers:
        if driver in missing:
            return Rejection(Reason.DRIVER_NOT_ON_NODE, name, f"CSI driver {driver} registered", "not on the node")
    return None


def reject_allowed_topologies(storage_class: StorageClass, node: Node) -> Rejection | None:
    """Return that the class makes no volumes for the node, or None."""
    allowed = storage_class.allowed_topologies
    if allowed is None or node_matches(allowed, node.labels):
        return None
    wanted = f"a node where class {storage_class.name} provisions volumes: {affinity_text(allowed)}"
    return Rejection(Reason.TOPOLOGY_NOT_ALLOWED, node.name, wanted, "labels that do not match")


def reject_labels(pod: Pod, node: Node) -> Rejection | None:
    """Return what the pod's node selector or required node affinity requires and the node lacks, or None."""
    labels = dict(node.labels)
    for key, value in pod.node_selector:
        if labels.get(key) != value:
            actual = f"{key}={labels[key]}" if key in labels else f"no label {key}"
            return Rejection(Reason.NODE_SELECTOR_MISMATCH, node.name, f"{key}={value}", actual)
    if not pod_node_affinity_matches(pod.node_affinity, labels, node.name):
        wanted = affinity_text(pod.node_affinity) if pod.node_affinity else ""
        return Rejection(Reason.NODE_SELECTOR_MISMATCH, node.name, wanted, "labels that do not match")
    return None
