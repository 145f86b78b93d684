"""From targets to the report: reads what the checks need, and runs them again until they have enough."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from msgspec.structs import replace

from kube.errors import Forbidden
from kube.objects.labels import LabelSelector
from kube.objects.model import Pod, value_of
from kube.plain_text import shell
from kube.rules.selectors import matches_labels
from why.causes.claims.creation import rejected_claims
from why.causes.diagnosis import (
    explain_absent_claim,
    explain_claim,
    explain_holds,
    explain_pod,
    explain_volume,
)
from why.causes.objects import CLAIM, POD, STATEFUL_SET, VOLUME
from why.causes.termination import overdue
from why.errors import WhyError
from why.explain.targets import Target
from why.facts.details import PodDetails
from why.facts.facts import Facts, Source, Unread
from why.reading.live import LiveReader
from why.report.report import Item, Skipped, WhyReport

_LISTING: Final = (Source.PODS, Source.CLAIMS)
"""What is pending is one of these."""


async def answer_live(
    reader: LiveReader, targets: Sequence[Target], namespace: str, now: datetime, selector: LabelSelector | None = None
) -> WhyReport:
    """Return the report on these objects of a cluster, or on everything that is pending if there are none."""
    await reader.read_waiting()
    for target in targets:
        await _read_target(reader, target, namespace)
    facts = reader.facts(now)
    items: list[Item] = []
    for target in subjects(facts, targets, namespace, selector):
        while True:
            try:
                items += items_of(facts, target, namespace)
                break
            except Unread as unread:
                await reader.read(unread.sources)
                facts = reader.facts(now)
    return WhyReport(items=tuple(items), skipped=() if targets else unlisted(facts))


async def _read_target(reader: LiveReader, target: Target, namespace: str) -> None:
    """Read the named object individually: a user who may get an object need not be allowed to list its kind."""
    wanted: tuple[tuple[str, Source], ...] = ((CLAIM, Source.CLAIMS), (POD, Source.PODS))
    if target.kind in {VOLUME, STATEFUL_SET}:
        await reader.read({Source.VOLUMES})
    if target.kind == VOLUME:
        wanted = ((VOLUME, Source.VOLUMES),)
    for kind, source in wanted:
        if target.kind in {kind, ""} and source in reader.skipped:
            try:
                await reader.get(source, target.name, "" if kind == VOLUME else namespace)
            except Forbidden as error:
                if target.kind:
                    raise WhyError(f"{error}; request that permission, or choose another --context") from error


def report_on(
    facts: Facts, targets: Sequence[Target], namespace: str, selector: LabelSelector | None = None
) -> WhyReport:
    """Return the report from facts that are complete. WhyError for an object that does not exist."""
    chosen = subjects(facts, targets, namespace, selector)
    items = tuple(item for target in chosen for item in items_of(facts, target, namespace))
    # Who dumps pods alone asks about pods alone, and who dumps claims alone about claims.
    is_partial = Source.PODS in facts.read or bool(facts.snapshot.claims)
    return WhyReport(items=items, skipped=() if targets or is_partial else unlisted(facts))


def with_faults(report: WhyReport, faults: Sequence[str]) -> WhyReport:
    """Return a report without items as incomplete if objects could not be read: they may be pending."""
    if report.items or not faults:
        return report
    unreadable = Skipped(f"{len(faults)} object{'' if len(faults) == 1 else 's'}", "unreadable, see above")
    return replace(report, skipped=(*report.skipped, unreadable))


def subjects(
    facts: Facts, targets: Sequence[Target], namespace: str, selector: LabelSelector | None = None
) -> Sequence[Target]:
    """Return what is to be explained: these objects, the pods of those that are workloads, or all that is pending.

    A StatefulSet stands for its replicas to come too. Raises WhyError for another workload that has no pods.
    """
    if not targets:
        return waiting(facts, namespace, selector)
    named = (pods_of(facts, target, namespace) if target.is_workload else (target,) for target in targets)
    return list(chain.from_iterable(named))


def pods_of(facts: Facts, workload: Target, namespace: str) -> Sequence[Target]:
    """Return the pods of a workload, and the claims without which it could not make more; a StatefulSet itself, too,
    because volumes may be held for it. WhyError if another one has none.

    The workload itself is not read: its pods name it as their controller. Those of a Deployment name its ReplicaSet,
    whose name is that of the Deployment and the pod-template-hash (pkg/controller/deployment/sync.go).
    """
    namespace = workload.namespace or namespace
    pods = [
        Target(POD, pod.name, pod.namespace)
        for key, pod in sorted(facts.snapshot.pods.items())
        if pod.namespace == namespace and _is_of(pod, facts.pods.get(key), workload)
    ]
    rejected = rejected_claims(facts, f"{namespace}/{workload.name}") if workload.kind == STATEFUL_SET else ()
    targets = pods + [Target(CLAIM, name, rejected_in) for rejected_in, name in rejected]
    kind, unread = workload.kind.lower(), facts.skipped.get(Source.PODS)
    if unread is not None and not targets:
        raise WhyError(f"cannot tell the pods of {kind}/{workload.name}: pods are {unread}; try pod/NAME")
    if workload.kind == STATEFUL_SET and (targets or explain_holds(facts, namespace, workload.name) is not None):
        return [*targets, Target(STATEFUL_SET, workload.name, namespace)]
    if targets:
        return targets
    command = shell("kubectl -n {} describe {} {}", namespace, kind, workload.name)
    raise WhyError(f'no pod of {kind} "{workload.name}" is in namespace {namespace}; its Events may say why: {command}')


def _is_of(pod: Pod, details: PodDetails | None, workload: Target) -> bool:
    owner = None if details is None else details.owner
    if owner is None or workload.kind != "Deployment":
        return owner == (workload.kind, workload.name)
    template = value_of(pod.labels, "pod-template-hash")
    return template is not None and owner == ("ReplicaSet", f"{workload.name}-{template}")


def unlisted(facts: Facts) -> tuple[Skipped, ...]:
    """Return the kinds that can be pending and could not be read."""
    return tuple(Skipped(source, facts.skipped[source]) for source in _LISTING if source in facts.skipped)


def items_of(facts: Facts, target: Target, namespace: str) -> list[Item]:
    """Return the items about a target; a bare name may be a claim and a pod, and a StatefulSet may have none.

    Raises Unread for what is still to be read, WhyError if there is no such object.
    """
    if target.kind == STATEFUL_SET:
        holds = explain_holds(facts, target.namespace or namespace, target.name)
        return [] if holds is None else [holds]
    items = list(_items_of(facts, target, target.namespace or namespace))
    if not items:
        raise WhyError(_absent(facts, target, target.namespace or namespace))
    return items


def _absent(facts: Facts, target: Target, namespace: str) -> str:
    if target.kind == VOLUME:
        unread = facts.skipped.get(Source.VOLUMES)
        why = f": {Source.VOLUMES} are {unread}" if unread is not None else ""
        return f'there is no PersistentVolume "{target.name}"{why}'
    if not target.kind and target.name in facts.snapshot.volumes:
        return (
            f'there is no Pod or PersistentVolumeClaim "{target.name}" in namespace {namespace}; try pv/{target.name}'
        )
    kinds = {POD: facts.snapshot.pods, CLAIM: facts.snapshot.claims}
    known = (each for kind, objects in kinds.items() if target.kind in {kind, ""} for each in objects.values())
    others = sorted({each.namespace for each in known if each.name == target.name})
    hint = f"; try --namespace {others[0]}" if others else "; try --namespace"
    kind = target.kind or "Pod or PersistentVolumeClaim"
    return f'there is no {kind} "{target.name}" in namespace {namespace}{hint}'


def _items_of(facts: Facts, target: Target, namespace: str) -> Iterator[Item]:
    key = f"{namespace}/{target.name}"
    claim, pod = facts.snapshot.claims.get(key), facts.snapshot.pods.get(key)
    if target.kind in {CLAIM, ""} and claim is not None:
        yield explain_claim(facts, claim)
    if target.kind in {POD, ""} and pod is not None:
        yield explain_pod(facts, pod)
    if target.kind == VOLUME:
        # One that may be read by its name only is there although its kind may not be listed.
        facts.has(Source.VOLUMES)
        volume = facts.snapshot.volumes.get(target.name)
        if volume is not None:
            yield explain_volume(facts, volume)
    elif target.kind in {CLAIM, ""} and claim is None and pod is None:
        item = explain_absent_claim(facts, namespace, target.name)
        if item is not None:
            yield item


def waiting(facts: Facts, namespace: str, selector: LabelSelector | None = None) -> Sequence[Target]:
    """Return every pending pod and those that should have been gone, then claims, at last those not created.

    The claims are those without a volume, Lost ones too, that none of these pods uses. `selector` selects by the labels
    of the pod, or of the claim.
    """
    snapshot = facts.snapshot
    pods = [
        pod
        for _, pod in sorted(snapshot.pods.items())
        if (overdue(facts, pod) is not None if pod.deleting else pod.phase == "Pending")
    ]
    explained = {key for pod in pods for key in pod.claim_keys}
    claims = [
        claim
        for key, claim in sorted(snapshot.claims.items())
        if key not in explained and (not claim.bind_finished or claim.phase == "Lost")
    ]
    chosen = [Target(POD, pod.name, pod.namespace) for pod in pods if matches_labels(selector, dict(pod.labels))]
    chosen += [
        Target(CLAIM, claim.name, claim.namespace)
        for claim in claims
        if selector is None or matches_labels(selector, facts.labels_of(claim))
    ]
    if selector is None:
        rejected = (key for key in rejected_claims(facts) if "/".join(key) not in explained)
        chosen += [Target(CLAIM, name, rejected_in) for rejected_in, name in rejected]
    return [target for target in chosen if namespace in {"", target.namespace}]
