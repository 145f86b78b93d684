"""Errors in a pod's scheduling fields, with their place and what was expected.

The API server rejects such pods (pkg/apis/core/validation), but not those older than a rule, nor those in files; and a
rule would silently match nothing. A value that only a newer API server allows is an error too: its meaning is not known
here.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kube.objects.constraints import (
    DO_NOT_SCHEDULE,
    HONOR,
    IGNORE,
    NO_CONSTRAINTS,
    SCHEDULE_ANYWAY,
    Constraints,
    HostPort,
    PodTerm,
    SpreadConstraint,
    WeightedPodTerm,
)
from kube.objects.labels import LabelSelector
from kube.objects.model import Pod, Toleration
from kube.rules.selectors import is_label_key, problem_of, term_problem

_OPERATORS: Final = ("Exists", "Equal")
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS: Final = (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
_POLICIES: Final = (HONOR, IGNORE)
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_HEAVIEST: Final = 100
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Problem:
    """A field with an invalid value: its path in the pod, what was expected there, and what it holds."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


def problems(pod: Pod) -> tuple[Problem, ...]:
    """Return all errors, in the order of the fields; none for a pod that can be scheduled."""
    return tuple(_problems(pod))


def _problems(pod: Pod) -> Iterator[Problem]:
    for place, toleration in enumerate(pod.tolerations):
        yield from _toleration(toleration, f"spec.tolerations[{place}]")
    required = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if pod.node_affinity is not None:
        if not pod.node_affinity.terms:
            yield Problem(required, "at least one term", "none")
        for place, term in enumerate(pod.node_affinity.terms):
            yield from _invalid(f"{required}[{place}]", term_problem(term))
    constraints = pod.constraints or NO_CONSTRAINTS
    if constraints is not NO_CONSTRAINTS:
        yield from _affinities(constraints)
        yield from _spreads(constraints.spread)
        yield from _ports(constraints.ports)


def _toleration(toleration: Toleration, path: str) -> Iterator[Problem]:
    yield from _one_of(f"{path}.operator", toleration.operator, _OPERATORS)
    yield from _one_of(f"{path}.effect", toleration.effect, _EFFECTS)
    if toleration.operator == "Exists" and toleration.value:
        yield Problem(f"{path}.value", "no value with the operator Exists", f'"{toleration.value}"')
    if not toleration.key and toleration.operator == "Equal":
        yield Problem(f"{path}.operator", "operator Exists if there is no key", "Equal")
    if toleration.key and not is_label_key(toleration.key):
        yield Problem(f"{path}.key", "a label key", f'"{toleration.key}"')


def _affinities(constraints: Constraints) -> Iterator[Problem]:
    nodes = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for place, wish in enumerate(constraints.preferred_nodes):
        yield from _weight(f"{nodes}[{place}].weight", wish.weight)
        yield from _invalid(f"{nodes}[{place}].preference", term_problem(wish.term))
    for kind, required, preferred in (
        ("podAffinity", constraints.affinity, constraints.preferred_affinity),
        ("podAntiAffinity", constraints.anti_affinity, constraints.preferred_anti_affinity),
    ):
        yield from _pod_terms(f"spec.affinity.{kind}", required, preferred)


def _pod_terms(path: str, required: Iterable[PodTerm], preferred: Iterable[WeightedPodTerm]) -> Iterator[Problem]:
    for place, term in enumerate(required):
        yield from _pod_term(f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{place}]", term)
    for place, wish in enumerate(preferred):
        here = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{place}]"
        yield from _weight(f"{here}.weight", wish.weight)
        yield from _pod_term(f"{here}.podAffinityTerm", wish.term)


def _pod_term(path: str, term: PodTerm) -> Iterator[Problem]:
    yield from _topology_key(f"{path}.topologyKey", term.topology_key)
    yield from _selector(f"{path}.labelSelector", term.selector)
    yield from _selector(f"{path}.namespaceSelector", term.namespace_selector)


def _spreads(spread: Iterable[SpreadConstraint]) -> Iterator[Problem]:
    seen: Counter[tuple[str, str]] = Counter()
    for place, constraint in enumerate(spread):
        path = f"spec.topologySpreadConstraints[{place}]"
        if constraint.max_skew < 1:
            yield Problem(f"{path}.maxSkew", "1 or more", str(constraint.max_skew))
        yield from _topology_key(f"{path}.topologyKey", constraint.topology_key)
        yield from _one_of(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, _ACTIONS)
        if constraint.min_domains < 1:
            yield Problem(f"{path}.minDomains", "1 or more", str(constraint.min_domains))
        yield from _one_of(f"{path}.nodeAffinityPolicy", constraint.node_affinity_policy, _POLICIES)
        yield from _one_of(f"{path}.nodeTaintsPolicy", constraint.node_taints_policy, _POLICIES)
        yield from _selector(f"{path}.labelSelector", constraint.selector)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        seen[pair] += 1
        if seen[pair] == 2:
            yield Problem(path, "one constraint for each topologyKey and whenUnsatisfiable", "a duplicate")


def _ports(ports: Iterable[HostPort]) -> Iterator[Problem]:
    path = "spec.containers[*].ports[*]"
    for port in ports:
        if not 0 < port.port <= _LAST_PORT:
            yield Problem(f"{path}.hostPort", f"1 to {_LAST_PORT}", str(port.port))
        yield from _one_of(f"{path}.protocol", port.protocol, _PROTOCOLS)


def _weight(path: str, weight: int) -> Iterator[Problem]:
    if not 0 < weight <= _HEAVIEST:
        yield Problem(path, f"1 to {_HEAVIEST}", str(weight))


def _topology_key(path: str, key: str) -> Iterator[Problem]:
    if not is_label_key(key):
        yield Problem(path, "a label key", f'"{key}"' if key else "nothing")


def _selector(path: str, selector: LabelSelector | None) -> Iterator[Problem]:
    if selector is not None:
        yield from _invalid(path, problem_of(selector))


def _invalid(path: str, problem: str | None) -> Iterator[Problem]:
    if problem is not None:
        yield Problem(path, "a valid selector", problem)


def _one_of(path: str, value: str, known: Collection[str]) -> Iterator[Problem]:
    if value not in known:
        yield Problem(path, f"one of {', '.join(name for name in known if name)}", f'"{value}"')
