"""Why a claim is not bound yet, in one word, for metrics. It never decides anything."""

from collections.abc import Mapping

from binder.matching.matching import binding_mode, class_of
from binder.matching.rejection import Reason
from kube.objects.model import WAIT_FOR_FIRST_CONSUMER, Claim
from kube.store.snapshot import Snapshot


def pending_reason(claim: Claim, snapshot: Snapshot, told: Mapping[str, Reason]) -> Reason:
    """Return what the claim waits for: what the last look at its pod said (`told`, by claim), else what is evident."""
    if claim.key in told:
        return told[claim.key]
    name = class_of(claim)
    if claim.volume_name and claim.volume_name not in snapshot.volumes:
        return Reason.REQUESTED_VOLUME_MISSING
    if name and name not in snapshot.classes:
        return Reason.CLASS_NOT_FOUND
    if claim.key in snapshot.pods_by_claim:
        return Reason.PROGRESSING
    delayed = binding_mode(claim, snapshot.classes) == WAIT_FOR_FIRST_CONSUMER
    return Reason.WAIT_FOR_FIRST_CONSUMER if delayed else Reason.IMMEDIATE_CLAIM
