"""The extender for kube-scheduler: a request's body in, a response's body out, from memory alone."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from typing import Final

from binder.health.node_storage import cut_off
from binder.matching.claim_shape import ClaimShape, shape_of
from binder.matching.matching import class_of
from binder.reservation.contract import Annotations
from kube.objects.api_resource import (
    ATTACHMENTS,
    CAPACITIES,
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    STORAGE_CLASSES,
    VOLUMES,
)
from kube.objects.labels import NodeSelector
from kube.rules.topology import BETA_ZONE_LABEL, ZONE_LABEL, LabelKeys
from kube.store.store import Store
from scheduler.extender.cache import ExtenderCache, Grouping, pin_of
from scheduler.extender.pools import full_nodes
from scheduler.extender.rules import (
    NEVER,
    KnownClaims,
    NodeRejection,
    OpenClaim,
    Storage,
    fit_points,
    has_place,
    has_suspects,
    local_nodes,
    own_places,
    place_points,
    pod_claims,
    rejection,
    reporting,
    suspect_places,
    undecided,
)
from scheduler.extender.wire import (
    MAX_EXTENDER_PRIORITY,
    Candidates,
    HostPriority,
    NameLists,
    filter_result,
    preemption_result,
    priorities,
    read,
    read_preemption,
)

KINDS: Final = (CLAIMS, VOLUMES, STORAGE_CLASSES, NODES, CSI_NODES, CSI_DRIVERS, CAPACITIES, ATTACHMENTS)
"""What the answers are made from. Pods, which change most in a busy cluster, are not needed: a request has its own."""

FEW_KINDS: Final = 64
MAX_LOOKUPS: Final = 500
"""Kinds of nodes for which a claim's tightest volume is looked for in one request, some 10 ms. In a cluster of local
volumes each node is a kind of its own; those beyond score nothing this time and are known a few requests later."""
MAX_LOOKUPS_IN_ALL: Final = 2000
"""The same for all claims of a pod together, so that a pod with dozens of claims does not delay others."""


_ALLOWED: Final = NodeRejection("", 0, datetime.min.replace(tzinfo=UTC), NEVER)
_UNKNOWN: Final = NodeRejection("", 0, NEVER, NEVER)


@dataclass(frozen=True, slots=True)
class Answer:
    """The response body, and how many nodes were evaluated and kept."""

    body: bytes
    nodes_in: int
    nodes_out: int


@dataclass(slots=True)
class _Looks:
    """The points computed during a request, by what claims request, and how many more lookups are allowed."""

    left: int = MAX_LOOKUPS_IN_ALL
    known: dict[ClaimShape, Mapping[int, float]] = field(default_factory=dict)


class Extender:
    """Answers about nodes from the content of `store`, of which KINDS count. Create it before the store's first
    list."""

    def __init__(self, store: Store, annotations: Annotations, scheduler_names: frozenset[str] = frozenset()) -> None:
        """`scheduler_names`: pods of other schedulers are not filtered or scored; empty means all schedulers."""
        self._store = store
        self._annotations = annotations
        self._scheduler_names = scheduler_names
        self._cache = ExtenderCache(store, annotations)
        self._lists = NameLists()

    def step(self, now: datetime) -> bool:
        """Prepare a part of what an answer needs; return whether all is ready. An answer prepares what is left."""
        return self._cache.step(now)

    def filter(self, body: bytes, now: datetime) -> Answer:
        """Handle the verb `filter`: ExtenderFilterResult. Raises MalformedRequest."""
        candidates = read(body, self._lists)
        rejected = self._rejected(candidates, now)
        return Answer(filter_result(candidates, rejected), len(candidates.names), len(candidates.names) - len(rejected))

    def preempt(self, body: bytes, now: datetime) -> Answer:
        """Handle the verb `preempt`: ExtenderPreemptionResult. Raises MalformedRequest.

        No eviction makes a volume healthy or ends another claim's reservation: nodes that `filter` would reject are
        removed, so that no pod is evicted in vain.
        """
        preemption = read_preemption(body)
        candidates = preemption.candidates
        rejected = self._rejected(candidates, now)
        return Answer(
            preemption_result(preemption, rejected), len(candidates.names), len(candidates.names) - len(rejected)
        )

    def prioritize(self, body: bytes, now: datetime) -> Answer:
        """Handle the verb `prioritize`: HostPriorityList, in the order of the names. Raises MalformedRequest.

        Empty for a pod whose volumes prefer no node: kube-scheduler takes a missing score for 0 (`prioritizeNodes` in
        pkg/scheduler/schedule_one.go).
        """
        candidates = read(body, self._lists)
        scores = self._scores(candidates, self._claims(candidates, now))
        return Answer(priorities(scores), len(candidates.names), len(scores))

    def _rejected(self, candidates: Candidates, now: datetime) -> dict[str, str]:
        pod = self._claims(candidates, now)
        full = self._full_nodes(candidates, now)
        return full | _local_rejections(candidates, pod) | self._rejections(candidates, pod, now)

    def _full_nodes(self, candidates: Candidates, now: datetime) -> dict[str, str]:
        """Return nodes whose storage does not take all volumes that are provisioned for the pod."""
        if not self._concerns(candidates):
            return {}
        storage, ledger = self._cache.storage(), self._cache.pools(now)
        if not ledger.reports:
            return {}
        keys = (f"{candidates.namespace}/{name}" for name in candidates.claims)
        claims = [storage.snapshot.claims[key] for key in keys if key in storage.snapshot.claims]
        return full_nodes(candidates.names, claims, storage, ledger, now)

    def _concerns(self, candidates: Candidates) -> bool:
        names = self._scheduler_names
        return bool(candidates.claims) and (not names or candidates.scheduler_name in names)

    def _claims(self, candidates: Candidates, now: datetime) -> KnownClaims:
        if not self._concerns(candidates):
            return KnownClaims()
        keys = (f"{candidates.namespace}/{name}" for name in candidates.claims)
        return pod_claims(self._store.snapshot(), keys, now, self._annotations)

    def _rejections(self, candidates: Candidates, pod: KnownClaims, now: datetime) -> dict[str, str]:
        storage = self._cache.storage()
        if not storage.snapshot.csi_nodes_by_unhealthy_driver:
            pod = undecided(storage, pod, now)
        suspect = has_suspects(storage, pod)
        reports = reporting(storage.snapshot) if pod.open or pod.bound else set()
        apart = reports.intersection(candidates.names) if reports else reports
        if not suspect and not apart:
            return {}
        grouping = self._cache.groups.by(self._affinity_keys(pod))
        rejected = _rejections_of_reporting(apart, storage, pod, grouping, now)
        if not suspect:
            return rejected
        reasons = self._reasons(storage, pod, grouping, _kinds(grouping, candidates.names), now)
        if not reasons:
            return rejected
        numbers = map(grouping.numbers.get, candidates.names)
        by_kind = {name: reasons[at] for name, at in zip(candidates.names, numbers, strict=True) if at in reasons}
        return rejected | {name: reason for name, reason in by_kind.items() if name not in apart}

    def _reasons(
        self, storage: Storage, pod: KnownClaims, grouping: Grouping, kinds: Collection[int], now: datetime
    ) -> dict[int, str]:
        """Return why nodes of these kinds are rejected, by kind; those that are allowed are not in it."""
        by_name = any(open_claim.prebound is not None for open_claim in pod.open)
        if by_name or storage.snapshot.csi_nodes_by_unhealthy_driver:
            near = _near(suspect_places(storage, pod), grouping, kinds)
            rejections = {number: rejection(storage, pod, grouping.labels(number), now) for number in near}
        else:
            own = _near(own_places(storage, pod), grouping, kinds)
            rejections = self._known_rejections(
                storage, pod, grouping, [each for each in kinds if each not in own], now
            )
            rejections |= {number: rejection(storage, pod, grouping.labels(number), now) for number in own}
        claims = pod.claims
        return {number: rejected.text(claims) for number, rejected in rejections.items() if rejected.why}

    def _known_rejections(
        self, storage: Storage, pod: KnownClaims, grouping: Grouping, kinds: Iterable[int], now: datetime
    ) -> dict[int, NodeRejection]:
        """Return what is rejected on kinds of nodes where nothing is reserved for the pod: the same as for others with
        such claims, so only kinds whose volumes have changed, or whose reservations have ended, are evaluated.
        """
        known = self._cache.rejections.known((open_claim.claim for open_claim in pod.open), grouping.keys)
        rejections = {number: known.get(grouping.kinds[number], _UNKNOWN) for number in kinds}
        missing = [number for number, each in rejections.items() if not each.since <= now < each.until]
        near = set(missing)
        if len(missing) > FEW_KINDS:
            near = _near(suspect_places(storage, pod), grouping, missing)
        for number in missing:
            rejections[number] = known[grouping.kinds[number]] = (
                rejection(storage, pod, grouping.labels(number), now) if number in near else _ALLOWED
            )
        return rejections

    def _scores(self, candidates: Candidates, pod: KnownClaims) -> list[HostPriority]:
        count = len(pod.open) + len(pod.bound)
        if not count:
            return []
        grouping = self._cache.groups.by(self._keys(pod))
        points = self._points(pod, grouping, _kinds(grouping, candidates.names))
        # Thousands of kinds have a few different points.
        rounded = {average: _score(average, count) for average in set(points.values())}
        scores = {number: rounded[average] for number, average in points.items()}
        answer = list(map(HostPriority, candidates.names, _of_names(candidates.names, grouping, scores)))
        by_name = self._points_by_name(pod)
        if by_name:
            for entry in answer:
                if entry.host in by_name:
                    reached = points.get(grouping.numbers.get(entry.host, -1), 0.0)
                    entry.score = _score(reached + by_name[entry.host], count)
        return answer

    def _points(self, pod: KnownClaims, grouping: Grouping, kinds: Collection[int]) -> Mapping[int, float]:
        """Return the points of kinds of nodes, by what the claims reach there."""
        storage = self._cache.storage()
        looks = _Looks()
        by_claim = [self._claim_points(storage, open_claim, grouping, kinds, looks) for open_claim in pod.open]
        if len(by_claim) == 1:
            return by_claim[0]
        if not by_claim:
            return dict.fromkeys(kinds, 0.0)
        columns = zip(*(points.values() for points in by_claim), strict=True)
        return dict(zip(kinds, map(sum, columns), strict=True))

    def _claim_points(
        self,
        storage: Storage,
        open_claim: OpenClaim,
        grouping: Grouping,
        kinds: Collection[int],
        looks: _Looks,
    ) -> Mapping[int, float]:
        """Return the points by kind, in the order of the kinds, once for equal claims."""
        if has_place(open_claim):
            return self._place_points(storage, open_claim, grouping, kinds)
        shape = shape_of(open_claim.claim)
        if shape in looks.known:
            return looks.known[shape]
        most = min(MAX_LOOKUPS, looks.left)
        points, missing = self._fit_points(storage, open_claim, grouping, kinds, most)
        looks.left -= min(missing, most)
        if missing <= most or not looks.left:
            looks.known[shape] = points
        return points

    def _place_points(
        self, storage: Storage, open_claim: OpenClaim, grouping: Grouping, kinds: Iterable[int]
    ) -> Mapping[int, float]:
        return {number: place_points(storage, open_claim, grouping.labels(number)) for number in kinds}

    def _fit_points(
        self, storage: Storage, open_claim: OpenClaim, grouping: Grouping, kinds: Iterable[int], most: int
    ) -> tuple[Mapping[int, float], int]:
        """Return the points, after at most so many looks, and how many kinds were not known before."""
        known = self._cache.tightest.known(open_claim.claim, grouping.keys)
        points_of = {number: known.get(grouping.kinds[number], -1.0) for number in kinds}
        missing = [number for number, points in points_of.items() if points < 0]
        for number in missing[:most]:
            points_of[number] = known[grouping.kinds[number]] = fit_points(
                storage, open_claim.claim, grouping.labels(number)
            )
        return points_of | dict.fromkeys(missing[most:], 0.0), len(missing)

    def _points_by_name(self, pod: KnownClaims) -> Mapping[str, float]:
        """Return the points of nodes that have a reserved local volume, or a bound one attached."""
        points: dict[str, float] = {}
        places = [*local_nodes(pod), *(self._cache.nodes_with(claim.volume_name) for claim in pod.bound)]
        for nodes in places:
            for name in nodes:
                points[name] = points.get(name, 0.0) + MAX_EXTENDER_PRIORITY
        return points

    def _affinity_keys(self, pod: KnownClaims) -> LabelKeys:
        """Return the node labels that determine which volumes of the pod's claims are accessible."""
        keys = {key for open_claim in pod.open for key in self._cache.labels.keys(class_of(open_claim.claim))}
        return tuple(sorted(keys))

    def _keys(self, pod: KnownClaims) -> LabelKeys:
        """Return those, and what determines whether a node is in the zone of a reservation."""
        zones = {ZONE_LABEL, BETA_ZONE_LABEL} if any(open_claim.reservation for open_claim in pod.open) else set()
        return tuple(sorted({*self._affinity_keys(pod), *zones}))


