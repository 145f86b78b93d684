"""Filters for what a node has left: resources, ports, and disks that only one pod at a time may use.

Source: plugins/noderesources/fit.go; the rules about ports and disks are kube.pod_topology.node_conflicts.
`Pod.requests` already count overhead and init containers, restartable ones included (kube.decoding.decode_pod).
The hints follow the isSchedulableAfter... functions (KEP-4247) of the same plugins.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import ClassVar, Final, TypeVar

from binder.assignment.pod_rejection import disk_rejection, port_rejection
from binder.matching.node_fit import reject_resources
from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Node, Pod
from kube.pod_topology.node_conflicts import disks_of, host_ports
from kube.rules.quantity import NANO
from kube.rules.resource_fit import PODS, has_room
from scheduler.framework.cluster_event import ClusterEvent, Kind, Wanted
from scheduler.framework.plugin import Eviction, Filter, NodeRule
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.state.node_memory import NodeMemory
from scheduler.volumes.volumes import PodInfo

T = TypeVar("T")

_NODE_OR_POD: Final[frozenset[Kind]] = frozenset({Node, Pod})


def disk_released(pod: Pod, change: ClusterEvent, _: Wanted | None) -> bool:
    """A pod left that used a disk of this one, or there is a new node."""
    if isinstance(change.new, Node):
        return change.old is None
    released = _on_leaving(change, disks_of)
    return any(disk.excludes(other) for disk in disks_of(pod) for other in released)


def more_room(pod: Pod, change: ClusterEvent, _: Wanted | None) -> bool:
    """A pod left, or requests less of a resource that this one requests, or a node that is large enough grew in it."""
    if isinstance(change.new, Node):
        return _grew(pod, change.old, change.new) and _large_enough(pod, change.new)
    if not isinstance(change.old, Pod):
        return False
    # Every pod that leaves makes room for one more pod.
    return not isinstance(change.new, Pod) or _requests_less(pod, change.old, change.new)


def port_freed(pod: Pod, change: ClusterEvent, _: Wanted | None) -> bool:
    """A pod left that used one of the ports, on whatever address, or there is a new node."""
    if isinstance(change.new, Node):
        return change.old is None
    freed = {(port.protocol, port.port) for port in _on_leaving(change, host_ports)}
    return bool(freed) and any((port.protocol, port.port) in freed for port in host_ports(pod))


class NodeResourcesFit(Filter):
    """The node must have enough left for the pod's requests, and for one more pod."""

    name = "NodeResourcesFit"
    messages: ClassVar[Mapping[Reason, str]] = {Reason.INSUFFICIENT_RESOURCES: "had too few free resources"}
    eviction = Eviction.LOCAL
    queueing_hint = QueueingHint(_NODE_OR_POD, more_room, lambda pod, _: pod.requests)

    def __init__(self) -> None:
        self._memory: NodeMemory[bool] = NodeMemory()
        self._lacking: NodeMemory[tuple[str, ...]] = NodeMemory()

    def rule(self, info: PodInfo, _: ClusterView) -> NodeRule:
        pod = info.pod

        def fitting(nodes: Sequence[NodeInfo]) -> Sequence[NodeInfo]:
            fits = self._memory.answers(pod.requests, nodes, lambda state: has_room(state.free, pod.requests))
            return list(compress(nodes, fits))

        def texts(nodes: Sequence[NodeInfo]) -> Sequence[tuple[str, ...]]:
            return self._lacking.answers(pod.requests, nodes, lacking(pod))

        def why(state: NodeInfo) -> Rejection | None:
            return reject_resources(pod, state.name, state.free)

        def unresolvable(state: NodeInfo) -> bool:
            return not has_room(state.allocatable, pod.requests)

        return NodeRule(why, fitting, cache_key=pod.requests, texts=texts, unresolvable=unresolvable)


class NodePorts(Filter):
    """A host port can be used once: by protocol and address; 0.0.0.0 conflicts with every address."""

    name = "NodePorts"
    messages: ClassVar[Mapping[Reason, str]] = {
        Reason.HOST_PORT_TAKEN: "didn't have free ports for the requested pod ports"
    }
    eviction = Eviction.LOCAL
    queueing_hint = QueueingHint(_NODE_OR_POD, port_freed, lambda pod, _: host_ports(pod))

    def rule(self, info: PodInfo, _: ClusterView) -> NodeRule | None:
        wanted = host_ports(info.pod)
        if not wanted:
            return None
        return NodeRule(lambda state: reject_ports(info.pod, state), cache_key=wanted)


class DiskConflict(Filter):
    """A disk that the pod names in its spec must not be in use on the node (part of VolumeRestrictions upstream)."""

    name = "DiskConflict"
    messages: ClassVar[Mapping[Reason, str]] = {Reason.DISK_IN_USE: "had no available disk"}
    eviction = Eviction.LOCAL
    queueing_hint = QueueingHint(_NODE_OR_POD, disk_released, lambda pod, _: disks_of(pod))

    def rule(self, info: PodInfo, _: ClusterView) -> NodeRule | None:
        wanted = disks_of(info.pod)
        return NodeRule(lambda state: reject_disks(info.pod, state), cache_key=wanted) if wanted else None


def reject_disks(pod: Pod, state: NodeInfo) -> Rejection | None:
    """Return which disk of the pod is in use by another pod on the node, or None."""
    return disk_rejection(disks_of(pod), state.pods, state.name)


def reject_ports(pod: Pod, state: NodeInfo) -> Rejection | None:
    """Return which host port is in use, or None."""
    return port_rejection(host_ports(pod), state.ports, state.name)


def lacking(pod: Pod) -> Callable[[NodeInfo], tuple[str, ...]]:
    """Return a function that names the resources of which a node has too little (fitsRequest in
    noderesources/fit.go).
    """
    wanted = [(PODS, NANO, "Too many pods")]
    wanted += [(name, amount, f"Insufficient {name}") for name, amount in pod.requests if amount > 0 and name != PODS]

    def lacks(state: NodeInfo) -> tuple[str, ...]:
        free = state.free
        return tuple([text for name, amount, text in wanted if amount > free.get(name, 0)])

    return lacks


def _on_leaving(change: ClusterEvent, uses: Callable[[Pod], tuple[T, ...]]) -> tuple[T, ...]:
    """Return what a pod that left used; nothing where none left."""
    return uses(change.old) if isinstance(change.old, Pod) and change.new is None else ()


def _large_enough(pod: Pod, node: Node) -> bool:
    return has_room(dict(node.allocatable), pod.requests)


def _grew(pod: Pod, old: object, new: Node) -> bool:
    if not isinstance(old, Node):
        return True
    if old.allocatable == new.allocatable:
        return False
    before, after = dict(old.allocatable), dict(new.allocatable)
    counted = (PODS, *(name for name, amount in pod.requests if amount > 0))
    return any(after.get(name, 0) > before.get(name, 0) for name in counted)


def _requests_less(pod: Pod, old: Pod, new: Pod) -> bool:
    if old.requests == new.requests:
        return False
    after = dict(new.requests)
    counted = {name for name, amount in pod.requests if amount > 0}
    return any(amount > after.get(name, 0) for name, amount in old.requests if name in counted)
