"""Acts on a Reserve by its mode: one worker per claim, and so many pods at a time. Or only says what it would do."""

import asyncio
import logging

from binder.model.decision import Applied, Finish, Mode, Outcome, Reserve
from binder.reservation.release import Release
from binder.writers.apply import Applier
from binder.writers.attempt import LostPlacement, OutdatedDecision
from binder.writers.complete import Completer
from binder.writers.last_look import LastLook
from binder.writers.locks import KeyedLocks

logger = logging.getLogger(__name__)


class Actor:
    """Writes. `turns` bound how many pods are written for at the same time."""

    dry_run = False

    def __init__(
        self, last_look: LastLook, applier: Applier, completer: Completer, locks: KeyedLocks, turns: asyncio.Semaphore
    ) -> None:
        self._last_look = last_look
        self._applier = applier
        self._completer = completer
        self._locks = locks
        self._turns = turns

    async def act(self, decision: Reserve) -> Outcome:
        """Reserve, or bind in mode complete, all volumes of the pod."""
        claims = [placement.claim.key for placement in decision.placements]
        async with self._turns, self._locks.held(claims):
            try:
                decision = await self._last_look.refreshed(decision)
                if decision.mode is Mode.COMPLETE:
                    return await self._completer.complete(decision)
                return await self._applier.apply(decision)
            except (LostPlacement, OutdatedDecision) as ending:
                return ending.outcome

    async def finish(self, decision: Finish) -> Outcome:
        """Finish binds that were begun for the pod."""
        claims = [placement.claim.key for placement in decision.placements]
        async with self._turns, self._locks.held(claims):
            try:
                await self._last_look.ask(decision)
                return await self._completer.finish(decision.placements)
            except (LostPlacement, OutdatedDecision) as ending:
                return ending.outcome


class Rehearsal:
    """Writes nothing and says what would be written."""

    dry_run = True

    async def act(self, decision: Reserve) -> Outcome:
        for placement in decision.placements:
            logger.info(
                "Would reserve volume",
                extra={
                    "pvc": placement.claim.key,
                    "pv": placement.volume.name,
                    "zone": decision.zone,
                    "mode": decision.mode.value,
                },
            )
        return Applied(())

    async def finish(self, decision: Finish) -> Outcome:
        for placement in decision.placements:
            logger.info("Would finish bind", extra={"pvc": placement.claim.key, "pv": placement.volume.name})
        return Applied(())

    async def carry_out(self, release: Release) -> bool:
        logger.info(
            "Would release reservation",
            extra={
                "pv": release.volume.name if release.volume else "",
                "pvc": release.claim.key if release.claim else "",
                "cause": release.cause.value,
            },
        )
        return True
