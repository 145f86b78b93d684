"""Mode provision: selects a node for the volumes that are to be made for a pod, all of its claims in one turn.

Existing volumes for other claims are set aside before that, and committed when those to be made are bound: whatever
fails in between leaves no volume bound to a pod whose others cannot be made there.

No provisioner is called before it is named on the claim. So a selection of a claim without that name, in the very
version that is written, is certainly without consequences: only such a one is taken back. The PV controller writes the
name (setClaimProvisioner in pv_controller.go). We write it when the nodes of all claims are selected: that spares it a
request for each claim, of which it has 20 a second, and an Event, for the volume often exists when it gets there.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from binder.matching.matching import class_of
from binder.model.decision import Applied, Outdated, Placement, Provision
from binder.planning.pod_claims import open_claims
from binder.provisioning.claims_in_flight import is_begun
from binder.reservation.contract import Annotations
from binder.reservation.set_aside import end_set_aside, set_aside, set_aside_of
from binder.reservation.writes import Patch, await_node, name_provisioner, provision_on, withdraw_node
from binder.writers.attempt import (
    EndedAttempt,
    LostPlacement,
    OutdatedDecision,
    same_offer,
    side_by_side,
    what_happened,
)
from binder.writers.keyed_locks import KeyedLocks
from binder.writers.object_client import FASTER, TRIES, ObjectClient
from binder.writers.preconditions import Preconditions, same_wish
from binder.writers.write_checks import WriteChecks
from kube.client.api import Check, nothing
from kube.clock import Now
from kube.objects.model import SELECTED_NODE, Claim, Pod, Volume, value_of

logger = logging.getLogger(__name__)


class KnownStorage(Protocol):
    """What is known of storage at this moment, by the planner."""

    def has_room(self, decision: Provision) -> bool:
        """Whether the pools of the decision's node still take its volumes."""

    def has_free_volume(self, claim: Claim) -> bool:
        """Whether an existing volume fits the claim: then the PV controller may bind that one."""


