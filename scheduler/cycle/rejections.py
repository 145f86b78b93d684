"""Which nodes a rule rejects for which reason, as bit sets: evaluated once for equal nodes, and without texts.

The result agrees with `NodeRule.why` for each node, at a fraction of its cost: it is needed for all nodes whenever a
pod fits none.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress

from binder.matching.rejection import Reason
from scheduler.cycle.cycle import Unschedulable, mask_of, passing
from scheduler.framework.plugin import Filter, NodeRule
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo


class Alike:
    """The nodes on which a pod's claims get the same, computed once for all filters."""

    def __init__(self, unschedulable: Unschedulable) -> None:
        self.unschedulable = unschedulable

    @cached_property
    def groups(self) -> Sequence[tuple[NodeInfo, int]]:
        """Return one node of each group, and the group."""
        first: dict[int, NodeInfo] = {}
        members: defaultdict[int, list[NodeInfo]] = defaultdict(list)
        choice = self.unschedulable.judgement.info.choice
        for state in self.unschedulable.cluster.nodes:
            chosen = id(choice(state))
            first.setdefault(chosen, state)
            members[chosen].append(state)
        return [(state, numbers_of(members[chosen])) for chosen, state in first.items()]


def states_of(nodes: int, cluster: ClusterView) -> Sequence[NodeInfo]:
    """Return the nodes that are in a set, in their order."""
    if nodes == cluster.index.everything:
        return cluster.nodes
    return list(compress(cluster.nodes, mask_of(nodes)))


def numbers_of(states: Iterable[NodeInfo]) -> int:
    """Return the set of these nodes."""
    numbers = 0
    for state in states:
        numbers |= 1 << state.number
    return numbers


def rejections(plugin: Filter, rule: NodeRule, nodes: int, alike: Alike) -> Iterable[tuple[Reason, int]]:
    """Return which of the nodes the rule of a filter rejects for which reason; a node may have several with different
    messages.
    """
    if rule.reasons is not None:
        return rule.reasons(nodes)
    if rule.by_choice:
        return (
            (reason, nodes & group)
            for state, group in alike.groups
            if nodes & group
            for reason in _reasons(plugin, rule, state)
        )
    rejected = rejected_by(rule, nodes, alike)
    states = states_of(rejected, alike.unschedulable.cluster)
    if len(plugin.messages) == 1 and states:
        return ((_reason(rule, states[0]) or Reason.NO_NODE_FITS, rejected),)
    return ((_reason(rule, state) or Reason.NO_NODE_FITS, 1 << state.number) for state in states)


def rejected_by(rule: NodeRule, nodes: int, alike: Alike) -> int:
    """Return which of the nodes the rule rejects."""
    if rule.allowed_nodes is not None:
        return nodes & ~rule.allowed_nodes
    if not rule.by_choice:
        return nodes & ~numbers_of(passing((rule,), states_of(nodes, alike.unschedulable.cluster)))
    rejected = 0
    for state, group in alike.groups:
        rejected |= group if nodes & group and rule.why(state) is not None else 0
    return nodes & rejected


def _reasons(plugin: Filter, rule: NodeRule, state: NodeInfo) -> Iterable[Reason]:
    """Return the reasons against a node, one for each message."""
    if rule.every is None:
        reason = _reason(rule, state)
        return () if reason is None else (reason,)
    by_message: dict[str, Reason] = {}
    for rejection in rule.every(state):
        by_message.setdefault(plugin.messages.get(rejection.reason, rejection.reason), rejection.reason)
    return by_message.values()


def _reason(rule: NodeRule, state: NodeInfo) -> Reason | None:
    rejection = rule.why(state)
    return None if rejection is None else rejection.reason
