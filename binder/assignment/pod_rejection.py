"""Why a pod cannot be on a node because of other pods, in words: affinity, spread, ports, disks, with the evidence."""

from collections.abc import Iterable, Mapping
from typing import Final

from binder.matching.evidence import selector_text
from binder.matching.rejection import Reason, Rejection
from kube.objects.constraints import HostPort, InlineDisk
from kube.objects.labels import LabelSelector
from kube.objects.model import Pod
from kube.pod_topology.inter_pod_affinity import Side, TermVerdict
from kube.pod_topology.node_conflicts import conflicting_port, disk_in_use
from kube.pod_topology.topology_spread import SpreadVerdict

AFFINITY_REASONS: Final[Mapping[Side, Reason]] = {
    Side.AFFINITY: Reason.POD_AFFINITY_MISMATCH,
    Side.ANTI_AFFINITY: Reason.POD_ANTI_AFFINITY,
    Side.EXISTING_ANTI_AFFINITY: Reason.EXISTING_POD_ANTI_AFFINITY,
}


def affinity_rejection(verdict: TermVerdict, node: str, labels: Mapping[str, str]) -> Rejection:
    """Return the rejection of a node that a term of pod (anti-)affinity does not allow."""
    reason, key, pods = AFFINITY_REASONS[verdict.side], verdict.term.topology_key, pods_text(verdict.term.selector)
    value = labels.get(key)
    place = f"{key}={value}"
    if value is None:
        return Rejection(reason, node, f"{pods} in the same {key}", f"no label {key}")
    if verdict.side is Side.AFFINITY:
        return Rejection(reason, node, f"{pods} in the same {key}", f"none in {place}")
    if verdict.side is Side.ANTI_AFFINITY:
        return Rejection(reason, node, f"no {pods} in the same {key}", f"one in {place}")
    return Rejection(reason, node, f"no pod whose anti-affinity excludes this pod from its {key}", f"one in {place}")


def spread_rejection(verdict: SpreadVerdict, node: str, labels: Mapping[str, str]) -> Rejection:
    """Return the rejection of a node that a topology spread constraint does not allow."""
    key = verdict.constraint.topology_key
    value = labels.get(key)
    if value is None:
        return Rejection(Reason.TOPOLOGY_LABEL_MISSING, node, f"a node with the label {key}", "none")
    wanted = f"{pods_text(verdict.selector)} spread over {key} with a skew of at most {verdict.constraint.max_skew}"
    return Rejection(Reason.TOPOLOGY_SPREAD, node, wanted, f"a skew of {verdict.skew(value)} in {key}={value}")


def port_rejection(wanted: Iterable[HostPort], taken: Iterable[HostPort], node: str) -> Rejection | None:
    """Return which host port is in use, or None."""
    conflict = conflicting_port(wanted, taken)
    if conflict is None:
        return None
    port = f"{conflict.protocol} port {conflict.port}"
    return Rejection(Reason.HOST_PORT_TAKEN, node, f"{port} unused on the node", f"in use on {conflict.ip}")


def disk_rejection(wanted: Iterable[InlineDisk], there: Iterable[Pod], node: str) -> Rejection | None:
    """Return which disk another pod uses on the node, or None."""
    conflict = disk_in_use(wanted, there)
    if conflict is None:
        return None
    disk, pod = conflict
    named = f"{disk.kind} {'/'.join(disk.identity)} unused on the node"
    return Rejection(Reason.DISK_IN_USE, node, named, f"in use by pod {pod.key}")


def pods_text(selector: LabelSelector | None) -> str:
    """Return the text for the pods that a selector selects."""
    if selector is None:
        return "no pods"
    return f"pods with {selector_text(selector)}" if selector != LabelSelector() else "pods"
