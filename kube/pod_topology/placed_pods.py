"""Which pods are on which nodes, for the rules about other pods, and which pods a term of affinity selects.

Source: AffinityTerm.Matches in k8s.io/kube-scheduler/framework, and plugins/interpodaffinity. If the labels of a
namespace are not known, it has only the one that every namespace has, its name.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from kube.objects.constraints import PodTerm
from kube.objects.labels import Pairs
from kube.pod_topology.node_index import NodeIndex
from kube.pod_topology.pod_groups import Places, PodGroup, PodGroups
from kube.rules.selectors import matches_labels

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


class Labelled(Protocol):
    """A node, by its labels."""

    @property
    def labels(self) -> Mapping[str, str]: ...


class PlacedPods(Protocol):
    """Nodes by number with the pods on them. `namespaces` are the labels of namespaces as far as known."""

    @property
    def nodes(self) -> Sequence[Labelled]: ...

    @property
    def index(self) -> NodeIndex: ...

    @property
    def pod_groups(self) -> PodGroups: ...

    @property
    def namespaces(self) -> Mapping[str, Pairs]: ...


def means(term: PodTerm, owner: str, pod: PodGroup, namespaces: Mapping[str, Pairs]) -> bool:
    """Whether a term of a pod in namespace `owner` selects such a pod."""
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


def groups_meant(term: PodTerm, owner: str, placed: PlacedPods) -> Iterator[tuple[PodGroup, Places]]:
    """Yield the groups of pods that a term selects."""
    if term.selector is None:
        return
    groups = placed.pod_groups
    for namespace in groups.groups if term.namespace_selector is not None else term.namespaces or (owner,):
        for group, places in groups.among(namespace, term.selector):
            if means(term, owner, group, placed.namespaces):
                yield group, places


def domains(placed: PlacedPods, key: str, numbers: Iterable[int]) -> dict[str, int]:
    """Return the topology domains that these nodes are in, each with all its nodes as bits."""
    nodes, values = placed.nodes, placed.index.values.get(key)
    if values is None:
        return {}
    present = {value for number in numbers if (value := nodes[number].labels.get(key)) is not None}
    return {value: values[value] for value in present}


def domain_nodes(placed: PlacedPods, key: str, numbers: Iterable[int]) -> int:
    """Return all nodes that are in a topology domain with any of these."""
    union = 0
    for bits in domains(placed, key, numbers).values():
        union |= bits
    return union
