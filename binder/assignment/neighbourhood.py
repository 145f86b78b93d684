"""Where pods may be placed beside other pods: those on nodes, those with reserved volumes, those of the same pass.

A pod on a node counts as kube-scheduler counts it (kube.rules). A pod that has volumes and no node yet may be placed on
any node from which they are accessible, in any order: what is reserved here has to hold whatever kube-scheduler
chooses. Of pods with anti-affinity to each other each keeps one node more than the others can take from it. For a term
of affinity or spread only pods count whose domain is certain; if that is not enough the pod waits until the others are
on their nodes.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from binder.assignment.other_pods import OtherPods, Placed, ReservedPod, known
from binder.assignment.pod_rejection import affinity_rejection, disk_rejection, port_rejection, spread_rejection
from binder.assignment.topologies import Topology
from binder.matching.rejection import Reason, Rejection
from binder.model.demand import Demand
from kube.objects.constraints import NO_CONSTRAINTS, HostPort, InlineDisk, PodTerm
from kube.objects.model import Node, Pod, Volume
from kube.pod_topology.inter_pod_affinity import TermVerdict, apart, kept_away, near
from kube.pod_topology.node_conflicts import conflicting_port, disks_of, host_ports
from kube.pod_topology.placed_pods import PlacedPods
from kube.pod_topology.pod_ties import TieKind, numbers_in, ties_of
from kube.pod_topology.topology_domains import NODE_ITSELF, TopologyDomains
from kube.pod_topology.topology_spread import spread_verdicts

_MIN_SPARE: Final = 32
"""Nodes sought beyond those that others may take, in a pass of a few pods: pods that come later take from these."""

Fits = Callable[[Node], bool]
"""Whether everything except other pods allows the node, room included."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """What of a pod matters to others: its ties and those that select it, as sets; its ports and disks; the nodes
    excluded for it.

    There is one object for pods that are equal in all of it.
    """

    own: int
    meant_by: int
    ports: tuple[HostPort, ...]
    disks: tuple[InlineDisk, ...]
    closed: int

    @property
    def is_tied(self) -> bool:
        return bool(self.own or self.meant_by or self.ports or self.disks or self.closed)


@dataclass(slots=True)
class _Booked:
    """A pod that has volumes and no node: the nodes it may be placed on, those that fit it, and how many it can
    lose.
    """

    kind: _Kind
    possible: int
    fit: int
    node: int
    spare: int


def _affinity(pod: Pod) -> tuple[PodTerm, ...]:
    return (pod.constraints or NO_CONSTRAINTS).affinity


class Neighbourhood:
    """The pods of one attempt at a pass, and whether another one may join them."""

    def __init__(self, others: OtherPods) -> None:
        self._others = others
        self._ties = others.ties
        self._index = others.placed.index
        self._booked: list[_Booked] = []
        self._distinct: dict[tuple[_Kind, int], _Booked] = {}
        self._all: PlacedPods = others.placed
        self._sure: PlacedPods = others.placed
        self._spare = max(_MIN_SPARE, others.decided)
        self._kinds: dict[str, _Kind] = {}
        self._open: dict[tuple[object, ...], tuple[int, int]] = {}
        self._conflicts: dict[tuple[_Kind, _Kind], frozenset[str]] = {}
        self._domains: dict[str, TopologyDomains] = {}
        self._bits: dict[int, int] = {}
        self._interned: dict[tuple[object, ...], _Kind] = {}
        moving = others.ties.of_kind[TieKind.NEAR] | others.ties.of_kind[TieKind.SPREAD]
        self._moving = moving
        self._moving_keys = {others.ties.numbered[number].key for number in numbers_in(moving)}
        for reserved in others.reserved:
            self._book_reserved(reserved)

    def is_tied(self, demand: Demand) -> bool:
        """Whether other pods restrict where the pod may run, or the pod restricts others."""
        return not demand.pod.node_name and self._kind(demand.pod).is_tied

    def may_gain(self, demand: Demand) -> bool:
        """Whether a node that is excluded for the pod now may be allowed after more pods were booked."""
        return bool(self._kind(demand.pod).own & self._moving)

    def alike(self, demand: Demand) -> tuple[object, ...]:
        """Return a value that is equal for pods that are interchangeable to other pods."""
        return (demand.pod.namespace, self._kind(demand.pod))

    def find(self, demand: Demand, volumes: Collection[Volume], topology: Topology, fits: Fits) -> str | None:
        """Return a node of the topology for the pod with these volumes, beside all others; None if it has to wait."""
        booked = self._place(demand, volumes, self._nodes_of(topology), fits, 0)
        return None if booked is None else self._others.nodes[booked.node].name

    def take(self, demand: Demand, volumes: Collection[Volume], node: str, fits: Fits) -> None:
        """Book the pod as `find` found it."""
        booked = self._place(demand, volumes, 1 << self._others.numbers[node], fits, self._spare)
        if booked is not None:
            self._book(demand.pod, booked)

    def reject(self, demand: Demand, node: Node) -> Rejection | None:
        """Return which other pod, on a node or with reserved volumes, keeps the pod off the node, or None."""
        pod, number = demand.pod, self._others.numbers[node.name]
        if not self.is_tied(demand):
            return None
        labels = self._others.placed.nodes[number].labels
        for verdict in (*self._near(pod, self._kind(pod)), *self._apart(pod)):
            if not verdict.allowed >> number & 1:
                return affinity_rejection(verdict, node.name, labels)
        for spread in spread_verdicts(pod, self._all, self._sure):
            if not spread.allowed >> number & 1:
                return spread_rejection(spread, node.name, labels)
        taken = self._reject_taken(pod, number)
        return taken or self._reject_beside_booked(demand, number)

    def _reject_beside_booked(self, demand: Demand, number: int) -> Rejection | None:
        kind, here = self._kind(demand.pod), 1 << number
        for booked in self._booked:
            keys = self._conflicting(kind, booked.kind)
            close = booked.possible & self._around(keys, here)
            if close or not self._agrees(kind, here, booked):
                wanted = "no conflicting pod with reserved volumes that may be scheduled here first"
                return Rejection(
                    Reason.OTHER_POD_PENDING, self._others.nodes[number].name, wanted, "a pod that has no node yet"
                )
        return None

    def _place(self, demand: Demand, volumes: Collection[Volume], here: int, fits: Fits, spare: int) -> _Booked | None:
        kind = self._kind(demand.pod)
        possible = self._accessible(demand.pod, (*demand.anchors, *volumes), demand.nodes)
        allowed = possible & self._allowed(demand, kind)
        if not allowed or not all(self._agrees(kind, possible, booked) for booked in self._distinct.values()):
            return None
        lost, held = 0, 0
        for booked in self._booked:
            keys = self._conflicting(kind, booked.kind)
            if keys and booked.possible & self._around(keys, possible):
                if booked.spare <= self._loss(keys, possible, booked.fit):
                    return None
                lost += self._loss(keys, booked.possible, allowed)
                held |= self._around(keys, 1 << booked.node)
        if allowed.bit_count() <= lost:
            return None
        enough = lost + (spare if self._may_conflict(kind) else 0)
        fit, at = self._fit(demand, allowed, here & ~held, enough, fits)
        if at is None or fit.bit_count() <= lost:
            return None
        return _Booked(kind, possible, fit, at, fit.bit_count() - lost)

    def _may_conflict(self, kind: _Kind) -> bool:
        """Whether pods that come later could take nodes from it."""
        return bool((kind.own | kind.meant_by) & self._ties.of_kind[TieKind.APART] or kind.ports or kind.disks)

    def _nodes_of(self, topology: Topology) -> int:
        nodes = self._bits.get(topology.number)
        if nodes is None:
            nodes = sum(1 << self._others.numbers[node.name] for node in topology.nodes)
            self._bits[topology.number] = nodes
        return nodes

    def _fit(self, demand: Demand, allowed: int, first: int, enough: int, fits: Fits) -> tuple[int, int | None]:
        """Return allowed nodes that fit, one more than `enough` if possible, and one of `first` among them or None."""
        takes = bool(host_ports(demand.pod) or disks_of(demand.pod))
        fit, at = 0, None
        for number in chain(numbers_in(allowed & first), numbers_in(allowed & ~first)):
            if fit.bit_count() > enough or (at is None and not first >> number & 1):
                break
            if takes and self._reject_taken(demand.pod, number) is not None:
                continue
            if fits(self._others.nodes[number]):
                fit |= 1 << number
                at = number if at is None else at
        return fit, at

    def _book(self, pod: Pod, booked: _Booked) -> None:
        for other in self._booked:
            keys = self._conflicting(booked.kind, other.kind)
            if keys and other.possible & self._around(keys, booked.possible):
                other.spare -= self._loss(keys, booked.possible, other.fit)
        self._booked.append(booked)
        self._distinct.setdefault((booked.kind, booked.possible), booked)
        counted = known(pod)
        self._all = self._joined(self._all, counted, booked.node)
        if all(self._domains_of(key).is_certain(booked.possible) for key in self._moving_keys):
            self._sure = self._joined(self._sure, counted, booked.node)

    def _book_reserved(self, reserved: ReservedPod) -> None:
        kind = self._kind(reserved.pod)
        possible = self._accessible(reserved.pod, reserved.volumes, reserved.nodes)
        if not kind.is_tied or not possible:
            return
        fit = possible & ~kind.closed
        at = self._others.numbers[reserved.node]
        lost = sum(self._loss(self._conflicting(kind, other.kind), other.possible, fit) for other in self._booked)
        self._book(reserved.pod, _Booked(kind, possible, fit, at, fit.bit_count() - lost))

    def _joined(self, placed: PlacedPods, pod: Pod, number: int) -> Placed:
        return Placed(self._others.placed.nodes, self._index, placed.pod_groups.with_pod(pod, number))

    def _kind(self, pod: Pod) -> _Kind:
        kind = self._kinds.get(pod.key)
        if kind is None:
            closed = 0
            for verdict in self._apart(pod):
                closed |= self._index.everything & ~verdict.allowed
            own, meant_by = self._ties.add(ties_of(pod)), self._ties.meaning(pod)
            traits = (own, meant_by, host_ports(pod), disks_of(pod), closed)
            kind = self._interned.setdefault(traits, _Kind(*traits))
            self._kinds[pod.key] = kind
        return kind

    def _apart(self, pod: Pod) -> Sequence[TermVerdict]:
        terms = pod.constraints.anti_affinity if pod.constraints is not None else ()
        return (*apart(pod, terms, self._others.placed), *kept_away(pod, self._others.placed))

    def _accessible(self, pod: Pod, volumes: Iterable[Volume], named: frozenset[str] | None) -> int:
        """Return the nodes that kube-scheduler may choose for the pod with these volumes, whatever room they have."""
        index = self._index
        nodes = index.selected(pod.node_selector, pod.node_affinity) & index.tolerated(pod.tolerations)
        for volume in volumes:
            nodes &= index.reaching(volume.node_affinity)
        if named is not None:
            nodes &= sum(1 << self._others.numbers[name] for name in named if name in self._others.numbers)
        return nodes

    def _allowed(self, demand: Demand, kind: _Kind) -> int:
        """Return the nodes that affinity, anti-affinity and spread allow for the pod now."""
        pod, nodes = demand.pod, self._index.everything & ~kind.closed
        if not kind.own & self._moving:
            return nodes
        cache_key = (pod.namespace, kind.own, kind.meant_by, kind.closed, demand.needs_of_node)
        known = self._open.get(cache_key)
        if known is not None and known[0] == len(self._booked):
            return known[1]
        for verdict in self._near(pod, kind):
            nodes &= verdict.allowed
        for spread in spread_verdicts(pod, self._all, self._sure):
            nodes &= spread.allowed
        self._open[cache_key] = (len(self._booked), nodes)
        return nodes

    def _near(self, pod: Pod, kind: _Kind) -> Sequence[TermVerdict]:
        """Evaluate affinity. Pods without a node satisfy it for those of their own series only.

        A pod of another kind may lose its volumes before it is placed; a series starts again with its first pod.
        """
        if kind.own & self._ties.of_kind[TieKind.NEAR] & ~kind.meant_by:
            return near(pod, _affinity(pod), self._others.placed)
        return near(pod, _affinity(pod), self._all, self._sure)

    def _agrees(self, kind: _Kind, possible: int, booked: _Booked) -> bool:
        """Whether ties of affinity and spread hold for both, in whatever order and wherever the two are placed."""
        # More matching pods harm none but the first of a series, which needs none so far.
        first = booked.kind.meant_by | ~self._ties.of_kind[TieKind.NEAR]
        theirs = booked.kind.own & kind.meant_by & self._moving & first
        mine = kind.own & booked.kind.meant_by & self._ties.of_kind[TieKind.SPREAD]
        if not theirs and not mine:
            return True
        if theirs & ~kind.own:
            return False
        for number in numbers_in(theirs | mine):
            tie = self._ties.numbered[number]
            if tie.kind is TieKind.NEAR:
                if not self._domains_of(tie.key).is_certain(possible):
                    return False
            elif self._domains_of(tie.key).around(possible) & booked.possible and not (
                self._domains_of(tie.key).is_certain(possible) and self._domains_of(tie.key).is_certain(booked.possible)
            ):
                return False
        return True

    def _conflicting(self, kind: _Kind, other: _Kind) -> frozenset[str]:
        """Return the topology keys of domains that two pods cannot share."""
        conflicting = self._conflicts.get((kind, other))
        if conflicting is None:
            ties = (kind.own & other.meant_by | other.own & kind.meant_by) & self._ties.of_kind[TieKind.APART]
            keys: set[str] = {self._ties.numbered[number].key for number in numbers_in(ties)}
            disks = any(disk.excludes(used) for disk in kind.disks for used in other.disks)
            if disks or conflicting_port(kind.ports, other.ports) is not None:
                keys.add(NODE_ITSELF)
            conflicting = self._conflicts[kind, other] = frozenset(keys)
        return conflicting

    def _around(self, keys: Iterable[str], nodes: int) -> int:
        """Return all nodes that share a domain of any key with any of these."""
        around = 0
        for key in keys:
            around |= self._domains_of(key).around(nodes)
        return around

    def _loss(self, keys: Iterable[str], possible: int, fit: int) -> int:
        """Return how many of the nodes in `fit` a pod that may be placed on `possible` can exclude at most."""
        return sum(self._domains_of(key).loss(possible, fit) for key in keys)

    def _domains_of(self, key: str) -> TopologyDomains:
        domains = self._domains.get(key)
        if domains is None:
            domains = self._domains[key] = TopologyDomains(self._index, key)
        return domains

    def _reject_taken(self, pod: Pod, number: int) -> Rejection | None:
        """Return which port or disk of the pod is in use by a pod on the node, or None."""
        name, snapshot = self._others.nodes[number].name, self._others.view.snapshot
        there = [snapshot.pods[key] for key in snapshot.pods_by_node.get(name, ())]
        ports = (port for other in there for port in host_ports(other))
        return port_rejection(host_ports(pod), ports, name) or disk_rejection(disks_of(pod), there, name)
