"""The directory driver as a process beside a measurement, with as many volumes as wanted."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from csi.client.endpoint import Endpoint
from devcluster.driver.generation import Generation
from devcluster.driver.volumes import create_volume
from devcluster.processes.probes import accepts

START_SECONDS: Final = 60.0
_CAPACITY: Final = 1024**3


@dataclass(frozen=True, slots=True)
class RunningDriver:
    """A running driver; `pid` is its process."""

    endpoint: Endpoint
    pid: int


def handles(count: int) -> list[str]:
    """Return the handles of so many volumes."""
    return [f"v{number:05}" for number in range(count)]


def make_volumes(root: Path, names: Sequence[str]) -> None:
    """Create these volumes below `root`, all healthy."""
    for name in names:
        create_volume(root, name, _CAPACITY)


@asynccontextmanager
async def running(name: str, root: Path, generation: Generation) -> AsyncIterator[RunningDriver]:
    """Run a driver of that generation over the volumes below `root`; several drivers may share them."""
    socket = root.parent / f"{name}.sock"
    command = [sys.executable, "-m", "devcluster.driver", "--socket", str(socket), "--root", str(root)]
    process = await asyncio.create_subprocess_exec(*command, "--name", name, "--generation", generation)
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await accepts(str(socket)):  # noqa: ASYNC110 - another process cannot set an event
                await asyncio.sleep(0.05)
        yield RunningDriver(Endpoint(name, str(socket)), process.pid)
    finally:
        if process.returncode is None:
            # It may be suspended, and then reacts to no other signal.
            process.send_signal(signal.SIGKILL)
            await process.wait()
