"""A view of a cluster that follows it: volumes and nodes at once, causes as soon as they are worked out."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from kube.background import in_background
from kube.client.api import KubeApi
from kube.client.reflector import WatchObserver
from kube.clock import Clock, every
from kube.errors import KubeError
from why.explain.answering import answer_live, report_on
from why.explain.targets import Target
from why.facts.facts import Facts
from why.reading.live import LiveReader
from why.report.report import WhyReport
from why.view.feeds.publisher import Caller, Message, Publisher
from why.view.feeds.watched_facts import WatchedFacts
from why.view.model.view_builder import ViewBuilder
from why.view.model.waiting import WaitingCause, causes_of

_GATHER_SECONDS: Final = 0.1
"""After a change, for those that come with it."""

_CAUSES_SECONDS: Final = 2.0
"""At least, between two rounds of working out why everything waits; and four times as long as a round took."""

HEARTBEAT_SECONDS: Final = 10.0
"""How often the Leases are listed, which shows at once whether the API server answers."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """What of the cluster is shown: `namespace` empty for all, `own_namespace` where no other may be read."""

    source: str
    namespace: str = ""
    own_namespace: str = "default"
    prefix: str = DEFAULT_PREFIX


class ClusterFeed:
    """Follows a cluster while inside `open`; the caller's token does not matter: it is one user's own page."""

    def __init__(
        self,
        api: KubeApi,
        scope: Scope,
        clock: Clock,
        observer: WatchObserver,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._heartbeat = heartbeat_seconds
        self._api = api
        self._scope = scope
        self._clock = clock
        self._watched = WatchedFacts(api, scope.namespace, scope.own_namespace, scope.prefix, clock, observer)
        self._builder = ViewBuilder(scope.source, Annotations(scope.prefix), live=True)
        self._publisher = Publisher()
        self._causes: Mapping[str, WaitingCause] = {}
        self._reconsider = asyncio.Event()
        self._stale: datetime | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Follow the cluster while inside. Raises KubeError when it cannot be read at all."""
        await self._watched.discover()
        await self._watched.read_leases()
        async with (
            in_background(self._watched.run()),
            in_background(self._follow()),
            in_background(self._work_out_causes()),
            in_background(every(self._heartbeat, self._clock, self._listen)),
        ):
            yield

    def following(self, caller: Caller) -> AbstractAsyncContextManager[AsyncIterator[Message]]:  # noqa: ARG002
        return self._publisher.following()

    async def explain(self, target: Target, caller: Caller) -> tuple[WhyReport, datetime]:  # noqa: ARG002
        return await explain_live(self._api, target, self._scope, self._clock)

    async def _follow(self) -> None:
        await self._watched.synced()
        changed = self._watched.changed
        while True:
            changed.clear()
            await self._show()
            self._reconsider.set()
            await changed.wait()
            await self._clock.sleep(_GATHER_SECONDS)

    async def _show(self) -> None:
        facts = self._watched.facts(self._clock.now())
        unreadable = {str(resource): because for resource, because in self._watched.skipped.items()}
        view = partial(self._builder.view, facts, self._causes, unreadable, self._stale)
        try:
            self._publisher.publish(await asyncio.to_thread(view))
        except Exception:
            logger.exception("View failed")

    async def _work_out_causes(self) -> None:
        while True:
            await self._reconsider.wait()
            self._reconsider.clear()
            began = self._clock.monotonic()
            facts = self._watched.facts(self._clock.now())
            try:
                causes = await asyncio.to_thread(partial(_causes, facts))
            except Exception:
                logger.exception("Determining causes failed")
            else:
                if causes != self._causes:
                    self._causes = causes
                    self._watched.changed.set()
            await self._clock.sleep(max(_CAUSES_SECONDS, 4 * (self._clock.monotonic() - began)))

    async def _listen(self) -> None:
        """Note whether the API server answers; and look again at what time alone changes."""
        try:
            await self._watched.read_leases()
            self._stale = None
        except KubeError:
            self._stale = self._stale or self._clock.now()
        self._watched.changed.set()


def _causes(facts: Facts) -> dict[str, WaitingCause]:
    return causes_of(facts, report_on(facts, (), ""))


async def explain_live(api: KubeApi, target: Target, scope: Scope, clock: Clock) -> tuple[WhyReport, datetime]:
    """Return the answer of `pvc-prebinder why` about this object now, read for this request alone."""
    namespace = target.namespace or scope.namespace or scope.own_namespace
    reader, now = LiveReader(api, namespace, scope.prefix), clock.now()
    return await answer_live(reader, (target,), namespace, now), now
