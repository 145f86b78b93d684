"""Causes in quotas: a claim or pod that was never created."""

import re
from collections.abc import Iterator
from datetime import timedelta
from shlex import quote
from typing import Final

from binder.matching.rejection import Reason
from kube.rules.quantity import format_quantity
from prebinder.why.causes.finding import Finding, Step
from prebinder.why.causes.objects import named
from prebinder.why.causes.reported import events_with, quoted
from prebinder.why.facts.details import QuotaRecord
from prebinder.why.facts.facts import Facts, Source
from prebinder.why.report.report import Link

_EXCEEDED: Final = re.compile(r"exceeded quota: (?P<quota>[^,\s]+)")
_STILL_TRIED: Final = timedelta(minutes=30)
"""Controllers retry after 17 minutes at the latest: a claim rejected earlier is not wanted any more."""

_FORBIDDEN: Final = re.compile(r"persistentvolumeclaims \"(?P<claim>[^\"]+)\" is forbidden: exceeded quota")


def quota_exceeded(facts: Facts, namespace: str, name: str) -> Finding | None:
    """A claim of this name was rejected by a ResourceQuota.

    Source: FailedCreate of the StatefulSet controller and FailedBinding of the ephemeral volume controller, with the
    text of plugin/pkg/admission/resourcequota/controller.go; there is no object to read.
    """
    if not facts.has(Source.EVENTS):
        return None
    wanted = re.compile(rf'persistentvolumeclaims "{re.escape(name)}" is forbidden: exceeded quota')
    for key, event in events_with(facts, wanted):
        if key.partition("/")[0] != namespace:
            continue
        match = _EXCEEDED.search(event.note)
        quota_name = match["quota"] if match else ""
        quota = _quota(facts, namespace, quota_name) if facts.has(Source.QUOTAS) else None
        full = named(_full(quota)) if quota is not None else "see the Event"
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
                    f"kubectl -n {namespace} describe quota {quote(quota_name)}",
                    "free some of it, or ask an administrator to raise it",
                ),
            ),
        )
    return None


def refused_claims(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the claims that quotas rejected and that do not exist."""
    if not facts.has(Source.EVENTS):
        return
    refused = set()
    for key, event in events_with(facts, _FORBIDDEN):
        match = _FORBIDDEN.search(event.note)
        is_tried = event.last is None or facts.now - event.last < _STILL_TRIED
        if match is not None and is_tried:
            refused.add((key.partition("/")[0], match["claim"]))
    for namespace, name in sorted(refused):
        if f"{namespace}/{name}" not in facts.snapshot.claims:
            yield namespace, name


def _quota(facts: Facts, namespace: str, name: str) -> QuotaRecord | None:
    return next((quota for quota in facts.quotas if (quota.namespace, quota.name) == (namespace, name)), None)


def _full(quota: QuotaRecord) -> Iterator[str]:
    """Yield the storage resources of which little is left, or all of a small quota."""
    used = dict(quota.used)
    for name, hard in quota.hard:
        if "storage" in name or name == "persistentvolumeclaims":
            yield f"{_amount(name, used.get(name, 0))} of {_amount(name, hard)} {name} used"


def _amount(name: str, nano: int) -> str:
    return format_quantity(nano, binary="storage" in name)
