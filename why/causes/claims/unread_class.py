"""What the PV controller reports about a claim: enough for a user of one namespace, who may not read classes.

An Event is as good as the class while it is repeated: the controller looks at a pending claim every 15 seconds, and a
recorder drops all but one Event in five minutes.
"""

import re
from collections.abc import Collection
from datetime import timedelta
from typing import Final

from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from kube.configuration.nearest import did_you_mean
from kube.objects.model import Claim
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link, on_claim, users_of
from why.causes.reported import PV_CONTROLLER, quoted
from why.facts.details import EventRecord
from why.facts.facts import Facts, Source
from why.report.report import Link

_REPEATED: Final = timedelta(minutes=6)
_PATIENCE: Final = timedelta(minutes=2)
_KEPT: Final = timedelta(hours=1)
"""How long the API server keeps Events by default (--event-ttl)."""

_WAITS_FOR: Final = re.compile(r"by (?:the )?external provisioner ['\"](?P<name>[^'\"]+)['\"]")
_OF_ANOTHER: Final = "already bound to a different claim"
_NO_CLASS: Final = "no storage class is set"
_NOT_FOUND: Final = re.compile(r'storageclass\.storage\.k8s\.io "(?P<name>[^"]+)" not found')


def reported_without_class(facts: Facts, claim: Claim) -> Finding | None:
    """The claim names no class, and no volume fits (FailedBinding: syncUnboundClaim in pv_controller.go)."""
    event = last_report(facts, claim)
    if event is None or event.reason != "FailedBinding" or _NO_CLASS not in event.note:
        return None
    return Finding(
        Reason.NO_STORAGE_CLASS,
        "The claim names no StorageClass, none is the default, and no volume without a class fits.",
        (claim_link(claim),),
        (quoted(facts, event),),
        (
            Step(
                on_claim("describe", claim),
                "ask an administrator which class to use, then create the claim with it",
            ),
        ),
    )


def reported_mismatch(facts: Facts, claim: Claim) -> Finding | None:
    """The volume that the claim requests by name does not match it, or belongs to another claim (syncUnboundClaim)."""
    event = last_report(facts, claim) if claim.volume_name else None
    if event is None:
        return None
    if event.reason == "VolumeMismatch":
        code, state = Reason.REQUESTED_VOLUME_MISMATCH, "does not match it"
    elif event.reason == "FailedBinding" and _OF_ANOTHER in event.note:
        code, state = Reason.VOLUME_STILL_CLAIMED, "belongs to another claim"
    else:
        return None
    return Finding(
        code,
        f"Volume {claim.volume_name}, which the claim requests, {state}, as the PV controller reports.",
        (claim_link(claim), Link("PersistentVolume", claim.volume_name, state)),
        (quoted(facts, event),),
        (
            Step(
                on_claim("delete", claim),
                "volumeName is immutable: delete this claim (it has no data yet) and create it for another volume, or "
                "ask an administrator to change that volume",
            ),
        ),
    )


def reported_silence(facts: Facts, claim: Claim) -> Finding | None:
    """The PV controller waits for a provisioner that has reported nothing about the claim (ExternalProvisioning).

    A provisioner writes an Event when it begins. Of an older claim that one may have expired.
    """
    event = last_report(facts, claim)
    provisioner = None if event is None else _WAITS_FOR.search(event.note)
    if event is None or provisioner is None or claim.created is None:
        return None
    if not _PATIENCE <= facts.now - claim.created < _KEPT:
        return None
    if any(other.reporter != PV_CONTROLLER for other in facts.events_of("PersistentVolumeClaim", claim.key)):
        return None
    return Finding(
        Reason.PROVISIONER_MISSING,
        f"The provisioner {provisioner['name']} does not respond: it has not started on the claim.",
        (claim_link(claim), Link("Provisioner", provisioner["name"], "reports nothing")),
        (quoted(facts, event),),
        (
            Step(
                on_claim("describe", claim),
                f"ask an administrator whether {provisioner['name']} is installed, and its controller runs",
            ),
        ),
    )


def reported_class_not_found(facts: Facts, claim: Claim) -> Finding | None:
    """The class does not exist (ProvisioningFailed: provisionClaimOperation in pv_controller.go)."""
    event = last_report(facts, claim)
    missing = None if event is None else _NOT_FOUND.search(event.note)
    if event is None or missing is None or missing["name"] != class_of(claim):
        return None
    meant = did_you_mean(missing["name"], sorted(_known_classes(facts))).strip(" ;.").replace("did you", "Did you")
    return Finding(
        Reason.CLASS_NOT_FOUND,
        f'StorageClass "{missing["name"]}" does not exist.' + (f" {meant}" if meant else ""),
        (claim_link(claim), Link("StorageClass", missing["name"], "not found")),
        (quoted(facts, event),),
        (
            Step(
                "kubectl get storageclass",
                "ask an administrator which classes exist if you may not list them; a claim's class is immutable, so "
                "create the class, or the claim again with one that exists",
            ),
        ),
    )


def _known_classes(facts: Facts) -> Collection[str]:
    """Return the class names of static volumes, as far as volumes were read: they need no StorageClass."""
    return facts.derived.static_classes if facts.has(Source.VOLUMES) else ()


def absent_classes(facts: Facts) -> frozenset[str]:
    """Return the classes that do not exist by the PV controller's Events about claims that name them."""
    absent: set[str] = set()
    for claim in facts.snapshot.claims.values():
        for event in facts.events.get(("PersistentVolumeClaim", claim.key), ()):
            match = _NOT_FOUND.search(event.note)
            if match is not None and match["name"] == class_of(claim):
                absent.add(match["name"])
    return frozenset(absent)


def reported_first_consumer(facts: Facts, claim: Claim) -> Finding | None:
    """The class binds late, and no pod uses the claim (WaitForFirstConsumer: syncUnboundClaim). Normal."""
    event = last_report(facts, claim)
    if (
        event is None
        or event.reason != "WaitForFirstConsumer"
        or any(not pod.deleting for pod in users_of(facts, claim))
    ):
        return None
    return Finding(
        Reason.WAIT_FOR_FIRST_CONSUMER,
        "Normal: no pod uses the claim yet, and its class binds on first use.",
        (claim_link(claim),),
        (quoted(facts, event),),
        problem=False,
    )


def last_report(facts: Facts, claim: Claim) -> EventRecord | None:
    """Return the PV controller's last Event about the claim if it still holds."""
    events = facts.events_of("PersistentVolumeClaim", claim.key)
    last = next((event for event in events if event.reporter == PV_CONTROLLER), None)
    end = facts.events_end or facts.now
    return last if last is not None and last.last is not None and end - last.last < _REPEATED else None
