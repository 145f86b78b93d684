"""Decides as `scheduler.cycle.decide` does, and remembers of each template of pods what was found about each node.

What a pod without claims and neighbours is told about a node follows from the pod's template and the node's state.
Placing a pod changes one node of thousands: only that one is asked again when the next pod of the template comes.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import is_not
from typing import Final

from kube.model import Pod
from scheduler.cluster import ClusterView
from scheduler.cycle import (
    Judgement,
    Unschedulable,
    best,
    feasible,
    judge,
    mask_of,
    nodes_wanted,
    passing,
    placed,
    totals,
)
from scheduler.node_state import NodeState
from scheduler.plugin import Placement, Score, ScoreAlone
from scheduler.profile import Profile

MOST_TEMPLATES: Final = 64
"""Templates remembered at once; beyond it all are forgotten. Each takes two pointers for every node."""

_DOES_NOT_FIT: Final = -1


@dataclass(slots=True)
class _Template:
    """Each node's state when it was asked last, and its total score then."""

    states: list[NodeState | None]
    totals: list[int]


class Decider:
    """Decides about one pod after the other.

    A pod that has only its template to say is shown every node, whatever `percentage_of_nodes_to_score`, and of those
    that score alike the first by number is taken: as `decide` does with all nodes to be scored. For any other pod the
    search begins behind the last node that the one before it found: as `decide` with that `start`. A search that does
    not find enough nodes sees all and leaves the start where it was: below 100 nodes it is always the first.
    """

    def __init__(self) -> None:
        self._start = 0
        self._profile: Profile | None = None
        self._alone: list[ScoreAlone] = []
        self._together: list[Score] = []
        self._templates: dict[Hashable, _Template] = {}

    def decide(self, pod: Pod, view: ClusterView, profile: Profile) -> Placement | Unschedulable:
        """Return where the pod goes, or why nowhere."""
        if profile is not self._profile:
            self._take(profile)
        judgement = judge(pod, view, profile)
        if not judgement.among:
            return Unschedulable(judgement, view)
        question = self._question(judgement, view)
        if question is None:
            return self._search(judgement, view, profile)
        template = self._template(question, len(view.nodes))
        _renew(template, judgement, view, profile)
        number = _first_of_the_best(template.totals, mask_of(judgement.among))
        return Unschedulable(judgement, view) if number is None else placed(judgement, view.nodes[number])

    def _take(self, profile: Profile) -> None:
        self._profile = profile
        plugins = [weighted.plugin for weighted in profile.scores]
        self._alone = [one for one in plugins if isinstance(one, ScoreAlone)]
        self._together = [one for one in plugins if one not in self._alone]
        self._templates.clear()

    def _search(self, judgement: Judgement, view: ClusterView, profile: Profile) -> Placement | Unschedulable:
        nodes = feasible(judgement, view, profile, self._start % len(view.nodes))
        if not nodes:
            return Unschedulable(judgement, view)
        if nodes_wanted(len(view.nodes), profile.percentage_of_nodes_to_score) == len(nodes) < len(view.nodes):
            self._start = nodes[-1].number + 1
        return placed(judgement, best(judgement, view, profile, nodes))

    def _question(self, judgement: Judgement, view: ClusterView) -> Hashable | None:
        """Return all that the answer about a node depends on beside its state; None when there is more."""
        info = judgement.info
        asked: list[Hashable] = []
        for _, rule in judgement.rules:
            if rule.among is None:
                if rule.question is None:
                    return None
                asked.append(rule.question)
        if any(one.scores(info, view, view.nodes[:1]) is not None for one in self._together):
            return None
        asked += [one.question(info) for one in self._alone]
        return tuple(asked)

    def _template(self, question: Hashable, nodes: int) -> _Template:
        template = self._templates.get(question)
        if template is None or len(template.states) != nodes:
            if len(self._templates) >= MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[question] = _Template([None] * nodes, [_DOES_NOT_FIT] * nodes)
        return template


def _first_of_the_best(totals: Sequence[int], allowed: bytes) -> int | None:
    most = max(compress(totals, allowed))
    if most == _DOES_NOT_FIT:
        return None
    number = totals.index(most)
    while number >= len(allowed) or not allowed[number]:
        number = totals.index(most, number + 1)
    return number


def _renew(template: _Template, judgement: Judgement, view: ClusterView, profile: Profile) -> None:
    """Ask about the nodes that are not as they were, whether or not the pod may go there: the next one may."""
    states, found = template.states, template.totals
    changed = list(compress(view.nodes, map(is_not, view.nodes, states)))
    if not changed:
        return
    for state in changed:
        states[state.number], found[state.number] = state, _DOES_NOT_FIT
    fitting = passing(judgement, changed)
    for state, total in zip(fitting, totals(judgement.info, view, profile, fitting), strict=True):
        found[state.number] = total
