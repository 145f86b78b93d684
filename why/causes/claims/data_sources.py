"""Causes in the data source of a new volume: a snapshot, another claim, or a populator's object."""

from typing import Final

from binder.matching.evidence import quantity_text
from binder.matching.rejection import Reason
from kube.objects.model import Claim
from kube.plain_text import shell
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link, claim_object, on_claim
from why.facts.details import DataSource
from why.facts.facts import NOT_SERVED, Facts, Source
from why.report.report import Evidence, Link

_SNAPSHOTS = "snapshot.storage.k8s.io"
_ABSENT: Final = "it does not exist"
_MORE_THAN: Final = "more than the"
_NO_SNAPSHOTS: Final = "this cluster has no VolumeSnapshots: its snapshot controller is not installed"


def data_source_not_ready(facts: Facts, claim: Claim) -> Finding | None:
    """The snapshot or claim to copy from is missing, not ready or too large (controller.go of external-provisioner)."""
    source = _source(facts, claim)
    if source is None:
        return None
    if source.api_group == _SNAPSHOTS and source.kind == "VolumeSnapshot":
        problem = _problem_of_snapshot(facts, claim, source)
    elif not source.api_group and source.kind == "PersistentVolumeClaim":
        problem = _problem_of_claim(facts, claim, source)
    else:
        return None
    if problem is None:
        return None
    namespace = source.namespace or claim.namespace
    return Finding(
        Reason.DATA_SOURCE_NOT_READY,
        f"The claim is to be filled from {source.kind} {source.name}, and {problem}.",
        (claim_link(claim), Link(source.kind, f"{namespace}/{source.name}", problem)),
        (Evidence(claim_object(claim, "spec.dataSourceRef"), f"{source.kind} {source.name}, ready", problem),),
        (_step(claim, source, problem),),
    )


def _served(api_group: str, note: str) -> Step:
    """Return how to list the kinds of a group: unlike `kubectl get`, that succeeds without their definitions too."""
    return Step(shell("kubectl api-resources --api-group={}", api_group), note)


def _step(claim: Claim, source: DataSource, problem: str) -> Step:
    """Return what makes the source usable, or else how to have the claim without it: its source is immutable."""
    if problem == _NO_SNAPSHOTS:
        return _served(_SNAPSHOTS, "install the definitions of external-snapshotter and its snapshot-controller")
    resource = "pvc" if source.kind == "PersistentVolumeClaim" else "volumesnapshot"
    namespace = source.namespace or claim.namespace
    again = "delete this claim (it has no data yet) and create it"
    if problem == _ABSENT:
        return Step(
            shell("kubectl -n {} get {}", namespace, resource), f"create {source.name}, or {again} with another source"
        )
    derived = shell("kubectl -n {} describe {} {}", namespace, resource, source.name)
    return Step(derived, f"{again} with at least that size" if _MORE_THAN in problem else "")


def original_of(facts: Facts, claim: Claim) -> Claim | None:
    """Return the claim whose data the claim is to have, by a snapshot or directly, None if none is known."""
    source = _source(facts, claim)
    if source is None:
        return None
    key = f"{source.namespace or claim.namespace}/{source.name}"
    if source.kind == "VolumeSnapshot":
        snapshot = facts.snapshots.get(key)
        key = "" if snapshot is None or snapshot.content else f"{snapshot.namespace}/{snapshot.claim}"
    return facts.snapshot.claims.get(key)


def populator_pending(facts: Facts, claim: Claim) -> Finding | None:
    """An object of a third-party kind is the data source, and its populator has not finished (KEP-1495)."""
    source = _source(facts, claim)
    if source is None or source.api_group in {"", _SNAPSHOTS}:
        return None
    return Finding(
        Reason.POPULATOR_PENDING,
        f"A populator has to fill the volume from {source.kind} {source.name}, and has not done so yet.",
        (claim_link(claim), Link(source.kind, source.name, source.api_group)),
        (Evidence(claim_object(claim, "spec.dataSourceRef"), "", f"{source.kind}.{source.api_group} {source.name}"),),
        (
            _served(source.api_group, f"if {source.kind} is not listed, install its definition and its populator"),
            Step(
                on_claim("describe", claim),
                f"if it is listed: the Events of the populator for {source.kind}; without any, it does not run",
            ),
        ),
    )


def _source(facts: Facts, claim: Claim) -> DataSource | None:
    details = facts.claims.get(claim.key)
    return None if details is None or claim.volume_name else details.data_source


def _problem_of_snapshot(facts: Facts, claim: Claim, source: DataSource) -> str | None:
    if facts.skipped.get(Source.SNAPSHOTS) == NOT_SERVED:
        facts.has(Source.SNAPSHOTS)
        return _NO_SNAPSHOTS
    facts.need(Source.SNAPSHOTS)
    snapshot = facts.snapshots.get(f"{source.namespace or claim.namespace}/{source.name}")
    if snapshot is None:
        return _ABSENT
    if not snapshot.ready:
        if snapshot.claim and not snapshot.content:
            original = facts.need(Source.CLAIMS).claims.get(f"{snapshot.namespace}/{snapshot.claim}")
            if original is not None and original.phase != "Bound":
                return f"claim {snapshot.claim}, of which it is to be taken, is {original.phase}, not Bound"
        return f'it failed: "{snapshot.error}"' if snapshot.error else "it is not ready to use"
    if snapshot.restore_size > claim.request:
        return f"it needs {quantity_text(snapshot.restore_size)}, {_MORE_THAN} {quantity_text(claim.request)} requested"
    return None


def _problem_of_claim(facts: Facts, claim: Claim, source: DataSource) -> str | None:
    if source.namespace not in {"", claim.namespace}:
        return None
    original = facts.need(Source.CLAIMS).claims.get(f"{claim.namespace}/{source.name}")
    if original is None:
        return _ABSENT
    if original.phase != "Bound":
        return f"it is {original.phase}, not Bound"
    if original.deleting:
        return "it is being deleted"
    if original.request > claim.request:
        return f"it has {quantity_text(original.request)}, {_MORE_THAN} {quantity_text(claim.request)} requested"
    return None
