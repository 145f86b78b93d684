"""Label selectors and node selectors, matched as by apimachinery's labels package and component-helpers' nodeaffinity.

A selector that Kubernetes refuses to parse is malformed. The API server validates most of them, but not those in
objects older than a rule, nor those in files.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final

from kube.objects.memory import remembered
from kube.objects.model import LabelSelector, NodeSelector, NodeSelectorTerm, Pairs, Requirement

Labels = Mapping[str, str] | Pairs
"""Labels as a record holds them, or as a dict, which is faster for repeated lookups."""

NAME_FIELD: Final = "metadata.name"
"""The only field of a node that matchFields can select."""

_PROBLEM_BYTES: Final = 8 * 2**20
"""Of terms and of selectors whose problems are cached: 10,000 local volumes have a term each of some 400 bytes."""

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}")
"""As long as a label's value can be: leading zeros count for nothing."""
_SET_OPERATORS: Final = frozenset({"In", "NotIn"})
_PRESENCE_OPERATORS: Final = frozenset({"Exists", "DoesNotExist"})
_COMPARISONS: Final = frozenset({"Gt", "Lt"})


def matches_labels(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether labels match a whole selector. None and the empty selector match everything, a malformed one nothing."""
    if selector is None:
        return True
    return problem_of(selector) is None and _holds(_requirements(selector), _as_mapping(labels))


@remembered(_PROBLEM_BYTES)
def problem_of(selector: LabelSelector) -> str | None:
    """Return why Kubernetes would not parse a label selector, or None if it would."""
    return _first_problem(_requirements(selector), _SET_OPERATORS | _PRESENCE_OPERATORS)


def _requirements(selector: LabelSelector) -> tuple[Requirement, ...]:
    exact = tuple(Requirement(key, "In", (value,)) for key, value in selector.match_labels)
    return exact + selector.match_expressions


def node_matches(selector: NodeSelector | None, labels: Labels) -> bool:
    """Whether a volume with this `nodeAffinity.required` is accessible from a node with these labels.

    Like CheckNodeAffinity of component-helpers/storage/volume, which builds a node without a name: matchFields must
    parse but are not enforced, so a term of matchFields alone matches every node. None matches every node too.
    """
    return pod_node_affinity_matches(selector, labels, "")


def pod_node_affinity_matches(selector: NodeSelector | None, labels: Labels, node_name: str) -> bool:
    """Whether a node matches a pod's required node affinity, matchFields included. None is matched by every node."""
    if selector is None:
        return True
    known = _as_mapping(labels)
    return any(term_matches(term, known, node_name) for term in selector.terms)


def named_nodes(selector: NodeSelector | None) -> frozenset[str] | None:
    """Return the names of nodes of which every term of a pod's node affinity requires one; None if some requires none.

    Source: PreFilter of plugins/nodeaffinity/node_affinity.go.
    """
    if selector is None or not selector.terms:
        return None
    names: set[str] = set()
    for term in selector.terms:
        required = [set(field.values) for field in term.match_fields if _names_node(field)]
        if not required:
            return None
        names |= set.intersection(*required)
    return frozenset(names)


def _names_node(requirement: Requirement) -> bool:
    return requirement.key == NAME_FIELD and requirement.operator == "In"


@remembered(_PROBLEM_BYTES)
def label_keys(selector: NodeSelector | None) -> tuple[str, ...]:
    """Return the keys of the node labels used by any term, sorted: nodes with equal values are equivalent."""
    terms = selector.terms if selector is not None else ()
    return tuple(sorted({requirement.key for term in terms for requirement in term.match_expressions}))


def _as_mapping(labels: Labels) -> Mapping[str, str]:
    return dict(labels) if isinstance(labels, tuple) else labels


def term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], node_name: str) -> bool:
    """Whether a node matches a term. Without a name the node's fields are not checked."""
    if not term.match_expressions and not term.match_fields:
        return False
    if term_problem(term) is not None or not _holds(term.match_expressions, labels):
        return False
    return not node_name or _fields_hold(term.match_fields, node_name)


def _fields_hold(requirements: Iterable[Requirement], node_name: str) -> bool:
    for requirement in requirements:
        value = node_name if requirement.key == NAME_FIELD else ""
        if (value == requirement.values[0]) != (requirement.operator == "In"):
            return False
    return True


@remembered(_PROBLEM_BYTES)
def term_problem(term: NodeSelectorTerm) -> str | None:
    """Return why Kubernetes would not parse a term, or None if it would."""
    for requirement in term.match_fields:
        if requirement.operator not in _SET_OPERATORS:
            return f"{requirement.operator!r} is not an operator of matchFields: expected In or NotIn"
        if len(requirement.values) != 1:
            return f"matchFields {requirement.key!r} has {len(requirement.values)} values: expected one"
    return _first_problem(term.match_expressions, _SET_OPERATORS | _PRESENCE_OPERATORS | _COMPARISONS)


def _first_problem(requirements: Iterable[Requirement], operators: Set[str]) -> str | None:
    return next(
        (problem for requirement in requirements if (problem := _problem(requirement, operators)) is not None), None
    )


def _problem(requirement: Requirement, operators: Set[str]) -> str | None:
    """Return why `labels.NewRequirement` would reject a requirement."""
    if requirement.operator not in operators:
        return f"{requirement.operator!r} is not an operator: expected one of {', '.join(sorted(operators))}"
    if not is_label_key(requirement.key):
        return f"{requirement.key!r} is not a label key"
    if requirement.operator in _SET_OPERATORS and not requirement.values:
        return f"{requirement.operator} of {requirement.key!r} has no values"
    if requirement.operator in _PRESENCE_OPERATORS and requirement.values:
        return f"{requirement.operator} of {requirement.key!r} has values: expected none"
    if requirement.operator in _COMPARISONS and (
        len(requirement.values) != 1 or _integer(requirement.values[0]) is None
    ):
        return f"{requirement.operator} of {requirement.key!r} needs exactly one whole number"
    bad = next((value for value in requirement.values if value and not _NAME.fullmatch(value)), None)
    return None if bad is None else f"{bad!r} is not a label value"


def is_label_key(key: str) -> bool:
    """Whether a label can have this key: a name, or a DNS subdomain, a slash and a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def _integer(text: str) -> int | None:
    """Parse what Go's ParseInt parses into 64 bits."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _holds(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(requirement_holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def requirement_holds(requirement: Requirement, value: str | None) -> bool:
    """Whether a label's value, None if the label is absent, satisfies a requirement that is valid."""
    return _OPERATIONS[requirement.operator](value, requirement.values)


def _greater(value: str | None, values: tuple[str, ...]) -> bool:
    number, bound = _integer(value or ""), _integer(values[0])
    return number is not None and bound is not None and number > bound


def _less(value: str | None, values: tuple[str, ...]) -> bool:
    number, bound = _integer(value or ""), _integer(values[0])
    return number is not None and bound is not None and number < bound


_OPERATIONS: Final[Mapping[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _greater,
    "Lt": _less,
}
