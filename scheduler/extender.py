"""The extender for kube-scheduler: a request's body in, an answer's body out, from memory alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kube.store import Store
from kube.topology import BETA_ZONE_LABEL, ZONE_LABEL
from scheduler.extender_cache import ExtenderCache
from scheduler.extender_rules import (
    PodClaims,
    choices,
    local_nodes,
    may_refuse,
    pod_claims,
    points,
    refusal,
)
from scheduler.extender_wire import HIGHEST, Candidates, HostPriority, filter_result, priorities, read
from scheduler.node_groups import Kind, LabelKeys, labels_of


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back, and how many nodes were asked about and kept."""

    body: bytes
    nodes_in: int
    nodes_out: int


class Extender:
    """Answers about nodes by what `store` holds. Make it before the store's first list."""

    def __init__(self, store: Store, prefix: str, scheduler_names: frozenset[str] = frozenset()) -> None:
        """`scheduler_names`: about pods of other schedulers nothing is said; empty, there are no others."""
        self._store = store
        self._prefix = prefix
        self._scheduler_names = scheduler_names
        self._cache = ExtenderCache(store, prefix)

    def filter(self, body: bytes, now: datetime) -> Answer:
        """Answer to the verb `filter`: ExtenderFilterResult. Raises BadRequest."""
        asked = read(body)
        pod = self._claims(asked, now)
        refused = _local_refusals(asked, pod) | self._refusals(asked, pod, now)
        return Answer(filter_result(asked, refused), len(asked.names), len(asked.names) - len(refused))

    def prioritize(self, body: bytes, now: datetime) -> Answer:
        """Answer to the verb `prioritize`: HostPriorityList, in the order of the names. Raises BadRequest."""
        asked = read(body)
        pod = self._claims(asked, now)
        count = len(pod.open) + len(pod.bound)
        scores = self._scores(asked, pod, count, now) if count else [HostPriority(name, 0) for name in asked.names]
        return Answer(priorities(scores), len(scores), len(scores))

    def _claims(self, asked: Candidates, now: datetime) -> PodClaims:
        if not asked.claims or (self._scheduler_names and asked.scheduler_name not in self._scheduler_names):
            return PodClaims()
        keys = (f"{asked.namespace}/{name}" for name in asked.claims)
        return pod_claims(self._store.snapshot(), keys, now, self._prefix)

    def _refusals(self, asked: Candidates, pod: PodClaims, now: datetime) -> dict[str, str]:
        storage = self._cache.storage()
        if not may_refuse(storage, pod):
            return {}
        keys = self._keys(pod)
        kinds = self._cache.groups.kinds(keys)
        found = set(map(kinds.get, asked.names))
        reasons = {
            kind: reason
            for kind in found
            if kind is not None and (reason := refusal(choices(storage, pod, labels_of(keys, kind), now)))
        }
        if not reasons:
            return {}
        return {name: reasons[kind] for name in asked.names if (kind := kinds.get(name)) in reasons}

    def _scores(self, asked: Candidates, pod: PodClaims, count: int, now: datetime) -> list[HostPriority]:
        keys = self._keys(pod)
        kinds = self._cache.groups.kinds(keys)
        by_kind = self._points_by_kind(set(map(kinds.get, asked.names)), keys, pod, now)
        by_name = self._points_by_name(pod)
        if not by_name:
            scores = {kind: _score(found, count) for kind, found in by_kind.items()}
            return [HostPriority(name, scores[kinds.get(name)]) for name in asked.names]
        return [
            HostPriority(name, _score(by_kind[kinds.get(name)] + by_name.get(name, 0.0), count)) for name in asked.names
        ]

    def _points_by_kind(
        self, kinds: set[Kind | None], keys: LabelKeys, pod: PodClaims, now: datetime
    ) -> Mapping[Kind | None, float]:
        """Return the points by a node's labels; None stands for the nodes we do not know."""
        storage = self._cache.storage()
        found: dict[Kind | None, float] = {None: 0.0}
        for kind in kinds:
            if kind is not None:
                labels = labels_of(keys, kind)
                found[kind] = points(storage, choices(storage, pod, labels, now), labels)
        return found

    def _points_by_name(self, pod: PodClaims) -> Mapping[str, float]:
        """Return the points of nodes that have a promised local volume, or a bound one attached."""
        found: dict[str, float] = {}
        places = [*local_nodes(pod), *(self._cache.nodes_with(claim.volume_name) for claim in pod.bound)]
        for nodes in places:
            for name in nodes:
                found[name] = found.get(name, 0.0) + HIGHEST
        return found

    def _keys(self, pod: PodClaims) -> LabelKeys:
        """Return the node labels that decide which volumes of the pod's claims a node reaches."""
        keys = {key for one in pod.open for key in self._cache.labels.keys(one.claim.storage_class or "")}
        if any(one.reservation for one in pod.open):
            keys |= {ZONE_LABEL, BETA_ZONE_LABEL}
        return tuple(sorted(keys))


def _local_refusals(asked: Candidates, pod: PodClaims) -> dict[str, str]:
    """Where a local volume is promised and its node is among those asked about, no other node will do.

    If it is not, its node is full or gone, and the promise must not keep the pod from all others.
    """
    refused: dict[str, str] = {}
    for nodes in local_nodes(pod):
        if not nodes.isdisjoint(asked.names):
            reason = f"a local volume is reserved for the pod on {', '.join(sorted(nodes))}"
            refused |= {name: reason for name in asked.names if name not in nodes}
    return refused


def _score(points: float, count: int) -> int:
    """Return the average over the claims, rounded: an integer from 0 to HIGHEST."""
    return min(HIGHEST, max(0, int(points / count + 0.5)))
