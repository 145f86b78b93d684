"""Pods for which nodes are being cleared, and what that means for the pods that are decided meanwhile.

Source: the nominator of pkg/scheduler/backend/queue/nominator.go, and evaluateNominatedNode and
RunFilterPluginsWithNominatedPods of the framework.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kube.model import Pod
from scheduler.cluster import ClusterView, Place
from scheduler.cycle import judge
from scheduler.plugin import Placement
from scheduler.profile import Profile

ByNode = Mapping[str, Sequence[Pod]]
"""Node name -> waiting pods that have it nominated."""


@dataclass(slots=True)
class Nominations:
    """Waiting pods that have a node nominated, as their status says or as was decided before that shows it."""

    _pods: dict[str, Pod] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)

    def put(self, pod: Pod, node: str) -> Place | None:
        """Take a nomination in place of the pod's last one; an empty node takes it back. Return the one that is gone.

        One of another pod, that had the same name before, is gone in any case.
        """
        known, kept = self._pods.get(pod.key), self._nodes.get(pod.key)
        stays = known is not None and kept == node and known.uid == pod.uid
        gone = None if stays else self.remove(pod.key)
        if node:
            self._pods[pod.key], self._nodes[pod.key] = pod, node
        return gone

    def remove(self, pod_key: str) -> Place | None:
        """Forget a pod that is assigned or gone, and return the nomination it had."""
        pod, node = self._pods.pop(pod_key, None), self._nodes.pop(pod_key, "")
        return None if pod is None else (pod, node)

    def of(self, pod_key: str) -> str:
        """Return the node nominated for a pod, empty when there is none."""
        return self._nodes.get(pod_key, "")

    def by_node(self) -> ByNode:
        """Return all of them."""
        found: dict[str, list[Pod]] = {}
        for key, node in self._nodes.items():
            found.setdefault(node, []).append(self._pods[key])
        return found


def reserving(cluster: ClusterView, pod: Pod, nominated: ByNode) -> ClusterView:
    """Return the cluster as a pod may use it: nominated pods of at least its priority are on their nodes already.

    A placement in it has to pass `stands` too.
    """
    moves = [
        (None, (one, node))
        for node, pods in nominated.items()
        if node in cluster.numbers
        for one in pods
        if one.priority >= pod.priority and one.uid != pod.uid
    ]
    return cluster.with_moves(moves) if moves else cluster


def stands(placement: Placement, cluster: ClusterView, profile: Profile) -> bool:
    """Whether a placement holds without the nominated pods: none of them may be the one it has to be near to."""
    said = placement.pod.constraints
    if said is None or not said.affinity:
        return True
    return on_nominated(placement.pod, placement.node, cluster, profile) is not None


def outranked(pod: Pod, node: str, nominated: ByNode) -> list[Pod]:
    """Return the pods that lose the nomination of a node to a pod: those of lower priority."""
    return [one for one in nominated.get(node, ()) if one.priority < pod.priority]


def on_nominated(pod: Pod, node: str, cluster: ClusterView, profile: Profile) -> Placement | None:
    """Return the placement on the node nominated for a pod, if it fits there by now: others are not looked at then."""
    state = cluster.node(node)
    if state is None:
        return None
    judgement = judge(pod, cluster, profile)
    if not judgement.among >> state.number & 1 or judgement.why(state) is not None:
        return None
    return Placement(pod, node, judgement.info.choice(state).own)
