"""A pod with its claims looked up, and which volumes it takes on a node."""

from collections.abc import Callable
from dataclasses import dataclass

from binder.rejection import Rejection
from kube.model import Claim, Pod, Volume
from scheduler.cluster import NodeState


@dataclass(frozen=True, slots=True)
class NodeVolumes:
    """What becomes of a pod's unbound claims on one node.

    `volumes` are the static volumes kube-scheduler's VolumeBinding takes there, in its order; `provision` the claims
    it has a volume made for. `own` is what our scheduler takes: the reserved volumes first, and none that is held for
    another claim or known sick; None when there is no such choice on the node. `rejection` is VolumeBinding's own
    reason against the node, None when it passes it.
    """

    volumes: tuple[tuple[Claim, Volume], ...] = ()
    provision: tuple[Claim, ...] = ()
    own: tuple[tuple[Claim, Volume], ...] | None = ()
    rejection: Rejection | None = None


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod to be scheduled, and what every storage plugin has to know of it.

    `bound` are the claims that have a volume, `delayed` those for which one is chosen with the node. `rejection` is
    the reason for which the pod fits no node whatever (missing or lost claim, unbound Immediate claim, ...).
    `choice(node)` is what happens on a node; it is worked out once for nodes that are alike.
    """

    pod: Pod
    bound: tuple[tuple[Claim, Volume], ...]
    delayed: tuple[Claim, ...]
    rejection: Rejection | None
    choice: Callable[[NodeState], NodeVolumes]
