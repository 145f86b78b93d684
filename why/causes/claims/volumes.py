"""Causes in existing volumes: the one that a claim requests, and those that might fit."""

from collections.abc import Callable
from itertools import chain

from msgspec.structs import replace

from binder.assignment.volume_policy import reject_use
from binder.health.quarantine import in_quarantine
from binder.matching.controller_match import match_requested
from binder.matching.evidence import quantity_text
from binder.matching.matching import IMMEDIATE, binding_mode, class_of, requested_rejection, scheduler_rejection
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Mode
from binder.model.demand import Demand
from binder.reservation.pins import pins_of
from binder.reservation.set_aside import set_aside_for, set_aside_of
from kube.objects.model import BIND_COMPLETED, WAIT_FOR_FIRST_CONSUMER, Claim, Pod, Volume, value_of
from kube.plain_text import shell
from why.causes.finding import Finding, Step
from why.causes.leases import look_for_pv_controller, without_pv_controller
from why.causes.objects import (
    claim_link,
    claim_object,
    fits_some_volume,
    of_another_class,
    older_than_a_minute,
    on_claim,
    own_volume,
    pod_link,
    smallest_fitting,
    users_of,
    volume_link,
    volume_object,
    with_default_class,
)
from why.causes.released_volume import given_to, whose_data
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link


def requested_missing(facts: Facts, claim: Claim) -> Finding | None:
    """`spec.volumeName` names no volume. Upstream reports nothing about it (syncUnboundClaim in pv_controller.go)."""
    if not _requests_volume(claim) or claim.volume_name in facts.need(Source.VOLUMES).volumes:
        return None
    return Finding(
        Reason.REQUESTED_VOLUME_MISSING,
        f'The claim requests volume "{claim.volume_name}" by name, and there is no such volume.',
        (claim_link(claim), Link("PersistentVolume", claim.volume_name, "not found")),
        (Evidence(claim_object(claim, "spec.volumeName"), claim.volume_name, "no such PersistentVolume"),),
        (
            Step(
                "kubectl get pv",
                f"create volume {claim.volume_name}; volumeName is immutable, so otherwise create the claim again for "
                "another volume, or without volumeName",
            ),
        ),
    )


def still_claimed(facts: Facts, claim: Claim) -> Finding | None:
    """The requested volume still names another claim (FailedBinding `already bound to a different claim`)."""
    volume = _requested(facts, claim)
    if volume is None or requested_rejection(claim, volume) is not Reason.CLAIMED_BY_OTHER or volume.claim is None:
        return None
    holder = volume.claim
    if volume.phase == "Released" or holder.namespace == claim.namespace or facts.everywhere:
        owner = whose_data(volume, claim)
    else:
        owner = "a claim of another namespace"
    if holder.key == claim.key:
        owner = f"{owner}, which was deleted"
    steps: tuple[Step, ...] = (
        Step(shell("kubectl get pv {} -o yaml", volume.name), f"it belongs to {owner}; its data is on it"),
        Step(
            on_claim("delete", claim),
            "volumeName is immutable: delete this claim (it has no data yet) and create it for another volume",
        ),
    )
    if volume.phase == "Released":
        steps = (given_to(facts, volume, claim),)
    return Finding(
        Reason.VOLUME_STILL_CLAIMED,
        f"Volume {volume.name}, which the claim requests, is {volume.phase or 'held'} and still belongs to {owner}.",
        (claim_link(claim), volume_link(volume, volume.phase)),
        (Evidence(volume_object(volume, "spec.claimRef"), claim.key, owner),),
        steps,
    )


def requested_mismatch(facts: Facts, claim: Claim) -> Finding | None:
    """The requested volume does not satisfy the claim (VolumeMismatch: checkVolumeSatisfyClaim in pv_controller.go).

    A Released volume is checked as it will be without its claimRef: freed for this claim it would not be bound either.
    """
    volume = _requested(facts, claim)
    if volume is not None and volume.phase == "Released":
        volume = replace(volume, claim=None)
    reason = None if volume is None else requested_rejection(claim, volume)
    if volume is None or reason in (None, Reason.CLAIMED_BY_OTHER):
        return None
    match = match_requested(claim, facts.snapshot.classes, {volume.name: volume})
    rejection = next(match.rejections((volume,)))
    return Finding(
        Reason.REQUESTED_VOLUME_MISMATCH,
        f"Volume {volume.name}, which the claim requests, does not match it: wanted {rejection.wanted}, "
        f"found {rejection.offered}.",
        (claim_link(claim), volume_link(volume, volume.phase)),
        (Evidence(f"{volume_object(volume)} ({rejection.reason})", rejection.wanted, rejection.offered),),
        (
            Step(
                on_claim("delete", claim),
                f"delete the claim (it has no data yet) and create it {_remade(volume, reason)}, or without volumeName",
            ),
        ),
    )


