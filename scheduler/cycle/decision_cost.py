"""Whether a decision about a pod is sure to be short, so that it may be made on the event loop.

What users write determines how long a decision takes: terms of affinity are evaluated for nodes or for other pods, and
claims for nodes. Neither the API server nor kube-scheduler limits their number, only the size of a pod, 1.5 MB.
"""

from typing import Final

from kube.objects.memory import size_of
from kube.objects.model import Pod
from kube.pod_topology.pod_groups import PodGroups
from scheduler.state.cluster import ClusterView

MAX_CONSTRAINING_GROUPS: Final = 250
"""Groups of placed pods with terms of affinity: these are evaluated for every other pod."""

MAX_CONSTRAINING_VALUES: Final = 10_000
"""Labels and values that their terms name together, some 10 ms: a pod may have a thousand terms."""

MAX_EVALUATED_BYTES: Final = 20_000_000
"""Bytes of what a pod demands, times the nodes and other groups of equal pods for which it is evaluated: some 50 ms."""

_USUAL: Final = 8
"""Tolerations, labels of a node selector, or requested resources."""

_USUAL_LABELS: Final = 32


def is_short(pod: Pod, view: ClusterView) -> bool:
    """Whether the decision takes some milliseconds. Pods with claims do not count as such.

    What their claims get is evaluated for every node, and what is decided about them waits for writes in any case.
    """
    groups = view.pod_groups
    if pod.claims or not constrain_few(groups):
        return False
    written: list[object] = [pod.constraints, pod.node_affinity]
    if max(map(len, (pod.tolerations, pod.node_selector, pod.requests))) > _USUAL or len(pod.labels) > _USUAL_LABELS:
        written += [pod.tolerations, pod.node_selector, pod.requests, pod.labels]
    elif pod.constraints is None and pod.node_affinity is None:
        return True
    others = sum(map(len, groups.groups.values())) if pod.constraints is not None else 0
    return size_of(tuple(written)) * (len(view.nodes) + others) <= MAX_EVALUATED_BYTES


def constrain_few(groups: PodGroups) -> bool:
    """Whether evaluating what placed pods demand of a newcomer takes some milliseconds."""
    return len(groups.outspoken) <= MAX_CONSTRAINING_GROUPS and groups.outspoken_size <= MAX_CONSTRAINING_VALUES
