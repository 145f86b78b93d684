"""The real command `pvc-prebinder health -w` as a process, and the rows it prints."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.scenarios.environment.world import World


@asynccontextmanager
async def watching(world: World, *volumes: str) -> AsyncIterator[asyncio.subprocess.Process]:
    flags = [f"--kubeconfig={world.cluster.kubeconfig}", f"--annotation-prefix={world.prefix}"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "prebinder.cli", "health", "-w", "-o", "json", *volumes, *flags,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def printed_row(process: asyncio.subprocess.Process) -> tuple[str, str, str | None]:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        row: dict[str, Any] = json.loads(await process.stdout.readline())
    return row["volume"], row["health"], row["source"]
