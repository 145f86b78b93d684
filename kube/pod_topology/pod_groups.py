"""Which pods run where, by what selectors can match: namespace, labels, and their own constraints on other pods.

Pods of one template are equal, so a selector is evaluated once for all of them, and a topology domain is counted by
nodes, not by pods. Persistent: adding or removing a pod copies a few entries.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from kube.objects.constraints import NO_CONSTRAINTS, Constraints, PodTerm
from kube.objects.labels import LabelSelector, Pairs
from kube.objects.model import Pod
from kube.persistent_map import Map

Places = Mapping[int, int]
"""Node number -> how many pods."""

Label = tuple[str, str]
Address = tuple[str, Label]
"""A namespace and a label; both have a word for any."""

_ANY_NAMESPACE: Final = ""
_ANY_LABEL: Final = ("", "")
_MAX_NAMESPACES: Final = 16
_MAX_VALUES: Final = 16
"""A term that names more values is evaluated for every pod."""


class PodGroup(Struct, frozen=True, gc=False):
    """Pods that are equal. `constraints` is None unless they constrain other pods."""

    namespace: str
    labels: Pairs
    deleting: bool = False
    constraints: Constraints | None = None


@dataclass(frozen=True, slots=True)
class PodGroups:
    """Groups by namespace and, separately, the constraints on other pods, in any namespace, with their places.

    Constraints are recorded by namespace and constraints only: the pods of a StatefulSet, each with its own name among
    its labels, all have the same ones. `addressed` are those by what a pod needs in order to be selected, a namespace
    and a label: nearly every term names both, so placing a pod does not require evaluating all the others.
    `outspoken_size` is how many labels and values the terms of these constraints name, each group counted once.
    """

    groups: Map[str, Map[PodGroup, Map[int, int]]] = Map()
    outspoken: Map[PodGroup, Map[int, int]] = Map()
    addressed: Map[Address, Map[PodGroup, None]] = Map()
    outspoken_size: int = 0
    _by_label: dict[str, dict[Label, list[PodGroup]]] = field(default_factory=dict, compare=False, repr=False)
    """Groups filed by `among` so far; a cache of what the groups contain."""

    @classmethod
    def of(cls, placed: Iterable[tuple[Pod, int]]) -> "PodGroups":
        """Return the groups of pods and the numbers of their nodes."""
        return cls().with_pods(placed)

    def with_pods(self, placed: Iterable[tuple[Pod, int]]) -> "PodGroups":
        """Return the groups with many pods added on nodes, faster than one by one."""
        counted: dict[str, dict[PodGroup, dict[int, int]]] = {}
        heard: dict[PodGroup, dict[int, int]] = {}
        for pod, number in placed:
            group = group_of(pod)
            _count(counted.setdefault(group.namespace, {}).setdefault(group, {}), number)
            if group.constraints is not None:
                _count(heard.setdefault(_speaker(group), {}), number)
        groups = self.groups.mutate()
        for namespace, more in counted.items():
            groups[namespace] = _joined(groups.get(namespace, _NOBODY), more)
        addressed: dict[Address, dict[PodGroup, None]] = {}
        size = self.outspoken_size
        for speaker in heard:
            if speaker not in self.outspoken:
                size += _size_of(speaker)
                for address in _addresses(speaker):
                    addressed.setdefault(address, {})[speaker] = None
        at_address = self.addressed.mutate()
        for address, speakers in addressed.items():
            at_address[address] = at_address.get(address, _NO_SPEAKERS).update(speakers)
        return PodGroups(groups.finish(), _joined(self.outspoken, heard), at_address.finish(), size)

    def with_pod(self, pod: Pod, number: int) -> "PodGroups":
        """Return the groups with a pod added on a node."""
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

    def among(self, namespace: str, selector: LabelSelector) -> Iterator[tuple[PodGroup, Places]]:
        """Yield the groups of a namespace that the selector may select, and their places.

        They are filed by their labels when a selector names a label for the first time: a pod may have a hundred terms
        about ten thousand others.
        """
        known = self.groups.get(namespace, _NOBODY)
        if not selector.match_labels:
            yield from known.items()
            return
        filed = self._by_label.get(namespace)
        if filed is None:
            filed = {}
            for group in known:
                for label in group.labels:
                    filed.setdefault(label, []).append(group)
            self._by_label[namespace] = filed
        for group in min((filed.get(label, []) for label in selector.match_labels), key=len):
            yield group, known[group]

    def outspoken_about(self, pod: PodGroup) -> Iterator[tuple[PodGroup, Places]]:
        """Yield, each once, the groups whose constraints may select such a pod, and their places."""
        if not self.outspoken:
            return
        labels = (_ANY_LABEL, *pod.labels)
        speakers: dict[PodGroup, None] = {}
        for namespace in (pod.namespace, _ANY_NAMESPACE):
            for label in labels:
                speakers.update(self.addressed.get((namespace, label), _NO_SPEAKERS))
        for speaker in speakers:
            yield speaker, self.outspoken[speaker]

    def _changed(self, group: PodGroup, number: int, more: int) -> "PodGroups":
        known = _moved(self.groups.get(group.namespace, _NOBODY), group, number, more)
        groups = self.groups.set(group.namespace, known) if known else self.groups.delete(group.namespace)
        if group.constraints is None:
            return PodGroups(groups, self.outspoken, self.addressed, self.outspoken_size)
        speaker = _speaker(group)
        outspoken, addressed, size = _moved(self.outspoken, speaker, number, more), self.addressed, self.outspoken_size
        if (speaker in outspoken) != (speaker in self.outspoken):
            size += _size_of(speaker) if speaker in outspoken else -_size_of(speaker)
            for address in _addresses(speaker):
                speakers = addressed.get(address, _NO_SPEAKERS)
                speakers = speakers.set(speaker, None) if speaker in outspoken else speakers.delete(speaker)
                addressed = addressed.set(address, speakers) if speakers else addressed.delete(address)
        return PodGroups(groups, outspoken, addressed, size)


_NOWHERE: Final[Map[int, int]] = Map()
_NOBODY: Final[Map[PodGroup, Map[int, int]]] = Map()
_NO_SPEAKERS: Final[Map[PodGroup, None]] = Map()


def group_of(pod: Pod) -> PodGroup:
    constraints = pod.constraints
    concerning = constraints if constraints is not None and constraints.concerns_pods else None
    return PodGroup(pod.namespace, pod.labels, pod.deleting, concerning)


def _speaker(group: PodGroup) -> PodGroup:
    return PodGroup(group.namespace, (), constraints=group.constraints)


def _terms(speaker: PodGroup) -> Iterator[PodTerm]:
    constraints = speaker.constraints or NO_CONSTRAINTS
    yield from constraints.affinity
    yield from constraints.anti_affinity
    for wish in (*constraints.preferred_affinity, *constraints.preferred_anti_affinity):
        yield wish.term


def _size_of(speaker: PodGroup) -> int:
    """Return how many labels and values the terms of the group name, and at least one for each."""
    selectors = (each for term in _terms(speaker) for each in (term.selector, term.namespace_selector) if each)
    return sum(
        1 + len(selector.match_labels) + sum(1 + len(each.values) for each in selector.match_expressions)
        for selector in selectors
    )


def _addresses(speaker: PodGroup) -> frozenset[Address]:
    """Return pairs of namespace and label of which a pod must have one for any term of the group to select it."""
    addresses: set[Address] = set()
    for term in _terms(speaker):
        if term.selector is not None:
            namespaces = term.namespaces or (speaker.namespace,)
            everywhere = term.namespace_selector is not None or len(namespaces) > _MAX_NAMESPACES
            for namespace in (_ANY_NAMESPACE,) if everywhere else namespaces:
                addresses.update((namespace, label) for label in _needed(term.selector))
    return frozenset(addresses)


def _needed(selector: LabelSelector) -> Iterable[Label]:
    """Return labels of which a pod must have one to be selected."""
    if selector.match_labels:
        return selector.match_labels[:1]
    named = [
        requirement
        for requirement in selector.match_expressions
        if requirement.operator == "In" and len(requirement.values) <= _MAX_VALUES
    ]
    return ((named[0].key, value) for value in named[0].values) if named else (_ANY_LABEL,)


def _count(places: dict[int, int], number: int) -> None:
    places[number] = places.get(number, 0) + 1


def _joined(
    known: Map[PodGroup, Map[int, int]], more: Mapping[PodGroup, Mapping[int, int]]
) -> Map[PodGroup, Map[int, int]]:
    if not more:
        return known
    groups = known.mutate()
    for group, added in more.items():
        places = groups.get(group, _NOWHERE)
        groups[group] = places.update({number: places.get(number, 0) + count for number, count in added.items()})
    return groups.finish()


def _moved(
    known: Map[PodGroup, Map[int, int]], group: PodGroup, number: int, more: int
) -> Map[PodGroup, Map[int, int]]:
    places = known.get(group, _NOWHERE)
    count = places.get(number, 0) + more
    places = places.set(number, count) if count else places.delete(number)
    return known.set(group, places) if places else known.delete(group)
