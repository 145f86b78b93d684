"""What the cluster and the drivers have to offer, and what is missing for it to work in full. Pure judgements."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kube.resource import EVENTS, LEASES, NODES, PODS, STORAGE_CLASSES, VOLUMES, WATCHED, Resource

Version = tuple[int, int]
OLDEST: Final[Version] = (1, 27)
"""Scheduling gates (KEP-3521) are on from this version."""
TESTED: Final[Version] = (1, 36)

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
_READ: Final = ("list", "watch")


class State(StrEnum):
    """How a check went. Only a problem makes the command fail."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report: what was looked at, what was found, and what that means."""

    subject: str
    state: State
    found: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """A right, and what does not work without it. One that is not `vital` is needed for a feature only."""

    resource: Resource
    verb: str
    without: str
    vital: bool = True

    def __str__(self) -> str:
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{self.verb} {self.resource.plural}{group}"


def needs() -> Iterator[Need]:
    """Yield the rights the controller uses, as manifests/base and its components grant them."""
    for resource in WATCHED:
        for verb in _READ:
            yield Need(resource, verb, "the controller does not become ready")
    for resource in WATCHED[:2]:
        yield Need(resource, "patch", "nothing can be reserved")
    for verb in ("create", "patch"):
        yield Need(EVENTS, verb, "no Events are written")
    for verb in ("get", "create", "patch"):
        yield Need(LEASES, verb, "no replica becomes leader, so nothing is written")
    yield Need(PODS, "patch", "pods with our scheduling gate stay gated (component scheduling-gate)", vital=False)


def parse_version(text: str) -> Version | None:
    """Read `v1.36.3` or `1.27+`; None for anything else."""
    found = _VERSION.match(text)
    return None if found is None else (int(found[1]), int(found[2]))


def check_version(text: str) -> Check:
    """Judge the server's version."""
    version, subject = parse_version(text), "server version"
    if version is None:
        return Check(subject, State.PROBLEM, text or "none told", "expected a version such as v1.36.3")
    if version < OLDEST:
        least = ".".join(map(str, OLDEST))
        return Check(subject, State.PROBLEM, text, f"scheduling gates need {least}; everything else is untested there")
    if version > TESTED:
        return Check(subject, State.NOTE, text, f"newer than {'.'.join(map(str, TESTED))}, the last one tested")
    return Check(subject, State.OK, text)


def check_served(served: Mapping[str, Collection[str] | None]) -> Iterator[Check]:
    """Judge what is served: group and version -> plural names, None where it could not be learned."""
    for api_version in dict.fromkeys(resource.api_version for resource in _used()):
        names = served.get(api_version)
        wanted = [resource.plural for resource in _used() if resource.api_version == api_version]
        missing = [] if names is None else [name for name in wanted if name not in names]
        subject = f"API {api_version}"
        if names is None:
            yield Check(subject, State.PROBLEM, "not served", f"needed for {', '.join(wanted)}")
        elif missing:
            yield Check(subject, State.PROBLEM, f"without {', '.join(missing)}", _without(missing))
        else:
            yield Check(subject, State.OK, ", ".join(wanted))


def check_rights(allowed: Mapping[Need, bool | None]) -> Iterator[Check]:
    """Judge the rights; None where the server did not say. Those that are there make one line."""
    granted = sum(answer is True for answer in allowed.values())
    if granted:
        yield Check("rights", State.OK, f"{granted} of {len(allowed)} granted")
    unknown = [need for need, answer in allowed.items() if answer is None]
    if unknown:
        yield Check(
            "rights", State.NOTE, f"{len(unknown)} not known", "the server does not answer reviews of one's own"
        )
    for need, answer in allowed.items():
        if answer is False:
            yield Check(str(need), State.PROBLEM if need.vital else State.NOTE, "not granted", need.without)


def _used() -> tuple[Resource, ...]:
    return (*WATCHED, LEASES, EVENTS)


def _without(missing: Collection[str]) -> str:
    if LEASES.plural in missing:
        return "no replica becomes leader, so nothing is written"
    if {VOLUMES.plural, PODS.plural, NODES.plural, STORAGE_CLASSES.plural}.intersection(missing):
        return "nothing can be decided"
    return "no Events are written" if EVENTS.plural in missing else "the controller does not become ready"
