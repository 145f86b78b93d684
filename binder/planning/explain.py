"""Why nothing was reserved for a pod: the root reason, and for each claim and node what came nearest.

Results are cached by the shape of a claim or the kind of a pod, so that a thousand replicas cost little more than one;
names of claims and pods are inserted when the text is built. An Explainer evaluates a limited number of objects: pods
beyond that get a note that the reason follows, and are explained when they are retried.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from binder.assignment.assignment import assign
from binder.assignment.bipartite_matching import BipartiteMatching, Bits
from binder.assignment.node_booking import NodeBooking
from binder.assignment.placing import Offers
from binder.assignment.topologies import Topologies, Topology
from binder.booking.node_sets import NodeSets
from binder.booking.room import Attach, attach_of
from binder.matching.claim_shape import ClaimShape
from binder.matching.evidence import reasons_text
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Reject
from binder.model.demand import Demand
from binder.model.view import View
from binder.planning.unmet_claims import UnmetClaims
from binder.planning.withheld_volumes import WithheldVolumes
from kube.objects.model import Claim, Volume

MAX_REJECTIONS: Final = 20
MAX_EVALUATIONS: Final = 20_000
"""Volumes, nodes and topologies (once for each claim) evaluated in one pass to explain rejections: some 0.1 s."""
_MAX_LOST: Final = 4
"""Volumes named for one claim that went to others."""
_MAX_TOPOLOGIES: Final = 50
"""Topologies evaluated for a rejection: enough to find the reason, bounded in clusters with a volume per node."""
_MAX_NODES: Final = 1000
"""Nodes evaluated for the reason why they do not fit a pod."""


class Explainer:
    """Explains the rejections of one pass. `got` is which claim of the pass got a volume, by the volume's name."""

    def __init__(
        self,
        view: View,
        now: datetime,
        topologies: Topologies,
        booking: NodeBooking,
        got: Mapping[str, str],
        sets: NodeSets,
    ) -> None:
        self._now = now
        self._topologies = topologies
        self._booking = booking
        self._got = got
        self._offers = Offers(view, now, sets)
        self._unmet = UnmetClaims(view, now)
        self._withheld = WithheldVolumes(view, now, topologies, booking, sets)
        self._looks = 0
        self._met: dict[ClaimShape, bool] = {}
        self._joint: dict[tuple[object, ...], tuple[Topology, ...]] = {}
        self._short: dict[tuple[object, ...], list[tuple[Topology, frozenset[ClaimShape], int]]] = {}
        self._nodes: dict[tuple[object, ...], list[Rejection]] = {}
        self._lost_to: dict[ClaimShape, tuple[tuple[Rejection, ...], bool]] = {}

    def rejection(self, demand: Demand) -> Reject:
        """Return the root reason with its evidence, at most MAX_REJECTIONS of it, or that it follows later."""
        if self._looks + self._unmet.looks >= MAX_EVALUATIONS and not self._knows(demand):
            return Reject(demand.pod, Reason.EXPLANATION_PENDING, ())
        unserved = self._unserved(demand)
        if unserved is None:
            return self._lost(demand)
        withheld = self._withheld.rejections(demand)
        if withheld:
            evidence = dict.fromkeys((*withheld, *unserved.rejections))
            return self._reject(demand, Reason.HEALTH_UNKNOWN, evidence)
        return unserved

    def _unserved(self, demand: Demand) -> Reject | None:
        """Return why the pod could not be served even if it were the only one; None if it could."""
        unmet = [claim for claim in demand.required if not self._is_met(demand, claim)]
        if unmet:
            return self._reject(demand, Reason.NO_VOLUME_FITS, self._of_claims(demand, unmet))
        if not self._topologies.open_to(demand):
            return self._reject(demand, Reason.NO_NODE_FITS, [_no_topology(demand)])
        if not self._jointly_met(demand):
            return self._reject(demand, Reason.NO_JOINT_ASSIGNMENT, self._of_topologies(demand))
        nodes = self._of_nodes(demand)
        if nodes:
            return self._reject(demand, Reason.NO_NODE_FITS, [_no_node(demand, nodes), *nodes])
        return None

    def _of_claims(self, demand: Demand, unmet: Sequence[Claim]) -> list[Rejection]:
        """Return why no volume fits these claims; that other pods use them is said in any case."""
        alone = replace(demand, shared=())
        left = [claim for claim in unmet if not demand.shape_of(claim).users or not self._is_met(alone, claim)]
        return self._unmet.rejections(demand, left) if left else []

    def _knows(self, demand: Demand) -> bool:
        """Whether the result is cached, apart from the names."""
        met = [self._met.get(demand.shape_of(claim)) for claim in demand.required]
        if None in met:
            return False
        unmet = [claim for claim, is_met in zip(demand.required, met, strict=True) if not is_met]
        if unmet:
            return self._unmet.knows(demand, unmet)
        return demand.kind in (self._nodes if self._joint.get(demand.kind) else self._short)

    def _is_met(self, demand: Demand, claim: Claim) -> bool:
        """Whether some usable volume fits the claim."""
        shape = demand.shape_of(claim)
        if shape not in self._met:
            self._looks += 1
            self._met[shape] = self._any(demand, claim, None)
        return self._met[shape]

    def _any(self, demand: Demand, claim: Claim, topology: Topology | None) -> bool:
        return next(self._offers.volumes(demand, claim, topology), None) is not None

    def _jointly_met(self, demand: Demand) -> tuple[Topology, ...]:
        """Return the topologies that have volumes for all claims at once."""
        if demand.kind not in self._joint:
            open_to = self._topologies.open_to(demand)
            self._looks += len(open_to) * len(demand.required)
            topologies = tuple(topology for topology in open_to if assign(self._options(demand, topology)) is not None)
            self._joint[demand.kind] = topologies
        return self._joint[demand.kind]

    def _options(self, demand: Demand, topology: Topology) -> dict[str, list[Volume]]:
        """Return for each claim as many volumes of the topology as can matter."""
        first: dict[ClaimShape, list[Volume]] = {}
        options: dict[str, list[Volume]] = {}
        for claim in demand.required:
            shape = demand.shape_of(claim)
            if shape not in first:
                first[shape] = self._offers.offer(demand, claim, topology).first(len(demand.required), ())
            options[claim.key] = first[shape]
        return options

    def _reject(self, demand: Demand, reason: Reason, rejections: Iterable[Rejection]) -> Reject:
        shared = [_shared(demand, claim) for claim in demand.required if demand.shape_of(claim).users]
        return Reject(demand.pod, reason, (*shared, *rejections)[:MAX_REJECTIONS])

    def _of_topologies(self, demand: Demand) -> list[Rejection]:
        """Return for each topology which claims have no volume there, the one with fewest such claims first."""
        if demand.kind not in self._short:
            open_to = self._topologies.open_to(demand)[:_MAX_TOPOLOGIES]
            self._looks += len(open_to) * len(demand.required)
            self._short[demand.kind] = [self._shortage(demand, topology) for topology in open_to]
        shortfalls: list[tuple[int, Rejection]] = []
        for topology, shapes, short in self._short[demand.kind]:
            missing = [claim.key for claim in demand.required if demand.shape_of(claim) in shapes]
            if missing:
                shortfalls.append((len(missing), _missing(demand, topology, f"none for {', '.join(missing)}")))
            else:
                shortfalls.append((short, _missing(demand, topology, f"{short} too few for all of them together")))
        shortfalls.sort(key=lambda pair: (pair[0], pair[1].subject))
        return [rejection for _, rejection in shortfalls]

    def _shortage(self, demand: Demand, topology: Topology) -> tuple[Topology, frozenset[ClaimShape], int]:
        """Return the shapes for which the topology has nothing, else how many claims have no volume at least."""
        options = self._options(demand, topology)
        shapes = frozenset(demand.shape_of(claim) for claim in demand.required if not options[claim.key])
        return topology, shapes, 0 if shapes else len(options) - most_served(options)

    def _of_nodes(self, demand: Demand) -> list[Rejection]:
        """Return why the nodes from which all claims have volumes do not fit, nothing if some do."""
        if demand.kind not in self._nodes:
            self._nodes[demand.kind] = self._rejected_nodes(demand)
        return self._nodes[demand.kind]

    def _rejected_nodes(self, demand: Demand) -> list[Rejection]:
        rejections: list[Rejection] = []
        for topology in self._jointly_met(demand):
            attach = self._attach(demand, topology)
            for node in topology.nodes[: _MAX_NODES - len(rejections)]:
                self._looks += 1
                rejection = self._booking.reject(demand, node, attach)
                if rejection is None:
                    return []
                rejections.append(rejection)
        return rejections

    def _attach(self, demand: Demand, topology: Topology) -> Attach:
        """Return what would have to be attached if the pod got the first volume of each claim."""
        offers = (self._offers.offer(demand, claim, topology).first(1, ()) for claim in demand.required)
        return attach_of((volume for first in offers for volume in first), demand.drivers_beside(()))

    def _lost(self, demand: Demand) -> Reject:
        """Return which pods were faster: this one could have been served alone, but others of the pass came first."""
        losses = [self._losses(demand, claim) for claim in demand.required]
        rejections = [rejection for lost, _ in losses for rejection in lost]
        some_left = all(left for _, left in losses)
        return self._reject(demand, Reason.NO_JOINT_ASSIGNMENT if some_left else Reason.NO_VOLUME_FITS, rejections)

    def _losses(self, demand: Demand, claim: Claim) -> tuple[tuple[Rejection, ...], bool]:
        """Return which of the claim's volumes went to which claim in this pass, and whether one is left."""
        shape = demand.shape_of(claim)
        if shape not in self._lost_to:
            lost: list[Rejection] = []
            left = False
            for volume in self._offers.volumes(demand, claim, None):
                self._looks += 1
                winner = self._got.get(volume.name)
                left = left or winner is None
                if winner is not None and len(lost) < _MAX_LOST:
                    offered = f"reserved for {winner} in this pass"
                    lost.append(Rejection(Reason.RESERVED_FOR_OTHER, volume.name, "an unreserved volume", offered))
                if left and len(lost) == _MAX_LOST:
                    break
            self._lost_to[shape] = (tuple(lost), left)
        return self._lost_to[shape]


