"""What is checked again inside a worker's turn, for which a decision may have waited, and how its attempt ends.

Every volume needs a verdict that is still recent. Pod and claims are read from the API server if volumes are going to
be committed, and the node for which they were chosen has to fit the pod still. A volume's health is evaluated in the
version that is about to be written, never in the one that was planned with. This module also has what all writers
share: the settings of writing, and when a volume is still the one that was offered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from binder.assignment.volume_policy import reject_health
from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.matching.matching import is_mine
from binder.matching.node_fit import reject_node, reject_reach, reject_resources
from binder.matching.rejection import Reason
from binder.model.decision import Finish, Lost, Mode, Outdated, Placement, Reserve
from binder.model.view import PlanSettings, View
from binder.model.waiting_pod import waiting_pod
from binder.planning.commitment import decisive, may_commit
from binder.planning.let_go import leaves_a_node
from binder.reservation.contract import Annotations
from binder.writers.health_gate import HealthGate
from binder.writers.object_client import LiveVolume, ObjectClient
from kube.clock import Clock
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, Claim, Pod, Volume, value_of
from kube.store.node_view import node_view


@dataclass(frozen=True, slots=True)
class ActSettings:
    """The user's settings for writing. `ttl`: how long a reservation lasts."""

    annotations: Annotations = field(default_factory=Annotations)
    ttl: timedelta = timedelta(minutes=10)


class EndedAttempt(Exception):
    """Ends the attempt for a pod before everything is written."""

    def __init__(self, outcome: Lost | Outdated) -> None:
        super().__init__(outcome.why)
        self.outcome = outcome


class LostPlacement(EndedAttempt):
    """Another writer was faster, or the volume must not be used any more."""

    def __init__(self, placement: Placement, why: str, reason: Reason = Reason.CLAIMED_BY_OTHER) -> None:
        super().__init__(Lost(placement, why, reason))


class OutdatedDecision(EndedAttempt):
    """The pod has to be planned again."""

    def __init__(self, why: str) -> None:
        super().__init__(Outdated(why))


def same_offer(chosen: Volume, fresh: Volume, claim: Claim, annotations: Annotations, now: datetime) -> bool:
    """Whether a volume that changed since it was chosen is still usable for the claim and offers the same."""
    reservation = annotations.reservation_of(fresh)
    if reservation is not None and reservation.excludes(now, claim):
        return False
    unchanged = msgspec.structs.replace(fresh, resource_version=chosen.resource_version, annotations=chosen.annotations)
    return unchanged == chosen


def what_happened(fresh: Volume) -> str:
    """Return in a few words why a volume is no longer the one that was chosen."""
    if fresh.deleting:
        return "is being deleted"
    if fresh.claim is not None:
        return f"was taken by claim {fresh.claim.key}"
    return "changed"


S = TypeVar("S")
T = TypeVar("T")

AT_ONCE: Final = 4
"""Claims of one pod that are read or bound concurrently."""


