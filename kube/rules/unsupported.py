"""What a pod asks of its node by rules of kube-scheduler that are not ours: to place it would be a guess.

Noticed are the fields that Kubernetes 1.36 has for them (plugins dynamicresources, nodedeclaredfeatures, gangscheduling
and topologyaware), wherever they stand in the pod, and values that are new in fields we read
(`kube.rules.pod_validation`). Not noticed is a field that a later Kubernetes adds, because a decoder drops what it does
not know; an extended resource that a DeviceClass offers under a name of its own, which looks like one that no node has
and is refused as such; and rules of plugins that a cluster adds to its own kube-scheduler.
"""

from kube.objects.model import Pod
from kube.rules.pod_validation import problems


def unsupported(pod: Pod) -> tuple[str, ...]:
    """Return the pod's fields whose rules are not implemented, in words."""
    return pod.constraints.unsupported if pod.constraints is not None else ()


def not_understood(pod: Pod) -> tuple[str, ...]:
    """Return everything of the pod that decides about its node and is not understood, in words."""
    return (*unsupported(pod), *(f"{problem.path} {problem.found}" for problem in problems(pod)))
