"""A node of a cluster view: what is on it and what it has left."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from msgspec import Struct
from msgspec.structs import replace as with_fields

from binder.health.node_storage import cut_off
from kube.objects.constraints import HostPort
from kube.objects.model import Node, Pod, Taint
from kube.pod_topology.node_conflicts import host_ports
from kube.rules.quantity import NANO
from kube.rules.resource_fit import PODS, free_resources
from kube.rules.topology import zone_of
from kube.store.node_view import UsedVolume, effective_taints
from kube.store.snapshot import Snapshot
from scheduler.state.attach_limits import AttachUse, attach_use_by, attachments_of

_NEWS: Final = ("resource_version", "node_name", "phase", "nominated_node", "started", "evicted")
"""Fields of a pod on a node that can change while it uses the same there."""


class NodeInfo(Struct, frozen=True, gc=False):
    """A node with everything on it, including pods that are only assumed to be there.

    `number` is its place in `ClusterView.nodes` and its bit in sets of nodes. `allocatable` and `free` are in
    nano-units by resource, `pods` included; `scored` is (cpu, memory) requested, where containers that request nothing
    count with upstream's defaults: it is used by scores, not by fit. `taints` include that of a cordon. `attach` is
    what is attached there, and how much may be. `cut_off` are the drivers whose storage the node does not reach.
    """

    number: int
    node: Node
    labels: Mapping[str, str]
    zone: str
    taints: tuple[Taint, ...]
    pods: tuple[Pod, ...]
    allocatable: Mapping[str, int]
    free: Mapping[str, int]
    scored: tuple[int, int]
    ports: frozenset[HostPort]
    attach: AttachUse
    cut_off: frozenset[str]

    @property
    def name(self) -> str:
        return self.node.name


def node_info(number: int, node: Node, pods: Iterable[Pod], snapshot: Snapshot) -> NodeInfo:
    """Return the state of a node with these pods on it; finished ones are omitted."""
    staying = tuple(pod for pod in pods if not pod.finished)
    counted = [scored_requests(pod) for pod in staying]
    return NodeInfo(
        number=number,
        node=node,
        labels=dict(node.labels),
        zone=zone_of(node.labels),
        taints=effective_taints(node),
        pods=staying,
        allocatable=dict(node.allocatable),
        free=free_resources(node, staying),
        scored=(sum(cpu for cpu, _ in counted), sum(memory for _, memory in counted)),
        ports=frozenset(port for pod in staying for port in host_ports(pod)),
        attach=attach_use_by(staying, snapshot, node.name),
        cut_off=cut_off(snapshot, node.name),
    )


def state_with_pod(state: NodeInfo, pod: Pod, snapshot: Snapshot) -> NodeInfo:
    """Return the state with another pod, at a cost that does not depend on the pods already there."""
    if pod.finished:
        return state
    free = dict(state.free)
    free[PODS] = free.get(PODS, 0) - NANO
    for name, wanted in pod.requests:
        free[name] = free.get(name, 0) - wanted
    cpu, memory = scored_requests(pod)
    ports = host_ports(pod)
    return NodeInfo(
        state.number,
        state.node,
        state.labels,
        state.zone,
        state.taints,
        (*state.pods, pod),
        state.allocatable,
        free,
        (state.scored[0] + cpu, state.scored[1] + memory),
        state.ports.union(ports) if ports else state.ports,
        _with_volumes(state.attach, attachments_of(pod, snapshot)),
        state.cut_off,
    )


def state_without_pod(state: NodeInfo, pod: Pod, snapshot: Snapshot) -> NodeInfo | None:
    """Return the state without a pod, None if it is not there. What other pods may use too is counted again."""
    there = next(
        (placed for placed in state.pods if placed.name == pod.name and placed.namespace == pod.namespace), None
    )
    if there is None:
        return None
    left = tuple(placed for placed in state.pods if placed is not there)
    if there.claims or there.constraints is not None:
        return node_info(state.number, state.node, left, snapshot)
    free = dict(state.free)
    free[PODS] += NANO
    for name, wanted in there.requests:
        free[name] += wanted
    cpu, memory = scored_requests(there)
    return with_fields(state, pods=left, free=free, scored=(state.scored[0] - cpu, state.scored[1] - memory))


def state_with_news(state: NodeInfo, pod: Pod) -> NodeInfo | None:
    """Return the state with a newer record of a pod that is there; None if it uses something else than before.

    The same applies to a pod with claims: what is attached for them depends on the claims.
    """
    if pod.claims or pod.finished:
        return None
    for place, held in enumerate(state.pods):
        if held.name == pod.name and held.namespace == pod.namespace:
            if with_fields(held, **{name: getattr(pod, name) for name in _NEWS}) != pod:
                return None
            return with_fields(state, pods=(*state.pods[:place], pod, *state.pods[place + 1 :]))
    return None


def differs_by_news(state: NodeInfo, other: NodeInfo) -> bool:
    """Whether one results from the other by `state_with_news`, so that what it has left is identical."""
    return (
        state.node is other.node
        and state.free is other.free
        and state.scored is other.scored
        and state.ports is other.ports
        and state.attach is other.attach
        and state.cut_off is other.cut_off
    )


def scored_requests(pod: Pod) -> tuple[int, int]:
    """Return (cpu, memory) as scores count them (NonZeroRequested of NodeInfo)."""
    if pod.scored is not None:
        return pod.scored
    cpu = memory = 0
    for name, wanted in pod.requests:
        if name == "cpu":
            cpu = wanted
        elif name == "memory":
            memory = wanted
    return cpu, memory


def _with_volumes(use: AttachUse, more: frozenset[UsedVolume]) -> AttachUse:
    return replace(use, used=use.used | more, left=use.left - more) if more else use
