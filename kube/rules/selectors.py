"""Label selectors and node selectors, matched as by apimachinery's labels package and component-helpers' nodeaffinity.

A selector that Kubernetes cannot parse is malformed. The API server validates most of them, but not those in
objects older than a rule, nor those in files.
"""

import re
from collections.abc import Iterable, Mapping, Set
from typing import Final

from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Pairs, Requirement
from kube.objects.memory import remembered
from kube.rules.label_test import LabelTest, label_test, whole_number

Labels = Mapping[str, str] | Pairs
"""Labels as a record holds them, or as a dict, which is faster for repeated lookups."""

MAX_SELECTOR_BYTES: Final = 16 * 2**10
"""Of a claim's selector as the API server sends it, some 400 requirements. Larger ones are not read: a namespace user
could write 30,000 requirements, and they would be decoded on the event loop.
"""

NAME_FIELD: Final = "metadata.name"
"""The only field of a node that matchFields can select."""

_COMPILED_BYTES: Final = 16 * 2**20
"""Of terms and of selectors that are kept compiled: 10,000 local volumes have a term each of some 1,500 bytes, and a
pod may have 64 claims with selectors of 16 KiB.
"""

_KEY_BYTES: Final = 8 * 2**20
"""Of node selectors whose keys are cached."""

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")
_SET_OPERATORS: Final = frozenset({"In", "NotIn"})
_PRESENCE_OPERATORS: Final = frozenset({"Exists", "DoesNotExist"})
_COMPARISONS: Final = frozenset({"Gt", "Lt"})


def matches_labels(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether labels match a whole selector. None and the empty selector match everything, a malformed one nothing."""
    if selector is None:
        return True
    test = _compiled(selector)
    return not isinstance(test, str) and test.holds(_as_mapping(labels))


def problem_of(selector: LabelSelector) -> str | None:
    """Return why Kubernetes would not parse a label selector, or why it was not read; None if neither."""
    test = _compiled(selector)
    return test if isinstance(test, str) else None


@remembered(_COMPILED_BYTES)
def _compiled(selector: LabelSelector) -> LabelTest | str:
    """Return the test, or the problem of a selector that has one."""
    if selector.dropped_bytes:
        return f"it has {selector.dropped_bytes:,} bytes: at most {MAX_SELECTOR_BYTES:,} are evaluated"
    requirements = _requirements(selector)
    return _first_problem(requirements, _SET_OPERATORS | _PRESENCE_OPERATORS) or label_test(requirements)


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


@remembered(_KEY_BYTES)
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
    test = _compiled_term(term)
    if isinstance(test, str) or not test.holds(labels):
        return False
    return not node_name or _fields_hold(term.match_fields, node_name)


def _fields_hold(requirements: Iterable[Requirement], node_name: str) -> bool:
    for requirement in requirements:
        value = node_name if requirement.key == NAME_FIELD else ""
        if (value == requirement.values[0]) != (requirement.operator == "In"):
            return False
    return True


def term_problem(term: NodeSelectorTerm) -> str | None:
    """Return why Kubernetes would not parse a term, or None if it would."""
    test = _compiled_term(term)
    return test if isinstance(test, str) else None


@remembered(_COMPILED_BYTES)
def _compiled_term(term: NodeSelectorTerm) -> LabelTest | str:
    """Return the test of a node's labels, or the problem of a term that has one."""
    for requirement in term.match_fields:
        if requirement.operator not in _SET_OPERATORS:
            return f"{requirement.operator!r} is not an operator of matchFields: expected In or NotIn"
        if len(requirement.values) != 1:
            return f"matchFields {requirement.key!r} has {len(requirement.values)} values: expected one"
    operators = _SET_OPERATORS | _PRESENCE_OPERATORS | _COMPARISONS
    return _first_problem(term.match_expressions, operators) or label_test(term.match_expressions)


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
        len(requirement.values) != 1 or whole_number(requirement.values[0]) is None
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
