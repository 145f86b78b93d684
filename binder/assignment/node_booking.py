"""Room on nodes during a pass: what is free, minus what the pass has booked so far."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Final

from binder.assignment.neighbourhood import Neighbourhood
from binder.assignment.other_pods import OtherPods
from binder.assignment.topologies import Topology
from binder.booking.bookings import Bookings
from binder.booking.node_sets import Booked
from binder.booking.room import Attach, Room, attach_of
from binder.booking.seats import Newcomer
from binder.health.node_storage import reject_storage
from binder.matching.node_fit import (
    reject_attachments,
    reject_missing_driver,
    reject_node,
    reject_reach,
    reject_resources,
)
from binder.matching.rejection import Reason, Rejection
from binder.model.demand import Demand
from binder.model.view import View
from kube.objects.model import Node, Volume
from kube.rules.quantity import NANO
from kube.rules.resource_fit import PODS
from kube.store.node_view import UsedVolume, csi_volume, inline_volumes, missing_drivers

_ATTACHABLE: Final = "attachable-volumes-csi-"
"""What Kubernetes put before a driver's name while attach limits were resources of a node (pkg/volume/util)."""


@dataclass(slots=True)
class _Fitting:
    """The nodes of a topology that fit one kind of pod by everything that does not change, determined lazily.

    `open` is a heap of the places in `nodes` that may have room, `full` are the others; `seen` counts the nodes that
    got room back and have been checked again since.
    """

    rest: Iterator[Node]
    nodes: list[Node] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    open: list[int] = field(default_factory=list)
    full: set[int] = field(default_factory=set)
    seen: int = 0

    def reopen(self, given_back: Sequence[str]) -> None:
        """A node that was full may have room again."""
        for name in given_back[self.seen :]:
            place = self.places.get(name)
            if place in self.full:
                self.full.remove(place)
                heappush(self.open, place)
        self.seen = len(given_back)

    def first(self) -> Node | None:
        """Return the first node, by name, that may have room."""
        if not self.open:
            node = next(self.rest, None)
            if node is None:
                return None
            self._add(node)
        return self.nodes[self.open[0]]

    def read_all(self) -> None:
        """Determine all of them."""
        for node in self.rest:
            self._add(node)

    def _add(self, node: Node) -> None:
        self.places[node.name] = len(self.nodes)
        heappush(self.open, len(self.nodes))
        self.nodes.append(node)

    def close_first(self) -> None:
        """The first one is full."""
        self.full.add(heappop(self.open))


