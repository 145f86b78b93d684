"""Which pods run where, by what selectors can ask about them: namespace, labels, and what they say of other pods.

Pods of one template are alike, so a selector is asked once for all of them, and a topology domain is counted by nodes,
not by pods. Persistent: a pod more or less copies a few entries.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from immutables import Map
from msgspec import Struct

from kube.constraints import Constraints
from kube.model import Pairs, Pod

Places = Mapping[int, int]
"""Node number -> how many pods."""


class Group(Struct, frozen=True, gc=False):
    """Pods that are alike. `constraints` is None unless they say something of other pods."""

    namespace: str
    labels: Pairs
    deleting: bool = False
    constraints: Constraints | None = None


@dataclass(frozen=True, slots=True)
class PodGroups:
    """Groups by namespace, and apart from them what is said of other pods, in any namespace, and where it is said.

    Who says something is known there by namespace and constraints alone: the pods of a StatefulSet, each with its own
    name among its labels, all say the same.
    """

    groups: Map[str, Map[Group, Map[int, int]]] = Map()
    outspoken: Map[Group, Map[int, int]] = Map()

    @classmethod
    def of(cls, placed: Iterable[tuple[Pod, int]]) -> "PodGroups":
        """Return the groups of pods and the numbers of their nodes."""
        counted: dict[str, dict[Group, dict[int, int]]] = {}
        heard: dict[Group, dict[int, int]] = {}
        for pod, number in placed:
            group = group_of(pod)
            _count(counted.setdefault(group.namespace, {}).setdefault(group, {}), number)
            if group.constraints is not None:
                _count(heard.setdefault(_speaker(group), {}), number)
        groups = {name: Map({one: Map(at) for one, at in known.items()}) for name, known in counted.items()}
        return cls(Map(groups), Map({one: Map(at) for one, at in heard.items()}))

    def with_pod(self, pod: Pod, number: int) -> "PodGroups":
        """Return the groups with one more pod on a node."""
        return self._changed(group_of(pod), number, 1)

    def without_pod(self, pod: Pod, number: int) -> "PodGroups":
        """Return the groups without a pod that is on the node."""
        return self._changed(group_of(pod), number, -1)

    def moved(self, pods: Iterable[Pod], old: int, new: int) -> "PodGroups":
        """Return the groups after a node got another number."""
        groups = self
        for pod in pods:
            groups = groups.without_pod(pod, old).with_pod(pod, new)
        return groups

    def among(self, namespace: str) -> Iterator[tuple[Group, Places]]:
        """Yield the groups of a namespace and where they are."""
        yield from self.groups.get(namespace, _NOBODY).items()

    def everywhere(self) -> Iterator[tuple[Group, Places]]:
        """Yield all groups."""
        for known in self.groups.values():
            yield from known.items()

    def _changed(self, group: Group, number: int, more: int) -> "PodGroups":
        known = _moved(self.groups.get(group.namespace, _NOBODY), group, number, more)
        groups = self.groups.set(group.namespace, known) if known else self.groups.delete(group.namespace)
        if group.constraints is None:
            return PodGroups(groups, self.outspoken)
        return PodGroups(groups, _moved(self.outspoken, _speaker(group), number, more))


_NOWHERE: Final[Map[int, int]] = Map()
_NOBODY: Final[Map[Group, Map[int, int]]] = Map()


def group_of(pod: Pod) -> Group:
    said = pod.constraints
    concerning = said if said is not None and said.concerns_pods else None
    return Group(pod.namespace, pod.labels, pod.deleting, concerning)


def _speaker(group: Group) -> Group:
    return Group(group.namespace, (), constraints=group.constraints)


def _count(places: dict[int, int], number: int) -> None:
    places[number] = places.get(number, 0) + 1


def _moved(known: Map[Group, Map[int, int]], group: Group, number: int, more: int) -> Map[Group, Map[int, int]]:
    places = known.get(group, _NOWHERE)
    count = places.get(number, 0) + more
    places = places.set(number, count) if count else places.delete(number)
    return known.set(group, places) if places else known.delete(group)
