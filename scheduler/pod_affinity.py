"""The filter of required pod affinity and anti-affinity, in both directions.

Source: plugins/interpodaffinity/filtering.go. A domain is every node with the same value of the topology key; what is
allowed comes out as a set of nodes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from binder.rejection import Reason, Rejection
from kube.constraints import NO_CONSTRAINTS, PodTerm
from kube.model import Pod
from scheduler.cluster import ClusterView
from scheduler.crowd import group_of
from scheduler.neighbours import domain_nodes, groups_meant, means, pods_text, rule_of
from scheduler.node_state import NodeState
from scheduler.plugin import NodeRule
from scheduler.volumes import PodInfo


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Nodes, as bits, that one term leaves or forbids, and the words for the others."""

    allowed: int
    reason: Reason
    term: PodTerm

    def reasons(self, refused: int) -> Iterable[tuple[Reason, int]]:
        return ((self.reason, refused),)


class InterPodAffinity:
    """The pods a pod must be near or apart from, and those that must be apart from it."""

    name: Final = "InterPodAffinity"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        pod = info.pod
        said = pod.constraints or NO_CONSTRAINTS
        verdicts = [
            *_near(pod, said.affinity, cluster),
            *_apart(pod, said.anti_affinity, cluster),
            *_unwelcome(pod, cluster),
        ]
        return rule_of(verdicts, cluster.index.everything, _words) if verdicts else None


def _near(pod: Pod, terms: tuple[PodTerm, ...], cluster: ClusterView) -> list[_Verdict]:
    """Each term needs, in the node's domain, a pod that all terms mean; the first of a series needs none."""
    if not terms:
        return []
    meant = [
        places
        for group, places in groups_meant(terms[0], pod.namespace, cluster)
        if all(means(term, pod.namespace, group, cluster.namespaces) for term in terms[1:])
    ]
    numbers = {number for places in meant for number in places}
    allowed = [domain_nodes(cluster, term.topology_key, numbers) for term in terms]
    itself = group_of(pod)
    if not any(allowed) and all(means(term, pod.namespace, itself, cluster.namespaces) for term in terms):
        allowed = [cluster.index.with_key(term.topology_key) for term in terms]
    return [_Verdict(bits, Reason.POD_AFFINITY_MISMATCH, term) for bits, term in zip(allowed, terms, strict=True)]


def _apart(pod: Pod, terms: tuple[PodTerm, ...], cluster: ClusterView) -> list[_Verdict]:
    found = []
    for term in terms:
        numbers = {number for _, places in groups_meant(term, pod.namespace, cluster) for number in places}
        allowed = cluster.index.everything & ~domain_nodes(cluster, term.topology_key, numbers)
        found.append(_Verdict(allowed, Reason.POD_ANTI_AFFINITY, term))
    return found


def _unwelcome(pod: Pod, cluster: ClusterView) -> list[_Verdict]:
    """Pods that are there keep this one out of their domains."""
    found = []
    itself = group_of(pod)
    for group, places in cluster.crowd.outspoken.items():
        for term in group.constraints.anti_affinity if group.constraints is not None else ():
            if means(term, group.namespace, itself, cluster.namespaces):
                forbidden = domain_nodes(cluster, term.topology_key, places)
                allowed = cluster.index.everything & ~forbidden
                found.append(_Verdict(allowed, Reason.EXISTING_POD_ANTI_AFFINITY, term))
    return found


def _words(refusing: _Verdict, state: NodeState) -> Rejection:
    key, pods = refusing.term.topology_key, pods_text(refusing.term.selector)
    value = state.labels.get(key)
    place = f"{key}={value}"
    if value is None:
        return Rejection(refusing.reason, state.name, f"{pods} in the same {key}", f"no label {key}")
    if refusing.reason is Reason.POD_AFFINITY_MISMATCH:
        return Rejection(refusing.reason, state.name, f"{pods} in the same {key}", f"none where {place}")
    if refusing.reason is Reason.POD_ANTI_AFFINITY:
        return Rejection(refusing.reason, state.name, f"no {pods} in the same {key}", f"one where {place}")
    return Rejection(
        refusing.reason, state.name, f"no pod that keeps this one away from its {key}", f"one where {place}"
    )
