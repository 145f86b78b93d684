"""How far the claims of a pod are, as a snapshot shows them: what the reconciler does next depends on it."""

from collections.abc import Iterable, Iterator
from typing import Final

from binder.matching.matching import binding_mode, is_mine
from binder.matching.rejection import Reason
from binder.model.decision import Wait
from binder.reservation.contract import Annotations
from kube.objects.model import WAIT_FOR_FIRST_CONSUMER, Claim, Pod
from kube.store.snapshot import Snapshot

NOTHING_LEFT: Final = frozenset(
    {
        Reason.ALREADY_RESERVED,
        Reason.NO_UNBOUND_CLAIM,
        Reason.DYNAMIC_CLASS,
        Reason.MODE_OFF,
    }
)
"""States in which nothing of ours is missing: from here on the pod is kube-scheduler's."""


def begun(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether a volume names a claim of the pod that is not bound."""
    return any(snapshot.volumes_by_claim.get(claim.key) for claim in open_claims(pod, snapshot))


def claims_of(pod: Pod, snapshot: Snapshot) -> tuple[Claim, ...]:
    """Return the claims of the pod that exist."""
    claims = (snapshot.claims.get(key) for key in pod.claim_keys)
    return tuple(claim for claim in claims if claim is not None)


def open_claims(pod: Pod, snapshot: Snapshot) -> tuple[Claim, ...]:
    """Return the claims of the pod that exist and are not bound."""
    return tuple(claim for claim in claims_of(pod, snapshot) if not claim.bind_finished)


def snapshots_of(pods: Iterable[Pod], snapshot: Snapshot) -> Iterator[str]:
    """Yield the VolumeSnapshots, `namespace/name`, from which volumes of these pods' claims are still to be filled."""
    for pod in pods:
        for claim in open_claims(pod, snapshot):
            if claim.snapshot and not claim.volume_name:
                yield f"{claim.namespace}/{claim.snapshot}"


def all_bound(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether nothing is open: a claim that does not exist yet, as of a generic ephemeral volume, counts as open.

    So does a Lost claim of a gated pod: kube-scheduler does not see the pod, so only this controller can report it.
    """
    claims = [snapshot.claims.get(key) for key in pod.claim_keys]
    if pod.scheduling_gates and any(claim is not None and claim.phase == "Lost" for claim in claims):
        return False
    return all(claim is not None and claim.bind_finished for claim in claims)


def awaits_bind(pod: Pod, snapshot: Snapshot, annotations: Annotations) -> bool:
    """Whether our gate waits until the PV controller has bound a claim of the pod for which we committed a volume.

    kube-scheduler would write the claimRefs of a pod that it sees before that, beside the PV controller: half of those
    writes are lost to conflicts or repeated. And autoscalers believe in bound claims only.
    """
    if not annotations.carries_gate(pod):
        return False
    return any(
        annotations.reservation_of(volume) is not None and is_mine(claim, volume)
        for claim in open_claims(pod, snapshot)
        for volume in map(snapshot.volumes.get, snapshot.volumes_by_claim.get(claim.key, ()))
        if volume is not None
    )


def nothing_left(decision: Wait, snapshot: Snapshot) -> bool:
    """Whether the pod is kube-scheduler's from here on. Beside a claim that is ours an Immediate one is waited for."""
    if decision.reason is not Reason.IMMEDIATE_CLAIM:
        return decision.reason in NOTHING_LEFT
    claims = [snapshot.claims.get(key) for key in decision.pod.claim_keys]
    return all(
        claim is not None and (claim.bind_finished or binding_mode(claim, snapshot.classes) != WAIT_FOR_FIRST_CONSUMER)
        for claim in claims
    )
