"""What a PersistentVolume itself waits for, or is blocked by."""

from collections.abc import Iterator

from binder.assignment.volume_policy import reject_health
from binder.health.published_sweeps import published_sweeps, swept_health
from binder.health.quarantine import in_quarantine
from binder.matching.matching import controller_rejection
from binder.matching.rejection import Reason
from binder.reservation.pins import pins_of
from binder.reservation.set_aside import set_aside_of
from kube.objects.model import Claim, Volume, value_of
from kube.plain_text import shell
from kube.rules.duration import age_text
from why.causes.finding import Finding, Step
from why.causes.leases import look_for_pv_controller, without_pv_controller
from why.causes.lost_volume import replaced
from why.causes.objects import VOLUME, claim_link, older_than_a_minute, volume_link, volume_object
from why.causes.released_volume import given_back, whose_data
from why.causes.reported import last_words
from why.facts.details import VolumeDetails
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link


def volume_terminating(facts: Facts, volume: Volume) -> Finding | None:
    """The volume is being deleted and waits for its finalizers (pv_protection_controller.go)."""
    if not volume.deleting:
        return None
    owner = _owner(facts, volume) if volume.phase == "Bound" and not _lost_its_claim(facts, volume) else ""
    waits = f"{owner} no longer uses it" if owner else "its finalizers are removed"
    details = facts.volumes.get(volume.name) or VolumeDetails()
    finalizers = Evidence(volume_object(volume, "metadata.finalizers"), "none", ", ".join(details.finalizers))
    return Finding(
        Reason.VOLUME_TERMINATING,
        f"The volume is being deleted, and waits until {waits}.",
        (volume_link(volume, "Terminating"),),
        (
            Evidence(volume_object(volume, "metadata.deletionTimestamp"), "not set", "set"),
            *((finalizers,) if details.finalizers else ()),
            *(() if owner else (*_attached(facts, volume), *last_words(facts, VOLUME, volume.name))),
        ),
        (
            Step(
                shell("kubectl get pv {} -o yaml", volume.name),
                "its finalizers name who still needs it; removing one by hand may leak or lose the data",
            ),
        ),
    )


def _attached(facts: Facts, volume: Volume) -> Iterator[Evidence]:
    """Yield the attachments of a volume, which its attacher's finalizer waits for."""
    if not facts.has(Source.ATTACHMENTS):
        return
    nodes = facts.snapshot.nodes if facts.has(Source.NODES) else None
    for attachment in facts.snapshot.attachments.values():
        if attachment.volume_name == volume.name:
            gone = nodes is not None and attachment.node_name not in nodes
            where = f"attached to node {attachment.node_name}{', which does not exist' if gone else ''}"
            yield Evidence(f"volumeattachment/{attachment.name}", "none", where)


def volume_quarantined(facts: Facts, volume: Volume) -> Finding | None:
    """pvc-prebinder withholds the volume from every claim (binder.health.quarantine)."""
    if not in_quarantine(volume, facts.annotations):
        return None
    reason = value_of(volume.annotations, facts.annotations.quarantine) or "no reason given"
    return Finding(
        Reason.QUARANTINED,
        f"pvc-prebinder withholds the volume from all claims: {reason}.",
        (volume_link(volume, "in quarantine"),),
        (Evidence(volume_object(volume, "quarantine"), "a healthy volume", reason),),
        (Step(shell("kubectl get pv {} -o yaml", volume.name), "it is released when its driver reports it healthy"),),
    )


def volume_set_aside(facts: Facts, volume: Volume) -> Finding | None:
    """Mode provision keeps the volume for a pod whose other volumes are being made (binder.reservation.set_aside)."""
    kept = set_aside_of(volume, facts.annotations)
    if kept is None:
        return None
    return Finding(
        Reason.PROGRESSING,
        f"pvc-prebinder keeps the volume for claim {kept.claim} until the other volumes of its pod are made.",
        (volume_link(volume, "set aside"), Link("PersistentVolumeClaim", kept.claim, "")),
        (Evidence(volume_object(volume, "set-aside-for"), "none", kept.claim),),
        problem=False,
    )


