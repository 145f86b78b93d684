"""Decides for a batch of pods at once which volumes are reserved for them: pure, and the same for the same view unless
the time to make room runs out.

Each pod gets volumes for all its claims on one node, or none. Pods are placed by urgency; for those that get nothing
although they could be served alone, others of the batch are moved (binder.rebalance.rebalance). What earlier passes
reserved never moves.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Final

from binder.assignment.node_booking import NodeBooking
from binder.assignment.other_pods import OtherPods, other_pods_of
from binder.assignment.placing import Offers, PlacedPod, Placing
from binder.assignment.topologies import Groupings, Topologies, topologies_of
from binder.booking.bookings import Bookings
from binder.booking.node_sets import NodeSets
from binder.matching.rejection import Reason
from binder.model.decision import Decision, Mode, Placement, Provision, Reject, Reserve, Wait
from binder.model.demand import Demand
from binder.model.ledger import Hold, Selection
from binder.model.view import View
from binder.model.waiting_pod import all_waiting, with_ledger
from binder.node_selection.selection import NodeSelection, largest_first, with_pinned
from binder.planning.explain import Explainer
from binder.planning.let_go import let_go
from binder.planning.pod_claims import claims_of
from binder.planning.pod_demand import demand_of
from binder.provisioning.pass_pools import PassPools, deciding_labels
from binder.rebalance.integer_program import Solve, solve
from binder.rebalance.rebalance import rebalance
from binder.reservation.set_aside import set_aside_keys
from kube.objects.model import Claim, Pod, Volume
from kube.rules.topology import is_narrower_than_zone

_MAX_LOCAL_NODES: Final = 16
"""Longest list of nodes worth naming for a local volume."""


_MAX_ROUNDS: Final = 8
"""Rounds of a pass. Pods that share a claim are planned in different ones; those left over wait for another pass."""


@dataclass(frozen=True, slots=True)
class Caches:
    """What passes hand on to each other: how nodes were grouped. It follows from a snapshot and changes no decision."""

    groupings: Groupings = field(default_factory=Groupings)
    node_sets: NodeSets = field(default_factory=NodeSets)


def plan(
    view: View, pods: Iterable[Pod], now: datetime, caches: Caches | None = None, solve: Solve = solve
) -> tuple[Decision, ...]:
    """Return one decision for each pod, in the order given. `solve` is called if volumes are short."""
    caches = caches or Caches()
    ordered = list({pod.key: pod for pod in pods}.values())
    decided: dict[str, Decision] = {}
    rejected: dict[tuple[object, ...], Reject] = {}
    for _ in range(_MAX_ROUNDS):
        bookings = _bookings(view, now, caches)
        demands: list[Demand] = []
        for pod in ordered:
            if pod.key not in decided:
                demand = demand_of(view, pod, now)
                if not isinstance(demand, Demand):
                    decided[pod.key] = let_go(view, demand, bookings)
                elif _wants(demand) in rejected:
                    decided[pod.key] = replace(rejected[_wants(demand)], pod=pod)
                else:
                    demands.append(demand)
        turn = _first_users(sorted(demands, key=lambda demand: demand.urgency))
        decisions = _decide(view, turn, now, bookings, caches, solve)
        decided |= {decision.pod.key: decision for decision in decisions}
        if len(decided) == len(ordered):
            break
        for demand, decision in zip(turn, decisions, strict=True):
            if isinstance(decision, Reject):
                rejected[_wants(demand)] = decision
        reserved = chain.from_iterable(map(holds_of, decisions))
        view = replace(view, ledger=view.ledger.with_holds(reserved).with_selections(selections_of(decisions)))
    return tuple(decided.get(pod.key) or Wait(pod, Reason.PROGRESSING, until=now) for pod in ordered)


def _wants(demand: Demand) -> tuple[object, ...]:
    """Equal for replicas that use the same claims: what is rejected for one of them is rejected for the others too."""
    return (demand.kind, frozenset(claim.key for claim in _claims(demand)))


def _claims(demand: Demand) -> Iterator[Claim]:
    return chain(demand.required, demand.optional, demand.made)


def holds_of(decision: Decision) -> tuple[Hold, ...]:
    """Return the holds on a decision's volumes and node until the watch shows its writes."""
    if not isinstance(decision, Reserve | Provision):
        return ()
    return tuple(
        Hold(
            volume=placement.volume.name,
            claim_key=placement.claim.key,
            claim_uid=placement.claim.uid,
            pod_key=decision.pod.key,
            node=decision.node,
        )
        for placement in decision.placements
    )