def most_served(options: Mapping[str, Sequence[Volume]]) -> int:
    """Return how many of the claims can have volumes at once."""
    kinds: dict[tuple[str, ...], int] = {}
    bit_of: dict[str, Bits] = {}
    wanted: list[int] = []
    for volumes in options.values():
        names = tuple([volume.name for volume in volumes])
        wanted.append(kinds.setdefault(names, len(kinds)))
        for name in names:
            bit_of.setdefault(name, 1 << len(bit_of))
    suits = [sum([bit_of[name] for name in names]) for names in kinds]
    matching = BipartiteMatching(suits, [0] * len(suits), (1 << len(bit_of)) - 1)
    return sum([matching.add(kind) for kind in wanted])


def _shared(demand: Demand, claim: Claim) -> Rejection:
    users = ", ".join((demand.pod.key, *demand.sharers))
    wanted = f"a volume with which each gated pod that uses the claim can run: {users}"
    return Rejection(Reason.NO_JOINT_ASSIGNMENT, claim.key, wanted, "none")


def _no_node(demand: Demand, rejections: Sequence[Rejection]) -> Rejection:
    offered = f"{len(rejections)} nodes: {reasons_text(Counter(rejection.reason for rejection in rejections))}"
    return Rejection(
        Reason.NO_NODE_FITS,
        demand.pod.key,
        "a node that fits the pod and from which the volumes are accessible",
        offered,
    )


def _missing(demand: Demand, topology: Topology, offered: str) -> Rejection:
    where = f"zone {topology.zone}" if topology.zone else f"node {topology.nodes[0].name}"
    if topology.zone and len(topology.nodes) == 1:
        where += f", node {topology.nodes[0].name}"
    return Rejection(Reason.NO_JOINT_ASSIGNMENT, where, f"{len(demand.required)} volumes at once", offered)


def _no_topology(demand: Demand) -> Rejection:
    held = ", ".join(volume.name for volume in demand.anchors)
    wanted = f"a node from which {held} is accessible" if held else "a node"
    named = ", ".join(sorted(demand.nodes)) if demand.nodes is not None else ""
    return Rejection(
        Reason.NO_NODE_FITS, demand.pod.key, wanted, f"only {named}, from which it is not" if named else "none"
    )
