"""Our controller as it ships, reading a cluster and doing nothing, measured from inside: a process of its own.

`python -m bench.in_memory.reader URL SECONDS` prints one line of JSON so many seconds after all kinds are in memory,
when the heap is settled and the first pods have been planned.
"""

import asyncio
import gc
import importlib
import logging
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, process_time
from typing import Any, Final

import msgspec

from kube.client.connect import KubernetesTransport
from kube.client.credentials import ApiServer, CallerToken, Credentials
from kube.clock import SystemClock
from prebinder.config.config_file import CONTROLLER, load
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

SHIPPED: Final = Path(__file__).parents[2] / "manifests" / "base" / "config.yaml"
"""The configuration file of the Deployment."""

TICK: Final = 0.001


class Report(msgspec.Struct):
    """The measurements from inside the process. Memory in MB, times in seconds."""

    imported_mb: float
    seconds: float
    """From the first request to the last kind held and indexed."""
    held_mb: float
    peak_mb: float
    longest_pause: float
    """Longest time during which the event loop did nothing else, waiting for the processor included."""
    longest_collection: float
    """Longest run of the garbage collector."""
    full_collection: float
    """One full collection afterwards, as it would interrupt the work."""


class Pauses:
    """The longest wait of a task that wants to run every millisecond, and of the garbage collector."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.own = 0.0
        """The same in processor time of this process, which other work on the machine does not lengthen."""
        self.collection = 0.0
        self._began = 0.0

    async def watch(self) -> None:
        while True:
            before, used = monotonic(), process_time()
            await asyncio.sleep(TICK)
            pause = monotonic() - before - TICK
            self.longest = max(self.longest, pause)
            self.own = max(self.own, min(pause, process_time() - used))

    def collecting(self, phase: str, _info: dict[str, Any]) -> None:
        """Called by the collector."""
        if phase == "start":
            self._began = monotonic()
        else:
            self.collection = max(self.collection, monotonic() - self._began)


def memory(field: str) -> float:
    """Return a field of /proc/self/status, VmRSS or VmHWM, in MB of 10^6 bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    line = next(line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024 / 1e6


def connected(url: str) -> KubernetesTransport:
    """Return a transport with a token and an address, as a pod has them: what reads a kubeconfig is not loaded."""
    return KubernetesTransport(Credentials(ApiServer(url), CallerToken("bench"), "the benchmark", SystemClock()))


def shipped_settings() -> Settings:
    """Return what the command does in a pod before it starts the controller, except that it shall write nothing."""
    importlib.import_module("prebinder.commands.run.controller")
    return replace(
        load(CONTROLLER, str(SHIPPED)),
        binding=BindingSettings(dry_run=True),
        serving=ServingSettings("0", "0"),
        logging=LoggingSettings(level=LogLevel.WARNING),
    )


async def read(url: str, settings: Settings, watched: float) -> Report:
    """Run the controller until it has led for so many seconds, and report."""
    pauses, imported = Pauses(), memory("VmRSS")
    gc.callbacks.append(pauses.collecting)
    configure(settings.logging)
    synced = asyncio.Event()
    logger = logging.getLogger("prebinder.controller.process")
    logger.setLevel(logging.INFO)
    logger.addFilter(partial(_notice, synced))
    async with connected(url) as transport:
        controller, stop = Controller(settings, transport), asyncio.Event()
        watching = asyncio.create_task(pauses.watch())
        started = monotonic()
        running = asyncio.create_task(controller.run(stop))
        await asyncio.wait({asyncio.create_task(synced.wait()), running}, return_when=asyncio.FIRST_COMPLETED)
        seconds = monotonic() - started
        await asyncio.wait({running}, timeout=watched)
        held, peak = memory("VmRSS"), memory("VmHWM")
        watching.cancel()
        began = monotonic()
        gc.collect()
        full = monotonic() - began
        stop.set()
        await running
    return Report(imported, seconds, held, peak, pauses.longest, pauses.collection, full)


def _notice(synced: asyncio.Event, record: logging.LogRecord) -> bool:
    """The controller logs when it has everything in memory."""
    if record.msg == "Caches synced":
        synced.set()
    return False


if __name__ == "__main__":
    chosen = shipped_settings()
    calm_collector()
    print(msgspec.json.encode(asyncio.run(read(sys.argv[1], chosen, float(sys.argv[2])))).decode())
