"""Why no volume was promised to a pod: the root reason, and for each claim and node what came nearest."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from binder.assignment import assign
from binder.decision import Refuse
from binder.demand import ClaimShape, Demand
from binder.evidence import Evidence, modes_text, quantity_text, selector_text
from binder.matching import class_of, scheduler_refusal
from binder.offers import Offers
from binder.quarantine import in_quarantine
from binder.reach import Reach, Topology
from binder.rejection import Reason, Rejection
from binder.seats import Attach, Seats, attach_of
from binder.usable import refuse_use
from binder.view import View
from kube.model import Claim, Volume

MOST_REJECTIONS: Final = 20
_NEAREST: Final = 4
"""Volumes shown for one claim."""
_MOST_VOLUMES: Final = 5000
"""Volumes looked through for one claim."""
_MOST_TOPOLOGIES: Final = 50
"""Topologies and nodes looked at for a refusal: enough to tell why, bounded on clusters with a volume per node."""

_MOST_TELLING: Final = (
    Reason.UNHEALTHY,
    Reason.TOPOLOGY_CONTRADICTED,
    Reason.HEALTH_UNKNOWN,
    Reason.QUARANTINED,
    Reason.RESERVED_FOR_OTHER,
    Reason.SELECTOR_MISMATCH,
    Reason.ACCESS_MODES_MISMATCH,
    Reason.ATTRIBUTES_CLASS_MISMATCH,
    Reason.VOLUME_MODE_MISMATCH,
    Reason.TOO_SMALL,
    Reason.NOT_AVAILABLE,
    Reason.VOLUME_DELETING,
    Reason.CLAIMED_BY_OTHER,
)
"""Reasons from the one nearest to success to the one that says least."""
_TELLING: Final = {reason: place for place, reason in enumerate(_MOST_TELLING)}


class Explainer:
    """Explains the refusals of one pass. `got` says which claim of the pass got a volume, by the volume's name."""

    def __init__(self, view: View, now: datetime, reach: Reach, seats: Seats, got: Mapping[str, str]) -> None:
        self._view = view
        self._now = now
        self._reach = reach
        self._seats = seats
        self._got = got
        self._offers = Offers(view, now)
        self._by_class: dict[str, list[Volume]] | None = None
        self._told: dict[tuple[object, ...], tuple[Rejection, ...]] = {}
        self._attached: dict[tuple[object, ...], Attach] = {}
        self._lost_to: dict[ClaimShape, tuple[tuple[Rejection, ...], bool]] = {}

    def refusal(self, demand: Demand) -> Refuse:
        """Return the root reason with its evidence, at most MOST_REJECTIONS of it."""
        unmet = [claim for claim in demand.required if not self._any(demand, claim, None)]
        if unmet:
            return self._refuse(demand, Reason.NO_VOLUME_FITS, self._of_claims(demand, unmet))
        joint = [topology for topology in self._reach.open_to(demand) if self._joint(demand, topology)]
        if not joint:
            return self._refuse(demand, Reason.NO_JOINT_ASSIGNMENT, self._of_topologies(demand))
        nodes = self._of_nodes(demand, joint)
        if len(nodes) > 1:
            return self._refuse(demand, Reason.NO_NODE_FITS, nodes)
        return self._lost(demand)

    def _any(self, demand: Demand, claim: Claim, topology: Topology | None) -> bool:
        return next(self._offers.volumes(demand, claim, topology), None) is not None

    def _joint(self, demand: Demand, topology: Topology) -> bool:
        count = len(demand.required)
        offers = {claim.key: self._offers.offer(demand, claim, topology) for claim in demand.required}
        return assign({key: offer.first(count, ()) for key, offer in offers.items()}) is not None

    def _refuse(self, demand: Demand, reason: Reason, rejections: Iterable[Rejection]) -> Refuse:
        return Refuse(demand.pod, reason, tuple(rejections)[:MOST_REJECTIONS])

    def _of_claims(self, demand: Demand, claims: Sequence[Claim]) -> list[Rejection]:
        """Each claim's own summary first, so that none is cut off by the volumes of another; nothing twice."""
        found = [self._of_claim(demand, claim) for claim in claims]
        volumes = dict.fromkeys(one for told in found for one in told[1:])
        return _merged([told[0] for told in found]) + sorted(volumes, key=lambda one: _place(one.reason))

    def _of_claim(self, demand: Demand, claim: Claim) -> tuple[Rejection, ...]:
        """Return a summary of the volumes of the claim's class, then those that came nearest."""
        key = (demand.shape_of(claim), claim.key)
        if key not in self._told:
            failed, smaller = self._failures(claim)
            failed.sort(key=lambda pair: (_place(pair[0]), -pair[1].capacity, pair[1].name))
            counts = Counter(reason for reason, _ in failed)
            counts[Reason.TOO_SMALL] += smaller
            nearest = tuple(self._rejection(claim, volume, reason) for reason, volume in failed[:_NEAREST])
            self._told[key] = (_summary(claim, +counts), *nearest)
        return self._told[key]

    def _failures(self, claim: Claim) -> tuple[list[tuple[Reason, Volume]], int]:
        """Return volumes of the class with the first test each failed, and how many more were merely too small.

        In a large cluster only free volumes are looked at, and of those too small only the largest.
        """
        volumes, smaller = self._of_class(claim), 0
        if volumes is None:
            volumes, smaller = self._free_of_class(claim)
        pairs = ((self._first_failure(claim, volume), volume) for volume in volumes)
        return [(reason, volume) for reason, volume in pairs if reason is not None], smaller

    def _of_class(self, claim: Claim) -> Sequence[Volume] | None:
        """Return all volumes of the class, None when the cluster has too many to look through."""
        volumes = self._view.snapshot.volumes
        if len(volumes) > _MOST_VOLUMES:
            return None
        if self._by_class is None:
            self._by_class = {}
            for volume in volumes.values():
                self._by_class.setdefault(class_of(volume), []).append(volume)
        return self._by_class.get(class_of(claim), [])

    def _free_of_class(self, claim: Claim) -> tuple[list[Volume], int]:
        """Return the free volumes of the class that are large enough or nearly so, and the number of the others."""
        found: list[Volume] = []
        smaller = 0
        for shape, shelf in self._view.index.shelves.items():
            if shape[0] == class_of(claim):
                for group in shelf.values():
                    volumes = [volume for _, _, volume in group.everywhere.at_least(0)]
                    large = bisect_left(volumes, claim.request, key=lambda volume: volume.capacity)
                    nearly = max(large - _NEAREST, 0)
                    found += volumes[nearly : large + _MOST_VOLUMES]
                    smaller += nearly
        return found, smaller

    def _first_failure(self, claim: Claim, volume: Volume) -> Reason | None:
        reason = scheduler_refusal(claim, volume)
        if reason is Reason.CLAIMED_BY_OTHER and in_quarantine(volume, self._view.settings.prefix):
            # The placeholder claim is ours: what is behind it says more.
            return Reason.QUARANTINED
        if reason is None:
            own = refuse_use(self._view, volume, self._now, claim)
            reason = None if own is None else own.reason
        return reason

    def _rejection(self, claim: Claim, volume: Volume, reason: Reason) -> Rejection:
        own = refuse_use(self._view, volume, self._now, claim)
        if own is not None and own.reason is reason:
            return own
        return Evidence(claim).rejection(volume, reason)

    def _of_topologies(self, demand: Demand) -> list[Rejection]:
        """Return for each topology which claims go without a volume there, the one with fewest such claims first."""
        told: list[tuple[int, Rejection]] = []
        for topology in self._reach.open_to(demand)[:_MOST_TOPOLOGIES]:
            missing = [claim.key for claim in demand.required if not self._any(demand, claim, topology)]
            if missing:
                told.append((len(missing), _missing(demand, topology, f"none for {', '.join(missing)}")))
            else:
                short = len(demand.required) - self._matched(demand, topology)
                told.append((short, _missing(demand, topology, f"{short} too few that suit them together")))
        told.sort(key=lambda pair: (pair[0], pair[1].subject))
        return [rejection for _, rejection in told] or [_no_topology(demand)]

    def _matched(self, demand: Demand, topology: Topology) -> int:
        """Return how many of the claims can have volumes in the topology at once."""
        count = len(demand.required)
        options = {claim.key: self._offers.offer(demand, claim, topology).first(count, ()) for claim in demand.required}
        owner: dict[str, str] = {}

        def augment(claim: str, seen: set[str]) -> bool:
            for volume in options[claim]:
                if volume.name not in seen:
                    seen.add(volume.name)
                    if volume.name not in owner or augment(owner[volume.name], seen):
                        owner[volume.name] = claim
                        return True
            return False

        return sum(augment(claim, set()) for claim in options)

    def _of_nodes(self, demand: Demand, topologies: Sequence[Topology]) -> list[Rejection]:
        """Return why the nodes do not fit; only a summary when some do."""
        told: list[Rejection] = []
        looked_at = [(topology, node) for topology in topologies for node in topology.nodes][:1000]
        for topology, node in looked_at:
            rejection = self._seats.refuse(demand, node, self._attach(demand, topology))
            if rejection is None:
                return []
            told.append(rejection)
        counts = Counter(rejection.reason for rejection in told)
        offered = f"{len(told)} nodes: {_counted(counts)}"
        return [
            Rejection(Reason.NO_NODE_FITS, demand.pod.key, "a node that fits and reaches the volumes", offered),
            *told,
        ]

    def _attach(self, demand: Demand, topology: Topology) -> Attach:
        """Return what would have to be attached if the pod got the first volume of each claim."""
        key = (topology.number, tuple(map(demand.shape_of, demand.required)))
        if key not in self._attached:
            offers = (self._offers.volumes(demand, claim, topology) for claim in demand.required)
            first = (next(offer, None) for offer in offers)
            self._attached[key] = attach_of(volume for volume in first if volume is not None)
        return self._attached[key]

    def _lost(self, demand: Demand) -> Refuse:
        """Return who was faster: the pod could have been served alone, but others of the pass came first."""
        losses = [self._losses(demand, claim) for claim in demand.required]
        told = [rejection for lost, _ in losses for rejection in lost]
        some_left = all(left for _, left in losses)
        return self._refuse(demand, Reason.NO_JOINT_ASSIGNMENT if some_left else Reason.NO_VOLUME_FITS, told)

    def _losses(self, demand: Demand, claim: Claim) -> tuple[tuple[Rejection, ...], bool]:
        """Return which of the claim's volumes went to whom in this pass, and whether one is left."""
        shape = demand.shape_of(claim)
        if shape not in self._lost_to:
            lost: list[Rejection] = []
            left = False
            for volume in self._offers.volumes(demand, claim, None):
                winner = self._got.get(volume.name)
                left = left or winner is None
                if winner is not None and len(lost) < _NEAREST:
                    offered = f"reserved for {winner} in this pass"
                    lost.append(Rejection(Reason.RESERVED_FOR_OTHER, volume.name, "an unreserved volume", offered))
                if left and len(lost) == _NEAREST:
                    break
            self._lost_to[shape] = (tuple(lost), left)
        return self._lost_to[shape]


