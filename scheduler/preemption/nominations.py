"""Nominated nodes, and their effect on other pods that are scheduled meanwhile.

Source: the nominator of pkg/scheduler/backend/queue/nominator.go, and evaluateNominatedNode and
RunFilterPluginsWithNominatedPods of the framework.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kube.objects.model import Pod
from scheduler.cycle.cycle import judge
from scheduler.framework.plugin import ScheduleResult
from scheduler.framework.profile import Profile
from scheduler.state.cluster import ClusterView, Place

ByNode = Mapping[str, Sequence[Pod]]
"""Node name -> waiting pods that have it nominated."""


@dataclass(slots=True)
class Nominations:
    """Waiting pods with a nominated node, by their status or by a decision that the status does not show yet."""

    _pods: dict[str, Pod] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)

    def put(self, pod: Pod, node: str) -> Place | None:
        """Replace the pod's last nomination; an empty node removes it. Return the nomination that was replaced.

        A nomination of an earlier pod with the same name is removed in any case.
        """
        known, kept = self._pods.get(pod.key), self._nodes.get(pod.key)
        stays = known is not None and kept == node and known.uid == pod.uid
        gone = None if stays else self.remove(pod.key)
        if node:
            self._pods[pod.key], self._nodes[pod.key] = pod, node
        return gone

    def remove(self, pod_key: str) -> Place | None:
        """Remove a pod that is assigned or gone, and return the nomination that it had."""
        pod, node = self._pods.pop(pod_key, None), self._nodes.pop(pod_key, "")
        return None if pod is None else (pod, node)

    def of(self, pod_key: str) -> str:
        """Return the node nominated for a pod, empty if there is none."""
        return self._nodes.get(pod_key, "")

    def by_node(self) -> ByNode:
        """Return all of them."""
        nominated: dict[str, list[Pod]] = {}
        for key, node in self._nodes.items():
            nominated.setdefault(node, []).append(self._pods[key])
        return nominated


class Reserving:
    """Shows the cluster as available to a pod: nominated pods of at least its priority count on their nodes already.

    A placement in it has to pass `stands` too. The last view is returned again while the nodes and those pods are
    unchanged: rejected pods follow one another, and a decider caches results for nodes only as long as they are the
    same objects.
    """

    def __init__(self) -> None:
        self._base: ClusterView | None = None
        self._moves: Sequence[tuple[None, Place]] = ()
        self._shown: ClusterView | None = None

    def view(self, cluster: ClusterView, pod: Pod, nominated: ByNode) -> ClusterView:
        """Return the cluster with the nominated pods that the pod may not displace."""
        moves: list[tuple[None, Place]] = [
            (None, (other, node))
            for node, pods in nominated.items()
            if node in cluster.numbers
            for other in pods
            if other.priority >= pod.priority and other.uid != pod.uid
        ]
        if not moves:
            return cluster
        base, shown = self._base, self._shown
        if base is None or shown is None or moves != self._moves or not _same_but_for_time(base, cluster):
            shown = cluster.with_moves(moves)
            self._base, self._moves, self._shown = cluster, moves, shown
        return shown if shown.now == cluster.now else shown.at(cluster.now)


def _same_but_for_time(view: ClusterView, other: ClusterView) -> bool:
    return (
        view.nodes is other.nodes
        and view.storage is other.storage
        and view.index is other.index
        and view.namespaces is other.namespaces
    )


def stands(placement: ScheduleResult, cluster: ClusterView, profile: Profile) -> bool:
    """Whether a placement holds without the nominated pods: it must not depend on being near to one of them."""
    constraints = placement.pod.constraints
    if constraints is None or not constraints.affinity:
        return True
    return on_nominated(placement.pod, placement.node, cluster, profile) is not None


def outranked(pod: Pod, node: str, nominated: ByNode) -> list[Pod]:
    """Return the pods that lose the nomination of a node to a pod: those of lower priority."""
    return [other for other in nominated.get(node, ()) if other.priority < pod.priority]


def on_nominated(pod: Pod, node: str, cluster: ClusterView, profile: Profile) -> ScheduleResult | None:
    """Return the placement on the node nominated for a pod, if it fits there by now: then no others are evaluated."""
    state = cluster.node(node)
    if state is None:
        return None
    judgement = judge(pod, cluster, profile)
    if not judgement.allowed_nodes >> state.number & 1 or judgement.why(state) is not None:
        return None
    return ScheduleResult(pod, node, judgement.info.choice(state).own)
