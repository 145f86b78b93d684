"""What the cluster and the drivers provide, and what is missing for full function. Pure rules."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final

from kube.objects.api_resource import Resource
from prebinder.preflight.requirements import Lack, Need

Version = tuple[int, int]
MIN_VERSION: Final[Version] = (1, 27)
"""Scheduling gates (KEP-3521) are enabled from this version on."""
TESTED: Final[Version] = (1, 37)

ADMISSION: Final = "admissionregistration.k8s.io/v1"
GATE_POLICIES: Final = "mutatingadmissionpolicies"
"""What components/gate-policy consists of, in that API."""

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


Served = Mapping[str, Collection[str] | None]
"""Group and version -> the plural names of its kinds, empty if there is no such API; None if unknown."""


class CheckState(StrEnum):
    """The result of a check. Only a problem makes the command fail."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """A line of the report: what was checked, what was found, and what that means."""

    subject: str
    state: CheckState
    found: str
    meaning: str = ""


def parse_version(text: str) -> Version | None:
    """Read `v1.36.3` or `1.27+`; None for anything else."""
    match = _VERSION.match(text)
    return None if match is None else (int(match[1]), int(match[2]))


def check_version(text: str) -> Check:
    version, subject = parse_version(text), "server version"
    if version is None:
        return Check(subject, CheckState.PROBLEM, text or "not reported", "expected a version such as v1.36.3")
    if version < MIN_VERSION:
        least = ".".join(map(str, MIN_VERSION))
        return Check(subject, CheckState.PROBLEM, text, f"scheduling gates need {least}; older versions are untested")
    if version > TESTED:
        return Check(
            subject, CheckState.NOTE, text, f"newer than {'.'.join(map(str, TESTED))}, the latest tested version"
        )
    return Check(subject, CheckState.OK, text)


def check_served(served: Served, kinds: Mapping[Resource, Lack]) -> Iterator[Check]:
    for api_version in dict.fromkeys(resource.api_version for resource in kinds):
        subject, names = f"API {api_version}", served.get(api_version)
        wanted = [resource for resource in kinds if resource.api_version == api_version]
        missing = [resource for resource in wanted if names is not None and resource.plural not in names]
        if names is None:
            yield Check(subject, CheckState.NOTE, "unknown", f"needed for {_plurals(wanted)}")
        elif missing:
            lacks = [kinds[resource] for resource in missing]
            state = CheckState.PROBLEM if any(lack.vital for lack in lacks) else CheckState.NOTE
            meanings = dict.fromkeys(lack.meaning for lack in sorted(lacks, key=lambda lack: not lack.vital))
            yield Check(subject, state, f"without {_plurals(missing)}", "; ".join(meanings))
        else:
            yield Check(subject, CheckState.OK, _plurals(wanted))


def unserved(served: Served, kinds: Iterable[Resource]) -> tuple[Resource, ...]:
    """Return the kinds that are known not to be served."""
    names = ((resource, served.get(resource.api_version)) for resource in kinds)
    return tuple(resource for resource, known in names if known is not None and resource.plural not in known)


def check_rights(allowed: Mapping[Need, bool | None]) -> Iterator[Check]:
    """Check the rights; None if the server did not report them. Those that are granted make one line."""
    granted = sum(answer is True for answer in allowed.values())
    if granted:
        yield Check("rights", CheckState.OK, f"{granted} of {len(allowed)} granted")
    unknown = [need for need, answer in allowed.items() if answer is None]
    if unknown:
        yield Check(
            "rights", CheckState.NOTE, f"{len(unknown)} unknown", "the server does not answer SelfSubjectAccessReviews"
        )
    for without, needs in groupby((need for need, answer in allowed.items() if answer is False), _consequence):
        first, *more = needs
        subject = f"{first} and {len(more)} more" if more else str(first)
        yield Check(subject, CheckState.PROBLEM if first.vital else CheckState.NOTE, "not granted", without[0])


def _consequence(need: Need) -> tuple[str, str]:
    """What is said once for rights of the same feature; a right that everything needs is named alone."""
    return need.without, str(need) if need.vital else ""


def check_gating(policies: Collection[str] | None) -> Check:
    """Check how pods can get the scheduling gate, by the kinds that the API of admission policies serves."""
    subject, template = "scheduling gate", "in pod templates"
    if policies is None:
        return Check(subject, CheckState.NOTE, template, "whether a policy can add it is unknown")
    if GATE_POLICIES in policies:
        return Check(subject, CheckState.OK, f"possible by components/gate-policy, or {template}")
    meaning = "components/gate-policy needs Kubernetes 1.36, or another server that serves MutatingAdmissionPolicy v1"
    return Check(subject, CheckState.NOTE, f"{template} only", meaning)


def _plurals(resources: Iterable[Resource]) -> str:
    return ", ".join(resource.plural for resource in resources)
