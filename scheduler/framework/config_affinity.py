"""`addedAffinity` of a profile in the configuration file: spelled as a pod spells its node affinity, read strictly."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from annotated_types import Interval, Len

from kube.configuration.fields import CAMEL_KEYS
from kube.objects.constraints import PreferredNodes
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.rules.selectors import term_problem
from scheduler.framework.profile import AddedAffinity

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = "nodeSelectorTerms"
_HEAVIEST: Final = 100


@dataclass(frozen=True, slots=True)
class RequirementEntry:
    __pydantic_config__ = CAMEL_KEYS

    key: str
    operator: str
    values: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TermEntry:
    __pydantic_config__ = CAMEL_KEYS

    match_expressions: list[RequirementEntry] = field(default_factory=list)
    match_fields: list[RequirementEntry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SelectorEntry:
    __pydantic_config__ = CAMEL_KEYS

    node_selector_terms: Annotated[list[TermEntry], Len(1)]


@dataclass(frozen=True, slots=True)
class PreferenceEntry:
    __pydantic_config__ = CAMEL_KEYS

    weight: Annotated[int, Interval(ge=1, le=_HEAVIEST)]
    preference: TermEntry


@dataclass(frozen=True, slots=True)
class AffinityEntry:
    __pydantic_config__ = CAMEL_KEYS

    required_during_scheduling_ignored_during_execution: SelectorEntry | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferenceEntry] = field(default_factory=list)


class AffinityError(ValueError):
    """A term that Kubernetes could not read. `place` is the path below `addedAffinity`."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem


def added_affinity(entry: AffinityEntry | None) -> AddedAffinity:
    """Return the affinity in the file. Raises AffinityError for the first invalid term."""
    if entry is None:
        return AddedAffinity()
    required = entry.required_during_scheduling_ignored_during_execution
    wishes = entry.preferred_during_scheduling_ignored_during_execution
    terms = tuple(map(_term, required.node_selector_terms)) if required is not None else ()
    for place, term in enumerate(terms):
        _check(term, f"{REQUIRED}.{_TERMS}[{place}]")
    preferred = []
    for place, wish in enumerate(wishes):
        here = f"{PREFERRED}[{place}]"
        preferred.append(PreferredNodes(wish.weight, _term(wish.preference)))
        _check(preferred[-1].term, f"{here}.preference")
    return AddedAffinity(NodeSelector(terms) if terms else None, tuple(preferred))


def affinity_document(affinity: AddedAffinity) -> Mapping[str, object]:
    """Return what `added_affinity` decodes to the same value."""
    document: dict[str, object] = {}
    if affinity.required is not None:
        document[REQUIRED] = {_TERMS: list(map(_term_document, affinity.required.terms))}
    if affinity.preferred:
        document[PREFERRED] = [
            {"weight": wish.weight, "preference": _term_document(wish.term)} for wish in affinity.preferred
        ]
    return document


def _check(term: NodeSelectorTerm, place: str) -> None:
    problem = term_problem(term)
    if problem is not None:
        raise AffinityError(place, problem)


def _term(entry: TermEntry) -> NodeSelectorTerm:
    return NodeSelectorTerm(_requirements(entry.match_expressions), _requirements(entry.match_fields))


def _requirements(entries: Iterable[RequirementEntry]) -> tuple[Requirement, ...]:
    return tuple(Requirement(entry.key, entry.operator, tuple(entry.values)) for entry in entries)


def _term_document(term: NodeSelectorTerm) -> Mapping[str, object]:
    parts = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
    return {key: list(map(_requirement_document, part)) for key, part in parts.items() if part}


def _requirement_document(requirement: Requirement) -> Mapping[str, object]:
    values = {"values": list(requirement.values)} if requirement.values else {}
    return {"key": requirement.key, "operator": requirement.operator, **values}
