"""Compares where a driver reports a volume as accessible with the node affinity of its PersistentVolume.

The rule: a PersistentVolume is wrong if no segment that the driver reports can lie on a node that the volume's node
affinity allows. Only keys that both sides name can disagree; a segment implies nothing about other labels of its nodes.
"""

from collections.abc import Iterable, Mapping, Sequence

from csi.health.verdict import Segment
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement


def segments(accessible: Iterable[Mapping[str, str]]) -> tuple[Segment, ...]:
    """Return the segments of a response, each once and in a fixed order, so that equal responses compare equal."""
    return tuple(sorted({Segment(tuple(sorted(labels.items()))) for labels in accessible}, key=_labels))


def contradiction(topology: Sequence[Segment] | None, affinity: NodeSelector | None) -> str | None:
    """Return the evidence that the driver and the volume's node affinity cannot both be right, or None."""
    if not topology or affinity is None or not affinity.terms:
        return None
    if any(_compatible(segment, term) for segment in topology for term in affinity.terms):
        return None
    reported = " or ".join(", ".join(f"{key}={value}" for key, value in segment.labels) for segment in topology)
    demanded = " or ".join(_term(term, topology) for term in affinity.terms)
    return f"the driver reports the volume in {reported}; its node affinity requires {demanded}"


def _labels(segment: Segment) -> tuple[tuple[str, str], ...]:
    return segment.labels


def _compatible(segment: Segment, term: NodeSelectorTerm) -> bool:
    known = dict(segment.labels)
    return all(
        _allows(requirement, known[requirement.key])
        for requirement in term.match_expressions
        if requirement.key in known
    )


def _allows(requirement: Requirement, value: str) -> bool:
    """Whether a node whose label has this value can meet the requirement; unknown operators count as possible."""
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "DoesNotExist":
            return False
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return True


def _compares(requirement: Requirement, value: str) -> bool:
    try:
        bound, number = int(requirement.values[0]), int(value)
    except (ValueError, IndexError):
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _term(term: NodeSelectorTerm, topology: Sequence[Segment]) -> str:
    keys = {key for segment in topology for key, _ in segment.labels}
    return " and ".join(
        f"{requirement.key} {requirement.operator} [{', '.join(requirement.values)}]"
        for requirement in term.match_expressions
        if requirement.key in keys
    )