def _remade(volume: Volume, reason: Reason | None) -> str:
    """Return how a claim has to be created for the volume that it requests."""
    if reason is not Reason.CLASS_MISMATCH:
        return "to match the volume"
    name = class_of(volume) or '""'  # Without the field it would get the default class.
    return f"with storageClassName: {name}"


def prebound_incomplete(facts: Facts, claim: Claim) -> Finding | None:
    """The claim and its volume match, and the PV controller has not finished the bind (kubernetes#85659)."""
    volume = _requested(facts, claim)
    if volume is None or requested_rejection(claim, volume) is not None:
        return None
    return _bind_incomplete(facts, claim, volume, f"Volume {volume.name} matches the claim")


def reserved_incomplete(facts: Facts, claim: Claim) -> Finding | None:
    """A volume names the claim in its claimRef, and the PV controller has not bound them (syncUnboundClaim).

    A claim that waits for a pod is left to the pod: its node has to have access to that volume.
    """
    volume = None if claim.volume_name else own_volume(facts, claim)
    if volume is None:
        return None
    mode = binding_mode(with_default_class(facts, claim), facts.need(Source.CLASSES).classes)
    if mode == WAIT_FOR_FIRST_CONSUMER and any(not pod.node_name for pod in users_of(facts, claim)):
        return None
    return _bind_incomplete(facts, claim, volume, f"Volume {volume.name} names the claim in its claimRef")


def left_unbound(facts: Facts, claim: Claim) -> Finding | None:
    """An Available volume fits a claim that waits for no pod, and the PV controller has not bound them for a minute."""
    if claim.volume_name or not older_than_a_minute(facts, claim.created):
        return None
    wanted = with_default_class(facts, claim)
    if binding_mode(wanted, facts.need(Source.CLASSES).classes) != IMMEDIATE:
        return None
    volume = smallest_fitting(facts, wanted)
    return None if volume is None else _bind_incomplete(facts, claim, volume, f"Volume {volume.name} fits the claim")


def _bind_incomplete(facts: Facts, claim: Claim, volume: Volume, state: str) -> Finding:
    is_old = older_than_a_minute(facts, claim.created)
    usually = "; the PV controller completes the bind, usually within 30 s."
    return Finding(
        Reason.PREBOUND_INCOMPLETE,
        f"{state}, and the PV controller has not bound them." if is_old else f"{state}{usually}",
        (claim_link(claim), volume_link(volume, volume.phase)),
        (
            Evidence(claim_object(claim, "metadata.annotations"), BIND_COMPLETED, "not set"),
            *(without_pv_controller(facts) if is_old else ()),
        ),
        (look_for_pv_controller(),),
        problem=is_old,
    )


def held_by_a_deleted_claim(facts: Facts, claim: Claim) -> Finding | None:
    """The only volume that would fit is Released: its claim is gone, its data is not (syncVolume, pv_controller.go)."""
    wanted = _static(facts, claim)
    return None if wanted is None else _held(facts, wanted)


def classless_held_by_a_deleted_claim(facts: Facts, claim: Claim) -> Finding | None:
    """As above, for a claim that gets no class: only volumes without one can serve it."""
    if claim.volume_name or class_of(with_default_class(facts, claim)):
        return None
    if own_volume(facts, claim) is not None or fits_some_volume(facts, claim):
        return None
    return _held(facts, claim)


def _held(facts: Facts, claim: Claim) -> Finding | None:
    volume = _would_fit(facts, claim, lambda volume: volume.reclaim_policy == "Retain" and _is_left(claim, volume))
    if volume is None or volume.claim is None:
        return None
    owner = whose_data(volume, claim)
    return Finding(
        Reason.VOLUME_STILL_CLAIMED,
        f"Volume {volume.name} would fit the claim, but is {volume.phase}: it holds the data of {owner}.",
        (claim_link(claim), volume_link(volume, volume.phase)),
        (Evidence(volume_object(volume, "spec.claimRef"), "none", owner),),
        (given_to(facts, volume, claim),),
    )


