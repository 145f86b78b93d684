"""Whether a pod that only our gate holds back may go to kube-scheduler: only if what is reserved lets it run.

Volumes that no node reaches together with what the pod asks of its node would leave it pending for ever. And a pod that
finds room only by taking what is booked for another one would leave that one pending; it is let go as soon as the
other has its node. What the pod lacks otherwise, such as room on a full node, kube-scheduler reports, and it may
preempt other pods or have a node added: so a pod that fits nowhere now is let go too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from binder.booking.bookings import Bookings
from binder.booking.node_sets import Booked
from binder.matching.node_fit import reject_node, reject_reach
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Decision, Reject, Wait
from binder.model.view import View
from binder.model.waiting_pod import WaitingPod
from binder.planning.pod_claims import NOTHING_LEFT
from kube.objects.model import Node, Pod, Volume


def let_go(view: View, decision: Decision, bookings: Bookings) -> Decision:
    """Return the decision about a pod of which nothing is left to plan, with the node on which it is booked, or why it
    has to wait behind its gate.
    """
    if not isinstance(decision, Wait) or decision.reason not in NOTHING_LEFT:
        return decision
    booked = bookings.of(decision.pod.key)
    if booked is None or not view.settings.annotations.carries_gate(decision.pod):
        return decision
    node = bookings.place_of(booked)
    if node:
        return replace(decision, node=node)
    if not booked.possible:
        # A node may still be added from which a bound volume is accessible: autoscalers do not look at gated pods.
        kept = not booked.waiting.bound or bookings.is_contradictory(booked)
        return Reject(decision.pod, Reason.NO_NODE_FITS, (_unreachable(booked),)) if kept else decision
    taken = bookings.place_alone(booked)
    return Reject(decision.pod, Reason.OTHER_POD_PENDING, (_taken(taken),)) if taken else decision


def leaves_a_node(waiting: WaitingPod, nodes: Mapping[str, Node], likely: str = "") -> bool:
    """Whether its volumes leave the pod a node, whatever room that has. `likely` is looked at first.

    Bound volumes may be those of a node that is still to be added, unless they exclude each other.
    """
    pod, volumes = waiting.pod, (*waiting.volumes, *(volume for _, volume in waiting.hints))
    first = nodes.get(likely)
    if any(_fits(pod, volumes, node) for node in chain((first,) if first is not None else (), nodes.values())):
        return True
    if not waiting.bound or any(reject_reach(volumes, node) is None for node in nodes.values()):
        return waiting.bound
    return not all(any(reject_reach((volume,), node) is None for node in nodes.values()) for volume in volumes)


def _fits(pod: Pod, volumes: Sequence[Volume], node: Node) -> bool:
    return reject_reach(volumes, node) is None and reject_node(pod, node) is None


def _unreachable(booked: Booked) -> Rejection:
    volumes = ", ".join(volume.name for volume in booked.volumes)
    wanted = f"a node that fits the pod and from which {volumes} can be reached" if volumes else "the selected node"
    return Rejection(Reason.NO_NODE_FITS, booked.key, wanted, "no such node")


def _taken(node: str) -> Rejection:
    wanted = "room beside the pods that were given volumes there"
    return Rejection(Reason.OTHER_POD_PENDING, node, wanted, "room only until those pods are scheduled")
