"""Whether a pod that only our gate holds back may go to kube-scheduler: only if what is reserved lets it run.

Volumes that no node reaches together with what the pod asks of its node would leave it pending for ever. And a pod that
finds room only by taking what is booked for another one would leave that one pending; it is let go as soon as the
other has its node. What the pod lacks otherwise, such as room on a full node, kube-scheduler reports, and it may
preempt other pods or have a node added: so a pod that fits nowhere now is let go too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from binder.booking.bookings import Bookings
from binder.matching.node_fit import reaches, reject_node, reject_reach
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Decision, Reject, Wait
from binder.model.view import View
from binder.model.waiting_pod import WaitingPod, waiting_pod
from binder.planning.pod_claims import NOTHING_LEFT
from kube.objects.model import Node, Pod, Volume
from kube.rules.topology import HOSTNAME_LABEL


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
        # A pod that other nodes can take is booked on the first of them: kube-scheduler may choose another one.
        beside = frozenset[str]() if booked.is_movable else frozenset(bookings.at(node))
        return replace(decision, node=node, beside=beside)
    if not booked.possible:
        if leaves_a_node(booked.waiting, view.snapshot.nodes):
            return decision
        return Reject(decision.pod, Reason.NO_NODE_FITS, (_unreachable(decision.pod, booked.volumes),))
    taken = bookings.place_alone(booked)
    if not taken:
        return decision
    gated = any(not other.waiting.released for other in bookings.at(taken).values())
    return Reject(decision.pod, Reason.OTHER_POD_PENDING, (_taken(taken),), behind_gated=gated)


def unreached(view: View, pod: Pod) -> Reject | None:
    """Return a rejection if the pod's volumes, bound or about to be, leave it no node."""
    waiting = waiting_pod(view.snapshot, view.settings.annotations, pod, view.ledger)
    if waiting is None or leaves_a_node(waiting, view.snapshot.nodes):
        return None
    return Reject(pod, Reason.NO_NODE_FITS, (_unreachable(pod, waiting.volumes),))


def leaves_a_node(waiting: WaitingPod, nodes: Mapping[str, Node], likely: str = "") -> bool:
    """Whether its volumes leave the pod a node, whatever room that has. `likely` is looked at first.

    For bound volumes a node that is still to be added counts as well, because autoscalers do not look at gated pods:
    unless the volumes exclude each other, or the pod's node selector. So it does for those committed ahead of a node.
    """
    pod, volumes = waiting.pod, (*waiting.volumes, *(volume for _, volume in waiting.hints))
    first = (nodes[name] for name in (likely, *_hosts(volumes)) if name in nodes)
    if any(_fits(pod, volumes, node) for node in chain(first, nodes.values())):
        return True
    return (waiting.bound or waiting.ahead is not None) and _could_be_added(pod, volumes, nodes)


def _could_be_added(pod: Pod, volumes: Sequence[Volume], nodes: Mapping[str, Node]) -> bool:
    """Whether a node like the present ones, with the labels that the pod selects, could reach all of the volumes."""
    reaching = [node for node in nodes.values() if reject_reach(volumes, node) is None]
    if reaching:
        selected = dict(pod.node_selector)
        return any(all(reaches(volume, dict(node.labels) | selected) for volume in volumes) for node in reaching)
    return not all(any(reject_reach((volume,), node) is None for node in nodes.values()) for volume in volumes)


def _hosts(volumes: Iterable[Volume]) -> Iterator[str]:
    """Yield what a local volume calls its node: nearly always the node's name, so that no search is needed."""
    for volume in volumes:
        terms = volume.node_affinity.terms if volume.node_affinity is not None else ()
        for requirement in (requirement for term in terms for requirement in term.match_expressions):
            if requirement.key == HOSTNAME_LABEL:
                yield from requirement.values


def _fits(pod: Pod, volumes: Sequence[Volume], node: Node) -> bool:
    return reject_reach(volumes, node) is None and reject_node(pod, node) is None


def _unreachable(pod: Pod, reserved: Iterable[Volume]) -> Rejection:
    volumes = ", ".join(volume.name for volume in reserved)
    wanted = f"a node that fits the pod and from which {volumes} can be reached" if volumes else "the selected node"
    return Rejection(Reason.NO_NODE_FITS, pod.key, wanted, "no such node")


def _taken(node: str) -> Rejection:
    wanted = "room beside the pods that were given volumes there"
    return Rejection(Reason.OTHER_POD_PENDING, node, wanted, "room only until those pods are scheduled")
