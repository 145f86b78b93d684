"""What a scheduler plugin is: a rule prepared once for a pod and then asked about nodes, and all that is known of it.

The phases are those of kube-scheduler's framework (KEP-624): a pod leaves the queue (QueueSort), may be refused or
confined to some nodes as a whole (PreFilter), is refused nodes one by one (Filter), ranks those that are left (Score),
has volumes promised on the chosen one (Reserve), gets them bound (PreBind), and is assigned (Bind). All but the last
two are pure. `scheduler.state.cluster` has the values they look at, `scheduler.cycle.cycle` runs them,
`scheduler.framework.profile` says which ones and in what order.

A plugin states all of itself on its class: nothing else in the scheduler knows its name. What it leaves out has the
safe default.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol, TypeVar

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Pod
from scheduler.framework.queueing_hint import ANYTHING_HELPS, QueueingHint
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.claim_texts import whole_text
from scheduler.volumes.volume_binding import VolumeChoice
from scheduler.volumes.volumes import PodInfo

LOWEST: Final = 0
HIGHEST: Final = 100
"""Every score is an integer between these two (MinNodeScore and MaxNodeScore of the framework)."""

SortKey = tuple[int, float, str]
"""Ascending: the pod with the least key is scheduled first."""


@dataclass(frozen=True, slots=True)
class NodeRule:
    """One filter's judgement about nodes, prepared for one pod.

    `why` says why a node is refused, with the evidence, or None when it is not; it is asked only where the answer is
    told. `fitting` and `among` are quick forms that must agree with it: `fitting(nodes)` are those of the nodes, in
    their order, for which `why` says None, and `among` has the bit `1 << node.number` of every node that is allowed.
    The cycle uses `among` if it is there, else `fitting`, else `why`. With a `question` the answer about a node follows
    from it and the node's state alone, so it holds for all pods of which the plugin asks an equal one. `by_choice` says
    that it follows from `PodInfo.choice` for the node alone. `reasons(nodes)` says of these
    nodes which ones `why` refuses for which reason; sets of nodes are bits. `texts(nodes)` says of each of them what is
    wrong with it, nothing where `why` says None; it goes before the plugin's messages, and its reason is the first of
    those that the plugin states.
    """

    why: Callable[[NodeInfo], Rejection | None]
    fitting: Callable[[Sequence[NodeInfo]], Sequence[NodeInfo]] | None = None
    among: int | None = None
    question: Hashable | None = None
    by_choice: bool = False
    reasons: Callable[[int], Iterable[tuple[Reason, int]]] | None = None
    texts: Callable[[Sequence[NodeInfo]], Sequence[tuple[str, ...]]] | None = None


class Allowing(Protocol):
    """What one term or constraint of a pod decides about all nodes (kube.pod_topology)."""

    @property
    def allowed(self) -> int:
        """The nodes that it leaves, as bits by `NodeInfo.number`."""


V = TypeVar("V", bound=Allowing)


def rule_of_verdicts(
    verdicts: Sequence[V],
    everything: int,
    reject: Callable[[V, str, Mapping[str, str]], Rejection],
    reasons_of: Callable[[V, int], Iterable[tuple[Reason, int]]],
) -> NodeRule | None:
    """Return the rule that a node has to be allowed by every verdict; None without verdicts.

    The first verdict that does not allow a node is why it is refused: `reject` puts that into words, by the node's name
    and labels, and `reasons_of` says for which reason the verdict refuses which of these nodes. `everything` has the
    bits of all nodes.
    """
    if not verdicts:
        return None
    among = everything
    for verdict in verdicts:
        among &= verdict.allowed

    def why(state: NodeInfo) -> Rejection | None:
        refusing = next((verdict for verdict in verdicts if not verdict.allowed >> state.number & 1), None)
        return None if refusing is None else reject(refusing, state.name, state.labels)

    def reasons(nodes: int) -> Iterator[tuple[Reason, int]]:
        for verdict in verdicts:
            yield from reasons_of(verdict, nodes & ~verdict.allowed)
            nodes &= verdict.allowed

    return NodeRule(why, among=among, reasons=reasons)


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """A pod and the node chosen for it, with the volumes it takes there."""

    pod: Pod
    node: str
    volumes: VolumeChoice


class Eviction(StrEnum):
    """What becomes of a filter's refusal of a node when pods leave it: what preemption has to know."""

    UNMOVED = "unmoved"
    """The filter looks at no pods. What it refuses, no eviction cures."""
    LOCAL = "local"
    """Its prepared rule looks at a node's state alone, so that can be asked about the node without the pods."""
    INCREMENTAL = "incremental"
    """It counts pods beyond the node, and its `tally` counts on while some leave it and come back."""
    UNKNOWN = "unknown"
    """Nothing was said: it is prepared anew for a cluster without the pods, each time. Safe, and slow."""


