"""Which volume kube-scheduler takes for a claim on a node, and for all claims of a pod there, one after another.

Source: `findMatchingVolumes` in pkg/scheduler/framework/plugins/volumebinding/binder.go. The scheduler knows no default
class, and it never reverts a choice: `binder.assignment.assignment` does what it cannot.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial

from binder.matching.controller_match import match_bound, match_requested, no_volume_reason
from binder.matching.match import Match, WhyNot, for_every_volume
from binder.matching.matching import binding_mode, scheduler_rejection
from binder.matching.rejection import Reason
from kube.objects.model import (
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    Node,
    StorageClass,
    Volume,
    value_of,
)
from kube.rules.selectors import node_matches


def match_as_scheduler(
    claim: Claim,
    node: Node,
    classes: Mapping[str, StorageClass],
    volumes: Mapping[str, Volume],
    taken: Mapping[str, str] | None = None,
) -> Match:
    """Return what kube-scheduler does with the claim on the node.

    `taken` maps the volumes chosen for other claims of the pod to those claims. An Immediate claim is matched by the
    same rules, although the scheduler would wait until the PV controller has bound it.
    """
    if claim.bind_completed:
        return match_bound(claim, classes, volumes)
    if claim.volume_name:
        return match_requested(claim, classes, volumes)
    mode = binding_mode(claim, classes)
    if mode is None:
        return Match(
            claim, None, None, Reason.BINDING_MODE_MISSING, for_every_volume(Reason.BINDING_MODE_MISSING), node
        )
    if mode == WAIT_FOR_FIRST_CONSUMER and value_of(claim.annotations, SELECTED_NODE) is not None:
        return Match(claim, mode, None, Reason.PROVISIONING_CHOSEN, for_every_volume(Reason.PROVISIONING_CHOSEN), node)
    return _match_by_rules(claim, mode, node, classes, volumes, taken or {})


def match_pod_as_scheduler(
    claims: Iterable[Claim], node: Node, classes: Mapping[str, StorageClass], volumes: Mapping[str, Volume]
) -> list[Match]:
    """Return what kube-scheduler does with the claims of a pod: the smallest request first, each volume once.

    Equal requests, which upstream leaves undecided, are ordered by the claims' names. Results are in that order.
    """
    taken: dict[str, str] = {}
    matches = []
    for claim in sorted(claims, key=lambda claim: (claim.request, claim.key)):
        match = match_as_scheduler(claim, node, classes, volumes, dict(taken))
        if match.volume is not None:
            taken[match.volume.name] = claim.key
        matches.append(match)
    return matches


def prebound_volume(
    claim: Claim, node_labels: Mapping[str, str] | None, named: Iterable[Volume], taken: Container[str] = ()
) -> Volume | None:
    """Return which of the volumes that name the claim's key is the claim's; without labels for any node.

    It alone decides, even where it is not accessible from the node. `taken` are names of volumes that went to other
    claims of the pod.
    """
    decided = (None, Reason.NODE_AFFINITY_MISMATCH)
    by_name = sorted(named, key=lambda volume: volume.name)
    return next(
        (volume for volume in by_name if scheduler_rejection(claim, volume, node_labels, taken) in decided), None
    )


def volume_taken(
    prebound: Volume | None, node_labels: Mapping[str, str], smallest: Callable[[], Volume | None]
) -> Volume | None:
    """Return the volume that kube-scheduler takes for a claim on a node with these labels (FindMatchingVolume).

    `prebound` is the claim's own, if it has one. `smallest` returns the smallest Available one that fits and is
    accessible from the node; it is called only if nothing is decided.
    """
    if prebound is None:
        return smallest()
    return prebound if node_matches(prebound.node_affinity, node_labels) else None


def _match_by_rules(
    claim: Claim,
    mode: str,
    node: Node,
    classes: Mapping[str, StorageClass],
    volumes: Mapping[str, Volume],
    taken: Mapping[str, str],
) -> Match:
    labels = dict(node.labels)
    reject = partial(scheduler_rejection, claim, node_labels=labels, taken=taken)

    def smallest() -> Volume | None:
        fitting = (volume for volume in volumes.values() if reject(volume) is None)
        return min(fitting, key=lambda volume: (volume.capacity, volume.name), default=None)

    claimed = (volume for volume in volumes.values() if volume.claim is not None)
    prebound = prebound_volume(claim, labels, claimed, taken)
    chosen = volume_taken(prebound, labels, smallest)
    reason = no_volume_reason(claim, classes) if chosen is None else None
    known_mode = None if reason is Reason.CLASS_NOT_FOUND else mode
    return Match(claim, known_mode, chosen, reason, partial(_not_chosen, reject, prebound, chosen), node, taken)


def _not_chosen(reject: WhyNot, prebound: Volume | None, chosen: Volume | None, volume: Volume) -> Reason | None:
    reason = reject(volume)
    if reason is not None:
        return reason
    if prebound is not None:
        return Reason.OTHER_VOLUME_PREBOUND
    if chosen is not None and volume.capacity > chosen.capacity:
        return Reason.LARGER_THAN_CHOSEN
    return Reason.TIED_WITH_CHOSEN
