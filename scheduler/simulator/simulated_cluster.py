"""A cluster in memory: versions, compare-and-set, checkpoints at no cost, and a log that can be replayed.

States are frozen values, so keeping one is a checkpoint and returning to it is an assignment. Every change is an entry
of the log, and the number of entries is the version. A log replayed on the same initial state leads to the same final
state.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace as with_fields

from binder.matching.matching import class_of
from binder.provisioning.claims_in_flight import with_booked
from kube.persistent_map import Map
from scheduler.framework.plugin import ScheduleResult
from scheduler.simulator.simulated_nodes import with_added_node
from scheduler.simulator.simulated_storage import (
    ImpossibleChange,
    made_volume,
    with_bound,
    with_failed_driver,
    with_failed_volume,
    with_new_claim,
)
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo


class SimulatedChange(StrEnum):
    """What can happen to a simulated cluster."""

    PLACE = "place"
    TAKE_AWAY = "takeAway"
    CORDON = "cordon"
    REMOVE_NODE = "removeNode"
    ADD_NODE = "addNode"
    FAIL_VOLUME = "failVolume"
    FAIL_DRIVER = "failDriver"
    NEW_CLAIM = "newClaim"


class Entry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A change at a simulated moment, in microseconds. `volumes` are (claim, volume); `made` claims get a new one.

    An added node is a copy of `like`; `volume`, `driver` and `claim` are what fails or is recreated.
    """

    at: int
    change: SimulatedChange
    node: str = ""
    pod: str = ""
    volumes: tuple[tuple[str, str], ...] = ()
    made: tuple[str, ...] = ()
    like: str = ""
    volume: str = ""
    driver: str = ""
    claim: str = ""

    def touches(self) -> tuple[str, ...]:
        """Return the claims and volumes that this changes."""
        named = (self.volume, self.claim)
        return tuple(name for pair in self.volumes for name in pair) + self.made + tuple(filter(None, named))


@dataclass(frozen=True, slots=True)
class SimulatedState:
    """The state at a moment. `versions` is the version at which a node, a claim or a volume last changed; 0 if
    never.
    """

    view: ClusterView
    version: int = 0
    versions: Map[str, int] = field(default_factory=Map)
    placed: Map[str, str] = field(default_factory=Map)

    def changed_since(self, names: Iterable[str], version: int) -> bool:
        return any(self.versions.get(name, 0) > version for name in names)


Revise = Callable[[ScheduleResult, ClusterView], ScheduleResult | None]
"""Decides again, for the chosen node only, because something has changed; None if the pod no longer fits there."""

_NODE: Final = "node "


class SimulatedCluster:
    """Holds the present state and the log that led to it."""

    def __init__(self, view: ClusterView) -> None:
        running = {pod.key: node.name for node in view.nodes for pod in node.pods}
        self.state = SimulatedState(view, placed=Map(running))
        self.log: list[Entry] = []

    def place(self, placement: ScheduleResult, seen: SimulatedState, revise: Revise, at: int) -> bool:
        """Place a pod as decided on `seen`; return whether it was done.

        If its node, claims or volumes have changed since then, the revised placement counts; False without one.
        """
        if placement.pod.key in self.state.placed:
            return False
        entry = _entry(placement, at)
        if self.state.changed_since(_touched(entry, self.state.view), seen.version):
            revised = revise(placement, self.state.view)
            if revised is None:
                return False
            placement = revised
        self.apply(_entry(placement, at))
        return True

    def apply(self, entry: Entry) -> None:
        """Apply a change and log it. Raises ImpossibleChange, and then nothing has changed."""
        try:
            self.state = _applied(self.state, entry)
        except KeyError as error:
            raise ImpossibleChange(f"there is no {error.args[0]}") from error
        self.log.append(entry)

    def rollback(self, state: SimulatedState) -> None:
        """Return to an earlier state of this cluster and forget what came after it."""
        del self.log[state.version :]
        self.state = state


def _entry(placement: ScheduleResult, at: int) -> Entry:
    volumes = tuple((claim.key, volume.name) for claim, volume in placement.volumes.volumes)
    made = tuple(claim.key for claim in placement.volumes.provision)
    return Entry(at, SimulatedChange.PLACE, placement.node, placement.pod.key, volumes, made)