def _is_left(claim: Claim, volume: Volume) -> bool:
    """Whether the volume's claim was deleted: its phase says so, or its claimRef has the uid of an earlier claim.

    The PV controller may not have released it.
    """
    if volume.phase == "Released":
        return True
    owner = volume.claim
    return owner is not None and owner.key == claim.key and bool(claim.uid) and owner.uid not in {None, "", claim.uid}


def quarantined(facts: Facts, claim: Claim) -> Finding | None:
    """The only volume that would fit is in quarantine, because its driver reports it unhealthy (binder.health)."""
    wanted = _static(facts, claim)
    volume = None if wanted is None else _would_fit(facts, wanted, lambda each: in_quarantine(each, facts.annotations))
    if volume is None:
        return None
    reason = value_of(volume.annotations, facts.annotations.quarantine) or "no reason given"
    return Finding(
        Reason.QUARANTINED,
        f"Volume {volume.name} would fit the claim, and pvc-prebinder withholds it from all claims: {reason}.",
        (claim_link(claim), volume_link(volume, "in quarantine")),
        (Evidence(volume_object(volume, "quarantine"), "a healthy volume", reason),),
        (
            Step(
                shell("kubectl get pv {} -o yaml", volume.name),
                f"it is released when its driver reports it healthy; `pvc-prebinder quarantine release {volume.name}` "
                "gives it to claims as it is",
            ),
        ),
    )


def kept_for_it(facts: Facts, claim: Claim) -> Finding | None:
    """A volume is kept for it while others of its pod are made (mode provision, binder.reservation.set_aside)."""
    volume = None if claim.volume_name else set_aside_for(claim, facts.need(Source.VOLUMES), facts.annotations)
    if volume is None:
        return None
    return Finding(
        Reason.PROGRESSING,
        f"Volume {volume.name} is kept for the claim until the other volumes of its pod are made.",
        (claim_link(claim), volume_link(volume, "set aside")),
        problem=False,
    )


def kept_for_another(facts: Facts, claim: Claim) -> Finding | None:
    """The only volume that would fit is kept for a claim whose pod waits for volumes that are being made."""
    wanted = _static(facts, claim)
    volume = None
    if wanted is not None:
        volume = _would_fit(facts, wanted, lambda each: set_aside_of(each, facts.annotations) is not None)
    kept = None if volume is None else set_aside_of(volume, facts.annotations)
    if volume is None or kept is None:
        return None
    return Finding(
        Reason.RESERVED_FOR_OTHER,
        f"Volume {volume.name} would fit the claim, and is kept for claim {kept.claim}, whose pod waits for volumes "
        "that are being made.",
        (claim_link(claim), volume_link(volume, "set aside")),
        (Evidence(volume_object(volume, "set-aside-for"), "none", kept.claim),),
        (
            Step(
                shell("kubectl get pv {} -o yaml", volume.name),
                "it is given back a minute after nothing is made for that pod any more",
            ),
        ),
    )


def held_back(facts: Facts, pod: Pod) -> Finding | None:
    """Volumes fit, and pvc-prebinder gives none of them to a pod with its gate: they are reserved, or unhealthy."""
    if not facts.annotations.carries_gate(pod):
        return None
    snapshot = facts.need(Source.CLAIMS, Source.VOLUMES, Source.CLASSES)
    view = facts.derived.view
    for claim in (snapshot.claims[key] for key in pod.claim_keys if key in snapshot.claims):
        if claim.volume_name or own_volume(facts, claim) is not None:
            continue
        rejections = [reject_use(view, volume, facts.now, claim) for volume in view.index.candidates(claim)]
        against = [rejection for rejection in rejections if rejection is not None]
        if not against or len(against) < len(rejections):
            continue
        reason = against[0].reason
        return Finding(
            reason,
            f"Volumes fit claim {claim.name}, but none is available to it: {against[0].subject} is "
            f"{against[0].offered[:200]}.",
            (pod_link(pod), claim_link(claim), Link("PersistentVolume", against[0].subject, str(reason))),
            tuple(Evidence(f"pv/{each.subject} ({each.reason})", each.wanted, each.offered) for each in against[:4]),
            (
                Step(
                    shell("kubectl get pv {} -o yaml", against[0].subject),
                    _until_it_is_free(facts, against[0]),
                ),
            ),
        )
    return None


