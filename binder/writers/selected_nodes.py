"""Mode provision: selects a node for the volumes that are to be made for a pod, all of its claims in one turn.

The PV controller names the provisioner on a claim before any provisioner is called. So a selection of a claim without
that name, in the very version that is written, is certainly without consequences: only such a one is taken back.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from binder.model.decision import Applied, Outdated, Provision
from binder.provisioning.claims_in_flight import is_begun
from binder.reservation.contract import Annotations
from binder.reservation.writes import provision_on, withdraw_node
from binder.writers.attempt import EndedAttempt, OutdatedDecision, side_by_side
from binder.writers.keyed_locks import KeyedLocks
from binder.writers.object_client import FASTER, TRIES, ObjectClient
from binder.writers.preconditions import Preconditions, same_wish
from kube.clock import Now
from kube.objects.model import SELECTED_NODE, Claim, value_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SelectedNodes:
    """Selects nodes by a fenced API. `turns` bound how many pods are written concurrently."""

    client: ObjectClient
    preconditions: Preconditions
    locks: KeyedLocks
    turns: asyncio.Semaphore
    clock: Now
    annotations: Annotations

    async def select(self, decision: Provision) -> Applied | Outdated:
        """Select the node for all claims of the decision, or withdraw it where no provisioner can have been called.

        Raises KubeError if the API server fails: then some of the claims may have been written. LeadershipLost.
        """
        async with self.turns, self.locks.held([claim.key for claim in decision.claims]):
            written: list[Claim] = []
            try:
                for claim in await self.preconditions.fresh_claims(decision):
                    written.append(await self._select(claim, decision.node))
            except EndedAttempt as ending:
                for claim in reversed(written):
                    await self._take_back(claim, decision.node)
                return Outdated(ending.outcome.why)
        return Applied(())

    async def read(self, claims: Iterable[str]) -> None:
        """Read these claims into the store, as they are on the API server. Raises KubeError if it fails."""
        await side_by_side(self.client.claim, claims)

    async def _select(self, planned: Claim, node: str) -> Claim:
        claim: Claim | None = planned
        for _ in range(TRIES):
            if claim is None or not same_wish(claim, planned):
                raise OutdatedDecision(f"claim {planned.key} {'was deleted' if claim is None else 'changed'}")
            try:
                return await self.client.patch_claim(claim, provision_on(node, self.clock.now(), self.annotations))
            except FASTER:
                claim = await self.client.claim(planned.key)
        raise OutdatedDecision(f"claim {planned.key} kept changing")

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