def _summary(claim: Claim, counts: Counter[Reason]) -> Rejection:
    size, modes = quantity_text(claim.request), modes_text(claim.access_modes)
    wanted = f"{size}, {modes}, {claim.volume_mode}, class {class_of(claim) or '(none)'}"
    if claim.selector is not None:
        wanted += f", labels {selector_text(claim.selector)}"
    total = sum(counts.values())
    offered = f"{total} volumes of the class: {_counted(counts)}" if total else "no free volume of the class"
    return Rejection(Reason.NO_VOLUME_FITS, claim.key, wanted, offered)


def _merged(summaries: Iterable[Rejection]) -> list[Rejection]:
    """Say once what holds for several claims."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for one in summaries:
        subjects.setdefault((one.wanted, one.offered), []).append(one.subject)
    return [
        Rejection(Reason.NO_VOLUME_FITS, ", ".join(claims), wanted, offered)
        for (wanted, offered), claims in subjects.items()
    ]


def _place(reason: Reason) -> int:
    return _TELLING.get(reason, len(_TELLING))


def _counted(counts: Counter[Reason]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ordered)


def _missing(demand: Demand, topology: Topology, offered: str) -> Rejection:
    where = f"zone {topology.zone}" if topology.zone else f"node {topology.nodes[0].name}"
    if topology.zone and len(topology.nodes) == 1:
        where += f", node {topology.nodes[0].name}"
    return Rejection(Reason.NO_JOINT_ASSIGNMENT, where, f"{len(demand.required)} volumes at once", offered)


def _no_topology(demand: Demand) -> Rejection:
    held = ", ".join(volume.name for volume in demand.anchors)
    wanted = f"a node that reaches {held}" if held else "a node"
    named = ", ".join(sorted(demand.nodes)) if demand.nodes is not None else ""
    return Rejection(Reason.NO_NODE_FITS, demand.pod.key, wanted, f"only {named}, which does not" if named else "none")
