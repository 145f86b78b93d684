"""From targets to the report: reads what the checks want to know, and asks them again until they know enough."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from kube.errors import Forbidden
from kube.objects.model import Claim, Pod
from prebinder.errors import CommandError
from prebinder.why.causes.diagnosis import explain_claim, explain_pod
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
        found = list(_items_of(facts, target, namespace))
        if not found:
            kind = target.kind or "Pod or PersistentVolumeClaim"
            raise CommandError(f'there is no {kind} "{target.name}" in namespace {namespace}')
        yield from found


def _items_of(facts: Facts, target: Target, namespace: str) -> Iterator[Item]:
    key = f"{namespace}/{target.name}"
    if target.kind in {"PersistentVolumeClaim", ""}:
        yield from _explained(facts, [facts.snapshot.claims.get(key)], explain_claim)
    if target.kind in {"Pod", ""}:
        yield from _explained(facts, [facts.snapshot.pods.get(key)], explain_pod)


def _explained(facts: Facts, subjects: Iterable[Claim | Pod | None], explain: Callable[..., Item]) -> Iterator[Item]:
    for subject in subjects:
        if subject is not None:
            yield explain(facts, subject)


def _items_waiting(facts: Facts, namespace: str) -> Iterator[Item]:
    """Yield every pod without a node and every claim that is not bound, the pods first."""
    snapshot = facts.need(Source.PODS, Source.CLAIMS)
    pods = (pod for _, pod in sorted(snapshot.pods.items()) if not (pod.node_name or pod.finished))
    yield from _explained(facts, (pod for pod in pods if namespace in {"", pod.namespace}), explain_pod)
    claims = (claim for _, claim in sorted(snapshot.claims.items()) if claim.phase != "Bound")
    yield from _explained(facts, (claim for claim in claims if namespace in {"", claim.namespace}), explain_claim)