@dataclass(frozen=True, slots=True)
class SelectedNodes:
    """Selects nodes by a fenced API. `turns` bound how many pods are written concurrently."""

    client: ObjectClient
    preconditions: Preconditions
    checks: WriteChecks
    locks: KeyedLocks
    turns: asyncio.Semaphore
    clock: Now
    annotations: Annotations
    namespace: str
    storage: KnownStorage

    async def select(self, decision: Provision) -> Applied | Outdated:
        """Select the node for all claims of the decision, or withdraw it where no provisioner can have been called.

        A volume that was set aside before something failed is used in the next attempt, or ceases to be set aside
        (binder.reservation.set_aside). Raises KubeError if the API server fails: then some of the claims may have been
        written. LeadershipLost.
        """
        claims = (*decision.claims, *(placement.claim for placement in decision.placements))
        async with self.turns, self.locks.held([claim.key for claim in claims]):
            written: list[Claim] = []
            try:
                fresh = await self.preconditions.fresh_claims(decision)
                for placement in decision.placements:
                    await self._set_aside(placement)
                    await self._end_former(placement)
                # Once the first is written, the others follow as long as there is room: the pod is to run there. What
                # was written may be made by now, and reported.
                check: Check = partial(self._require_standing, decision)
                for number, claim in enumerate(fresh, 1):
                    # What is written last can be named at once: nothing is left that could fail.
                    provisioner = self._provisioner_of(claim) if claim is fresh[-1] else ""
                    on_node = provision_on(decision.node, self.clock.now(), self.annotations, provisioner)
                    written.append(await self._patch(claim, on_node, check))
                    rest = replace(decision, claims=decision.claims[number:])
                    check = partial(self._require_rest, rest, tuple(written))
                    if rest.claims:  # At once, so that what was written is booked before a report includes it.
                        check()
            except EndedAttempt as ending:
                for claim in reversed(written):
                    await self._take_back(claim, decision.node)
                return Outdated(ending.outcome.why)
            for claim in written[:-1]:
                await self._name_provisioner(claim)
        return Applied(())

    def _require_standing(self, decision: Provision) -> None:
        self.preconditions.require_standing(decision)
        self._require_room(decision)

    def _require_rest(self, rest: Provision, written: Iterable[Claim]) -> None:
        """Raise OutdatedDecision if there is no room for the rest, or a provisioner has given up what was written."""
        for claim in written:
            known = self.client.snapshot().claims.get(claim.key)
            kept = known is not None and known.uid == claim.uid and value_of(known.annotations, SELECTED_NODE)
            if kept != rest.node:
                raise OutdatedDecision(f"node {rest.node} is not selected any more for claim {claim.key}")
        self._require_room(rest)

    def _require_room(self, decision: Provision) -> None:
        if not self.storage.has_room(decision):
            raise OutdatedDecision(f"the storage of node {decision.node} has no room any more for {decision.pod.key}")

    async def await_node(self, pod: Pod) -> bool:
        """Record on the pod's claims that it is left to kube-scheduler, for a node to come; False if one has changed.

        Raises KubeError if the API server fails.
        """
        claims = open_claims(pod, self.client.snapshot())
        async with self.turns, self.locks.held([claim.key for claim in claims]):
            try:
                for claim in claims:
                    await self._patch(claim, await_node(pod, self.clock.now(), self.annotations))
            except EndedAttempt:
                return False
        return True

    async def read(self, claims: Iterable[str]) -> None:
        """Read these claims into the store, as they are on the API server. Raises KubeError if it fails."""
        await side_by_side(self.client.claim, claims)

    async def _set_aside(self, placement: Placement) -> None:
        """Withhold the volume from every claim but the one that it was chosen for. Raises EndedAttempt."""
        claim, volume = placement.claim, placement.volume
        for _ in range(TRIES):
            self.checks.require_healthy(placement, volume)
            if self._is_set_aside(self.client.snapshot().volumes.get(volume.name), claim):
                return
            body = set_aside(volume, claim, self.namespace, self.clock.now(), self.annotations)
            try:
                await self.client.patch_volume(volume, body)
            except FASTER:
                volume = (await self.checks.reread(placement, volume.name)).record
                if not same_offer(placement.volume, volume, claim, self.annotations, self.clock.now()):
                    raise LostPlacement(placement, f"volume {volume.name} {what_happened(volume)}") from None
            else:
                return
        raise LostPlacement(placement, f"volume {volume.name} kept changing")

    async def _end_former(self, placement: Placement) -> None:
        """Give back what was set aside for the claim before; what changes meanwhile is left to the next look at it."""
        snapshot, claim = self.client.snapshot(), placement.claim
        for name in snapshot.volumes_reserved_for.get(claim.key, ()):
            volume = snapshot.volumes[name]
            if name != placement.volume.name and self._is_set_aside(volume, claim):
                with suppress(*FASTER):
                    await self.client.patch_volume(volume, end_set_aside(volume, self.annotations))

    def _is_set_aside(self, volume: Volume | None, claim: Claim) -> bool:
        kept = set_aside_of(volume, self.annotations) if volume is not None else None
        return kept is not None and kept.is_for(claim)

    async def _patch(self, planned: Claim, body: Patch, check: Check = nothing) -> Claim:
        """Patch the claim as long as it wishes what was planned, after `check`. Raises OutdatedDecision."""
        claim: Claim | None = planned
        for _ in range(TRIES):
            if claim is None or not same_wish(claim, planned):
                raise OutdatedDecision(f"claim {planned.key} {'was deleted' if claim is None else 'changed'}")
            try:
                return await self.client.patch_claim(claim, body, check=check)
            except FASTER:
                claim = await self.client.claim(planned.key)
        raise OutdatedDecision(f"claim {planned.key} kept changing")

    async def _name_provisioner(self, selected: Claim) -> None:
        """Name it as the PV controller does, unless that was faster."""
        provisioner = self._provisioner_of(selected)
        known = self.client.snapshot().claims.get(selected.key, selected)
        if provisioner and known.uid == selected.uid and not is_begun(known):
            with suppress(*FASTER):
                await self.client.patch_claim(known, name_provisioner(provisioner))

    def _provisioner_of(self, claim: Claim) -> str:
        """Return the name to be written; empty if only the PV controller can decide that a volume is made.

        Without a CSIDriver the class may have another name than its driver, as those of migrated drivers do.
        """
        snapshot = self.client.snapshot()
        provisioner = snapshot.classes[class_of(claim)].provisioner
        return provisioner if provisioner in snapshot.csi_drivers and not self.storage.has_free_volume(claim) else ""

    async def _take_back(self, written: Claim, node: str) -> None:
        claim = await self.client.claim(written.key)
        if claim is None or claim.uid != written.uid or value_of(claim.annotations, SELECTED_NODE) != node:
            return
        if is_begun(claim) or claim.volume_name or self._is_made(claim):
            return
        try:
            await self.client.patch_claim(claim, withdraw_node(self.annotations))
        except FASTER:
            logger.info("Node stays selected: the claim changed", extra={"pvc": claim.key})

    def _is_made(self, claim: Claim) -> bool:
        return bool(self.client.snapshot().volumes_by_claim.get(claim.key))
