"""What-if changes to a simulated cluster: nodes and storage that fail, and what happens to their pods."""

from collections.abc import Iterable

from kube.objects.model import Pod
from scheduler.simulator.simulated_cluster import Entry, SimulatedChange, SimulatedCluster
from scheduler.simulator.simulated_storage import ImpossibleChange
from scheduler.state.node_info import NodeInfo


def drain(cluster: SimulatedCluster, node: str) -> list[Pod]:
    """Cordon a node and remove its pods, as kubectl drain does; return them. Pods that belong to the node stay on it.

    Raises ImpossibleChange without such a node.
    """
    cluster.apply(Entry(0, SimulatedChange.CORDON, node))
    state = cluster.state.view.node(node)
    return _taken_away(cluster, [] if state is None else [state])


def node_down(cluster: SimulatedCluster, node: str) -> list[Pod]:
    """Remove a node and return the pods that have to be rescheduled. Raises ImpossibleChange without such a node."""
    state = cluster.state.view.node(node)
    if state is None:
        raise ImpossibleChange(f"there is no {node}")
    return _removed(cluster, [state])


def zone_down(cluster: SimulatedCluster, zone: str) -> list[Pod]:
    """Remove all nodes of a zone and return the pods that have to be rescheduled.

    Raises ImpossibleChange without such a zone.
    """
    gone = [state for state in cluster.state.view.nodes if state.zone == zone]
    if not gone:
        raise ImpossibleChange(f"there is no {zone}")
    return _removed(cluster, gone)


def volume_fails(cluster: SimulatedCluster, volume: str) -> list[Pod]:
    """Fail a volume and return the pods whose data was on it. Raises ImpossibleChange without such a volume."""
    cluster.apply(Entry(0, SimulatedChange.FAIL_VOLUME, volume=volume))
    return _without_data(cluster, frozenset({volume}))


def driver_fails(cluster: SimulatedCluster, driver: str) -> list[Pod]:
    """Fail all volumes of a driver and its provisioning; return the pods whose data was on them.

    Raises ImpossibleChange without such a driver.
    """
    cluster.apply(Entry(0, SimulatedChange.FAIL_DRIVER, driver=driver))
    volumes = cluster.state.view.storage.snapshot.volumes
    return _without_data(cluster, frozenset(name for name, volume in volumes.items() if volume.driver == driver))


def _without_data(cluster: SimulatedCluster, failed: frozenset[str]) -> list[Pod]:
    """Remove the pods with claims on failed volumes, and recreate these claims, empty; the other claims stay."""
    claims = cluster.state.view.storage.snapshot.claims
    lost = {key for key, claim in claims.items() if claim.volume_name in failed}
    nodes = cluster.state.view.nodes
    hit = [(state.name, pod) for state in nodes for pod in state.pods if not lost.isdisjoint(pod.claim_keys)]
    for node, pod in hit:
        cluster.apply(Entry(0, SimulatedChange.TAKE_AWAY, node, pod.key))
    for key in sorted(lost):
        cluster.apply(Entry(0, SimulatedChange.NEW_CLAIM, claim=key))
    return [pod for _, pod in hit]


def _removed(cluster: SimulatedCluster, nodes: Iterable[NodeInfo]) -> list[Pod]:
    gone = list(nodes)
    pods = _taken_away(cluster, gone)
    for state in gone:
        cluster.apply(Entry(0, SimulatedChange.REMOVE_NODE, state.name))
    return pods


def _taken_away(cluster: SimulatedCluster, nodes: Iterable[NodeInfo]) -> list[Pod]:
    taken = []
    for state in nodes:
        for pod in state.pods:
            if not pod.per_node:
                cluster.apply(Entry(0, SimulatedChange.TAKE_AWAY, state.name, pod.key))
                taken.append(pod)
    return taken
