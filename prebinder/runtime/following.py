"""Follows the kinds that a command shows, with the user's rights, until it ends."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, Final

from kube.background import in_background
from kube.client.api import KubeApi
from kube.client.reflector import Reflector, all_synced, run_all
from kube.clock import SystemClock
from kube.decoding.decode import decoders
from kube.objects.api_resource import VOLUMES, Resource
from kube.store.store import Store
from prebinder.metrics.unobserved import Unobserved

_LISTED_WITHIN: Final = 5.0
"""Seconds to wait for kinds other than volumes, which the user may not be allowed to read."""


@asynccontextmanager
async def following(
    api: KubeApi, prefix: str, resources: Collection[Resource]
) -> AsyncIterator[tuple[Store, asyncio.Event]]:
    """Yield a store that follows the cluster, listed once, and an event for its changes.

    The volumes are among the resources.
    """
    store, changed = Store(prefix), asyncio.Event()
    reflectors: dict[Resource, Reflector[Any]] = {}
    for resource in resources:
        collection, decode = store.collections[resource.kind], decoders(prefix)[resource.kind]
        collection.listeners.append(lambda _old, _new: changed.set())
        reflectors[resource] = Reflector(
            api, resource, decode, collection, clock=SystemClock(), observer=Unobserved(), rng=Random()
        )
    async with in_background(run_all(reflectors.values())):
        await reflectors[VOLUMES].synced.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LISTED_WITHIN):
                await all_synced(reflectors.values())
        yield store, changed


async def first_of(changed: asyncio.Event, stop: asyncio.Event, seconds: float) -> None:
    """Return when one of them is set, or after these seconds."""
    waiting = [asyncio.create_task(event.wait()) for event in (changed, stop)]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
