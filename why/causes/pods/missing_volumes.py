"""Causes in claims for which no usable node has a volume: which of the pod's claims it is, and what it lacks."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from binder.matching.evidence import affinity_text, quantity_text
from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE, Claim, Pod, StorageClass, Volume, value_of
from kube.plain_text import shell
from kube.rules.selectors import label_keys
from kube.rules.topology import is_a_node, place_text
from scheduler.volumes.volume_binding import PodClaims, choose_volumes
from why.causes.claims.capacity import room_step, unpublished_capacity
from why.causes.finding import Finding, Step
from why.causes.objects import (
    claim_link,
    fits_some_volume,
    on_pod,
    own_volume,
    place_object,
    place_of,
    pod_link,
    smallest_fitting,
    unannotate,
)
from why.causes.pods.node_verdicts import ClaimVerdicts, NodeVerdicts, claim_verdicts, node_verdicts
from why.causes.pods.remedy import remedy
from why.causes.pods.topology import settled
from why.facts.facts import Facts
from why.report.report import Evidence

_MAX_SHOWN: Final = 4

_TELLING: Final = (Reason.INSUFFICIENT_STORAGE, Reason.TOPOLOGY_NOT_ALLOWED)
"""Reasons against nodes that are more specific than the lack of a volume."""


@dataclass(frozen=True, slots=True)
class _Blame:
    """The claim to which it is due, why, and what to do."""

    claim: Claim
    code: Reason
    message: str
    step: Step


def volumes_rule_out_nodes(facts: Facts, pod: Pod) -> Finding | None:
    """Nodes that could run the pod have no volume for its claims, and cannot get any (findMatchingVolumes in
    binder.go).
    """
    claims = settled(facts, pod)
    if claims is None or not claims.delayed:
        return None
    verdicts = node_verdicts(facts, pod)
    if not verdicts.usable or verdicts.any_fits:
        return None
    blame = _stale(claims) or _of_places(facts, pod, claims, verdicts)
    evidence = [Evidence(place, "", words) for place, words in verdicts.places]
    rejections = (
        Evidence("nodes", rejection.wanted.partition(" for ")[0], rejection.offered)
        for rejection in verdicts.against_usable
    )
    evidence += list(dict.fromkeys(rejections))[:_MAX_SHOWN]
    elsewhere = smallest_fitting(facts, blame.claim) if blame.code is Reason.TOPOLOGY_CONFLICT else None
    if elsewhere is not None:
        evidence.append(Evidence(place_object(elsewhere), "access from a usable node", place_of(elsewhere)))
    links = (pod_link(pod), claim_link(blame.claim))
    # Where there is a volume, or room for one, a node may be made usable instead.
    instead = (remedy(verdicts, ""),) if blame.code in _TELLING and verdicts.served else ()
    return Finding(blame.code, blame.message, links, tuple(evidence), (blame.step, *instead))


def _stale(claims: PodClaims) -> _Blame | None:
    """Blame a claim whose volume is to be made for a node that cannot take the pod."""
    for claim in claims.delayed:
        selected = value_of(claim.annotations, SELECTED_NODE)
        if selected is not None:
            step = Step(
                unannotate(claim, SELECTED_NODE),
                "lets the scheduler choose a node again; check first that the driver has no volume for the claim",
            )
            message = f"A volume is to be provisioned for node {selected}, which cannot run the pod."
            return _Blame(claim, Reason.SELECTED_NODE_STALE, message, step)
    return None


def _of_places(facts: Facts, pod: Pod, claims: PodClaims, verdicts: NodeVerdicts) -> _Blame:
    each = claim_verdicts(facts, pod, claims)
    without = next((candidate for candidate in each if not candidate.served), None)
    if without is not None:
        return _of_one(facts, without, verdicts)
    near = {verdict.node.name for verdict in verdicts.usable if verdict.reaches} or each[0].served
    common = set.intersection(*(set(candidate.served) for candidate in each)) & near
    if common:
        return _of_rivals(facts, pod, claims, common)
    odd, reached = _odd_one(facts, each, near)
    if not odd.served & near:
        gets = "can get a volume" if any(code in odd.reasons for code in _TELLING) else "has volumes"
        message = f"Claim {odd.claim.name} {gets} only on nodes without access to the pod's other volumes."
    else:
        message = "Each of the pod's claims has a volume on some node that could run the pod, and no node has all."
    return _Blame(odd.claim, Reason.TOPOLOGY_CONFLICT, message, _way_to_more(facts, odd, reached))


def _way_to_more(facts: Facts, odd: ClaimVerdicts, reached: Set[str]) -> Step:
    """Return what gives the claim a volume on these nodes: of its provisioner, if its class has one."""
    if Reason.INSUFFICIENT_STORAGE in odd.reasons:
        where = f"node {min(reached)}" if len(reached) == 1 else "one of the other nodes"
        return replace(room_step(), note=f"add capacity for claim {odd.claim.name} that {where} can access")
    if Reason.TOPOLOGY_NOT_ALLOWED in odd.reasons:
        return _allowed_step(facts.snapshot.classes[class_of(odd.claim)])
    return _more(facts, odd.claim, reached)


def _odd_one(facts: Facts, each: Sequence[ClaimVerdicts], near: Set[str]) -> tuple[ClaimVerdicts, Set[str]]:
    """Return the claim without which the others have a common node, and the nodes where it needs a volume.

    One that is tied to a volume is the last to be moved, one with the fewest nodes the first.
    """
    places = {
        number: set(near).intersection(*(other.served for other in each if other is not candidate))
        for number, candidate in enumerate(each)
    }
    helpful = [number for number, nodes in places.items() if nodes] or [*places]

    def order(number: int) -> tuple[bool, int, int]:
        candidate = each[number]
        return own_volume(facts, candidate.claim) is not None, len(candidate.served & near), -candidate.claim.request

    first = min(helpful, key=order)
    return each[first], places[first] or near


def _of_rivals(facts: Facts, pod: Pod, claims: PodClaims, common: Set[str]) -> _Blame:
    """Blame the claim for which no volume is left on a node that has one for each of the claims by itself."""
    node = facts.snapshot.nodes[min(common)]
    wanted = sorted(claims.wanted, key=lambda claim: (claim.request, claim.key))
    served = 0
    while served < len(wanted) - 1:
        some = PodClaims(delayed=claims.delayed, wanted=tuple(wanted[: served + 1]))
        if choose_volumes(some, node, facts.snapshot, facts.derived.view.index).rejections:
            break
        served += 1
    claim = wanted[served]
    if wanted.count(claim) > 1:
        message = f"The pod names claim {claim.name} more than once, and the scheduler looks for a volume each time."
        note = "let one volume of the pod name the claim, and mount it more than once"
        step = Step(f"{on_pod('get', pod)} -o yaml", note)
        return _Blame(claim, Reason.NO_VOLUME_FITS, message, step)
    message = f"The pod's claims fit the same volumes of a node, and none is left there for claim {claim.name}."
    return _Blame(claim, Reason.NO_VOLUME_FITS, message, _more(facts, claim, common))


def _of_one(facts: Facts, verdict: ClaimVerdicts, verdicts: NodeVerdicts) -> _Blame:
    """Blame a claim for which no usable node has a volume."""
    claim = verdict.claim
    storage_class = facts.snapshot.classes[class_of(claim)]
    telling = next((code for code in _TELLING if code in verdict.reasons), None)
    usable = {each.node.name for each in verdicts.usable}
    if telling is Reason.TOPOLOGY_NOT_ALLOWED:
        message = f"Class {storage_class.name} provisions volumes only where no node can run the pod."
        return _Blame(claim, telling, message, _allowed_step(storage_class))
    unpublished = None if telling is None else unpublished_capacity(facts, storage_class)
    if telling is not None and unpublished is not None:
        return _Blame(claim, telling, unpublished.message, unpublished.step)
    if telling is not None:
        message = f"{storage_class.provisioner} has no room for {quantity_text(claim.request)} for claim {claim.name} "
        return _Blame(claim, telling, message + "on a node that could run the pod.", room_step())
    if verdicts.served:
        message = "Nodes with a volume for the pod's claims cannot run it, and the others have no volume for them."
        return _Blame(claim, Reason.TOPOLOGY_CONFLICT, message, remedy(verdicts, ""))
    own = own_volume(facts, claim)
    if own is not None:
        return _of_own_volume(claim, own)
    code = Reason.TOPOLOGY_CONFLICT if fits_some_volume(facts, claim) else Reason.NO_VOLUME_FITS
    message = f"No node that could run the pod has a volume for claim {claim.name}."
    return _Blame(claim, code, message, _more(facts, claim, usable))


def _of_own_volume(claim: Claim, volume: Volume) -> _Blame:
    place = place_of(volume)
    there = place if is_a_node(place) else f"a node in {place}"
    message = f"Volume {volume.name} names claim {claim.name} in its claimRef, and no node that could run the pod "
    step = Step(
        shell("kubectl get pv {} -o yaml", volume.name),
        f"it is kept for this claim: let {there} run the pod. Only if nothing on it is needed, "
        "remove its claimRef: that lets the claim have another volume, and any claim take this one and overwrite it",
    )
    return _Blame(claim, Reason.TOPOLOGY_CONFLICT, message + "has access to it.", step)


def _more(facts: Facts, claim: Claim, nodes: Set[str]) -> Step:
    where = f"node {min(nodes)}" if len(nodes) == 1 else "a usable node"
    own = own_volume(facts, claim)
    if own is not None:
        return _of_own_volume(claim, own).step
    return Step(
        shell("kubectl get pv -o wide | grep {}", class_of(claim)) if class_of(claim) else "kubectl get pv -o wide",
        f"add a volume of at least {quantity_text(claim.request)} for claim {claim.name}, accessible from {where}",
    )


def _allowed_step(storage_class: StorageClass) -> Step:
    allowed = storage_class.allowed_topologies
    assert allowed is not None
    place = place_text(allowed) or affinity_text(allowed)
    return Step(
        shell("kubectl get nodes -L {}", ",".join(label_keys(allowed))),
        f"add a node in {place}, or create a class with other allowedTopologies: they are immutable",
    )
