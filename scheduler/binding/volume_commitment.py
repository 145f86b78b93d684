"""How far a pod's claims are from being bound, and what may still be written for them. Pure.

As checkBindings in pkg/scheduler/framework/plugins/volumebinding/binder.go, and stricter: a claim that is deleted or
that got a volume not accessible from the node ends the attempt at once.
"""

from datetime import datetime

from binder.assignment.volume_policy import reject_use
from binder.health.node_storage import reject_storage
from binder.matching.claim_state import state_rejection, unusable_state
from binder.matching.matching import controller_rejection, is_mine, provisioner_of, scheduler_rejection
from binder.matching.rejection import Reason, Rejection
from binder.model.view import View
from kube.objects.model import PROVISIONER_ANNOTATIONS, SELECTED_NODE, Claim, Node, Pod, Volume, value_of
from kube.rules.selectors import node_matches
from kube.store.snapshot import Snapshot
from scheduler.framework.plugin import ScheduleResult
from scheduler.volumes.volume_binding import reject_provisioning


def refers_to(volume: Volume, claim: Claim) -> bool:
    """Whether the volume's claimRef refers to exactly this claim, its uid included."""
    return volume.claim is not None and bool(volume.claim.uid) and is_mine(claim, volume)


def is_written(claim: Claim, volume: Volume | None, node_name: str, snapshot: Snapshot) -> bool:
    """Whether everything is written for the claim: the volume's claimRef or, without a volume, the selected node.

    A claim that has a volume needs nothing, whichever it is.
    """
    fresh = snapshot.claims.get(claim.key)
    if fresh is None or fresh.uid != claim.uid:
        return False
    if fresh.volume_name:
        return True
    if volume is None:
        return value_of(fresh.annotations, SELECTED_NODE) == node_name
    taken = snapshot.volumes.get(volume.name)
    return taken is not None and refers_to(taken, claim)


def reject_taking(claim: Claim, volume: Volume, node_name: str, view: View, now: datetime) -> Rejection | None:
    """Return why the volume must not be bound to the claim now, by the latest known state; None if it may.

    Only valid while nothing `is_written`.
    """
    snapshot = view.snapshot
    node = snapshot.nodes.get(node_name)
    rejected = (
        _reject_claim(claim, snapshot) or _reject_node(node_name, node) or _reject_second(claim, volume, snapshot)
    )
    if rejected is not None or node is None:
        return rejected
    fresh = snapshot.volumes.get(volume.name)
    if fresh is None or fresh.uid != volume.uid:
        return _volume_gone(volume, claim)
    reason = scheduler_rejection(claim, fresh, dict(node.labels))
    if reason is not None:
        return Rejection(reason, volume.name, f"a volume for {claim.key} on node {node_name}", _state(fresh))
    selected = value_of(snapshot.claims[claim.key].annotations, SELECTED_NODE)
    if selected is not None:
        state = f"one is being provisioned for node {selected}"
        return Rejection(Reason.PROVISIONING_CHOSEN, claim.key, "a claim that waits for the pod to be scheduled", state)
    unreached = reject_storage([fresh.driver], snapshot, node_name)
    return unreached or (reject_use(view, fresh, now, claim) if fresh.claim is None else None)


def reject_selecting(claim: Claim, node_name: str, snapshot: Snapshot) -> Rejection | None:
    """Return why no volume must be provisioned for the claim and this node now; None if one may be.

    Only valid while nothing `is_written`.
    """
    node = snapshot.nodes.get(node_name)
    rejected = _reject_claim(claim, snapshot) or _reject_node(node_name, node) or _reject_second(claim, None, snapshot)
    if rejected is not None or node is None:
        return rejected
    fresh = snapshot.claims[claim.key]
    selected = value_of(fresh.annotations, SELECTED_NODE)
    if selected not in {None, node_name}:
        state = f"selected for provisioning: node {selected}"
        return Rejection(Reason.PROVISIONING_ELSEWHERE, claim.key, f"a volume for node {node_name}", state)
    unreached = reject_storage([provisioner_of(fresh, snapshot.classes)], snapshot, node_name)
    return reject_provisioning(fresh, node, snapshot) or unreached


