"""A cluster in memory: versions, compare-and-set, checkpoints that cost nothing, and a log that can be replayed.

States are frozen values, so keeping one is a checkpoint and going back to it is an assignment. Every change is an entry
of the log, and the number of entries is the version. Replayed on the same beginning a log leads to the same end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from immutables import Map
from msgspec import Struct
from msgspec.structs import replace as with_fields

from binder.matching import class_of
from binder.view import View
from kube.model import (
    BIND_COMPLETED,
    Claim,
    ClaimReference,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    Volume,
)
from kube.topology import ZONE_LABEL
from scheduler.cluster import ClusterView
from scheduler.node_state import NodeState
from scheduler.plugin import Placement


class ImpossibleChange(ValueError):
    """A change that this cluster cannot undergo: it lacks what is named, or that is taken."""


class Change(StrEnum):
    """What can happen to a simulated cluster."""

    PLACE = "place"
    TAKE_AWAY = "takeAway"
    CORDON = "cordon"
    REMOVE_NODE = "removeNode"


class Entry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One change at a simulated moment, in microseconds. `volumes` are (claim, volume); `made` claims get a new one."""

    at: int
    change: Change
    node: str
    pod: str = ""
    volumes: tuple[tuple[str, str], ...] = ()
    made: tuple[str, ...] = ()

    def touches(self) -> tuple[str, ...]:
        """Return the claims and volumes that this changes."""
        return tuple(name for pair in self.volumes for name in pair) + self.made


@dataclass(frozen=True, slots=True)
class State:
    """A moment. `versions` says at which version a node, a claim or a volume changed last; never means 0.

    `placed` has the node of every pod that has one.
    """

    view: ClusterView
    version: int = 0
    versions: Map[str, int] = field(default_factory=Map)
    placed: Map[str, str] = field(default_factory=Map)

    def changed_since(self, names: Iterable[str], version: int) -> bool:
        return any(self.versions.get(name, 0) > version for name in names)


Revise = Callable[[Placement, ClusterView], Placement | None]
"""Decides again, about the chosen node alone, because something has changed; None when the pod does not fit it now."""

_NODE: Final = "node "


class SimulatedCluster:
    """Holds the present state and the log of how it came about."""

    def __init__(self, view: ClusterView) -> None:
        running = {pod.key: node.name for node in view.nodes for pod in node.pods}
        self.state = State(view, placed=Map(running))
        self.log: list[Entry] = []

    def place(self, placement: Placement, seen: State, revise: Revise, at: int) -> bool:
        """Place a pod as decided on `seen`; say whether it was done.

        If its node, claims or volumes changed since then, what counts is the revised placement; False without one.
        """
        if placement.pod.key in self.state.placed:
            return False
        if self.state.changed_since((_NODE + placement.node, *_entry(placement, at).touches()), seen.version):
            revised = revise(placement, self.state.view)
            if revised is None:
                return False
            placement = revised
        self.apply(_entry(placement, at))
        return True

    def apply(self, entry: Entry) -> None:
        """Make a change and write it down. Raises ImpossibleChange, and then nothing changed."""
        try:
            self.state = _applied(self.state, entry)
        except KeyError as error:
            raise ImpossibleChange(f"there is no {error.args[0]}") from error
        self.log.append(entry)

    def rollback(self, state: State) -> None:
        """Go back to an earlier state of this cluster: what came after it has never been."""
        del self.log[state.version :]
        self.state = state


def _entry(placement: Placement, at: int) -> Entry:
    volumes = tuple((claim.key, volume.name) for claim, volume in placement.volumes.volumes)
    made = tuple(claim.key for claim in placement.volumes.provision)
    return Entry(at, Change.PLACE, placement.node, placement.pod.key, volumes, made)


def _applied(state: State, entry: Entry) -> State:
    view, placed = state.view, state.placed
    if view.node(entry.node) is None:
        raise KeyError(entry.node)
    there = placed.get(entry.pod)
    if entry.change is Change.PLACE:
        if there is not None:
            raise ImpossibleChange(f"{entry.pod} is on {there} already")
        view, placed = _with_placed(view, entry), placed.set(entry.pod, entry.node)
    elif entry.change is Change.TAKE_AWAY:
        if there != entry.node:
            raise ImpossibleChange(f"{entry.pod} is not on {entry.node}")
        view, placed = view.without_pod(entry.pod, entry.node), placed.delete(entry.pod)
    elif entry.change is Change.CORDON:
        view = view.with_node(with_fields(_node(view, entry.node).node, unschedulable=True))
    else:
        view = view.without_node(entry.node)
    version = state.version + 1
    changed = (_NODE + entry.node, *entry.touches())
    return State(view, version, state.versions.update(dict.fromkeys(changed, version)), placed)


def _with_placed(view: ClusterView, entry: Entry) -> ClusterView:
    if entry.volumes or entry.made:
        storage, node = view.storage, _node(view, entry.node)
        snapshot = storage.snapshot
        for claim_key, name in entry.volumes:
            storage = _bound(storage, snapshot.claims[claim_key], snapshot.volumes[name])
        for claim_key in entry.made:
            claim = snapshot.claims[claim_key]
            storage = _bound(storage, claim, _made(claim, snapshot.classes[class_of(claim)].provisioner, node))
        view = view.with_storage(storage)
    return view.with_pod(view.storage.snapshot.pods[entry.pod], entry.node)


def _bound(storage: View, claim: Claim, volume: Volume) -> View:
    """Return the storage after the bind of a claim is complete."""
    snapshot, before = storage.snapshot, storage.snapshot.volumes.get(volume.name)
    if claim.volume_name not in {"", volume.name}:
        raise ImpossibleChange(f"{claim.key} has {claim.volume_name} already")
    holder = None if before is None else before.claim
    if holder is not None and (holder.namespace, holder.name) != (claim.namespace, claim.name):
        raise ImpossibleChange(f"{volume.name} is of {holder.namespace}/{holder.name} already")
    annotations = tuple(sorted({**dict(claim.annotations), BIND_COMPLETED: "yes"}.items()))
    holding = with_fields(claim, volume_name=volume.name, phase="Bound", annotations=annotations)
    held = with_fields(volume, claim=ClaimReference(claim.namespace, claim.name, claim.uid), phase="Bound")
    claims, volumes = snapshot.claims.set(claim.key, holding), snapshot.volumes.set(volume.name, held)
    index = storage.index.with_volume(before, held)
    return replace(storage, snapshot=replace(snapshot, claims=claims, volumes=volumes), index=index)


def _made(claim: Claim, provisioner: str, node: NodeState) -> Volume:
    """Return the volume a provisioner makes for the claim: of exactly its size, in the zone of the node."""
    place = Requirement(ZONE_LABEL, "In", (node.zone,))
    return Volume(
        name=f"pvc-{claim.uid}",
        uid=f"pvc-{claim.uid}",
        resource_version=1,
        storage_class=claim.storage_class,
        capacity=claim.request,
        access_modes=claim.access_modes,
        volume_mode=claim.volume_mode,
        node_affinity=NodeSelector((NodeSelectorTerm((place,)),)) if node.zone else None,
        reclaim_policy="Delete",
        source="csi",
        driver=provisioner,
        handle=f"pvc-{claim.uid}",
    )


def _node(view: ClusterView, name: str) -> NodeState:
    found = view.node(name)
    if found is None:
        raise KeyError(name)
    return found
