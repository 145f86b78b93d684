"""Whether our own rules allow an Available volume that Kubernetes would take: reservations, quarantine and health."""

from datetime import datetime

from binder.health.reported_health import reported
from binder.matching.rejection import Reason, Rejection
from binder.model.view import UnknownHealth, View
from binder.reservation.pins import pins_of
from csi.health.sources import HealthReport, combined, combined_finding
from csi.health.topology import contradiction
from csi.health.verdict import HealthState
from kube.objects.model import Claim, Volume, value_of


def reject_use(view: View, volume: Volume, now: datetime, claim: Claim | None = None) -> Rejection | None:
    """Return why the volume must not be planned for the claim (None: for any claim), or None if it may.

    A volume without a recent verdict may be planned: it is probed before anything is written.
    """
    own = (
        _owned(view, volume)
        or _pinned(view, volume)
        or _reserved(view, volume, now, claim)
        or _quarantined(view, volume)
    )
    return own or reject_health(view, volume, now)


def reject_health(view: View, volume: Volume, now: datetime) -> Rejection | None:
    """Return why the volume's health forbids it, or None. The worst of several reports counts."""
    if not volume.driver:
        return None
    settings = view.settings
    others = reported(volume, view.snapshot, view.node_storage, settings.annotations, settings.gated_drivers, now)
    verdict = view.verdicts.get((volume.driver, volume.handle))
    if verdict is None or not verdict.stands(now, settings.health_max_age):
        verdict = view.silent.get(volume.driver)
    if verdict is None:
        worst = combined_finding(others) if any(finding.unhealthy for finding in others) else None
        return None if worst is None else _unhealthy(volume, worst)
    if others:
        verdict = combined(verdict, others)
    if verdict.unhealthy:
        return _unhealthy(volume, verdict)
    misplaced = contradiction(verdict.topology, volume.node_affinity)
    if misplaced is not None:
        return Rejection(
            Reason.TOPOLOGY_CONTRADICTED,
            volume.name,
            "a topology that agrees with the volume's node affinity",
            misplaced,
        )
    if verdict.state is HealthState.UNKNOWN and _blocks_unknown(view, volume.driver):
        return Rejection(
            Reason.HEALTH_UNKNOWN, volume.name, f"a volume whose health {volume.driver} reports", _words(verdict)
        )
    return None


def _owned(view: View, volume: Volume) -> Rejection | None:
    """Reject a volume to which a claim is bound although its claimRef is gone: the PV controller sets that again at its
    next resync (syncBoundClaim in pv_controller.go). An unbound claim's spec.volumeName is only a user's wish.
    """
    snapshot = view.snapshot
    for key in snapshot.claims_by_volume.get(volume.name, ()):
        if volume.claim is None and snapshot.claims[key].bind_completed:
            return Rejection(Reason.CLAIMED_BY_OTHER, volume.name, "an unbound volume", f"claim {key} is bound to it")
    return None


def _pinned(view: View, volume: Volume) -> Rejection | None:
    """Reject a volume that is kept for a name although its claimRef was removed: whose data it holds is not known."""
    pins = pins_of(volume, view.settings.annotations) if volume.claim is None else None
    if pins is None:
        return None
    return Rejection(Reason.RESERVED_FOR_OTHER, volume.name, "an unreserved volume", str(pins))


def _reserved(view: View, volume: Volume, now: datetime, claim: Claim | None) -> Rejection | None:
    hold = view.ledger.keeps(volume.name)
    if hold is not None and not (claim and hold.claim_key == claim.key and hold.claim_uid == claim.uid):
        return _reserved_for(volume, hold.claim_key, "write in progress")
    reservation = view.settings.annotations.reservation_of(volume)
    exempt = [known for known in (claim, view.hints.get(volume.name)) if known is not None]
    if reservation is None or not reservation.excludes(now, *exempt):
        return None
    return _reserved_for(volume, reservation.claim, f"until {reservation.expires_at:%H:%M:%S}Z")


def _reserved_for(volume: Volume, claim_key: str, until: str) -> Rejection:
    return Rejection(
        Reason.RESERVED_FOR_OTHER, volume.name, "an unreserved volume", f"reserved for {claim_key}, {until}"
    )


def _quarantined(view: View, volume: Volume) -> Rejection | None:
    why = value_of(volume.annotations, view.settings.annotations.quarantine)
    return None if why is None else Rejection(Reason.QUARANTINED, volume.name, "a volume not in quarantine", why)


def _blocks_unknown(view: View, driver: str) -> bool:
    policy = view.settings.unknown_health
    if policy is None:
        return driver in view.settings.gated_drivers
    return policy is UnknownHealth.BLOCK


def _unhealthy(volume: Volume, why: HealthReport) -> Rejection:
    return Rejection(Reason.UNHEALTHY, volume.name, "a healthy volume", _words(why))


def _words(why: HealthReport) -> str:
    words = f"{why.state}: {why.reason}" if why.reason else str(why.state)
    return f"{words}, {why.message} ({why.source})" if why.message else f"{words} ({why.source})"
