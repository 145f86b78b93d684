"""Acts on a Reserve by its mode: one worker per claim, and so many pods at a time."""

import asyncio
from dataclasses import dataclass

from binder.model.decision import Finish, Mode, Outcome, Reserve
from binder.writers.apply import Applier
from binder.writers.attempt import LostPlacement, OutdatedDecision
from binder.writers.complete import Completer
from binder.writers.last_look import LastLook
from binder.writers.locks import KeyedLocks


@dataclass(frozen=True, slots=True)
class Actor:
    """Writes. `turns` bound how many pods are written for at the same time."""

    last_look: LastLook
    applier: Applier
    completer: Completer
    locks: KeyedLocks
    turns: asyncio.Semaphore

    async def act(self, decision: Reserve) -> Outcome:
        """Reserve, or bind in mode complete, all volumes of the pod."""
        claims = [placement.claim.key for placement in decision.placements]
        async with self.turns, self.locks.held(claims):
            try:
                decision = await self.last_look.refreshed(decision)
                if decision.mode is Mode.COMPLETE:
                    return await self.completer.complete(decision)
                return await self.applier.apply(decision)
            except (LostPlacement, OutdatedDecision) as ending:
                return ending.outcome

    async def finish(self, decision: Finish) -> Outcome:
        """Finish binds that were begun for the pod."""
        claims = [placement.claim.key for placement in decision.placements]
        async with self.turns, self.locks.held(claims):
            try:
                await self.last_look.ask(decision)
                return await self.completer.finish(decision.placements)
            except (LostPlacement, OutdatedDecision) as ending:
                return ending.outcome
