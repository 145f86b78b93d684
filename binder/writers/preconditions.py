"""What is checked again when a worker's turn begins, for which a decision may have waited.

Every volume needs a verdict that is still recent. If volumes are going to be committed, pod and claims are read from
the API server, and the node for which they were chosen has to fit the pod still. Only a gated pod is taken from the
cache while it is so young that it cannot be far behind, and in mode prebind its claims too if they are: to read them
would be two of three requests before a new pod's volumes are held. Nodes, and what is booked on them, are not read:
after an outage of the API server nothing is committed until the watches show what happened meanwhile. What is checked
of a volume right before it is written is in `binder.writers.write_checks`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from msgspec import structs

from binder.booking.room import room_left
from binder.matching.matching import is_mine
from binder.matching.node_fit import reject_node, reject_reach, reject_resources
from binder.model.decision import Finish, Mode, Placement, Provision, Reserve
from binder.planning.commitment import decisive, may_commit
from binder.writers.attempt import OutdatedDecision, side_by_side
from binder.writers.health_gate import HealthGate
from binder.writers.object_client import ObjectClient
from kube.clock import Now
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, Claim, Pod, value_of

YOUNG: Final = timedelta(seconds=5)
"""The cache is at most this far behind about an object that it shows and that was created this recently."""


class Preconditions:
    """Checks again what a decision was based on."""

    def __init__(
        self, client: ObjectClient, gate: HealthGate, clock: Now, recovered: Callable[[], Awaitable[bool]]
    ) -> None:
        """`recovered` returns when no outage of the API server hides what happened, and whether one did."""
        self._client, self._gate, self._clock, self._recovered = client, gate, clock, recovered

    async def refreshed(self, decision: Reserve) -> Reserve:
        """Return the decision with its present claims. Raises OutdatedDecision if it has to be made again."""
        if decision.mode is not Mode.ANNOTATE:
            await self._require_no_outage()
        await self.probe(decision)
        if decision.mode is Mode.ANNOTATE:
            self.require_standing(decision)
            return decision
        (pod, claims), _ = await asyncio.gather(self._pod_and_claims(decision), self._require_bound(decision))
        self._require_same(decision.pod, pod)
        self.require_standing(decision)
        pairs = zip(claims, decision.placements, strict=True)
        return replace(decision, placements=tuple(Placement(claim, planned.volume) for claim, planned in pairs))

    async def fresh_claims(self, decision: Provision) -> list[Claim]:
        """Return the claims whose volumes are to be made, as they are now.

        Raises OutdatedDecision if they must not be made as decided.
        """
        await self._require_no_outage()
        await self.probe(decision)
        chosen = [placement.claim for placement in decision.placements]
        pod, claims, *_ = await asyncio.gather(
            self._client.pod(decision.pod.key),
            side_by_side(self._claim, decision.claims),
            side_by_side(self._claim, chosen),
            self._require_bound(decision),
        )
        self._require_same(decision.pod, pod)
        self.require_standing(decision)
        return claims

    def require_standing(self, decision: Reserve | Provision) -> None:
        """Raise OutdatedDecision if the decision is outdated by what is known now, without a request."""
        snapshot = self._client.snapshot()
        self._require_same(decision.pod, snapshot.pods.get(decision.pod.key))
        for claim in decision.bound:
            _require_same_volume(claim, snapshot.claims.get(claim.key))
        if isinstance(decision, Reserve) and decision.mode is Mode.ANNOTATE:
            return
        if not may_commit(decision.pod, snapshot):
            raise OutdatedDecision(f"kube-scheduler may be scheduling a pod with the claims of {decision.pod.key}")
        if isinstance(decision, Provision) or decision.new_node is None:
            self._require_fit(decision)

    async def _require_no_outage(self) -> None:
        if await self._recovered():
            raise OutdatedDecision("the API server was out of reach")

    async def probe(self, decision: Reserve | Finish | Provision) -> None:
        """Obtain a recent verdict on each volume. Raises OutdatedDecision if a driver is slow."""
        now = self._clock.now()
        if not self._gate.unprobed(decision.volumes, now):
            return
        # A turn is not spent on a driver that others wait for already, nor for long on any other.
        if not self._gate.is_slow(decision.volumes):
            await self._gate.probe(decision.volumes, now)
        if self._gate.is_slow(decision.volumes):
            raise OutdatedDecision("the driver of a chosen volume is slow to answer")

    async def _pod_and_claims(self, decision: Reserve) -> tuple[Pod | None, list[Claim]]:
        """Return them as they are now, or as the cache shows them while they are young and no scheduler sees the pod.

        What the cache does not show yet is then noticed after the write, as after a read. A claim that is gone costs no
        volume in mode prebind: the PV controller releases the volume, and it is free again because it was never bound.
        Mode complete goes on to mark it as Bound, so it always reads the claims.
        """
        key, wanted = decision.pod.key, [placement.claim for placement in decision.placements]
        if not decision.pod.scheduling_gates or not self._are_young(decision.pod):
            return await asyncio.gather(self._client.pod(key), side_by_side(self._claim, wanted))
        if decision.mode is not Mode.PREBIND or not self._are_young(*wanted):
            claims = await side_by_side(self._claim, wanted)
            return self._client.snapshot().pods.get(key), claims
        snapshot = self._client.snapshot()
        known = [self._require_unchanged(claim, snapshot.claims.get(claim.key)) for claim in wanted]
        return snapshot.pods.get(key), known

    def _are_young(self, *objects: Pod | Claim) -> bool:
        """Whether they were created so recently. A clock that is wrong only moves this window of an object's life."""
        now = self._clock.now()
        return all(each.created is not None and abs(now - each.created) < YOUNG for each in objects)

    async def _require_bound(self, decision: Reserve | Provision) -> None:
        """Raise OutdatedDecision if a claim whose volume decided the place is not bound to it any more.

        The cache may show the claim of the pod's predecessor beside the others, which were created again.
        """
        await side_by_side(self._read_bound, decision.bound)

    async def _read_bound(self, claim: Claim) -> None:
        _require_same_volume(claim, await self._client.claim(claim.key))

    async def _claim(self, planned: Claim) -> Claim:
        return self._require_unchanged(planned, await self._client.claim(planned.key))

    def _require_unchanged(self, planned: Claim, fresh: Claim | None) -> Claim:
        if fresh is None or not same_wish(fresh, planned):
            raise OutdatedDecision(f"claim {planned.key} {'was deleted' if fresh is None else 'changed'}")
        volumes = self._client.snapshot().volumes
        named = self._client.snapshot().volumes_by_claim.get(planned.key, ())
        if any(is_mine(fresh, volumes[name]) for name in named):
            raise OutdatedDecision(f"a volume already names claim {planned.key}")
        return fresh

    def _require_fit(self, decision: Reserve | Provision) -> None:
        """Raise OutdatedDecision if the node for which the volumes were chosen does not fit the pod any more."""
        snapshot, pod, name = self._client.snapshot(), decision.pod, decision.node
        node = snapshot.nodes.get(name)
        if node is None:
            raise OutdatedDecision(f"node {name} was deleted")
        rejected = reject_reach(decision.volumes, node)
        if pod.node_name != node.name:
            rejected = rejected or reject_node(pod, node)
            if rejected is None:
                room = room_left(snapshot, name, decision.beside - {pod.key})
                rejected = reject_resources(pod, name, room.free)
        if rejected is not None:
            raise OutdatedDecision(f"node {rejected}")

    def _require_same(self, planned: Pod, seen: Pod | None) -> None:
        if seen is None or decisive(seen) != decisive(planned):
            raise OutdatedDecision(f"pod {planned.key} {'was deleted' if seen is None else 'changed'}")


def _require_same_volume(decided: Claim, seen: Claim | None) -> None:
    if seen is None or (seen.uid, seen.volume_name, seen.deleting) != (decided.uid, decided.volume_name, False):
        raise OutdatedDecision(f"claim {decided.key} {'was deleted' if seen is None else 'changed'}")


def same_wish(fresh: Claim, planned: Claim) -> bool:
    """Whether a claim is still what was planned for."""
    return _wish(fresh) == _wish(planned)


def _wish(claim: Claim) -> Claim:
    """What a plan for the claim depends on: all of it but its version, its health and most of its annotations."""
    kept = tuple((key, value_of(claim.annotations, key) or "") for key in (BIND_COMPLETED, SELECTED_NODE))
    return structs.replace(claim, resource_version=0, health=None, annotations=kept)
