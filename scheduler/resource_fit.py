"""Filters for what a node has left: resources and ports.

Source: plugins/noderesources/fit.go and plugins/nodeports/node_ports.go. `Pod.requests` already count overhead and
init containers, restartable ones included (kube.decode_pod).
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from binder.node_fit import refuse_resources
from binder.rejection import Reason, Rejection
from kube.constraints import HostPort
from kube.model import Pod
from kube.resources import has_room
from scheduler.cluster import ClusterView
from scheduler.node_memory import NodeMemory
from scheduler.node_state import NodeState, host_ports
from scheduler.plugin import NodeRule
from scheduler.volumes import PodInfo

_ALL_ADDRESSES: Final = "0.0.0.0"


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
    taken = _conflict(host_ports(pod), state.ports)
    if taken is None:
        return None
    port = f"{taken.protocol} port {taken.port}"
    return Rejection(Reason.HOST_PORT_TAKEN, state.name, f"{port} of the node", f"taken on {taken.ip}")


def _conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> HostPort | None:
    for used in taken:
        for port in wanted:
            same = (port.port, port.protocol) == (used.port, used.protocol)
            if same and (port.ip == used.ip or _ALL_ADDRESSES in (port.ip, used.ip)):
                return used
    return None
