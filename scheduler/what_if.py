"""Changes to a simulated cluster that raise the question what becomes of its pods: a node drained, a zone gone."""

from collections.abc import Iterable

from kube.model import Pod
from scheduler.node_state import NodeState
from scheduler.simulated_cluster import Change, Entry, ImpossibleChange, SimulatedCluster


def drain(cluster: SimulatedCluster, node: str) -> list[Pod]:
    """Cordon a node and take its pods away; return them. Raises ImpossibleChange without such a node."""
    cluster.apply(Entry(0, Change.CORDON, node))
    found = cluster.state.view.node(node)
    return _taken_away(cluster, [] if found is None else [found])


def zone_down(cluster: SimulatedCluster, zone: str) -> list[Pod]:
    """Remove all nodes of a zone and return the pods that were there. Raises ImpossibleChange without such a zone."""
    gone = [state for state in cluster.state.view.nodes if state.zone == zone]
    if not gone:
        raise ImpossibleChange(f"there is no {zone}")
    pods = _taken_away(cluster, gone)
    for state in gone:
        cluster.apply(Entry(0, Change.REMOVE_NODE, state.name))
    return pods


def _taken_away(cluster: SimulatedCluster, nodes: Iterable[NodeState]) -> list[Pod]:
    taken = []
    for state in nodes:
        for pod in state.pods:
            cluster.apply(Entry(0, Change.TAKE_AWAY, state.name, pod.key))
            taken.append(pod)
    return taken
