"""Whether existing volumes and nodes take more replicas of a StatefulSet, by the rules that hold volumes. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from msgspec import Struct, structs

from binder.holds.ending import HoldWorld
from binder.holds.hold_pass import HeldReplica, plan_holds
from binder.holds.limits import HoldLimits
from binder.holds.wanted import MAX_REPLICAS
from binder.matching.index import VolumeIndex
from binder.model.decision import Mode
from binder.model.view import PlanSettings, View
from binder.reservation.contract import Annotations
from kube.objects.model import Namespace, StorageClass
from kube.objects.stateful_set import ResourceQuota, StatefulSet
from kube.persistent_map import Map
from kube.store.snapshot import Snapshot


class PlacedReplica(Struct, frozen=True, rename="camel"):
    """A replica to come with the volume of each of its claims, by the claim's name."""

    ordinal: int
    zone: str
    volumes: dict[str, str]


class ReplicaAnswer(Struct, frozen=True, rename="camel"):
    """`wanted` replicas, None for as many as fit. `placed` are those to come that fit, `missing` the first that does
    not, and why. `runs_out_first` is the first zone without volumes for a replica that would have balanced the set.
    """

    stateful_set: str
    wanted: int | None
    placed: tuple[PlacedReplica, ...]
    missing: int | None
    why: str
    runs_out_first: str

    def __str__(self) -> str:
        zone = f"; {self.runs_out_first} runs out first" if self.runs_out_first else ""
        count = len(self.placed)
        if self.wanted is None:
            end = "" if self.missing is None else f" Nothing fits replica {self.missing}: {self.why}"
            return f"{count} more replica{'s' if count != 1 else ''} fit{'s' if count == 1 else ''}{zone}.{end}"
        if self.missing is None:
            return f"{self.stateful_set}: volumes and nodes for {self.wanted} replicas are there{zone}."
        return f"{self.stateful_set}: nothing fits replica {self.missing}{zone}: {self.why}"


def replicas_that_fit(
    owner: StatefulSet,
    wanted: int | None,
    snapshot: Snapshot,
    sets: Iterable[StatefulSet],
    quotas: Iterable[ResourceQuota],
    now: datetime,
) -> ReplicaAnswer:
    """Return what is there for the set's replicas, whether or not volumes of its classes would be held."""
    settings = PlanSettings(default_mode=Mode.PREBIND)
    notes = settings.annotations
    asking = _with_number(owner, MAX_REPLICAS if wanted is None else wanted, notes)
    others = {each.key: _with_number(each, 0, notes) for each in sets}
    world = HoldWorld(others | {owner.key: asking}, {owner.namespace: Namespace(owner.namespace, "", 0)}, tuple(quotas))
    classes = Map({name: _in_no_mode(each, notes) for name, each in snapshot.classes.items()})
    view = View(replace(snapshot, classes=classes), VolumeIndex.of(snapshot.volumes.values()), settings=settings)
    plan = plan_holds(view, world, HoldLimits(max_share=1.0, max_per_namespace=10**9), now)
    unheld = next((each for each in plan.unheld if each.owner.key == owner.key), None)
    passed_over = (each.passed_over[0] for each in plan.holds if each.passed_over)
    return ReplicaAnswer(
        stateful_set=f"statefulset/{owner.name}",
        wanted=wanted,
        placed=tuple(map(_placed, plan.holds)),
        missing=None if unheld is None else unheld.ordinal if unheld.ordinal is not None else owner.start,
        why="" if unheld is None else unheld.why,
        runs_out_first=next(passed_over, ""),
    )


def _placed(held: HeldReplica) -> PlacedReplica:
    volumes = {each.claim.name: each.volume.name for each in held.placements}
    return PlacedReplica(held.replica.ordinal, held.zone, volumes)


def _with_number(owner: StatefulSet, count: int, notes: Annotations) -> StatefulSet:
    kept = tuple(pair for pair in owner.annotations if pair[0] != notes.hold_replicas)
    return structs.replace(owner, annotations=(*kept, (notes.hold_replicas, str(count))))


def _in_no_mode(storage_class: StorageClass, notes: Annotations) -> StorageClass:
    kept = tuple(pair for pair in storage_class.annotations if pair[0] != notes.mode)
    return structs.replace(storage_class, annotations=kept)
