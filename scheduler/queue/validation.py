"""Why a pod is not queued: an invalid field, or a rule that only kube-scheduler implements."""

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Pod
from kube.rules.pod_validation import problems
from kube.rules.unsupported import unsupported


def reject_pod(pod: Pod) -> Rejection | None:
    """Return the first reason not to queue the pod, or None."""
    problem = next(iter(problems(pod)), None)
    if problem is not None:
        return Rejection(Reason.POD_INVALID, pod.key, f"{problem.expected} in {problem.path}", problem.found)
    field = next(iter(unsupported(pod)), None)
    if field is None:
        return None
    return Rejection(Reason.POD_UNSUPPORTED, pod.key, "a pod that this scheduler supports", f"{field}, not supported")
