"""Nodes that are added to a simulated cluster: each a copy of an existing one, with what belongs to such a node."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from msgspec.structs import replace as with_fields

from binder.matching.matching import class_of
from binder.model.view import View
from binder.provisioning.pool import PoolKey, report_of
from kube.objects.labels import LabelSelector
from kube.objects.model import CSINode, CSIStorageCapacity, Node, Pod
from kube.store.storage_capacities import StorageCapacityIndex
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo

_HOSTNAME = "kubernetes.io/hostname"


def with_added_node(view: ClusterView, name: str, like: NodeInfo) -> ClusterView:
    """Return the view with an empty copy of another node: its labels, taints, sizes, drivers and DaemonSet pods.

    It is not cordoned, and it has no volumes of its own: a new node brings no static volumes. Storage of a driver that
    only the other node has is empty on the copy: what is reported as free there, and what volumes of its pods take.
    """
    snapshot = view.storage.snapshot
    node = _node(like.node, name)
    csi_node = snapshot.csi_nodes.get(like.name)
    csi_nodes = snapshot.csi_nodes if csi_node is None else snapshot.csi_nodes.set(name, _csi_node(csi_node, name))
    grown = replace(snapshot, nodes=snapshot.nodes.set(name, node), csi_nodes=csi_nodes)
    view = view.with_storage(_with_own_storage(replace(view.storage, snapshot=grown), like, name)).with_node(node)
    for pod in _own_pods(like.pods, name):
        view = view.with_pod(pod, name)
    return view


def _with_own_storage(storage: View, like: NodeInfo, name: str) -> View:
    """Return the storage with a report for the new node for each that is about the other node alone."""
    for pool in storage.pools.pools.values():
        if like.name not in dict(pool.key.topology.match_labels).values():
            continue
        used = _used_of(pool.key, storage, like)
        for report in pool.reports.values():
            capacity = _capacity(storage.snapshot.capacities[report.key], like.name, name, used)
            storage = _with_report(storage, capacity, pool.key)
    return storage


def _used_of(key: PoolKey, storage: View, like: NodeInfo) -> int:
    """Return how much of a pool volumes of the node's pods take that its reports include."""
    snapshot, families = storage.snapshot, storage.pools.families
    claims = {each for pod in like.pods for each in pod.claim_keys}
    known = [snapshot.claims[each] for each in claims if each in snapshot.claims]
    volumes = (
        snapshot.volumes.get(claim.volume_name)
        for claim in known
        if families.get(class_of(claim)) == key.family and claim.uid not in storage.pools.homes
    )
    return sum(volume.capacity for volume in volumes if volume is not None and volume.driver == key.driver)


def _capacity(report: CSIStorageCapacity, like: str, name: str, used: int) -> CSIStorageCapacity:
    topology = report.node_topology or LabelSelector()
    labels = tuple((label, name if value == like else value) for label, value in topology.match_labels)
    free, largest = report.capacity, report.maximum_volume_size
    return with_fields(
        report,
        name=f"{report.name}-{name}",
        node_topology=with_fields(topology, match_labels=labels),
        capacity=None if free is None else free + used,
        maximum_volume_size=None if largest is None else largest + used,
    )


def _with_report(storage: View, capacity: CSIStorageCapacity, like: PoolKey) -> View:
    snapshot, index = storage.snapshot, StorageCapacityIndex()
    index.entries = snapshot.capacities_by_class
    index.update([(capacity.key, None, capacity)])
    capacities = snapshot.capacities.set(capacity.key, capacity)
    key = replace(like, topology=capacity.node_topology or LabelSelector())
    pools = replace(storage.pools, capacities=index.entries).with_report(report_of(capacity, key))
    grown = replace(snapshot, capacities=capacities, capacities_by_class=index.entries)
    return replace(storage, snapshot=grown, pools=pools)


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