class NodeBooking:
    """Finds and books a node for each pod of a pass. `planned` are the pods whose own bookings do not count.

    `bookings` are those of all pods that wait for a node; here they may be moved to make room.
    `others` is what other pods require of those of the pass, None if nothing does. A pod that is tied to others is
    booked permanently: `node_for` finds its node, `keep` books it, and it is never released.
    """

    def __init__(self, view: View, planned: Iterable[str], others: OtherPods | None, bookings: Bookings) -> None:
        self._view = view
        self._others = None if others is None else Neighbourhood(others)
        self._planned = frozenset(planned)
        self._bookings = bookings
        self._seats = bookings.seats(self._opened)
        self._fitting: dict[tuple[object, ...], _Fitting] = {}
        self._given_back: list[str] = []
        self._good: dict[tuple[object, ...], dict[str, bool]] = {}

    def is_tied(self, demand: Demand) -> bool:
        """Whether other pods restrict where the pod may run, or the pod restricts others."""
        return self._others is not None and self._others.is_tied(demand)

    def may_gain(self, demand: Demand) -> bool:
        """Whether a tied pod that finds no node may find one after others were booked."""
        return self._others is not None and self._others.may_gain(demand)

    def kind(self, demand: Demand) -> tuple[object, ...]:
        """Return a value that is equal for demands that are fully interchangeable, also to other pods."""
        if self._others is None or not self._others.is_tied(demand):
            return demand.kind
        return (demand.kind, self._others.alike(demand))

    def node_for(self, demand: Demand, topology: Topology, volumes: Mapping[str, Volume]) -> str | None:
        """Return a node of the topology for the pod with these volumes, by claim key; None if there is none beside the
        others.
        """
        attach = attach_of_pod(demand, volumes)
        if self._others is None or not self._others.is_tied(demand):
            return self.find(demand, topology, attach)
        name = self._others.find(demand, volumes.values(), topology, self._fits(demand, attach))
        if name is None and self._make_room(demand, topology, attach) is not None:
            name = self._others.find(demand, volumes.values(), topology, self._fits(demand, attach))
        return name

    def keep(self, demand: Demand, node: str, volumes: Mapping[str, Volume]) -> bool:
        """Book the pod on the node that `node_for` returned; False if it has no room any more."""
        attach = attach_of_pod(demand, volumes)
        if not self._has_room_made(demand, node, attach):
            return False
        if self._others is not None and self._others.is_tied(demand):
            self._others.take(demand, volumes.values(), node, self._fits(demand, attach))
        return self.take(demand, node, attach)

    def left_out(self, demand: Demand, node: str, volumes: Mapping[str, Volume]) -> int:
        """Return how many other users of its claims would have no room beside the pod on this node."""
        attach, seated, without = attach_of_pod(demand, volumes), list[Booked](), 0
        if not self.take(demand, node, attach):
            return len(demand.users)
        for user, own in demand.users:
            shared = (volume for key, volume in volumes.items() if key in user.claim_keys)
            booked = self._bookings.with_volumes(user, tuple(dict.fromkeys((*own, *shared))))
            if booked is not None and self._seats.seat(booked):
                seated.append(booked)
            elif booked is not None:
                without += 1
        for booked in seated:
            self._seats.remove(booked)
        self.give_back(demand, node, attach)
        return without

    def _fits(self, demand: Demand, attach: Attach) -> Callable[[Node], bool]:
        known = self._good.setdefault((attach, demand.needs_of_node), {})

        def fits(node: Node) -> bool:
            good = known.get(node.name)
            if good is None:
                good = known[node.name] = self._reject_for_good(demand, node, attach) is None
            return good and self._has_room(demand, node, attach)

        return fits

    def find(self, demand: Demand, topology: Topology, attach: Attach) -> str | None:
        """Return the first node of the topology, by name, that fits the pod with these volumes; None if none does.

        Other pods count only by the room that they take, those that wait for a node on whichever they leave most.
        """
        fitting = self._fitting_nodes(demand, topology, attach)
        fitting.reopen(self._given_back)
        while (node := fitting.first()) is not None:
            if self._has_room(demand, node, attach):
                return node.name
            fitting.close_first()
        return self._make_room(demand, topology, attach)

    def take(self, demand: Demand, node: str, attach: Attach) -> bool:
        """Book the pod on the node; False if it has no room any more."""
        if not self._has_room_made(demand, node, attach):
            return False
        self._room(node).take(_requests_of(demand, node), _anchored(demand), attach)
        return True

    def give_back(self, demand: Demand, node: str, attach: Attach) -> None:
        """Undo `take`."""
        self._room(node).give_back(_requests_of(demand, node), _anchored(demand), attach)
        self._given_back.append(node)

    def booked_on(self, name: str) -> frozenset[str]:
        """Return the waiting pods that have room on the node, by key, those of the pass left out."""
        self._room(name)
        return frozenset(self._seats.at.get(name, ()))

    def takes(self, demand: Demand, attach: Attach) -> Iterator[tuple[str, int]]:
        """Yield what the pod takes, at least, of a node that is given to it in this pass: the names are for `left`."""
        if not demand.pod.node_name:
            yield PODS, NANO
            yield from (pair for pair in demand.pod.requests if pair[0] != PODS and pair[1] > 0)
        yield from ((_ATTACHABLE + driver, count) for driver, count in attach)

    def left(self, node: str, name: str) -> float:
        """Return how much of it the node has left."""
        room = self._room(node)
        if not name.startswith(_ATTACHABLE):
            return max(0, room.free.get(name, 0))
        driver = name.removeprefix(_ATTACHABLE)
        most = room.view.attach_limit.get(driver)
        return inf if most is None else max(0, most - room.attached.get(driver, 0))

    def reject(self, demand: Demand, node: Node, attach: Attach = ()) -> Rejection | None:
        """Return why the node does not fit the pod now, or None."""
        beside = None if self._others is None else self._others.reject(demand, node)
        return self._reject_for_good(demand, node, attach) or beside or self._reject_now(demand, node, attach)

    def _fitting_nodes(self, demand: Demand, topology: Topology, attach: Attach) -> _Fitting:
        key = (topology.number, attach, demand.needs_of_node)
        fitting = self._fitting.get(key)
        if fitting is None:
            nodes = (node for node in topology.nodes if self._reject_for_good(demand, node, attach) is None)
            fitting = self._fitting.setdefault(key, _Fitting(nodes, seen=len(self._given_back)))
        return fitting

    def _reject_for_good(self, demand: Demand, node: Node, attach: Attach) -> Rejection | None:
        drivers = [driver for driver, _ in (*attach, *attach_of(demand.anchors))]
        return (
            self._reject_node(demand, node)
            or reject_missing_driver(node.name, drivers, missing_drivers(self._view.snapshot, node.name))
            or reject_storage(drivers, self._view.snapshot, node.name)
        )

    def _reject_node(self, demand: Demand, node: Node) -> Rejection | None:
        if demand.pod.node_name == node.name:
            # It is there already; what keeps it waiting is storage alone.
            return reject_reach(demand.anchors, node)
        if demand.nodes is not None and node.name not in demand.nodes:
            return _other_node(demand, node)
        return reject_node(demand.pod, node) or reject_reach(demand.anchors, node)

    def _has_room(self, demand: Demand, node: Node, attach: Attach) -> bool:
        room = self._room(node.name)
        if demand.pod.node_name != node.name:
            return room.has(demand.pod.requests, _anchored(demand), attach)
        return (
            reject_attachments(node.name, room.beside(_anchored(demand), attach), room.attached, room.view.attach_limit)
            is None
        )

    def _reject_now(self, demand: Demand, node: Node, attach: Attach) -> Rejection | None:
        room = self._room(node.name)
        if demand.pod.node_name != node.name:
            lacking = reject_resources(demand.pod, node.name, room.free)
            if lacking is not None:
                return lacking
        more = room.beside(_anchored(demand), attach)
        return reject_attachments(node.name, more, room.attached, room.view.attach_limit)

    def _make_room(self, demand: Demand, topology: Topology, attach: Attach) -> str | None:
        """Move waiting pods that other nodes can take as well; return the node that fits the pod then, or None."""
        if not self._bookings.any_movable:
            return None
        fitting = self._fitting_nodes(demand, topology, attach)
        fitting.read_all()
        return next((node.name for node in fitting.nodes if self._has_room_made(demand, node.name, attach)), None)

    def _has_room_made(self, demand: Demand, name: str, attach: Attach) -> bool:
        """Whether the node has room, if need be after waiting pods were moved: also back, as the search for another
        place for this pod may have moved them here.
        """
        node, room = self._view.snapshot.nodes[name], self._room(name)
        if self._has_room(demand, node, attach):
            return True
        takes = (_requests_of(demand, name), _anchored(demand), attach)

        def take() -> bool:
            if not self._has_room(demand, node, attach):
                return False
            room.take(*takes)
            return True

        newcomer = Newcomer(take, partial(room.give_back, *takes))
        made = self._bookings.any_movable and self._seats.make_room(name, newcomer)
        if made:
            self._given_back.append(name)
        return made

    def _room(self, name: str) -> Room:
        return self._seats.room(name)

    def _opened(self, name: str) -> Room:
        """Return a node's room beside the pods on it, and with all of the bookings there."""
        room = self._bookings.opened(name, self._planned)
        there = {key: booked for key, booked in self._bookings.at(name).items() if key not in self._planned}
        self._seats.occupy(name, there)
        for booked in there.values():
            room.take(booked.waiting.pod.requests, booked.used)
        return room


def _requests_of(demand: Demand, node: str) -> tuple[tuple[str, int], ...] | None:
    """Return what the pod takes of the node's resources; None if it is there already."""
    return None if demand.pod.node_name == node else demand.pod.requests


def _anchored(demand: Demand) -> frozenset[UsedVolume]:
    """Return the volumes that the pod already has, those in its own spec included, as they count towards attach
    limits.
    """
    anchors = (used for volume in demand.anchors if (used := csi_volume(volume)) is not None)
    return inline_volumes(demand.pod).union(anchors)


def attach_of_pod(demand: Demand, volumes: Mapping[str, Volume]) -> Attach:
    """Return what has to be attached for the pod with these volumes, by claim key, besides its anchors."""
    return attach_of(volumes.values(), demand.drivers_beside(volumes))


def _other_node(demand: Demand, node: Node) -> Rejection:
    named = ", ".join(sorted(demand.nodes or ())) or "no node: claims of the pod have different ones selected"
    return Rejection(Reason.NODE_SELECTOR_MISMATCH, node.name, named, node.name)