def volume_unhealthy(facts: Facts, volume: Volume) -> Finding | None:
    """Its driver, a node or Kubernetes reports the volume unhealthy (KEP-1432; binder.health.reported_health)."""
    facts.has(Source.CLAIMS)
    facts.has(Source.CSI_NODES)
    rejection = reject_health(facts.derived.view, volume, facts.now)
    if rejection is None or rejection.reason is not Reason.UNHEALTHY:
        return None
    return Finding(
        Reason.UNHEALTHY,
        f"The volume is unhealthy: {rejection.offered}.",
        (volume_link(volume, "unhealthy"),),
        (Evidence(volume_object(volume), rejection.wanted, rejection.offered),),
        (
            Step(
                shell("kubectl describe pv {}", volume.name),
                "repair it in its storage; do not delete it while its data matters",
            ),
            *replaced(facts, volume),
        ),
    )


def volume_failed(facts: Facts, volume: Volume) -> Finding | None:
    """The PV controller could not delete or recycle the volume (phase Failed: reclaimVolume in pv_controller.go).

    Its claim was deleted, or got another volume while this one was provisioned for it.
    """
    if volume.phase != "Failed" or _as_if_unclaimed(facts, volume) is not None:
        return None
    details = facts.volumes.get(volume.name)
    words = (Evidence(volume_object(volume, "status.message"), "", f'"{details.message}"'),) if details else ()
    rival = _got_another(facts, volume)
    why = f"after {_deleted(facts, volume)} was deleted" if rival is None else f"which is not needed: {rival[0]}"
    return Finding(
        Reason.VOLUME_FAILED,
        f"The volume could not be reclaimed{' ' if rival is None else ', '}{why}.",
        (volume_link(volume, "Failed"), *(_deleted_owner(facts, volume) if rival is None else (rival[1],))),
        (
            Evidence(volume_object(volume, "spec.persistentVolumeReclaimPolicy"), "", volume.reclaim_policy),
            *(words if details and details.message else last_words(facts, VOLUME, volume.name)),
        ),
        (
            Step(
                shell("kubectl describe pv {}", volume.name),
                "mend what its message names, and Kubernetes tries again; delete the volume yourself only if its data "
                "is not needed: that of the storage may be lost or left behind",
            ),
        ),
    )


def volume_released(facts: Facts, volume: Volume) -> Finding | None:
    """Its claim was deleted; with policy Retain it stays, with its data, until an administrator decides
    (syncVolume).
    """
    if volume.phase not in {"Released", "Failed"}:
        return None
    stale = _as_if_unclaimed(facts, volume)
    if stale is not None:
        return stale
    if volume.claim is None:
        return _given_back(facts, volume)
    rival = _got_another(facts, volume)
    is_kept = volume.reclaim_policy != "Delete"
    step = given_back(facts, volume, volume.claim)
    if not is_kept:
        step = Step(
            shell("kubectl describe pv {}", volume.name),
            "its policy is Delete: its driver deletes it with its data; its Events say what keeps it from that",
        )
    return Finding(
        Reason.VOLUME_RELEASED,
        f"The volume is Released: it holds the data of {_again(facts, volume)}{whose_data(volume)}, which was deleted."
        if rival is None
        else f"The volume is Released: {rival[0]}.",
        (volume_link(volume, volume.phase), *(_deleted_owner(facts, volume) if rival is None else (rival[1],))),
        (
            Evidence(volume_object(volume, "spec.persistentVolumeReclaimPolicy"), "", volume.reclaim_policy),
            *(() if is_kept else last_words(facts, VOLUME, volume.name)),
        ),
        (step,),
    )


def _given_back(facts: Facts, volume: Volume) -> Finding:
    """Return that an administrator removed the claimRef, and that the PV controller has not processed that."""
    return Finding(
        Reason.VOLUME_RELEASED,
        f"The volume is {volume.phase}, and names no claim any more: the PV controller has not made it Available yet.",
        (volume_link(volume, volume.phase),),
        (Evidence(volume_object(volume, "status.phase"), "Available", volume.phase), *without_pv_controller(facts)),
        (look_for_pv_controller(),),
    )


