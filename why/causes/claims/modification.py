"""A bound claim whose volume is to get another VolumeAttributesClass, and has not got it (KEP-3751)."""

from collections.abc import Mapping
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.model import Claim
from kube.plain_text import shell
from why.causes.claims.lifecycle import log_of_resizer
from why.causes.finding import Finding, Step
from why.causes.leases import lapsed_lease, resizer_lease
from why.causes.objects import claim_link, claim_object
from why.causes.reported import quoted
from why.facts.details import ClaimDetails
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_STATES: Final[Mapping[str, str]] = {
    "Pending": "it does not exist, or cannot be used yet",
    "InProgress": "the driver is at it",
    "Infeasible": "the driver rejects it",
}
"""What status.modifyVolumeStatus means (PersistentVolumeClaimModifyVolumeStatus in core/v1/types.go)."""

_UNSEEN: Final = "nothing has begun with it"


def modification(facts: Facts, claim: Claim) -> Finding | None:
    """The volume has not the class that the claim names (modify_volume.go of external-resizer)."""
    details = facts.claims.get(claim.key)
    wanted = claim.attributes_class
    if details is None or not claim.bind_completed or not wanted or wanted == details.attributes_class:
        return None
    if not (details.attributes_class or details.modification) and not _had_none(facts, claim):
        return None
    state = _STATES.get(details.modification, _UNSEEN)
    failed = next((each for each in details.conditions if each.type == "ModifyVolumeError"), None)
    events = facts.events_of("PersistentVolumeClaim", claim.key)
    event = next((event for event in events if event.reason == "VolumeModifyFailed"), None)
    evidence = [
        Evidence(
            claim_object(claim, "status.currentVolumeAttributesClassName"), wanted, details.attributes_class or "none"
        )
    ]
    if failed is not None and failed.message:
        evidence.append(Evidence(claim_object(claim, "condition ModifyVolumeError"), "", f'"{failed.message}"'))
    elif event is not None:
        evidence.append(quoted(facts, event))
    if state is _UNSEEN:
        evidence += _without_resizer(facts, claim)
    return Finding(
        Reason.MODIFY_PENDING,
        f"The claim is bound, and its volume has not got VolumeAttributesClass {wanted}: {state}.",
        (claim_link(claim), Link("VolumeAttributesClass", wanted, details.modification or "not begun")),
        tuple(evidence),
        (_step(facts, claim, details),),
    )


def _had_none(facts: Facts, claim: Claim) -> bool:
    """Whether the claim had no class before, by its volume: the PV controller may not have copied it to the claim."""
    volume = facts.snapshot.volumes.get(claim.volume_name) if facts.has(Source.VOLUMES) else None
    return volume is not None and not volume.attributes_class


def _step(facts: Facts, claim: Claim, details: ClaimDetails) -> Step:
    if details.modification == "Pending":
        return Step(
            shell("kubectl get volumeattributesclass {}", claim.attributes_class), "create it, or name another one"
        )
    note = "does the driver's resizer run, which modifies volumes?"
    if details.modification == "Infeasible":
        before = details.attributes_class
        note = (
            f"name another class{f', such as {before} as before' if before else ''}: the driver never accepts this one"
        )
        return Step(shell("kubectl get volumeattributesclass {} -o yaml", claim.attributes_class), note)
    if details.modification:
        note = "it is tried again automatically"
    return log_of_resizer(facts, claim, note)


def _without_resizer(facts: Facts, claim: Claim) -> tuple[Evidence, ...]:
    volume = facts.snapshot.volumes.get(claim.volume_name) if facts.has(Source.VOLUMES) else None
    if volume is None or not volume.driver:
        return ()
    return lapsed_lease(facts, resizer_lease(volume.driver))
