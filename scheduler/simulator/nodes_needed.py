"""How many more nodes would be enough for the pods that fit nowhere."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.model import Pod
from scheduler.framework.profile import Profile
from scheduler.simulator.simulated_cluster import Entry, SimulatedChange, SimulatedCluster
from scheduler.simulator.simulation import Simulation, SimulationOutcome
from scheduler.state.node_info import NodeInfo

MAX_ADDED_NODES: Final = 1_000
"""Nodes. The search ends there."""


@dataclass(frozen=True, slots=True)
class NodesNeeded:
    """`added` counts nodes by the node that they copy; `failed` are pods that no such node helps, by reason."""

    added: Mapping[str, int]
    placed: int
    failed: Mapping[str, Reason]


def nodes_needed(
    cluster: SimulatedCluster, pods: Iterable[Pod], kinds: Sequence[NodeInfo], profile: Profile, seed: int
) -> NodesNeeded:
    """Add nodes to the cluster, each a copy of one of `kinds`, as long as each lets another pod be placed.

    One node is filled after the other. The next is of the kind that takes the most pods, and of the same kind as long
    as it takes any: this number suffices; another mix of kinds may need fewer.
    """
    left, added, placed = list(pods), Counter[str](), 0
    failed: Mapping[str, Reason] = {}
    kind: NodeInfo | None = None
    while left and added.total() < MAX_ADDED_NODES:
        adding = _Adding(cluster, left, profile, seed, added.total() + 1)
        outcome = adding.tried(kind) if kind is not None else None
        if outcome is None or not outcome.latencies:
            kind, outcome = adding.best(kinds)
        failed = outcome.failed
        if kind is None:
            break
        added[kind.name] += 1
        placed += len(outcome.latencies)
        left = [pod for pod in left if pod.key in failed]
    return NodesNeeded(added, placed, failed)


@dataclass(frozen=True, slots=True)
class _Adding:
    """The attempt to place pods with one more node, the one of this number."""

    cluster: SimulatedCluster
    pods: Sequence[Pod]
    profile: Profile
    seed: int
    number: int

    def best(self, kinds: Iterable[NodeInfo]) -> tuple[NodeInfo | None, SimulationOutcome]:
        """Add a node of the kind that takes the most pods; None, and why not, if none takes any."""
        before, best, most, rejected = self.cluster.state, None, 0, SimulationOutcome()
        for kind in kinds:
            outcome = self.tried(kind)
            self.cluster.rollback(before)
            if len(outcome.latencies) > most:
                best, most = kind, len(outcome.latencies)
            rejected = outcome
        return best, rejected if best is None else self.tried(best)

    def tried(self, kind: NodeInfo) -> SimulationOutcome:
        """Add a node and schedule the pods; if it takes none of them, restore the state before."""
        before = self.cluster.state
        self.cluster.apply(Entry(0, SimulatedChange.ADD_NODE, f"{kind.name}-more-{self.number}", like=kind.name))
        outcome = Simulation(self.cluster, self.profile, 1, self.seed).run(self.pods)
        if not outcome.latencies:
            self.cluster.rollback(before)
        return outcome