Counts = tuple[int, ...]
"""What a filter counts where a node is, in an order of its own."""


class Tally(Protocol):
    """An INCREMENTAL filter, for one pod that is to be placed (PreFilterExtensions: AddPod and RemovePod)."""

    def counts(self, state: NodeInfo, /) -> Counts:
        """Return what is counted where the node is, as the cluster is."""

    def adds(self, pod: Pod, state: NodeInfo, /) -> Counts:
        """Return what a pod counts for when it is on the node."""

    def allows(self, state: NodeInfo, counts: Counts, /) -> bool:
        """Whether the node is allowed when so much is counted."""


class Plugin:
    """What every plugin has: `name` is that of profiles, metrics and messages.

    It is made without arguments, or with `args` if it states their type: a dataclass, which is decoded from the
    `pluginConfig` of a profile, with keys in camelCase and no others. Those of the plugins here are the profile's
    Thresholds.
    """

    name: ClassVar[str]
    args: ClassVar[type[Any] | None] = None
    queueing_hint: QueueingHint = ANYTHING_HELPS
    """What may help a pod that the plugin refused."""


class QueueSort(Plugin, ABC):
    """Which of two waiting pods is scheduled first."""

    @abstractmethod
    def key(self, pod: Pod, /) -> SortKey: ...


class PreFilter(Plugin, ABC):
    """Looks at the pod before any node."""

    @abstractmethod
    def confine(self, info: PodInfo, cluster: ClusterView, /) -> int | Rejection | None:
        """Return the only nodes to be considered (bits by `NodeInfo.number`), why the pod fits none, or None."""

    def text(self, rejection: Rejection, _info: PodInfo, _cluster: ClusterView, /) -> str:
        """Return the sentence about a pod that fits none, without its full stop."""
        return whole_text(rejection)


class Filter(Plugin, ABC):
    """Refuses nodes."""

    messages: ClassVar[Mapping[Reason, str]] = {}
    """What to say of a node for each reason that the filter refuses one for, after "3 node(s) ". With one reason only
    it is enough to ask about one of the nodes."""
    eviction: ClassVar[Eviction] = Eviction.UNKNOWN
    unresolvable: ClassVar[frozenset[Reason]] = frozenset()
    """Reasons for which fewer pods do not help, of a filter that is not UNMOVED (UnschedulableAndUnresolvable)."""

    @abstractmethod
    def rule(self, info: PodInfo, cluster: ClusterView, /) -> NodeRule | None:
        """Return the judgement for this pod; None when there is nothing in the pod that any node could fail."""

    def tally(self, _info: PodInfo, _cluster: ClusterView, /) -> Tally:
        """Return what counts on for this pod. Only INCREMENTAL filters are asked."""
        raise NotImplementedError(f"{self.name} says that it is incremental and has no tally")


class Score(Plugin, ABC):
    """Ranks the nodes that fit."""

    @abstractmethod
    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo], /) -> Sequence[int] | None:
        """Return LOWEST to HIGHEST for each node, in their order; None when this pod makes no difference to any node.

        Whether it is None does not depend on `nodes`.
        """


class ScoreAlone(Score):
    """Ranks a node without a look at any other."""

    @abstractmethod
    def question(self, info: PodInfo, /) -> Hashable:
        """Return what of the pod the score depends on: with it and the node's state the score is always the same."""


class ScoreChoice(Score):
    """Ranks a node by the volumes the pod takes there, and by nothing else."""

    @abstractmethod
    def of_choice(self, info: PodInfo, choice: VolumeChoice, /) -> int:
        """Return the score of any node with this choice, for a pod that has claims to bind."""


class ReservePlugin(Protocol):
    """Promises to the pod what it takes on the chosen node, so that pods decided next do not get it too."""

    @property
    def name(self) -> str: ...

    def reserve(self, placement: ScheduleResult, cluster: ClusterView) -> ClusterView | Rejection:
        """Return the cluster with the promise made, or why it cannot be made."""


class PreBind(Protocol):
    """Makes the cluster keep the promise, before the pod is assigned. Effects."""

    @property
    def name(self) -> str: ...

    def has_work(self, placement: ScheduleResult) -> bool:
        """Whether `pre_bind` has anything to write or to wait for (PreBindPreFlight)."""

    async def pre_bind(self, placement: ScheduleResult) -> Rejection | None:
        """Write and wait; return why it failed, or None."""

    async def roll_back(self, placement: ScheduleResult) -> None:
        """Undo what `pre_bind` wrote and what can be undone."""


class Bind(Protocol):
    """Assigns the pod to the node. Effects."""

    @property
    def name(self) -> str: ...

    async def bind(self, placement: ScheduleResult) -> Rejection | None:
        """Assign it; return why that failed, or None."""
