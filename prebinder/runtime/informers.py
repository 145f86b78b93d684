"""The cluster in memory: a reflector for each kind fills a collection, and a check detects what it missed."""

import asyncio
import ctypes
import gc
import logging
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final

from kube.client.api import KubeApi
from kube.client.drift_check import CheckedKind, DriftCheck
from kube.client.reflector import Reflector, all_synced, run_all
from kube.clock import Clock
from kube.decoding.decode import decoders
from kube.metrics import WatchMetrics
from kube.objects.api_resource import WATCHED, Resource
from kube.store.collection import Collection
from kube.store.store import Store

logger = logging.getLogger(__name__)

CURRENT_WITHIN: Final = 40.0
"""Seconds; a watch that failed is opened again after 30 at most."""

DRIFT_SECONDS: Final = 30.0
"""How often the cache is compared with the API server."""


def collections_in(store: Store, watched: Iterable[Resource] = WATCHED) -> dict[Resource, Collection[Any]]:
    """Return the store's collections of these kinds."""
    return {resource: store.collections[resource.kind] for resource in watched}


class Informers:
    """Fills collections while `run` runs."""

    def __init__(
        self,
        api: KubeApi,
        collections: Mapping[Resource, Collection[Any]],
        prefix: str,
        clock: Clock,
        rng: Random,
        metrics: WatchMetrics,
    ) -> None:
        self._collections = collections
        self._reflectors: dict[Resource, Reflector[Any]] = {}
        parts: list[CheckedKind[Any]] = []
        for resource, collection in collections.items():
            decode: Any = decoders(prefix)[resource.kind]
            reflector: Reflector[Any] = Reflector(
                api, resource, decode, collection, clock=clock, observer=metrics, rng=rng
            )
            self._reflectors[resource] = reflector
            parts.append(CheckedKind(resource, decode, collection, reflector))
        self.drift = DriftCheck(api, parts, metrics)

    def do_without(self, resource: Resource) -> None:
        """Treat a kind, before `run`, as one without objects: the server does not serve it."""
        del self._reflectors[resource]
        self._collections[resource].replace((), "")

    async def run(self) -> None:
        """List and watch all kinds until cancelled."""
        await run_all(self._reflectors.values())

    async def synced(self) -> None:
        """Return when every kind has been listed once."""
        await all_synced(self._reflectors.values())

    async def current(self) -> None:
        """Return when every kind has what happened before this call, or some kind's watch stays closed for too long.

        Then it is better to work with what is known: each write is conditional.
        """
        await _in_time(reflector.current() for reflector in self._reflectors.values())

    async def recovered(self) -> bool:
        """After an outage of the API server, return as `current`: until then what is known may be as old as the outage
        is long. Return whether that was so; at once if there was none.
        """
        recovering = [reflector.current() for reflector in self._reflectors.values() if reflector.recovers]
        if recovering:  # Asked before each write: a gather of nothing would cost more.
            await _in_time(recovering)
        return bool(recovering)

    def synced_kinds(self) -> dict[str, bool]:
        """Return for each kind whether it has been listed."""
        return {resource.label: reflector.synced.is_set() for resource, reflector in self._reflectors.items()}

    def waiting_for(self) -> str | None:
        """Return which kinds have not been listed yet, None if all have."""
        waiting = [resource for resource, is_synced in self.synced_kinds().items() if not is_synced]
        return f"waiting for the API server to list {', '.join(waiting)}" if waiting else None


async def _in_time(waits: Iterable[Awaitable[None]]) -> None:
    try:
        async with asyncio.timeout(CURRENT_WITHIN):
            await asyncio.gather(*waits)
    except TimeoutError:
        logger.warning("Working although some kinds are not watched at the moment")


def calm_collector() -> None:
    """Make garbage collections short until everything has been listed: call it before anything runs.

    By default the collector walks through everything read so far again and again, in pauses of half a second. The limit
    is for lists that never end.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(250_000, 2, 1_000)


def settle_heap() -> None:
    """Exclude what is cached now from garbage collection, and collect the rest rarely.

    Without a collection before it: that would block everything for a while on a large cluster, and find next to
    nothing.
    """
    gc.freeze()
    gc.set_threshold(10_000, 2, 1_000)
    _return_freed_memory()


def _return_freed_memory() -> None:
    """Return to the operating system what was needed to read the lists: some 8 MB of 200. glibc keeps it otherwise."""
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
