"""Why a claim is not bound yet, in one word, and where it could be bound, for metrics. No decision depends on it."""

from collections.abc import Mapping

from binder.matching.matching import binding_mode, class_of
from binder.matching.rejection import Reason
from binder.reservation.contract import Annotations
from kube.objects.model import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, Claim, value_of
from kube.rules.topology import zone_of
from kube.store.snapshot import Snapshot


def pending_reason(claim: Claim, snapshot: Snapshot, reasons: Mapping[str, Reason]) -> Reason:
    """Return what the claim waits for: the reason of its pod's last attempt (`reasons`, by claim), else what is on the
    objects.
    """
    # A finished pod waits for nothing; its claim does, for what the objects show.
    if reasons.get(claim.key, Reason.POD_ENDED) is not Reason.POD_ENDED:
        return reasons[claim.key]
    name = class_of(claim)
    if claim.volume_name and claim.volume_name not in snapshot.volumes:
        return Reason.REQUESTED_VOLUME_MISSING
    if name and name not in snapshot.classes:
        return Reason.CLASS_NOT_FOUND
    if claim.key in snapshot.pods_by_claim:
        return Reason.PROGRESSING
    delayed = binding_mode(claim, snapshot.classes) == WAIT_FOR_FIRST_CONSUMER
    return Reason.WAIT_FOR_FIRST_CONSUMER if delayed else Reason.IMMEDIATE_CLAIM


def pending_zone(claim: Claim, snapshot: Snapshot, annotations: Annotations) -> str:
    """Return the one zone in which the claim can be bound, as far as that is determined; empty if it is not.

    By its reservation, the node that a scheduler selected for it, or the node selector of its pod.
    """
    reservation = annotations.held_for(claim, snapshot)
    if reservation is not None and reservation.zone:
        return reservation.zone
    node = snapshot.nodes.get(value_of(claim.annotations, SELECTED_NODE) or "")
    if node is not None:
        return zone_of(node.labels)
    zones = {zone_of(snapshot.pods[pod].node_selector) for pod in snapshot.pods_by_claim.get(claim.key, ())}
    return zones.pop() if len(zones) == 1 else ""
