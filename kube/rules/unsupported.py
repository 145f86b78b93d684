"""Scheduling requirements of a pod that only kube-scheduler implements: placing the pod here would be a guess.

Detected are the fields that Kubernetes 1.37 has for them (plugins dynamicresources, nodedeclaredfeatures,
gangscheduling and topologyaware), wherever they occur in the pod, and new values of fields that are read
(`kube.rules.pod_validation`). Not detected are fields that a later Kubernetes version adds, because the decoder ignores
unknown fields; an extended resource that a DeviceClass offers under its own name, which looks like one that no node has
and is rejected as such; and rules of plugins that a cluster adds to its own kube-scheduler.
"""

from kube.objects.model import Pod
from kube.rules.pod_validation import problems


def unsupported(pod: Pod) -> tuple[str, ...]:
    """Return the pod's fields whose rules are not implemented, in words."""
    return pod.constraints.unsupported if pod.constraints is not None else ()


def not_understood(pod: Pod) -> tuple[str, ...]:
    """Return everything of the pod that affects the choice of its node and is not supported, in words."""
    return (*unsupported(pod), *(f"{problem.path} {problem.found}" for problem in problems(pod)))
