"""Which nodes have which labels and taints, as bit sets with one bit per node, so that a rule is evaluated once for
all.

Every label and every taint is interned as the set of nodes that have it. A selector becomes a few operations on such
sets, whatever the number of nodes. The plain rules of kube.rules.selectors and kube.rules.taints are authoritative;
this module must agree with them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kube.objects.labels import NodeSelector, NodeSelectorTerm, Pairs, Requirement
from kube.objects.model import Node, Taint, Toleration
from kube.persistent_map import Map
from kube.rules.label_test import value_test
from kube.rules.selectors import NAME_FIELD, term_problem
from kube.rules.taints import REJECTING_EFFECTS, tolerates
from kube.store.node_view import effective_taints

_MAX_CACHED: Final = 4096

K = TypeVar("K")
V = TypeVar("V")

_Values = Map[str, Map[str, int]]
_Taints = Map[Taint, int]


@dataclass(frozen=True, slots=True)
class NodeIndex:
    """Sets of nodes, as bits by number.

    `values` is label key -> value -> nodes, `taints` are those that repel pods, `wishes` the PreferNoSchedule ones.
    Results are cached for the lifetime of the index.
    """

    everything: int = 0
    values: _Values = Map()
    taints: _Taints = Map()
    wishes: _Taints = Map()
    names: Map[str, int] = Map()
    _selected: dict[tuple[Pairs, NodeSelector | None], int] = field(default_factory=dict, compare=False)
    _reaching: dict[NodeSelector, int] = field(default_factory=dict, compare=False)
    _alike: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict, compare=False)
    _tolerated: dict[tuple[Toleration, ...], int] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "NodeIndex":
        """Return the index of nodes in the order of their numbers."""
        return cls().with_nodes(0, nodes)

    def with_nodes(self, first: int, nodes: Iterable[Node]) -> "NodeIndex":
        """Return the index after nodes appeared, numbered from `first` on; faster than one by one."""
        values: dict[str, dict[str, int]] = {}
        taints: dict[Taint, int] = {}
        names: dict[str, int] = {}
        everything = self.everything
        for number, node in enumerate(nodes, first):
            bit = 1 << number
            everything |= bit
            names[node.name] = bit
            for key, value in node.labels:
                known = values.setdefault(key, {})
                known[value] = known.get(value, 0) | bit
            for taint in effective_taints(node):
                taints[taint] = taints.get(taint, 0) | bit
        by_key = self.values.mutate()
        for key, known in values.items():
            by_key[key] = _joined(by_key.get(key, Map()), known)
        rejecting = {taint: bits for taint, bits in taints.items() if taint.effect in REJECTING_EFFECTS}
        wishes = {taint: bits for taint, bits in taints.items() if taint.effect not in REJECTING_EFFECTS}
        return NodeIndex(
            everything,
            by_key.finish(),
            _joined(self.taints, rejecting),
            _joined(self.wishes, wishes),
            self.names.update(names),
        )

    def with_node(self, number: int, old: Node | None, new: Node) -> "NodeIndex":
        """Return the index after a node changed, or appeared (old is None)."""
        cleared = self if old is None else NodeIndex(self.everything, *_cleared(self, 1 << number, old), self.names)
        return cleared.with_nodes(number, (new,))

    def without_node(self, number: int, node: Node) -> "NodeIndex":
        """Return the index without a node; its number becomes free."""
        bit = 1 << number
        everything = self.everything & ~bit
        return NodeIndex(everything, *_cleared(self, bit, node), self.names.delete(node.name))

    def selected(self, node_selector: Pairs, affinity: NodeSelector | None) -> int:
        """Return the nodes that match a pod's node selector and required node affinity."""
        cache_key = (node_selector, affinity)
        nodes = self._selected.get(cache_key)
        if nodes is None:
            nodes = self.everything
            for key, value in node_selector:
                nodes &= self.with_label(key, value)
            if affinity is not None:
                nodes &= self.matching(affinity.terms)
            _remember(self._selected, cache_key, nodes)
        return nodes

    def matching(self, terms: Iterable[NodeSelectorTerm]) -> int:
        """Return the nodes that match any of the terms."""
        nodes = 0
        for term in terms:
            nodes |= self._matching(term)
        return nodes

    def reaching(self, affinity: NodeSelector | None) -> int:
        """Return the nodes from which a volume with this affinity is accessible; names of nodes are not compared."""
        if affinity is None:
            return self.everything
        nodes = self._reaching.get(affinity)
        if nodes is None:
            nodes = 0
            for term in affinity.terms:
                nodes |= self._matching(term, named=False)
            _remember(self._reaching, affinity, nodes)
        return nodes

    def alike(self, keys: tuple[str, ...]) -> tuple[int, ...]:
        """Return the nodes, partitioned into sets with equal values of these label keys."""
        groups = self._alike.get(keys)
        if groups is None:
            groups = (self.everything,) if self.everything else ()
            for key in keys:
                groups = tuple(part for nodes in groups for part in self._parts(nodes, key))
            _remember(self._alike, keys, groups)
        return groups

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> int:
        """Return the nodes none of whose taints repels a pod with these tolerations."""
        nodes = self._tolerated.get(tolerations)
        if nodes is None:
            nodes = self.everything & ~_untolerated(self.taints, tolerations)
            _remember(self._tolerated, tolerations, nodes)
        return nodes

    def with_key(self, key: str) -> int:
        """Return the nodes that have a label of this key."""
        return _union(self.values.get(key, _NO_VALUES).values())

    def with_label(self, key: str, value: str) -> int:
        """Return the nodes that have this label."""
        return self.values.get(key, _NO_VALUES).get(value, 0)

    def _matching(self, term: NodeSelectorTerm, *, named: bool = True) -> int:
        if not term.match_expressions and not term.match_fields:
            return 0
        if term_problem(term) is not None:
            return 0
        nodes = self.everything
        for requirement in term.match_expressions:
            nodes &= self._holding(requirement)
        for requirement in term.match_fields if named else ():
            nodes &= self._named(requirement)
        return nodes

    def _holding(self, requirement: Requirement) -> int:
        """Evaluate each value that occurs once; nodes without the key are evaluated as one."""
        if requirement.operator == "In":
            known = self.values.get(requirement.key, _NO_VALUES)
            return _union(known.get(value, 0) for value in requirement.values)
        test = value_test((requirement,))
        nodes = having = 0
        for value, bits in self.values.get(requirement.key, _NO_VALUES).items():
            having |= bits
            if test.holds(value):
                nodes |= bits
        return nodes | (self.everything & ~having) if test.holds(None) else nodes

    def _parts(self, nodes: int, key: str) -> Iterator[int]:
        for bits in self.values.get(key, _NO_VALUES).values():
            if not nodes & (nodes - 1):
                break
            if bits & nodes:
                yield bits & nodes
                nodes &= ~bits
        if nodes:
            yield nodes

    def _named(self, requirement: Requirement) -> int:
        """Evaluate the node's name; any other field is empty."""
        value = requirement.values[0]
        bits = self.names.get(value, 0) if requirement.key == NAME_FIELD else 0 if value else self.everything
        return bits if requirement.operator == "In" else self.everything & ~bits


