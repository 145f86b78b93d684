"""From targets to the report: reads what the checks want to know, and asks them again until they know enough."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from kube.errors import Forbidden
from prebinder.errors import CommandError
from prebinder.why.causes.diagnosis import explain_absent_claim, explain_claim, explain_pod, explain_volume
from prebinder.why.causes.objects import CLAIM, POD, VOLUME
from prebinder.why.causes.quotas import refused_claims
from prebinder.why.facts.facts import Facts, Source, Unread
from prebinder.why.reading.live import LiveReader
from prebinder.why.report.report import Item, WhyReport
from prebinder.why.targets import Target


async def answer_live(reader: LiveReader, targets: Sequence[Target], namespace: str, now: datetime) -> WhyReport:
    """Return the report on these objects of a cluster, or on everything that waits when there are none."""
    await reader.read({Source.CLAIMS, Source.PODS, Source.EVENTS})
    for target in targets:
        await _read_target(reader, target, namespace)
    while True:
        facts = reader.facts(now)
        try:
            return report_on(facts, targets, namespace)
        except Unread as unread:
            await reader.read(unread.sources)


async def _read_target(reader: LiveReader, target: Target, namespace: str) -> None:
    """Read what was named on its own: whoever may get an object need not be allowed to list its kind."""
    for kind, source in (("PersistentVolumeClaim", Source.CLAIMS), ("Pod", Source.PODS)):
        if target.kind in {kind, ""} and source in reader.skipped:
            try:
                await reader.get(source, target.name, namespace)
            except Forbidden as error:
                if target.kind:
                    raise CommandError(f"{error}; ask for that permission, or choose another --context") from error


def report_on(facts: Facts, targets: Sequence[Target], namespace: str) -> WhyReport:
    """Return the report. Raises Unread for what is still to be read, CommandError for an object that there is not."""
    items = _items_of_targets(facts, targets, namespace) if targets else _items_waiting(facts, namespace)
    return WhyReport(items=tuple(items))


def _items_of_targets(facts: Facts, targets: Sequence[Target], namespace: str) -> Iterator[Item]:
    for target in targets:
        items = list(_items_of(facts, target, namespace))
        if not items:
            raise CommandError(_absent(target, namespace))
        yield from items


def _absent(target: Target, namespace: str) -> str:
    if target.kind == VOLUME:
        return f'there is no PersistentVolume "{target.name}"'
    return f'there is no {target.kind or "Pod or PersistentVolumeClaim"} "{target.name}" in namespace {namespace}'


def _items_of(facts: Facts, target: Target, namespace: str) -> Iterator[Item]:
    key = f"{namespace}/{target.name}"
    claim, pod = facts.snapshot.claims.get(key), facts.snapshot.pods.get(key)
    if target.kind in {CLAIM, ""} and claim is not None:
        yield explain_claim(facts, claim)
    if target.kind in {POD, ""} and pod is not None:
        yield explain_pod(facts, pod)
    if target.kind == VOLUME:
        volume = facts.need(Source.VOLUMES).volumes.get(target.name)
        if volume is not None:
            yield explain_volume(facts, volume)
    elif target.kind in {CLAIM, ""} and claim is None and pod is None:
        item = explain_absent_claim(facts, namespace, target.name)
        if item is not None:
            yield item


def _items_waiting(facts: Facts, namespace: str) -> Iterator[Item]:
    """Yield every pod that waits and every claim that is not bound, the pods first."""
    snapshot = facts.need(Source.PODS, Source.CLAIMS)
    pods = [pod for _, pod in sorted(snapshot.pods.items()) if pod.phase == "Pending" and not pod.deleting]
    explained = {key for pod in pods for key in pod.claim_keys}
    for pod in pods:
        if namespace in {"", pod.namespace}:
            yield explain_pod(facts, pod)
    for key, claim in sorted(snapshot.claims.items()):
        if claim.phase != "Bound" and key not in explained and namespace in {"", claim.namespace}:
            yield explain_claim(facts, claim)
    for refused_in, name in refused_claims(facts):
        item = explain_absent_claim(facts, refused_in, name) if namespace in {"", refused_in} else None
        if item is not None:
            yield item
