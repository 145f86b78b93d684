"""Which pods a term of pod affinity or a spread constraint means, and in which topology domains they are.

Source: AffinityTerm.Matches in k8s.io/kube-scheduler/framework, and plugins/interpodaffinity. A namespace whose labels
nobody told us has the one every namespace has, its name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from binder.evidence import selector_text
from binder.rejection import Reason, Rejection
from kube.constraints import PodTerm
from kube.model import LabelSelector, Pairs
from kube.selectors import matches_labels
from scheduler.cluster import ClusterView
from scheduler.crowd import Group, Places
from scheduler.node_state import NodeState
from scheduler.plugin import NodeRule

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


class Verdict(Protocol):
    """What one term or constraint says: the nodes it leaves, as bits."""

    @property
    def allowed(self) -> int: ...

    def reasons(self, refused: int, /) -> Iterable[tuple[Reason, int]]:
        """Return the reasons for which it refuses these nodes, each with its nodes."""


V = TypeVar("V", bound=Verdict)


def means(term: PodTerm, owner: str, pod: Group, namespaces: Mapping[str, Pairs]) -> bool:
    """Whether a term of a pod in namespace `owner` means such a pod."""
    if term.selector is None or not _means_namespace(term, owner, pod.namespace, namespaces):
        return False
    return matches_labels(term.selector, pod.labels)


def _means_namespace(term: PodTerm, owner: str, namespace: str, namespaces: Mapping[str, Pairs]) -> bool:
    if term.namespace_selector is None:
        return namespace in term.namespaces if term.namespaces else namespace == owner
    if namespace in term.namespaces:
        return True
    labels = namespaces.get(namespace, ((NAMESPACE_NAME, namespace),))
    return matches_labels(term.namespace_selector, labels)


def groups_meant(term: PodTerm, owner: str, cluster: ClusterView) -> Iterator[tuple[Group, Places]]:
    """Yield the groups of pods that a term means."""
    if term.namespace_selector is not None:
        candidates = cluster.crowd.everywhere()
    else:
        candidates = (found for one in term.namespaces or (owner,) for found in cluster.crowd.among(one))
    for group, places in candidates:
        if means(term, owner, group, cluster.namespaces):
            yield group, places


def domains(cluster: ClusterView, key: str, numbers: Iterable[int]) -> dict[str, int]:
    """Return the topology domains that these nodes are in, each with all its nodes as bits."""
    nodes, values = cluster.nodes, cluster.index.values.get(key)
    if values is None:
        return {}
    found = {value for number in numbers if (value := nodes[number].labels.get(key)) is not None}
    return {value: values[value] for value in found}


def domain_nodes(cluster: ClusterView, key: str, numbers: Iterable[int]) -> int:
    """Return all nodes that are in a topology domain with any of these."""
    found = 0
    for bits in domains(cluster, key, numbers).values():
        found |= bits
    return found


def pods_text(selector: LabelSelector | None) -> str:
    """Return the words for the pods a selector selects."""
    if selector is None:
        return "no pod at all"
    return f"pods with {selector_text(selector)}" if selector != LabelSelector() else "pods"


def rule_of(verdicts: Sequence[V], everything: int, words: Callable[[V, NodeState], Rejection]) -> NodeRule:
    """Return the rule that leaves what all verdicts leave; the first that refuses a node has the word about it."""
    among = everything
    for verdict in verdicts:
        among &= verdict.allowed

    def why(state: NodeState) -> Rejection | None:
        refusing = next((one for one in verdicts if not one.allowed >> state.number & 1), None)
        return None if refusing is None else words(refusing, state)

    def reasons(nodes: int) -> Iterator[tuple[Reason, int]]:
        for verdict in verdicts:
            yield from verdict.reasons(nodes & ~verdict.allowed)
            nodes &= verdict.allowed

    return NodeRule(why, among=among, reasons=reasons)
