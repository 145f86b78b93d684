"""What pods require of other pods, as ties: which pods are selected, and within which topology domain it matters.

A tie is one required term of (anti-)affinity or one spread constraint with DoNotSchedule, together with the namespace
of its pod. Pods that have the same ties and are selected by the same ties are interchangeable.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kube.objects.constraints import DO_NOT_SCHEDULE, NO_CONSTRAINTS, Constraints, PodTerm
from kube.objects.labels import LabelSelector, Pairs
from kube.objects.model import Pod
from kube.persistent_map import Map
from kube.pod_topology.placed_pods import NAMESPACE_NAME, means
from kube.pod_topology.pod_groups import group_of
from kube.pod_topology.topology_spread import constraints_of, selector_of


class TieKind(Enum):
    """What is required of the selected pods."""

    APART = auto()
    NEAR = auto()
    SPREAD = auto()


class Tie(Struct, frozen=True, gc=False):
    """A requirement. `owner` is the namespace of the pods that have it."""

    kind: TieKind
    owner: str
    term: PodTerm

    @property
    def key(self) -> str:
        """Return the label of nodes whose values are the domains."""
        return self.term.topology_key


_NO_NAMESPACES: Final[Mapping[str, Pairs]] = Map()


def ties_of(pod: Pod) -> tuple[Tie, ...]:
    """Return what the pod requires of others.

    Only the names of namespaces are known here: a selector that needs other labels counts as selecting all of them.
    """
    constraints = widened(pod.constraints) or NO_CONSTRAINTS
    ties = [Tie(TieKind.APART, pod.namespace, term) for term in constraints.anti_affinity]
    ties += [Tie(TieKind.NEAR, pod.namespace, term) for term in constraints.affinity]
    for constraint in constraints_of(pod, DO_NOT_SCHEDULE):
        term = PodTerm(constraint.topology_key, selector_of(constraint, pod), (pod.namespace,))
        ties.append(Tie(TieKind.SPREAD, pod.namespace, term))
    return tuple(dict.fromkeys(ties))


def widened(constraints: Constraints | None) -> Constraints | None:
    """Return the constraints with every namespaceSelector on unknown labels replaced by one that selects all
    namespaces.
    """
    if constraints is None or not any(map(_asks_labels, (*constraints.affinity, *constraints.anti_affinity))):
        return constraints
    return replace(
        constraints,
        affinity=tuple(map(_widened, constraints.affinity)),
        anti_affinity=tuple(map(_widened, constraints.anti_affinity)),
    )


def asks_for_namespace_labels(constraints: Constraints | None) -> bool:
    """Whether a required term selects namespaces by more than their name."""
    return constraints is not None and any(map(_asks_labels, (*constraints.affinity, *constraints.anti_affinity)))


class Ties:
    """The ties of many pods, numbered; sets of them are bits by number."""

    def __init__(self) -> None:
        self.numbered: list[Tie] = []
        self.of_kind: dict[TieKind, int] = dict.fromkeys(TieKind, 0)
        self._numbers: dict[Tie, int] = {}
        self._by_namespace: dict[str, int] = {}
        self._everywhere = 0
        self._meaning: dict[tuple[str, Pairs], int] = {}

    def add(self, ties: Iterable[Tie]) -> int:
        """Add ties and return their set. Must not be called after `meaning`."""
        numbers = 0
        for tie in ties:
            number = self._numbers.get(tie)
            if number is None:
                number = self._numbers[tie] = len(self.numbered)
                self.numbered.append(tie)
                self.of_kind[tie.kind] |= 1 << number
                self._file(tie, 1 << number)
            numbers |= 1 << number
        return numbers

    def meaning(self, pod: Pod) -> int:
        """Return the ties that select the pod."""
        cache_key = (pod.namespace, pod.labels)
        numbers = self._meaning.get(cache_key)
        if numbers is None:
            numbers, group = 0, group_of(pod)
            for number in numbers_in(self._by_namespace.get(pod.namespace, 0) | self._everywhere):
                tie = self.numbered[number]
                if means(tie.term, tie.owner, group, _NO_NAMESPACES):
                    numbers |= 1 << number
            self._meaning[cache_key] = numbers
        return numbers

    def _file(self, tie: Tie, bit: int) -> None:
        if tie.term.namespace_selector is not None:
            self._everywhere |= bit
            return
        for namespace in tie.term.namespaces or (tie.owner,):
            self._by_namespace[namespace] = self._by_namespace.get(namespace, 0) | bit


def numbers_in(bits: int) -> Iterable[int]:
    """Yield the numbers in a set of bits, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _asks_labels(term: PodTerm) -> bool:
    selector = term.namespace_selector
    if selector is None:
        return False
    keys = {key for key, _ in selector.match_labels} | {requirement.key for requirement in selector.match_expressions}
    return not keys <= {NAMESPACE_NAME}


def _widened(term: PodTerm) -> PodTerm:
    return replace(term, namespace_selector=LabelSelector()) if _asks_labels(term) else term
