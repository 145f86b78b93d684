"""The controller, run as it ships in a process of its own, with a clock beside it that measures pauses of the event
loop.

`python -m bench.hostile.controller URL [--port PORT] [--agent] [NAME=unix:///SOCKET ...]`: once it has led for a while
after a line on its standard input, prints "watching" on a line; after the next line prints the longest pause of its
event loop since then, the longest in its own processor time, and the most memory in MB that it ever held.
"""

import argparse
import asyncio
import sys
from datetime import timedelta
from typing import Final

from bench.in_memory.reader import Pauses, connected, memory
from csi.client.endpoint import parse_endpoint
from devcluster.processes.ports import LOOPBACK
from kube.objects.api_resource import VOLUMES, WATCHED
from prebinder.config.settings import (
    BindingSettings,
    HealthSettings,
    LoggingSettings,
    LogLevel,
    ServingSettings,
    Settings,
)
from prebinder.controller.process import Controller
from prebinder.runtime.informers import calm_collector
from prebinder.runtime.logs import configure
from prebinder.runtime.process import favour_event_loop

SETTLING: Final = 2.0
"""Seconds as leader before anything is measured: reading and indexing the existing objects belongs to part b."""

SWEEP_SECONDS: Final = 5.0
"""Between the sweeps of a driver: many in a short measurement."""


async def run(arguments: argparse.Namespace) -> Pauses:
    """Lead, and return the pauses."""
    address = f"{LOOPBACK}:{arguments.port}" if arguments.port else "0"
    endpoints = tuple(parse_endpoint(each) for each in arguments.endpoints)
    settings = Settings(
        binding=BindingSettings(),
        health=HealthSettings(endpoints, sweep_interval=timedelta(seconds=SWEEP_SECONDS)),
        serving=ServingSettings(address, address),
        logging=LoggingSettings(level=LogLevel.ERROR),
    )
    configure(settings.logging)
    pauses, watched = Pauses(), (VOLUMES,) if arguments.agent else WATCHED
    async with connected(arguments.url) as transport:
        controller, stop = Controller(settings, transport, watched=watched), asyncio.Event()
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


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("endpoints", nargs="*")
    parser.add_argument("--port", type=int, help="serve metrics on it")
    parser.add_argument("--agent", action="store_true", help="watch PersistentVolumes only, as the csi-agent does")
    return parser.parse_args()


if __name__ == "__main__":
    calm_collector()
    favour_event_loop()
    observed = asyncio.run(run(_arguments()))
    print(observed.longest, observed.own, memory("VmHWM"))
