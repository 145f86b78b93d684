"""Causes of a claim that was never created: a quota, a limit, or another rejection by the API server."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from binder.matching.rejection import Reason
from kube.plain_text import shell
from kube.rules.quantity import format_quantity
from why.causes.finding import Finding, Step
from why.causes.objects import named
from why.causes.reported import events_with, quoted
from why.facts.details import EventRecord, QuotaRecord
from why.facts.facts import Facts, Source
from why.report.report import Link

_REJECTED: Final = re.compile(
    r'persistentvolumeclaims "(?P<forbidden>[^"]+)" is forbidden: '
    r"|(?i:create) Claim (?P<claim>\S+) for Pod \S+ in StatefulSet \S+ failed error: "
    r"|create PVC (?P<pvc>[^\s:]+): "
)
"""Texts of the StatefulSet controller (stateful_pod_control.go) and of the ephemeral volume controller (controller.go
in volume/ephemeral) that contain the API server's answer.
"""

_QUOTA: Final = re.compile(
    r"(?:exceeded|failed) quota: (?P<quota>[^,:\s]+)(?:[:,] (?P<numbers>(?:requested|must specify)[^\n]*))?"
)
_REQUESTED: Final = re.compile(r"([^\s,=]+)=")
_ENDING_NAMESPACE: Final = re.compile(r"because it is being terminated")
_LIMIT: Final = re.compile(
    r"(?P<limit>m(?:in|ax)imum storage usage per PersistentVolumeClaim is \S+ but request is \S+)"
)
_STILL_TRIED: Final = timedelta(minutes=30)
"""Controllers retry after 17 minutes at the latest: a claim rejected earlier is not wanted any more."""


def creation_rejected(facts: Facts, namespace: str, name: str) -> Finding | None:
    """The API server rejected a claim of this name, and a controller reports it; there is no object to read.

    Source: the texts of plugin/pkg/admission/resourcequota/controller.go and limitranger/admission.go, and whatever
    an admission webhook answers.
    """
    if not facts.has(Source.EVENTS):
        return None
    for key, event, rejected in _rejections(facts):
        if (key.partition("/")[0], rejected) == (namespace, name):
            return (
                _by_quota(facts, namespace, name, event)
                or _by_limit(facts, namespace, name, event)
                or _by_namespace(facts, namespace, name, event)
                or _by_others(facts, namespace, name, event)
            )
    return None


def rejected_claims(facts: Facts, wanted_by: str = "") -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the claims that were rejected and that do not exist: all, or those that the object
    with this key wanted.
    """
    if not facts.has(Source.EVENTS):
        return
    rejected = set()
    end = facts.events_end or facts.now
    for key, event, name in _rejections(facts):
        if wanted_by and key != wanted_by:
            continue
        if event.last is None or end - event.last < _STILL_TRIED:
            rejected.add((key.partition("/")[0], name))
    for namespace, name in sorted(rejected):
        if f"{namespace}/{name}" not in facts.snapshot.claims:
            yield namespace, name


def _rejections(facts: Facts) -> Iterator[tuple[str, EventRecord, str]]:
    """Yield the key of the object that wanted a claim, the Event, and the name of the claim."""
    for key, event in events_with(facts, _REJECTED):
        match = _REJECTED.search(event.note)
        if match is not None and match.lastgroup is not None:
            yield key, event, match[match.lastgroup]


def _by_quota(facts: Facts, namespace: str, name: str, event: EventRecord) -> Finding | None:
    match = _QUOTA.search(event.note)
    if match is None:
        return None
    quota_name = match["quota"]
    quota = _quota_of(facts, namespace, quota_name) if facts.has(Source.QUOTAS) else None
    numbers = match["numbers"] or ""
    is_missing = "must specify" in numbers
    full = numbers if is_missing or quota is None else named(_full(quota, numbers))
    full = full or numbers or "see the Event"
    return Finding(
        Reason.QUOTA_EXCEEDED,
        f'ResourceQuota "{quota_name}" forbids claim "{name}": {full}.',
        (
            Link("PersistentVolumeClaim", f"{namespace}/{name}", "not created"),
            Link("ResourceQuota", quota_name, full),
        ),
        (quoted(facts, event),),
        (
            Step(
                shell("kubectl -n {} describe quota {}", namespace, quota_name),
                "free some of it, or ask an administrator to raise it",
            ),
        ),
    )


def _by_limit(facts: Facts, namespace: str, name: str, event: EventRecord) -> Finding | None:
    match = _LIMIT.search(event.note)
    if match is None:
        return None
    return Finding(
        Reason.QUOTA_EXCEEDED,
        f'A LimitRange forbids claim "{name}": {match["limit"]}.',
        (Link("PersistentVolumeClaim", f"{namespace}/{name}", "not created"),),
        (quoted(facts, event),),
        (
            Step(
                shell("kubectl -n {} describe limitrange", namespace),
                "request a size within the limits, or ask an administrator to change them",
            ),
        ),
    )


def _by_namespace(facts: Facts, namespace: str, name: str, event: EventRecord) -> Finding | None:
    """Nothing is created in a namespace that is being deleted (admission/plugin/namespace/lifecycle)."""
    if not _ENDING_NAMESPACE.search(event.note):
        return None
    return Finding(
        Reason.CLAIM_NOT_FOUND,
        f'Claim "{name}" was not created: namespace {namespace} is being deleted.',
        (
            Link("PersistentVolumeClaim", f"{namespace}/{name}", "not created"),
            Link("Namespace", namespace, "Terminating"),
        ),
        (quoted(facts, event),),
        (
            Step(
                shell("kubectl get namespace {} -o yaml", namespace),
                "its conditions name what is left in it; create the application again when it is gone, or elsewhere",
            ),
        ),
    )


def _by_others(facts: Facts, namespace: str, name: str, event: EventRecord) -> Finding:
    return Finding(
        Reason.CLAIM_NOT_FOUND,
        f'Claim "{name}" was not created: the API server rejected it, as {event.reporter or "its controller"} reports.',
        (Link("PersistentVolumeClaim", f"{namespace}/{name}", "not created"),),
        (quoted(facts, event),),
        (Step(shell("kubectl -n {} get events", namespace), "correct the claim's template, or what rejects it"),),
    )


def _quota_of(facts: Facts, namespace: str, name: str) -> QuotaRecord | None:
    return next((quota for quota in facts.quotas if (quota.namespace, quota.name) == (namespace, name)), None)


def _full(quota: QuotaRecord, numbers: str) -> Iterator[str]:
    """Yield the resources that the API server names as requested too much, or else all that limit claims."""
    used = dict(quota.used)
    exceeded = set(_REQUESTED.findall(numbers.partition(", used:")[0])) & used.keys()
    for name, hard in quota.hard:
        if name in exceeded if exceeded else "storage" in name or name == "persistentvolumeclaims":
            yield f"{_amount(name, used.get(name, 0))} of {_amount(name, hard)} {name} used"


def _amount(name: str, nano: int) -> str:
    return format_quantity(nano, binary="storage" in name)
