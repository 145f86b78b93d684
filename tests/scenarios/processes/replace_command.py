"""`pvc-prebinder replace` as its user starts it."""

import asyncio
import os
import sys

from tests.scenarios.environment.world import World


async def started(world: World, pod: str, *flags: str) -> asyncio.subprocess.Process:
    where = (f"--kubeconfig={world.cluster.kubeconfig}", f"--annotation-prefix={world.prefix}", "-n", world.namespace)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "prebinder.cli", "replace", f"pod/{pod}", *where, *flags),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


async def run(world: World, pod: str, *flags: str) -> tuple[int | None, str]:
    """Run the command to its end; return the exit code and what it printed."""
    process = await started(world, pod, *flags)
    out, _ = await process.communicate()
    return process.returncode, out.decode()
