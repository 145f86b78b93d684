"""Selects for each pod of a pass the node for which the volumes that it lacks are made: all of them, or none.

Largest sums first, each on the node whose pools have least left afterwards, so that room in one piece stays for large
pods: best fit decreasing, a heuristic for bin packing. Pods that are tied to a place, because one of their volumes
exists or is being made, come before all others: nothing else helps them. Where that leaves out a pod that could be
served alone, others of the pass are moved (binder.rebalance).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeGuard

from binder.assignment.placing import PlacedPod, Placing
from binder.assignment.topologies import Topologies, Topology
from binder.booking.bookings import Bookings
from binder.matching.evidence import affinity_text
from binder.matching.matching import class_of
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Placement, Provision, Reject
from binder.model.demand import Demand
from binder.model.view import View
from binder.provisioning.claims_in_flight import size_of
from binder.provisioning.pass_pools import PassPools
from binder.provisioning.sums import first_lacking, left_after
from binder.reservation.contract import STRICT
from kube.objects.model import Claim, Node, Volume, value_of

MAX_EVIDENCE: Final = 10
"""Nodes named in a rejection."""

Keep = Callable[[PlacedPod], bool]
"""Takes what a placement needs; False if something of it has become too little."""


def with_pinned(view: View, bookings: Bookings, now: datetime) -> View:
    """Return the view with room for what its pools do not show.

    That are claims whose node is being selected, and those whose pod is tied to a node by its other claims.
    """
    snapshot, pools = view.snapshot, PassPools(view.snapshot, view.pools, now)
    for selection in view.ledger.selections.values():
        claim = snapshot.claims.get(selection.claim_key)
        if _is_unmade(claim) and selection.node in snapshot.nodes and claim.uid == selection.claim_uid:
            pools.take_new((claim,), selection.node)
    for booked, name in bookings.placed():
        rest = [claim for claim in booked.waiting.open if view.snapshot.classes[class_of(claim)].provisions]
        if rest:
            pools.take_new(rest, name)
    return replace(view, pools=pools.pools)


def still_fits(view: View, decision: Provision, now: datetime) -> bool:
    """Whether the pools of the decision's node take its volumes beside all others that are selected there.

    It was so when it was decided; since then a report may say that less is left.
    """
    node = view.snapshot.nodes.get(decision.node)
    there = [each for each in view.ledger.selections.values() if each.node == decision.node]
    if node is None or {claim.key for claim in decision.claims} - {each.claim_key for each in there}:
        return False
    pools = PassPools(view.snapshot, view.pools, now)
    claims = (view.snapshot.claims.get(each.claim_key) for each in there)
    pools.take_new([claim for claim in claims if _is_unmade(claim)], node.name)
    return pools.has_room(decision.claims, node.name)


def _is_unmade(claim: Claim | None) -> TypeGuard[Claim]:
    """Whether a claim for which a node is being selected has no volume yet: later every report may include that."""
    return claim is not None and not claim.volume_name


def largest_first(demands: Iterable[Demand]) -> list[Demand]:
    """Return demands with volumes to be made in the order in which they are placed."""
    return sorted(demands, key=_order)


def _order(demand: Demand) -> tuple[bool, int, int, float, str]:
    created = demand.pod.created
    age = created.timestamp() if created is not None else float("inf")
    return (not demand.begun, -demand.pod.priority, -sum(map(size_of, demand.made)), age, demand.pod.key)


class NodeSelection:
    """Places pods with volumes to be made, beside the others of a placing."""

    def __init__(self, view: View, topologies: Topologies, placing: Placing) -> None:
        self._view, self._topologies, self._placing = view, topologies, placing
        self._rejected: dict[str, Reject] = {}

    def place(self, demand: Demand) -> bool:
        """Take the node whose pools have least left afterwards, and the existing volumes; whether there is one."""
        return self._find(demand, self._placing.keep)

    def could_serve(self, demand: Demand) -> bool:
        """Whether `place` would find a node."""
        return self._find(demand, lambda _: True)

    def decision(self, demand: Demand) -> Provision | Reject:
        """Return what is decided for a demand that was to be placed."""
        placed = self._placing.placed.get(demand.pod.key)
        if placed is None:
            return self._rejected[demand.pod.key]
        claims = _first_only(self._view, demand, self._placing.pools.scarcest_first(demand.made, placed.node))
        return Provision(demand.pod, placed.node, claims, _placements(placed))

    def _find(self, demand: Demand, keep: Keep) -> bool:
        rejected = self._try(demand, keep)
        if rejected is not None and demand.pins:  # Other volumes than those that are set aside for it.
            rejected = self._try(replace(demand, pins=()), keep)
        if rejected is not None:
            self._rejected[demand.pod.key] = rejected
        return rejected is None

    def _try(self, demand: Demand, keep: Keep) -> Reject | None:
        lacking, unfit, booking = list[Rejection](), list[Rejection](), self._placing.booking
        fitting = sorted(self._fitting(demand, lacking, unfit), key=lambda each: (each[0], each[1], each[2].name))
        for _, _, node, placed in fitting:
            rejected = booking.reject(demand, node, placed.attach)
            if rejected is None and keep(placed):
                return None
            if rejected is not None:
                _note(unfit, rejected)
        return _rejection(demand, lacking, unfit)

    def _fitting(
        self, demand: Demand, lacking: list[Rejection], unfit: list[Rejection]
    ) -> Iterator[tuple[float, float, Node, PlacedPod]]:
        """Yield the nodes whose pools have room, and from which there are volumes, with what they have left then."""
        placing, known = self._placing, dict[int, Mapping[str, Volume] | None]()
        wanted = placing.pools.wanted(demand.made)
        for topology in self._topologies.of(demand).open_to(demand):
            around = placing.around(topology)
            for node in _nodes(demand, topology):
                sums = placing.pools.sums(wanted, node)
                if isinstance(sums, Rejection) or first_lacking(sums, certain=True) is not None:
                    if len(lacking) < MAX_EVIDENCE and (rejected := placing.pools.reject(demand.made, node)):
                        lacking.append(rejected)
                    continue
                if around.number not in known:
                    known[around.number] = placing.required(demand, around)
                volumes = known[around.number]
                if volumes is None:
                    _note(unfit, _without_volumes(demand, node))
                else:
                    left = left_after(sums), -placing.booking.left(node.name, "pods")
                    yield *left, node, PlacedPod(demand, topology, node.name, volumes)


def _nodes(demand: Demand, topology: Topology) -> Iterator[Node]:
    return (node for node in topology.nodes if demand.nodes is None or node.name in demand.nodes)


def _note(evidence: list[Rejection], rejection: Rejection) -> None:
    if len(evidence) < MAX_EVIDENCE:
        evidence.append(rejection)


def _placements(placed: PlacedPod) -> tuple[Placement, ...]:
    return tuple(Placement(claim, placed.volumes[claim.key]) for claim in placed.demand.required)


def _without_volumes(demand: Demand, node: Node) -> Rejection:
    claims = ", ".join(claim.key for claim in demand.required)
    return Rejection(
        Reason.NO_JOINT_ASSIGNMENT, node.name, f"Available volumes for {claims}", "none, or too few, there"
    )


def _first_only(view: View, demand: Demand, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """Return the claims for which the node is selected now.

    A provisioner may make a volume elsewhere than asked for, unless it runs with --strict-topology, which no object
    shows: then the place of a pod's first volume decides where the others are made.
    """
    key = view.settings.annotations.topology
    classes = (view.snapshot.classes[class_of(claim)] for claim in claims)
    return claims if demand.begun or all(value_of(each.annotations, key) == STRICT for each in classes) else claims[:1]


def _rejection(demand: Demand, lacking: Sequence[Rejection], unfit: Sequence[Rejection]) -> Reject:
    evidence = (*lacking, *unfit)[:MAX_EVIDENCE]
    if demand.begun:
        return Reject(demand.pod, Reason.PARTLY_PROVISIONED, (*evidence, *_tied_by(demand))[:MAX_EVIDENCE])
    # A node that lacks room for the pod only says less than one that lacks storage only; being elsewhere is no lack.
    lacks_storage = any(each.reason is not Reason.TOPOLOGY_NOT_ALLOWED for each in lacking)
    reason = Reason.INSUFFICIENT_STORAGE if lacks_storage and not unfit else Reason.NO_NODE_FITS
    if any(each.reason is Reason.NO_JOINT_ASSIGNMENT for each in unfit):
        reason = Reason.NO_JOINT_ASSIGNMENT
    return Reject(demand.pod, reason, evidence)


def _tied_by(demand: Demand) -> Iterator[Rejection]:
    """Yield what ties a pod to its place: the volumes that exist, and the node for which others are being made."""
    for volume in demand.anchors:
        if volume.node_affinity is not None:
            where = affinity_text(volume.node_affinity)
            yield Rejection(Reason.VOLUME_UNREACHABLE, volume.name, "access from a node with room", where)
    for node in sorted(demand.nodes or ()):
        wanted = "a node with room"
        yield Rejection(Reason.PROVISIONING_ELSEWHERE, demand.pod.key, wanted, f"tied to node {node}")
