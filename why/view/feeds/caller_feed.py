"""A view for each caller, read with the caller's own token and never shared.

The process itself has no rights. Each page has a cache of its own, filled by its token's lists and watches, and dropped
when the page is closed; each answer of `why` is read again. A watch outlives the rights it began with, so a page's ends
after some minutes: the browser comes back at once, and the API server judges its token again.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final

from kube.client.api import KubeApi
from kube.client.reflector import WatchObserver
from kube.clock import Clock
from why.explain.targets import Target
from why.report.report import WhyReport
from why.view.feeds.cluster_feed import ClusterFeed, Scope, explain_live
from why.view.feeds.publisher import Caller, Message

MAX_PAGES: Final = 8
"""Open at once. Each may hold a whole cluster in memory."""

MAX_ANSWERS: Final = 16
"""Of `why`, worked out at a time; others wait. Each reads the claims, volumes and nodes."""

MAX_PAGE_SECONDS: Final = 300.0
"""For which one page is followed by one judgement of its token."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750, section 2.1."""


class NoTokenError(Exception):
    """A request without a bearer token. The text states what was expected."""


class TooManyPagesError(Exception):
    """As many pages are open as may be."""


Connect = Callable[[str], AbstractAsyncContextManager[KubeApi]]
"""Gives an API that sends this token and no other credentials."""


class CallerFeed:
    """Answers each request by its own token. Raises NoTokenError without one, TooManyPagesError for one page more."""

    def __init__(
        self,
        connect: Connect,
        scope: Scope,
        clock: Clock,
        observer: WatchObserver,
        longest_seconds: float = MAX_PAGE_SECONDS,
    ) -> None:
        self._connect = connect
        self._scope = scope
        self._clock = clock
        self._observer = observer
        self._longest = longest_seconds
        self._pages = 0
        self._answers = asyncio.Semaphore(MAX_ANSWERS)

    @asynccontextmanager
    async def following(self, caller: Caller) -> AsyncIterator[AsyncIterator[Message]]:
        """Follow the cluster with the caller's token. Raises Unauthorized when the API server does not accept it."""
        _check(caller.token)
        if self._pages >= MAX_PAGES:
            raise TooManyPagesError(f"{MAX_PAGES} pages are open, and no more are served; close another one")
        self._pages += 1
        try:
            async with self._connect(caller.token) as api:
                scope = replace(self._scope, namespace=caller.namespace or self._scope.namespace)
                feed = ClusterFeed(api, scope, self._clock, self._observer)
                async with feed.open(), feed.following(caller) as messages:
                    yield self._for_a_while(messages)
        finally:
            self._pages -= 1

    async def explain(self, target: Target, caller: Caller) -> tuple[WhyReport, datetime]:
        _check(caller.token)
        async with self._answers, self._connect(caller.token) as api:
            return await explain_live(api, target, self._scope, self._clock)

    async def _for_a_while(self, messages: AsyncIterator[Message]) -> AsyncIterator[Message]:
        ends = self._clock.monotonic() + self._longest
        while (left := ends - self._clock.monotonic()) > 0:
            try:
                yield await asyncio.wait_for(anext(messages), left)
            except (TimeoutError, StopAsyncIteration):
                return


def _check(token: str) -> None:
    if not _TOKEN.fullmatch(token):
        raise NoTokenError("expected the header Authorization: Bearer TOKEN, with a token of the cluster")
