"""Causes in the volumes that are there: the one a claim asks for, and those that might fit."""

from binder.matching.controller_match import match_requested
from binder.matching.evidence import quantity_text
from binder.matching.matching import class_of, is_mine, requested_refusal
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Mode
from binder.model.demand import Demand
from kube.objects.model import BIND_COMPLETED, NO_PROVISIONER, Claim, Pod, Volume
from prebinder.why.causes.finding import Finding, Step
from prebinder.why.causes.objects import (
    claim_link,
    claim_object,
    fits_some_volume,
    volume_link,
    volume_object,
    with_default_class,
)
from prebinder.why.facts.facts import Facts, Source
from prebinder.why.report.report import Evidence, Link


def requested_missing(facts: Facts, claim: Claim) -> Finding | None:
    """`spec.volumeName` names no volume. Upstream says nothing about it (syncUnboundClaim in pv_controller.go)."""
    if not _requests_volume(claim) or claim.volume_name in facts.need(Source.VOLUMES).volumes:
        return None
    return Finding(
        Reason.REQUESTED_VOLUME_MISSING,
        f'The claim asks for volume "{claim.volume_name}" by name, and there is no such volume.',
        (claim_link(claim), Link("PersistentVolume", claim.volume_name, "not found")),
        (Evidence(claim_object(claim, "spec.volumeName"), claim.volume_name, "no such PersistentVolume"),),
        (
            Step(
                f"kubectl -n {claim.namespace} delete pvc {claim.name}",
                "volumeName is immutable: create that volume, or delete this claim (it has no data yet) and create it "
                "without volumeName",
            ),
        ),
    )


def still_claimed(facts: Facts, claim: Claim) -> Finding | None:
    """The requested volume still names another claim (FailedBinding `already bound to a different claim`)."""
    volume = _requested(facts, claim)
    if volume is None or requested_refusal(claim, volume) is not Reason.CLAIMED_BY_OTHER or volume.claim is None:
        return None
    holder = volume.claim
    same_name = (holder.namespace, holder.name) == (claim.namespace, claim.name)
    if same_name:
        owner = "an earlier claim of the same name, which was deleted"
    elif holder.namespace == claim.namespace or facts.everywhere:
        owner = f"claim {holder.namespace}/{holder.name}"
    else:
        owner = "a claim of another namespace"
    step = Step(f"kubectl get pv {volume.name} -o yaml", f"it belongs to {owner}; its data is on it")
    if volume.phase == "Released":
        step = Step(
            f"""kubectl patch pv {volume.name} --type=json -p '[{{"op":"remove","path":"/spec/claimRef"}}]'""",
            f"gives the volume with the data of {owner} to this claim",
        )
    return Finding(
        Reason.VOLUME_STILL_CLAIMED,
        f"Volume {volume.name}, which the claim asks for, is {volume.phase or 'held'} and still belongs to {owner}.",
        (claim_link(claim), volume_link(volume, volume.phase)),
        (Evidence(volume_object(volume, "spec.claimRef"), claim.key, owner),),
        (step,),
    )


def requested_mismatch(facts: Facts, claim: Claim) -> Finding | None:
    """The requested volume does not satisfy the claim (VolumeMismatch: checkVolumeSatisfyClaim in pv_controller.go)."""
    volume = _requested(facts, claim)
    reason = None if volume is None else requested_refusal(claim, volume)
    if volume is None or reason in (None, Reason.CLAIMED_BY_OTHER):
        return None
    match = match_requested(claim, facts.snapshot.classes, facts.snapshot.volumes)
    rejection = next(match.rejections((volume,)))
    return Finding(
        Reason.REQUESTED_VOLUME_MISMATCH,
        f"Volume {volume.name}, which the claim asks for, does not suit it: wanted {rejection.wanted}, "
        f"found {rejection.offered}.",
        (claim_link(claim), volume_link(volume, volume.phase)),
        (Evidence(f"{volume_object(volume)} ({rejection.reason})", rejection.wanted, rejection.offered),),
        (
            Step(
                f"kubectl -n {claim.namespace} delete pvc {claim.name}",
                "delete the claim (it has no data yet) and create it to suit the volume, or without volumeName",
            ),
        ),
    )


def prebound_incomplete(facts: Facts, claim: Claim) -> Finding | None:
    """The claim and its volume suit each other, and the PV controller has not finished the bind (kubernetes#85659)."""
    volume = _requested(facts, claim)
    if volume is None or requested_refusal(claim, volume) is not None:
        return None
    return Finding(
        Reason.PREBOUND_INCOMPLETE,
        f"Volume {volume.name} suits the claim; the PV controller completes the bind, usually within 30 s.",
        (claim_link(claim), volume_link(volume, volume.phase)),
        (Evidence(claim_object(claim, "metadata.annotations"), BIND_COMPLETED, "not set"),),
        (Step("kubectl -n kube-system get lease kube-controller-manager", "is the controller manager alive?"),),
        problem=_older_than_a_minute(facts, claim),
    )


def static_only_no_match(facts: Facts, claim: Claim) -> Finding | None:
    """No volume fits, and the class makes none (`didn't find available persistent volumes to bind`, binder.go).

    Kubernetes never says which test failed; the rules of binder.matching do.
    """
    if claim.volume_name:
        return None
    wanted = with_default_class(facts, claim)
    storage_class = facts.need(Source.CLASSES).classes.get(class_of(wanted))
    if storage_class is None or storage_class.provisioner not in ("", NO_PROVISIONER):
        return None
    snapshot = facts.need(Source.VOLUMES)
    mine = [snapshot.volumes[name] for name in snapshot.volumes_by_claim.get(claim.key, ())]
    if fits_some_volume(facts, wanted) or any(is_mine(claim, volume) for volume in mine):
        return None
    rejections = _rejections(facts, wanted)
    return Finding(
        Reason.NO_VOLUME_FITS,
        f"No Available volume of class {storage_class.name} fits the claim, and the class has no provisioner to make "
        "one.",
        (claim_link(claim), Link("StorageClass", storage_class.name, "no provisioner")),
        tuple(Evidence(_subject(rejection), rejection.wanted, rejection.offered) for rejection in rejections),
        (
            Step(
                f"kubectl get pv -o wide | grep {storage_class.name}",
                f"add a volume of at least {quantity_text(claim.request)}, or change the claim",
            ),
        ),
    )


def _subject(rejection: Rejection) -> str:
    if rejection.reason is Reason.NO_VOLUME_FITS:
        return f"pvc/{rejection.subject}"
    return f"pv/{rejection.subject} ({rejection.reason})"


def _rejections(facts: Facts, claim: Claim) -> list[Rejection]:
    pod = Pod(claim.namespace, "", "", 0)
    demand = Demand(pod, Mode.ANNOTATE, (claim,))
    return facts.look.unmet.rejections(demand, (claim,))


def _requests_volume(claim: Claim) -> bool:
    return bool(claim.volume_name) and not claim.bind_completed


def _requested(facts: Facts, claim: Claim) -> Volume | None:
    return facts.need(Source.VOLUMES).volumes.get(claim.volume_name) if _requests_volume(claim) else None


def _older_than_a_minute(facts: Facts, claim: Claim) -> bool:
    return claim.created is not None and (facts.now - claim.created).total_seconds() > 60
