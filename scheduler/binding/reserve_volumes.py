"""Reserves the chosen volumes for a pod, so that no pod scheduled next gets them too. Pure.

A reservation is a hold in the ledger, from the decision until the cluster itself shows what was written. A claim that
several pods use is reserved once: another pod in flight may use it on the same terms, and on no others.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from binder.assignment.volume_policy import reject_use
from binder.matching.matching import scheduler_rejection
from binder.matching.rejection import Reason, Rejection
from binder.model.ledger import Hold
from kube.objects.model import READ_WRITE_ONCE_POD, Claim, Volume
from kube.persistent_map import Map
from scheduler.framework.plugin import ScheduleResult
from scheduler.state.cluster import ClusterView

_MADE: Final = "to be made for "
"""Stands, with the claim's uid, for a volume that does not exist yet. Names of volumes contain no blanks."""


class ReserveVolumes:
    """The Reserve plugin."""

    name: Final = "ReserveVolumes"

    def reserve(self, placement: ScheduleResult, cluster: ClusterView) -> ClusterView | Rejection:
        """Return the cluster with a hold for each claim of the pod, or why one of them cannot be reserved any more."""
        if not placement.pod.claims:
            return cluster
        rejected = next(_rejections(placement, cluster), None)
        if rejected is not None:
            return rejected
        ledger = cluster.storage.ledger
        # An existing hold belongs to another pod, for the same claim on the same terms: it stays with that pod.
        made = [hold for hold in _holds(placement) if hold.volume not in ledger.holds]
        return replace(cluster, storage=replace(cluster.storage, ledger=ledger.with_holds(made))) if made else cluster


def _rejections(placement: ScheduleResult, cluster: ClusterView) -> Iterator[Rejection]:
    used = _used_alone(placement, cluster)
    if used is not None:
        yield used
    choice = placement.volumes
    for claim, volume in choice.volumes:
        rejected = _reject_otherwise(claim, volume.name, placement.node, cluster) or _reject_volume(
            claim, volume, cluster
        )
        if rejected is not None:
            yield rejected
    for claim in choice.provision:
        rejected = _reject_otherwise(claim, _MADE + claim.uid, placement.node, cluster)
        if rejected is not None:
            yield rejected


def _reject_otherwise(claim: Claim, volume: str, node: str, cluster: ClusterView) -> Rejection | None:
    """Return why the claim is not available like this: for a pod in flight another volume, or another node, is
    reserved.
    """
    for hold in cluster.storage.ledger.of_claim(claim.key):
        same = hold.volume == volume and (hold.node == node or not volume.startswith(_MADE))
        if hold.claim_uid == claim.uid and not same:
            reserved = (
                f"a volume being provisioned for node {hold.node}" if hold.volume.startswith(_MADE) else hold.volume
            )
            return Rejection(
                Reason.CLAIM_RESERVED_ELSEWHERE,
                claim.key,
                "a claim without an assigned volume",
                f"{reserved}, assigned to pod {hold.pod_key}",
            )
    return None


def _reject_volume(claim: Claim, chosen: Volume, cluster: ClusterView) -> Rejection | None:
    """Return why a volume that was Available when it was chosen cannot be reserved now."""
    storage = cluster.storage
    volume = storage.snapshot.volumes.get(chosen.name)
    if volume is None:
        return Rejection(Reason.VOLUME_MISSING, claim.key, f"volume {chosen.name}", "no such volume")
    reason = scheduler_rejection(claim, volume)
    if reason is not None:
        return Rejection(reason, volume.name, f"a volume that matches {claim.key}", "changed since it was chosen")
    # A volume whose claimRef names the claim already belongs to it; whether that was a good choice no longer matters.
    return reject_use(storage, volume, cluster.now, claim) if volume.claim is None else None


def _used_alone(placement: ScheduleResult, cluster: ClusterView) -> Rejection | None:
    """Return why a ReadWriteOncePod claim is not available: a placed or assumed pod uses it (KEP-2485).

    The filter considers pods that the cluster shows; those decided a moment ago are in the view only.
    """
    pod, claims = placement.pod, cluster.storage.snapshot.claims
    for key in pod.claim_keys:
        claim = claims.get(key)
        if claim is None or READ_WRITE_ONCE_POD not in claim.access_modes:
            continue
        user = next((other for other in cluster.claim_users.get(key, Map()) if other != pod.key), None)
        if user is not None:
            wanted = f"exclusive use of claim {key} ({READ_WRITE_ONCE_POD})"
            return Rejection(Reason.VOLUME_IN_USE, placement.node, wanted, f"in use by pod {user}")
    return None


def _holds(placement: ScheduleResult) -> Iterator[Hold]:
    pod, choice = placement.pod, placement.volumes
    names = [(claim, volume.name) for claim, volume in choice.volumes]
    names += [(claim, _MADE + claim.uid) for claim in choice.provision]
    for claim, volume in names:
        # The view counts the pod on its node; the hold books nothing besides.
        yield Hold(volume, claim.key, claim.uid, pod.key, placement.node)
