"""One scheduling cycle: a pod, a view of the cluster and a profile in, a placement or the reasons against it out.

As schedulePod in pkg/scheduler/schedule_one.go, without its chance: of nodes that score alike the first by a rotating
start wins, so the same input gives the same answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from binder.rejection import Rejection
from kube.model import Pod
from scheduler.cluster import ClusterView, NodeState
from scheduler.plugin import NodeRule, Placement
from scheduler.profile import Profile
from scheduler.volumes import PodInfo

_FEWEST_NODES: Final = 100
"""Clusters up to this size are looked at whole (minFeasibleNodesToFind)."""

_LEAST_PERCENTAGE: Final = 5


@dataclass(frozen=True, slots=True)
class Judgement:
    """All filters of a profile, prepared for one pod.

    `rejection` is why the pod fits no node at all; `among` the only nodes to look at, as bits by number.
    """

    info: PodInfo
    rejection: Rejection | None
    among: int
    rules: tuple[tuple[str, NodeRule], ...]

    def why(self, node: NodeState) -> Rejection | None:
        """Return why the node is refused: the first reason in the profile's order, None when it fits."""
        if self.rejection is not None:
            return self.rejection
        return next((found for _, rule in self.rules if (found := rule.why(node)) is not None), None)


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node was found. `judgement` tells why, node by node, when asked."""

    judgement: Judgement
    cluster: ClusterView

    def rejections(self) -> Iterator[Rejection]:
        """Yield the reason of every node, or the one reason there is for the pod as a whole."""
        if self.judgement.rejection is not None:
            yield self.judgement.rejection
            return
        for node in self.cluster.nodes:
            found = self.judgement.why(node)
            if found is not None:
                yield found


def judge(pod: Pod, cluster: ClusterView, profile: Profile) -> Judgement:
    """Prepare the profile's filters for a pod."""
    raise NotImplementedError


def feasible(judgement: Judgement, cluster: ClusterView, profile: Profile, start: int = 0) -> Sequence[NodeState]:
    """Return nodes that fit, looking from node number `start` on, no more of them than the profile wants to score."""
    raise NotImplementedError


def totals(info: PodInfo, cluster: ClusterView, profile: Profile, nodes: Sequence[NodeState]) -> Sequence[int]:
    """Return the weighted sum of all scores for each of the nodes."""
    raise NotImplementedError


def breakdown(
    info: PodInfo, cluster: ClusterView, profile: Profile, nodes: Sequence[NodeState]
) -> Mapping[str, Sequence[int]]:
    """Return the scores of each plugin that had something to say, by its name, before weighting."""
    raise NotImplementedError


def decide(pod: Pod, cluster: ClusterView, profile: Profile, start: int = 0) -> Placement | Unschedulable:
    """Return where the pod goes."""
    raise NotImplementedError