def _living_claim(facts: Facts, volume: Volume) -> Claim | None:
    """Return the claim that the volume names, if it is known to exist; one created later with its name is another."""
    claim = None if volume.claim is None else facts.snapshot.claims.get(volume.claim.key)
    # Some tools leave out uids when they write a dump.
    return claim if claim is not None and volume.claim is not None and claim.uid in {"", volume.claim.uid} else None


def _as_if_unclaimed(facts: Facts, volume: Volume) -> Finding | None:
    """The phase says that the claim is gone, and it exists and has no other volume (syncVolume corrects it)."""
    claim = _living_claim(facts, volume)
    if claim is None or claim.volume_name not in {"", volume.name}:
        return None
    return Finding(
        Reason.VOLUME_FAILED,
        f"The volume is {volume.phase}, as if its claim {claim.key} had been deleted, which exists.",
        (volume_link(volume, volume.phase), claim_link(claim)),
        (
            Evidence(volume_object(volume, "status.phase"), "Bound", volume.phase),
            *without_pv_controller(facts),
        ),
        (
            Step(
                look_for_pv_controller().command,
                "the PV controller corrects the phase if it runs; do not delete the volume or its claimRef: its data "
                "is in use, and would be lost",
            ),
        ),
    )


def _got_another(facts: Facts, volume: Volume) -> tuple[str, Link] | None:
    """Return that the volume's claim exists and has another volume, so that this one was made in vain (syncVolume)."""
    claim = _living_claim(facts, volume)
    if claim is None or claim.volume_name in {"", volume.name}:
        return None
    return f"claim {claim.key} got volume {claim.volume_name} instead", claim_link(claim)


def _deleted(facts: Facts, volume: Volume) -> str:
    """Return the claim that the volume names, and that was deleted."""
    return _again(facts, volume) + (_owner(facts, volume) or "its claim")


def _again(facts: Facts, volume: Volume) -> str:
    namesake = None if volume.claim is None else facts.snapshot.claims.get(volume.claim.key)
    return "" if namesake is None else "an earlier "


def volume_orphaned(facts: Facts, volume: Volume) -> Finding | None:
    """Its claim was deleted, or has another volume, and the PV controller has not released it (syncVolume).

    A claimRef with a uid ties it to that claim whatever its phase is.
    """
    if volume.phase not in {"Bound", "Available"}:
        return None
    rival = _got_another(facts, volume)
    links: tuple[Link, ...]
    if rival is not None:
        offered, link = rival
        links = (link,)
        state, wanted = f"{volume.phase}, and {offered}", "a claim that has this volume"
    elif _lost_its_claim(facts, volume):
        tied = "Bound to" if volume.phase == "Bound" else f"{volume.phase} for"
        links = _deleted_owner(facts, volume)
        state, wanted = f"{tied} {_deleted(facts, volume)}, which was deleted", "a claim that exists"
        offered = "none"
    else:
        return None
    return Finding(
        Reason.VOLUME_RELEASED,
        f"The volume is {state}: the PV controller has not released it.",
        (volume_link(volume, volume.phase), *links),
        (Evidence(volume_object(volume, "spec.claimRef"), wanted, offered), *without_pv_controller(facts)),
        (look_for_pv_controller(),),
    )


def _lost_its_claim(facts: Facts, volume: Volume) -> bool:
    """Whether the volume was bound to a claim that does not exist any more, as far as that is known."""
    was_bound = volume.claim is not None and bool(volume.claim.uid)
    return was_bound and _living_claim(facts, volume) is None and _is_known_whole(facts, volume)


def _is_known_whole(facts: Facts, volume: Volume) -> bool:
    """Whether every claim of the namespace that the volume names was read."""
    if volume.claim is None or not facts.has(Source.CLAIMS):
        return False
    return facts.everywhere or facts.namespace == volume.claim.namespace