def _of_names(names: Iterable[str], grouping: Grouping, scores: Mapping[int, int]) -> Iterable[int]:
    """Return the scores of nodes by those of their kinds, 0 for an unknown node."""
    if len(grouping.kinds) <= FEW_KINDS:
        by_name = grouping.scores(tuple(scores.get(number, 0) for number in range(len(grouping.kinds))))
        return map(by_name.get, names, repeat(0))
    return map(scores.get, map(grouping.numbers.get, names, repeat(-1)), repeat(0))


def _kinds(grouping: Grouping, names: Iterable[str]) -> Collection[int]:
    """Return the kinds of the named nodes. A few others among them do no harm, and to look up names takes longer."""
    if len(grouping.kinds) <= FEW_KINDS:
        return range(len(grouping.kinds))
    kinds = set(map(grouping.numbers.get, names))
    return [number for number in kinds if number is not None]


def _near(places: Iterable[NodeSelector | None], grouping: Grouping, kinds: Collection[int]) -> set[int]:
    """Return the kinds of nodes that may reach one of the places; which ones do is found out later."""
    pins = [pin_of(place) for place in places]
    values: dict[int, set[str | None]] = {}
    for pin in pins:
        if pin is not None and pin[0] in grouping.keys:
            values.setdefault(grouping.keys.index(pin[0]), set()).update(pin[1])
    if None in pins:
        return set(kinds)
    return {number for at, wanted in values.items() for number in kinds if grouping.kinds[number][at] in wanted}


