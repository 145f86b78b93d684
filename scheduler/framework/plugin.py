"""What a scheduler plugin is: a rule prepared once for a pod and then evaluated for nodes, and everything it declares.

The phases are those of kube-scheduler's framework (KEP-624): a pod leaves the queue (QueueSort), may be rejected or
confined to some nodes as a whole (PreFilter), nodes are rejected individually (Filter) and the remaining ones ranked
(Score), volumes are reserved on the chosen one (Reserve) and bound (PreBind), and the pod is assigned (Bind). All but
the last two are pure. `scheduler.state.cluster` has the values they read, `scheduler.cycle.cycle` runs them,
`scheduler.framework.profile` defines which ones and in what order.

A plugin declares everything about itself on its class: nothing else in the scheduler refers to it by name. What it
omits has the safe default.
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

MIN_NODE_SCORE: Final = 0
MAX_NODE_SCORE: Final = 100
"""Every score is an integer between these two (MinNodeScore and MaxNodeScore of the framework)."""

SortKey = tuple[int, float, str]
"""Ascending: the pod with the smallest key is scheduled first."""


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A filter's rule about nodes, prepared for a pod.

    `why` returns why a node is rejected, with the evidence, or None if it is not; it is called only where the reason is
    reported. `fitting` and `allowed_nodes` are fast forms that must agree with it: `fitting(nodes)` are those of the
    nodes, in their order, for which `why` returns None, and `allowed_nodes` has the bit `1 << node.number` of every
    node that is allowed. The cycle uses `allowed_nodes` if set, else `fitting`, else `why`. With a `cache_key` the
    result for a node depends on it and the node's state only, so it holds for all pods for which the plugin has an
    equal key. `by_choice`: the result depends on `PodInfo.choice` for the node only; `every(node)` then returns all
    reasons against it, `why`'s first, where there may be several. `reasons(nodes)` returns which of these nodes `why`
    rejects for which reason; sets of nodes are bits. `texts(nodes)` returns the problems of each of them, nothing where
    `why` returns None; it takes precedence over the plugin's messages. `unresolvable`, of a LOCAL filter, returns
    whether a node would be rejected even without any pods.
    """

    why: Callable[[NodeInfo], Rejection | None]
    fitting: Callable[[Sequence[NodeInfo]], Sequence[NodeInfo]] | None = None
    allowed_nodes: int | None = None
    cache_key: Hashable | None = None
    by_choice: bool = False
    every: Callable[[NodeInfo], Iterable[Rejection]] | None = None
    reasons: Callable[[int], Iterable[tuple[Reason, int]]] | None = None
    texts: Callable[[Sequence[NodeInfo]], Sequence[tuple[str, ...]]] | None = None
    unresolvable: Callable[[NodeInfo], bool] | None = None


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

    The first verdict that does not allow a node is why it is rejected: `reject` words that, by the node's name and
    labels, and `reasons_of` says for which reason the verdict rejects which of these nodes. `everything` has the
    bits of all nodes.
    """
    if not verdicts:
        return None
    allowed_nodes = everything
    for verdict in verdicts:
        allowed_nodes &= verdict.allowed

    def why(state: NodeInfo) -> Rejection | None:
        rejecting = next((verdict for verdict in verdicts if not verdict.allowed >> state.number & 1), None)
        return None if rejecting is None else reject(rejecting, state.name, state.labels)

    def reasons(nodes: int) -> Iterator[tuple[Reason, int]]:
        for verdict in verdicts:
            yield from reasons_of(verdict, nodes & ~verdict.allowed)
            nodes &= verdict.allowed

    return NodeRule(why, allowed_nodes=allowed_nodes, reasons=reasons)


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """A pod and the node chosen for it, with the volumes it takes there."""

    pod: Pod
    node: str
    volumes: VolumeChoice


class Eviction(StrEnum):
    """How evictions affect a filter's rejection of a node: what preemption has to know."""

    UNMOVED = "unmoved"
    """The filter does not depend on pods. No eviction can change its rejections."""
    LOCAL = "local"
    """Its prepared rule depends on a node's state only, so it can be evaluated for the node without the pods."""
    INCREMENTAL = "incremental"
    """It counts pods beyond the node, and its `tally` is updated while some leave it and return."""
    UNKNOWN = "unknown"
    """Not declared: it is prepared again for a cluster without the pods, each time. Safe, and slow."""


Counts = tuple[int, ...]
"""The counts of a filter for a node, in an order of its own."""