_NO_VALUES: Final[Mapping[str, int]] = Map()


def _union(sets: Iterable[int]) -> int:
    nodes = 0
    for bits in sets:
        nodes |= bits
    return nodes


def _untolerated(taints: Mapping[Taint, int], tolerations: tuple[Toleration, ...]) -> int:
    nodes = 0
    for taint, bits in taints.items():
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            nodes |= bits
    return nodes


def _joined(known: Map[K, int], more: Mapping[K, int]) -> Map[K, int]:
    return known.update({key: known.get(key, 0) | nodes for key, nodes in more.items()})


def _cleared(index: NodeIndex, bit: int, node: Node) -> tuple[_Values, _Taints, _Taints]:
    """Return the values, taints and wishes of an index without those of a node."""
    values, taints, wishes = index.values, index.taints, index.wishes
    for key, value in node.labels:
        left = values[key][value] & ~bit
        known = values[key].set(value, left) if left else values[key].delete(value)
        values = values.set(key, known) if known else values.delete(key)
    for taint in effective_taints(node):
        taints, wishes = _without(taints, taint, bit), _without(wishes, taint, bit)
    return values, taints, wishes


def _without(taints: Map[Taint, int], taint: Taint, bit: int) -> Map[Taint, int]:
    bits = taints.get(taint)
    if bits is None:
        return taints
    return taints.set(taint, bits & ~bit) if bits & ~bit else taints.delete(taint)


def _remember(known: dict[K, V], cache_key: K, answer: V) -> None:
    if len(known) >= _MAX_CACHED:
        known.clear()
    known[cache_key] = answer