def _applied(state: SimulatedState, entry: Entry) -> SimulatedState:
    view, placed = _APPLYING[entry.change](state.view, state.placed, entry)
    version = state.version + 1
    changed = _touched(entry, state.view)
    return SimulatedState(view, version, state.versions.update(dict.fromkeys(changed, version)), placed)


def _touched(entry: Entry, view: ClusterView) -> tuple[str, ...]:
    """Return the names of everything that an entry changes: nodes, claims, volumes, and pools of storage."""
    node, storage = view.node(entry.node), view.storage
    labels = {} if node is None else node.labels
    claims = (storage.snapshot.claims[key] for key in entry.made if key in storage.snapshot.claims)
    pools = {pool.key for claim in claims for pool in storage.pools.pools_of(class_of(claim), labels)}
    return (_NODE + entry.node, *entry.touches(), *(f"pool {key}" for key in pools))


Placed = Map[str, str]
After = tuple[ClusterView, Placed]


def _placing(view: ClusterView, placed: Placed, entry: Entry) -> After:
    node, there = _node(view, entry.node), placed.get(entry.pod)
    if there is not None:
        raise ImpossibleChange(f"{entry.pod} is already on {there}")
    if entry.volumes or entry.made:
        storage, snapshot = view.storage, view.storage.snapshot
        for claim_key, name in entry.volumes:
            storage = with_bound(storage, snapshot.claims[claim_key], snapshot.volumes[name])
        for claim_key in entry.made:
            claim = snapshot.claims[claim_key]
            made = made_volume(claim, snapshot.classes[class_of(claim)].provisioner, node.zone)
            # No report changes here.
            storage = replace(storage, pools=with_booked(storage.pools, claim, node.node, view.now))
            storage = with_bound(storage, claim, made)
        view = view.with_storage(storage)
    return view.with_pod(view.storage.snapshot.pods[entry.pod], entry.node), placed.set(entry.pod, entry.node)


def _taking_away(view: ClusterView, placed: Placed, entry: Entry) -> After:
    _node(view, entry.node)
    if placed.get(entry.pod) != entry.node:
        raise ImpossibleChange(f"{entry.pod} is not on {entry.node}")
    return view.without_pod(entry.pod, entry.node), placed.delete(entry.pod)


def _cordoning(view: ClusterView, placed: Placed, entry: Entry) -> After:
    return view.with_node(with_fields(_node(view, entry.node).node, unschedulable=True)), placed


def _removing(view: ClusterView, placed: Placed, entry: Entry) -> After:
    """What is still there goes with the node."""
    for pod in _node(view, entry.node).pods:
        placed = placed.delete(pod.key) if pod.key in placed else placed
    return view.without_node(entry.node), placed


def _adding(view: ClusterView, placed: Placed, entry: Entry) -> After:
    if view.node(entry.node) is not None or not entry.node:
        raise ImpossibleChange(f'node "{entry.node}" already exists')
    return with_added_node(view, entry.node, _node(view, entry.like)), placed


def _failing_volume(view: ClusterView, placed: Placed, entry: Entry) -> After:
    return view.with_storage(with_failed_volume(view.storage, entry.volume)), placed


def _failing_driver(view: ClusterView, placed: Placed, entry: Entry) -> After:
    return view.with_storage(with_failed_driver(view.storage, entry.driver, view.numbers), view.numbers), placed


def _making_claim(view: ClusterView, placed: Placed, entry: Entry) -> After:
    return view.with_storage(with_new_claim(view.storage, entry.claim)), placed


_APPLYING: Final[Mapping[SimulatedChange, Callable[[ClusterView, Placed, Entry], After]]] = {
    SimulatedChange.PLACE: _placing,
    SimulatedChange.TAKE_AWAY: _taking_away,
    SimulatedChange.CORDON: _cordoning,
    SimulatedChange.REMOVE_NODE: _removing,
    SimulatedChange.ADD_NODE: _adding,
    SimulatedChange.FAIL_VOLUME: _failing_volume,
    SimulatedChange.FAIL_DRIVER: _failing_driver,
    SimulatedChange.NEW_CLAIM: _making_claim,
}


def _node(view: ClusterView, name: str) -> NodeInfo:
    state = view.node(name)
    if state is None:
        raise KeyError(name)
    return state