def selections_of(decisions: Iterable[Decision]) -> Iterator[Selection]:
    """Yield the nodes that these decisions select, until the watch shows them."""
    for decision in decisions:
        if isinstance(decision, Provision):
            pod = decision.pod.key
            yield from (Selection(claim.key, claim.uid, pod, decision.node) for claim in decision.claims)


def _first_users(demands: Sequence[Demand]) -> list[Demand]:
    """Return the demands whose claims no earlier one plans; the others are planned when these claims are decided."""
    planned: set[str] = set()
    first: list[Demand] = []
    for demand in demands:
        keys = {claim.key for claim in _claims(demand)}
        if planned.isdisjoint(keys):
            first.append(demand)
        planned |= keys
    return first


@dataclass(frozen=True, slots=True)
class _Pass:
    """The state of one round of a batch."""

    view: View
    now: datetime
    topologies: Topologies
    planned: frozenset[str]
    others: OtherPods | None
    bookings: Bookings
    sets: NodeSets

    def placing(self) -> Placing:
        """Return an empty placing: nothing of this round is placed."""
        offers = Offers(self.view, self.now, self.sets)
        pools = PassPools(self.view.snapshot, self.view.pools, self.now)
        return Placing(self.topologies, offers, self.booking(), pools)

    def selection(self, placing: Placing) -> NodeSelection:
        """Return what places pods with volumes to be made."""
        return NodeSelection(self.view, self.topologies, placing)

    def booking(self) -> NodeBooking:
        """Return the room on nodes before this round."""
        return NodeBooking(self.view, self.planned, self.others, self.bookings)


def _bookings(view: View, now: datetime, caches: Caches) -> Bookings:
    """Return the room that waiting pods take, those of the pass included."""
    annotations = view.settings.annotations
    known = view.waiting if view.waiting is not None else all_waiting(view.snapshot, annotations)
    waiting = with_ledger(known, view.ledger, view.snapshot, annotations)
    caches.node_sets.prune(waiting)
    return Bookings(view, waiting.values(), caches.node_sets, now)


def _decide(
    view: View, demands: Sequence[Demand], now: datetime, bookings: Bookings, caches: Caches, solve: Solve
) -> list[Decision]:
    if not demands:
        return []
    view = replace(view, hints={volume: claim for demand in demands for volume, claim in demand.hints})
    made = [demand for demand in demands if demand.mode is Mode.PROVISION]
    if made:
        view = with_pinned(view, bookings, now)
    aside = [view.snapshot.volumes[name] for demand in demands for _, name in demand.pins]
    of_pools = deciding_labels(chain.from_iterable(demand.made for demand in made), view.snapshot)
    topologies = topologies_of(view.snapshot.nodes, view.index, demands, caches.groupings, aside, of_pools)
    planned = frozenset(demand.pod.key for demand in demands)
    this = _Pass(view, now, topologies, planned, other_pods_of(view, demands, bookings), bookings, caches.node_sets)
    placing = this.placing()
    selection = this.selection(placing)
    _place_all(this, placing, selection, demands, solve)
    got = {volume.name: key for placed in placing.placed.values() for key, volume in placed.volumes.items()}
    explainer = Explainer(view, now, topologies, this.booking(), got, caches.node_sets)
    decisions = [
        selection.decision(demand)
        if demand.mode is Mode.PROVISION
        else _decision(view, topologies, explainer, demand, placing.placed.get(demand.pod.key))
        for demand in demands
    ]
    return list(_with_basis(view, placing, decisions))


def _with_basis(view: View, placing: Placing, decisions: Iterable[Decision]) -> Iterator[Decision]:
    """Yield the decisions with what has to be so still when they are written: where they leave a pod one node, that
    there is room for it beside others, and that its bound claims are bound.
    """
    placed_on: dict[str, set[str]] = {}
    for key, placed in placing.placed.items():
        placed_on.setdefault(placed.node, set()).add(key)
    beside: dict[str, frozenset[str]] = {}
    for decision in decisions:
        if not isinstance(decision, Reserve | Provision):
            yield decision
            continue
        name, company = decision.node, frozenset[str]()
        if _leaves_one_node(placing, decision):
            if name not in beside:
                beside[name] = placing.booking.booked_on(name) | placed_on[name]
            company = beside[name]
        bound = tuple(claim for claim in claims_of(decision.pod, view.snapshot) if claim.volume_name)
        yield replace(decision, beside=company, bound=bound)


