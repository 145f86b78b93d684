"""Filters for what a node has left: resources, ports, and disks that one pod at a time may use.

Source: plugins/noderesources/fit.go; the rules about ports and disks are kube.rules.host_ports and
kube.rules.disk_conflicts. `Pod.requests` already count overhead and init containers, restartable ones included
(kube.decoding.decode_pod).
"""

from collections.abc import Sequence
from itertools import compress
from typing import Final

from binder.assignment.pod_rejection import disk_rejection, port_rejection
from binder.matching.node_fit import refuse_resources
from binder.matching.rejection import Rejection
from kube.objects.model import Pod
from kube.rules.disk_conflicts import disks_of
from kube.rules.host_ports import host_ports
from kube.rules.resource_fit import has_room
from scheduler.framework.plugin import NodeRule
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeState
from scheduler.state.node_memory import NodeMemory
from scheduler.volumes.volumes import PodInfo


class NodeResourcesFit:
    """The node must have left what the pod requests, and room for one pod more."""

    name: Final = "NodeResourcesFit"

    def __init__(self) -> None:
        self._memory: NodeMemory[bool] = NodeMemory()

    def rule(self, info: PodInfo, _: ClusterView) -> NodeRule:
        pod = info.pod

        def fitting(nodes: Sequence[NodeState]) -> Sequence[NodeState]:
            fits = self._memory.answers(pod.requests, nodes, lambda state: has_room(state.free, pod.requests))
            return list(compress(nodes, fits))

        return NodeRule(lambda state: refuse_resources(pod, state.name, state.free), fitting, question=pod.requests)


class NodePorts:
    """A port of the node can be taken once: by protocol and address, and an address of all conflicts with each."""

    name: Final = "NodePorts"

    def rule(self, info: PodInfo, _: ClusterView) -> NodeRule | None:
        wanted = host_ports(info.pod)
        if not wanted:
            return None
        return NodeRule(lambda state: refuse_ports(info.pod, state), question=wanted)


class DiskConflict:
    """A disk that the pod names in its spec must not be in use on the node (part of VolumeRestrictions upstream)."""

    name: Final = "DiskConflict"

    def rule(self, info: PodInfo, _: ClusterView) -> NodeRule | None:
        wanted = disks_of(info.pod)
        return NodeRule(lambda state: refuse_disks(info.pod, state), question=wanted) if wanted else None


def refuse_disks(pod: Pod, state: NodeState) -> Rejection | None:
    """Return which disk of the pod another pod uses on the node, or None."""
    return disk_rejection(disks_of(pod), state.pods, state.name)


def refuse_ports(pod: Pod, state: NodeState) -> Rejection | None:
    """Return which port of the node is taken, or None."""
    return port_rejection(host_ports(pod), state.ports, state.name)
