"""The controller, run as it ships in a process of its own, with a clock beside it that measures pauses of the event
loop.

`python -m bench.hostile.controller URL`: prints "leading" on a line, works until its standard input ends, and
prints the longest pause of its event loop since it became leader, and the longest in its own processor time.
"""

import asyncio
import sys

from bench.in_memory.reader import Pauses, connected
from prebinder.config.settings import (
    BindingSettings,
    LoggingSettings,
    LogLevel,
    ServingSettings,
    Settings,
)
from prebinder.controller.process import Controller
from prebinder.runtime.informers import calm_collector
from prebinder.runtime.logs import configure
from prebinder.runtime.process import favour_event_loop

SETTLING: float = 2.0
"""Seconds as leader before anything is measured: reading and indexing the existing objects belongs to part b."""


async def run(url: str) -> Pauses:
    """Lead, and return the pauses."""
    settings = Settings(
        binding=BindingSettings(),
        serving=ServingSettings("0", "0"),
        logging=LoggingSettings(level=LogLevel.ERROR),
    )
    configure(settings.logging)
    pauses = Pauses()
    async with connected(url) as transport:
        controller, stop = Controller(settings, transport), asyncio.Event()
        running = asyncio.create_task(controller.run(stop))
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.sleep(SETTLING)
        watching = asyncio.create_task(pauses.watch())
        print("watching", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        watching.cancel()
        stop.set()
        await running
    return pauses


if __name__ == "__main__":
    calm_collector()
    favour_event_loop()
    observed = asyncio.run(run(sys.argv[1]))
    print(observed.longest, observed.own)
