"""Why no node fits a pod: counted by reason, in kube-scheduler's words, and for our own plugins in the same style.

The text is that of FitError.Error in pkg/scheduler/framework/types.go, the reasons are those of its plugins. Every node
is counted with the first filter that rejects it, as there; of resources every lacking one is named, and of volumes
both those that the pod has and cannot reach and those that it cannot get.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from binder.matching.rejection import Reason, Rejection
from kube.rules.resource_fit import offered_nowhere
from scheduler.cycle.cycle import Unschedulable
from scheduler.cycle.rejections import Alike, numbers_of, rejections, states_of
from scheduler.framework.plugin import Filter, NodeRule, Plugin, PreFilter
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.claim_texts import whole_text

Texts = Callable[[Sequence[NodeInfo]], Sequence[tuple[str, ...]]]

NO_NODES: Final = "no nodes available to schedule pods"
"""ErrNoNodesAvailable of pkg/scheduler/scheduler.go: before the pod is considered."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The reasons against all nodes. `whole` is the one against the pod itself, empty if nodes were evaluated.

    `devices` are extended resources of the pod that no node has. `counts` are nodes by text. `reason` is the most
    common one, for metrics; `plugins` are those that rejected some node.
    """

    nodes: int
    whole: str
    counts: Mapping[str, int]
    reason: Reason
    plugins: frozenset[Plugin]
    devices: tuple[str, ...] = ()

    @property
    def hints(self) -> frozenset[QueueingHint]:
        """The queueing hints of the plugins."""
        return frozenset(plugin.queueing_hint for plugin in self.plugins)

    def text(self, post_filter: str = "") -> str:
        """Return the sentence for the pod's condition and Event. `post_filter` is the message of preemption."""
        if not self.nodes:
            return NO_NODES
        reasons = self.whole or ", ".join(sorted(f"{nodes} {text}" for text, nodes in self.counts.items()))
        parts = [f"0/{self.nodes} nodes are available:", f"{reasons}." if reasons else "", post_filter]
        if self.devices:
            names = ", ".join(self.devices)
            parts.append(f"No node has {names}: if a DeviceClass provides it, leave the pod to kube-scheduler.")
        return " ".join(part for part in parts if part)


@dataclass(slots=True)
class _Count:
    """Nodes by reason and by text so far."""

    texts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[Reason] = field(default_factory=Counter)
    plugins: set[Plugin] = field(default_factory=set)

    def add(self, plugin: Filter, reason: Reason, nodes: int) -> None:
        if nodes:
            self.reasons[reason] += nodes
            self.texts[f"node(s) {plugin.messages.get(reason) or f'were rejected by {plugin.name}: {reason}'}"] += nodes

    def add_left_out(self, plugins: Sequence[PreFilter], nodes: int) -> None:
        """Add nodes that were left out before any filter (findNodesThatFitPod)."""
        if nodes:
            names = " ".join(sorted(plugin.name for plugin in plugins))
            messages = (plugin.messages for plugin in plugins if isinstance(plugin, Filter))
            reason = next((next(iter(known)) for known in messages if known), Reason.REJECTED_BY_PLUGIN)
            self.reasons[reason] += nodes
            self.texts[f"node(s) didn't satisfy plugin(s) [{names}]"] += nodes
            self.plugins.update(plugins)

    def add_texts(self, reason: Reason, texts: Iterable[str], nodes: int) -> None:
        """Add nodes with these texts: for one node every problem is named."""
        self.reasons[reason] += nodes
        for text in texts:
            self.texts[text] += nodes


def diagnose(unschedulable: Unschedulable) -> Diagnosis:
    """Return the reasons for which no node was found, without formatting those of each node."""
    judgement, cluster = unschedulable.judgement, unschedulable.cluster
    if judgement.rejection is not None:
        return _whole(unschedulable, judgement.rejection, judgement.rejected_by)
    count, left, alike = _Count(), cluster.index.everything & ~judgement.left_out, Alike(unschedulable)
    count.add_left_out(judgement.confined_by, judgement.left_out.bit_count())
    for plugin, rule in judgement.rules:
        before = left
        if rule.texts is not None:
            left = _count_texts(rule, rule.texts, states_of(left, cluster), count)
        else:
            for reason, rejected in rejections(plugin, rule, left, alike):
                count.add(plugin, reason, rejected.bit_count())
                left &= ~rejected
        if left != before:
            count.plugins.add(plugin)
    reason = max(count.reasons, key=lambda reason: (count.reasons[reason], reason), default=Reason.NO_NODE_FITS)
    lacking = Reason.INSUFFICIENT_RESOURCES in count.reasons
    offers = (state.allocatable for state in cluster.nodes)
    devices = offered_nowhere(judgement.info.pod.requests, offers) if lacking else ()
    return Diagnosis(len(cluster.nodes), "", count.texts, reason, frozenset(count.plugins), devices)


def _count_texts(rule: NodeRule, texts: Texts, states: Sequence[NodeInfo], count: _Count) -> int:
    """Count the nodes with a problem, and return the others. Nodes with equal texts have one reason."""
    wrong = texts(states)
    sample = dict(zip(wrong, states, strict=True))
    for those, nodes in Counter(wrong).items():
        rejection = rule.why(sample[those]) if those else None
        if rejection is not None:
            count.add_texts(rejection.reason, those, nodes)
    return numbers_of(state for state, those in zip(states, wrong, strict=True) if not those)


def _whole(unschedulable: Unschedulable, rejection: Rejection, plugin: PreFilter | None) -> Diagnosis:
    """Return the reason for which no node was evaluated."""
    nodes = len(unschedulable.cluster.nodes)
    if plugin is None:
        return Diagnosis(nodes, whole_text(rejection), {}, rejection.reason, frozenset())
    text = plugin.text(rejection, unschedulable.judgement.info, unschedulable.cluster)
    # Without nodes any change may help, because that is the reason that is reported.
    return Diagnosis(nodes, text, {}, rejection.reason, frozenset({plugin}) if nodes else frozenset())
