"""Filters for what a node has left: resources and ports.

Source: plugins/noderesources/fit.go; the rule about ports is kube.rules.host_ports. `Pod.requests` already count
overhead and init containers, restartable ones included (kube.decode_pod).
"""

from collections.abc import Sequence
from itertools import compress
from typing import Final

from binder.node_fit import refuse_resources
from binder.pod_rejection import port_rejection
from binder.rejection import Rejection
from kube.model import Pod
from kube.resources import has_room
from kube.rules.host_ports import host_ports
from scheduler.cluster import ClusterView
from scheduler.node_memory import NodeMemory
from scheduler.node_state import NodeState
from scheduler.plugin import NodeRule
from scheduler.volumes import PodInfo


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


def refuse_ports(pod: Pod, state: NodeState) -> Rejection | None:
    """Return which port of the node is taken, or None."""
    return port_rejection(host_ports(pod), state.ports, state.name)