class Tally(Protocol):
    """The counts of an INCREMENTAL filter for a pod that is to be placed (PreFilterExtensions: AddPod and
    RemovePod).
    """

    def counts(self, state: NodeInfo, /) -> Counts:
        """Return the counts for the node in the present cluster."""

    def adds(self, pod: Pod, state: NodeInfo, /) -> Counts:
        """Return what a pod adds to the counts when it is on the node."""

    def allows(self, state: NodeInfo, counts: Counts, /) -> bool:
        """Whether the node is allowed with these counts."""


class Plugin:
    """What every plugin has: `name` is used in profiles, metrics and messages.

    It is constructed without arguments, or with `args` if it declares their type: a dataclass, which is decoded from
    the `pluginConfig` of a profile, with keys in camelCase and no others. Those of the built-in plugins are the
    profile's Thresholds.
    """

    name: ClassVar[str]
    args: ClassVar[type[Any] | None] = None
    queueing_hint: QueueingHint = ANYTHING_HELPS
    """Which changes may help a pod that the plugin rejected."""


class QueueSort(Plugin, ABC):
    """Defines which of two waiting pods is scheduled first."""

    @abstractmethod
    def key(self, pod: Pod, /) -> SortKey: ...


class PreFilter(Plugin, ABC):
    """Evaluates the pod before any node."""

    explains: ClassVar[bool] = False
    """Whether it is a Filter too that reports why `confine` excludes a node. Otherwise the pod's Event counts these
    nodes with the plugin's name, and no filter is run for them.
    """

    @abstractmethod
    def confine(self, info: PodInfo, cluster: ClusterView, /) -> int | Rejection | None:
        """Return the only nodes to be considered (bits by `NodeInfo.number`), why the pod fits none, or None."""

    def text(self, rejection: Rejection, _info: PodInfo, _cluster: ClusterView, /) -> str:
        """Return the sentence about a pod that fits no node, without its full stop."""
        return whole_text(rejection)


class Filter(Plugin, ABC):
    """Rejects nodes."""

    messages: ClassVar[Mapping[Reason, str]] = {}
    """For each reason with which the filter rejects nodes, the text after "3 node(s) ". With a single reason it is
    enough to evaluate one of the nodes.
    """
    eviction: ClassVar[Eviction] = Eviction.UNKNOWN
    unresolvable: ClassVar[frozenset[Reason]] = frozenset()
    """Reasons that evictions do not resolve, for a filter that is not UNMOVED (UnschedulableAndUnresolvable)."""

    @abstractmethod
    def rule(self, info: PodInfo, cluster: ClusterView, /) -> NodeRule | None:
        """Return the rule for this pod; None if no node can fail because of it."""

    def tally(self, _info: PodInfo, _cluster: ClusterView, /) -> Tally:
        """Return the tally for this pod. Only called for INCREMENTAL filters."""
        raise NotImplementedError(f"{self.name} says that it is incremental and has no tally")


class Score(Plugin, ABC):
    """Ranks the nodes that fit."""

    @abstractmethod
    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo], /) -> Sequence[int] | None:
        """Return MIN_NODE_SCORE to MAX_NODE_SCORE for each node, in order; None if this pod makes no difference to any.

        Whether it is None does not depend on `nodes`.
        """


class ScoreAlone(Score):
    """Ranks a node independently of any other."""

    @abstractmethod
    def cache_key(self, info: PodInfo, /) -> Hashable:
        """Return what the score depends on besides the node's state."""


class ScoreChoice(Score):
    """Ranks a node by the volumes that the pod takes there, and by nothing else."""

    @abstractmethod
    def of_choice(self, info: PodInfo, choice: VolumeChoice, /) -> int:
        """Return the score of any node with this choice, for a pod that has claims to bind."""


class ReservePlugin(Protocol):
    """Reserves for the pod what it takes on the chosen node, so that pods scheduled next do not get it too."""

    @property
    def name(self) -> str: ...

    def reserve(self, placement: ScheduleResult, cluster: ClusterView) -> ClusterView | Rejection:
        """Return the cluster with the reservation, or why it cannot be made."""


class PreBind(Protocol):
    """Realises the reservation in the cluster before the pod is assigned. Has effects."""

    @property
    def name(self) -> str: ...

    def has_work(self, placement: ScheduleResult) -> bool:
        """Whether `pre_bind` has anything to write or to wait for (PreBindPreFlight)."""

    async def pre_bind(self, placement: ScheduleResult) -> Rejection | None:
        """Write and wait; return why it failed, or None."""

    async def roll_back(self, placement: ScheduleResult) -> None:
        """Roll back what `pre_bind` wrote, as far as possible."""


class Bind(Protocol):
    """Assigns the pod to the node. Has effects."""

    @property
    def name(self) -> str: ...

    async def bind(self, placement: ScheduleResult) -> Rejection | None:
        """Assign it; return why that failed, or None."""
