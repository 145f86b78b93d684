"""`pvc-prebinder controller`, or another command that runs until it is stopped, observed by its pages and log."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp

from devcluster.processes.ports import LOOPBACK, free_ports

DEADLINE = 60.0


class Process:
    """A command with its pages."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.stopped = False

    async def page(self, path: str) -> tuple[int, str]:
        """Return status and text; 0 while it is not listening yet. Fails if the process has ended by itself."""
        assert self.process.returncode is None, f"it ended by itself with exit code {self.process.returncode}"
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://{LOOPBACK}:{self.port}{path}") as answer:
                    return answer.status, await answer.text()
            except aiohttp.ClientConnectionError:
                return 0, ""

    async def ready(self) -> bool:
        return (await self.page("/readyz"))[0] == 200

    async def measured(self, line: str) -> bool:
        return line in (await self.page("/metrics"))[1].splitlines()

    async def stop(self) -> tuple[int, str]:
        """Send SIGTERM; return the exit code and what was printed and logged."""
        self.stopped = True
        self.process.terminate()
        output, _ = await asyncio.wait_for(self.process.communicate(), DEADLINE)
        return self.process.returncode or 0, output.decode()


def controller(kubeconfig: Path, *flags: str) -> AbstractAsyncContextManager[Process]:
    return running("controller", kubeconfig, *flags)


@asynccontextmanager
async def running(
    command: str, kubeconfig: Path, *flags: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[Process]:
    """Run `pvc-prebinder COMMAND` while inside, with more environment variables; killed at the end unless stopped."""
    (port,) = free_ports(1)
    address = f"{LOOPBACK}:{port}"
    arguments = [sys.executable, "-m", "prebinder.cli", command, "--kubeconfig", str(kubeconfig)]
    arguments += ["--metrics-bind-address", address, "--health-bind-address", address]
    process = await asyncio.create_subprocess_exec(
        *arguments, *flags, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}
    )
    started = Process(process, port)
    try:
        yield started
    finally:
        if process.returncode is None:
            process.kill()
        if not started.stopped:
            output, _ = await process.communicate()
            # pytest shows it with the failure that caused this.
            sys.stderr.write(output.decode())
