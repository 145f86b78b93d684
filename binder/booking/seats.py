"""Rooms of nodes with the waiting pods booked in them, and room made for another pod by moving those elsewhere.

A waiting pod that several nodes can take is booked once, on any of them: which one is kube-scheduler's choice, so it
moves to another whenever that leaves room for one more. Making room is a search: each pod moves at most once, pods that
leave a full node are tried alone, then in twos and threes, and a limited number of nodes is tried in all.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Final

from binder.booking.node_sets import Booked, NodeSets
from binder.booking.room import Room
from kube.pod_topology.pod_ties import numbers_in

_MAX_TRIES: Final = 4000
"""Nodes tried to make room, by one `Seats`: some 10 ms."""
_MAX_NODES: Final = 64
"""Nodes with enough resources tried for one pod."""
_MAX_MOVED: Final = 32
"""Pods moved for one, each to make room for the one before: the search calls itself for each."""
_MAX_LEAVING: Final = 3
"""Pods that leave a node together for another one."""


Suits = Callable[[Booked, str], bool]
"""Whether a node would take the pod if it had room."""
Beside = Callable[[Booked, Collection[Booked]], bool]
"""Whether the pod may be on a node together with these."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Another pod for which room is made on a node. `take` books it there, False if it has no room; `give_back` undoes
    it.
    """

    take: Callable[[], bool]
    give_back: Callable[[], None]


_Queue = Sequence[tuple[Booked, int]]
"""Pods to be booked, each on one of these nodes."""


class Seats:
    """Pods by node. `opened` returns the room of a node before any of them is booked there."""

    def __init__(self, sets: NodeSets, opened: Callable[[str], Room], suits: Suits, beside: Beside) -> None:
        self._sets = sets
        self._opened = opened
        self._suits = suits
        self._beside = beside
        self._rooms: dict[str, Room] = {}
        self._full: dict[tuple[object, ...], int] = {}
        self.at: dict[str, dict[str, Booked]] = {}
        self.node_of: dict[str, str] = {}
        self._tries = _MAX_TRIES

    def room(self, name: str) -> Room:
        """Return the node's room beside those booked there."""
        room = self._rooms.get(name)
        if room is None:
            room = self._rooms[name] = self._opened(name)
        return room

    def occupy(self, name: str, there: Mapping[str, Booked]) -> None:
        """The room of the node that is being opened has these pods already."""
        self.at[name] = dict(there)
        self.node_of.update(dict.fromkeys(there, name))

    def put(self, booked: Booked, name: str) -> None:
        """Book the pod on the node."""
        self.room(name).take(booked.waiting.pod.requests, booked.used)
        self.at.setdefault(name, {})[booked.key] = booked
        self.node_of[booked.key] = name

    def remove(self, booked: Booked) -> None:
        """Undo `put`."""
        name = self.node_of.pop(booked.key)
        self.room(name).give_back(booked.waiting.pod.requests, booked.used)
        del self.at[name][booked.key]
        bit = 1 << self._sets.numbers[name]
        self._full = {kind: nodes & ~bit for kind, nodes in self._full.items()}

    def seat(self, booked: Booked) -> bool:
        """Book the pod on a possible node if it can be done, also by moving others."""
        return self._seated([(booked, booked.possible)], frozenset())

    def make_room(self, name: str, newcomer: Newcomer) -> bool:
        """Move pods away from the node so that it takes the newcomer; False, and nothing has changed, if that fails."""
        for leaving in self._leaving(name, frozenset()):
            if self._moved(leaving, name, newcomer, (), frozenset()):
                newcomer.give_back()
                return True
        return False

    def _seated(self, queue: _Queue, moved: frozenset[str]) -> bool:
        """Book all of the queue; False, and nothing has changed, if that cannot be done."""
        if not queue:
            return True
        (booked, nodes), rest = queue[0], queue[1:]
        for name in self._with_room(booked, nodes):
            self.put(booked, name)
            if self._seated(rest, moved):
                return True
            self.remove(booked)
            self._tries -= 1
            if self._tries <= 0:
                return False
        if len(moved) >= _MAX_MOVED:
            return False
        return any(self._seated_instead(booked, name, rest, moved) for name in self._movable(nodes))

    def _with_room(self, booked: Booked, nodes: int) -> Iterator[str]:
        """Yield the first nodes, by name, that take the pod as they are."""
        requests = booked.waiting.pod.requests
        kind, tried = (requests, booked.possible), 0
        for number in numbers_in(nodes & ~self._full.get(kind, 0)):
            room = self.room(self._sets.nodes[number].name)
            if not room.has(requests):
                self._full[kind] = self._full.get(kind, 0) | 1 << number
                continue
            if room.has(requests, booked.used) and self._may_join(booked, room.view.node.name):
                yield room.view.node.name
            tried += 1
            if tried == _MAX_NODES:
                return

    def _may_join(self, booked: Booked, name: str) -> bool:
        return self._suits(booked, name) and self._beside(booked, self.at.get(name, {}).values())

    def _movable(self, nodes: int) -> Iterator[str]:
        """Yield those of these nodes on which pods are booked that could be elsewhere."""
        for name, there in list(self.at.items()):
            if nodes >> self._sets.numbers[name] & 1 and any(booked.is_movable for booked in there.values()):
                yield name

    def _seated_instead(self, booked: Booked, name: str, rest: _Queue, moved: frozenset[str]) -> bool:
        """Book the pod on the node by moving others away from it, and the rest of a queue."""
        if not self._suits(booked, name):
            return False

        def take() -> bool:
            if not self.room(name).has(booked.waiting.pod.requests, booked.used) or not self._may_join(booked, name):
                return False
            self.put(booked, name)
            return True

        newcomer = Newcomer(take, partial(self.remove, booked))
        return any(
            self._moved(leaving, name, newcomer, rest, moved | {booked.key}) for leaving in self._leaving(name, moved)
        )

    def _moved(
        self, leaving: Sequence[Booked], name: str, newcomer: Newcomer, rest: _Queue, moved: frozenset[str]
    ) -> bool:
        """Move these pods away from the node, if it takes the newcomer then, and book the rest of a queue."""
        elsewhere = ~(1 << self._sets.numbers[name])
        for booked in leaving:
            self.remove(booked)
        if newcomer.take():
            queue = [(booked, booked.possible & elsewhere) for booked in leaving]
            if self._seated([*queue, *rest], moved | {booked.key for booked in leaving}):
                return True
            newcomer.give_back()
        for booked in leaving:
            self.put(booked, name)
        return False

    def _leaving(self, name: str, moved: frozenset[str]) -> Iterator[tuple[Booked, ...]]:
        """Yield pods that may leave the node together, fewest first."""
        there = [booked for booked in self.at.get(name, {}).values() if booked.is_movable and booked.key not in moved]
        for count in range(1, min(len(there), _MAX_LEAVING) + 1):
            for leaving in combinations(there, count):
                if self._tries <= 0:
                    return
                self._tries -= 1
                yield leaving
