"""Decides about one pod after the other, as `scheduler.cycle.decide` does, and keeps what the next one can use."""

from kube.model import Pod
from scheduler.cluster import ClusterView
from scheduler.cycle import Unschedulable, decide
from scheduler.plugin import Placement
from scheduler.profile import Profile


class Decider:
    """Decides; the search begins where the one before ended."""

    def decide(self, pod: Pod, view: ClusterView, profile: Profile) -> Placement | Unschedulable:
        """Return where the pod goes."""
        return decide(pod, view, profile)
