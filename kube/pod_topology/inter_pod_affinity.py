"""The filter of required pod affinity and anti-affinity, in both directions.

Source: plugins/interpodaffinity/filtering.go. A domain is every node with the same value of the topology key; the
result is a set of allowed nodes.
"""

from dataclasses import dataclass
from enum import Enum, auto

from kube.objects.constraints import NO_CONSTRAINTS, PodTerm
from kube.objects.model import Pod
from kube.pod_topology.placed_pods import PlacedPods, domain_nodes, groups_meant, means
from kube.pod_topology.pod_groups import group_of


class Side(Enum):
    """Whose term decides, and in which direction."""

    AFFINITY = auto()
    ANTI_AFFINITY = auto()
    EXISTING_ANTI_AFFINITY = auto()


@dataclass(frozen=True, slots=True)
class TermVerdict:
    """The nodes, as bits, that a term allows."""

    allowed: int
    side: Side
    term: PodTerm


def affinity_verdicts(pod: Pod, placed: PlacedPods) -> list[TermVerdict]:
    """Return the verdict of each term, of the pod's own and of those of placed pods that select it."""
    constraints = pod.constraints or NO_CONSTRAINTS
    return [
        *near(pod, constraints.affinity, placed),
        *apart(pod, constraints.anti_affinity, placed),
        *kept_away(pod, placed),
    ]


def near(
    pod: Pod, terms: tuple[PodTerm, ...], placed: PlacedPods, at_least: PlacedPods | None = None
) -> list[TermVerdict]:
    """Each term requires, in the node's domain, a pod that all terms select; the first pod of a series is exempt.

    `at_least` are the pods whose place is certain, if that is not so for all of `placed`: the other pods do not satisfy
    a term, but beside them the pod is not the first of a series either.
    """
    if not terms:
        return []
    allowed = _company(pod, terms, at_least or placed)
    alone = not any(allowed) and (at_least is None or not any(_company(pod, terms, placed)))
    if alone and _means_itself(pod, terms, placed):
        allowed = [placed.index.with_key(term.topology_key) for term in terms]
    return [TermVerdict(bits, Side.AFFINITY, term) for bits, term in zip(allowed, terms, strict=True)]


def _company(pod: Pod, terms: tuple[PodTerm, ...], placed: PlacedPods) -> list[int]:
    """Return for each term the nodes in whose domain there is a pod that all terms select."""
    meant = [
        places
        for group, places in groups_meant(terms[0], pod.namespace, placed)
        if all(means(term, pod.namespace, group, placed.namespaces) for term in terms[1:])
    ]
    numbers = {number for places in meant for number in places}
    return [domain_nodes(placed, term.topology_key, numbers) for term in terms]


def _means_itself(pod: Pod, terms: tuple[PodTerm, ...], placed: PlacedPods) -> bool:
    """Whether all of the pod's terms select pods like itself, so that it may be the first of a series."""
    itself = group_of(pod)
    return all(means(term, pod.namespace, itself, placed.namespaces) for term in terms)


def apart(pod: Pod, terms: tuple[PodTerm, ...], placed: PlacedPods) -> list[TermVerdict]:
    """No pod that a term selects may be in the node's domain."""
    verdicts = []
    for term in terms:
        numbers = {number for _, places in groups_meant(term, pod.namespace, placed) for number in places}
        allowed = placed.index.everything & ~domain_nodes(placed, term.topology_key, numbers)
        verdicts.append(TermVerdict(allowed, Side.ANTI_AFFINITY, term))
    return verdicts


def kept_away(pod: Pod, placed: PlacedPods) -> list[TermVerdict]:
    """Placed pods keep this one out of their domains."""
    verdicts = []
    itself = group_of(pod)
    for group, places in placed.pod_groups.outspoken_about(itself):
        for term in group.constraints.anti_affinity if group.constraints is not None else ():
            if means(term, group.namespace, itself, placed.namespaces):
                forbidden = domain_nodes(placed, term.topology_key, places)
                allowed = placed.index.everything & ~forbidden
                verdicts.append(TermVerdict(allowed, Side.EXISTING_ANTI_AFFINITY, term))
    return verdicts


def rejecting_keys(pod: Pod, placed: PlacedPods) -> frozenset[str]:
    """Return the topology keys of the terms by which placed pods keep this one out of their domains."""
    itself = group_of(pod)
    return frozenset(
        term.topology_key
        for group, _ in placed.pod_groups.outspoken_about(itself)
        for term in (group.constraints or NO_CONSTRAINTS).anti_affinity
        if means(term, group.namespace, itself, placed.namespaces)
    )