def _rejections_of_reporting(
    names: Iterable[str], storage: Storage, pod: KnownClaims, grouping: Grouping, now: datetime
) -> dict[str, str]:
    """Check the nodes that report on storage individually: of one kind they may still be cut off from different
    drivers.
    """
    known: dict[tuple[int, frozenset[str]], str] = {}
    rejected: dict[str, str] = {}
    claims = pod.claims
    for name in names:
        number = grouping.numbers.get(name)
        if number is None:
            continue
        alike = number, cut_off(storage.snapshot, name)
        if alike not in known:
            known[alike] = rejection(storage, pod, grouping.labels(number), now, alike[1]).text(claims)
        if known[alike]:
            rejected[name] = known[alike]
    return rejected


def _local_rejections(candidates: Candidates, pod: KnownClaims) -> dict[str, str]:
    """If a local volume is reserved and its node is among the candidates, no other node is allowed.

    If its node is not a candidate, it is full or gone, and the reservation must not keep the pod off all others.
    """
    rejected: dict[str, str] = {}
    for nodes in local_nodes(pod):
        if not nodes.isdisjoint(candidates.names):
            reason = f"a local volume is reserved for the pod on {', '.join(sorted(nodes))}"
            rejected |= {name: reason for name in candidates.names if name not in nodes}
    return rejected


def _score(points: float, count: int) -> int:
    """Return the average over the claims, rounded: an integer from 0 to MAX_EXTENDER_PRIORITY."""
    return min(MAX_EXTENDER_PRIORITY, max(0, int(points / count + 0.5)))
