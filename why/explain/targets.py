"""The objects that the user names: a pod, a claim, a volume, a workload for its pods, or a bare NAME of a pod or
claim.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from kube.configuration.nearest import did_you_mean
from kube.objects.labels import LabelSelector, Requirement
from kube.rules.selectors import problem_of

_KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("pvc", "persistentvolumeclaim", "persistentvolumeclaims", "claim"), "PersistentVolumeClaim"),
    **dict.fromkeys(("pv", "persistentvolume", "persistentvolumes", "volume"), "PersistentVolume"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), "StatefulSet"),
    **dict.fromkeys(("deployment", "deployments", "deploy"), "Deployment"),
    **dict.fromkeys(("job", "jobs"), "Job"),
}
WORKLOADS: Final = frozenset({"StatefulSet", "Deployment", "Job"})
"""Kinds that stand for their pods."""

_EXPECTED: Final = ("pod", "pvc", "pv", "statefulset", "deployment", "job")


@dataclass(frozen=True, slots=True)
class Target:
    """A requested object. `kind` is empty for a bare name: a claim or a pod, whichever exists.

    `namespace` is empty for the requested one.
    """

    kind: str
    name: str
    namespace: str = ""

    @property
    def is_workload(self) -> bool:
        return self.kind in WORKLOADS


def parse_target(text: str) -> Target:
    """Parse one argument. Raises ValueError with a sentence for the user."""
    kind, slash, name = text.partition("/")
    if not slash:
        return Target("", text)
    known = _KINDS.get(kind.lower().removesuffix("."))
    if known is None or not name or "/" in name:
        meant = did_you_mean(kind, _EXPECTED) if known is None else "."
        raise ValueError(f'expected {"/NAME, ".join(_EXPECTED)}/NAME or NAME, found "{text}"{meant}')
    return Target(known, name)


def of_one_kind(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """Return the targets of `pod NAME...`, as kubectl takes them too, as `pod/NAME...`; others as they are."""
    first, *others = targets or (Target("", ""),)
    kind = "" if first.kind else _KINDS.get(first.name.lower(), "")
    if not kind or not others or any(each.kind for each in others):
        return targets
    return tuple(replace(each, kind=kind) for each in others)


_EQUAL: Final = re.compile(r"(?P<key>[^\s!=,()]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s!=,()]*)")
_ONE_OF: Final = re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_PRESENT: Final = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s!=,()]+)")
_COMMA: Final = re.compile(r",(?![^(]*\))")


def parse_selector(text: str) -> LabelSelector:
    """Parse a label selector in kubectl's syntax: `app=web,tier!=cache,env in (a, b),!old`. Raises ValueError."""
    requirements = tuple(_requirement(part.strip()) for part in _COMMA.split(text))
    selector = LabelSelector((), requirements)
    problem = problem_of(selector)
    if problem is not None:
        raise ValueError(f'"{text}" is not a label selector: {problem}')
    return selector


def _requirement(text: str) -> Requirement:
    if match := _EQUAL.fullmatch(text):
        return Requirement(match["key"], "NotIn" if match["operator"] == "!=" else "In", (match["value"],))
    if match := _ONE_OF.fullmatch(text):
        values = tuple(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], "In" if match["operator"] == "in" else "NotIn", values)
    if match := _PRESENT.fullmatch(text):
        return Requirement(match["key"], "DoesNotExist" if match["absent"] else "Exists")
    raise ValueError(f'expected a label selector such as app=web,tier!=cache, found "{text}"')
