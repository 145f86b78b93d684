"""Decides as `scheduler.cycle.cycle.decide` does, and remembers of each template of pods what was found about each
node.

What most filters and scores say about a node follows from the pod's template and the node's state, or from the volumes
the pod would take there. Placing a pod changes one node of thousands: only that one is asked again when the next pod
of the template comes.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import add, is_not
from typing import Final

from kube.objects.model import Pod
from scheduler.cycle.choice_memory import ChoiceMemory, kind_of
from scheduler.cycle.cycle import Judgement, Unschedulable, first_passing, judge, mask_of, nodes_wanted, passing, placed
from scheduler.framework.plugin import Filter, NodeRule, ScheduleResult, Score, ScoreAlone, ScoreChoice
from scheduler.framework.profile import Profile
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo, differs_by_news
from scheduler.volumes.volumes import PodInfo

MOST_TEMPLATES: Final = 4096
"""Templates remembered at once for a profile; beyond it those are forgotten that were decided about longest ago."""

MOST_REMEMBERED: Final = 2_000_000
"""Nodes remembered in all templates of a profile together, each with two pointers: 32 MB. At 5,000 nodes these are 400
templates."""

MOST_PROFILES: Final = 16
"""Profiles with a memory of their own. A configuration that has more of them works, more slowly."""

_DOES_NOT_FIT: Final = -(1 << 60)
"""Less than any sum of scores, whatever is added."""

_Weighted = tuple[Score, int]


@dataclass(slots=True)
class _Template:
    """Each node's state when it was asked last, and the total of what it scores by itself.

    `turn` is the number behind the node that the template's last pod got: among equals it is the next one's turn.
    """

    states: list[NodeInfo | None]
    totals: list[int]
    turn: int


@dataclass(frozen=True, slots=True)
class _Parts:
    """A pod's rules and scores, by what is remembered: of the node, of the `kind` of claims, and nothing.

    `rest` and `speaking` are the rules and scores of which nothing is.
    """

    kind: Hashable | None
    of_node: Sequence[tuple[Filter, NodeRule]]
    of_choice: Sequence[tuple[Filter, NodeRule]]
    rest: Sequence[NodeRule]
    speaking: Sequence[_Weighted]


class Decider:
    """Decides about one pod after the other, each by its profile, which has a memory of its own."""

    def __init__(self) -> None:
        self._profiles: dict[str, ProfileDecider] = {}

    def decide(self, pod: Pod, view: ClusterView, profile: Profile) -> ScheduleResult | Unschedulable:
        """Return where the pod goes, or why nowhere."""
        decider = self._profiles.pop(profile.scheduler_name, None) or ProfileDecider()
        while len(self._profiles) >= MOST_PROFILES:
            del self._profiles[next(iter(self._profiles))]
        self._profiles[profile.scheduler_name] = decider
        return decider.decide(pod, view, profile)


class ProfileDecider:
    """Decides about pods of one profile; another configuration of it is remembered anew.

    Where all that there is to ask is remembered, all nodes are looked at, whatever `percentage_of_nodes_to_score`: as
    `decide` does with 100 percent. Otherwise the search begins behind the last node that the one before it found, as
    `decide` with that `start`, and ends with the first best. Who sees all nodes, as below 100, takes of those that
    score alike the next behind the one that the last pod of the template got; the first pod of a template goes on
    behind the last pod of any. kube-scheduler leaves that to chance (selectHost). So pods of a template are spread over
    nodes that stay equal with a difference of one at most, unless a score prefers fuller nodes.
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

    def decide(self, pod: Pod, view: ClusterView, profile: Profile) -> ScheduleResult | Unschedulable:
        """Return where the pod goes, or why nowhere."""
        if profile is not self._profile:
            self._take(profile)
        judgement = judge(pod, view, profile)
        if not judgement.among:
            return Unschedulable(judgement, view)
        parts = self._parted(judgement, view)
        template = self._template_of(parts, judgement.info, view)
        known = self._known(parts, template, judgement, view)
        if parts.rest or parts.speaking:
            node = self._compared(parts, known, template.turn, judgement, view)
        else:
            number = _next_of_the_best(known, mask_of(judgement.among), template.turn)
            node = None if number is None else view.nodes[number]
        if node is None:
            return Unschedulable(judgement, view)
        self._turn = template.turn = node.number + 1
        return placed(judgement, node)

    def _take(self, profile: Profile) -> None:
        self._profile = profile
        weighted = [(score.plugin, score.weight) for score in profile.scores]
        self._alone = [(score, weight) for score, weight in weighted if isinstance(score, ScoreAlone)]
        self._of_choice = [(score, weight) for score, weight in weighted if isinstance(score, ScoreChoice)]
        self._together = [score for score in weighted if not isinstance(score[0], ScoreAlone | ScoreChoice)]
        self._templates.clear()
        self._choices.forget()

    def _parted(self, judgement: Judgement, view: ClusterView) -> _Parts:
        info = judgement.info
        kind = kind_of(info, view.storage) if info.claims.delayed else None
        rules = [(plugin, rule) for plugin, rule in judgement.rules if rule.among is None]
        of_choice = [(plugin, rule) for plugin, rule in rules if rule.by_choice and kind is not None]
        together = self._together if kind is not None else [*self._of_choice, *self._together]
        return _Parts(
            kind=kind,
            of_node=[(plugin, rule) for plugin, rule in rules if rule.question is not None],
            of_choice=of_choice,
            rest=[rule for _, rule in rules if rule.question is None and not (rule.by_choice and kind is not None)],
            speaking=[score for score in together if score[0].scores(info, view, ()) is not None],
        )

    def _template_of(self, parts: _Parts, info: PodInfo, view: ClusterView) -> _Template:
        asked = (
            *((plugin.name, rule.question) for plugin, rule in parts.of_node),
            *(score.question(info) for score, _ in self._alone),
        )
        return self._template(asked, len(view.nodes))

    def _known(self, parts: _Parts, template: _Template, judgement: Judgement, view: ClusterView) -> Sequence[int]:
        """Return the total of what is remembered of each node, by number; negative where the pod is refused by it."""
        info = judgement.info
        self._renew(template, [rule for _, rule in parts.of_node], judgement, view)
        if parts.kind is None:
            return template.totals

        def work_out(state: NodeInfo) -> int:
            if any(rule.why(state) is not None for _, rule in parts.of_choice):
                return _DOES_NOT_FIT
            own = info.choice(state).own
            return sum(weight * score.of_choice(info, own) for score, weight in self._of_choice)

        question = (parts.kind, tuple(plugin.name for plugin, _ in parts.of_choice))
        return list(map(add, template.totals, self._choices.answers(question, info, view, work_out)))

    def _template(self, question: Hashable, nodes: int) -> _Template:
        # Taken out and put back: the first one is always the one that was wanted longest ago.
        template = self._templates.pop(question, None)
        if template is None or len(template.states) != nodes:
            most = max(1, min(MOST_TEMPLATES, MOST_REMEMBERED // nodes))
            while len(self._templates) >= most:
                del self._templates[next(iter(self._templates))]
            template = _Template([None] * nodes, [_DOES_NOT_FIT] * nodes, self._turn)
        self._templates[question] = template
        return template

    def _renew(self, template: _Template, rules: Iterable[NodeRule], judgement: Judgement, view: ClusterView) -> None:
        """Ask about the nodes that are not as they were, whether or not the pod may go there: the next one may."""
        states, totals = template.states, template.totals
        changed = list(compress(view.nodes, map(is_not, view.nodes, states)))
        if not changed:
            return
        # No rule or score asks for the pods of a node one by one.
        anew = [
            state for state in changed if (known := states[state.number]) is None or not differs_by_news(known, state)
        ]
        for state in changed:
            states[state.number] = state
        for state in anew:
            totals[state.number] = _DOES_NOT_FIT
        fitting = passing(rules, anew)
        for state in fitting:
            totals[state.number] = 0
        for plugin, weight in self._alone:
            scores = plugin.scores(judgement.info, view, fitting)
            if scores is not None:
                for state, score in zip(fitting, scores, strict=True):
                    totals[state.number] += weight * score

    def _compared(
        self, parts: _Parts, known: Sequence[int], turn: int, judgement: Judgement, view: ClusterView
    ) -> NodeInfo | None:
        """Return the best node where there is more to ask than what is remembered, None when none fits."""
        nodes = view.nodes
        left = [state for state in compress(nodes, mask_of(judgement.among)) if known[state.number] >= 0]
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

    def _wanted(self, nodes: int) -> int:
        return nodes_wanted(nodes, self._profile.percentage_of_nodes_to_score if self._profile is not None else 0)


def _next_of_the_best(totals: Sequence[int], allowed: bytes, turn: int) -> int | None:
    """Return the number of an allowed node of the highest total, the first from `turn` on; None if all are refused."""
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