def volume_not_processed(facts: Facts, volume: Volume) -> Finding | None:
    """A new volume whose phase the PV controller has not set yet (syncVolume in pv_controller.go): no claim gets it."""
    if volume.phase not in {"", "Pending"}:
        return None
    is_old = older_than_a_minute(facts, volume.created)
    return Finding(
        Reason.PROGRESSING,
        "The volume is not Available yet: the PV controller has not processed it.",
        (volume_link(volume),),
        (
            Evidence(volume_object(volume, "status.phase"), "Available", volume.phase or "none"),
            *(without_pv_controller(facts) if is_old else ()),
        ),
        (look_for_pv_controller(),),
        problem=is_old,
    )


def volume_as_it_should_be(facts: Facts, volume: Volume) -> Finding:
    """Return the state of a volume without a problem."""
    owner = _owner(facts, volume)
    if volume.phase == "Bound":
        message = f"Bound to {owner or 'a claim'}."
        return Finding(Reason.BOUND, message, (volume_link(volume, "Bound"),), _probed(facts, volume), problem=False)
    reservation, pins = facts.annotations.reservation_of(volume), pins_of(volume, facts.annotations)
    if pins is not None:
        whose = str(pins) if _may_be_named(facts, pins.claim) else "kept for a claim"
        message = f"Available, and not free: {whose} (pvc-prebinder)."
    elif reservation is not None and reservation.in_force(facts.now):
        until = f"{reservation.expires_at:%H:%M:%S}Z"
        taker = f"claim {reservation.claim}" if _may_be_named(facts, reservation.claim) else "a claim"
        message = f"Available, and reserved by pvc-prebinder for {taker} until {until}."
    else:
        why_not = _not_taken(facts, volume)
        message = f"Available, for {owner} only{why_not}." if owner else "Available: no claim is bound to it."
    return Finding(
        Reason.AVAILABLE, message, (volume_link(volume, volume.phase),), _probed(facts, volume), problem=False
    )


def _not_taken(facts: Facts, volume: Volume) -> str:
    """Return why the claim that an administrator wrote into the volume does not get it, empty if it may."""
    if volume.claim is None or not _is_known_whole(facts, volume):
        return ""
    claim = facts.snapshot.claims.get(volume.claim.key)
    if claim is None:
        return ", which does not exist"
    if claim.volume_name not in {"", volume.name}:
        return f", which has volume {claim.volume_name}"
    rejection = controller_rejection(claim, volume, delayed=False)
    return f", which it does not fit: {rejection}" if rejection is not None else ""


def _probed(facts: Facts, volume: Volume) -> tuple[Evidence, ...]:
    """Return when the volume's driver was probed by a complete sweep of ours, and the result."""
    if not volume.driver or not facts.has(Source.LEASES):
        return ()
    sweeps = [
        sweep for key, lease in facts.leases.items() if lease.sweeps for sweep in published_sweeps(lease.sweeps, key)
    ]
    swept = swept_health(volume, sweeps, facts.annotations, facts.now)
    if swept is None or not swept.covered:
        return ()
    probe = f"{swept.finding.state}, probed {age_text(facts.now - swept.ended)} ago"
    return (Evidence(volume_object(volume, "health"), "", probe),)


def _deleted_owner(facts: Facts, volume: Volume) -> tuple[Link, ...]:
    """Return the link to the claim that the volume names, if its name may be shown."""
    if volume.claim is None or not _may_be_named(facts, volume.claim.key):
        return ()
    return (Link("PersistentVolumeClaim", volume.claim.key, "deleted"),)


def _owner(facts: Facts, volume: Volume) -> str:
    """Return the claim that the volume names, if its name may be shown."""
    if volume.claim is None or not volume.claim.name:
        return ""
    known = volume.claim.key
    return f"claim {known}" if _may_be_named(facts, known) else "a claim of another namespace"


def _may_be_named(facts: Facts, claim_key: str) -> bool:
    is_own = bool(facts.namespace) and claim_key.startswith(f"{facts.namespace}/")
    return facts.everywhere or is_own or claim_key in facts.snapshot.claims
