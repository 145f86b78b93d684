"""Runs a term whenever this process holds the Lease, from when it is ready until it is stopped."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from kube.leaderelection.elector import Elector
from kube.leaderelection.leadership import Leadership
from kube.metrics import LeaderMetrics
from prebinder.config.settings import LeaderElectionSettings
from prebinder.runtime.clients import Clients
from prebinder.runtime.heartbeat import STUCK_SECONDS

FINISH_SECONDS: Final = 20.0
"""For work in progress when the process is stopped; less than a pod's grace period of 30 s."""


class LeaderTerm(Protocol):
    """The work of one term."""

    async def run(self) -> None:
        """Work until `stop`, then finish what has begun. Raises LeadershipLost."""

    def stop(self) -> None:
        """Begin nothing more."""


T = TypeVar("T", bound=LeaderTerm)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate for leadership: this process, by a unique name, with the Lease in this namespace."""

    identity: str
    namespace: str
    rng: Random

    def elector(
        self,
        access: Clients,
        lease: LeaderElectionSettings,
        metrics: LeaderMetrics,
        annotations: Callable[[], Mapping[str, str]] = dict,
    ) -> Elector | None:
        """Return who competes for the Lease, None if the user wants no election.

        `annotations` is what its renewals write on it besides.
        """
        if not lease.enabled:
            return None
        return Elector(
            access.for_lease(),
            self.namespace,
            lease.name,
            self.identity,
            clock=access.clock,
            rng=self.rng,
            metrics=metrics,
            annotations=annotations,
        )


class LeaderLoop(Generic[T]):
    """Creates a new `T` for each term. `term` is the present one."""

    def __init__(
        self,
        elector: Elector | None,
        unelected: Leadership,
        begin: Callable[[Leadership], T],
        current: Callable[[], Awaitable[None]],
    ) -> None:
        """Without an elector work under `unelected`, once. A term begins when `current` returns: what the leader before
        wrote last is known then.
        """
        self._elector = elector
        self._unelected = unelected
        self._begin = begin
        self._current = current
        self._leadership: Leadership | None = None
        self._stopping = False
        self.term: T | None = None

    async def until(self, stop: asyncio.Event, ready: Callable[[], Awaitable[None]]) -> None:
        """Wait for `ready`, then work until `stop` is set; finish what has begun and release the Lease."""
        leading = asyncio.create_task(self._lead(ready))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({leading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            self._stopping = True
            if self.term is not None and not leading.done():
                self.term.stop()
                await asyncio.wait({leading}, timeout=FINISH_SECONDS)
        finally:
            leading.cancel()
            stopping.cancel()
            await asyncio.gather(leading, stopping, return_exceptions=True)
        if not leading.cancelled():
            leading.result()

    def stops(self) -> str | None:
        """Return that the process is stopping, for readyz."""
        return "stopping" if self._stopping else None

    def overdue(self) -> str | None:
        """Return that it still works long after its term, for livez."""
        overdue = 0.0 if self._leadership is None else -self._leadership.left()
        return f"still working {overdue:.0f} s after the lease was lost" if overdue > STUCK_SECONDS else None

    async def _lead(self, ready: Callable[[], Awaitable[None]]) -> None:
        await ready()
        if self._elector is None:
            await self._work(self._unelected)
        else:
            await self._elector.run(self._work)

    async def _work(self, leadership: Leadership) -> None:
        await self._current()
        if self._stopping:
            return
        self._leadership, self.term = leadership, self._begin(leadership)
        try:
            await self.term.run()
        finally:
            self._leadership, self.term = None, None
