"""Nodes that are added to a simulated cluster: each a copy of an existing one, with what belongs to such a node."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from msgspec.structs import replace as with_fields

from kube.objects.model import CSINode, Node, Pod
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo

_HOSTNAME = "kubernetes.io/hostname"


def with_added_node(view: ClusterView, name: str, like: NodeInfo) -> ClusterView:
    """Return the view with an empty copy of another node: its labels, taints, sizes, drivers and DaemonSet pods.

    It is not cordoned, and it has no volumes of its own: a new node brings no static volumes.
    """
    snapshot = view.storage.snapshot
    node = _node(like.node, name)
    csi_node = snapshot.csi_nodes.get(like.name)
    csi_nodes = snapshot.csi_nodes if csi_node is None else snapshot.csi_nodes.set(name, _csi_node(csi_node, name))
    grown = replace(snapshot, nodes=snapshot.nodes.set(name, node), csi_nodes=csi_nodes)
    view = view.with_storage(replace(view.storage, snapshot=grown)).with_node(node)
    for pod in _own_pods(like.pods, name):
        view = view.with_pod(pod, name)
    return view


def node_kinds(nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Return one node of each kind, by name.

    Nodes with the same zone, labels, taints, sizes and attach limits, and access to the same storage, are of one kind.
    """
    kinds: dict[object, NodeInfo] = {}
    for state in sorted(nodes, key=lambda state: state.name):
        node = state.node
        labels = tuple(pair for pair in node.labels if state.name not in pair)
        attaching = (frozenset(state.attach.limits.items()), state.attach.missing, state.cut_off)
        kinds.setdefault((labels, node.taints, node.allocatable, attaching), state)
    return list(kinds.values())


def _node(like: Node, name: str) -> Node:
    labels = tuple((key, name if key == _HOSTNAME or value == like.name else value) for key, value in like.labels)
    return with_fields(like, name=name, uid=name, resource_version=1, labels=labels, unschedulable=False)


def _csi_node(like: CSINode, name: str) -> CSINode:
    drivers = tuple(with_fields(driver, node_id=name) for driver in like.drivers)
    return with_fields(like, name=name, uid=name, resource_version=1, drivers=drivers)


def _own_pods(pods: Iterable[Pod], node: str) -> Iterator[Pod]:
    for pod in pods:
        if pod.per_node and not pod.claims:
            name = f"{pod.name}-{node}"
            yield with_fields(pod, name=name, uid=f"{pod.uid}-{node}", node_name=node)