async def side_by_side(work: Callable[[S], Awaitable[T]], subjects: Iterable[S]) -> list[T]:
    """Let all finish, then raise the first failure: no bind is interrupted because another one failed."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(subject: S) -> T:
        async with turns:
            return await work(subject)

    results = await asyncio.gather(*map(in_turn, subjects), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


class Preconditions:
    """Checks again what a decision was based on."""

    def __init__(self, client: ObjectClient, gate: HealthGate, clock: Clock, settings: PlanSettings) -> None:
        self._client = client
        self._gate = gate
        self._clock = clock
        self._settings = settings
        self._no_index = VolumeIndex()
        self._node_storage = NodeStorage()

    async def refreshed(self, decision: Reserve) -> Reserve:
        """Return the decision with its present claims. Raises OutdatedDecision if it has to be made again."""
        await self.probe(decision)
        if decision.mode is Mode.ANNOTATE:
            self._require_same(decision.pod, self._client.snapshot().pods.get(decision.pod.key))
            return decision
        pod, claims = await asyncio.gather(
            self._client.pod(decision.pod.key),
            side_by_side(self._claim, [placement.claim for placement in decision.placements]),
        )
        self._require_same(decision.pod, pod)
        if not may_commit(decision.pod, self._client.snapshot()):
            raise OutdatedDecision(f"kube-scheduler may be scheduling a pod with the claims of {decision.pod.key}")
        self._require_fit(decision)
        pairs = zip(claims, decision.placements, strict=True)
        return replace(decision, placements=tuple(Placement(claim, planned.volume) for claim, planned in pairs))

    async def probe(self, decision: Reserve | Finish) -> None:
        """Obtain a recent verdict on each volume. Raises OutdatedDecision if a driver is slow."""
        now = self._clock.now()
        if not self._gate.unprobed(decision.volumes, now):
            return
        # A turn is not spent on a driver that others wait for already, nor for long on any other.
        if not self._gate.is_slow(decision.volumes):
            await self._gate.probe(decision.volumes, now)
        if self._gate.is_slow(decision.volumes):
            raise OutdatedDecision("the driver of a chosen volume is slow to answer")

    async def reread(self, placement: Placement, name: str) -> LiveVolume:
        """Read a volume of the placement that changed. Raises LostPlacement if it is gone."""
        live = await self._client.volume(name)
        if live is None:
            raise LostPlacement(placement, f"volume {name} was deleted")
        return live

    def require_healthy(self, placement: Placement, volume: Volume) -> None:
        """Evaluate the version of the volume that is about to be written, or a newer one that is known.

        Raises LostPlacement if the volume must not be used, OutdatedDecision if it has to be probed again.
        """
        snapshot = self._client.snapshot()
        known = snapshot.volumes.get(volume.name)
        if known is not None and known.uid == volume.uid and known.resource_version > volume.resource_version:
            volume = known
        view = View(
            snapshot,
            self._no_index,
            verdicts=self._gate.verdicts,
            settings=self._settings,
            node_storage=self._node_storage,
        )
        rejected = reject_health(view, volume, self._clock.now())
        if rejected is not None:
            raise LostPlacement(placement, f"volume {volume.name}: {rejected.offered}", rejected.reason)
        if volume.driver and (volume.driver, volume.handle) not in self._gate.verdicts:
            raise OutdatedDecision(f"new health information about volume {volume.name} arrived since the probe")

    def require_reach(self, pod: Pod, node: str = "") -> None:
        """Raise OutdatedDecision if the pod's volumes, as known now, leave it no node; `node` is the likeliest one.

        The affinity of a volume may change after it was committed (MutablePVNodeAffinity, KEP-5381).
        """
        snapshot = self._client.snapshot()
        seen = snapshot.pods.get(pod.key, pod)
        waiting = waiting_pod(snapshot, self._settings.annotations, seen)
        if waiting is not None and not leaves_a_node(waiting, snapshot.nodes, node):
            raise OutdatedDecision(f"no node that fits pod {pod.key} reaches all of its volumes any more")

    async def _claim(self, planned: Claim) -> Claim:
        fresh = await self._client.claim(planned.key)
        if fresh is None or _wish(fresh) != _wish(planned):
            raise OutdatedDecision(f"claim {planned.key} {'was deleted' if fresh is None else 'changed'}")
        volumes = self._client.snapshot().volumes
        named = self._client.snapshot().volumes_by_claim.get(planned.key, ())
        if any(is_mine(fresh, volumes[name]) for name in named):
            raise OutdatedDecision(f"a volume already names claim {planned.key}")
        return fresh

    def _require_fit(self, decision: Reserve) -> None:
        """Raise OutdatedDecision if the node for which the volumes were chosen does not fit the pod any more."""
        pod, snapshot = decision.pod, self._client.snapshot()
        node = snapshot.nodes.get(decision.node)
        if node is None:
            raise OutdatedDecision(f"node {decision.node} was deleted")
        rejected = reject_reach(decision.volumes, node)
        if pod.node_name != node.name:
            rejected = rejected or reject_node(pod, node)
            rejected = rejected or reject_resources(pod, node.name, node_view(snapshot, node.name).free)
        if rejected is not None:
            raise OutdatedDecision(f"node {rejected}")

    def _require_same(self, planned: Pod, seen: Pod | None) -> None:
        if seen is None or decisive(seen) != decisive(planned):
            raise OutdatedDecision(f"pod {planned.key} {'was deleted' if seen is None else 'changed'}")


def _wish(claim: Claim) -> Claim:
    """What a plan for the claim depends on: all of it but its version, its health and most of its annotations."""
    kept = tuple((key, value_of(claim.annotations, key) or "") for key in (BIND_COMPLETED, SELECTED_NODE))
    return structs.replace(claim, resource_version=0, health=None, annotations=kept)