def progress(placement: ScheduleResult, pod: Pod | None, snapshot: Snapshot) -> bool | Rejection:
    """Return whether all claims are bound by now, or why they will not be for this node.

    `pod` is the one that waits to be scheduled, None if it does not exist any more.
    """
    if pod is None or pod.uid != placement.pod.uid or pod.deleting:
        return Rejection(
            Reason.POD_ENDED,
            placement.pod.key,
            "a pod that waits for its node",
            "deleted, or bound by another scheduler",
        )
    node = snapshot.nodes.get(placement.node)
    if node is None:
        return _reject_node(placement.node, None) or False
    choice, finished = placement.volumes, True
    for claim, volume in [*choice.volumes, *((claim, None) for claim in choice.provision)]:
        outcome = _reject_claim(claim, snapshot) or _progress(claim, volume, node, snapshot)
        if isinstance(outcome, Rejection):
            return outcome
        finished = finished and outcome
    return finished


def may_deselect(claim: Claim | None, uid: str, node_name: str) -> bool:
    """Whether the selected node may be removed from the claim: no provisioner has been triggered yet."""
    if claim is None or claim.uid != uid or claim.volume_name:
        return False
    requested = any(value_of(claim.annotations, key) is not None for key in PROVISIONER_ANNOTATIONS)
    return value_of(claim.annotations, SELECTED_NODE) == node_name and not requested


def _progress(claim: Claim, chosen: Volume | None, node: Node, snapshot: Snapshot) -> bool | Rejection:
    fresh = snapshot.claims[claim.key]
    name = fresh.volume_name
    if name:
        # Any volume is acceptable if it is accessible from the node. It may be shown later than the claim.
        volume = snapshot.volumes.get(name)
        unreachable = None if volume is None else _reject_reach(volume, claim, node)
        return unreachable or (volume is not None and fresh.fully_bound)
    if chosen is None:
        selected = value_of(fresh.annotations, SELECTED_NODE)
        if selected == node.name:
            return False
        state = "provisioning was abandoned" if selected is None else f"node {selected} was chosen instead"
        return Rejection(Reason.PROVISIONING_FAILED, claim.key, f"a volume provisioned for node {node.name}", state)
    volume = snapshot.volumes.get(chosen.name)
    if volume is None:
        return _volume_gone(chosen, claim)
    if not refers_to(volume, fresh):
        return Rejection(Reason.CLAIMED_BY_OTHER, volume.name, f"the volume of {claim.key}", _state(volume))
    return _reject_reach(volume, claim, node) or False


def _reject_claim(claim: Claim, snapshot: Snapshot) -> Rejection | None:
    fresh = snapshot.claims.get(claim.key)
    if fresh is None or fresh.uid != claim.uid:
        return Rejection(Reason.CLAIM_NOT_FOUND, claim.key, "the claim that was scheduled", "deleted")
    unusable = unusable_state(fresh)
    return None if unusable is None else state_rejection(claim.key, fresh, unusable)


def _reject_node(name: str, node: Node | None) -> Rejection | None:
    return None if node is not None else Rejection(Reason.NODE_MISSING, name, "an existing node", "deleted")


def _reject_second(claim: Claim, chosen: Volume | None, snapshot: Snapshot) -> Rejection | None:
    """Return why the claim needs no volume: it has another one, and must never have two."""
    for name in snapshot.volumes_by_claim.get(claim.key, ()):
        volume = snapshot.volumes[name]
        if (chosen is None or name != chosen.name) and _is_given(volume, claim):
            wanted = "a claim without a volume" if chosen is None else f"volume {chosen.name}"
            return Rejection(Reason.OTHER_VOLUME_PREBOUND, claim.key, wanted, f"bound to volume {name}")
    return None


def _is_given(volume: Volume, claim: Claim) -> bool:
    """Whether the volume belongs to the claim. By its name alone only if the PV controller would bind the two."""
    if refers_to(volume, claim):
        return True
    return is_mine(claim, volume) and controller_rejection(claim, volume, delayed=True) is None


def _reject_reach(volume: Volume, claim: Claim, node: Node) -> Rejection | None:
    if node_matches(volume.node_affinity, dict(node.labels)):
        return None
    wanted = f"a volume for {claim.key} that is accessible from node {node.name}"
    return Rejection(
        Reason.VOLUME_UNREACHABLE, node.name, wanted, f"volume {volume.name}, which is not accessible from it"
    )


def _volume_gone(volume: Volume, claim: Claim) -> Rejection:
    return Rejection(Reason.VOLUME_MISSING, claim.key, f"volume {volume.name}", "deleted")


def _state(volume: Volume) -> str:
    reference = volume.claim
    if reference is None:
        return f"no claimRef, phase {volume.phase or '(none)'}"
    return f"bound to claim {reference.key}"
