"""Decides like `scheduler.cycle.cycle.decide`, and caches the results for each node per pod template.

The results of most filters and scores depend on the pod's template and the node's state, or on the volumes the pod
would take there. Placing a pod changes one node of thousands: only that one is evaluated again when the next pod of the
template comes.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from operator import add, is_, is_not
from typing import Final

from kube.objects.model import Pod
from scheduler.cycle.choice_memory import ChoiceMemory, kind_of
from scheduler.cycle.cycle import Judgement, Unschedulable, first_passing, judge, mask_of, nodes_wanted, passing, placed
from scheduler.cycle.promising_nodes import PromisingNodes
from scheduler.framework.plugin import Filter, NodeRule, ScheduleResult, Score, ScoreAlone, ScoreChoice
from scheduler.framework.profile import Profile
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo, differs_by_news
from scheduler.volumes.volumes import PodInfo, pod_info

MAX_TEMPLATES: Final = 4096
"""Templates cached at once for a profile; beyond that the least recently used ones are dropped."""

MAX_CACHED_NODES: Final = 2_000_000
"""Nodes cached in all templates of a profile together, each with two pointers: 32 MB. At 5,000 nodes these are 400
templates.
"""

MAX_PROFILES: Final = 16
"""Profiles with a cache of their own. A configuration with more of them works, but more slowly."""

MAX_RENEWED_NODES: Final = 128
"""Changed nodes that are evaluated again at every decision; of more than these, only as many as are needed."""

PROMISING: Final = 32
"""Of more changed nodes, how many that fit the pod are evaluated where the most promising ones come first."""

_AS_DIGITS: Final = bytes.maketrans(b"\x00\x01", b"01")

_DOES_NOT_FIT: Final = -(1 << 60)
"""Less than any sum of scores, whatever is added."""

_NO_REQUESTS: Final = Pod("", "", "", 0)
"""Its scores are what a node promises."""

_Weighted = tuple[Score, int]


@dataclass(slots=True)
class _Template:
    """Each node's state when it was last evaluated, and the total of its cached scores.

    `turn` is the number after the node that the template's last pod got: among equal nodes it is the next one's turn.
    `fresh` until the first node is evaluated.
    """

    states: list[NodeInfo | None]
    totals: list[int]
    turn: int
    fresh: bool = True

    def changed(self, nodes: Sequence[NodeInfo]) -> Sequence[NodeInfo]:
        """Return the nodes that have changed since they were evaluated."""
        return nodes if self.fresh else list(compress(nodes, map(is_not, nodes, self.states)))

    def current(self, nodes: Sequence[NodeInfo]) -> int:
        """Return the others, as bits."""
        return 0 if self.fresh else _bits_of(map(is_, nodes, self.states))


@dataclass(frozen=True, slots=True)
class _Parts:
    """A pod's rules and scores, by how they are cached: per node, per `kind` of claims, or not at all.

    `rest` and `speaking` are the rules and scores that are not cached.
    """

    kind: Hashable | None
    of_node: Sequence[tuple[Filter, NodeRule]]
    of_choice: Sequence[tuple[Filter, NodeRule]]
    rest: Sequence[NodeRule]
    speaking: Sequence[_Weighted]

    @property
    def cached_only(self) -> bool:
        """Whether results per node are all that matters, so that the best nodes are those of the highest totals."""
        return self.kind is None and not self.rest and not self.speaking


class Decider:
    """Decides about pods, each by its profile, which has a cache of its own."""

    def __init__(self) -> None:
        self._profiles: dict[str, ProfileDecider] = {}

    def decide(self, pod: Pod, view: ClusterView, profile: Profile) -> ScheduleResult | Unschedulable:
        """Return where the pod is placed, or why nowhere."""
        decider = self._profiles.pop(profile.scheduler_name, None) or ProfileDecider()
        while len(self._profiles) >= MAX_PROFILES:
            del self._profiles[next(iter(self._profiles))]
        self._profiles[profile.scheduler_name] = decider
        return decider.decide(pod, view, profile)


class ProfileDecider:
    """Decides about pods of one profile; a changed configuration gets a new cache.

    Where all results can be cached, all nodes are evaluated, whatever `percentage_of_nodes_to_score`: as `decide` does
    with 100 percent. If more than MAX_RENEWED_NODES have changed since the template's last pod, as between two pods of
    many templates in turn, or if the template is new, only some of these are evaluated, and the others are left to
    later pods: with a percentage of 0 the most promising ones, until PROMISING are feasible; otherwise, and where nodes
    are compared by more than cached results, as many as the percentage asks for.

    Where not all results can be cached, the search begins after the last feasible node of the previous one, as `decide`
    with that `start`, and ends with the first best. Where all nodes are evaluated, the node chosen among those with
    equal scores is the next one after that of the template's last pod; the first pod of a template continues after the
    last pod of any template. kube-scheduler chooses at random (selectHost). So pods of a template are spread over nodes
    that stay equal with a difference of at most one, unless a score prefers fuller nodes.
    """

    def __init__(self) -> None:
        self._start = 0
        self._turn = 0
        self._profile: Profile | None = None
        self._alone: list[tuple[ScoreAlone, int]] = []
        self._of_choice: list[tuple[ScoreChoice, int]] = []
        self._together: list[_Weighted] = []
        self._templates: dict[Hashable, _Template] = {}
        self._choices = ChoiceMemory()
        self._promising = PromisingNodes()

    def decide(self, pod: Pod, view: ClusterView, profile: Profile) -> ScheduleResult | Unschedulable:
        """Return where the pod is placed, or why nowhere."""
        if profile is not self._profile:
            self._take(profile)
        judgement = judge(pod, view, profile)
        if not judgement.allowed_nodes:
            return Unschedulable(judgement, view)
        parts = self._parted(judgement, view)
        template = self._template_of(parts, judgement.info, view)
        allowed = self._renew(template, parts, judgement, view)
        node = self._chosen(parts, template, judgement, view, allowed)
        if node is None and allowed != judgement.allowed_nodes:
            self._evaluate(template, template.changed(view.nodes), parts, judgement, view)
            node = self._chosen(parts, template, judgement, view, judgement.allowed_nodes)
        if node is None:
            return Unschedulable(judgement, view)
        self._turn = template.turn = node.number + 1
        return placed(judgement, node)

    def _chosen(
        self, parts: _Parts, template: _Template, judgement: Judgement, view: ClusterView, allowed: int
    ) -> NodeInfo | None:
        """Return the best of the allowed nodes, None when none of them fits."""
        known = self._known(parts, template, judgement, view)
        if parts.rest or parts.speaking:
            return self._compared(parts, known, template.turn, judgement, view, allowed)
        number = _next_of_the_best(known, mask_of(allowed), template.turn) if allowed else None
        return None if number is None else view.nodes[number]

    def _take(self, profile: Profile) -> None:
        self._profile = profile
        weighted = [(score.plugin, score.weight) for score in profile.scores]
        self._alone = [(score, weight) for score, weight in weighted if isinstance(score, ScoreAlone)]
        self._of_choice = [(score, weight) for score, weight in weighted if isinstance(score, ScoreChoice)]
        self._together = [score for score in weighted if not isinstance(score[0], ScoreAlone | ScoreChoice)]
        self._templates.clear()
        self._choices.forget()
        self._promising = PromisingNodes()

    def _parted(self, judgement: Judgement, view: ClusterView) -> _Parts:
        info = judgement.info
        kind = kind_of(info, view.storage) if info.claims.delayed else None
        rules = [(plugin, rule) for plugin, rule in judgement.rules if rule.allowed_nodes is None]
        of_choice = [(plugin, rule) for plugin, rule in rules if rule.by_choice and kind is not None]
        together = self._together if kind is not None else [*self._of_choice, *self._together]
        return _Parts(
            kind=kind,
            of_node=[(plugin, rule) for plugin, rule in rules if rule.cache_key is not None],
            of_choice=of_choice,
            rest=[rule for _, rule in rules if rule.cache_key is None and not (rule.by_choice and kind is not None)],
            speaking=[score for score in together if score[0].scores(info, view, ()) is not None],
        )

    def _template_of(self, parts: _Parts, info: PodInfo, view: ClusterView) -> _Template:
        cache_key = (
            *((plugin.name, rule.cache_key) for plugin, rule in parts.of_node),
            *(score.cache_key(info) for score, _ in self._alone),
        )
        return self._template(cache_key, len(view.nodes))

    def _known(self, parts: _Parts, template: _Template, judgement: Judgement, view: ClusterView) -> Sequence[int]:
        """Return the total of the cached scores of each node, by number; negative where the pod is rejected."""
        info = judgement.info
        if parts.kind is None:
            return template.totals

        def work_out(state: NodeInfo) -> int:
            if any(rule.why(state) is not None for _, rule in parts.of_choice):
                return _DOES_NOT_FIT
            own = info.choice(state).own
            return sum(weight * score.of_choice(info, own) for score, weight in self._of_choice)

        cache_key = (parts.kind, tuple(plugin.name for plugin, _ in parts.of_choice))
        return list(map(add, template.totals, self._choices.answers(cache_key, info, view, work_out)))

    def _template(self, cache_key: Hashable, nodes: int) -> _Template:
        # Removed and inserted again: the first one is always the least recently used.
        template = self._templates.pop(cache_key, None)
        if template is None or len(template.states) != nodes:
            most = max(1, min(MAX_TEMPLATES, MAX_CACHED_NODES // nodes))
            while len(self._templates) >= most:
                del self._templates[next(iter(self._templates))]
            template = _Template([None] * nodes, [_DOES_NOT_FIT] * nodes, self._turn)
        self._templates[cache_key] = template
        return template

    def _renew(self, template: _Template, parts: _Parts, judgement: Judgement, view: ClusterView) -> int:
        """Evaluate the nodes that have changed; if more than MAX_RENEWED_NODES have, until enough are feasible.

        Return the nodes that the pod is allowed on and whose results are current, as bits.
        """
        nodes, allowed_nodes = view.nodes, judgement.allowed_nodes
        changed = template.changed(nodes)
        if len(changed) <= MAX_RENEWED_NODES:
            if changed:
                self._evaluate(template, changed, parts, judgement, view)
            return allowed_nodes
        current = template.current(nodes)
        if parts.cached_only and not self._percentage:
            wanted, least, left = PROMISING, PROMISING, self._most_promising(template, allowed_nodes, view)
        else:
            fitting = sum(map((-1).__lt__, compress(template.totals, mask_of(allowed_nodes & current))))
            wanted, least, left = (
                self._wanted(len(nodes)) - fitting,
                MAX_RENEWED_NODES,
                _in_turn(template, changed, allowed_nodes),
            )
        while evaluated := list(islice(left, max(wanted, least))):
            wanted -= self._evaluate(template, evaluated, parts, judgement, view)
            for state in evaluated:
                current |= 1 << state.number
            if wanted <= 0:
                break
        return allowed_nodes & current

    def _most_promising(self, template: _Template, allowed_nodes: int, view: ClusterView) -> Iterator[NodeInfo]:
        """Yield the nodes that the pod is allowed on and that have changed, the most promising first."""
        nodes, states = view.nodes, template.states
        if allowed_nodes.bit_count() <= MAX_RENEWED_NODES:
            return (state for state in compress(nodes, mask_of(allowed_nodes)) if states[state.number] is not state)
        self._promising.update(nodes, lambda changed: self._promises(changed, view))
        return (
            nodes[number]
            for number in self._promising.in_order(template.turn)
            if allowed_nodes >> number & 1 and states[number] is not nodes[number]
        )

    def _promises(self, nodes: Sequence[NodeInfo], view: ClusterView) -> Sequence[int]:
        return self._totals(pod_info(_NO_REQUESTS, view.storage, view.now), view, nodes)

    def _totals(self, info: PodInfo, view: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int]:
        """Return the weighted sums of the scores that are cached by node."""
        totals = [0] * len(nodes)
        for plugin, weight in self._alone:
            scores = plugin.scores(info, view, nodes)
            if scores is not None:
                totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
        return totals

    def _evaluate(
        self,
        template: _Template,
        changed: Sequence[NodeInfo],
        parts: _Parts,
        judgement: Judgement,
        view: ClusterView,
    ) -> int:
        """Evaluate nodes, whether or not this pod may run there: the next one may. Return how many fit this one."""
        states, totals = template.states, template.totals
        template.fresh = False
        # No rule or score depends on the individual pods of a node.
        anew = [
            state for state in changed if (known := states[state.number]) is None or not differs_by_news(known, state)
        ]
        for state in changed:
            states[state.number] = state
        for state in anew:
            totals[state.number] = _DOES_NOT_FIT
        fitting = passing([rule for _, rule in parts.of_node], anew)
        for state, total in zip(fitting, self._totals(judgement.info, view, fitting), strict=True):
            totals[state.number] = total
        return sum(judgement.allowed_nodes >> state.number & 1 for state in fitting)

    def _compared(
        self, parts: _Parts, known: Sequence[int], turn: int, judgement: Judgement, view: ClusterView, allowed: int
    ) -> NodeInfo | None:
        """Return the best node where more than the cached results is needed, None if none fits."""
        nodes = view.nodes
        left = [state for state in compress(nodes, mask_of(allowed)) if known[state.number] >= 0]
        first = bisect_left(left, self._start % len(nodes), key=lambda state: state.number)
        wanted = self._wanted(len(nodes))
        fitting = first_passing(parts.rest, [*left[first:], *left[:first]], wanted)
        if not fitting:
            return None
        sums = [known[state.number] for state in fitting]
        for plugin, weight in parts.speaking:
            scores = plugin.scores(judgement.info, view, fitting)
            if scores is not None:
                sums = [total + weight * score for total, score in zip(sums, scores, strict=True)]
        best = max(sums)
        if wanted == len(fitting) < len(nodes):
            self._start = fitting[-1].number + 1
            return fitting[sums.index(best)]
        equal = [state for state, total in zip(fitting, sums, strict=True) if total == best]
        return min(equal, key=lambda state: (state.number < turn, state.number))

    @property
    def _percentage(self) -> int:
        return self._profile.percentage_of_nodes_to_score if self._profile is not None else 0

    def _wanted(self, nodes: int) -> int:
        return nodes_wanted(nodes, self._percentage)


def _in_turn(template: _Template, changed: Sequence[NodeInfo], allowed_nodes: int) -> Iterator[NodeInfo]:
    """Yield the changed nodes that the pod is allowed on, from the one after that of the template's last pod on."""
    first = bisect_left(changed, template.turn, key=lambda state: state.number)
    return (state for state in chain(changed[first:], changed[:first]) if allowed_nodes >> state.number & 1)


def _bits_of(nodes: Iterable[bool]) -> int:
    """Return a set of nodes as bits, given for each number whether the node is in it."""
    return int(bytes(nodes)[::-1].translate(_AS_DIGITS) or b"0", 2)


def _next_of_the_best(totals: Sequence[int], allowed: bytes, turn: int) -> int | None:
    """Return the number of an allowed node with the highest total, the first from `turn` on; None if all are
    rejected.
    """
    most = max(compress(totals, allowed))
    if most < 0:
        return None
    chosen = _next_with(most, totals, allowed, turn)
    return _next_with(most, totals, allowed, 0) if chosen is None else chosen


def _next_with(total: int, totals: Sequence[int], allowed: bytes, number: int) -> int | None:
    while number < len(allowed):
        try:
            number = totals.index(total, number, len(allowed))
        except ValueError:
            return None
        if allowed[number]:
            return number
        number += 1
    return None