def _until_it_is_free(facts: Facts, rejection: Rejection) -> str:
    """Return what ends that the volume is withheld."""
    if rejection.reason is not Reason.RESERVED_FOR_OTHER:
        return "repair the volume, or add another one"
    volume = facts.need(Source.VOLUMES).volumes.get(rejection.subject)
    if volume is not None and pins_of(volume, facts.annotations) is not None:
        return "it is kept for that name, without an end: add another one, or end the hold or the replacement"
    return "a reservation ends by itself when it expires or its pod is gone"


def static_only_no_match(facts: Facts, claim: Claim) -> Finding | None:
    """No volume fits, and the class provisions none (`didn't find available persistent volumes to bind`, binder.go).

    Kubernetes never reports which rule failed; the rules of binder.matching do.
    """
    wanted = _static(facts, claim)
    if wanted is None:
        return None
    name = class_of(wanted)
    if name in facts.snapshot.classes:
        none_made, state = "the class has no provisioner to make one", "no provisioner"
    else:
        none_made, state = "there is no StorageClass of that name to provision one", "no such object"
    rejections = _rejections(facts, wanted)
    return Finding(
        Reason.NO_VOLUME_FITS,
        f"No Available volume of class {name} fits the claim, and {none_made}.",
        (claim_link(claim), Link("StorageClass", name, state)),
        (
            *(Evidence(_subject(rejection), rejection.wanted, rejection.offered) for rejection in rejections),
            *of_another_class(facts, wanted),
        ),
        (
            Step(
                shell("kubectl get pv -o wide | grep {}", name),
                f"add a volume of at least {quantity_text(claim.request)}, or change the claim",
            ),
        ),
    )


def _static(facts: Facts, claim: Claim) -> Claim | None:
    """Return the claim with its class if nothing provisions volumes of it and no Available one fits, else None.

    A class of static volumes needs no object: its name is sufficient.
    """
    if claim.volume_name:
        return None
    wanted = with_default_class(facts, claim)
    name = class_of(wanted)
    storage_class = facts.need(Source.CLASSES).classes.get(name)
    if storage_class is None:
        if not name or not facts.has_static_volumes(name):
            return None
    elif storage_class.provisions:
        return None
    if fits_some_volume(facts, wanted) or own_volume(facts, wanted) is not None:
        return None
    return wanted


def _would_fit(facts: Facts, claim: Claim, held: Callable[[Volume], bool]) -> Volume | None:
    """Return a volume that is withheld in this way and would fit the claim otherwise.

    One that an earlier claim of its name had is the first choice, one that another existing claim may want the last.
    """

    def order(volume: Volume) -> tuple[bool, bool, int, str]:
        key = "" if volume.claim is None else volume.claim.key
        return key != claim.key, key in facts.snapshot.claims, volume.capacity, volume.name

    named = (facts.snapshot.volumes[name] for name in facts.snapshot.volumes_by_claim.get(claim.key, ()))
    volumes = (volume for volume in chain(facts.derived.withheld, named) if held(volume))
    free = ((volume, replace(volume, claim=None, phase="Available")) for volume in volumes)
    fitting = (volume for volume, freed in free if scheduler_rejection(claim, freed) is None)
    return min(fitting, key=order, default=None)


def _subject(rejection: Rejection) -> str:
    if rejection.reason is Reason.NO_VOLUME_FITS:
        return f"pvc/{rejection.subject}"
    return f"pv/{rejection.subject} ({rejection.reason})"


def _rejections(facts: Facts, claim: Claim) -> list[Rejection]:
    pod = Pod(claim.namespace, "", "", 0)
    demand = Demand(pod, Mode.ANNOTATE, (claim,))
    return facts.derived.unmet.rejections(demand, (claim,))


def _requests_volume(claim: Claim) -> bool:
    return bool(claim.volume_name) and not claim.bind_completed


def _requested(facts: Facts, claim: Claim) -> Volume | None:
    return facts.need(Source.VOLUMES).volumes.get(claim.volume_name) if _requests_volume(claim) else None
