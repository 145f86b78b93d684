"""Scores by a pod's preferences about nodes: preferred node affinity, and PreferNoSchedule taints.

Source: plugins/nodeaffinity/node_affinity.go, plugins/tainttoleration/taint_toleration.go and
plugins/helper/normalize_score.go.
"""

from collections.abc import Sequence

from kube.objects.constraints import NO_CONSTRAINTS
from kube.rules.taints import tolerates
from scheduler.framework.plugin import MAX_NODE_SCORE, Score
from scheduler.framework.profile import Thresholds
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import PodInfo


class PreferredNodeAffinity(Score):
    """Prefers the node that matches preferences of the greatest weight, the pod's and those of the profile."""

    name = "PreferredNodeAffinity"
    args = Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        self._added = thresholds.added_affinity.preferred

    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        constraints = info.pod.constraints or NO_CONSTRAINTS
        preferred = (*constraints.preferred_nodes, *self._added)
        if not preferred:
            return None
        wishes = [
            (preference.weight, cluster.index.matching((preference.term,)))
            for preference in preferred
            if preference.weight
        ]
        return normalised([sum(weight for weight, bits in wishes if bits >> state.number & 1) for state in nodes])


class PreferNoSchedule(Score):
    """Prefers the node with the fewest taints of effect PreferNoSchedule that the pod does not tolerate."""

    name = "PreferNoSchedule"

    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        tolerations = info.pod.tolerations
        unwelcome = [
            bits
            for taint, bits in cluster.index.wishes.items()
            if taint.effect == "PreferNoSchedule"
            and not any(tolerates(toleration, taint) for toleration in tolerations)
        ]
        if not unwelcome:
            return None
        counts = [sum(bits >> state.number & 1 for bits in unwelcome) for state in nodes]
        return [MAX_NODE_SCORE - score for score in normalised(counts)]


def normalised(counts: Sequence[int]) -> list[int]:
    """Scale so that the greatest is MAX_NODE_SCORE; all zero stays zero."""
    most = max(counts, default=0)
    return [MAX_NODE_SCORE * count // most for count in counts] if most else list(counts)
