"""One pass over all StatefulSets that want volumes held: what ends, and what is held now, replica by replica.

Each missing replica is planned as the pod that it will be, with all checks of mode prebind (binder.planning.plan),
beside running pods and the replicas that have their volumes: all of its volumes or none. A set's replicas are served in
order and up to the first that gets none, so that what is held is what a scale-up uses first. Volumes that are given up
in a pass are not held again in the same one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from binder.holds.ending import Adoption, HoldCause, HoldEnding, HoldWorld, judge_hold
from binder.holds.limits import HoldCounts, HoldLimits
from binder.holds.supposition import Supposition
from binder.holds.wanted import (
    ComingReplica,
    ambiguous_template,
    coming_replica,
    invalid_number,
    replica_of,
    same_names,
    wanted_replicas,
)
from binder.holds.zones import most_wanted_first, zone_of_replica
from binder.model.decision import COMMITTING, Placement, Reserve
from binder.model.view import View
from binder.planning.claim_standing import mode_of
from binder.reservation.pins import hold_keys, pins_of
from kube.objects.model import Volume
from kube.objects.stateful_set import StatefulSet


@dataclass(frozen=True, slots=True)
class HeldReplica:
    """Hold these volumes for the claims to come of a replica, all or none.

    `passed_over`: zones that would balance the set better, and have no volumes for the replica.
    """

    replica: ComingReplica
    zone: str
    placements: tuple[Placement, ...]
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnheldReplica:
    """A replica that gets no volumes, and why; the set as a whole if there is no ordinal."""

    owner: StatefulSet
    ordinal: int | None
    why: str


@dataclass(frozen=True, slots=True)
class HoldPlan:
    """The result of a pass. `standing`: replicas, by set and ordinal, all of whose volumes are held already.

    `missing`: uids of sets that holds name, and that are not seen.
    """

    endings: tuple[HoldEnding, ...]
    adoptions: tuple[Adoption, ...]
    holds: tuple[HeldReplica, ...]
    unheld: tuple[UnheldReplica, ...]
    standing: tuple[tuple[StatefulSet, int], ...] = ()
    missing: frozenset[str] = frozenset()


def plan_holds(view: View, world: HoldWorld, limits: HoldLimits, now: datetime) -> HoldPlan:
    """Return what to write now. It follows from the objects alone."""
    return _HoldPass(view, world, limits, now).plan()


class _HoldPass:
    """The state of one pass."""

    def __init__(self, view: View, world: HoldWorld, limits: HoldLimits, now: datetime) -> None:
        self._view, self._world, self._now = view, world, now
        self._counts = HoldCounts(limits, world)
        self._endings: dict[str, HoldEnding] = {}
        self._adoptions: list[Adoption] = []
        self._holds: list[HeldReplica] = []
        self._unheld: list[UnheldReplica] = []
        self._standing: list[tuple[StatefulSet, int]] = []
        self._named: set[str] = set()

    def plan(self) -> HoldPlan:
        self._judge(self._counted())
        served = [(owner, list(self._coming(owner))) for owner in self._sets()]
        begun = [each for _, coming in served for each in coming if self._held_of(each)]
        self._supposed = Supposition(self._view, begun, [each for _, coming in served for each in coming], self._now)
        for replica in begun:
            self._look_for_node(replica)
        for owner, coming in served:
            self._serve(owner, coming)
        return HoldPlan(
            tuple(self._endings.values()),
            tuple(self._adoptions),
            tuple(self._holds),
            tuple(self._unheld),
            tuple(self._standing),
            frozenset(self._named.difference(owner.uid for owner in self._world.sets.values())),
        )

    def _counted(self) -> list[Volume]:
        """Count all volumes; return the held ones."""
        annotations, held = self._view.settings.annotations, []
        for volume in self._view.snapshot.volumes.values():
            self._counts.count_volume(volume, annotations)
            if volume.annotations and hold_keys(volume, annotations):
                held.append(volume)
        return sorted(held, key=lambda volume: volume.name)

    def _judge(self, held: Sequence[Volume]) -> None:
        claims: set[str] = set()
        for volume in held:
            judged = judge_hold(volume, self._view, self._world, self._now)
            pins = pins_of(volume, self._view.settings.annotations)
            key = pins.claim if pins is not None else ""
            if pins is not None and pins.hold is not None:
                self._named.add(pins.hold.set_uid)
            if isinstance(judged, Adoption):
                self._adoptions.append(judged)
            elif judged is None and key in claims:
                judged = HoldEnding(volume, key, HoldCause.DUPLICATE, clear=True)
            if isinstance(judged, HoldEnding):
                self._endings[volume.name] = judged
                continue
            claims.add(key)
            formed = replica_of(key, self._world.sets) if key not in self._view.snapshot.claims else None
            if formed is not None:
                self._counts.coming[key] = formed[2]

    def _sets(self) -> Iterator[StatefulSet]:
        """Yield the sets that want holds and may have them, in order."""
        annotations, twice = self._view.settings.annotations, same_names(self._world.sets.values())
        for _, owner in sorted(self._world.sets.items()):
            problem = invalid_number(owner, annotations)
            if not problem and wanted_replicas(owner, annotations) is None:
                continue
            template = ambiguous_template(owner, twice)
            if template:
                problem = f"another StatefulSet forms the names of the claims of template {template} too"
            problem = problem or self._wrong_mode(owner)
            if problem:
                self._unheld.append(UnheldReplica(owner, None, problem))
            else:
                yield owner

    def _wrong_mode(self, owner: StatefulSet) -> str:
        if not owner.templates:
            return "it has no volumeClaimTemplates"
        for claim in owner.templates:
            storage_class = self._view.snapshot.classes.get(claim.storage_class or "")
            if storage_class is None:
                return f"template {claim.name} names no StorageClass that exists"
            mode = mode_of(storage_class, self._view.settings)
            if mode not in COMMITTING:
                return f"class {storage_class.name} is in mode {mode}; volumes are held in modes prebind and complete"
        return ""

    def _coming(self, owner: StatefulSet) -> Iterator[ComingReplica]:
        """Yield the replicas without a pod for which volumes are wanted and none is given up in this pass."""
        annotations, given_up = self._view.settings.annotations, {each.claim for each in self._endings.values()}
        for ordinal in wanted_replicas(owner, annotations) or ():
            replica = coming_replica(owner, ordinal, self._view.snapshot, annotations)
            if replica is not None and given_up.isdisjoint(claim.key for claim in replica.claims):
                yield replica

    def _held_of(self, replica: ComingReplica) -> tuple[Volume, ...]:
        """Return the volumes that are held for the replica, given up or not."""
        snapshot = self._view.snapshot
        names = (name for claim in replica.missing for name in snapshot.volumes_by_claim.get(claim.key, ()))
        return tuple(snapshot.volumes[name] for name in names)

    def _look_for_node(self, replica: ComingReplica) -> None:
        """Give up what is held where no node fits the replica any more."""
        why = self._supposed.without_node(replica)
        if why:
            self._give_up(replica, HoldCause.NO_NODE, why)

    def _give_up(self, replica: ComingReplica, cause: HoldCause, why: str) -> None:
        for volume in self._held_of(replica):
            if hold_keys(volume, self._view.settings.annotations):
                key = volume.claim.key if volume.claim is not None else ""
                self._endings[volume.name] = HoldEnding(volume, key, cause, clear=True, why=why)

    def _serve(self, owner: StatefulSet, coming: Sequence[ComingReplica]) -> None:
        for replica in coming:
            held = self._held_of(replica)
            if any(volume.name in self._endings for volume in held):
                continue
            if len(held) >= len(replica.missing):
                self._standing.append((owner, replica.ordinal))
                continue
            why = self._hold(replica)
            if why:
                self._unheld.append(UnheldReplica(owner, replica.ordinal, why))
                self._give_up(replica, HoldCause.HALF_HELD, why)
                return

    def _hold(self, replica: ComingReplica) -> str:
        """Find volumes for the replica in the zone that balances its set best; return why there are none."""
        unbound = [claim.name for claim in replica.claims if claim not in replica.missing and not claim.bind_completed]
        if unbound:
            return f"claim {unbound[0]} exists and is not bound: it gets its volume with its pod"
        first, zones = "", self._zones(replica)
        for number, zone in enumerate(zones):
            chosen = self._supposed.volumes_for(replica, zone)
            why = chosen if isinstance(chosen, str) else self._limit(chosen)
            if isinstance(chosen, Reserve) and not why:
                placements = tuple(each for each in chosen.placements if each.claim in replica.missing)
                self._counts.hold((each.claim, each.volume) for each in placements)
                self._supposed.hold(replica, placements)
                self._holds.append(HeldReplica(replica, zone, placements, tuple(zones[:number])))
                return ""
            first = first or why
        return first or "no node fits its pod template"

    def _limit(self, chosen: Reserve) -> str:
        return self._counts.against((each.claim, each.volume) for each in chosen.placements)

    def _zones(self, replica: ComingReplica) -> list[str]:
        """Return where the replica may go: where it is tied to already, else the zones, the best for balance first."""
        owner, snapshot, zones = replica.owner, self._supposed.snapshot, self._supposed.zones
        tied = zone_of_replica(owner, replica.ordinal, snapshot, zones)
        if tied:
            return [tied]
        before = [zone_of_replica(owner, each, snapshot, zones) for each in range(owner.start, replica.ordinal)]
        return most_wanted_first(zones.of_pod(replica.pod), before)