def _leaves_one_node(placing: Placing, decision: Reserve | Provision) -> bool:
    if isinstance(decision, Reserve):
        return len(decision.local_nodes) == 1
    return len(placing.placed[decision.pod.key].topology.nodes) == 1


def _place_all(
    this: _Pass, placing: Placing, selection: NodeSelection, demands: Sequence[Demand], solve: Solve
) -> None:
    """Place what can be placed, the pods with volumes to be made after the others, then make room for the rest."""

    def place(demand: Demand) -> bool:
        return selection.place(demand) if demand.mode is Mode.PROVISION else placing.place(demand) is not None

    failed = _place_chosen(placing, [demand for demand in demands if demand.mode is not Mode.PROVISION])
    made = largest_first(demand for demand in demands if demand.mode is Mode.PROVISION)
    failed += [demand for demand in made if not place(demand)]
    failed = [demand for demand in failed if not placing.booking.is_tied(demand)]
    rivals = _servable_alone(this, failed) if placing.placed else []
    if rivals:
        rebalance(placing, rivals, place, solve)
        for demand in made:  # What keeps the rest from a place may be something else now.
            if demand.pod.key not in placing.placed:
                place(demand)


def _place_chosen(placing: Placing, demands: Sequence[Demand]) -> list[Demand]:
    """Place what can be placed and return the rest. A pod with affinity may need one placed after it."""
    failed = [demand for demand in demands if placing.place(demand) is None]
    while any(map(placing.booking.may_gain, failed)):
        again = [demand for demand in failed if not placing.booking.may_gain(demand) or placing.place(demand) is None]
        if len(again) == len(failed):
            break
        failed = again
    return failed


def _servable_alone(this: _Pass, failed: Sequence[Demand]) -> list[Demand]:
    """Return the demands that would have been placed without other pods in the batch."""
    alone = this.placing()
    selection = this.selection(alone)
    known: dict[tuple[object, ...], bool] = {}
    servable: list[Demand] = []
    for demand in failed:
        is_made, kind = demand.mode is Mode.PROVISION, demand.kind
        if kind not in known:
            known[kind] = selection.could_serve(demand) if is_made else alone.best(demand) is not None
        if known[kind] and (is_made or demand.required):
            servable.append(demand)
    return servable


def _decision(
    view: View, topologies: Topologies, explainer: Explainer, demand: Demand, placed: PlacedPod | None
) -> Decision:
    if placed is not None:
        return _reserve(view, topologies, demand, placed)
    if not demand.required:
        return Wait(demand.pod, Reason.DYNAMIC_CLASS)
    return explainer.rejection(demand)


def _reserve(view: View, topologies: Topologies, demand: Demand, placed: PlacedPod) -> Reserve:
    claims = (*demand.required, *demand.optional)
    chosen = tuple(Placement(claim, placed.volumes[claim.key]) for claim in claims if claim.key in placed.volumes)
    return Reserve(
        pod=demand.pod,
        mode=_mode(view, demand, [placement.volume for placement in chosen]),
        zone=placed.topology.zone,
        node=placed.node,
        local_nodes=_local_nodes(topologies, placed.volumes.values()),
        placements=chosen,
        limits=demand.limits,
    )


def _mode(view: View, demand: Demand, volumes: Iterable[Volume]) -> Mode:
    """Return how far to go: less than the class allows if that would be dangerous.

    Finishing a bind ourselves risks a Delete volume if its claim is deleted in that moment; the prebind form does not.
    One that is set aside becomes a claim's in one write, which is that of prebind.
    """
    if demand.mode is not Mode.COMPLETE:
        return demand.mode
    careful, annotations = not view.settings.allow_delete_policy, view.settings.annotations
    if any(set_aside_keys(each, annotations) or (careful and each.reclaim_policy != "Retain") for each in volumes):
        return Mode.PREBIND
    return Mode.COMPLETE


def _local_nodes(topologies: Topologies, volumes: Iterable[Volume]) -> tuple[str, ...]:
    """Return the only nodes from which the volumes are accessible; none if they are zonal or accessible everywhere."""
    common: set[int] | None = None
    for volume in volumes:
        if is_narrower_than_zone(volume.node_affinity):
            accessible = {topology.number for topology in topologies.reaching(volume.node_affinity)}
            common = accessible if common is None else common & accessible
    names = [node.name for number in sorted(common or ()) for node in topologies.all[number].nodes]
    return tuple(sorted(names)) if len(names) <= _MAX_LOCAL_NODES else ()
